/*
 * commit.c - a transaction's end: the owner's side (CM1..CM3, CM8) and the manager's (publish,
 * refuse). encode.c tells the manager what changed. Both are told in commit.md.
 *
 * Locks: leaf, view, versions; none across a user copy or a message.
 */
#include "store/dying.h"
#include "store/object_private.h"
#include "store/codeword.h"
#include "store/commit.h"
#include "store/evict.h"
#include "store/holder.h"
#include "store/item.h"
#include "store/parts.h"
#include "store/right.h"
#include "store/spill.h"
#include "store/stack.h"
#include "store/wait.h"

/* ---- the owner's side ---- */

/* freeze_some makes some copies read-only, from v->copies.diff_next on. True: they were the last.
 * View locked. */
static bool freeze_some(struct view *v)
{
    enum { AT_ONCE = 512, FEW = 8 };
    bool many = v->copies.count > FEW;
    struct list *l = v->copies.diff_next;
    for (unsigned n = 0; l != &v->copies.resident && n < AT_ONCE; n++, l = l->next)
        right_freeze(v, container_of(l, struct copy, link)->at, many);
    right_flush_due(v);
    v->copies.diff_next = l; /* a sweep may take that copy before the next portion (copy_take) */
    return l == &v->copies.resident;
}

/* commit_freeze makes all copies read-only (CM1); the clock sees touches after it as new uses
 * (clock.c). False: the view was doomed meanwhile. *wrote: the view had copies at first. A sweep
 * may take them before the manager is asked, and then it must be asked all the same. */
static bool commit_freeze(struct view *v, bool *wrote)
{
    lock_acquire(&v->lock);
    *wrote = v->copies.count + v->copies.spilled_count != 0;
    v->copies.diff_next = v->copies.resident.next;
    while (!v->doom && !freeze_some(v)) {
        lock_release(&v->lock); /* it is active still: a sweep takes copies, and dooms it */
        thread_breathe();
        lock_acquire(&v->lock);
    }
    bool alive = !v->doom;
    if (alive) {
        v->state = VIEW_COMMITTING;
        TRACE_RARE(FREEZE, v->copies.count + v->copies.spilled_count, v->txn.ticket, 0);
    }
    lock_release(&v->lock);
    return alive;
}

/* commit_refused aborts the transaction as an ACTIVE one, for `reason`. Returns -reason. */
static long commit_refused(struct view *v, int reason)
{
    lock_acquire(&v->lock);
    v->state = VIEW_ACTIVE;
    lock_release(&v->lock);
    view_abort(v, reason);
    return -reason;
}

/* commit_forsaken ends a commit whose thread has left its process: there is nobody to tell. */
static _Noreturn void commit_forsaken(struct view *v, int answer)
{
    struct process *p = v->process;
    if (answer)
        commit_refused(v, answer);
    else
        view_end(v);
    view_destroy(v);
    attachments_end_left(p);
    process_put(p);
    thread_exit();
}

static int commit_tell(vaddr_t at, struct kd_commit *k)
{
    return user_words_out(at + offsetof(struct kd_commit, csn), &k->csn, 2);
}

static __attribute__((noinline)) long commit_written(struct view *v, vaddr_t at,
                                                     struct kd_commit k)
{
    v->commit.csn = 0;
    v->items.told = false;
    v->commit.logged = v->commit.logged_spilled = 0;
    v->group.parts.decides = NULL;
    int e = k.batch_bytes ? data_in(&v->commit.batch, (vaddr_t)k.batch, k.batch_bytes) : 0;
    if (!e && k.batch_bytes && (!v->txn.enlisted || k.port >= 0))
        e = parts_enlist(v, k.port, &v->group.parts.decides);
    if (!e && parts_batch_twice(v))
        e = -EEXIST;
    if (!e && v->items.count && view_stacks(v))
        e = -EXDEV; /* IT8 */
    if (e)
        return commit_refused(v, v->doom ? v->doom : -e);
    bool wrote;
    if (!commit_freeze(v, &wrote))
        return commit_refused(v, v->doom);
    if (wrote || k.batch_bytes || v->group.rank) { /* else CM2: nothing leaves the kernel */
        item_say(&v->question.item, ITEM_COMMIT, v->process->pid, v->id, v->copies.count,
                 v->copies.spilled_count, k.flags);
        int answer = view_stacks(v) ? group_ask(v) : view_ask(v, v->txn.enlisted); /* CM3 */
        data_drop(&v->commit.batch);
        parts_drop(v);
        if (!process_this())
            commit_forsaken(v, answer);
        if (answer)
            return commit_refused(v, answer);
    }
    k.csn = v->commit.csn;
    k.copies = v->commit.logged;
    TRACE_RARE(COMMIT, k.copies, v->txn.ticket, k.csn);
    view_end(v);
    (void)!commit_tell(at, &k); /* durable all the same */
    return 0;
}

long kd_txn_commit(const uint64_t a[6])
{
    struct view *v = thread_this()->view;
    struct kd_commit k;
    if (user_words_in(&k, a[0], sizeof k / 8))
        return -EFAULT;
    if (!v || v->state != VIEW_ACTIVE)
        return -ENOENT;
    if (object_dying(v->process, KD_OBJECT_ITEMS, 0, ~0ull))
        view_doom(v, EOWNERDEAD); /* BG4: an item of it that it used may be another's since */
    if (v->doom)
        return commit_refused(v, v->doom);
    if (k.batch_bytes | (uintptr_t)v->txn.enlisted | v->copies.count | v->copies.spilled_count)
        return k.port == KD_COMMIT_READ ? -ENOTEMPTY : commit_written(v, a[0], k);
    view_end(v);
    if (k.csn | k.copies) { /* else they say already that nothing was written */
        k.csn = k.copies = 0;
        (void)!commit_tell(a[0], &k);
    }
    return 0;
}

/* ---- the manager's side ---- */

/* others_owe makes each snapshot that maps the page owe its entry, which shows an old version from
 * now on. The snapshot may keep it to its end; the next one of the same view may not. Rights that
 * others of the group kept (SK6) go at once. Leaf locked. */
static void others_owe(const struct view *writer, struct page *p, vaddr_t at)
{
    struct debt debt = {0};
    views_each_locked(v, &p->mask)
        if (v->snapshot_rights && right_at(v, at))
            right_owe(v, at);
        else if (v != writer && !v->snapshot_rights && group_of(v) == group_of(writer))
            right_take(v, p, at, &debt);
    right_pay(&debt);
}

/* current_set makes f the page's current version; NULL: that lies in the log only. It is clean if
 * its manager has it: a stacked one below, another by KD_OBJECT_VERSIONS. Leaf locked. */
static void current_set(struct leaf *l, unsigned slot, struct frame *f)
{
    struct page *p = &l->pages[slot];
    bool was = p->flags & PAGE_DIRTY;
    bool dirty = f && !l->object->commit_port->rank && !(l->object->flags & KD_OBJECT_VERSIONS);
    p->frame = f;
    page_changed(l);
    p->flags = (uint8_t)(dirty ? p->flags | PAGE_DIRTY : p->flags & ~PAGE_DIRTY);
    p->flags = (uint8_t)((f ? p->flags & ~PAGE_AWAY : p->flags | PAGE_AWAY) & ~PAGE_FREED);
    if (was != dirty)
        dirty_count(l->object, dirty ? 1 : -1);
    if (f)
        evict_add(l, slot);
}

/* publish_flip makes the copy current (CM7, pass 1); its struct becomes the old version's, if that
 * is here. Returns whether others have rights to the page. */
static __attribute__((noinline)) bool publish_flip(struct view *v, struct copy *c, csn_t csn,
                                                   uint64_t sequence)
{
    struct leaf *l = c->leaf;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[c->slot];
    assert(p->writer == v->id);
    struct frame *now = c->frame;
    page_drop_filling(l, p); /* read for a snapshot, in vain */
    c->frame = p->frame;
    p->frame = NULL;
    if (c->frame)
        evict_remove(c->frame, true);
    c->sequence = p->sequence;
    c->superseded = sequence;
    p->csn = csn;
    p->sequence = sequence;
    current_set(l, c->slot, now);
    if (now)
        codeword_replace(l, c);
    if (p->flags & PAGE_ASKED) /* its base was away: the manager may find it here, not answer */
        waits_end(l, c->slot, 0, 0, 0);
    if (l->object->flags & KD_OBJECT_UNLOCKED && c->frame)
        version_unmap(p, c->frame, c->at, true);
    lock_acquire(&v->lock);
    right_retire(v, c->at); /* the view keeps a shared right */
    view_copy_out(v, c, now);
    if (l->object->commit_port->rank)
        credit_return(l->object->commit_port, 1);
    else
        v->commit.logged++;
    v->commit.logged_spilled += !now;
    lock_release(&v->lock);
    bool others = !vmask_within(&p->mask, &v->self);
    if (others)
        others_owe(v, p, c->at);
    if (c->frame)
        version_add(p, c);
    lock_release(&l->lock);
    return others;
}

/* publish_view is pass 1 for one transaction, in the order of its first writes
 * (KD_OBJECT_UNLOCKED); of the base's part, NULL: all of it. Links the structs of its copies behind
 * `last`, and returns the last one's link: versions are released oldest first (VS4). */
static struct copy **publish_view(struct view *v, const struct port *base, csn_t csn,
                                  uint64_t sequence, struct copy **last)
{
    enum { LEFT_AT_ONCE = 1024 };
    struct list *lists[2] = {&v->copies.resident, &v->copies.spilled};
    unsigned left = 0, done = 0;
    v->commit.csn = csn;
    v->commit.chained = false;
    for (int i = 0; i < 2; i++)
        list_for_safe(l, lists[i]) {
            struct copy *c = container_of(l, struct copy, link);
            bool other = base && c->leaf->object->commit_port->base != base;
            if (other || (c->frame && !c->changed)) { /* left alone: CM8 drops it */
                if (++left % LEFT_AT_ONCE == 0)
                    thread_breathe();
                continue;
            }
            bool others = c->items ? item_publish(v, c, csn, sequence)
                                   : publish_flip(v, c, csn, sequence);
            *last = c;
            last = &c->chain;
            pages_breathe(others, &done);
        }
    struct debt debt = {v->items.cpus}; /* FR1: pass 2 may free frames that item copies were in */
    v->items.cpus = 0;
    right_pay(&debt);
    return last;
}

/* publish_helpers is pass 1 for the others of v's group. */
static RARE struct copy **publish_helpers(struct view *v, const struct port *base, csn_t csn,
                                          uint64_t sequence, struct copy **last)
{
    struct vmask joined = group_joined(v); /* others run still */
    vmask_for(h, &joined) {
        lock_acquire(&views[h].lock); /* no sweep is at it that has not seen v claimed (QU3) */
        lock_release(&views[h].lock);
        views[h].commit.logged = 0; /* of another base's part */
        last = publish_view(&views[h], base, csn, sequence, last);
        v->commit.logged += views[h].commit.logged;
    }
    return last;
}

/* publish_release is pass 2 for a page: others may have it, and a snapshot that needs it gets the
 * old version. Returns whether others have rights to it. */
static bool publish_release(struct copy *c)
{
    struct leaf *l = c->leaf;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[c->slot];
    __asm__("" : "+r"(p)); /* or it is computed anew at each use */
    bool others = !vmask_within(&p->mask, &views[c->view].self);
    if (p->writer == c->view) {
        p->writer = WRITER_NONE;
        heir_return(&views[c->view], p);
        waiters_wake(p);
    }
    if (c->frame)
        version_release(p, c);
    else
        copy_free(c); /* there was no old version in memory */
    lock_release(&l->lock);
    return others;
}

/* kd_txn_publish makes the list's transactions visible in one step, as `published` moves once.
 * Allocates nothing. */
long kd_txn_publish(const uint64_t a[6])
{
    uint64_t count_views = a[1];
    struct kd_publish list[KD_VIEW_MAX];
    if (count_views == 0 || count_views > KD_VIEW_MAX)
        return -EINVAL;
    if (copy_from_user(list, a[0], count_views * sizeof list[0]))
        return -EFAULT;
    csn_t newest = 0;
    for (uint64_t i = 0; i < count_views; i++) {
        if (list[i].csn <= newest)
            return -EINVAL; /* in the order of their numbers, each once */
        newest = list[i].csn;
    }
    int e = views_claim(list, count_views, ASKED_COMMIT | ASKED_BASE);
    if (!e && !items_in_order(list, count_views)) {
        for (uint64_t i = 0; i < count_views; i++)
            view_claim_end(&views[list[i].view]);
        e = -EINVAL;
    }
    if (e)
        return e;
    struct copy *first = NULL, **last = &first;
    unsigned done = 0;
    uint64_t sequence = version_publish_begin();
    for (uint64_t i = 0; i < count_views; i++) {
        struct view *v = &views[list[i].view];
        const struct port *base = v->group.parts.part ? v->group.asked : NULL; /* BP4 */
        last = publish_view(v, base, list[i].csn, sequence, last);
        if (!vmask_empty(&v->group.helpers))
            last = publish_helpers(v, base, list[i].csn, sequence, last);
    }
    *last = NULL;
    version_publish(sequence);
    for (struct copy *c = first, *next; c; c = next) {
        next = c->chain;
        bool others = publish_release(c);
        if (next)
            pages_breathe(others, &done);
    }
    version_publish_end();
    for (uint64_t i = 0; i < count_views; i++) {
        struct view *v = &views[list[i].view];
        credit_consume(v->group.asked, v->commit.logged - v->commit.logged_spilled);
        __atomic_fetch_add(&v->process->stats.pages_logged, v->commit.logged, __ATOMIC_RELAXED);
        TRACE_RARE(PUBLISH, v->id, v->commit.csn, 0);
        item_leaves_log(v);
        __atomic_store_n(&v->group.asked->settled, a[2], __ATOMIC_RELAXED);
        view_answer(v, 0);
        if (i + 1 < count_views)
            thread_breathe();
    }
    count_add(publishes, count_views);
    return 0;
}

long kd_txn_refuse(const uint64_t a[6])
{
    int error = (int)a[2];
    if (error <= 0 || error >= 4096)
        return -EINVAL;
    struct view *v = view_claim(a[0], a[1], ASKED_COMMIT | ASKED_SPILL | ASKED_UNSPILL |
                                            ASKED_REFUSAL);
    if (!v)
        return -ESRCH;
    item_take_back(v);
    bool doomed = v->doom && v->question.item.kind == ITEM_COMMIT && !v->group.parts.part;
    view_answer(v, doomed ? v->doom : error); /* as await */
    return 0;
}
