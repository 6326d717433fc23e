/*
 * arena.c - arenas: allocations that share pages among themselves and with nothing else.
 *
 * An arena is known by the address of an object in its first page. Each of its pages carries this
 * address, and the next page's (slot.h): the pages are a list, which begins with the first one.
 *
 * An arena grows by blocks: one page, or more that begin at a multiple of their size, as the disk
 * moves them. All pages of a block are made at once and follow each other in the list. A view that
 * needs a block puts it behind the one that it filled before, so that nobody but a newcomer writes
 * the first page. Blocks that were added ahead of need are spare: they follow each other, too, and
 * the arena's object leads to the first. Where a container has no room for a block any more, pages
 * come alone. alloc.c fills the pages of an arena as it fills those of no arena; congeries.c is
 * about arenas as a whole.
 *
 * Invariants
 *   AR1  A page is of the arena that it names, from its first commit until it is given back; no
 *       object is in it that was not asked for in this arena.
 *   AR2  Each page of an arena is in its list once.
 *   AR3  The spare blocks are as many as the arena's object says, behind each other in the list,
 *       and empty. (What breaks it costs room, no more: each page is looked at before it is used.)
 */
#include "pstore_private.h"

#include <errno.h>

static struct slot_page_marked *marked(uint64_t page)
{
    return (struct slot_page_marked *)(uintptr_t)page;
}

static struct slot_arena_kept *kept_of(uint64_t arena)
{
    return (struct slot_arena_kept *)(uintptr_t)arena;
}

static uint64_t first_page(const ps_arena *arena)
{
    unsigned start;
    return slot_page_of(arena, &start);
}

int arena_is(ps_container *c, const ps_arena *arena)
{
    unsigned start;
    uint64_t page = slot_page_of(arena, &start);
    const struct slot_page *p = &marked(page)->page;
    return (uintptr_t)arena % SLOT_UNIT_BYTES == 0 && container_has(c, page, KD_PAGE_BYTES) &&
           slot_arena(p) == (uintptr_t)arena && slot_type(p, start) == SLOT_TYPE_ARENA;
}

/* ---- pages and blocks ---- */

uint64_t arena_block_next(uint64_t arena, unsigned block_pages, uint64_t page)
{
    if (block_pages <= 1 || !page || slot_arena(&marked(page)->page) != arena)
        return 0;
    uint64_t bytes = block_pages * KD_PAGE_BYTES, next = marked(page)->next;
    return next > page && next / bytes == page / bytes && next % KD_PAGE_BYTES == 0 &&
                   slot_arena(&marked(next)->page) == arena
               ? next
               : 0;
}

static uint64_t block_last(uint64_t arena, uint64_t page)
{
    unsigned pages, fill;
    arena_knobs((const ps_arena *)(uintptr_t)arena, &pages, &fill);
    for (uint64_t next; (next = arena_block_next(arena, pages, page));)
        page = next;
    return page;
}

uint64_t arena_link(ps_container *c, uint64_t arena, uint64_t current)
{
    if (!arena || !container_has(c, PAGE_OF(arena), KD_PAGE_BYTES))
        return 0;
    int filled = current && slot_arena(&marked(current)->page) == arena;
    return block_last(arena, filled ? current : PAGE_OF(arena));
}

void arena_pages_format(ps_container *c, uint64_t arena, uint64_t page, unsigned pages,
                        uint64_t link)
{
    uint64_t next = link ? marked(link)->next : 0;
    for (unsigned i = pages; i-- > 0;) {
        slot_format_marked(&marked(page + i * KD_PAGE_BYTES)->page, arena, next);
        next = page + i * KD_PAGE_BYTES;
    }
    if (!link)
        return;
    marked(link)->next = page;
    heap_declare(c, link, 1);
}

uint64_t arena_knobs(const ps_arena *arena, unsigned *block_pages, unsigned *fill)
{
    const struct slot_arena_kept *kept = kept_of((uintptr_t)arena);
    unsigned block = kept->block_pages;
    *fill = kept->fill && kept->fill < 100 ? kept->fill : 100;
    *block_pages = block && block <= BLOCK_PAGES_MAX && !(block & (block - 1)) ? block : 1;
    return kept->spare_blocks;
}

void arena_spare_forget(ps_container *c, const ps_arena *arena)
{
    struct slot_arena_kept *kept = kept_of((uintptr_t)arena);
    if (!kept->spare_blocks)
        return;
    heap_declare(c, first_page(arena), 1);
    kept->spare_blocks = 0;
    kept->spare = 0;
}

uint64_t arena_second(uint64_t arena)
{
    return marked(PAGE_OF(arena))->next;
}

/* spare_first finds the first page of the first spare block, looked at, not believed; 0: none. */
static uint64_t spare_first(ps_container *c, uint64_t arena)
{
    const struct slot_arena_kept *kept = kept_of(arena);
    uint64_t page = kept->spare_blocks ? kept->spare : 0;
    return page && page % KD_PAGE_BYTES == 0 && container_has(c, page, KD_PAGE_BYTES) &&
                   slot_arena(&marked(page)->page) == arena && slot_is_empty(&marked(page)->page)
               ? page
               : 0;
}

uint64_t arena_spare_take(ps_container *c, uint64_t arena)
{
    struct slot_arena_kept *kept = kept_of(arena);
    uint64_t page = spare_first(c, arena);
    if (kept->spare_blocks == 0)
        return 0;
    kept->spare_blocks = page ? kept->spare_blocks - 1 : 0;
    kept->spare = kept->spare_blocks ? marked(block_last(arena, page))->next : 0;
    heap_declare(c, PAGE_OF(arena), 1);
    return page;
}

uint64_t arena_spare_add(ps_container *c, uint64_t arena, uint64_t page, unsigned pages,
                         uint64_t link)
{
    struct slot_arena_kept *kept = kept_of(arena);
    uint64_t first = spare_first(c, arena);
    if (!link)
        link = block_last(arena, first ? first : PAGE_OF(arena));
    arena_pages_format(c, arena, page, pages, link);
    if (!first)
        kept->spare = page;
    kept->spare_blocks = first ? kept->spare_blocks + 1 : 1;
    heap_declare(c, PAGE_OF(arena), 1);
    return page + (pages - 1) * KD_PAGE_BYTES;
}

uint64_t arena_page_after(ps_container *c, const ps_arena *arena, uint64_t page, uint64_t *tail)
{
    uint64_t next = page ? marked(page)->next : first_page(arena);
    if (next == 0)
        return 0;
    if (next % KD_PAGE_BYTES || !container_has(c, next, KD_PAGE_BYTES) ||
        slot_arena(&marked(next)->page) != (uintptr_t)arena)
        return 1;
    *tail = marked(next)->page.tail;
    return container_has(c, next, (*tail + 1) * KD_PAGE_BYTES) ? next : 1;
}

/* ---- arenas ---- */

ps_arena *arena_make(ps_container *c, unsigned block_pages, unsigned fill)
{
    struct ps_tx *tx = tx_writing(c);
    GUARD_OPENED(c);
    int result = tx ? items_lock_whole(tx, c) : 0;
    errno = result ? -result : errno;
    uint64_t page = tx && !result ? heap_block(tx, c, block_pages) : 0;
    if (!page)
        return NULL;
    uint64_t second = arena_block_next(0, block_pages, page);
    int start = slot_alloc(&marked(page)->page, 1, SLOT_TYPE_ARENA);
    uint64_t arena = page + (unsigned)start * SLOT_UNIT_BYTES;
    for (uint64_t next = page; next; next = marked(next)->next)
        marked(next)->arena = arena;
    *kept_of(arena) = (struct slot_arena_kept){.block_pages = (uint8_t)block_pages,
                                               .fill = (uint8_t)fill};
    if (second)
        heap_fill_anew(tx, c, arena, second);
    return (ps_arena *)(uintptr_t)arena;
}

ps_arena *ps_arena_make(ps_container *c)
{
    return error_told_by(ERROR_ALLOC, arena_make(c, 1, 0));
}

void *ps_alloc_in(ps_arena *arena, size_t bytes, const void *near, const char *type)
{
    ps_container *c = ps_container_of(arena);
    struct ps_tx *tx = tx_writing(c);
    GUARD_OPENED(c);
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
    GUARD_OPENED(c);
    if (!tx || !arena_is(c, arena))
        return tx ? -EINVAL : -errno;
    int result = items_lock_whole(tx, c);
    if (result == 0)
        result = directory_forget(c, arena);
    uint64_t tail, page = arena_page_after(c, arena, 0, &tail);
    while (page > 1 && result == 0) {
        uint64_t here = page, pages = tail;
        page = arena_page_after(c, arena, page, &tail);
        result = heap_page_free(tx, c, here, pages);
    }
    return page == 1 ? -EUCLEAN : result;
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
