/*
 * stack.c - managers that stack: one transaction through several managers, one commit at the base
 * below them all (stack.md; the rules' labels SK1.. are those of tests/model/stack.md).
 *
 * The owner thread of a transaction asks its managers one after the other (group_ask). A stacked
 * manager answers by the commit of a helper: a view of its own whose changes join the group.
 *
 * GR1  A helper is in its transaction's `helpers` exactly while `of` names it; both change in one
 *      section of the graph lock. One joins with the transaction claimed, and stays to its end;
 *      those at work are no part of what is committed, and go when they like.
 * GR2  Of a transaction in `others`, each port is there once, and is not `enlisted`; all have one
 *      base, or bases that vote (parts.c).
 *
 * Locks: view, graph.
 */
#include "store/commit.h"
#include "store/parts.h"
#include "store/stack.h"

/* ---- what a transaction enlists ---- */

bool view_enlists(const struct view *v, const struct port *p)
{
    bool is = v->txn.enlisted == p;
    for (unsigned i = 0; i < v->group.other_count; i++)
        is |= v->group.other[i] == p;
    return is;
}

int port_switch(struct view *v, struct port *p)
{
    struct port *from = v->txn.enlisted;
    unsigned i = 0;
    while (i < v->group.other_count && v->group.other[i] != p)
        i++;
    if (from->base != p->base && !parts_possible(v, p))
        return port_other_error(from);
    if (i == ENLISTED_MAX - 1 || (v->group.rank && p->rank >= v->group.rank))
        return -EXDEV;
    if (v->copies.spilled_count)
        return -E2BIG; /* SK4 */
    credit_return(from, v->reserve.credits);
    limit_uncharge(v->process, KD_LIMIT_COPIES, v->reserve.credits);
    lock_acquire(&v->lock);
    v->credits.charged -= v->reserve.credits;
    v->reserve.credits = 0;
    if (i == v->group.other_count)
        port_get(p);
    v->group.other_count += i == v->group.other_count;
    v->group.other[i] = from;
    v->txn.enlisted = p;
    lock_release(&v->lock);
    return 0;
}

/* ---- the group of a commit ---- */

/* port_later tells whether a commit goes to p behind q: by rank, and among equals in any order. */
static bool port_later(const struct port *p, const struct port *q)
{
    return p->rank != q->rank ? p->rank < q->rank : p < q;
}

/* next_of looks at what one view enlists. */
static struct port *next_of(const struct view *v, const struct port *last, struct port *next)
{
    for (unsigned i = 0; i <= v->group.other_count; i++) {
        struct port *p = i < v->group.other_count ? v->group.other[i] : v->txn.enlisted;
        if ((!last || port_later(p, last)) && (!next || port_later(next, p)))
            next = p;
    }
    return next;
}

struct vmask group_joined(const struct view *v)
{
    struct vmask m = {0};
    if (vmask_empty(&v->group.helpers))
        return m; /* none joins but while v's question is answered */
    lock_acquire(&graph_lock);
    vmask_for(h, &v->group.helpers)
        if (views[h].group.joined)
            vmask_set(&m, (unsigned)h);
    lock_release(&graph_lock);
    return m;
}

/* group_next returns the port that v's commit goes to behind `last`; NULL: first. */
static struct port *group_next(const struct view *v, const struct vmask *joined,
                               const struct port *last)
{
    struct port *next = next_of(v, last, NULL);
    vmask_for(h, joined)
        next = next_of(&views[h], last, next);
    return next ? next : v->txn.enlisted->base;
}

uint64_t group_copies(const struct view *v)
{
    uint64_t n = v->copies.count;
    vmask_for(h, &v->group.helpers)
        n += views[h].copies.count;
    return n;
}

/* group_end tells v's helpers the outcome, 0 or an errno. Those at work are doomed. */
static void group_end(struct view *v, int answer)
{
    lock_acquire(&graph_lock);
    vmask_for(h, &v->group.helpers) {
        views[h].group.of = NULL;
        if (views[h].group.joined)
            view_answer(&views[h], answer);
        else
            doom_locked(&views[h], ECANCELED);
    }
    v->group.helpers = (struct vmask){0};
    stack_waits_end(v);
    lock_release(&graph_lock);
}

void group_doom(const struct view *v)
{
    lock_acquire(&graph_lock);
    doom_locked(group_of(v), ECANCELED);
    lock_release(&graph_lock);
}

struct view *group_claim(uint64_t id, uint64_t token)
{
    const struct view *h = &views[id % KD_VIEW_MAX], *of = group_of(h);
    struct view *v = view_claim(of == h ? id : of->id, token,
                                of == h ? ASKED_COMMIT | ASKED_SPILL : ASKED_COMMIT);
    if (!v || v == h)
        return v;
    lock_acquire(&views[id % KD_VIEW_MAX].lock); /* QU3 */
    bool joined = h->group.of == v && h->group.joined;
    lock_release(&views[id % KD_VIEW_MAX].lock);
    if (joined)
        return v;
    view_claim_end(v);
    return NULL;
}

/* ---- helpers ---- */

int helper_begin(struct view *h, uint64_t view, uint64_t token)
{
    struct view *v = view_claim(view, token, ASKED_COMMIT);
    int e = -ESRCH;
    if (!v)
        return e;
    const struct port *p = v->group.asked;
    if (p->rank) {
        port_get(p->base);
        lock_acquire(&h->lock);
        h->txn.enlisted = p->base; /* the group goes there, whatever h writes */
        lock_release(&h->lock);
        lock_acquire(&graph_lock);
        if (!v->doom) {
            e = 0;
            h->group.of = v; /* GR1 */
            h->group.joined = false;
            h->group.rank = p->rank;
            h->group.port = p;
            h->group.token = token;
            vmask_set(&v->group.helpers, h->id);
        }
        lock_release(&graph_lock);
    }
    view_claim_end(v);
    return e;
}

void helper_leave(struct view *h)
{
    lock_acquire(&graph_lock);
    if (h->group.of)
        vmask_clear(&h->group.of->group.helpers, h->id);
    h->group.of = NULL;
    h->group.rank = 0;
    lock_release(&graph_lock);
}

/* helper_pass joins h, which is frozen, to its transaction, which goes on to the next manager
 * (SK8), and sleeps until the outcome is known: 0 or an errno. */
static int helper_pass(struct view *h)
{
    struct view_question *q = &h->question;
    q->token++; /* nobody has received it */
    h->group.asked = NULL;
    __atomic_store_n(&q->answer, ANSWER_NONE, __ATOMIC_RELEASE);
    struct view *v = group_of(h);
    if (v == h || !view_claim(v->id, h->group.token, ASKED_COMMIT))
        return h->doom ? h->doom : ESRCH; /* over, or another helper has passed it on */
    lock_acquire(&graph_lock);
    int doom = h->doom;
    h->group.joined = !doom; /* from here on no search dooms it */
    lock_release(&graph_lock);
    if (doom) {
        view_claim_end(v);
        return doom;
    }
    view_answer(v, 0);
    int answer = view_await(h);
    helper_leave(h);
    return answer;
}

int group_ask_at(struct view *v, struct port *port)
{
    struct vmask joined = group_joined(v);
    uint64_t *word = v->question.item.word;
    word[1] = group_copies(v);
    word[4] = word[5] = word[6] = 0;
    vmask_for(h, &joined) {
        if (!port->rank && views[h].txn.enlisted->base != port)
            continue; /* it changed nothing there */
        word[4 + h / 64] |= 1ull << h % 64;
        word[6] += views[h].commit.batch.bytes; /* SK20 */
    }
    word[7] = !view_enlists(v, port);
    uint64_t until_ns = v->txn.deadline_ns;
    v->txn.deadline_ns = port->rank ? answer_until(until_ns) : until_ns; /* SK18 */
    int answer = view_ask(v, port);
    v->txn.deadline_ns = until_ns;
    return answer;
}

int group_ask(struct view *v)
{
    struct port *port = NULL;
    int answer = 0;
    if (v->group.rank)
        return helper_pass(v);
    for (;;) {
        struct vmask joined = group_joined(v);
        port = group_next(v, &joined, port);
        if (answer || !port->rank)
            break;
        answer = group_ask_at(v, port);
    }
    if (!answer)
        answer = parts_ask(v);
    group_end(v, answer);
    return answer;
}

/* ---- what a manager stands on ---- */

/* orphans_wait waits for groups whose manager has died behind its pass: its successor would read
 * what they are about to change (SK16). False: killed. */
static bool orphans_wait(const struct port *base)
{
    enum { LOOK_NS = 1000000 };
    for (bool is = true; is;) {
        is = false;
        views_each_locked(v, &views_all) {
            lock_acquire(&graph_lock); /* so its transaction has the port */
            bool closed = v->group.of && v->group.joined && v->group.port->dead;
            lock_release(&graph_lock);
            is |= v->group.rank && v->txn.enlisted->base == base &&
                  (closed || v->handle == HANDLE_FORSAKEN);
        }
        if (is && thread_park_until(arch_time_ns() + LOOK_NS) == -EINTR)
            return false;
    }
    return true;
}

/* below_find finds the commit port behind a handle, of a port or a badge. */
static int below_find(int handle, struct port **out)
{
    struct port *p = port_lift(handle);
    if (handle_failed(p))
        return (int)(long)p;
    *out = object_commit_port_of(p);
    port_put(p);
    return *out ? 0 : -ENOENT;
}

/* below_set makes p one that stands on these, which have the rank below it at most. One that has
 * had objects stays as it is: a commit there may be under way. */
static int below_set(struct port *p, struct port *const *below, unsigned rank)
{
    lock_acquire(&p->lock);
    int e = p->dead ? -EBADF : p->serves || p->rank ? -EBUSY : 0;
    if (!e) {
        memcpy(p->below, below, sizeof p->below);
        p->base = below[0]->base;
        p->rank = rank + 1;
    }
    lock_release(&p->lock);
    return e;
}

HANDLE_CALL(kd_port_below, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    enum { RANK_MAX = 4 };
    struct port *below[PORT_BELOW_MAX] = {0};
    int handles[PORT_BELOW_MAX], e = 0;
    unsigned rank = 0;
    if (a[2] == 0 || a[2] > PORT_BELOW_MAX)
        return -EINVAL;
    if (copy_from_user(handles, a[1], a[2] * sizeof handles[0]))
        return -EFAULT;
    for (unsigned i = 0; !e && i < a[2]; i++) {
        e = below_find(handles[i], &below[i]);
        if (!e && (below[i]->base != below[0]->base || below[i]->rank + 1 > RANK_MAX))
            e = -EXDEV;
        rank = e ? 0 : MAX(rank, below[i]->rank);
    }
    if (!e)
        e = orphans_wait(below[0]->base) ? below_set(p, below, rank) : -EINTR;
    if (e)
        ports_put(below);
    else
        port_stand(p);
    for (unsigned i = 0; !e && i < a[2]; i++)
        if (__atomic_load_n(&below[i]->dead, __ATOMIC_SEQ_CST))
            ports_above_die(below[i]); /* its end did not see p (SK17) */
    return e;
}
