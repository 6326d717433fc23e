/*
 * trace_call.c - who traces, and the calls and faults that are traced (tracing.md).
 *
 * Owns      the table of system calls as trap.S uses it.
 * Not here  the rings (thread/trace.c).
 *
 * System calls are traced by other entries in the table that trap.S uses, thread switches by a word
 * that a switch tests anyway: neither costs an instruction while nobody traces.
 *
 * Lock: trace_lock: who traces.
 */
#include "base/boot.h"
#include "look/look.h"
#include "message/message.h"
#include "process/handle.h"
#include "store/store.h"

/* trap.S: trap_calls, or call_traced for what is traced */
trap_call *trap_table[TRAP_CALLS];
bool trace_faults;
struct trace_step trace_step;
static const struct process *tracer; /* compared only */

/* mapped_at: the access that a fault has led to, as the page tables tell. No lock: this CPU's
 * tables stay (arch_table_free); the entry may be old already. */
static uint64_t mapped_at(vaddr_t at)
{
    const pte_t *pte = arch_pte(arch_table_loaded(), at, NULL);
    pte_t e = pte ? pte_load(pte) : 0;
    return (pte_present(e) ? KD_TRACE_MAPPED : 0) | (pte_writable(e) ? KD_TRACE_WRITABLE : 0) |
           (e & PTE_COPY ? KD_TRACE_COPY : 0);
}

int trace_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    const struct thread *t = thread_this();
    if (t->process == tracer || !trace_on)
        return trap_page_fault(f, at, flags);
    trace_event(KD_TRACE_FAULT, flags & ~(unsigned)FAULT_PRESENT, at, trap_place(f));
    int e = trap_page_fault(f, at, flags);
    trace_event(KD_TRACE_FAULTED, 0, at, mapped_at(at));
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
    else if (number == KD_TXN_BEGIN && result == 0 && v) /* a holder's thread has left it */
        trace_event(KD_TRACE_BEGIN, view_told(v).mode, view_told(v).ticket, view_told(v).snapshot);
}

/* Stands in trap_table for the call while somebody traces. */
static long call_traced(const uint64_t a[6])
{
    unsigned number = (unsigned)trap_call_number(arch_user_frame(&thread_this()->arch));
    if (process_this() == tracer || !trace_on)
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

static long trace_read(uint64_t cpu, vaddr_t at)
{
    struct kd_trace_read d;
    if (cpu >= arch_cpu_count())
        return -EINVAL;
    if (copy_from_user(&d, at, sizeof d))
        return -EFAULT;
    struct kd_trace_event *events = kalloc(TRACE_READ_MAX * sizeof *events);
    if (!events)
        return -ENOMEM;
    lock_acquire(&trace_lock);
    long n = trace_ring_read((unsigned)cpu, &d, events);
    lock_release(&trace_lock);
    if (copy_to_user((vaddr_t)d.events, events, (size_t)n * sizeof *events) ||
        copy_to_user(at, &d, sizeof d))
        n = -EFAULT;
    kfree(events);
    return n;
}

/* ---- who traces ---- */

static void switch_points(bool on)
{
    const char *choice = kernel_option("trace");
    for (unsigned i = 0; i < TRAP_CALLS; i++) {
        bool traced = on && trap_calls[i] != trap_call_unknown && trap_calls[i] != kd_trace &&
                      !trap_call_keeps(i);
        __atomic_store_n(&trap_table[i], traced ? call_traced : trap_calls[i], __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; i < arch_cpu_count(); i++)
        __atomic_store_n(&cpus[i].traces, on, __ATOMIC_RELAXED);
    __atomic_store_n(&trace_faults, on, __ATOMIC_RELAXED);
    __atomic_store_n(&trace_keeps, on || !choice || strcmp(choice, "off") != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&trace_on, on, __ATOMIC_RELEASE);
}

static long trace_start(void)
{
    lock_acquire(&trace_lock);
    long result = tracer ? -EBUSY : trace_rings(arch_cpu_count(), KD_TRACE_EVENTS);
    if (result == -ENOMEM)
        (void)!trace_rings(arch_cpu_count(), KD_TRACE_KEPT);
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
        (void)!trace_rings(arch_cpu_count(), KD_TRACE_KEPT); /* or the large ones stay */
        tracer = NULL;
    }
    lock_release(&trace_lock);
    return own ? 0 : -EPERM;
}

void trace_process_gone(struct process *p)
{
    if (tracer == p)
        (void)trace_stop(p);
}

long kd_trace(const uint64_t a[6])
{
    if ((a[0] == KD_TRACE_START || a[0] == KD_TRACE_READ) && !system_allows(KD_RIGHT_LOOK))
        return -EPERM;
    switch (a[0]) {
    case KD_TRACE_START: return trace_start();
    case KD_TRACE_STOP: return trace_stop(process_this());
    case KD_TRACE_READ: return trace_read(a[1], a[2]);
    case KD_TRACE_MARK_IT:
        trace_step = (struct trace_step){{a[1], a[2]}, arch_time_ns()};
        TRACE_RARE(MARK, 0, a[1], a[2]);
        return 0;
    case KD_TRACE_GRANT_IT:
        TRACE(GRANT, (uint32_t)a[1], a[2], a[3]);
        return 0;
    default: return -EINVAL;
    }
}

void trace_calls_init(void) { switch_points(false); }
