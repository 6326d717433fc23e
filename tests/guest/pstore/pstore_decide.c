/*
 * pstore_decide.c - containers of the store whose first touches the store manager decides, or a
 * program (decide.h).
 *
 * Aim     each first touch asks whoever decides, and nobody else; it is granted, kept waiting,
 *         refused, answered late; rights that were handed over come back. Counters that threads of
 *         two processes change are exact. Nobody waits for a program that has died, for a client
 *         that has died, or for a question that timed out, though the program keeps an order; the
 *         store is not confused by nonsense.
 * Method  a thread of this process decides, with a policy that gives each page to one view at a
 *         time. Or another process does, which never answers.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "decide.h"
#include "pstore_test.h"

enum { PAGES = 6, WORDS = KD_PAGE_BYTES / 8, KEPT = 64, THREADS = 3, ROUNDS = 40, SHORT_MS = 60,
       LONG_MS = 20000, STATUS_WRONG = 2, STATUS_END = 9 };
struct root { uint64_t *page[PAGES]; };
static ps_container *c;
static uint64_t *pages[PAGES];

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (unsigned i = 0; i < PAGES; i++) {
        root->page[i] = ps_alloc(c, 3 * KD_PAGE_BYTES, NULL);
        if (!root->page[i]) return -errno;
        root->page[i] += WORDS; /* all of its page is this object's */
        root->page[i] = (uint64_t *)((uintptr_t)root->page[i] & ~(uintptr_t)(KD_PAGE_BYTES - 1));
        *root->page[i] = 0;
    }
    return 0;
}
static int find(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (unsigned i = 0; i < PAGES; i++) pages[i] = root->page[i];
    return 0;
}
static int container_open(void)
{
    c = ps_open("decide", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return c ? 0 : -errno;
}

static void *number(unsigned i) { return (void *)(uintptr_t)i; }
static int reads(void *i) { return (int)(*(volatile uint64_t *)pages[(uintptr_t)i] & 0); }
/* no load */
static int writes(void *i) { ((volatile uint64_t *)pages[(uintptr_t)i])[1] = 7; return 0; }
static int reads_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < PAGES; i++) reads(number(i));
    return 0;
}
static int sums(void *sum)
{
    *(uint64_t *)sum = 0;
    for (unsigned i = 0; i < PAGES; i++) *(uint64_t *)sum += *pages[i];
    return 0;
}

/* Questions of one run, in a view of its own number; *e: its result. */
static long asks_timed(int (*fn)(void *), void *arg, unsigned ms, int *e)
{
    static int apart;
    struct ps_options o = {.timeout_ms = ms, .apart = apart = apart % 8 + 1};
    struct ps_stats before, after;
    ps_stats(&before);
    *e = ps_transaction_opt(fn, arg, &o);
    ps_stats(&after);
    return (long)(after.manager_calls - before.manager_calls);
}
static int apart_now = 100;
static long asks(int (*fn)(void *), void *arg)
{
    struct ps_options o = {.timeout_ms = LONG_MS, .apart = apart_now};
    struct ps_stats before, after;
    ps_stats(&before);
    int e = ps_transaction_opt(fn, arg, &o);
    ps_stats(&after);
    return e ? e : (long)(after.manager_calls - before.manager_calls);
}

/* ---- the store decides ---- */

static void by_store(void)
{
    is(ps_decide(c, PS_DECIDE_KERNEL), 0, "the kernel decides");
    is(asks(reads_all, NULL), 0, "nothing is asked of what is in memory");
    is(ps_decide(c, PS_DECIDE_STORE), 0, "the store decides");
    is(asks(reads_all, NULL), PAGES, "each first load asks");
    is(asks(reads_all, NULL), 0, "a right that a view kept does not");
    is(asks(writes, number(2)), 1, "each first store asks, too");
    is(ps_decide(c, PS_DECIDE_STORE), 0, "the store decides from now on");
    is(asks(writes, number(2)), 1, "rights that were kept are called back");
    ps_advise(pages[3], KD_PAGE_BYTES, PS_DONT_NEED);
    is(ps_decide(c, PS_DECIDE_KERNEL), 0, "the kernel decides");
    is(asks(writes, number(4)), 0, "and nothing is asked");
}

/* ---- a thread decides: a page is one view's at a time; with ORDER, or several readers' ---- */

static struct ps_question kept[KEPT];
static _Atomic unsigned kept_count;
static _Atomic long asked, granted, deadlocks, told;
static _Atomic int policy_end;
static volatile enum { EXCLUSIVE, ORDER, KEEP, REFUSE, ALL } policy;

/* Nobody has the page in a way that forbids this, and with ORDER none of the first `before` that
 * are kept wants it, or the asker waits for those. 0: it is to be kept. */
static int try(struct ps_question *q, unsigned before)
{
    uint64_t users[2] = {0};
    struct ps_question yes = *q;
    if (ps_decide_answer(c, q) == -ESRCH) return 1; /* PS_LATER: it stands no more */
    long used = ps_decide_recall(c, q->page, 1, policy == ORDER && !q->write, users);
    users[q->view / 64] &= ~(1ull << q->view % 64);
    for (unsigned i = 0; i < before && policy == ORDER; i++)
        if (kept[i].page == q->page) users[kept[i].view / 64] |= 1ull << kept[i].view % 64;
    yes.answer = PS_GRANT;
    if (used < 0 || !(users[0] | users[1])) {
        granted += ps_decide_answer(c, &yes) == 0;
        return 1;
    }
    int e = ps_decide_waits(c, q->view, users);
    deadlocks += e == -EDEADLK;
    return e != 0; /* it is aborted, and asks anew */
}

static void again(void)
{
    unsigned left = 0;
    for (unsigned i = 0; i < kept_count; i++)
        if (!try(&kept[i], left)) kept[left++] = kept[i];
    kept_count = left;
}

static void *decides(void *unused)
{
    struct ps_question q = {0};
    int e;
    while ((e = ps_decide_next(c, &q)) == 0) {
        told += q.kind == PS_RECALLED;
        asked += q.kind == PS_ASKED;
        if (q.kind == PS_RECALLED && policy <= ORDER)
            again();
        else if (q.kind == PS_ASKED && policy == REFUSE)
            q.answer = -EACCES;
        else if (q.kind == PS_ASKED && policy == ALL)
            q.answer = PS_GRANT_ALL;
        else if (q.kind == PS_ASKED && kept_count < KEPT &&
                 (policy == KEEP || !try(&q, kept_count)))
            kept[kept_count++] = q;
    }
    policy_end = e;
    return unused;
}

static pthread_t decider;
static void decides_begin(int how)
{
    policy = how;
    kept_count = 0;
    is(ps_decide(c, PS_DECIDE_PROGRAM), 0, "this program decides");
    pthread_create(&decider, NULL, decides, NULL);
}
static void decides_end(void)
{
    is(ps_decide(c, PS_DECIDE_KERNEL), 0, "the kernel decides again");
    pthread_join(decider, NULL);
    tap_ok(policy_end == -ECANCELED || policy_end == -EPERM, "which its thread is told");
}

/* Adds one to two pages, in any order. */
struct work { uint64_t rng; unsigned done; };
static int two(void *arg)
{
    struct work *w = arg;
    unsigned a = (unsigned)(w->rng >> 20) % PAGES, b = (unsigned)(w->rng >> 40) % PAGES;
    uint64_t seen = *(volatile uint64_t *)pages[a];
    if (w->rng >> 60 & 1) sched_yield();
    *(volatile uint64_t *)pages[b] += 1;
    *(volatile uint64_t *)pages[a] = (a == b) + seen + 1;
    return w->rng >> 62 == 3 ? 17 : 0; /* some give up */
}
static void *works(void *seed)
{
    struct work w = {.rng = (uintptr_t)seed};
    for (unsigned i = 0; i < ROUNDS; i++) {
        w.rng = w.rng * 6364136223846793005ull + 1442695040888963407ull;
        int e = ps_transaction(two, &w);
        if (e != 0 && e != 17) return NULL;
        w.done += e == 0;
    }
    return (void *)(uintptr_t)(w.done + 1);
}
/* How many commits; 0: something failed. */
static unsigned works_many(unsigned seed)
{
    pthread_t t[THREADS];
    unsigned sum = 0, bad = 0;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, works, (void *)(uintptr_t)(seed * 97 + i + 1));
    for (unsigned i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(t[i], &done);
        bad |= !done;
        sum += (unsigned)(uintptr_t)done - 1;
    }
    return bad ? 0 : sum;
}

static void by_program(const char *self)
{
    uint64_t before = 0, after = 0;
    ps_transaction(sums, &before);
    decides_begin(EXCLUSIVE);
    int pid = child_start(self, "works", "7");
    unsigned here = works_many(3);
    int there = child_wait(pid);
    is(ps_transaction(sums, &after), 0, "all counters are read");
    tap_ok(here && there > 0 && after - before == 2 * (here + (unsigned)there),
           "what %u and %d commits of two processes counted is exact (%lu)", here, there,
           (unsigned long)(after - before));
    tap_ok(asked > 2 * PAGES && granted > PAGES, "and was asked for");
    printf("# %ld questions, %ld granted, %ld ends told, %ld deadlocks\n", asked, granted, told,
           deadlocks);
    decides_end();
    is(asks(reads_all, NULL), 0, "and nothing is asked");
}

/* ---- answers of all kinds ---- */

static struct { int (*body)(void *); unsigned page, ms; volatile int result; } toucher;
static void *touches(void *unused)
{
    struct ps_options o = {.timeout_ms = toucher.ms};
    toucher.result = ps_transaction_opt(toucher.body, number(toucher.page), &o);
    return unused;
}
static pthread_t touch_by(int (*body)(void *), unsigned page, unsigned ms)
{
    pthread_t t;
    toucher.body = body;
    toucher.page = page;
    toucher.ms = ms;
    toucher.result = 1;
    pthread_create(&t, NULL, touches, NULL);
    return t;
}

static pthread_t touch(unsigned page, unsigned ms) { return touch_by(writes, page, ms); }

static void answers(const char *self)
{
    int e;
    decides_begin(REFUSE);
    is(asks(writes, number(0)), -EACCES, "what is refused fails");
    policy = KEEP;
    unsigned ms = SHORT_MS;
    do asks_timed(writes, number(1), ms, &e);
    while (e == -ETIMEDOUT && !kept_count && (ms *= 4) < LONG_MS);
    is(e, -ETIMEDOUT, "what is not answered ends by the transaction's time");
    kept[0].answer = PS_GRANT;
    is(ps_decide_answer(c, &kept[0]), -ESRCH, "its answer comes too late");
    kept[0].answer = PS_GRANT_ALL + 1;
    is(ps_decide_answer(c, &kept[0]), -EINVAL, "nor is there such an answer");
    kept_count = 0;
    pthread_t t = touch(1, LONG_MS);
    while (!kept_count) sched_yield();
    tap_ok(toucher.result == 1 && kept[0].write && (uint64_t *)kept[0].page == pages[1],
           "a question is kept");
    kept[0].answer = PS_GRANT;
    is(ps_decide_answer(c, &kept[0]), 0, "and answered later");
    pthread_join(t, NULL);
    is(toucher.result, 0, "then it goes on");
    kept_count = 0;
    int pid = child_start(self, "touches", "2");
    while (!kept_count) sched_yield();
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    child_wait(pid);
    kept[0].answer = PS_GRANT;
    is(ps_decide_answer(c, &kept[0]), -ESRCH, "who has died waits for no answer");
    policy = ALL;
    is(asks(writes, number(2)), 1, "and is in nobody's way");
    decides_end();
}

/* A page is read to the end of this, another process waits to write it, and dies; behind that one
 * a reader waits, as the program keeps an order. */
static void in_order(const char *self)
{
    decides_begin(ORDER);
    is(ps_begin(NULL), 0, "a transaction");
    reads(number(0));
    ps_tx *tx = ps_suspend();
    int pid = child_start(self, "touches", "0");
    while (kept_count < 1) sched_yield();
    pthread_t t = touch_by(reads, 0, LONG_MS);
    while (kept_count < 2) sched_yield();
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    child_wait(pid);
    pthread_join(t, NULL);
    is(toucher.result, 0, "who waits behind one that has died goes on");
    ps_resume(tx);
    is(ps_commit(), 0, "beside the one that has the page");
    decides_end();
}

static void handed_over(void)
{
    uint64_t users[2] = {0};
    long before;
    decides_begin(ALL);
    is(ps_decide_grant(c, pages[0], 1, 1), 0, "a right is handed over");
    before = asked;
    is(asks(writes, number(0)), 0, "the kernel shares it out by itself");
    is(ps_decide_recall(c, pages[0], 1, 0, users), 0, "an idle right comes back at once");
    tap_ok(asks(writes, number(0)) == 1 && asked == before + 1, "then it is asked for");
    before = told;
    is(ps_begin(NULL), 0, "a transaction");
    reads(number(5));
    ps_tx *tx = ps_suspend();
    is(ps_decide_recall(c, pages[5], 1, 0, users), 1, "what it uses is in use");
    tap_ok(users[0] | users[1], "by whom is said");
    ps_resume(tx);
    is(ps_commit(), 0, "to its end");
    while (told == before) sched_yield();
    is(ps_decide_recall(c, pages[5], 1, 0, users), 0, "which is told");
    decides_end();
}

/* ---- deaths, and what is not allowed ---- */

static void another(const char *self)
{
    struct ps_question q = {0};
    is(ps_decide_next(c, &q), -EPERM, "who does not decide hears no question");
    is((int)ps_decide_recall(c, pages[0], 1, 0, NULL), -EPERM, "nor calls back");
    is(ps_decide(c, 3), -EINVAL, "nonsense is refused");
    int pid = child_start(self, "silent", "");
    while (ps_decide(c, PS_DECIDE_STORE) != -EBUSY) sched_yield();
    tap_ok(1, "another program decides");
    pthread_t t = touch(3, LONG_MS);
    int e;
    asks_timed(writes, number(4), SHORT_MS, &e);
    is(e, -ETIMEDOUT, "it does not answer");
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    child_wait(pid);
    pthread_join(t, NULL);
    is(toucher.result, 0, "when it has died, who waited goes on");
    is(asks(writes, number(4)), 0, "and the kernel decides");
    is(ps_decide(c, PS_DECIDE_PROGRAM), 0, "or whoever wants to");
    is(ps_decide_grant(c, pages[0], 1ull << 40, 1), -EINVAL, "not of what is no page");
    is(ps_decide_grant(c, &pages, 1, 1), -EINVAL, "nor elsewhere");
    is(ps_decide_waits(c, 127, (uint64_t[2]){1}), -ESRCH, "nor of a view that is not there");
    ps_close(c);
    is(container_open(), 0, "closed and opened again");
    is(ps_decide_grant(c, pages[0], 1, 1), -EPERM, "it does not decide any more");
    is(asks(writes, number(4)), 0, "but the kernel");
    ps_container *to_read = ps_open("decide", 0, NULL);
    is(to_read == c ? 0 : ps_decide(to_read, PS_DECIDE_STORE), 0, "(one container)");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
}

static int child(const char *what, const char *argument)
{
    struct ps_question q = {0};
    if (container_open() || ps_transaction(find, NULL)) return 100;
    if (!strcmp(what, "works")) return (int)works_many((unsigned)atoi(argument));
    if (!strcmp(what, "touches")) return ps_transaction(writes, number((unsigned)atoi(argument)));
    if (ps_decide(c, PS_DECIDE_PROGRAM)) return 101;
    while (ps_decide_next(c, &q) == 0) {}
    return 102;
}

int main(int argc, char **argv)
{
    if (argc > 2) return child(argv[1], argv[2]);
    const char *self = "/bin/pstore_decide";
    tap_plan(66);
    is(container_open(), 0, "a container");
    is(ps_transaction(make, NULL), 0, "with pages");
    is(ps_transaction(find, NULL), 0, "which lie at addresses");
    by_store();
    by_program(self);
    answers(self);
    in_order(self);
    handed_over();
    another(self);
    return tap_end();
}
