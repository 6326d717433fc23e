/* stack.h - managers that stack: a transaction, the helpers of its managers, and what they enlist
 * (stack.c, stack.md). */
#ifndef KERNEL_STACK_H
#define KERNEL_STACK_H

#include "store/wait.h"

/* view_stacks tells whether v wrote to a stacked manager's object, or to several managers', or
 * helps. */
static inline bool view_stacks(const struct view *v)
{
    return v->group.other_count || v->group.rank || (v->txn.enlisted && v->txn.enlisted->rank);
}
/* port_death: what a commit at p hears, which is dead: its outcome is not known, or it is undone
 * for certain (SK5). */
static inline int port_death(const struct port *p) { return p->rank ? ECANCELED : EOWNERDEAD; }

/* port_other_error: why who stored to p's objects cannot store to another's: the next manager's? */
static inline int port_other_error(const struct port *p)
{
    return __atomic_load_n(&p->dead, __ATOMIC_RELAXED) ? -EOWNERDEAD : -EXDEV;
}
bool view_enlists(const struct view *v, const struct port *p); /* view locked */
/* port_switch enlists p beside the port that v enlisted last (SK2), whose credits in hand go back.
 * 0; -EXDEV: over another base and one of the two does not vote, not below the helper, too many;
 * -E2BIG: v has spilled. By the owner thread. */
must_check int port_switch(struct view *v, struct port *p);
/* group_ask asks each manager that v enlisted to commit, from the highest rank down, and last the
 * base; question.item is said. A helper passes its transaction on. 0 or an errno. */
must_check int group_ask(struct view *v);
must_check int group_ask_at(struct view *v, struct port *port); /* one of them; as view_ask */
struct vmask group_joined(const struct view *v); /* its helpers that are frozen and go with it */
uint64_t group_copies(const struct view *v); /* v's and its helpers'; as many credits, about */
struct view *group_claim(uint64_t id, uint64_t token); /* view_claim; a helper's: whom it helps */

/* helper_begin lets h, which just began, work for a COMMIT that its process has received. 0;
 * -ESRCH: there is no such one any more. */
must_check int helper_begin(struct view *h, uint64_t view, uint64_t token);
void helper_leave(struct view *h); /* it works for nobody any more */

#endif
