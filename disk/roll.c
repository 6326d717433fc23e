/*
 * roll.c - recovery that goes on behind the end of its log, with groups from an archive.
 *
 * A copy of a store (backup.c) holds the log up to some group; an archive has the groups behind it.
 * They are replayed one after the other as if they lay in the ring, and each is put into its place
 * there, too, for later ones may name images in it. So one recovery leads from the copy to any
 * transaction since; what memory cannot hold goes home meanwhile (image.c).
 *
 * Invariants
 *   RL1  Each group is that which followed the one before: by LSN, by the CRC of the one before,
 *       by its own CRC, and of no older epoch. A hole ends in an error, never in another history.
 *   RL2  What is applied are whole transactions: all up to the one that was asked for, none behind.
 *   RL3  The store begins a new life: another uuid seeds all that is written from now on, so
 *       nothing of the old one's log, areas or archive is taken for its own, nor the reverse.
 *   RL4  Pages that a load brought home past the log come from the archive beside it, when the
 *       record that names them is met, and have the CRC that it says.
 */
#include "internal.h"

static int refuse(struct store_report *report, const char *message)
{
    report->message = message;
    return -EUCLEAN;
}

static int group_roll(struct store *store, struct store_roll *roll, const uint8_t *group,
                      size_t bytes)
{
    const struct group_disk *header = (const void *)group;
    if (!log_group_follows(store, group, bytes) ||
        le32_get(header->epoch) + 1 < epoch_next(store))
        return -EUCLEAN;                                                        /* RL1 */
    uint64_t lsn = le64_get(header->lsn);
    int error = io_write(&store->io, ring_offset(store, lsn), group, bytes) ?:
                records_apply(store, group, lsn, &roll->transactions);
    if (error)
        return error;
    store->log.epoch_seen = le32_get(header->epoch);
    store->log.end = store->log.applied = store->log.durable = lsn + bytes;
    store->log.crc = store->log.applied_crc = le32_get(header->crc);
    roll->groups++;
    seen_forget(store, lsn);
    return 0;
}

int roll_forward(struct store *store, struct store_roll *roll, struct store_report *report)
{
    store->replay.rolling = true;
    if (report->older_checkpoint || report->slot_bad[0] || report->slot_bad[1])
        return refuse(report, "the copy is damaged");
    if (roll->to_csn && roll->to_csn < store->log.end)
        return refuse(report, "the copy is newer than what it is to be rolled forward to");
    int error = 0, found = 1;
    while (!error && found > 0 && !roll->reached) {
        const void *group;
        size_t bytes;
        roll->reached = roll->to_csn && store->log.end >= roll->to_csn;
        found = roll->reached ? 0 : roll->next(roll->context, store->log.end, &group, &bytes);
        error = found > 0 ? group_roll(store, roll, group, bytes) : 0;
    }
    report->end_lsn = store->log.end;
    if (error == -ENODATA)
        return refuse(report, "the archive has not got the pages of a load (ps_bulk), which are in "
                              "no log; restore from a copy that was made after it");
    if (error == -EUCLEAN || error == -ENOSPC)
        return refuse(report, "a group of the archive does not follow what was restored so far");
    return error ?: found < 0 ? found : 0;
}

int roll_load(struct store *store, uint64_t csn, uint64_t offset, const le32 *crc, uint32_t count)
{
    struct store_roll *roll = store->replay.roll;
    uint8_t *page = meta_block(store);
    int error = roll->page ? homes_begin(store) : -ENODATA;
    if (roll->load_csn != csn)
        roll->load_pages = 0;
    roll->load_csn = csn;
    for (uint32_t p = 0; p < count && !error; p++) {
        error = roll->page(roll->context, csn, roll->load_pages++, page);
        if (!error && crc32c(0, page, BLOCK_BYTES) != le32_get(crc[p]))                 /* RL4 */
            error = -ENODATA;
        if (!error)
            error = io_write(&store->io, offset + (uint64_t)p * BLOCK_BYTES, page, BLOCK_BYTES);
    }
    return error;
}

bool roll_stops(struct store *store, const struct record_disk *commit, uint64_t csn)
{
    struct store_roll *roll = store->replay.roll;
    uint64_t time = le64_get(commit->base);
    if (!roll || !store->replay.rolling)
        return false;
    if ((roll->to_csn && csn > roll->to_csn) || (roll->to_time && time > roll->to_time))
        roll->reached = true;                                                   /* RL2 */
    if (!roll->reached) {
        roll->last_csn = csn;
        roll->last_time = time ? time : roll->last_time;
    }
    return roll->reached;
}

/* roll_end gives the store its new uuid: all metadata is written anew, the signpost at once. */
int roll_end(struct store *store, const uint8_t uuid[16])
{
    struct signpost_disk *post = meta_block(store);
    memcpy(store->super.uuid, uuid, sizeof store->super.uuid);                  /* RL3 */
    meta_differs(store);
    signpost_encode(&store->super, store->super.slot_b_offset, post);
    return io_write(&store->io, SIGNPOST_OFFSET, post, BLOCK_BYTES);
}
