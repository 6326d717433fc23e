/*
 * outcome.c - what became of a commit that nobody answered: one to another site's store has an id,
 * and that site is asked in the next session (user/sites/remote.md).
 *
 * Who asks is the thread that committed, before its ps_transaction returns; it waits for that
 * session. What a store of this machine did not answer is not asked for.
 */
#include "pstore_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define PATIENCE_SECONDS 30             /* the other site is waited for */

int stores_elsewhere;
static __thread struct { struct ps_store *store; uint64_t number, session; } asked;

/* number_draw draws a number that nobody has drawn before; 0: none can be drawn. */
static uint64_t number_draw(void)
{
    static _Atomic uint64_t base, count;
    uint64_t now = atomic_load(&base), drawn = 0;
    if (!now && getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        return 0;
    if (!now && atomic_compare_exchange_strong(&base, &now, drawn | 1))
        now = drawn | 1;
    return now + 2 * atomic_fetch_add(&count, 1);
}

/* container_of_ops returns that of the first operation: perhaps only names change, no page. */
static ps_container *container_of_ops(const struct tx_ops *ops)
{
    const struct wire_op *first = (const struct wire_op *)ops->ops;
    for (int i = 0; i < PS_OPEN_MAX; i++) {
        ps_container *c = container_by_index(i);
        if (container_is_open(c) && c->store == ops->store && c->id == first->container)
            return c;
    }
    return NULL;
}

/* decider finds a changed container of the store that decides, as far as known here, if that is
 * another site's: the store of the operations that go with the commit, or else of the pages. */
static ps_container *decider(const struct ps_tx *tx)
{
    ps_container *found = NULL;
    uint64_t page;
    if (tx->now->bytes)
        return tx->now->store->session ? container_of_ops(tx->now) : NULL;
    for (struct ps_store *s = NULL; (s = store_after(s));) {
        if (!store_changed(s, &page))
            continue;
        ps_container *c = ps_container_of((void *)(uintptr_t)page);
        if (!s->session || !c || c->store != s)
            return NULL;
        found = found ? found : c;
    }
    return found;
}

int outcome_mark(struct ps_tx *tx)
{
    asked.store = NULL;
    ps_container *c = decider(tx);
    uint64_t number = c ? number_draw() : 0;
    if (!number)
        return 0;
    struct ps_store *s = c->store;
    int result = tx_op_bytes(tx, WIRE_ID, c, number, s->session, NULL, 0);
    if (result == 0) {
        asked.store = s;
        asked.number = number;
        asked.session = s->session;
    }
    return result;
}

int outcome_marked(void) { return asked.store != NULL; }

static int outcome_now(void)
{
    uint64_t word[STORE_REQUEST_WORDS] = {asked.session, asked.number};
    int result = stores_refresh();
    if (result == 0)
        result = store_request(asked.store, STORE_OUTCOME, word, NULL, 0, NULL, NULL);
    if (result != 0)
        return result;
    return word[0] == WIRE_COMMITTED ? 0 : word[0] == WIRE_UNDONE ? -ECANCELED : -ENOTRECOVERABLE;
}

/* comes_again: did a session end again, or is it not there yet? */
static int comes_again(int result)
{
    return result == -EOWNERDEAD || result == -ENOTCONN || result == -EAGAIN || result == -EBUSY;
}

int outcome_ask(void)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    struct timespec now, begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    stores_note_death();
    for (;;) {
        int result = outcome_now();
        if (result == 0 || result == -ECANCELED)
            return result;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!comes_again(result) || now.tv_sec - begun.tv_sec > PATIENCE_SECONDS)
            return -ENOTRECOVERABLE;
        nanosleep(&moment, NULL);
    }
}
