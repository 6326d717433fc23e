/*
 * item_header.c - headers of items: where they lie, who gets one, which room is theirs.
 *
 * Owns      pages of headers (struct slab) in a list that begins at the root of their container;
 *           the allocators of partitions by name, and the one of them that keeps what it knows
 *           beside the headers.
 * Not here  locks of items and what their types do (item_layer.c), containers (item_file.c).
 *
 * Invariants
 *   IH1  A page of headers stays one for ever, so an identifier leads to a header or to nothing.
 *   IH2  A header's generation rises when its item is deleted. One that cannot rise is not used.
 *   IH3  Who looks for a free header does not wait for others who do: a page of headers is an item,
 *        X for who takes headers of it, and if that is not free at once he takes another page.
 *   IH4  Of "apart", regions are rooms of items, holes, what was not given out, and what is lost.
 */
#include "item_layer_private.h"

#include <errno.h>
#include <string.h>

enum { PLACE_BITS = 41, TRIES = 4, ALLOCATORS = 8, REGION = 256 * 1024 };
#define GENERATIONS ((1u << (64 - PLACE_BITS)) - 1)
#define SLAB_SEAL 0x6d657469u

/* ---- identifiers ---- */

static struct slab *slab_at(uint64_t page)
{
    return (struct slab *)(uintptr_t)(page + KD_PAGE_BYTES - sizeof(struct slab));
}

static int slab_is(const struct slab *s)
{
    uint64_t page = PAGE_OF((uintptr_t)s);
    return s == slab_at(page) && s->seal == (SLAB_SEAL ^ (uint32_t)(page / KD_PAGE_BYTES));
}

ps_item_id id_of(const ps_part *p, const struct ps_item *item)
{
    uint64_t generation = p->flags & PS_PART_CHECKED ? item->generation : 0;
    return (uintptr_t)item / sizeof *item | generation << PLACE_BITS;
}

static ps_part *_Atomic recent;           /* whose item was found last */

void header_forget(void)
{
    recent = NULL;
}

struct ps_item *header_of(ps_item_id id, ps_part **part)
{
    uint64_t at = (id & ((1ull << PLACE_BITS) - 1)) * sizeof(struct ps_item);
    struct ps_item *item = (struct ps_item *)(uintptr_t)at;
    ps_part *p = recent;
    if (!p || at - p->headers->base >= p->bytes)
        recent = p = part_of(ps_container_of(item));
    *part = p;
    if (p && at % KD_PAGE_BYTES && slab_is(slab_at(PAGE_OF(at))))
        return item;
    errno = EINVAL;
    return NULL;
}

int header_is(const ps_part *p, const struct ps_item *item, ps_item_id id)
{
    if (p->flags & PS_PART_CHECKED && item->generation != id >> PLACE_BITS)
        return -ESTALE;
    return item->type && item->type != TYPE_HOLE ? 0 : -ENOENT;
}

/* ---- headers ---- */

int header_write(struct ps_tx *tx, ps_part *p, struct ps_item *item)
{
    if (!tx_writing(p->headers))
        return -errno;
    items_store(tx, p->headers, (uintptr_t)item, sizeof *item);
    return 0;
}

uint64_t header_sum(const struct ps_item *item)
{
    uint64_t sum = item->stored, word = 0;
    const char *data = item->data, *end = data + item->stored;
    for (; end - data >= 8; data += 8) {
        memcpy(&word, data, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
        sum ^= sum >> 32;
    }
    word = 0;
    if (data < end)
        memcpy(&word, data, (size_t)(end - data));
    return (sum ^ word) * 0x9e3779b97f4a7c15ull;
}

void header_free(struct ps_item *item)
{
    uint32_t generation = item->generation < GENERATIONS ? item->generation + 1 : GENERATIONS;
    *item = (struct ps_item){.generation = generation};                         /* IH2 */
}

static struct ps_item *slab_free(struct slab *s)
{
    for (struct ps_item *i = s->item; i < s->item + SLAB_ITEMS; i++)
        if (!i->type && i->generation < GENERATIONS)
            return i;
    return NULL;
}

/* root_write locks a field that the container's users share, and says that it is stored to. */
static int root_write(struct ps_tx *tx, ps_part *p, void *field, size_t bytes)
{
    int result = items_lock(tx, p->headers, (uintptr_t)field, PS_X);
    if (result == 0)
        items_store(tx, p->headers, (uintptr_t)field, bytes);
    return result;
}

static struct slab *slab_make(struct ps_tx *tx, ps_part *p)
{
    int result = root_write(tx, p, &p->root->first, sizeof p->root->first);
    uint32_t type = type_number("ps items");
    struct slab *s = result || !type ? NULL
                                     : heap_alloc(tx, p->headers, sizeof *s, NULL, type, 0);
    if (!s) {
        errno = result ? -result : errno;
        return NULL;
    }
    *s = (struct slab){.seal = SLAB_SEAL ^ (uint32_t)(PAGE_OF((uintptr_t)s) / KD_PAGE_BYTES),
                       .next = p->root->first};
    p->root->first = s;
    return s;
}

struct ps_item *header_take(struct ps_tx *tx, ps_part *p)
{
    PART_OPENED(p);
    struct slab *s = p->slab && slab_is(p->slab) ? p->slab : p->root->first;
    struct ps_item *item = NULL;
    int result = tx_writing(p->headers) ? 0 : -errno;
    for (int i = 0; s && i < TRIES && !item && result == 0; i++) {
        if (slab_free(s))                 /* a glance: nobody is kept out of a full page */
            result = items_lock(tx, p->headers, (uintptr_t)s, PS_X | PS_NOW);   /* IH3 */
        item = result == 0 ? slab_free(s) : NULL;
        result = result == -EBUSY ? 0 : result;
        if (!item)
            s = s->next ? s->next : p->root->first;
    }
    if (result == 0 && !item && (s = slab_make(tx, p))) {
        result = items_lock(tx, p->headers, (uintptr_t)s, PS_X);
        item = s->item;
    }
    if (result == 0 && item)
        result = header_write(tx, p, item);
    else if (result == 0)
        return NULL;
    p->slab = s;
    errno = -result;
    return result == 0 ? item : NULL;
}

/* ---- allocators ---- */

static void *objects_take(ps_part *p, uint32_t type, size_t bytes, uint64_t *room)
{
    void *data = heap_alloc(tx_active(), p->data, bytes ? bytes : 1, NULL, type, 0);
    *room = data ? ps_size(data) : 0;
    return data;
}

static int objects_give(ps_part *p, void *data, uint64_t room, struct ps_item *spare)
{
    (void)p, (void)room, (void)spare;
    return ps_free(data);
}

static int objects_check(ps_part *p, const struct ps_item *item)
{
    return ps_container_of(item->data) == p->data && ps_size(item->data) == item->room ? 0
                                                                                       : -EUCLEAN;
}

static void *arena_take(ps_part *p, uint32_t type, size_t bytes, uint64_t *room)
{
    struct ps_tx *tx = tx_active();
    int result = p->root->arena ? 0 : root_write(tx, p, &p->root->arena, sizeof p->root->arena);
    if (result == 0 && !p->root->arena)
        p->root->arena = arena_make(p->data, 1, 0);
    if (result || !p->root->arena) {
        errno = result ? -result : errno;
        return NULL;
    }
    void *data = heap_alloc(tx, p->data, bytes ? bytes : 1, NULL, type, (uintptr_t)p->root->arena);
    *room = data ? ps_size(data) : 0;
    return data;
}

/* class_of rounds up to a size: multiples of 16 up to 128; then four to each power of two. */
static unsigned class_of(uint64_t bytes, uint64_t *size)
{
    unsigned number = 0;
    uint64_t step = 16;
    for (*size = 16; *size < bytes; *size += step, number++)
        if (*size == step * 8)
            step *= 2;
    return number;
}

/* apart_grow finds room that was never given out, perhaps of a new region: resize. */
static int apart_grow(struct ps_tx *tx, ps_part *p, uint64_t bytes)
{
    struct headers *root = p->root;
    if (root->end - root->at >= bytes)
        return 0;
    uint64_t region = bytes > REGION ? bytes : REGION;
    char *at = heap_alloc(tx, p->data, region, NULL, 0, 0);
    if (!at)
        return -errno;
    root->lost += root->end - root->at;
    root->at = (uintptr_t)at;
    root->end = root->at + region;
    root->regions += region;
    return 0;
}

static void *apart_take(ps_part *p, uint32_t type, size_t bytes, uint64_t *room)
{
    struct ps_tx *tx = tx_active();
    struct headers *root = p->root;
    struct ps_item **list = &root->hole[class_of(bytes, room)], *hole = NULL;
    void *data = NULL;
    (void)type;
    int result = *room > OBJECT_BYTES_MAX ? -ENOSPC : root_write(tx, p, list, sizeof *list);
    if (result == 0 && (hole = *list)) {
        result = header_write(tx, p, hole);
        data = hole->data;
        *list = (struct ps_item *)(uintptr_t)hole->next;
        *hole = (struct ps_item){.generation = hole->generation};
    } else if (result == 0) {
        result = root_write(tx, p, &root->at, 4 * sizeof root->at) ?: apart_grow(tx, p, *room);
        data = (void *)(uintptr_t)root->at;
        root->at += result == 0 ? *room : 0;
    }
    errno = -result;
    if (result != 0)
        return NULL;
    items_store(tx, p->data, (uintptr_t)data, *room);
    return memset(data, 0, *room);
}

static int apart_give(ps_part *p, void *data, uint64_t room, struct ps_item *spare)
{
    struct ps_tx *tx = tx_active();
    struct ps_item **list = &p->root->hole[class_of(room, &room)];
    int result = root_write(tx, p, list, sizeof *list);
    struct ps_item *hole = result ? NULL : spare ? spare : header_take(tx, p);
    if (!hole)
        return result ? result : -errno;
    hole->type = TYPE_HOLE;
    hole->data = data;
    hole->room = room;
    hole->next = (uintptr_t)*list;
    *list = hole;
    return 0;
}

static int apart_check(ps_part *p, const struct ps_item *item)
{
    uint64_t room;
    class_of(item->room, &room);
    return room == item->room && container_has(p->data, (uintptr_t)item->data, room) ? 0
                                                                                     : -EUCLEAN;
}

static const struct ps_allocator own[] = {
    {"objects", objects_take, objects_give, objects_check},
    {"arena", arena_take, objects_give, objects_check},
    {"apart", apart_take, apart_give, apart_check},
};
static const struct ps_allocator *_Atomic others[ALLOCATORS];

const struct ps_allocator *allocator_named(const char *name)
{
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i].name) == 0)
            return &own[i];
    for (unsigned i = 0; i < ALLOCATORS && others[i]; i++)
        if (strcmp(name, others[i]->name) == 0)
            return others[i];
    return NULL;
}

int ps_allocator_add(const struct ps_allocator *allocator)
{
    if (allocator_named(allocator->name))
        return -EEXIST;
    for (unsigned i = 0; i < ALLOCATORS; i++) {
        const struct ps_allocator *none = NULL;
        if (atomic_compare_exchange_strong(&others[i], &none, allocator))
            return 0;
    }
    return -ENOSPC;
}

/* ---- all of them ---- */

ps_item_id ps_item_next(ps_part *p, const char *type, ps_item_id previous)
{
    ps_part *same = p;
    struct ps_item *item = previous ? header_of(previous, &same) : NULL;
    uint32_t number = type ? slot_type_of(type) : 0;
    int in_order = tx_active() && p && p->root && same == p && (item || !previous);
    errno = !tx_active() ? EPERM : in_order ? 0 : EINVAL;
    struct slab *s = !in_order ? NULL : item ? slab_at(PAGE_OF((uintptr_t)item)) : p->root->first;
    for (; s; s = s->next, item = NULL)
        for (struct ps_item *i = item ? item + 1 : s->item; i < s->item + SLAB_ITEMS; i++)
            if (i->type && i->type != TYPE_HOLE && (!number || i->type == number))
                return id_of(p, i);
    return 0;
}

int ps_part_check(ps_part *p, const char **why)
{
    uint64_t room = 0, pages = 0, holes = 0, size;
    *why = NULL;
    if (!tx_active() || !p->root)
        return tx_active() ? -EINVAL : -EPERM;
    const struct headers *root = p->root;
    for (struct slab *s = root->first; s && !*why; s = s->next) {
        if (!container_has(p->headers, (uintptr_t)s, sizeof *s) || !slab_is(s) || pages++ >> 20) {
            *why = "the list of headers leads to something else";
            break;
        }
        for (const struct ps_item *i = s->item; i < s->item + SLAB_ITEMS && !*why; i++) {
            room += i->type ? i->room : 0;
            holes += i->type == TYPE_HOLE;
            if (i->type && i->data && (i->stored > i->room || p->allocator->check(p, i) != 0))
                *why = "an item's room is not its own";
            else if (p->flags & PS_PART_SUMS && i->type && i->type != TYPE_HOLE &&
                     i->sum != header_sum(i))
                *why = "an item is not what its header's sum says";
        }
    }
    for (unsigned c = 0; c < ROOM_CLASSES && !*why; c++)
        for (const struct ps_item *hole = root->hole[c]; hole && !*why;
             hole = (const struct ps_item *)(uintptr_t)hole->next)
            if (hole->type != TYPE_HOLE || class_of(hole->room, &size) != c || holes-- == 0)
                *why = "a list of free room leads to something else";
    if (!*why && holes)
        *why = "free room is in no list";
    if (!*why && root->regions && root->regions != room + root->lost + (root->end - root->at))
        *why = "regions are not what lies in them";                             /* IH4 */
    return *why ? -EUCLEAN : 0;
}
