/*
 * lock.h - spin locks with ranks. The order of all locks of the kernel is written here, once.
 *
 * A thread takes locks in rising rank; two of one rank never. Breaking the order panics, as does
 * sleeping with any lock held. A CPU that spins serves TLB shootdowns (KR5; base.md).
 */
#ifndef KERNEL_LOCK_H
#define KERNEL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_words.h"

enum lock_rank {            /* outer to inner */
    RANK_PROCESS_TABLE = 1, /* pids, parents, names of ports */
    RANK_PROCESS,           /* one process: threads, children's ends */
    RANK_SPACE,             /* one process: memory regions and page table of slot 0 */
    RANK_FILE,              /* files, pipes, console */
    RANK_HANDLES,           /* one process's handle table */
    RANK_VIEWS,             /* the table of views */
    RANK_PUBLISH,           /* one publication at a time */
    RANK_OBJECT,            /* one memory object: state, radix tree, attachments */
    RANK_ATTACH,            /* one process's attached objects */
    RANK_LEAF,              /* 64 page slots: the page lock */
    RANK_ITEMS,             /* some entries of tables of item locks */
    RANK_VIEW,              /* one view at a time */
    RANK_MAPPING,           /* one process's windows */
    RANK_LOCKS,             /* locks of containers */
    RANK_GRAPH,             /* the waits-for graph */
    RANK_VERSIONS,          /* published csn, snapshots, old versions */
    RANK_PORT,              /* one port's queue */
    RANK_FUTEX,
    RANK_BLOCK,             /* one block device's queue */
    RANK_EVICT,             /* the queue of resident pages */
    RANK_FRAMES,            /* free frames, clock */
    RANK_KMEM,
    RANK_SCHED,             /* run queue, parking, sleepers */
    RANK_LOG,               /* kernel log and serial output */
    RANK_COUNT
};

_Static_assert(RANK_COUNT <= 31, "a CPU's held ranks are one word");

struct lock {
    uint32_t taken;          /* atomic: CPU + 1 of the holder, or 0 */
    uint32_t rank_bit;       /* 1 << rank */
    const char *name;
};
#define LOCK_INIT(r, n) ((struct lock){.rank_bit = 1u << (r), .name = (n)})
#define lock_init(l, r, n) ((void)(*(l) = LOCK_INIT(r, n)))

#if __STDC_HOSTED__ /* a host test has its own */
void lock_acquire(struct lock *l);
void lock_release(struct lock *l);
#else
/* Always, as a call makes its caller save what it has in registers. */
#define LOCK_INLINE static inline __attribute__((always_inline))
void lock_wait(struct lock *l);
/* counted, or out of order: ranks held >= limit */
void lock_acquire_slowly(struct lock *l, uint32_t limit);
void lock_release_slowly(struct lock *l);

LOCK_INLINE void lock_take(struct lock *l, uint32_t limit)
{
    uint32_t free = 0;
    if (__builtin_expect(cpu_locks_from(limit), 0))
        return lock_acquire_slowly(l, limit);
    cpu_toggle_locks_held(l->rank_bit);
    if (__builtin_expect(!__atomic_compare_exchange_n(&l->taken, &free, cpu_mark(), false,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
        lock_wait(l);
}

LOCK_INLINE void lock_acquire(struct lock *l) { lock_take(l, l->rank_bit); }
/* lock_acquire_first: lock_acquire for code that may hold no lock at all. */
LOCK_INLINE void lock_acquire_first(struct lock *l) { lock_take(l, 1); }

LOCK_INLINE void lock_release(struct lock *l)
{
    if (__builtin_expect(l->taken != cpu_mark(), 0))
        return lock_release_slowly(l);
    cpu_toggle_locks_held(l->rank_bit);
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
}
#endif
/* Counts by lock name: how long CPUs waited, and how long they held it while lock_counting was set.
 * A CPU that counts has LOCKS_COUNTED, a bit above all ranks, among those it holds. */
#define LOCKS_COUNTED (1u << 31)
#define LOCK_NAMES_MAX 64
struct lock_sum { uint64_t times, cycles, longest; };
struct lock_count { const char *name; struct lock_sum waited, held; };
extern struct lock_count lock_counts[LOCK_NAMES_MAX];
extern bool lock_counting;
void lock_counting_here(void); /* this CPU does as lock_counting says; it holds no lock */
static inline bool lock_holds_none(void) { return !(cpu_locks_held() & ~LOCKS_COUNTED); }

#endif
