/*
 * queue.h - a queue: records leave in the order in which they came.
 *
 *   PS_QUEUE(jobs, struct job)
 *
 * makes `struct jobs_head` (for a root object), `struct jobs` (an instance) and the access objects
 * jobs_ends and jobs_range.
 *
 * What locks what. The head is written only when the queue is set up or torn down. Its two ends lie
 * on pages of their own: push writes the back and the last node, pop writes the front and reads the
 * first node. So one who pushes and one who pops meet only while the queue is so short that both
 * ends are in one node. Several who push wait for each other, as do several who pop. No record is
 * counted: ps_queue_check counts.
 */
#ifndef PS_QUEUE_H
#define PS_QUEUE_H

#include "structure.h"

/* One end: at the front, how many records of the node have left. */
struct ps_queue_end {
    struct ps_queue_node *node;
    uint32_t left, claim;                               /* claim: 0, and written first */
};

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_queue {
    struct ps_head head;
    struct ps_queue_end *front, *back;
    uint64_t reserved[8];
};
struct ps_queue_access { struct ps_access base; };
struct ps_queue_range {
    struct ps_queue_access access;
    const struct ps_queue_node *node;                   /* NULL: not begun */
    uint64_t at;
};
struct ps_queue_stats { uint64_t records, nodes; };

int ps_queue_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_queue_tear_down(const struct ps_instance *i, const struct ps_type *type);
int ps_queue_push(struct ps_queue_access *a, const void *record);
int ps_queue_pop(struct ps_queue_access *a, void *record);
void *ps_queue_first(const struct ps_queue_access *a);
void *ps_queue_next(struct ps_queue_range *r);
/* Walks all nodes: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_queue_check(const struct ps_queue_access *a, struct ps_queue_stats *stats,
                   const char **why);

/*
 * What the line makes, for NAME, record R:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_ends, a, &instance, PS_LOOK or PS_CHANGE):
 *   int NAME_push(&a, const R *)                   copies it to the back
 *   int NAME_pop(&a, R *)                          the first leaves, copied there; -ENOENT: empty
 *   const R *NAME_first(&a)                        ... stays; NULL with ENOENT: empty
 * PS_ACCESS(NAME_range, r, &instance, mode): from the front to the back; between two steps records
 * may be pushed, but not popped.
 *   const R *NAME_next(&r)                         NULL with errno 0 at the end
 */
#define PS_QUEUE_OF(NAME, R, N)                                                                   \
    _Static_assert(sizeof(R) + 16 <= (N) && _Alignof(R) <= 16, "a record fits a node");           \
    typedef R NAME##_r;                                                                           \
    static const struct ps_type NAME##_type_ = {.structure = "queue",                             \
                                                .name = #R,                                       \
                                                .head_bytes = sizeof(struct ps_queue),            \
                                                .node_bytes = (N),                                \
                                                .record_bytes = sizeof(R),                        \
                                                .record_align = _Alignof(R)};                     \
    PS_HEAD_(NAME, ps_queue);                                                                     \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_queue);                                                                     \
    PS_CLASS_(NAME, ends, ps_queue);                                                              \
    PS_RANGE_(NAME, ps_queue, const NAME##_r);                                                    \
    PS_FUNCTION_ int NAME##_push(struct NAME##_ends *a, const NAME##_r *record)                   \
    {                                                                                             \
        return ps_queue_push(&a->access, record);                                                 \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_pop(struct NAME##_ends *a, NAME##_r *record)                          \
    {                                                                                             \
        return ps_queue_pop(&a->access, record);                                                  \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_first(const struct NAME##_ends *a)                        \
    {                                                                                             \
        return ps_queue_first(&a->access);                                                        \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i, enum ps_mode mode)   \
    {                                                                                             \
        struct NAME##_range r = {.range = {.node = NULL}};                                        \
        NAME##_range_on_(&r, i, mode);                                                            \
        return r;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_QUEUE(NAME, R) PS_QUEUE_OF(NAME, R, PS_NODE_BYTES)

#endif
