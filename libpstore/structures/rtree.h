/*
 * rtree.h - an R*-tree: records by a box in space: what lies here, what is near.
 *
 *   PS_RTREE(shops, struct shop, 2)                        in 1 to 4 dimensions
 *
 * makes `struct shops_box` (low and high corner, doubles; a point has both the same), `struct
 * shops_head` (for a root object), `struct shops` (an instance) and the access objects shops_boxes,
 * shops_range and shops_near.
 *
 * What locks what. A look-up reads the head and the nodes whose boxes it has to look into. An
 * insertion reads a node of each level and writes a leaf, and those above it whose box grows; if
 * the leaf is full, some of its records go to neighbours that have room, or it splits, and its
 * parent is written. So two who insert in different places seldom meet.
 */
#ifndef PS_RTREE_H
#define PS_RTREE_H

#include "structure.h"

enum { PS_RTREE_LEVELS = 16, PS_DIMENSIONS_MAX = 4 };

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_rtree {
    struct ps_head head;
    struct ps_rtree_node *root;
    uint64_t reserved[9];
};
struct ps_rtree_access { struct ps_access base; };

/* Which records come: those whose box meets the query's, lies in it, or holds it. */
enum ps_query { PS_INTERSECT, PS_CONTAIN, PS_ENCLOSE };

struct ps_rtree_range {
    struct ps_rtree_access access;
    enum ps_query query;
    int all, state;             /* all: there is no query */
    uint32_t level, top;  /* how far up the path is: all below was gone through; the root's */
    uint64_t seen;
    int (*filter)(const void *box, const void *record, void *arg);
    void *arg;
    struct { struct ps_rtree_node *node; uint32_t at, dropped; } path[PS_RTREE_LEVELS];
    double want[2 * PS_DIMENSIONS_MAX], box[2 * PS_DIMENSIONS_MAX];
};
struct ps_rtree_near {
    struct ps_rtree_access access;
    double point[PS_DIMENSIONS_MAX], squared;
    const void *last;
};
struct ps_rtree_stats { uint64_t records, leaves, branches; uint32_t height, fill; };

int ps_rtree_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_rtree_tear_down(const struct ps_instance *i, const struct ps_type *type);
int ps_rtree_insert(struct ps_rtree_access *a, const void *box, const void *record);
void ps_rtree_range(struct ps_rtree_range *r, const void *box, enum ps_query query);
void *ps_rtree_next(struct ps_rtree_range *r);
const void *ps_rtree_box(const struct ps_rtree_range *r);
int ps_rtree_drop(struct ps_rtree_range *r);
void ps_rtree_near(struct ps_rtree_near *n, const double *point);
void *ps_rtree_nearest(struct ps_rtree_near *n);
/* Walks all of it: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_rtree_check(const struct ps_rtree_access *a, struct ps_rtree_stats *stats,
                   const char **why);
/* A picture of two dimensions: the boxes of nodes and records, at most 4,096. */
int ps_rtree_draw(const struct ps_rtree_access *a, struct ps_sink sink);

/*
 * What the line makes, for NAME, record R:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_boxes, a, &instance, PS_LOOK or PS_CHANGE):
 *   int NAME_insert(&a, const struct NAME_box *, const R *)
 *                                                  copies both; boxes may be equal. -EINVAL: low is
 *                                                  above high, or no number
 * PS_ACCESS(NAME_range, r, &instance, const struct NAME_box *query, how, mode), in no order:
 * PS_INTERSECT: records whose box meets the query's; PS_CONTAIN: those that lie in it; PS_ENCLOSE:
 * those that hold it (a point: with both corners the same). A query that is NULL: all.
 *   const R *NAME_next(&r)                         NULL with errno 0 at the end; EAGAIN: the tree
 *                                                  was changed meanwhile, but by NAME_drop(&r)
 *   const struct NAME_box *NAME_where(&r)          the box of the record that came last
 *   int NAME_drop(&r)                              removes that record; -EINVAL: none came
 *   void NAME_filter(&r, int (*)(const struct NAME_box *, const R *, void *), void *arg)
 * PS_ACCESS(NAME_near, n, &instance, const double point[], mode): all records, the nearest first.
 *   const R *NAME_nearest(&n)                      NULL with errno 0 at the end
 *   double NAME_squared(&n)                        the square of the distance from the point to the
 *                                                  box of the record that came last
 * The tree is not to be changed between two steps of this one.
 */
#define PS_RTREE_OF(NAME, R, D, N)                                                                \
    _Static_assert((D) >= 1 && (D) <= PS_DIMENSIONS_MAX, "one to four dimensions");               \
    _Static_assert(sizeof(R) + (D) * 16 + 16 <= (N) / 8 && _Alignof(R) <= 8,                      \
                   "at least eight records fit a node");                                          \
    struct NAME##_box {                                                                           \
        double low[D], high[D];                                                                   \
    };                                                                                            \
    typedef R NAME##_r;                                                                           \
    static const struct ps_type NAME##_type_ = {.structure = "rtree",                             \
                                                .name = #R,                                       \
                                                .head_bytes = sizeof(struct ps_rtree),            \
                                                .node_bytes = (N),                                \
                                                .key_bytes = sizeof(struct NAME##_box),           \
                                                .key_align = 8,                                   \
                                                .record_bytes = sizeof(R),                        \
                                                .record_align = _Alignof(R)};                     \
    PS_HEAD_(NAME, ps_rtree);                                                                     \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_rtree);                                                                     \
    PS_CLASS_(NAME, boxes, ps_rtree);                                                             \
    PS_RANGE_(NAME, ps_rtree, const NAME##_r);                                                    \
    struct NAME##_near {                                                                          \
        struct ps_rtree_near near;                                                                \
    };                                                                                            \
    PS_FUNCTION_ int NAME##_insert(struct NAME##_boxes *a, const struct NAME##_box *box,          \
                                   const NAME##_r *record)                                        \
    {                                                                                             \
        return ps_rtree_insert(&a->access, box, record);                                          \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i,                      \
                                                       const struct NAME##_box *query,            \
                                                       enum ps_query how, enum ps_mode mode)      \
    {                                                                                             \
        struct NAME##_range r;                                                                    \
        NAME##_range_on_(&r, i, mode);                                                            \
        ps_rtree_range(&r.range, query, how);                                                     \
        return r;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_filter(struct NAME##_range *r,                                       \
                                    int (*filter)(const struct NAME##_box *, const NAME##_r *,    \
                                                  void *),                                        \
                                    void *arg)                                                    \
    {                                                                                             \
        r->range.filter = (int (*)(const void *, const void *, void *))(void (*)(void))filter;    \
        r->range.arg = arg;                                                                       \
    }                                                                                             \
    PS_FUNCTION_ const struct NAME##_box *NAME##_where(const struct NAME##_range *r)              \
    {                                                                                             \
        return ps_rtree_box(&r->range);                                                           \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_drop(struct NAME##_range *r)                                          \
    {                                                                                             \
        return ps_rtree_drop(&r->range);                                                          \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_near NAME##_near_open(const struct NAME *i, const double point[D], \
                                                     enum ps_mode mode)                           \
    {                                                                                             \
        struct NAME##_near n;                                                                     \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        ps_access_open(&n.near.access.base, &instance, &NAME##_type_, mode);                      \
        ps_rtree_near(&n.near, point);                                                            \
        return n;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_near_close(struct NAME##_near *n)                                    \
    {                                                                                             \
        n->near.access.base.head = NULL;                                                          \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_nearest(struct NAME##_near *n)                            \
    {                                                                                             \
        return ps_rtree_nearest(&n->near);                                                        \
    }                                                                                             \
    PS_FUNCTION_ double NAME##_squared(const struct NAME##_near *n)                              \
    {                                                                                             \
        return n->near.squared;                                                                   \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_RTREE(NAME, R, D) PS_RTREE_OF(NAME, R, D, PS_NODE_BYTES)

#endif
