/*
 * pstore_children.c - programs are started while pages fill the memory.
 *
 * Aim     a program that starts while every frame holds some page gets what it needs, also what
 *         must lie together: a kernel stack, a table of handles. So do threads.
 * Method  a container of twice the memory is read and written in random order, so that no two pages
 *         that are evicted one after the other lie side by side. Then some children are started;
 *         they live until all of them do.
 */
#include <pthread.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGES = 16384 /* 64 MiB */, AT_ONCE = 256, ROUNDS = 6, CHILDREN = 4, THREADS = 8 };
enum { WORDS = KD_PAGE_BYTES / 8 };
static ps_container *c;
static volatile uint64_t *pages;

static int make(void *unused)
{
    uint64_t **root = ps_root(c);
    (void)unused;
    if (!*root) *root = ps_alloc(c, (size_t)(PAGES + 1) * KD_PAGE_BYTES, NULL);
    pages = (void *)(((uint64_t)*root + KD_PAGE_BYTES - 1) & ~(uint64_t)(KD_PAGE_BYTES - 1));
    return *root ? 0 : -errno;
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 33;
}

static int touch(void *seed)
{
    for (int i = 0; i < AT_ONCE; i++) {
        volatile uint64_t *word = pages + next(seed) % PAGES * WORDS;
        if (i % 4 == 3) (void)*word;
        else ++*word;
    }
    return 0;
}

static long fill(uint64_t *seed, int touches)
{
    for (int i = 0; i < touches; i += AT_ONCE) {
        int e = ps_transaction(touch, seed);
        if (e) return e;
    }
    return 0;
}

static long children(const char *self)
{
    int pid[CHILDREN];
    long bad = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid[i] = child_start(self, "child", "");
        if (pid[i] < 0) {
            printf("# child %d: %s\n", i, ps_strerror(-pid[i]));
            bad++;
        }
    }
    for (int i = 0; i < CHILDREN; i++)
        if (pid[i] > 0) {
            kd_call3(KD_PROCESS_KILL, pid[i], 9, 0);
            child_wait(pid[i]);
        }
    return bad;
}

static pthread_barrier_t all_run;
static void *run(void *unused)
{
    pthread_barrier_wait(&all_run);
    return unused;
}

static long threads(void)
{
    pthread_t thread[THREADS];
    int begun = 0;
    pthread_barrier_init(&all_run, NULL, THREADS + 1);
    while (begun < THREADS && !pthread_create(&thread[begun], NULL, run, NULL)) begun++;
    if (begun < THREADS) return THREADS - begun; /* they wait for ever: the process ends soon */
    pthread_barrier_wait(&all_run);
    while (begun--) pthread_join(thread[begun], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    if (argc > 1 && !strcmp(argv[1], "child"))
        for (;;) pause();
    c = ps_open("children", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t *, 1));
    int rounds = tap_long() ? ROUNDS : ROUNDS / 3;
    tap_plan(2 + 3 * rounds + 1);
    tap_ok(c != NULL, "a container");
    is(c ? ps_transaction(make, NULL) : -1, 0, "with an object of twice the memory");
    for (int i = 0; i < rounds && pages; i++) {
        is(fill(&seed, i ? PAGES / 8 : PAGES), 0, "its pages fill the memory");
        is(children(argv[0]), 0, "all children start");
        is(threads(), 0, "and all threads");
    }
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
