/*
 * trace.c - what happens, as events in a ring for each CPU (tracing.md).
 *
 * Owns      the rings.
 * Not here  who traces, and the calls that are traced (look/trace_call.c); what is done with the
 *           events (user/trace, scripts/trace2json); the last of them (look/report.c).
 *
 * A ring has one writer, its CPU: the kernel runs with interrupts off, so an event is appended
 * without a lock. `next` moves after the event is whole. Readers copy first and look at `next`
 * again afterwards: what was overwritten meanwhile is lost, and counted. While somebody traces
 * there are large rings in place of small ones.
 *
 * Lock: trace_lock (RANK_PROCESS_TABLE): rings do not change for those that read.
 */
#include "memory/frame.h"
#include "thread/sched.h"

#include "base/panic.h"

struct ring {
    uint64_t next;                  /* atomic: the number of the next event */
    uint64_t first;                 /* of those before it nothing was here ever */
    uint64_t count;                 /* a power of 2 */
    struct kd_trace_event events[];
};

bool trace_on, trace_keeps = true;
struct lock trace_lock = LOCK_INIT(RANK_PROCESS_TABLE, "trace");
static struct ring *rings[CPU_MAX]; /* atomic */

/* ---- writing ---- */

void trace_event(enum kd_trace_event_kind kind, uint32_t c, uint64_t a, uint64_t b)
{
    const struct thread *t = thread_this();
    unsigned cpu = arch_cpu_id();
    struct ring *r = __atomic_load_n(&rings[cpu], __ATOMIC_ACQUIRE);
    struct kd_trace_event *e = &r->events[r->next & (r->count - 1)];
    e->c = c; /* one field after the other: a whole struct would need more registers */
    e->a = a;
    e->b = b;
    e->kind = (uint8_t)kind;
    e->cpu = (uint8_t)cpu;
    e->thread = (uint32_t)t->id;
    e->process = (uint32_t)t->pid;
    e->view = t->view_number;
    e->reserved = 0;
    e->time_ns = arch_time_ns();
    __atomic_store_n(&r->next, r->next + 1, __ATOMIC_RELEASE);
}

void trace_name(int pid, const char *name)
{
    uint64_t text[2] = {0};
    memcpy(text, name, strnlen(name, sizeof text));
    TRACE_RARE(NAME, pid, text[0], text[1]);
}

void trace_switched(void) { TRACE(SWITCH, 0, 0, 0); }

/* ---- reading ---- */

/* trace_ring_read copies those of the wanted events that are whole; events that may have been
 * overwritten during the copy count as lost. Returns how many it copied. trace_lock held. */
unsigned trace_ring_read(unsigned cpu, struct kd_trace_read *d, struct kd_trace_event *to)
{
    const struct ring *r = rings[cpu];
    uint64_t next = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE), wanted = MIN(d->position, next);
    uint64_t oldest = MAX(r->first, next >= r->count ? next - r->count + 1 : 0);
    uint64_t from = MAX(wanted, oldest);
    uint64_t n = MIN(MIN(d->count, TRACE_READ_MAX), next - from);
    for (uint64_t i = 0; i < n; i++)
        to[i] = r->events[(from + i) & (r->count - 1)];
    next = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE);
    uint64_t gone = next >= from + r->count ? MIN(next - from - r->count + 1, n) : 0;
    memmove(to, to + gone, (n - gone) * sizeof *to);
    d->lost = from - wanted + gone;
    d->position = from + n;
    return (unsigned)(n - gone);
}

/* older finds the newest event before that time, of that process if pid is not 0; NULL: none. */
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

/* ---- large and small rings ---- */

/* trace_rings makes new rings, which begin behind the events of the old ones. Those are free once
 * each CPU has served a shootdown, which none does while it appends. */
int trace_rings(unsigned cpus, uint64_t count)
{
    struct ring *old[CPU_MAX] = {0};
    unsigned n = 0;
    for (struct ring *r; n < cpus && (r = kalloc(sizeof *r + count * sizeof r->events[0])); n++) {
        old[n] = rings[n];
        r->next = r->first = old[n] ? old[n]->next : 0;
        r->count = count;
        __atomic_store_n(&rings[n], r, __ATOMIC_SEQ_CST);
    }
    if (old[0])
        arch_shootdown((1ull << cpus) - 1);
    for (unsigned i = 0; i < n; i++)
        kfree(old[i]);
    return n == cpus ? 0 : -ENOMEM;
}

void trace_init(void)
{
    if (trace_rings(CPU_MAX, KD_TRACE_KEPT))
        panic("no memory for rings of events");
}
