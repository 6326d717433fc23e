/*
 * checkpoint.c - saves the metadata, so that the log before a redo LSN is needed no longer.
 *
 * Ping-pong: the metadata goes to the area that the superblock does not name. Fuzzy: commits go on
 * meanwhile; what they change is newer than the redo LSN and not saved. The chapter has the steps.
 *
 * Invariants
 *   CP1  What is saved is the metadata exactly at the redo LSN: operations are not idempotent, so
 *       replay needs an exact base. Only CRCs of pages without a later record are newer.
 *   CP2  Nothing that the superblock on disk needs is overwritten before the new one is flushed. If
 *       it is known that the newest area has rotted, that is the older area and its log: the newest
 *       one is written over.
 *   CP3  The log is kept from the scan LSN of the older of the two checkpoints, so that either
 *       recovers to the same state (ST19, ST20).
 *   CP4  A metadata page that changes before its turn is kept as it was (meta_touch). If there is
 *       no memory for that, the change is made and the checkpoint given up: applying a commit
 *       cannot fail. When no log is left nobody commits, and the checkpoint needs none.
 *   CP5  No call under the mutex handles more than step_pages metadata pages, nor walks over all
 *       extents: what is old and dirty is counted, and freed extents carry a serial number.
 *   CP6  An entry of store->map describes what is in the area that is being written, once its page
 *       has had its turn or is kept. `saved` tells one version of a page's bytes from another.
 *   CP7  Both slots name the area that is not written, durably, before the first part is (SB4). The
 *       last checkpoint's twin has no flush of its own: a commit's since then covers it, else the
 *       first part's write begins with one.
 *   CP8  Nor is it written before the log up to the redo LSN is durable. So what a checkpoint that
 *       is cut off leaves there the log changes again (other_compare), also behind lazy commits.
 */
#include "internal.h"

#define VISITS 64u              /* page numbers or extents looked at for one copy */

/* checkpoint_drop frees what a checkpoint holds, and ends it. */
void checkpoint_drop(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    for (; c->visited < c->info.pages; c->visited++) {
        store_release(store, store->pages[c->visited].kept, BLOCK_BYTES);
        store->pages[c->visited].kept = NULL;
    }
    memset(c, 0, sizeof *c);
}

/* entry_make fills the page's entry of the map. True: the area does not hold it as it is now. */
static bool entry_make(struct store *store, uint32_t number)
{
    struct meta_page *page = &store->pages[number];
    struct map_entry_disk *entry = &store->map[number];
    uint8_t bit = (uint8_t)(1u << store->checkpoint.area);
    page->serial = store->checkpoint_serial;
    if (!page->bytes) {
        memset(entry, 0, sizeof *entry);
        return false;
    }
    entry->kind = le16_of(page->kind);
    entry->index = le32_of(page->index);
    entry->chain = le16_of(page->kind == META_BUCKET ? page->place : 0);
    if (page->dirty == 3 || !le32_get(entry->saved))
        entry->saved = le32_of(
            (uint32_t)store->super.checkpoints[store->super.checkpoint_index].sequence + 1);
    if (!(page->dirty & bit))
        return false;
    meta_dirty_set(store, number, page->dirty & (uint8_t)~bit);
    return true;
}

/* checkpoint_freeze keeps what is in a page that is about to change, or whose number is to be used,
 * if a checkpoint still needs that (CP4). */
void checkpoint_freeze(struct store *store, uint32_t number)
{
    struct checkpoint *c = &store->checkpoint;
    struct meta_page *page = &store->pages[number];
    if (!c->running || number >= c->info.pages || page->serial == store->checkpoint_serial ||
        !entry_make(store, number))
        return;
    assert(!page->kept);                                                        /* CP4 */
    page->kept = store->memory.alloc(store->memory.context, BLOCK_BYTES);
    if (page->kept)
        memcpy(page->kept, page->bytes, BLOCK_BYTES);
    else
        c->short_of_memory = true;
}

/* area_choose returns the area of the next checkpoint (CP2). */
static uint32_t area_choose(const struct store *store)
{
    uint32_t newest = store->super.checkpoint_index;
    const struct checkpoint_info *older = &store->super.checkpoints[!newest];
    return store->area_rotten && older->scan_lsn >= store->log.keep ? newest : !newest;
}

void checkpoint_begin_at(struct store *store, uint64_t redo_lsn, uint32_t prev_crc)
{
    struct checkpoint *c = &store->checkpoint;
    assert(redo_lsn >= store->log.applied);                                     /* CP1 */
    assert(groups_idle(store));                                                 /* CP1 */
    memset(c, 0, sizeof *c);
    c->area = area_choose(store);
    c->info = (struct checkpoint_info){ .scan_lsn = redo_lsn, .scan_crc = prev_crc };
    bool home = !sweep_end(store, &c->info);
    c->info.redo_lsn = redo_lsn;
    c->info.prev_crc = prev_crc;
    c->info.pages = store->numbers.limit;
    holds_scan_from(store, c);
    meta_header_encode(store, redo_lsn);
    store->checkpoint_serial++;
    c->home_below = home ? redo_lsn : 0;
    c->pages_old = home ? store->space.dirty : 0;
    c->flush_first = (store->log.twin && store->log.durable <= store->log.twin) ||      /* CP7 */
                     store->log.durable < redo_lsn;                                     /* CP8 */
    c->running = true;
    store->log.redo = pages_begin_lsn(&c->info);
    extents_age(store);
}

int store_checkpoint_begin(struct store *store)
{
    int error = fence_get(store) ?: store->checkpoint.running || !groups_idle(store) ? -EBUSY : 0;
    if (!error)
        checkpoint_begin_at(store, store->log.applied, store->log.applied_crc);
    return error;
}

/* dirty_find finds the next dirty page at or after *cursor (extent * pages + page) whose LSN is
 * below `below`. -EAGAIN: none in `limit` extents, *cursor is behind them. */
static int dirty_find(struct store *store, uint64_t *cursor, uint64_t below, uint64_t limit,
                      uint64_t *object, uint64_t *page, store_lsn_t *lsn)
{
    uint32_t n = store->extent_pages;
    if (!store->space.dirty)
        return -ENOENT;
    for (uint64_t i = *cursor / n; i < store->space.top; i++) {
        if (!limit--) {
            *cursor = i * n;
            return -EAGAIN;
        }
        const struct extent *e = &store->extents[i];
        uint32_t first = i == *cursor / n ? (uint32_t)(*cursor % n) : 0;
        for (uint32_t p = first; e->dirty >> p; p++) {
            if (!(e->dirty >> p & 1))
                continue;
            struct leaf_disk *leaf = extent_leaf(store, e, NULL);
            if (never(!leaf) || le64_get(leaf_lsn(store, leaf)[p]) >= below)
                continue;
            *object = le64_get(leaf->object);
            *page = (uint64_t)e->index * n + p;
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
    int error = !c->pages_old ? -ENOENT :
                dirty_find(store, &c->cursor, c->home_below, store->step_pages * VISITS, object,
                           page, lsn);
    if (error == -ENOENT)
        c->cursor = 0;
    return error;
}

int store_dirty_next(struct store *store, uint64_t *cursor, uint64_t *object, uint64_t *page,
                     store_lsn_t *lsn)
{
    return dirty_find(store, cursor, UINT64_MAX, UINT64_MAX, object, page, lsn);
}

/* crcs_enter enters CRCs of pages that went home since begin into the copy of one bucket page. */
static void crcs_enter(struct store *store, uint8_t *copy)
{
    uint32_t count = le32_get(((struct bucket_disk *)copy)->count);
    for (uint32_t i = 0; i < count; i++) {
        struct leaf_disk *saved = bucket_leaf(store, copy, i);
        struct leaf_disk *live = hash_find(store, le64_get(saved->object),
                                           le64_get(saved->index), NULL);
        for (uint32_t p = 0; live && p < store->extent_pages; p++)
            if (le64_get(leaf_lsn(store, live)[p]) == le64_get(leaf_lsn(store, saved)[p]))
                leaf_crc(saved)[p] = leaf_crc(live)[p];
    }
}

/* page_turn gives a metadata page its turn: if it is to be saved, it goes into the part. */
static void page_turn(struct store *store, uint32_t number)
{
    struct checkpoint *c = &store->checkpoint;
    struct meta_page *page = &store->pages[number];
    uint8_t *copy = store->part + (size_t)c->part_count * BLOCK_BYTES;
    if (page->kept) {
        assert(page->serial == store->checkpoint_serial);                       /* CP6 */
        memcpy(copy, page->kept, BLOCK_BYTES);
        if (le16_get(store->map[number].kind) == META_BUCKET)
            crcs_enter(store, copy);
        store_release(store, page->kept, BLOCK_BYTES);
        page->kept = NULL;
    } else if (page->serial != store->checkpoint_serial && entry_make(store, number)) {
        memcpy(copy, page->bytes, BLOCK_BYTES);
    } else {
        return;
    }
    store->part_numbers[c->part_count++] = number;
}

/* part_make makes the next part of what is to be saved; true: that was all. */
static bool part_make(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    uint32_t visits = store->step_pages * VISITS;
    while (c->visited < c->info.pages && visits-- && c->part_count < store->step_pages)
        page_turn(store, c->visited++);
    assert(c->part_count <= PART_PAGES);                                        /* CP5 */
    store->counters.checkpoint_step_pages =
        MAX(store->counters.checkpoint_step_pages, c->part_count);
    return c->visited == c->info.pages;
}

/* seal ends the map, with zeros to the end of its last block, and makes the superblock. */
static int seal(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    size_t used = c->info.pages * sizeof *store->map;
    memset((uint8_t *)store->map + used, 0, area_map_bytes(c->info.pages) - used);
    const struct checkpoint_info *newest = &store->super.checkpoints[store->super.checkpoint_index];
    c->next = store->super;
    c->next.generation++;
    c->next.checkpoint_index = c->area;
    bool spare = store->replay.on;      /* a spare goes on as a copy */
    c->next.flags = c->clean ? FLAG_CLEAN : spare ? store->super.flags & FLAG_COPY : 0;
    c->next.end_lsn = store->log.end;
    if (c->next.format < FORMAT_VERSION || (store->replay.roll && c->recovery))
        /* what the other area holds is of that format, or of the life before */
        c->next.checkpoints[!c->area] = (struct checkpoint_info){ .sequence = newest->sequence };
    c->next.format = FORMAT_VERSION;
    c->info.sequence = newest->sequence + 1;
    c->next.checkpoints[c->area] = c->info;
    int error = c->recovery ? epoch_begin(&c->next, epoch_next(store), store->log.end,
                                          newest->scan_lsn) : 0;
    c->sealed = !error;
    return error;
}

int store_checkpoint_seal(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    int error = fence_get(store) ?: !c->running || c->sealed || c->part_count ? -EINVAL : 0;
    if (!error && c->short_of_memory) {
        checkpoint_drop(store);
        return -ENOMEM;
    }
    return error ?: c->pages_old ? -EBUSY : part_make(store) ? seal(store) : -EAGAIN;
}

int checkpoint_finish(struct store *store)
{
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        if ((error = store_checkpoint_write(store)))
            return error;
    return error ?: store_checkpoint_write(store);
}

/* ---- without the mutex: commits reach neither the part nor entries of pages that had a turn */

/* part_write makes the part's CRCs, then writes neighbouring pages in one write. */
static int part_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    int error = 0;
    assert(c->area != store->super.checkpoint_index || store->area_rotten);     /* CP2 */
    for (uint32_t i = 0; i < c->part_count; i++) {
        uint32_t number = store->part_numbers[i];
        store->map[number].crc = le32_of(meta_crc(&store->super, number,
                                                  store->part + (size_t)i * BLOCK_BYTES));
    }
    for (uint32_t i = 0, n; i < c->part_count && !error; i += n) {
        const uint32_t *run = &store->part_numbers[i];
        for (n = 1; i + n < c->part_count && run[n] == run[0] + n; n++)
            ;
        error = io_write(&store->io, area_page_offset(&store->super, c->area, run[0]),
                           store->part + (size_t)i * BLOCK_BYTES, (size_t)n * BLOCK_BYTES);
    }
    c->part_count = 0;
    return error;
}

/* end_write writes what is behind the last part: the map, and the superblock that names it. */
static int end_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    uint64_t bytes = area_map_bytes(c->info.pages);
    assert(!c->part_count && c->next.generation == store->super.generation + 1);    /* SB1, SB2 */
    c->next.checkpoints[c->area].root_crc = crc32c(map_seed(&c->next, c->area), store->map, bytes);
    int error = io_write(&store->io, store->super.area_start[c->area], store->map, bytes) ?:
                io_flush(&store->io) ?:
                superblock_write(&store->io, &c->next, meta_block(store)) ?:
                io_flush(&store->io);
    bool made = c->next.generation >= GENERATION_MADE;      /* format.c writes slot A last */
    return error ?: made ? superblock_twin(store, &c->next) : 0;
}

int store_checkpoint_write(struct store *store)
{
    struct checkpoint *c = &store->checkpoint;
    if (!c->running || c->done)
        return -EINVAL;
    int error = fence_get(store) ?:
                (c->flush_first ? io_flush(&store->io) : 0) ?:
                part_write(store) ?:
                (c->sealed ? end_write(store) : 0);
    c->flush_first = false;
    if (error)
        fence_set(store, error);
    c->error = error;
    c->done = error || c->sealed;
    return error;
}

/* superblock_settled frees what only the superblock before needed: the new one is durable. */
static void superblock_settled(struct store *store)
{
    uint32_t newest = store->super.checkpoint_index;
    uint64_t older = store->super.checkpoints[!newest].scan_lsn, kept = store->log.keep;
    store->log.keep = older ? older : store->super.checkpoints[newest].scan_lsn;
    assert(store->log.keep >= kept && store->log.keep <= store->log.redo);      /* CP3 */
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
        store->area_rotten = false;
        store->log.twin = store->log.end;
        store->log.epoch = c->next.epochs[c->next.epoch_count - 1].epoch;
        superblock_settled(store);
        store_log_flushed(store, c->info.redo_lsn);  /* the flushes covered SPILL groups, too */
        store->counters.checkpoints++;
    }
    checkpoint_drop(store);
    return error;
}

int store_should_checkpoint(const struct store *store)
{
    uint64_t quarter = store->super.log_bytes / 4, free = store_log_free(store);
    bool nothing = store->log.end == store->log.keep;   /* then no freed extent waits, either */
    if (store->checkpoint.running || nothing || fence_get(store))
        return 0;
    if (free < quarter || (store->space.freed && store->space.free < store->super.extents / 32))
        return 2;
    return store->log.end - store->log.redo >= quarter;
}
