/* large.c - a large object: numbered blocks of bytes; a block of zeros need not be there. */
#include "large.h"
#include "structure_private.h"

#include <errno.h>
#include <string.h>

static struct ps_large *head_of(const struct ps_large_access *a)
{
    return (struct ps_large *)(void *)a->base.head;
}

int ps_large_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    return structure_empty(i, type);
}

int ps_large_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    return blocks_tear_down(i, type, offsetof(struct ps_large, blocks));
}

int64_t ps_large_size(const struct ps_large_access *a)
{
    return a->base.error ? a->base.error : (int64_t)head_of(a)->bytes;
}

/* How much of `count` bytes at a position lies in its block. */
static size_t in_block(const struct ps_large_access *a, uint64_t at, uint64_t count)
{
    uint64_t left = a->base.type->node_bytes - at % a->base.type->node_bytes;
    return (size_t)(count < left ? count : left);
}

int64_t ps_large_read(const struct ps_large_access *a, uint64_t at, void *bytes, size_t count)
{
    if (a->base.error)
        return a->base.error;
    uint64_t end = head_of(a)->bytes, node = a->base.type->node_bytes;
    size_t wanted = at >= end ? 0 : count < end - at ? count : (size_t)(end - at);
    for (size_t done = 0, part; done < wanted; done += part) {
        const char *block = blocks_find(&a->base, &head_of(a)->blocks, (at + done) / node);
        part = in_block(a, at + done, wanted - done);
        if (block)
            memcpy((char *)bytes + done, block + (at + done) % node, part);
        else
            memset((char *)bytes + done, 0, part);
    }
    return (int64_t)wanted;
}

int64_t ps_large_write(struct ps_large_access *a, uint64_t at, const void *bytes, size_t count)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    uint64_t node = a->base.type->node_bytes, most = (uint64_t)1 << PS_LARGE_LOG;
    size_t done = 0;
    if (error || at > most || count > most - at)
        return error ? error : -EFBIG;
    for (size_t part; done < count; done += part) {
        char *block = blocks_make(&a->base, &head_of(a)->blocks, (at + done) / node);
        if (!block && done == 0)
            return -errno;
        if (!block)
            break;
        part = in_block(a, at + done, count - done);
        structure_stores(&a->base, block + (at + done) % node, part);
        memcpy(block + (at + done) % node, (const char *)bytes + done, part);
    }
    if (done && at + done > head_of(a)->bytes) {
        structure_heads(&a->base);
        head_of(a)->bytes = at + done;
    }
    return (int64_t)done;
}

static void zeros_put(const struct ps_large_access *a, char *at, size_t bytes)
{
    structure_stores(&a->base, at, bytes);
    memset(at, 0, bytes);
}

int ps_large_punch(struct ps_large_access *a, uint64_t at, uint64_t count)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    struct ps_large *h = error ? NULL : head_of(a);
    uint64_t node = a->base.type->node_bytes, end, number, first;
    if (!h || at >= h->bytes)
        return error;
    end = count < h->bytes - at ? at + count : h->bytes;
    for (number = at / node; number * node < end; number++) {
        char *block = blocks_next(&a->base, &h->blocks, &number);   /* holes are passed over */
        if (!block || number * node >= end)
            return 0;
        first = number * node < at ? at : number * node;
        uint64_t behind = (number + 1) * node < end ? (number + 1) * node : end;
        if (first == number * node && (behind == first + node || behind == h->bytes))
            blocks_give(&a->base, &h->blocks, number);
        else
            zeros_put(a, block + first % node, behind - first);
    }
    return 0;
}

int ps_large_truncate(struct ps_large_access *a, uint64_t bytes)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || bytes >> PS_LARGE_LOG)
        return error ? error : -EFBIG;
    if (bytes < head_of(a)->bytes)
        error = ps_large_punch(a, bytes, head_of(a)->bytes - bytes);
    structure_heads(&a->base);
    head_of(a)->bytes = bytes;
    return error;
}

int ps_large_check(const struct ps_large_access *a, struct ps_large_stats *stats,
                   const char **why)
{
    struct ps_large_stats counted = {0};
    if (a->base.error)
        return structure_sound(a->base.error, structure_unset, why);
    const struct ps_large *h = head_of(a);
    const char *what = blocks_check(&a->base, &h->blocks, &counted.branches), *block;
    uint64_t node = a->base.type->node_bytes;
    counted.bytes = h->bytes;
    for (uint64_t n = 0; !what && (block = blocks_next(&a->base, &h->blocks, &n)); n++) {
        counted.blocks++;
        if (n * node >= h->bytes)
            what = "a block lies beyond the end";
        for (uint64_t i = h->bytes > n * node ? h->bytes - n * node : 0; !what && i < node; i++)
            if (block[i])
                what = "bytes beyond the end are not zeros";
    }
    if (stats)
        *stats = counted;
    return structure_sound(0, what, why);
}
