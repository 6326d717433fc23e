/*
 * stacked.c - one changed page by a manager that stands on the store, beside one of the store: the
 * client's commit, what its manager does below, and the store's commit of both.
 *
 * The manager keeps each page in one of a container of its own, as it is, so that all that is
 * counted is the commit's own way.
 */
#include <pthread.h>

#include "bench.h"

enum { PAGES = 16, ROUNDS = 200, RUNS_BYTES = 8192, CLIENTS = 4 };
static const char name[] = "bench-stacked";
struct root { uint8_t (*pages)[KD_PAGE_BYTES]; };
struct plain { uint8_t page[CLIENTS][KD_PAGE_BYTES]; };
static ps_container *box;
static struct root *root;

/* ---- the manager ---- */

static void page(struct km_request *r) { km_supply(r, root->pages[r->page], 1); }

static int commit(struct km_object *o, uint64_t view)
{
    static __thread uint8_t runs[RUNS_BYTES];
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0)
            return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n))
            memcpy(root->pages[r->page] + r->offset, r->data, r->bytes);
    }
    return 0;
}

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(box);
    root->pages = ps_alloc(box, (size_t)PAGES * KD_PAGE_BYTES, NULL);
    return root->pages ? 0 : -errno;
}

static int serve(int at_a_time)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    box = ps_open("bench-stacked.kept", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? km_below("store") : -errno;
    if (!e)
        e = ps_transaction(set_up, NULL);
    if (!e)
        e = km_create(name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    if (!e)
        e = km_commits(at_a_time);
    return e ? e : km_serve(1);
}

/* ---- the client ---- */

static int count(void *word)
{
    ++*(volatile uint64_t *)word;
    return 0;
}
static int find(void *out) { return *(void **)out = ps_root(box), 0; }

/* The least of so many transactions that change this word; *flushes: the mean of all. */
static double commits(void *word, double *flushes)
{
    uint64_t least = ~0ull;
    if (ps_transaction(count, word) || ps_transaction(count, word)) /* pages and rights are there */
        fail("a commit", -EIO);
    struct ps_stats before, after;
    ps_stats(&before);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = busy();
        int e = ps_transaction(count, word);
        if (e)
            fail("a commit", e);
        t = busy() - t;
        least = t < least ? t : least;
    }
    ps_stats(&after);
    *flushes = (double)(after.flushes - before.flushes) / ROUNDS;
    return (double)least;
}

/* Several clients at a time, each with a page of its own; flushes a commit. */
static void *client(void *word)
{
    for (int i = 0; i < ROUNDS; i++) {
        int e = ps_transaction(count, word);
        if (e)
            fail("a commit", e);
    }
    return NULL;
}

static double flushes_of_many(char *pages)
{
    pthread_t threads[CLIENTS];
    struct ps_stats before, after;
    for (int i = 0; i < CLIENTS; i++)
        if (ps_transaction(count, pages + i * KD_PAGE_BYTES)) /* they are there */
            fail("a commit", -EIO);
    ps_stats(&before);
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, client, pages + i * KD_PAGE_BYTES);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    ps_stats(&after);
    return (double)(after.flushes - before.flushes) / (CLIENTS * ROUNDS);
}

/* The same of a manager that takes so many commits at a time. */
static double flushes_with(int at_a_time)
{
    long pid = server_start(&stacked_part, at_a_time, name, NULL);
    char *stacked = km_open(name, name, KM_READ | KM_WRITE);
    if (!stacked)
        fail("a container", -errno);
    double flushes = flushes_of_many(stacked);
    server_end(pid);
    return flushes;
}

static void run(void)
{
    long pid = server_start(&stacked_part, 1, name, NULL);
    void *stacked = km_open(name, name, KM_READ | KM_WRITE), *plain;
    double flushes;
    box = ps_open("bench-plain", PS_CREATE | PS_WRITE, PS_LAYOUT(struct plain, 1));
    if (!stacked || !box || ps_transaction(find, &plain))
        fail("a container", -errno);
    double least = commits(plain, &flushes), by_stack = commits(stacked, &flushes);
    row("transaction of one changed page of the store, all processes", "instructions", least, "-");
    row("the same of a manager that stands on the store", "instructions", by_stack, "-");
    row("the same: of the store's", "times", by_stack / least, "1.5");
    row("the same: flushes", "flushes", flushes, "1");
    server_end(pid);
    row("4 clients at a time, of the store: flushes", "a commit", flushes_of_many(plain), "-");
    row("of a manager that stands on it: one commit at a time", "a commit", flushes_with(1), "-");
    row("of a manager that stands on it: 4 at a time", "a commit", flushes_with(CLIENTS), "0.6");
}

const struct part stacked_part = {"stacked", run, serve};
