/*
 * lock.c - spin locks with ranks: what is rare about them. The rest is inline (lock.h), because
 * locks are on the path of every fault and every message.
 */
#include "base/lock.h"

#include "arch.h"

static unsigned rank_of(const struct lock *l) { return (unsigned)__builtin_ctz(l->rank_bit); }

static _Noreturn __attribute__((cold)) void order_panic(const struct lock *l, bool release)
{
    panic("lock %s (rank %u, held by CPU + 1 = %u): %s; ranks held here: %x", l->name, rank_of(l),
          l->taken, release ? "released, but not held" : "taken out of order",
          cpu_this()->locks_held);
}

struct lock_count lock_counts[LOCK_NAMES_MAX];
bool lock_counting;
static uint64_t held_since[CPU_MAX][RANK_COUNT];

/* Two locks of one name share an entry; when the table is full, the last one is everybody's. */
static struct lock_count *count_of(const char *name)
{
    struct lock_count *c = lock_counts;
    for (; c < lock_counts + LOCK_NAMES_MAX - 1; c++) {
        const char *empty = NULL;
        if (c->name == name || __atomic_compare_exchange_n(&c->name, &empty, name, false,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    }
    return c;
}

static void count_cycles(struct lock_sum *sum, uint64_t cycles)
{
    __atomic_fetch_add(&sum->times, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->cycles, cycles, __ATOMIC_RELAXED);
    if (cycles > sum->longest)
        sum->longest = cycles; /* about */
}

__attribute__((cold)) void lock_wait(struct lock *l)
{
    uint32_t free;
    uint64_t start = arch_cycles();
    do {
        while (__atomic_load_n(&l->taken, __ATOMIC_RELAXED) != 0)
            arch_spin_hint(); /* serves shootdowns (KR5) */
        free = 0;
    } while (!__atomic_compare_exchange_n(&l->taken, &free, cpu_mark(), false, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    count_cycles(&count_of(l->name)->waited, arch_cycles() - start);
}

/* lock_acquire_slowly marks a lock whose holding is counted, so that its release comes to
 * lock_release_slowly, too. Panics if the order is wrong: that is why the fast path came here
 * else. */
__attribute__((cold)) void lock_acquire_slowly(struct lock *l, uint32_t limit)
{
    uint32_t held = cpu_locks_held(), free = 0;
    if (!(held & LOCKS_COUNTED) || (held & ~LOCKS_COUNTED) >= limit)
        order_panic(l, false);
    cpu_toggle_locks_held(l->rank_bit);
    if (!__atomic_compare_exchange_n(&l->taken, &free, cpu_mark(), false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        lock_wait(l);
    l->taken = cpu_mark() | LOCKS_COUNTED;
    held_since[arch_cpu_id()][rank_of(l)] = arch_cycles();
}

__attribute__((cold)) void lock_release_slowly(struct lock *l)
{
    if (l->taken != (cpu_mark() | LOCKS_COUNTED))
        order_panic(l, true);
    uint64_t held = arch_cycles() - held_since[arch_cpu_id()][rank_of(l)];
    cpu_toggle_locks_held(l->rank_bit);
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
    count_cycles(&count_of(l->name)->held, held);
}

void lock_counting_here(void)
{
    bool on = __atomic_load_n(&lock_counting, __ATOMIC_RELAXED);
    if (on != !!(cpu_locks_held() & LOCKS_COUNTED))
        cpu_toggle_locks_held(LOCKS_COUNTED);
}
