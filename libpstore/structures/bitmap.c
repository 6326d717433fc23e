/* bitmap.c - a bitmap: words of bits in numbered blocks; a block without a set bit is not there. */
#include "bitmap.h"

#include <errno.h>

#include "structure_private.h"

/* A block: how many of its bits are set, and all of them. */
struct bits {
    uint32_t count, claim;      /* claim: 0, and written before the others are read */
    uint64_t word[];
};

static struct ps_blocks *blocks_of(const struct ps_bitmap_access *a)
{
    return &((struct ps_bitmap *)(void *)a->base.head)->blocks;
}

/* Bits in a block. */
static uint64_t per_block(const struct ps_bitmap_access *a)
{
    return (a->base.type->node_bytes - sizeof(struct bits)) * 8;
}

int ps_bitmap_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    return structure_empty(i, type);
}

int ps_bitmap_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    return blocks_tear_down(i, type, offsetof(struct ps_bitmap, blocks));
}

static int bit(const struct bits *bits, uint64_t i)
{
    return bits->word[i / 64] >> i % 64 & 1;
}

int ps_bitmap_test(const struct ps_bitmap_access *a, uint64_t number)
{
    if (a->base.error)
        return a->base.error;
    const struct bits *bits = blocks_find(&a->base, blocks_of(a), number / per_block(a));
    return bits && bit(bits, number % per_block(a));
}

int ps_bitmap_set(struct ps_bitmap_access *a, uint64_t number)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || number >> PS_BITS_LOG)
        return error ? error : -EFBIG;
    struct bits *bits = blocks_make(&a->base, blocks_of(a), number / per_block(a));
    uint64_t i = number % per_block(a);
    if (!bits)
        return -errno;
    structure_claim(&a->base, bits, &bits->claim);
    if (bit(bits, i))
        return 1;
    bits->word[i / 64] |= (uint64_t)1 << i % 64;
    bits->count++;
    return 0;
}

int ps_bitmap_clear(struct ps_bitmap_access *a, uint64_t number)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct bits *bits = blocks_find(&a->base, blocks_of(a), number / per_block(a));
    uint64_t i = number % per_block(a);
    if (!bits)
        return 0;
    structure_claim(&a->base, bits, &bits->claim);
    if (!bit(bits, i))
        return 0;
    bits->word[i / 64] &= ~((uint64_t)1 << i % 64);
    if (--bits->count == 0)
        blocks_give(&a->base, blocks_of(a), number / per_block(a));
    return 1;
}

/* The first bit of that value (0 or 1) from i on; per: none. Whole words are passed at once. */
static uint64_t search(const struct bits *bits, uint64_t i, uint64_t per, int value)
{
    for (; i < per; i = (i / 64 + 1) * 64) {
        uint64_t word = (value ? bits->word[i / 64] : ~bits->word[i / 64]) >> i % 64;
        if (word)
            return i + (uint64_t)__builtin_ctzll(word);
    }
    return per;
}

int64_t ps_bitmap_first_clear(const struct ps_bitmap_access *a, uint64_t from)
{
    uint64_t per = per_block(a), i = from % per;
    if (a->base.error)
        return a->base.error;
    for (uint64_t number = from / per; number * per >> PS_BITS_LOG == 0; number++, i = 0) {
        const struct bits *bits = blocks_find(&a->base, blocks_of(a), number);
        if (bits)
            i = bits->count < per ? search(bits, i, per, 0) : per;
        if (i < per && (number * per + i) >> PS_BITS_LOG == 0)
            return (int64_t)(number * per + i);
    }
    return -ENOSPC;
}

const uint64_t *ps_bitmap_next(struct ps_bitmap_range *r)
{
    const struct ps_bitmap_access *a = &r->access;
    if (a->base.error)
        return structure_none(a->base.error);
    uint64_t per = per_block(a);
    while (r->at < r->end) {
        uint64_t number = r->at / per;
        const struct bits *bits = blocks_next(&a->base, blocks_of(a), &number);
        if (!bits)
            break;
        uint64_t i = search(bits, number == r->at / per ? r->at % per : 0, per, 1);
        r->number = number * per + i;
        r->at = r->number + (i < per);
        if (i < per && r->number < r->end)
            return &r->number;
    }
    r->at = r->end;
    return structure_none(0);
}

static const char *check(const struct ps_bitmap_access *a, struct ps_bitmap_stats *stats)
{
    const char *why = blocks_check(&a->base, blocks_of(a), &stats->branches);
    struct bits *bits;
    for (uint64_t n = 0; !why && (bits = blocks_next(&a->base, blocks_of(a), &n)); n++) {
        uint64_t set = 0;
        for (uint64_t word = 0; word < per_block(a) / 64; word++)
            set += (uint64_t)__builtin_popcountll(bits->word[word]);
        if (set == 0 || set != bits->count)
            why = "a block does not have the bits it counts";
        stats->blocks++;
        stats->set += set;
    }
    return why;
}

int ps_bitmap_check(const struct ps_bitmap_access *a, struct ps_bitmap_stats *stats,
                    const char **why)
{
    struct ps_bitmap_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
