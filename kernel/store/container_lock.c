/*
 * container_lock.c - a transaction locks a whole container: by choice (begin, KD_TXN_LOCK), or by
 * escalation after many faults (faults.md).
 *
 * A lock is taken in two steps. First the view becomes a holder. Then the holder *drains*: a walk
 * over the pages takes the rights of others by the rules of conflict.c, until a walk has found no
 * transaction that has used its rights, and none was let in behind it.
 *
 * Locks: leaf, view, locks_lock, graph.
 */
#include "store/holder.h"
#include "store/mapping.h"
#include "store/object_private.h"

static struct lock locks_lock = LOCK_INIT(RANK_LOCKS, "container locks");
static struct list draining = {&draining, &draining}; /* objects, by lock.draining_link */
uint32_t view_ends_watched;

void container_lock_init(struct container_lock *c)
{
    c->exclusive = c->drainer = WRITER_NONE;
    list_init(&c->queue);
    list_init(&c->draining_link);
}

/* state_update computes `state`, the word of the lock that faults look at (object.h). */
static void state_update(struct container_lock *c)
{
    uint32_t state = c->exclusive != WRITER_NONE ? (uint32_t)c->exclusive + 1
                     : vmask_empty(&c->shared) && list_empty(&c->queue) ? 0
                                                                        : CONTAINER_BUSY;
    __atomic_store_n(&c->state, state, __ATOMIC_SEQ_CST);
}

static bool holds(const struct container_lock *c, const struct view *v, enum lock_mode mode)
{
    return c->exclusive == v->id || (mode != LOCK_EXCLUSIVE && vmask_test(&c->shared, v->id));
}

/* against returns the holders that a request in this mode must wait for. */
static struct vmask against(const struct container_lock *c, const struct view *v,
                            enum lock_mode mode)
{
    struct vmask m = {0};
    if (mode == LOCK_PAGE_WRITE || mode == LOCK_EXCLUSIVE)
        m = c->shared;
    if (c->exclusive != WRITER_NONE)
        vmask_set(&m, (unsigned)c->exclusive);
    group_clear(v, &m);
    return m;
}

/* ---- the queue ---- */

static void queue_wake(struct container_lock *c)
{
    list_for(n, &c->queue)
        thread_wake(container_of(n, struct view, wait.lock_link)->owner);
}

static void leave_locked(struct view *v)
{
    struct container_lock *c = &v->wait.object->container_lock;
    v->wait.object = NULL;
    list_remove(&v->wait.lock_link);
    state_update(c);
    lock_acquire(&graph_lock); /* those behind it do not wait for it any more; they look again */
    list_for(n, &c->queue)
        vmask_clear(&container_of(n, struct view, wait.lock_link)->wait.holders, v->id);
    lock_release(&graph_lock);
    queue_wake(c);
}

void container_lock_leave(struct view *v)
{
    struct object *o = v->wait.object; /* only its own thread sets it */
    if (!o)
        return;
    lock_acquire(&locks_lock);
    leave_locked(v);
    lock_release(&locks_lock);
}

/* join_locked queues v and adds its edges, while the holders cannot end: their ends take the edges
 * away again. */
static void join_locked(struct view *v, struct object *o, struct vmask *on)
{
    struct container_lock *c = &o->container_lock;
    if (!v->wait.object) {
        v->wait.object = o; /* alive while v waits: it is attached, or held by the caller */
        v->wait.lock_base = o->base;
        list_push_back(&c->queue, &v->wait.lock_link);
        state_update(c);
    }
    views_before(on, v, &c->queue, wait.lock_link);
    waits_clear(v);
    waits_add(v, on, WAIT_ALL);
}

/* has_turn tells that nobody stands in the queue before v, or for v's shared lock alone. */
static bool has_turn(const struct container_lock *c, const struct view *v)
{
    return list_empty(&c->queue) || list_first(&c->queue, struct view, wait.lock_link) == v ||
           vmask_test(&c->shared, v->id);
}

/* ---- page faults ---- */

bool container_admits(struct view *v, struct leaf *l, unsigned slot, bool write)
{
    struct object *o = l->object;
    struct container_lock *c = &o->container_lock;
    if (heir_has(v, l, slot))
        return true; /* HO3: the holder is waited for, and this is how it comes to its end */
    lock_acquire(&locks_lock);
    struct vmask on = against(c, v, write ? LOCK_PAGE_WRITE : LOCK_PAGE_READ);
    /* who ends with the lock, and begins at once, would always be before those whom it shut out */
    bool turn = !o->escalate || v->locks.faults != 1 || v->wait.page || v->group.rank ||
                has_turn(c, v);
    bool admitted = (vmask_empty(&on) && turn) || holds(c, v, LOCK_EXCLUSIVE);
    struct vmask drained = on; /* holders that yield to nobody any more */
    if (c->drainer != WRITER_NONE)
        vmask_clear(&drained, (unsigned)c->drainer);
    bool yields = c->first_walk || vmask_test(&c->drains, v->id);
    if (!admitted && yields && vmask_empty(&drained)) {
        vmask_set(&c->drains, v->id); /* the holder waits for it: it must get to its end */
        c->again = true;
        admitted = true;
    }
    if (admitted && v->wait.object)
        leave_locked(v);
    /* out of the page's queue first: nobody behind it there waits for it any more */
    if (!admitted) {
        queue_leave(v);
        join_locked(v, o, &on);
    }
    lock_release(&locks_lock);
    return admitted;
}

bool container_locked_by(const struct view *v, const struct object *o)
{
    return vmask_test(&o->container_lock.shared, v->id) || o->container_lock.exclusive == v->id;
}

int container_owner(struct object *o)
{
    struct container_lock *c = &o->container_lock;
    lock_acquire(&locks_lock);
    int owner = c->drainer == WRITER_NONE ? c->exclusive : WRITER_NONE;
    lock_release(&locks_lock);
    return owner;
}

/* ---- draining ---- */

struct walk {
    struct view *view;
    bool blocked;
};

/* walk_leaf takes those rights of other views in a portion of a leaf that may be taken. */
static unsigned walk_leaf(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    struct walk *w = arg;
    struct vmask left = {0};
    struct debt debt = {0};
    lock_acquire(&l->lock);
    if (!vmask_within(&l->users, &w->view->self)) {
        for (end = leaf_portion(l, slot, end); slot < end; slot++)
            if (!vmask_within(&l->pages[slot].mask, &w->view->self))
                w->blocked |= conflict_take(w->view, l, slot, &debt);
        for (unsigned i = 0; i < LEAF_PAGES; i++)
            vmask_add(&left, &l->pages[i].mask);
        l->users = left;
        right_pay(&debt);
    }
    lock_release(&l->lock);
    return end;
}

static void drain_over(struct container_lock *c)
{
    c->drainer = WRITER_NONE;
    c->drains = (struct vmask){0};
    c->first_walk = false;
    list_remove(&c->draining_link);
    __atomic_fetch_sub(&view_ends_watched, 1, __ATOMIC_SEQ_CST);
    queue_wake(c);
}

/* walk_end ends a walk: the views that v waits for may go on. True: another walk is needed. */
static bool walk_end(struct view *v, struct object *o, bool blocked)
{
    struct container_lock *c = &o->container_lock;
    lock_acquire(&locks_lock);
    bool more = blocked || c->again;
    c->first_walk = c->again = false;
    lock_acquire(&graph_lock);
    /* an end takes the edge before it leaves `drains` */
    vmask_add(&c->drains, &v->wait.holders);
    lock_release(&graph_lock);
    if (!more)
        drain_over(c);
    lock_release(&locks_lock);
    return more;
}

/* drain walks until no other view has a right that conflicts. 0; -errno: the caller gives the lock
 * up. */
static int drain(struct view *v, struct object *o, enum lock_mode mode, bool wait)
{
    static const struct vmask none;
    for (;;) {
        struct walk w = {.view = v};
        waits_clear(v);
        v->wait.drains = true;
        v->wait.lock_base = o->base;
        v->wait.want = mode == LOCK_EXCLUSIVE ? WANT_WRITE : WANT_READ;
        leaves_for(o, walk_leaf, &w);
        if (!walk_end(v, o, w.blocked))
            return 0;
        if (w.blocked && !wait)
            return -EBUSY;
        if (w.blocked) {
            waits_add(v, &none, WAIT_ALL); /* the walk noted the edges */
            holders_tell(v, o->base, o->pages);
        }
        int e = v->doom || thread_this()->killed ? -ECANCELED
                : w.blocked ? waits_sleep(v, KD_TRACE_FOR_CONTAINER, o->base, 0) : 0;
        if (e)
            return e;
    }
}

/* ---- taking and releasing ---- */

static void hold_locked(struct view *v, struct container_lock *c, enum lock_mode mode)
{
    if (v->wait.object)
        leave_locked(v);
    if (mode == LOCK_EXCLUSIVE)
        c->exclusive = (int16_t)v->id;
    else
        vmask_set(&c->shared, v->id);
    c->drainer = (int16_t)v->id;
    c->first_walk = true;
    c->again = false;
    list_push_back(&draining, &c->draining_link);
    __atomic_fetch_add(&view_ends_watched, 1, __ATOMIC_SEQ_CST);
    state_update(c);
}

/* hold_try looks once whether v may hold the lock. 0: v holds it and is to drain; -EAGAIN: others
 * go before, and v is in the queue if `wait`. One view drains at a time. */
static int hold_try(struct view *v, struct object *o, enum lock_mode mode, bool wait)
{
    struct container_lock *c = &o->container_lock;
    lock_acquire(&locks_lock);
    struct vmask on = against(c, v, mode);
    if (c->drainer != WRITER_NONE)
        vmask_set(&on, (unsigned)c->drainer);
    int result = o->dead ? -EOWNERDEAD : has_turn(c, v) && vmask_empty(&on) ? 0 : -EAGAIN;
    if (!result)
        hold_locked(v, c, mode);
    else if (result == -EAGAIN && wait)
        join_locked(v, o, &on);
    lock_release(&locks_lock);
    return result;
}

static void release(struct view *v, struct object *o, bool exclusive_only)
{
    struct container_lock *c = &o->container_lock;
    lock_acquire(&locks_lock);
    if (c->drainer == v->id)
        drain_over(c);
    if (c->exclusive == v->id)
        c->exclusive = WRITER_NONE;
    if (!exclusive_only)
        vmask_clear(&c->shared, v->id);
    state_update(c);
    queue_wake(c);
    lock_release(&locks_lock);
}

/* hold_wait waits until v holds the lock. 0; -EBUSY if !wait; -errno. */
static int hold_wait(struct view *v, struct object *o, enum lock_mode mode, bool wait)
{
    int e = 0;
    while (!e && (e = hold_try(v, o, mode, wait)) == -EAGAIN && wait) {
        __atomic_fetch_add(&v->process->stats.lock_waits, 1, __ATOMIC_RELAXED);
        e = waits_sleep(v, KD_TRACE_FOR_CONTAINER, o->base, 0);
    }
    container_lock_leave(v);
    return e == -EAGAIN ? -EBUSY : e;
}

/* container_lock_take locks o for v. 0; -EBUSY: v would have to wait, and !wait; -ECANCELED: doomed
 * or killed; -ETIMEDOUT, -ENOLCK, -EOWNERDEAD. */
static int container_lock_take(struct view *v, struct object *o, enum lock_mode mode, bool wait)
{
    bool shared = container_locked_by(v, o); /* only its own thread changes that */
    if (holds(&o->container_lock, v, mode))
        return 0;
    if (!shared && v->locks.count == LOCKED_MAX)
        return -ENOLCK;
    int e = hold_wait(v, o, mode, wait);
    if (!e && (e = drain(v, o, mode, wait)))
        release(v, o, shared);
    v->wait.drains = false;
    if (e) {
        waits_clear(v); /* the transaction may go on, and waits for nobody */
    } else if (!shared) {
        object_get(o);
        if (!v->locks.count)
            v->locks.base = o->base;
        v->locks.held[v->locks.count++] = o;
    }
    return e;
}

bool container_locks_wanted(const struct view *v)
{
    bool wanted = false;
    for (unsigned i = 0; i < v->locks.count; i++)
        /* about: nobody depends on it */
        wanted |= !list_empty(&v->locks.held[i]->container_lock.queue);
    return wanted;
}

void container_locks_end(struct view *v)
{
    item_notes_end(v);
    while (v->locks.count) {
        struct object *o = v->locks.held[--v->locks.count];
        release(v, o, false);
        object_put(o);
    }
}

void container_drains_leave(struct view *v)
{
    lock_acquire(&locks_lock);
    list_for(n, &draining)
        vmask_clear(&container_of(n, struct container_lock, draining_link)->drains, v->id);
    lock_release(&locks_lock);
}

void container_lock_dead(struct object *o)
{
    lock_acquire(&locks_lock);
    queue_wake(&o->container_lock);
    lock_release(&locks_lock);
}

/* ---- by escalation, and by call ---- */

void container_escalate(struct view *v, struct object *o, bool write)
{
    enum lock_mode mode = write || (v->txn.enlisted && v->last.rights & RIGHTS_STORE)
                              ? LOCK_EXCLUSIVE : LOCK_SHARED;
    if (heir_is(v) || ++v->locks.faults < MAX(o->escalate, v->locks.escalate_at))
        return;
    v->locks.escalate_at = v->locks.faults * 2; /* the next try: nobody is waited for */
    if (!holds(&o->container_lock, v, mode) && !container_lock_take(v, o, mode, false))
        count(escalations);
}

int container_lock_at(struct view *v, vaddr_t at, unsigned how)
{
    uint32_t rights;
    struct object *o = object_at(v->process, mapping_first(v->process, at, 1), &rights);
    int e = -EINVAL;
    if (!o)
        return -ENOENT;
    bool shared = how & KD_LOCK_SHARED;
    if (!shared && !(rights & KD_RIGHT_WRITE))
        e = -EACCES; /* it would keep readers out who may do more than it may */
    else if ((o->flags & (KD_OBJECT_TRANSACTIONAL | KD_OBJECT_UNLOCKED)) ==
                 KD_OBJECT_TRANSACTIONAL && !(how & ~(KD_LOCK_SHARED | KD_LOCK_NOW)))
        e = container_lock_take(v, o, shared ? LOCK_SHARED : LOCK_EXCLUSIVE, !(how & KD_LOCK_NOW));
    object_put(o);
    return e;
}
