/*
 * kernel_charges.c - every frame has one use, and is charged to somebody who can give it back.
 *
 * Aim     the sum over all frames is that of what processes, views and objects have, process by
 *         process: when a process has handles, when memory is forgotten or unmapped, and when
 *         objects died whose handles are still held.
 * Method  the kernel of tests/bugs/frame-sum.patch adds up when KD_CHECK is asked with 1; others
 *         check as always. More objects die than memory could keep the leaves of.
 */
#include <sys/mman.h>

#define PAGES 64
#include "own_manager.h"

enum { OBJECTS = 20, LEAVES = 1024, LEAF_PAGES = 64, REACH = 2 << 20, FAR_BYTES = 32 << 20 };

/* Nobody else does anything: the sum is right. */
static void sum(const char *when)
{
    is(kd_call3(KD_CHECK, 1, 0, 0), 0, when);
}

static uint64_t memory_used(void) { return process_self().used[KD_LIMIT_MEMORY]; }

static void tables_of_forgotten_memory(void)
{
    char *far = mmap(NULL, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t before = memory_used();
    for (size_t i = 0; far != MAP_FAILED && i < FAR_BYTES; i += REACH)
        far[i] = 1;
    uint64_t filled = memory_used();
    madvise(far, FAR_BYTES, MADV_DONTNEED);
    uint64_t after = memory_used();
    tap_ok(filled - before >= 2 * (FAR_BYTES / REACH - 1) * KD_PAGE_BYTES && after <= before,
           "page tables of forgotten memory are given back: %llu, %llu, %llu KiB",
           (unsigned long long)before >> 10, (unsigned long long)filled >> 10,
           (unsigned long long)after >> 10);
    munmap(far, FAR_BYTES);
}

/* An object of which one page in each leaf is in memory; a second handle to it, or -errno. */
static long object_with_leaves(int *first)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "leaves",
                                 .pages = (uint64_t)LEAVES * LEAF_PAGES};
    *first = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    for (uint64_t i = 0; i < LEAVES; i++) {
        struct kd_supply s = {.object = *first, .source = KD_SUPPLY_ZERO,
                              .rights = KD_READ | KD_WRITE, .page = i * LEAF_PAGES, .count = 1};
        long e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
        if (e)
            return e;
    }
    return kd_call3(KD_HANDLE_COPY, *first, KD_RIGHT_MANAGE, 0);
}

static void leaves_of_dead_objects(void)
{
    int first;
    long held = 0, e = 0;
    uint64_t before = memory_used();
    for (unsigned i = 0; i < OBJECTS && held >= 0 && !e; i++) {
        held = object_with_leaves(&first);
        e = kd_call3(KD_OBJECT_DESTROY, first, 0, 0);
        if (i == 0)
            sum("when an object has died of which a handle is held");
    }
    tap_ok(held >= 0 && e == 0 && memory_used() == before,
           "%d objects die, of which handles are held: %ld, %ld", OBJECTS, held, e);
}

int main(void)
{
    tap_plan(7);
    sum("before anything");
    is(start_manager((struct own_manager){.pages = PAGES}), true, "a manager");
    sum("when there is one");
    tables_of_forgotten_memory();
    leaves_of_dead_objects();
    sum("in the end");
    return tap_end();
}
