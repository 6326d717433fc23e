/*
 * retry.c - ps_retry: sleep until a page changes that the transaction has read, then run again.
 *
 * The kernel tells which pages the view has used (KD_TXN_CHANGES), which may be more than this
 * transaction has: rights stay with a view. The store manager learns them while the transaction is
 * still active, so none of them can change unseen; then it is undone, and the thread waits for the
 * manager's answer. It has no rights meanwhile that others would wait for, and is in no deadlock.
 *
 * Pages of several stores are told to each store. Then a thread for each but one waits there, too,
 * and the first that hears of a change takes the watches of the others away, which wakes them.
 *
 * A name that is not there is in no page: another one may make it before the watch is set. So who
 * missed one looks once more with the watch set, which any name that is made or removed ends, and
 * sleeps only then.
 */
#include "pstore_private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { PAGES_AT_ONCE = 128 };

/* struct pages: page addresses of one store; NULL: of none yet. */
struct pages {
    struct ps_store *store;
    int told;                           /* some before, or it is the second look */
    unsigned count;
    uint64_t address[PAGES_AT_ONCE];
};

/* watch_number returns the watch's number: each view has one at most at a store. */
static uint64_t watch_number(const struct ps_tx *tx)
{
    return (uint64_t)tx->view;
}

static void note_watched(struct ps_tx *tx, struct ps_store *store)
{
    struct ps_store **w = tx->retry.watched;
    while (*w && *w != store)
        w++;
    *w = store;
}

static int pages_tell(struct ps_tx *tx, struct pages *p, int more)
{
    uint64_t word[STORE_REQUEST_WORDS] = {watch_number(tx), (uint64_t)more};
    size_t bytes = p->count * sizeof p->address[0];
    p->count = 0;
    p->told = 1;
    note_watched(tx, p->store);
    return store_request(p->store, STORE_WATCH, word, p->address, bytes, NULL, NULL);
}

static struct pages *pages_of(const struct ps_tx *tx, struct pages all[PS_STORES_MAX],
                              struct ps_store *store)
{
    struct pages *p = all;
    while (p->store && p->store != store)
        p++;
    if (p->store)
        return p;
    p->store = store;
    for (unsigned i = 0; i < PS_STORES_MAX && tx->retry.looks_again; i++)
        p->told |= tx->retry.watched[i] == store; /* new ones go behind those of the look before */
    return p;
}

static int page_add(struct ps_tx *tx, struct pages *all, const ps_container *c, uint64_t address)
{
    struct pages *p = pages_of(tx, all, c->store);
    p->address[p->count++] = address;
    return p->count == PAGES_AT_ONCE ? pages_tell(tx, p, p->told) : 0;
}

/* indexes_add adds the first page of each index looked at: it changes with each change of the
 * index, but the kernel does not tell it, if a publication took it out of the view since. */
static int indexes_add(struct ps_tx *tx, struct pages *all)
{
    const ps_container *c;
    int result = 0;
    for (unsigned i = 0; result == 0 && tx->indexes && (c = index_used(tx, i)); i++)
        result = page_add(tx, all, c, c->base);
    return result;
}

void retry_missed(struct ps_tx *tx, const struct ps_store *store)
{
    unsigned place = 0;
    for (struct ps_store *s = NULL; (s = store_after(s)) && s != store;)
        place++;
    tx->retry.missed |= 1u << place;
}

static void missed_add(const struct ps_tx *tx, struct pages *all)
{
    struct ps_store *s = NULL;
    for (unsigned left = tx->retry.missed; left && (s = store_after(s)); left >>= 1)
        if (left & 1)
            pages_of(tx, all, s);
}

/* rest_tell tells what is left; a store in which a name was missed has no page, perhaps. */
static int rest_tell(struct ps_tx *tx, struct pages all[PS_STORES_MAX])
{
    int result = 0;
    for (struct pages *p = all; p < all + PS_STORES_MAX && result == 0; p++)
        if (p->store && (p->count || !p->told))
            result = pages_tell(tx, p, p->told || !p->count);
    return result;
}

int retry_watch(struct ps_tx *tx)
{
    struct pages all[PS_STORES_MAX] = {0};
    struct kd_changes used = {0};
    int result = indexes_add(tx, all);
    while (result == 0 &&
           ps_kernel(KD_TXN_CHANGES, (long)used.address, (long)&used,
                     CHANGES_READ | CHANGES_WHERE) == 0) {
        const ps_container *c = ps_container_of((void *)(uintptr_t)used.address);
        if (c)
            result = page_add(tx, all, c, used.address);
        used.address += KD_PAGE_BYTES;
    }
    if (result == 0)
        missed_add(tx, all);
    if (result == 0)
        result = rest_tell(tx, all);
    tx->retry.waits = all[0].store != NULL;
    tx->retry.looks_again = tx->retry.missed && !tx->retry.looks_again;
    return result == 0 && !all[0].store ? -EINVAL : result;
}

/* ---- to sleep ---- */

struct sleep { struct ps_tx *tx; struct ps_store *store; uint64_t limit; long result; };

/* watch_take_away ends the watch; who waits for it hears it. Another site's store may have no room
 * for the request now (-EAGAIN); that it goes there in the end is what a thread waits for. */
static void watch_take_away(const struct ps_tx *tx, const struct ps_store *store)
{
    static const struct timespec moment = {.tv_nsec = 5000000};
    for (;;) {
        struct kd_message m = {.kind = STORE_WATCH, .word = {watch_number(tx)}, .handle = -1};
        long r = ps_kernel(KD_PORT_CALL, store->port, (long)&m, 0);
        if (r != 0 || m.status != -EAGAIN)
            return;
        nanosleep(&moment, NULL);
    }
}

static void others_wake(struct ps_tx *tx, const struct ps_store *but)
{
    for (struct ps_store **w = tx->retry.watched; w < tx->retry.watched + PS_STORES_MAX; w++)
        if (*w && *w != but)
            watch_take_away(tx, *w);
}

static void *sleep_at(void *sleep)
{
    struct sleep *s = sleep;
    struct kd_message m = {.kind = STORE_WAIT, .word = {watch_number(s->tx)}, .handle = -1};
    s->result = ps_kernel(s->limit ? KD_PORT_CALL_UNTIL : KD_PORT_CALL, s->store->port, (long)&m,
                          (long)s->limit);
    others_wake(s->tx, s->store);
    return NULL;
}

/* sleep_at_all sleeps at all; what the first one said. Who can have no threads looks again soon. */
static long sleep_at_all(struct ps_tx *tx, uint64_t limit)
{
    static const struct timespec moment = {.tv_nsec = 20000000};
    struct sleep s[PS_STORES_MAX] = {{tx, tx->retry.watched[0], limit, 0}};
    pthread_t thread[PS_STORES_MAX];
    sigset_t all_signals, own;
    unsigned n = 1;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &own); /* no handler runs there */
    for (; n < PS_STORES_MAX && tx->retry.watched[n]; n++) {
        s[n] = (struct sleep){tx, tx->retry.watched[n], 0, 0};
        if (pthread_create(&thread[n], NULL, sleep_at, &s[n]))
            break;
    }
    int all = n == PS_STORES_MAX || !tx->retry.watched[n];
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    if (all) {
        sleep_at(&s[0]);
    } else {
        (void)nanosleep(&moment, NULL); /* or less, by a signal */
        others_wake(tx, NULL);
    }
    while (--n > 0) {
        pthread_join(thread[n], NULL);
        if (s[n].result == -EOWNERDEAD || s[n].result == -EBADF)
            s[0].result = s[n].result;
    }
    return s[0].result;
}

int retry_wait(struct ps_tx *tx)
{
    uint64_t limit = tx->options.timeout_ms, now = now_ms();
    tx->retry.waits = 0;
    if (tx->retry.looks_again)
        return 0;
    if (!tx->retry.since_ms)
        tx->retry.since_ms = now;
    uint64_t slept = now - tx->retry.since_ms;
    long result = limit && slept >= limit ? -ETIMEDOUT
                                          : sleep_at_all(tx, limit ? limit - slept : 0);
    if (result == -ETIMEDOUT)
        return -ETIMEDOUT;
    memset(tx->retry.watched, 0, sizeof tx->retry.watched); /* what has told is no watch any more */
    if (result == -EOWNERDEAD || result == -EBADF)
        stores_note_death();
    return 0;                           /* whatever woke it: look again */
}

void retry_end(struct ps_tx *tx)
{
    others_wake(tx, NULL);
    memset(tx->retry.watched, 0, sizeof tx->retry.watched);
}
