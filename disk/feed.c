/*
 * feed.c - the home's side of a copy: what it tells of its log, and groups read back for a copy
 * that lacks them.
 */
#include "internal.h"

_Static_assert(STORE_EPOCHS == EPOCH_MAX, "a table fits");

void store_epochs_tell(const struct store *store, struct store_epochs *out)
{
    memset(out, 0, sizeof *out);
    out->count = store->super.epoch_count;
    memcpy(out->of, store->super.epochs, out->count * sizeof *out->of);
}

bool epochs_decode(const struct store_epochs *in, struct superblock *super)
{
    super->epoch_count = in->count;
    memcpy(super->epochs, in->of, sizeof in->of);
    return epochs_valid(super);
}

/* next_change returns the next LSN at which the table of epochs changes, or `end`: up to there it
 * says the same of all. */
static uint64_t next_change(const struct superblock *super, uint64_t lsn, uint64_t end)
{
    for (uint32_t i = super->epoch_count; i-- > 0;)
        if (super->epochs[i].first_lsn > lsn)
            end = MIN(end, super->epochs[i].first_lsn);
    return end;
}

/* epochs_common compares two tables; of what one of them has forgotten nothing is known. */
uint64_t epochs_common(const struct superblock *a, const struct superblock *b, uint64_t end)
{
    uint64_t lsn = MAX(a->epochs[0].first_lsn, b->epochs[0].first_lsn);
    while (lsn < end && epoch_at(a, lsn) == epoch_at(b, lsn))
        lsn = MIN(next_change(a, lsn, end), next_change(b, lsn, end));
    return MIN(lsn, end);
}

void store_mark_tell(const struct store *store, struct store_mark *out)
{
    const struct checkpoint *c = &store->checkpoint;
    uint32_t newest = store->super.checkpoint_index;
    const struct checkpoint_info *info = &store->super.checkpoints[newest];
    const struct checkpoint_info *older = &store->super.checkpoints[!newest];
    const struct checkpoint_info *kept = c->running || !older->scan_lsn ? info : older;
    if (c->running)
        info = &c->info;
    *out = (struct store_mark){ .redo_lsn = info->redo_lsn, .pages_lsn = info->pages_lsn,
                                .scan_lsn = info->scan_lsn, .keep_lsn = kept->scan_lsn,
                                .pages_crc = info->pages_crc, .scan_crc = info->scan_crc };
}

const void *store_group_sealed_bytes(const struct store_group *group, size_t *bytes)
{
    *bytes = group->bytes;
    return group->buffer;
}

size_t store_group_sealed_used(const struct store_group *group) { return group->used; }

bool group_loads(const uint8_t *group)
{
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    while (record_next(&walk, &record) > 0)
        if (le16_get(record->type) == RECORD_PAGE_HOME)
            return true;
    return false;
}

/* ---- groups read back */

struct feed_reader {
    struct log_reader log;
    struct store_hold hold;
};

static int feed_open(struct store *store, struct store_feed *feed)
{
    feed->reader = store_alloc(store, sizeof *feed->reader);
    if (!feed->reader)
        return -ENOMEM;
    return log_reader_open(&feed->reader->log, store, READ_AHEAD_BYTES) ?:
           store_hold_begin(store, &feed->reader->hold, "a spare", false);
}

static int feed_next(struct store *store, struct store_feed *feed, const void **group,
                     size_t *bytes)
{
    struct store_hold *hold = &feed->reader->hold;
    const uint8_t *found;
    if (hold->expired || feed->lsn < store->log.keep)
        return -ESTALE;
    if (feed->lsn >= store->log.applied)
        return 0;
    int error = log_next(&feed->reader->log, &feed->lsn, &feed->prev_crc, &found);
    if (error <= 0)
        return error ?: -EIO;           /* a group is there */
    *group = found;
    *bytes = group_bytes(found);
    if (feed->lsn > hold->lsn) {        /* HL3 */
        hold->lsn = feed->lsn;
        hold->prev_crc = feed->prev_crc;
    }
    return 1;
}

/* common_of tells where the two logs part. */
static uint64_t common_of(const struct store *store, const struct superblock *copy, uint64_t end)
{
    return epochs_common(&store->super, copy, MIN(end, store->log.applied));
}

int store_feed_begin(struct store *store, struct store_feed *feed, const struct store_epochs *copy,
                     store_lsn_t end_lsn)
{
    struct superblock theirs;
    memset(feed, 0, sizeof *feed);
    int error = fence_get(store);
    if (!error && !epochs_decode(copy, &theirs))
        error = -ESTALE;
    error = error ?: feed_open(store, feed);
    if (error)
        return error;
    uint32_t newest = store->super.checkpoint_index;
    const struct checkpoint_info *from = &store->super.checkpoints[newest];
    const struct checkpoint_info *older = &store->super.checkpoints[!newest];
    feed->common_lsn = common_of(store, &theirs, end_lsn);
    if (feed->common_lsn < from->scan_lsn && older->redo_lsn &&
        older->scan_lsn >= store->log.keep)
        from = older;
    feed->lsn = from->scan_lsn;
    feed->prev_crc = from->scan_crc;
    return feed->lsn <= feed->common_lsn ? 0 : -ESTALE;
}

bool store_feed_is(const struct store *store, const struct store_feed *feed,
                   const struct store_epochs *copy, store_lsn_t end_lsn)
{
    struct superblock theirs;
    return epochs_decode(copy, &theirs) && common_of(store, &theirs, end_lsn) == feed->common_lsn;
}

int store_feed_seek(struct store *store, struct store_feed *feed, size_t most)
{
    const void *group;
    size_t bytes, passed = 0;
    int error = fence_get(store);
    feed->reader->log.filled = 0;       /* what lies behind it may be of another lap by now */
    while (!error && feed->lsn < feed->common_lsn && passed < most) {
        int found = feed_next(store, feed, &group, &bytes);
        error = found < 0 ? found : 0;
        passed += found > 0 ? bytes : most;
    }
    if (error || feed->lsn < feed->common_lsn)
        return error ?: feed->lsn < store->log.applied ? 1 : -EIO;
    return feed->lsn == feed->common_lsn ? 0 : -ESTALE;
}

int store_feed_next(struct store *store, struct store_feed *feed, const void **group, size_t *bytes)
{
    feed->reader->log.filled = 0;       /* as above */
    int found = fence_get(store) ?: feed_next(store, feed, group, bytes);
    return found > 0 && group_loads(*group) ? -ESTALE : found;
}

void store_feed_end(struct store *store, struct store_feed *feed)
{
    if (feed->reader) {
        store_hold_end(store, &feed->reader->hold);
        log_reader_close(&feed->reader->log);
    }
    store_release(store, feed->reader, sizeof *feed->reader);
    memset(feed, 0, sizeof *feed);
}
