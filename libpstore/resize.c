/*
 * resize.c - objects that are there: freed, made larger or smaller, moved, measured.
 *
 * Not here  the pages that they leave or take (alloc.c), the format of a page (slot.c).
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

uint64_t slot_page_of(const void *p, unsigned *start)
{
    uint64_t address = (uintptr_t)p;
    *start = (unsigned)(address % KD_PAGE_BYTES) / SLOT_UNIT_BYTES;
    if (*start != 0)
        return PAGE_OF(address);
    *start = SLOT_UNITS;
    return address - KD_PAGE_BYTES;
}

/* free_lock, in item mode: X on the object and ADD on its page, so that those who free there do not
 * wait for each other; a large object: the container. */
static int free_lock(struct ps_tx *tx, ps_container *c, uint64_t page, unsigned start)
{
    uint64_t at = page + start * SLOT_UNIT_BYTES;
    if (!c->items)
        return heap_page_touch(page), 0;
    if (slot_units(slotted(page), start) > SLOT_SMALL_MAX)
        return items_lock_whole(tx, c);
    int result = items_lock(tx, c, at, PS_X);
    return result ? result : items_lock(tx, c, page, PS_ADD);
}

static int object_free(void *p)
{
    unsigned start;
    uint32_t tail;
    ps_container *c = ps_container_of(p);
    struct ps_tx *tx = tx_writing(c);
    GUARD_OPENED(c);
    uint64_t page = slot_page_of(p, &start);
    if (!tx)
        return -errno;
    if ((uintptr_t)p % SLOT_UNIT_BYTES != 0 || !container_has(c, page, KD_PAGE_BYTES))
        return -EINVAL;
    if (names_hold(c, (uintptr_t)p))
        return -EBUSY;
    int result = tx->now->bytes > 0 ? tx_ops_of(tx, c->store) : 0;
    if (result == 0)
        result = free_lock(tx, c, page, start);
    if (result != 0)
        return result;
    uint64_t pages = slot_units(slotted(page), start) / SLOT_UNITS;
    if (!container_has(c, page, (pages + 1) * KD_PAGE_BYTES))
        return -EUCLEAN;                  /* a spoilt page: its run would leave the segment */
    if (lint_on)
        lint_freed(tx, p, slot_units(slotted(page), start) * SLOT_UNIT_BYTES);
    tail = 0;
    result = items_whole(tx, c) ? slot_free(slotted(page), start, &tail)
                                : slot_free_beside(slotted(page), start);
    items_store(tx, c, page, slot_area_bytes(slotted(page)));
    if (!c->items)
        heap_declare(c, page, 1);
    return result == 0 ? heap_pages_back(tx, c, page, tail) : result;
}

/* ---- another size ---- */

/* run_resize has a large object keep its first pages: fewer, or more if those behind are free. What
 * it has more than `units` is less than a page. 0, or -ENOSPC: not where it is. */
static int run_resize(struct ps_tx *tx, ps_container *c, uint64_t page, unsigned start,
                      uint64_t units)
{
    struct slot_page *head = slotted(page);
    uint64_t old = head->tail, tail = (start + units + SLOT_UNITS - 1) / SLOT_UNITS - 1;
    uint64_t end = page + (old + 1) * KD_PAGE_BYTES, more = tail > old ? tail - old : 0;
    int result = 0;
    if (units <= SLOT_SMALL_MAX || tail > UINT32_MAX)
        return -ENOSPC;
    if (more) {
        heap_meet(tx, c);
        struct lease *lease = lease_find(&tx->heap, c, more, 1, end, 0);
        int fresh = !lease;
        if (!lease && (result = lease_more(&tx->heap, c, more, end, &lease)) != 0)
            return result;
        uint64_t bytes = more * KD_PAGE_BYTES;
        if (lease->next != end || lease->end - end < bytes ||
            !container_has(c, page, end - page + bytes))
            return -ENOSPC;
        if ((result = tx_op(tx, WIRE_PAGE_CLAIM, c, end, more, NULL)) != 0)
            return result;
        lease_take(&tx->heap, lease, more, 1);
        if (!fresh)
            heap_pages_zero(end, more);
        heap_declare(c, end, more);
    } else if (tail < old) {
        result = tx_op(tx, WIRE_PAGE_FREE, c, page + (tail + 1) * KD_PAGE_BYTES, old - tail, NULL);
    }
    if (result == 0)
        head->tail = (uint32_t)tail;
    return result;
}

/* object_resize resizes an object in its place: 0, -ENOSPC: there is no room. */
static int object_resize(struct ps_tx *tx, ps_container *c, uint64_t page, unsigned start,
                         uint64_t old, uint64_t units)
{
    int locked = old > SLOT_SMALL_MAX ? items_lock_whole(tx, c)
                                      : items_lock(tx, c, page, PS_X | PS_NOW);
    if (locked != 0)
        return locked == -EBUSY ? -ENOSPC : locked;
    heap_page_touch(page);
    if (old <= SLOT_SMALL_MAX && !items_whole(tx, c)) {
        items_store(tx, c, page, slot_area_bytes(slotted(page)));
        items_store(tx, c, page + start * SLOT_UNIT_BYTES, units * SLOT_UNIT_BYTES);
    } else {
        heap_declare(c, page, 1);
    }
    if (old > SLOT_SMALL_MAX)
        return run_resize(tx, c, page, start, units);
    if (old == units)
        return 0;
    int result =
        units <= SLOT_SMALL_MAX ? slot_resize(slotted(page), start, (unsigned)units) : -ENOSPC;
    if (result == 0) {
        heap_meet(tx, c);
        heap_room_note(tx, c, page);
    }
    return result;
}

/* object_move copies an object, of which `kept` bytes stay, to a new one. NULL: errno. */
static void *object_move(struct ps_tx *tx, ps_container *c, void *p, size_t kept, size_t bytes)
{
    unsigned start;
    const struct slot_page *page = slotted(slot_page_of(p, &start));
    uint64_t arena = slot_arena(page);
    if (arena && !arena_is(c, (ps_arena *)(uintptr_t)arena))
        arena = 0;                        /* a wild store was there */
    void *moved = heap_alloc(tx, c, bytes, p, slot_type(page, start), arena);
    if (!moved)
        return NULL;
    memcpy(moved, p, kept < bytes ? kept : bytes);
    int result = ps_free(p);
    if (result == 0)
        return moved;
    ps_free(moved);
    errno = -result;
    return NULL;
}

void *ps_realloc(void *p, size_t bytes)
{
    unsigned start;
    size_t old = ps_size(p);
    ps_container *c = ps_container_of(p);
    struct ps_tx *tx = old ? tx_writing(c) : NULL;
    GUARD_OPENED(c);
    uint64_t page = slot_page_of(p, &start), units = units_of(bytes);
    if (tx && (bytes == 0 || bytes > OBJECT_BYTES_MAX)) {
        errno = bytes ? ENOSPC : EINVAL;
        tx = NULL;
    }
    if (!tx)
        return error_told_by(bytes > OBJECT_BYTES_MAX ? ERROR_LARGE : ERROR_FREE, NULL);
    int result = names_hold(c, (uintptr_t)p) ? -EBUSY
                 : object_resize(tx, c, page, start, old / SLOT_UNIT_BYTES, units);
    void *object = result == 0 ? p : NULL;
    if (result == -ENOSPC)
        object = object_move(tx, c, p, old, bytes);
    else
        errno = -result;
    if (object && lint_on)
        lint_moved(p, object, bytes);
    return error_told_by(errno == EBUSY ? ERROR_FREE : ERROR_ALLOC, object);
}

int ps_free(void *p)
{
    return p ? error_told(ERROR_FREE, object_free(p)) : 0;
}

size_t ps_size(const void *p)
{
    unsigned start;
    uint64_t page = slot_page_of(p, &start);
    ps_container *c = ps_container_of(p);
    uint64_t units = 0;
    if (!tx_active())
        errno = EPERM;
    else if (!c || (uintptr_t)p % SLOT_UNIT_BYTES != 0 || !container_has(c, page, KD_PAGE_BYTES) ||
             (units = slot_units(slotted(page), start)) == 0)
        errno = EINVAL;
    return units * SLOT_UNIT_BYTES;
}
