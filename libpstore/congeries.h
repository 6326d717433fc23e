/*
 * congeries.h - congeries: named regions of a container, made of whole blocks, that objects are
 * placed in by name or by type.
 *
 * From "Persistent Databases that Perform?" (Henskens and Ashton), sections 5 and 6: a congeries is
 * to a persistent database what a file is to another one. The designer says which parts of the
 * schema lie together; what is used together then comes from the disk together. Its blocks have the
 * size and the alignment of disk transfers, and need not follow each other on disk or in memory.
 * (Gathered mass: the word is Latin, and its plural is the same.)
 *
 * A congeries is an arena (pstore.h) with more to it, and ps_alloc_in, ps_new_in, ps_arena_of and
 * ps_arena_free (which drops it with all its objects) work on both; so does everything here on
 * arenas. ps_free deletes one object. All calls belong into a transaction (else -EPERM), change
 * things only with its commit, and answer -EINVAL to what is no congeries. Pages are of 4,096
 * bytes.
 *
 * Chapter, with an example: congeries.md.
 */
#ifndef PS_CONGERIES_H
#define PS_CONGERIES_H

#include <pstore.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef ps_arena ps_congeries;

/* The knobs of a congeries (section 5: "parameters which affect the performance"). 0 is good. */
struct ps_congeries_wish {
    /* `block_pages`: pages of a block, a power of 2 up to 64; 0: 4, an extent of 16 KiB. 1: as an
     * arena's. Large objects have pages of their own, as many as they need. Where the container has
     * no free block any more, pages come alone. */
    unsigned block_pages;
    /* `fill`: percent of a page that objects without a `near` hint may fill, the rest being for
     * objects near these; 0: 100 */
    unsigned fill;
};
/* ps_congeries_make makes a congeries; NULL as wish: zeros. The name, of 1 to 39 bytes, is kept
 * with the container; NULL: none, then the program keeps the pointer. A container has names for 48.
 * NULL with errno: EEXIST, ENAMETOOLONG, EINVAL, ENOSPC, EROFS. */
ps_congeries *ps_congeries_make(ps_container *c, const char *name,
                                const struct ps_congeries_wish *wish);
/* ps_congeries_named returns the congeries of that name; NULL with errno: ENOENT. */
ps_congeries *ps_congeries_named(ps_container *c, const char *name);
/* By ps_congeries_rule ps_new(c, T, near) and ps_alloc_as put objects of this type into the
 * congeries; NULL as congeries: into none. Objects that are there stay where they are. The rule is
 * kept with the container, for all programs; one that runs when the container gets its first one
 * may not see it before it opens the container anew. -ENOSPC: 96 types have rules; -ENOTUNIQ. */
int ps_congeries_rule(ps_container *c, const char *type, ps_congeries *congeries);

/* ps_congeries_grow adds blocks that lie together, to be filled later: for a region that will grow
 * among others. -ENOSPC: some of them were added. */
int ps_congeries_grow(ps_congeries *congeries, uint64_t blocks);
/* ps_congeries_release gives blocks in which no object lies back to the store, spare ones too, but
 * not the first block. How many pages it gave. -EUCLEAN. */
int64_t ps_congeries_release(ps_congeries *congeries);
/* ps_congeries_collect frees each object of the congeries to which no pointer leads from these
 * objects, over any objects of the congeries. NULL as roots: from all objects of the container that
 * are in no or another congeries; then all of these are read. What looks like a pointer, at any
 * byte, counts as one; pointers in volatile memory and in other containers, values of indexes
 * (index.h) among them, do not. -EINVAL: no object begins at a root. Uses volatile memory: 48 bytes
 * for each page of the congeries and 8 for each object (-ENOMEM). How many were freed. */
int64_t ps_congeries_collect(ps_congeries *congeries, void *const *roots, size_t count);

/* ps_congeries_lock locks all of it until the transaction's end: PS_LOCK_SHARED: nobody else
 * changes or adds anything; 0: nobody else reads it either. Reads each of its pages. */
int ps_congeries_lock(ps_congeries *congeries, int how);
/* ps_congeries_advise: PS_WILL_NEED, PS_DONT_NEED for all its pages. Reads one of each block. */
int ps_congeries_advise(ps_congeries *congeries, int advice);
/* ps_congeries_each returns the next object of this type behind `previous` as ps_each, of the
 * congeries alone, and without touching any other page. */
void *ps_congeries_each(ps_congeries *congeries, const char *type, const void *previous);
struct ps_congeries_info {
    char name[40];                      /* empty: none */
    ps_congeries *congeries;
    unsigned block_pages, fill;
    uint64_t blocks, spare_blocks, pages;  /* large objects with all their pages; a page that is
                                            * no part of a block counts as one */
    uint64_t objects, bytes, bytes_free;   /* free: room in its pages */
};
/* ps_congeries_count counts what is in it; reads each of its pages that has a header. */
int ps_congeries_count(ps_congeries *congeries, struct ps_congeries_info *out);
/* ps_congeries_list lists those with a name: how many; fills at most count: four of the fields. */
int ps_congeries_list(ps_container *c, struct ps_congeries_info *out, int count);

/* ps_touched tells what a traversal cost: the pages of containers that this thread's transactions
 * read or wrote so far, those of the running one and those to which the right was kept, by
 * congeries. With PS_GROUP 1 (ps_policy) that is what was touched, else also the neighbours that
 * came with it. Blocks: in how many blocks they lie, outside congeries in how many extents of 16
 * KiB. How many entries there are; fills at most count, those of no congeries with NULL. */
struct ps_touched {
    ps_container *container;
    ps_congeries *congeries;
    uint64_t pages, blocks;
};
int ps_touched(struct ps_touched *out, int count);

#ifdef __cplusplus
}
#endif

#endif
