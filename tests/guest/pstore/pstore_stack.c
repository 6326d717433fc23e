/*
 * pstore_stack.c - a manager over the store: its client's transactions are whole, whoever dies.
 *
 * Aim     what a transaction changed in a container of the store, and what it changed in a sealed
 *         one, is there as a whole or not at all; a manager that starts again has all of it.
 * Method  /bin/sealed serves a container; this program is its client, kills it at any moment of
 *         many transactions, and starts it again. Both containers hold the same number.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "manager.h"
#include "pstore_test.h"

enum { LIVES = 12, STATUS_KILLED = 77 };

struct root { uint64_t number; };
static ps_container *box;
static uint64_t *vault;

static int start(void)
{
    int pid = child_start("sealed", "vault", "secret");
    do sched_yield();
    while (!(vault = km_open("vault", "vault", KM_READ | KM_WRITE)));
    return pid;
}

static void stop(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, STATUS_KILLED, 0);
    child_wait(pid);
}

static int write_both(void *number)
{
    uint64_t n = *(uint64_t *)number;
    ((struct root *)ps_root(box))->number = n;
    for (unsigned i = 0; i < 4; i++) vault[i * 512] = n;
    return 0;
}

struct both { uint64_t store, vault; int same; };
static int read_both(void *arg)
{
    struct both *b = arg;
    b->store = ((struct root *)ps_root(box))->number;
    b->vault = vault[0];
    b->same = 1;
    for (unsigned i = 0; i < 4; i++) b->same &= vault[i * 512] == b->store;
    return 0;
}

static int both_are(uint64_t least, uint64_t most, uint64_t *is)
{
    struct both b = {0};
    int e = ps_transaction(read_both, &b);
    *is = b.store;
    if (e || !b.same) printf("# %d: %lu, %lu\n", e, b.store, b.vault);
    return !e && b.same && b.store >= least && b.store <= most;
}

/* ---- a client that goes on until its manager dies ---- */

static _Atomic uint64_t tried, done;
static _Atomic int over;
static void *writer(void *from)
{
    uint64_t n = *(uint64_t *)from;
    int e;
    do {
        tried = ++n;
        e = ps_transaction(write_both, &n);
        if (!e) done = n;
    } while (!e);
    over = 1;
    return (void *)(long)e;
}

static void lives(int pid)
{
    uint64_t is = 5;
    int good = 1;
    for (int life = 0; life < LIVES && good; life++) {
        pthread_t t;
        void *e;
        uint64_t from = tried = done = is;
        over = 0;
        pthread_create(&t, NULL, writer, &from);
        while (done < from + (unsigned)life % 3 + 1 && !over) sched_yield();
        stop(pid);
        pthread_join(t, &e);
        pid = start();
        good = both_are(done, tried, &is) && e;
        if (!good) printf("# life %d: %ld, %lu..%lu\n", life, (long)e, done, tried);
    }
    tap_ok(good, "its manager is killed %d times in the midst of commits: both are the same",
           LIVES);
    is++;
    tap_ok(ps_transaction(write_both, &is) == 0 && both_are(is, is, &is), "and it goes on");
    stop(pid);
}

int main(void)
{
    uint64_t n = 5, is;
    tap_plan(6);
    box = ps_open("ledger", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int pid = start();
    tap_ok(box && pid > 0 && both_are(0, 0, &is), "a sealed container, empty");
    int e = ps_transaction(write_both, &n);
    tap_ok(e == 0 && both_are(5, 5, &is), "one transaction writes it and one of the store (%d)", e);
    stop(pid);
    pid = start();
    tap_ok(both_are(5, 5, &is), "its manager starts again and has it from the store");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    lives(pid);
    return tap_end();
}
