/*
 * sweep.c - rights taken by force: dead managers, detached clients, recalled pages.
 *
 * An active view that loses a right is doomed, and so is a snapshot whose process has attached the
 * dying object. TLBs are flushed before a frame is freed (FR1).
 *
 * Locks: leaf, view, graph. A sweep locks one leaf at a time, for a portion of its pages. Before it
 * the object or its port is dead, and grants look at that under the leaf lock (object_dies), so
 * nothing is granted behind it.
 */
#include "store/commit.h"
#include "store/dying.h"
#include "store/object_private.h"
#include "store/right.h"
#include "store/spill.h"
#include "store/wait.h"
#include "store/evict.h"

/* LOOK_NS: who waits for a sweep, or in one, looks so often, and sleeps: who only yields leaves the
 * other one no CPU. */
enum { LOOK_NS = 100000 };

/* copy_take frees a copy of a page that dies, and its credit; its frame follows. View locked. */
static void copy_take(struct view *v, struct copy *c, struct unmap *u)
{
    if (v->copies.diff_next == &c->link)
        v->copies.diff_next = c->link.next; /* the manager was told of those before it */
    v->copies.told = 0; /* what was told does not stand first any more */
    view_copy_out(v, c, c->frame);
    if (c->frame) {
        credit_return(c->leaf->object->commit_port, 1);
        list_push_back(&u->frames, &c->frame->link);
    }
    copy_free(c);
}

/* unmap_view takes one view's right to one page, where it may. A view without one leaves the mask:
 * it may get one to another object's page at this address. Leaf and view locked. */
static void unmap_view(struct leaf *l, unsigned slot, struct view *v, struct unmap *u)
{
    vaddr_t at = page_address(l, slot);
    bool transactional = l->object->flags & KD_OBJECT_TRANSACTIONAL;
    /* told: its manager's call walks its copies (encode_copies) */
    bool told = v->state == VIEW_ACTIVE && v->question.answer == ANSWER_CLAIMED;
    pte_t was = right_at(v, at);
    if ((u->only && v->process != u->only) || (u->stale && was))
        return;
    if (was && u->dying && view_claimed(v)) {
        u->waits = true;
        return;
    }
    if (was && transactional && (told || v->state == VIEW_COMMITTING) && !u->dying) {
        right_owe_all(v); /* at its end, which is near */
        v->owed.detached = true;
        if (told)
            view_doom_locked(v, u->reason);
        return;
    }
    was = right_take(v, &l->pages[slot], at, &u->debt);
    if (was && transactional && v->state == VIEW_ACTIVE)
        view_doom_locked(v, u->reason);
    else if (transactional && v->state == VIEW_COMMITTING && l->object->commit_port->rank &&
             was & (PTE_ACCESSED | PTE_USED | PTE_HELD))
        group_doom(v); /* it has read what its manager's successor may change (SK14) */
    if (was & PTE_COPY)
        copy_take(v, pte_copy(was), u);
}

void unmap_page(struct leaf *l, unsigned slot, struct unmap *u)
{
    struct page *p = &l->pages[slot];
    views_each_locked(v, &p->mask)
        unmap_view(l, slot, v, u);
    waiters_wake(p);
}

void unmap_end(struct unmap *u)
{
    right_pay(&u->debt);
    frames_free(&u->frames);
}

unsigned leaf_unmap(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    lock_acquire(&l->lock);
    for (end = leaf_portion(l, slot, end); slot < end; slot++)
        if (!vmask_empty(&l->pages[slot].mask))
            unmap_page(l, slot, arg);
    unmap_end(arg);
    lock_release(&l->lock);
    return end;
}

/* page_sweep takes the page's PTE in every view, its frames and versions, and dooms active
 * views that lose a PTE. False: it has more versions, for the next portion, or a manager's call
 * works on it (QU3). Leaf locked. */
static bool page_sweep(struct leaf *l, unsigned slot, struct unmap *u)
{
    enum { VERSIONS_AT_ONCE = 4 };
    struct page *p = &l->pages[slot];
    l->touched |= 1ull << slot;
    unmap_page(l, slot, u);
    if (u->waits)
        return false;
    if (p->versions)
        right_pay(&u->debt); /* FR1: snapshots mapped them, and their frames are free at once */
    for (unsigned n = 0; p->versions; n++) {
        if (n == VERSIONS_AT_ONCE)
            return false;
        version_free(p, p->versions);
    }
    page_drop_filling(l, p);
    if (p->frame) {
        evict_remove(p->frame, false);
        if (p->flags & PAGE_DIRTY)
            dirty_count(l->object, -1);
        list_push_back(&u->frames, &p->frame->link);
        p->frame = NULL;
    }
    if (p->flags & PAGE_PINNED)
        limit_uncharge(l->object->owner, KD_LIMIT_PINS, 1);
    u->newest = MAX(u->newest, p->flags & PAGE_FREED ? version_newest() : p->sequence);
    p->flags = 0;
    p->writer = WRITER_NONE;
    p->csn = p->sequence = 0;
    waits_end(l, slot, -EOWNERDEAD, 0, 0);
    return true;
}

/* leaf_sweep forgets a leaf that was swept to its end, unless a thread waits at it still. */
static unsigned leaf_sweep(struct leaf *l, unsigned slot, unsigned last, void *arg)
{
    struct unmap *u = arg;
    lock_acquire(&l->lock);
    unsigned end = leaf_portion(l, slot, last);
    while (slot < end && page_sweep(l, slot, u))
        slot++;
    unmap_end(u);
    evict_leaves(&l, 1, false);
    lock_release(&l->lock);
    struct forgotten gone = FORGOTTEN_INIT(gone);
    if (slot == last && leaf_forget(l, true, &gone))
        forgotten_move(&gone, &evict_forgotten);
    if (u->waits)
        (void)thread_park_until_uninterrupted(arch_time_ns() + LOOK_NS);
    u->waits = false;
    return slot;
}

static bool attached(struct object *o, const struct process *p)
{
    bool is = false;
    lock_acquire(&o->lock);
    list_each(const struct attachment, a, &o->attachments, object_link)
        is |= a->process == p;
    lock_release(&o->lock);
    return is;
}

/* snapshots_doom dooms snapshots that may look at a dying object. Such a snapshot need not have a
 * PTE, and would find the manager's next object there: newer pages, from before any publication. */
static void snapshots_doom(struct object *o)
{
    for (unsigned i = 0; i < KD_VIEW_MAX; i++) {
        struct view *v = &views[i];
        struct process *p =
            v->state == VIEW_ACTIVE && v->txn.mode == KD_SNAPSHOT ? v->process : NULL;
        if (!p || !attached(o, p))
            continue;
        lock_acquire(&v->lock);
        if (v->process == p && v->state == VIEW_ACTIVE && v->txn.mode == KD_SNAPSHOT)
            view_doom_locked(v, EOWNERDEAD);
        lock_release(&v->lock);
    }
}

bool object_die(struct object *o, bool unused)
{
    lock_acquire(&o->lock);
    bool was = o->dead, cut = !list_empty(&o->attachments) || object_dies(o);
    bool dies = !was && !(unused && object_used(o));
    if (dies)
        __atomic_fetch_add(&port_deaths, 1, __ATOMIC_ACQ_REL);
    o->dead |= dies;
    lock_release(&o->lock);
    if (!dies)
        return was;
    if (cut)
        version_cut(o->base, version_newest() + 1); /* VS6 */
    container_lock_dead(o);
    item_locks_end(o);
    snapshots_doom(o);
    UNMAP(u, .reason = EOWNERDEAD, .dying = true);
    leaves_for(o, leaf_sweep, &u);
    leaves_freed(o, (struct freed){.sequence = u.newest}, UINT64_MAX); /* all goes into floor */
    version_cut(o->base, o->floor);
    limit_uncharge(o->owner, KD_LIMIT_MEMORY, object_table_frames(o) + o->leaf_frames);
    lock_acquire(&objects_lock);
    list_remove(&o->at_port[0].link);
    list_remove(&o->at_port[1].link);
    object_unplace(o);
    lock_release(&objects_lock);
    if (object_table_frames(o) && !o->leaf_frames)
        evict_tables(o);
    evict_wake(); /* it frees the leaves */
    object_charge(o->owner, -1); /* the last that is done with its owner */
    count_add(objects, -1ull);
    __atomic_store_n(&o->swept, true, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&port_deaths, 1, __ATOMIC_ACQ_REL);
    object_put(o); /* the list's; the caller holds one of its own */
    return true;
}

bool object_dying_look(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end)
{
    bool is = false;
    lock_acquire(&p->attach_lock);
    for (unsigned i = 0; !is && i < p->attachment_count; i++) {
        const struct object *o = p->attachments[i]->object;
        is = (o->flags & flags) == flags && o->base < end && from < object_end(o) &&
             !__atomic_load_n(&o->swept, __ATOMIC_ACQUIRE) && object_dies(o);
    }
    lock_release(&p->attach_lock);
    return is;
}

int deaths_sleep(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end)
{
    int e = 0;
    while (!e && object_dying(p, flags, from, end))
        e = thread_park_until(arch_time_ns() + LOOK_NS) == -EINTR ? -EINTR : 0;
    return e;
}
