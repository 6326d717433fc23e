/* blocks.h - numbered blocks of one size in a tree of few levels, for vectors and bitmaps. */
#ifndef PS_BLOCKS_H
#define PS_BLOCKS_H

#include "structure.h"

/* Kept, in a head: the tree's root, of `height` levels; 1: the root is block 0; 0: no block. */
struct ps_blocks {
    void *root;
    uint64_t height;
};

/* The block of that number, or NULL. */
void *blocks_find(const struct ps_access *a, const struct ps_blocks *b, uint64_t number);
/* The same; a block that is missing is made, of zeros. NULL with errno: nothing was changed. */
void *blocks_make(const struct ps_access *a, struct ps_blocks *b, uint64_t number);
/* Frees a block that is there. */
void blocks_give(const struct ps_access *a, struct ps_blocks *b, uint64_t number);
/* The first block at *number or behind it, whose number is put there; NULL: none. */
void *blocks_next(const struct ps_access *a, const struct ps_blocks *b, uint64_t *number);
void blocks_clear(const struct ps_access *a, struct ps_blocks *b);
/* Tears a structure down that has nothing but blocks, which lie so far in its head: 0 or -errno. */
int blocks_tear_down(const struct ps_instance *i, const struct ps_type *type, size_t offset);
/* NULL, or what is wrong with the tree; how many nodes of it are no blocks. */
const char *blocks_check(const struct ps_access *a, const struct ps_blocks *b, uint64_t *branches);

#endif
