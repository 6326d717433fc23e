/*
 * bitmap.h - a bitmap: one bit for each number, of up to 2^48, all clear at first.
 *
 *   PS_BITMAP(pages_taken)
 *
 * makes `struct pages_taken_head` (for a root object), `struct pages_taken` (an instance) and the
 * access objects pages_taken_bits and pages_taken_range. Memory is taken only for blocks of 32,320
 * bits in which a bit is set.
 *
 * What locks what. A test reads the head and a node of each level of a tree over the blocks; set
 * and clear write the block of the bit, in which its bits are counted, and nothing else unless the
 * block comes or goes. A search for a clear bit reads the blocks that it passes: processes that
 * allocate begin theirs at different numbers.
 */
#ifndef PS_BITMAP_H
#define PS_BITMAP_H

#include "blocks.h"

enum { PS_BITS_LOG = 48 };

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_bitmap {
    struct ps_head head;
    struct ps_blocks blocks;
    uint64_t reserved[8];
};
struct ps_bitmap_access { struct ps_access base; };
struct ps_bitmap_range {
    struct ps_bitmap_access access;
    uint64_t at, end, number;
};
struct ps_bitmap_stats { uint64_t set, blocks, branches; };

int ps_bitmap_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_bitmap_tear_down(const struct ps_instance *i, const struct ps_type *type);
int ps_bitmap_test(const struct ps_bitmap_access *a, uint64_t number);
int ps_bitmap_set(struct ps_bitmap_access *a, uint64_t number);
int ps_bitmap_clear(struct ps_bitmap_access *a, uint64_t number);
int64_t ps_bitmap_first_clear(const struct ps_bitmap_access *a, uint64_t from);
const uint64_t *ps_bitmap_next(struct ps_bitmap_range *r);
/* Walks all blocks: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_bitmap_check(const struct ps_bitmap_access *a, struct ps_bitmap_stats *stats,
                    const char **why);

/*
 * What the line makes, for NAME:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_bits, a, &instance, PS_LOOK or PS_CHANGE):
 *   int NAME_test(&a, uint64_t number)             0 or 1, or -errno
 *   int NAME_set(&a, uint64_t number)              what the bit was, 0 or 1; -EFBIG: from 2^48 on
 *   int NAME_clear(&a, uint64_t number)            what the bit was
 *   int64_t NAME_first_clear(&a, uint64_t from)    the first clear bit there or behind it
 * PS_ACCESS(NAME_range, r, &instance, uint64_t from, uint64_t end, mode): from <= number < end.
 *   const uint64_t *NAME_next(&r)                  the number of the next bit that is set; NULL
 *                                                  with errno 0 at the end
 */
#define PS_BITMAP_OF(NAME, N)                                                                     \
    static const struct ps_type NAME##_type_ = {.structure = "bitmap",                            \
                                                .name = "bit",                                    \
                                                .head_bytes = sizeof(struct ps_bitmap),           \
                                                .node_bytes = (N)};                               \
    PS_HEAD_(NAME, ps_bitmap);                                                                    \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_bitmap);                                                                    \
    PS_CLASS_(NAME, bits, ps_bitmap);                                                             \
    PS_SPAN_(NAME, ps_bitmap, const uint64_t, at);                                                \
    PS_FUNCTION_ int NAME##_test(const struct NAME##_bits *a, uint64_t number)                    \
    {                                                                                             \
        return ps_bitmap_test(&a->access, number);                                                \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_set(struct NAME##_bits *a, uint64_t number)                           \
    {                                                                                             \
        return ps_bitmap_set(&a->access, number);                                                 \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_clear(struct NAME##_bits *a, uint64_t number)                         \
    {                                                                                             \
        return ps_bitmap_clear(&a->access, number);                                               \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_first_clear(const struct NAME##_bits *a, uint64_t from)           \
    {                                                                                             \
        return ps_bitmap_first_clear(&a->access, from);                                           \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_BITMAP(NAME) PS_BITMAP_OF(NAME, PS_NODE_BYTES)

#endif
