/*
 * checkpoint.c - saves the metadata, so that the log before a redo LSN is needed no longer.
 *
 * Ping-pong: the metadata goes to the area that the superblock does not name. Fuzzy: commits go on
 * meanwhile; what they change is newer than the redo LSN and not in the copies.
 *
 *     begin    the redo LSN is the end of what is applied; changed pages are copied
 *     next     pages older than it, still dirty, are handed out and go home
 *     seal     their CRCs are entered into the copies; the map and the next superblock are made
 *     write    area and homes, flush, superblock, flush
 *     apply    log before the older redo LSN and freed extents may be used again
 *
 * Invariants
 *   C1  The copies are the metadata exactly at the redo LSN: operations are not idempotent, so
 *       replay needs an exact base. Only CRCs of pages without a later record are newer.
 *   C2  Nothing that the superblock on disk needs is overwritten before the new one is flushed.
 *   C3  The log is kept from the scan LSN of the older of the two checkpoints, so that either
 *       recovers to the same state (I19, I20).
 */
#include "internal.h"

/* Frees what a checkpoint holds. */
void checkpoint_drop(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    store_release(store, c->copies, c->copies_bytes);
    store_release(store, c->numbers, c->numbers_bytes);
    store_release(store, c->map, c->map_bytes);
    memset(c, 0, sizeof *c);
}

static int checkpoint_alloc(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    for (uint32_t i = 0; i < store->page_limit; i++) {
        if (store->pages[i].bytes)
            c->map_pages = i + 1;
        c->page_count += store->pages[i].bytes && store->pages[i].dirty >> c->area & 1;
    }
    c->map_used_bytes = area_map_bytes(c->map_pages);
    c->map_bytes = c->map_used_bytes + BLOCK_BYTES;     /* and the superblock's block */
    c->copies_bytes = (size_t)c->page_count * BLOCK_BYTES;
    c->numbers_bytes = c->page_count * sizeof *c->numbers;
    c->map = store_alloc(store, c->map_bytes);
    c->copies = store_alloc(store, c->copies_bytes);
    c->numbers = store_alloc(store, c->numbers_bytes);
    return c->map && c->copies && c->numbers ? 0 : -ENOMEM;
}

static uint32_t chain_place(const struct store *store, uint32_t page)
{
    uint32_t place = 0;
    for (uint32_t at = store->heads[store->pages[page].index]; at != page;
         at = store->pages[at].next)
        place++;
    return place;
}

/* The copies and the map of what is in memory now. */
static void snapshot_take(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    struct map_entry_disk *map = (void *)c->map;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->map_pages; i++) {
        struct meta_page *page = &store->pages[i];
        if (!page->bytes)
            continue;
        map[i].kind = le16_of(page->kind);
        map[i].index = le32_of(page->index);
        map[i].crc = le32_of(page->crc);
        if (page->kind == META_BUCKET)
            map[i].chain = le16_of((uint16_t)(BUG(BUG_CHAIN_PLACE) ? 0 : chain_place(store, i)));
        if (page->dirty >> c->area & 1) {
            memcpy(c->copies + (size_t)n * BLOCK_BYTES, page->bytes, BLOCK_BYTES);
            c->numbers[n++] = i;
            page->dirty &= (uint8_t)~(1u << c->area);
            if (BUG(BUG_AREA_DIRTY))
                page->dirty = 0;
        }
    }
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
    snapshot_take(store);
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

/* The next dirty page at or after *cursor (extent * pages + page) whose LSN is below `below`. */
static int dirty_find(struct store *store, uint64_t *cursor, uint64_t below, uint64_t *object,
                      uint64_t *page, store_lsn_t *lsn)
{
    uint32_t n = store->extent_pages;
    if (!store->pages_dirty)
        return -ENOENT;
    for (uint64_t i = *cursor / n; i < store->super.extents; i++) {
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
    int error = dirty_find(store, &c->cursor, c->redo_lsn, object, page, lsn);
    if (error)
        c->cursor = 0;
    return error;
}

int store_dirty_next(struct store *store, uint64_t *cursor, uint64_t *object, uint64_t *page,
                     store_lsn_t *lsn)
{
    return dirty_find(store, cursor, UINT64_MAX, object, page, lsn);
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

static void copies_finish(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    struct map_entry_disk *map = (void *)c->map;
    if (BUG(BUG_NO_FREEZE))
        meta_header_encode(store, c->redo_lsn);
    for (uint32_t i = 0; i < c->page_count; i++) {
        uint32_t number = c->numbers[i];
        uint8_t *copy = c->copies + (size_t)i * BLOCK_BYTES;
        if (BUG(BUG_NO_FREEZE) && store->pages[number].bytes)
            memcpy(copy, store->pages[number].bytes, BLOCK_BYTES);
        if (le16_get(map[number].kind) == META_BUCKET)
            crcs_enter(store, copy);
        uint32_t crc = crc32c(crc_seed(store->super.uuid, CRC_META, number, 0), copy, BLOCK_BYTES);
        map[number].crc = le32_of(crc);
        store->pages[number].crc = crc;
    }
}

int store_checkpoint_seal(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    uint64_t cursor = 0, object, page;
    store_lsn_t lsn;
    int fence = fence_get(store);
    if (fence)
        return fence;
    if (!c->running || c->sealed)
        return -EINVAL;
    if (!BUG(BUG_CHECKPOINT_DIRTY) &&
        dirty_find(store, &cursor, c->redo_lsn, &object, &page, &lsn) == 0)
        return -EBUSY;
    copies_finish(store);
    c->next = store->super;
    c->next.generation++;
    c->next.checkpoint_index = c->area;
    c->next.flags = c->clean ? FLAG_CLEAN : 0;
    c->next.end_lsn = store->end_lsn;
    c->next.checkpoints[c->area] = (struct checkpoint_info){
        .redo_lsn = c->redo_lsn, .prev_crc = c->prev_crc, .pages = c->map_pages,
        .scan_lsn = c->scan_lsn, .scan_crc = c->scan_crc,
        .sequence = store->super.checkpoints[store->super.checkpoint_index].sequence + 1,
        .root_crc = crc32c(crc_seed(store->super.uuid, CRC_MAP, c->redo_lsn, 0), c->map,
                           c->map_used_bytes),
    };
    if (c->recovery && !BUG(BUG_NO_EPOCH)) {
        uint64_t older = store->super.checkpoints[store->super.checkpoint_index].scan_lsn;
        int error = epoch_begin(&c->next, store->end_lsn, older);
        if (error)
            return error;
    }
    c->sealed = true;
    return 0;
}

/* For callers who have the store to themselves. */
int checkpoint_seal_all(struct store *store)
{
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    return error;
}

/* Neighbouring pages in one write. */
static int area_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    int error = 0;
    for (uint32_t i = 0, n; i < c->page_count && !error; i += n) {
        for (n = 1; i + n < c->page_count && c->numbers[i + n] == c->numbers[i] + n; n++)
            ;
        if (BUG(BUG_AREA_LAST) && i && i + n == c->page_count)
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

int store_checkpoint_apply(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    if (!c->running || !c->done)
        return -EINVAL;
    int error = c->error;
    if (!error) {
        uint64_t older;
        store->super = c->next;
        store->epoch = c->next.epochs[c->next.epoch_count - 1].epoch;
        older = store->super.checkpoints[!store->super.checkpoint_index].scan_lsn;
        store->keep_lsn = older ? older : c->scan_lsn;                  /* C3 */
        if (BUG(BUG_TRUNCATE_EARLY) || BUG(BUG_KEEP_NEWER))
            store->keep_lsn = c->scan_lsn;
        if (store->durable_lsn < c->redo_lsn)   /* the flushes covered SPILL groups, too */
            store->durable_lsn = c->redo_lsn;
        extents_recycle(store);
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
