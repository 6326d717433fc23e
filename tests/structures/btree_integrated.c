/*
 * btree_integrated.c - the B+-tree with the management of its storage written into it: nodes come
 * from the memory one by one; slots grow up behind a node's head, entries down from its end, each
 * behind its length.
 */
#include "btree.h"

#include <errno.h>
#include <string.h>

struct btree_node {
    struct btree_node *first;   /* of a branch: the child below its first key */
    uint16_t level, count;
    uint16_t low, used;         /* where the lowest entry lies; bytes of entries */
    uint16_t slot[];
};
enum { NODE = BTREE_BLOCK };

static inline uint8_t *entry(const struct btree_node *n, unsigned i)
{
    return (uint8_t *)(uintptr_t)n + n->slot[i] + sizeof(uint16_t);
}

static inline unsigned entry_bytes(const struct btree_node *n, unsigned i)
{
    return *(const uint16_t *)((uintptr_t)n + n->slot[i]);
}

/* How much of a node its entries take, and how much they may. */
static inline unsigned node_used(const struct btree_node *n)
{
    return n->used + n->count * (unsigned)sizeof n->slot[0];
}
static inline unsigned entry_cost(unsigned bytes) { return (bytes + 1) / 2 * 2 + 4; }
static inline unsigned node_room(void) { return NODE - sizeof(struct btree_node); }

static void node_empty(struct btree_node *n, unsigned level)
{
    n->level = (uint16_t)level;
    n->count = n->used = 0;
    n->low = NODE;
}

/* By a copy, as memmove may go byte by byte. */
static inline void slots_move(struct btree_node *n, unsigned i)
{
    uint16_t copy[NODE / 4];
    const size_t bytes = (n->count - i) * sizeof copy[0];
    if (bytes == 0)
        return;
    memcpy(copy, &n->slot[i], bytes);
    memcpy(&n->slot[i + 1], copy, bytes);
}

static struct btree_node *node_take(struct btree *t)
{
    return t->memory.take(t->memory.arg, NODE, NULL);
}

static void node_give(struct btree *t, struct btree_node *n) { t->memory.give(t->memory.arg, n); }

static int full(struct btree *t, unsigned level, unsigned bytes);

/* Where the bytes of a new slot i go. NULL: the node was full, and the tree has the error:
 * -EAGAIN if the path is to be looked for again. */
static inline uint8_t *entry_make(struct btree *t, struct btree_node *n, unsigned i, unsigned bytes)
{
    const unsigned size = (bytes + 1) / 2 * 2 + (unsigned)sizeof(uint16_t);
    if (n->low < sizeof *n + (n->count + 1u) * sizeof n->slot[0] + size) {
        t->error = full(t, n->level, bytes);
        return NULL;
    }
    slots_move(n, i);
    n->count++;
    n->low = (uint16_t)(n->low - size);
    n->used = (uint16_t)(n->used + size);
    n->slot[i] = n->low;
    *(uint16_t *)((uintptr_t)n + n->low) = (uint16_t)bytes;
    return entry(n, i);
}

static void entry_erase(struct btree_node *n, unsigned i)
{
    const unsigned size = (entry_bytes(n, i) + 1) / 2 * 2 + (unsigned)sizeof(uint16_t);
    n->used = (uint16_t)(n->used - size);
    if (n->slot[i] == n->low)
        n->low = (uint16_t)(n->low + size);
    for (; i + 1 < n->count; i++)
        n->slot[i] = n->slot[i + 1];
    n->count--;
}

static const char *node_wrong(const struct btree_node *n)
{
    unsigned used = 0;
    for (unsigned i = 0; i < n->count; i++) {
        used += entry_cost(entry_bytes(n, i)) - 2;
        if (n->slot[i] < n->low || n->slot[i] + 2 + entry_bytes(n, i) > NODE)
            return "an entry does not lie in its node";
    }
    return used != n->used ? "a node does not count its bytes right" : NULL;
}

static int storage_set_up(struct btree_head *head, struct ps_memory memory)
{
    (void)head, (void)memory;
    return 0;
}
static void storage_open(struct btree *t) { (void)t; }

static void nodes_give(struct btree *t, struct btree_node *n)
{
    for (unsigned i = 0; n->level > 0 && i < n->count; i++) {
        struct btree_node *child;
        memcpy(&child, entry(n, i), sizeof child);
        nodes_give(t, child);
    }
    if (n->level > 0)
        nodes_give(t, n->first);
    node_give(t, n);
}
static void storage_tear_down(struct btree *t) { nodes_give(t, t->head->root); }

static const char *storage_wrong(struct btree *t, uint64_t nodes)
{
    (void)t, (void)nodes;
    return NULL;
}

#define KIND btree_integrated
#define KIND_NAME "integrated"
#include "btree_text.h"
