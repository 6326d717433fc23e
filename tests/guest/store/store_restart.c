/*
 * store_restart.c - the death of the store manager is a power cut for its containers.
 *
 * Aim     what was committed is there after its restart, what was not is not; a transaction that
 *         ran ends with an error; clients connect again; none of it disturbs the kernel.
 * Method  the manager is killed again and again, between commits and inside a transaction, while
 *         two words in different pages must stay equal. init starts it again.
 */
#include <stdlib.h>
#include <time.h>

#include "store_client.h"
#include "two_words.h"

enum { KILLS = 5, COMMITS = 40 };

static struct wire_opened box;
static uint64_t acknowledged;

static int kill_and_reconnect(void)
{
    int pid = store_pid();
    if (pid <= 0 || kd_call3(KD_PROCESS_KILL, pid, 9, 0) < 0) return -1;
    return client_reopen("box", PS_WRITE, &box);
}

/* The next manager is killed as soon as there is one: before it answers, which init must see as a
 * death, too. */
static int kill_while_it_starts(void)
{
    int first = store_pid(), second = first;
    if (first <= 0 || kd_call3(KD_PROCESS_KILL, first, 9, 0) < 0) return -1;
    while (second <= 0 || second == first) second = store_pid();
    return kd_call3(KD_PROCESS_KILL, second, 9, 0) < 0 ? -1 : client_reopen("box", PS_WRITE, &box);
}

static long killed_inside(void *value)
{
    *a = (uint64_t)value;
    kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    while (acknowledged) *b = (uint64_t)value; /* until the abort takes this thread out */
    return 0;
}

int main(void)
{
    tap_plan(KILLS + 6);
    if (client_reopen("box", PS_CREATE | PS_WRITE, &box) < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    uint64_t *pages = client_lease(box.container, 8, NULL), value = 0;
    a = pages;
    b = pages + 7 * 512;
    tap_ok(client_run(both, (void *)++acknowledged) == 0, "a first commit");
    for (int k = 0; k < KILLS; k++) {
        for (int i = 0; i < COMMITS; i++)
            if (client_run(both, (void *)(acknowledged + 1)) == 0) acknowledged++;
        uint64_t base = box.base;
        int r = kill_and_reconnect();
        long e = client_run(equal, &value);
        tap_ok(r == 0 && e == 0 && value == acknowledged && box.base == base,
               "death %d: all %llu commits are there, at the same address (%d, %ld)", k,
               (unsigned long long)value, r, e);
    }
    long e = client_run(killed_inside, (void *)4711);
    tap_ok(e < 0, "a transaction that ran ends with an error (%ld)", e);
    int r = client_reopen("box", PS_WRITE, &box);
    e = client_run(equal, &value);
    tap_ok(r == 0 && e == 0 && value == acknowledged, "and left nothing");
    r = kill_while_it_starts();
    e = client_run(equal, &value);
    tap_ok(r == 0 && e == 0 && value == acknowledged,
           "a manager that dies while it starts is followed by another (%d, %ld)", r, e);
    tap_ok(client_run(both, (void *)(acknowledged + 1)) == 0, "work goes on");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
