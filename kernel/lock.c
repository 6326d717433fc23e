/*
 * lock.c - spin locks with ranks: what is rare about them. The rest is inline (lock.h), because
 * locks are on the path of every fault and every message.
 */
#include "lock.h"

#include "arch.h"

static unsigned rank_of(const struct lock *l) { return (unsigned)__builtin_ctz(l->rank_bit); }

_Noreturn __attribute__((cold)) void lock_order_panic(const struct lock *l, bool release)
{
    panic("lock %s (rank %u, held by CPU + 1 = %u): %s; ranks held here: %x", l->name, rank_of(l),
          l->taken, release ? "released, but not held" : "taken out of order",
          cpu_this()->locks_held);
}

struct lock_count lock_counts[LOCK_NAMES_MAX];

/* Two locks of one name share an entry; when the table is full, the last one is everybody's. */
static void count_wait(const char *name, uint64_t cycles)
{
    struct lock_count *c = lock_counts;
    for (; c < lock_counts + LOCK_NAMES_MAX - 1; c++) {
        const char *empty = NULL;
        if (c->name == name || __atomic_compare_exchange_n(&c->name, &empty, name, false,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    }
    __atomic_fetch_add(&c->waits, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->cycles, cycles, __ATOMIC_RELAXED);
    if (cycles > c->longest)
        c->longest = cycles; /* about */
}

__attribute__((cold)) void lock_wait(struct lock *l)
{
    uint32_t free;
    uint64_t start = arch_cycles();

    do {
        while (__atomic_load_n(&l->taken, __ATOMIC_RELAXED) != 0)
            arch_spin_hint(); /* serves shootdowns (G5) */
        free = 0;
    } while (!__atomic_compare_exchange_n(&l->taken, &free, cpu_mark(), false, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    count_wait(l->name, arch_cycles() - start);
}

void lock_init(struct lock *l, enum lock_rank rank, const char *name)
{
    *l = LOCK_INIT(rank, name);
}

bool lock_held(const struct lock *l)
{
    return __atomic_load_n(&l->taken, __ATOMIC_RELAXED) == cpu_this()->id + 1;
}

_Noreturn __attribute__((cold)) void lock_none_panic(void)
{
    panic("sleeping with locks held, ranks %x", cpu_this()->locks_held);
}
