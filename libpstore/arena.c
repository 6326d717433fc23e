/*
 * arena.c - arenas: allocations that share pages among themselves and with nothing else.
 *
 * An arena is known by the address of an object in its first page. Each of its pages carries this
 * address, and the next page's (slot.h): the pages are a list, which begins with the first one. A
 * view that needs a page puts it behind the one that it filled before, so that nobody but a
 * newcomer writes the first page. alloc.c fills the pages of an arena as it fills those of no
 * arena.
 *
 * Invariants
 *   AR1  A page is of the arena that it names, from its first commit until the arena is freed; no
 *       object is in it that was not asked for in this arena.
 *   AR2  Each page of an arena is in its list once.
 */
#include "pstore_private.h"

#include <errno.h>

static struct slot_page_marked *marked(uint64_t page)
{
    return (struct slot_page_marked *)(uintptr_t)page;
}

/* Is it, or was it, committed or not, an arena of this container? */
static int arena_is(ps_container *c, const ps_arena *arena)
{
    unsigned start;
    uint64_t page = slot_page_of(arena, &start);
    const struct slot_page *p = &marked(page)->page;
    return (uintptr_t)arena % SLOT_UNIT_BYTES == 0 && container_has(c, page, KD_PAGE_BYTES) &&
           slot_arena(p) == (uintptr_t)arena && slot_type(p, start) == SLOT_TYPE_ARENA;
}

static ps_arena *arena_make(ps_container *c)
{
    struct ps_tx *tx = tx_writing(c);
    uint64_t page = tx ? heap_page(tx, c) : 0;
    if (!page)
        return NULL;
    int start = slot_alloc(&marked(page)->page, 1, SLOT_TYPE_ARENA);
    uint64_t arena = page + (unsigned)start * SLOT_UNIT_BYTES;
    marked(page)->arena = arena;
    return (ps_arena *)(uintptr_t)arena;
}

ps_arena *ps_arena_make(ps_container *c)
{
    return error_told_by(ERROR_ALLOC, arena_make(c));
}

void *ps_alloc_in(ps_arena *arena, size_t bytes, const void *near, const char *type)
{
    ps_container *c = ps_container_of(arena);
    struct ps_tx *tx = tx_writing(c);
    uint32_t number = type ? type_number(type) : 0;
    void *object = NULL;
    if (type && !number)
        return NULL;
    if (tx && (heap_fills(tx, c, (uintptr_t)arena) || arena_is(c, arena)))
        object = heap_alloc(tx, c, bytes, near, number, (uintptr_t)arena);
    else if (tx)
        errno = EINVAL;
    if (object && lint_on && type)
        lint_note(object, bytes, type);
    return error_told_by(ERROR_ALLOC, object);
}

static int arena_free(ps_arena *arena)
{
    ps_container *c = ps_container_of(arena);
    struct ps_tx *tx = tx_writing(c);
    if (!tx || !arena_is(c, arena))
        return tx ? -EINVAL : -errno;
    unsigned start;
    int result = 0;
    for (uint64_t page = slot_page_of(arena, &start), next; page && result == 0; page = next) {
        uint64_t tail = container_has(c, page, KD_PAGE_BYTES) ? marked(page)->page.tail : 0;
        if (!container_has(c, page, (tail + 1) * KD_PAGE_BYTES) ||
            slot_arena(&marked(page)->page) != (uintptr_t)arena)
            return -EUCLEAN;
        next = marked(page)->next;
        result = heap_page_free(tx, c, page, tail);
    }
    return result;
}

int ps_arena_free(ps_arena *arena)
{
    return error_told(ERROR_FREE, arena_free(arena));
}

ps_arena *ps_arena_of(const void *p)
{
    unsigned start;
    ps_container *c = tx_active() ? ps_container_of(p) : NULL;
    uint64_t page = slot_page_of(p, &start);
    if (!c || !container_has(c, page, KD_PAGE_BYTES) || slot_units(&marked(page)->page, start) == 0)
        return NULL;
    return (ps_arena *)(uintptr_t)slot_arena(&marked(page)->page);
}
