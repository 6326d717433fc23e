/*
 * hold.c - holds on the log: who needs it from some LSN on, beside the two checkpoints.
 *
 * A running chain has one from its first group on, a backup one from the scan LSN of the checkpoint
 * that it copies. A checkpoint scans from the oldest hold, and so the log is kept (CP3), also by a
 * recovery. Nothing of a hold is on the disk: it ends with the store in memory at the latest.
 *
 * Invariants
 *   HL1  keep_lsn is at or below each hold that has not expired.
 *   HL2  A hold older than half the log expires when a checkpoint begins. So holds never keep more
 *       than that, and no commit waits for a holder: the holder must begin anew, or give up. But
 *       one that stays is ended and moved by its owner alone, whoever waits.
 *   HL4  What stays is never overwritten: keep_lsn does not pass it, so a log that is full of it
 *       takes no group (LG3).
 *   HL3  The LSN of a hold is where a group begins, and the CRC is that of the group before it.
 */
#include "internal.h"

void hold_enter(struct store *store, struct store_hold *hold, uint64_t lsn, uint32_t prev_crc)
{
    assert(lsn >= store->log.keep);                                             /* HL1 */
    *hold = (struct store_hold){ .next = store->holds, .lsn = lsn, .prev_crc = prev_crc,
                                 .stays = hold->stays };
    store->holds = hold;
}

void holds_tell(const struct store *store, struct store_stats *out)
{
    const struct store_hold *oldest = NULL;
    for (const struct store_hold *hold = store->holds; hold; hold = hold->next) {
        out->holds++;
        if (!hold->expired && (!oldest || hold->lsn < oldest->lsn))
            oldest = hold;
    }
    out->hold_owner = oldest ? oldest->owner ?: "a large transaction" : NULL;
}

void store_hold_end(struct store *store, struct store_hold *hold)
{
    struct store_hold **at = &store->holds;
    while (*at && *at != hold)
        at = &(*at)->next;
    if (*at)
        *at = hold->next;
}

/* hold_too_old: a hold may span half the log; less if a group found no room, for the largest one
 * and what it may skip at the ring's end must fit beside what is held. */
bool hold_too_old(const struct store *store, const struct store_hold *hold, uint64_t end_lsn)
{
    uint64_t half = store->super.log_bytes / 2, rest = store->super.log_bytes;
    rest = rest > 2 * store->group_bytes ? rest - 2 * store->group_bytes : 0;
    return hold->lsn && end_lsn - hold->lsn > (store->log.short_of ? MIN(half, rest) : half);
}

/* holds_oldest moves the scan's begin back to the oldest hold: it must meet all that is held. */
void holds_oldest(const struct store *store, struct checkpoint_info *info)
{
    for (const struct store_hold *hold = store->holds; hold; hold = hold->next)
        if (!hold->expired && hold->lsn < info->scan_lsn) {
            info->scan_lsn = hold->lsn;
            info->scan_crc = hold->prev_crc;
        }
}

/* holds_scan_from lets old holds expire as a checkpoint begins, which scans from the others. */
void holds_scan_from(struct store *store, struct checkpoint *c)
{
    for (struct store_hold *hold = store->holds; hold; hold = hold->next) {
        hold->areas |= (uint8_t)(1u << c->area);
        if (!hold->stays && !hold->expired && hold_too_old(store, hold, store->log.end)) {
            hold->expired = true;                                               /* HL2 */
            store->counters.holds_expired++;
            store->counters.expired_owner = hold->owner ?: "a large transaction";
        }
    }
    holds_oldest(store, &c->info);
    store->log.short_of = false;
}

/* store_hold_begin also makes a running checkpoint, which will be the newest, keep that log. */
int store_hold_begin(struct store *store, struct store_hold *hold, const char *owner, bool stays)
{
    const struct checkpoint_info *newest = &store->super.checkpoints[store->super.checkpoint_index];
    struct checkpoint *c = &store->checkpoint;
    uint32_t count = 0;
    int error = fence_get(store);
    for (const struct store_hold *other = store->holds; other; other = other->next)
        count += other->owner != NULL;
    if (error || count >= STORE_HOLDS_MAX)
        return error ?: -ENOSPC;
    if (c->sealed)                              /* the superblock is made */
        return -EBUSY;
    hold_enter(store, hold, newest->scan_lsn, newest->scan_crc);
    hold->owner = owner;
    hold->stays = stays;
    if (c->running) {
        hold->areas = (uint8_t)(1u << c->area);
        c->info.scan_lsn = hold->lsn;                                           /* HL1 */
        c->info.scan_crc = hold->prev_crc;
    }
    return 0;
}

int store_hold_move(struct store *store, struct store_hold *hold)
{
    if (hold->expired || !hold->lsn)
        return -EINVAL;
    hold->lsn = store->log.applied;                                             /* HL3 */
    hold->prev_crc = store->log.applied_crc;
    return 0;
}
