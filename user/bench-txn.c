/*
 * bench-txn.c - what transactions cost at memory speed.
 *
 *   bench-txn begin            begin and end, alone and beside writers' views; counted instructions
 *   bench-txn tree             a tree of 16,105 nodes on 1,343 pages, searched again and again
 *   bench-txn replace PAGES N  N random updates over a container of PAGES pages; pages read, and how
 *                              many an exact LRU of the same memory would have read for them
 *
 * Prints `name <tab> unit <tab> value <tab> reach`; scripts/bench runs it by tests/bench/txn.sh, with
 * -icount for the first two: there the time stamp counter counts instructions.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "katydid/call.h"
#include "pstore.h"

static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
}

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "bench-txn: %s: %s\n", what, ps_strerror(error));
    exit(1);
}

static int run(int (*body)(void *), void *arg, int isolation)
{
    struct ps_options how = {.isolation = isolation};
    return ps_transaction_opt(body, arg, &how);
}

/* ---- the tree of Cricket's measurement: fan-out 11, depth 4 below the root, 12 nodes a page ---- */

enum { FAN_OUT = 11, DEPTH = 4, NODE_BYTES = 336, NODES_A_PAGE = 12, NODES = 16105, TREE_PAGES = 1343 };
struct node { struct node *child[FAN_OUT]; uint64_t value; char rest[NODE_BYTES - 96]; };
_Static_assert(sizeof(struct node) == NODE_BYTES, "12 to a page");

struct root { char *pages; struct node *tree; };
static ps_container *c;
static char *place;
static unsigned placed;

/* Depth first, 12 to a page. */
static struct node *build(int depth)
{
    struct node *n = (struct node *)(place + (size_t)(placed / NODES_A_PAGE) * KD_PAGE_BYTES +
                                     placed % NODES_A_PAGE * NODE_BYTES);
    n->value = placed++;
    for (int i = 0; i < FAN_OUT && depth; i++)
        n->child[i] = build(depth - 1);
    return n;
}

static uint64_t search(const struct node *n)
{
    uint64_t sum = n->value;
    for (int i = 0; i < FAN_OUT && n->child[i]; i++)
        sum += search(n->child[i]);
    return sum;
}

static int tree_make(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    r->pages = ps_alloc(c, (size_t)(TREE_PAGES + 1) * KD_PAGE_BYTES, NULL);
    if (!r->pages)
        return -errno;
    place = (char *)(((uintptr_t)r->pages + KD_PAGE_BYTES - 1) & ~(uintptr_t)(KD_PAGE_BYTES - 1));
    placed = 0;
    r->tree = build(DEPTH);
    return 0;
}

static uint64_t passes[3];
static volatile uint64_t sink;
static int tree_search(void *unused)
{
    (void)unused;
    const struct node *tree = ((struct root *)ps_root(c))->tree;
    for (int i = 0; i < 3; i++) {
        uint64_t t = counter();
        sink = search(tree);
        passes[i] = counter() - t;
    }
    return 0;
}

static void group_tree(void)
{
    void *memory = mmap(NULL, (size_t)TREE_PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    place = memory;
    placed = 0;
    struct node *tree = build(DEPTH);
    uint64_t plain = ~0ull;
    for (int i = 0; i < 5; i++) {
        uint64_t t = counter();
        sink = search(tree);
        plain = least(plain, counter() - t);
    }
    ps_delete("bench-tree");
    c = ps_open("bench-tree", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(tree_make, NULL) : -errno;
    if (e || placed != NODES)
        fail("the tree", e);
    ps_policy(c, PS_GROUP, 0);
    e = run(tree_search, NULL, PS_SNAPSHOT); /* a view without rights; its first pass maps all */
    if (e)
        fail("searching", e);
    row("tree search, first pass over 1,343 resident pages (Cricket: 7.2)", "times volatile",
        (double)passes[0] / (double)plain, "1.4");
    row("tree search, second pass in the transaction", "times volatile",
        (double)passes[1] / (double)plain, "1.02");
    e = run(tree_search, NULL, PS_SERIALISABLE);
    if (!e)
        e = run(tree_search, NULL, PS_SERIALISABLE);
    if (e)
        fail("searching", e);
    row("tree search, first pass of the next transaction", "times volatile",
        (double)passes[0] / (double)plain, "1.02");
    ps_close(c);
    ps_delete("bench-tree");
}

/* ---- begin and end ---- */

static void on_abort(long reason)
{
    fail("aborted", (int)reason);
}
static char abort_stack[16384] __attribute__((aligned(16)));

/* The least of many, without what it costs to read the counter. `end`: begin and end together, else
 * the begin alone. */
static uint64_t begin_end(unsigned mode, int end)
{
    uint64_t least_seen = ~0ull, read_cost = ~0ull;
    for (int i = 0; i < 200; i++) {
        struct kd_begin b = {.mode = mode, .entry = (uint64_t)on_abort,
                             .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)};
        struct kd_commit k = {.port = -1};
        uint64_t t = counter();
        read_cost = least(read_cost, counter() - t);
        t = counter();
        long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
        uint64_t t2 = end ? 0 : counter();
        e = e ? e : kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
        t2 = end ? counter() : t2;
        if (e)
            fail("begin", (int)e);
        least_seen = least(least_seen, t2 - t);
    }
    return least_seen - read_cost;
}

static void group_begin(void)
{
    long view = kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    if (view < 0 || kd_call3(KD_VIEW_ENTER, view, 0, 0))
        fail("view", (int)view);
    row("begin and end of an empty transaction", "instructions",
        (double)begin_end(KD_SERIALISABLE, 1), "400");
    row("begin of a snapshot", "instructions", (double)begin_end(KD_SNAPSHOT, 0), "2000");
    kd_call3(KD_HANDLE_CLOSE, view, 0, 0);
}

/* ---- replacement ---- */

static uint64_t pages, updates;
static uint32_t *trace;
static uint64_t seed = 88172645463325252ull;
static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed >> 11;
}

static int fill(void *arg)
{
    struct root *r = ps_root(c);
    uint64_t *from = arg;
    if (!r->pages && !(r->pages = ps_alloc(c, (size_t)pages * KD_PAGE_BYTES, NULL)))
        return -errno;
    for (uint64_t i = *from; i < *from + 512 && i < pages; i++)
        r->pages[i * KD_PAGE_BYTES + 64] = 1;
    return 0;
}
static int update(void *arg)
{
    struct root *r = ps_root(c);
    ++*(uint64_t *)(r->pages + (size_t)*(uint32_t *)arg * KD_PAGE_BYTES + 128);
    return 0;
}

/* Misses of an exact LRU of `room` pages over the trace from `from` on; before it warms up. */
static uint64_t lru(uint64_t room, uint64_t from)
{
    uint32_t *newer = calloc(pages + 1, sizeof *newer), *older = calloc(pages + 1, sizeof *older);
    uint8_t *in = calloc(pages + 1, 1);
    uint32_t ring = (uint32_t)pages; /* the list's head: its `older` is the newest */
    uint64_t used = 0, missed = 0;
    if (!newer || !older || !in)
        fail("the simulation", ENOMEM);
    newer[ring] = older[ring] = ring;
    for (uint64_t i = 0; i < updates; i++) {
        uint32_t p = trace[i];
        missed += !in[p] && i >= from;
        if (in[p]) {
            older[newer[p]] = older[p], newer[older[p]] = newer[p];
        } else if (used == room) {
            uint32_t last = newer[ring];
            older[newer[last]] = ring, newer[ring] = newer[last];
            in[last] = 0;
        } else {
            used++;
        }
        in[p] = 1;
        older[p] = older[ring], newer[p] = ring;
        newer[older[ring]] = p, older[ring] = p;
    }
    return missed;
}

static uint64_t pages_read(uint64_t *resident)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    *resident = s.resident_pages;
    return s.page_requests;
}

static void group_replace(void)
{
    uint64_t resident, most = 0, before = 0, warm = updates / 2;
    trace = calloc(updates, sizeof *trace);
    ps_delete("bench-replace");
    c = ps_open("bench-replace", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c && trace ? 0 : -ENOMEM;
    for (uint64_t i = 0; i < pages && !e; i += 512)
        e = ps_transaction(fill, &i);
    for (uint64_t i = 0; i < updates && !e; i++) {
        if (i == warm)
            before = pages_read(&resident);
        /* most touches are of a few pages, as an index and its leaves */
        trace[i] = (uint32_t)(next() % 4 ? next() % (pages / 8) : next() % pages);
        e = ps_transaction(update, &trace[i]);
        if (i > warm && i % 64 == 0) {
            (void)pages_read(&resident);
            most = resident > most ? resident : most;
        }
    }
    if (e)
        fail("updating", e);
    uint64_t read = pages_read(&resident) - before, ideal = lru(most, warm);
    printf("# %llu random updates over %llu pages, at most %llu in memory: %llu read, LRU %llu\n",
           (unsigned long long)(updates - warm), (unsigned long long)pages, (unsigned long long)most,
           (unsigned long long)read, (unsigned long long)ideal);
    row("replacement, 64 MiB of memory over 256 MiB: pages read", "times exact LRU",
        (double)read / (double)ideal, "1.1");
    ps_close(c);
    ps_delete("bench-replace");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "begin") == 0)
        group_begin();
    else if (argc == 2 && strcmp(argv[1], "tree") == 0)
        group_tree();
    else if (argc == 4 && strcmp(argv[1], "replace") == 0) {
        pages = strtoull(argv[2], NULL, 10);
        updates = strtoull(argv[3], NULL, 10);
        if (pages < 1024 || updates < 1024)
            fail("at least 1024 pages and updates", EINVAL);
        group_replace();
    } else {
        puts("usage: bench-txn begin | tree | replace PAGES UPDATES");
        return argc != 2 || strcmp(argv[1], "--help") != 0;
    }
    return 0;
}
