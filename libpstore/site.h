/*
 * site.h - what the agent of another site asks of libpstore: transactions whose rights outlive them
 * (user/sites/remote.md).
 */
#ifndef KATYDID_SITE_H
#define KATYDID_SITE_H

#include <stddef.h>
#include <stdint.h>

#include "pstore.h"

/* ps_transaction_opt, of whose rights `holder` is the heir: a view's handle of this process that
 * was begun with KD_HOLDER. */
int ps_site_transaction(int (*fn)(void *arg), void *arg, int holder, struct ps_options options);
/* In it: the operations that go with its commit, struct wire_op as another program made them. */
int ps_site_batch(const void *batch, size_t bytes);
#endif
