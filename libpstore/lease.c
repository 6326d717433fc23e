/*
 * lease.c - runs of pages that the store manager leased to this view, for new objects.
 *
 * A lease is used from its first page on; what an abort puts back is in its `mark` (AL1, alloc.c).
 * Blocks of several pages begin at multiples of their size (arena.c); what lies before them in the
 * lease stays for others.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

/* settle (TX2) has what was stored to the heap in memory before the next instruction can fault. */
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

/* leases_make_room makes room for one more: used-up and outlived ones go first, then the oldest.
 * (What this transaction took of that stays leased after an abort, unused until the end.) */
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

/* lease_split leaves what lies before `page` in the lease; what lies behind becomes another.
 * Without a place for that the pages before are passed over: unused until the process ends. */
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

/* ---- from the manager ---- */

/* lease_is_sound: is [address, + pages) inside the container? The manager is not trusted. */
static int lease_is_sound(ps_container *c, uint64_t address, uint64_t pages)
{
    return address % KD_PAGE_BYTES == 0 && pages > 0 && pages <= KD_ZONE_BYTES / KD_PAGE_BYTES &&
           container_has(c, address, pages * KD_PAGE_BYTES);
}

int container_lease(ps_container *c, uint64_t pages, uint64_t near, uint64_t *address,
                    uint64_t *got)
{
    uint64_t word[STORE_REQUEST_WORDS] = {c->id, pages, near};
    if (pages > (c->segment[0].end - c->segment[0].base) / KD_PAGE_BYTES)
        return -ENOSPC;                       /* the manager leases no more than that at once */
    int result = store_request(c->store, STORE_LEASE, word, NULL, 0, NULL, NULL);
    if (result != 0)
        return result;
    if (!lease_is_sound(c, word[0], word[1]))
        return -EPROTO;
    *address = word[0];
    *got = word[1];
    return 0;
}

int container_space(ps_container *c, uint64_t bytes, uint64_t near, uint64_t *address)
{
    uint64_t word[STORE_REQUEST_WORDS] = {c->id, bytes, near};
    int result = store_request(c->store, STORE_SPACE, word, NULL, 0, NULL, NULL);
    if (result != 0)
        return result;
    *address = word[0];
    return lease_is_sound(c, word[0], 1) ? 0 : -EPROTO;
}

void container_unlease(ps_container *c, uint64_t address, uint64_t pages)
{
    uint64_t word[STORE_REQUEST_WORDS] = {address, pages};
    store_request(c->store, STORE_UNLEASE, word, NULL, 0, NULL, NULL);
}
