/*
 * stacked.c - one changed page by a manager that stands on the store, beside one of the store: the
 * client's commit, what its manager does below, and the store's commit of both.
 *
 * The manager keeps each page in one of a container of its own, as it is, so that all that is
 * counted is the commit's own way.
 */
#include "bench.h"

enum { PAGES = 16, ROUNDS = 200, RUNS_BYTES = 8192 };
static const char name[] = "bench-stacked";
struct root { uint8_t (*pages)[KD_PAGE_BYTES]; };
static ps_container *box;
static struct root *root;

/* ---- the manager ---- */

static void page(struct km_request *r) { km_supply(r, root->pages[r->page], 1); }

static int commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[RUNS_BYTES];
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

static int serve(int unused)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    (void)unused;
    box = ps_open("bench-stacked.kept", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? km_below("store") : -errno;
    if (!e)
        e = ps_transaction(set_up, NULL);
    if (!e)
        e = km_create(name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
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

static void run(void)
{
    long pid = server_start(&stacked_part, 0, name, NULL);
    void *stacked = km_open(name, name, KM_READ | KM_WRITE), *plain;
    double flushes;
    box = ps_open("bench-plain", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    if (!stacked || !box || ps_transaction(find, &plain))
        fail("a container", -errno);
    double least = commits(plain, &flushes), by_stack = commits(stacked, &flushes);
    row("transaction of one changed page of the store, all processes", "instructions", least, "-");
    row("the same of a manager that stands on the store", "instructions", by_stack, "-");
    row("the same: of the store's", "times", by_stack / least, "1.5");
    row("the same: flushes", "flushes", flushes, "1");
    server_end(pid);
}

const struct part stacked_part = {"stacked", run, serve};
