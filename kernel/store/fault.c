/*
 * fault.c - page faults, and how a transaction gets a right to a page (faults.md: FT1..FT7).
 *
 * fault_fast is the path without a conflict once more, for the commonest case, near the last fault:
 * it decides nothing, it sees that nothing is to be decided, and leaves all else to view_fault.
 */
#include "store/dying.h"
#include "store/fault.h"
#include "store/commit.h"
#include "store/grant.h"
#include "store/holder.h"
#include "store/item.h"
#include "store/parts.h"
#include "store/spill.h"
#include "store/stack.h"
#include "words.h"
#include "store/evict.h"

/* leaf_aligned tells whether the leaf's 64 entries lie in one page table. */
HOT bool leaf_aligned(const struct leaf *l)
{
    return l->object->base % (LEAF_PAGES * PAGE_BYTES) == 0;
}

/* ---- FT7: what a write needs ---- */

/* memory_came tells whether to look again: frames were freed, copies spilled, a process ends. */
static bool memory_came(void)
{
    size_t before = frame_free_count();
    return evict_more(true) || evict_last() || frame_free_count() > before;
}

/* spill_now tells whether copies of v are to go while there still are frames for their manager. */
static bool spill_now(const struct view *v)
{
    return evict_short && v->txn.enlisted && evict_still_short() && spill_due(v, v->txn.enlisted);
}

/* hands_fill_rare fills the view's hands at the transaction's first write, or where that may wait.
 * 0; -EAGAIN: waited, look again; -errno: doom. */
static RARE int hands_fill_rare(struct view *v, struct object *o)
{
    struct port *port = o->commit_port;
    const struct leaf *last = v->last.leaf; /* it may go while this sleeps (LF2) */
    int other = v->txn.enlisted && v->txn.enlisted != port ? port_switch(v, port) : 0;
    if (other)
        return other;
    if (v->txn.pages_max && v->copies.count + v->copies.spilled_count >= v->txn.pages_max)
        return -E2BIG;
    if (!v->txn.enlisted) {
        port_get(port);
        v->txn.enlisted = port;
    }
    if (!v->reserve.credits) {
        evict_slow_writer(o);
        int e = credit_take(v, port);
        if (e == -ENOBUFS)
            return spill_some(v);
        if (e)
            return e;
    }
    if (spill_now(v) || spill_for_room(v, o, 4))
        return spill_some(v);
    if (!v->reserve.frame)
        v->reserve.frame = frame_alloc_raw(FRAME_PAGE);
    if (!v->reserve.copy && !(v->reserve.copy = copy_alloc()))
        return memory_came() || v->doom ? -EAGAIN : -ENOMEM;
    if (!v->reserve.frame && !(v->reserve.frame = evict_frame(FRAME_PAGE)))
        return v->doom ? -EAGAIN : -ENOMEM;
    return v->last.leaf == last ? 0 : -EAGAIN;
}

/* hands_fill gets a credit, a frame and a struct copy in hand. 0; -EAGAIN: it waited; -errno. */
HOT int hands_fill(struct view *v, struct object *o)
{
    if (likely(v->txn.enlisted == o->commit_port && v->reserve.credits &&
               !(v->txn.pages_max | evict_short))) {
        if (!v->reserve.copy)
            v->reserve.copy = copy_alloc();
        if (!v->reserve.frame)
            v->reserve.frame = frame_alloc_raw(FRAME_PAGE);
        if (likely(v->reserve.copy && v->reserve.frame))
            return 0;
    }
    return hands_fill_rare(v, o);
}

/* hand_copy copies the page into the frame in hand, without a lock, and returns leaf->changes of
 * before. If, under the leaf lock, the page is resident and leaf->changes is the same, then its
 * frame has been the same one all the time, with the same contents. Else the bytes may be
 * anything. */
HOT uint64_t hand_copy(struct view *v, struct leaf *l, struct page *p)
{
    uint64_t changes = __atomic_load_n(&l->changes, __ATOMIC_ACQUIRE);
    struct frame *f = __atomic_load_n(&p->frame, __ATOMIC_ACQUIRE);
    if (likely(f))
        arch_copy_words(frame_memory(v->reserve.frame), frame_memory(f), PAGE_BYTES / 8);
    return changes;
}

/* grant_copy makes the copy in hand v's copy of the page. `changes`: of hand_copy. Leaf and view
 * locked. */
HOT void grant_copy(struct view *v, struct leaf *l, struct page *p, unsigned slot, vaddr_t at,
                    pte_t *pte, uint64_t changes)
{
    struct copy *c = v->reserve.copy;
    c->leaf = l;
    c->slot = (uint16_t)slot;
    c->view = v->id;
    c->frame = v->reserve.frame;
    c->frame->owner = c;
    c->at = at;
    c->changed = c->items = c->spoilt = false;
    c->groups = c->regions = 0;
    v->reserve.copy = NULL;
    v->reserve.frame = NULL;
    v->reserve.page = NULL;
    v->reserve.credits--;
    if (changes != l->changes)
        arch_copy_words(frame_memory(c->frame), frame_memory(p->frame), PAGE_BYTES / 8);
    list_push_back(&v->copies.resident, &c->link);
    v->copies.count++;
    right_copy(v, l, p, pte, c->frame, at);
    count(grants_exclusive);
}

/* grant_shared maps the current version read-only, also for READ_FOR_WRITE. */
HOT void grant_shared(struct view *v, struct leaf *l, struct page *p, pte_t *pte)
{
    right_share(v, l, p, pte, p->frame);
    if (v->wait.want == WANT_READ_FOR_WRITE) {
        p->writer = (int16_t)v->id;
        if (p->rmw)
            p->rmw--;
    }
    count(grants_shared);
}

/* grant_neighbours maps the neighbours of a page that was granted for reading; not where the leaf's
 * 64 entries lie in two tables, nor where each page is to be taken exclusively or asked for. */
HOT void grant_neighbours(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    if (v->wait.want == WANT_READ && !v->txn.want_x_count && leaf_aligned(l) &&
        (!(l->pages[slot].closed & KD_READ) || v->supply.slots & ~(1ull << slot)))
        cluster_grant(v, l, slot, page_address(l, slot), pte - slot);
}

/* sufficient tells whether an entry allows what is wanted; of an exclusive right without a copy it
 * does not tell. */
HOT bool sufficient(pte_t e, enum view_want want)
{
    return pte_present(e) && (want == WANT_READ || pte_writable(e));
}

HOT void grant(struct view *v, struct leaf *l, struct page *p, unsigned slot, pte_t *pte)
{
    struct copy *c = v->reserve.copy;
    lock_acquire(&v->lock);
    if (v->wait.want == WANT_WRITE) {
        grant_copy(v, l, p, slot, page_address(l, slot), pte,
                   v->reserve.page == p ? v->reserve.changes : 0);
        if (unlikely(item_apart(v, l->object)))
            item_granted(v, p, c);
    } else if (pte_present(pte_load(pte)))
        right_exclusive(v, p, pte);
    else
        grant_shared(v, l, p, pte);
    lock_release(&v->lock);
}

int leaf_memory(struct view *v, int refused)
{
    if (refused || v->doom || thread_this()->killed)
        return refused ? refused : -ECANCELED; /* FT1: a doomed view waits for no memory */
    if (memory_came())
        return -EAGAIN;
    return v->doom ? -ECANCELED : -ENOMEM;
}

static RARE pte_t *own_ptes_make(struct view *v, vaddr_t base)
{
    uint64_t freed = arch_tables_free(&v->tables.cut, 4); /* more than are made here */
    lock_acquire(&v->lock); /* others take tables out (leaf.c) */
    view_tables_gone(v, freed);
    pte_t *ptes = view_pte_make(v, base);
    if (ptes) {
        v->last.ptes = ptes;
        v->last.base = base;
        v->tables.from = MIN(v->tables.from, base);
        v->tables.to = MAX(v->tables.to, base + RIGHT_REACH_BYTES);
    }
    lock_release(&v->lock);
    return ptes;
}

/* own_pte finds the view's entry for `at` and makes its tables. NULL: no memory. The leaf is locked
 * and not gone, so the tables stay meanwhile (leaf.c), and the last one found is kept. */
HOT pte_t *own_pte(struct view *v, vaddr_t at)
{
    pte_t *ptes = v->last.ptes;
    if (at - v->last.base >= RIGHT_REACH_BYTES || !ptes)
        ptes = own_ptes_make(v, at & ~(vaddr_t)(RIGHT_REACH_BYTES - 1));
    return ptes ? ptes + ((at & (RIGHT_REACH_BYTES - 1)) >> PAGE_SHIFT) : NULL;
}

/* leaf_keep remembers the leaf of a page that was granted for fault_fast. Left out are leaves that
 * straddle two page tables, objects that count faults, pages that are asked for, as mostly those
 * beside are, too, and all of heirs. */
static void leaf_keep(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    page_wait_over(&v->supply);
    vmask_add(&l->kept, &v->self);
    bool kept = leaf_aligned(l) && !l->object->escalate && !(l->pages[slot].closed & KD_READ);
    v->last.leaf = kept && !heir_is(v) ? l : NULL;
    v->last.leaf_base = page_address(l, 0);
    v->last.leaf_ptes = pte - slot;
}

/* fault_waits sleeps in a queue. Leaf locked on entry, not on return. */
static RARE int fault_waits(struct view *v, struct leaf *l, unsigned what, vaddr_t at)
{
    lock_release(&l->lock);
    if (v->txn.now)
        return -EBUSY;
    __atomic_fetch_add(&v->process->stats.lock_waits, 1, __ATOMIC_RELAXED);
    int e = waits_sleep(v, what, at, 0);
    return e == -ETIMEDOUT ? e : -EAGAIN; /* CF6: from FT1, keeping the place */
}

/* fault_contended does FT5 and FT6 where others have or want the page. Leaf locked on entry, not on
 * return. */
static RARE int fault_contended(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    bool items = l->object->flags & KD_OBJECT_ITEMS; /* nobody upgrades a right there */
    int result = conflict_test(v, l, slot, items ? 0 : pte_load(pte));
    if (result > 0)
        return fault_waits(v, l, KD_TRACE_FOR_PAGE, page_address(l, slot));
    if (!result && heir_is(v))
        result = heir_share(v, l, slot);
    if (!result) {
        queue_leave(v);
        grant(v, l, &l->pages[slot], slot, pte);
        if (heir_is(v))
            heir_owes(v, l, slot);
        leaf_keep(v, l, slot, pte);
    }
    lock_release(&l->lock);
    return result == -ENOMEM && limit_left(v->process, KD_LIMIT_MEMORY) >= 3 ? leaf_memory(v, 0)
                                                                             : result;
}

/* still_attached tells whether the object that was looked up before the leaf lock is attached
 * still. */
HOT bool still_attached(const struct view *v, const struct object *o)
{
    return !object_dies(o) &&
           v->last.generation == __atomic_load_n(&v->process->attach_generation, __ATOMIC_SEQ_CST);
}

/* uncontended tells that no view has a right that could conflict, none waits here, and v has no
 * edges left, and no holder. */
HOT bool uncontended(const struct view *v, const struct page *p)
{
    return !p->queue && waits_none(v) && !heir_is(v) &&
           (v->wait.want == WANT_WRITE ? vmask_within(&p->mask, &v->self)
                                       : p->writer == WRITER_NONE);
}

/* wants_exclusively tells whether the view wants to write the page, or to read it exclusively, as
 * it is likely to write it. Leaf locked. */
HOT bool wants_exclusively(struct view *v, const struct leaf *l, unsigned slot, pte_t e)
{
    const struct page *p = &l->pages[slot];
    if (v->wait.want == WANT_READ && p->rmw | v->txn.want_x_count && e != PTE_HELD &&
        !(l->object->flags & KD_OBJECT_ITEMS) &&
        !v->snapshot_rights && !heir_is(v) &&
        ((p->rmw && v->last.rights & RIGHTS_STORE) || want_x_has(v, page_address(l, slot))))
        v->wait.want = WANT_READ_FOR_WRITE;
    return v->wait.want != WANT_READ;
}

/* recall_closed tells whether a fault has to ask for the page, which is closed or called back;
 * mine: the view's entry. Where only the right to write is called back, who has read the page since
 * uses no such right. Leaf locked. */
HOT bool recall_closed(struct view *v, struct page *p, pte_t mine, bool write)
{
    bool written = !(p->closed & KD_READ << CLOSED_RECALLED);
    if (!mine && p->writer == v->id)
        p->writer = WRITER_NONE; /* its right went with its last end, and is not open again */
    bool user = right_used(mine) && (!write || !written || p->writer == v->id);
    return page_closed(p, user, v->supply.leaf ? v->supply.rights : 0, write);
}

/* fault_look looks once at the page, FT2 to FT7. 0: granted; -EAGAIN: it waited; -errno. */
static int fault_look(struct view *v, struct object *o, vaddr_t at)
{
    uint64_t index = (at - o->base) >> PAGE_SHIFT;
    unsigned slot = index % LEAF_PAGES;
    struct leaf *l = object_leaf_find(o, index);
    if (!l && !(l = object_leaf(o, index)))
        return leaf_memory(v, leaf_refused(o));
    struct page *p = &l->pages[slot];
    pte_t *pte = NULL;
    int result = 0;
    __asm__("" : "+r"(p)); /* or it is computed anew at each use */
again:
    lock_acquire(&l->lock);
    if (!still_attached(v, o)) {
        result = object_dies(o) ? -EOWNERDEAD : -ENXIO;
        goto out;
    }
    bool gone = l->gone; /* LF2 */
    if (gone || !(pte = own_pte(v, page_down(at)))) {
        lock_release(&l->lock);
        return gone ? -EAGAIN : table_memory(v);
    }
    pte_t mine = pte_load(pte);
    bool write = wants_exclusively(v, l, slot, mine);
    if (v->snapshot_rights) {
        if ((result = snapshot_look(v, l, slot, pte)) > 0)
            goto get;
        if (!result)
            grant_neighbours(v, l, slot, pte);
        goto out;
    }
    if (!page_resident(p)) /* FT2 */
        goto get;
    if (p->closed && recall_closed(v, p, mine, write))
        goto get;
    if (!write && mine == PTE_HELD) { /* FT4: the right was kept while the page was away */
        right_share(v, l, p, pte, p->frame);
        goto out;
    }
    if (container_shut(v, o) && !container_admits(v, l, slot, write))
        return fault_waits(v, l, KD_TRACE_FOR_CONTAINER, o->base);
    if (unlikely(o->flags & KD_OBJECT_ITEMS)
            ? item_busy(v, p) : !uncontended(v, p) || v->wait.want == WANT_READ_FOR_WRITE)
        return fault_contended(v, l, slot, pte);
    grant(v, l, p, slot, pte);
    grant_neighbours(v, l, slot, pte);
out:
    if (!result)
        leaf_keep(v, l, slot, pte);
    lock_release(&l->lock);
    return result;
get:
    if (!(result = page_get(v, l, slot, write)))
        goto again;
    return result;
}

/* copy_bring brings a copy of the view's back from the log. -EAGAIN: look again; else -errno. */
static RARE int copy_bring(struct view *v, struct object *o, vaddr_t page)
{
    uint64_t most = v->txn.pages_max;
    v->txn.pages_max = 0; /* it is counted already */
    int e = hands_fill(v, o);
    v->txn.pages_max = most;
    v->reserve.page = NULL;
    return e ? e : spill_bring(v, o, page);
}

int fault_ended(struct view *v, int e)
{
    struct leaf *l = v->wait.leaf ? v->wait.leaf : v->supply.leaf;
    if (l) {
        lock_acquire(&l->lock);
        queue_leave(v);
        page_wait_over(&v->supply);
        lock_release(&l->lock);
    }
    container_lock_leave(v);
    waits_clear(v);
    if (!e || e == -ENXIO || (e == -EBUSY && v->txn.now))
        return e; /* the right came meanwhile; or the caller looks the address up again */
    view_doom(v, e == -ECANCELED ? EINTR : -e); /* the first reason counts */
    v->deliver = true;
    thread_kick(thread_this()); /* view_return_to_user */
    return -ECANCELED;
}

/* view_fault repeats FT1 to FT7 until the access would succeed. 0; -ENXIO: o is gone; -errno. */
static int view_fault(struct view *v, struct object *o, vaddr_t at, enum view_want want)
{
    int e = !v->snapshot_rights ? 0 : want != WANT_READ ? -EROFS : parts_torn(v);
    if (want == WANT_READ_FOR_WRITE && o->flags & KD_OBJECT_ITEMS)
        want = WANT_READ; /* no page is exclusive there */
    if (!e && o->escalate && !v->snapshot_rights && !sufficient(right_at(v, at), want))
        container_escalate(v, o, want != WANT_READ); /* it stands in no queue yet */
    while (!e || e == -EAGAIN) {
        pte_t now = right_at(v, at);
        e = 0;
        if (v->doom || thread_this()->killed) { /* FT1 */
            e = -ECANCELED;
            break;
        }
        if (sufficient(now, want))
            break;
        v->wait.want = (uint8_t)want;
        if (right_state(now) == RIGHT_SPILLED) {
            e = copy_bring(v, o, page_down(at));
            continue;
        }
        if (want == WANT_WRITE)
            e = hands_fill(v, o);
        else if (spill_now(v))
            e = spill_some(v);
        if (!e && !(e = fault_look(v, o, at)))
            return 0;
        if (e == -ENOMEM && v->txn.enlisted &&
            (spill_possible(v, v->txn.enlisted) || spill_for_room(v, o, ~0ull)))
            e = spill_some(v);
    }
    return fault_ended(v, e);
}

struct object *object_look_up(struct view *v, vaddr_t at, uint32_t generation)
{
    struct object *o = object_at(v->process, at, &v->last.rights);
    view_forget_object(v);
    if (o && o->flags & KD_OBJECT_GUARD && v->last.rights & KD_RIGHT_WRITE)
        v->last.rights ^= RIGHTS_STORE;
    heir_looks(v, o);
    v->last.generation = generation; /* read before the look: if it changed, that is seen */
    v->last.object = o;
    return o;
}

__attribute__((noinline)) int view_touch(struct view *v, vaddr_t at, enum view_want want)
{
    uint32_t rights;
    for (;;) {
        /* perhaps as it lost the container: it aborts, and is not ended for touching it */
        if (v->doom)
            return fault_ended(v, -ECANCELED);
        struct object *o = view_object_at(v, at, &rights);
        if (!o)
            return -EFAULT;
        if (!(o->flags & KD_OBJECT_TRANSACTIONAL))
            return -EINVAL;
        if (want != WANT_READ && !(rights & KD_RIGHT_WRITE) && !guard_allows(v, at, want))
            return -EACCES;
        int e = view_fault(v, o, at, want);
        if (!e && unlikely(v->last.rights & RIGHTS_GUARDED))
            guard_key(v, at);
        if (e != -ENXIO)
            return e;
    }
}

/* leaf_beside finds another leaf of the object, if its entries are near, too; it may go (LF2). */
static struct leaf *leaf_beside(const struct view *v, struct object *o, vaddr_t at)
{
    uint64_t index = (at - o->base) >> PAGE_SHIFT;
    return index < o->pages && at - v->last.base < RIGHT_REACH_BYTES ? object_leaf_find(o, index)
                                                                     : NULL;
}

/* leaf_switch makes that leaf the last one, if it is not gone, and returns the page's entry. Leaf
 * locked. */
static pte_t *leaf_switch(struct view *v, struct leaf *l, uint64_t slot)
{
    if (l->gone || !v->last.ptes)
        return NULL;
    v->last.leaf = l;
    v->last.leaf_base = page_address(l, 0);
    v->last.leaf_ptes = v->last.ptes + ((v->last.leaf_base - v->last.base) >> PAGE_SHIFT);
    vmask_add(&l->kept, &v->self);
    return v->last.leaf_ptes + slot;
}

/* fault_fast does FT1 to FT7 near the last fault, for a page that is here and that nobody else has
 * or wants. False: no right was given. The PTE needs no view lock here: others change it under the
 * leaf lock only. */
HOT bool fault_fast(struct view *v, vaddr_t at, bool write)
{
    struct leaf *l = v->last.leaf;
    uint64_t slot = (at - v->last.leaf_base) >> PAGE_SHIFT;
    if (!l || v->snapshot_rights | v->txn.want_x_count | (unsigned)v->doom)
        return false;
    if (unlikely(slot >= LEAF_PAGES) && (at - l->object->base) >> PAGE_SHIFT >= l->object->pages)
        return false; /* of another object: no hands are filled for this one, it enlists its port */
    if (write && (!(v->last.rights & KD_RIGHT_WRITE) || hands_fill(v, l->object)))
        return false;
    if (unlikely(slot >= LEAF_PAGES)) {
        if (!(l = leaf_beside(v, l->object, at)))
            return false;
        slot %= LEAF_PAGES; /* of that leaf, even if it lies before the kept one */
    }
    struct page *p = &l->pages[slot];
    __asm__("" : "+r"(p)); /* or it is computed anew at each use */
    bool granted = false;
    uint64_t changes = write ? hand_copy(v, l, p) : 0;
    lock_acquire(&l->lock);
    pte_t *pte = v->last.leaf_ptes + slot;
    if (unlikely(l != v->last.leaf) && !(pte = leaf_switch(v, l, slot))) {
        lock_release(&l->lock);
        v->reserve.page = NULL; /* the bytes in hand are another page's now */
        return false;
    }
    if (still_attached(v, l->object) && page_resident(p) && page_open(p, write) &&
        likely(!container_shut(v, l->object))) {
        if (write) {
            v->wait.want = WANT_WRITE;
            bool items = l->object->flags & KD_OBJECT_ITEMS;
            granted = (unlikely(items) ? item_free(v, l->object, p)
                                       : vmask_within(&p->mask, &v->self)) &&
                      !(pte_load(pte) & PTE_COPY) && vmask_empty(&v->wait.holders);
            if (granted) {
                struct copy *c = v->reserve.copy;
                lock_acquire(&v->lock);
                grant_copy(v, l, p, (unsigned)slot, page_down(at), pte, changes);
                if (unlikely(items))
                    item_granted(v, p, c);
                lock_release(&v->lock);
            }
        } else if (p->writer == WRITER_NONE && pte_load(pte) == 0) {
            v->wait.want = WANT_READ;
            grant_shared(v, l, p, pte);
            cluster_grant(v, l, (unsigned)slot, page_down(at), v->last.leaf_ptes);
            granted = true;
        }
    }
    lock_release(&l->lock);
    if (write && !granted) { /* view_fault looks closer: perhaps it was not in vain */
        v->reserve.page = p;
        v->reserve.changes = changes;
    }
    return granted;
}

/* ---- the entry from the trap ---- */

int store_touch(struct view *v, vaddr_t at, unsigned flags)
{
    int e = view_touch(v, at, flags & FAULT_WRITE ? WANT_WRITE : WANT_READ);
    if (likely(!e))
        return 0;
    if (e == -EFAULT || e == -EINVAL || e == -EACCES)
        return fault_outside(at, flags);
    return flags & FAULT_FROM_KERNEL ? e : 0; /* a doom takes effect on the way back */
}

HOT int store_fault(vaddr_t at, unsigned flags)
{
    struct view *v = thread_this()->view;
    if (!v || v->state != VIEW_ACTIVE || flags & (FAULT_EXECUTE | FAULT_KEY))
        return fault_outside(at, flags);
    struct kd_view_stats *stats = &v->process->stats;
    __atomic_fetch_add(flags & FAULT_WRITE ? &stats->write_faults : &stats->read_faults, 1,
                       __ATOMIC_RELAXED);
    if (likely(flags & FAULT_WRITE ? fault_fast(v, at, true) : fault_fast(v, at, false)))
        return 0;
    return store_touch(v, at, flags);
}

int trap_page_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    if (flags & FAULT_WRITE)
        count(write_faults);
    else
        count(read_faults);
    if (at - KD_STORE_BASE < KD_STORE_END - KD_STORE_BASE)
        return store_fault(at, flags);
    if (at - KD_WINDOW_BASE < KD_WINDOW_END - KD_WINDOW_BASE)
        return window_fault(at, flags);
    return fault_memory(f, at, flags);
}
