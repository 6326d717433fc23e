/*
 * guard.c - containers with a guard (PS_PROTECT_GUARD; protection.md): what the program means to
 * store to is told to the kernel, page by page, and in item mode the thread's protection key is
 * open only between ps_access and ps_release.
 *
 * Owns      struct guard of each ps_tx; bit 3 of PKRU, where the processor has protection keys.
 *
 * Invariants
 *   GD1  The key is open while the library stores (depth) or a bracket is open, and closed at the
 *        end of every transaction that has opened it.
 *   GD2  A page in `told` has a private copy of this transaction, which stays to its end.
 *   GD3  A bracket ends by a release of its own address, of no other one. One that was not noted,
 *        since GUARD_OPEN others were open, ends with the transaction.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

enum { KEY_CLOSED = 8 };                  /* the kernel's KD_OBJECT_GUARD */

/* keys_are_there tells whether there are protection keys that programs may set (OSPKE). */
static int keys_are_there(void)
{
    static _Atomic int known;             /* 0: not yet; 1: no; 2: yes */
    if (!known) {
        uint32_t a = 0, b, c = 0, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        uint32_t most = a;
        a = 7;
        c = 0;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        known = 1 + (most >= 7 && c >> 4 & 1);
    }
    return known == 2;
}

static void key_set(uint32_t keys)
{
    if (keys_are_there())
        __asm__ volatile("wrpkru" ::"a"(keys), "c"(0), "d"(0) : "memory");
}

static void key_update(const struct guard *g)
{
    key_set(g->depth || g->brackets ? 0 : KEY_CLOSED);
}

struct ps_tx *guard_open_rare(void)
{
    struct ps_tx *tx = tx_active();
    if (!tx || tx->kind == TX_READS)
        return NULL;
    items_use(&tx->items);                /* so that items_ended comes to guard_ended */
    tx->items.guard.used = 1;
    if (tx->items.guard.depth++ == 0) {
        (void)ps_kernel(KD_TXN_HINT, 0, 0, KD_HINT_OPEN);
        key_update(&tx->items.guard);
    }
    return tx;
}

void guard_shut_rare(struct ps_tx *tx)
{
    if (!tx->active || !tx->items.guard.depth || --tx->items.guard.depth)
        return;
    key_update(&tx->items.guard);
    (void)ps_kernel(KD_TXN_HINT, 0, 0, KD_HINT_SHUT);
}

void guard_suspended(const struct ps_tx *tx, int suspended)
{
    static const struct guard none;
    if (tx->items.guard.used)
        key_update(suspended ? &none : &tx->items.guard);
}

void guard_ended(struct ps_tx *tx)
{
    struct guard *g = &tx->items.guard;
    g->depth = g->brackets = g->noted = g->used = 0;
    key_update(g);
    memset(g->told, 0, sizeof g->told);
}

void guard_bracket(struct guard *g, uint64_t at)
{
    if (g->noted < GUARD_OPEN)
        g->open[g->noted++] = at;
    g->brackets++;
    key_update(g);                        /* of an inner one, too: a handler may have been left */
}

int guard_access(struct ps_tx *tx, const ps_container *c, uint64_t at, uint64_t bytes)
{
    struct guard *g = &tx->items.guard;
    items_use(&tx->items);
    g->used = 1;
    if (c->items && guard_knows(g, at, bytes)) {
        items_store(tx, c, at, bytes);
    } else {
        int result = (int)ps_kernel(KD_TXN_HINT, (long)at, (long)bytes, KD_HINT_WRITE);
        if (result != 0)
            return result;
        g->told[at / KD_PAGE_BYTES % GUARD_TOLD] = PAGE_OF(at);
    }
    if (c->items)
        guard_bracket(g, at);
    return 0;
}

int guard_released(struct guard *g, uint64_t at)
{
    unsigned i = g->noted;
    while (i > 0 && g->open[i - 1] != at)
        i--;
    if (i == 0)
        return 0;
    g->open[i - 1] = g->open[--g->noted];
    if (--g->brackets == 0)
        key_update(g);
    return 1;
}

void guard_moved(struct guard *g, uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < g->noted; i++)
        if (g->open[i] == from)
            g->open[i] = to;
}
