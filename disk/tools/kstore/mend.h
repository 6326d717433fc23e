/*
 * mend.h - what kstore does to a store by the store's own code, and a test does, too, to cut it
 * off.
 */
#ifndef KATYDID_MEND_H
#define KATYDID_MEND_H

#include "store.h"

/* Called for each piece that is read, with 0; and for what is rotten, before anything is written:
 * with -EUCLEAN if it has another copy, -ENODATA for a page that is lost. */
typedef void mend_heard(void *context, struct store *store, const struct store_scrub *piece,
                        int verdict);

/* Scrubs a store that nobody has open. Errors as of store_open; -EUCLEAN also for a store that can
 * only be opened read-only, which is left as it is; -EIO: a place does not keep what is written to
 * it. */
int mend_store(const struct disk_io *io, const struct disk_memory *memory, mend_heard *heard,
               void *context, struct store_report *report);

/* A whole checkpoint of a store whose pages are all at home. 0, or the store's error. */
int mend_checkpoint(struct store *store);

#endif
