/*
 * vector.h - a vector: records by their number, from 0.
 *
 *   PS_VECTOR(points, struct point)
 *
 * makes `struct points_head` (for a root object), `struct points` (an instance) and the access
 * objects points_items and points_range. Records never move while the vector grows. Those of zeros,
 * which a resize left, take no memory until one of their block is changed.
 *
 * What locks what. A look-up reads the head, and a node of each level of a tree over blocks of 4048
 * bytes. A change of a record writes its block alone. An append also writes the head, and so waits
 * for all who look at the vector: where many append, use a queue.
 */
#ifndef PS_VECTOR_H
#define PS_VECTOR_H

#include "blocks.h"

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_vector {
    struct ps_head head;
    struct ps_blocks blocks;
    uint64_t count;
    uint64_t reserved[7];
};
struct ps_vector_access { struct ps_access base; };
struct ps_vector_range {
    struct ps_vector_access access;
    uint64_t next, end;
};
struct ps_vector_stats { uint64_t records, blocks, branches; };

int ps_vector_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_vector_tear_down(const struct ps_instance *i, const struct ps_type *type);
int64_t ps_vector_count(const struct ps_vector_access *a);
void *ps_vector_at(struct ps_vector_access *a, uint64_t number, enum ps_mode mode);
int ps_vector_append(struct ps_vector_access *a, const void *record);
int ps_vector_resize(struct ps_vector_access *a, uint64_t count);
void *ps_vector_next(struct ps_vector_range *r);
/* Walks all blocks: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_vector_check(const struct ps_vector_access *a, struct ps_vector_stats *stats,
                    const char **why);

/*
 * What the line makes, for NAME, record R:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_items, a, &instance, PS_LOOK or PS_CHANGE):
 *   int64_t NAME_count(&a)                         records, or -errno
 *   const R *NAME_get(&a, uint64_t number)         NULL with ENOENT: not so many
 *   R *NAME_change(&a, uint64_t number)            the same, to write to
 *   int NAME_append(&a, const R *)                 copies it
 *   int NAME_resize(&a, uint64_t count)            cuts off, or adds zeros. -EFBIG: too many
 * PS_ACCESS(NAME_range, r, &instance, uint64_t from, uint64_t end, mode): from <= number < end.
 *   const R *NAME_next(&r)                         NULL with errno 0 at the end
 *   uint64_t NAME_number(&r)                       of the record that came last
 */
#define PS_VECTOR_OF(NAME, R, N)                                                                  \
    _Static_assert(sizeof(R) <= (N) && _Alignof(R) <= 16, "a record fits a node");                \
    typedef R NAME##_r;                                                                           \
    static const struct ps_type NAME##_type_ = {.structure = "vector",                            \
                                                .name = #R,                                       \
                                                .head_bytes = sizeof(struct ps_vector),           \
                                                .node_bytes = (N),                                \
                                                .record_bytes = sizeof(R),                        \
                                                .record_align = _Alignof(R)};                     \
    PS_HEAD_(NAME, ps_vector);                                                                    \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_vector);                                                                    \
    PS_CLASS_(NAME, items, ps_vector);                                                            \
    PS_SPAN_(NAME, ps_vector, const NAME##_r, next);                                              \
    PS_FUNCTION_ int64_t NAME##_count(const struct NAME##_items *a)                               \
    {                                                                                             \
        return ps_vector_count(&a->access);                                                       \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_get(struct NAME##_items *a, uint64_t number)              \
    {                                                                                             \
        return ps_vector_at(&a->access, number, PS_LOOK);                                         \
    }                                                                                             \
    PS_FUNCTION_ NAME##_r *NAME##_change(struct NAME##_items *a, uint64_t number)                 \
    {                                                                                             \
        return ps_vector_at(&a->access, number, PS_CHANGE);                                       \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_append(struct NAME##_items *a, const NAME##_r *record)                \
    {                                                                                             \
        return ps_vector_append(&a->access, record);                                              \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_resize(struct NAME##_items *a, uint64_t count)                        \
    {                                                                                             \
        return ps_vector_resize(&a->access, count);                                               \
    }                                                                                             \
    PS_FUNCTION_ uint64_t NAME##_number(const struct NAME##_range *r)                             \
    {                                                                                             \
        return r->range.next - 1;                                                                 \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_VECTOR(NAME, R) PS_VECTOR_OF(NAME, R, PS_NODE_BYTES)

#endif
