/*
 * pstore_slow.c - one client's slow reads, another one's commits; for tests/system/slow-reads.py.
 *
 * Aim     while transactions wait for pages of a slow disk, another client's transactions commit,
 *         also those that need new pages.
 * Method  Without a word: that all of it works, on a disk that is not slow. "fill" writes pages far
 *         apart. "slow", in the next boot: a thread touches one page after the other, and of one of
 *         them the disk brings nothing before so many transactions of another have committed.
 *         "stuck PLACES TOUCHES": the disk brings nothing at all while so many threads wait for
 *         neighbours in so many places.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "pstore_test.h"

enum { READS = 40, APART = 64, WORDS = 512, NEIGHBOURS = 4, STUCK_MAX = 32, LARGE = 400000 };
struct root { uint64_t *pages; };     /* the first is the one that changes */
static ps_container *box;
static uint64_t *pages;                /* the root is not touched: who waits has a right to it */
static _Atomic int reads, wrong;

static int find(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    pages = (void *)(((uint64_t)root->pages + 4095) & ~4095ull);
    return 0;
}
static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    root->pages = ps_alloc(box, (size_t)(READS + 2) * APART * 4096, NULL);
    if (!root->pages) return -errno;
    find(NULL);
    for (uint64_t i = 0; i <= READS; i++)
        for (uint64_t k = 0; k < NEIGHBOURS; k++) pages[(i * APART + k) * WORDS] = i;
    return 0;
}
static uint64_t page_of(uint64_t place, uint64_t neighbour) { return place * APART + neighbour; }
static int look(void *page)
{
    uint64_t i = *(uint64_t *)page;
    return pages[i * WORDS] == i / APART ? 0 : 1;
}
static int change(void *unused)
{
    (void)unused;
    (*pages)++;
    return 0;
}

static void *reader(void *unused)
{
    (void)unused;
    for (uint64_t i = 1; i <= READS; i++, reads++) {
        uint64_t page = page_of(i, 0);
        wrong += ps_transaction(look, &page) != 0;
    }
    return NULL;
}

/* ---- a disk that brings nothing ---- */

static void *look_once(void *page) { return (void *)(long)ps_transaction(look, page); }

/* A lease, a new page that is changed, and the commit. */
static int take_more(void *unused)
{
    uint64_t *more = ps_alloc(box, LARGE, NULL);
    if (!more) return -errno;
    more[WORDS] = 1;
    return change(unused);
}

static uint64_t requests(void)
{
    struct ps_stats s;
    ps_stats(&s);
    return s.pages_read;
}

static int stuck(int places, int touches)
{
    pthread_t thread[STUCK_MAX];
    static uint64_t page[STUCK_MAX];
    uint64_t first = page_of(READS, 0);
    int bad = ps_advise(pages, 1, PS_SEQUENTIAL) || ps_transaction(take_more, NULL), n = 0,
        lost = 0, open = 0;
    disk_slow();
    bad = bad || ps_transaction(look, &first); /* the disk lets one pass */
    uint64_t before = requests();
    for (int p = 1; p <= places; p++)
        for (int t = 0; t < touches && !bad && n < STUCK_MAX; t++, n++) {
            page[n] = page_of((uint64_t)p, (uint64_t)t);
            bad = pthread_create(&thread[n], NULL, look_once, &page[n]);
        }
    while (!bad && requests() < before + (uint64_t)n) sched_yield();
    for (int i = 0; i < BESIDE && !bad; i++) bad = ps_transaction(take_more, NULL);
    ps_container *other =
        bad ? NULL : ps_open("another", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    open = other != NULL;
    disk_slow_end();
    for (int i = 0; i < n; i++) {
        void *result = NULL;
        pthread_join(thread[i], &result);
        lost += result != NULL;
    }
    tap_plan(4);
    is(bad, 0, "others commit, with new pages");
    is(open, 1, "and open a container");
    is(n > 0 && lost == 0, 1, "in the end the pages are there");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}

int main(int argc, char **argv)
{
    int slow = argc > 1 && !strcmp(argv[1], "slow"), fixed = argc > 3 && !strcmp(argv[1], "stuck");
    box = ps_open("slow", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int bad = box ? ps_transaction(find, NULL) : -errno;
    if (!bad && !slow && !fixed) bad = ps_transaction(make, NULL);
    if (argc > 1 && !slow && !fixed) return bad != 0;
    pthread_t thread;
    bad = bad ? bad : ps_transaction(change, NULL);
    if (fixed && !bad) return stuck(atoi(argv[2]), atoi(argv[3]));
    if (slow) disk_slow();
    if (bad || pthread_create(&thread, NULL, reader, NULL))
        return printf("Bail out! no store\n"), 1;
    int beside = commits_beside(change, &reads, READS, &bad);
    if (slow) disk_slow_end();
    pthread_join(thread, NULL);
    tap_plan(2 + slow);
    is(wrong, 0, "the pages are there");
    is(bad, 0, "commits succeed");
    if (slow) is(beside, BESIDE, "many beside one read");
    return tap_end();
}
