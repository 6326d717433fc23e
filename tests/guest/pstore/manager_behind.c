/*
 * manager_behind.c - /bin/behind: commits that are durable a moment later, in order.
 *
 * Aim     what is there after the manager, or a client, was killed at any moment is the first so
 *         many commits, each as a whole, and no fewer than the manager had said to be durable; a
 *         commit is in one batch with others. Pages go and come again where memory is short.
 * Method  children of this program that count in one page and number a place in another. The power
 *         is cut in tests/system/behind-cut.sh.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "manager.h"
#include "press.h"
#include "pstore_test.h"
#include "user/managers/behind.h"
#include "user/start.h"

enum { WORDS = 512, PAGES = 2048, KILLS = 4, LARGE_AT = 1024, LARGE_STEP = 32 };
static volatile uint64_t *box;

static int manager_start(void)
{
    const char *argv[] = {"behind", "box", "8", NULL};
    int pid = (int)start_program("/bin/behind", argv, 0, 1);
    box = NULL;
    for (int i = 0; i < 30000 && !box; i++) {
        box = km_open("box", "box", KM_READ | KM_WRITE);
        if (!box) pause_ms(1);
    }
    return box ? pid : -1;
}
static void manager_end(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    kd_call3(KD_PROCESS_WAIT, pid, 0, 0);
}
static struct behind_counts counts(int flush)
{
    struct behind_counts c = {.flush = (uint64_t)flush};
    if (km_call("box", "box", &c, sizeof c)) c.durable = 0;
    return c;
}

static int step(void *unused)
{
    (void)unused;
    uint64_t n = box[0], page = 1 + n % 900;
    box[page * WORDS + 1 + n / 900] = n + 1;
    box[0] = n + 1;
    return 0;
}
static int check(void *out)
{
    uint64_t n = box[0];
    for (uint64_t i = 0; i < n + 50; i++)
        if (box[(1 + i % 900) * WORDS + 1 + i / 900] != (i < n ? i + 1 : 0)) return -EUCLEAN;
    *(uint64_t *)out = n;
    return 0;
}
static long steps_there(void)
{
    uint64_t n = 0;
    int e = ps_transaction(check, &n);
    return e ? e : (long)n;
}

/* A child: steps for ever; 1: the manager has died. */
static int stepper(void)
{
    box = km_open("box", "box", KM_READ | KM_WRITE);
    while (box && ps_transaction(step, NULL) == 0) child_begun();
    return 1;
}

/* How many steps there are then. A batch has what comes within a moment: on a busy host that may be
 * one commit. */
static long batches(void)
{
    int bad = 0;
    uint64_t steps = 0, before = 0, more = 200;
    struct behind_counts c = {0};
    for (int turn = 0; turn < 4 && more >= 100 && !bad; turn++) {
        for (int i = 0; i < 200; i++) bad += ps_transaction(step, NULL) != 0;
        c = counts(1);
        more = c.batches - before;
        before = c.batches;
        steps += 200;
    }
    tap_ok(!bad && c.commits == steps && c.durable == steps && more > 0 && more < 100,
           "commits are durable in batches (%d)", (int)more);
    is(steps_there(), (long)steps, "and all are there");
    return (long)steps;
}

static void clients_die(const char *self, long steps)
{
    long before = steps, now = 0, bad = 0;
    for (int i = 0; i < KILLS; i++, before = now) {
        int pid = child_start(self, "step", "");
        bad += !child_has_begun(pid);
        pause_ms(3 * i);
        kill(pid, SIGKILL);
        (void)child_wait(pid);
        now = steps_there();
        bad += now < before;
    }
    tap_ok(!bad && now > steps, "clients are killed: the first %ld steps are there, as wholes",
           now);
}

static int manager_dies(const char *self, int manager)
{
    long bad = 0, lost = 0, now = 0;
    for (int i = 0; i < KILLS; i++) {
        int pid = child_start(self, "step", "");
        bad += !child_has_begun(pid);
        pause_ms(i);
        long durable = steps_there();
        (void)counts(1);
        pause_ms(i * 4);
        manager_end(manager);
        bad += child_wait(pid) == 0;
        manager = manager_start();
        now = manager > 0 ? steps_there() : -1;
        lost += now < durable;
        bad += now < 0 || durable < 0;
    }
    tap_ok(!bad && !lost, "the manager is killed: the first %ld steps are there, as wholes", now);
    long was = now;
    bad = 0;
    for (int i = 0; i < 20; i++) bad += ps_transaction(step, NULL) != 0;
    (void)counts(1);
    manager_end(manager);
    manager = manager_start();
    tap_ok(!bad && steps_there() == was + 20, "what it has answered for is there (%ld)", was + 20);
    return manager;
}

/* Pages behind those of the steps. */
static int store_some(void *from)
{
    for (uint64_t page = *(uint64_t *)from; page < *(uint64_t *)from + LARGE_STEP; page++)
        for (int w = 0; w < WORDS; w += 64) box[page * WORDS + (uint64_t)w] += page * 3;
    return 0;
}
static int load_all(void *times)
{
    for (uint64_t page = LARGE_AT; page < PAGES - LARGE_STEP; page++)
        for (int w = 0; w < WORDS; w += 64)
            if (box[page * WORDS + (uint64_t)w] != page * 3 * *(uint64_t *)times) return -EUCLEAN;
    return 0;
}

static void large(void)
{
    int e = 0;
    uint64_t evictions = system_info().evictions, times = 2;
    for (int round = 0; round < 2; round++)
        for (uint64_t page = LARGE_AT; page < PAGES - LARGE_STEP && !e; page += LARGE_STEP)
            e = ps_transaction(store_some, &page);
    (void)counts(1); /* what is not below yet can go nowhere, and memory holds it twice meanwhile */
    bool pressed = press_memory(4000);
    is(e, 0, "an object of 8 MiB is stored to, with 36 MiB of memory");
    e = ps_transaction(load_all, &times);
    tap_ok(!e && pressed && system_info().evictions > evictions,
           "and is read again (%d, others' pages came: %d)", e, pressed);
}

int main(int argc, char **argv)
{
    if (argc > 1) return stepper();
    tap_plan(9);
    int manager = manager_start();
    if (!tap_ok(manager > 0, "a write-behind container")) return tap_end();
    clients_die(argv[0], batches());
    manager = manager_dies(argv[0], manager);
    large();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    manager_end(manager);
    return tap_end();
}
