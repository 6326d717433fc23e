/*
 * clock.c - in which order pages leave memory: the lists of each container's resident pages, and
 * what one look at a page finds (eviction.md).
 *
 * Owns      object->places; the list of leaves without a resident page.
 * Not here  who looks, how often and why (evict.c); old versions (version.c); home locations
 *           (managers).
 *
 * Each resident page stands in one of four lists of its object, by frame->link; frame->owner is
 * its leaf, frame->flags its slot and its list.
 *
 * EV1  Only clean pages without writer, pins and I/O go (PG4). Old versions of such a page stay,
 *      and what maps them.
 * EV3  Active views that used the page keep the right: HELD. All others find EMPTY. TLBs are
 *      flushed, then the frame is freed (FR1).
 * EV4  The frame is freed when the page is in no table and in no list any more.
 * EV5  A frame is FRAME_LISTED exactly while it stands in a list.
 * EV6  Pages of a fixed cluster are looked at together, and those that may go do so together.
 * EV7  A frame counts in `charged` from the moment it is taken for a page of the container, and
 *      none is taken beyond `most`. More there are only by a version that is published of a page
 *      whose base was not in memory, and where the limit was set later.
 * EV10  A page is proven if it is used in READY or LAUNDRY, or comes back before as many others
 *      went as the object has in memory. While more than `share` of the others are here, they go
 *      first.
 * EV11  A frame with ZEROS holds zeros: it was supplied so, and nobody stores to the versions of
 *      its object's pages. When the page goes, whoever needs zeros next takes it as it is
 *      (FRAME_OF_ZEROS).
 * EV12  A page that comes stays until the fault that waits for it has run: else those that come
 *      with it could send it out first, again and again.
 *
 * Locks: leaf, evict lock. A page is looked up by its frame under the evict lock, its object kept
 * alive. Whether it was used is asked without its leaf's lock, and where it only goes to another
 * list, it goes so; a page that is to leave memory is locked and checked again.
 */
#include "store/evict.h"
#include "store/item.h"
#include "store/right.h"

struct lock evict_lock = LOCK_INIT(RANK_EVICT, "evict");
static struct list bare = {&bare, &bare};       /* leaves without a page in these lists, by link */
uint64_t bare_count;
static uint64_t resident;
enum { CHARGED = LEAF_PAGES, PLACE_SHIFT = 8 }; /* frame->flags */

static enum place place_of(const struct frame *f)
{
    return (f->flags & ~ZEROS) >> PLACE_SHIFT;
}

/* put_in appends f, which is in no list, to a list, a proven page to PROVEN instead of CLOCK. Leaf
 * and evict lock held. */
static void put_in(const struct leaf *l, enum place where, unsigned slot, struct frame *f)
{
    struct object *o = l->object;
    if (where == CLOCK && l->proven >> slot & 1)
        where = PROVEN;
    f->flags = (uint16_t)(slot | where << PLACE_SHIFT | (f->flags & ZEROS));
    list_push_back(&o->places[where], &f->link);
    o->in_place[where]++;
}

/* take_out takes f from its list, where it was `used` (EV10). Leaf and evict lock held. */
HOT void take_out(struct leaf *l, struct frame *f, bool used)
{
    list_remove(&f->link);
    l->object->in_place[place_of(f)]--;
    l->proven |= (uint64_t)(used && place_of(f) > PROVEN) << (f->flags & SLOT_MASK);
}

/* bare_set puts a leaf on the list of leaves without resident pages, or takes it off. Evict lock
 * held. */
static void bare_set(struct leaf *l, bool is)
{
    bare_count += is - !list_empty(&l->link);
    list_remove(&l->link);
    if (is)
        list_push_back(&bare, &l->link);
}

void evict_leaves(struct leaf *l[], unsigned n, bool is)
{
    lock_acquire(&evict_lock);
    while (n--)
        bare_set(l[n], is);
    lock_release(&evict_lock);
}

struct leaf *bare_turn(void)
{
    struct leaf *l = NULL;
    lock_acquire(&evict_lock);
    if (!list_empty(&bare)) {
        l = list_first(&bare, struct leaf, link);
        bare_set(l, true); /* the next look is at another one */
        object_get(l->object);
    }
    lock_release(&evict_lock);
    return l;
}

/* ---- pages come and go ---- */

bool clock_charge(struct object *o, struct frame *f)
{
    lock_acquire(&evict_lock);
    bool can = o->charged < o->most;
    o->charged += can;
    f->flags |= can ? CHARGED : 0;
    lock_release(&evict_lock);
    return can;
}

void evict_page_back(struct object *o, struct frame *f)
{
    lock_acquire(&evict_lock);
    o->charged -= f->flags & CHARGED ? 1 : 0;
    lock_release(&evict_lock);
    frame_free(f);
}

/* came_back learns from a page that was here before (EV10). Many that come back at once, and were
 * not proven, show that such pages had too small a share. Leaf and evict lock held. */
static void came_back(struct object *o, struct leaf *l, unsigned slot)
{
    uint32_t others = __atomic_load_n(&o->left, __ATOMIC_RELAXED) - l->left[slot];
    uint64_t one = 1ull << slot, share = o->share ? o->share : o->resident / 4;
    l->left[slot] = 0;
    if (others < o->resident) {
        share += others < o->resident / 8 && !(l->proven & one) ? 4 : -1ull;
        o->share = MIN(MAX(share, o->resident / 16 + 1), o->resident / 4 * 3);
    }
    l->proven = others < o->resident ? l->proven | one : l->proven & ~one;
}

void evict_add(struct leaf *l, unsigned slot)
{
    struct object *o = l->object;
    struct frame *f = l->pages[slot].frame;
    lock_acquire(&evict_lock);
    l->touched |= 1ull << slot;
    if (l->resident++ == 0)
        bare_set(l, false);
    o->charged += f->flags & CHARGED ? 0 : 1;
    if (l->left[slot])
        came_back(o, l, slot);
    f->owner = l;
    __atomic_store_n(&f->state, FRAME_LISTED, __ATOMIC_RELAXED); /* EV5 */
    put_in(l, CLOCK, slot, f);
    o->resident++;
    resident++;
    lock_release(&evict_lock);
}

/* page_leaves takes a page out of its list, and out of what is counted. Leaf and evict lock
 * held. */
HOT void page_leaves(struct leaf *l, struct frame *f, bool used)
{
    take_out(l, f, used);
    __atomic_store_n(&f->state, FRAME_USED, __ATOMIC_RELAXED); /* EV5 */
    f->owner = NULL;
    f->flags &= ZEROS;
    l->object->charged--;
    l->object->resident--;
    resident--;
    if (--l->resident == 0)
        bare_set(l, true);
}

void evict_remove(struct frame *f, bool used)
{
    lock_acquire(&evict_lock);
    page_leaves(f->owner, f, used);
    lock_release(&evict_lock);
}

void evict_cleaned(struct frame *f)
{
    lock_acquire(&evict_lock);
    struct leaf *l = f->owner;
    l->object->patience.progress_ns = arch_time_ns();
    if (place_of(f) == LAUNDRY) {
        take_out(l, f, false);
        put_in(l, READY, f->flags & SLOT_MASK, f);
    }
    lock_release(&evict_lock);
}

uint64_t evict_resident_count(void) { return resident; }

/* ---- one look ---- */

/* writer_needs tells whether the page's writer needs the base. A copy in the log needs none, nor a
 * right that is kept; nor does an idle view that never used its right to write, and so has no copy
 * (PG2). Leaf locked. */
static bool writer_needs(struct page *p, vaddr_t at)
{
    struct view *v = &views[p->writer];
    lock_acquire(&v->lock);
    pte_t e = right_at(v, at);
    if (v->state == VIEW_IDLE || v->state == VIEW_FREE || e == 0)
        p->writer = WRITER_NONE;
    lock_release(&v->lock);
    return p->writer != WRITER_NONE && !(right_state(e) & (RIGHT_SPILLED | RIGHT_HELD));
}

#define slots_each(slot, slots) \
    for (uint64_t left = (slots), slot; left && (slot = (uint64_t)__builtin_ctzll(left), true); \
         left &= left - 1)

/* can_go tells whether the page may go (EV1); a dirty one, once it is cleaned. Leaf locked. */
HOT bool can_go(struct leaf *l, uint64_t slot)
{
    struct page *p = &l->pages[slot];
    return page_resident(p) && !(p->flags & PAGE_PINNED) &&
           (p->flags & PAGE_DIRTY ? !never_cleaned(l->object) : !p->frame->pins) &&
           !item_copies(l, p) && !(p->versions && version_rough(p->versions)) /* VS4 */ &&
           !(p->writer != WRITER_NONE && writer_needs(p, page_address(l, (unsigned)slot)));
}

/* pages_evict takes pages out of all tables and lists (EV3, before EV4), and returns which; *used:
 * others were used, and stay; NULL: they go anyway. Leaf locked. */
HOT uint64_t pages_evict(struct leaf *l, uint64_t slots, struct list *frames, bool *used)
{
    struct debt debt = {0};
    struct reach r = {0};
    slots_each(s, slots) {
        enum hold hold = right_hold(&r, l, (unsigned)s, !used, &debt);
        if (hold == HOLD_USED)
            *used = true;
        slots &= ~((uint64_t)(hold != HOLD_GONE) << s);
    }
    reach_end(&r);
    right_pay(&debt);
    lock_acquire(&evict_lock);
    slots_each(s, slots) {
        struct frame *f = l->pages[s].frame;
        l->left[s] = ++l->object->left;
        page_leaves(l, f, false);
        f->owner = f->flags & ZEROS ? FRAME_OF_ZEROS : NULL;
        list_push_back(frames, &f->link);
        l->pages[s].frame = NULL;
        if (l->pages[s].flags & PAGE_FREED) {
            l->pages[s].flags &= (uint8_t)~PAGE_FREED;
            l->pages[s].sequence = version_newest(); /* LF3 */
        }
        count(evictions);
    }
    lock_release(&evict_lock);
    return slots;
}

/* is_plain tells, for a look without a lock, that nothing seems to keep the page but its use. */
HOT bool is_plain(const struct candidate *c)
{
    const struct page *p = c->page;
    return !(p->flags & ~(PAGE_DIRTY | PAGE_ASKED)) && p->writer == WRITER_NONE && !p->versions &&
           !c->frame->pins && !item_copies(c->leaf, p) && !page_stays(c->leaf, p);
}

/* set_aside puts a plain page that is not used into READY or LAUNDRY; one that is used is at the
 * end of its list. Its leaf is not locked: whether it may go is seen when it is to. page_cleaned
 * makes a page clean before it takes the evict lock, so none that is clean is left in LAUNDRY.
 * LOOK_BUSY: it wants a look with the leaf locked. Evict lock held. */
HOT enum look set_aside(const struct candidate *c, bool take)
{
    struct leaf *l = c->leaf;
    struct frame *f = c->frame;
    if ((take && !c->used) || f->owner != l || f->state != FRAME_LISTED ||
        (f->flags & SLOT_MASK) != c->slot || place_of(f) > PROVEN ||
        c->cluster & (c->cluster - 1) || !is_plain(c))
        return LOOK_BUSY;
    if (c->used)
        return LOOK_USED;
    bool dirty = c->page->flags & PAGE_DIRTY;
    take_out(l, f, false);
    put_in(l, dirty ? LAUNDRY : READY, c->slot, f);
    return dirty ? LOOK_DIRTY : LOOK_CLEAN;
}

unsigned clock_aside(struct candidate c[], unsigned n, bool take, uint64_t seen[])
{
    unsigned left = 0;
    lock_acquire(&evict_lock);
    for (unsigned i = 0; i < n; i++) {
        enum look look = set_aside(&c[i], take);
        if (look == LOOK_BUSY)
            c[left++] = c[i];
        else
            seen[look]++;
    }
    lock_release(&evict_lock);
    return left;
}

enum look clock_look(struct candidate *c, struct list *gone)
{
    struct leaf *l = c->leaf;
    uint64_t one = 1ull << c->slot, can = 0, dirty = 0;
    if (c->cluster & ~one && !c->used)
        right_age(c, 1); /* a use of one is a use of all (EV6) */
    bool used = c->used;
    lock_acquire(&l->lock);
    bool here = c->page->frame == c->frame && page_resident(c->page); /* or it comes again */
    slots_each(s, here ? c->cluster : 0) {
        can |= (uint64_t)can_go(l, s) << s;
        dirty |= (uint64_t)(l->pages[s].flags & PAGE_DIRTY) << s;
    }
    can &= ~pages_due(l); /* EV12 */
    uint64_t freed = gone && !used ? pages_evict(l, can & ~dirty, gone, &used) : 0;
    uint64_t rest = here ? (can | one) & ~freed : 0;
    if (rest)
        lock_acquire(&evict_lock);
    slots_each(s, rest) {
        bool on = used || !(can >> s & 1);
        take_out(l, l->pages[s].frame, used);
        put_in(l, on ? CLOCK : dirty >> s & 1 ? LAUNDRY : gone ? CLOCK : READY,
               (unsigned)s, l->pages[s].frame);
    }
    if (rest)
        lock_release(&evict_lock);
    lock_release(&l->lock);
    return freed & one ? LOOK_FREED : !(can & one) ? LOOK_BUSY : used ? LOOK_USED
           : dirty & one ? LOOK_DIRTY : gone ? LOOK_BUSY : LOOK_CLEAN;
}

unsigned evict_now(struct leaf *l, unsigned slot, unsigned end, void *count)
{
    struct list gone = LIST_INIT(gone);
    uint64_t slots = 0;
    lock_acquire(&l->lock);
    for (; slot < end; slot++)
        slots |= (uint64_t)(!(l->pages[slot].flags & PAGE_DIRTY) && can_go(l, slot)) << slot;
    slots &= ~pages_due(l); /* EV12 */
    *(long *)count += __builtin_popcountll(pages_evict(l, slots, &gone, NULL));
    lock_release(&l->lock);
    frames_free(&gone); /* EV4 */
    return end;
}

bool evict_used(struct leaf *l, unsigned slot)
{
    struct candidate c = {.leaf = l, .page = &l->pages[slot], .slot = slot};
    right_age(&c, 1);
    return c.used;
}

bool evict_advise(struct leaf *l, unsigned slot, bool needed)
{
    struct object *o = l->object;
    struct page *p = &l->pages[slot];
    if (!page_resident(p) || (!needed && (p->flags & PAGE_PINNED || p->writer != WRITER_NONE ||
                                          item_copies(l, p))))
        return false;
    if (!needed)
        (void)evict_used(l, slot); /* earlier uses do not count */
    enum place where = needed || never_cleaned(o) ? CLOCK
                       : p->flags & PAGE_DIRTY ? LAUNDRY : READY;
    lock_acquire(&evict_lock);
    take_out(l, p->frame, false);
    l->proven = (l->proven & ~(1ull << slot)) | (uint64_t)needed << slot;
    put_in(l, where, slot, p->frame);
    if (!needed) {
        list_remove(&p->frame->link);
        list_push_front(&o->places[where], &p->frame->link);
    }
    lock_release(&evict_lock);
    return true;
}

unsigned clock_first(struct object *o, enum place where, unsigned most, struct candidate found[],
                     unsigned *n)
{
    unsigned went = 0, size = cluster_size(o);
    lock_acquire(&evict_lock);
    struct list *all = &o->places[where], *at = all->next;
    struct candidate *c = found;
    for (most = (unsigned)MIN(most, o->in_place[where]); went < most; went++, at = at->next) {
        struct frame *f = container_of(at, struct frame, link);
        if (size == 1 || c == found || c[-1].leaf != f->owner ||
            !(c[-1].cluster >> (f->flags & SLOT_MASK) & 1))
            *c++ = clock_candidate(f, size);
    }
    if (at != all) { /* the list begins there now */
        list_remove(all);
        list_insert_before(at, all);
    }
    lock_release(&evict_lock);
    *n = (unsigned)(c - found);
    return went;
}

/* ---- what managers are to clean ---- */

struct telling { const struct process *me; vaddr_t out; uint64_t told, max; bool bad; };

/* laundry_tell tells o's laundry, the oldest first; what was told goes behind the rest. */
static void laundry_tell(struct object *o, struct telling *t)
{
    enum { AT_ONCE = 64 };
    struct kd_page_name names[AT_ONCE];
    uint64_t left = o->owner == t->me ? MIN(o->in_place[LAUNDRY], t->max - t->told) : 0, n = 1;
    for (; left && n && !t->bad; left -= n) {
        lock_acquire(&evict_lock);
        for (n = 0; n < MIN(left, AT_ONCE) && !list_empty(&o->places[LAUNDRY]); n++) {
            struct frame *f = list_take(struct frame, &o->places[LAUNDRY], link);
            const struct leaf *l = f->owner;
            list_push_back(&o->places[LAUNDRY], &f->link);
            names[n] = (struct kd_page_name){ o->cookie, l->first + (f->flags & SLOT_MASK) };
        }
        lock_release(&evict_lock);
        t->bad = copy_to_user(t->out + t->told * sizeof names[0], names, n * sizeof names[0]);
        t->told += n;
        thread_breathe();
    }
}

/* kd_clean_list tells the caller's laundry, object by object. */
long kd_clean_list(const uint64_t a[6])
{
    struct telling t = {.me = process_this(), .out = a[0], .max = a[1]};
    objects_each(o)
        laundry_tell(o, &t);
    return t.bad ? -EFAULT : (long)t.told;
}
