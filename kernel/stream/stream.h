/* stream.h - byte streams that lead out of the machine (streams.md). */
#ifndef KERNEL_STREAM_H
#define KERNEL_STREAM_H

#include "process/handle.h"

struct stream;
void virtio_serial_init(void);            /* finds the devices and their streams; at boot */
/* A stream has one opener, and is closed when the last of its handles is gone. */
void stream_get(void *stream);
void stream_put(void *stream);

#endif
