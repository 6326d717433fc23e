/*
 * each.c - ps_each: all objects of a container, one after the other.
 *
 * First come the pages that commits have written or claimed, which the store manager tells run by
 * run (STORE_NEXT), in the order of the container's segments; then those that this transaction took
 * for objects of its own. The last object says where to go on, so there is nothing to begin or to
 * end, and it may have been freed meanwhile.
 */
#include "pstore_private.h"

#include <errno.h>

static const struct slot_page *page_at(uint64_t page)
{
    return (const struct slot_page *)(uintptr_t)page;
}

/* held_after finds the first held page behind `page` (0: of all); 0: none; 1: errno. */
static uint64_t held_after(struct ps_tx *tx, ps_container *c, uint64_t page)
{
    if (tx->held.container == c && page >= tx->held.first && page + KD_PAGE_BYTES < tx->held.end)
        return page + KD_PAGE_BYTES;
    for (;;) {
        uint64_t word[STORE_REQUEST_WORDS] = {c->id, page};
        int result = store_request(c->store, STORE_NEXT, word, NULL, 0, NULL, NULL);
        if (result == 0 && word[0] && !container_has(c, word[0], word[1] * KD_PAGE_BYTES))
            result = -EPROTO;
        if (result != 0) {
            errno = -result;
            return 1;
        }
        if (word[0]) {
            tx->held.container = c;
            tx->held.first = word[0];
            tx->held.end = word[0] + word[1] * KD_PAGE_BYTES;
            return word[0];
        }
        if (!word[2])
            return 0;
        page = word[2];
    }
}

/* last_page passes over the pages of the large object that begins there. */
static uint64_t last_page(ps_container *c, uint64_t page)
{
    uint64_t tail = slot_is_page(page_at(page)) ? page_at(page)->tail : 0;
    return container_has(c, page, (tail + 1) * KD_PAGE_BYTES) ? page + tail * KD_PAGE_BYTES : page;
}

/* page_after is held_after, but behind the held pages come the transaction's own. */
static uint64_t page_after(struct ps_tx *tx, ps_container *c, uint64_t page)
{
    uint64_t last = page ? last_page(c, page) : 0;
    if (!page || !heap_page_is_new(&tx->heap, c, page)) {
        uint64_t held = held_after(tx, c, last);
        if (held)
            return held;
        last = 0;
    }
    return heap_page_after(&tx->heap, c, last);
}

static void *each(ps_container *c, uint32_t type, const void *previous)
{
    struct ps_tx *tx = tx_active();
    unsigned start = 0;
    uint64_t page = previous ? slot_page_of(previous, &start) : 0;
    int snapshot = tx && tx->options.isolation == PS_SNAPSHOT;
    if (!tx || snapshot || !container_is_open(c) ||
        (previous && !container_has(c, page, KD_PAGE_BYTES))) {
        errno = tx ? EINVAL : EPERM;
        return NULL;
    }
    errno = 0;
    for (;; start = 0) {
        int result = page ? items_lock(tx, c, page, PS_S) : 0;
        if (result != 0) {
            errno = -result;
            return NULL;
        }
        while (page && slot_is_page(page_at(page)) &&
               (start = slot_next(page_at(page), start, type)))
            if (slot_type(page_at(page), start) != SLOT_TYPE_ARENA)
                return (void *)(uintptr_t)(page + start * SLOT_UNIT_BYTES);
        page = page_after(tx, c, page);
        if (page <= 1)
            return NULL;
    }
}

void *ps_each(ps_container *c, const char *type, const void *previous)
{
    uint32_t number = type ? type_number(type) : 0;
    void *found = !type || number ? each(c, number, previous) : NULL;
    error_told(ERROR_OBJECT, found ? 0 : -errno);
    return found;
}
