/*
 * pstore_slow.c - one client's slow reads, another one's commits; for tests/system/slow-reads.py.
 *
 * Aim     while a transaction waits for a page of a slow disk, another client's transactions commit.
 * Method  Without a word: that all of it works, on a disk that is not slow. "fill" writes pages far
 *         apart. "slow", in the next boot: a thread touches one page after the other, and of one of them
 *         the disk brings nothing before so many transactions of another have committed.
 */
#include <pthread.h>

#include "pstore_test.h"

enum { READS = 40, APART = 64, WORDS = 512 };
struct root { uint64_t *pages; };     /* the first is the one that changes */
static ps_container *box;
static uint64_t *pages;                /* the root is not touched: who waits has a right to it */
static volatile int reads, wrong;

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
    for (uint64_t i = 0; i <= READS; i++) pages[i * APART * WORDS] = i;
    return 0;
}
static int look(void *arg)
{
    uint64_t i = *(uint64_t *)arg;
    return pages[i * APART * WORDS] == i ? 0 : 1;
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
    for (uint64_t i = 1; i <= READS; i++, reads++) wrong += ps_transaction(look, &i) != 0;
    return NULL;
}

int main(int argc, char **argv)
{
    int slow = argc > 1 && !strcmp(argv[1], "slow");
    box = ps_open("slow", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int bad = box ? ps_transaction(find, NULL) : -errno;
    if (!bad && !slow) bad = ps_transaction(make, NULL);
    if (argc > 1 && !slow) return bad != 0;
    pthread_t thread;
    bad = bad ? bad : ps_transaction(change, NULL);
    if (slow) disk_slow();
    if (bad || pthread_create(&thread, NULL, reader, NULL)) return printf("Bail out! no store\n"), 1;
    int beside = commits_beside(change, &reads, READS, &bad);
    if (slow) disk_slow_end();
    pthread_join(thread, NULL);
    tap_plan(2 + slow);
    is(wrong, 0, "the pages are there");
    is(bad, 0, "commits succeed");
    if (slow) is(beside, BESIDE, "many beside one read");
    return tap_end();
}
