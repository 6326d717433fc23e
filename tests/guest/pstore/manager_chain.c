/*
 * manager_chain.c - a container that the store keeps with its manager, over another one of these,
 * over the store (km_below_container).
 *
 * Aim     one transaction changes three levels, and the store, or nothing of them: also where the
 *         lower manager has no room, and whoever of the three dies, between transactions or in the
 *         midst of them; the next open begins all that died again. Both containers have the same
 *         pages, and no more managers than are meant stand on each other.
 * Method  the programs as they are: stacked ("upper") over packed ("lower"). fire_chain kills them
 *         at each of their events.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "manager.h"
#include "pstore_test.h"

enum { WORDS = 512, SOME = 4, NOISE = 300 };

struct ledger { uint64_t number; };
static ps_container *ledger, *upper, *lower;
static uint64_t *words;

static int write_all(void *number)
{
    struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    l->number = *(uint64_t *)number;
    for (unsigned i = 0; i < SOME; i++) words[i * WORDS + i] = l->number;
    return 0;
}

static int write_and_fail(void *number)
{
    int error = write_all(number);
    return error ? error : -ECANCELED;
}

static int write_much(void *number)
{
    uint64_t x = *(uint64_t *)number;
    int error = write_all(number);
    for (uint64_t i = SOME * WORDS; i < (SOME + NOISE) * WORDS; i++)
        words[i] = x = x * 0x9e3779b97f4a7c15ull + i;
    return error;
}

static int read_all(void *number)
{
    const struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    for (unsigned i = 0; i < SOME; i++)
        if (words[i * WORDS + i] != l->number) return -EUCLEAN;
    *(uint64_t *)number = l->number;
    return 0;
}

static int read_both(void *number)
{
    const uint64_t *low = ps_address(lower);
    int error = read_all(number);
    for (unsigned i = 0; !error && i < SOME * WORDS; i++)
        if (low[i] != words[i]) error = -EUCLEAN;
    return error;
}

static long number_by(int (*reads)(void *))
{
    uint64_t number = 0;
    int error = WHEN_BACK(ps_transaction(reads, &number));
    return error ? error : (long)number;
}

static int change(uint64_t number) { return ps_transaction(write_all, &number); }

/* ---- deaths ---- */

static int pid_of(const char *name)
{
    static struct kd_process_info rows[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
    for (long i = 0; i < n && i < 256; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].pid;
    return 0;
}

/* Kills it, and waits until it is no more. The store is always `store`. */
static int kill_one(const char *name)
{
    int pid = strcmp(name, "store") ? pid_of(name) : (int)store_pid();
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    for (int i = 0; i < 3000 && pid_of(name) == pid; i++) pause_ms(10);
    return pid > 0 && pid_of(name) != pid ? 0 : -ESRCH;
}

static _Atomic uint64_t tried, done;
static _Atomic int over;
static void *writer(void *from)
{
    uint64_t n = *(uint64_t *)from;
    int error;
    do {
        tried = ++n;
        error = change(n);
        if (!error) done = n;
    } while (!error);
    over = 1;
    return (void *)(long)error;
}

/* One dies while a thread commits without end; what is there then is a whole transaction. */
static int dies_at_work(const char *name, unsigned after)
{
    pthread_t t;
    void *error;
    uint64_t from = tried = done = (uint64_t)number_by(read_all);
    over = 0;
    pthread_create(&t, NULL, writer, &from);
    while (done < from + after && !over) sched_yield();
    int killed = kill_one(name);
    pthread_join(t, &error);
    long now = number_by(read_both);
    int good = !killed && error && now >= (long)done && now <= (long)tried;
    if (!good)
        printf("# %s: %ld, then %ld of %lu..%lu\n", name, (long)error, now, done, tried);
    return good;
}

static void test_deaths(void)
{
    const char *who[] = {"stacked", "packed", "store"};
    uint64_t n = 100;
    for (unsigned i = 0; i < 3; i++) {
        is(kill_one(who[i]), 0, who[i]);
        is(number_by(read_both), (long)n - (n == 100 ? 100 : 1), "was killed: all is as it was");
        is(change(n), 0, "and goes on");
        is(number_by(read_both), (long)n++, "with all levels");
    }
    for (unsigned i = 0; i < 3; i++)
        tap_ok(dies_at_work(who[i], i + 1), "%s dies in the midst of commits: nothing half",
               who[i]);
}

/* ---- ranks ---- */

/* A container over another one, both with managers: 0 or -errno of its first open. */
static int stack_on(const char *name, const char *under)
{
    const char *on[] = {under, NULL};
    int error = ps_manager(name, "/bin/stacked", on);
    ps_container *c = error ? NULL : ps_open(name, PS_WRITE, NULL);
    return error ? error : c ? 0 : -errno;
}

static void test_ranks(void)
{
    is(stack_on("third", "upper"), 0, "a third manager");
    is(stack_on("fourth", "third"), 0, "and a fourth stand on each other");
    is(stack_on("fifth", "fourth"), -ECHILD, "a fifth ends as it starts");
    is(stack_on("circle", "circle"), -ECHILD, "so does one that would stand on itself");
    is(stack_on("plain", "ledger"), -ECHILD, "or on a container without a manager");
}

int main(void)
{
    const char *mib[] = {"1", NULL}, *on[] = {"lower", NULL};
    uint64_t number = 6;
    tap_plan(11 + 12 + 3 + 5);
    ledger = ps_open("ledger", PS_CREATE | PS_WRITE, PS_LAYOUT(struct ledger, 1));
    is(ps_manager("lower", "/bin/packed", mib), 0, "packed is a container's manager");
    is(ps_manager("upper", "/bin/stacked", on), 0, "stacked is one whose pages lie in that");
    upper = ps_open("upper", PS_WRITE, NULL);
    lower = ps_open("lower", 0, NULL);
    words = ps_address(upper);
    tap_ok(ledger && upper && lower, "all are open");
    is(number_by(read_both), 0, "and empty");
    is(change(5), 0, "one transaction writes the upper one and one of the store");
    is(number_by(read_both), 5, "all levels have it");
    is(ps_transaction(write_and_fail, &number), -ECANCELED, "one that gives up");
    is(number_by(read_both), 5, "changes nothing");
    is(ps_transaction(write_much, &number), -ENOSPC, "one for which the lowest has no room");
    is(number_by(read_both), 5, "is undone on all levels");
    is(change(0), 0, "(0 again)");
    test_deaths();
    test_ranks();
    return tap_end();
}
