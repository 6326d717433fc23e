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

/* Lies at the beginning of the heap's bytes. */
struct ps_variable {
    uint32_t bytes, used;       /* all, and those of allocations with their headers */
    uint32_t free;              /* offset of the first hole; 0: none. Holes ascend */
    uint32_t count;             /* allocations */
};
enum { PS_VARIABLE_MIN = 64, PS_VARIABLE_MAX = 1 << 30 };

/* Makes a heap of these bytes, 8-byte aligned, PS_VARIABLE_MIN to PS_VARIABLE_MAX; what was there
 * is forgotten. Give them back when the heap is not wanted any more: that ends it. NULL: EINVAL. */
struct ps_variable *ps_variable_make(void *memory, size_t bytes);
/* The offset of a new allocation, zeroed, 8-byte aligned; -EINVAL: 0 bytes; -EMSGSIZE: not even an
 * empty heap has so much; -ENOSPC. */
int64_t ps_variable_take(struct ps_variable *h, size_t bytes, const struct ps_expansion *expansion);
/* -ENOENT: no allocation begins there. */
int ps_variable_give(struct ps_variable *h, uint64_t offset);
/* NULL with errno ENOENT. */
void *ps_variable_at(const struct ps_variable *h, uint64_t offset);
/* Bytes of an allocation, rounded up to 8; 0: there is none. */
size_t ps_variable_bytes(const struct ps_variable *h, uint64_t offset);
/* The first allocation behind an offset (0: of all); 0: the end. */
uint64_t ps_variable_next(const struct ps_variable *h, uint64_t offset);
/* 0, or -EUCLEAN and in *why what is wrong. */
int ps_variable_check(const struct ps_variable *h, const char **why);

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
