/* parts.h - transactions of several bases (parts.c, parts.md). */
#ifndef KERNEL_PARTS_H
#define KERNEL_PARTS_H

#include "store/view.h"

/* parts_possible tells whether v, which has stored to some bases' objects, may store to p's. */
bool parts_possible(const struct view *v, const struct port *p);
/* parts_enlist finds the commit port that a batch sent to this handle goes to, which v enlists.
 * 0; -EXDEV: it cannot, -EINVAL: it leads to no base, -EOWNERDEAD, -EBADF, -E2BIG. Owner thread. */
must_check int parts_enlist(struct view *v, int handle, struct port **out);
/* parts_batch returns the batch for the port that v asks, or NULL. */
struct data *parts_batch(struct view *v);
/* parts_batch_twice: one of KD_TXN_BATCH goes to the same base as the one of the commit. */
bool parts_batch_twice(struct view *v);
void parts_drop(struct view *v); /* batches that nobody has asked for; by the owner thread */
/* parts_ask asks the bases below all that v and its helpers enlist: one, to commit; several, to
 * vote, to decide, and to do what is decided. 0, or an errno: it is undone; EOWNERDEAD, EIO:
 * nobody can know. By the owner thread, which may have no process afterwards. */
must_check int parts_ask(struct view *v);
/* parts_snapshot_begin begins a snapshot of what is published now, when no transaction is shown by
 * one base and not by another whose objects the process has. 0, -EINTR, -ETIMEDOUT, or as
 * version_snapshot_begin; timeout_ms 0: any time. */
must_check int parts_snapshot_begin(struct view *v, uint32_t timeout_ms);
/* parts_port_dead: a port has died, and what its manager had voted for is not waited for. */
void parts_port_dead(struct port *p);
/* parts_torn tells whether v's snapshot may show a half of a transaction to this process, as it is
 * by now. 0; -EDEADLK: it is to begin anew; -ESTALE: at another point. By the owner thread. */
must_check int parts_torn(const struct view *v);

#endif
