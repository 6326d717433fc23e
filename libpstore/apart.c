/*
 * apart.c - ps_apart: a transaction that comes before the one that runs, which is run again then.
 *
 * What is to stay when the transaction goes, or needs items that it has itself, cannot be done in a
 * second view beside it: it would wait for the first, whose thread does not go on. So the first is
 * undone before. Who was undone often gets the container instead, and does all in one.
 */
#include "pstore_private.h"

enum { APART_MAX = 8 };

static _Thread_local struct {
    struct ps_tx *tx;
    int (*change)(void *arg);
    void *arg;
} apart;

/* run carries the change out behind the transaction's end; an error comes up in its next run. */
static void run(void *unused)
{
    (void)unused;
    struct ps_options options = {.timeout_ms = apart.tx->options.timeout_ms};
    (ps_transaction_opt)(apart.change, apart.arg, &options);
    apart.tx->again = 1;
}

int ps_apart(ps_container *c, int (*change)(void *arg), void *arg)
{
    struct ps_tx *tx = tx_writing(c);
    if (!tx)
        return -errno;
    if (items_whole(tx, c))
        return 0;
    int runs = tx->options.retries == 0 || (int)tx->aborts < tx->options.retries;
    if (tx->explicit_ || !runs || tx->aborts >= APART_MAX || ps_on_abort(run, NULL) != 0)
        return items_lock_whole(tx, c);
    apart.tx = tx;
    apart.change = change;
    apart.arg = arg;
    ps_abort(EAGAIN);
}
