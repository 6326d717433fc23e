/*
 * index_format.h - the pages of a server-kept index, for the store manager, which alone writes
 * them, and for the library, which reads them (index.md).
 *
 * An index is a container. Its first page is the head, its second the end, the others are nodes of
 * a B+-tree (node.h), a node to a page, or free. Each commit that changes the index writes the head
 * first and the end last, with the same new stamp, and the kernel publishes pages in that order
 * (KD_OBJECT_UNLOCKED). So who reads the same stamp in the end and then in the head, and still
 * finds it in the head after it has read other pages, has seen pages of one time.
 *
 * From half of the container's addresses on lie pages that are never kept: a right to one of them
 * is a lock of the keys that are hashed to it.
 */
#ifndef PS_INDEX_FORMAT_H
#define PS_INDEX_FORMAT_H

#include <string.h>

#include "structures/tree.h"

enum {
    INDEX_NODE_BYTES = 4096,            /* a page */
    INDEX_HEAD = 0, INDEX_END = 1, INDEX_FIRST = 2,     /* pages */
    INDEX_LOCKS = 1024,                 /* pages that are locks, two to a hash; the first two are of
                                         * what follows the last key */
    INDEX_KEY_MAX = 253,                /* bytes of a string */
    INDEX_OPS_MAX = 1024,               /* changes of a transaction, each of another key */
    INDEX_KINDS = 2,
};
/* INDEX_PAGES: so many pages of a container's first segment may be nodes. */
#define INDEX_PAGES(pages) ((pages) / 2)

struct index_head {
    uint64_t stamp;
    uint64_t pages, spare;              /* those below were in use; the first free one, or 0 */
    uint64_t unused;
    struct ps_tree tree;
};
struct index_end { uint64_t stamp; };

/* index_layouts are the types of such containers, by ps_index_kind. */
static const char *const index_layouts[INDEX_KINDS] = {"ps_index numbers", "ps_index strings"};

static inline int index_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static const struct ps_type index_types[INDEX_KINDS] = {
    {.structure = "index", .name = "number", .compare_name = "number", .compare = index_by_number,
     .head_bytes = sizeof(struct ps_tree), .node_bytes = INDEX_NODE_BYTES,
     .key_bytes = sizeof(uint64_t), .key_align = _Alignof(uint64_t),
     .record_bytes = sizeof(uint64_t), .record_align = _Alignof(uint64_t)},
    {.structure = "index", .name = "string", .compare_name = "bytes",
     .head_bytes = sizeof(struct ps_tree), .node_bytes = INDEX_NODE_BYTES, .key_align = 1,
     .record_bytes = sizeof(uint64_t), .record_align = _Alignof(uint64_t)},
};

/* index_kind tells which kind of index a container of this type is; -1: none. */
static inline int index_kind(const char *layout)
{
    for (int i = 0; i < INDEX_KINDS; i++)
        if (strcmp(layout, index_layouts[i]) == 0)
            return i;
    return -1;
}

#endif
