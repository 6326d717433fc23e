/*
 * btree_layered.c - the B+-tree on three levels of storage: a segment of nodes (a uniform heap,
 * whose limit a representative raises), a variable heap in each node, and expansion objects that
 * split a node when its heap is full.
 *
 * The addresses of the levels: of a child its pointer, as what a heap has given out stays where it
 * is; of a node in the segment its number; of an entry in its node its offset in the heap.
 */
#include "btree.h"

#include <errno.h>
#include <string.h>

struct btree_node {
    uint64_t number;            /* of the segment's units */
    struct btree_node *first;   /* of a branch: the child below its first key */
    uint16_t level, count;
    struct ps_variable heap;    /* what it leaves to its owner are the slots: offsets of entries */
    uint16_t slot[];
};
enum {
    NODE = BTREE_BLOCK - 48,
    HEAP = NODE - offsetof(struct btree_node, heap),
    SEGMENT_STEP = 16
};

static inline uint8_t *entry(const struct btree_node *n, unsigned i)
{
    return ps_variable_here(&n->heap, n->slot[i]);
}

static inline unsigned entry_bytes(const struct btree_node *n, unsigned i)
{
    return (unsigned)ps_variable_length(&n->heap, n->slot[i]);
}

/* How much of a node its entries take, and how much they may. */
static inline unsigned node_used(const struct btree_node *n)
{
    return ps_variable_used(&n->heap) + n->count * (unsigned)sizeof n->slot[0];
}
static inline unsigned entry_cost(unsigned bytes) { return (bytes + 1) / 2 * 2 + 4; }
static inline unsigned node_room(void) { return HEAP / 2 * 2 - sizeof(struct ps_variable); }

static void node_empty(struct btree_node *n, unsigned level)
{
    n->level = (uint16_t)level;
    n->count = 0;
    ps_variable_make(&n->heap, HEAP, 2);
}

/* Slots i and up become those from i + 1 on; by a copy, as memmove may go byte by byte. */
static inline void slots_move(struct btree_node *n, unsigned i)
{
    uint16_t copy[NODE / 4];
    const size_t bytes = (n->count - i) * sizeof copy[0];
    if (bytes == 0)
        return;
    memcpy(copy, &n->slot[i], bytes);
    memcpy(&n->slot[i + 1], copy, bytes);
}

/* The representative: the segment is full, and gets more blocks. */
static int segment_extend(void *tree, size_t bytes)
{
    struct btree *t = tree;
    uint64_t blocks = t->head->nodes.kept.count, limit = t->head->nodes.kept.limit;
    (void)bytes;
    return limit > blocks ? -ENOSPC     /* it is the memory that is full */
                          : btree_nodes_limit(&t->units, limit + SEGMENT_STEP);
}

static struct btree_node *node_take(struct btree *t)
{
    int64_t number = btree_nodes_take(&t->units, &(struct ps_expansion){segment_extend, t});
    if (number < 0)
        return NULL;
    struct btree_node *n = btree_nodes_at(&t->units, (uint64_t)number);
    n->number = (uint64_t)number;
    return n;
}

static void node_give(struct btree *t, struct btree_node *n)
{
    btree_nodes_give(&t->units, n->number);
}

static int full(struct btree *t, unsigned level, unsigned bytes);
struct full_node { struct btree *t; unsigned level; };
static int node_expand(void *full_node, size_t bytes)
{
    const struct full_node *f = full_node;
    return full(f->t, f->level, (unsigned)bytes);
}

/* Where the bytes of a new slot i go. NULL: the node was full, and the expansion object has put
 * the error into the tree: -EAGAIN if the path is to be looked for again. */
static inline uint8_t *entry_make(struct btree *t, struct btree_node *n, unsigned i, unsigned bytes)
{
    struct full_node f = {t, n->level};
    int64_t at = ps_variable_reserve(&n->heap, bytes, sizeof n->slot[0],
                                     &(struct ps_expansion){node_expand, &f});
    if (at < 0) {
        t->error = (int)at;
        return NULL;
    }
    slots_move(n, i);
    n->count++;
    n->slot[i] = (uint16_t)at;
    return ps_variable_here(&n->heap, (uint64_t)at);
}

static void entry_erase(struct btree_node *n, unsigned i)
{
    ps_variable_give(&n->heap, n->slot[i]);
    for (; i + 1 < n->count; i++)
        n->slot[i] = n->slot[i + 1];
    n->count--;
    ps_variable_front(&n->heap, n->count * sizeof n->slot[0]);
}

static const char *node_wrong(const struct btree_node *n)
{
    const char *why;
    unsigned used = 0;
    for (unsigned i = 0; i < n->count; i++)
        used += ps_variable_at(&n->heap, n->slot[i]) ? entry_cost(entry_bytes(n, i)) : NODE;
    return ps_variable_check(&n->heap, &why) ? why
           : used != node_used(n)            ? "a node has other entries than its heap"
                                             : NULL;
}

static int storage_set_up(struct btree_head *head, struct ps_memory memory)
{
    struct btree_nodes nodes = {.head = &head->nodes, .memory = memory, .name = "nodes"};
    int error = btree_nodes_set_up(&nodes);
    if (error)
        return error;
    PS_ACCESS(btree_nodes_units, a, &nodes, PS_CHANGE);
    return btree_nodes_limit(&a, SEGMENT_STEP);
}

static void storage_open(struct btree *t)
{
    struct btree_nodes nodes = {.head = &t->head->nodes, .memory = t->memory};
    t->units = btree_nodes_units_open(&nodes, PS_CHANGE);
}

static void storage_tear_down(struct btree *t)
{
    struct btree_nodes nodes = {.head = &t->head->nodes, .memory = t->memory};
    btree_nodes_tear_down(&nodes);
}

static const char *storage_wrong(struct btree *t, uint64_t nodes)
{
    struct ps_uniform_stats stats;
    const char *why = NULL;
    ps_uniform_check(&t->units.access, &stats, &why);
    return why ? why : stats.taken != nodes ? "the segment has other nodes than the tree" : NULL;
}

#define KIND btree_layered
#define KIND_NAME "layered"
#include "btree_text.h"
