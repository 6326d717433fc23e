/*
 * pstore_rights.c - what a program's loads and stores cost in faults, waits and requests.
 *
 * Aim     rights outlive their transaction, and one that somebody else took is asked for again; a
 *         read fault brings as many pages as touches suggest, or as ps_policy says; who has not
 *         used a page that came along makes nobody wait; of pages that are not in memory one
 *         request brings many in order, and no more than are touched out of order; ps_prefetch
 *         brings rights.
 * Method  counts, no clocks: faults and waits of this process, pages in memory. Each view begins
 *         without rights, in a thread of its own. A container leaves memory with its manager, which
 *         is killed.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "pstore_test.h"

enum { PAGES = 1024, SOME = 64, MANY = 256, WORDS = KD_PAGE_BYTES / 8 };
struct root { uint64_t *pages; };
static ps_container *c;
static volatile uint64_t *pages;

static volatile uint64_t *word(unsigned i) { return pages + (size_t)i * WORDS; }

static struct kd_view_stats stats(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s;
}
static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root->pages) root->pages = ps_alloc(c, (size_t)(PAGES + 64) * KD_PAGE_BYTES, NULL);
    enum { LEAF = 64 * KD_PAGE_BYTES };
    pages = (void *)(((uint64_t)root->pages + LEAF - 1) & ~(uint64_t)(LEAF - 1));
    return root->pages ? 0 : -errno;
}

/* ---- a transaction, and what it took ---- */

struct scan {
    unsigned first, count, step, range;  /* range: 0: count */
    int write, prefetch;
    long read_faults, write_faults, waits, requests, came, reads; /* out */
    int result;
};
static uint64_t stored;
static int scan(void *arg)
{
    struct scan *s = arg;
    if (s->prefetch)
        s->result = ps_prefetch((void *)word(s->first), (size_t)s->count * KD_PAGE_BYTES);
    struct kd_view_stats before = stats();
    struct kd_system_info was = system_info();
    for (unsigned i = 0; i < s->count; i++) {
        volatile uint64_t *w = word(s->first + i * s->step % (s->range ? s->range : s->count));
        if (s->write) *w = ++stored; /* what is stored as it was leaves no right */
        else (void)*w;
    }
    struct kd_view_stats after = stats();
    struct kd_system_info is = system_info();
    s->came = (long)(is.resident_pages - was.resident_pages);
    s->reads = (long)(is.block_reads - was.block_reads);
    s->read_faults = (long)(after.read_faults - before.read_faults);
    s->write_faults = (long)(after.write_faults - before.write_faults);
    s->waits = (long)(after.lock_waits - before.lock_waits);
    s->requests = (long)(after.manager_calls - before.manager_calls);
    return s->result;
}

static int isolation;
static void *scan_main(void *arg)
{
    struct scan *s = arg;
    s->result = ps_transaction_opt(scan, s, &(struct ps_options){.isolation = isolation});
    return NULL;
}
static struct scan scan_new_view(struct scan s)
{
    pthread_t t;
    pthread_create(&t, NULL, scan_main, &s);
    pthread_join(t, NULL);
    return s;
}
static long faults(unsigned count, unsigned step)
{
    struct scan s = scan_new_view((struct scan){.count = count, .step = step});
    return s.result ? -1 : s.read_faults + 1000 * s.write_faults;
}

/* ---- rights that stay ---- */

static int took(struct scan s, long reads, long writes)
{
    scan_main(&s);
    if (!s.result && s.read_faults == reads && s.write_faults == writes && !s.waits && !s.requests)
        return 1;
    printf("# result %d, %ld read faults, %ld write faults, %ld waits, %ld requests\n", s.result,
           s.read_faults, s.write_faults, s.waits, s.requests);
    return 0;
}

static void caching(void)
{
    struct scan reads = {.count = SOME, .step = 1}, writes = {.count = SOME, .step = 1, .write = 1};
    ps_policy(c, PS_GROUP, 1);
    tap_ok(took(writes, 0, SOME), "the first to write some pages faults on each, and asks nobody");
    tap_ok(took(reads, 0, 0), "the next transaction of this thread reads them without a fault");
    tap_ok(took(reads, 0, 0), "so does the one after it");
    tap_ok(took(writes, 0, SOME), "each page's first store in a transaction is a fault");
    struct scan other = scan_new_view((struct scan){.first = 3, .count = 2, .step = 1, .write = 1});
    tap_ok(other.result == 0 && other.waits == 0,
           "another thread writes two of them, and waits for nobody");
    tap_ok(took(reads, 2, 0), "only these two are asked for again");
    ps_strict(1);
    tap_ok(took(reads, 0, 0), "the last rights that stay, as ps_strict(1) says");
    tap_ok(took(reads, SOME, 0), "from now on each transaction asks anew");
    ps_strict(0);
}

/* ---- groups ---- */

static void groups(void)
{
    ps_policy(c, PS_GROUP, 0);
    long n = faults(MANY, 1);
    tap_ok(n >= 4 && n <= 12, "%d pages one after the other: %ld faults", MANY, n);
    isolation = PS_SNAPSHOT;
    n = faults(MANY, 1);
    tap_ok(n >= 4 && n <= 12, "in a snapshot: %ld", n);
    isolation = PS_SERIALISABLE;
    is(faults(SOME, 29), SOME, "in jumps: one for each");
    ps_policy(c, PS_GROUP, 4);
    is(faults(MANY, 1), MANY / 4, "groups of four: one for four, in order");
    is(faults(SOME, 29), SOME / 4, "and in jumps");
    ps_policy(c, PS_GROUP, 1);
    is(faults(MANY, 1), MANY, "groups of one: one for each");
    ps_policy(c, PS_GROUP, 0);
}

static int write_4_9(void *unused)
{
    (void)unused;
    for (int i = 4; i < 10; i++) *word((unsigned)i) = 7;
    return 0;
}
static int write_1(void *unused)
{
    (void)unused;
    *word(1) = 7;
    return 0;
}

/* Its first transaction reads in order and is left; the second one writes what came along. Waiting
 * for the first would be a deadlock of this thread with itself. */
static void *unused_ones(void *bad)
{
    struct ps_options once = {.retries = 1};
    struct scan s = {.count = 3, .step = 1};
    ps_begin(NULL);
    scan(&s);
    ps_tx *reader = ps_suspend();
    struct kd_view_stats before = stats();
    int e = ps_transaction_opt(write_4_9, NULL, &once);
    struct kd_view_stats after = stats();
    int used = ps_transaction_opt(write_1, NULL, &once);
    int end = ps_resume(reader);
    end = end ? end : ps_commit();
    if (e || used != -EDEADLK || end || after.lock_waits != before.lock_waits || s.read_faults >= 3)
        printf("# %d, a used one: %d, %d, %ld faults\n", e, used, end, s.read_faults);
    else
        *(int *)bad = 0;
    return NULL;
}

static int write_0(void *unused)
{
    (void)unused;
    *word(0) = 7;
    return 0;
}

/* One transaction is left open, another one writes a page that the first one's view has used in an
 * earlier transaction: a deadlock of this thread with itself, unless the open one is apart. */
static void *apart(void *bad)
{
    struct ps_options once = {.retries = 1};
    struct scan s = {.count = 1, .step = 1};
    int e[2];
    for (int i = 0; i < 2; i++) {
        ps_begin(NULL);
        scan(&s);
        ps_commit();
        ps_begin(&(struct ps_options){.apart = i});
        *word(SOME) = i;
        ps_tx *open = ps_suspend();
        e[i] = ps_transaction_opt(write_0, NULL, &once);
        ps_resume(open);
        ps_rollback();
    }
    if (e[0] != -EDEADLK || e[1] != 0)
        printf("# beside one that is open: %d, apart: %d\n", e[0], e[1]);
    else
        *(int *)bad = 0;
    return NULL;
}

/* ---- pages that are not in memory ---- */

/* Everything is at home, and nothing in memory. */
static int cold(void)
{
    int e = ps_checkpoint(), pid = store_pid();
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    while (store_pid() == pid || !store_pid()) pause_ms(1);
    while (!e && ((e = ps_transaction(make, NULL)) == -EOWNERDEAD || e == -ENOTCONN)) {
        pause_ms(1);
        e = 0;
    }
    return e;
}

static void from_disk(void)
{
    struct scan all = scan_new_view((struct scan){.count = PAGES, .step = 1, .write = 1});
    is(all.result, 0, "all pages are written");
    is(cold(), 0, "and their manager is killed");
    struct scan s = scan_new_view((struct scan){.count = MANY, .step = 1});
    tap_ok(s.result == 0 && s.came >= MANY && s.requests <= MANY / 16 && s.reads <= MANY / 16,
           "in order one request brings many: %ld requests, %ld reads for %ld",
           s.requests, s.reads, s.came);
    s = scan_new_view(
        (struct scan){ .first = MANY + 32, .count = SOME, .step = 37, .range = MANY + SOME });
    tap_ok(s.result == 0 && s.came >= SOME && s.came <= 2 * SOME, /* it sees that after eight */
           "in jumps soon none comes that is not touched: %ld reads for %ld", s.reads, s.came);
    s = scan_new_view((struct scan){.first = 3 * MANY, .count = SOME, .step = 1, .prefetch = 1});
    tap_ok(s.result == 0 && s.came == 0 && s.requests == 0 && s.read_faults == 0,
           "after ps_prefetch there is neither a request nor a fault: %ld, %ld",
           s.requests, s.read_faults);
    is(ps_advise((void *)word(3 * MANY + SOME), 1, PS_RANDOM), 0, "touches will be at random");
    s = scan_new_view((struct scan){.first = 3 * MANY + SOME, .count = SOME, .step = 1});
    tap_ok(s.result == 0 && s.came == SOME && s.requests == SOME,
           "so also in order each comes alone: %ld for %ld", s.requests, s.came);
    is(ps_advise((void *)word(3 * MANY + SOME), 1, PS_NORMAL), 0, "as touches suggest, again");
}

int main(void)
{
    pthread_t t;
    int bad = 1;
    tap_plan(26);
    ps_delete("rights");
    c = ps_open("rights", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "a container");
    /* ps_alloc looks at no page that is fresh */
    scan_main(&(struct scan){.count = PAGES, .step = 1});
    caching();
    groups();
    pthread_create(&t, NULL, unused_ones, &bad);
    pthread_join(t, NULL);
    is(bad, 0, "what came along and was not used is written without waiting, what was used is not");
    bad = 1;
    pthread_create(&t, NULL, apart, &bad);
    pthread_join(t, NULL);
    is(bad, 0, "a transaction apart makes others of its thread wait for nothing but its own pages");
    from_disk();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
