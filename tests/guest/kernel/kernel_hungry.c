/*
 * kernel_hungry.c - who waits for frames gets some, whoever else takes all that he can get.
 *
 * Aim     while a thread has pages supplied without an end, other threads that need frames come to
 *         theirs: for copies, for memory, for leaves, for pages of their own; and it to its.
 * Method  One CPU and counted instructions: who runs next, and so who finds the frames that were
 *         freed, repeats itself. Time is counted in the pages that the greedy one had.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LEAF = 64, LEAVES = 400, PAGES = LEAVES * LEAF, HOME = 64, COPIES = 300, ROOM = 1500,
       STACKS = 20, CHILDREN = 4, SUPPLIED = 8000, AT_ONCE = 8 };

#include "own_manager.h"

static _Atomic long had; /* by the greedy one: AT_ONCE pages each */
static _Atomic int full, stop;

static int object_at(uint64_t offset)
{
    struct kd_object_create c = { .port = port,
                                  .commit_port = port,
                                  .base = KD_STORE_BASE + offset,
                                  .pages = 1 << 16,
                                  .name = "others" };
    return (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
}

/* So many pages from `first` on, of zeros; 0 or -errno. */
static long zeros(int of, uint64_t first, uint64_t count)
{
    struct kd_supply s = {
        .object = of, .source = KD_SUPPLY_ZERO, .rights = KD_READ, .page = first, .count = count
    };
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* Has pages supplied until the other one is done, or has had time enough. */
static void *greedy(void *unused)
{
    int own = object_at(1ull << 40);
    uint64_t before = system_info().evictions, page = 0;
    for (; !stop && had < SUPPLIED; page = (page + AT_ONCE) % (1 << 16)) {
        had += zeros(own, page, AT_ONCE) == 0;
        full |= system_info().evictions > before + 100;
    }
    full = stop = 1;
    kd_call3(KD_OBJECT_DESTROY, own, 0, 0);
    return unused;
}

/* Each needs a frame; what was left undone when the time was up. */
static int write_copies(void *unused)
{
    (void)unused;
    int p = 0;
    while (p < COPIES && !stop) *word_of((uint64_t)p++, 1) = 1;
    return p < COPIES ? COPIES - p : -1;
}
static long copies(void) { return run(write_copies, NULL, KD_SERIALISABLE, 0) + 1; }

static int read_leaves(void *unused)
{
    (void)unused;
    int l = 0;
    while (l < LEAVES && !stop) (void)*word_of((uint64_t)l++ * LEAF + 1, 1);
    return l < LEAVES ? LEAVES - l : -1;
}
static long leaves(void) { return run(read_leaves, NULL, KD_SERIALISABLE, 0) + 1; }

static long memory(void)
{
    volatile uint8_t *at = mmap(NULL, ROOM * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int p = 0;
    while (p < ROOM && !stop) at[p++ * KD_PAGE_BYTES] = 1;
    munmap((void *)at, ROOM * KD_PAGE_BYTES);
    return ROOM - p;
}

static long pages(void)
{
    int own = object_at(1ull << 41), p = 0;
    while (p < ROOM && !stop) p += zeros(own, (uint64_t)p, 1) == 0;
    kd_call3(KD_OBJECT_DESTROY, own, 0, 0);
    return ROOM - p;
}

static void *nothing(void *unused) { return unused; }
static long stacks(void)
{
    int n = 0;
    for (pthread_t thread; n < STACKS && !stop; n++)
        if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL)) break;
    return STACKS - n;
}

static long forks(void)
{
    int n = 0;
    for (int status, pid; n < CHILDREN && !stop; n++) {
        if ((pid = fork()) == 0) _exit(n);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != n << 8) break;
    }
    return CHILDREN - n;
}

/* `many`: it takes so many frames that the greedy one has its turn, too. */
static void beside_greedy(long (*what)(void), bool many, const char *name)
{
    pthread_t thread;
    full = stop = 0;
    had = 0;
    if (pthread_create(&thread, NULL, greedy, NULL)) _exit(2);
    while (!full) usleep(1000);
    long before = had, left = what();
    long while_it = had - before;
    stop = 1;
    pthread_join(thread, NULL);
    tap_ok(!left && (while_it > 0 || !many), "%s: %ld too few, while the greedy one had %ld",
           name, left, while_it * AT_ONCE);
}

int main(void)
{
    tap_plan(7);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME}), "a manager");
    kd_call3(KD_CREDIT_GRANT, commit_port, COPIES * 2, 0);
    beside_greedy(copies, true, "copies");
    beside_greedy(memory, true, "memory");
    beside_greedy(leaves, true, "leaves");
    beside_greedy(pages, true, "pages");
    beside_greedy(stacks, false, "stacks");
    beside_greedy(forks, false, "forks");
    return tap_end();
}
