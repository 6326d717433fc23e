/*
 * large.h - a large object: bytes by their position, over any number of pages, sparse.
 *
 *   PS_LARGE(film)
 *
 * makes `struct film_head` (for a root object), `struct film` (an instance) and the access object
 * film_bytes. What was never written, or was punched out, is zeros and takes no memory. Up to 2^48
 * bytes. (uDatabase keeps such objects in heaps; a container's ps_alloc gives up to 1 GiB in one
 * piece, at one address: use that where a pointer to it is wanted.)
 *
 * What locks what. Reading reads the head and a node of each level of a tree over blocks of 4,048
 * bytes; writing where a block is there writes that block alone, beyond the end also the head.
 */
#ifndef PS_LARGE_H
#define PS_LARGE_H

#include "blocks.h"

enum { PS_LARGE_LOG = 48 };

/* The head: kept, 128 bytes. */
struct ps_large {
    struct ps_head head;
    struct ps_blocks blocks;
    uint64_t bytes, reserved[7];
};
struct ps_large_access { struct ps_access base; };
struct ps_large_stats { uint64_t bytes, blocks, branches; };

int ps_large_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_large_tear_down(const struct ps_instance *i, const struct ps_type *type);
int64_t ps_large_size(const struct ps_large_access *a);
int64_t ps_large_read(const struct ps_large_access *a, uint64_t at, void *bytes, size_t count);
int64_t ps_large_write(struct ps_large_access *a, uint64_t at, const void *bytes, size_t count);
int ps_large_punch(struct ps_large_access *a, uint64_t at, uint64_t count);
int ps_large_truncate(struct ps_large_access *a, uint64_t bytes);
int ps_large_check(const struct ps_large_access *a, struct ps_large_stats *stats,
                   const char **why);

/*
 * What the line makes, for NAME:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_bytes, a, &instance, PS_LOOK or PS_CHANGE):
 *   int64_t NAME_size(&a)                          end of what was written, in bytes
 *   int64_t NAME_read(&a, uint64_t at, void *, size_t)        how many there are up to the end
 *   int64_t NAME_write(&a, uint64_t at, const void *, size_t) how many were written: fewer if
 *                                                  memory ended; -ENOSPC: none; -EFBIG
 *   int NAME_punch(&a, uint64_t at, uint64_t count)   zeros; whole blocks go back
 *   int NAME_truncate(&a, uint64_t bytes)          the size; what it grows by is zeros
 */
#define PS_LARGE_OF(NAME, N)                                                                      \
    static const struct ps_type NAME##_type_ = {.structure = "large object",                      \
                                                .name = "byte",                                   \
                                                .head_bytes = sizeof(struct ps_large),            \
                                                .node_bytes = (N)};                               \
    PS_HEAD_(NAME, ps_large);                                                                     \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_large);                                                                     \
    PS_CLASS_(NAME, bytes, ps_large);                                                             \
    PS_FUNCTION_ int64_t NAME##_size(const struct NAME##_bytes *a)                                \
    {                                                                                             \
        return ps_large_size(&a->access);                                                         \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_read(const struct NAME##_bytes *a, uint64_t at, void *bytes,      \
                                     size_t count)                                                \
    {                                                                                             \
        return ps_large_read(&a->access, at, bytes, count);                                       \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_write(struct NAME##_bytes *a, uint64_t at, const void *bytes,     \
                                      size_t count)                                               \
    {                                                                                             \
        return ps_large_write(&a->access, at, bytes, count);                                      \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_punch(struct NAME##_bytes *a, uint64_t at, uint64_t count)            \
    {                                                                                             \
        return ps_large_punch(&a->access, at, count);                                             \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_truncate(struct NAME##_bytes *a, uint64_t bytes)                      \
    {                                                                                             \
        return ps_large_truncate(&a->access, bytes);                                              \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_LARGE(NAME) PS_LARGE_OF(NAME, PS_NODE_BYTES)

#endif
