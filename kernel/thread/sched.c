/*
 * sched.c - who runs next: shares, priorities, sleepers, ticks, and which CPU is to look.
 *
 * Owns      the run queue, the sleepers, every thread's share.
 * Not here  the switch, parking, kills (thread.c).
 *
 * Invariants
 *   SC1  The queue is sorted by `key`, equal ones in the order they came. The key is the share; but
 *       who wakes up goes before all that compute, in the order of waking, until it has had
 *       CREDIT_NS more than they: it is waited for, and mostly sleeps again soon; and so does who
 *       serves a nice thread's call, for a while, and who publishes (goes_ahead). One queue for all
 *       CPUs: a CPU without work takes the next thread, wherever that ran before.
 *   SC2  floor_ns never falls, and no thread that wants to run had a smaller share when it was last
 *       raised. A thread that wakes up begins at most BONUS_NS below it: who has slept for an hour
 *       goes first, but does not have the CPU for an hour.
 *
 * Lock: sched.lock (RANK_SCHED).
 */
#include "thread/sched.h"

#define SLICE_NS 5000000u /* a slice ends with the first tick (every 10 ms) after this */
#define SLICE_MIN_NS 1000000u
#define BONUS_NS 5000000u
#define CREDIT_NS 50000000u
#define DEBT_MAX_NS 500000000u /* what is over is forgiven to who sleeps */
#define LENT_NS 5000000u

struct sched sched = {.lock = LOCK_INIT(RANK_SCHED, "sched"), .next_deadline = THREAD_NEVER,
                      .ready = LIST_INIT(sched.ready), .sleepers = LIST_INIT(sched.sleepers)};

/* Linux's weights of nice -20 to 19: one step is about a tenth of the CPU, between two threads. */
static const uint32_t weights[40] = {
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
};

/* ---- kicks ---- */

void sched_kicks_send(struct cpu *c)
{
    for (; c->kicks != 0; c->kicks &= c->kicks - 1)
        arch_kick((unsigned)__builtin_ctz(c->kicks));
}

/* sched_release_and_kick releases sched.lock and sends the interrupts that are due, with no lock
 * held: in an emulator each takes long, and a CPU that waits for a lock spins. If the caller holds
 * other locks, they are sent before this CPU leaves the kernel, switches or halts. */
void sched_release_and_kick(void)
{
    struct cpu *c = cpu_this();
    c->kicks |= sched.kicks;
    sched.kicks = 0;
    lock_release(&sched.lock);
    if (c->kicks != 0 && lock_holds_none()) {
        sched_kicks_send(c);
    } else if (c->kicks != 0) {
        c->chores = true;
        __atomic_store_n(&thread_this()->attention, true, __ATOMIC_SEQ_CST);
    }
}

/* ---- shares; all under sched.lock ---- */

/* Brings the share of t, a locus, up to date. */
static uint64_t share_of(struct thread *t)
{
    uint64_t used = t->cpu_ns - t->shared_ns;
    t->shared_ns = t->cpu_ns;
    t->share_ns += t->nice == 0 ? used : used * 1024 / weights[t->nice + 20];
    return t->share_ns;
}

/* floor_raise returns which running thread has the largest share; NULL: all CPUs are idle, or not
 * up. */
HOT struct thread *floor_raise(void)
{
    struct thread *most = NULL;
    uint64_t least = UINT64_MAX;
    if (!list_empty(&sched.ready))
        least = list_first(&sched.ready, struct thread, run_link)->key_ns;
    for (unsigned i = arch_cpu_count(); i-- > 0;) {
        struct thread *t = cpus[i].current;
        if (t == cpus[i].idle || t == NULL || t->state != THREAD_RUNNING)
            continue;
        least = MIN(least, t->locus->share_ns);
        if (most == NULL || t->locus->share_ns > most->locus->share_ns)
            most = t;
    }
    if (least != UINT64_MAX)
        sched.floor_ns = MAX(sched.floor_ns, least); /* SC2 */
    return most;
}

/* queue_add puts t into the run queue or among the sleepers, behind those with its key. */
static void queue_add(struct list *queue, struct thread *t, uint64_t key)
{
    struct list *at = queue->prev;
    t->key_ns = key;
    while (at != queue && container_of(at, struct thread, run_link)->key_ns > key)
        at = at->prev;
    list_push_front(at, &t->run_link); /* behind `at` */
}

struct thread *sched_next(void)
{
    struct thread *t = list_take(struct thread, &sched.ready, run_link);
    return t != NULL ? t : cpu_this()->idle;
}

/* end_slice ends t's slice: t yields before it goes on in user mode. */
static void end_slice(struct thread *t)
{
    __atomic_store_n(&t->resched, true, __ATOMIC_RELAXED);
    __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
}

/* end_some_slice makes room for t, which has woken up while all CPUs are busy: `most`, the running
 * thread with the largest share (or NULL), gives way if that is larger than t's, but not before it
 * has run for SLICE_MIN_NS. So a woken thread need not wait for the tick. */
static void end_some_slice(const struct thread *t, struct thread *most)
{
    uint64_t ran = most != NULL ? arch_time_ns() - most->slice_start_ns : 0;
    if (ran < SLICE_MIN_NS || most->locus->share_ns + ran <= t->key_ns ||
        __atomic_load_n(&most->resched, __ATOMIC_RELAXED))
        return;
    end_slice(most);
    if (most != thread_this())
        sched.kicks |= 1u << most->cpu;
}

/* kick_some_cpu makes a CPU look at the run queue: this one, if it is idle (an interrupt ended its
 * halt), or the one where t ran last, or any that is idle. */
static void kick_some_cpu(const struct thread *t, struct thread *most)
{
    uint32_t idle = sched.idle_cpus, here = 1u << arch_cpu_id();
    unsigned cpu;
    if (idle == 0) {
        end_some_slice(t, most);
        return;
    }
    if (idle & here) {
        sched.idle_cpus &= ~here;
        return;
    }
    cpu = idle >> t->cpu & 1 ? (unsigned)t->cpu : (unsigned)__builtin_ctz(idle);
    sched.idle_cpus &= ~(1u << cpu);
    sched.kicks |= 1u << cpu;
}

/* lent: t serves a thread that is nicer than it, and goes before all that compute, for others may
 * wait for what it holds: until it has had LENT_NS for this call since it first stood in the
 * queue. */
static RARE bool lent(struct thread *t)
{
    uint64_t now = t->locus->cpu_ns;
    if (t->locus->nice <= MAX(t->nice, 0))
        return false;
    uint64_t call = thread_seam.serves(t);
    if (t->ahead.call != call)
        t->ahead.from_ns = now;
    t->ahead.call = call;
    return now - t->ahead.from_ns < LENT_NS;
}

static bool goes_ahead(struct thread *t)
{
    return unlikely(t->ahead.urgent) || (unlikely(t->locus != t) && lent(t));
}

void sched_make_ready(struct thread *t)
{
    struct thread *locus = t->locus;
    uint64_t share = share_of(locus);
    struct thread *most = floor_raise();
    uint64_t first = sched.floor_ns - MIN(sched.floor_ns, BONUS_NS);
    locus->share_ns = share = MIN(MAX(share, first), sched.floor_ns + DEBT_MAX_NS); /* SC2 */
    assert(list_empty(&t->run_link)); /* TH1 */
    t->state = THREAD_READY;
    bool ahead = share <= sched.floor_ns + CREDIT_NS || goes_ahead(t);
    queue_add(&sched.ready, t, ahead ? first : share);
    kick_some_cpu(t, most);
}

/* sched_put_back queues the running thread; `last`: behind all others this time, as for a yield. */
void sched_put_back(struct thread *t, bool last)
{
    uint64_t first = sched.floor_ns - MIN(sched.floor_ns, BONUS_NS);
    uint64_t key = MAX(share_of(t->locus), first);
    t->locus->share_ns = key; /* SC2: a direct switch may have woken it after a long sleep */
    if (goes_ahead(t))
        key = first;
    t->state = THREAD_READY;
    if (last && !list_empty(&sched.ready))
        key = MAX(key, container_of(sched.ready.prev, struct thread, run_link)->key_ns);
    queue_add(&sched.ready, t, key);
}

void sched_check(void)
{
    uint64_t last = 0;
    lock_acquire(&sched.lock);
    list_each(const struct thread, t, &sched.ready, run_link) {
        assert(t->state == THREAD_READY && t->key_ns >= last); /* SC1 */
        last = t->key_ns;
    }
    last = 0;
    list_each(const struct thread, t, &sched.sleepers, run_link) {
        assert(t->state == THREAD_PARKED && t->deadline_ns >= last &&
               t->deadline_ns != THREAD_NEVER); /* TH1 */
        last = t->deadline_ns;
    }
    lock_release(&sched.lock);
}

/* ---- sleepers and ticks ---- */

void sched_sleepers_changed(void)
{
    uint64_t first = list_empty(&sched.sleepers)
                         ? THREAD_NEVER
                         : list_first(&sched.sleepers, struct thread, run_link)->deadline_ns;
    __atomic_store_n(&sched.next_deadline, first, __ATOMIC_RELAXED);
}

void sched_sleep(struct thread *t)
{
    queue_add(&sched.sleepers, t, t->deadline_ns);
    sched_sleepers_changed();
}

/* tick wakes sleepers whose deadline has come, and charges the thread that runs. */
static void tick(struct thread *t, bool busy)
{
    lock_acquire(&sched.lock);
    uint64_t now = arch_time_ns(); /* another CPU may have charged t meanwhile (locus_set) */
    if (busy) {
        sched_account(t, now);
        t->run_start_ns = now;
        (void)share_of(t->locus);
        (void)floor_raise();
    }
    while (sched.next_deadline <= now) {
        struct thread *woken = list_first(&sched.sleepers, struct thread, run_link);
        sched_unpark(woken, -ETIMEDOUT);
        sched_make_ready(woken);
    }
    if (busy && now - t->slice_start_ns >= SLICE_NS)
        end_slice(t);
    sched_release_and_kick();
}

void trap_timer(void)
{
    struct thread *t = thread_this();
    uint64_t now = arch_time_ns();
    bool busy = t != cpu_this()->idle;
    lock_counting_here();
    thread_seam.tick(now);
    if (busy || __atomic_load_n(&sched.next_deadline, __ATOMIC_RELAXED) <= now)
        tick(t, busy);
}

void sched_breathe(struct thread *t)
{
    uint64_t now = arch_time_ns();
    if (now - t->slice_start_ns >= SLICE_NS ||
        __atomic_load_n(&sched.next_deadline, __ATOMIC_RELAXED) <= now)
        tick(t, true);
}
