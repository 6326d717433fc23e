/*
 * index.h - indexes that the store manager keeps: B+-trees from a key to a number, which is mostly
 * the address of an object.
 *
 * An index is a container of its own, in which only the manager writes: no program can spoil it. A
 * look-up reads the manager's pages, which every process has mapped: it sends no message and makes
 * no call. A change is kept by the transaction until it commits, travels with the commit, and is
 * made by the manager: so it is durable and seen together with all else that the transaction did,
 * and an abort has nothing to undo.
 *
 * What locks what. Keys and the gaps between them, never pages: two transactions insert into one
 * leaf and wait for each other only if their keys go between the same two neighbours (all that go
 * behind the last key do). A look-up locks its key, there or not, shared; a range each key that it
 * passes and the gap before it, and the gap in which it ends; a change its key exclusively, and the
 * gap where a key appears or is removed. So no key comes into a range that was read (phantoms), and
 * all is serialisable. Waits are found in deadlocks as those for pages are. Keys share some 500
 * locks by a hash; from 128 exclusive or 1,024 shared ones on a transaction locks the whole index.
 * A snapshot sees the index of its time and locks nothing.
 *
 * Bounds: 512 MiB and 253 bytes of a string; 1,024 changes in a transaction, each of another key,
 * of at most 256 pages (fewer with a small log), else its commit is -E2BIG; 16 indexes.
 *
 * A key has one value: index.md says what to do for several objects of one name, and how indexes
 * are made anew in a store that objects were imported into.
 *
 * Keys and values are copied. Errors are -errno, or NULL with errno: -EPERM outside of a
 * transaction; -EINVAL, the index is not open; -EUCLEAN, it is damaged; -EOVERFLOW, the string is
 * too long; -EROFS, it was opened without PS_WRITE, or this is a snapshot; -EMFILE, too many
 * indexes in one transaction.
 */
#ifndef PS_INDEX_H
#define PS_INDEX_H

#include <pstore.h>

#include "structures/structure.h"
#include "structures/tree.h"

enum ps_index_kind {
    PS_NUMBERS,                         /* keys are uint64_t, in their order */
    PS_STRINGS,                         /* ... are strings, in the order of their bytes */
};
typedef struct ps_container ps_index;

/* ps_index_open opens an index of this name, flags as for ps_open. NULL with errno: as for ps_open;
 * EPROTO: the container of that name is no index of this kind. ps_close closes it, ps_delete
 * deletes it, and closes it here: then all calls are -EINVAL. */
ps_index *ps_index_open(const char *name, enum ps_index_kind kind, int flags);

/* ps_index_find gives the *value of this key; -ENOENT. */
int ps_index_find(ps_index *x, const void *key, uint64_t *value);
/* ps_index_insert adds a key. -EEXIST: it is there. -E2BIG: too many changes in a transaction. */
int ps_index_insert(ps_index *x, const void *key, uint64_t value);
int ps_index_put(ps_index *x, const void *key, uint64_t value); /* the same, or replaces it */
int ps_index_remove(ps_index *x, const void *key);              /* -ENOENT */

/*
 * PS_ACCESS(ps_index_range, r, x, from, to, how): from <= key <= to, NULL: no bound; how: PS_UP, or
 * PS_DOWN (from `to` on), | PS_BELOW (without `to`). The bounds are not copied. Changes of the
 * index meanwhile are allowed, and seen.
 *   const uint64_t *ps_index_next(&r)     the next value; NULL with errno 0 at the end, or an error
 *   const void *ps_index_key(&r)          its key, until the next call
 */
struct ps_index_range {
    ps_index *index;
    const void *from, *to;
    int how, state, error;
    uint32_t length;                    /* of the key where it is */
    uint64_t value;
    _Alignas(16) uint8_t key[256];
};
struct ps_index_range ps_index_range_open(ps_index *x, const void *from, const void *to, int how);
void ps_index_range_close(struct ps_index_range *r);
const uint64_t *ps_index_next(struct ps_index_range *r);
const void *ps_index_key(const struct ps_index_range *r);

/* ps_index_check walks the committed tree: 0; -EUCLEAN, and in *why what is wrong, a constant. In a
 * snapshot, or outside of transactions: then in one of its own. stats, why: or 0. */
int ps_index_check(ps_index *x, struct ps_tree_stats *stats, const char **why);

#endif
