/*
 * recall.c - managers call rights back, and views give theirs up (recall.md).
 *
 * RE1  A page that is called back is closed to newcomers, who ask. Who uses it goes on, and may
 *      come again until its end. Whoever reads what is called back to read is none who stores.
 * RE2  A view that uses such a page is in `users` of its object, noted in the section that saw it
 *      (as OWED is), until its end, with which all of the right goes.
 * RE3  Who was given a right and has not used it yet counts as a user: a recall never comes first.
 * RE4  That nobody asks any more what a manager has received is told behind it, too (page.c).
 * RE5  An object that has users is in the tree of these, in which each has in `all` the users of
 *     all below it and its own.
 *
 * Locks: leaf, view, graph.
 */
#include "store/evict.h"
#include "store/holder.h"
#include "store/object_private.h"

struct recall {
    unsigned take;           /* KD_READ, KD_WRITE */
    bool drop;
    uint64_t given;          /* slots of the leaf to which views were given a right (RE3) */
    uint64_t used;           /* pages */
    struct vmask users;
    struct unmap u;
};

/* ---- objects that have users (RE5); graph lock ----
 * An object goes down by the bits of a number that was drawn for it, to the first free place: so
 * the tree is about as deep as a balanced one (overlap.c), and a view's end finds its objects among
 * any number. */

static struct recalled *recalling;

static struct recalled **place_of(struct recalled *r)
{
    return !r->up ? &recalling : &r->up->below[r->up->below[1] == r];
}

/* sums_set: the users of r, or what is below it, have changed. */
static void sums_set(struct recalled *r)
{
    for (; r; r = r->up) {
        r->all = r->users;
        for (unsigned i = 0; i < 2; i++)
            if (r->below[i])
                vmask_add(&r->all, &r->below[i]->all);
    }
}

static void tree_add(struct recalled *r, uint32_t way)
{
    struct recalled **at = &recalling;
    for (r->up = NULL; *at; way >>= 1) {
        r->up = *at;
        at = &r->up->below[way & 1];
    }
    *at = r;
}

/* tree_remove takes r out; one that has none below it takes its place. */
static void tree_remove(struct recalled *r)
{
    struct recalled *last = r;
    while (last->below[0] || last->below[1])
        last = last->below[!last->below[0]];
    *place_of(last) = NULL;
    struct recalled *changed = last->up == r ? last : last->up;
    if (last != r) {
        *place_of(r) = last;
        last->up = r->up;
        for (unsigned i = 0; i < 2; i++) {
            if ((last->below[i] = r->below[i]))
                last->below[i]->up = last;
            r->below[i] = NULL;
        }
    }
    sums_set(changed);
}

/* tree_find finds one that the view uses, or NULL. */
static struct recalled *tree_find(unsigned view)
{
    struct recalled *r = recalling && vmask_test(&recalling->all, view) ? recalling : NULL;
    while (r && !vmask_test(&r->users, view))
        r = r->below[!(r->below[0] && vmask_test(&r->below[0]->all, view))];
    return r;
}

bool recall_wrong(struct object *o)
{
    struct recalled *r = &o->recalled;
    lock_acquire(&graph_lock);
    struct vmask all = r->users;
    for (unsigned i = 0; i < 2; i++)
        if (r->below[i])
            vmask_add(&all, &r->below[i]->all);
    bool wrong = !vmask_empty(&r->users) &&
                 (*place_of(r) != r || memcmp(&all, &r->all, sizeof all));
    lock_release(&graph_lock);
    return wrong;
}

/* ---- recalls ---- */

/* user_note makes the view's end tell o's manager (RE2). Leaf and view locked. */
static void user_note(struct view *v, struct object *o)
{
    lock_acquire(&graph_lock);
    if (vmask_empty(&o->recalled.users)) {
        object_get(o);
        tree_add(&o->recalled, o->place.weight);
    }
    if (!vmask_test(&o->recalled.users, v->id)) {
        vmask_set(&o->recalled.users, v->id);
        sums_set(&o->recalled);
    }
    lock_release(&graph_lock);
    if (!v->owed.recalled)
        __atomic_fetch_add(&view_ends_watched, 1, __ATOMIC_SEQ_CST);
    v->owed.recalled = true;
}

/* given_now tells whether the view was given one of the rights, and has not used it (RE3). Leaf
 * locked. */
static bool given_now(const struct page_wait *w, const struct leaf *l, unsigned slot, unsigned take)
{
    return w->leaf == l && w->done && w->view && w->rights & take &&
           (w->slot == slot || w->slots >> slot & 1);
}

/* recall_view takes the view's right to the page, unless its transaction uses it. True: that is a
 * user. Leaf and view locked. */
static bool recall_view(struct recall *r, struct leaf *l, unsigned slot, struct view *v)
{
    struct page *p = &l->pages[slot];
    vaddr_t at = page_address(l, slot);
    bool none = r->take & KD_READ, idle = v->state == VIEW_IDLE || v->txn.untouched;
    bool transactional = l->object->flags & KD_OBJECT_TRANSACTIONAL;
    pte_t e = right_at(v, at);
    if (transactional && (v->snapshot_rights || v->state == VIEW_FREE))
        return false; /* no right */
    bool stores = p->writer == v->id || e & PTE_COPY;
    bool uses = transactional && !idle && ((right_used(e) && (none || stores)) ||
                                           given_now(&v->supply, l, slot, r->take));
    if (!uses && (none || !transactional)) {
        if (!transactional || idle)
            right_take(v, p, at, &r->u.debt);
        else
            uses = !right_take_unused(v, p, at, &r->u.debt);
    } else if (!uses && p->writer == v->id) {
        p->writer = WRITER_NONE; /* it keeps a shared right */
    }
    if (uses) {
        right_owe(v, at); /* or its next transaction, if it is quick, would have it again */
        user_note(v, l->object);
    }
    return uses;
}

static void recall_page(struct recall *r, struct leaf *l, unsigned slot)
{
    struct page *p = &l->pages[slot];
    struct vmask may = p->mask;
    bool used = false;
    if (r->given >> slot & 1)
        list_each(const struct page_wait, w, &l->waits, link)
            if (given_now(w, l, slot, r->take))
                vmask_set(&may, w->view->id);
    l->touched |= 1ull << slot;
    p->closed |= (uint8_t)(r->take << CLOSED_RECALLED); /* RE1 */
    views_each_locked(v, &may)
        if (recall_view(r, l, slot, v)) {
            vmask_set(&r->users, v->id);
            used = true;
        }
    if (!(l->object->flags & KD_OBJECT_TRANSACTIONAL))
        p->flags &= (uint8_t)~PAGE_MAPPED_WRITE;
    if (!used)
        p->closed = (uint8_t)((p->closed & ~(r->take << CLOSED_RECALLED)) | r->take);
    r->used += used;
    waiters_wake(p);
}

static unsigned leaf_recall(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    struct recall *r = arg;
    uint64_t used = r->used;
    unsigned first = slot;
    lock_acquire(&l->lock);
    r->given = 0;
    list_each(const struct page_wait, w, &l->waits, link)
        if (w->done)
            r->given |= 1ull << w->slot | w->slots;
    for (end = leaf_portion(l, slot, end); slot < end; slot++)
        recall_page(r, l, slot);
    unmap_end(&r->u);
    lock_release(&l->lock);
    long gone = 0;
    if (r->drop && r->used == used)
        (void)evict_now(l, first, end, &gone);
    return end;
}

OBJECT_CALL(kd_object_recall, 0)
{
    struct recall r = {.take = CLOSED_ALL & ~(unsigned)a[3], .drop = a[3] & KD_RECALL_DROP,
                       .u.frames = LIST_INIT(r.u.frames)};
    if (!range_ok(o, a[1], a[2]) || (a[3] & ~(uint64_t)KD_RECALL_DROP && a[3] != KD_READ))
        return -EINVAL;
    leaves_in(o, a[1], a[1] + a[2], leaf_recall, &r);
    holders_recall(&r.users, o->base + (a[1] << PAGE_SHIFT), a[2],
                   r.take & KD_READ ? KD_WRITE : KD_READ);
    return a[4] && copy_to_user(a[4], &r.users, sizeof r.users) ? -EFAULT : (long)r.used;
}

/* object_left takes the view out of the users of one object, or of `only`. The object, a reference;
 * NULL: it uses no page there that is called back. */
static struct object *object_left(const struct view *v, struct object *only)
{
    struct object *left = NULL;
    if (only && !vmask_test(&only->recalled.users, v->id))
        return NULL;
    lock_acquire(&graph_lock);
    struct recalled *r = only ? &only->recalled : tree_find(v->id);
    if (r && vmask_test(&r->users, v->id)) {
        left = container_of(r, struct object, recalled);
        vmask_clear(&r->users, v->id);
        if (vmask_empty(&r->users)) {
            tree_remove(r); /* its reference is the caller's now */
        } else {
            sums_set(r);
            object_get(left);
        }
    }
    lock_release(&graph_lock);
    return left;
}

/* user_gone tells managers, whether it was the last user or not. */
static void user_gone(const struct view *v, struct object *only)
{
    for (struct object *o; (o = object_left(v, only)); object_put(o), thread_breathe())
        if (!o->dead)
            port_post(o->port, &o->recalled.item);
}

void recall_user_gone(struct view *v)
{
    if (!v->owed.recalled)
        return;
    v->owed.recalled = false; /* it is IDLE: nobody sets it */
    __atomic_fetch_sub(&view_ends_watched, 1, __ATOMIC_SEQ_CST);
    user_gone(v, NULL);
}

/* ---- a view gives rights up ---- */

struct release { struct view *view; bool none; long stored; };

static unsigned leaf_release(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    struct release *r = arg;
    struct view *v = r->view;
    struct debt debt = {0};
    bool may = true;
    lock_acquire(&l->lock);
    for (end = leaf_portion(l, slot, end); may && slot < end; slot++) {
        struct page *p = &l->pages[slot];
        bool worked = view_holds(v) && heirs_use(v, l, slot);
        lock_acquire(&v->lock);
        pte_t e = right_at(v, page_address(l, slot));
        may = v->state == VIEW_ACTIVE && v->process == process_this() && !v->snapshot_rights;
        if (!may || e & PTE_COPY || (worked && e))
            r->stored += may;
        else if (e && r->none)
            right_take(v, p, page_address(l, slot), &debt);
        else if (p->writer == v->id)
            p->writer = WRITER_NONE;
        lock_release(&v->lock);
        waiters_wake(p);
    }
    right_pay(&debt);
    lock_release(&l->lock);
    return end;
}

HANDLE_CALL(kd_txn_release, struct view *v, HANDLE_VIEW, 0, 0)
{
    uint32_t rights;
    struct object *o = object_at(process_this(), a[1], &rights);
    struct release r = {.view = v, .none = a[3] == 0};
    uint64_t page = o ? (a[1] - o->base) >> PAGE_SHIFT : 0;
    if (!o)
        return -ENOENT;
    bool ok = range_ok(o, page, a[2]) && (a[3] & ~(uint64_t)KD_READ) == 0 &&
              o->flags & KD_OBJECT_TRANSACTIONAL;
    if (ok) {
        leaves_in(o, page, page + a[2], leaf_release, &r);
        view_wake_waiters(v); /* they look again */
        user_gone(v, o);      /* so does who calls back */
    }
    object_put(o);
    return ok ? r.stored : -EINVAL;
}
