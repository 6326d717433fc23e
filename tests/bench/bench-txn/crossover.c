/*
 * crossover.c - where one way becomes cheaper than another: lines `plot series x y` for
 * scripts/plots, y in instructions. Pages are resident and nobody waits, unless it says so.
 */
#include <pthread.h>
#include <sched.h>

#include "bench.h"

enum { TRANSACTIONAL = KD_OBJECT_TRANSACTIONAL, RUNS = 8 };

static void point(const char *plot, const char *series, unsigned x, double y)
{
    printf("%s\t%s\t%u\t%.1f\n", plot, series, x, y);
}

/* ---- how many pages a read fault is to map, by how many of them are touched ---- */

/* Every step-th page is read, in order; instructions for one that is touched. */
static double grouped(unsigned cluster, unsigned step)
{
    volatile char *pages = manager_object(TRANSACTIONAL, MANAGER_RESIDENT, 0, cluster);
    int view = view_new();
    txn_begin(KD_SERIALISABLE);
    uint64_t t = touch(pages, OBJECT_PAGES / step, step, 0);
    txn_end();
    view_end(view);
    return (double)t / (OBJECT_PAGES / step);
}

static void cluster_size(void)
{
    static const struct { unsigned cluster; const char *name; } series[] = {
        {1, "the page alone"}, {4, "clusters of 4"}, {16, "clusters of 16"}, {64, "clusters of 64"},
        {0, "as touches suggest"}};
    for (unsigned s = 0; s < sizeof series / sizeof *series; s++)
        for (unsigned step = 1; step <= 64; step *= 2)
            point("cluster", series[s].name, step, grouped(series[s].cluster, step));
}

/* ---- rights kept between transactions, or given up at each end ---- */

static double repeated(unsigned mode, unsigned count, int write)
{
    volatile char *pages = manager_object(TRANSACTIONAL, MANAGER_RESIDENT, 0, 1);
    int view = view_new();
    uint64_t t = 0;
    for (int i = 0; i <= RUNS; i++) {
        uint64_t start = counter();
        txn_begin(mode);
        (void)touch(pages, count, 1, write);
        txn_end();
        t += i ? counter() - start : 0;
    }
    view_end(view);
    return (double)t / RUNS;
}

static void caching(void)
{
    for (unsigned count = 1; count <= 256; count *= 4) {
        point("caching", "kept", count, repeated(KD_SERIALISABLE, count, 0));
        point("caching", "given up at each end", count,
              repeated(KD_SERIALISABLE | KD_STRICT, count, 0));
    }
}

/* ---- the same where another view writes the pages after every n-th transaction ---- */

enum { SHARED_PAGES = 16 };
static struct {
    volatile char *pages;
    unsigned mode;
    volatile int turn, stop;
    uint64_t cost;
} other;

/* Its turn: one transaction that writes all of the pages. */
static void *other_main(void *unused)
{
    (void)unused;
    int view = view_new();
    while (!other.stop) {
        if (!other.turn) {
            sched_yield();
            continue;
        }
        uint64_t start = counter();
        txn_begin(other.mode);
        (void)touch(other.pages, SHARED_PAGES, 1, 1);
        other.cost += counter() - start;
        txn_undo();
        other.turn = 0;
    }
    view_end(view);
    return NULL;
}

/* `reads` transactions of the reader, then one of the writer; instructions of both, of a
 * reader's. */
static double revoked(unsigned mode, unsigned reads)
{
    pthread_t thread;
    uint64_t own = 0;
    other.pages = manager_object(TRANSACTIONAL, MANAGER_RESIDENT, 0, 1);
    other.mode = mode;
    other.turn = other.stop = 0;
    pthread_create(&thread, NULL, other_main, NULL);
    int view = view_new();
    for (int round = 0; round <= RUNS; round++) {
        if (round <= 1)
            own = other.cost = 0;
        for (unsigned i = 0; i < reads; i++) {
            uint64_t start = counter();
            txn_begin(mode);
            (void)touch(other.pages, SHARED_PAGES, 1, 0);
            txn_end();
            own += counter() - start;
        }
        other.turn = 1;
        while (other.turn)
            sched_yield();
    }
    other.stop = 1;
    pthread_join(thread, NULL);
    view_end(view);
    return (double)(own + other.cost) / RUNS / reads;
}

static void revocation(void)
{
    for (unsigned reads = 1; reads <= 32; reads *= 2) {
        point("revocation", "kept, taken back when wanted", reads, revoked(KD_SERIALISABLE, reads));
        point("revocation", "given up at each end", reads,
              revoked(KD_SERIALISABLE | KD_STRICT, reads));
    }
}

/* ---- a lock of the whole container, or rights to pages ---- */

static double locked(int lock, unsigned cluster, unsigned count, unsigned step)
{
    volatile char *pages = manager_object(TRANSACTIONAL, MANAGER_RESIDENT, 0, cluster);
    int view = view_new();
    uint64_t start = counter();
    txn_begin(KD_SERIALISABLE);
    if (lock && kd_call3(KD_TXN_LOCK, (long)pages, KD_LOCK_SHARED, 0))
        fail("locking", EIO);
    (void)touch(pages, count, step, 0);
    txn_end();
    uint64_t t = counter() - start;
    view_end(view);
    return (double)t;
}

static void container_lock(void)
{
    enum { STEP = 5 };
    for (unsigned count = 1; count <= 256; count *= 4) {
        point("lock", "a right for each page", count, locked(0, 1, count, STEP));
        point("lock", "rights in clusters", count, locked(0, 0, count, STEP));
        point("lock", "the container locked", count, locked(1, 0, count, STEP));
    }
}

void group_crossover(void)
{
    manager_start();
    cluster_size();
    caching();
    revocation();
    container_lock();
    manager_stop();
}
