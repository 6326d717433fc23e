/* subject_items.c - the dynamic heap, beside an array of items: they grow, shrink, move, are
 * packed. */
#include <structures/heap.h>

#include "subject.h"

enum { ITEMS = 400, LONGEST = 600 };
PS_DYNAMIC(items);
struct thing { uint64_t number; uint32_t bytes; uint8_t fill; };
static struct kept {
    struct items_head head;
    uint32_t count;
    struct thing thing[ITEMS];
} *kept;
static struct items items = {.name = "items"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    items.head = &kept->head;
    items.memory = memory;
}
static int set_up(void) { return items_set_up(&items); }
static int tear_down(void) { return items_tear_down(&items); }

/* Bytes from `from` on are zeros; then all are the thing's. */
static void fill(const struct items_items *a, const struct thing *t, uint32_t from)
{
    size_t bytes;
    uint8_t *at = items_at(a, t->number, &bytes);
    SAME(at && bytes == t->bytes);
    for (uint32_t i = from; at && i < t->bytes; i++)
        SAME(at[i] == 0);
    if (at)
        subject_stores(&items.memory, at, t->bytes);
    if (at)
        memset(at, t->fill, t->bytes);
}

static int take(struct items_items *a)
{
    struct thing t = {.bytes = draw(20) ? 1 + draw(LONGEST) : 1 + draw(PS_ITEM_MAX),
                      .fill = (uint8_t)(1 + draw(255))};
    int64_t number = items_take(a, t.bytes);
    if (number < 0)
        return (int)number;
    t.number = (uint64_t)number;
    fill(a, &t, 0);
    kept->thing[kept->count++] = t;
    return 0;
}

static int resize(struct items_items *a)
{
    struct thing *t = &kept->thing[draw(kept->count)];
    const void *before = items_at(a, t->number, NULL);
    uint32_t bytes = 1 + draw(draw(4) ? LONGEST : PS_ITEM_MAX);
    int moved = items_resize(a, t->number, bytes);
    if (moved < 0)
        return moved;
    SAME(moved || items_at(a, t->number, NULL) == before || bytes > t->bytes);
    const uint8_t *at = items_at(a, t->number, NULL);
    for (uint32_t i = 0; i < t->bytes && i < bytes; i++)
        SAME(at[i] == t->fill);
    uint32_t old = t->bytes;
    t->bytes = bytes;
    fill(a, t, old);
    return 0;
}

/* To the end: no hole is left, and no block could be done without, as far as items fit. */
static void pack(struct items_items *a)
{
    struct ps_dynamic_stats stats;
    int64_t moved;
    int calls = 0;
    while ((moved = items_compact(a, 2000)) > 0)
        SAME(moved < 2000 + 2 * PS_NODE_BYTES && calls++ < 2000);
    SAME(moved == 0 && ps_dynamic_check(&a->access, &stats, NULL) == 0);
    SAME(stats.holes == 0);
}

static int operation(int growing)
{
    PS_ACCESS(items_items, a, &items, PS_CHANGE);
    uint32_t what = draw(100);
    if (what < (growing ? 60u : 25u))
        return kept->count < ITEMS ? take(&a) : 0;
    if (growing && draw(8))
        return 0;                               /* few blocks go */
    if (kept->count && what < 70) {
        struct thing *t = &kept->thing[draw(kept->count)];
        SAME(items_give(&a, t->number) == 0 && items_give(&a, t->number) == -ENOENT);
        *t = kept->thing[--kept->count];
    } else if (kept->count && what < 95) {
        return resize(&a);
    } else if (what < 99) {
        SAME(items_compact(&a, draw(3000)) >= 0);
    } else {
        pack(&a);
    }
    return 0;
}

static void compare(void)
{
    PS_ACCESS(items_items, a, &items, PS_LOOK);
    struct ps_dynamic_stats stats;
    SAME(ps_dynamic_check(&a.access, &stats, NULL) == 0 && stats.items == kept->count);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct thing *t = &kept->thing[i];
        size_t bytes = 0;
        const uint8_t *at = items_at(&a, t->number, &bytes);
        SAME(at && bytes == t->bytes && (uintptr_t)at % 8 == 0);
        for (uint32_t k = 0; at && k < t->bytes; k++)
            SAME(at[k] == t->fill);
    }
    SAME(items_resize(&a, 0, 1) == -EACCES && items_compact(&a, 1) == -EACCES);
}

const struct subject subject_items = {"items", sizeof(struct kept), place,  set_up,
                                      tear_down, operation,         compare,
                                      offsetof(struct kept, count)};
