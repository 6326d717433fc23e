/*
 * credit.c - credits: private copies for which a manager has set log and disk space aside (B4).
 *
 * A port whose manager never granted any has no such limit. Each first write takes a credit; abort
 * and unchanged copies give it back; a logged copy consumes it until the manager grants it again,
 * after a checkpoint. Waiting is FIFO. A grant of 0 says "there is nothing more": then who waits
 * depends on those that hold credits now, and if nobody does it will never fit.
 *
 * Locks: port->lock; the graph lock is taken outside it.
 */
#include "view.h"

static struct view *head(struct port *p)
{
    return list_empty(&p->credit_queue) ? NULL
                                        : list_first(&p->credit_queue, struct view, credit_link);
}

static void leave(struct view *v, struct port *p)
{
    if (!v->credit_waiting)
        return;
    list_remove(&v->credit_link);
    v->credit_waiting = false;
    struct view *next = head(p);
    if (next)
        thread_wake(next->owner);
}

void credit_leave(struct view *v)
{
    struct port *p = v->enlisted;
    if (!p)
        return;
    lock_acquire(&p->lock);
    leave(v, p);
    lock_release(&p->lock);
}

enum { CREDITS_AT_ONCE = 8, CREDITS_PLENTY = 1024, CREDITS_UNLIMITED = 1 << 20 };

/* 0: taken; -EAGAIN: waited, or doomed; -EOWNERDEAD. */
int credit_take(struct view *v, struct port *p)
{
    lock_acquire(&p->lock);
    int result = 0;
    bool low = false;
    if (p->dead)
        result = -EOWNERDEAD;
    else if (p->credits_used && (p->credits == 0 || (head(p) && head(p) != v)))
        result = -EAGAIN;
    if (result == -EAGAIN && !v->credit_waiting) {
        list_push_back(&p->credit_queue, &v->credit_link);
        v->credit_waiting = true;
        low = true;
    }
    if (!result) {
        uint64_t n = 1; /* several at once while there are plenty: the rest stays in hand */
        if (!p->credits_used)
            n = CREDITS_UNLIMITED;
        else if (p->credits > CREDITS_PLENTY)
            n = CREDITS_AT_ONCE;
        if (p->credits_used) {
            low = p->credits > p->credits_low && p->credits - n <= p->credits_low;
            p->credits -= n;
            p->held += n;
        }
        v->credits_hand += n;
        leave(v, p);
    }
    lock_release(&p->lock);
    if (low)
        port_post(p, &p->credit_low);
    if (result == -EAGAIN) {
        int e = thread_park_until(v->deadline_ns);
        if (e == -ETIMEDOUT)
            result = e;
        if (v->doom || e)
            credit_leave(v);
    }
    return result;
}

void credit_return(struct port *p, uint64_t n)
{
    lock_acquire(&p->lock);
    if (p->credits_used) {
        p->held -= MIN(n, p->held);
        p->credits += n;
    }
    struct view *v = head(p);
    if (v)
        thread_wake(v->owner);
    lock_release(&p->lock);
}

void credit_consume(struct port *p, uint64_t n)
{
    lock_acquire(&p->lock);
    if (p->credits_used) {
        p->held -= MIN(n, p->held);
        p->consumed += n;
    }
    lock_release(&p->lock);
}

/* Nothing more comes: the first waiter waits for those that hold credits, or gives up. */
static void refuse_waiter(struct port *p)
{
    struct vmask holders = {0};
    lock_acquire(&p->lock);
    struct view *v = p->consumed == 0 && p->credits == 0 ? head(p) : NULL;
    lock_release(&p->lock);
    if (!v)
        return;
    for (int i = 0; i < KD_VIEW_MAX; i++)
        if (&views[i] != v && (views[i].credits || views[i].credits_hand) && views[i].enlisted == p)
            vmask_set(&holders, (unsigned)i);
    if (vmask_empty(&holders))
        view_doom(v, v->credits ? E2BIG : ENOSPC);
    else
        waits_add(v, &holders);
}

long credit_grant(struct port *p, uint64_t n)
{
    lock_acquire(&p->lock);
    if (n > 1ull << 32) {
        lock_release(&p->lock);
        return -EINVAL;
    }
    p->credits_used = true;
    p->credits += n;
    p->consumed -= MIN(n, p->consumed);
    if (n)
        p->credits_low = p->credits / 4;
    struct view *v = head(p);
    if (v && n)
        thread_wake(v->owner);
    long left = (long)p->credits;
    lock_release(&p->lock);
    if (n == 0)
        refuse_waiter(p);
    return left;
}
