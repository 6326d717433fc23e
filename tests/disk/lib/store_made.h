/*
 * store_made.h - the store that pairs of copies begin with in tests: made on a disk, with one empty
 * container.
 */
#ifndef TESTS_DISK_STORE_MADE_H
#define TESTS_DISK_STORE_MADE_H

#include "store.h"

/* store_made: the store, open, for the caller to close; *object: the container. NULL: something
 * went wrong. */
struct store *store_made(const struct disk_io *io, uint64_t log_bytes, uint64_t *object);

#endif
