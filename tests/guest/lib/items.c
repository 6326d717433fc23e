/* items.c - transactions on words of an object in item mode (items.h). */
#include "items.h"

long declare(volatile void *at, uint64_t bytes)
{
    struct kd_range r = {(uint64_t)at, bytes};
    return kd_call3(KD_TXN_DECLARE, (long)&r, 1, 0);
}

long begin(struct context *c, unsigned how)
{
    return txn_open(c, (struct kd_begin){.mode = how});
}

long commit(struct context *c)
{
    struct kd_commit k = {.port = -1};
    in_view(c);
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
}

void undo(struct context *c)
{
    in_view(c);
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
}

void put(uint64_t page, unsigned i, uint64_t value)
{
    *word_of(page, i) = value;
    declare(word_of(page, i), 8);
}

void add(uint64_t page, unsigned i, uint64_t more)
{
    __atomic_fetch_add(word_of(page, i), more, __ATOMIC_SEQ_CST);
    declare(word_of(page, i), 8);
}

uint64_t seen(uint64_t page, unsigned i)
{
    static struct context c;
    struct context *before = mine;
    begin(&c, KD_SERIALISABLE);
    uint64_t value = *word_of(page, i);
    commit(&c);
    if (before)
        in_view(before);
    return value;
}

uint64_t at_home(uint64_t page, unsigned i)
{
    uint64_t value;
    memcpy(&value, home[page] + i * sizeof value, sizeof value);
    return value;
}
