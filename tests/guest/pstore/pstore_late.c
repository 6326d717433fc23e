/*
 * pstore_late.c - a transaction whose pages lie in the log, and others that commit beside it.
 *
 * Aim     a transaction that fits memory and credits, but no group of the log, commits at once
 *         beside one that has spilled and goes on; and while pages of that one come back from the
 *         log, others commit, however slow the disk reads ("slow": tests/system/slow-reads.py).
 * Method  The log lends few credits. One transaction holds most of them, and aborts in the end; a
 *         second one takes what a third needs, so that this must spill. It waits for the second
 *         one's commit: an end, or another attempt. Then it reads what it spilled, page by page,
 *         beside commits of main.
 */
#include <pthread.h>

#include "pstore_test.h"

enum { HOLDS = 250, FITS = 100, SPILLS = 220, READS = 30, WORDS = 512, FIRST = 8 };
struct root { uint64_t *pages; };
static ps_container *box;
static uint64_t (*pages)[WORDS];
static _Atomic int held, over, go, written, spilled, ended, attempts, reads, wrong;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

static void set(_Atomic int *what)
{
    pthread_mutex_lock(&lock);
    *what = 1;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}
static void await(_Atomic int *what)
{
    pthread_mutex_lock(&lock);
    while (!*what) pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
}

static uint64_t spills(void) { return system_info().spills; }

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    root->pages = ps_alloc(box, (size_t)(FIRST + FITS + SPILLS + HOLDS + 1) * 4096, NULL);
    if (!root->pages) return -errno;
    pages = (void *)(((uint64_t)root->pages + 4095) & ~4095ull);
    return 0;
}
static int change(void *unused)
{
    (void)unused;
    pages[0][0]++;
    return 0;
}

static int write_holding(void *unused)
{
    (void)unused;
    for (int i = 0; i < HOLDS; i++) pages[FIRST + FITS + SPILLS + i][1] = 1;
    set(&held);
    await(&over);
    return 17;
}
static void *holding(void *unused)
{
    (void)unused;
    return (void *)(long)ps_transaction(write_holding, NULL);
}

static int write_fitting(void *unused)
{
    (void)unused;
    for (int i = 0; i < FITS; i++) pages[FIRST + i][1] = (uint64_t)i;
    if (++attempts > 1) set(&ended); /* refused, and run again: the other one shall not wait */
    set(&written);
    await(&spilled);
    return 0;
}
static void *fitting(void *unused)
{
    (void)unused;
    await(&held);
    long r = ps_transaction(write_fitting, NULL);
    set(&ended);
    return (void *)r;
}

static int write_spilling(void *unused)
{
    (void)unused;
    uint64_t (*mine)[WORDS] = pages + FIRST + FITS, before = spills();
    for (int i = 0; i < SPILLS; i++) mine[i][1] = (uint64_t)i + 7;
    wrong += spills() - before < READS;
    set(&spilled);
    await(&go);
    for (int i = 0; i < READS; i++, reads++) wrong += mine[i][1] != (uint64_t)i + 7;
    return 0;
}
static void *spilling(void *unused)
{
    (void)unused;
    await(&written);
    long r = ps_transaction(write_spilling, NULL);
    set(&spilled);
    reads = READS;
    return (void *)r;
}

static int check(void *unused)
{
    long bad = 0;
    (void)unused;
    for (int i = 0; i < FITS; i++) bad += pages[FIRST + i][1] != (uint64_t)i;
    for (int i = 0; i < SPILLS; i++) bad += pages[FIRST + FITS + i][1] != (uint64_t)i + 7;
    return bad != 0;
}

int main(int argc, char **argv)
{
    int slow = argc > 1 && !strcmp(argv[1], "slow"), refused = 0;
    box = ps_open("late", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    static void *(*const start[3])(void *) = {fitting, spilling, holding};
    pthread_t thread[3];
    void *result[3];
    long bad = box ? ps_transaction(make, NULL) : -errno;
    for (int i = 0; !bad && i < 3; i++) bad = pthread_create(&thread[i], NULL, start[i], NULL);
    if (bad) return printf("Bail out! no store\n"), 1;
    await(&ended);
    bad = ps_checkpoint(); /* nothing else reads in the log from now on */
    if (slow) disk_slow();
    set(&go);
    int beside = commits_beside(change, &reads, READS, &refused);
    if (slow) disk_slow_end();
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], &result[i]);
        if (i == 1) set(&over);
    }
    tap_plan(6 + slow);
    tap_ok(!result[0] && attempts == 1,
           "one that fits no group commits beside one that has spilled, at once (%ld, %d)",
           (long)result[0], attempts);
    is((long)result[1], 0, "which commits later");
    is(wrong, 0, "and has found in the log what it spilled");
    is(bad + refused, 0, "others commit beside its reads");
    is(ps_transaction(check, NULL), 0, "every word is there");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    if (slow) is(beside, BESIDE, "many beside one of them");
    return tap_end();
}
