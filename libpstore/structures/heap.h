/*
 * heap.h - heaps: storage management nested in containers, in any other memory and in each other.
 *
 * uDatabase has three levels of storage, each with its own form of address: an address space
 * (pointers), a segment (here a container, a congeries, or the heap of the C library: struct
 * ps_memory), and heaps, which lie in a segment or in each other ("Storage Management"). Three
 * schemes:
 *
 *   uniform    all allocations have one size; an address is a number. PS_UNIFORM(nodes, 2048)
 *   variable   each has its own; the heap is one block of memory, such as an allocation of another
 *              heap; an address is an offset. struct ps_variable
 *   dynamic    each may grow and shrink, in its place or by moving; an address is the number of an
 *              item, which stays while the bytes move, so that they can be compacted at any time.
 *              PS_DYNAMIC(items)
 *
 * The last two lines make `struct NAME_head` (for a root object), `struct NAME` (an instance) and
 * an access object, as the lines of all structures do (structure.h). One object file works in
 * containers and in volatile memory. An error: nothing was changed. A pointer from NAME_at is good
 * until the next change of the heap.
 *
 * What locks what. Uniform: taking and giving write the block of the allocation, and the head when
 * a block becomes full, has room again, comes or goes. Dynamic: taking, giving and resizing write
 * the head; looking reads it and two nodes.
 *
 * Chapter: heaps.md.
 */
#ifndef PS_HEAP_H
#define PS_HEAP_H

#include <errno.h>

#include "blocks.h"

/* What a full heap calls: it makes room elsewhere (raises a limit, splits a node, removes what is
 * old) and returns 0, then the heap tries once more; or the error that the heap is to return.
 * bytes: what did not fit. NULL instead of an expansion object: the error is -ENOSPC, or what the
 * level above says. */
struct ps_expansion {
    int (*expand)(void *arg, size_t bytes);
    void *arg;
};

/* ---- uniform ---- */

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_uniform {
    struct ps_head head;
    struct ps_blocks blocks;
    uint64_t room;              /* number of the first block that has room, plus 1; 0: none */
    uint64_t next;              /* blocks have lower numbers */
    uint64_t count, limit;      /* blocks, and how many there may be; 0: any */
    uint64_t reserved[4];
};
struct ps_uniform_access { struct ps_access base; };
struct ps_uniform_stats { uint64_t taken, blocks, branches; };

int ps_uniform_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_uniform_tear_down(const struct ps_instance *i, const struct ps_type *type);
int ps_uniform_limit(struct ps_uniform_access *a, uint64_t blocks);
int64_t ps_uniform_take(struct ps_uniform_access *a, const struct ps_expansion *expansion);
int ps_uniform_give(struct ps_uniform_access *a, uint64_t number);
void *ps_uniform_at(const struct ps_uniform_access *a, uint64_t number);
int ps_uniform_check(const struct ps_uniform_access *a, struct ps_uniform_stats *stats,
                     const char **why);

/*
 * What the line makes, for NAME and a size in bytes, 16 to 16,336:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_units, a, &instance, PS_LOOK or PS_CHANGE):
 *   int64_t NAME_take(&a, expansion or NULL)  the number of a new allocation, zeroed; or -ENOSPC
 *   int NAME_give(&a, uint64_t number)        -ENOENT: it is not taken
 *   void *NAME_at(&a, uint64_t number)        its bytes, 16-byte aligned; NULL with errno ENOENT
 *   int NAME_limit(&a, uint64_t blocks)       the segment's size: so many blocks at most (0: as the
 *                                             memory has); a full segment calls its representative,
 *                                             the expansion object, which may raise it. Kept
 */
#define PS_UNIFORM_OF(NAME, UNIT, N)                                                              \
    _Static_assert((UNIT) >= 16 && (UNIT) <= (N) - 48, "a unit fits a node");                     \
    static const struct ps_type NAME##_type_ = {.structure = "uniform heap",                      \
                                                .name = "unit",                                   \
                                                .head_bytes = sizeof(struct ps_uniform),          \
                                                .record_bytes = ((UNIT) + 15) / 16 * 16,          \
                                                .node_bytes = (N)};                               \
    PS_HEAD_(NAME, ps_uniform);                                                                   \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_uniform);                                                                   \
    PS_CLASS_(NAME, units, ps_uniform);                                                           \
    PS_FUNCTION_ int64_t NAME##_take(struct NAME##_units *a, const struct ps_expansion *e)        \
    {                                                                                             \
        return ps_uniform_take(&a->access, e);                                                    \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_give(struct NAME##_units *a, uint64_t number)                         \
    {                                                                                             \
        return ps_uniform_give(&a->access, number);                                               \
    }                                                                                             \
    PS_FUNCTION_ void *NAME##_at(const struct NAME##_units *a, uint64_t number)                   \
    {                                                                                             \
        return ps_uniform_at(&a->access, number);                                                 \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_limit(struct NAME##_units *a, uint64_t blocks)                        \
    {                                                                                             \
        return ps_uniform_limit(&a->access, blocks);                                              \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_UNIFORM(NAME, UNIT)                                                                    \
    PS_UNIFORM_OF(NAME, UNIT, (UNIT) + 48 <= PS_NODE_BYTES ? PS_NODE_BYTES : PS_NODE_MAX)

/* ---- variable ---- */

/* Lies at the beginning of the heap's bytes. Behind it are bytes of the owner's, such as a table of
 * offsets; allocations come down from the end towards them. */
struct ps_variable {
    uint16_t front, low;        /* the owner's bytes end, allocations begin: offsets */
    uint16_t end, mask;         /* mask: the alignment less 1 */
    uint16_t free, holes;       /* the first hole, or 0; bytes of all holes. Holes ascend */
};
enum { PS_VARIABLE_MIN = 64, PS_VARIABLE_MAX = 32760, PS_VARIABLE_TAKEN = 0x8000 };

/* Makes a heap of PS_VARIABLE_MIN to PS_VARIABLE_MAX bytes, whose allocations are aligned to 2, 4
 * or 8 bytes, as `memory` is; what was there is forgotten. Give the bytes back when the heap is not
 * wanted any more: that ends it. NULL: EINVAL. */
struct ps_variable *ps_variable_make(void *memory, size_t bytes, unsigned align);
/* From now on so many bytes behind the head are the owner's, which reads and writes them as it
 * likes; 0 at first. -ENOSPC: the heap has given out what lies there. */
static inline int ps_variable_front(struct ps_variable *h, size_t bytes)
{
    if (bytes > PS_VARIABLE_MAX || sizeof *h + bytes > h->low)
        return -ENOSPC;
    h->front = (uint16_t)(sizeof *h + bytes);
    return 0;
}
/* The offset of a new allocation, zeroed; -EINVAL: 0 bytes; -EMSGSIZE: not even an empty heap has
 * so much; -ENOSPC. */
int64_t ps_variable_take(struct ps_variable *h, size_t bytes, const struct ps_expansion *expansion);
/* -ENOENT: no allocation begins there; of an offset that never was one's this is not always
 * noticed. */
int ps_variable_give(struct ps_variable *h, uint64_t offset);
/* NULL with errno ENOENT. */
void *ps_variable_at(const struct ps_variable *h, uint64_t offset);
/* Bytes of an allocation, as many as were asked for; 0: there is none. */
size_t ps_variable_bytes(const struct ps_variable *h, uint64_t offset);
/* The first allocation behind an offset (0: of all); 0: the end. */
uint64_t ps_variable_next(const struct ps_variable *h, uint64_t offset);
/* 0, or -EUCLEAN and in *why what is wrong. */
int ps_variable_check(const struct ps_variable *h, const char **why);

/* Bytes of allocations, with their headers; 0: the heap is empty. */
static inline unsigned ps_variable_used(const struct ps_variable *h)
{
    return (unsigned)(h->end - h->low - h->holes);
}

/* The same for owners that write all of an allocation at once, and pass no offset but of one that
 * is there: not zeroed; not looked up. They are what the compiler lays into the owner's code. */
int64_t ps_variable_search(struct ps_variable *h, size_t bytes, size_t front,
                           const struct ps_expansion *expansion);
/* Bytes that an allocation takes of the heap, with its header. */
static inline unsigned ps_variable_chunk(const struct ps_variable *h, size_t bytes)
{
    const unsigned least = bytes < 2 ? 2 : (unsigned)bytes;
    return (least + 2 + h->mask) & ~(unsigned)h->mask;
}
static inline void *ps_variable_here(const struct ps_variable *h, uint64_t offset)
{
    return (void *)((uintptr_t)h + offset);
}
static inline size_t ps_variable_length(const struct ps_variable *h, uint64_t offset)
{
    return ((const uint16_t *)ps_variable_here(h, offset))[-1] & ~PS_VARIABLE_TAKEN;
}
/* An allocation, of 1 to PS_VARIABLE_MAX bytes, and `front` bytes more for the owner: both or
 * none. */
static inline int64_t ps_variable_reserve(struct ps_variable *h, size_t bytes, size_t front,
                                          const struct ps_expansion *expansion)
{
    const unsigned low = h->low - ps_variable_chunk(h, bytes);
    if (h->free || (int)(low - h->front - front) < 0)
        return ps_variable_search(h, bytes, front, expansion);
    *(uint16_t *)ps_variable_here(h, low) = (uint16_t)(PS_VARIABLE_TAKEN | bytes);
    h->low = (uint16_t)low;
    h->front = (uint16_t)(h->front + front);
    return low + 2;
}

/* ---- dynamic ---- */

enum { PS_ITEM_MAX = PS_NODE_BYTES - 24 };

/* The head: kept, 128 bytes. */
struct ps_dynamic {
    struct ps_head head;
    struct ps_blocks table, store;      /* where each item is; the items */
    uint32_t next, free;                /* items have lower numbers; first free one plus 1 */
    uint32_t filled, stores;            /* store block that is filled, plus 1; how many numbers */
    uint32_t packed, reserved;          /* store blocks below are compact: for NAME_compact */
    uint64_t bytes;                     /* of items, with their headers */
};
struct ps_dynamic_access { struct ps_access base; };
struct ps_dynamic_stats { uint64_t items, bytes, blocks, branches, holes; };

int ps_dynamic_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_dynamic_tear_down(const struct ps_instance *i, const struct ps_type *type);
int64_t ps_dynamic_take(struct ps_dynamic_access *a, size_t bytes);
int ps_dynamic_give(struct ps_dynamic_access *a, uint64_t item);
int ps_dynamic_resize(struct ps_dynamic_access *a, uint64_t item, size_t bytes);
void *ps_dynamic_at(const struct ps_dynamic_access *a, uint64_t item, size_t *bytes);
int64_t ps_dynamic_compact(struct ps_dynamic_access *a, size_t budget);
int ps_dynamic_check(const struct ps_dynamic_access *a, struct ps_dynamic_stats *stats,
                     const char **why);

/*
 * What the line makes, for NAME:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_items, a, &instance, PS_LOOK or PS_CHANGE):
 *   int64_t NAME_take(&a, size_t bytes)            a new item of 1 to PS_ITEM_MAX bytes, zeroed:
 *                                                  its number; -EMSGSIZE, -EINVAL, -ENOSPC
 *   int NAME_give(&a, uint64_t item)               -ENOENT
 *   int NAME_resize(&a, uint64_t item, size_t)     0: in its place; 1: it has moved; what is new is
 *                                                  zeros
 *   void *NAME_at(&a, uint64_t item, size_t *bytes)  where it lies just now, 8-byte aligned (bytes
 *                                                  may be NULL); NULL with errno ENOENT
 *   int64_t NAME_compact(&a, size_t budget)        moves items together, gives empty blocks back:
 *                                                  how many bytes it moved, about `budget` at most;
 *                                                  0: nothing is left to do. Call it when idle
 */
#define PS_DYNAMIC(NAME)                                                                          \
    static const struct ps_type NAME##_type_ = {.structure = "dynamic heap",                      \
                                                .name = "item",                                   \
                                                .head_bytes = sizeof(struct ps_dynamic),          \
                                                .node_bytes = PS_NODE_BYTES};                     \
    PS_HEAD_(NAME, ps_dynamic);                                                                   \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_dynamic);                                                                   \
    PS_CLASS_(NAME, items, ps_dynamic);                                                           \
    PS_FUNCTION_ int64_t NAME##_take(struct NAME##_items *a, size_t bytes)                        \
    {                                                                                             \
        return ps_dynamic_take(&a->access, bytes);                                                \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_give(struct NAME##_items *a, uint64_t item)                           \
    {                                                                                             \
        return ps_dynamic_give(&a->access, item);                                                 \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_resize(struct NAME##_items *a, uint64_t item, size_t bytes)           \
    {                                                                                             \
        return ps_dynamic_resize(&a->access, item, bytes);                                        \
    }                                                                                             \
    PS_FUNCTION_ void *NAME##_at(const struct NAME##_items *a, uint64_t item, size_t *bytes)      \
    {                                                                                             \
        return ps_dynamic_at(&a->access, item, bytes);                                            \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_compact(struct NAME##_items *a, size_t budget)                    \
    {                                                                                             \
        return ps_dynamic_compact(&a->access, budget);                                            \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")

#endif
