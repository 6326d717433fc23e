/*
 * btree.h - one B+-tree twice: on the nested heaps of heap.h, and with the management of its
 * storage written by hand into it (uDatabase, "Storage Management").
 *
 * btree_layered.c and btree_integrated.c say how a node is laid out and where it comes from; the
 * tree itself, btree_text.h, is the same text in both. Keys are strings of 1 to BTREE_KEY_MAX
 * bytes, records of 0 to BTREE_RECORD_MAX bytes; a node has 8 KiB. Nodes are never joined.
 */
#ifndef BTREE_H
#define BTREE_H

#include <structures/heap.h>

enum { BTREE_LEVELS = 12, BTREE_KEY_MAX = 64, BTREE_RECORD_MAX = 512, BTREE_BLOCK = 8160 };
PS_UNIFORM_OF(btree_nodes, BTREE_BLOCK - 48, BTREE_BLOCK);

struct btree_node;

/* Kept; zeros until it is set up. */
struct btree_head {
    struct btree_nodes_head nodes;      /* of the layered one: its segment of nodes */
    struct btree_node *root;
    uint64_t height, count;             /* count: nodes */
};

/* An access object: at each level of the tree a node, and a place in it. */
struct btree {
    struct btree_head *head;
    struct ps_memory memory;
    struct btree_nodes_units units;
    struct { struct btree_node *node; unsigned at; } path[BTREE_LEVELS];
    int error;
};
struct btree_bytes { const uint8_t *at; unsigned length; };

/* Errors are -errno; of an insertion that is refused (-ENOSPC) the tree is as it was. */
struct btree_kind {
    const char *name;
    int (*set_up)(struct btree_head *head, struct ps_memory memory);
    void (*tear_down)(struct btree *t);
    void (*open)(struct btree *t, struct btree_head *head, struct ps_memory memory);
    /* -EEXIST: the key is there */
    int (*insert)(struct btree *t, struct btree_bytes key, struct btree_bytes record);
    int (*remove)(struct btree *t, struct btree_bytes key);         /* -ENOENT */
    /* Stands at the first record of a key >= this one: 1 if it is this one. */
    int (*find)(struct btree *t, struct btree_bytes key);
    /* The record at which it stands, and goes on to the next one; 0: at the end. */
    int (*next)(struct btree *t, struct btree_bytes *key, struct btree_bytes *record);
    const char *(*check)(struct btree *t);                          /* NULL, or what is wrong */
};
extern const struct btree_kind btree_layered, btree_integrated;

#endif
