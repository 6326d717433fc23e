/*
 * span.h - 2 to 4 disks that hold one store are presented to the library as one disk (span.md).
 *
 * Superblocks, log and metadata areas lie on the first, so that a commit is one write and one flush
 * there; extents go round all of them, in units. Each has a label in its first and last block. A
 * disk without one is a store by itself. Labels are written by kstore only (tools/lib/tools.h).
 */
#ifndef KATYDID_DISK_SPAN_H
#define KATYDID_DISK_SPAN_H

#include "store.h"

#define SPAN_DISKS_MAX 4u

struct span {
    struct disk_io disk[SPAN_DISKS_MAX];        /* by number */
    uint8_t  uuid[16];                          /* of the store, as the following is */
    uint32_t count;             /* 1: a disk without a label, as it is */
    uint64_t unit_bytes, units, head_bytes;     /* as in the label (format.h) */
    uint64_t total_bytes, slot_b_offset;        /* of the whole */
    /* numbers of writes that have completed, and of those that a flush has made durable */
    uint64_t written[SPAN_DISKS_MAX], flushed[SPAN_DISKS_MAX];
};

/* struct span_report tells which disk an error of span_open is about. */
struct span_report {
    const char *message;        /* static text, that goes on after "disk N" or the disk's name */
    uint32_t given;             /* its place in the list; SPAN_MISSING: none of them */
    uint32_t number, of;        /* number (from 1) of so many; 0: not known */
};
#define SPAN_MISSING UINT32_MAX

/* span_open finds out whose disks these are, in any order, and sets *io to one disk made of them.
 * Its context is *span, which must stay where it is. Writes nothing. -EUCLEAN: one is missing,
 * foreign, given twice, longer or shorter than it was; -ENODATA: the creation of the store was cut
 * off; -EPROTONOSUPPORT: a newer label; -EINVAL: too many disks; -EIO. */
store_must_check int span_open(const struct disk_io *disks, uint32_t count, struct span *span,
                               struct disk_io *io, struct span_report *report);
/* span_place tells the disk and place of a byte below total_bytes; how many bytes follow there. */
uint64_t span_place(const struct span *span, uint64_t offset, uint32_t *disk, uint64_t *at);
/* span_wrote notes a write to this disk that was not by io->write: the next flush must reach it. */
void span_wrote(struct span *span, uint32_t disk);

/* span_io, for who writes labels, makes one disk; all fields before total_bytes are set. */
struct disk_io span_io(struct span *span);

#endif
