/*
 * checkpoint.c - saves the metadata, so that the log before a redo LSN is needed no longer.
 *
 * Ping-pong: the metadata goes to the area that the superblock does not name. Fuzzy: commits go on
 * meanwhile; what they change is newer than the redo LSN and not in the copies.
 *
 *     begin    the redo LSN is the end of what is applied
 *     next     pages older than it, still dirty, are handed out and go home
 *     seal     part by part: CRCs are entered into copies that were made before their pages were
 *              home; the other changed metadata pages are copied; the next superblock is made
 *     write    CRCs; area and map, flush, superblock, flush
 *     apply    log before the older redo LSN and freed extents may be used again
 *
 * Invariants
 *   C1  The copies are the metadata exactly at the redo LSN: operations are not idempotent, so
 *       replay needs an exact base. Only CRCs of pages without a later record are newer.
 *   C2  Nothing that the superblock on disk needs is overwritten before the new one is flushed.
 *   C3  The log is kept from the scan LSN of the older of the two checkpoints, so that either
 *       recovers to the same state (I19, I20).
 *   C4  A metadata page that changes while a checkpoint runs is copied before (meta_touch), into
 *       memory that was set aside at begin: applying a commit cannot fail.
 *   C5  No call under the mutex handles more than step_pages metadata pages, nor walks over all
 *       extents: what is old and dirty is counted, and freed extents carry a serial number.
 */
#include "internal.h"

#define VISITS 64u              /* so many page numbers or extents are looked at for one copy */

/* Frees what a checkpoint holds. */
void checkpoint_drop(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    store_release(store, c->copies, (size_t)c->copy_room * BLOCK_BYTES);
    store_release(store, c->numbers, c->copy_room * sizeof *c->numbers);
    store_release(store, c->map, c->map_bytes);
    memset(c, 0, sizeof *c);
}

static int checkpoint_alloc(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    c->map_pages = store->page_limit;
    c->copy_room = store->meta_dirty[c->area];
    c->map_used_bytes = area_map_bytes(c->map_pages);
    c->map_bytes = c->map_used_bytes + BLOCK_BYTES;     /* and the superblock's block */
    c->map = store_alloc(store, c->map_bytes);
    c->copies = store->memory.alloc(store->memory.context, (size_t)c->copy_room * BLOCK_BYTES);
    c->numbers = store->memory.alloc(store->memory.context, c->copy_room * sizeof *c->numbers);
    return c->map && c->copies && c->numbers ? 0 : -ENOMEM;
}

/* The page's entry of the map and, if area does not hold it, its copy (C4). */
void checkpoint_freeze(struct store *store, uint32_t number)
{
    struct checkpoint *c = &store->checkpoint;
    struct meta_page *page = &store->pages[number];
    if (!c->running || page->serial == store->checkpoint_serial)
        return;
    page->serial = store->checkpoint_serial;
    struct map_entry_disk *entry = (struct map_entry_disk *)(void *)c->map + number;
    entry->kind = le16_of(page->kind);
    entry->index = le32_of(page->index);
    if (page->kind == META_BUCKET)
        entry->chain = le16_of(BUG(BUG_CHAIN_PLACE) ? 0 : page->place);
    if (!(page->dirty >> c->area & 1) || never(c->copy_count == c->copy_room))
        return;
    memcpy(c->copies + (size_t)c->copy_count * BLOCK_BYTES, page->bytes, BLOCK_BYTES);
    c->numbers[c->copy_count++] = number;
    meta_dirty_set(store, number, BUG(BUG_AREA_DIRTY) ? 0
                                                      : page->dirty & (uint8_t)~(1u << c->area));
}

static uint64_t now(const struct store *store)
{
    return store->clock ? store->clock->microseconds(store->clock->context) : 0;
}

int checkpoint_begin_at(struct store *store, uint64_t redo_lsn, uint32_t prev_crc)
{
    struct checkpoint *c = &store->checkpoint;
    memset(c, 0, sizeof *c);
    c->area = !store->super.checkpoint_index;
    if (BUG(BUG_CHECKPOINT_SAME) && store->super.generation)
        c->area = store->super.checkpoint_index;
    c->redo_lsn = redo_lsn;
    c->prev_crc = c->scan_crc = prev_crc;
    c->scan_lsn = redo_lsn;
    chains_scan_from(store, &c->scan_lsn, &c->scan_crc);
    meta_header_encode(store, redo_lsn);
    int error = checkpoint_alloc(store);
    if (error) {
        checkpoint_drop(store);
        return error;
    }
    store->checkpoint_serial++;
    c->pages_old = store->pages_dirty;
    c->running = true;
    store->checkpoint_us = now(store);
    store->redo_lsn = redo_lsn;
    if (BUG(BUG_TRUNCATE_EARLY))
        store->keep_lsn = c->scan_lsn;
    extents_age(store);
    return 0;
}

int store_checkpoint_begin(struct store *store)
{
    int fence = fence_get(store);
    if (fence)
        return fence;
    if (store->checkpoint.running || store->groups[0].state != GROUP_IDLE ||
        store->groups[1].state != GROUP_IDLE)
        return -EBUSY;
    return checkpoint_begin_at(store, store->applied_lsn, store->applied_crc);
}

/* The next dirty page at or after *cursor (extent * pages + page) whose LSN is below `below`.
 * -EAGAIN: none in `limit` extents, *cursor is behind them. */
static int dirty_find(struct store *store, uint64_t *cursor, uint64_t below, uint64_t limit,
                      uint64_t *object, uint64_t *page, store_lsn_t *lsn)
{
    uint32_t n = store->extent_pages;
    if (!store->pages_dirty)
        return -ENOENT;
    for (uint64_t i = *cursor / n; i < store->super.extents; i++) {
        if (!limit--) {
            *cursor = i * n;
            return -EAGAIN;
        }
        const struct extent *e = &store->extents[i];
        uint32_t first = i == *cursor / n ? (uint32_t)(*cursor % n) : 0;
        for (uint32_t p = first; e->dirty >> p; p++) {
            if (BUG(BUG_DIRTY_FIRST) && p > 0)
                break;
            if (!(e->dirty >> p & 1))
                continue;
            struct leaf_disk *leaf = hash_find(store, e->object, e->index, NULL);
            if (never(!leaf) || le64_get(leaf_lsn(store, leaf)[p]) >= below)
                continue;
            *object = e->object;
            *page = e->index * n + p;
            *lsn = le64_get(leaf_lsn(store, leaf)[p]);
            *cursor = i * n + p + 1;
            return 0;
        }
    }
    return -ENOENT;
}

int store_checkpoint_next(struct store *store, uint64_t *object, uint64_t *page, store_lsn_t *lsn)
{
    struct checkpoint *c = &store->checkpoint;
    if (!c->running || c->sealed)
        return -EINVAL;
    int error = -ENOENT;
    if (c->pages_old)
        error = dirty_find(store, &c->cursor, c->redo_lsn, store->step_pages * VISITS, object, page,
                           lsn);
    if (error == -ENOENT)
        c->cursor = 0;
    return error;
}

int store_dirty_next(struct store *store, uint64_t *cursor, uint64_t *object, uint64_t *page,
                     store_lsn_t *lsn)
{
    return dirty_find(store, cursor, UINT64_MAX, UINT64_MAX, object, page, lsn);
}

/* CRCs of pages that went home since begin, into the copy of one bucket page. */
static void crcs_enter(struct store *store, uint8_t *copy)
{
    uint32_t count = le32_get(((struct bucket_disk *)copy)->count);
    for (uint32_t i = 0; i < count; i++) {
        struct leaf_disk *saved = bucket_leaf(store, copy, i);
        struct leaf_disk *live = hash_find(store, le64_get(saved->object),
                                           le64_get(saved->index), NULL);
        for (uint32_t p = 0; live && p < store->extent_pages; p++)
            if (le64_get(leaf_lsn(store, live)[p]) == le64_get(leaf_lsn(store, saved)[p]) &&
                !BUG(BUG_CRC_ENTER))
                leaf_crc(saved)[p] = leaf_crc(live)[p];
    }
}

/* A part of what is to be copied; true: that was all. */
static bool copies_step(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    const struct map_entry_disk *map = (void *)c->map;
    uint32_t first = c->copy_count, entered = 0, visits = store->step_pages * VISITS;
    for (; c->entered < c->enter_end && entered < store->step_pages; c->entered++, entered++)
        if (le16_get(map[c->numbers[c->entered]].kind) == META_BUCKET)
            crcs_enter(store, c->copies + (size_t)c->entered * BLOCK_BYTES);
    while (c->visited < c->map_pages && visits-- &&
           c->copy_count - first + entered < store->step_pages) {
        if (store->pages[c->visited].bytes)
            checkpoint_freeze(store, c->visited);
        c->visited++;
    }
    uint64_t handled = c->copy_count - first + entered;
    if (handled > store->counters.checkpoint_step_pages)
        store->counters.checkpoint_step_pages = handled;
    return c->entered == c->enter_end && c->visited == c->map_pages;
}

static int super_next(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    const struct checkpoint_info *newest = &store->super.checkpoints[store->super.checkpoint_index];
    c->next = store->super;
    c->next.generation++;
    c->next.checkpoint_index = c->area;
    c->next.flags = c->clean ? FLAG_CLEAN : 0;
    c->next.end_lsn = store->end_lsn;
    c->next.checkpoints[c->area] = (struct checkpoint_info){
        .redo_lsn = c->redo_lsn, .prev_crc = c->prev_crc, .pages = c->map_pages,
        .scan_lsn = c->scan_lsn, .scan_crc = c->scan_crc, .sequence = newest->sequence + 1,
    };
    if (!c->recovery || BUG(BUG_NO_EPOCH))
        return 0;
    return epoch_begin(&c->next, epoch_next(store), store->end_lsn, newest->scan_lsn);
}

int store_checkpoint_seal(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    int fence = fence_get(store);
    if (fence)
        return fence;
    if (!c->running || c->sealed)
        return -EINVAL;
    if (c->pages_old && !BUG(BUG_CHECKPOINT_DIRTY) && !BUG(BUG_DIRTY_FIRST))
        return -EBUSY;
    if (!c->homes_done)
        c->enter_end = c->copy_count;   /* later copies have all CRCs */
    c->homes_done = true;
    if (BUG(BUG_NO_FREEZE))
        meta_header_encode(store, c->redo_lsn);
    if (!copies_step(store))
        return -EAGAIN;
    int error = super_next(store);
    c->sealed = !error;
    return error;
}

/* For callers who have the store to themselves. */
int checkpoint_seal_all(struct store *store)
{
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    return error;
}

/* Without the mutex: commits no longer reach copies and map. */
static void crcs_make(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    struct map_entry_disk *map = (void *)c->map;
    const uint8_t *uuid = store->super.uuid;
    for (uint32_t i = 0; i < c->copy_count; i++)
        store->page_crcs[c->numbers[i]] = crc32c(crc_seed(uuid, CRC_META, c->numbers[i], 0),
                                                 c->copies + (size_t)i * BLOCK_BYTES, BLOCK_BYTES);
    for (uint32_t i = 0; i < c->map_pages; i++)
        if (le16_get(map[i].kind) != META_FREE)
            map[i].crc = le32_of(store->page_crcs[i]);
    c->next.checkpoints[c->area].root_crc = crc32c(crc_seed(uuid, CRC_MAP, c->redo_lsn, 0), c->map,
                                                   c->map_used_bytes);
}

/* Neighbouring pages in one write. */
static int area_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    int error = 0;
    for (uint32_t i = 0, n; i < c->copy_count && !error; i += n) {
        for (n = 1; i + n < c->copy_count && c->numbers[i + n] == c->numbers[i] + n; n++)
            ;
        if (BUG(BUG_AREA_LAST) && i && i + n == c->copy_count)
            break;
        error = store->io.write(store->io.context,
                                area_page_offset(&store->super, c->area, c->numbers[i]),
                                c->copies + (size_t)i * BLOCK_BYTES, (size_t)n * BLOCK_BYTES);
    }
    if (!error)
        error = store->io.write(store->io.context, store->super.area_start[c->area], c->map,
                                c->map_used_bytes);
    return error;
}

int store_checkpoint_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    uint8_t *block = c->map + c->map_used_bytes;
    int error = fence_get(store);
    if (!c->running || !c->sealed || c->done)
        return -EINVAL;
    crcs_make(store);
    if (!error && BUG(BUG_SUPERBLOCK_FIRST))
        error = superblock_write(&store->io, &c->next, block);
    if (!error)
        error = area_write(store);
    if (!error && !BUG(BUG_NO_FLUSH) && !BUG(BUG_SUPERBLOCK_FIRST) &&
        !(BUG(BUG_RECOVERY_ORDER) && c->recovery))
        error = store->io.flush(store->io.context);
    if (!error && !BUG(BUG_SUPERBLOCK_FIRST))
        error = superblock_write(&store->io, &c->next, block);
    if (!error && !BUG(BUG_RELEASE_EARLY))
        error = store->io.flush(store->io.context);
    if (error && !BUG(BUG_CHECKPOINT_FENCE))
        fence_set(store, error);
    c->error = error;
    c->done = true;
    return error;
}

/* The superblock is durable: what only the one before needed is free. */
static void superblock_settled(struct store *store)
{
    uint32_t newest = store->super.checkpoint_index;
    uint64_t older = store->super.checkpoints[!newest].scan_lsn;
    bool needed = older && !BUG(BUG_TRUNCATE_EARLY) && !BUG(BUG_KEEP_NEWER);
    store->keep_lsn = needed ? older : store->super.checkpoints[newest].scan_lsn;       /* C3 */
    extents_recycle(store);
}

int store_checkpoint_apply(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    if (!c->running || !c->done)
        return -EINVAL;
    int error = c->error;
    if (!error) {
        store->super = c->next;
        store->epoch = c->next.epochs[c->next.epoch_count - 1].epoch;
        superblock_settled(store);
        if (store->durable_lsn < c->redo_lsn)   /* the flushes covered SPILL groups, too */
            store->durable_lsn = c->redo_lsn;
        store->counters.checkpoints++;
    }
    checkpoint_drop(store);
    return error;
}

uint64_t store_checkpoint_age(const struct store *store)
{
    uint64_t time = now(store);
    return store->applied_lsn > store->redo_lsn && time > store->checkpoint_us
               ? time - store->checkpoint_us : 0;
}

int store_should_checkpoint(const struct store *store)
{
    uint64_t quarter = store->super.log_bytes / 4, free = store_log_free(store);
    bool nothing = store->end_lsn == store->keep_lsn;   /* then no freed extent waits, either */
    if (store->checkpoint.running || nothing || fence_get(store))
        return 0;
    if (free < quarter || (store->freed_extents && store->free_extents < store->super.extents / 32))
        return 2;
    return store->end_lsn - store->redo_lsn >= quarter;
}
