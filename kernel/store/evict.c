/*
 * evict.c - takes page frames back, and has managers clean dirty ones first (eviction.md).
 *
 * Owns      the lists of resident pages; the thread "evict".
 * Not here  old versions (version.c), anonymous memory (never paged out), home locations
 *           (managers).
 *
 * Each resident page stands in one of three lists (CLOCK, LAUNDRY, READY), by frame->link;
 * frame->owner is its leaf, frame->flags its slot and its list.
 *
 * EV1  Only clean pages without writer, pins and I/O go (PG4). Old versions of such a page stay,
 *      and what maps them.
 * EV2  The hand runs ahead of need: it goes on until READY and LAUNDRY hold the frames of some
 *      rounds, or READY alone a low mark's where nothing more is dirty.
 * EV3  Active views that used the page keep the right: HELD. All others find EMPTY. TLBs are
 *      flushed, then the frame is freed (FR1).
 * EV4  The frame is freed when the page is in no table and in no list any more.
 * EV5  A frame is FRAME_LISTED exactly while it stands in a list.
 * EV6  Pages of a fixed cluster are looked at together, and those that may go do so together.
 *
 * Locks: leaf, evict lock. A page is looked up by its frame under the evict lock with a reference
 * to its object, then locked and checked again.
 */
#include "base/boot.h"
#include "store/right.h"
#include "store/evict.h"
#include "store/spill.h"

static struct lock evict_lock = LOCK_INIT(RANK_EVICT, "evict");
enum place { CLOCK, LAUNDRY, READY, PLACES };
enum { PLACE_SHIFT = 8, SLOT_MASK = LEAF_PAGES - 1 };
static struct list places[PLACES] = {LIST_INIT(places[CLOCK]), LIST_INIT(places[LAUNDRY]),
                                     LIST_INIT(places[READY])};
static uint64_t in_place[PLACES];
static struct list bare = {&bare, &bare};       /* leaves without a page in these lists, by link */
static uint64_t bare_count;
static struct list hungry = {&hungry, &hungry}; /* threads that wait for frames, by wait_link */
static uint64_t resident, resident_max;         /* at most so many: option pages=N, or no limit */
static uint64_t rounds_in_vain;  /* rounds that found neither clean nor dirty pages */
enum { VAIN_ROUNDS_MAX = 3, HUNGRY_NS = 10000000 }; /* a hungry thread looks so often */
static size_t goal;                             /* of evict_more; atomic; 0: none */
static uint64_t progress_ns;  /* when a page was freed or cleaned last, or none had to be */
#define CLEANING_NS 5000000000ull  /* a manager that cleans nothing for so long does not count */
struct forgotten evict_forgotten = FORGOTTEN_INIT(evict_forgotten);
static struct thread *evictor;
static bool wanted, parked;  /* atomic: evict_wake was called; it has to wake the evictor */

static enum place place_of(const struct frame *f) { return f->flags >> PLACE_SHIFT; }

/* put_in appends f, which is in no list, to a list. Evict lock held. */
static void put_in(enum place where, struct frame *f)
{
    f->flags = (uint16_t)((f->flags & SLOT_MASK) | where << PLACE_SHIFT);
    list_push_back(&places[where], &f->link);
    in_place[where]++;
}

static void take_out(struct frame *f)
{
    list_remove(&f->link);
    in_place[place_of(f)]--;
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

void evict_leaf(struct leaf *l, bool is)
{
    lock_acquire(&evict_lock);
    bare_set(l, is);
    lock_release(&evict_lock);
}

void evict_add(struct leaf *l, unsigned slot)
{
    struct frame *f = l->pages[slot].frame;
    lock_acquire(&evict_lock);
    l->touched |= 1ull << slot;
    if (l->resident++ == 0)
        bare_set(l, false);
    f->owner = l;
    f->flags = (uint16_t)slot;
    __atomic_store_n(&f->state, FRAME_LISTED, __ATOMIC_RELAXED); /* EV5 */
    put_in(CLOCK, f);
    bool more = ++resident > resident_max;
    lock_release(&evict_lock);
    if (more)
        evict_wake();
}

void evict_remove(struct frame *f)
{
    lock_acquire(&evict_lock);
    struct leaf *l = f->owner;
    take_out(f);
    __atomic_store_n(&f->state, FRAME_USED, __ATOMIC_RELAXED); /* EV5 */
    f->owner = NULL;
    resident--;
    if (--l->resident == 0)
        bare_set(l, true);
    lock_release(&evict_lock);
}

void evict_cleaned(struct frame *f)
{
    lock_acquire(&evict_lock);
    progress_ns = arch_time_ns();
    if (place_of(f) == LAUNDRY) {
        take_out(f);
        put_in(READY, f);
    }
    lock_release(&evict_lock);
}

/* evict_look_again sends the laundry past the hand again, which finds out whose it still is. No
 * lock is held. */
void evict_look_again(void)
{
    for (uint64_t n = in_place[LAUNDRY]; n; n--) {
        lock_acquire(&evict_lock);
        if (!list_empty(&places[LAUNDRY])) {
            struct frame *f = list_first(&places[LAUNDRY], struct frame, link);
            take_out(f);
            put_in(CLOCK, f);
        }
        lock_release(&evict_lock);
        thread_breathe();
    }
}

static bool never_cleaned(const struct object *o)
{
    return o->commit_port && o->commit_port->closed;
}

uint64_t evict_resident_count(void) { return resident; }

bool evict_short;

bool evict_still_short(void)
{
    bool is = frame_free_count() < frame_low_mark();
    __atomic_store_n(&evict_short, is, __ATOMIC_RELAXED);
    return is;
}

void evict_wake(void)
{
    (void)evict_still_short();
    __atomic_store_n(&wanted, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&parked, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&parked, false, __ATOMIC_SEQ_CST))
        thread_wake(evictor);
}

/* wait_for_work parks the evictor until frames are wanted again, or pages were cleaned. */
static void wait_for_work(void)
{
    __atomic_store_n(&parked, true, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&wanted, __ATOMIC_SEQ_CST))
        thread_park();
    __atomic_store_n(&parked, false, __ATOMIC_SEQ_CST);
}

/* writer_needs tells whether the page's writer needs the base. A copy in the log needs none; nor
 * does an idle view that never used its right to write, and so has no copy (PG2). Leaf locked. */
static bool writer_needs(struct page *p, vaddr_t at)
{
    struct view *v = &views[p->writer];
    lock_acquire(&v->lock);
    pte_t e = right_at(v, at);
    if (v->state == VIEW_IDLE || v->state == VIEW_FREE || e == 0)
        p->writer = WRITER_NONE;
    lock_release(&v->lock);
    return p->writer != WRITER_NONE && right_state(e) != RIGHT_SPILLED;
}

enum look { LOOK_FREED, LOOK_DIRTY, LOOK_CLEAN, LOOK_USED, LOOK_BUSY };

#define slots_each(slot, slots) \
    for (uint64_t left = (slots), slot; left && (slot = (uint64_t)__builtin_ctzll(left), true); \
         left &= left - 1)

/* group_at is the slots of the page's cluster, where the container has a fixed size of them, but
 * few enough for one look (EV6); else of the page alone. */
static uint64_t group_at(const struct leaf *l, uint64_t slot)
{
    unsigned size = MIN(MAX(__atomic_load_n(&l->object->cluster_fixed, __ATOMIC_RELAXED), 1u), 8u);
    return ((1ull << size) - 1) << (slot & ~(uint64_t)(size - 1));
}

/* can_go tells whether the page may go (EV1). Leaf locked. */
static bool can_go(struct leaf *l, uint64_t slot)
{
    struct page *p = &l->pages[slot];
    return page_resident(p) && !(p->flags & (PAGE_PINNED | PAGE_CLEANING)) && !p->frame->pins &&
           !(p->flags & PAGE_DIRTY && never_cleaned(l->object)) &&
           !(p->writer != WRITER_NONE && writer_needs(p, page_address(l, (unsigned)slot)));
}

/* users_change has age or hold of right.h done to the pages for all views, and returns for which
 * of them that was true for one. Leaf locked. */
static uint64_t users_change(struct leaf *l, uint64_t slots, struct debt *hold)
{
    struct vmask users = {{0}};
    uint64_t found = 0;
    slots_each(s, slots)
        vmask_add(&users, &l->pages[s].mask);
    views_each_locked(v, &users)
        slots_each(s, slots)
            found |= (uint64_t)(hold ? !right_hold(v, l, (unsigned)s, hold)
                                     : right_age(v, &l->pages[s], page_address(l, (unsigned)s)))
                     << s;
    return found;
}

/* pages_evict takes pages out of all tables and lists (EV3, before EV4), and returns which. Leaf
 * locked. */
static uint64_t pages_evict(struct leaf *l, uint64_t slots, struct list *frames)
{
    struct debt debt = {0};
    slots &= ~users_change(l, slots, &debt); /* a copy came back: its base stays */
    right_pay(&debt);
    slots_each(s, slots) {
        evict_remove(l->pages[s].frame);
        list_push_back(frames, &l->pages[s].frame->link);
        l->pages[s].frame = NULL;
        count(evictions);
    }
    return slots;
}

/* evict_look looks at a page and its group, and frees what may go if `take` is set. Tells of the
 * page. */
static enum look evict_look(struct leaf *l, unsigned slot, struct frame *f, bool take)
{
    struct list gone = LIST_INIT(gone);
    uint64_t one = 1ull << slot, group = 0, dirty = 0;
    lock_acquire(&l->lock);
    bool here = l->pages[slot].frame == f;
    slots_each(s, here ? group_at(l, slot) : 0) {
        group |= (uint64_t)can_go(l, s) << s;
        dirty |= (uint64_t)(l->pages[s].flags & PAGE_DIRTY) << s;
    }
    bool used = users_change(l, group, NULL);
    uint64_t freed = take && !used ? pages_evict(l, group & ~dirty, &gone) : 0;
    lock_acquire(&evict_lock);
    slots_each(s, here ? (group | one) & ~freed : 0) {
        bool stays = used || !(group >> s & 1);
        take_out(l->pages[s].frame);
        put_in(stays ? CLOCK : dirty >> s & 1 ? LAUNDRY : take ? CLOCK : READY, l->pages[s].frame);
    }
    lock_release(&evict_lock);
    lock_release(&l->lock);
    for (struct frame *went; (went = list_take(struct frame, &gone, link));)
        frame_free(went); /* EV4 */
    return freed & one ? LOOK_FREED : !(group & one) ? LOOK_BUSY : used ? LOOK_USED
           : dirty & one ? LOOK_DIRTY : take ? LOOK_BUSY : LOOK_CLEAN;
}

bool evict_advise(struct leaf *l, unsigned slot, bool needed)
{
    struct page *p = &l->pages[slot];
    if (!page_resident(p) || (!needed && (p->flags & PAGE_PINNED || p->writer != WRITER_NONE)))
        return false;
    if (!needed)
        (void)users_change(l, 1ull << slot, NULL); /* earlier uses do not count */
    enum place where = needed || never_cleaned(l->object) ? CLOCK
                       : p->flags & PAGE_DIRTY            ? LAUNDRY
                                                          : READY;
    lock_acquire(&evict_lock);
    take_out(p->frame);
    put_in(where, p->frame);
    if (!needed) {
        list_remove(&p->frame->link);
        list_push_front(&places[where], &p->frame->link);
    }
    lock_release(&evict_lock);
    return true;
}

/* A candidate is a page that is to be looked at, its object kept alive. */
struct candidate { struct leaf *leaf; struct frame *frame; unsigned slot; };
enum { LOOKS_AT_ONCE = 4 };

/* candidate_of: the page of a frame that stands in a list. Evict lock held. */
static struct candidate candidate_of(struct frame *f)
{
    struct candidate c = {f->owner, f, f->flags & SLOT_MASK};
    object_get(c.leaf->object);
    return c;
}

/* evict_first tells the first pages of a list, `most` at most, and one of neighbours in a group.
 * All go to its end; it returns how many. */
static unsigned evict_first(enum place where, unsigned most, struct candidate found[],
                            unsigned *n)
{
    unsigned went = 0;
    lock_acquire(&evict_lock);
    for (*n = 0, most = (unsigned)MIN(most, in_place[where]); went < most; went++) {
        struct frame *f = list_take(struct frame, &places[where], link);
        const struct candidate *last = *n ? &found[*n - 1] : NULL;
        list_push_back(&places[where], &f->link);
        if (!last || last->leaf != f->owner ||
            !(group_at(last->leaf, last->slot) >> (f->flags & SLOT_MASK) & 1))
            found[(*n)++] = candidate_of(f);
    }
    lock_release(&evict_lock);
    return went;
}

/* high_mark is how many free frames are wanted: a quarter more than the low mark, below which the
 * evictor is woken. So one waking frees some hundred pages, and hardly more of the memory than what
 * is kept back is without them. */
static size_t high_mark(void)
{
    return MAX(frame_low_mark() * 5 / 4, __atomic_load_n(&goal, __ATOMIC_RELAXED));
}

static bool frames_short(void) { return frame_free_count() < high_mark(); }

/* pages_must_go: by the option `pages`, too, a waking frees more than the page that has come. */
static bool pages_must_go(void)
{
    return frames_short() || resident > resident_max - resident_max / 32;
}

/* ahead is how many pages READY and LAUNDRY are to hold (EV2). */
static size_t ahead(void) { return MIN(3 * frame_low_mark(), resident_max / 3); }

static void ask_for_cleaning(struct object *o, uint64_t wanted)
{
    struct item *i = &o->port->clean;
    if (i->queued)
        return;
    item_say(i, ITEM_CLEAN, 0, wanted);
    port_post(o->port, i);
}

static void wake_hungry(void)
{
    lock_acquire(&evict_lock);
    thread_wake_all(&hungry);
    lock_release(&evict_lock);
}

/* look_some looks at some pages, ready ones or else those at the hand, and returns their number. */
static unsigned look_some(bool take, uint64_t seen[])
{
    struct candidate found[LOOKS_AT_ONCE];
    bool ready = take && in_place[READY];
    unsigned count, went = evict_first(ready ? READY : CLOCK, LOOKS_AT_ONCE, found, &count);
    for (unsigned i = 0; i < count; i++) {
        struct object *o = found[i].leaf->object;
        enum look look = evict_look(found[i].leaf, found[i].slot, found[i].frame, take);
        seen[look]++;
        if (look == LOOK_DIRTY)
            ask_for_cleaning(o, ahead());
        object_put(o);
    }
    thread_breathe();
    return went;
}

void forgotten_move(struct forgotten *from, struct forgotten *to)
{
    lock_acquire(&evict_lock);
    list_move_all(&from->frames, &to->frames);
    to->cpus |= from->cpus;
    from->cpus = 0;
    lock_release(&evict_lock);
}

/* forgotten_free frees what was forgotten. A thread that found a leaf before, without a lock, has
 * left the kernel by then (LF2). */
static void forgotten_free(void)
{
    struct forgotten gone = FORGOTTEN_INIT(gone);
    uint64_t seen[CPU_MAX];
    forgotten_move(&evict_forgotten, &gone);
    if (list_empty(&gone.frames))
        return;
    arch_shootdown(gone.cpus);
    for (arch_quiet_ask(seen); !arch_quiet(seen); arch_spin_hint())
        thread_breathe();
    while (arch_tables_free(&gone.frames, 8)) /* leaves, too, which name no other frames */
        thread_breathe();
}

/* leaves_forget frees leaves of which nothing is in use. */
static void leaves_forget(void)
{
    enum { AT_ONCE = 512, IN_VAIN = 16 };
    uint64_t looks = MIN(bare_count, AT_ONCE), left = IN_VAIN;
    for (struct leaf *l = NULL; looks-- && left; l = NULL) {
        lock_acquire(&evict_lock);
        if (!list_empty(&bare)) {
            l = list_first(&bare, struct leaf, link);
            bare_set(l, true); /* the next look is at another one */
            object_get(l->object);
        }
        lock_release(&evict_lock);
        if (!l)
            break;
        struct object *o = l->object;
        left -= !leaf_forget(l, false);
        object_put(o);
        thread_breathe();
    }
    forgotten_free();
}

/* evict_round frees frames up to the high mark, with one look at each page at most. Then the hand
 * runs ahead (EV2). False: no page can go, or for long no manager has cleaned the pages that wait
 * for it. */
static bool evict_round(uint64_t seen[])
{
    int64_t looks = (int64_t)resident, n;
    uint64_t freed = 0;
    if (frames_short()) /* they are frames, and no pages of containers */
        leaves_forget();
    for (; pages_must_go() && looks > 0 && (n = look_some(true, seen)) != 0; looks -= n)
        if (seen[LOOK_FREED] > freed + 64) {
            freed = seen[LOOK_FREED];
            if (frames_short())
                leaves_forget();
            wake_hungry();
        }
    bool enough = !pages_must_go();
    for (looks = (int64_t)ahead(); looks > 0; looks -= n)
        if (in_place[READY] + in_place[LAUNDRY] >= ahead() ||
            (in_place[READY] >= frame_low_mark() && in_place[LAUNDRY] >= counters.dirty_pages) ||
            (n = look_some(false, seen)) == 0)
            break;
    bool went_on = enough || seen[LOOK_FREED] || seen[LOOK_USED];
    if (went_on || !in_place[LAUNDRY])
        progress_ns = arch_time_ns();
    return went_on || (in_place[LAUNDRY] && arch_time_ns() - progress_ns < CLEANING_NS);
}

/* laundry_notice tells the manager of the oldest laundry again: a notice may have come to
 * nothing. */
static void laundry_notice(void)
{
    struct candidate c;
    unsigned count;
    if (!evict_first(LAUNDRY, 1, &c, &count))
        return;
    ask_for_cleaning(c.leaf->object, ahead());
    object_put(c.leaf->object);
}

static void evict_main(void *arg)
{
    (void)arg;
    for (;;) {
        uint64_t seen[LOOK_BUSY + 1] = {0};
        __atomic_store_n(&wanted, false, __ATOMIC_SEQ_CST);
        forgotten_free();
        if (pages_must_go() && !evict_round(seen))
            __atomic_fetch_add(&rounds_in_vain, 1, __ATOMIC_RELEASE);
        bool short_of = pages_must_go();
        if (short_of && !seen[LOOK_FREED] && !seen[LOOK_USED])
            laundry_notice();
        if (!seen[LOOK_FREED] || !short_of)
            __atomic_store_n(&goal, 0, __ATOMIC_RELAXED);
        if (seen[LOOK_FREED] || frame_spare()) /* leaves may have been enough */
            wake_hungry();
        if (!seen[LOOK_FREED] && !(short_of && seen[LOOK_USED]))
            wait_for_work();
        else
            thread_yield();
    }
}

/* kd_clean_list tells the caller's laundry, oldest first; pages that were told go behind the
 * rest. */
long kd_clean_list(const uint64_t a[6])
{
    enum { AT_ONCE = 64, LOOKS_AT_ONCE = 1024 };
    const struct process *me = process_this();
    uint64_t told = 0, max = a[1], looks = in_place[LAUNDRY];
    while (told < max && looks) {
        struct kd_page_name names[AT_ONCE];
        uint64_t n = 0, want = MIN(max - told, AT_ONCE), until = looks - MIN(looks, LOOKS_AT_ONCE);
        lock_acquire(&evict_lock);
        for (; n < want && looks > until && !list_empty(&places[LAUNDRY]); looks--) {
            struct frame *f = list_first(&places[LAUNDRY], struct frame, link);
            const struct leaf *l = f->owner;
            take_out(f);
            put_in(LAUNDRY, f);
            if (l->object->owner == me)
                names[n++] =
                    (struct kd_page_name){ l->object->cookie, l->first + (f->flags & SLOT_MASK) };
        }
        bool empty = list_empty(&places[LAUNDRY]);
        lock_release(&evict_lock);
        if (n && copy_to_user(a[0] + told * sizeof names[0], names, n * sizeof names[0]))
            return -EFAULT;
        told += n;
        thread_breathe();
        if (empty)
            break;
    }
    return (long)told;
}

void evict_init(void)
{
    resident_max = boot_option_number("pages");
    if (!resident_max)
        resident_max = ~0ull;
    evictor = thread_new(NULL, evict_main, NULL, "evict");
    assert(evictor);
    thread_start(evictor);
}

/* hungry_wait sleeps until frames were freed, or HUNGRY_NS have passed. */
static void hungry_wait(void)
{
    struct thread *me = thread_this();
    lock_acquire(&evict_lock);
    list_push_back(&hungry, &me->wait_link);
    lock_release(&evict_lock);
    evict_wake();
    (void)!thread_park_until(arch_time_ns() + HUNGRY_NS);
    lock_acquire(&evict_lock);
    list_remove(&me->wait_link);
    lock_release(&evict_lock);
}

uint64_t evict_vain(void) { return __atomic_load_n(&rounds_in_vain, __ATOMIC_ACQUIRE); }

static bool in_vain(uint64_t since) { return evict_vain() - since >= VAIN_ROUNDS_MAX; }

bool evict_wait(uint64_t *vain)
{
    if (in_vain(*vain)) { /* there is nothing to be evicted or cleaned */
        *vain = evict_vain();
        if (frame_free_count() < frame_low_mark() && !spill_own() && !limit_end_largest(false) &&
            frame_free_count() < frame_low_mark())
            return false; /* else somebody ended meanwhile */
    }
    if (!thread_this()->killed)
        hungry_wait();
    return !thread_this()->killed;
}

void evict_slow_writer(struct object *o)
{
    uint64_t mark = frame_total_count() / 2, dirty = __atomic_load_n(&o->dirty, __ATOMIC_RELAXED);
    if (dirty <= mark || never_cleaned(o) || thread_this()->killed)
        return;
    count(write_waits);
    ask_for_cleaning(o, dirty - mark);
    hungry_wait();
}

struct frame *evict_frame(enum frame_use use)
{
    struct thread *me = thread_this();
    uint64_t vain = evict_vain();
    if (resident - resident / 8 > resident_max) /* pages=N: the evictor comes too late */
        hungry_wait();
    for (;;) {
        struct frame *f = frame_alloc_raw(use);
        if (f || (me->view && me->view->doom) || !evict_wait(&vain))
            return f;
    }
}

bool evict_more(void)
{
    enum { MORE_FRAMES = 256 };
    const struct thread *me = thread_this();
    uint64_t vain = evict_vain();
    size_t before = frame_free_count();
    while (!me->killed && !(me->view && me->view->doom) && !in_vain(vain) &&
           frame_free_count() <= before) {
        __atomic_store_n(&goal, before + MORE_FRAMES, __ATOMIC_RELAXED);
        hungry_wait();
    }
    return frame_free_count() > before;
}

/* ---- frames that lie together ---- */

/* page_of_frame_free frees the page in a frame, if one is there; its second look finds what is in
 * no program's use. False: it stays. */
static bool page_of_frame_free(struct frame *f)
{
    enum look look = LOOK_FREED;
    for (int looks = 0; looks < 2 && __atomic_load_n(&f->state, __ATOMIC_RELAXED) == FRAME_LISTED;
         looks++) {
        struct candidate c = {0};
        lock_acquire(&evict_lock);
        if (f->state == FRAME_LISTED) /* EV5 */
            c = candidate_of(f);
        lock_release(&evict_lock);
        if (!c.leaf)
            return true;
        struct object *o = c.leaf->object;
        look = evict_look(c.leaf, c.slot, f, true);
        object_put(o);
    }
    return look == LOOK_FREED;
}

/* piece_free frees some frames that lie together. False: they hold more than pages that may go. */
static bool piece_free(struct frame *piece, size_t count)
{
    bool goes = true;
    for (size_t i = 0; goes && i < count; i++) {
        uint8_t state = __atomic_load_n(&piece[i].state, __ATOMIC_RELAXED);
        goes = state == FRAME_LISTED || state == FRAME_FREE;
    }
    for (size_t i = 0; goes && i < count; i++)
        goes = page_of_frame_free(piece + i);
    return goes;
}

/* pieces_free frees some aligned pieces of `count` frames, a power of 2, wherever they are. False:
 * there is none. */
static bool pieces_free(size_t count)
{
    enum { MORE_FRAMES = 32 };
    static size_t hand; /* atomic: the piece that was looked at last */
    size_t all = frame_all_count() / count, freed = 0;
    for (size_t looks = 0; looks < all && freed < MORE_FRAMES; looks++) {
        size_t at = __atomic_add_fetch(&hand, 1, __ATOMIC_RELAXED) % all;
        freed += piece_free(frame_all + at * count, count) ? count : 0;
        thread_breathe();
    }
    return freed > 0;
}

bool evict_together(size_t count)
{
    enum { PAGES_PART = 4 }; /* where fewer frames hold pages, they are not what fills memory */
    size_t piece = 1;
    while (piece < count)
        piece *= 2;
    return resident >= frame_total_count() / PAGES_PART &&
           ((piece > 1 && pieces_free(piece)) || evict_more());
}
