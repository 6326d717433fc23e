/* vector.c - a vector: records by their number, in numbered blocks. */
#include "vector.h"

#include <errno.h>
#include <string.h>

#include "structure_private.h"

/* What a block that is not there holds. */
static const _Alignas(16) uint8_t zeros[PS_NODE_MAX];

static struct ps_vector *vector_of(const struct ps_vector_access *a)
{
    return (struct ps_vector *)(void *)a->base.head;
}

/* Records in a block. */
static uint64_t per_block(const struct ps_vector_access *a)
{
    return a->base.type->node_bytes / a->base.type->record_bytes;
}

static void *record_in(const struct ps_vector_access *a, void *block, uint64_t number)
{
    return (uint8_t *)block + number % per_block(a) * a->base.type->record_bytes;
}

int ps_vector_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    return structure_empty(i, type);
}

int ps_vector_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    return blocks_tear_down(i, type, offsetof(struct ps_vector, blocks));
}

int64_t ps_vector_count(const struct ps_vector_access *a)
{
    return a->base.error ? a->base.error : (int64_t)vector_of(a)->count;
}

void *ps_vector_at(struct ps_vector_access *a, uint64_t number, enum ps_mode mode)
{
    int error = structure_refuses(&a->base, mode);
    if (error || number >= vector_of(a)->count)
        return structure_none(error ? error : -ENOENT);
    struct ps_blocks *blocks = &vector_of(a)->blocks;
    void *block = mode == PS_CHANGE ? blocks_make(&a->base, blocks, number / per_block(a))
                                    : blocks_find(&a->base, blocks, number / per_block(a));
    if (!block && mode == PS_CHANGE)
        return NULL;
    if (mode == PS_CHANGE)
        structure_changes(&a->base, block);
    return record_in(a, block ? block : (void *)(uintptr_t)zeros, number);
}

int ps_vector_append(struct ps_vector_access *a, const void *record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_vector *v = vector_of(a);
    void *block = blocks_make(&a->base, &v->blocks, v->count / per_block(a));
    if (!block)
        return -errno;
    structure_heads(&a->base);
    structure_changes(&a->base, block);
    memcpy(record_in(a, block, v->count++), record, a->base.type->record_bytes);
    return 0;
}

/* Frees the blocks behind that many records; what is left of the last block becomes zeros. */
static void cut(struct ps_vector_access *a, uint64_t count)
{
    struct ps_blocks *blocks = &vector_of(a)->blocks;
    uint64_t per = per_block(a), number = (count + per - 1) / per;
    while (blocks_next(&a->base, blocks, &number))
        blocks_give(&a->base, blocks, number);
    uint8_t *last = count % per ? blocks_find(&a->base, blocks, count / per) : NULL;
    size_t keep = count % per * a->base.type->record_bytes;
    if (last)
        structure_changes(&a->base, last);
    if (last)
        memset(last + keep, 0, a->base.type->node_bytes - keep);
}

int ps_vector_resize(struct ps_vector_access *a, uint64_t count)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || count > INT64_MAX / PS_NODE_MAX)
        return error ? error : -EFBIG;
    if (count < vector_of(a)->count)
        cut(a, count);
    structure_heads(&a->base);
    vector_of(a)->count = count;
    return 0;
}

void *ps_vector_next(struct ps_vector_range *r)
{
    int error = r->access.base.error;
    if (error || r->next >= r->end || r->next >= vector_of(&r->access)->count)
        return structure_none(error);
    return ps_vector_at(&r->access, r->next++, PS_LOOK);
}

static const char *check(const struct ps_vector_access *a, struct ps_vector_stats *stats)
{
    const struct ps_vector *v = vector_of(a);
    const char *why = blocks_check(&a->base, &v->blocks, &stats->branches);
    uint64_t per = per_block(a), number = 0;
    stats->records = v->count;
    for (uint8_t *block; !why && (block = blocks_next(&a->base, &v->blocks, &number)); number++) {
        stats->blocks++;
        size_t used = number < v->count / per    ? per
                      : number == v->count / per ? v->count % per
                                                 : 0;
        used *= a->base.type->record_bytes;
        if (used == 0)
            why = "a block lies behind the last record";
        else if (number >= v->count / per && memcmp(block + used, zeros, per_block(a) *
                                                    a->base.type->record_bytes - used) != 0)
            why = "there are bytes behind the last record";
    }
    return why;
}

int ps_vector_check(const struct ps_vector_access *a, struct ps_vector_stats *stats,
                    const char **why)
{
    struct ps_vector_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
