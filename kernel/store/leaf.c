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
 *     Then the leaf is stock: another one is made of it, by what was touched.
 * LF3  A page that was freed (KD_ADVISE_FREED) is younger than all snapshots there were as soon as
 *     it is not in memory: at once; or when it leaves (PAGE_FREED); or when its leaf is made, by
 *     object->freed. A range in there stays while a snapshot is older that is not over; then it
 *     goes into `floor`. Where there is no room for one more, the one that lies nearest is widened:
 *     it may say so of too many pages.
 *
 * Locks: object for its tables; leaf, view; the evict lock for the list of bare leaves.
 */
#include "process/process.h"
#include "store/evict.h"
#include "store/holder.h"
#include "store/object_private.h"
#include "store/right.h"
#include "store/version.h"

/* leaf_put puts l, or NULL, into its table, whose frame counts its leaves. Object locked. */
static void leaf_put(struct object *o, uint64_t first, struct leaf *l)
{
    struct leaf **table = table_of(o, first);
    frame_of_memory(table)->flags += (uint16_t)(l ? 1 : -1);
    __atomic_store_n(&table[first / LEAF_PAGES % LEAF_TABLE], l, __ATOMIC_RELEASE);
}

static void page_init(struct page *p, uint64_t floor)
{
    p->writer = WRITER_NONE;
    p->sequence = floor;
}

/* freed_init has the pages of a new leaf that were freed be as young as that (LF3). Object
 * locked. */
static void freed_init(struct leaf *l)
{
    const struct object *o = l->object;
    for (const struct freed *f = o->freed; f < o->freed + o->freed_count; f++) {
        uint64_t from = MAX(f->first, l->first), end = MIN(f->end, l->first + LEAF_PAGES);
        for (; from < end; from++) {
            struct page *p = &l->pages[from % LEAF_PAGES];
            p->sequence = MAX(p->sequence, f->sequence);
            l->touched |= 1ull << from % LEAF_PAGES;
        }
    }
}

void leaves_freed(struct object *o, struct freed new, uint64_t oldest)
{
    struct freed *nearest = NULL;
    uint64_t least = ~0ull;
    unsigned n = 0;
    lock_acquire(&o->lock);
    for (unsigned i = 0; i < o->freed_count; i++) {
        struct freed *f = &o->freed[n];
        *f = o->freed[i];
        if (f->sequence <= oldest) {
            o->floor = MAX(o->floor, f->sequence);
            continue;
        }
        uint64_t gap = new.first > f->end ? new.first - f->end
                       : f->first > new.end ? f->first - new.end : 0;
        if (gap < least)
            nearest = f;
        least = MIN(gap, least);
        n++;
    }
    if (new.sequence <= oldest) {
        o->floor = MAX(o->floor, new.sequence);
    } else if (nearest && (!least || n == ARRAY_COUNT(o->freed))) {
        new.first = MIN(new.first, nearest->first);
        new.end = MAX(new.end, nearest->end);
        new.sequence = MAX(new.sequence, nearest->sequence); /* another thread's may be later */
        *nearest = new;
    } else {
        o->freed[n++] = new;
    }
    o->freed_count = n;
    lock_release(&o->lock);
}

/* leaf_init makes a leaf in f, of leaf_frame. Object locked. */
static struct leaf *leaf_init(struct frame *f, struct object *o, uint64_t first)
{
    static uint64_t made;
    struct leaf *l = frame_memory(f);
    uint64_t floor = o->floor;
    bool all = f->owner != l || l->floor != floor;
    for (uint64_t anew = l->touched; anew && !all; anew &= anew - 1)
        page_init(&l->pages[__builtin_ctzll(anew)], floor);
    for (struct page *p = l->pages; p < l->pages + LEAF_PAGES && all; p++)
        page_init(p, floor);
    f->owner = l;
    l->touched = 0;
    lock_init(&l->lock, RANK_LEAF, "leaf");
    list_init(&l->link);
    list_init(&l->waits);
    l->object = o;
    l->first = first;
    l->floor = floor;
    freed_init(l);
    /* as no other leaf at this place */
    l->changes = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) << 32;
    return l;
}

/* ---- the stock ---- */

static struct list stock = {&stock, &stock}; /* forgotten leaves, for new ones; evict lock */
static uint64_t stock_count;

bool leaves_stock(struct list *leaves, uint64_t most)
{
    enum { AT_ONCE = 64 };
    struct list spare = LIST_INIT(spare);
    unsigned n = 0;
    lock_acquire(&evict_lock);
    for (struct frame *f; n < AT_ONCE && (f = list_take(struct frame, leaves, link)); n++) {
        f->use = FRAME_KERNEL;
        list_push_front(&stock, &f->link);
        stock_count++;
    }
    for (n = 0; stock_count > most && n < AT_ONCE; n++, stock_count--)
        list_push_back(&spare, &list_take(struct frame, &stock, link)->link);
    lock_release(&evict_lock);
    frames_free(&spare);
    return !list_empty(leaves) || n == AT_ONCE;
}

/* leaf_frame takes a leaf of the stock, whose touched pages become zeros, or a frame of zeros. */
static struct frame *leaf_frame(void)
{
    struct frame *f = NULL;
    if (__atomic_load_n(&stock_count, __ATOMIC_RELAXED)) {
        lock_acquire(&evict_lock);
        f = list_take(struct frame, &stock, link);
        stock_count -= f != NULL;
        lock_release(&evict_lock);
    }
    if (!f)
        return frame_alloc(FRAME_LEAF);
    struct leaf *l = frame_memory(f);
    f->use = FRAME_LEAF;
    for (uint64_t touched = l->touched; touched; touched &= touched - 1) {
        l->pages[__builtin_ctzll(touched)] = (struct page){0};
        l->left[__builtin_ctzll(touched)] = 0;
    }
    l->gone = false;
    l->held = l->proven = 0;
    l->kept = l->users = (struct vmask){{0}};
    return f; /* leaf_init makes the rest, by `touched` and `floor` */
}

bool leaf_charge(struct object *o, uint64_t n)
{
    bool can = !o->dead && limit_charge(o->owner, KD_LIMIT_MEMORY, n);
    o->leaf_frames += can ? n : 0;
    return can;
}

static struct leaf *leaf_new(struct object *o, uint64_t first)
{
    bool coded = o->flags & KD_OBJECT_CODEWORDS;
    struct frame *f = leaf_frame(),
                 *t = table_of(o, first) ? NULL : frame_alloc(FRAME_LEAF),
                 *w = coded ? frame_alloc(FRAME_LEAF) : NULL;
    lock_acquire(&o->lock);
    struct leaf *l = object_leaf_find(o, first);
    bool table = table_of(o, first);
    if (!l && f && (table || t) && (w || !coded) && leaf_charge(o, 1 + !table + coded)) {
        if (!table) {
            __atomic_store_n(&o->tables[first / LEAF_PAGES / LEAF_TABLE], frame_memory(t),
                             __ATOMIC_RELEASE);
            t = NULL;
        }
        l = leaf_init(f, o, first);
        l->codewords = coded ? frame_memory(w) : NULL;
        f = w = NULL;
        leaf_put(o, first, l);
        evict_leaves(&l, 1, true);
    }
    lock_release(&o->lock);
    struct frame *const left[] = {f, t, w};
    for (unsigned i = 0; i < 3; i++)
        if (left[i])
            frame_free(left[i]);
    return l;
}

struct leaf *object_leaf(struct object *o, uint64_t page)
{
    struct leaf *l = object_leaf_find(o, page);
    return l ? l : leaf_new(o, page & ~(uint64_t)(LEAF_PAGES - 1));
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
    for (uint64_t vain = 0;;) {
        struct leaf *l = object_leaf(o, page);
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

enum { RIGHTS_AT_ONCE = 384 };

unsigned leaf_portion(const struct leaf *l, unsigned slot, unsigned end)
{
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
    for (uint64_t i = 0; o->tables && i < o->table_count; i++) {
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

/* held_goes tells whether what v has HELD of pages of the leaf may go: not if its transaction may
 * have used it; one that began after the last right here was HELD has not. Leaf locked. */
HOT bool held_goes(const struct leaf *l, struct view *v)
{
    uint8_t state = __atomic_load_n(&v->state, __ATOMIC_ACQUIRE); /* set behind the rest */
    return (state == VIEW_IDLE || (state == VIEW_ACTIVE && v->txn.ticket >= l->held)) &&
           !view_holds(v);
}

/* right_goes takes v's right to a page that is away, if it may go, and tells whether it has none
 * now. Leaf locked. */
static bool right_goes(struct leaf *l, unsigned slot, struct view *v)
{
    lock_acquire(&v->lock);
    bool goes = right_forget(v, &l->pages[slot], page_address(l, slot), held_goes(l, v));
    lock_release(&v->lock);
    return goes;
}

/* page_unused tells whether nothing of a page is in use, by those in its mask neither, which are
 * counted. Leaf locked. */
static bool page_unused(struct leaf *l, unsigned slot, unsigned *users)
{
    struct page *p = &l->pages[slot];
    if (p->flags & PAGE_AWAY && /* SP4 */
        p->csn > __atomic_load_n(&l->object->commit_port->settled, __ATOMIC_RELAXED))
        return false;
    if (p->frame || p->flags & ~(PAGE_ASKED | PAGE_AWAY) || p->queue || p->versions ||
        (p->sequence > l->object->floor && p->sequence > version_oldest())) /* LF1 */
        return false;
    if (p->writer != WRITER_NONE && !right_goes(l, slot, &views[p->writer]))
        return false;
    vmask_each(v, &p->mask) /* what is HELD and may go goes later: its view gets none meanwhile */
        if (++*users, !held_goes(l, &views[v]) && !right_goes(l, slot, &views[v]))
            return false;
    return p->writer == WRITER_NONE;
}

/* leaf_unused tells whether nothing of the leaf is in use. Object and leaf locked. */
static bool leaf_unused(struct leaf *l, unsigned *users)
{
    if (l->gone || l->resident || !list_empty(&l->waits))
        return false;
    for (uint64_t touched = l->touched; touched; touched &= touched - 1)
        if (!page_unused(l, (unsigned)__builtin_ctzll(touched), users))
            return false;
    return true;
}

/* leaf_take puts the leaf's frame, and that of a table without leaves, on the list. Object and leaf
 * locked. */
static void leaf_take(struct object *o, struct leaf *l, struct forgotten *gone)
{
    struct leaf **leaves = table_of(o, l->first);
    for (uint64_t touched = l->touched; touched; touched &= touched - 1)
        o->floor = MAX(o->floor, l->pages[__builtin_ctzll(touched)].sequence);
    l->gone = true;
    leaf_put(o, l->first, NULL);
    list_push_back(&gone->leaves, &frame_of_memory(l)->link);
    vmask_each(v, &l->kept)
        if (views[v].last.leaf == l) /* it is set with the leaf locked, but not if that is gone */
            views[v].last.leaf = NULL;
    if (l->codewords)
        list_push_back(&gone->frames, &frame_of_memory(l->codewords)->link);
    uint64_t n = 1 + (l->codewords != NULL);
    if (!frame_of_memory(leaves)->flags) {
        __atomic_store_n(&o->tables[l->first / LEAF_PAGES / LEAF_TABLE], NULL, __ATOMIC_RELEASE);
        list_push_back(&gone->frames, &frame_of_memory(leaves)->link);
        n++;
    }
    o->leaf_frames -= n;
    limit_uncharge(o->owner, KD_LIMIT_MEMORY, n);
}

/* tables_forget takes out each view's page table at `at`, where the object has no leaf any more, if
 * it has no entries: no view has a right of the object's there, and none gets one, as that takes a
 * leaf, which is made with the object locked. No other object lies there (OV2): a fault in that
 * might have found the table. With the last leaf in 128 MiB the table of tables goes, too. Object
 * locked. */
static void tables_forget(vaddr_t at, bool last, struct forgotten *gone)
{
    vaddr_t low = last ? 0 : at, high = last ? KD_STORE_END : at + RIGHT_REACH_BYTES;
    vmask_for(i, &view_tabled) {
        struct view *v = &views[i];
        lock_acquire(&v->lock);
        uint64_t n = v->table && v->tables.charged
            ? arch_tables_cut_empty(v->table, at, at + 1, low, high, true, &gone->frames) : 0;
        if (n) {
            view_tables_gone(v, n);
            gone->cpus |= arch_table_cpus(v->table);
        }
        if (v->last.base == at)
            v->last.ptes = NULL;
        lock_release(&v->lock);
    }
}

/* rights_forget takes the rights that are HELD in leaves that went. Object locked. */
static void rights_forget(struct leaf *went[], unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (uint64_t touched = went[i]->touched; touched; touched &= touched - 1) {
            unsigned slot = (unsigned)__builtin_ctzll(touched);
            struct page *p = &went[i]->pages[slot];
            views_each_locked(v, &p->mask)
                (void)right_forget(v, p, page_address(went[i], slot), true);
        }
}

bool leaf_forget(struct leaf *l, bool dead, struct forgotten *gone)
{
    enum { MOST = RIGHT_REACH_BYTES / PAGE_BYTES / LEAF_PAGES + 1 };
    struct object *o = l->object;
    struct leaf *went[MOST];
    unsigned n = 0, left = 0, rights = 0;
    vaddr_t at = page_address(l, 0) & ~(vaddr_t)(RIGHT_REACH_BYTES - 1);
    vaddr_t end = at + RIGHT_REACH_BYTES;
    uint64_t page = (MAX(at, o->base) - o->base) / PAGE_BYTES & ~(uint64_t)(LEAF_PAGES - 1);
    uint64_t behind = MIN((end - o->base) / PAGE_BYTES, o->pages);
    lock_acquire(&o->lock);
    for (; o->dead == dead && page < behind; page += LEAF_PAGES) {
        struct leaf *k = object_leaf_find(o, page);
        if (!k)
            continue;
        lock_acquire(&k->lock);
        unsigned users = rights;
        if (users < RIGHTS_AT_ONCE && leaf_unused(k, &users)) {
            rights = users;
            leaf_take(o, went[n++] = k, gone);
        } else if (++left && !k->gone && !k->resident && !dead)
            evict_leaves(&k, 1, true); /* the next look is at others */
        lock_release(&k->lock);
    }
    evict_leaves(went, n, false);
    if (n && !left && !o->overlaps && at >= o->base && (end - o->base) / PAGE_BYTES <= o->pages)
        tables_forget(at, !table_of(o, went[0]->first), gone);
    else
        rights_forget(went, n);
    lock_release(&o->lock);
    return n;
}
