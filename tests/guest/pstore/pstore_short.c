/*
 * pstore_short.c - transactions whose copies fill memory, but for a little: none is ended for it.
 *
 * Aim     a transaction that finds enough memory for its stores, and so does not spill, commits
 *         also if the last frames are wanted by somebody else then: by the manager for the group,
 *         or by its own program. Its copies go to the log, and no program ends.
 * Method  A child, which would be the one to end, stores a word of page after page until so much
 *         memory is free as the test says. The first one comes before any other large commit, so
 *         the manager's buffers are not memory yet.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pstore_test.h"

enum { PAGES = 6000, ROUND = 1000000 };
static ps_container *box;
static volatile uint64_t (*pages)[512];

static int make(void *unused)
{
    (void)unused;
    uint64_t *root = ps_root(box);
    *root = (uint64_t)ps_alloc(box, (size_t)PAGES * 4096 - 64, NULL);
    return *root ? 0 : -errno;
}
static int find(void *unused)
{
    (void)unused;
    uint64_t *root = ps_root(box);
    pages = (void *)((*root + 4095) & ~4095ull);
    return 0;
}

struct work { bool own; unsigned copies; };

static uint64_t memory(void) { return system_info().memory_bytes / 4096; }
static uint64_t frames_free(void) { return system_info().free_bytes / 4096; }

static int own_touch(size_t n)
{
    volatile char *own = mmap(NULL, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
    if (own == MAP_FAILED) return -errno;
    for (size_t i = 0; i < n; i++) own[i * 4096] = 1;
    return munmap((void *)own, n * 4096);
}

/* Stores until a 16th of memory is free, or a quarter is copies: then their bases are one, too, and
 * the program wants three eighths for itself. */
static int work(void *arg)
{
    struct work *w = arg;
    uint64_t leave = w->own ? 0 : memory() / 16, spilled = system_info().spills;
    unsigned most = w->own ? memory() / 4 : PAGES - 1;
    for (w->copies = 0; w->copies < most && frames_free() > leave; w->copies++)
        pages[w->copies][w->copies % 512] = ROUND * w->own + w->copies;
    printf("# %u copies, %ld frames are free, %ld spilled\n", w->copies, (long)frames_free(),
           (long)(system_info().spills - spilled));
    return w->own ? own_touch(memory() / 8 * 3) : 0;
}
static int wrong(void *arg)
{
    const struct work *w = arg;
    int count = 0;
    for (unsigned p = 0; p < w->copies; p++) count += pages[p][p % 512] != ROUND * w->own + p;
    return count ? 1 : 0;
}

static int child(bool own)
{
    struct work w = {.own = own};
    box = ps_open("short", PS_WRITE, NULL);
    if (!box || ps_transaction(find, NULL)) return 2;
    int r = ps_transaction(work, &w);
    if (r) printf("# the transaction: %d\n", r);
    return r ? 3 : w.copies == 0 ? 4 : ps_transaction(wrong, &w) ? 5 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return child(argv[1][0] == 'o');
    tap_plan(3);
    box = ps_open("short", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    if (!box || ps_transaction(make, NULL)) return printf("Bail out! no container\n"), 1;
    int manager = store_pid();
    is(child_run(argv[0], "commit", ""), 0, "a 16th of memory is free, and it commits");
    is(child_run(argv[0], "own", ""), 0, "its own program wants the rest of memory, and more");
    is(store_pid(), manager, "the manager lives");
    return tap_end();
}
