/* wait.h - the views a transaction waits for: queues of pages and containers, credits, the
 * waits-for graph (conflict.c, container_lock.c, credit.c). */
#ifndef KERNEL_WAIT_H
#define KERNEL_WAIT_H

#include "store/right.h"

extern struct lock graph_lock;

/* group_of returns the transaction that v works for: its own, or of a helper the one it helps. */
static inline struct view *group_of(const struct view *v)
{
    struct view *of = __atomic_load_n(&v->group.of, __ATOMIC_RELAXED);
    return of ? of : (struct view *)v;
}

/* waiters_wake wakes the first view that waits for the page, to look again. Leaf locked. */
static inline void waiters_wake(const struct page *p)
{
    if (p->queue)
        thread_wake(views[p->queue - 1].owner);
}

/* conflict.c: queues, callbacks, the waits-for graph */
void queue_leave(struct view *v);               /* leaf locked; wakes the new head (KR3) */
/* conflict_test does FT5, FT6 and CF1 to CF5, but for the sleep; e is v's PTE. 0: v may have the
 * page; 1: it is to sleep; -EBUSY: but is not to (KD_HINT_NOW); -EAGAIN: doomed. Leaf locked. */
must_check int conflict_test(struct view *v, struct leaf *l, unsigned slot, pte_t e);
/* conflict_take takes the rights that v->wait.want conflicts with, where it may; the debt is to be
 * paid before the leaf is unlocked. True: transactions are left, and v has edges to them. Leaf
 * locked. */
bool conflict_take(struct view *v, struct leaf *l, unsigned slot, struct debt *debt);
/* view_yields takes w's right to the page, unless its transaction has used it; with `shared` an
 * idle view keeps a shared one. False: it is in the way. Leaf and w locked. */
bool view_yields(struct view *w, struct page *p, vaddr_t at, bool shared, struct debt *debt);
void view_doom(struct view *v, int reason);     /* if it is active; wakes or kicks its owner */
void view_doom_locked(struct view *v, int reason); /* the same; it is, and is locked */
/* group_doom takes back the commit that v is part of, unless the base has it. View locked. */
void group_doom(const struct view *v);
void doom_locked(struct view *v, int reason); /* the same; graph lock held */
void stack_waits(struct view *v); /* it asks a stacked manager: search (SK13) */
void stack_waits_end(const struct view *v); /* its commit is over; graph lock held */
void group_clear(const struct view *v, struct vmask *m); /* takes v and all of its group out */
void view_wake_waiters(struct view *v);         /* all that wait for v; after it became idle */
void waits_clear(struct view *v);
void waits_edge(struct view *v, struct view *w); /* on w, which is locked and not idle */
static inline bool waits_none(const struct view *v)
{
    return vmask_empty(&v->wait.holders) && !v->wait.is_told;
}
static inline void waits_none_now(struct view *v) /* graph lock held */
{
    v->wait.holders = v->wait.told = (struct vmask){0};
    v->wait.is_told = false;
}
/* views_before adds the views that stand before v in a queue, in which they are by `member`. */
#define views_before(m, v, queue, member)                        \
    list_each(const struct view, before_, queue, member) {        \
        if (before_ == (v))                                       \
            break;                                                \
        vmask_set((m), before_->id);                              \
    }
/* not: edges are added yet; any: one will do; told: by a manager, whatever the view's own are */
enum wait_kind { WAIT_NOT, WAIT_ALL, WAIT_ANY, WAIT_TOLD };
void waits_add(struct view *v, const struct vmask *on, enum wait_kind k); /* and searches */
/* waits_sleep sleeps in a queue. 0: look again; -ECANCELED: doomed or killed; -ETIMEDOUT. */
HOT int waits_sleep(struct view *v, enum kd_trace_wait what, vaddr_t at, uint64_t which)
{
    TRACE(WAIT, what, at, which);
    int e = v->doom ? -ECANCELED : thread_park_until(v->txn.deadline_ns);
    return v->doom || thread_this()->killed ? -ECANCELED : e;
}
bool want_x_has(const struct view *v, vaddr_t at);

/* container_lock.c */
enum lock_mode { LOCK_PAGE_READ, LOCK_PAGE_WRITE, LOCK_SHARED, LOCK_EXCLUSIVE };
/* container_shut tells whether others may have o locked; then container_admits() decides. Leaf
 * locked. */
static inline bool container_shut(const struct view *v, const struct object *o)
{
    uint32_t state = __atomic_load_n(&o->container_lock.state, __ATOMIC_SEQ_CST);
    return state && state != v->id + 1u;
}
/* container_admits tells whether v may get a page. If not, v is queued, with edges, and is to
 * sleep. Leaf locked. */
bool container_admits(struct view *v, struct leaf *l, unsigned slot, bool write);
bool container_locked_by(const struct view *v, const struct object *o);
int container_owner(struct object *o);          /* the exclusive holder, drained; or WRITER_NONE */
void container_lock_leave(struct view *v);      /* the queue, if it stands in one */
/* container_locks_end gives up the locks of a view whose transaction is over. Locks go before the
 * edges of views that wait for it (they may add one until then), and the edges before it leaves
 * `drains` (walk_end trusts them). */
void container_locks_end(struct view *v);
bool container_locks_wanted(const struct view *v); /* a view waits for one of them */
void container_drains_leave(struct view *v);
/* so many containers are drained, and views use what is called back; atomic, so that an end need
 * not look */
extern uint32_t view_ends_watched;
must_check int container_lock_at(struct view *v, vaddr_t at, unsigned how); /* KD_TXN_LOCK */
/* container_escalate counts a fault at o; when there were enough, v locks o if that is free. */
void container_escalate(struct view *v, struct object *o, bool write);
void container_lock_init(struct container_lock *c);
void container_lock_dead(struct object *o);     /* views that wait look again */

/* item_lock.c */
void item_locks_init(void);
long item_policy(struct object *o, uint64_t policy, uint64_t value); /* KD_POLICY_ITEMS, _OWN */
void item_notes_end(struct view *v);            /* locks of who may not write; it is idle */
void item_view_gone(struct view *v);            /* its number will be another's (IT12) */
void item_locks_end(struct object *o);          /* it is dead: its table goes */
/* lock_over ends a call that locks something: a view that is doomed goes to its entry. Returns
 * e. */
long lock_over(struct view *v, int e);          /* begin.c */

/* credit.c */
must_check int credit_take(struct view *v, struct port *p);
void credit_leave(struct view *v);
void credit_return(struct port *p, uint64_t n);
void credit_consume(struct port *p, uint64_t n);

#endif
