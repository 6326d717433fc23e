/*
 * story.c - one transaction as a story: what each touch of a container led to, who held what it
 * wanted, what the commit did, and how long each step took.
 *
 * The transaction is what its thread did between its events BEGIN and the return of its commit, or
 * ABORT; a retry keeps the ticket and is told, too. What the manager did for it is found by its
 * view.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace.h"

enum { TEXT_COLUMNS = 76, WAITS = 7 };

struct teller {
    const struct trace *t;
    size_t begin, end;              /* the attempt that is told */
    uint32_t thread, process, manager;
    uint8_t view;
    uint64_t start_ns, ticket;
    bool doomed;
};

static const struct kd_trace_event *at(const struct teller *s, size_t i)
{
    return &s->t->events[i];
}

static double us(uint64_t ns) { return (double)ns / 1000; }

/* A line at that event's time; cost_ns ~0: none is told. */
static __attribute__((format(printf, 5, 6))) void tell(const struct teller *s, size_t i, int depth,
                                                       uint64_t cost_ns, const char *format, ...)
{
    char line[256];
    va_list a;
    va_start(a, format);
    vsnprintf(line, sizeof line, format, a);
    va_end(a);
    printf("%10.1f us  %*s%-*s", us(at(s, i)->time_ns - s->start_ns), 2 * depth, "",
           TEXT_COLUMNS - 2 * depth, line);
    if (cost_ns != ~0ull)
        printf(" %9.1f us", us(cost_ns));
    putchar('\n');
}

/* ---- transactions ---- */

/* Is that the end of a commit? One that was tried as a read and is none goes on. */
static bool commit_returns(const struct kd_trace_event *e)
{
    return e->kind == KD_TRACE_RETURN && e->c == KD_TXN_COMMIT && (int64_t)e->a != -ENOTEMPTY;
}

/* The event that ends the attempt that begins at i, or the last one. */
static size_t attempt_end(const struct trace *t, size_t i)
{
    uint32_t thread = t->events[i].thread;
    uint64_t ticket = t->events[i].a;
    for (size_t k = i + 1; k < t->count; k++) {
        const struct kd_trace_event *e = &t->events[k];
        if (e->thread == thread &&
            (commit_returns(e) || (e->kind == KD_TRACE_ABORT && e->a == ticket)))
            return k;
    }
    return t->count - 1;
}

/* Is that a thread's own event, and none that an interrupt made while it ran? */
static bool own(const struct kd_trace_event *e, uint32_t thread)
{
    return e->thread == thread && e->kind != KD_TRACE_DONE;
}

/* The transaction that a view was running then; 0: none. */
static uint64_t ticket_of(const struct trace *t, size_t before, unsigned view)
{
    while (before-- > 0) {
        const struct kd_trace_event *e = &t->events[before];
        if (e->view != view + 1)
            continue;
        if (e->kind == KD_TRACE_BEGIN)
            return e->a;
        if (e->kind == KD_TRACE_ABORT || commit_returns(e))
            return 0;
    }
    return 0;
}

/* The longest attempt in which somebody else held a page; or the longest of all. */
static uint64_t ticket_choose(const struct trace *t)
{
    uint64_t longest_ns[2] = {0}, ticket[2] = {0};
    for (size_t i = 0; i < t->count; i++) {
        if (t->events[i].kind != KD_TRACE_BEGIN)
            continue;
        size_t end = attempt_end(t, i);
        int held = 0;
        for (size_t k = i; k < end; k++)
            held |=
                t->events[k].kind == KD_TRACE_HELD && t->events[k].thread == t->events[i].thread;
        uint64_t took = t->events[end].time_ns - t->events[i].time_ns;
        if (took >= longest_ns[held]) {
            longest_ns[held] = took;
            ticket[held] = t->events[i].a;
        }
    }
    return ticket[1] ? ticket[1] : ticket[0];
}

/* ---- names ---- */

static const char *place_of(uint64_t address)
{
    static char text[2][KD_NAME_MAX + 32];
    static int turn;
    uint64_t offset;
    const char *name = object_name(address, &offset);
    turn = !turn;
    snprintf(text[turn], sizeof text[0], "%s%s%s0x%llx", name ? "container " : "", name ? name : "",
             name ? "+" : "", (unsigned long long)(name ? offset : address));
    return text[turn];
}

static const char *access_of(const struct kd_trace_event *e)
{
    return e->c & 1 ? "store" : e->c & 2 ? "jump" : "load";
}

/* ---- what a transaction's thread does ---- */

/* The system aborts it, whoever found that out. */
static void tell_doom(struct teller *s, size_t i)
{
    const struct kd_trace_event *e = at(s, i);
    if (e->kind != KD_TRACE_DOOM || e->a != s->ticket)
        return;
    s->doomed = true;
    tell(s, i, 1, ~0ull, "doomed by %s[%u]: %s", process_name(e->process), e->process,
         strerror((int)e->c));
}

/* When a thread that waits since event i goes on: its next own event. */
static uint64_t waited_ns(const struct teller *s, size_t i)
{
    for (size_t k = i + 1; k <= s->end; k++)
        if (own(at(s, k), s->thread))
            return at(s, k)->time_ns - at(s, i)->time_ns;
    return at(s, s->end)->time_ns - at(s, i)->time_ns;
}

/* What the holder did to the page, in the transaction in which it has it. */
static void tell_use(const struct teller *s, size_t i)
{
    const struct kd_trace_event *held = at(s, i);
    for (size_t k = i; k-- > 0;) {
        const struct kd_trace_event *e = at(s, k);
        if (e->view != held->c + 1)
            continue;
        if (e->kind == KD_TRACE_BEGIN)
            break;
        if (e->kind == KD_TRACE_FAULT && e->a / KD_PAGE_BYTES == held->a / KD_PAGE_BYTES) {
            tell(s, i, 2, ~0ull, "since its %s at %s+0x%llx, %.1f us before", access_of(e),
                 process_name(e->process), (unsigned long long)e->b,
                 us(held->time_ns - e->time_ns));
            return;
        }
    }
    tell(s, i, 2, ~0ull, "since a touch by a right that it had kept from before");
}

static void tell_holder(const struct teller *s, size_t i)
{
    const struct kd_trace_event *e = at(s, i);
    tell(s, i, 1, ~0ull, "%s[%llu] holds it: transaction %llu in view %u",
         process_name((uint32_t)e->b), (unsigned long long)e->b,
         (unsigned long long)ticket_of(s->t, i, e->c), e->c);
    tell_use(s, i);
}

static void tell_wait(const struct teller *s, size_t i)
{
    static const char *const what[WAITS] = {
        "for the end of who holds it", "for the container's lock",
        "for its manager to bring the page",
        "for room in the log", "for its manager's leave", "for the commit",
        "for its manager to take or bring copies",
    };
    const struct kd_trace_event *e = at(s, i);
    tell(s, i, 1, waited_ns(s, i), "waits %s", e->c < WAITS ? what[e->c] : "?");
}

static void tell_post(struct teller *s, size_t i)
{
    const struct kd_trace_event *e = at(s, i);
    bool page = e->a == KD_MSG_PAGE - KD_MSG_KERNEL;
    if (!page && e->a != KD_MSG_COMMIT - KD_MSG_KERNEL)
        return;
    s->manager = (uint32_t)e->b;
    tell(s, i, 1, ~0ull, "asks the manager %s[%llu] %s", process_name(s->manager),
         (unsigned long long)e->b, page ? "for the page" : "to log it");
}

/* A fault to its end; the index of its last event. */
static size_t tell_fault(struct teller *s, size_t i)
{
    const struct kd_trace_event *fault = at(s, i), *done = fault;
    size_t end = i;
    while (end < s->end && !(own(at(s, end), s->thread) && at(s, end)->kind == KD_TRACE_FAULTED))
        end++;
    done = at(s, end);
    const char *by = fault->c & 8 ? "kernel" : process_name(s->process);
    tell(s, i, 0, done->time_ns - fault->time_ns, "%s at %s+0x%llx: fault on %s", access_of(fault),
         by, (unsigned long long)fault->b, place_of(fault->a));
    for (size_t k = i + 1; k < end; k++) {
        const struct kd_trace_event *e = at(s, k);
        tell_doom(s, k);
        if (!own(e, s->thread))
            continue;
        switch (e->kind) {
        case KD_TRACE_HELD: tell_holder(s, k); break;
        case KD_TRACE_CALLBACK:
            tell(s, k, 1, ~0ull, "taken back from %s[%llu], view %u, which did not use it now",
                 process_name((uint32_t)e->b), (unsigned long long)e->b, e->c);
            break;
        case KD_TRACE_WAIT: tell_wait(s, k); break;
        case KD_TRACE_POST: tell_post(s, k); break;
        case KD_TRACE_GROUP:
            if (e->c)
                tell(s, k, 1, ~0ull, "with %u neighbours, which nobody else uses", e->c);
            break;
        default: break;
        }
    }
    tell(s, end, 1, ~0ull, "%s",
         done->kind != KD_TRACE_FAULTED || !done->b || s->doomed ? "no right"
         : done->b & KD_TRACE_COPY                               ? "right to write: a private copy"
         : done->b & KD_TRACE_WRITABLE                           ? "mapped to write"
                                                                 : "right to read");
    return end;
}

/* ---- the commit ---- */

/* Where a commit lies in the manager's work, as indexes of events; what has no mark ends with the
 * publication. Its threads do other things meanwhile, so of their disk requests only those are told
 * that fall between these. */
struct work {
    size_t diff, planned;           /* CM4: `planner` finds out where the pages go */
    size_t sealed, written;         /* CM5: and writes them to the log */
    /* the flush, CM6, CM7, by `lander`; groups land one after the other */
    size_t landing, published;
    uint32_t planner, lander;
};

/* The thread's next mark of that name. */
static size_t mark_find(const struct teller *s, size_t from, size_t end, uint32_t thread,
                        const char *name)
{
    while (from < end && !(at(s, from)->kind == KD_TRACE_MARK && at(s, from)->thread == thread &&
                           strncmp((const char *)&at(s, from)->a, name, sizeof at(s, 0)->a) == 0))
        from++;
    return from;
}

static size_t view_find(const struct teller *s, size_t from, unsigned kind)
{
    while (from < s->end &&
           !(at(s, from)->kind == kind && at(s, from)->c == s->view - 1u && at(s, from)->a))
        from++;
    return from;
}

static struct work work_of(const struct teller *s, size_t freeze)
{
    struct work w = {.diff = view_find(s, freeze, KD_TRACE_DIFF)};
    w.published = view_find(s, w.diff, KD_TRACE_PUBLISH);
    w.planner = at(s, w.diff)->thread;
    w.lander = at(s, w.published)->thread;
    w.planned = mark_find(s, w.diff, w.published, w.planner, "CM4");
    w.sealed = mark_find(s, w.planned, w.published, w.planner, "CM5");
    w.written = mark_find(s, w.sealed, w.published, w.planner, "CM5w");
    w.landing = w.written;
    for (size_t k = w.written; k < w.published;
         k = mark_find(s, k + 1, w.published, w.lander, "CM7"))
        w.landing = k;
    return w;
}

/* The step of the commit to which event i belongs; NULL: it is beside it. */
static const char *step_of(const struct teller *s, const struct work *w, size_t i)
{
    const struct kd_trace_event *e = at(s, i);
    if (e->thread == w->planner && i > w->diff && i < w->planned)
        return "CM4";
    if (e->thread == w->planner && i > w->sealed && i < w->written)
        return "CM5";
    if (e->thread == w->lander && i > w->landing && i < w->published)
        return (e->c & 255) == KD_TRACE_READ_DISK ? "CM6" : "CM5";
    return NULL;
}

static void tell_disk(const struct teller *s, size_t i, const char *step)
{
    const struct kd_trace_event *e = at(s, i);
    size_t k = i + 1;
    while (k < s->end &&
           !(at(s, k)->kind == KD_TRACE_DONE && at(s, k)->c == e->c && at(s, k)->a == e->a))
        k++;
    uint64_t took = at(s, k)->time_ns - e->time_ns;
    if ((e->c & 255) == KD_TRACE_FLUSH_DISK)
        tell(s, i, 1, took, "%s: %s flushes the disk", step, process_name(s->manager));
    else
        tell(s, i, 1, took, "%s: %s %s %llu bytes at 0x%llx of the disk", step,
             process_name(s->manager), (e->c & 255) == KD_TRACE_READ_DISK ? "reads" : "writes",
             (unsigned long long)e->b, (unsigned long long)e->a);
}

/* What the manager does for the view between its request and the answer. */
static void tell_manager(const struct teller *s, size_t i, const struct work *w)
{
    const struct kd_trace_event *e = at(s, i);
    bool of_view = e->c == s->view - 1u;
    const char *step =
        e->kind == KD_TRACE_DISK && e->process == s->manager ? step_of(s, w, i) : NULL;
    if (step)
        tell_disk(s, i, step);
    else if (e->kind == KD_TRACE_DIFF && of_view && e->a)
        tell(s, i, 1, ~0ull, "CM4: %s reads what changed: %llu pages, %llu bytes",
             process_name(s->manager), (unsigned long long)e->a, (unsigned long long)e->b);
    else if (e->kind == KD_TRACE_PUBLISH && of_view)
        tell(s, i, 1, ~0ull, "CM7: published, visible to others, as commit %llu",
             (unsigned long long)e->a);
}

static size_t tell_commit(struct teller *s, size_t i)
{
    struct work w = work_of(s, i);
    tell(s, i, 0, at(s, s->end)->time_ns - at(s, i)->time_ns,
         "commit: CM1: its %u private copies are read-only from here on", at(s, i)->c);
    for (size_t k = i + 1; k < s->end; k++) {
        const struct kd_trace_event *e = at(s, k);
        if (!own(e, s->thread))
            tell_manager(s, k, &w);
        else if (e->kind == KD_TRACE_POST)
            tell_post(s, k);
        else if (e->kind == KD_TRACE_WAIT)
            tell_wait(s, k);
        else if (e->kind == KD_TRACE_COMMIT)
            tell(s, k, 1, ~0ull, "CM8: answered: %u pages are durable", e->c);
    }
    return s->end;
}

/* ---- the whole ---- */

/* By which grants the process has what it uses, and what it was refused. */
static void tell_grants(const struct teller *s)
{
    for (size_t i = 0; i < s->end; i++) {
        const struct kd_trace_event *e = at(s, i);
        if (e->kind != KD_TRACE_GRANT || e->c >> 8 != s->process)
            continue;
        bool before = e->time_ns < s->start_ns;
        uint64_t ns = before ? s->start_ns - e->time_ns : e->time_ns - s->start_ns;
        printf("%10.1f us%s  %s\n", us(ns), before ? " before" : "", grant_story(e));
    }
}

static void tell_attempt(struct teller *s)
{
    static const char *const modes[] = { "serialisable", "snapshot", "dirty read",
                                         "with a container's lock" };
    const struct kd_trace_event *b = at(s, s->begin), *end = at(s, s->end);
    printf("transaction %llu of %s[%u], thread %u, view %u, %s\n", (unsigned long long)b->a,
           process_name(b->process), b->process, b->thread, b->view - 1u,
           b->c < 4 ? modes[b->c] : "?");
    tell_grants(s);
    for (size_t i = s->begin + 1; i < s->end; i++) {
        const struct kd_trace_event *e = at(s, i);
        tell_doom(s, i);
        if (!own(e, s->thread))
            continue;
        if (e->kind == KD_TRACE_FAULT)
            i = tell_fault(s, i);
        else if (e->kind == KD_TRACE_FREEZE)
            i = tell_commit(s, i) - 1;
        else if (e->kind == KD_TRACE_WAIT)
            tell_wait(s, i);
    }
    uint64_t took = end->time_ns - b->time_ns;
    if (end->kind == KD_TRACE_ABORT)
        tell(s, s->end, 0, took, "aborted: %s", strerror((int)end->c));
    else if (end->kind == KD_TRACE_RETURN)
        tell(s, s->end, 0, took, "%s", end->a ? strerror(-(int)end->a) : "committed");
    else
        tell(s, s->end, 0, took, "here the trace ends");
}

int story_print(const struct trace *t, uint64_t ticket)
{
    int told = 0;
    if (!ticket)
        ticket = ticket_choose(t);
    for (size_t i = 0; i < t->count; i++) {
        const struct kd_trace_event *b = &t->events[i];
        if (b->kind != KD_TRACE_BEGIN || b->a != ticket)
            continue;
        struct teller s = { .t = t,
                            .begin = i,
                            .end = attempt_end(t, i),
                            .thread = b->thread, .process = b->process, .view = b->view,
                            .start_ns = b->time_ns, .ticket = ticket };
        tell_attempt(&s);
        told = 1;
    }
    if (!told)
        fprintf(stderr, "trace: no transaction%s was traced\n", ticket ? " with this ticket" : "");
    return !told;
}
