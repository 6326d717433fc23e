/*
 * alloc.c - which page a new object goes to, and what becomes of pages that are free again.
 *
 * Owns      struct heap of each ps_tx: pages that are being filled, pages near others.
 * Not here  objects that are there already (resize.c), the format of a page (slot.c), the list of
 *           an arena's pages (arena.c), leases (lease.c), who may have which page (the store
 *           manager).
 *
 * There is no word that every transaction writes. Each view fills pages of its own, taken from runs
 * that the manager leased to this process; to take one costs nothing but its first write fault. The
 * ladder of a `near` hint, as in Cricket: the page of `near`; a page of the same 16 KiB extent that
 * is known or leased here; a leased page close by; then the manager is asked.
 *
 * Invariants
 *   AL1  After an abort every page that the transaction took from a lease is in the lease again,
 *       and no page remembered in the heap is one that it formatted.
 *   AL2  A page goes back to the manager when it is wholly free, in the commit that made it so,
 *       except the one being filled.
 *   AL3  A hint, a remembered page or a page's contents may be wrong: the seal and the bounds of
 *       slot.c are checked each time, and the worst case is another page.
 *   AL4  A page of a committed object is the object's whether it was ever written or not.
 *   AL5  In item mode a page is an item: X for who allocates in it, and if it is not free at once
 *        another page; ADD for who frees in it. Pages go back to the manager, and large objects
 *        come and go, only under the lock of the container: nobody else has copies then.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

#define LEASE_PAGES      16u              /* doubled at each further lease ... */
#define LEASE_PAGES_MAX  256u             /* ... up to this */
/* RUN_AREA_UNITS are the header and one slot of a marked page. */
#define RUN_AREA_UNITS   3u
#define CLOSE_BYTES      (256u * 1024)    /* a leased page so far from `near` is still near */
#define FRESH_TRIES      8
#define ROOM_TAG_UNMARKED 255u            /* of hints; below it: arenas */

struct wanted { uint64_t units; uint32_t type; };

/* settle puts what was stored to the heap so far into memory before a next fault (TX2). */
static void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* heap_declare declares pages in which the library allocates or frees whole, new objects with them:
 * its stores are not declared piece by piece. */
void heap_declare(const ps_container *c, uint64_t page, uint64_t pages)
{
    /* an error of the call dooms the transaction: there is nothing to add */
    items_store(tx_active(), c, page, pages * KD_PAGE_BYTES);
    if (c->encoder == PS_ENCODE_RANGES)
        (void)ps_kernel(KD_TXN_HINT, (long)page, (long)(pages * KD_PAGE_BYTES), KD_HINT_WRITE);
}

/* ---- what a transaction's end does to the heap ---- */

void heap_committed(struct heap *h)
{
    unsigned kept = 0;
    if (!h->used)
        return;
    for (unsigned i = 0; i < h->lease_count; i++) {
        assert(h->lease[i].mark <= h->lease[i].next &&
               h->lease[i].next <= h->lease[i].end); /* AL1 */
        h->lease[i].mark = h->lease[i].next;
        if (h->lease[i].next < h->lease[i].end)
            h->lease[kept++] = h->lease[i];
    }
    h->lease_count = kept;
    for (unsigned i = 0; i < FILLS; i++)
        h->fill[i].mark = h->fill[i].current;
    memset(h->room, 0, sizeof h->room);
    h->used = 0;
}

void heap_aborted(struct heap *h)
{
    if (!h->used)
        return;
    for (unsigned i = 0; i < h->lease_count; i++) {
        assert(h->lease[i].mark <= h->lease[i].next &&
               h->lease[i].next <= h->lease[i].end); /* AL1 */
        h->lease[i].next = h->lease[i].mark;
    }
    for (unsigned i = 0; i < FILLS; i++) {
        h->fill[i].current = h->fill[i].mark;
        h->fill[i].block_pages = 0;       /* perhaps of an arena that this transaction made */
    }
    memset(h->near, 0, sizeof h->near);
    memset(h->room, 0, sizeof h->room);
    h->used = 0;
}

/* ---- room hints: the manager learns of them with the commit ---- */

/* room_entry finds a page's place in the table, by its number: a hint may push another one out. */
static struct room *room_entry(struct heap *h, uint64_t page)
{
    return &h->room[page / KD_PAGE_BYTES % ROOMS_MAX];
}

static void room_note(struct heap *h, ps_container *c, uint64_t page)
{
    *room_entry(h, page) = (struct room){c, page};
}

void heap_room_note(struct ps_tx *tx, ps_container *c, uint64_t page)
{
    tx->heap.used = 1;
    room_note(&tx->heap, c, page);
}

static void room_forget(struct heap *h, uint64_t page)
{
    if (room_entry(h, page)->page == page)
        *room_entry(h, page) = (struct room){NULL, 0};
}

/* room_tag tells hints about pages of different arenas apart, nearly always. */
static uint64_t room_tag(uint64_t arena)
{
    return arena ? WIRE_ROOM_TAG(1 + arena / SLOT_UNIT_BYTES % (ROOM_TAG_UNMARKED - 1)) : 0;
}

/* room_hint makes a page's hint. Pages that take no types have a tag of their own: whoever looks
 * for room for an object with a type is not sent there. */
static uint64_t room_hint(const struct slot_page *page)
{
    uint64_t tag = slot_is_marked(page) ? room_tag(slot_arena(page))
                                        : WIRE_ROOM_TAG(ROOM_TAG_UNMARKED);
    return slot_room(page) | tag;
}

void heap_commit_prepare(struct ps_tx *tx)
{
    for (struct room *r = tx->heap.room; tx->heap.used && r < tx->heap.room + ROOMS_MAX; r++)
        if (r->page)
            tx_op(tx, WIRE_ROOM, r->container, r->page, room_hint(slotted(r->page)), NULL);
}

/* ---- what is being filled ---- */

/* fill_place finds an arena's place among those that this view fills. One that another arena had is
 * given up, and with it the page that was being filled: room that the manager will tell of. */
static struct fill *fill_place(struct heap *h, const ps_container *c, uint64_t arena)
{
    if (!arena)
        return &h->fill[container_index(c)];
    uint32_t hash = (uint32_t)(arena / KD_PAGE_BYTES) * 2654435761u;
    struct fill *set = &h->fill[PS_OPEN_MAX + (hash >> 26) % FILL_SETS * FILL_WAYS];
    for (struct fill *f = set; f < set + FILL_WAYS; f++)
        if (f->arena == arena)
            return f;
    struct fill *f = &set[h->arenas++ % FILL_WAYS];
    f->generation = 0;
    return f;
}

/* fill_of finds what is filled in this container, in an arena or (0) in none; leases and pages of
 * an earlier opening are forgotten. */
static struct fill *fill_of(struct heap *h, const ps_container *c, uint64_t arena)
{
    struct fill *f = fill_place(h, c, arena);
    h->used = 1;
    if (f->generation != c->generation + 1) {
        f->current = f->mark = 0;
        settle();
        *f = (struct fill){ .arena = arena,
                            .generation = c->generation + 1,
                            .lease_pages = LEASE_PAGES };
        if (!arena)
            memset(h->near, 0, sizeof h->near);
    }
    return f;
}

/* fill_learn reads what an arena says of itself when it is filled first: nobody comes to its first
 * page for that later. */
static void fill_learn(struct fill *f)
{
    if (f->block_pages)
        return;
    unsigned fill;
    arena_knobs((const ps_arena *)(uintptr_t)f->arena, &f->block_pages, &fill);
    f->keep = SLOT_SMALL_MARKED * (100 - fill) / 100;
}

/* ---- pages near others ---- */

static struct near_page *near_entry(struct heap *h, uint64_t near)
{
    return &h->near[EXTENT_OF(near) % NEARS_MAX];
}

static uint64_t near_recall(struct heap *h, uint64_t near)
{
    struct near_page *n = near_entry(h, near);
    return n->extent == EXTENT_OF(near) ? n->page : 0;
}

static void near_remember(struct heap *h, uint64_t near, uint64_t page)
{
    *near_entry(h, near) = (struct near_page){EXTENT_OF(near), page};
}

static void near_forget(struct heap *h, uint64_t page)
{
    for (unsigned i = 0; i < NEARS_MAX; i++)
        if (h->near[i].page == page)
            h->near[i] = (struct near_page){0, 0};
}

/* ---- small objects ---- */

/* page_item_alloc is slot_alloc in item mode (AL5); -EBUSY: others use the page. */
static int page_item_alloc(ps_container *c, uint64_t page, struct wanted want)
{
    struct ps_tx *tx = tx_active();
    if (slot_room(slotted(page)) < want.units * SLOT_UNIT_BYTES || want.units > SLOT_SMALL_MAX)
        return -ENOSPC;                   /* a glance: nobody is kept out of a page that is full */
    int result = items_lock(tx, c, page, PS_X | PS_NOW);
    if (result != 0)
        return result;
    unsigned before = slot_area_bytes(slotted(page));
    slot_settle(slotted(page));
    int start = slot_alloc(slotted(page), (unsigned)want.units, want.type);
    unsigned after = slot_area_bytes(slotted(page));
    items_store(tx, c, page, before > after ? before : after);
    if (start > 0)
        items_store(tx, c, page + (unsigned)start * SLOT_UNIT_BYTES, want.units * SLOT_UNIT_BYTES);
    return start;
}

/* page_try tries to place an object in a page that may or may not be a fit one; NULL: elsewhere. */
static void *page_try(ps_container *c, const struct fill *f, uint64_t page, struct wanted want)
{
    int fits = page && slot_arena(slotted(page)) == f->arena;
    int start = !fits ? -ENOSPC
                : c->items && slot_is_page(slotted(page)) ? page_item_alloc(c, page, want)
                : slot_alloc(slotted(page), (unsigned)want.units, want.type);
    if (start > 0 && !c->items)
        heap_declare(c, page, 1);
    return start > 0 ? (void *)(uintptr_t)(page + (unsigned)start * SLOT_UNIT_BYTES) : NULL;
}

/* block_of returns the pages of a block of what is filled. */
static unsigned block_of(const struct fill *f)
{
    return f->arena && f->block_pages ? f->block_pages : 1;
}

/* block_lease finds a lease with room for a block, near `near` unless that is 0; where there is
 * none any more, for a page alone. NULL: errno. */
static struct lease *block_lease(struct heap *h, ps_container *c, struct fill *f, uint64_t near,
                                 unsigned *block)
{
    uint64_t least = *block > 1 ? 2ull * *block - 1 : 1;
    uint64_t wanted = near ? LEASE_PAGES : f->lease_pages;
    struct lease *lease = NULL;
    int result = lease_more(h, c, wanted > least ? wanted : least, near, &lease);
    if (result == -ENOSPC && *block > 1 && wanted > least)
        result = lease_more(h, c, least, near, &lease);
    if (result == 0 && !lease_start(lease, *block, *block))
        result = -ENOSPC;
    if (result == -ENOSPC) {              /* perhaps there is one page left */
        *block = 1;
        lease = lease_find(h, c, 1, 1, 0, 0);
        result = lease ? 0 : lease_more(h, c, 1, near, &lease);
    }
    if (result == 0 && near == 0 && f->lease_pages < LEASE_PAGES_MAX)
        f->lease_pages *= 2;
    errno = -result;
    return result == 0 ? lease : NULL;
}

/* page_fresh takes pages from a lease, formatted; an object comes into the first. 0: errno. */
static uint64_t page_fresh(struct heap *h, ps_container *c, struct fill *f, uint64_t near,
                           struct lease *lease)
{
    unsigned block = block_of(f);
    uint64_t spare = f->arena ? arena_spare_take(c, f->arena) : 0;
    if (spare)
        return spare;
    if (!lease && !(lease = block_lease(h, c, f, near, &block)))
        return 0;
    uint64_t page = lease_take(h, lease, block, block);
    heap_declare(c, page, block);
    arena_pages_format(c, f->arena, page, block, arena_link(c, f->arena, f->current));
    return page;
}

/* fresh_try places the object in a page, *page, that is taken from a lease. In item mode the page's
 * entry in the table of locks may be another item's, too: it is waited for at last only (AL5). */
static void *fresh_try(struct heap *h, ps_container *c, struct fill *f, struct wanted want,
                       uint64_t near, struct lease *lease, uint64_t *page)
{
    void *object = NULL;
    for (int tries = 0; !object && tries <= FRESH_TRIES; tries++) {
        *page = page_fresh(h, c, f, near, lease);
        int result = *page && tries == FRESH_TRIES ? items_lock(tx_active(), c, *page, PS_X) : 0;
        if (result != 0)
            errno = -result;
        if (!*page || result != 0)
            return NULL;
        room_note(h, c, *page);
        object = page_try(c, f, *page, want);
        lease = lease_find(h, c, block_of(f), block_of(f), near, near ? CLOSE_BYTES : 0);
    }
    if (!object)
        errno = ENOSPC;
    return object;
}

/* block_try tries this page and those behind it in its block: *page is where the object lies. */
static void *block_try(ps_container *c, const struct fill *f, uint64_t *page,
                       struct wanted want)
{
    for (;;) {
        void *object = page_try(c, f, *page, want);
        uint64_t next = object || !*page ? 0 : arena_block_next(f->arena, block_of(f), *page);
        if (!next)
            return object;
        *page = next;
    }
}

/* fill_prefer fills on, of the page filled so far and another one, the marked one, which takes
 * objects with types, too; of two alike the one with more room. A block is filled to its end, then
 * comes the new one. */
static void fill_prefer(struct heap *h, ps_container *c, struct fill *f, uint64_t page)
{
    const struct slot_page *now = slotted(f->current), *other = slotted(page);
    room_note(h, c, page);
    if (!f->current || !slot_is_page(now) || block_of(f) > 1)
        f->current = page;
    else if (slot_is_marked(now) != slot_is_marked(other))
        f->current = slot_is_marked(now) ? f->current : page;
    else if (now->free < other->free)
        f->current = page;
}

/* space_try tries a page with room that the manager knows, perhaps left by an earlier process. Far
 * from `near` a new page close by is the better one. */
static void *space_try(struct heap *h, ps_container *c, struct fill *f, struct wanted want,
                       uint64_t near)
{
    uint64_t page, bytes = want.units * SLOT_UNIT_BYTES;
    int result = container_space(c, bytes | room_tag(f->arena), near, &page);
    if (result == -ENOENT && !want.type && !f->arena)
        result = container_space(c, bytes | WIRE_ROOM_TAG(ROOM_TAG_UNMARKED), near, &page);
    if (result != 0)
        return NULL;
    if (near && (page > near ? page - near : near - page) > CLOSE_BYTES)
        return NULL;
    room_note(h, c, page);                /* also if the object does not fit: it was told wrong */
    void *object = page_try(c, f, page, want);
    if (object)
        fill_prefer(h, c, f, page);
    return object;
}

/* fill_try tries the page being filled, and those behind it in its block. */
static void *fill_try(struct heap *h, ps_container *c, struct fill *f, struct wanted want)
{
    void *object = NULL;
    for (uint64_t page = f->current; page && !object;) {
        if (!c->items)                    /* there a store makes a copy, and no lock */
            heap_page_touch(page);
        if (slotted(page)->free >= want.units + f->keep || slot_is_empty(slotted(page)))
            object = page_try(c, f, page, want);
        room_note(h, c, page);
        f->current = page;
        page = object ? 0 : arena_block_next(f->arena, block_of(f), page);
    }
    return object;
}

/* fill_again finds the block that this transaction took last for an arena that lost its place: the
 * first of its list. The manager does not know of it yet. */
static uint64_t fill_again(const struct heap *h, ps_container *c, const struct fill *f)
{
    uint64_t page = f->arena ? arena_second(f->arena) : 0;
    return page && heap_page_is_new(h, c, page) ? page : 0;
}

static void *alloc_anywhere(struct heap *h, ps_container *c, struct fill *f, struct wanted want)
{
    if (!f->current)
        f->current = fill_again(h, c, f);
    void *object = fill_try(h, c, f, want);
    if (object)
        return object;
    struct lease *lease = lease_find(h, c, block_of(f), block_of(f), 0, 0);
    if ((!lease || f->arena) && !f->asked) { /* once: who adds little finds its last page */
        f->asked = 1;
        object = space_try(h, c, f, want, 0);
        if (object)
            return object;
    }
    uint64_t page;
    object = fresh_try(h, c, f, want, 0, lease, &page);
    if (page)
        fill_prefer(h, c, f, page);
    return object;
}

static void *alloc_near(struct heap *h, ps_container *c, struct fill *f, struct wanted want,
                        uint64_t near)
{
    uint64_t page = PAGE_OF(near);
    void *object = block_try(c, f, &page, want);
    if (!object) {
        page = near_recall(h, near);
        object = block_try(c, f, &page, want);
    }
    if (!object && EXTENT_OF(f->current) == EXTENT_OF(near)) {
        page = f->current;
        object = block_try(c, f, &page, want);
    }
    if (object) {
        room_note(h, c, page);
        return object;
    }
    struct lease *lease = lease_find(h, c, block_of(f), block_of(f), near, CLOSE_BYTES);
    if (!lease) {
        object = space_try(h, c, f, want, near);
        page = object ? PAGE_OF((uintptr_t)object) : 0;
    }
    if (!object) {
        object = fresh_try(h, c, f, want, near, lease, &page);
        if (!object)
            return NULL;
        fill_prefer(h, c, f, page);
    }
    near_remember(h, near, page);
    return object;
}

/* ---- objects of several pages ---- */

void heap_pages_zero(uint64_t page, uint64_t pages)
{
    volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)page;
    for (uint64_t i = 0; i < pages * (KD_PAGE_BYTES / 8); i++)
        if (word[i] != 0)
            word[i] = 0;
}

/* alloc_run places an object that ends with its last page: what is left of the first is of use.
 * Pages of it that stay zero are never written, so the commit claims them (AL4). */
static void *alloc_run(struct ps_tx *tx, ps_container *c, struct fill *f, struct wanted want,
                       uint64_t near)
{
    struct heap *h = &tx->heap;
    uint64_t pages = (want.units + RUN_AREA_UNITS + SLOT_UNITS - 1) / SLOT_UNITS;
    /* header and slot lie before the object, in the first page */
    uint64_t first = pages * SLOT_UNITS - want.units;
    unsigned start = first > SLOT_UNITS ? SLOT_UNITS : (unsigned)first;
    if (pages - 1 > UINT32_MAX) {
        errno = ENOSPC;
        return NULL;
    }
    struct lease *lease = lease_find(h, c, pages, 1, near, CLOSE_BYTES);
    int fresh = !lease || pages > LEASE_PAGES_MAX;  /* a large lease is of a run that was undone */
    int result = lease ? 0 : lease_more(h, c, pages, near, &lease);
    if (result == 0 && lease->end - lease->next < pages * KD_PAGE_BYTES)
        result = -ENOSPC;                 /* fewer in a row than wanted; kept for small objects */
    if (result == 0)
        result = tx_op(tx, WIRE_PAGE_CLAIM, c, lease->next, pages, NULL);
    if (result != 0) {
        errno = -result;
        return NULL;
    }
    uint64_t page = lease_take(h, lease, pages, 1);
    arena_pages_format(c, f->arena, page, 1, arena_link(c, f->arena, f->current));
    slot_alloc_run(slotted(page), start, (uint32_t)(pages - 1), want.type);
    if (!fresh)
        heap_pages_zero(page + KD_PAGE_BYTES, pages - 1);
    heap_declare(c, page, pages);
    fill_prefer(h, c, f, page);
    return (void *)(uintptr_t)(page + start * SLOT_UNIT_BYTES);
}

/* ---- alloc and free ---- */

void *heap_alloc(struct ps_tx *tx, ps_container *c, size_t bytes, const void *near, uint32_t type,
                 uint64_t arena)
{
    GUARD_OPENED(c);
    struct heap *h = &tx->heap;
    struct fill *f = fill_of(h, c, 0);
    struct wanted want = {units_of(bytes), type};
    uint64_t hint = near && container_has(c, (uintptr_t)near, 1) ? (uintptr_t)near : 0;
    if (bytes == 0 || bytes > KD_ZONE_BYTES) {
        errno = bytes == 0 ? EINVAL : ENOSPC;
        return NULL;
    }
    int result = arena || want.units > SLOT_SMALL_MARKED ? items_lock_whole(tx, c) : 0;
    if (result != 0) {
        errno = -result;
        return NULL;
    }
    if (arena) {
        f = fill_of(h, c, arena);
        fill_learn(f);
    }
    if (want.units > SLOT_SMALL_MARKED)
        return alloc_run(tx, c, f, want, hint);
    return hint ? alloc_near(h, c, f, want, hint) : alloc_anywhere(h, c, f, want);
}

void heap_meet(struct ps_tx *tx, const ps_container *c)
{
    fill_of(&tx->heap, c, 0);
}

int heap_page_free(struct ps_tx *tx, ps_container *c, uint64_t page, uint64_t tail)
{
    tx->heap.used = 1;
    heap_declare(c, page, 1);
    slot_unformat(slotted(page));
    near_forget(&tx->heap, page);
    room_forget(&tx->heap, page);
    return tx_op(tx, WIRE_PAGE_FREE, c, page, tail + 1, NULL);
}

uint64_t heap_block(struct ps_tx *tx, ps_container *c, unsigned pages)
{
    struct heap *h = &tx->heap;
    struct fill *f = fill_of(h, c, 0);
    struct lease *lease = lease_find(h, c, pages, pages, 0, 0);
    unsigned block = pages;
    if (!lease && !(lease = block_lease(h, c, f, 0, &block)))
        return 0;
    uint64_t page = lease_take(h, lease, block, block);
    heap_declare(c, page, block);
    arena_pages_format(c, 0, page, block, 0);
    return page;
}

int heap_blocks_add(struct ps_tx *tx, ps_container *c, uint64_t arena, uint64_t blocks)
{
    struct heap *h = &tx->heap;
    struct fill *f = fill_of(h, c, arena);
    uint64_t link = 0;
    fill_learn(f);
    for (uint64_t i = 0; i < blocks; i++) {
        unsigned block = block_of(f);
        struct lease *lease = lease_find(h, c, block, block, 0, 0);
        if (!lease && !(lease = block_lease(h, c, f, 0, &block)))
            return -errno;
        if (block != block_of(f))         /* there are single pages only */
            return -ENOSPC;
        uint64_t page = lease_take(h, lease, block, block);
        heap_declare(c, page, block);
        link = arena_spare_add(c, arena, page, block, link);
    }
    return 0;
}

void heap_fill_anew(struct ps_tx *tx, const ps_container *c, uint64_t arena, uint64_t page)
{
    struct fill *f = fill_of(&tx->heap, c, arena);
    f->asked = 0;
    f->block_pages = 0;
    f->current = page;
}

int heap_fills(struct ps_tx *tx, const ps_container *c, uint64_t arena)
{
    const struct fill *f = fill_of(&tx->heap, c, arena);
    if (!f->current)
        return 0;
    heap_page_touch(f->current);
    return slot_arena(slotted(f->current)) == arena;
}

int heap_pages_back(struct ps_tx *tx, ps_container *c, uint64_t page, uint32_t tail)
{
    struct heap *h = &tx->heap;
    struct fill *f = fill_of(h, c, 0);
    int whole = slot_is_empty(slotted(page)) && (tail || page != f->current) &&
                !slot_arena(slotted(page)) && items_whole(tx, c);
    if (!whole)
        room_note(h, c, page);
    if (!whole && tail == 0)
        return 0;
    if (!whole)
        return tx_op(tx, WIRE_PAGE_FREE, c, page + KD_PAGE_BYTES, tail, NULL);
    if (f->current == page)
        f->current = 0; /* a large object began there: perhaps no small one will ever come */
    return heap_page_free(tx, c, page, tail);
}
