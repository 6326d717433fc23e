/* elsewhere.h - transactions with stores of other sites: part of pstore_private.h. */
#ifndef PSTORE_ELSEWHERE_H
#define PSTORE_ELSEWHERE_H

#include "pstore_private.h"

/* ---- outcome.c: commits to another site's store that got no answer ---- */
extern int stores_elsewhere;             /* so many of the connected ones are other sites' */
/* outcome_mark gives a commit an id before it, if it can be asked for. 0 or -errno. outcome_marked:
 * has the thread's last commit one? */
int outcome_mark(struct ps_tx *tx);
int outcome_marked(void);
/* outcome_ask asks about that: 0: committed; -ECANCELED: undone; -ENOTRECOVERABLE: unknown. */
int outcome_ask(void);

/* ---- site.c: snapshots ---- */
/* tx_begin_now is KD_TXN_BEGIN; in a snapshot that is no shared point each home has a part. */
int site_snapshot_begin(struct ps_tx *tx) __attribute__((cold));
static inline int tx_begin_now(struct ps_tx *tx)
{
    int parts = stores_elsewhere && tx->options.isolation == PS_SNAPSHOT && !tx->options.snapshot;
    return parts ? site_snapshot_begin(tx)
                 : (int)ps_kernel(KD_TXN_BEGIN, (long)&tx->begin, 0, 0);
}

#endif
