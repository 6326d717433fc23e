/* rtree_private.h - a node of the R*-tree, boxes, and what its files share. */
#ifndef PS_RTREE_PRIVATE_H
#define PS_RTREE_PRIVATE_H

#include "rtree.h"
#include "structure_private.h"

/* A node: this header, then entries of one size: a box, and a record (level 0) or a child. */
struct ps_rtree_node {
    uint32_t level, count;
    uint32_t claim, unused;     /* claim: 0, and written before the others are read */
    double entries[];
};

/* Low corner, then high corner, of as many numbers as the tree has dimensions. */
typedef double box_space[2 * PS_DIMENSIONS_MAX];

static inline struct ps_rtree *rtree_of(const struct ps_rtree_access *a)
{
    return (struct ps_rtree *)(void *)a->base.head;
}
static inline unsigned dimensions(const struct ps_rtree_access *a)
{
    return a->base.type->key_bytes / (unsigned)(2 * sizeof(double));
}
/* Of an entry, in doubles. */
static inline unsigned entry_size(const struct ps_rtree_access *a, unsigned level)
{
    unsigned bytes = level ? (unsigned)sizeof(void *) : a->base.type->record_bytes;
    return 2 * dimensions(a) + (bytes + 7) / 8;
}
static inline unsigned rtree_room(const struct ps_rtree_access *a, unsigned level)
{
    return (a->base.type->node_bytes - (unsigned)sizeof(struct ps_rtree_node)) /
           (8 * entry_size(a, level));
}
static inline double *entry_box(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                                unsigned i)
{
    return (double *)(uintptr_t)n->entries + i * entry_size(a, n->level);
}
static inline void *entry_record(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                                 unsigned i)
{
    return entry_box(a, n, i) + 2 * dimensions(a);
}
static inline struct ps_rtree_node *entry_child(const struct ps_rtree_access *a,
                                                const struct ps_rtree_node *n, unsigned i)
{
    return *(struct ps_rtree_node **)entry_record(a, n, i);
}

/* Boxes. box_join makes `box` large enough for `more`, too. */
void box_join(unsigned d, double *box, const double *more);
double box_area(unsigned d, const double *box);
double box_margin(unsigned d, const double *box);
double box_overlap(unsigned d, const double *a, const double *b);
int box_holds(unsigned d, const double *outer, const double *inner);
int box_meets(unsigned d, const double *a, const double *b);
/* The least box that holds all entries of a node. */
void node_box(const struct ps_rtree_access *a, const struct ps_rtree_node *n, double *box);

/* Cuts a full node and one entry more, of entry_size doubles, by the rules of the R*-tree. */
void rtree_split(const struct ps_rtree_access *a, struct ps_rtree_node *n, const double *more,
                 struct ps_rtree_node *right);

/* Whether a record is one that is asked for, or a child may hold some; want NULL: all are. */
int rtree_wanted(const struct ps_rtree_access *a, const double *want, enum ps_query query,
                 const double *box, int is_record);

enum { RANGE_NEW, RANGE_AT, RANGE_DROPPED, RANGE_END };
/* The generator leaves a child of this level's node: if records were dropped below, it may join
 * another one. At the end the root goes as long as it has one child. */
void rtree_leave(struct ps_rtree_range *r, unsigned level);
void rtree_lower(const struct ps_rtree_access *a);

/* of all R*-trees, by this thread: generators see that they must not go on */
extern __thread uint64_t rtree_changes;

#endif
