/*
 * retry.c - ps_retry: sleep until a page changes that the transaction has read, then run again.
 *
 * The kernel tells which pages the view has used (KD_TXN_CHANGES), which may be more than this
 * transaction has: rights stay with a view. The store manager learns them while the transaction is
 * still active, so none of them can change unseen; then it is undone, and the thread waits for the
 * manager's answer. It has no rights meanwhile that others would wait for, and is in no deadlock.
 *
 * A name that is not there is in no page: another one may make it before the watch is set. So who
 * missed one looks once more with the watch set, which any name that is made or removed ends, and
 * sleeps only then.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { PAGES_AT_ONCE = 128 };

struct pages {
    struct ps_store *store;             /* whose they are; NULL: there was none */
    unsigned count;
    uint64_t address[PAGES_AT_ONCE];
};

/* The number of the watch: each view has one at most. */
static uint64_t watch_number(const struct ps_tx *tx)
{
    return (uint64_t)tx->view;
}

static int pages_tell(struct ps_tx *tx, struct pages *p, int more)
{
    uint64_t word[STORE_REQUEST_WORDS] = {watch_number(tx), (uint64_t)more};
    size_t bytes = p->count * sizeof p->address[0];
    p->count = 0;
    tx->retry.watched = p->store;
    return store_request(p->store, STORE_WATCH, word, p->address, bytes, NULL, NULL);
}

/* The store that the pages are of; NULL: there are none, and it is that of the name. Not both. */
static int store_set(struct pages *p, struct ps_store *store)
{
    if (p->store && store && p->store != store)
        return -EXDEV;
    p->store = store ? store : p->store;
    return 0;
}

/* The first page of each index that it has looked at: that changes with each change of the index,
 * but the kernel does not tell it, if a publication has taken it out of the view since. */
static int indexes_add(const struct ps_tx *tx, struct pages *p)
{
    const ps_container *c;
    int result = 0;
    for (unsigned i = 0; result == 0 && tx->indexes && (c = index_used(tx, i)); i++) {
        result = store_set(p, c->store);
        p->address[p->count++] = c->base;
    }
    return result;
}

int retry_watch(struct ps_tx *tx)
{
    struct pages p = {0};
    struct kd_changes used = {0};
    int told = tx->retry.looks_again; /* behind those of the look before */
    int result = indexes_add(tx, &p);
    while (result == 0 &&
           ps_kernel(KD_TXN_CHANGES, (long)used.address, (long)&used,
                     CHANGES_READ | CHANGES_WHERE) == 0) {
        const ps_container *c = ps_container_of((void *)(uintptr_t)used.address);
        result = store_set(&p, c ? c->store : NULL);
        if (c && result == 0)
            p.address[p.count++] = used.address;
        if (p.count == PAGES_AT_ONCE)
            result = pages_tell(tx, &p, told++ > 0);
        used.address += KD_PAGE_BYTES;
    }
    if (result == 0)
        result = store_set(&p, tx->retry.missed);
    if (result == 0 && (p.count || (p.store && !told)))
        result = pages_tell(tx, &p, told > 0 || !p.count);
    tx->retry.waits_for = p.store;
    tx->retry.looks_again = tx->retry.missed && !tx->retry.looks_again;
    return result == 0 && !p.store ? -EINVAL : result;
}

int retry_wait(struct ps_tx *tx)
{
    struct kd_message m = {.kind = STORE_WAIT, .word = {watch_number(tx)}, .handle = -1};
    struct ps_store *store = tx->retry.waits_for;
    uint64_t limit = tx->options.timeout_ms, now = now_ms();
    tx->retry.waits_for = NULL;
    if (tx->retry.looks_again)
        return 0;
    if (!tx->retry.since_ms)
        tx->retry.since_ms = now;
    uint64_t slept = now - tx->retry.since_ms;
    long result = limit && slept >= limit ? -ETIMEDOUT
                  : ps_kernel(limit ? KD_PORT_CALL_UNTIL : KD_PORT_CALL, store->port, (long)&m,
                              (long)(limit - slept));
    if (result == -ETIMEDOUT)
        return -ETIMEDOUT;
    tx->retry.watched = NULL;                  /* what has told is no watch any more */
    if (result == -EOWNERDEAD || result == -EBADF)
        stores_note_death();
    return 0;                           /* whatever woke it: look again */
}

void retry_end(struct ps_tx *tx)
{
    if (!tx->retry.watched)
        return;
    struct pages none = {.store = tx->retry.watched};
    pages_tell(tx, &none, 0);
    tx->retry.watched = NULL;
}
