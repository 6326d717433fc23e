/*
 * notice.c - what ports ask of transactions: a COMMIT, SPILL, UNSPILL or LOCK that is delivered or
 * cannot be, and the end of a port whose manager is gone (kernel/seams.c).
 *
 * Locks: those of ports and views, one at a time; each function says which its caller holds.
 */
#include "store/commit.h"
#include "store/wait.h"

void view_item_taken(struct item *i, struct notice *n)
{
    struct view *v = container_of(i, struct view, question.item);
    n->home = v;
    n->message.token = v->question.received = v->question.token;
    n->data = v->commit.batch;
    /* a later SPILL of this view brings none */
    n->data_bytes = v->commit.batch ? v->commit.batch_bytes : 0;
    v->commit.batch = NULL;
}

void view_item_lost(struct notice *n, int error)
{
    struct view *v = n->home;
    lock_acquire(&v->lock);
    if (v->question.token == n->message.token && v->question.answer == ANSWER_NONE)
        view_answer(v, error);
    lock_release(&v->lock);
}

/* views_port_dead answers all views that wait for the word of a manager that is gone. Where a
 * thread of the manager works on a view still, its call answers, or its end (view_claim_end). */
static void views_port_dead(struct port *p)
{
    views_each_locked(v, &views_all) { /* else its next transaction could be doomed for this one */
        if (v->txn.enlisted == p && v->state == VIEW_ACTIVE)
            view_doom_locked(v, EOWNERDEAD);
        else if (v->txn.enlisted == p && v->state == VIEW_COMMITTING &&
                 v->question.answer == ANSWER_NONE)
            view_answer(v, EOWNERDEAD);
    }
    lock_acquire(&p->lock);
    for (struct view *v; (v = list_take(struct view, &p->credit_queue, credits.link));) {
        v->credits.waiting = false;
        thread_wake(v->owner);
    }
    lock_release(&p->lock);
}

void store_port_dead(struct port *p)
{
    views_port_dead(p);
    objects_end(p->owner, p);
}
