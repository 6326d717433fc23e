/*
 * futex.c - waiting for a word of user memory to change.
 *
 * The word is read under the lock that waking takes, through its frame, which was pinned before.
 *
 * Invariants
 *   FX1  A thread is in its address's bucket exactly while futex_address is not 0.
 *   FX2  Keys are (process, address): there is no memory shared between processes, and no futex in
 *       the store.
 *
 * Lock: one per bucket (RANK_FUTEX), two buckets never at once.
 */
#include "linux/linux.h"

#include "base/boot.h"
#include "process/vm.h"

#define BUCKETS 64

enum { WAIT = 0, WAKE = 1, REQUEUE = 3, CMP_REQUEUE = 4, WAIT_BITSET = 9, WAKE_BITSET = 10 };
enum { PRIVATE = 128, CLOCK_OF_DAY = 256, ALL_BITS = 0xffffffff };

static struct bucket {
    struct lock lock;
    struct list threads;
} buckets[BUCKETS];

static struct bucket *bucket_of(const struct process *p, vaddr_t at)
{
    uint64_t h = ((uint64_t)(uintptr_t)p ^ at >> 2) * 0x9e3779b97f4a7c15ull;
    return &buckets[h >> 58];
}

void futex_init(void)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        lock_init(&buckets[i].lock, RANK_FUTEX, "futex");
        list_init(&buckets[i].threads);
    }
}

int time_from_user(vaddr_t at, uint64_t *ns)
{
    int64_t t[2];
    if (copy_from_user(t, at, sizeof(t)))
        return -EFAULT;
    if (t[0] < 0 || t[1] < 0 || t[1] >= (int64_t)NS_PER_S)
        return -EINVAL;
    *ns = (uint64_t)t[0] > ~0ull / NS_PER_S - 1 ? ~0ull
                                                : (uint64_t)t[0] * NS_PER_S + (uint64_t)t[1];
    return 0;
}

uint64_t time_of_day_offset_ns(void)
{
    static uint64_t known; /* atomic: it and 1, as the command line is long to read; 0: not yet */
    uint64_t offset = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!offset) {
        offset = boot_option_number("epoch_us") * 1000 + 1;
        __atomic_store_n(&known, offset, __ATOMIC_RELAXED);
    }
    return offset - 1;
}

static int deadline(vaddr_t timeout, int operation, uint64_t *out)
{
    uint64_t ns;
    *out = ~0ull;
    if (!timeout)
        return 0;
    int error = time_from_user(timeout, &ns);
    if (error)
        return error;
    if (operation == WAIT) { /* relative */
        uint64_t now = arch_time_ns();
        *out = ns > ~0ull - now ? ~0ull : now + ns;
    } else {
        uint64_t offset = operation & CLOCK_OF_DAY ? time_of_day_offset_ns() : 0;
        *out = ns > offset ? ns - offset : 0;
    }
    return 0;
}

static long wait(struct process *p, vaddr_t at, uint32_t value, uint32_t bits, uint64_t deadline_ns)
{
    struct thread *t = thread_this();
    struct bucket *b = bucket_of(p, at);
    struct frame *f;
    int error = vm_pin(p, at, false, &f);
    if (error)
        return error;
    const uint32_t *word = (uint32_t *)((char *)frame_memory(f) + at % PAGE_BYTES);
    lock_acquire(&b->lock);
    bool same = __atomic_load_n(word, __ATOMIC_SEQ_CST) == value;
    if (same) {
        assert(!t->futex_address && list_empty(&t->futex_link)); /* FX1 */
        t->futex_address = at;
        t->futex_bits = bits;
        list_push_back(&b->threads, &t->futex_link);
    }
    lock_release(&b->lock);
    frame_unpin(f);
    if (!same)
        return -EAGAIN;
    while (!error && __atomic_load_n(&t->futex_address, __ATOMIC_ACQUIRE))
        error = thread_park_until_signal(deadline_ns);
    lock_acquire(&b->lock);
    if (!t->futex_address)
        error = 0; /* woken, perhaps at the last moment */
    list_remove(&t->futex_link);
    t->futex_address = 0;
    lock_release(&b->lock);
    assert(at < VM_END); /* FX2 */
    return error;
}

static long wake(struct process *p, vaddr_t at, uint64_t count, uint32_t bits)
{
    struct bucket *b = bucket_of(p, at);
    uint64_t woken = 0;
    lock_acquire(&b->lock);
    list_for_safe (l, &b->threads) {
        struct thread *t = container_of(l, struct thread, futex_link);
        if (woken == count)
            break;
        if (t->process != p || t->futex_address != at || !(t->futex_bits & bits))
            continue;
        list_remove(l);
        __atomic_store_n(&t->futex_address, 0, __ATOMIC_RELEASE); /* FX1 */
        thread_wake(t);
        woken++;
    }
    lock_release(&b->lock);
    return (long)woken;
}

/* REQUEUE wakes all waiters that Linux would wake or move: a futex may wake at any time, each one
 * looks at its word again, and at most 256 run for the mutex at once. */
long linux_futex(const uint64_t a[6])
{
    struct process *p = process_this();
    vaddr_t at = a[0], at2 = a[4];
    uint32_t value = (uint32_t)a[2], value3 = (uint32_t)a[5], now;
    int operation = (int)a[1] & ~PRIVATE; /* FX2: they all are */
    uint64_t deadline_ns;
    int error;
    if (at % 4 || at >= VM_END)
        return at % 4 ? -EINVAL : -EFAULT;
    bool bitset = (operation & ~CLOCK_OF_DAY) == WAIT_BITSET || operation == WAKE_BITSET;
    if (bitset && !value3)
        return -EINVAL;
    switch (operation) {
    case WAIT:
    case WAIT_BITSET:
    case WAIT_BITSET | CLOCK_OF_DAY:
        error = deadline(a[3], operation, &deadline_ns);
        return error ? error : wait(p, at, value, bitset ? value3 : ALL_BITS, deadline_ns);
    case WAKE:
    case WAKE_BITSET: return wake(p, at, value, bitset ? value3 : ALL_BITS);
    case REQUEUE:
    case CMP_REQUEUE:
        if (at2 % 4 || at2 >= VM_END)
            return -EINVAL;
        if (operation == CMP_REQUEUE && copy_from_user(&now, at, sizeof(now)))
            return -EFAULT;
        if (operation == CMP_REQUEUE && now != value3)
            return -EAGAIN;
        return wake(p, at, (uint64_t)value + (uint32_t)a[3], ALL_BITS);
    default:
        return -ENOSYS;
    }
}

void futex_thread_gone(struct thread *t)
{
    uint32_t zero = 0;
    vaddr_t at = t->clear_child_tid;
    if (!at || at % 4 || at >= VM_END || copy_to_user(at, &zero, sizeof(zero)))
        return;
    wake(t->process, at, 1, ALL_BITS);
}
