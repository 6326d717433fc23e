/*
 * heap_dynamic.c - a dynamic heap: items that grow, shrink and move; who holds an item's number
 * finds it wherever it lies.
 *
 * A table says of each item in which block of the store it lies, where, and how long it is. In a
 * store block items follow each other, each with a header that names it, so a block can be made
 * compact by itself. What is taken goes behind the last item of the block being filled. Holes are
 * closed when that block is full, if that helps, and by ps_dynamic_compact, which also fills low
 * blocks with the items of the highest one.
 */
#include "heap.h"
#include "structure_private.h"

#include <errno.h>
#include <string.h>

struct place {
    uint32_t block;             /* plus 1; 0: the number is free */
    uint32_t at;                /* of the item's header, in the block */
    uint32_t bytes;             /* asked for */
    uint32_t next;              /* of a free number: the next one plus 1 */
};
struct store {
    uint32_t top, live;         /* end of the last item; bytes of items with their headers */
    uint64_t reserved;
};
struct item {
    uint32_t number;            /* plus 1; 0: a hole */
    uint32_t room;              /* bytes with this header; a multiple of 8 */
};

static struct ps_dynamic *head_of(const struct ps_dynamic_access *a)
{
    return (struct ps_dynamic *)(void *)a->base.head;
}

static unsigned places(const struct ps_dynamic_access *a)
{
    return a->base.type->node_bytes / (unsigned)sizeof(struct place);
}

static struct place *place_of(const struct ps_dynamic_access *a, uint64_t number)
{
    struct place *p = number < head_of(a)->next
                          ? blocks_find(&a->base, &head_of(a)->table, number / places(a)) : NULL;
    return p ? p + number % places(a) : NULL;
}

static struct place *place_to_change(const struct ps_dynamic_access *a, uint64_t number)
{
    struct place *p = place_of(a, number);
    structure_stores(&a->base, p, sizeof *p);
    return p;
}

static struct store *store_of(const struct ps_dynamic_access *a, uint32_t number)
{
    return blocks_find(&a->base, &head_of(a)->store, number);
}

static struct item *item_at(const struct store *s, uint32_t at)
{
    return (struct item *)((uintptr_t)s + at);
}

/* Where an item that is there lies, or NULL. */
static struct place *taken_place(const struct ps_dynamic_access *a, uint64_t number)
{
    struct place *p = place_of(a, number);
    return p && p->block ? p : NULL;
}

static uint32_t room_for(size_t bytes)
{
    return (uint32_t)((bytes + 7) / 8 * 8 + sizeof(struct item));
}

/* ---- life ---- */

int ps_dynamic_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    return structure_empty(i, type);
}

int ps_dynamic_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_dynamic_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    blocks_clear(&a.base, &head_of(&a)->table);
    blocks_clear(&a.base, &head_of(&a)->store);
    structure_clear(&a.base);
    return 0;
}

/* ---- the store ---- */

/* Closes the holes of a block; how many bytes were moved. */
static size_t store_pack(const struct ps_dynamic_access *a, struct store *s)
{
    uint32_t to = sizeof *s;
    size_t moved = 0;
    structure_changes(&a->base, s);
    for (uint32_t at = sizeof *s, room; at < s->top; at += room) {
        room = item_at(s, at)->room;
        if (item_at(s, at)->number == 0)
            continue;
        if (to != at) {
            place_to_change(a, item_at(s, at)->number - 1)->at = to;
            memmove(item_at(s, to), item_at(s, at), room);
            moved += room;
        }
        to += room;
    }
    s->top = to;
    return moved;
}

static int fits(const struct ps_dynamic_access *a, const struct store *s, uint32_t room)
{
    return s->top + room <= a->base.type->node_bytes;
}

/* The block whose end has that room, the one being filled or a new one: its number, or -errno. */
static int64_t store_find(struct ps_dynamic_access *a, uint32_t room)
{
    struct ps_dynamic *h = head_of(a);
    struct store *s = h->filled ? store_of(a, h->filled - 1) : NULL;
    if (s && !fits(a, s, room) && sizeof *s + s->live + room <= a->base.type->node_bytes)
        store_pack(a, s);
    if (s && fits(a, s, room))
        return h->filled - 1;
    if (!(s = blocks_make(&a->base, &h->store, h->stores)))
        return -errno;
    s->top = sizeof *s;         /* announced: it is new */
    structure_heads(&a->base);
    h->filled = h->stores + 1;
    return h->stores++;
}

/* An item lies at the end of a block from now on. */
static struct item *item_put(struct ps_dynamic_access *a, uint32_t block, uint64_t number,
                             uint32_t room)
{
    struct store *s = store_of(a, block);
    struct place *p = place_to_change(a, number);
    struct item *item = item_at(s, s->top);
    structure_heads(&a->base);
    structure_changes(&a->base, s);
    p->block = block + 1;
    p->at = s->top;
    *item = (struct item){(uint32_t)number + 1, room};
    s->top += room;
    s->live += room;
    head_of(a)->bytes += room;
    return item;
}

/* What lies at a place is a hole from now on; a block without items goes back. */
static void item_drop(struct ps_dynamic_access *a, struct place where)
{
    struct ps_dynamic *h = head_of(a);
    struct store *s = store_of(a, where.block - 1);
    struct item *item = item_at(s, where.at);
    structure_heads(&a->base);
    structure_changes(&a->base, s);
    item->number = 0;
    s->live -= item->room;
    h->bytes -= item->room;
    if (where.at + item->room == s->top)
        s->top = where.at;
    if (where.block - 1 < h->packed)
        h->packed = where.block - 1;
    if (s->live == 0)
        s->top = sizeof *s;
    if (s->live || h->filled == where.block)
        return;
    blocks_give(&a->base, &h->store, where.block - 1);
    if (where.block == h->stores)
        h->stores--;
}

/* ---- items ---- */

/* A number that no item has; its place is in the table. -errno. */
static int64_t number_find(struct ps_dynamic_access *a)
{
    struct ps_dynamic *h = head_of(a);
    if (h->free)
        return h->free - 1;
    if (h->next == UINT32_MAX)
        return -ENOSPC;
    return blocks_make(&a->base, &h->table, h->next / places(a)) ? (int64_t)h->next : -errno;
}

static int size_wrong(size_t bytes)
{
    return bytes == 0 ? -EINVAL : bytes > PS_ITEM_MAX ? -EMSGSIZE : 0;
}

int64_t ps_dynamic_take(struct ps_dynamic_access *a, size_t bytes)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || (error = size_wrong(bytes)))
        return error;
    struct ps_dynamic *h = head_of(a);
    int64_t number = number_find(a);
    int64_t block = number < 0 ? number : store_find(a, room_for(bytes));
    if (block < 0)                      /* a block of the table stays, for the next one */
        return block;
    structure_heads(&a->base);
    if (h->free)
        h->free = place_of(a, (uint64_t)number)->next;
    else
        h->next++;
    struct item *item = item_put(a, (uint32_t)block, (uint64_t)number, room_for(bytes));
    memset(item + 1, 0, item->room - sizeof *item);
    place_of(a, (uint64_t)number)->bytes = (uint32_t)bytes;
    return number;
}

int ps_dynamic_give(struct ps_dynamic_access *a, uint64_t number)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    struct place *p = error ? NULL : taken_place(a, number);
    if (!p)
        return error ? error : -ENOENT;
    struct place where = *place_to_change(a, number);
    structure_heads(&a->base);
    *p = (struct place){.next = head_of(a)->free};
    head_of(a)->free = (uint32_t)number + 1;
    item_drop(a, where);
    return 0;
}

/* At its place: less, or more if nothing lies behind it. 0: there is no room. */
static int resize_here(struct ps_dynamic_access *a, struct place *p, size_t bytes)
{
    struct store *s = store_of(a, p->block - 1);
    struct item *item = item_at(s, p->at);
    uint32_t room = room_for(bytes);
    if (room > item->room) {
        if (p->at + item->room != s->top || p->at + room > a->base.type->node_bytes)
            return 0;
        structure_heads(&a->base);
        structure_changes(&a->base, s);
        memset((char *)item + item->room, 0, room - item->room);
        s->top += room - item->room;
        s->live += room - item->room;
        head_of(a)->bytes += room - item->room;
        item->room = room;
    }
    structure_stores(&a->base, p, sizeof *p);
    if (bytes < p->bytes)
        structure_changes(&a->base, s);
    if (bytes < p->bytes)               /* behind the item are zeros, for when it grows again */
        memset((char *)(item + 1) + bytes, 0, p->bytes - bytes);
    p->bytes = (uint32_t)bytes;
    return 1;
}

int ps_dynamic_resize(struct ps_dynamic_access *a, uint64_t number, size_t bytes)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    struct place *p = error ? NULL : taken_place(a, number);
    if (!p)
        return error ? error : -ENOENT;
    if ((error = size_wrong(bytes)) || resize_here(a, p, bytes))
        return error;
    int64_t block = store_find(a, room_for(bytes));
    if (block < 0)
        return (int)block;
    if (resize_here(a, p, bytes))       /* its block was made compact just now */
        return 0;
    struct place where = *p;            /* ... which may have moved it, too */
    const struct item *old = item_at(store_of(a, where.block - 1), where.at);
    struct item *item = item_put(a, (uint32_t)block, number, room_for(bytes));
    memset(item + 1, 0, item->room - sizeof *item);
    memcpy(item + 1, old + 1, where.bytes);
    p->bytes = (uint32_t)bytes;
    item_drop(a, where);
    return 1;
}

void *ps_dynamic_at(const struct ps_dynamic_access *a, uint64_t number, size_t *bytes)
{
    if (a->base.error)
        return structure_none(a->base.error);
    const struct place *p = taken_place(a, number);
    if (!p)
        return structure_none(-ENOENT);
    if (bytes)
        *bytes = p->bytes;
    return item_at(store_of(a, p->block - 1), p->at) + 1;
}

/* ---- compaction ---- */

/* The highest block below *end that is there; NULL: none. */
static struct store *store_last(const struct ps_dynamic_access *a, uint32_t *end)
{
    struct store *s = NULL;
    while (*end > 0 && !(s = store_of(a, *end - 1)))
        --*end;
    return s;
}

/* Moves the last item of block `from` to the end of block `to` if it fits; its room, or 0. */
static size_t item_move(struct ps_dynamic_access *a, uint32_t from, uint32_t to)
{
    struct store *s = store_of(a, from), *t = store_of(a, to);
    uint32_t at = sizeof *s, last = 0;
    for (; at < s->top; at += item_at(s, at)->room)
        if (item_at(s, at)->number)
            last = at;
    const struct item *item = last ? item_at(s, last) : NULL;
    if (!item || !fits(a, t, item->room))
        return 0;
    uint64_t number = item->number - 1;
    size_t room = item->room;
    struct place where = *place_of(a, number);
    struct item *moved = item_put(a, to, number, (uint32_t)room);
    memcpy(moved + 1, item + 1, room - sizeof *item);
    item_drop(a, where);
    return room;
}

int64_t ps_dynamic_compact(struct ps_dynamic_access *a, size_t budget)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    struct ps_dynamic *h = error ? NULL : head_of(a);
    size_t moved = 0, room;
    if (!h)
        return error;
    structure_heads(&a->base);
    h->filled = 0;
    while (moved < budget) {
        uint32_t last = h->stores;
        struct store *from = store_last(a, &last), *to = from ? store_of(a, h->packed) : NULL;
        h->stores = last;
        if (!from)
            break;
        if (from->live == 0) {          /* it was being filled */
            blocks_give(&a->base, &h->store, last - 1);
            continue;
        }
        if (to)
            moved += store_pack(a, to);
        if (h->packed + 1 >= last)
            break;
        room = to ? item_move(a, last - 1, h->packed) : 0;
        moved += room;
        if (room == 0)
            h->packed++;
    }
    if (store_of(a, h->packed))
        h->filled = h->packed + 1;
    return (int64_t)moved;
}

/* ---- check ---- */

/* What is wrong with a store block; adds its items. */
static const char *store_wrong(const struct ps_dynamic_access *a, const struct store *s,
                               uint64_t block, struct ps_dynamic_stats *stats)
{
    uint32_t live = 0, at = sizeof *s;
    for (uint32_t room; at < s->top; at += room) {
        const struct item *item = item_at(s, at);
        room = item->room;
        if (room < sizeof *item + 8 || room % 8 || room > s->top - at)
            return "an item has a wrong size";
        stats->holes += item->number == 0;
        if (item->number == 0)
            continue;
        const struct place *p = taken_place(a, item->number - 1);
        if (!p || p->block != block + 1 || p->at != at || room_for(p->bytes) > room)
            return "an item's place is not where it lies";
        live += room;
        stats->items++;
    }
    stats->bytes += live;
    return live != s->live || s->top > a->base.type->node_bytes
               ? "a block does not have the bytes it counts" : NULL;
}

int ps_dynamic_check(const struct ps_dynamic_access *a, struct ps_dynamic_stats *stats,
                     const char **why)
{
    struct ps_dynamic_stats counted = {0};
    uint64_t more = 0, taken = 0, free = 0;
    if (a->base.error)
        return structure_sound(a->base.error, structure_unset, why);
    const struct ps_dynamic *h = head_of(a);
    const char *what = blocks_check(&a->base, &h->table, &counted.branches);
    what = what ? what : blocks_check(&a->base, &h->store, &more);
    counted.branches += more;
    const struct store *s;
    for (uint64_t n = 0; !what && (s = blocks_next(&a->base, &h->store, &n)); n++) {
        counted.blocks++;
        what = n >= h->stores ? "a block has too high a number" : store_wrong(a, s, n, &counted);
    }
    for (uint32_t n = 0; !what && n < h->next; n++)
        taken += taken_place(a, n) != NULL;
    for (uint32_t n = h->free; !what && n && free <= h->next; n = place_of(a, n - 1)->next)
        free++;
    if (!what && (taken != counted.items || taken + free != h->next || counted.bytes != h->bytes))
        what = "the head does not count right";
    if (stats)
        *stats = counted;
    return structure_sound(0, what, why);
}
