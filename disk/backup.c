/*
 * backup.c - what of the disk makes a copy of a store at work.
 *
 *     ring     zeros: no group that lay on the copy's disk before may count
 *     round    begins with a checkpoint that began after it was asked for
 *       pages  extents with a page that was committed since the round before; all, in the first
 *     ...      until little has changed. Then the last round, which holds the log:
 *       area   the metadata of that checkpoint; pages, as above; the log behind its scan LSN
 *
 * Homes change while they are copied, and may be copied torn. But a page whose newest record is
 * older than the checkpoint's redo LSN was home before that was durable, and stays as it is; any
 * other one has a full image in the log behind it. So the copy is what a power cut would have left.
 *
 * Invariants
 *   BU1  A page that was not written since a round's redo LSN was home when the round began: it
 *       need not be copied again in later ones.
 *   BU2  The checkpoint of the copy is one whose area nobody began to overwrite before it was
 *       copied, and the log from its scan LSN on is held until it is.
 *   BU3  The superblocks of the copy name this checkpoint only, and the end of the log copied.
 *   BU4  Of each PAGE_HOME record in the log copied the pages were copied after its commit: if one
 *       came while the last round went over the extents, it looks for newer ones once more.
 */
#include "internal.h"

#define VISITS     1024u        /* a call looks at so many extents */
#define ROUNDS_MAX 8u           /* then the last one begins, however much has changed */
#define LOST_MAX   8u

enum phase { RING, ROUND, AREA, PAGES, LOG, DONE };

void store_backup_mark(void *block)
{
    memset(block, 0, BLOCK_BYTES);
    *(le64 *)block = le64_of(UNFINISHED_MAGIC);
}

void store_backup_end(struct store *store, struct store_backup *b)
{
    if (b->held)
        store_hold_end(store, &b->hold);
    b->held = false;
}

/* piece_take takes [start + b->at, start + end), or a part, as the next piece. True: no more. */
static bool piece_take(struct store_backup *b, uint64_t start, uint64_t end)
{
    b->offset = start + b->at;
    b->bytes = (uint32_t)MIN(end - b->at, b->most);
    b->at += b->bytes;
    return !b->bytes;
}

static void phase_begin(struct store_backup *b, enum phase phase, uint64_t at)
{
    b->phase = phase;
    b->at = at;
}

static void pages_begin(const struct store *store, struct store_backup *b, uint64_t from)
{
    b->from = from;
    b->walked = store->log.applied;
    phase_begin(b, PAGES, 0);
}

static int last_round_begin(struct store *store, struct store_backup *b)
{
    struct superblock super = store->super;
    int error = store_hold_begin(store, &b->hold, "a backup", false);
    if (error)
        return error == -EBUSY ? -EAGAIN : error;
    b->held = true;
    b->area = super.checkpoint_index;
    b->map_pages = super.checkpoints[b->area].pages;
    super.flags = 0;
    super.checkpoints[!b->area] =
        (struct checkpoint_info){ .sequence = super.checkpoints[b->area].sequence - 1 };
    for (uint32_t i = 0; i < 2; i++) {
        super.slot = i;
        super.generation = store->super.generation + ((store->super.generation ^ i) & 1);
        superblock_encode(&super, (void *)b->slot[i]);                          /* BU3 */
        b->slot_offset[i] = slot_offset(&super, i);
    }
    signpost_encode(&super, super.slot_b_offset, (void *)b->slot[2]);           /* BU3 */
    b->slot_offset[2] = SIGNPOST_OFFSET;
    phase_begin(b, AREA, 0);
    return 0;
}

static int round_begin(struct store *store, struct store_backup *b)
{
    const struct checkpoint_info *c = &store->super.checkpoints[store->super.checkpoint_index];
    if (!b->wanted)
        b->wanted = c->sequence + 1 + store->checkpoint.running;
    if (c->sequence < b->wanted)
        return -EAGAIN;
    if (!b->rounds)
        b->changed = (store->super.extents - store->space.free) * store->super.extent_bytes;
    bool last = b->changed <= store->super.log_bytes / 4 || b->rounds >= ROUNDS_MAX;
    int error = last ? last_round_begin(store, b) : 0;
    if (error)
        return error;
    if (!last)
        pages_begin(store, b, b->since);
    b->redo_lsn = pages_begin_lsn(c);
    b->wanted = b->changed = 0;
    return 0;
}

/* extent_changed tells whether the extent has a page that was committed at or after b->from. */
static bool extent_changed(struct store *store, const struct store_backup *b, uint64_t extent)
{
    const struct extent *e = &store->extents[extent];
    bool used = extent_state(store, extent) == EXTENT_USED, changed = false;
    struct leaf_disk *leaf = used ? extent_leaf(store, e, NULL) : NULL;
    for (uint32_t p = 0; leaf && p < store->extent_pages; p++)
        changed |= le32_get(leaf->mask) >> p & 1 &&
                   le64_get(leaf_lsn(store, leaf)[p]) >= b->from;
    return changed;
}

/* extents_take takes the next run of changed extents as the piece. True: none is left. */
static bool extents_take(struct store *store, struct store_backup *b)
{
    uint64_t bytes = store->super.extent_bytes;
    for (uint32_t visits = VISITS; b->at < store->space.top && visits--; b->at++) {
        uint64_t offset = extent_offset(store, b->at);
        if (b->bytes && (offset != b->offset + b->bytes || b->bytes + bytes > b->most))
            break;
        if (extent_changed(store, b, b->at)) {
            b->offset = b->bytes ? b->offset : offset;
            b->bytes += (uint32_t)bytes;
        } else if (b->bytes) {
            break;
        }
    }
    b->changed += b->bytes;
    return b->at >= store->space.top && !b->bytes;
}

static void log_begin(struct store *store, struct store_backup *b)
{
    phase_begin(b, LOG, b->hold.lsn);
    b->end_lsn = store->log.applied;
    for (uint32_t i = 0; i < 2; i++) {
        struct superblock_disk *slot = (void *)b->slot[i];
        slot->end_lsn = le64_of(b->end_lsn);
        superblock_seal(slot);
    }
}

static bool log_take(struct store *store, struct store_backup *b)
{
    uint64_t ring = store->super.log_bytes;
    return piece_take(b, ring_offset(store, b->at) - b->at,
                      MIN(b->end_lsn, b->at - b->at % ring + ring));
}

static int phase_next(struct store *store, struct store_backup *b)
{
    const struct superblock *super = &store->super;
    switch (b->phase) {
    case RING:
        b->zeros = !piece_take(b, super->log_start, super->log_bytes);
        if (!b->zeros)
            phase_begin(b, ROUND, 0);
        return 0;
    case ROUND:
        return round_begin(store, b);
    case AREA:
        if (piece_take(b, super->area_start[b->area],
                       area_page_offset(super, b->area, b->map_pages) -
                           super->area_start[b->area]))
            pages_begin(store, b, b->since);
        return 0;
    case PAGES:
        b->homes = true;
        if (!extents_take(store, b))
            return 0;
        if (b->held && store->log.bulk >= b->walked)                            /* BU4 */
            return pages_begin(store, b, b->walked), 0;
        b->rounds++;
        if (b->held)
            return log_begin(store, b), 0;
        phase_begin(b, ROUND, 0);
        b->since = b->redo_lsn;                                                 /* BU1 */
        return 0;
    case LOG:
        if (log_take(store, b))
            phase_begin(b, DONE, 0);
        return 0;
    default:
        return -ENOENT;
    }
}

int store_backup_next(struct store *store, struct store_backup *b)
{
    int error = fence_get(store);
    if (error)
        return error;
    bool area_lost = b->phase == AREA && b->hold.areas >> b->area & 1;
    if (b->held && (area_lost || b->hold.expired)) {                            /* BU2 */
        store_backup_end(store, b);
        if (++b->lost == LOST_MAX)
            return -EBUSY;
        phase_begin(b, ROUND, 0);
    }
    b->bytes = 0;
    b->most = b->most ? MIN(b->most, STORE_BACKUP_BYTES) : STORE_BACKUP_BYTES;
    b->zeros = b->homes = false;
    error = phase_next(store, b);
    if (error == -ENOENT)
        store_backup_end(store, b);
    return error;
}
