/*
 * credit.c - credits: private copies for which a manager has set log and disk space aside
 * (eviction.md). A port whose manager never granted any has no such limit.
 *
 * A grant of 0 says "there is nothing more", unless something was consumed since the last such
 * grant: then the manager is asked once more. The first waiter finds out itself that no other view
 * holds credits, so that none dooms a transaction that goes on already.
 *
 * CE1  Of a manager that grants, port->credits are those left, `held` those that views have and
 *      have not logged.
 * CE2  A view stands in the queue exactly while credits.waiting is set.
 *
 * Locks: port->lock; the graph lock is taken outside it.
 */
#include "process/handle.h"
#include "store/spill.h"
#include "store/stack.h"
#include "store/wait.h"
#include "store/evict.h"

static struct view *head(struct port *p)
{
    return list_empty(&p->credit_queue) ? NULL
                                        : list_first(&p->credit_queue, struct view, credits.link);
}

static void leave(struct view *v, struct port *p)
{
    if (!v->credits.waiting)
        return;
    list_remove(&v->credits.link);
    v->credits.waiting = false;
    list_for(l, &p->credit_queue) /* the first may have its turn, the others one edge less */
        thread_wake(container_of(l, struct view, credits.link)->owner);
}

void credit_leave(struct view *v)
{
    struct port *p = v->txn.enlisted; /* at which it waits */
    lock_acquire(&p->lock);
    leave(v, p);
    lock_release(&p->lock);
}

enum { CREDITS_AT_ONCE = 8, CREDITS_PLENTY = 1024, CREDITS_UNLIMITED = 256 };
enum { CREDITS_SHARE = 32 }; /* of what its process may have: other views of it want some, too */

static void add_holders(const struct port *p, struct vmask *m)
{
    for (int i = 0; i < KD_VIEW_MAX; i++)
        if ((views[i].copies.count || views[i].reserve.credits) && view_enlists(&views[i], p))
            vmask_set(m, (unsigned)i);
}

/* credit_wait sleeps in the port's queue. -EAGAIN: v has waited, or is doomed; -ETIMEDOUT. */
static int credit_wait(struct view *v, const struct vmask *on)
{
    waits_clear(v);
    waits_add(v, on, WAIT_ALL);
    int e = waits_sleep(v, KD_TRACE_FOR_CREDIT, 0, 0);
    return e == -ETIMEDOUT ? e : -EAGAIN;
}

/* credit_take takes a credit for v. 0; -EAGAIN: waited, or doomed; -EOWNERDEAD; -ENOSPC, -E2BIG:
 * there will never be one, or its process may have no more; -ENOBUFS: only if the transaction's own
 * copies give some back (spill.c). */
int credit_take(struct view *v, struct port *p)
{
    struct vmask on = {0};
    lock_acquire(&p->lock);
    int result = 0;
    bool low = false;
    if (p->dead)
        result = -EOWNERDEAD;
    else if (p->credits_used && (p->credits == 0 || (head(p) && head(p) != v)))
        result = -EAGAIN;
    if (result == -EAGAIN && !v->credits.waiting) {
        assert(list_empty(&v->credits.link)); /* CE2 */
        list_push_back(&p->credit_queue, &v->credits.link);
        v->credits.waiting = true;
        low = true;
    }
    if (result == -EAGAIN && p->exhausted && p->credits == 0 && spill_possible(v, p)) {
        leave(v, p);
        result = -ENOBUFS;
    }
    bool last = result == -EAGAIN && p->exhausted && p->credits == 0 && head(p) == v;
    if (last && p->held <= group_copies(group_of(v))) { /* nobody else has any */
        leave(v, p);
        result = v->copies.count ? -E2BIG : -ENOSPC;
    }
    if (result == -EAGAIN)
        views_before(&on, v, &p->credit_queue, credits.link);
    uint64_t n = 0;
    if (!result) { /* several at once while there are plenty: the rest stays in hand */
        uint64_t room = limit_left(v->process, KD_LIMIT_COPIES), at_once = 1;
        if (!p->credits_used)
            at_once = CREDITS_UNLIMITED;
        else if (p->credits > CREDITS_PLENTY)
            at_once = CREDITS_AT_ONCE;
        n = limit_charge_some(v->process, KD_LIMIT_COPIES, MIN(at_once, room / CREDITS_SHARE + 1));
        if (n == 0)
            result = spill_possible(v, p) ? -ENOBUFS : -E2BIG;
        leave(v, p);
    }
    if (!result) {
        if (p->credits_used) {
            low = p->credits > p->credits_low && p->credits - n <= p->credits_low;
            assert(n <= p->credits); /* CE1 */
            p->credits -= n;
            p->held += n;
        }
        v->reserve.credits += n;
        v->credits.charged += n;
    }
    lock_release(&p->lock);
    if (low)
        port_post(p, &p->credit_low);
    if (last && result == -EAGAIN)
        add_holders(p, &on);
    return result == -EAGAIN ? credit_wait(v, &on) : result;
}

void credit_return(struct port *p, uint64_t n)
{
    lock_acquire(&p->lock);
    n = MIN(n, p->held); /* others were taken while there was no limit */
    p->held -= n;
    p->credits += n;
    struct view *v = head(p);
    if (v)
        thread_wake(v->owner);
    lock_release(&p->lock);
}

void credit_consume(struct port *p, uint64_t n)
{
    lock_acquire(&p->lock);
    n = MIN(n, p->held);
    p->held -= n;
    p->consumed += n;
    bool low = n && p->exhausted; /* a checkpoint helps again */
    if (low)
        p->exhausted = false;
    lock_release(&p->lock);
    if (low)
        port_post(p, &p->credit_low);
}

HANDLE_CALL(kd_credit_grant, struct port *p, HANDLE_PORT, KD_RIGHT_MANAGE, 0)
{
    uint64_t n = a[1];
    if (n > KD_CREDITS_CLOSED)
        return -EINVAL;
    lock_acquire(&p->lock);
    p->credits_used = true;
    p->credits += n;
    if (n)
        p->credits_low = p->credits / 4;
    bool again = n == 0 && p->consumed; /* what was logged meanwhile, a checkpoint gives back */
    p->exhausted = n == 0 && !again;
    if (n == 0)
        p->consumed = 0;
    /* the first takes some; who holds many may spill, if there are none */
    list_for(l, &p->credit_queue) {
        thread_wake(container_of(l, struct view, credits.link)->owner);
        if (!p->exhausted)
            break;
    }
    long left = (long)p->credits;
    lock_release(&p->lock);
    if (again)
        port_post(p, &p->credit_low);
    if (n == KD_CREDITS_CLOSED)
        p->closed = true;
    return left;
}
