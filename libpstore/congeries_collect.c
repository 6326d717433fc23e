/*
 * congeries_collect.c - ps_congeries_collect: objects of a congeries that nothing leads to are
 * freed.
 *
 * A congeries is collected by itself: its objects are found along its list, marked from the roots
 * over pointers that lie in it, and freed where there is no mark. Pointers are not known as such:
 * any 8 bytes count that hold an address inside an object, at whatever byte they begin.
 *
 * The tables are volatile and lie in the transaction's scratch memory, for a fault may end it at
 * any load (TX2).
 */
#include "congeries.h"
#include "pstore_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct known_page {
    uint64_t page;
    uint64_t tail;
    uint64_t mark[SLOT_UNITS / 64];     /* objects that are reached, by their first unit less 1 */
};

struct collection {
    ps_container *c;
    const ps_congeries *congeries;
    struct known_page *page;
    uint64_t pages, objects;
    uint64_t *todo, todo_count;         /* reached, and not looked into yet: addresses */
};

static struct slot_page *page_at(uint64_t page)
{
    return (struct slot_page *)(uintptr_t)page;
}

static int by_page(const void *a, const void *b)
{
    uint64_t x = ((const struct known_page *)a)->page, y = ((const struct known_page *)b)->page;
    return x < y ? -1 : x > y;
}

/* pages_know counts pages and objects; the pages go to the table, if any. 0 or -EUCLEAN, also for a
 * list that comes back to a page: it is compared with one twice as far each time. */
static int pages_know(struct collection *g)
{
    uint64_t page = 0, seen = 0, tail;
    g->pages = g->objects = 0;
    while ((page = arena_page_after(g->c, g->congeries, page, &tail)) > 1) {
        if (page == seen)
            return -EUCLEAN;
        if ((g->pages & (g->pages - 1)) == 0)
            seen = page;
        if (g->page)
            g->page[g->pages] = (struct known_page){.page = page, .tail = tail};
        g->pages++;
        for (unsigned start = 0; (start = slot_next(page_at(page), start, 0));)
            g->objects++;
    }
    return page == 1 ? -EUCLEAN : 0;
}

static int tables_make(struct ps_tx *tx, struct collection *g)
{
    int result = pages_know(g);
    size_t pages = g->pages * sizeof *g->page;
    if (result == 0)
        result = tx_memory(&tx->scratch, &tx->scratch_size, pages + g->objects * 8, 0);
    if (result != 0)
        return result;
    g->page = (struct known_page *)(void *)tx->scratch;
    g->todo = (uint64_t *)(void *)(tx->scratch + pages);
    result = pages_know(g);
    qsort(g->page, g->pages, sizeof *g->page, by_page);
    return result;
}

/* page_before finds the last page of the table that begins at the address or before it. */
static struct known_page *page_before(const struct collection *g, uint64_t address)
{
    uint64_t low = 0, high = g->pages;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (g->page[middle].page <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &g->page[low - 1] : NULL;
}

/* run_start finds the first unit of the object in this page that goes on into others; 0: none. */
static unsigned run_start(const struct slot_page *page)
{
    for (unsigned start = 0; (start = slot_next(page, start, 0));)
        if (start == SLOT_UNITS || slot_units(page, start) > SLOT_UNITS - start)
            return start;
    return 0;
}

/* reach marks the object that the address lies in, if it is of the congeries. */
static void reach(struct collection *g, uint64_t address)
{
    struct known_page *k = page_before(g, address);
    if (!k || address - k->page >= (k->tail + 1) * KD_PAGE_BYTES)
        return;
    int here = address - k->page < KD_PAGE_BYTES;
    unsigned unit = (unsigned)(address % KD_PAGE_BYTES) / SLOT_UNIT_BYTES;
    unsigned start = here ? slot_object_at(page_at(k->page), unit) : run_start(page_at(k->page));
    if (start == 0 || k->mark[(start - 1) / 64] >> ((start - 1) % 64) & 1)
        return;
    k->mark[(start - 1) / 64] |= 1ull << ((start - 1) % 64);
    g->todo[g->todo_count++] = k->page + start * SLOT_UNIT_BYTES;
}

/* object_scan reaches what the object's bytes may lead to. */
static void object_scan(struct collection *g, uint64_t object)
{
    unsigned start;
    uint64_t page = slot_page_of((void *)(uintptr_t)object, &start), word;
    uint64_t bytes = slot_units(page_at(page), start) * SLOT_UNIT_BYTES;
    if (!container_has(g->c, object, bytes))
        return;
    for (uint64_t at = 0; at + sizeof word <= bytes; at++) {
        memcpy(&word, (const char *)(uintptr_t)object + at, sizeof word);
        if (word >= g->page[0].page)
            reach(g, word);
    }
}

static void all_scan(struct collection *g)
{
    while (g->todo_count)
        object_scan(g, g->todo[--g->todo_count]);
}

/* others_scan scans all in the container that is not of the congeries. 0 or -errno. */
static int others_scan(struct collection *g)
{
    for (void *object = NULL; (object = ps_each(g->c, NULL, object));) {
        if (ps_arena_of(object) != g->congeries)
            object_scan(g, (uintptr_t)object);
        all_scan(g);
    }
    return -errno;
}

/* unmarked_free frees objects without a mark: 0, or the error of ps_free. */
static int unmarked_free(const struct collection *g, int64_t *freed)
{
    int result = 0;
    for (uint64_t i = 0; i < g->pages; i++) {
        const struct known_page *k = &g->page[i];
        for (unsigned start = 0; result == 0 && (start = slot_next(page_at(k->page), start, 0));) {
            if (k->mark[(start - 1) / 64] >> ((start - 1) % 64) & 1 ||
                slot_type(page_at(k->page), start) == SLOT_TYPE_ARENA)
                continue;
            result = ps_free((void *)(uintptr_t)(k->page + start * SLOT_UNIT_BYTES));
            *freed += result == 0;
        }
    }
    return result;
}

static int64_t collect(struct collection *g, void *const *roots, size_t count)
{
    struct ps_tx *tx = tx_active();
    int64_t freed = 0;
    int result = tables_make(tx, g);
    for (size_t i = 0; result == 0 && roots && i < count; i++)
        if (ps_size(roots[i]) == 0)
            result = -errno;
        else if (ps_arena_of(roots[i]) == g->congeries)
            reach(g, (uintptr_t)roots[i]);
        else
            object_scan(g, (uintptr_t)roots[i]);
    if (result == 0 && !roots)
        result = others_scan(g);
    if (result != 0)
        return result;
    all_scan(g);
    result = unmarked_free(g, &freed);
    heap_fill_anew(tx, g->c, (uintptr_t)g->congeries, 0);
    return result == 0 ? freed : result;
}

int64_t ps_congeries_collect(ps_congeries *congeries, void *const *roots, size_t count)
{
    struct collection g = {.c = ps_container_of(congeries), .congeries = congeries};
    const struct ps_tx *tx = tx_writing(g.c);
    int64_t result = !tx ? -errno : !arena_is(g.c, congeries) ? -EINVAL : collect(&g, roots, count);
    error_told(ERROR_FREE, result < 0 ? (int)result : 0);
    return result;
}
