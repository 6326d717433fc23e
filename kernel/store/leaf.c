/*
 * leaf.c - leaves: what the kernel knows of 64 pages of an object, in one frame. A leaf is made by
 * the first touch, and forgotten when nothing of it is in use (eviction.md).
 *
 * LF1  `floor` is not smaller than any sequence that was forgotten in the object, and a leaf that
 *     is made anew takes it for all its pages. No leaf is forgotten while a snapshot that is not
 *     over is older than one of its pages.
 * LF2  A leaf that is `gone` is in no table, and no view has rights to its pages. A thread that
 *     found it looks at `gone` where a page is not resident, under the leaf's lock. The frame is
 *     free when every CPU has been outside the kernel since: a leaf that was found without a lock
 *     is not kept over a sleep. The evictor alone frees leaves, so those that it finds itself stay.
 *
 * Locks: object for its tables; leaf, view; the evict lock for the list of bare leaves.
 */
#include "process/process.h"
#include "store/evict.h"
#include "store/holder.h"
#include "store/object_private.h"
#include "store/right.h"
#include "store/version.h"

static struct leaf **table_of(const struct object *o, uint64_t page)
{
    return __atomic_load_n(&o->tables[page / LEAF_PAGES / LEAF_TABLE], __ATOMIC_ACQUIRE);
}

/* leaf_put puts l, or NULL, into its table, whose frame counts its leaves. Object locked. */
static void leaf_put(struct object *o, uint64_t first, struct leaf *l)
{
    struct leaf **table = table_of(o, first);
    frame_of_memory(table)->flags += (uint16_t)(l ? 1 : -1);
    __atomic_store_n(&table[first / LEAF_PAGES % LEAF_TABLE], l, __ATOMIC_RELEASE);
}

static void leaf_init(struct leaf *l, struct object *o, uint64_t first)
{
    static uint64_t made;
    lock_init(&l->lock, RANK_LEAF, "leaf");
    list_init(&l->link);
    list_init(&l->waits);
    l->object = o;
    l->first = first;
    /* as no other leaf at this place */
    l->changes = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) << 32;
    for (unsigned i = 0; i < LEAF_PAGES; i++) {
        l->pages[i].writer = WRITER_NONE;
        l->pages[i].sequence = o->floor;
    }
}

bool leaf_charge(struct object *o, uint64_t n)
{
    bool can = !o->dead && limit_charge(o->owner, KD_LIMIT_MEMORY, n);
    o->leaf_frames += can ? n : 0;
    return can;
}

/* leaf_install puts the leaf *f in its table, or in *t if none, with room for codewords in *w, if
 * it needs some; what is used is NULL then. Object locked. */
static struct leaf *leaf_install(struct object *o, uint64_t first, struct frame **f,
                                 struct frame **t, struct frame **w)
{
    struct leaf *l = object_leaf_find(o, first);
    bool words = o->flags & KD_OBJECT_CODEWORDS;
    if (l || !*f || !(table_of(o, first) || *t) || (words && !*w) ||
        !leaf_charge(o, 1 + !table_of(o, first) + words))
        return l;
    if (!table_of(o, first)) {
        __atomic_store_n(&o->tables[first / LEAF_PAGES / LEAF_TABLE], frame_memory(*t),
                         __ATOMIC_RELEASE);
        *t = NULL;
    }
    l = frame_memory(*f);
    *f = NULL;
    leaf_init(l, o, first);
    if (words) {
        l->codewords = frame_memory(*w);
        *w = NULL;
    }
    leaf_put(o, first, l);
    evict_leaf(l, true);
    return l;
}

static struct leaf *leaf_new(struct object *o, uint64_t first)
{
    struct frame *f = frame_alloc(FRAME_LEAF),
                 *t = table_of(o, first) ? NULL : frame_alloc(FRAME_LEAF),
                 *w = o->flags & KD_OBJECT_CODEWORDS ? frame_alloc(FRAME_LEAF) : NULL;
    lock_acquire(&o->lock);
    struct leaf *l = leaf_install(o, first, &f, &t, &w);
    lock_release(&o->lock);
    if (w)
        frame_free(w);
    if (f)
        frame_free(f);
    if (t)
        frame_free(t);
    return l;
}

struct leaf *object_leaf(struct object *o, uint64_t page, bool create)
{
    if (page >= o->pages)
        return NULL;
    struct leaf *l = object_leaf_find(o, page);
    return l || !create ? l : leaf_new(o, page & ~(uint64_t)(LEAF_PAGES - 1));
}

int leaf_refused(struct object *o)
{
    lock_acquire(&o->lock);
    int e = o->dead ? -EOWNERDEAD : limit_left(o->owner, KD_LIMIT_MEMORY) < 3 ? -ENOMEM : 0;
    lock_release(&o->lock);
    return e;
}

struct leaf *leaf_lock_new(struct object *o, uint64_t page)
{
    uint64_t vain = evict_vain();
    for (;;) {
        struct leaf *l = object_leaf(o, page, true);
        if (!l && (leaf_refused(o) || !evict_wait(&vain)))
            return NULL;
        if (!l)
            continue;
        lock_acquire(&l->lock);
        if (!l->gone)
            return l;
        lock_release(&l->lock);
    }
}

unsigned leaf_portion(const struct leaf *l, unsigned slot, unsigned end)
{
    enum { RIGHTS_AT_ONCE = 384 };
    unsigned users =
        (unsigned)(__builtin_popcountll(l->users.word[0]) + __builtin_popcountll(l->users.word[1]));
    return MIN(end, slot + RIGHTS_AT_ONCE / MAX(users, 1u));
}

/* next_with_leaf is the first page from this one on that has a leaf, or is in the next table, or is
 * not below `end`. */
static uint64_t next_with_leaf(const struct object *o, uint64_t page, uint64_t end)
{
    uint64_t leaf = page / LEAF_PAGES, first = leaf & ~(uint64_t)(LEAF_TABLE - 1);
    uint64_t last = MIN(first + LEAF_TABLE, (end - 1) / LEAF_PAGES + 1);
    struct leaf **table = table_of(o, page);
    for (leaf = table ? leaf : last; leaf < last; leaf++)
        if (__atomic_load_n(&table[leaf - first], __ATOMIC_RELAXED))
            break;
    return MAX(page, leaf * LEAF_PAGES);
}

void leaves_in(struct object *o, uint64_t page, uint64_t end, leaf_fn *fn, void *arg)
{
    for (unsigned n = 1; page < end && (page = next_with_leaf(o, page, end)) < end; n++) {
        struct leaf *l = object_leaf_find(o, page);
        uint64_t first = page & ~(uint64_t)(LEAF_PAGES - 1);
        if (l)
            page = first + fn(l, page % LEAF_PAGES, (unsigned)MIN(LEAF_PAGES, end - first), arg);
        if (l || n % LEAF_PAGES == 0)
            thread_breathe(); /* the leaf may go meanwhile: the rest of it is looked for again */
    }
}

void leaves_for(struct object *o, leaf_fn *fn, void *arg) { leaves_in(o, 0, o->pages, fn, arg); }

enum { TABLES_AT_ONCE = 2048 };

struct leaf ***leaf_tables_new(uint64_t n)
{
    struct leaf ***tables = kalloc_raw(n * sizeof *tables);
    for (uint64_t i = 0; tables && i < n; i++) {
        tables[i] = NULL;
        if (i % TABLES_AT_ONCE == TABLES_AT_ONCE - 1)
            thread_breathe();
    }
    return tables;
}

void leaves_free(struct object *o)
{
    for (uint64_t i = 0; i < o->table_count; i++) {
        struct leaf **table = o->tables[i];
        for (unsigned k = 0; table && k < LEAF_TABLE; k++) {
            if (table[k] && table[k]->codewords)
                frame_free(frame_of_memory(table[k]->codewords));
            if (table[k])
                frame_free(frame_of_memory(table[k]));
        }
        if (table)
            frame_free(frame_of_memory(table));
        if ((table || i % TABLES_AT_ONCE == 0) && lock_holds_none())
            thread_breathe();
    }
}

/* ---- forgetting; by the evictor, and where an object ends ---- */

/* right_forget takes the right to a page that is away, unless the view's transaction may have used
 * it. Leaf locked. */
static bool right_forget(struct leaf *l, unsigned slot, struct view *v)
{
    struct debt none = {0}; /* HELD is in no TLB */
    vaddr_t at = page_address(l, slot);
    lock_acquire(&v->lock);
    enum right_state state = right_state(right_at(v, at));
    bool since = v->state == VIEW_ACTIVE && v->txn.ticket >= l->held; /* it began later */
    bool can = state == RIGHT_EMPTY || (state == RIGHT_HELD && !view_holds(v) &&
                                        (v->state == VIEW_IDLE || since));
    /* else only the mask names it (PG3) */
    if (can && (state == RIGHT_HELD || l->pages[slot].writer == v->id))
        right_take(v, &l->pages[slot], at, &none); /* if it was to write, it had no copy */
    lock_release(&v->lock);
    return can;
}

static bool page_forget(struct leaf *l, unsigned slot, uint64_t oldest)
{
    struct page *p = &l->pages[slot];
    if (p->frame || p->flags & ~PAGE_ASKED || p->queue || p->versions ||
        p->sequence > oldest) /* LF1 */
        return false;
    vmask_for(v, &p->mask)
        if (!right_forget(l, slot, &views[v]))
            return false;
    return p->writer == WRITER_NONE;
}

/* leaf_unused tells whether nothing of the leaf is in use. Object and leaf locked. */
static bool leaf_unused(struct leaf *l)
{
    uint64_t oldest = version_oldest();
    if (l->gone || l->resident || !list_empty(&l->waits))
        return false;
    for (uint64_t touched = l->touched; touched; touched &= touched - 1)
        if (!page_forget(l, (unsigned)__builtin_ctzll(touched), oldest))
            return false;
    return true;
}

/* tables_forget takes out each view's page table for the 2 MiB around the leaf if they have no leaf
 * any more: no view has a right there (PG3), and none gets one, as that takes a leaf, which is made
 * with the object locked. With the last leaf in 128 MiB the table of tables goes, too. Object and
 * leaf locked. */
static void tables_forget(struct object *o, const struct leaf *l, bool last, struct forgotten *gone)
{
    enum { TABLE_BYTES = 512 * PAGE_BYTES };
    vaddr_t at = page_address(l, 0) & ~(vaddr_t)(TABLE_BYTES - 1);
    vaddr_t low = last ? 0 : at, high = last ? KD_STORE_END : at + TABLE_BYTES;
    uint64_t page = (at - o->base) >> PAGE_SHIFT;
    if (at < o->base || page + 512 > o->pages)
        return;
    for (uint64_t i = page / LEAF_PAGES; i <= (page + 511) / LEAF_PAGES; i++)
        if (object_leaf_find(o, i * LEAF_PAGES))
            return;
    for (struct view *v = views; v < views + KD_VIEW_MAX; v++) {
        if (v->state == VIEW_FREE || !v->tables.charged)
            continue;
        lock_acquire(&v->lock);
        uint64_t n =
            v->table ? arch_tables_cut_empty(v->table, at, at + 1, low, high, &gone->frames) : 0;
        if (n) {
            view_tables_gone(v, n);
            gone->cpus |= arch_table_cpus(v->table);
        }
        if (v->last.base == at)
            v->last.ptes = NULL;
        lock_release(&v->lock);
    }
}

/* leaf_take puts the leaf's frame, and that of a table without leaves, on the list. Object and leaf
 * locked. */
static void leaf_take(struct object *o, struct leaf *l, struct forgotten *gone)
{
    struct frame *table = frame_of_memory(table_of(o, l->first));
    for (uint64_t touched = l->touched; touched; touched &= touched - 1)
        o->floor = MAX(o->floor, l->pages[__builtin_ctzll(touched)].sequence);
    l->gone = true;
    evict_leaf(l, false);
    leaf_put(o, l->first, NULL);
    list_push_back(&gone->frames, &frame_of_memory(l)->link);
    vmask_for(v, &l->kept)
        if (views[v].last.leaf == l) /* it is set with the leaf locked, but not if that is gone */
            views[v].last.leaf = NULL;
    uint64_t n = table->flags ? 1 : 2;
    if (n == 2) {
        __atomic_store_n(&o->tables[l->first / LEAF_PAGES / LEAF_TABLE], NULL, __ATOMIC_RELEASE);
        list_push_back(&gone->frames, &table->link);
    }
    tables_forget(o, l, n == 2, gone);
    if (l->codewords) {
        list_push_back(&gone->frames, &frame_of_memory(l->codewords)->link);
        n++;
    }
    o->leaf_frames -= n;
    limit_uncharge(o->owner, KD_LIMIT_MEMORY, n);
}

bool leaf_forget(struct leaf *l, bool dead)
{
    struct object *o = l->object;
    struct forgotten gone = FORGOTTEN_INIT(gone);
    lock_acquire(&o->lock);
    lock_acquire(&l->lock);
    bool unused = o->dead == dead && leaf_unused(l);
    if (unused)
        leaf_take(o, l, &gone);
    lock_release(&l->lock);
    lock_release(&o->lock);
    forgotten_move(&gone, &evict_forgotten);
    return unused;
}
