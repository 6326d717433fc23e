/*
 * subject_nested.c - variable heaps in the nodes of a uniform heap, as a B-tree's storage has three
 * levels: records in nodes in a segment.
 *
 * A node that is full is split by its expansion object; the segment's limit is raised by another
 * one, the representative, when the uniform heap has used it up. Each level has its own form of
 * address: pointers in the segment, numbers of nodes, offsets of records, which stay right when a
 * node is copied to another place.
 */
#include <structures/heap.h>

#include "subject.h"

enum { RECORDS = 500, NODE = 1000, LONGEST = 300 };
PS_UNIFORM_OF(nodes, NODE, 2064);               /* two in a block */
struct record { uint64_t node, offset; uint32_t bytes; uint8_t fill; };
static struct kept {
    struct nodes_head head;
    uint64_t limit, extended, splits;
    uint32_t count;
    struct record record[RECORDS];
} *kept;
static struct nodes nodes = {.name = "nodes"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    nodes.head = &kept->head;
    nodes.memory = memory;
}
static int set_up(void) { return nodes_set_up(&nodes); }
static int tear_down(void) { return nodes_tear_down(&nodes); }

/* The representative: the segment grows by a block. */
static int extend(void *access, size_t bytes)
{
    SAME(bytes >= NODE);
    if (kept->limit && kept->head.kept.count < kept->limit)
        return -ENOSPC;                         /* it is the memory that is full */
    kept->extended++;
    return nodes_limit(access, ++kept->limit);
}

/* A node, to be changed: what lies in a unit is its owner's to announce. */
static struct ps_variable *node_at(struct nodes_units *a, uint64_t number)
{
    struct ps_variable *node = nodes_at(a, number);
    subject_stores(&nodes.memory, node, NODE);
    return node;
}

static int64_t node_make(struct nodes_units *a)
{
    struct ps_expansion representative = {extend, a};
    int64_t node = nodes_take(a, &representative);
    if (node >= 0)
        SAME(ps_variable_make(node_at(a, (uint64_t)node), NODE, 2u << draw(3)) != NULL);
    return node;
}

/* A node that is to be split, and what it splits into. */
struct split { struct nodes_units *a; uint64_t node; int64_t into; };

static int split(void *arg, size_t bytes)
{
    struct split *s = arg;
    SAME(bytes <= LONGEST);
    s->into = node_make(s->a);
    if (s->into < 0)
        return (int)s->into;
    struct ps_variable *from = node_at(s->a, s->node), *to = node_at(s->a, (uint64_t)s->into);
    for (uint32_t i = 0, n = 0; i < kept->count; i++) {
        struct record *r = &kept->record[i];
        if (r->node != s->node || n++ % 2)
            continue;
        int64_t offset = ps_variable_take(to, r->bytes, NULL);
        SAME(offset > 0);
        memcpy(ps_variable_at(to, (uint64_t)offset), ps_variable_at(from, r->offset), r->bytes);
        SAME(ps_variable_give(from, r->offset) == 0);
        r->node = (uint64_t)s->into;
        r->offset = (uint64_t)offset;
    }
    kept->splits++;
    return 0;
}

static int insert(struct nodes_units *a)
{
    struct record r = {.bytes = 1 + draw(LONGEST), .fill = (uint8_t)draw(256)};
    int64_t node = kept->count ? (int64_t)kept->record[draw(kept->count)].node : node_make(a);
    if (node < 0)
        return (int)node;
    struct split s = {a, (uint64_t)node, -1};
    struct ps_expansion expansion = {split, &s};
    int64_t offset = ps_variable_take(node_at(a, s.node), r.bytes, &expansion);
    if (offset == -ENOSPC && s.into >= 0)       /* holes that are too small: it goes to the other */
        offset = ps_variable_take(node_at(a, s.node = (uint64_t)s.into), r.bytes, NULL);
    if (offset == -ENOSPC && s.into >= 0 && (node = node_make(a)) >= 0)
        offset = ps_variable_take(node_at(a, s.node = (uint64_t)node), r.bytes, NULL);
    if (offset < 0)
        return (int)offset;
    r.node = s.node;
    r.offset = (uint64_t)offset;
    uint8_t *bytes = ps_variable_at(node_at(a, r.node), r.offset);
    for (uint32_t i = 0; i < r.bytes; i++)
        SAME(bytes[i] == 0);
    memset(bytes, r.fill, r.bytes);
    kept->record[kept->count++] = r;
    return 0;
}

/* What the heap has not given out may become its owner's, and back. */
static void front(struct ps_variable *node)
{
    const size_t room = node->low - sizeof *node;
    SAME(ps_variable_front(node, room + 1) == -ENOSPC && ps_variable_front(node, room) == 0);
    memset(node + 1, 0x5a, room);
    SAME(ps_variable_front(node, 0) == 0);
}

static void take_away(struct nodes_units *a)
{
    struct record *r = &kept->record[draw(kept->count)];
    struct ps_variable *node = node_at(a, r->node);
    SAME(ps_variable_give(node, r->offset) == 0 && ps_variable_give(node, r->offset) == -ENOENT);
    front(node);
    if (ps_variable_used(node) == 0)
        SAME(nodes_give(a, r->node) == 0 && nodes_give(a, r->node) == -ENOENT);
    *r = kept->record[--kept->count];
}

/* A node moves to another unit as it is: addresses in its heap are offsets, so only the number of
 * the node is another one. */
static int move(struct nodes_units *a)
{
    const uint64_t from = kept->record[draw(kept->count)].node;
    int64_t to = nodes_take(a, &(struct ps_expansion){extend, a});
    if (to < 0)
        return (int)to;
    memcpy(node_at(a, (uint64_t)to), node_at(a, from), NODE);
    memset(node_at(a, from), 0x5a, NODE);
    SAME(nodes_give(a, from) == 0);
    for (uint32_t i = 0; i < kept->count; i++)
        if (kept->record[i].node == from)
            kept->record[i].node = (uint64_t)to;
    return 0;
}

static int operation(int growing)
{
    PS_ACCESS(nodes_units, a, &nodes, PS_CHANGE);
    if (kept->limit == 0)
        SAME(nodes_limit(&a, kept->limit = 1) == 0);
    if (kept->count < RECORDS && draw(10) < (growing ? 7u : 3u))
        return insert(&a);
    if (kept->count && draw(8) == 0)
        return move(&a);
    if (kept->count)
        take_away(&a);
    return 0;
}

static void compare(void)
{
    PS_ACCESS(nodes_units, a, &nodes, PS_LOOK);
    struct ps_uniform_stats stats;
    uint64_t counted = 0;
    SAME(ps_uniform_check(&a.access, &stats, NULL) == 0);
    SAME(kept->limit == kept->head.kept.limit && stats.blocks <= kept->limit);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct record *r = &kept->record[i];
        const struct ps_variable *node = nodes_at(&a, r->node);
        const uint8_t *bytes = node ? ps_variable_at(node, r->offset) : NULL;
        SAME(bytes && ps_variable_check(node, NULL) == 0);
        SAME(ps_variable_bytes(node, r->offset) == r->bytes);
        for (uint32_t k = 0; bytes && k < r->bytes; k++)
            SAME(bytes[k] == r->fill);
        uint32_t first = 0;
        while (kept->record[first].node != r->node)
            first++;
        for (uint64_t at = 0; first == i && (at = ps_variable_next(node, at));)
            counted++;
    }
    SAME(counted == kept->count);
    SAME(kept->count == RECORDS || nodes_at(&a, 1u << 30) == NULL);
}

const struct subject subject_nested = {"nested heaps", sizeof(struct kept), place,   set_up,
                                       tear_down,      operation,           compare,
                                       offsetof(struct kept, limit)};
