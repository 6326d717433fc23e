/*
 * graph.h - a directed graph: nodes that hold a record and their edges, in clusters.
 *
 *   PS_GRAPH(web, struct page, 8)                          room for 8 edges in the node itself
 *
 * makes `struct web_head` (for a root object), `struct web` (an instance) and the access objects
 * web_nodes, web_walk and web_range. A node is named by the address of its record, which never
 * changes: ordinary pointers, which other structures may hold as well.
 *
 * Up to 64 nodes are a cluster: they lie in blocks of 4048 bytes that are allocated near each
 * other. Who adds a node says near which; it comes into that one's block if there is room, else
 * into its cluster, else where the last such node went.
 *
 * What locks what. A step of a walk reads one node. A change of a record writes its block; a new
 * edge that of both ends, for a node counts the edges that lead to it. A new node writes its block;
 * the directory of blocks too if that is a new one, and the head if the cluster is.
 */
#ifndef PS_GRAPH_H
#define PS_GRAPH_H

#include "blocks.h"

enum { PS_CLUSTER_NODES = 64 };

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_graph {
    struct ps_head head;
    struct ps_blocks directory;
    uint64_t clusters, hand;    /* hand: where nodes go for which there is no room nearby */
    uint64_t reserved[6];
};
struct ps_graph_access { struct ps_access base; };
struct ps_graph_walk {
    struct ps_graph_access access;
    void *at;                   /* the node's record */
    struct ps_graph_node *node;
};
struct ps_graph_range {
    struct ps_graph_access access;
    uint64_t next;              /* 64 times the cluster, and the node in it */
};
struct ps_graph_stats { uint64_t nodes, edges, within, clusters, blocks, pieces; };

int ps_graph_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_graph_tear_down(const struct ps_instance *i, const struct ps_type *type);
void *ps_graph_add(struct ps_graph_access *a, const void *near, const void *record);
int ps_graph_remove(struct ps_graph_access *a, void *node);
int ps_graph_link(struct ps_graph_access *a, void *from, void *to);
int ps_graph_unlink(struct ps_graph_access *a, void *from, void *to);
void *ps_graph_change(struct ps_graph_access *a, void *node);
void ps_graph_walk(struct ps_graph_walk *w, const void *start);
const void *ps_graph_here(const struct ps_graph_walk *w);
int64_t ps_graph_degree(const struct ps_graph_walk *w);
void *ps_graph_edge(struct ps_graph_walk *w, uint64_t number);
const void *ps_graph_follow(struct ps_graph_walk *w, uint64_t number);
void *ps_graph_next(struct ps_graph_range *r);
/* Walks all nodes and edges: 0, or -EUCLEAN and in *why what is wrong (a constant). within: edges
 * that stay in their cluster; pieces: of edges for which the node had no room. */
int ps_graph_check(const struct ps_graph_access *a, struct ps_graph_stats *stats,
                   const char **why);

/*
 * What the line makes, for NAME, record R:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_nodes, a, &instance, PS_LOOK or PS_CHANGE):
 *   R *NAME_add(&a, const R *near, const R *)      copies the record; near NULL: anywhere. NULL
 *                                                  with errno
 *   int NAME_remove(&a, R *)                       -EBUSY: edges of other nodes lead to it
 *   R *NAME_change(&a, const R *)                  the same node, to write to
 *   int NAME_link(&a, R *from, R *to)              a further edge, also where there is one
 *   int NAME_unlink(&a, R *from, R *to)            one edge, whose number the last edge takes;
 *                                                  -ENOENT
 * PS_ACCESS(NAME_walk, w, &instance, const R *start, mode): from node to node along edges.
 *   const R *NAME_here(&w)                         NULL with errno
 *   int64_t NAME_degree(&w)                        edges of this node, or -errno
 *   R *NAME_edge(&w, uint64_t number)              where that edge leads; NULL with ENOENT
 *   const R *NAME_follow(&w, uint64_t number)      goes there; NULL with ENOENT: stays
 * PS_ACCESS(NAME_range, r, &instance, mode): all nodes, cluster by cluster.
 *   const R *NAME_next(&r)                         NULL with errno 0 at the end
 * Changes meanwhile are allowed; a node that a walk stands at is not to be removed. Any pointer to
 * a record is taken for a node's, as it is not looked up: pass none to a node that was removed, to
 * one of another graph, or to a copy of a record.
 */
#define PS_GRAPH_OF(NAME, R, EDGES, N)                                                            \
    _Static_assert(sizeof(R) + 8 * (EDGES) + 56 <= (N) && _Alignof(R) <= 8 && (EDGES) <= 1024,    \
                   "a node fits its block");                                                      \
    typedef R NAME##_r;                                                                           \
    static const struct ps_type NAME##_type_ = {.structure = "graph",                             \
                                                .name = #R,                                       \
                                                .head_bytes = sizeof(struct ps_graph),            \
                                                .node_bytes = (N),                                \
                                                .key_bytes = 8 * (EDGES),                         \
                                                .key_align = 8,                                   \
                                                .record_bytes = sizeof(R),                        \
                                                .record_align = _Alignof(R)};                     \
    PS_HEAD_(NAME, ps_graph);                                                                     \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_graph);                                                                     \
    PS_CLASS_(NAME, nodes, ps_graph);                                                             \
    PS_RANGE_(NAME, ps_graph, const NAME##_r);                                                    \
    struct NAME##_walk {                                                                          \
        struct ps_graph_walk walk;                                                                \
    };                                                                                            \
    PS_FUNCTION_ NAME##_r *NAME##_add(struct NAME##_nodes *a, const NAME##_r *near,               \
                                      const NAME##_r *record)                                     \
    {                                                                                             \
        return ps_graph_add(&a->access, near, record);                                            \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_remove(struct NAME##_nodes *a, NAME##_r *node)                        \
    {                                                                                             \
        return ps_graph_remove(&a->access, node);                                                 \
    }                                                                                             \
    PS_FUNCTION_ NAME##_r *NAME##_change(struct NAME##_nodes *a, const NAME##_r *node)            \
    {                                                                                             \
        return ps_graph_change(&a->access, (void *)(uintptr_t)node);                              \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_link(struct NAME##_nodes *a, NAME##_r *from, NAME##_r *to)            \
    {                                                                                             \
        return ps_graph_link(&a->access, from, to);                                               \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_unlink(struct NAME##_nodes *a, NAME##_r *from, NAME##_r *to)          \
    {                                                                                             \
        return ps_graph_unlink(&a->access, from, to);                                             \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i, enum ps_mode mode)   \
    {                                                                                             \
        struct NAME##_range r = {.range = {.next = 0}};                                           \
        NAME##_range_on_(&r, i, mode);                                                            \
        return r;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_walk NAME##_walk_open(const struct NAME *i, const NAME##_r *start, \
                                                     enum ps_mode mode)                           \
    {                                                                                             \
        struct NAME##_walk w;                                                                     \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        ps_access_open(&w.walk.access.base, &instance, &NAME##_type_, mode);                      \
        ps_graph_walk(&w.walk, start);                                                            \
        return w;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_walk_close(struct NAME##_walk *w)                                    \
    {                                                                                             \
        w->walk.access.base.head = NULL;                                                          \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_here(const struct NAME##_walk *w)                         \
    {                                                                                             \
        return ps_graph_here(&w->walk);                                                           \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_degree(const struct NAME##_walk *w)                               \
    {                                                                                             \
        return ps_graph_degree(&w->walk);                                                         \
    }                                                                                             \
    PS_FUNCTION_ NAME##_r *NAME##_edge(struct NAME##_walk *w, uint64_t number)                    \
    {                                                                                             \
        return ps_graph_edge(&w->walk, number);                                                   \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_follow(struct NAME##_walk *w, uint64_t number)            \
    {                                                                                             \
        return ps_graph_follow(&w->walk, number);                                                 \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_GRAPH(NAME, R, EDGES) PS_GRAPH_OF(NAME, R, EDGES, PS_NODE_BYTES)

#endif
