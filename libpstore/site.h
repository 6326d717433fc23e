/*
 * site.h - what the agent of another site asks of libpstore: transactions whose rights outlive them
 * (user/sites/remote.md).
 */
#ifndef KATYDID_SITE_H
#define KATYDID_SITE_H

#include <stddef.h>
#include <stdint.h>

#include "pstore.h"

/* ps_site_transaction is ps_transaction_opt, of whose rights `holder` is the heir: a view's handle
 * of this process that was begun with KD_HOLDER. Its ticket is this one, which a view of this
 * machine had since the holder began (ps_site_ticket); 0: a new one. */
int ps_site_transaction(int (*fn)(void *arg), void *arg, int holder, uint64_t ticket,
                        struct ps_options options);
/* ps_site_ticket gives its ticket, in it. Lower is older; of a deadlock the youngest is undone. */
uint64_t ps_site_ticket(void);
/* ps_site_batch adds operations to its commit, in it: struct wire_op of another program. */
int ps_site_batch(const void *batch, size_t bytes);

/* ps_site_note has its commit note two words in the container, under this number, in place of what
 * was noted there. */
int ps_site_note(ps_container *c, unsigned number, const uint64_t word[2]);
/* ps_site_notes tells all that ended commits have noted there, in no order. 0 or -errno. */
int ps_site_notes(ps_container *c, void (*fn)(unsigned number, const uint64_t word[2]));

/* STORE_SNAPSHOT, to "SITE/store", beside store_protocol.h, begins a snapshot at the home; word0 1:
 * it uses other stores, too; data: the names of those that are other sites', one behind the other
 * with a NUL each -> a handle as of KD_SNAPSHOT_SHARE: a snapshot that begins there sees the homes'
 * state where nothing is cached here, and all are of one moment. -EAGAIN: there are too many, a
 * home is away, or they do not stand still. -EACCES: the caller has nothing open of one of them. */
enum { STORE_SNAPSHOT = 0x1100 };

/* ---- data that look otherwise at another site (user/sites/types.md) ---- */
#define SITE_TYPES_NAME "\6types"       /* the object in a container that has its description */
#define SITE_TYPES_BYTES 4000

/* ps_site_declare describes this program's data, their types: goes with each ps_open of another
 * site's container from now on. NULL: as at their home. The text stays the caller's. -E2BIG. */
int ps_site_declare(const char *text);
/* ps_site_describe says, in a transaction, how data look at home. -E2BIG; or as ps_named. */
int ps_site_describe(ps_container *c, const char *text);
/* ps_site_refused tells what ps_open of this thread was refused for with EPROTOTYPE: the name of a
 * type or an object that only one of both sites describes, or that cannot be converted. */
const char *ps_site_refused(void);
#endif
