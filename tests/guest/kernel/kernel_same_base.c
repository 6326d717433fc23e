/*
 * kernel_same_base.c - two objects at the same addresses, in two processes.
 *
 * Aim     what the kernel takes from one of them when it dies, or when its leaves are forgotten, is
 *         its own: the other process keeps its page tables, and what its transaction has read stays
 *         shut to others. A process that had the first one once has no rights to it any more.
 * Method  own_manager.h; all pages of the second object are there from the start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define PAGES 512                           /* the reach of one page table */
#include "own_manager.h"

enum { EACH = 64 };                         /* a page of each leaf */
static struct context reader, writer;
static int said[2], heard[2];

static int read_all(void *unused)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < PAGES; i += EACH)
        sum += *word_of(i, 0);
    return (int)(uintptr_t)unused + (sum != 0);
}

static int write_one(void *unused)
{
    *word_of(EACH, 0) = 1;
    return (int)(uintptr_t)unused;
}

/* An object at the addresses of the first, with one page in each leaf; its handle, or -errno. */
static long object_beside(void)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "beside",
                                 .base = base, .pages = PAGES};
    long made = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    for (uint64_t i = 0; i < PAGES && made >= 0; i += EACH) {
        struct kd_supply s = {.object = (int)made, .source = KD_SUPPLY_ZERO, .page = i, .count = 1,
                              .rights = KD_READ | KD_WRITE};
        long e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
        made = e ? e : made;
    }
    return made;
}

/* Goes on until it hears. */
static int read_on(void *unused)
{
    char word = 0;
    if (read_all(unused) || write(said[1], &word, 1) != 1 || read(heard[0], &word, 1) != 1)
        return -EIO;
    return read_all(unused);
}

/* The other process: it has read the first object; then its transaction reads all of the second
 * one. */
static void child(void)
{
    char word = 0;
    struct kd_space_info info;
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0)) pause_ms(1);
    in_view(&reader);                   /* the parent's view is not its own */
    if (run(read_all, NULL, 0, 0) || write(said[1], &word, 1) != 1 ||
        read(heard[0], &word, 1) != 1)
        _exit(1);
    _exit(run(read_on, NULL, 0, 0) != 0);
}

int main(void)
{
    char word = 0;
    int status = -1;
    tap_plan(7);
    bool made = start_manager((struct own_manager){.pages = PAGES});
    long beside = made ? object_beside() : -1;
    tap_ok(beside >= 0 && pipe(said) == 0 && pipe(heard) == 0, "two objects at %llx (%ld)",
           (unsigned long long)base, beside);
    is(run(read_all, NULL, 0, 0), 0, "one is read here");
    pid_t pid = fork();
    if (pid == 0)
        child();
    close(said[1]);
    kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    read(said[0], &word, 1);
    long gone = kd_call4(KD_OBJECT_ADVISE, object, EACH, 1, KD_ADVISE_EVICT);
    long d = kd_call3(KD_SPACE_DETACH, pid, object, 0);
    long e = kd_call3(KD_SPACE_ATTACH, pid, beside, KD_RIGHT_READ | KD_RIGHT_WRITE);
    write(heard[1], &word, 1);
    tap_ok(gone == 1 && d == 0 && e == 0 && read(said[0], &word, 1) == 1,
           "the other in another process, which had the first: its transaction goes on (%ld, %ld)",
           d, e);
    in_view(&writer);
    is(run(write_one, NULL, 0, 50), 0, "a writer of the first one does not meet it");
    e = kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    object = (int)beside;
    long f = kd_call3(KD_SPACE_ATTACH, getpid(), beside, KD_RIGHT_READ | KD_RIGHT_WRITE);
    in_view(&writer);
    long g = run(write_one, NULL, 0, 50);
    tap_ok(e == 0 && f == 0 && g == -ETIMEDOUT,
           "the first dies, what that transaction has read stays shut (%ld, %ld, %ld)", e, f, g);
    write(heard[1], &word, 1);
    waitpid(pid, &status, 0);
    tap_ok(status == 0 && run(write_one, NULL, 0, 0) == 0, "until it ends (%x)", status);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "all is consistent");
    return tap_end();
}
