/*
 * manager_history.c - several commits at a time through managers on the store (km_commits).
 *
 * Aim     a manager works on as many commits at a time as it says. Whatever six threads do to pages
 *         of two managers on the store, and to a container of the store, some serial order shows
 *         the same; snapshots see a prefix of it; also while one of both is killed and started
 *         again.
 * Method  both are this program; each page is kept as it is in one below. In the first part a
 *         commit waits in its manager for another one. The second checks histories of random
 *         transactions (stack_history.h); in each fourth the second manager is killed.
 *             manager_history SEED COUNT    chooses the same programs again
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "manager.h"
#include "pstore_test.h"
#include "stack_history.h"

enum {
    PAGES = 16,                             /* of each manager, and of the container */
    ONE_PAGES = 2, TWO_PAGES = 4, Q_PAGES = 2, /* what clients use of each, and of the container */
    WORDS = 2, STEP = 256, ITEMS = (ONE_PAGES + TWO_PAGES + Q_PAGES) * WORDS,
    AT_A_TIME = 3, HISTORIES = 24, HISTORIES_LONG = 240, MEET = 77,
};
struct home { char page[PAGES][KM_PAGE_BYTES]; };

/* ---- a manager ---- */

static char (*below)[KM_PAGE_BYTES];
static ps_container *box;
static unsigned waiting;                /* commits that wait for another one */

static void page(struct km_request *r)
{
    char bytes[KM_PAGE_BYTES];
    memcpy(bytes, below[r->page], sizeof bytes);
    if (km_supply(r, bytes, 1) == -ENOMEM) km_fail(r, ENOMEM);
}

static int commit(struct km_object *o, uint64_t view)
{
    uint64_t runs[1024];
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0) return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n)) {
            memcpy(below[r->page] + r->offset, r->data, r->bytes);
            if (*(const uint64_t *)r->data != MEET) continue;
            __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) % AT_A_TIME) sched_yield();
        }
    }
    return 0;
}

static int find_home(void *unused)
{
    (void)unused;
    struct home *home = ps_root(box);
    below = home ? home->page : NULL;
    return home ? 0 : -errno;
}

static int serve(const char *name)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    box = ps_open(strcmp(name, "one") ? "two.kept" : "one.kept", PS_CREATE | PS_WRITE,
                  PS_LAYOUT(struct home, 1));
    int e = box ? km_below("store") : -errno;
    if (!e) e = ps_transaction(find_home, NULL);
    if (!e) e = km_commits(AT_A_TIME);
    if (!e)
        e = km_create(name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    if (!e) e = km_serve(2);
    fprintf(stderr, "manager_history: %s: %s\n", name, ps_strerror(e));
    return 1;
}

/* ---- the clients ---- */

static const char *program;
static char (*q)[KM_PAGE_BYTES], (*one)[KM_PAGE_BYTES];
static char (*volatile two)[KM_PAGE_BYTES];
static int two_pid;
static long deaths;

static void *start(const char *name, int *pid)
{
    void *at = NULL;
    *pid = child_start(program, name, NULL);
    while (*pid > 0 && !(at = km_open(name, name, KM_READ | KM_WRITE))) sched_yield();
    return at;
}

static int find_q(void *c)
{
    struct home *home = ps_root(c);
    q = home ? home->page : NULL;
    return home ? 0 : -errno;
}

static uint64_t top(void) { return (uint64_t)two; }

static volatile uint64_t *item_at(uint64_t at, uint64_t item)
{
    uint64_t page = item / WORDS, word = item % WORDS * STEP;
    char (*pages)[KM_PAGE_BYTES] = (void *)at;
    if (page >= TWO_PAGES) {
        page -= TWO_PAGES;
        pages = page < ONE_PAGES ? one : q - ONE_PAGES;
    }
    return (volatile uint64_t *)pages[page] + word;
}

static bool disturb(uint64_t history, bool first, uint64_t *rng)
{
    (void)rng;
    if (!first || history % 4) return true;
    kill(two_pid, SIGKILL);
    child_wait(two_pid);
    two = start("two", &two_pid);
    deaths++;
    return two;
}

/* ---- commits that meet in their manager ---- */

static int meet(void *at) { return *(volatile uint64_t *)at = MEET, 0; }
static int leave(void *at) { return *(volatile uint64_t *)at = 0, 0; }

static void *client(void *at)
{
    return (void *)(long)ps_transaction_opt(meet, at, &(struct ps_options){.timeout_ms = 20000});
}

static void at_a_time(void)
{
    pthread_t t[AT_A_TIME];
    int e = 0;
    for (long i = 0; i < AT_A_TIME; i++) pthread_create(&t[i], NULL, client, two[i]);
    for (long i = 0; i < AT_A_TIME; i++) {
        void *result;
        pthread_join(t[i], &result);
        e = e ? e : (int)(long)result;
    }
    tap_ok(e == 0, "%d commits are worked on at a time (%d)", AT_A_TIME, e);
    for (long i = 0; i < AT_A_TIME && !e; i++) e = ps_transaction(leave, two[i]);
    if (e) printf("# %d\n", e);
}

int main(int argc, char **argv)
{
    uint64_t count = tap_long() ? HISTORIES_LONG : HISTORIES;
    int one_pid;
    if (argc == 2) return serve(argv[1]);
    uint64_t seed = history_seed(argc > 2 ? argv[1] : NULL);
    if (argc > 2) count = strtoull(argv[2], NULL, 0);
    program = argv[0];
    tap_plan(4);
    ps_container *c = ps_open("history.q", PS_CREATE | PS_WRITE, PS_LAYOUT(struct home, 1));
    int e = c ? ps_transaction(find_q, c) : -errno;
    one = start("one", &one_pid);
    two = start("two", &two_pid);
    if (!tap_ok(!e && one && two, "two managers over the store; seed %lu", seed))
        return tap_end();
    at_a_time();
    histories_begin(&(struct stack_history){ITEMS, seed, top, item_at, disturb});
    uint64_t good = histories_run(count);
    tap_ok(good == count, "%lu of %lu histories through both are serialisable", good, count);
    printf("# %lu attempts, %lu committed; %ld deaths, %lu deadlocks\n", history_sum.txns,
           history_sum.committed, deaths, system_info().deadlocks);
    tap_ok(history_sum.committed > good * 4 && (good < 4 || deaths), "which had commits, deaths");
    return tap_end();
}
