/*
 * space.c - extents of the data region. The states are in internal.h.
 *
 * Nothing of this is on disk: what is used is what the leaves name (ST21), so nothing can leak.
 *
 * Invariants
 *   EX1  A USED extent is named by exactly one leaf, whose key it holds.
 *   EX2  A freed extent is handed out again only when the free is checkpointed (ST22).
 *   EX3  dirty bits are set only in USED extents.
 */
#include "internal.h"

/* struct extent is small, for a large disk has millions. No container is larger than its zone. */
_Static_assert(sizeof(struct extent) == 24 &&
               STORE_ZONE_BYTES / STORE_PAGE_BYTES - 1 <= UINT32_MAX, "an extent's size");

uint64_t extent_offset(const struct store *store, uint64_t extent)
{
    return store->super.data_start + extent * store->super.extent_bytes;
}

/* extent_reserved tells whether the extent holds slot B, or a part of a metadata area. */
bool extent_reserved(const struct superblock *super, uint64_t extent)
{
    uint64_t start = super->data_start + extent * super->extent_bytes;
    uint64_t end = start + super->extent_bytes;
    for (int i = 0; i < 2; i++)
        if (super->area_start[i] < end &&
            start < super->area_start[i] + area_bytes(super->area_pages))
            return true;
    return super->slot_b_offset >= start && super->slot_b_offset < end;
}

enum extent_state extent_state(const struct store *store, uint64_t extent)
{
    const struct extent *e = &store->extents[extent];
    bool reusable = e->state == EXTENT_FREED && e->freed < store->space.reuse;
    return reusable ? EXTENT_FREE : (enum extent_state)e->state;
}

/* extent_claim claims a free extent, `near` if that one is, else the next after the cursor. */
uint64_t extent_claim(struct store *store, uint64_t near)
{
    uint64_t extent = near;
    if (store->space.free <= store->doubts.extents)                           /* TP3 */
        return UINT64_MAX;
    if (near >= store->super.extents || extent_state(store, near) != EXTENT_FREE) {
        extent = store->space.cursor;
        do {
            if (++extent >= store->super.extents)
                extent = 0;
        } while (extent_state(store, extent) != EXTENT_FREE);
    }
    assert(extent_state(store, extent) == EXTENT_FREE);                         /* EX2 */
    store->space.cursor = extent;
    store->extents[extent].state = EXTENT_CLAIMED;
    store->space.free--;
    store->space.claimed++;
    return extent;
}

void extent_unclaim(struct store *store, uint64_t extent)
{
    if (store->extents[extent].state != EXTENT_CLAIMED || store->extents[extent].bulk)
        return;
    store->extents[extent].state = EXTENT_FREE;
    store->space.claimed--;
    store->space.free++;
}

/* extent_use: a leaf names the extent now. -EUCLEAN: out of range, reserved, or in use already. */
int extent_use(struct store *store, uint64_t extent, uint32_t slot, uint64_t index)
{
    if (extent >= store->super.extents || never(index > UINT32_MAX))
        return -EUCLEAN;
    struct extent *e = &store->extents[extent];
    if (e->state == EXTENT_USED || e->state == EXTENT_RESERVED)
        return -EUCLEAN;
    /* a freed extent ages between groups, and nobody claims it then */
    enum extent_state state = extent_state(store, extent);
    if (never(state == EXTENT_FREED && e->freed < store->space.serial))
        return -EUCLEAN;
    store->space.free -= state == EXTENT_FREE;
    store->space.claimed -= state == EXTENT_CLAIMED;
    store->space.freed -= state == EXTENT_FREED;
    *e = (struct extent){ .slot = slot, .index = (uint32_t)index, .state = EXTENT_USED };
    store->space.top = MAX(store->space.top, extent + 1);
    return 0;
}

/* extent_leaf finds the leaf of a USED extent. */
struct leaf_disk *extent_leaf(struct store *store, const struct extent *e, uint32_t *at)
{
    return hash_find(store, le64_get(directory_slot(store, e->slot)->object), e->index, at);
}

void extent_free(struct store *store, uint64_t extent)
{
    assert(store->extents[extent].state == EXTENT_USED);                        /* EX1 */
    store->extents[extent] = (struct extent){ .state = EXTENT_FREED,
                                              .freed = store->space.serial };
    store->space.freed++;
}

void extents_age(struct store *store)
{
    store->space.serial++;
    store->space.old = store->space.freed;
}

void extents_recycle(struct store *store)
{
    assert(store->space.old <= store->space.freed);                           /* EX2 */
    store->space.reuse = store->space.serial;
    store->space.freed -= store->space.old;
    store->space.free += store->space.old;
    store->space.old = 0;
}
