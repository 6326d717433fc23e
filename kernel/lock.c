/*
 * lock.c - spin locks with ranks.
 *
 * Each CPU keeps a word with a bit for the rank of each lock it holds (struct cpu). Taking a lock
 * while that word is not below the lock's own bit panics, contended or not: an order that could
 * deadlock is found by the first run that takes it, not by the first that is unlucky.
 *
 * A lock and a release are about 20 instructions together: they are on the path of every fault.
 */
#include "lock.h"

#include "arch.h"

static unsigned rank_of(const struct lock *l) { return (unsigned)__builtin_ctz(l->rank_bit); }

static _Noreturn __attribute__((cold, noinline)) void order_panic(const struct lock *l,
                                                                  const char *what)
{
    panic("lock %s (rank %u, held by CPU + 1 = %u): %s; ranks held here: %x", l->name, rank_of(l),
          l->taken, what, cpu_this()->locks_held);
}

static __attribute__((cold, noinline)) void wait_for(struct lock *l, uint32_t me)
{
    uint32_t free;

    do {
        while (__atomic_load_n(&l->taken, __ATOMIC_RELAXED) != 0)
            arch_spin_hint(); /* serves shootdowns (G5) */
        free = 0;
    } while (!__atomic_compare_exchange_n(&l->taken, &free, me, false, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
}

void lock_init(struct lock *l, enum lock_rank rank, const char *name)
{
    *l = LOCK_INIT(rank, name);
}

/* Both end in calls that do not return here, so that they save no registers. */
void lock_acquire(struct lock *l)
{
    struct cpu *c = cpu_this();
    uint32_t held = c->locks_held, free = 0;

    if (held >= l->rank_bit)
        return order_panic(l, "taken out of order");
    c->locks_held = held | l->rank_bit;
    if (!__atomic_compare_exchange_n(&l->taken, &free, c->id + 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return wait_for(l, c->id + 1);
}

void lock_release(struct lock *l)
{
    struct cpu *c = cpu_this();

    if (l->taken != c->id + 1)
        return order_panic(l, "released, but not held");
    c->locks_held ^= l->rank_bit;
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
}

bool lock_held(const struct lock *l)
{
    return __atomic_load_n(&l->taken, __ATOMIC_RELAXED) == cpu_this()->id + 1;
}

void lock_assert_none(void)
{
    if (cpu_this()->locks_held != 0)
        panic("sleeping with locks held, ranks %x", cpu_this()->locks_held);
}
