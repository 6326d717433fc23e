/*
 * pstore_locks.c - whole containers locked from libpstore, and how their pages are given out.
 *
 * Aim     PS_CONTAINER_LOCK, ps_lock, ps_policy: what they refuse, and that two threads which add
 *         to all of a container's pages lose nothing and wait instead of running again; weights.
 * Method  counters on many pages, added to in opposite orders: without locks that is a deadlock.
 */
#include <pthread.h>
#include <sched.h>

#include "pstore_test.h"

enum { COUNTERS = 24, ROUNDS = 40, STEP = 4096, WEIGHED = 100 };

struct root { char *counters; };
static ps_container *c;

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->counters = ps_alloc(c, (size_t)COUNTERS * STEP, NULL);
    return root->counters ? 0 : -errno;
}

static long *counter(int i)
{
    return (long *)(((struct root *)ps_root(c))->counters + (size_t)i * STEP);
}

static int add_all(void *arg)
{
    for (int i = 0; i < COUNTERS; i++)
        ++*counter(*(int *)arg ? COUNTERS - 1 - i : i);
    return 0;
}

static int add_all_locked(void *arg)
{
    int e = ps_lock(c, 0);
    return e ? e : add_all(arg);
}

static int all_are(void *wanted)
{
    for (int i = 0; i < COUNTERS; i++)
        if (*counter(i) != *(long *)wanted)
            return -EPROTO;
    return 0;
}

static uint64_t deadlocks(void)
{
    struct ps_stats s;
    ps_stats(&s);
    return s.deadlocks;
}

struct worker { int (*body)(void *); struct ps_options how; int backwards, result; };
static void *worker_main(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < ROUNDS && !w->result; i++)
        w->result = ps_transaction_opt(w->body, &w->backwards, &w->how);
    return NULL;
}

/* Both orders at once; how many deadlocks there were, or -errno. */
static long together(int (*body)(void *), const struct ps_options *how)
{
    struct worker w[2] = {{body, *how, 0, 0}, {body, *how, 1, 0}};
    pthread_t t[2];
    uint64_t before = deadlocks();
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker_main, &w[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return w[0].result ? w[0].result : w[1].result ? w[1].result : (long)(deadlocks() - before);
}

static int lock_and_refuse(void *unused)
{
    (void)unused;
    if (ps_lock(c, 8) != -EINVAL || ps_lock(NULL, 0) != -EINVAL)
        return 1;
    return ps_lock(c, PS_LOCK_SHARED | PS_LOCK_NOW) || ps_lock(c, PS_LOCK_NOW) ? 2 : 0;
}

static int lock_read_only(void *other)
{
    if (ps_lock(other, 0) != -EROFS)
        return 1;
    return ps_lock(other, PS_LOCK_SHARED);
}

/* ---- weights: each has a page that the other one wants ---- */

static int runs[2];
static unsigned arrived;

static int cross(void *arg)
{
    int me = *(int *)arg;
    ++*counter(me);
    __atomic_fetch_or(&arrived, 1u << me, __ATOMIC_SEQ_CST);
    for (runs[me]++; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) != 3;)
        sched_yield();
    ++*counter(!me);
    return 0;
}

/* Both have read one page and want to write it. Not for long: where that went wrong lately, who
 * reads gets the right to write and the other one does not arrive. */
static int upgrade(void *arg)
{
    int me = *(int *)arg;
    volatile long *n = counter(0);
    long seen = *n;
    __atomic_fetch_or(&arrived, 1u << me, __ATOMIC_SEQ_CST);
    runs[me]++;
    for (int i = 0; i < 2000 && __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) != 3; i++)
        sched_yield();
    *n = seen + 1;
    return 0;
}

struct crosser { int (*body)(void *), me, result; struct ps_options options; };
static void *cross_main(void *arg)
{
    struct crosser *w = arg;
    w->result = ps_transaction_opt(w->body, &w->me, &w->options);
    return NULL;
}

/* Does the heavy one run once, and how often does the light one? */
static int heavy_goes_on(int (*body)(void *), int heavy, int *again)
{
    struct crosser w[2] = {{.body = body, .me = 0}, {.body = body, .me = 1}};
    pthread_t t[2];
    arrived = runs[0] = runs[1] = 0;
    for (int i = 0; i < 2; i++) {
        w[i].options.weight = i == heavy ? 2 : 1;
        pthread_create(&t[i], NULL, cross_main, &w[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    *again += runs[!heavy] > 1;
    return w[0].result == 0 && w[1].result == 0 && runs[heavy] == 1;
}

/* ---- a lock that is refused ---- */

static _Atomic int has_read, may_write, writer_runs;
static int read_then_write(void *unused)
{
    (void)unused;
    long seen = *counter(1);
    writer_runs++;
    has_read = 1;
    while (!may_write) sched_yield();
    *counter(0) = seen;
    return 0;
}
static void *read_then_write_main(void *unused)
{
    return (void *)(long)ps_transaction(read_then_write, unused);
}

static uint64_t lock_waits(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.lock_waits;
}

/* Whom the lock would have had to wait for, waits for this transaction; which waits for nobody. */
static void refused(void)
{
    pthread_t t;
    void *result = NULL;
    pthread_create(&t, NULL, read_then_write_main, NULL);
    while (!has_read) sched_yield();
    ps_begin(NULL);
    *counter(0) = 0;
    is(ps_lock(c, PS_LOCK_NOW), -EBUSY,
       "a lock that must be had at once is refused while another one reads");
    uint64_t before = lock_waits();
    may_write = 1;
    while (lock_waits() == before && writer_runs < 2) sched_yield();
    is(ps_commit(), 0, "which then waits for who was refused");
    pthread_join(t, &result);
    is(result ? -1 : writer_runs, 1, "and that is no deadlock");
}

int main(void)
{
    tap_plan(20);
    ps_delete("locks");
    c = ps_open("locks", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c && ps_transaction(make, NULL) == 0, 1, "a container with counters on many pages");

    struct ps_options locked = {.isolation = PS_CONTAINER_LOCK, .locked = c}, plain = {0};
    struct ps_options readers = {.isolation = PS_CONTAINER_LOCK, .locked = c, .shared = 1};
    is(together(add_all, &locked), 0, "with the container locked there is no deadlock");
    is(together(add_all_locked, &plain), 0, "nor if it is locked in the transaction");
    long wanted = 4 * ROUNDS;
    is(ps_transaction_opt(all_are, &wanted, &readers), 0, "a shared lock reads what both added");
    tap_ok(together(add_all, &readers) >= 0, "shared locks that become writers run again");
    wanted += 2 * ROUNDS;
    is(ps_transaction(all_are, &wanted), 0, "and lose nothing");
    is(ps_transaction(lock_and_refuse, NULL), 0,
       "bad arguments are refused; shared becomes exclusive");
    int crossed = 0, upgraded = 0, crosses_again = 0, upgrades_again = 0;
    for (int i = 0; i < WEIGHED; i++) {
        crossed += heavy_goes_on(cross, i % 2, &crosses_again);
        upgraded += heavy_goes_on(upgrade, i % 2, &upgrades_again);
    }
    is(crossed, WEIGHED, "of two that deadlock never the heavier one runs again");
    is(crosses_again, WEIGHED, "but the lighter one");
    is(upgraded, WEIGHED, "also of two that want to write what both have read");
    tap_ok(upgrades_again > 0, "which came to pass");
    refused();
    is(ps_lock(c, 0), -EPERM, "no lock outside a transaction");

    is(ps_policy(c, PS_GROUP, 4), 0, "groups of four");
    is(ps_policy(c, PS_GROUP, 5) == -EINVAL && ps_policy(c, 9, 0) == -EINVAL, 1,
       "no groups of five");
    is(ps_policy(c, PS_ESCALATE, 10000) | ps_policy(c, PS_GROUP, 0), 0, "escalation");

    ps_close(c);
    c = ps_open("locks", 0, PS_LAYOUT(struct root, 1));
    is(ps_transaction(lock_read_only, c), 0, "open for reading: shared locks only");
    is(ps_policy(c, PS_GROUP, 4), -EROFS, "and no policy");
    return tap_end();
}
