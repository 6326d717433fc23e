/*
 * item_private.h - what the files of the indexes on items share: their nodes.
 *
 * A node is the largest object of a page. Of a leaf (a bucket of the hash) all entries have one
 * size: a tag, the record, the key. The tag is the key's hash, odd, or 0: the entry is free. The
 * first `count` entries were in order when the leaf was split; of them only tags change, until it
 * is split again. The others are in no order, so that two who insert write different ones. A branch
 * of the tree has children in order, each with the least key of what is below it (the first one's
 * is not looked at); one of the hash has 256 children, by 8 bits of the hash.
 *
 * Invariants
 *   NX1  Entries with a tag change only under X at the key's name, which the tag tells, and IX at
 *        the leaf. A free one is filled only by who has X at it, too. So whoever has S at a key may
 *        rely on each entry with its tag, and on none else: what others publish comes word by word.
 *   NX2  All else of a leaf changes only under X at it. A leaf says itself which keys it has.
 *   NX3  Branches and the root change only under X at the word of the root, which is asked for
 *        last. Who looks reads them without a lock, perhaps half published: each child is a node of
 *        this index, and what he comes to tells whether it is the right leaf (NX2). If not, he
 *        waits for who splits.
 *   NX4  A node's last word is its seal. A page is published from its lowest word up (IP3 of
 *        tests/model/items.md): where the seal is, the node is. Nodes are given back by a tear-down
 *        alone, which breaks their seals.
 *   NX5  Between two keys of the tree there comes none while anybody has a lock at the upper one's
 *        name, or at that of the end: who inserts has X there, and who removes the upper one, too.
 */
#ifndef PS_ITEM_PRIVATE_H
#define PS_ITEM_PRIVATE_H

#include "item_index.h"
#include "structure_private.h"

#include <pstore.h>

struct ps_items_node {
    uint16_t level;             /* 0: a leaf */
    uint16_t count;             /* of a leaf: entries that are in order; of a branch: children */
    uint16_t depth;             /* of the hash: bits that led here */
    uint16_t bounds;            /* of a leaf of the tree: LOW, HIGH */
    struct ps_items_node *next; /* of a leaf: the next of the tree; who split off last */
    uint64_t hash;              /* of a bucket: the lowest one */
    uint64_t unused;
    uint64_t data[];            /* of a leaf: keys, lowest and above all, then entries */
};
enum { LOW = 1, HIGH = 2 };
enum { FAN_BITS = 8, FAN = 1 << FAN_BITS, END_TAG = 2, DATA_BYTES = PS_NODE_BYTES - 32 - 8 };
struct entry { uint64_t tag; uint8_t record[]; };       /* the key behind it */
struct child { struct ps_items_node *node; uint8_t key[]; };

static inline struct ps_items *items_of(const struct ps_items_access *a)
{
    return (struct ps_items *)(void *)a->base.head;
}
static inline ps_container *items_container(const struct ps_items_access *a)
{
    return a->base.memory.arg ? a->base.memory.arg : ps_container_of(a->base.head);
}
static inline int is_hash(const struct ps_items_access *a) { return !a->base.type->ordered; }
static inline unsigned words(unsigned bytes) { return (bytes + 7) & ~7u; }
static inline unsigned key_words(const struct ps_items_access *a)
{
    return words(a->base.type->key_bytes);
}

/* ---- leaves ---- */

static inline unsigned entry_bytes(const struct ps_items_access *a)
{
    return words(8 + a->base.shape[0].entry_bytes);
}
static inline unsigned entries_max(const struct ps_items_access *a)
{
    return (DATA_BYTES - 2 * key_words(a)) / entry_bytes(a);
}
static inline struct entry *entry_at(const struct ps_items_access *a, const struct ps_items_node *n,
                                     unsigned i)
{
    uint8_t *first = (uint8_t *)(uintptr_t)n->data + 2 * key_words(a);
    return (struct entry *)(void *)(first + i * entry_bytes(a));
}
static inline uint64_t tag_at(const struct ps_items_access *a, const struct ps_items_node *n,
                              unsigned i)
{
    return __atomic_load_n(&entry_at(a, n, i)->tag, __ATOMIC_RELAXED);
}
static inline uint8_t *key_at(const struct ps_items_access *a, const struct ps_items_node *n,
                              unsigned i)
{
    return entry_at(a, n, i)->record + a->base.shape[0].key_at;
}
static inline uint8_t *low_of(const struct ps_items_node *n)
{
    return (uint8_t *)(uintptr_t)n->data;
}
static inline uint8_t *high_of(const struct ps_items_access *a, const struct ps_items_node *n)
{
    return low_of(n) + key_words(a);
}

/* ---- branches ---- */

static inline unsigned children_max(const struct ps_items_access *a)
{
    return DATA_BYTES / (8 + key_words(a));
}
static inline struct child *child_at(const struct ps_items_access *a, const struct ps_items_node *n,
                                     unsigned i)
{
    return (struct child *)(void *)((uint8_t *)(uintptr_t)n->data + i * (8 + key_words(a)));
}
static inline struct ps_items_node **fan_of(const struct ps_items_node *n)
{
    return (struct ps_items_node **)(void *)(uintptr_t)n->data;
}

/* ---- seals: NX4 ---- */

static inline uint64_t *seal_of(const struct ps_items_node *n)
{
    return (uint64_t *)(void *)((uint8_t *)(uintptr_t)n + PS_NODE_BYTES - 8);
}
static inline uint64_t seal_for(const struct ps_items_access *a, const struct ps_items_node *n)
{
    return (items_of(a)->born + (uintptr_t)n) * 0x9e3779b97f4a7c15u | 1;
}
static inline int is_sealed(const struct ps_items_access *a, const struct ps_items_node *n)
{
    return n && __atomic_load_n(seal_of(n), __ATOMIC_ACQUIRE) == seal_for(a, n);
}

/* ---- item_index.c ---- */

uint64_t items_tag(const struct ps_items_access *a, const void *key);
/* A lock at the key's name: 0 or -errno. */
int items_name(const struct ps_items_access *a, uint64_t tag, int mode);
/* 0: the key belongs into the leaf; < 0, > 0: into one before or behind. NULL: the least key. */
int items_covers(const struct ps_items_access *a, const struct ps_items_node *n, const void *key,
                 uint64_t tag);
/* The way from the root down to a leaf, and which child each branch was left by. */
struct way { struct ps_items_node *node[PS_TREE_LEVELS]; unsigned at[PS_TREE_LEVELS], depth; };
/* To a leaf, without a lock, so perhaps a wrong one; NULL: ask anew. */
struct ps_items_node *items_descend(const struct ps_items_access *a, const void *key, uint64_t tag,
                                    struct way *way);
/* The leaf of the key, with a lock to the end; NULL with errno. */
struct ps_items_node *items_leaf(const struct ps_items_access *a, const void *key, uint64_t tag,
                                 int mode);
/* The first entry behind the key (or `from`: at it, or behind) is locked by its name, and stays the
 * first one. *leaf, where the search begins, and *at say where it is. Its tag; END_TAG: there is
 * none; 0 with errno. */
uint64_t items_gap(const struct ps_items_access *a, struct ps_items_node **leaf, const void *key,
                   int from, unsigned *at, int mode);

/* ---- item_split.c ---- */

/* A node with its seal; NULL with errno. */
struct ps_items_node *items_node(const struct ps_items_access *a, unsigned level);
/* The leaf has no room for the key: makes some, perhaps by a transaction before this one, which
 * then does not come back here. 0: look again; -errno. */
int items_grow(const struct ps_items_access *a, struct ps_items_node *leaf, const void *key,
               uint64_t tag);

#endif
