/*
 * gone.c - ends of transactions, which managers hear of (VIEW_GONE).
 *
 * A port has one item for the ends of all views. An item in the view could stand at one port only:
 * a transaction may be part of several managers' work, and the view's next one may end at another
 * manager before this one has listened.
 *
 * PO4  The item is queued exactly while `views` is not empty, unless the port is dead; and it is
 *      first again after each end that was told, so what a view asks next stands behind its end.
 *
 * Locks: the port's.
 */
#include "message/gone.h"
#include "thread/trace.h"

enum { WORDS = KD_VIEW_MAX / 64 };
struct port_gone {
    uint64_t views[WORDS];
    struct { int pid; uint16_t reason; bool killed; } of[KD_VIEW_MAX];
};

bool port_hears(struct port *p)
{
    struct port_gone *none = NULL, *new = p->gone ? NULL : kalloc(sizeof *new);
    if (new && !__atomic_compare_exchange_n(&p->gone, &none, new, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
        kfree(new);
    return p->gone;
}

void port_gone(struct port *p, unsigned view, int pid, bool killed, int reason)
{
    struct port_gone *g = __atomic_load_n(&p->gone, __ATOMIC_ACQUIRE);
    struct thread *receiver = NULL;
    if (!g)
        return;
    lock_acquire(&p->lock);
    g->views[view / 64] |= 1ull << view % 64;
    g->of[view].pid = pid;
    g->of[view].reason = (uint16_t)reason;
    g->of[view].killed = killed;
    if (!p->dead && !p->view_gone.queued) {
        TRACE(POST, (uintptr_t)&p->view_gone, ITEM_VIEW_GONE - ITEM_CALL, (uint64_t)p->owner->pid);
        list_push_back(&p->items, &p->view_gone.link);
        p->view_gone.queued = true;
        receiver = list_take(struct thread, &p->receivers, wait_link);
    }
    lock_release(&p->lock);
    if (receiver)
        thread_wake(receiver);
}

void port_gone_taken(struct item *i, struct notice *n)
{
    struct port *p = container_of(i, struct port, view_gone);
    struct port_gone *g = p->gone;
    unsigned w = 0;
    while (!g->views[w])
        w++;
    unsigned view = w * 64 + (unsigned)__builtin_ctzll(g->views[w]);
    g->views[w] &= g->views[w] - 1;
    n->message.process = (uint64_t)g->of[view].pid;
    n->message.word[0] = view;
    n->message.word[1] = g->of[view].killed;
    n->message.word[2] = g->of[view].reason;
    while (w < WORDS && !g->views[w])
        w++;
    if (w == WORDS)
        return;
    list_push_front(&p->items, &i->link);
    struct thread *receiver = list_take(struct thread, &p->receivers, wait_link);
    if (receiver)
        thread_wake(receiver);
}
