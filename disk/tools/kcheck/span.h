/*
 * span.h - the disks of a store over several, read as one (format.md, "Several disks").
 */
#ifndef KATYDID_KCHECK_SPAN_H
#define KATYDID_KCHECK_SPAN_H

#include "kcheck.h"

#define KSPAN_MAX 4u

struct kspan {
    struct kcheck_io disk[KSPAN_MAX];   /* by number */
    uint32_t count;
    uint64_t unit_bytes, units, head_bytes, total_bytes;
    uint32_t lost;                      /* copies of labels that do not verify */
};

/* In any order. Sets *io to the whole, whose context is *span; of one disk without a label to that
 * disk. What span_open says (disk/span.h): 0, -EUCLEAN, -ENODATA, -EPROTONOSUPPORT, -EIO. */
int kspan_open(const struct kcheck_io *disks, uint32_t count, struct kspan *span,
               struct kcheck_io *io);

#endif
