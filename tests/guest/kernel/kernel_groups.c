/*
 * kernel_groups.c - cluster grants: which neighbours a read fault maps, and that they hinder
 * nobody.
 *
 * Aim     sequential touches map more and more, jumping ones the page alone; a page that is
 *         written, or not resident, is left out; neighbours that were not used are taken without
 *         waiting; a lock of the container maps whole leaves, and requests grow under it, too.
 * Method  own_manager.h; faults are counted by KD_VIEW_STATS. A second thread writes what the first
 *         one's transaction was given and did not touch.
 */
enum { PAGES = 512 };
#include "own_manager.h"

static uint64_t read_faults(void)
{
    struct kd_view_stats s;
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.read_faults;
}

struct scan { unsigned first, count, step; uint64_t faults; };
static int scan(void *arg)
{
    struct scan *s = arg;
    uint64_t before = read_faults();
    for (unsigned i = 0; i < s->count; i++)
        (void)*word_of(s->first + i * s->step % s->count, 0);
    s->faults = read_faults() - before;
    return 0;
}

static uint64_t scan_faults(unsigned first, unsigned count, unsigned step, unsigned mode)
{
    struct scan s = {first, count, step, 0};
    view_anew();
    int e = run(scan, &s, mode, 0);
    return e ? 1000000u + (unsigned)-e : s.faults;
}

static int policy(unsigned which, uint64_t value)
{
    return (int)kd_call3(KD_CONTAINER_POLICY, (long)base, (long)which, (long)value);
}

/* ---- a writer of what somebody else was only given ---- */

static _Atomic int step;
static void until(int n)
{
    while (step < n)
        kd_call3(24, 0, 0, 0); /* sched_yield */
}

static int read_two_and_wait(void *arg)
{
    (void)arg;
    (void)*word_of(128, 0);
    (void)*word_of(129, 0); /* sequential: the ones behind are mapped, too */
    step = 1;
    until(2);
    return (int)*word_of(131, 0); /* taken and committed meanwhile: the reader comes later */
}
static void *reader(void *arg)
{
    *(int *)arg = run(read_two_and_wait, NULL, KD_SERIALISABLE, 0);
    return NULL;
}
static int write_page(void *arg) { *word_of((unsigned)(uintptr_t)arg, 0) = 5; return 0; }

static int write_then_scan(void *arg)
{
    *word_of(70, 1) = 9;
    int e = scan(arg);
    return e ? e : *word_of(70, 1) == 9 ? 0 : 1;
}

static void resident(void)
{
    struct kd_supply all = {
        .object = object, .source = KD_SUPPLY_ZERO, .rights = KD_READ | KD_WRITE, .count = 256
    };
    tap_ok(kd_call3(KD_OBJECT_SUPPLY, (long)&all, 0, 0) == 0, "half of its pages are resident");

    uint64_t n = scan_faults(0, 64, 1, KD_SERIALISABLE);
    tap_ok(n >= 2 && n <= 6, "64 pages one after the other: %lu faults", n);
    n = scan_faults(0, 256, 1, KD_SERIALISABLE);
    tap_ok(n <= 12, "256 pages: %lu faults", n);
    n = scan_faults(0, 64, 29, KD_SERIALISABLE);
    tap_ok(n == 64, "64 pages in jumps: %lu faults", n);
    n = scan_faults(0, 256, 5, KD_SERIALISABLE);
    tap_ok(n < 128, "256 pages in small steps, clustered: %lu faults", n);
    n = scan_faults(0, 256, 1, KD_SNAPSHOT);
    tap_ok(n <= 12, "a snapshot, too: %lu faults", n);
}

static void policies(void)
{
    tap_ok(policy(KD_POLICY_CLUSTER, 4) == 0 && scan_faults(0, 64, 29, KD_SERIALISABLE) == 16,
           "clusters of 4: one fault for four pages, however they are touched");
    tap_ok(policy(KD_POLICY_CLUSTER, 1) == 0 && scan_faults(0, 64, 1, KD_SERIALISABLE) == 64,
           "clusters of 1: one fault a page");
    tap_ok(policy(KD_POLICY_CLUSTER, 3) == -EINVAL && policy(KD_POLICY_CLUSTER, 128) == -EINVAL &&
               policy(99, 1) == -EINVAL &&
               kd_call3(KD_CONTAINER_POLICY, 4096, KD_POLICY_CLUSTER, 4) == -ENOENT,
           "other sizes, other policies and other places are refused");
    tap_ok(policy(KD_POLICY_CLUSTER, 0) == 0, "adaptive again");
}

/* Each page comes by a request, and nothing is mapped before it came. */
static void not_resident(void)
{
    long before = commits_seen;
    uint64_t n = scan_faults(256, 64, 1, KD_SERIALISABLE);
    tap_ok(n == 64 && commits_seen == before,
           "pages that are not resident are not mapped: %lu faults", n);
    tap_ok(asked_most >= 4 && asked_most <= 64, "but asked for together: up to %lu", asked_most);
    uint64_t alone = asked_alone;
    n = scan_faults(320, 128, 37, KD_SERIALISABLE);
    tap_ok(n > 100 && asked_alone - alone > 64, "and one by one in jumps: %lu of %lu",
           asked_alone - alone, n);
}

static int lock_then_scan(void *arg)
{
    int e = (int)kd_call3(KD_TXN_LOCK, (long)base, KD_LOCK_SHARED, 0);
    return e ? e : scan(arg);
}

static void locked(void)
{
    struct scan away = {448, 64, 1, 0}, here = {0, 256, 1, 0};
    asked_most = 0;
    view_anew();
    int e = run(lock_then_scan, &away, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && asked_most >= 32 && asked_most <= 64,
           "who has locked the container asks for more and more at once, too: up to %lu",
           asked_most);
    view_anew();
    e = run(lock_then_scan, &here, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && here.faults <= 5, "and finds 256 pages with a fault for each leaf: %lu",
           here.faults);
}

static void copied_and_taken(void)
{
    view_anew();
    struct scan mixed = {64, 64, 1, 0};
    tap_ok(run(write_then_scan, &mixed, KD_SERIALISABLE, 0) == 0 && mixed.faults < 12,
           "a private copy amid a cluster stays what it is");

    int result = -1;
    pthread_t t;
    view_anew();
    pthread_create(&t, NULL, reader, &result);
    until(1);
    tap_ok(run(write_page, (void *)131, KD_SERIALISABLE, 20000) == 0,
           "a neighbour that was not used is taken and written without waiting");
    tap_ok(run(write_page, (void *)129, KD_SERIALISABLE, 50) == -ETIMEDOUT,
           "a page that was used is waited for");
    step = 2;
    pthread_join(t, NULL);
    tap_ok(result == 5, "and the reader finds what was written");
}

int main(void)
{
    tap_plan(21);
    tap_ok(start_manager((struct own_manager){.pages = PAGES}),
           "an object is created and attached");
    resident();
    policies();
    not_resident();
    locked();
    copied_and_taken();
    tap_ok(check() == 0, "kcheck is clean");
    return tap_end();
}
