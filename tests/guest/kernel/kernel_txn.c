/*
 * kernel_txn.c - the kernel's transactions, without a store: one process is manager and client.
 *
 * Aim     faults, rights, conflicts, deadlocks, commit, abort, snapshots, credits, kcheck.
 * Method  own_manager.h. Sums that every serial order keeps are compared, and the manager's home
 *         with what clients see.
 */
enum { PAGES = 256, THREADS = 4, ACCOUNTS = 48 };
static unsigned rounds = 120; /* 300 in the long tier */

#include "own_manager.h"

static int store_7(void *arg) { *word_of(1, (unsigned)(uintptr_t)arg) = 7; return 0; }
static int store_and_fail(void *arg) { (void)arg; *word_of(1, 5) = 9; return 42; }
static int is_7(void *arg) { return *word_of(1, (unsigned)(uintptr_t)arg) == 7 ? 0 : 1; }
static int is_0(void *arg) { return *word_of(1, (unsigned)(uintptr_t)arg) == 0 ? 0 : 1; }

/* Reads, then writes: every pair of these that meets is a conversion deadlock. */
static int increment(void *arg)
{
    volatile uint64_t *w = word_of((unsigned)(uintptr_t)arg, 0);
    uint64_t v = *w;
    for (volatile int i = 0; i < 50; i++) {
    }
    *w = v + 1;
    return 0;
}

static int transfer(void *arg)
{
    unsigned *seed = arg;
    unsigned a = (*seed = *seed * 1103515245 + 12345) >> 8,
             b = (*seed = *seed * 1103515245 + 12345) >> 8;
    volatile uint64_t *from = word_of(16 + a % ACCOUNTS, 0), *to = word_of(16 + b % ACCOUNTS, 0);
    uint64_t f = *from;
    uint64_t t = *to;
    if (from == to)
        return 0;
    *from = f - 1;
    *to = t + 1;
    return 0;
}

static int sum_is_zero(void *arg)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        sum += *word_of(16 + i, 0);
    if (sum)
        *(long *)arg += 1;
    return 0;
}

static long wrong_sums;
static void *client(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    long bad = 0;
    for (unsigned i = 0; i < rounds; i++) {
        if (run(increment, (void *)8, KD_SERIALISABLE, 0))
            bad++;
        if (run(transfer, &seed, KD_SERIALISABLE, 0))
            bad++;
        if (i % 16 == 0 && run(sum_is_zero, &bad, i % 32 ? KD_SNAPSHOT : KD_SERIALISABLE, 0))
            bad++;
    }
    __atomic_fetch_add(&wrong_sums, bad, __ATOMIC_SEQ_CST);
    return (void *)mine->aborts;
}

static int reads_8(void *arg) { *(uint64_t *)arg = *word_of(8, 0); return 0; }

static int store_into_snapshot(void *arg) { (void)arg; *word_of(1, 1) = 1; return 0; }

static _Atomic int holder_in, holder_out;
static int hold(void *arg)
{
    (void)arg;
    *word_of(3, 0) = 1;
    holder_in = 1;
    while (!holder_out)
        kd_call3(24, 0, 0, 0); /* sched_yield */
    return 0;
}
static void *holder(void *arg) { (void)arg; run(hold, NULL, KD_SERIALISABLE, 0); return NULL; }
static int store_3(void *arg) { (void)arg; *word_of(3, 0) = 2; return 0; }

static int touch_page_9(void *arg) { (void)arg; return (int)*word_of(9, 0); }

static int many_pages(void *arg)
{
    for (unsigned i = 0; i < (unsigned)(uintptr_t)arg; i++)
        *word_of(100 + i, 0) = 1;
    return 0;
}

/* A manager that says for whom a reader waits. */
static int reader_waits(void *arg)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    uint64_t on[2] = {0, 1ull << 60}, none[2] = {0};
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0), own = -1;
    (void)*word_of(0, 0);
    for (long i = 0; i < n; i++)
        if (list[i].state == 2 && list[i].pid == getpid())
            own = i;
    if (own < 0)
        return 1;
    *(long *)arg = kd_call3(KD_VIEW_WAIT, (long)list[own].view, (long)on, 0);
    kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    return list[own].waits[1] == on[1] &&
                   kd_call3(KD_VIEW_WAIT, (long)list[own].view, (long)none, 0) == 0
               ? 0
               : 1;
}

/* The object dies under a snapshot that has not touched it, and its manager makes another one
 * there. */
static _Atomic int revive;
static void *reviver(void *unused)
{
    while (!revive)
        kd_call3(24, 0, 0, 0);
    struct kd_object_create c = { .port = port, .commit_port = commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL, .cookie = 7, .base = base,
                                  .pages = PAGES,
                                  .name = "test" };
    kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    revive = 2;
    return unused;
}
static int read_revived(void *arg)
{
    revive = 1;
    while (revive < 2)
        kd_call3(24, 0, 0, 0);
    *(uint64_t *)arg = *word_of(0, 0);
    return 0;
}

static void one_after_the_other(void)
{
    tap_ok(kd_call3(KD_SPACE_ATTACH, 1, object, KD_RIGHT_READ) == -EPERM,
           "nobody is given an object that it did not ask for");
    tap_ok(run(store_7, (void *)0, KD_SERIALISABLE, 0) == 0, "a store commits");
    tap_ok(run(is_7, (void *)0, KD_SERIALISABLE, 0) == 0, "the next transaction sees it");
    tap_ok(home[1][0] == 7, "the manager was told the changed bytes");
    tap_ok(run(store_and_fail, NULL, KD_SERIALISABLE, 0) == 42, "an abort returns");
    tap_ok(run(is_0, (void *)5, KD_SERIALISABLE, 0) == 0, "and its store is undone");
    long before = commits_seen;
    tap_ok(run(is_7, (void *)0, KD_SERIALISABLE, 0) == 0 && commits_seen == before,
           "a read-only transaction does not leave the kernel");
    tap_ok(run(store_into_snapshot, NULL, KD_SNAPSHOT, 0) == -EROFS,
           "a snapshot cannot be written");
    tap_ok(check() == 0, "kcheck is clean");
}

/* ---- a commit as a read (KD_COMMIT_READ) ---- */

static long commit_read(const char *batch)
{
    struct kd_commit k = {.port = KD_COMMIT_READ, .batch = batch,
                          .batch_bytes = batch ? strlen(batch) : 0, .csn = 7, .copies = 7};
    long e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    return e ? e : (long)(k.csn | k.copies);
}

static uint64_t home_word(unsigned page, unsigned i)
{
    uint64_t word;
    memcpy(&word, home[page] + i * sizeof word, sizeof word);
    return word;
}

/* The view of this process that is in a transaction; KD_VIEW_MAX: none. */
static uint64_t active_view(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].state == 2 && list[i].pid == getpid())
            return list[i].view;
    return KD_VIEW_MAX;
}

static void as_a_read(void)
{
    static struct context c;
    struct context *before = mine;
    struct kd_commit k = {.port = -1};
    in_view(&c);
    tap_ok(commit_read(NULL) == -ENOENT, "a commit as a read: there is no transaction");
    bool good = txn_open(&c, (struct kd_begin){0}) == 0 && *word_of(1, 0) == 7;
    tap_ok(good && commit_read(NULL) == 0 && commit_read(NULL) == -ENOENT,
           "one that has written nothing ends by it");
    good = txn_open(&c, (struct kd_begin){0}) == 0;
    tap_ok(good && commit_read("batch") == -ENOTEMPTY && commit_read(NULL) == 0,
           "not with a batch, but it goes on");
    good = txn_open(&c, (struct kd_begin){0}) == 0;
    *word_of(1, 9) = 3;
    tap_ok(good && commit_read(NULL) == -ENOTEMPTY, "one that has stored does not end by it");
    *word_of(1, 10) = 4;
    tap_ok(kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) == 0 && k.csn && home_word(1, 9) == 3 &&
               home_word(1, 10) == 4,
           "but goes on, and commits");
    good = txn_open(&c, (struct kd_begin){0}) == 0 &&
           kd_call3(KD_VIEW_ABORT, (long)active_view(), EIO, 0) == 0;
    tap_ok(good && commit_read(NULL) == -EIO && commit_read(NULL) == -ENOENT,
           "and one that is doomed is undone");
    in_view(before);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
}

static void all_at_once(void)
{
    pthread_t t[THREADS];
    long aborts = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, client, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *r;
        pthread_join(t[i], &r);
        aborts += (long)r;
    }
    uint64_t counter = 0;
    int read_8 = run(reads_8, &counter, KD_SERIALISABLE, 0);
    tap_ok(read_8 == 0 && counter == THREADS * rounds,
           "no increment of %d threads is lost (%lu of %u, %ld retries)", THREADS, counter,
           THREADS * rounds, aborts);
    long sums = 0;
    tap_ok(run(sum_is_zero, &sums, KD_SERIALISABLE, 0) == 0 && sums == 0,
           "transfers keep the sum");
    tap_ok(wrong_sums == 0, "every reader saw a consistent state");
    uint64_t at_home;
    memcpy(&at_home, home[8], 8);
    tap_ok(at_home == counter, "the manager's bytes are the published ones (TR3)");
    tap_ok(check() == 0, "kcheck is clean");
}

static void limits(void)
{
    pthread_t t;
    pthread_create(&t, NULL, holder, NULL);
    while (!holder_in)
        kd_call3(24, 0, 0, 0);
    tap_ok(run(store_3, NULL, KD_SERIALISABLE, 50) == -ETIMEDOUT, "a wait ends at its time limit");
    holder_out = 1;
    pthread_join(t, NULL);
    tap_ok(run(store_3, NULL, KD_SERIALISABLE, 0) == 0, "and the page is free afterwards");

    fail_pages = 1;
    tap_ok(run(touch_page_9, NULL, KD_SERIALISABLE, 0) == -EIO,
           "a page that its manager fails aborts with the manager's error");
    fail_pages = 0;
    tap_ok(run(touch_page_9, NULL, KD_SERIALISABLE, 0) == 0, "and can be asked for again");

    tap_ok(kd_call3(KD_CREDIT_GRANT, commit_port, 4, 0) == 4 &&
               run(many_pages, (void *)4, KD_SERIALISABLE, 0) == 0,
           "four credits are four private copies");
    tap_ok(check() == 0, "kcheck is clean");
}

static void said_and_revived(void)
{
    pthread_t t;
    uint64_t seen;
    long waited = 1;
    int edges = run(reader_waits, &waited, KD_SERIALISABLE, 0);
    tap_ok(edges == 0 && waited == 0, "a manager may say for whom a reader waits (%d, %ld)", edges,
           waited);
    view_anew(); /* it has mapped nothing */
    pthread_create(&t, NULL, reviver, NULL);
    int over_death = run(read_revived, &seen, KD_SNAPSHOT, 0);
    pthread_join(t, NULL);
    tap_ok(over_death == -EOWNERDEAD,
           "a snapshot does not outlive an object that its process has attached (%d)", over_death);
    tap_ok(run(is_7, (void *)0, KD_SNAPSHOT, 0) == 0,
           "the next one reads the object that is there now");
    tap_ok(check() == 0, "kcheck is clean");
}

int main(void)
{
    tap_plan(31);
    if (tap_long()) rounds = 300;
    tap_ok(start_manager((struct own_manager){.pages = PAGES}),
           "an object is created and attached");
    one_after_the_other();
    as_a_read();
    all_at_once();
    limits();
    said_and_revived();
    return tap_end();
}
