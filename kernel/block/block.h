/*
 * block.h - block devices: requests of many segments, several in flight, completion by interrupt.
 *
 * Completion order is the device's. A write is durable only after a flush that was issued after
 * the write's completion. Of two overlapping writes in flight the second is refused with -EBUSY,
 * because the device may do them in either order.
 */
#ifndef KERNEL_BLOCK_H
#define KERNEL_BLOCK_H

#include "memory/frame.h"

enum block_operation { BLOCK_READ, BLOCK_WRITE, BLOCK_FLUSH, BLOCK_IDENTIFY /* driver's own */ };
struct block_segment { paddr_t address; uint32_t bytes; };
#define BLOCK_SEGMENTS_MAX 254
#define BLOCK_SEGMENTS_MIN 8  /* what a disk must take in one request */

struct block_device {
    char name[24];            /* the virtio serial: "store", "import", "export" */
    uint64_t bytes;
    uint32_t sector_bytes;
    bool read_only;
    unsigned segments_max;    /* of one request; BLOCK_SEGMENTS_MIN to BLOCK_SEGMENTS_MAX */
    struct lock lock;         /* RANK_BLOCK: all below, and the driver's queue */
    unsigned number;          /* the order of registration */
    unsigned in_flight;
    struct list active;       /* requests submitted and not done */
    unsigned users;           /* atomic: its holder's handle and system calls; 0: nobody has it */
    uint64_t told_ns;         /* how long a request had waited when the log told of it, or 0 */
    struct block_did { uint64_t times, bytes; } did[BLOCK_IDENTIFY + 1];
    uint64_t errors;
};

/* Whole sectors of the disk. */
static inline bool block_holds(const struct block_device *d, uint64_t offset_bytes, uint64_t bytes)
{
    return (bytes | offset_bytes) % d->sector_bytes == 0 && offset_bytes <= d->bytes &&
           bytes <= d->bytes - offset_bytes;
}

struct block_request {
    struct list link, driver_link;
    struct block_device *device;
    enum block_operation operation;
    uint64_t offset_bytes;                 /* multiple of the sector size */
    uint64_t bytes;                        /* of all segments; once it is submitted */
    unsigned segment_count;
    struct block_segment *segments;        /* at most BLOCK_SEGMENTS_MAX; physical memory, pinned */
    unsigned attempts;                     /* of a read, that failed */
    uint64_t submitted_ns;                 /* the last time */
    int status;                            /* 0, -EIO, -EBUSY, -EINVAL, after completion */
    bool done;                             /* atomic: the last that the driver touches */
    struct thread *waiter;                 /* woken at completion: who submitted it */
};

struct block_device *block_find(const char *name); /* NULL: no such disk */
struct block_device *block_at(unsigned number);    /* NULL: there are not so many */
/* block_prepare fills a request in. Segments, count and the rest of its life are the caller's. */
void block_prepare(struct block_request *r, struct block_device *d, enum block_operation operation,
                   uint64_t offset_bytes, struct block_segment *segments, unsigned segment_count);
/* block_submit queues a request, and never waits. The request and its memory stay until
 * block_wait() has returned. */
void block_submit(struct block_request *r);
/* block_wait waits for the request's end, in the thread that submitted it; a kill does not end the
 * wait. Returns the status. A read that failed is repeated, three times at most; a write or a flush
 * never. */
must_check int block_wait(struct block_request *r);
must_check int block_run(struct block_request *r);    /* submit and wait */
/* block_read is for kernel memory in the direct map, any length that is a multiple of a sector. */
must_check int block_read(struct block_device *d, uint64_t offset_bytes, void *to, size_t bytes);
/* A disk has one holder at a time: block_claim returns 0 or -EBUSY. For handles: it is free again
 * when the last reference is gone, which may be that of a call. */
must_check int block_claim(struct block_device *d);
void block_get(void *device);
void block_put(void *device);
void block_count(struct kd_system_info *s);            /* adds what all devices did */

/* ---- for the driver ---- */
void block_register(struct block_device *d);           /* name, sizes, driver filled in; at boot */
/* block_complete ends a request, which is gone afterwards; the device's lock is held. */
void block_complete(struct block_request *r, int status);
/* The driver (virtio_blk.c). _submit and _poll are called with the device's lock held; _poll looks
 * whether an interrupt got lost. _notify, without it, tells the device what was submitted: slow in
 * an emulator. */
void virtio_blk_init(void);
void block_driver_submit(struct block_request *r);
void block_driver_poll(struct block_device *d);
void block_driver_notify(struct block_device *d);

#endif
