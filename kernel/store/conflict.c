/*
 * conflict.c - which view waits for which: page queues, callbacks, the waits-for graph (faults.md:
 * CF1..CF6).
 *
 * Locks: leaf, then one view, then graph. Doom and search are one section under the graph lock.
 */
#include "store/holder.h"
#include "store/item.h"

struct lock graph_lock = LOCK_INIT(RANK_GRAPH, "graph");

/* ---- waiting ---- */

static void want_x_add(struct view *v, vaddr_t at)
{
    if (!want_x_has(v, at) && v->txn.want_x_count < WANT_X_MAX)
        v->txn.want_x[v->txn.want_x_count++] = at;
}

bool want_x_has(const struct view *v, vaddr_t at)
{
    for (unsigned i = 0; i < v->txn.want_x_count; i++)
        if (v->txn.want_x[i] == at)
            return true;
    return false;
}

void waits_clear(struct view *v)
{
    if (!waits_none(v)) { /* its own thread adds, and others at its wish */
        lock_acquire(&graph_lock);
        waits_none_now(v);
        lock_release(&graph_lock);
    }
    v->wait.kind = WAIT_NOT; /* behind it: without holders it says nothing */
}

void doom_locked(struct view *v, int reason)
{
    if (v->doom)
        return;
    v->doom = reason;
    TRACE_RARE(DOOM, reason, v->txn.ticket, v->id);
    thread_wake(v->owner); /* if it waits, it looks; else its next fault or call does */
}

void view_doom_locked(struct view *v, int reason)
{
    lock_acquire(&graph_lock);
    doom_locked(v, reason);
    lock_release(&graph_lock);
    holder_doomed(v);
}

void view_doom(struct view *v, int reason)
{
    lock_acquire(&v->lock);
    if (v->state == VIEW_ACTIVE)
        view_doom_locked(v, reason);
    lock_release(&v->lock);
}

enum { AGAIN_MAX = 2 };

/* victim_doom dooms the victim of a deadlock. A helper begins anew, but after some times its whole
 * group goes (SK13). Graph lock held. */
static void victim_doom(struct view *v)
{
    if (v->group.of && v->group.of->group.again++ >= AGAIN_MAX)
        doom_locked(v->group.of, EDEADLK);
    doom_locked(v, EDEADLK);
}

/* runs_instead returns the view that v's thread runs, if v is suspended for it; or NULL. */
static const struct view *runs_instead(const struct view *v)
{
    const struct view *runs = v->owner ? v->owner->view : NULL;
    return v->state == VIEW_ACTIVE && runs != v && !view_holds(v) ? runs : NULL; /* HO1 */
}

/* own_waits returns the views that v waits for; a suspended view waits for the view that its thread
 * runs now. Where the end of any will do, v waits for them only if they all wait (IT1). */
static struct vmask own_waits(const struct view *v)
{
    struct vmask m = v->wait.kind == WAIT_NOT ? (struct vmask){0} : v->wait.holders;
    const struct view *runs = runs_instead(v);
    vmask_for(u, &m)
        if (v->wait.kind == WAIT_ANY && waits_none(&views[u]) && !runs_instead(&views[u]))
            m = (struct vmask){0};
    vmask_add(&m, &v->wait.told);
    if (runs)
        vmask_set(&m, runs->id);
    return m;
}

static struct vmask stacked;            /* commits through stacked managers; graph lock */

/* port_waits adds what v waits for at the port of a stacked manager: until it is received, those
 * before it there, and those that the manager's threads work for or have passed on (SK13). */
static void port_waits(const struct view *v, struct vmask *m)
{
    const struct view_question *q = &v->question;
    if (v->state != VIEW_COMMITTING || q->item.kind != ITEM_COMMIT || q->answer != ANSWER_NONE ||
        q->received == q->token || !v->group.asked || !v->group.asked->rank)
        return;
    vmask_for(i, &stacked) {
        const struct view *u = &views[i];
        bool asks = u->group.asked == v->group.asked && u->question.answer < 0 &&
                    (u->question.received == u->question.token ||
                     u->group.arrival < v->group.arrival);
        vmask_for(h, &u->group.helpers)
            asks |= views[h].group.port == v->group.asked;
        if (asks)
            vmask_set(m, u->id);
    }
    vmask_clear(m, v->id);
}

/* waits_all returns what a transaction and its helpers wait for (SK12). */
static struct vmask waits_all(const struct view *v)
{
    struct vmask m = own_waits(v);
    vmask_for(h, &v->group.helpers) {
        struct vmask more = own_waits(&views[h]);
        if (!views[h].doom)
            vmask_add(&m, &more);
    }
    port_waits(v, &m);
    return m;
}

/* waits_of is the same in the nodes of the graph: for a helper stands its transaction. */
static struct vmask waits_of(const struct view *v)
{
    struct vmask m = waits_all(v), nodes = m;
    vmask_for(u, &m) {
        if (!views[u].group.of)
            continue;
        vmask_clear(&nodes, (unsigned)u);
        if (!views[u].doom)
            vmask_set(&nodes, views[u].group.of->id);
    }
    if (!vmask_empty(&v->group.helpers))
        vmask_clear(&nodes, v->id); /* a wait within a group is refused (SK6) */
    return nodes;
}

/* cycle looks for a cycle through v in the waits-for graph; `path` gets the views of one. The
 * search is not recursive: a chain of all views would not fit on a kernel stack. */
static bool cycle(const struct view *v, struct vmask *path)
{
    uint8_t from[KD_VIEW_MAX]; /* the view that led to this one */
    struct vmask seen = {0}, todo = {0};
    int at = v->id;
    do {
        struct vmask m = waits_of(&views[at]);
        vmask_clear(&todo, (unsigned)at);
        if (vmask_test(&m, v->id)) {
            for (*path = (struct vmask){0}; at != v->id; at = from[at])
                vmask_set(path, (unsigned)at);
            vmask_set(path, v->id);
            return true;
        }
        vmask_for(u, &m) {
            if (views[u].doom || vmask_test(&seen, (unsigned)u))
                continue;
            vmask_set(&seen, (unsigned)u);
            vmask_set(&todo, (unsigned)u);
            from[u] = (uint8_t)at;
        }
    } while ((at = vmask_next(&todo, 0)) >= 0);
    return false;
}

enum { WEIGHTED_ABORTS = 4 }; /* after so many the ticket alone counts: no view starves */

static uint32_t weight_now(const struct view *v)
{
    return v->txn.aborts < WEIGHTED_ABORTS ? v->txn.weight : ~0u;
}

/* better_victim prefers the lighter view, then the younger. */
static bool better_victim(const struct view *a, const struct view *b)
{
    if (!b)
        return true;
    if (weight_now(a) != weight_now(b))
        return weight_now(a) < weight_now(b);
    return a->txn.ticket > b->txn.ticket;
}

/* helper_alone returns v's helper at work if the others of the path want nothing of v's group but
 * what this helper has; or NULL. */
static struct view *helper_alone(const struct view *v, const struct vmask *path)
{
    struct vmask wanted = {0};
    struct view *alone = NULL;
    vmask_for(u, path) {
        struct vmask m = waits_all(&views[u]);
        if (u != v->id)
            vmask_add(&wanted, &m);
    }
    vmask_for(h, &v->group.helpers) {
        if (views[h].group.joined && vmask_test(&wanted, (unsigned)h))
            return NULL;
        if (!views[h].group.joined && vmask_test(&wanted, (unsigned)h))
            alone = &views[h];
    }
    return vmask_test(&wanted, v->id) || v->group.again >= AGAIN_MAX ? NULL : alone;
}

/* victim_of chooses who goes: a helper alone, else a transaction that runs, else a commit that its
 * base has not (SK13). No other commit is a victim; nor is a suspended view, whose thread cannot
 * act on a doom: the view that the thread runs goes instead. */
static struct view *victim_of(const struct vmask *path)
{
    struct view *alone = NULL, *runs = NULL, *commits = NULL;
    vmask_for(u, path) {
        struct view *v = &views[u];
        if (v->state == VIEW_ACTIVE && v->owner->view == v && better_victim(v, runs))
            runs = v;
        if (v->state != VIEW_COMMITTING || !v->group.asked || v->question.answer >= 0 ||
            !v->group.asked->rank)
            continue;
        if (better_victim(v, commits))
            commits = v;
        struct view *h = helper_alone(v, path);
        alone = h ? h : alone;
    }
    return alone ? alone : runs ? runs : commits;
}

/* search dooms victims until no cycle goes through v any more. Graph lock held. */
static void search(const struct view *waits)
{
    struct vmask path;
    const struct view *v = group_of(waits);
    while (!v->doom && !waits->doom && cycle(v, &path)) {
        struct view *victim = victim_of(&path);
        if (!victim)
            return;
        count(deadlocks);
        if (victim->wait.page && victim->wait.want != WANT_READ)
            want_x_add(victim, victim->wait.at); /* it may leave the queue at this moment */
        victim_doom(victim);
    }
}

void stack_waits(struct view *v)
{
    static uint64_t arrivals;
    lock_acquire(&graph_lock);
    vmask_set(&stacked, v->id);
    v->group.arrival = ++arrivals;
    v->group.again = 0;
    if (!vmask_within(&stacked, &v->self))
        search(v); /* it waits for others of these alone (port_waits) */
    lock_release(&graph_lock);
}

void stack_waits_end(const struct view *v) { vmask_clear(&stacked, v->id); }

void waits_edge(struct view *v, struct view *w)
{
    lock_acquire(&graph_lock);
    vmask_set(&v->wait.holders, w->id);
    vmask_set(&w->wait.waiters, v->id);
    lock_release(&graph_lock);
}

void waits_add(struct view *v, const struct vmask *on, enum wait_kind kind)
{
    struct vmask *m = kind == WAIT_TOLD ? &v->wait.told : &v->wait.holders;
    lock_acquire(&graph_lock);
    vmask_for(u, on)
        vmask_set(&views[u].wait.waiters, v->id);
    vmask_add(m, on);
    vmask_clear(m, v->id);
    if (kind == WAIT_TOLD)
        v->wait.is_told = true;
    else
        v->wait.kind = kind;
    search(v);
    lock_release(&graph_lock);
}

/* view_wake_waiters finds all waiters in wait.waiters: a waiter notes v under the view lock while v
 * is not idle, so before v's end comes here. */
void view_wake_waiters(struct view *v)
{
    if (vmask_empty(&v->wait.waiters))
        return;
    lock_acquire(&graph_lock);
    struct vmask waiting = v->wait.waiters;
    v->wait.waiters = (struct vmask){0};
    vmask_for(u, &waiting) {
        struct view_wait *w = &views[u].wait;
        if (!vmask_test(&w->holders, v->id) && !vmask_test(&w->told, v->id))
            continue;
        vmask_clear(&w->holders, v->id); /* KR3 */
        vmask_clear(&w->told, v->id);
        if (views[u].owner)
            thread_wake(views[u].owner);
    }
    lock_release(&graph_lock);
}

/* ---- queues ---- */

static struct view *queue_head(const struct page *p)
{
    return p->queue ? &views[p->queue - 1] : NULL;
}

static struct view *queue_next(const struct page *p, const struct view *v)
{
    struct view *next = list_first(&v->wait.link, struct view, wait.link);
    return next == queue_head(p) ? NULL : next;
}

#define queue_each(v, p) for (struct view *v = queue_head(p); v; v = queue_next(p, v))

void queue_leave(struct view *v)
{
    struct page *p = v->wait.page;
    if (!p)
        return;
    if (queue_head(p) == v)
        p->queue = v->wait.link.next == &v->wait.link
                       ? 0 : (uint8_t)(list_first(&v->wait.link, struct view, wait.link)->id + 1);
    list_remove(&v->wait.link);
    v->wait.page = NULL;
    v->wait.leaf = NULL;
    struct view *head = queue_head(p);
    if (!head)
        return;
    /* queue_leave takes its edges away, or a search would find a wait that is over. A view left
     * without edges looks anew: an upgrader that came to the front later is not among them. */
    lock_acquire(&graph_lock);
    queue_each(u, p) {
        bool waited = vmask_test(&u->wait.holders, v->id);
        vmask_clear(&u->wait.holders, v->id);
        if (u == head || (waited && vmask_empty(&u->wait.holders)))
            thread_wake(u->owner);
    }
    lock_release(&graph_lock);
}

static void queue_join(struct view *v, struct leaf *l, struct page *p)
{
    if (v->wait.page)
        return;
    if (p->queue)
        list_insert_before(&queue_head(p)->wait.link, &v->wait.link);
    if (!p->queue || v->wait.upgrade)
        p->queue = (uint8_t)(v->id + 1);
    v->wait.page = p;
    v->wait.leaf = l;
    v->wait.at = page_address(l, (unsigned)(p - l->pages));
}

/* queue_before returns the views before v in the page's queue. */
static struct vmask queue_before(const struct view *v, const struct page *p)
{
    struct vmask m = {0};
    queue_each(u, p) {
        if (u == v)
            break;
        vmask_set(&m, u->id);
    }
    return m;
}

static struct view *other_upgrader(const struct view *v, const struct page *p)
{
    queue_each(u, p)
        if (u != v && u->wait.upgrade && !u->doom)
            return u;
    return NULL;
}

/* ---- CF2: one candidate, under its view lock ---- */

/* group_refuse ends the group of a helper that touches what another view of the group has written:
 * it can see neither version (SK6). */
static void group_refuse(struct view *h)
{
    lock_acquire(&graph_lock);
    doom_locked(group_of(h), EXDEV);
    doom_locked(h, EXDEV);
    lock_release(&graph_lock);
}

bool view_yields(struct view *w, struct page *p, vaddr_t at, bool shared, struct debt *debt)
{
    bool idle = w->state == VIEW_IDLE || w->txn.untouched;
    if (w->snapshot_rights && w->state != VIEW_FREE)
        return true; /* no right; it keeps its bit: old versions are found by it */
    if (idle && shared && right_at(w, at)) {
        if (p->writer == w->id)
            p->writer = WRITER_NONE; /* it keeps a shared right */
        return true;
    }
    if (idle && right_take(w, p, at, debt))
        count(callbacks);
    bool yields = idle || right_take_unused(w, p, at, debt);
    if (yields)
        TRACE(CALLBACK, w->id, at, w->process ? (uint64_t)w->process->pid : 0);
    return yields;
}

/* judge tells whether w keeps a right that v must wait for; it takes w's right if it may. Leaf and
 * w locked. */
static bool judge(struct view *v, struct view *w, struct page *p, vaddr_t at, struct debt *debt)
{
    if (v->group.rank && group_of(w) == group_of(v)) { /* SK6: what was read stays readable there */
        if (right_at(w, at) & PTE_COPY)
            group_refuse(v);
        return right_at(w, at) & PTE_COPY;
    }
    if (view_yields(w, p, at, v->wait.want == WANT_READ, debt))
        return false;
    TRACE(HELD, w->id, at, w->process ? (uint64_t)w->process->pid : 0);
    right_owe(w, at);
    waits_edge(v, w); /* in the same section, or its end could miss us */
    return true;
}

void group_clear(const struct view *v, struct vmask *m)
{
    vmask_clear(m, v->id);
    if (heir_is(v))
        vmask_clear(m, (unsigned)v->txn.heir);
    if (!v->group.rank)
        return;
    vmask_for(u, m)
        if (group_of(&views[u]) == group_of(v))
            vmask_clear(m, (unsigned)u);
}

static struct vmask candidates_of(const struct view *v, const struct leaf *l, const struct page *p)
{
    struct vmask m = {0};
    bool reads = v->wait.want == WANT_READ, unlocked = l->object->flags & KD_OBJECT_UNLOCKED;
    if ((!reads && !unlocked) || l->object->flags & KD_OBJECT_ITEMS)
        m = p->mask;
    else if (p->writer != WRITER_NONE && !(reads && unlocked))
        vmask_set(&m, (unsigned)p->writer);
    vmask_clear(&m, v->id);
    if (heir_is(v))
        vmask_clear(&m, (unsigned)v->txn.heir);
    return m;
}

bool conflict_take(struct view *v, struct leaf *l, unsigned slot, struct debt *debt)
{
    struct page *p = &l->pages[slot];
    struct vmask candidates = candidates_of(v, l, p);
    vaddr_t at = page_address(l, slot);
    bool blocked = false, copies_only = item_apart(v, l->object); /* IT7 */
    views_each_locked(w, &candidates)
        if (!copies_only || right_at(w, at) & PTE_COPY)
            blocked |= judge(v, w, p, at, debt);
    return blocked;
}

static void conflict_notice(struct view *v, struct leaf *l, unsigned slot)
{
    struct object *o = l->object;
    holders_tell(v, page_address(l, slot), 1);
    if (!(o->flags & KD_OBJECT_NOTICES))
        return;
    if (!v->notices.conflict_port) { /* until its end: a port is not put with a leaf locked */
        port_get(o->port);
        v->notices.conflict_port = o->port;
    }
    if (v->notices.conflict_port != o->port)
        return; /* the first manager that it conflicted at is told, no other */
    struct item *i = &v->notices.conflict;
    port_withdraw(o->port, i);
    item_say(i, ITEM_CONFLICT, 0, o->cookie, l->first + slot, v->id, v->wait.holders.word[0],
             v->wait.holders.word[1]);
    port_post(o->port, i);
}

int conflict_test(struct view *v, struct leaf *l, unsigned slot, pte_t e)
{
    struct page *p = &l->pages[slot];
    struct vmask candidates = candidates_of(v, l, p);
    waits_clear(v);
    enum wait_kind kind = l->object->flags & KD_OBJECT_ITEMS ? WAIT_ANY : WAIT_ALL;
    if (vmask_empty(&candidates) && !p->queue)
        return 0;
    vaddr_t at = page_address(l, slot);
    bool own = heir_has(v, l, slot); /* HO3 */
    if (v->txn.now && (!vmask_empty(&candidates) || !own))
        return -EBUSY;
    /* a neighbour's unused right is none */
    v->wait.upgrade = !own && v->wait.want != WANT_READ &&
                      e & (PTE_ACCESSED | PTE_USED | PTE_HELD) && !(e & PTE_COPY) &&
                      p->writer != v->id;
    struct view *first = v->wait.upgrade ? other_upgrader(v, p) : NULL;
    if (first) { /* two would wait for each other: the second goes, if it is not the heavier one */
        struct view *victim = weight_now(first) < weight_now(v) ? first : v;
        p->rmw = 8;
        count(deadlocks);
        lock_acquire(&graph_lock);
        want_x_add(victim, at);
        victim_doom(victim);
        lock_release(&graph_lock);
        if (victim == v)
            return -EAGAIN;
    }
    struct view *head = queue_head(p);
    if (head && head != v && !own && !(p->writer == v->id && e)) {
        queue_join(v, l, p);
        struct vmask before = queue_before(v, p);
        if (!vmask_empty(&before)) {
            waits_add(v, &before, kind);
            return v->doom ? -EAGAIN : 1;
        }
    }
    struct debt debt = {0};
    bool blocked = conflict_take(v, l, slot, &debt);
    right_pay(&debt); /* CF3 */
    if (!blocked)
        return 0;
    queue_join(v, l, p);
    struct vmask before = own ? (struct vmask){0} : queue_before(v, p);
    waits_add(v, &before, kind); /* CF5 */
    conflict_notice(v, l, slot);
    return v->doom ? -EAGAIN : 1;
}
