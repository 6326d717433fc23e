/*
 * item_page.c - pages in item mode (KD_OBJECT_ITEMS): private copies of several transactions, their
 * publication, and their order in the log (items.md).
 *
 * Owns      page->copies, view->items; the order of told transactions.
 * Not here  faults (fault.c), what the manager is told (encode.c), locks of items.
 *
 * IT1  An item copy needs no right to the page: others may read it, and have copies. `writer` is
 *      none, page->copies counts them, at most ITEM_COPIES_MAX: one more waits for the end of any
 *      of them, which is a deadlock only if all of their owners wait.
 * IT2  The current version keeps its frame from supply to eviction, which waits for the copies
 *      (PG4). A publication exchanges the words that its transaction changed, the lowest first, so
 *      their old ones lie in the copy's frame, which becomes the old version.
 * IT3  Each word of a copy is the current word and what its transaction did to it: a publication
 *      adds its differences to all other copies, also to those of transactions that commit.
 * IT4  Snapshots and dirty reads lose their entries for the current frame, in all TLBs, before a
 *      word of it changes.
 * IT5  Only words that were declared are told and published (KD_STRICT: others are refused). Others
 *      stay behind in the copy, which becomes a rough old version (VS4), or are put back before, as
 *      where a page is told whole. Who has locked the container declares nothing.
 * IT6  A told transaction has a place in the log's order until it is published or refused; what is
 *      told of a word holds what those before it do to it. Publications keep that order.
 * IT7  A lock of the container waits for item copies, and an exclusive one for all used rights.
 *      What its holder copies is no item copy: it has a writer, spills, and becomes the current
 *      frame.
 * IT8  Item copies do not spill, and no stacked manager takes part in their commit.
 *
 * Locks: leaf, view, port. A copy comes and goes with its leaf and its view locked, so with one of
 * them it stays.
 */
#include "store/codeword.h"
#include "store/item.h"
#include "store/spill.h"
#include "store/wait.h"

enum { WORDS = PAGE_BYTES / 8 };

/* copy_of returns u's private copy of the page at `at`, or NULL. View locked, or its leaf. */
static struct copy *copy_of(const struct view *u, vaddr_t at)
{
    pte_t e = right_at(u, at);
    return e & PTE_COPY ? pte_copy(e) : NULL;
}

/* ---- the grant ---- */

bool item_busy(struct view *v, const struct page *p)
{
    bool turn = !p->queue || p->queue == v->id + 1;
    if (v->wait.want == WANT_WRITE && (p->copies >= ITEM_COPIES_MAX || !turn))
        return true;
    waits_clear(v);
    queue_leave(v);
    return false;
}

/* ---- what is told ---- */

/* told_before tells whether u is in the log and not published, so before whoever is told now. */
static bool told_before(const struct view *u, const struct view *v)
{
    return u != v && __atomic_load_n(&u->items.order, __ATOMIC_RELAXED);
}

unsigned item_before(const struct view *v, const struct copy *c, struct item_before *before)
{
    const struct page *p = &c->leaf->pages[c->slot];
    before->count = 0;
    before->changed = false;
    if (p->copies > 1)
        views_each_locked(u, &p->mask) {
            const struct copy *other = told_before(u, v) ? copy_of(u, c->at) : NULL;
            if (!other)
                continue;
            before->copy[before->count++] = other;
            before->changed |= other->changed;
        }
    return before->count;
}

void item_behind(const struct copy *c, const struct item_before *before, unsigned from, unsigned n,
                 uint64_t *words)
{
    const uint64_t *now = frame_memory(c->leaf->pages[c->slot].frame);
    for (unsigned k = 0; k < before->count; k++) {
        const struct copy *other = before->copy[k];
        const uint64_t *theirs = frame_memory(other->frame);
        for (unsigned i = from; i < from + n; i++)
            if (other->words[i / 64] >> i % 64 & 1) /* else it was hit (CW2) */
                words[i - from] += theirs[i] - now[i];
    }
}

void item_words(const struct copy *c, const struct item_before *before, unsigned from, unsigned n,
                uint64_t *out)
{
    const uint64_t *own = frame_memory(c->frame);
    for (unsigned i = 0; i < n; i++)
        out[i] = own[from + i];
    item_behind(c, before, from, n, out);
}

uint64_t item_sum(const struct copy *c, bool all)
{
    const struct page *p = &c->leaf->pages[c->slot];
    const uint64_t *now = frame_memory(p->frame), *own = frame_memory(c->frame);
    uint64_t sum = 0;
    for (unsigned i = 0; all && i < WORDS; i++)
        sum += item_weight(own[i], now[i], i);
    if (!all)
        words_each(i, c)
            sum += item_weight(own[i], now[i], i);
    return sum;
}

void item_told(struct view *v, struct copy *c, uint64_t sum)
{
    c->told = sum;
    v->items.told |= c->changed;
}

static bool copy_sound(const struct copy *c, bool whole)
{
    return c->told == item_sum(c, whole && !c->rough);
}

bool item_copy_ok(const struct view *v, const struct copy *c)
{
    return !v->items.order || copy_sound(c, true);
}

/* others_sound looks at the copies of the page that were told before c. Leaf locked. */
static RARE bool others_sound(const struct view *v, const struct copy *c)
{
    bool sound = true;
    views_each_locked(u, &c->leaf->pages[c->slot].mask)
        sound &= !told_before(u, v) || !copy_of(u, c->at) || copy_sound(copy_of(u, c->at), false);
    return sound;
}

bool item_tells_right(const struct view *v, const struct copy *c, bool whole)
{
    struct leaf *l = c->leaf;
    lock_acquire(&l->lock);
    bool right = !c->spoilt && copy_sound(c, whole) &&
                 !codeword_wrong(l, c->slot, whole ? REGIONS_ALL : c->groups) &&
                 (l->pages[c->slot].copies == 1 || others_sound(v, c));
    lock_release(&l->lock);
    return right;
}

/* ---- publication ---- */

/* patch adds to u's copy what c changes (IT3): its owner may store to it at this moment. */
static void patch(const struct view *u, const struct copy *c)
{
    const struct copy *other = copy_of(u, c->at);
    const uint64_t *own = frame_memory(c->frame);
    const uint64_t *now = frame_memory(c->leaf->pages[c->slot].frame);
    if (!other)
        return;
    uint64_t *to = frame_memory(other->frame);
    words_each(i, c)
        __atomic_fetch_add(&to[i], own[i] - now[i], __ATOMIC_RELAXED);
}

static void exchange(const struct page *p, const struct copy *c)
{
    uint64_t *now = frame_memory(p->frame), *own = frame_memory(c->frame);
    words_each(i, c)
        word_exchange(&now[i], &own[i]);
}

/* others_follow takes the current frame out of snapshots' tables, and brings others' copies up to
 * date. Leaf locked. */
static void others_follow(const struct view *v, struct page *p, const struct copy *c)
{
    version_unmap(p, p->frame, c->at, false); /* IT4 */
    if (p->copies > 1)
        views_each_locked(u, &p->mask)
            if (u != v)
                patch(u, c);
}

bool item_publish(struct view *v, struct copy *c, csn_t csn, uint64_t sequence)
{
    struct leaf *l = c->leaf;
    struct debt debt = {0};
    lock_acquire(&l->lock);
    struct page *p = &l->pages[c->slot];
    __asm__("" : "+r"(p)); /* or it is computed anew at each use */
    assert(page_resident(p) && p->writer == WRITER_NONE); /* IT1, IT2 */
    bool others = !vmask_within(&p->mask, &v->self);
    if (others)
        others_follow(v, p, c);
    bool sound = !l->codewords || codeword_follow(l, c); /* CW2 */
    if (!l->codewords)
        exchange(p, c);
    else if (!sound)
        codeword_spoil(l, c->slot);
    c->sequence = sound ? p->sequence : sequence; /* of what is not sound no snapshot sees it */
    c->superseded = sequence;
    p->csn = csn;
    p->sequence = sequence;
    page_changed(l);
    if (!(p->flags & PAGE_DIRTY))
        dirty_count(l->object, 1);
    p->flags = (uint8_t)((p->flags & ~PAGE_FREED) | PAGE_DIRTY);
    lock_acquire(&v->lock);
    right_retire_item(v, c->at, p->frame, &debt);
    v->items.cpus |= debt.cpus;
    view_copy_out(v, c, true);
    v->commit.logged++;
    lock_release(&v->lock);
    c->frame->owner = NULL;
    version_add(p, c);
    waiters_wake(p);
    lock_release(&l->lock);
    return others;
}

/* ---- the order of the log ---- */

static struct vmask in_log;             /* views that have a place in some log; atomic */

/* order_set gives v its place; 0: it has none. Port locked, or v's publication is over. */
static void order_set(struct view *v, uint64_t order)
{
    __atomic_store_n(&v->items.order, order, __ATOMIC_RELAXED);
    vmask_mark(&in_log, v->id, order != 0);
}

void item_leaves_log(struct view *v)
{
    if (v->items.order)
        order_set(v, 0);
}

/* item_take_back takes v's place, and those behind it; who is being told has to be told anew. */
void item_take_back(struct view *v)
{
    struct port *port = v->group.asked;
    lock_acquire(&port->lock);
    uint64_t from = v->items.order;
    struct vmask told = views_all;
    vmask_keep(&told, &in_log);
    if (from)
        vmask_for(u, &told)
            if (views[u].group.asked == port && views[u].items.order >= from)
                order_set(&views[u], 0);
    port->items_order += from != 0;
    v->items.from = port->items_order;
    lock_release(&port->lock);
}

int item_tell_end(struct view *v)
{
    struct port *port = v->group.asked;
    lock_acquire(&port->lock);
    int e = v->items.from == port->items_order || !v->items.told ? 0 : -EAGAIN;
    if (!e && v->items.told)
        order_set(v, ++port->items_order);
    lock_release(&port->lock);
    return e;
}

/* in_turn tells whether all that stand before v in the log are published, or in the list before
 * it. */
static bool in_turn(const struct view *v, const struct vmask *before)
{
    struct vmask told = views_all;
    vmask_keep(&told, &in_log);
    if (!v->items.order)
        return !v->items.told;
    vmask_for(i, &told) {
        const struct view *u = &views[i];
        if (u->items.order && u->items.order < v->items.order &&
            u->group.asked == v->group.asked && !vmask_test(before, u->id))
            return false;
    }
    return true;
}

bool items_in_order(const struct kd_publish *list, uint64_t n)
{
    struct vmask before = {0};
    bool in = true;
    for (uint64_t i = 0; i < n && in; i++) {
        const struct view *v = &views[list[i].view];
        in = !v->items.count || in_turn(v, &before);
        vmask_set(&before, v->id);
        if (v->items.count)
            thread_breathe();
    }
    return in;
}
