/*
 * hostile_quota.c - a transaction that gives back one page many times.
 *
 * Aim     A limit of pages (user/store/quota.c) holds, whatever a client's batch says: a page that
 *         is given back twice makes room for one, and one that is given back and claimed again in
 *         the same transaction for none.
 * Method  Bare calls: the library says each page once.
 */
#include "store_client.h"

#include <stdio.h>

enum { MOST = 10, TAKES = 8, AGAIN = 20, ROUNDS = 4 };

static struct wire_opened opened;
static char *fresh, *old;
static int takes, frees, claims;

static long ask(uint32_t kind, const char *path, uint64_t w0, uint64_t w1, uint64_t w2)
{
    char bytes[WIRE_PATH_BYTES] = "";
    strcpy(bytes, path);
    return client_call(kind, w0, w1, w2, bytes, sizeof bytes, NULL, 0);
}

static uint64_t used(void)
{
    return ask(STORE_LIMIT, "jail", WIRE_LIMIT_PAGES, 0, 0) == 0 ? client_reply.word[1] : ~0ull;
}

static long change(void *unused)
{
    (void)unused;
    for (int i = 0; i < takes; i++) fresh[i * 4096] = 1;
    for (int i = 0; i < frees; i++) client_op(WIRE_PAGE_FREE, opened.container, old, 1, NULL);
    for (int i = 0; i < claims; i++)
        client_op(WIRE_PAGE_CLAIM, opened.container, old + i * 4096, 1, NULL);
    return 0;
}

static long run(int take, int give_back, int claim)
{
    takes = take;
    frees = give_back;
    claims = claim;
    return client_run(change, NULL);
}

int main(void)
{
    tap_plan(6);
    tap_ok(client_connect() == 0 && ask(STORE_MAKE, "jail", 0, 0, 0) == 0 &&
               ask(STORE_LIMIT, "jail", WIRE_LIMIT_PAGES, 1, MOST) == 0 &&
               client_open("jail/box", PS_CREATE | PS_WRITE, NULL, 0, 0, &opened) == 0,
           "a directory with a limit of %d pages", MOST);
    fresh = client_lease(opened.container, TAKES, NULL);
    tap_ok(fresh && run(TAKES, 0, 0) == 0 && used() == TAKES, "%d are taken", TAKES);
    long e = 0;
    for (int i = 0; i < ROUNDS && e == 0; i++) {
        old = fresh;
        fresh = client_lease(opened.container, TAKES, NULL);
        e = fresh ? run(TAKES, AGAIN, 0) : -ENOMEM;
    }
    tap_ok(e == -EDQUOT && used() <= MOST,
           "one that is given back %d times makes room for one: %ld, %lu", AGAIN, e, used());
    old = client_lease(opened.container, MOST - TAKES, NULL);
    int full = run(0, 0, MOST - TAKES) == 0 && used() == MOST;
    fresh = client_lease(opened.container, TAKES, NULL);
    e = run(1, 1, 1);                           /* what is claimed may be no more to be claimed */
    tap_ok(full && (e == -EDQUOT || e == -EACCES) && used() == MOST,
           "nor for any if it is claimed again: %ld, %lu", e, used());
    tap_ok(run(0, 1, 0) == 0 && used() == MOST - 1 && run(1, 0, 0) == 0 && used() == MOST,
           "and what is given back once is room again");
    tap_ok(client_call(STORE_CLOSE, opened.container, 0, 0, NULL, 0, NULL, 0) == 0 &&
               ask(STORE_DELETE, "jail/box", 0, 0, 0) == 0 &&
               ask(STORE_DELETE, "jail", 0, 0, 0) == 0,
           "all is deleted");
    return tap_end();
}
