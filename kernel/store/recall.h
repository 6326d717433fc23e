/*
 * recall.h - questions of faults to managers, for pages and for rights to them, and the answers
 * (page.c); rights that are called back (recall.c).
 */
#ifndef KERNEL_RECALL_H
#define KERNEL_RECALL_H

#include "store/page.h"

/* struct page_wait: a fault that waits for its page, or for a right to it. Once it was given a
 * right, it stays in the list until it has used it, or has gone. */
struct page_wait {
    struct list link;        /* leaf->waits */
    struct leaf *leaf;       /* while it is in the list; leaf lock */
    vaddr_t at;              /* the page, so long; others look at it without the lock */
    struct thread *thread;
    struct view *view;       /* NULL: no transaction's */
    uint64_t slots;          /* other pages for which it was given the same */
    uint32_t number;         /* of its own question to the manager: odd; 0: another thread asked */
    int error;
    uint8_t slot, rights;    /* rights: given to it */
    bool done;
    bool due;                /* it was given the page, and has not run since; atomic (EV12) */
    bool old;                /* for what its snapshot sees: by the answer to its question alone */
    struct item item;        /* the PAGE message */
};

/* answer_until returns when a thread that asks a manager now gives up: at until_ns, or before that
 * by its process's KD_LIMIT_ANSWER. */
static inline uint64_t answer_until(uint64_t until_ns)
{
    uint64_t most = process_this()->limits.most[KD_LIMIT_ANSWER], ns = most * 1000000;
    return likely(most == LIMIT_ANSWER_EVER) ? until_ns : MIN(until_ns, arch_time_ns() + ns);
}
/* page_request asks the manager for a page, or more behind it, or for a right (`access` has
 * KD_PAGE_HERE: it is resident; KD_PAGE_OLD: for the view's snapshot), and waits. Leaf locked on
 * entry, not on return. 0: look again; -errno of the manager; -EINTR: killed, doomed;
 * -ETIMEDOUT. */
must_check int page_request(struct page_wait *w, struct leaf *l, unsigned slot, unsigned access,
                            uint64_t pages, uint64_t deadline_ns);
static inline void page_wait_init(struct page_wait *w, struct view *v)
{
    list_init(&w->link);
    list_init(&w->item.link);
    w->item.queued = w->old = w->due = false;
    w->leaf = NULL;
    w->view = v;
    w->at = w->slots = w->rights = 0;
}
/* pages_due tells which pages were given to faults whose threads have not run since. Leaf
 * locked. */
static inline uint64_t pages_due(const struct leaf *l)
{
    uint64_t slots = 0;
    list_each(const struct page_wait, w, &l->waits, link)
        slots |= (uint64_t)__atomic_load_n(&w->due, __ATOMIC_RELAXED) << w->slot;
    return slots;
}
/* page_wait_over: the fault goes on or ends, and is in no list any more. Leaf locked. */
static inline void page_wait_over(struct page_wait *w)
{
    list_remove(&w->link);
    w->leaf = NULL;
    w->due = false;
    w->at = w->slots = 0;
}
/* recall_user_gone: the view's transaction is over, and managers hear it that call back what it
 * used. */
void recall_user_gone(struct view *v);
bool recall_wrong(struct object *o); /* for kcheck: RE5 is broken */

#endif
