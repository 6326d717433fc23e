/*
 * item_private.h - one lock of an item, and one declaration: the ways without a call, for item.c,
 * in whose head the rules are.
 */
#ifndef ITEM_PRIVATE_H
#define ITEM_PRIVATE_H

#include "pstore_private.h"

enum { STAY = 1 << PS_X | 1 << PS_ADD | 1 << PS_IX | 1 << PS_OWN };  /* to the end */
enum { STORE = 1 << PS_X | 1 << PS_ADD | 1 << PS_OWN };              /* what is stored under */

typedef volatile struct kd_item_entry entry;
typedef uint64_t pair __attribute__((vector_size(16), may_alias));    /* a mask of 128 bits */

static inline pair row(entry *e, int mode)
{
    return *(const volatile pair *)e->holders[mode];
}

/* foreign tells if another has a mode that conflicts. The kernel knows of its own ones (PS_OWN). */
static inline int foreign(entry *e, const struct items *t, int mode)
{
    pair any = row(e, PS_X) | row(e, PS_OWN);
    if (mode == PS_S || mode == PS_U)
        any |= row(e, PS_ADD) | row(e, PS_IX);
    else if (mode != PS_IS)
        any |= row(e, PS_S);
    if (mode != PS_IS && mode != PS_S)
        any |= row(e, PS_U);
    if (mode == PS_X || mode == PS_OWN)
        any |= row(e, PS_ADD) | row(e, PS_IS) | row(e, PS_IX);
    any &= *(const pair *)t->others;
    return (any[0] | any[1]) != 0;
}

/* own_modes returns the modes that the transaction has here, as a set. */
static unsigned own_modes(entry *e, const struct items *t)
{
    unsigned modes = 0;
    for (int m = 0; m < KD_ITEM_MODES; m++)
        modes |= (unsigned)((e->holders[m][t->word] & t->bit) != 0) << m;
    return modes;
}

static inline uint64_t entry_of(const struct items *t, uint64_t name)
{
    return name * 0x9e3779b97f4a7c15ull >> t->place.shift;
}

/* again_of finds the word with the bit that says that the entry was asked for again. Entries far
 * apart share one: a lock is kept, which does no harm. */
static inline uint64_t *again_of(struct items *t, uint64_t number)
{
    return &t->again[number / 64 % AGAIN_WORDS];
}

/* lock returns HELD: it has the mode; TAKEN: its bit is set; CONTENDED: the mode is the last in the
 * list, and its bit perhaps set: lock_contended is to follow; FULL: none. */
enum { HELD, TAKEN, CONTENDED, FULL };
static inline __attribute__((always_inline)) int lock(struct items *t, uint64_t name, int mode)
{
    uint64_t number = entry_of(t, name);
    entry *e = &t->place.entries[number];
    volatile uint64_t *mask = &e->holders[mode][t->word];
    if (*mask & t->bit) {
        t->any_again = 1;
        *again_of(t, number) |= 1ull << number % 64;
        return HELD;
    }
    if (t->count == HELD_MAX)
        return FULL;
    t->held[t->count] = mask;
    __asm__ volatile("" ::: "memory");
    t->count++;                           /* LI1 */
    __asm__ volatile("" ::: "memory");
    if (__builtin_expect(e->waiting != 0, 0))
        return CONTENDED;
    __atomic_fetch_or(mask, t->bit, __ATOMIC_SEQ_CST);
    return __builtin_expect(foreign(e, t, mode), 0) ? CONTENDED : TAKEN;
}

/* declare_fast adds a range, to the last one if they touch; before the first is one none touches.
 * False: the list is full. */
static inline int declare_fast(struct items *t, uint64_t at, uint64_t bytes)
{
    struct kd_range *last = t->next - 1;
    uint64_t offset = at - last->address;
    if (offset <= last->bytes) {
        if (offset + bytes > last->bytes)
            last->bytes = offset + bytes;
        return 1;
    }
    if (t->next == t->range + 1 + KD_RANGES_MAX)
        return 0;
    *t->next = (struct kd_range){at, bytes};
    t->next++;
    return 1;
}

#endif
