/*
 * congeries.c - arenas as a whole: grown, locked, counted, gone through, given back.
 *
 * All of it goes along the list of the arena's pages (arena.c); nothing is counted while objects
 * are allocated, for that would be a word that everybody writes.
 */
#include "congeries.h"
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

static struct slot_page *page_at(uint64_t page)
{
    return (struct slot_page *)(uintptr_t)page;
}

/* container_of finds the congeries' container; NULL: *result says why. */
static ps_container *container_of(const ps_congeries *congeries, int writing, int *result)
{
    ps_container *c = ps_container_of(congeries);
    struct ps_tx *tx = writing && c ? tx_writing(c) : tx_active();
    *result = !tx ? -EPERM : !c || !arena_is(c, congeries) ? -EINVAL : 0;
    if (!tx && tx_active())
        *result = -errno;
    if (*result == 0 && writing)
        *result = items_lock_whole(tx, c);
    return *result == 0 ? c : NULL;
}

static unsigned block_pages_of(const ps_congeries *congeries)
{
    unsigned pages, fill;
    arena_knobs(congeries, &pages, &fill);
    return pages;
}

/* ---- grow, release ---- */

int ps_congeries_grow(ps_congeries *congeries, uint64_t blocks)
{
    int result;
    ps_container *c = container_of(congeries, 1, &result);
    GUARD_OPENED(c);
    if (c)
        result = heap_blocks_add(tx_active(), c, (uintptr_t)congeries, blocks);
    return error_told(ERROR_ALLOC, result);
}

/* A group is the pages of a list that lie in one block, one behind the other: [first, last]. */
struct group {
    uint64_t first, last, next;
    int empty;
};

/* group_at finds the group that begins with this page; 0 or -EUCLEAN. */
static int group_at(ps_container *c, const ps_congeries *congeries, uint64_t page, struct group *g)
{
    uint64_t bytes = block_pages_of(congeries) * KD_PAGE_BYTES, tail;
    *g = (struct group){.first = page, .last = page, .empty = 1};
    for (;;) {
        g->last = page;
        g->empty &= slot_is_empty(page_at(page)) && page_at(page)->tail == 0;
        g->next = page = arena_page_after(c, congeries, page, &tail);
        if (page == 1)
            return -EUCLEAN;
        if (page <= g->last || page / bytes != g->first / bytes)
            return 0;
    }
}

/* group_free gives a group's pages back; the list goes on behind `link` with what follows them. */
static int group_free(struct ps_tx *tx, ps_container *c, const ps_congeries *congeries,
                      const struct group *g, uint64_t link)
{
    int result = 0;
    uint64_t page = g->first, tail;
    for (uint64_t after; page && page != g->next && result == 0; page = after) {
        after = arena_page_after(c, congeries, page, &tail);
        result = heap_page_free(tx, c, page, 0);
    }
    ((struct slot_page_marked *)(uintptr_t)link)->next = g->next;
    heap_declare(c, link, 1);
    return result;
}

static int64_t release(ps_container *c, ps_congeries *congeries)
{
    struct ps_tx *tx = tx_active();
    struct group g;
    uint64_t tail, given = 0, link = arena_page_after(c, congeries, 0, &tail);
    int result = group_at(c, congeries, link, &g);
    arena_spare_forget(c, congeries);
    heap_fill_anew(tx, c, (uintptr_t)congeries, 0);
    for (link = g.last; result == 0 && g.next;) {
        result = group_at(c, congeries, g.next, &g);
        if (result == 0 && g.empty) {
            given += (g.last - g.first) / KD_PAGE_BYTES + 1;
            result = group_free(tx, c, congeries, &g, link);
        } else if (result == 0) {
            for (uint64_t page = g.first; page != g.next;
                 page = arena_page_after(c, congeries, page, &tail))
                heap_room_note(tx, c, page);
            link = g.last;
        }
    }
    return result == 0 ? (int64_t)given : result;
}

int64_t ps_congeries_release(ps_congeries *congeries)
{
    int result;
    ps_container *c = container_of(congeries, 1, &result);
    GUARD_OPENED(c);
    int64_t given = c ? release(c, congeries) : result;
    error_told(ERROR_FREE, given < 0 ? (int)given : 0);
    return given;
}

/* ---- lock, advise ---- */

static void page_touch(uint64_t page, int write)
{
    if (write)
        __asm__ volatile("orb $0, (%0)" ::"r"(page) : "memory", "cc");
    else
        (void)*(volatile char *)(uintptr_t)page;
}

/* lock_all locks each page before its link is followed: none can be added behind it any more. To
 * write it is touched before it is read: two who read first would be a deadlock. */
static int lock_all(ps_container *c, const ps_congeries *congeries, int write)
{
    unsigned start;
    for (uint64_t page = slot_page_of(congeries, &start), next; page; page = next) {
        if (page % KD_PAGE_BYTES || !container_has(c, page, KD_PAGE_BYTES))
            return -EUCLEAN;
        page_touch(page, write);
        uint64_t tail = page_at(page)->tail;
        if (slot_arena(page_at(page)) != (uintptr_t)congeries ||
            !container_has(c, page, (tail + 1) * KD_PAGE_BYTES))
            return -EUCLEAN;
        for (uint64_t i = 1; i <= tail; i++)
            page_touch(page + i * KD_PAGE_BYTES, write);
        next = ((struct slot_page_marked *)(void *)page_at(page))->next;
    }
    return 0;
}

int ps_congeries_lock(ps_congeries *congeries, int how)
{
    int result;
    ps_container *c = container_of(congeries, how == 0, &result);
    GUARD_OPENED(c);
    if (c)
        result = how & ~PS_LOCK_SHARED ? -EINVAL : lock_all(c, congeries, how == 0);
    return error_told(ERROR_OBJECT, result);
}

int ps_congeries_advise(ps_congeries *congeries, int advice)
{
    int result;
    ps_container *c = container_of(congeries, 0, &result);
    uint64_t bytes = c ? block_pages_of(congeries) * KD_PAGE_BYTES : 1, last = 0, tail = 0;
    uint64_t page = c ? arena_page_after(c, congeries, 0, &tail) : 0;
    if (c && advice != PS_WILL_NEED && advice != PS_DONT_NEED)
        result = -EINVAL;
    for (; page > 1 && result == 0; page = arena_page_after(c, congeries, page, &tail)) {
        uint64_t block = page / bytes * bytes;  /* before the rest of it is read, page by page */
        if (block != last && container_has(c, block, bytes))
            result = ps_advise((void *)(uintptr_t)block, bytes, advice);
        if (tail && result == 0)
            result = ps_advise((void *)(uintptr_t)page, (tail + 1) * KD_PAGE_BYTES, advice);
        last = block;
    }
    return error_told(ERROR_OTHER, page == 1 ? -EUCLEAN : result);
}

/* ---- each, count ---- */

static void *next_in(ps_container *c, const ps_congeries *congeries, uint32_t type,
                     const void *previous)
{
    unsigned start = 0;
    uint64_t tail, page = previous ? slot_page_of(previous, &start) : 0;
    if (page && (!container_has(c, page, KD_PAGE_BYTES) ||
                 slot_arena(page_at(page)) != (uintptr_t)congeries)) {
        errno = EINVAL;
        return NULL;
    }
    errno = 0;
    for (;; start = 0) {
        while (page && (start = slot_next(page_at(page), start, type)))
            if (slot_type(page_at(page), start) != SLOT_TYPE_ARENA)
                return (void *)(uintptr_t)(page + start * SLOT_UNIT_BYTES);
        page = arena_page_after(c, congeries, page, &tail);
        if (page == 1)
            errno = EUCLEAN;
        if (page <= 1)
            return NULL;
    }
}

void *ps_congeries_each(ps_congeries *congeries, const char *type, const void *previous)
{
    int result;
    uint32_t number = type ? type_number(type) : 0;
    ps_container *c = container_of(congeries, 0, &result);
    void *found = c && (!type || number) ? next_in(c, congeries, number, previous) : NULL;
    if (!c)
        errno = -result;
    error_told(ERROR_OBJECT, found ? 0 : -errno);
    return found;
}

static void page_count(uint64_t page, struct ps_congeries_info *out)
{
    for (unsigned start = 0; (start = slot_next(page_at(page), start, 0));) {
        if (slot_type(page_at(page), start) == SLOT_TYPE_ARENA)
            continue;
        out->objects++;
        out->bytes += slot_units(page_at(page), start) * SLOT_UNIT_BYTES;
    }
    out->bytes_free += page_at(page)->free * SLOT_UNIT_BYTES;
}

int ps_congeries_count(ps_congeries *congeries, struct ps_congeries_info *out)
{
    int result;
    ps_container *c = container_of(congeries, 0, &result);
    if (!c)
        return error_told(ERROR_OBJECT, result);
    *out = (struct ps_congeries_info){.congeries = congeries};
    strncpy(out->name, directory_name_of(c, congeries), sizeof out->name - 1);
    out->spare_blocks = arena_knobs(congeries, &out->block_pages, &out->fill);
    uint64_t tail, bytes = out->block_pages * KD_PAGE_BYTES, last = 0, page = 0;
    while ((page = arena_page_after(c, congeries, page, &tail)) > 1) {
        out->blocks += last == 0 || page / bytes != last / bytes;
        out->pages += tail + 1;
        page_count(page, out);
        last = page;
    }
    return error_told(ERROR_OBJECT, page == 1 ? -EUCLEAN : 0);
}

/* ---- what was touched ---- */

struct touching {
    struct ps_touched *out;
    int all, count;
    uint64_t run_end, block;            /* pages before run_end are of the entry `last` */
    struct ps_touched *last;
};

static struct ps_touched *entry_of(struct touching *t, ps_container *c, ps_arena *arena)
{
    for (int i = 0; i < t->all && i < t->count; i++)
        if (t->out[i].container == c && t->out[i].congeries == arena)
            return &t->out[i];
    if (t->all++ >= t->count)
        return NULL;
    t->out[t->all - 1] = (struct ps_touched){c, arena, 0, 0};
    return &t->out[t->all - 1];
}

static void page_touched(struct touching *t, ps_container *c, uint64_t page)
{
    const struct slot_page *p = page_at(page);
    if (page >= t->run_end) {
        ps_arena *arena = (ps_arena *)(uintptr_t)slot_arena(p);
        if (arena && !arena_is(c, arena))
            arena = NULL;
        t->last = entry_of(t, c, arena);
        t->run_end = page + (slot_is_page(p) ? p->tail + 1ull : 1) * KD_PAGE_BYTES;
        uint64_t bytes = arena ? block_pages_of(arena) * KD_PAGE_BYTES : EXTENT_BYTES;
        if (t->last)
            t->last->blocks += page / bytes != t->block;
        t->block = page / bytes;
    }
    if (t->last)
        t->last->pages++;
}

int ps_touched(struct ps_touched *out, int count)
{
    struct touching t = {.out = out, .count = count, .block = UINT64_MAX};
    struct kd_changes used = {0};
    if (!tx_active() || count < 0 || (count > 0 && !out))
        return tx_active() ? -EINVAL : -EPERM;
    while (ps_kernel(KD_TXN_CHANGES, (long)used.address, (long)&used,
                     CHANGES_READ | CHANGES_WHERE) == 0) {
        ps_container *c = ps_container_of((void *)(uintptr_t)used.address);
        if (c)
            page_touched(&t, c, used.address);
        used.address += KD_PAGE_BYTES;
    }
    return t.all;
}
