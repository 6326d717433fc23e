/*
 * lease.c - runs of pages that the store manager leased to this view, for new objects.
 *
 * A lease is used from its first page on; what an abort puts back is in its `mark` (AL1, alloc.c).
 * Blocks of several pages begin at multiples of their size (arena.c); what lies before them in the
 * lease stays for others.
 */
#include "pstore_private.h"

#include <string.h>

/* TX2: what was stored to the heap so far is in memory before the next instruction can fault. */
static void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

void heap_release(struct heap *h)
{
    for (unsigned i = 0; i < h->lease_count; i++) {
        struct lease *l = &h->lease[i];
        if (l->generation == l->container->generation && l->mark < l->end)
            container_unlease(l->container, l->mark, (l->end - l->mark) / KD_PAGE_BYTES);
    }
    h->lease_count = 0;
}

static int lease_is_of(const struct lease *l, const ps_container *c)
{
    return l->container == c && l->generation == c->generation;
}

/* Makes room for one more lease: used-up and outlived ones first, then the oldest goes back. (What
 * this transaction took from it stays leased after an abort, unused until the process ends.) */
static void leases_make_room(struct heap *h)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < h->lease_count; i++) {
        struct lease *l = &h->lease[i];
        if (l->generation == l->container->generation && l->mark < l->end)
            h->lease[kept++] = *l;
    }
    h->lease_count = kept;
    if (kept < RANGES_MAX)
        return;
    struct lease oldest = h->lease[0];
    memmove(&h->lease[0], &h->lease[1], (kept - 1) * sizeof oldest);
    h->lease_count = kept - 1;
    settle();
    if (oldest.next < oldest.end)
        container_unlease(oldest.container, oldest.next,
                          (oldest.end - oldest.next) / KD_PAGE_BYTES);
}

int lease_more(struct heap *h, ps_container *c, uint64_t pages, uint64_t near, struct lease **out)
{
    uint64_t address, got;
    int result = container_lease(c, pages, near, &address, &got);
    if (result != 0)
        return result;
    if (h->lease_count == RANGES_MAX)
        leases_make_room(h);
    struct lease *l = &h->lease[h->lease_count];
    *l = (struct lease){.next = address,
                        .end = address + got * KD_PAGE_BYTES,
                        .mark = address,
                        .container = c,
                        .generation = c->generation};
    settle();
    h->lease_count++;
    settle();
    *out = l;
    return 0;
}

uint64_t lease_start(const struct lease *l, uint64_t pages, uint64_t align)
{
    uint64_t bytes = align * KD_PAGE_BYTES, start = (l->next + bytes - 1) / bytes * bytes;
    return start <= l->end && l->end - start >= pages * KD_PAGE_BYTES ? start : 0;
}

struct lease *lease_find(struct heap *h, const ps_container *c, uint64_t pages, uint64_t align,
                         uint64_t near, uint64_t distance)
{
    struct lease *best = NULL;
    for (unsigned i = 0; i < h->lease_count; i++) {
        struct lease *l = &h->lease[i];
        uint64_t start = lease_is_of(l, c) ? lease_start(l, pages, align) : 0;
        uint64_t away = start > near ? start - near : near - start;
        if (start == 0)
            continue;
        if (near == 0) {
            best = l;
        } else if (away <= distance) {
            best = l;
            distance = away;
        }
    }
    return best;
}

/* What lies before `page` stays in the lease, what lies behind becomes another one. Without a place
 * for that the pages before are passed over: nobody uses them until the process ends. */
static struct lease *lease_split(struct heap *h, struct lease *l, uint64_t page)
{
    if (l->next == page || h->lease_count == RANGES_MAX)
        return l;
    struct lease *behind = &h->lease[h->lease_count];
    *behind = *l;
    behind->next = behind->mark = page;
    settle();
    l->end = page;
    h->lease_count++;
    settle();
    return behind;
}

uint64_t lease_take(struct heap *h, struct lease *l, uint64_t pages, uint64_t align)
{
    uint64_t page = lease_start(l, pages, align);
    l = lease_split(h, l, page);
    l->next = page + pages * KD_PAGE_BYTES;
    settle();
    return page;
}

int heap_page_is_new(const struct heap *h, const ps_container *c, uint64_t page)
{
    for (unsigned i = 0; i < h->lease_count; i++)
        if (lease_is_of(&h->lease[i], c) && page >= h->lease[i].mark && page < h->lease[i].next)
            return 1;
    return 0;
}

uint64_t heap_page_after(const struct heap *h, const ps_container *c, uint64_t after)
{
    uint64_t best = 0;
    for (unsigned i = 0; i < h->lease_count; i++) {
        const struct lease *l = &h->lease[i];
        uint64_t page = l->mark > after ? l->mark : after + KD_PAGE_BYTES;
        if (lease_is_of(l, c) && page < l->next && (best == 0 || page < best))
            best = page;
    }
    return best;
}
