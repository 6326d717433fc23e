/*
 * trace.c - what happens, as events in a ring for each CPU (tracing.md).
 *
 * Owns      the rings, who traces, and the table of system calls as trap.S uses it.
 * Not here  what is done with the events: user/trace, scripts/trace2json; the last of them: report.c.
 *
 * A ring has one writer, its CPU: the kernel runs with interrupts off, so an event is appended without
 * a lock. `next` moves after the event is whole. Readers copy first and look at `next` again afterwards:
 * what was overwritten meanwhile is lost, and counted. While somebody traces there are large rings in
 * place of small ones.
 *
 * System calls are traced by other entries in the table that trap.S uses, thread switches by a word
 * that a switch tests anyway: neither costs an instruction while nobody traces.
 *
 * Lock: trace_lock (RANK_PROCESS_TABLE): who traces; rings do not change for those that read.
 */
#include "look/trace.h"

#include "base/panic.h"
#include "message/port.h"
#include "store/view.h"

struct ring {
    uint64_t next;                  /* atomic: the number of the next event */
    uint64_t first;                 /* of those before it nothing was here ever */
    uint64_t count;                 /* a power of 2 */
    struct kd_trace_event events[];
};

bool trace_on, trace_keeps = true;
trap_call *trap_table[TRAP_CALLS];  /* trap.S: trap_calls, or call_traced for what is traced */
struct trace_step trace_step;
static struct lock trace_lock = LOCK_INIT(RANK_PROCESS_TABLE, "trace");
static const struct process *tracer; /* compared only */
static uint64_t small[CPU_MAX][(sizeof(struct ring) + KD_TRACE_KEPT * sizeof(struct kd_trace_event)) / 8];
static struct ring *rings[CPU_MAX]; /* atomic */

/* ---- writing ---- */

void trace_event(enum kd_trace_event_kind kind, uint32_t c, uint64_t a, uint64_t b)
{
    const struct thread *t = thread_this();
    const struct process *p = t->process;
    unsigned cpu = arch_cpu_id();
    struct ring *r = __atomic_load_n(&rings[cpu], __ATOMIC_ACQUIRE);
    r->events[r->next & (r->count - 1)] = (struct kd_trace_event){
        .time_ns = arch_time_ns(), .thread = (uint32_t)t->id, .process = p ? (uint32_t)p->pid : 0,
        .kind = (uint8_t)kind, .cpu = (uint8_t)cpu,
        .view = t->view ? (uint8_t)(t->view->id + 1) : 0, .reserved = 0, .c = c, .a = a, .b = b};
    __atomic_store_n(&r->next, r->next + 1, __ATOMIC_RELEASE);
    if (kind != KD_TRACE_SWITCH) /* those come at any time */
        bug_event();
}

void trace_name(int pid, const char *name)
{
    uint64_t text[2] = {0};
    memcpy(text, name, strnlen(name, sizeof text));
    TRACE_RARE(NAME, pid, text[0], text[1]);
}

void trace_switched(void)
{
    trace_event(KD_TRACE_SWITCH, 0, 0, 0);
}

/* What a fault has led to, as the page tables tell. No lock: tables go with the whole of a process or a view
 * (arch_table_free), not while a thread of theirs runs; what the entry says may be old already. */
static uint64_t right_at(const struct thread *t, vaddr_t at)
{
    bool store = at - KD_STORE_BASE < KD_STORE_END - KD_STORE_BASE;
    paddr_t top = store && t->view ? t->view->table : t->process->table;
    const pte_t *pte = arch_pte(top, at, false);
    pte_t e = pte ? pte_load(pte) : 0;
    return (pte_present(e) ? KD_TRACE_MAPPED : 0) | (pte_writable(e) ? KD_TRACE_WRITABLE : 0) |
           (store && e & PTE_COPY ? KD_TRACE_COPY : 0);
}

int trace_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    const struct thread *t = thread_this();
    if (t->process == tracer)
        return trap_page_fault(f, at, flags);
    trace_event(KD_TRACE_FAULT, flags & ~(unsigned)FAULT_PRESENT, at, trap_place(f));
    int e = trap_page_fault(f, at, flags);
    trace_event(KD_TRACE_FAULTED, 0, at, right_at(t, at));
    return e;
}

/* The message that a call has just received, in the caller's memory. */
static void received(vaddr_t at)
{
    uint64_t word[3]; /* kind and status, token, process */
    if (user_words_in(word, at, ARRAY_COUNT(word)) == 0 && word[1])
        trace_event(KD_TRACE_RECEIVE, (uint32_t)word[0], word[1], word[2]);
}

/* The ends of calls that say more than their result. */
static void call_ended(unsigned number, const uint64_t a[6], uint64_t token, long result)
{
    const struct view *v = thread_this()->view;
    if ((number == KD_PORT_CALL || number == KD_PORT_CALL_UNTIL) && token)
        trace_event(KD_TRACE_ANSWER, 0, token, (uint64_t)result);
    else if (number == KD_PORT_RECEIVE && result == 0)
        received(a[1]);
    else if (number == KD_PORT_REPLY_RECEIVE && result == 0)
        received(a[3]);
    else if (number == KD_TXN_BEGIN && result == 0)
        trace_event(KD_TRACE_BEGIN, v->mode, v->ticket, v->snapshot);
}

/* Stands in trap_table for the call while somebody traces. */
static long call_traced(const uint64_t a[6])
{
    unsigned number = (unsigned)trap_call_number(arch_user_frame(&thread_this()->arch));
    if (process_this() == tracer)
        return trap_calls[number](a);
    uint64_t token = 0;
    uint32_t kind = 0;
    trace_event(KD_TRACE_CALL, number, a[0], a[1]);
    if (number == KD_PORT_CALL || number == KD_PORT_CALL_UNTIL) {
        token = call_next_token();
        (void)!copy_from_user(&kind, a[1], sizeof kind);
        trace_event(KD_TRACE_SEND, kind, token, 0);
    } else if (number == KD_PORT_REPLY || (number == KD_PORT_REPLY_RECEIVE && a[0])) {
        trace_event(KD_TRACE_REPLY, 0, a[0], 0);
    }
    long result = trap_calls[number](a);
    call_ended(number, a, token, result);
    trace_event(KD_TRACE_RETURN, number, (uint64_t)result, 0);
    return result;
}

/* ---- reading ---- */

enum { READ_MAX = 256 };

/* What is left of the wanted ones, whole: those that may have been overwritten while they were copied
 * are lost. trace_lock held. */
static unsigned ring_read(const struct ring *r, struct kd_trace_read *d, struct kd_trace_event *to)
{
    uint64_t next = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE), wanted = MIN(d->position, next);
    uint64_t oldest = MAX(r->first, next >= r->count ? next - r->count + 1 : 0), from = MAX(wanted, oldest);
    uint64_t n = MIN(MIN(d->count, READ_MAX), next - from);
    for (uint64_t i = 0; i < n; i++)
        to[i] = r->events[(from + i) & (r->count - 1)];
    next = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE);
    uint64_t gone = next >= from + r->count ? MIN(next - from - r->count + 1, n) : 0;
    memmove(to, to + gone, (n - gone) * sizeof *to);
    d->lost = from - wanted + gone;
    d->position = from + n;
    return (unsigned)(n - gone);
}

static long trace_read(uint64_t cpu, vaddr_t at)
{
    struct kd_trace_read d;
    if (cpu >= arch_cpu_count())
        return -EINVAL;
    if (copy_from_user(&d, at, sizeof d))
        return -EFAULT;
    struct kd_trace_event *events = kalloc(READ_MAX * sizeof *events);
    if (!events)
        return -ENOMEM;
    lock_acquire(&trace_lock);
    long n = ring_read(rings[cpu], &d, events);
    lock_release(&trace_lock);
    if (copy_to_user((vaddr_t)d.events, events, (size_t)n * sizeof *events) || copy_to_user(at, &d, sizeof d))
        n = -EFAULT;
    kfree(events);
    return n;
}

/* The newest before that time, of that process if it is not 0. */
static const struct kd_trace_event *older(const struct ring *r, int pid, uint64_t before_ns)
{
    uint64_t n = MIN(r->next - r->first, r->count);
    for (uint64_t i = 1; i <= n; i++) {
        const struct kd_trace_event *e = &r->events[(r->next - i) & (r->count - 1)];
        if (e->time_ns < before_ns && (!pid || e->process == (uint32_t)pid))
            return e;
    }
    return NULL;
}

unsigned trace_last(int pid, struct kd_trace_event *to, unsigned count)
{
    unsigned n = 0;
    if (!rings[0])
        return 0; /* a panic so early */
    if (!panic_begun)
        lock_acquire(&trace_lock);
    for (; n < count; n++) {
        const struct kd_trace_event *newest = NULL;
        for (unsigned i = 0; i < arch_cpu_count(); i++) {
            const struct kd_trace_event *e = older(rings[i], pid, n ? to[n - 1].time_ns : ~0ull);
            if (e && (!newest || e->time_ns > newest->time_ns))
                newest = e;
        }
        if (!newest)
            break;
        to[n] = *newest;
    }
    if (!panic_begun)
        lock_release(&trace_lock);
    return n;
}

/* ---- who traces ---- */

static struct ring *ring_small(unsigned cpu) { return (struct ring *)small[cpu]; }

/* The small ones again, and no CPU is appending to another any more: each has served a shootdown, which
 * nobody does while he appends. trace_lock held. */
static void rings_small(void)
{
    struct ring *old[CPU_MAX] = {0};
    for (unsigned i = 0; i < arch_cpu_count(); i++) {
        struct ring *r = ring_small(i);
        if (rings[i] == r)
            continue;
        old[i] = rings[i];
        r->first = r->next = old[i]->next;
        __atomic_store_n(&rings[i], r, __ATOMIC_SEQ_CST);
    }
    arch_shootdown((1ull << arch_cpu_count()) - 1);
    for (unsigned i = 0; i < arch_cpu_count(); i++)
        kfree(old[i]);
}

/* trace_lock held. */
static int rings_large(void)
{
    for (unsigned i = 0; i < arch_cpu_count(); i++) {
        struct ring *r = kalloc(sizeof *r + KD_TRACE_EVENTS * sizeof r->events[0]);
        if (!r) {
            rings_small();
            return -ENOMEM;
        }
        *r = (struct ring){.next = rings[i]->next, .first = rings[i]->next, .count = KD_TRACE_EVENTS};
        __atomic_store_n(&rings[i], r, __ATOMIC_RELEASE);
    }
    return 0;
}

static void switch_points(bool on)
{
    const char *choice = kernel_option("trace");
    for (unsigned i = 0; i < TRAP_CALLS; i++) {
        bool traced = on && trap_calls[i] != trap_call_unknown && trap_calls[i] != trace_call &&
                      !trap_call_keeps(i);
        __atomic_store_n(&trap_table[i], traced ? call_traced : trap_calls[i], __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; i < arch_cpu_count(); i++)
        __atomic_store_n(&cpus[i].traces, on, __ATOMIC_RELAXED);
    __atomic_store_n(&trace_keeps, on || !choice || strcmp(choice, "off") != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&trace_on, on, __ATOMIC_RELEASE);
}

static long trace_start(void)
{
    lock_acquire(&trace_lock);
    long result = tracer ? -EBUSY : rings_large();
    if (!result) {
        tracer = process_this();
        switch_points(true);
        result = arch_cpu_count();
    }
    lock_release(&trace_lock);
    return result;
}

static long trace_stop(const struct process *p)
{
    lock_acquire(&trace_lock);
    bool own = tracer == p;
    if (own) {
        switch_points(false);
        rings_small();
        tracer = NULL;
    }
    lock_release(&trace_lock);
    return own ? 0 : -EPERM;
}

void trace_process_gone(const struct process *p)
{
    if (tracer == p)
        (void)trace_stop(p);
}

long trace_call(const uint64_t a[6])
{
    switch (a[0]) {
    case KD_TRACE_START: return trace_start();
    case KD_TRACE_STOP: return trace_stop(process_this());
    case KD_TRACE_READ: return trace_read(a[1], a[2]);
    case KD_TRACE_MARK_IT:
        trace_step = (struct trace_step){{a[1], a[2]}, arch_time_ns()};
        TRACE_RARE(MARK, 0, a[1], a[2]);
        return 0;
    case KD_TRACE_DIE: return bug_die_in(a[1]);
    default: return -EINVAL;
    }
}

void trace_init(void)
{
    for (unsigned i = 0; i < CPU_MAX; i++) {
        rings[i] = ring_small(i);
        rings[i]->count = KD_TRACE_KEPT;
    }
    switch_points(false);
}
