/*
 * report.c - the end of a crash report: what happened last, and what the store was doing.
 *
 * For panics and killed programs. Of what it reads only the rings are locked, and those not in a
 * panic, whose CPUs are stopped: the rest may be half changed. So it follows no list and no pointer
 * that may go.
 */
#include "block/block.h"
#include "base/panic.h"
#include "look/look.h"
#include "store/store.h"

enum { EVENTS_SHOWN = 12 };

/* Two words as text; programs choose it. */
static const char *text_of(uint64_t a, uint64_t b, char text[17])
{
    memcpy(text, &a, 8);
    memcpy(text + 8, &b, 8);
    text[16] = 0;
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

static void print_event(const struct kd_trace_event *e)
{
    static const char *const names[] = {
#define NAME_OF(name, c, a, b, always) #name,
        KD_TRACE_LIST(NAME_OF)
#undef NAME_OF
    };
    char text[48];
    uint64_t us = e->time_ns / 1000;
    if (e->kind == KD_TRACE_NAME || e->kind == KD_TRACE_MARK)
        (void)text_of(e->a, e->b, text);
    else
        snprintk(text, sizeof text, "%x, %lx, %lx", e->c, e->a, e->b);
    say("  %4lu.%06lu cpu %u %u[%u] view %d: %s %s\n", us / 1000000, us % 1000000, e->cpu,
        e->process, e->thread, e->view - 1, e->kind < KD_TRACE_KINDS ? names[e->kind] : "?", text);
}

static void report_events(int pid)
{
    struct kd_trace_event last[EVENTS_SHOWN];
    unsigned n = trace_last(pid, last, EVENTS_SHOWN);
    if (n > 0)
        say("  the last %u events (process[thread], -1: no view; c, a, b as in katydid/trace.h):\n",
            n);
    while (n > 0)
        print_event(&last[--n]);
}

/* Publications, transactions of p (NULL: all), disks. */
static void report_store(const struct process *p)
{
    unsigned others = 0;
    char step[17];
    say("  the store: %lu publications; the last step that a manager told: %s, %lu us ago\n",
        counters.publications,
        trace_step.time_ns ? text_of(trace_step.text[0], trace_step.text[1], step) : "none",
        (arch_time_ns() - trace_step.time_ns) / 1000);
    for (unsigned i = 0; i < KD_VIEW_MAX; i++) {
        struct view_told v = view_told(view_at(i));
        others += v.does && p && v.process != p;
        if (v.does && (!p || v.process == p))
            say("  view %u, ticket %lu: %s, %u copies, %u spilled\n", i, v.ticket, v.does, v.copies,
                v.spilled);
    }
    if (others)
        say("  %u transactions of others\n", others);
    const struct block_device *d;
    for (unsigned i = 0; (d = block_at(i)); i++)
        if (d->users)
            say("  disk %s: %u requests under way; %lu reads, %lu writes, %lu flushes, %lu "
                "errors\n",
                d->name, d->in_flight, d->did[BLOCK_READ].times, d->did[BLOCK_WRITE].times,
                d->did[BLOCK_FLUSH].times, d->errors);
}

void report_killed(struct process *p)
{
    report_events(p ? p->pid : 0);
    report_store(p);
}

void report_panic(void) { report_killed(NULL); }
