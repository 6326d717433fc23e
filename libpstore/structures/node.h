/* node.h - a slotted node: a leaf or branch of the B+-tree, a bucket of the hash. */
#ifndef PS_NODE_H
#define PS_NODE_H

#include "structure_private.h"

#include <string.h>

/*
 * A node holds records in the order of their keys: this header, the slots (each says where an entry
 * lies, in the order of keys), room, and entries, laid from the end downwards. An entry is a record
 * (in a leaf) or a child (in a branch, of keys >= the entry's), then the key; of a string, two
 * bytes of length and its bytes. A record of variable size stands behind the key, and its length,
 * two bytes, where others have the record. The prefix, at the very end, is left out of each string
 * of a leaf. Branches hold the shortest strings that separate their children, and have no prefix.
 */
struct ps_node {
    uint16_t level;             /* 0: a leaf */
    uint16_t count;             /* of slots; a branch has one child more */
    uint16_t heap;              /* where the lowest entry lies */
    uint16_t live;              /* bytes of entries, the prefix among them */
    uint16_t prefix;            /* bytes */
    uint16_t depth;             /* of a bucket: bits of the hash that lead to it */
    uint16_t unused[2];
    /* of a branch: the child below the first key; of a spare node: the next one; of a full
     * bucket: the next of the same */
    struct ps_node *first;
    uint16_t slot[];
};

enum { KEY_COPY = PS_KEY_MAX + 16 };  /* bytes of a copy of a key, with a 0 behind it */
struct bytes { const uint8_t *at; unsigned length; };

/* Writes to a leaf what it holds: a change of it comes, and its right is taken at once, before two
 * look at it. */
static inline void node_claim(const struct ps_access *a, struct ps_node *n)
{
    structure_changes(a, n);
    *(volatile uint16_t *)&n->level = 0;
}

unsigned node_key_max(const struct ps_access *a);
static inline struct bytes node_probe(const struct ps_access *a, const void *key)
{
    return (struct bytes){ key, a->type->key_bytes ? a->type->key_bytes
                                                   : (unsigned)strnlen(key, PS_NODE_MAX) };
}
/* Where keys stand in the entries of a node of this level. */
static inline unsigned node_key_at(const struct ps_access *a, const struct ps_node *n)
{
    return a->shape[n->level > 0].key_at;
}

void node_init(struct ps_access *a, struct ps_node *n, unsigned level);
struct bytes node_suffix(const struct ps_access *a, const struct ps_node *n, unsigned i);
struct bytes node_key(const struct ps_access *a, const struct ps_node *n, unsigned i,
                      uint8_t *copy);
struct ps_node *node_child(const struct ps_node *n, unsigned i);
int node_order(const struct ps_access *a, struct bytes left, struct bytes right);
int node_compare(const struct ps_access *a, struct bytes key, const struct ps_node *n,
                 unsigned i);
/* The first slot with a key >= (NODE_UPPER: >) this one; NODE_AT_END: it is probably behind all. */
enum { NODE_UPPER = PS_UPPER, NODE_AT_END = PS_AT_END };
unsigned node_search_untyped(const struct ps_access *a, const struct ps_node *n, struct bytes key,
                             int how);
static inline unsigned node_search(const struct ps_access *a, const struct ps_node *n,
                                   struct bytes key, int how)
{
    return a->search ? a->search((const uint8_t *)n + node_key_at(a, n), n->slot, n->count, key.at,
                                 how)
                     : node_search_untyped(a, n, key, how);
}
/* length: of the key; record: of one of variable size, else 0, as in what follows. */
unsigned node_entry_bytes(const struct ps_access *a, unsigned level, unsigned length,
                          unsigned record);
/* The record in slot i of a leaf, or the child pointer of a branch; and its bytes if they vary. */
void *node_record(const struct ps_access *a, const struct ps_node *n, unsigned i);
unsigned node_record_bytes(const struct ps_access *a, const struct ps_node *n, unsigned i);
unsigned node_used(const struct ps_node *n);
int node_is_small(const struct ps_access *a, const struct ps_node *n);
int node_has_room(const struct ps_access *a, const struct ps_node *n, struct bytes key,
                  unsigned record);
/* Whether the record in slot i, of this key, may get that size; and gives it that size: where it is
 * to be written then. */
int node_has_room_for(const struct ps_access *a, const struct ps_node *n, unsigned i,
                      unsigned record);
void *node_resize(struct ps_access *a, struct ps_node *n, unsigned i, struct bytes key,
                  unsigned record);
/* Makes slot i for this key, which has room, and returns where its record (of a leaf) or child
 * goes, which the caller writes. */
void *node_place(struct ps_access *a, struct ps_node *n, unsigned i, struct bytes key,
                 unsigned record);
/* All of that, of a leaf whose entries are of one size: 1, or 0 if there is no room. */
int node_insert_fixed(struct ps_access *a, struct ps_node *n, unsigned i, const void *key,
                      const void *record);
void node_erase(struct ps_access *a, struct ps_node *n, unsigned i);
/* Fills an empty node with the slots first..end of another, behind the prefix that they share. */
void node_fill(struct ps_access *a, struct ps_node *n, const struct ps_node *from,
               unsigned first, unsigned end);
void node_append(struct ps_access *a, struct ps_node *n, const struct ps_node *from,
                 unsigned first, unsigned end);
/* Whether both fit one node, and makes them one: the left. `between` is what parted two
 * branches. */
int node_join_fits(const struct ps_access *a, const struct ps_node *left,
                   const struct ps_node *right, struct bytes between);
void node_join(struct ps_access *a, struct ps_node *left, const struct ps_node *right,
               struct bytes between);
unsigned node_common(struct bytes a, struct bytes b);

/* NULL, or what is wrong with the node: its room, its order, or a key that is not low <= key < high
 * (no bytes: no bound). Equal keys: 1 if there may be some. */
const char *node_check(const struct ps_access *a, const struct ps_node *n, struct bytes low,
                       struct bytes high, int equals);

#endif
