/* holder.h - holders, views that keep rights for another site, and transactions that work for them
 * (holder.c, holders.md). */
#ifndef KERNEL_HOLDER_H
#define KERNEL_HOLDER_H

#include "store/wait.h"

/* view_holds tells whether v is a holder. Owner thread, or view locked. */
static inline bool view_holds(const struct view *v)
{
    return v->state == VIEW_ACTIVE && v->txn.mode == KD_HOLDER;
}
/* holder_begin makes v, which just began, a holder, and the caller leaves it. `at`: the struct
 * kd_begin, for its number. 0 or -errno. */
must_check int holder_begin(struct view *v, const struct kd_begin *b, vaddr_t at);
void view_leave(struct view *v);       /* view.c: its thread is in no view, if it was in it */
void holder_end(struct view *v); /* it is aborted, if it is one */
/* holder_stays tells whether v is a holder whose rights outlive its thread, which ends. */
static inline bool holder_stays(const struct view *v)
{
    return view_holds(v) && v->notices.stays_ns && !v->doom;
}
/* heir_begin lets v, which just began, work for a holder. 0; -EINVAL; -EOWNERDEAD: it is over. */
must_check int heir_begin(struct view *v, const struct kd_begin *b);
static inline bool heir_is(const struct view *v) { return unlikely(v->txn.heir != WRITER_NONE); }
/* heir_has tells whether the holder that v works for, if any, has the right that v wants. Leaf
 * locked, as for the others. */
RARE bool heir_has_it(const struct view *v, const struct leaf *l, unsigned slot);
static inline bool heir_has(const struct view *v, const struct leaf *l, unsigned slot)
{
    return heir_is(v) && heir_has_it(v, l, slot);
}
/* heir_opens counts v as one that was given the right to a page that is closed (RE3), if its holder
 * has that. */
RARE bool heir_opens(struct view *v, struct leaf *l, unsigned slot);
void heir_looks(struct view *v, const struct object *o); /* dooms it where holders have no rights */
/* heir_share gives v's holder the right that v is given now. 0; -EOWNERDEAD; -ENOMEM: it has no
 * page table. */
must_check int heir_share(const struct view *v, struct leaf *l, unsigned slot);
/* heir_owes: v was given a right, which goes with its end. What it reads for write its holder has
 * exclusively. */
RARE void heir_owes(struct view *v, struct leaf *l, unsigned slot);
RARE void heir_gets_back(const struct view *v, struct page *p);
static inline void heir_return(const struct view *v, struct page *p) /* v's copy is gone */
{
    if (heir_is(v))
        heir_gets_back(v, p); /* its holder has the page exclusively */
}
/* heirs_use tells whether transactions that work for the holder have a right to the page. */
bool heirs_use(const struct view *holder, struct leaf *l, unsigned slot);
/* holders_tell tells the holders among those that v waits for what it wants: pages from `at` on. */
void holders_tell(const struct view *v, vaddr_t at, uint64_t pages);
/* holders_recall tells the holders among the users of pages that these are called back. */
void holders_recall(const struct vmask *users, vaddr_t at, uint64_t pages, unsigned access);
void holder_unheard(struct view *h); /* it is over: that notice is taken back */
void holder_doomed(struct view *h); /* a holder was doomed: it is told. View locked */
/* heirs_lack tells whether one of these, which have a right to the page, has a holder that is not
 * among those that have one; for kcheck. */
bool heirs_lack(const struct vmask *heirs, const struct vmask *rights, vaddr_t at);
/* holder_wrong returns the rule that a right of v breaks, or NULL; for kcheck. */
const char *holder_wrong(const struct view *v, pte_t e);

#endif
