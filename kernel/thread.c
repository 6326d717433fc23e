/*
 * thread.c - threads: who runs where, sleeping and waking, time slices, kills.
 *
 * Owns      the run queue, the sleepers, every thread's state, each CPU's idle thread.
 * Not here  registers and stacks (arch), what a process is (process.c), which table a thread wants
 *           (thread_table, view.c), what threads wait for (each waiter has its own condition).
 *
 * Invariants
 *   T1  A thread is in the run queue exactly while READY, in `sleepers` exactly while PARKED with a
 *       deadline, and current on exactly one CPU exactly while RUNNING.
 *   T2  The switch is made with sched.lock held, and the thread that comes releases it. So nobody
 *       else sees a thread as READY or PARKED before its registers are saved.
 *   T3  A CPU's bit is set in idle_cpus, under the lock, before it looks at the run queue for the
 *       last time and halts; whoever adds work clears a bit and kicks that CPU. Interrupts stay off
 *       from the look to the halt, so the kick is not lost.
 *   T4  Before user mode is entered, `attention` was seen false with interrupts off. Whoever sets
 *       it later kicks the CPU, and the interrupt enters the kernel again at once.
 *   T5  A struct thread is never used for anything else: a late thread_wake() of a thread that is
 *       gone, or is a new one by now, is at most one wake-up too many.
 *
 * Lock: sched.lock (RANK_SCHED). No other lock may be held when a thread sleeps or yields.
 */
#include "frame.h"
#include "process.h"
#include "signal.h"
#include "switch.h"
#include "thread.h"

#define SLICE_NS 5000000u /* a slice ends with the first tick (every 10 ms) after this */
#define SLICE_MIN_NS 1000000u
#define WOKEN_IN_A_ROW_MAX 8
#define STACK_CANARY 0x57ac0f1005e7ca4aull
#define STACK_FRAMES (KERNEL_STACK_BYTES / PAGE_BYTES)

#define HOT static inline __attribute__((always_inline)) /* on the way of each message */

enum interruptible { BY_NOTHING, BY_KILLS, BY_SIGNALS };

static struct {
    struct lock lock;
    struct list woken, preempted;      /* the run queue: from a sleep; from a slice that ended */
    unsigned woken_in_a_row;
    struct list sleepers;              /* by deadline */
    uint64_t next_deadline;            /* the first sleeper's; read without the lock by the tick */
    uint32_t idle_cpus;                /* T3 */
    struct list unused;                /* struct threads */
} sched = {.lock = LOCK_INIT(RANK_SCHED, "sched"), .next_deadline = THREAD_NEVER};

static struct thread idle_threads[CPU_MAX];
static uint64_t last_id; /* atomic */

/* ---- queues; all under sched.lock ---- */

static void sleepers_changed(void)
{
    uint64_t first = list_empty(&sched.sleepers)
                         ? THREAD_NEVER
                         : list_first(&sched.sleepers, struct thread, run_link)->deadline_ns;

    __atomic_store_n(&sched.next_deadline, first, __ATOMIC_RELAXED);
}

static void sleepers_add(struct thread *t)
{
    struct list *at = sched.sleepers.prev;

    while (at != &sched.sleepers &&
           container_of(at, struct thread, run_link)->deadline_ns > t->deadline_ns)
        at = at->prev;
    list_push_front(at, &t->run_link); /* behind `at` */
    sleepers_changed();
}

/* Its slice is over: it yields before it goes on in user mode. */
static void end_slice(struct thread *t)
{
    __atomic_store_n(&t->resched, true, __ATOMIC_RELAXED);
    __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
}

/* All CPUs are busy and a thread has woken up. Whoever has run for longest gives way, but not
 * before it got something done: so a woken thread need not wait for the tick. */
static void end_longest_slice(void)
{
    unsigned longest = 0, count = arch_cpu_count();

    for (unsigned i = 1; i < count; i++)
        if (cpus[i].current && /* it is up, but may not have a thread yet */
            cpus[i].current->slice_start_ns < cpus[longest].current->slice_start_ns)
            longest = i;
    if (arch_time_ns() - cpus[longest].current->slice_start_ns < SLICE_MIN_NS ||
        __atomic_load_n(&cpus[longest].current->resched, __ATOMIC_RELAXED))
        return;
    end_slice(cpus[longest].current);
    if (longest != arch_cpu_id())
        arch_kick(longest);
}

/* Some CPU must look at the run queue: this one, if it is idle (an interrupt ended its halt), or
 * the one where t ran last, or any that is idle. */
static void kick_some_cpu(const struct thread *t)
{
    uint32_t idle = sched.idle_cpus, here = 1u << arch_cpu_id();
    unsigned cpu;

    if (idle == 0) {
        end_longest_slice();
        return;
    }
    if (idle & here) {
        sched.idle_cpus &= ~here;
        return;
    }
    cpu = idle >> t->cpu & 1 ? (unsigned)t->cpu : (unsigned)__builtin_ctz(idle);
    sched.idle_cpus &= ~(1u << cpu);
    arch_kick(cpu);
}

static void make_ready(struct thread *t)
{
    t->state = THREAD_READY;
    list_push_back(&sched.woken, &t->run_link);
    kick_some_cpu(t);
}

/* Takes t out of its sleep; the caller makes it ready or runs it. */
HOT void unpark(struct thread *t, int result)
{
    t->park_result = result;
    if (t->deadline_ns != THREAD_NEVER) {
        list_remove(&t->run_link);
        t->deadline_ns = THREAD_NEVER;
        sleepers_changed();
    }
}

static void wake_locked(struct thread *t)
{
    if (t->state == THREAD_PARKED) {
        unpark(t, 0);
        make_ready(t);
    } else {
        t->wake = true;
    }
}

static bool nobody_ready(void)
{
    return list_empty(&sched.woken) && list_empty(&sched.preempted);
}

/* Who slept goes first: it is waited for, and mostly sleeps again soon. But not always, so that the
 * others go on. */
static struct thread *next_ready(void)
{
    bool preempted = list_empty(&sched.woken) ||
                     (sched.woken_in_a_row >= WOKEN_IN_A_ROW_MAX && !list_empty(&sched.preempted));
    struct list *l = list_pop(preempted ? &sched.preempted : &sched.woken);

    sched.woken_in_a_row = preempted ? 0 : sched.woken_in_a_row + 1;
    return l != NULL ? container_of(l, struct thread, run_link) : cpu_this()->idle;
}

/* ---- the switch ---- */

static void thread_free(struct thread *t)
{
    if (t->stack != NULL) {
        struct frame *f = frame_of((paddr_t)((char *)t->stack - (char *)arch_phys(0)));

        for (unsigned i = 0; i < STACK_FRAMES; i++)
            frame_free(f + i);
        t->stack = NULL;
    }
    lock_acquire(&sched.lock);
    list_push_front(&sched.unused, &t->run_link);
    lock_release(&sched.lock);
}

static __attribute__((noinline)) void use_view_table(struct thread *t)
{
    bool stale;
    paddr_t top = thread_table(t, &stale);

    if (top != 0 && (stale || top != arch_table_loaded()))
        arch_table_load(top);
}

/* For t, which runs. A kernel thread is content with any table (G5). */
HOT void use_table(struct cpu *c, struct thread *t)
{
    if (t->view != NULL)
        use_view_table(t);
    else if (t->process != NULL && t->process->table != c->loaded_table)
        table_load(c, t->process->table);
}

void thread_use_table(void)
{
    use_table(cpu_this(), thread_this());
}

static __attribute__((cold, noinline)) void bury(struct cpu *c)
{
    struct thread *dead = c->dead;

    c->dead = NULL;
    lock_release(&sched.lock);
    thread_free(dead);
}

/* The first thing that t, which is thread_this(), does on its CPU (T2). */
HOT void switch_finish(struct thread *t)
{
    struct cpu *c = cpu_this();

    if (__builtin_expect(c->dead != NULL, 0))
        bury(c);
    else
        lock_release(&sched.lock);
    use_table(c, t);
}

HOT void account(struct thread *t, uint64_t now)
{
    uint64_t ran = now - t->run_start_ns;

    t->cpu_ns += ran;
    if (t->process != NULL)
        __atomic_fetch_add(&t->process->cpu_ns, ran, __ATOMIC_RELAXED);
}

HOT void check_canary(const struct thread *t)
{
    if (t->stack != NULL && *(const uint64_t *)t->stack != STACK_CANARY)
        panic("the kernel stack of thread %s (%llu) has overflown", t->name,
              (unsigned long long)t->id);
}

/* sched.lock is held on entry, and not on return, which is when the caller runs again: perhaps on
 * another CPU. Its state says already why it leaves. `to` is another thread; it goes on in our slice
 * or begins one. */
HOT void switch_other(struct thread *to, bool same_slice)
{
    struct cpu *c = cpu_this();
    struct thread *from = thread_this();
    uint64_t now = cpu_time_ns(c);

    check_canary(from);
    account(from, now);
    to->state = THREAD_RUNNING;
    to->cpu = (int)c->id;
    to->run_start_ns = now;
    to->slice_start_ns = same_slice ? from->slice_start_ns : now;
    c->current = to;
    arch_thread_switch(c, from, to);
    switch_finish(from);
}

/* The same, if it may be the caller itself. */
static void switch_to(struct thread *to)
{
    struct thread *me = thread_this();

    if (to != me) {
        switch_other(to, false);
        return;
    }
    me->state = THREAD_RUNNING;
    me->slice_start_ns = arch_time_ns();
    lock_release(&sched.lock);
}

static void trampoline(void *argument)
{
    struct thread *t = argument;

    switch_finish(t);
    t->start(t->start_argument);
    thread_exit();
}

/* ---- sleeping ---- */

/* sched.lock is held on entry and not on return. */
HOT int sleep_locked(struct thread *t, uint64_t deadline_ns, enum interruptible interruptible,
                        struct thread *next, bool same_slice)
{
    t->state = THREAD_PARKED;
    t->interruptible = interruptible;
    if (deadline_ns != THREAD_NEVER) {
        t->deadline_ns = deadline_ns;
        sleepers_add(t);
    }
    switch_other(next, same_slice);
    return t->park_result;
}

/* True: t must not sleep, and *result is what its park returns. */
HOT bool ends_at_once(struct thread *t, uint64_t deadline_ns, enum interruptible interruptible, int *result)
{
    *result = 0;
    if (interruptible && t->killed)
        *result = -EINTR;
    else if (interruptible == BY_SIGNALS && t->signalled)
        *result = -ERESTARTSYS;
    else if (t->wake)
        t->wake = false;
    else if (deadline_ns != THREAD_NEVER && arch_time_ns() >= deadline_ns)
        *result = -ETIMEDOUT;
    else
        return false;
    return true;
}

static int park(uint64_t deadline_ns, enum interruptible interruptible)
{
    struct thread *t = thread_this();
    int result;

    assert(t != cpu_this()->idle);
    lock_acquire_first(&sched.lock);
    if (!ends_at_once(t, deadline_ns, interruptible, &result))
        return sleep_locked(t, deadline_ns, interruptible, next_ready(), false);
    lock_release(&sched.lock);
    return result;
}

void thread_park(void)
{
    (void)park(THREAD_NEVER, BY_NOTHING);
}

int thread_park_until(uint64_t deadline_ns)
{
    return park(deadline_ns, BY_KILLS);
}

int thread_park_until_signal(uint64_t deadline_ns)
{
    return park(deadline_ns, BY_SIGNALS);
}

int thread_park_until_uninterrupted(uint64_t deadline_ns)
{
    return park(deadline_ns, BY_NOTHING);
}

void thread_wake(struct thread *t)
{
    lock_acquire(&sched.lock);
    wake_locked(t);
    lock_release(&sched.lock);
}

/* The thread woken goes on in the caller's slice: two that call each other for ever get no more
 * time than one. */
int thread_wake_and_park(struct thread *t)
{
    struct thread *me = thread_this();
    int result;

    lock_acquire_first(&sched.lock);
    if (ends_at_once(me, THREAD_NEVER, BY_KILLS, &result)) {
        wake_locked(t);
        lock_release(&sched.lock);
        return result;
    }
    if (__builtin_expect(t->state == THREAD_PARKED, 1)) {
        unpark(t, 0);
        return sleep_locked(me, THREAD_NEVER, BY_KILLS, t, true);
    }
    t->wake = true;
    return sleep_locked(me, THREAD_NEVER, BY_KILLS, next_ready(), false);
}

void thread_yield(void)
{
    struct thread *t = thread_this();

    arch_serve_shootdown(); /* loops that yield may come back at once (G5) */
    lock_acquire_first(&sched.lock);
    t->state = THREAD_READY;
    list_push_back(&sched.preempted, &t->run_link);
    switch_to(next_ready());
}

/* ---- kills, kicks, ticks ---- */

/* sched.lock held. */
static void kick_locked(struct thread *t)
{
    __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
    if (t->state == THREAD_RUNNING && t != thread_this())
        arch_kick((unsigned)t->cpu);
}

void thread_kick(struct thread *t)
{
    lock_acquire(&sched.lock);
    kick_locked(t);
    lock_release(&sched.lock);
}

void thread_kill(struct thread *t)
{
    lock_acquire(&sched.lock);
    t->killed = true;
    kick_locked(t);
    if (t->state == THREAD_PARKED && t->interruptible) {
        unpark(t, -EINTR);
        make_ready(t);
    }
    lock_release(&sched.lock);
}

void thread_signal(struct thread *t)
{
    lock_acquire(&sched.lock);
    __atomic_store_n(&t->signalled, true, __ATOMIC_SEQ_CST);
    kick_locked(t);
    if (t->state == THREAD_PARKED && t->interruptible == BY_SIGNALS) {
        unpark(t, -ERESTARTSYS);
        make_ready(t);
    }
    lock_release(&sched.lock);
}

static void wake_sleepers(uint64_t now)
{
    lock_acquire(&sched.lock);
    while (sched.next_deadline <= now) {
        struct thread *t = list_first(&sched.sleepers, struct thread, run_link);

        unpark(t, -ETIMEDOUT);
        make_ready(t);
    }
    lock_release(&sched.lock);
}

void trap_timer(void)
{
    struct thread *t = thread_this();
    uint64_t now = arch_time_ns();

    if (__atomic_load_n(&sched.next_deadline, __ATOMIC_RELAXED) <= now)
        wake_sleepers(now);
    if (t != cpu_this()->idle && now - t->slice_start_ns >= SLICE_NS)
        end_slice(t);
}

static __attribute__((cold, noinline)) void give_attention(struct thread *t, struct trap_frame *f)
{
    while (__atomic_exchange_n(&t->attention, false, __ATOMIC_SEQ_CST)) {
        if (t->killed)
            process_thread_leave();
        if (__atomic_exchange_n(&t->resched, false, __ATOMIC_SEQ_CST))
            thread_yield();
        if (t->view != NULL)
            view_return_to_user(f);
        if (__atomic_load_n(&t->signalled, __ATOMIC_SEQ_CST) || t->restart_call)
            signal_return_to_user(f);
    }
}

void trap_return_to_user(struct trap_frame *f)
{
    struct thread *t = thread_this();

    if (__atomic_load_n(&t->attention, __ATOMIC_RELAXED))
        return give_attention(t, f);
}

/* ---- beginning and end of threads ---- */

uint64_t thread_id_alloc(void)
{
    return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
}

static struct thread *unused_take(void)
{
    struct list *l;

    lock_acquire(&sched.lock);
    l = list_pop(&sched.unused);
    lock_release(&sched.lock);
    return l != NULL ? container_of(l, struct thread, run_link) : NULL;
}

static void prepare(struct thread *t, const char *name)
{
    memset(t, 0, sizeof *t);
    list_init(&t->run_link);
    list_init(&t->process_link);
    list_init(&t->futex_link);
    list_init(&t->wait_link);
    t->deadline_ns = THREAD_NEVER;
    t->in_kernel_only = true;
    t->name = name;
}

/* Gives t a stack, so that its first switch comes to trampoline(). */
static bool prepare_stack(struct thread *t)
{
    struct frame *f = frame_alloc_run(STACK_FRAMES);

    if (f == NULL)
        return false;
    t->stack = frame_memory(f);
    *(uint64_t *)t->stack = STACK_CANARY;
    arch_thread_init(&t->arch, (char *)t->stack + KERNEL_STACK_BYTES, trampoline, t);
    t->user_frame = arch_user_frame(&t->arch);
    return true;
}

struct thread *thread_new(struct process *p, void (*start)(void *), void *arg, const char *name)
{
    struct thread *t = unused_take();

    if (t == NULL)
        return NULL;
    prepare(t, name);
    if (!prepare_stack(t)) {
        thread_free(t);
        return NULL;
    }
    t->process = p;
    t->in_kernel_only = p == NULL;
    t->start = start;
    t->start_argument = arg;
    t->cpu = (int)arch_cpu_id();
    return t;
}

void thread_start(struct thread *t)
{
    lock_acquire(&sched.lock);
    make_ready(t);
    lock_release(&sched.lock);
}

void thread_exit(void)
{
    struct thread *t = thread_this();

    call_thread_gone(t);
    lock_acquire_first(&sched.lock);
    t->state = THREAD_DEAD;
    t->process = NULL;      /* it may be gone before we are */
    cpu_this()->dead = t;   /* freed by whoever runs here next: it stands on its stack */
    switch_to(next_ready());
    panic("a dead thread runs");
}

/* ---- CPUs ---- */

static void idle_loop(void *unused)
{
    uint32_t here = 1u << arch_cpu_id();

    (void)unused;
    for (;;) {
        lock_acquire(&sched.lock);
        if (nobody_ready()) {
            sched.idle_cpus |= here; /* T3 */
            lock_release(&sched.lock);
            arch_idle();
        } else {
            sched.idle_cpus &= ~here;
            switch_to(next_ready());
        }
    }
}

void cpu_main(void)
{
    struct cpu *c = cpu_this();
    struct thread *t = &idle_threads[c->id];

    prepare(t, "idle");
    t->state = THREAD_RUNNING;
    t->cpu = (int)c->id;
    t->run_start_ns = arch_time_ns();
    c->current = c->idle = t;
    idle_loop(NULL);
    panic("the idle thread ended");
}

void thread_init(void)
{
    size_t bytes = THREADS_MAX * sizeof(struct thread);
    struct frame *f = frame_alloc_run((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
    struct cpu *c = cpu_this();
    struct thread *pool, *boot;

    if (f == NULL)
        panic("no memory for %d threads", THREADS_MAX);
    pool = frame_memory(f);
    list_init(&sched.woken);
    list_init(&sched.preempted);
    list_init(&sched.sleepers);
    list_init(&sched.unused);
    for (unsigned i = THREADS_MAX; i-- > 0;) {
        pool[i].state = THREAD_DEAD;
        list_push_front(&sched.unused, &pool[i].run_link);
    }

    c->idle = &idle_threads[c->id];
    prepare(c->idle, "idle");
    if (!prepare_stack(c->idle))
        panic("no memory for a stack");
    c->idle->start = idle_loop;

    boot = unused_take();
    prepare(boot, "boot");
    boot->state = THREAD_RUNNING;
    boot->cpu = (int)c->id;
    boot->run_start_ns = arch_time_ns();
    c->current = boot;
}
