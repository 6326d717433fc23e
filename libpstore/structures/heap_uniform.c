/*
 * heap_uniform.c - a uniform heap: units of one size in numbered blocks, of which each knows which
 * of its units are taken.
 *
 * Blocks with room are a list, by number; what frees the first unit of a full block puts it there.
 * A block without a unit goes back to the level above, and its number is not used again, but for
 * the last one's.
 */
#include "heap.h"
#include "structure_private.h"

#include <errno.h>
#include <string.h>

enum { BITS = 256 };

struct units {
    uint32_t taken, claim;      /* claim: 0, and written before the others are read */
    uint32_t next, before;      /* of the list of blocks with room: numbers plus 1; 0: none */
    uint64_t bit[BITS / 64];
};
_Static_assert(sizeof(struct units) == 48, "heap.h leaves so much");

static struct ps_uniform *head_of(const struct ps_uniform_access *a)
{
    return (struct ps_uniform *)(void *)a->base.head;
}

static unsigned per_block(const struct ps_uniform_access *a)
{
    unsigned units = (a->base.type->node_bytes - (unsigned)sizeof(struct units)) /
                     a->base.type->record_bytes;
    return units < BITS ? units : BITS;
}

static struct units *block_find(const struct ps_uniform_access *a, uint64_t number)
{
    return blocks_find(&a->base, &head_of(a)->blocks, number);
}

static struct units *block_to_change(const struct ps_uniform_access *a, uint64_t number)
{
    struct units *u = block_find(a, number);
    structure_changes(&a->base, u);
    return u;
}

static int is_taken(const struct units *u, unsigned i)
{
    return u->bit[i / 64] >> i % 64 & 1;
}

/* ---- the list of blocks with room ---- */

static void list_add(const struct ps_uniform_access *a, struct units *u, uint64_t number)
{
    struct ps_uniform *h = head_of(a);
    structure_heads(&a->base);
    structure_changes(&a->base, u);
    u->before = 0;
    u->next = (uint32_t)h->room;
    if (h->room)
        block_to_change(a, h->room - 1)->before = (uint32_t)number + 1;
    h->room = number + 1;
}

static void list_remove(const struct ps_uniform_access *a, const struct units *u)
{
    structure_heads(&a->base);
    if (u->next)
        block_to_change(a, u->next - 1)->before = u->before;
    if (u->before)
        block_to_change(a, u->before - 1)->next = u->next;
    else
        head_of(a)->room = u->next;
}

/* ---- life ---- */

int ps_uniform_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    return structure_empty(i, type);
}

int ps_uniform_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    return blocks_tear_down(i, type, offsetof(struct ps_uniform, blocks));
}

int ps_uniform_limit(struct ps_uniform_access *a, uint64_t blocks)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    structure_heads(&a->base);
    head_of(a)->limit = blocks;
    return 0;
}

/* ---- units ---- */

/* Another block: its number, or -errno. */
static int64_t block_add(struct ps_uniform_access *a)
{
    struct ps_uniform *h = head_of(a);
    uint64_t number = h->next;
    if (number >= UINT32_MAX || (h->limit && h->count >= h->limit))
        return -ENOSPC;
    struct units *u = blocks_make(&a->base, &h->blocks, number);
    if (!u)
        return -errno;
    structure_heads(&a->base);
    h->next++;
    h->count++;
    list_add(a, u, number);
    return (int64_t)number;
}

/* One of a block that has room. */
static int64_t unit_take(struct ps_uniform_access *a)
{
    struct ps_uniform *h = head_of(a);
    uint64_t number = h->room - 1;
    struct units *u = block_find(a, number);
    unsigned word = 0;
    structure_claim(&a->base, u, &u->claim);
    while (u->bit[word] == UINT64_MAX)
        word++;
    unsigned i = word * 64 + (unsigned)__builtin_ctzll(~u->bit[word]);
    u->bit[i / 64] |= (uint64_t)1 << i % 64;
    if (++u->taken == per_block(a))
        list_remove(a, u);
    if (u->taken > 1)                   /* else the block is new, and zeros */
        memset((char *)(u + 1) + i * a->base.type->record_bytes, 0, a->base.type->record_bytes);
    return (int64_t)(number * per_block(a) + i);
}

int64_t ps_uniform_take(struct ps_uniform_access *a, const struct ps_expansion *expansion)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    for (int tries = 0; error == 0 && head_of(a)->room == 0; tries++) {
        int64_t added = block_add(a);
        if (added >= 0)
            break;
        error = (int)added;
        if (tries == 0 && expansion)    /* it may also give units back */
            error = expansion->expand(expansion->arg, a->base.type->record_bytes);
    }
    return error ? error : unit_take(a);
}

int ps_uniform_give(struct ps_uniform_access *a, uint64_t number)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    uint64_t block = number / per_block(a);
    unsigned i = (unsigned)(number % per_block(a));
    struct units *u = error ? NULL : block_find(a, block);
    if (!u)
        return error ? error : -ENOENT;
    structure_claim(&a->base, u, &u->claim);
    if (!is_taken(u, i))
        return -ENOENT;
    u->bit[i / 64] &= ~((uint64_t)1 << i % 64);
    if (u->taken-- == per_block(a))
        list_add(a, u, block);
    if (u->taken)
        return 0;
    struct ps_uniform *h = head_of(a);
    list_remove(a, u);
    blocks_give(&a->base, &h->blocks, block);
    h->count--;
    if (block + 1 == h->next)
        h->next--;
    return 0;
}

void *ps_uniform_at(const struct ps_uniform_access *a, uint64_t number)
{
    if (a->base.error)
        return structure_none(a->base.error);
    struct units *u = block_find(a, number / per_block(a));
    unsigned i = (unsigned)(number % per_block(a));
    if (!u || !is_taken(u, i))
        return structure_none(-ENOENT);
    return (char *)(u + 1) + i * a->base.type->record_bytes;
}

/* ---- check ---- */

static const char *block_wrong(const struct ps_uniform_access *a, const struct units *u)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < BITS; i++)
        taken += (unsigned)is_taken(u, i);
    for (unsigned i = per_block(a); i < BITS; i++)
        if (is_taken(u, i))
            return "a unit is taken that is none";
    return taken != u->taken ? "a block does not have the units it counts"
           : taken == 0      ? "a block has no unit"
                             : NULL;
}

int ps_uniform_check(const struct ps_uniform_access *a, struct ps_uniform_stats *stats,
                     const char **why)
{
    struct ps_uniform_stats counted = {0};
    if (a->base.error)
        return structure_sound(a->base.error, structure_unset, why);
    const struct ps_uniform *h = head_of(a);
    const char *what = blocks_check(&a->base, &h->blocks, &counted.branches);
    const struct units *u;
    uint64_t roomy = 0, listed = 0, before = 0;
    for (uint64_t n = 0; !what && (u = blocks_next(&a->base, &h->blocks, &n)); n++) {
        what = block_wrong(a, u);
        counted.blocks++;
        counted.taken += u->taken;
        roomy += u->taken < per_block(a);
        if (n >= h->next)
            what = "a block has too high a number";
    }
    for (uint64_t n = h->room; !what && n; before = n, n = u->next, listed++) {
        u = block_find(a, n - 1);
        if (!u || u->before != before || listed > roomy || u->taken == per_block(a)) {
            what = "the list of blocks with room is spoilt";
            break;
        }
    }
    if (!what && (listed != roomy || counted.blocks != h->count))
        what = "the head does not count right, or a block with room is not in the list";
    if (stats)
        *stats = counted;
    return structure_sound(0, what, why);
}
