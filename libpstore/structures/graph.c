/* graph.c - the graph: nodes in blocks, blocks in clusters, edges in their node and in pieces. */
#include "graph.h"

#include <errno.h>
#include <string.h>

#include "structure_private.h"

/* A block: this header, then nodes of one size. `used` has a bit for each that is there. */
struct block {
    uint64_t used;
    uint32_t cluster;
    uint16_t number;            /* of the cluster's blocks */
    uint16_t claim;             /* 0, and written before the others are read */
};

/* A node: this header, the record, as many edges as the program's line says. Further ones are in
 * pieces, the newest first, all full but that one. */
struct ps_graph_node {
    uint32_t edges, incoming;
    uint16_t index, unused[3];  /* index: in its block */
    struct piece *more;
};
enum { PIECE_EDGES = 15 };
struct piece {
    struct piece *next;
    void *to[PIECE_EDGES];
};

static struct ps_graph *graph_of(const struct ps_graph_access *a)
{
    return (struct ps_graph *)(void *)a->base.head;
}

/* ---- where things lie ---- */

static unsigned edges_at(const struct ps_graph_access *a)
{
    return (unsigned)sizeof(struct ps_graph_node) + ((a->base.type->record_bytes + 7) & ~7u);
}

static unsigned inside(const struct ps_graph_access *a) { return a->base.type->key_bytes / 8; }

static unsigned node_size(const struct ps_graph_access *a)
{
    return edges_at(a) + a->base.type->key_bytes;
}

static unsigned per_block(const struct ps_graph_access *a)
{
    unsigned fit = (a->base.type->node_bytes - (unsigned)sizeof(struct block)) / node_size(a);
    return fit < PS_CLUSTER_NODES ? fit : PS_CLUSTER_NODES;
}

static unsigned per_cluster(const struct ps_graph_access *a)
{
    return (PS_CLUSTER_NODES + per_block(a) - 1) / per_block(a);
}

/* Nodes that the block of this number may hold: the last one of a cluster has fewer. */
static unsigned block_room(const struct ps_graph_access *a, unsigned number)
{
    unsigned left = PS_CLUSTER_NODES - number * per_block(a);
    return left < per_block(a) ? left : per_block(a);
}

static struct ps_graph_node *node_of(const void *record)
{
    return (struct ps_graph_node *)(uintptr_t)record - 1;
}

static void *record_of(const struct ps_graph_node *n) { return (void *)(uintptr_t)(n + 1); }

static struct ps_graph_node *node_in(const struct ps_graph_access *a, const struct block *b,
                                     unsigned index)
{
    return (struct ps_graph_node *)(void *)((uint8_t *)(uintptr_t)(b + 1) + index * node_size(a));
}

static struct block *block_of(const struct ps_graph_access *a, const struct ps_graph_node *n)
{
    return (struct block *)(void *)((uint8_t *)(uintptr_t)n - n->index * node_size(a)) - 1;
}

/* ---- the directory: for each cluster the addresses of its blocks ---- */

static uint64_t per_page(const struct ps_graph_access *a)
{
    return a->base.type->node_bytes / (per_cluster(a) * sizeof(void *));
}

static struct block **cluster_in(const struct ps_graph_access *a, void *page, uint64_t cluster)
{
    return page ? (struct block **)page + cluster % per_page(a) * per_cluster(a) : NULL;
}

static struct block **cluster_find(const struct ps_graph_access *a, uint64_t cluster)
{
    return cluster_in(a, blocks_find(&a->base, &graph_of(a)->directory, cluster / per_page(a)),
                      cluster);
}

/* A page of the directory in which nothing is left goes. */
static void page_tidy(const struct ps_graph_access *a, uint64_t number)
{
    struct ps_blocks *directory = &graph_of(a)->directory;
    void *const *page = blocks_find(&a->base, directory, number);
    for (unsigned i = 0; i < a->base.type->node_bytes / sizeof *page; i++)
        if (page[i])
            return;
    blocks_give(&a->base, directory, number);
}

static struct block *block_make(const struct ps_graph_access *a, uint64_t cluster, unsigned number,
                                const void *near)
{
    struct ps_blocks *directory = &graph_of(a)->directory;
    struct block *b = structure_take_near(&a->base, a->base.type->node_bytes, near);
    void *page = b ? blocks_make(&a->base, directory, cluster / per_page(a)) : NULL;
    if (!page) {
        int error = errno;
        if (b)
            structure_give(&a->base, b);
        return structure_none(-error);
    }
    *b = (struct block){ .cluster = (uint32_t)cluster, .number = (uint16_t)number };
    structure_changes(&a->base, page);
    cluster_in(a, page, cluster)[number] = b;
    return b;
}

static void block_give(const struct ps_graph_access *a, struct block *b)
{
    uint64_t cluster = b->cluster;
    struct block **blocks = cluster_find(a, cluster);
    structure_stores(&a->base, blocks, per_cluster(a) * sizeof *blocks);
    blocks[b->number] = NULL;
    structure_give(&a->base, b);
    page_tidy(a, cluster / per_page(a));
}

/* ---- set up, tear down ---- */

int ps_graph_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_graph_access a;
    int error = structure_begin(&a.base, i, type);
    return error ? error : structure_end(&a.base, i, 0);
}

static void pieces_give(const struct ps_graph_access *a, const struct ps_graph_node *n)
{
    for (struct piece *p = n->more, *next; p; p = next) {
        next = p->next;
        structure_give(&a->base, p);
    }
}

static void block_clear(const struct ps_graph_access *a, struct block *b)
{
    for (unsigned i = 0; i < per_block(a); i++)
        if (b->used >> i & 1)
            pieces_give(a, node_in(a, b, i));
    structure_give(&a->base, b);
}

int ps_graph_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_graph_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    for (uint64_t c = 0; c < graph_of(&a)->clusters; c++) {
        struct block **blocks = cluster_find(&a, c);
        for (unsigned k = 0; blocks && k < per_cluster(&a); k++)
            if (blocks[k])
                block_clear(&a, blocks[k]);
    }
    blocks_clear(&a.base, &graph_of(&a)->directory);
    structure_clear(&a.base);
    return 0;
}

/* ---- nodes ---- */

static void claim(const struct ps_graph_access *a, struct block *b)
{
    structure_changes(&a->base, b);
    *(volatile uint16_t *)&b->claim = 0;
}

static int has_room(const struct ps_graph_access *a, const struct block *b)
{
    unsigned room = block_room(a, b->number);
    return b->used != (room == 64 ? ~0ull : (1ull << room) - 1);
}

/* A block of a cluster with room, `first` if that has some; made if one is missing. NULL: errno, 0
 * if all are full. */
static struct block *room_in(const struct ps_graph_access *a, uint64_t cluster,
                             struct block *first, const void *near)
{
    struct block **blocks = cluster_find(a, cluster);
    unsigned missing = per_cluster(a);
    if (first && has_room(a, first))
        return first;
    for (unsigned k = per_cluster(a); k-- > 0;) {
        if (blocks && blocks[k] && has_room(a, blocks[k]))
            return blocks[k];
        missing = blocks && blocks[k] ? missing : k;
    }
    errno = 0;
    return missing < per_cluster(a) ? block_make(a, cluster, missing, near) : NULL;
}

/* Room anywhere: where the hand is, in clusters that come next, or in a new one. */
static struct block *room_anywhere(const struct ps_graph_access *a, const void *near)
{
    enum { LOOKS = 16 };
    struct ps_graph *g = graph_of(a);
    struct block *b = NULL;
    uint64_t cluster = g->hand, looks = g->clusters < LOOKS ? g->clusters : LOOKS;
    errno = 0;
    for (; !b && errno == 0 && looks > 0; looks--) {
        b = room_in(a, cluster, NULL, near);
        if (!b)
            cluster = (cluster + 1) % g->clusters;
    }
    if (!b && errno == 0) {
        cluster = g->clusters;
        if (cluster > UINT32_MAX)
            return structure_none(-EFBIG);
        b = block_make(a, cluster, 0, near);
        structure_heads(&a->base);
        g->clusters += b != NULL;
    }
    if (b && g->hand != cluster) {
        structure_heads(&a->base);
        g->hand = cluster;
    }
    return b;
}

void *ps_graph_add(struct ps_graph_access *a, const void *near, const void *record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return structure_none(error);
    struct block *beside = near ? block_of(a, node_of(near)) : NULL, *b = NULL;
    errno = 0;
    if (beside)
        b = room_in(a, beside->cluster, beside, near);
    if (!b && errno == 0)
        b = room_anywhere(a, near);
    if (!b)
        return NULL;
    claim(a, b);
    unsigned index = (unsigned)__builtin_ctzll(~b->used);
    struct ps_graph_node *n = node_in(a, b, index);
    *n = (struct ps_graph_node){ .index = (uint16_t)index };
    memcpy(record_of(n), record, a->base.type->record_bytes);
    b->used |= 1ull << index;
    return record_of(n);
}

void *ps_graph_change(struct ps_graph_access *a, void *node)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return structure_none(error);
    claim(a, block_of(a, node_of(node)));
    return node;
}

/* ---- edges ---- */

static void **inside_edges(const struct ps_graph_access *a, const struct ps_graph_node *n)
{
    return (void **)(void *)((uint8_t *)(uintptr_t)n + edges_at(a));
}

/* Where edge i of a node is kept, or would be; `way`: of an access object that asks where nodes
 * are, else NULL. */
static void **edge_at(const struct ps_graph_access *a, const struct ps_graph_node *n, uint64_t i,
                      const struct ps_access *way)
{
    if (i < inside(a))
        return inside_edges(a, n) + i;
    uint64_t at = i - inside(a), newest = (n->edges - 1 - inside(a)) / PIECE_EDGES;
    struct piece *p = n->more;
    for (uint64_t k = newest;; k--, p = p->next) {
        p = way ? structure_at(way, 1, p) : p;
        if (k == at / PIECE_EDGES)
            return p->to + at % PIECE_EDGES;
    }
}

/* In a block that is claimed, or in a piece. */
static void edge_set(const struct ps_graph_access *a, const struct ps_graph_node *n, uint64_t i,
                     void *to)
{
    void **edge = edge_at(a, n, i, NULL);
    structure_stores(&a->base, edge, sizeof *edge);
    *edge = to;
}

/* The node is about to get an edge: a new piece if it needs one. */
static int edge_prepare(const struct ps_graph_access *a, struct ps_graph_node *n)
{
    if (n->edges == UINT32_MAX)
        return -EFBIG;
    if (n->edges < inside(a) || (n->edges - inside(a)) % PIECE_EDGES != 0)
        return 0;
    struct piece *p = structure_take_near(&a->base, sizeof *p, n);
    if (!p)
        return -errno;
    p->next = n->more;
    n->more = p;
    return 0;
}

int ps_graph_link(struct ps_graph_access *a, void *from, void *to)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_graph_node *n = node_of(from), *other = node_of(to);
    claim(a, block_of(a, n));
    claim(a, block_of(a, other));
    if (other->incoming == UINT32_MAX)
        return -EFBIG;
    error = edge_prepare(a, n);
    if (error)
        return error;
    n->edges++;
    edge_set(a, n, n->edges - 1, to);
    other->incoming++;
    return 0;
}

/* Edge i goes; the last one takes its number, and a piece that is empty then is given back. */
static void edge_erase(const struct ps_graph_access *a, struct ps_graph_node *n, uint64_t i)
{
    edge_set(a, n, i, *edge_at(a, n, n->edges - 1, NULL));
    n->edges--;
    if (n->edges < inside(a) || (n->edges - inside(a)) % PIECE_EDGES != 0)
        return;
    struct piece *p = n->more;
    n->more = p->next;
    structure_give(&a->base, p);
}

static void incoming_less(const struct ps_graph_access *a, struct ps_graph_node *n)
{
    claim(a, block_of(a, n));
    n->incoming--;
}

int ps_graph_unlink(struct ps_graph_access *a, void *from, void *to)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_graph_node *n = node_of(from);
    claim(a, block_of(a, n));
    uint64_t i = 0;
    while (i < n->edges && *edge_at(a, n, i, NULL) != to)
        i++;
    if (i == n->edges)
        return -ENOENT;
    edge_erase(a, n, i);
    incoming_less(a, node_of(to));
    return 0;
}

int ps_graph_remove(struct ps_graph_access *a, void *node)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_graph_node *n = node_of(node);
    struct block *b = block_of(a, n);
    claim(a, b);
    uint64_t own = 0;
    for (uint64_t i = 0; i < n->edges; i++)
        own += *edge_at(a, n, i, NULL) == node;
    if (own != n->incoming)
        return -EBUSY;
    for (; n->edges > 0; edge_erase(a, n, n->edges - 1))
        incoming_less(a, node_of(*edge_at(a, n, n->edges - 1, NULL)));
    b->used &= ~(1ull << n->index);
    if (b->used == 0)
        block_give(a, b);
    return 0;
}

/* ---- walks ---- */

/* The node of a record, wherever it is just now. */
static void come_to(struct ps_graph_walk *w, const void *record)
{
    w->at = (void *)(uintptr_t)record;
    w->node = structure_at(&w->access.base, 0, node_of(record));
}

void ps_graph_walk(struct ps_graph_walk *w, const void *start)
{
    if (w->access.base.error == 0 && !start)
        w->access.base.error = -EINVAL;
    if (w->access.base.error == 0)
        come_to(w, start);
}

const void *ps_graph_here(const struct ps_graph_walk *w)
{
    return w->access.base.error ? structure_none(w->access.base.error) : record_of(w->node);
}

int64_t ps_graph_degree(const struct ps_graph_walk *w)
{
    return w->access.base.error ? w->access.base.error : (int64_t)w->node->edges;
}

void *ps_graph_edge(struct ps_graph_walk *w, uint64_t number)
{
    int error = w->access.base.error;
    if (error || number >= w->node->edges)
        return structure_none(error ? error : -ENOENT);
    return *edge_at(&w->access, w->node, number, &w->access.base);
}

const void *ps_graph_follow(struct ps_graph_walk *w, uint64_t number)
{
    const void *to = ps_graph_edge(w, number);
    if (!to)
        return NULL;
    come_to(w, to);
    return record_of(w->node);
}

/* ---- all nodes ---- */

/* The first node of a number from `at` on, and its number, or NULL. */
static struct ps_graph_node *next_node(const struct ps_graph_access *a, uint64_t *at)
{
    unsigned per = per_block(a);
    while (*at / PS_CLUSTER_NODES < graph_of(a)->clusters) {
        uint64_t cluster = *at / PS_CLUSTER_NODES, in = *at % PS_CLUSTER_NODES;
        struct block **blocks = cluster_find(a, cluster);
        for (unsigned k = (unsigned)in / per; blocks && k < per_cluster(a); k++) {
            unsigned first = in > k * per ? (unsigned)in - k * per : 0;
            uint64_t rest = blocks[k] ? blocks[k]->used >> first : 0;
            if (rest) {
                unsigned index = first + (unsigned)__builtin_ctzll(rest);
                *at = cluster * PS_CLUSTER_NODES + k * per + index;
                return node_in(a, blocks[k], index);
            }
        }
        *at = (cluster + 1) * PS_CLUSTER_NODES;
    }
    return NULL;
}

void *ps_graph_next(struct ps_graph_range *r)
{
    struct ps_graph_node *n = r->access.base.error ? NULL : next_node(&r->access, &r->next);
    if (!n)
        return structure_none(r->access.base.error);
    r->next++;
    return record_of(n);
}

/* ---- every invariant ---- */

/* Of an address; sums of these are equal where the same addresses were added, in any order. */
static uint64_t mark_of(const void *p)
{
    uint64_t n = (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u;
    return (n ^ n >> 29) * 0xbf58476d1ce4e5b9u;
}

struct sums { uint64_t going, coming; };

static const char *check_edges(const struct ps_graph_access *a, const struct ps_graph_node *n,
                               struct ps_graph_stats *stats, struct sums *sums)
{
    uint64_t pieces = 0, beyond = n->edges > inside(a) ? n->edges - inside(a) : 0;
    for (const struct piece *p = n->more; p && pieces <= beyond; p = p->next)
        pieces++;
    if (pieces != (beyond + PIECE_EDGES - 1) / PIECE_EDGES)
        return "a node does not have the pieces of edges that it counts";
    stats->pieces += pieces;
    stats->edges += n->edges;
    for (uint64_t i = 0; i < n->edges; i++) {
        const void *to = *edge_at(a, n, i, NULL);
        sums->going += mark_of(to);
        stats->within += block_of(a, node_of(to))->cluster == block_of(a, n)->cluster;
    }
    sums->coming += mark_of(record_of(n)) * n->incoming;
    return NULL;
}

static const char *check_block(const struct ps_graph_access *a, const struct block *b,
                               struct ps_graph_stats *stats, struct sums *sums)
{
    const char *why = NULL;
    unsigned room = block_room(a, b->number);
    if (b->used == 0 || (room < 64 && b->used >> room))
        return "a block is empty, or holds more than fits it";
    stats->blocks++;
    for (unsigned i = 0; !why && i < room; i++) {
        if (!(b->used >> i & 1))
            continue;
        stats->nodes++;
        if (node_in(a, b, i)->index != i)
            return "a node does not know its place";
        why = check_edges(a, node_in(a, b, i), stats, sums);
    }
    return why;
}

static const char *check(const struct ps_graph_access *a, struct ps_graph_stats *stats)
{
    struct sums sums = { 0 };
    uint64_t unused;
    const char *why = blocks_check(&a->base, &graph_of(a)->directory, &unused);
    if (graph_of(a)->hand && graph_of(a)->hand >= graph_of(a)->clusters)
        return "the head is spoilt";
    for (uint64_t c = 0; !why && c < graph_of(a)->clusters; c++) {
        struct block **blocks = cluster_find(a, c);
        unsigned there = 0;
        for (unsigned k = 0; !why && blocks && k < per_cluster(a); k++) {
            if (!blocks[k])
                continue;
            there = 1;
            why = blocks[k]->cluster != c || blocks[k]->number != k
                      ? "a block is not the one that the directory says"
                      : check_block(a, blocks[k], stats, &sums);
        }
        stats->clusters += there;
    }
    return why                          ? why
           : sums.going != sums.coming ? "edges do not lead to the nodes that count them"
                                       : NULL;
}

int ps_graph_check(const struct ps_graph_access *a, struct ps_graph_stats *stats, const char **why)
{
    struct ps_graph_stats own = { 0 };
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
