/*
 * kernel_overlap.c - two objects at the same addresses, in different processes.
 *
 * Aim     a view that gets the number of one that has ended has no rights of that: neither who
 *         wants the other object's page nor that object's end takes what it has here (OV1). A page
 *         table that is empty stays while a view has it, when the other object's leaves go (OV2).
 *         A process that had one object, and has the other now, keeps its page tables when the
 *         first dies, and what its transaction has read stays shut to others. One that loses the
 *         first object while it commits has nothing of that in the second one.
 * Method  own_manager.h; the pages of the second object are supplied before they are touched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define PAGES 512                           /* the reach of one page table */
#include "own_manager.h"

enum { EACH = 64 };                         /* a page of each leaf */
enum { SHORT_MS = 50, LONG_MS = 20000 };
static struct context reader, other, writer;
static int said[2], heard[2], beside;

static int look(void *page) { return (int)*word_of((uintptr_t)page, 0); }
static int store(void *page)
{
    *word_of((uintptr_t)page, 0) = 0;
    return 0;
}

/* In a child: says that it is so far, and waits. */
static int tell(void)
{
    char word = 0;
    return write(said[1], &word, 1) == 1 && read(heard[0], &word, 1) == 1 ? 0 : -EIO;
}
static bool hears(void)
{
    char word = 0;
    return read(said[0], &word, 1) == 1;
}
static void go_on(void)
{
    char word = 0;
    (void)!write(heard[1], &word, 1);
}

static int look_on(void *page)
{
    int e = look(page);
    return e ? e : tell() ? tell() : look(page);
}

static int read_all(void *unused)
{
    int sum = 0;
    for (uintptr_t i = 0; i < PAGES; i += EACH)
        sum |= look((void *)i);
    return unused ? -EINVAL : sum;
}
static int read_on(void *unused)
{
    int e = read_all(unused);
    return e ? e : tell() ? -EIO : read_all(unused);
}

static long supply(uint64_t page)
{
    struct kd_supply s = {.object = beside, .source = KD_SUPPLY_ZERO, .page = page, .count = 1,
                          .rights = KD_READ | KD_WRITE};
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static bool object_beside(void)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "beside",
                                 .base = base, .pages = PAGES};
    beside = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    return beside >= 0 && supply(1) == 0;
}

/* A process that has one of them, and runs body. */
static pid_t child(int of, void (*body)(void))
{
    struct kd_space_info info;
    pid_t pid = fork();
    if (pid) {
        kd_call3(KD_SPACE_ATTACH, pid, of, KD_RIGHT_READ | KD_RIGHT_WRITE);
        return pid;
    }
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0)) pause_ms(1);
    kd_call3(KD_PORT_CREATE, 0, 0, 0);      /* a view is no handle 0 (in_view) */
    in_view(&reader);
    body();
    _exit(1);
}
static int end_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static void reads_and_ends(void) { _exit(run(look, (void *)1, 0, 0)); }
static void reads_on(void) { _exit(run(look_on, (void *)1, 0, 0) != 0); }

static void number_of_another(void)
{
    in_view(&writer);                       /* it has its number before that of the other is free */
    tap_ok(end_of(child(object, reads_and_ends)) == 0, "a process has read the first, and ended");
    pid_t pid = child(beside, reads_on);
    tap_ok(hears() && run(store, (void *)1, 0, LONG_MS) == 0,
           "a writer of the first does not meet a reader of the second");
    tap_ok(kd_call3(KD_OBJECT_DESTROY, object, 0, 0) == 0, "the first dies");
    go_on();
    tap_ok(end_of(pid) == 0, "and that reader goes on");
}

/* Its view's table is empty when another view of its has the page. */
static void stores_later(void)
{
    int e = run(store, (void *)1, 0, 0);
    in_view(&other);
    e = e ? e : run(store, (void *)1, 0, 0);
    e = e ? e : tell();
    in_view(&reader);
    e = e ? e : run(store, (void *)2, 0, 0);
    _exit(e || run(look, (void *)2, 0, 0));
}

static void empty_table(void)
{
    bool made = object_beside();
    in_view(&writer);
    tap_ok(made && run(look, (void *)1, 0, 0) == 0, "one is read here, again");
    pid_t pid = child(beside, stores_later);
    bool heard_it = hears();
    long s = supply(2), e = kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    object = beside;
    pause_ms(300);                          /* the evictor frees what went */
    go_on();
    tap_ok(heard_it && s == 0 && e == 0 && end_of(pid) == 0,
           "a table without entries stays while a view has it (%ld, %ld)", s, e);
}

static void reads_both(void)
{
    int e = run(read_all, NULL, 0, 0);
    e = e ? e : tell();
    _exit(e || run(read_on, NULL, 0, 0) != 0);
}

static void had_the_first(void)
{
    bool made = object_beside();
    for (uint64_t i = 0; i < PAGES; i += EACH)
        made &= supply(i) == 0;
    long a = kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    in_view(&writer);
    tap_ok(made && a == 0 && run(read_all, NULL, 0, 0) == 0, "all of one is read here");
    pid_t pid = child(object, reads_both);
    bool heard_it = hears();
    long gone = kd_call4(KD_OBJECT_ADVISE, object, EACH, 1, KD_ADVISE_EVICT);
    long d = kd_call3(KD_SPACE_DETACH, pid, object, 0);
    long e = kd_call3(KD_SPACE_ATTACH, pid, beside, KD_RIGHT_READ | KD_RIGHT_WRITE);
    go_on();
    tap_ok(heard_it && gone == 1 && d == 0 && e == 0 && hears(),
           "another process had it, too, and reads all of the second (%ld, %ld)", d, e);
    is(run(store, (void *)EACH, 0, LONG_MS), 0, "a writer of the first one does not meet it");
    e = kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    object = beside;
    long f = kd_call3(KD_SPACE_ATTACH, getpid(), beside, KD_RIGHT_READ | KD_RIGHT_WRITE);
    long g = run(store, (void *)EACH, 0, SHORT_MS);
    tap_ok(e == 0 && f == 0 && g == -ETIMEDOUT,
           "the first dies, what that transaction has read stays shut (%ld, %ld, %ld)", e, f, g);
    go_on();
    tap_ok(end_of(pid) == 0 && run(store, (void *)EACH, 0, 0) == 0, "until it ends");
}

static int look_and_store(void *unused)
{
    return look((void *)1) || store((void *)2) || unused ? -EIO : 0;
}
static int store_on(void *page) { return store(page) || tell() ? -EIO : 0; }

static void commits_and_stores(void)
{
    int e = run(look_and_store, NULL, 0, 0);
    e = e ? e : tell();
    _exit(e || run(store_on, (void *)1, 0, 0) != 0);
}

/* The first is detached while its commit is not answered: it had read there. */
static void lost_in_its_commit(void)
{
    bool made = object_beside();
    hold_commits = 1;
    pid_t pid = child(object, commits_and_stores);
    while (!held_commits) pause_ms(1);
    long d = kd_call3(KD_SPACE_DETACH, pid, object, 0);
    hold_commits = 0;
    bool heard_it = hears();
    long e = kd_call3(KD_SPACE_ATTACH, pid, beside, KD_RIGHT_READ | KD_RIGHT_WRITE);
    go_on();
    tap_ok(made && heard_it && d == 0 && e == 0 && hears(),
           "a process lost the first while it committed, stores to the second (%ld, %ld)", d, e);
    is(run(store, (void *)1, 0, LONG_MS), 0, "a writer of the first one does not meet it");
    is(kd_call3(KD_OBJECT_DESTROY, object, 0, 0), 0, "the first dies");
    object = beside;
    go_on();
    is(end_of(pid), 0, "and it commits what it has stored");
}

int main(void)
{
    tap_plan(17);
    bool made = start_manager((struct own_manager){.pages = PAGES}) && object_beside();
    tap_ok(made && pipe(said) == 0 && pipe(heard) == 0, "two objects at the same addresses");
    number_of_another();
    object = beside;
    if (kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE)) return 1;
    empty_table();
    had_the_first();
    lost_in_its_commit();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "all is consistent");
    return tap_end();
}
