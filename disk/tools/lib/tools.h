/* tools.h - what host tools and tests do with a store as a whole. */
#ifndef KATYDID_DISK_TOOLS_LIB_TOOLS_H
#define KATYDID_DISK_TOOLS_LIB_TOOLS_H

#include "span.h"
#include "store.h"

/*
 * Makes the store `new_bytes` large (0: the whole disk). The store must not be open. 0 also if it
 * is that large already. -EINVAL: larger than the disk, or smaller than the store. -ENOSPC: the
 * metadata areas of the larger store do not fit into the new space (grow by more). Else as
 * store_open, which does the same with STORE_GROW (what only keeps the store from growing is in
 * report->grow_error). A power cut inside leaves the store as it was, or the grown one.
 */
store_must_check
int store_grow(const struct disk_io *io, const struct disk_memory *memory, uint64_t new_bytes,
               struct store_report *report);

/*
 * Makes a store of an older format one of this format, in place; 0 also if it is one already. The
 * store must not be open. Who asks for this has asked the owner: an older Katydid will not read it
 * any more. As store_open; also -EOPNOTSUPP if there is no way from its version (report->version),
 * or if its log must be empty and is not, and -EUCLEAN for one that is damaged: report->message
 * says what to do. A power cut inside leaves the old store, or one of this format.
 */
store_must_check
int store_upgrade(const struct disk_io *io, const struct disk_memory *memory,
                  struct store_report *report);

/*
 * store_format over 1 to 4 disks, which are numbered as they stand here; one disk gets no label.
 * unit_bytes: so much lies on one disk before the next has its turn: a power of two, one extent at
 * least; 0: one extent. Each disk gives as much as the smallest has room for. *span: as after
 * span_open. -EINVAL, -ENOSPC, -ENOMEM, or the device's error. A power cut inside leaves disks of
 * which span_open says -ENODATA, if they were blank, or the store.
 */
store_must_check
int span_format(const struct disk_io *disks, uint32_t count, const struct disk_memory *memory,
                const struct store_options *options, uint64_t unit_bytes, struct span *span);

/* After span_open: writes each copy of a label that is lost, and says how many. */
store_must_check int span_mend(struct span *span, uint32_t *mended);

/* Walks the invariants (ST21 to ST24 and the directory's); 0, or -EUCLEAN and *why is a static
 * text. Reads no disk. */
store_must_check int store_check(struct store *store, const char **why);

#endif
