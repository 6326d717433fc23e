/*
 * store_close.c - a container is closed by one thread while another one's commit is on its way.
 *
 * Aim     the commit is refused or kept: no page that it wrote is leased to anybody afterwards.
 * Method  bare calls (store_client.h). A thread stores to a leased page and commits; another one
 *         closes the container at about that moment, opens it again and leases a page.
 */
#include <pthread.h>
#include <stdlib.h>

#include "store_client.h"

enum { ROUNDS = 400, ROUNDS_TEST = 120, DELAYS = 40 };
static int rounds = ROUNDS;
static struct wire_opened box;
/* what the writer has stored to; what the other one was given */
static volatile uint64_t *page, *leased;
static int stored, given;  /* rounds; who waits for one sees what was written before it */

static long store_word(void *value)
{
    page[0] = (uint64_t)value;
    __atomic_store_n(&stored, (int)(uint64_t)value, __ATOMIC_RELEASE);
    return 0;
}

static void *closer(void *unused)
{
    (void)unused;
    for (int i = 1; i <= rounds; i++) {
        while (__atomic_load_n(&stored, __ATOMIC_ACQUIRE) < i) kd_call3(24, 0, 0, 0);
        for (volatile int wait = i % DELAYS * 500; wait > 0; wait--) {
        }
        client_call(STORE_CLOSE, box.container, 0, 0, NULL, 0, NULL, 0);
        if (client_open("box", PS_WRITE, NULL, 0, 0, &box) < 0) exit(1);
        leased = client_lease(box.container, 1, NULL);
        __atomic_store_n(&given, i, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(void)
{
    pthread_t t;
    long kept = 0, lost = 0;
    tap_plan(2);
    if (!tap_long()) rounds = ROUNDS_TEST;
    if (client_connect() < 0 || client_open("box", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0)
        exit(1);
    pthread_create(&t, NULL, closer, NULL);
    for (uint64_t i = 1; i <= (uint64_t)rounds; i++) {
        page = i > 1 ? leased : client_lease(box.container, 1, NULL);
        long r = client_run(store_word, (void *)i);
        while (__atomic_load_n(&given, __ATOMIC_ACQUIRE) < (int)i) kd_call3(24, 0, 0, 0);
        kept += r == 0;
        lost += r == 0 && leased == page;
        if (r && r != -EACCES) tap_ok(0, "commit: %ld", r);
    }
    pthread_join(t, NULL);
    tap_ok(kept > 0, "commits that go on while the container is closed (%ld of %d)", kept, rounds);
    tap_ok(lost == 0, "no page of theirs is leased again (%ld)", lost);
    return tap_end();
}
