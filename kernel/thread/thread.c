/*
 * thread.c - threads: birth and end, the switch, sleeping and waking, kills.
 *
 * Owns      every thread's state, each CPU's idle thread.
 * Not here  who runs next (sched.c), registers and stacks (arch), what a process is (process.c),
 *           which table a view wants (view.c), what threads wait for (each waiter has its
 *           own condition).
 *
 * Invariants
 *   TH1  A thread is in the run queue exactly while READY, in `sleepers` exactly while PARKED with
 *       a deadline, and current on exactly one CPU exactly while RUNNING.
 *   TH2  The switch is made with sched.lock held, and the thread that comes releases it. So nobody
 *       else sees a thread as READY or PARKED before its registers are saved.
 *   TH3  A CPU's bit is set in idle_cpus, under the lock, before it looks at the run queue for the
 *       last time and halts; whoever adds work clears a bit and kicks that CPU. Interrupts stay off
 *       from the look to the halt, so the kick is not lost.
 *   TH4  Before user mode is entered, `attention` was seen false with interrupts off. Whoever sets
 *       it later kicks the CPU, and the interrupt enters the kernel again at once.
 *   TH5  A struct thread is never used for anything else: a late thread_wake() of a thread that is
 *       gone, or is a new one by now, is at most one wake-up too many.
 *
 * Lock: sched.lock (RANK_SCHED). No other lock may be held when a thread sleeps or yields.
 */
#include "memory/frame.h"
#include "thread/sched.h"
#include "switch.h"

enum { THREADS_KEPT = 32 };          /* of THREADS_MAX: for init and what it starts itself */
enum interruptible { BY_NOTHING, BY_KILLS, BY_SIGNALS };

static struct list unused = LIST_INIT(unused); /* struct threads; sched.lock */
static unsigned unused_count;

static struct thread idle_threads[CPU_MAX];
static uint64_t last_id; /* atomic */

/* ---- the switch ---- */

static void thread_free(struct thread *t)
{
    if (t->stack != NULL)
        arch_stack_free(t->stack);
    t->stack = NULL;
    lock_acquire(&sched.lock);
    assert(list_empty(&t->run_link)); /* TH1 */
    list_push_front(&unused, &t->run_link);
    unused_count++;
    lock_release(&sched.lock);
}

static __attribute__((noinline)) void use_view_table(struct cpu *c, struct thread *t)
{
    paddr_t top = thread_seam.view_table(t);
    if (top > 1 && top != c->loaded_table)
        table_load(c, top & ~(paddr_t)1);
}

/* use_table loads the page table that t, which runs, needs. A kernel thread is content with any
 * (KR5). */
HOT void use_table(struct cpu *c, struct thread *t)
{
    if (t->view != NULL)
        use_view_table(c, t);
    else if (t->process != NULL && thread_home(t)->table != c->loaded_table)
        table_load(c, thread_home(t)->table);
}

void thread_use_table(void) { use_table(cpu_this(), thread_this()); }

/* after_switch does what the thread that left could not: kicks, freeing it if it is dead, the
 * trace. */
static __attribute__((cold, noinline)) void after_switch(struct cpu *c)
{
    struct thread *dead = c->dead;
    c->dead = NULL;
    c->chores = false;
    lock_release(&sched.lock);
    sched_kicks_send(c);
    if (dead != NULL)
        thread_free(dead);
    if (c->traces)
        trace_switched();
}

/* switch_finish is the first thing that t, which is thread_this(), does on its CPU (TH2). */
HOT void switch_finish(struct thread *t)
{
    struct cpu *c = cpu_this();
    if (__builtin_expect(c->after_switch, 0))
        after_switch(c);
    else
        lock_release(&sched.lock);
    use_table(c, t);
}

/* switch_at lets `to` run here in the place of `from`, the caller, and returns when that runs
 * again, perhaps elsewhere; its state says why it leaves. `to` is charged from `start` on.
 * sched.lock held on entry, not on return. */
HOT void switch_at(struct thread *from, struct thread *to, uint64_t start, uint64_t slice_start)
{
    struct cpu *c = cpu_this();
    to->state = THREAD_RUNNING;
    to->cpu = (int)c->id;
    to->run_start_ns = start;
    to->slice_start_ns = slice_start;
    c->current = to;
    arch_thread_switch(c, from, to);
    switch_finish(from);
}

/* switch_other: switch_at for one that begins a slice of its own. */
HOT void switch_other(struct thread *from, struct thread *to)
{
    uint64_t now = cpu_time_ns(cpu_this());
    sched_account(from, now);
    switch_at(from, to, now, now);
}

/* switch_to: switch_other for a thread that may be the caller itself. */
static void switch_to(struct thread *to)
{
    struct thread *me = thread_this();
    if (to != me) {
        switch_other(me, to);
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

/* sleep_begin makes t, the caller, PARKED. sched.lock held. */
HOT void sleep_begin(struct thread *t, uint64_t deadline_ns, enum interruptible interruptible)
{
    t->state = THREAD_PARKED;
    t->interruptible = interruptible;
    if (deadline_ns != THREAD_NEVER) {
        t->deadline_ns = deadline_ns;
        sched_sleep(t);
    }
}

/* ends_at_once: must t not sleep at all? Then *result is what its park returns. sched.lock held. */
HOT bool ends_at_once(struct thread *t, uint64_t deadline_ns, enum interruptible interruptible,
                      int *result)
{
    *result = 0;
    if (interruptible && t->killed)
        *result = -EINTR;
    else if (interruptible == BY_SIGNALS && t->signals.due)
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
    assert(t != cpu_this()->idle); /* TH3: a CPU without a thread to run has its idle one */
    lock_acquire_first(&sched.lock);
    if (ends_at_once(t, deadline_ns, interruptible, &result)) {
        lock_release(&sched.lock);
        return result;
    }
    sleep_begin(t, deadline_ns, interruptible);
    switch_other(t, sched_next());
    return t->park_result;
}

void thread_park(void) { (void)park(THREAD_NEVER, BY_NOTHING); }
int thread_park_until(uint64_t deadline_ns) { return park(deadline_ns, BY_KILLS); }

int thread_park_until_signal(uint64_t deadline_ns)
{
    struct thread *t = thread_this();
    int error = park(deadline_ns, BY_SIGNALS);
    if (error == -ERESTARTSYS) {
        t->signals.restart_call = trap_call_number(arch_user_frame(&t->arch)) + 1;
        __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
    }
    return error;
}

int thread_park_until_uninterrupted(uint64_t deadline_ns) { return park(deadline_ns, BY_NOTHING); }

/* sched.lock held. */
static void wake_locked(struct thread *t)
{
    if (t->state == THREAD_PARKED) {
        sched_unpark(t, 0);
        sched_make_ready(t);
    } else {
        t->wake = true;
    }
}

void thread_wake(struct thread *t)
{
    lock_acquire(&sched.lock);
    wake_locked(t);
    sched_release_and_kick();
}

int thread_wait(struct list *waiters, struct lock *l, int (*park)(uint64_t deadline_ns))
{
    struct thread *t = thread_this();
    list_push_back(waiters, &t->wait_link);
    lock_release(l);
    int result = park(THREAD_NEVER);
    lock_acquire(l);
    list_remove(&t->wait_link);
    return result;
}

void thread_wake_all(struct list *waiters)
{
    for (struct thread *t; (t = list_take(struct thread, waiters, wait_link));)
        thread_wake(t);
}

/* ---- loci ---- */

/* locus_set: t acts for `as` from now on, and is charged up to now. sched.lock held. */
static void locus_set(struct thread *t, struct thread *as)
{
    if (t->state == THREAD_RUNNING) {
        uint64_t now = arch_time_ns();
        sched_account(t, now);
        t->run_start_ns = now;
    }
    t->locus = as;
}

bool thread_locus(struct thread *t, struct thread *as, const struct call *given)
{
    lock_acquire(&sched.lock);
    bool still = t->given == given;
    if (still)
        locus_set(t, as == t ? t : as->locus);
    lock_release(&sched.lock);
    return still;
}

void thread_locus_end(const struct thread *t)
{
    lock_acquire(&sched.lock);
    for (unsigned i = 0; i < arch_cpu_count(); i++)
        if (cpus[i].current != NULL && cpus[i].current != t && cpus[i].current->locus == t)
            locus_set(cpus[i].current, cpus[i].current);
    lock_release(&sched.lock);
}

enum hand { HAND_CALL, HAND_ASK, HAND_ANSWER };
/* hand_over lets t go on in the caller's slice: so two that call each other for ever let others run
 * as often as one that computes. Where both act for one locus, that goes on being charged, and
 * nothing is to be reckoned. HAND_ASK: nobody's locus changes. */
HOT int hand_over(struct thread *t, enum hand hand, uint64_t deadline_ns)
{
    struct thread *me = thread_this();
    int result;
    lock_acquire_first(&sched.lock);
    struct thread *mine = me->locus;
    if (hand == HAND_CALL && t->given == me->call)
        t->locus = mine; /* else it has answered already, and serves another */
    bool stays = ends_at_once(me, deadline_ns, BY_KILLS, &result);
    if (__builtin_expect(stays || t->state != THREAD_PARKED, 0)) {
        if (hand == HAND_ANSWER)
            locus_set(me, me);
        wake_locked(t);
        sched_release_and_kick();
        return stays ? result : park(deadline_ns, BY_KILLS);
    }
    uint64_t start = me->run_start_ns;
    if (__builtin_expect(t->locus != mine, hand == HAND_ASK))
        sched_account(me, start = arch_time_ns());
    if (hand == HAND_ANSWER)
        me->locus = me;
    sched_unpark(t, 0);
    sleep_begin(me, deadline_ns, BY_KILLS);
    switch_at(me, t, start, me->slice_start_ns);
    return me->park_result;
}

int thread_call_and_park(struct thread *t) { return hand_over(t, HAND_CALL, THREAD_NEVER); }
int thread_answer_and_park(struct thread *t) { return hand_over(t, HAND_ANSWER, THREAD_NEVER); }
int thread_ask_and_park(struct thread *t, uint64_t until) { return hand_over(t, HAND_ASK, until); }

static void give_way(bool last)
{
    struct thread *t = thread_this();
    arch_serve_shootdown(); /* loops that yield may come back at once (KR5) */
    lock_acquire_first(&sched.lock);
    locus_set(t, t->locus);
    sched_put_back(t, last);
    switch_to(sched_next());
}

void thread_yield(void) { give_way(true); }

void thread_breathe(void)
{
    struct thread *t = thread_this();
    assert(lock_holds_none()); /* KR5: a shootdown may be served here */
    arch_serve_shootdown();
    if (t == cpu_this()->idle)
        return;
    sched_breathe(t);
    if (__atomic_load_n(&t->resched, __ATOMIC_RELAXED)) {
        __atomic_store_n(&t->resched, false, __ATOMIC_SEQ_CST);
        give_way(false);
        t->slice_start_ns = arch_time_ns(); /* also if there was nobody else */
    }
}

uint64_t thread_account(void)
{
    struct thread *t = thread_this();
    lock_acquire(&sched.lock);
    locus_set(t, t->locus);
    uint64_t used = t->locus->cpu_ns;
    lock_release(&sched.lock);
    return used;
}

/* ---- kills, kicks, ticks ---- */

/* sched.lock held. */
static void kick_locked(struct thread *t)
{
    __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
    if (t->state == THREAD_RUNNING && t != thread_this())
        sched.kicks |= 1u << t->cpu;
}

void thread_kick(struct thread *t)
{
    lock_acquire(&sched.lock);
    kick_locked(t);
    sched_release_and_kick();
}

/* kick_awake kicks t, and ends its sleep with `result` if `by` may interrupt it. sched.lock is held
 * on entry, not on return. */
static void kick_awake(struct thread *t, enum interruptible by, int result)
{
    kick_locked(t);
    if (t->state == THREAD_PARKED && t->interruptible >= by) {
        sched_unpark(t, result);
        sched_make_ready(t);
    }
    sched_release_and_kick();
}

void thread_kill(struct thread *t)
{
    lock_acquire(&sched.lock);
    t->killed = true;
    kick_awake(t, BY_KILLS, -EINTR);
}

void thread_signal(struct thread *t)
{
    lock_acquire(&sched.lock);
    __atomic_store_n(&t->signals.due, true, __ATOMIC_SEQ_CST);
    kick_awake(t, BY_SIGNALS, -ERESTARTSYS);
}

static __attribute__((cold, noinline)) void give_attention(struct thread *t, struct trap_frame *f)
{
    while (__atomic_exchange_n(&t->attention, false, __ATOMIC_SEQ_CST)) {
        sched_kicks_send(cpu_this());
        if (t->killed)
            thread_seam.leave();
        if (__atomic_exchange_n(&t->resched, false, __ATOMIC_SEQ_CST))
            give_way(false);
        if (t->view != NULL)
            thread_seam.doomed(f);
        if (__atomic_load_n(&t->signals.due, __ATOMIC_SEQ_CST) || t->signals.restart_call)
            thread_seam.signalled(f);
    }
}

void trap_return_to_user(struct trap_frame *f)
{
    struct thread *t = thread_this();
    if (__atomic_load_n(&t->attention, __ATOMIC_RELAXED))
        give_attention(t, f);
}

/* ---- beginning and end of threads ---- */

uint64_t thread_id_alloc(void) { return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED); }

static struct thread *unused_take(unsigned leave)
{
    lock_acquire(&sched.lock);
    struct thread *t = unused_count > leave ? list_take(struct thread, &unused, run_link) : NULL;
    unused_count -= t != NULL;
    lock_release(&sched.lock);
    return t;
}

static void prepare(struct thread *t, const char *name)
{
    memset(t, 0, sizeof *t);
    list_init(&t->run_link);
    list_init(&t->process_link);
    list_init(&t->futex_link);
    list_init(&t->wait_link);
    t->deadline_ns = THREAD_NEVER;
    t->locus = t;
    t->name = name;
}

/* Gives t a stack, so that its first switch comes to trampoline(). */
static bool prepare_stack(struct thread *t)
{
    t->stack = arch_stack_new();
    if (t->stack == NULL)
        return false;
    arch_thread_init(&t->arch, (char *)t->stack + KERNEL_STACK_BYTES, trampoline, t);
    t->user_frame = arch_user_frame(&t->arch);
    return true;
}

struct thread *thread_new(struct process *p, void (*start)(void *), void *arg, const char *name)
{
    const struct thread_home *home = thread_home(thread_this());
    struct thread *t = unused_take(!home || home->takes_kept ? 0 : THREADS_KEPT);
    if (t == NULL)
        return NULL;
    prepare(t, name);
    if (!prepare_stack(t)) {
        thread_free(t);
        return NULL;
    }
    t->process = p;
    t->start = start;
    t->start_argument = arg;
    t->cpu = (int)arch_cpu_id();
    t->nice = p != NULL ? thread_this()->nice : 0;
    return t;
}

void thread_start(struct thread *t)
{
    lock_acquire(&sched.lock);
    t->share_ns = sched.floor_ns; /* no bonus: nobody gains by having many children */
    sched_make_ready(t);
    sched_release_and_kick();
}

void thread_exit(void)
{
    struct thread *t = thread_this();
    assert(cpu_this()->dead == NULL && list_empty(&t->futex_link)); /* FX1 */
    lock_acquire_first(&sched.lock);
    t->state = THREAD_DEAD;
    t->process = NULL;      /* it may be gone before we are */
    cpu_this()->dead = t;   /* freed by whoever runs here next: it stands on its stack */
    cpu_this()->chores = true;
    switch_to(sched_next());
    panic("a dead thread runs");
}

/* ---- CPUs ---- */

static void idle_loop(void *unused)
{
    uint32_t here = 1u << arch_cpu_id();
    (void)unused;
    for (;;) {
        lock_acquire(&sched.lock);
        if (list_empty(&sched.ready)) {
            sched.idle_cpus |= here; /* TH3 */
            lock_release(&sched.lock);
            sched_kicks_send(cpu_this());
            arch_idle();
        } else {
            sched.idle_cpus &= ~here;
            switch_to(sched_next());
        }
    }
}

/* become makes the code that runs on this CPU the thread t from now on. */
static void become(struct cpu *c, struct thread *t, const char *name)
{
    prepare(t, name);
    t->state = THREAD_RUNNING;
    t->cpu = (int)c->id;
    t->run_start_ns = arch_time_ns();
    c->current = t;
}

void cpu_main(void)
{
    struct cpu *c = cpu_this();
    struct thread *t = &idle_threads[c->id];
    c->idle = t;
    become(c, t, "idle");
    idle_loop(NULL);
    panic("the idle thread ended");
}

void thread_init(void)
{
    size_t bytes = THREADS_MAX * sizeof(struct thread);
    struct frame *f = frame_alloc_run((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
    struct cpu *c = cpu_this();
    if (f == NULL)
        panic("no memory for %d threads", THREADS_MAX);
    struct thread *pool = frame_memory(f);
    for (unsigned i = THREADS_MAX; i-- > 0;) {
        pool[i].state = THREAD_DEAD;
        list_push_front(&unused, &pool[i].run_link);
        unused_count++;
    }

    c->idle = &idle_threads[c->id];
    prepare(c->idle, "idle");
    if (!prepare_stack(c->idle))
        panic("no memory for a stack");
    c->idle->start = idle_loop;

    become(c, unused_take(0), "boot");
}
