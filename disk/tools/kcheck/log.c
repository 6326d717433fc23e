/*
 * log.c - finds the groups of the log, its end, and whether something acknowledged is missing.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

uint32_t klog_epoch(const struct kslot *super, uint64_t lsn)
{
    uint32_t i = super->epoch_count;
    while (i && super->epochs[i - 1].first_lsn > lsn)
        i--;
    return i ? super->epochs[i - 1].epoch : 0;
}

/* The epoch of a group that follows at lsn: the table's, or a newer one than all in it, which began
 * in a superblock that is lost. The table learns it. 1, 0 (no such group follows), -EUCLEAN: it is
 * full. */
static int epoch_follows(struct kslot *super, const struct kgroup *group)
{
    struct kepoch *last = &super->epochs[super->epoch_count - 1];
    if (group->epoch <= last->epoch)
        return group->epoch == klog_epoch(super, group->lsn);
    if (group->lsn < last->first_lsn)
        return 0;
    if (group->lsn > last->first_lsn) {
        if (super->epoch_count == EPOCH_MAX)
            return -EUCLEAN;
        last = &super->epochs[super->epoch_count++];
    }
    *last = (struct kepoch){ group->lsn, group->epoch };
    return 1;
}

/* What a header must be wherever it is found. Nothing else of it is believed yet. */
static bool header_fits(const struct kslot *super, const struct group_disk *h, uint64_t place)
{
    uint64_t bytes = (uint64_t)le32_get(h->blocks) * BLOCK_BYTES;
    return le64_get(h->magic) == GROUP_MAGIC && !memcmp(h->uuid_low.byte, super->uuid, 4) &&
           bytes && bytes <= super->log_bytes - place && bytes <= super->log_bytes / 2 &&
           le32_get(h->payload_bytes) <= bytes - sizeof *h && le32_get(h->epoch) < EPOCH_LIMIT;
}

static void group_describe(const struct group_disk *h, uint64_t offset, struct kgroup *group)
{
    *group = (struct kgroup){
        .lsn = le64_get(h->lsn), .offset = offset,
        .bytes = (uint64_t)le32_get(h->blocks) * BLOCK_BYTES,
        .durable_lsn = le64_get(h->durable_lsn), .first_tag = le64_get(h->first_tag),
        .epoch = le32_get(h->epoch), .prev_crc = le32_get(h->prev_crc),
        .crc = le32_get(h->crc), .records = le32_get(h->records) };
}

/* A block of the ring that cannot be read holds no group. It is told once, if it is not one of very
 * many. */
static int unreadable(struct kview *view, uint64_t offset)
{
    uint32_t most = sizeof view->unreadable / sizeof *view->unreadable, i = 0;
    while (i < view->unreadable_count && view->unreadable[i] != offset)
        i++;
    if (i < view->unreadable_count || i == most)
        return 0;
    view->unreadable[view->unreadable_count++] = offset;
    kview_find(view, KCHECK_WARNING, "ST13",
               "the block of the log's ring at byte %llu cannot be read; it "
               "counts as one that holds no group",
               (unsigned long long)offset);
    return 0;
}

int klog_any(struct kview *view, uint64_t place, struct kgroup *group)
{
    const struct kslot *super = &view->super;
    uint64_t offset = super->log_start + place;
    if (kview_buffer(view, BLOCK_BYTES))
        return -ENOMEM;
    if (kview_read(view, offset, view->buffer, BLOCK_BYTES))
        return unreadable(view, offset);
    if (!header_fits(super, (const void *)view->buffer, place))
        return 0;
    group_describe((const void *)view->buffer, offset, group);
    if (kview_buffer(view, group->bytes))
        return -ENOMEM;
    if (group->bytes > BLOCK_BYTES &&
        kview_read(view, offset + BLOCK_BYTES, view->buffer + BLOCK_BYTES,
                   group->bytes - BLOCK_BYTES))
        return unreadable(view, offset + BLOCK_BYTES);
    const size_t header = sizeof(struct group_disk);
    uint32_t crc = kview_seed(super->uuid, CRC_GROUP, group->lsn, group->epoch);
    crc = kcheck_crc(crc, view->buffer, offsetof(struct group_disk, crc));
    crc = kcheck_crc(crc, view->buffer + header, group->bytes - header);
    return crc == group->crc;
}

int klog_group(struct kview *view, uint64_t lsn, struct kgroup *group)
{
    int found = klog_any(view, lsn % view->super.log_bytes, group);
    return found > 0 && group->lsn != lsn ? 0 : found;
}

/* The group that follows a history which ends at lsn with this CRC. */
static int group_next(struct kview *view, uint64_t lsn, uint32_t prev_crc, struct kgroup *group)
{
    uint64_t ring = view->super.log_bytes, place = lsn % ring;
    for (int try = 0; try < 2; try++) {
        int found = klog_group(view, lsn, group);
        if (found < 0)
            return found;
        int follows = found && group->prev_crc == prev_crc ? epoch_follows(&view->super, group) : 0;
        if (follows)
            return follows;
        if (!place)
            break;
        lsn += ring - place;            /* the writer may have skipped the end of the ring */
        place = 0;
    }
    return 0;
}

/* Before the LSN where the checkpoint's pages begin only SPILL records and what is in doubt matter:
 * where the history breaks off there, it is taken up again, and a commit that needs what was lost
 * will say so, or the count of doubts. */
int klog_follow(struct kview *view, uint32_t checkpoint)
{
    const struct kcheckpoint *from = &view->super.checkpoints[checkpoint];
    uint64_t lsn = from->scan_lsn;
    uint32_t crc = from->scan_crc;
    int found;
    struct kgroup group;
    view->group_count = 0;
    view->log_hole = false;
    for (;;) {
        found = group_next(view, lsn, crc, &group);
        if (found > 0 && group.lsn + group.bytes - from->scan_lsn > view->super.log_bytes)
            found = 0;                  /* more than one lap */
        if (!found && lsn < from->pages_lsn) {
            lsn = from->pages_lsn;
            crc = from->pages_crc;
            view->log_hole = true;
            continue;
        }
        if (found <= 0)
            break;
        if (!karray_room((void **)&view->groups, view->group_count, &view->group_room,
                         sizeof *view->groups))
            return -ENOMEM;
        view->groups[view->group_count++] = group;
        lsn = group.lsn + group.bytes;
        crc = group.crc;
        kview_progress(view, "log", lsn - from->scan_lsn, view->super.log_bytes);
    }
    if (found == -EUCLEAN) {
        view->result.damage_lsn = group.lsn;
        kview_find(view, KCHECK_DAMAGE, "ST14",
                   "the group at LSN %llu is of an epoch for which the "
                   "superblock's table has no room",
                   (unsigned long long)group.lsn);
    }
    view->result.end_lsn = lsn;
    view->last_crc = crc;
    return found < 0 ? found : 0;
}

/* ---- the end: torn, or damage? */

struct beyond { uint64_t proof, count, last; };

/* Valid groups in the lap that begins at the end of the log. proof: the place of the first that
 * shows a loss, because it was written when something at or after the end was acknowledged already;
 * also if it lies where it does not belong. */
static int beyond_look(struct kview *view, uint64_t end, struct beyond *beyond)
{
    const struct kslot *super = &view->super;
    uint32_t newest = super->epochs[super->epoch_count - 1].epoch;
    memset(beyond, 0, sizeof *beyond);
    for (uint64_t lsn = end; lsn < end + super->log_bytes && !beyond->proof; lsn += BLOCK_BYTES) {
        struct kgroup group;
        if ((lsn - end) % (1u << 20) == 0)
            kview_progress(view, "behind the log's end", lsn - end, super->log_bytes);
        int found = klog_any(view, lsn % super->log_bytes, &group);
        if (found < 0)
            return found;
        if (!found || group.epoch < newest)
            continue;
        if (group.durable_lsn > end)
            beyond->proof = lsn;
        if (group.lsn != lsn)
            continue;
        beyond->count++;
        beyond->last = lsn;
    }
    return 0;
}

static bool noted_unreadable(const struct kview *view, uint64_t offset)
{
    for (uint32_t i = 0; i < view->unreadable_count; i++)
        if (view->unreadable[i] == offset)
            return true;
    return false;
}

/* A group may lie at this LSN, and its first block or, if that is one of this history, a later one
 * is unreadable. */
static bool next_unreadable(struct kview *view, uint64_t lsn)
{
    uint64_t place = lsn % view->super.log_bytes, offset = view->super.log_start + place;
    struct kgroup group = { .lsn = 0 };
    struct kslot super = view->super;           /* which learns no epoch of it */
    if (klog_any(view, place, &group) || noted_unreadable(view, offset))
        return noted_unreadable(view, offset);
    return group.lsn == lsn && group.prev_crc == view->last_crc && epoch_follows(&super, &group) &&
           noted_unreadable(view, offset + BLOCK_BYTES);
}

static bool end_unreadable(struct kview *view, uint64_t end)
{
    uint64_t ring = view->super.log_bytes, over = end % ring, left = over ? ring - over : 0;
    bool may_skip = left < ring / 2;            /* a group of half the ring does not fit any more */
    return view->unreadable_count &&
           (next_unreadable(view, end) || (may_skip && next_unreadable(view, end + left)));
}

static void tail_describe(struct kview *view, uint64_t end, const struct beyond *beyond)
{
    struct group_disk header;
    const struct kslot *super = &view->super;
    if (kview_read(view, super->log_start + end % super->log_bytes, view->buffer, BLOCK_BYTES))
        return;
    memcpy(&header, view->buffer, sizeof header);
    view->result.torn_tail = le64_get(header.magic) == GROUP_MAGIC &&
                             le64_get(header.lsn) == end &&
                             le32_get(header.epoch) == klog_epoch(super, end);
    if (view->result.torn_tail)
        kview_find(view, KCHECK_NOTE, "", "the group at LSN %llu was cut off while it was written; "
                   "nothing of it was acknowledged", (unsigned long long)end);
    if (beyond->count > 0)
        kview_find(view, KCHECK_NOTE, "ST15",
                   "%llu groups, the last at LSN %llu, were on their way behind one that is not "
                   "there; they count as not written",
                   (unsigned long long)beyond->count, (unsigned long long)beyond->last);
}

void klog_epochs(struct kview *view)
{
    const struct kslot *super = &view->super;
    const struct kcheck_result *result = &view->result;
    uint64_t keep = super->checkpoints[view->base].scan_lsn,
             other = super->checkpoints[!view->base].scan_lsn;
    bool replays = result->groups && !result->slot_bad[0] && !result->slot_bad[1];
    uint32_t first = 0, last = super->epoch_count - 1;
    if (!replays && other && other < keep && result->end_lsn - other <= super->log_bytes)
        keep = other;                   /* the log of both checkpoints is kept */
    while (first < last && super->epochs[first + 1].first_lsn <= keep)
        first++;
    if (last + 1 - first == EPOCH_MAX && super->epochs[last].first_lsn < result->end_lsn)
        kview_find(view, KCHECK_DAMAGE, "SB5", "the table of epochs is full, for the log is kept "
                   "from LSN %llu on: no start has room for its own, but to read",
                   (unsigned long long)keep);
}

int klog_judge(struct kview *view)
{
    const struct kslot *super = &view->super;
    uint64_t end = view->result.end_lsn, known = super->checkpoints[super->newest].redo_lsn;
    bool clean = super->flags & FLAG_CLEAN;
    /* it may have been newer */
    bool slot_lost = view->result.slot_bad[0] || view->result.slot_bad[1];
    struct beyond beyond = { 0 };
    view->result.was_clean = clean;
    /* flushed before an epoch begins */
    if (super->epochs[super->epoch_count - 1].first_lsn > known)
        known = super->epochs[super->epoch_count - 1].first_lsn;
    if (clean && super->end_lsn > known)
        known = super->end_lsn;
    if (end < known) {
        view->result.damage_lsn = end;
        kview_find(view, KCHECK_DAMAGE, "ST14",
                   "the log ends at LSN %llu, and the superblock knows "
                   "of history up to %llu: what was acknowledged in between is lost",
                   (unsigned long long)end, (unsigned long long)known);
    } else if (!clean || end != super->end_lsn || slot_lost) {
        int error = beyond_look(view, end, &beyond);
        if (error)
            return error;
        bool lost = !beyond.proof && end_unreadable(view, end);
        view->result.damage_lsn = beyond.proof || lost ? end : 0;
        if (lost)
            kview_find(view, KCHECK_DAMAGE, "ST13",
                       "the log ends at LSN %llu, where a block cannot be read: "
                       "what was committed last may lie there",
                       (unsigned long long)end);
        if (beyond.proof)
            kview_find(view, KCHECK_DAMAGE, "ST13", "the log breaks off at LSN %llu, and the group "
                       "at %llu proves that it went on: what was acknowledged from there on is "
                       "lost", (unsigned long long)end, (unsigned long long)beyond.proof);
    }
    if (!view->result.damage_lsn)
        tail_describe(view, end, &beyond);
    return 0;
}
