/*
 * kernel_txn.c - the kernel's transactions, without a store: one process is manager and client.
 *
 * Aim     faults, rights, conflicts, deadlocks, commit, abort, snapshots, credits, kcheck.
 * Method  a manager thread keeps "home" pages in its memory, takes commits by KD_TXN_DIFF into them
 *         and publishes; client threads run transactions by the bare calls. Sums that every serial
 *         order keeps are compared, and the manager's home with what clients see.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include "katydid/call.h"
#include "tap.h"

enum { PAGES = 256, THREADS = 4, ROUNDS = 300, ACCOUNTS = 48 };

static int port, commit_port, object;
static uint64_t base, next_csn = 1;
static uint8_t home[PAGES][KD_PAGE_BYTES];
static volatile long commits_seen, pages_logged;
static volatile int fail_pages;

/* ---- the manager ---- */

static void serve_page(struct kd_message *m)
{
    if (fail_pages) {
        kd_call4(KD_OBJECT_FAIL, object, (long)m->word[1], 1, EIO);
        return;
    }
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY, .rights = KD_READ | KD_WRITE,
                          .page = m->word[1], .count = 1, .memory = home[m->word[1]]};
    if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) != 0)
        printf("# supply failed\n");
}

static void serve_commit(struct kd_message *m)
{
    static uint8_t buffer[1 << 20];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .full_below = 0, .cursor = 0};
    long e = 0;
    while (d.cursor != ~0ull && !e) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        for (uint64_t at = 0; !e && at < d.buffer_bytes;) {
            struct kd_run *r = (struct kd_run *)(buffer + at);
            memcpy(home[r->page] + r->offset, r + 1, r->bytes);
            at += sizeof *r + ((r->bytes + 7u) & ~7u);
            pages_logged += (r->flags & KD_RUN_LAST) != 0;
        }
    }
    if (e) {
        printf("# diff: %ld\n", e);
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
        return;
    }
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    e = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    if (e)
        printf("# publish: %ld\n", e);
    commits_seen++;
}

static void *manager(void *arg)
{
    static uint8_t buffers[2][KD_PAGE_BYTES];
    int which = *(int *)arg;
    for (;;) {
        struct kd_message m = {.buffer = buffers[which], .buffer_bytes = KD_PAGE_BYTES};
        long e = kd_call3(KD_PORT_RECEIVE, which ? commit_port : port, (long)&m, -1);
        if (e) {
            printf("# receive: %ld\n", e);
            return NULL;
        }
        if (m.kind == (uint32_t)KD_MSG_PAGE)
            serve_page(&m);
        else if (m.kind == (uint32_t)KD_MSG_COMMIT)
            serve_commit(&m);
    }
}

static int start_manager(void)
{
    static int which[2] = {0, 1};
    pthread_t t;
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .cookie = 7,
                                 .base = KD_STORE_BASE, .pages = PAGES, .name = "test"};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    base = c.base;
    pthread_create(&t, NULL, manager, &which[0]);
    pthread_create(&t, NULL, manager, &which[1]);
    extern int getpid(void);
    return object >= 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

/* ---- transactions ---- */

struct context {
    jmp_buf env;
    int view;
    uint64_t ticket;
    long aborts;
    char stack[8192] __attribute__((aligned(16)));
};
static __thread struct context *mine;

static void on_abort(long reason) { longjmp(mine->env, (int)reason); }

/* Runs body until it commits; 0 or -errno. */
static int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    static __thread struct context context;
    if (!mine) {
        mine = &context;
        mine->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
        if (mine->view < 0 || kd_call3(KD_VIEW_ENTER, mine->view, 0, 0))
            return -1;
    }
    mine->ticket = 0;
    for (;;) {
        int reason = setjmp(mine->env);
        if (reason && reason != EDEADLK)
            return -reason;
        if (reason)
            mine->aborts++;
        struct kd_begin b = {.mode = mode, .ticket = mine->ticket, .timeout_ms = timeout_ms,
                             .entry = (uint64_t)on_abort,
                             .stack = (uint64_t)(mine->stack + sizeof mine->stack - 8)};
        long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
        if (e)
            return (int)e;
        mine->ticket = b.ticket;
        int r = body(arg);
        if (r) {
            kd_call3(KD_TXN_ABORT, r, 0, 0);
            return r;
        }
        struct kd_commit k = {.port = -1};
        e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
        if (e == -EDEADLK)
            continue;
        return (int)e;
    }
}

static volatile uint64_t *word_of(unsigned page, unsigned i)
{
    return (volatile uint64_t *)(base + (uint64_t)page * KD_PAGE_BYTES) + i;
}

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
    unsigned a = (*seed = *seed * 1103515245 + 12345) >> 8, b = (*seed = *seed * 1103515245 + 12345) >> 8;
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
    for (int i = 0; i < ROUNDS; i++) {
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

static volatile int holder_in, holder_out;
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

static long check(void) { return kd_call3(KD_CHECK, 0, 0, 0); }

int main(void)
{
    tap_plan(21);
    tap_ok(start_manager(), "an object is created and attached");
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
    tap_ok(run(store_into_snapshot, NULL, KD_SNAPSHOT, 0) == -EROFS, "a snapshot cannot be written");
    tap_ok(check() == 0, "kcheck is clean");

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
    tap_ok(read_8 == 0 && counter == THREADS * ROUNDS,
           "no increment of %d threads is lost (%lu of %d, %ld retries)", THREADS, counter,
           THREADS * ROUNDS, aborts);
    long sums = 0;
    tap_ok(run(sum_is_zero, &sums, KD_SERIALISABLE, 0) == 0 && sums == 0,
           "transfers keep the sum");
    tap_ok(wrong_sums == 0, "every reader saw a consistent state");
    uint64_t at_home;
    memcpy(&at_home, home[8], 8);
    tap_ok(at_home == counter, "the manager's bytes are the published ones (K3)");
    tap_ok(check() == 0, "kcheck is clean");

    pthread_create(&t[0], NULL, holder, NULL);
    while (!holder_in)
        kd_call3(24, 0, 0, 0);
    tap_ok(run(store_3, NULL, KD_SERIALISABLE, 50) == -ETIMEDOUT, "a wait ends at its time limit");
    holder_out = 1;
    pthread_join(t[0], NULL);
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
    return tap_end();
}
