/*
 * pstore_escalate.c - PS_ESCALATE: after so many page faults a transaction locks the container, if
 * that is free.
 *
 * Aim     it does so at exactly that fault, in any order of pages; shared if it reads, for itself
 *         if it has written; it waits for nobody; snapshots never do, and make nobody wait; what is
 *         open for reading is locked shared only. A writer gets through streams of readers and a
 *         reader through streams of writers, with everybody escalating and with nobody, and nothing
 *         is lost.
 * Method  each transaction runs in a thread, so in a view without rights. A visitor touches a page
 *         that nobody else has: if it waits (the kernel says so), the container is locked. A stream
 *         is a few threads whose transactions overlap, one after the other until somebody else is
 *         through.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGES = 256, AFTER = 16, WORDS = KD_PAGE_BYTES / 8, VISITED = PAGES - 1 };
static const int steps[] = {1, 5, 7};
enum { STREAMS = 3, HOT = 12, SOON = 4, THROUGH = 20, YIELDS = 20,
       TURNS = 50000 /* of all streams, before each has had one: never so many, whenever the host
                        stops one of the guest's CPUs */ };
struct root { uint64_t *pages; };
static ps_container *c, *own;
static volatile uint64_t *pages;

static volatile uint64_t *word(int i) { return pages + (size_t)i * WORDS; }

static uint64_t escalations(void) { return system_info().escalations; }

/* Does a transaction of this process wait for another one? */
static int somebody_waits(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].pid == getpid() && (list[i].waits[0] | list[i].waits[1])) return 1;
    return 0;
}

static int find(void *unused)
{
    struct root *root = ps_root(c);
    if (!root ||
        (!root->pages && !(root->pages = ps_alloc(c, (size_t)(PAGES + 1) * KD_PAGE_BYTES, NULL))))
        return -errno;
    pages = (void *)(((uint64_t)root->pages + KD_PAGE_BYTES - 1) & ~(uint64_t)(KD_PAGE_BYTES - 1));
    (void)unused;
    return 0;
}

/* ---- one transaction, and a visitor that comes while it runs ---- */

struct visitor { pthread_t thread; int write; _Atomic int result, over; };
static int visit_page(void *write)
{
    if (*(int *)write) ++*word(VISITED);
    return (int)*word(VISITED) & 0;
}
static void *visitor_main(void *arg)
{
    struct visitor *v = arg;
    v->result = ps_transaction(visit_page, &v->write);
    v->over = 1;
    return NULL;
}
/* True: it waits, and for that this transaction has to end first. */
static int visit(struct visitor *v, int write)
{
    int waits = 0;
    *v = (struct visitor){.write = write};
    pthread_create(&v->thread, NULL, visitor_main, v);
    while (!v->over && !(waits = somebody_waits())) sched_yield();
    return waits;
}

struct look {
    /* touches page 0, step, 2 * step, ...; stores to the first so many of them */
    int step, writes;
    int shuts_out[2];               /* out: a visitor that reads, one that writes, has to wait */
    struct visitor visitor[2];
    /* out: escalations at the fault before that of the policy, and at that one */
    uint64_t before, at[2];
    struct ps_options how;
    int result;
};
static int look_body(void *arg)
{
    struct look *l = arg;
    if (own) *(uint64_t *)ps_root(own) += 1;
    l->before = escalations();
    for (int i = 0; i < 2 * AFTER; i++) {
        volatile uint64_t *w = word(i * l->step % VISITED);
        if (i < l->writes) *w = 1;
        else (void)*w;
        if (i == AFTER - 2) l->at[0] = escalations() - l->before;
        if (i == AFTER - 1) l->at[1] = escalations() - l->before;
    }
    for (int write = 0; write < (own ? 1 : 2); write++)
        l->shuts_out[write] = visit(&l->visitor[write], write);
    return 0;
}
static void *look_main(void *arg)
{
    struct look *l = arg;
    l->result = ps_transaction_opt(look_body, l, &l->how);
    for (int i = 0; i < (own ? 1 : 2); i++) {
        pthread_join(l->visitor[i].thread, NULL);
        if (!l->result) l->result = l->visitor[i].result;
    }
    return NULL;
}

/* locks: 0 not at all, 1 shared, 2 for itself */
static void look(struct look l, unsigned locks, const char *what)
{
    pthread_t thread;
    pthread_create(&thread, NULL, look_main, &l);
    pthread_join(thread, NULL);
    if (!tap_ok(!l.result && !l.at[0] && l.at[1] == (locks > 0) && l.shuts_out[0] == (locks == 2) &&
                    l.shuts_out[1] == (locks > 0), "%s", what))
        printf("# result %d, %lu and %lu escalations, shut out: readers %d, writers %d\n", l.result,
               (long)l.at[0], (long)l.at[1], l.shuts_out[0], l.shuts_out[1]);
}

/* ---- beside a transaction that is there already ---- */

static int jump_over(void *bad)
{
    uint64_t before = escalations();
    for (int i = 1; i < PAGES; i++) (void)*word(i * 67 % PAGES);
    *(int *)bad = escalations() != before;
    return 0;
}
static void beside_another(void)
{
    int escalated = -1;
    ps_begin(NULL);
    ++*word(0);
    ps_tx *there = ps_suspend();
    is(ps_transaction(jump_over, &escalated), 0,
       "beside a transaction that has written it goes on without the lock");
    is(escalated, 0, "and has not waited for it");
    is(ps_resume(there) | ps_commit(), 0, "that one commits");
}

/* ---- locked shared by choice: who waits for that lock is no reason to wait ---- */

static int lock_then_read(void *writer)
{
    int e = ps_lock(c, PS_LOCK_SHARED);
    if (!e && !((struct visitor *)writer)->thread && !visit(writer, 1)) e = -EPROTO;
    return e ? e : (int)*word(0) & 0;
}
static void *locker_main(void *writer)
{
    return (void *)(long)ps_transaction(lock_then_read, writer);
}
static void before_who_waits(void)
{
    struct visitor writer = {0};
    uint64_t before = system_info().deadlocks;
    pthread_t thread;
    void *error;
    pthread_create(&thread, NULL, locker_main, &writer);
    pthread_join(thread, &error);
    pthread_join(writer.thread, NULL);
    is((long)error | writer.result, 0, "who has the lock reads its first page, and a writer waits");
    is((long)(system_info().deadlocks - before), 0, "for the lock's end, without a deadlock");
}

/* ---- open for reading only; it writes elsewhere ---- */

static int child(void)
{
    struct look l = {.step = 1};
    c = ps_open("escalate", 0, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(find, NULL) : -errno;
    own = ps_open("escalate-own", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    pthread_t thread;
    if (e || !own) return 2;
    pthread_create(&thread, NULL, look_main, &l);
    pthread_join(thread, NULL);
    return l.result == 0 && l.at[1] == 1 && !l.shuts_out[0] ? 0 : 3;
}

/* ---- streams ---- */

static _Atomic int over;
static _Atomic long turns[STREAMS];
struct way { int step, writes; };

static int hot(void *arg)
{
    struct way *w = arg;
    for (int i = 0; i < HOT; i++) {
        volatile uint64_t *at = word(i * w->step % HOT);
        if (w->writes) ++*at;
        else if (*at != *word(0)) return -EPROTO;
    }
    for (int i = 0; i < YIELDS; i++) sched_yield();
    return 0;
}

struct stream { pthread_t thread; struct way way; int number; long bad; };
static void *stream_main(void *arg)
{
    struct stream *s = arg;
    for (; !over; turns[s->number]++) s->bad += ps_transaction(hot, &s->way) != 0;
    return NULL;
}

static long sum_wanted;
static void through(int streams_write, int escalate, const char *what)
{
    struct stream s[STREAMS];
    struct way way = {.step = 5, .writes = !streams_write};
    long bad = 0, most = 0, times = 0;
    over = 0;
    for (int i = 0; i < STREAMS; i++) {
        turns[i] = 0;
        s[i] = (struct stream){.way = {.step = steps[i], .writes = streams_write}, .number = i};
        pthread_create(&s[i].thread, NULL, stream_main, &s[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        while (!turns[i] && turns[0] + turns[1] + turns[2] < TURNS) sched_yield();
    int starved = !turns[0] || !turns[1] || !turns[2];
    printf("# before the first turn of each: %ld, %ld and %ld\n", turns[0], turns[1], turns[2]);
    uint64_t before = escalations();
    for (; times < THROUGH || (escalate && escalations() == before && times < 50 * THROUGH);
         times++) {
        long first = turns[0] + turns[1] + turns[2];
        bad += ps_transaction(hot, &way) != 0;
        first = turns[0] + turns[1] + turns[2] - first;
        most = first > most ? first : most;
    }
    over = 1;
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(s[i].thread, NULL);
        bad += s[i].bad;
    }
    sum_wanted += streams_write ? turns[0] + turns[1] + turns[2] : times;
    tap_ok(bad == 0 && !starved && (escalations() > before) == escalate,
           "%s: %ld times, with at most %ld transactions of the "
           "streams before it (%lu escalations)",
           what, times, most, (long)(escalations() - before));
}

static int add_up(void *unused)
{
    (void)unused;
    for (int i = 0; i < HOT; i++)
        if (*word(i) != (uint64_t)sum_wanted) return -EPROTO;
    return 0;
}
static int zero(void *unused)
{
    (void)unused;
    for (int i = 0; i < HOT; i++) *word(i) = 0;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return child();
    tap_plan(22);
    ps_delete("escalate");
    c = ps_open("escalate", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(find, NULL) : -errno, 0, "a container");
    is(ps_policy(c, PS_ESCALATE, AFTER) | ps_policy(c, PS_GROUP, 1), 0,
       "to be locked after some faults");
    look((struct look){.step = 67}, 1, "who reads here and there locks it shared");
    look((struct look){.step = 1}, 1, "also who reads one page after the other");
    look((struct look){.step = 67, .writes = 2 * AFTER}, 2, "who writes locks it for itself");
    look((struct look){.step = 1, .writes = 2 * AFTER}, 2, "also one page after the other");
    look((struct look){.step = 67, .writes = 1}, 2, "and who reads after it has written");
    look((struct look){.step = 67, .how = {.isolation = PS_SNAPSHOT}}, 0, "a snapshot does not");
    beside_another();
    before_who_waits();
    is(child_run(argv[0], "child", NULL), 0,
       "who writes elsewhere and may only read here locks it shared");
    is(ps_policy(c, PS_ESCALATE, SOON) | ps_transaction(zero, NULL), 0, "to be locked soon");
    through(0, 1, "a writer gets through streams of readers");
    through(1, 1, "a reader through streams of writers");
    is(ps_policy(c, PS_ESCALATE, 0), 0, "to be locked never");
    through(0, 0, "a writer gets through streams of readers");
    through(1, 0, "a reader through streams of writers");
    is(ps_transaction(add_up, NULL), 0, "and nothing is lost");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
