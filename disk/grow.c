/*
 * grow.c - a store takes the rest of a disk that has grown (disk.md): a checkpoint with another
 * geometry. All is written and flushed before the superblock that names it, so a power cut leaves
 * the old store or the grown one.
 */
#include "internal.h"

/* geometry_grow makes the superblock of the larger store. -EINVAL, -ENOSPC. */
static int geometry_grow(const struct superblock *old, uint64_t bytes, struct superblock *next)
{
    *next = *old;
    bytes = bytes / BLOCK_BYTES * BLOCK_BYTES;
    if (bytes < old->disk_bytes || bytes >> 62)
        return -EINVAL;
    next->disk_bytes = bytes;
    next->extents = (bytes - old->data_start) / old->extent_bytes;
    next->directory_pages_max = directory_pages_for(bytes);
    next->names_pages_max = directory_pages_for(bytes);
    uint32_t pages = area_pages_for(next->extents, old->extent_bytes, next->directory_pages_max,
                                    next->names_pages_max);
    if (pages <= old->area_pages)
        return 0;
    if (bytes - old->disk_bytes < 2 * area_bytes(pages))
        return -ENOSPC;
    next->area_pages = pages;
    next->area_start[1] = bytes - area_bytes(pages);
    next->area_start[0] = next->area_start[1] - area_bytes(pages);
    for (int i = 0; i < 2; i++)         /* nothing is in the new areas */
        next->checkpoints[i] = (struct checkpoint_info){
            .sequence = old->checkpoints[old->checkpoint_index].sequence };
    return 0;
}

/* ---- tables whose size the superblock gives */

static int tables_enlarge(struct store *store, const struct superblock *next)
{
    void *larger[TABLES];
    size_t bytes[TABLES];
    int error = tables_make(store, next, larger);
    if (error) {
        tables_release(store, next, larger);
        return error;
    }
    table_sizes(&store->super, bytes);
    for (int i = 0; i < TABLES_KEPT; i++)
        memcpy(larger[i], store->tables[i], bytes[i]);
    tables_release(store, &store->super, store->tables);
    memcpy(store->tables, larger, sizeof larger);
    return 0;
}

/* extents_enlarge makes new extents free; areas that moved leave some, and take others. */
static void extents_enlarge(struct store *store)
{
    store->space.free = 0;
    for (uint64_t i = 0; i < store->super.extents; i++) {
        enum extent_state state = extent_state(store, i);
        if (state == EXTENT_FREE || state == EXTENT_RESERVED)
            store->extents[i].state =
                extent_reserved(&store->super, i) ? EXTENT_RESERVED : EXTENT_FREE;
        store->space.free += extent_state(store, i) == EXTENT_FREE;
    }
}

/* grow_to enlarges a store with nothing dirty, open or unapplied: recovery has just ended. */
int grow_to(struct store *store, uint64_t bytes)
{
    struct superblock next;
    int error = geometry_grow(&store->super, bytes, &next);
    if (error || next.disk_bytes == store->super.disk_bytes)
        return error;
    error = tables_enlarge(store, &next);
    if (error)
        return error;
    bool moved = next.area_pages != store->super.area_pages;
    store->numbers.free += next.area_pages - store->super.area_pages;
    store->super = next;
    index_fill(store);
    extents_enlarge(store);
    for (uint32_t i = 0; moved && i < store->numbers.limit; i++)
        meta_dirty_set(store, i, store->pages[i].bytes ? 3 : 0);
    checkpoint_begin_at(store, store->log.applied, store->log.applied_crc);
    return checkpoint_finish(store) ?: store_checkpoint_apply(store);
}
