/*
 * block.h - block devices: requests of many segments, several in flight, completion by interrupt.
 *
 * Completion order is the device's. A write is durable only after a flush that was issued after
 * the write's completion. No two overlapping writes are in flight: asserted.
 */
#ifndef KERNEL_BLOCK_H
#define KERNEL_BLOCK_H

#include "frame.h"

enum block_operation { BLOCK_READ, BLOCK_WRITE, BLOCK_FLUSH };
struct block_segment { paddr_t address; uint32_t bytes; };
#define BLOCK_SEGMENTS_MAX 254

struct block_device {
    char name[24];            /* the virtio serial: "store", "import", "export" */
    uint64_t bytes;
    uint32_t sector_bytes;
    bool read_only;
    bool opened;              /* one holder at a time */
    unsigned in_flight;
    void *driver;
    uint64_t reads, writes, flushes, read_bytes, write_bytes, errors;
};

struct block_request {
    struct list link;
    struct block_device *device;
    enum block_operation operation;
    uint64_t offset_bytes;                 /* multiple of the sector size */
    unsigned segment_count;
    struct block_segment *segments;        /* at most BLOCK_SEGMENTS_MAX; physical memory, pinned */
    int status;                            /* 0 or -EIO, after completion */
    bool done;
    struct thread *waiter;                 /* woken at completion */
    void *driver;
};

struct block_device *block_find(const char *name); /* NULL: no such disk */
/* Queues a request; waits only for a free slot. Then block_wait for each. */
void block_submit(struct block_request *r);
must_check int block_wait(struct block_request *r);   /* its status; not interruptible */
must_check int block_run(struct block_request *r);    /* submit and wait */
/* Convenience over the direct map: kernel memory, any length that is a multiple of a sector. */
must_check int block_read(struct block_device *d, uint64_t offset_bytes, void *to, size_t bytes);
void block_register(struct block_device *d);           /* by the driver */
extern void (*block_driver_submit)(struct block_request *r); /* virtio_blk.c */

#endif
