/* spill.h - private copies that go to their manager's log and come back (spill.c). */
#ifndef KERNEL_SPILL_H
#define KERNEL_SPILL_H

#include "store/view.h"

/* view_spilled counts n more spilled copies. View locked. */
static inline void view_spilled(struct view *v, int n)
{
    v->copies.spilled_count += (unsigned)n;
    __atomic_fetch_add(&v->process->limits.records, (uint32_t)n, __ATOMIC_RELAXED);
}

/* view_copy_out takes a copy out of its view; `framed`: it was in memory (SP1). Leaf and view
 * locked. */
static inline void view_copy_out(struct view *v, struct copy *c, bool framed)
{
    list_remove(&c->link);
    v->copies.count -= framed;
    if (unlikely(!framed))
        view_spilled(v, -1);
    if (unlikely(c->items)) {
        v->items.count--;
        c->leaf->pages[c->slot].copies--;
    }
}

/* spill_possible tells the owner thread, in a fault, whether a spill would give it what it
 * needs. */
bool spill_possible(const struct view *v, const struct port *p);
bool spill_due(const struct view *v, const struct port *p); /* rather than evict pages of others */
/* spill_for_room: do v's copies keep one of `part` parts of what o may have in memory? */
bool spill_for_room(const struct view *v, const struct object *o, uint64_t part);
/* spill_own has copies of the calling thread's transaction go, if it has one. False: that gives no
 * memory. No locks held. */
bool spill_own(void);
/* spill_leaving tells how many copies managers have in hand, to take or commit them; 0: few. */
uint64_t spill_leaving(void);
/* spill_some and spill_bring wait for the manager. -EAGAIN: done, or doomed: look again; else
 * -errno. */
must_check int spill_some(struct view *v);
must_check int spill_bring(struct view *v, struct object *o, vaddr_t page); /* hands are full */

#endif
