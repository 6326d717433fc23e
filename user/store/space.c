/*
 * space.c - leases of unused pages, and the volatile map of how full pages are.
 *
 * Nothing here survives a restart, and nothing is missed then: a lease keeps two processes from
 * choosing the same page until a commit writes or claims it, a room hint tells where an object may
 * still fit. A commit may claim only what its process has leased (batch.c), so whom a lease belongs
 * to must be right; a hint may be wrong.
 *
 * A page that was freed by a commit may still be in memory with its old contents, and the kernel
 * has no call to drop it. So it becomes a run of NOBODY, and is given out again only after the
 * kernel has evicted it (it is clean, for its home is gone) and would ask for it anew: as zeros.
 *
 * A process may close a container while the commit of another of its threads is under way, which
 * then goes on. What it had leased becomes a run of CLOSED, until the kernel knows of no store to
 * it.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_UNIT  16u     /* bytes per step of the room map */
#define ROOM_NEAR  64u     /* pages looked at on each side of a wish */

/* ---- runs: sorted, disjoint ---- */

/* run_after returns the first run that ends after `page`, or run_count. */
static unsigned run_after(const struct container *c, uint64_t page)
{
    unsigned low = 0, high = c->run_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (c->runs[middle].first + c->runs[middle].count > page)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int run_room(struct container *c)
{
    if (c->run_count + 2 <= c->run_room) return 0;
    unsigned room = c->run_room ? 2 * c->run_room : 16;
    void *more = realloc(c->runs, room * sizeof(*c->runs));
    if (!more) return -ENOMEM;
    c->runs = more;
    c->run_room = room;
    return 0;
}

static void run_put(struct container *c, unsigned i, struct run run)
{
    memmove(&c->runs[i + 1], &c->runs[i], (c->run_count - i) * sizeof(run));
    c->runs[i] = run;
    c->run_count++;
}

static void run_drop(struct container *c, unsigned i)
{
    c->run_count--;
    memmove(&c->runs[i], &c->runs[i + 1], (c->run_count - i) * sizeof(*c->runs));
}

/* run_add adds a run: none may hold any of the pages yet. */
static int run_add(struct container *c, uint64_t first, uint64_t count, uint64_t owner)
{
    int r = run_room(c);
    if (r < 0) return r;
    unsigned i = run_after(c, first);
    struct run *before = i > 0 ? &c->runs[i - 1] : NULL;
    struct run *after = i < c->run_count ? &c->runs[i] : NULL;
    if (before && before->owner == owner && before->first + before->count == first) {
        before->count += count;
        if (after && after->owner == owner && first + count == after->first) {
            before->count += after->count;
            run_drop(c, i);
        }
    } else if (after && after->owner == owner && first + count == after->first) {
        after->first = first;
        after->count += count;
    } else {
        run_put(c, i, (struct run){first, count, owner});
    }
    return 0;
}

/* run_cut takes the pages out of all runs of this owner, or of anybody's. */
static int run_cut(struct container *c, uint64_t first, uint64_t count, bool anybody,
                   uint64_t owner)
{
    uint64_t end = first + count;
    for (unsigned i = run_after(c, first); i < c->run_count && c->runs[i].first < end;) {
        int r = run_room(c);
        if (r < 0) return r;
        struct run run = c->runs[i];
        uint64_t run_end = run.first + run.count;
        if (!anybody && run.owner != owner) {
            i++;
            continue;
        }
        run_drop(c, i);
        if (run.first < first)
            run_put(c, i++, (struct run){run.first, first - run.first, run.owner});
        if (run_end > end) run_put(c, i++, (struct run){end, run_end - end, run.owner});
    }
    return 0;
}

void space_process_gone(struct container *c, uint64_t process, bool closed)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < c->run_count; i++) {
        bool its = c->runs[i].owner == process;
        if (its && c->runs[i].first < c->lease_next) c->lease_next = c->runs[i].first;
        if (its && !closed) continue;
        c->runs[kept] = c->runs[i];
        if (its) c->runs[kept].owner = CLOSED;
        kept++;
    }
    c->run_count = kept;
}

/* ---- leases ---- */

static bool skip_runs(void *context, uint64_t object, uint64_t page, uint64_t *next)
{
    const struct container *c = context;
    (void)object;
    unsigned i = run_after(c, page);
    bool inside = i < c->run_count && c->runs[i].first <= page;
    *next = inside ? c->runs[i].first + c->runs[i].count
          : i < c->run_count ? c->runs[i].first : UINT64_MAX;
    return inside;
}

bool space_leased(const struct container *c, uint64_t process, uint64_t first, uint64_t count)
{
    uint64_t page = first;
    for (unsigned i = run_after(c, page); page < first + count; i++) {
        if (i == c->run_count || c->runs[i].first > page || c->runs[i].owner != process)
            return false;
        page = c->runs[i].first + c->runs[i].count;
    }
    return true;
}

/* freed_sweep gives pages out again that were freed and have left the memory meanwhile; also pages
 * that a process had leased and no transaction has stored to, once that process has closed the
 * container. */
static void freed_sweep(struct container *c)
{
    uint8_t bits[64];
    for (unsigned i = 0; i < c->run_count; i++) {
        struct run run = c->runs[i];
        uint64_t count = run.count < sizeof(bits) ? run.count : sizeof(bits), page;
        uint64_t left = container_left(c, run.first);
        if (count > left) count = left;
        int object;
        if (run.owner != NOBODY && run.owner != CLOSED) continue;
        if (container_object(c->id, run.first, &object, &page) < 0) continue;
        if (kd_object_info(object, page, count, bits) < 0) continue;
        uint64_t gone = 0, keeps = run.owner == CLOSED ? KD_PAGE_WRITER : KD_PAGE_RESIDENT;
        while (gone < count && !(bits[gone] & keeps)) gone++;
        if (gone == 0) continue;
        c->runs[i].first += gone;
        c->runs[i].count -= gone;
        if (c->runs[i].count == 0) run_drop(c, i);
        if (gone == count) i--; /* the next, or more of this one */
    }
}

/* unused_from finds a run of unused pages in one segment, so that addresses are contiguous. */
static int unused_from(struct container *c, uint64_t from, uint64_t count, uint64_t *first)
{
    for (;;) {
        int r = store_pages_unused(server.store, c->id, from, count, skip_runs, c, first);
        if (r < 0) return r;
        uint64_t end = 0;
        for (unsigned i = 0; i < c->segment_count && end <= *first; i++)
            end = c->segment[i].first + c->segment[i].pages;
        if (*first + count <= end) return 0;
        if (*first >= end) return -ENOSPC; /* in a segment that the kernel has no object for */
        from = end;
    }
}

int space_lease(struct container *c, uint64_t process, uint64_t count, uint64_t near,
                uint64_t *first)
{
    uint64_t from = c->lease_next;
    freed_sweep(c);
    if (near && !container_page(c, near, &from)) return -EINVAL;
    int r = unused_from(c, from, count, first);
    if (r == -ENOSPC && from > 0) r = unused_from(c, 0, count, first);
    if (r == 0) r = run_add(c, *first, count, process);
    if (r == 0 && !near) c->lease_next = *first + count;
    return r;
}

int space_unlease(struct container *c, uint64_t process, uint64_t first, uint64_t count)
{
    if (first < c->lease_next) c->lease_next = first;
    return run_cut(c, first, count, false, process);
}

void space_freed(struct container *c, uint64_t first, uint64_t count)
{
    for (uint64_t page = first; page < first + count; page++) space_room(c, page, 0);
    if (run_cut(c, first, count, true, NOBODY) < 0 || run_add(c, first, count, NOBODY) < 0)
        say("no memory to remember %llu freed pages of %s", (unsigned long long)count, c->name);
    if (first < c->lease_next) c->lease_next = first;
}

/* ---- room ---- */

static int room_reach(struct container *c, uint64_t page)
{
    if (page < c->room_pages) return 0;
    uint64_t pages = c->room_pages ? c->room_pages : 1024;
    while (pages <= page) pages *= 2;
    uint16_t *more = realloc(c->room, pages * sizeof(*more));
    if (!more) return -ENOMEM;
    memset(more + c->room_pages, 0, (pages - c->room_pages) * sizeof(*more));
    c->room = more;
    c->room_pages = pages;
    return 0;
}

void space_room(struct container *c, uint64_t page, uint64_t hint)
{
    uint64_t units = WIRE_ROOM_BYTES(hint) / ROOM_UNIT, tag = WIRE_ROOM_TAG_OF(hint) & 255;
    if (units == 0 && page >= c->room_pages) return;
    if (room_reach(c, page) < 0) return; /* a hint is lost */
    c->room[page] = units == 0 ? 0 : (uint16_t)((units > 255 ? 255 : units) | tag << 8);
    if (units && page >= c->room_top) c->room_top = page + 1;
    while (c->room_top && !c->room[c->room_top - 1]) c->room_top--;
}

/* room_fits: `wanted`: units, and the tag in the upper byte. */
static bool room_fits(const struct container *c, uint64_t process, uint64_t page, uint16_t wanted)
{
    if (page >= c->room_top || c->room[page] >> 8 != wanted >> 8 || c->room[page] < wanted)
        return false;
    unsigned i = run_after(c, page);
    return i == c->run_count || c->runs[i].first > page || c->runs[i].owner == process;
}

/* room_search: `near`: only close to that page, for who asks would not take another one, and a
 * search through all of a large container at each allocation would be too long. */
static int room_search(const struct container *c, uint64_t process, uint64_t from, bool near,
                       uint16_t wanted, uint64_t *page)
{
    for (uint64_t step = 0; step < ROOM_NEAR; step++) {
        *page = from + step;
        if (room_fits(c, process, *page, wanted)) return 0;
        *page = from - step;
        if (step <= from && room_fits(c, process, *page, wanted)) return 0;
    }
    for (*page = 0; !near && *page < c->room_top; ++*page)
        if (room_fits(c, process, *page, wanted)) return 0;
    return -ENOENT;
}

int space_find(struct container *c, uint64_t process, uint64_t hint, uint64_t near,
               uint64_t *page)
{
    uint64_t from = 0, next, bytes = WIRE_ROOM_BYTES(hint), tag = WIRE_ROOM_TAG_OF(hint);
    if (bytes == 0 || bytes > 255 * ROOM_UNIT || tag > 255) return -ENOENT;
    if (near && !container_page(c, near, &from)) return -EINVAL;
    freed_sweep(c);
    uint16_t wanted = (uint16_t)((bytes + ROOM_UNIT - 1) / ROOM_UNIT | tag << 8);
    int r = room_search(c, process, from, near != 0, wanted, page);
    if (r == 0 && !skip_runs(c, c->id, *page, &next)) r = run_add(c, *page, 1, process);
    return r;
}
