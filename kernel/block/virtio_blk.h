/* virtio_blk.h - virtio disks; the interface to the kernel is block.h. */
#ifndef ARCH_VIRTIO_BLK_H
#define ARCH_VIRTIO_BLK_H

/* Finds the disks and registers each under its serial. Threads can sleep already. */
void virtio_blk_init(void);

#endif
