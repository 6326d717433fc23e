/*
 * pstore_index_gone.c - indexes are deleted while others of their process's threads change them.
 *
 * Aim     a commit that changes an index which is being deleted comes before the deletion, or is
 *         refused; the store manager goes on, and so do changes of another index.
 * Method  two threads commit changes by bare calls, a third deletes the index when it has seen some
 *         commits. `pstore_index_gone N`: N indexes (60).
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_client.h"

enum { INDEXES = 60, WRITERS = 2, COMMITS = 6 };
static struct wire_opened index_opened, box;
static _Atomic int commits, others, bad;

static long change(void *key)
{
    client_op(WIRE_INDEX_SET, index_opened.container, (void *)8, 5, key);
    return 0;
}

static void *writer(void *number)
{
    char key[9] = "1234567";
    long r = 0;
    key[0] = (char)('a' + (long)number);
    for (unsigned n = 0; r == 0; n++) {
        key[4] = (char)('0' + n / 10 % 10);
        key[5] = (char)('0' + n % 10);
        key[7] = '8';
        r = client_run(change, key);
        __atomic_add_fetch(&commits, r == 0, __ATOMIC_SEQ_CST);
    }
    bad += r != -EBUSY && r != -ENOENT && r != -EACCES;
    if (r != -EBUSY && r != -ENOENT && r != -EACCES) printf("# a change: %ld\n", r);
    return NULL;
}

static long change_beside(void *unused)
{
    (void)unused;
    client_op(WIRE_INDEX_SET, box.container, (void *)8, 5, "12345678");
    return 0;
}

static void *other(void *over)
{
    while (!*(volatile int *)over) {
        long r = client_run(change_beside, NULL);
        if (r) printf("# a change beside: %ld\n", r);
        bad += r != 0;
        others += r == 0;
    }
    return NULL;
}

static int round_of(int number)
{
    pthread_t thread[WRITERS];
    char name[STORE_NAME_BYTES] = {0};
    snprintf(name, sizeof name, "gone %d", number);
    if (client_open(name, PS_CREATE | PS_WRITE, "ps_index numbers", 1, 8, &index_opened)) return 1;
    commits = 0;
    for (long i = 0; i < WRITERS; i++) pthread_create(&thread[i], NULL, writer, (void *)i);
    while (commits < COMMITS && !bad) sched_yield();
    long r = client_name(STORE_DELETE, 0, name);
    for (int i = 0; i < WRITERS; i++) pthread_join(thread[i], NULL);
    if (r) printf("# deleted: %ld\n", r);
    return r != 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : INDEXES, over = 0, manager = store_pid();
    pthread_t thread;
    tap_plan(3);
    bad = client_connect() ||
          client_open("beside", PS_CREATE | PS_WRITE, "ps_index numbers", 1, 8, &box);
    is(bad, 0, "an index beside them");
    pthread_create(&thread, NULL, other, &over);
    for (int i = 0; i < rounds && !bad; i++) bad += round_of(i);
    over = 1;
    pthread_join(thread, NULL);
    is(bad, 0, "each index is deleted while it is changed");
    tap_ok(store_pid() == manager && others > 0, "the manager and %d commits beside go on", others);
    return tap_end();
}
