/*
 * pstore_index_retry.c - ps_retry after a look at an index that others change meanwhile.
 *
 * Aim     who waits for a key is woken when it is there, also if the index was changed between the
 *         look and the wait: that takes pages out of the view that has looked.
 * Method  one thread looks for a key, waits until another one has put a second key, and retries;
 *         the other then puts the first, which the lock of the look puts off until the watch is
 *         set.
 */
#include <errno.h>
#include <index.h>
#include <pstore.h>
#include <pthread.h>
#include <sched.h>

#include "pstore_test.h"

enum { ROUNDS = 8, PATIENCE_MS = 20000 };
static ps_index *x;
static _Atomic int looked, changed;

static int wait_for(void *key)
{
    uint64_t value;
    int r = ps_index_find(x, key, &value);
    if (r != -ENOENT)
        return r;
    looked++;
    while (!changed)
        sched_yield();
    ps_retry();
}

static int put(void *key) { return ps_index_put(x, key, 1); }

static void *other(void *round)
{
    uint64_t key = 1000 + 2 * *(uint64_t *)round, another = key + 1;
    while (!looked)
        sched_yield();
    long bad = ps_transaction(put, &another) != 0;
    changed = 1;
    return (void *)(bad + (ps_transaction(put, &key) != 0));
}

int main(void)
{
    const struct ps_options patient = {.timeout_ms = PATIENCE_MS};
    tap_plan(2);
    x = ps_index_open("waited for", PS_NUMBERS, PS_CREATE | PS_WRITE);
    tap_ok(x != NULL, "opened");
    int bad = 0;
    for (uint64_t round = 0; x && round < ROUNDS && !bad; round++) {
        uint64_t key = 1000 + 2 * round;
        pthread_t thread;
        void *result = NULL;
        looked = changed = 0;
        pthread_create(&thread, NULL, other, &round);
        int r = ps_transaction_opt(wait_for, &key, &patient);
        pthread_join(thread, &result);
        bad += r != 0 || result;
        if (bad)
            printf("# round %lu: %d, %ld\n", (unsigned long)round, r, (long)result);
    }
    is(bad, 0, "who waits for a key is woken when it is there");
    return tap_end();
}
