/*
 * hot.c - the pages that were waited for most: who waited, at what, and for whom.
 *
 * A wait is the time from an event WAIT for a page to the thread's next event. Its own side is the
 * thread's FAULT before; the other side is the last FAULT on this page of the view that was HELD
 * (of several the last one told), by which it has its right. A thread that comes into the page's
 * queue behind others is told no holder: theirs is taken. A right may be kept from an earlier
 * transaction, or have come with a neighbour's page: then there is no such FAULT, or it is older
 * than the view's BEGIN.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum { PAGES_SHOWN = 10, PAIRS_SHOWN = 4, THREADS_MAX = 4096, VIEWS = 256 };

struct side {
    const struct kd_trace_event *fault;        /* NULL: not known */
    uint32_t process;
    struct spot spot;
};
struct wait {                                  /* also the sum of several */
    uint64_t page, ns;
    struct side waiter, holder;
    bool kept, queued;
    unsigned waits, deadlocks;
};
struct list { struct wait *wait; size_t count; };

static struct state {                          /* of one thread, in the order of events */
    uint32_t thread;
    const struct kd_trace_event *fault, *held, *use;
    struct wait *last;                         /* of this fault */
    uint64_t since_ns;                         /* 0: it does not wait */
    bool kept;
} states[THREADS_MAX];
static const struct kd_trace_event *begun[VIEWS];
/* The last fault of a view on a page; of view 0 the last HELD of the page. */
static struct use { uint64_t key; const struct kd_trace_event *fault; } *uses;
static size_t use_room;                        /* a power of 2 */

/* ---- what the events say ---- */

static struct use *use_of(uint64_t address, unsigned view)
{
    uint64_t key = address / KD_PAGE_BYTES << 8 | view;
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (use_room - 1);
    while (uses[i].key && uses[i].key != key)
        i = (i + 1) & (use_room - 1);
    uses[i].key = key;
    return &uses[i];
}

/* NULL: there are too many threads. */
static struct state *state_of(uint32_t thread)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        struct state *s = &states[(thread + i) % THREADS_MAX];
        if (!s->thread)
            s->thread = thread;
        if (s->thread == thread)
            return s;
    }
    return NULL;
}

static void held_note(struct state *s, const struct kd_trace_event *e)
{
    const struct kd_trace_event *use = use_of(e->a, (uint8_t)(e->c + 1))->fault;
    s->held = e;
    s->use = use && use->process == e->b ? use : NULL;
    s->kept = s->use && begun[(uint8_t)(e->c + 1)] && s->use < begun[(uint8_t)(e->c + 1)];
}

/* Who had the page when another thread began to wait for it, unless it has begun anew since. */
static void queue_note(struct state *s, uint64_t address)
{
    const struct kd_trace_event *held = use_of(address, 0)->fault;
    const struct kd_trace_event *since = held ? begun[(uint8_t)(held->c + 1)] : NULL;
    if (held && (!since || since < held))
        held_note(s, held);
}

static struct wait *wait_add(struct list *l, struct state *s, uint64_t address, uint32_t process)
{
    struct wait *w = &l->wait[l->count++];
    *w = (struct wait){.page = address / KD_PAGE_BYTES, .queued = !s->held,
                       .waiter = {.fault = s->fault, .process = process}};
    if (!s->held)
        queue_note(s, address);
    if (s->held) {
        w->holder = (struct side){.fault = s->use, .process = (uint32_t)s->held->b};
        w->kept = s->kept;
    }
    s->last = w;
    return w;
}

/* A deadlock's victim: it counts for the page that it wanted. */
static void victim_note(struct list *l, struct state *s, const struct kd_trace_event *e)
{
    if (e->c != EDEADLK || !s->fault)
        return;
    struct wait *w = s->last ? s->last : wait_add(l, s, s->fault->a, e->process);
    w->deadlocks++;
}

static void event_note(struct list *l, struct state *s, const struct kd_trace_event *e)
{
    if (s->since_ns) {
        s->last->ns += e->time_ns - s->since_ns;
        s->since_ns = 0;
    }
    switch (e->kind) {
    case KD_TRACE_BEGIN: begun[e->view] = e; s->fault = NULL; break;
    case KD_TRACE_FAULT:
        s->fault = e;
        s->held = NULL;
        s->last = NULL;
        break;
    case KD_TRACE_FAULTED:
        if (s->fault && e->b && e->view)
            use_of(s->fault->a, e->view)->fault = s->fault;
        break;
    case KD_TRACE_HELD:
        held_note(s, e);
        use_of(e->a, 0)->fault = e;
        break;
    case KD_TRACE_WAIT:
        if (e->c != KD_TRACE_FOR_PAGE)
            break;
        if (s->fault && s->fault->a / KD_PAGE_BYTES != e->a / KD_PAGE_BYTES)
            s->fault = NULL;                   /* a call waits, not this fault */
        wait_add(l, s, e->a, e->process)->waits = 1;
        s->since_ns = e->time_ns;
        break;
    case KD_TRACE_ABORT: victim_note(l, s, e); break;
    default: break;
    }
}

/* All waits of a trace; -ENOMEM. */
static int waits_find(struct list *l, const struct trace *t)
{
    size_t faults = 0, most = 1;
    for (size_t i = 0; i < t->count; i++) {
        unsigned kind = t->events[i].kind;
        faults += kind == KD_TRACE_FAULT || kind == KD_TRACE_HELD;
        most += kind == KD_TRACE_WAIT || kind == KD_TRACE_ABORT;
    }
    for (use_room = 16; use_room < 4 * (faults + most);)
        use_room *= 2;
    uses = calloc(use_room, sizeof *uses);
    l->wait = calloc(most, sizeof *l->wait);
    if (!uses || !l->wait)
        return -ENOMEM;
    for (size_t i = 0; i < t->count; i++) {
        const struct kd_trace_event *e = &t->events[i];
        struct state *s = e->thread && e->kind != KD_TRACE_DONE ? state_of(e->thread) : NULL;
        if (s)
            event_note(l, s, e);
    }
    return 0;
}

/* ---- sums ---- */

static int by_page(const void *a, const void *b)
{
    const struct wait *x = a, *y = b;
    return (x->page > y->page) - (x->page < y->page);
}

static int by_time(const void *a, const void *b)
{
    const struct wait *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : by_page(a, b);
}

static int compare(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

/* By program, place in it, access, and field; the same field of other objects is the same. */
static int side_compare(const struct side *x, const struct side *y)
{
    int result = strcmp(process_name(x->process), process_name(y->process));
    if (result || !x->fault || !y->fault)
        return result ? result : (x->fault != NULL) - (y->fault != NULL);
    if ((result = compare(x->fault->b, y->fault->b)) == 0 &&
        (result = compare(x->fault->c, y->fault->c)) == 0 &&
        (result = compare(x->spot.type, y->spot.type)) == 0)
        result = compare(x->spot.offset, y->spot.offset);
    return result;
}

static int by_sides(const void *a, const void *b)
{
    const struct wait *x = a, *y = b;
    int result = side_compare(&x->waiter, &y->waiter);
    if (result == 0)
        result = side_compare(&x->holder, &y->holder);
    result = result ? result : x->kept - y->kept;
    return result ? result : x->queued - y->queued;
}

/* Puts sums of those that are equal into `out`, which may be `in`, the longest first; how many. */
static size_t sum_up(struct wait *in, size_t count, struct wait *out,
                     int (*order)(const void *a, const void *b))
{
    size_t n = 0;
    qsort(in, count, sizeof *in, order);
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || order(&out[n - 1], &in[i]) != 0) {
            out[n++] = in[i];
            continue;
        }
        out[n - 1].ns += in[i].ns;
        out[n - 1].waits += in[i].waits;
        out[n - 1].deadlocks += in[i].deadlocks;
    }
    qsort(out, n, sizeof *out, by_time);
    return n;
}

/* ---- printing ---- */

static double ms(uint64_t ns) { return (double)ns / 1e6; }

static void side_learn(struct side *s)
{
    if (!s->fault)
        return;
    s->spot = spot_at(s->fault->a);
    types_want(s->spot.type);
}

static void side_print(const struct side *s)
{
    const char *program = process_name(s->process), *by = s->fault->c & 8 ? "kernel" : program;
    printf("%s at %s+0x%llx", s->fault->c & 1 ? "store" : s->fault->c & 2 ? "jump" : "load", by,
           (unsigned long long)s->fault->b);
    if (s->spot.offset != NO_OBJECT)
        printf(", (%s)+%llu of %s", type_text(s->spot.type), (unsigned long long)s->spot.offset,
               program);
}

static void pair_print(const struct wait *w)
{
    printf("  %8.3f ms %6u %9u    wanted: ", ms(w->ns), w->waits, w->deadlocks);
    if (w->waiter.fault)
        side_print(&w->waiter);
    else
        printf("a call of %s", process_name(w->waiter.process));
    printf("\n%34shad:    ", "");
    if (w->holder.fault) {
        side_print(&w->holder);
        printf("%s", w->kept ? ", in an earlier transaction" : "");
    } else if (w->holder.process) {
        printf("%s, by a right that it kept, or got with a neighbour's page",
               process_name(w->holder.process));
    } else {
        printf("not told");
    }
    if (w->queued)
        printf(", others were before it in the page's queue");
    putchar('\n');
}

/* A page's waits; l is in the order of pages. */
static struct list page_waits(const struct list *l, uint64_t page)
{
    struct list of = {.wait = l->wait};
    while (of.wait->page != page)
        of.wait++;
    while (of.wait + of.count < l->wait + l->count && of.wait[of.count].page == page)
        of.count++;
    return of;
}

/* What lies there, and the texts of all types; a program is read once, when they are known. */
static void objects_learn(const struct list *l, const struct wait *pages, size_t count)
{
    for (int texts = 0; texts < 2; texts++)
        for (size_t i = 0; i < count; i++) {
            struct list of = page_waits(l, pages[i].page);
            for (size_t k = 0; k < of.count; k++)
                for (int other = 0; other < 2; other++) {
                    struct side *s = other ? &of.wait[k].holder : &of.wait[k].waiter;
                    if (texts)
                        types_learn(process_name(s->process));
                    else
                        side_learn(s);
                }
        }
}

static void page_print(const struct wait *page, struct wait *all, size_t count)
{
    uint64_t offset;
    const char *name = object_name(page->page * KD_PAGE_BYTES, &offset);
    printf("  %8.3f ms %6u %9u  page 0x%llx, ", ms(page->ns), page->waits, page->deadlocks,
           (unsigned long long)page->page * KD_PAGE_BYTES);
    if (name)
        printf("container %s+0x%llx\n", name, (unsigned long long)offset);
    else
        printf("of a container that is gone\n");
    size_t pairs = sum_up(all, count, all, by_sides);
    for (size_t i = 0; i < pairs && i < PAIRS_SHOWN; i++)
        pair_print(&all[i]);
    if (pairs > PAIRS_SHOWN)
        printf("%34s... and %zu other pairs of places\n", "", pairs - PAIRS_SHOWN);
}

static void pages_print(struct list *l, struct wait *pages, size_t count)
{
    struct wait sum = {0};
    for (size_t i = 0; i < l->count; i++) {
        sum.ns += l->wait[i].ns;
        sum.waits += l->wait[i].waits;
        sum.deadlocks += l->wait[i].deadlocks;
    }
    printf("      waited  times deadlocks  for\n  %8.3f ms %6u %9u  all pages: %zu\n", ms(sum.ns),
           sum.waits, sum.deadlocks, count);
    count = count < PAGES_SHOWN ? count : PAGES_SHOWN;
    objects_learn(l, pages, count);
    for (size_t i = 0; i < count; i++) {
        struct list of = page_waits(l, pages[i].page);
        page_print(&pages[i], of.wait, of.count);
    }
}

int hot_print(const struct trace *t)
{
    struct list l = {0};
    int result = waits_find(&l, t);
    struct wait *pages = calloc(l.count + 1, sizeof *pages);
    if (result || !pages) {
        fprintf(stderr, "trace: no memory for the waits\n");
        return 1;
    }
    size_t count = sum_up(l.wait, l.count, pages, by_page);
    if (count)
        pages_print(&l, pages, count);
    else
        printf("nobody waited for a page that another one had\n");
    return 0;
}
