/*
 * spare.c - a copy that takes the groups of its home: a recovery without an end.
 *
 * Groups are put into the ring as they are. They are applied as a recovery applies them, from the
 * ring, with pages as images in memory (image.c) that go home when there are too many. When the
 * home is gone the rest is applied, and the recovery ends as any: so what a take-over has to do
 * does not grow with the store, nor with its log.
 *
 * Invariants
 *   SE1  A group is taken if it is the next one: its LSN is where the log ends (LG1), it has the
 *       CRC of the one before, its own, and the epoch that the home's table has there.
 *   SE2  What is applied is durable at the home, too, but in a take-over: so no page, and no
 *       metadata, has anything that a later cut takes from the log.
 *   SE3  A cut is durable in both slots before a group is taken, and a new epoch before the first
 *       one of it: what was cut stays dead if either is lost, and no epoch's number is given twice.
 *   SE4  A checkpoint has the redo LSN, and all LSNs before it that a recovery needs, of one that
 *       the home began: of any other the log may have differences from versions before it.
 */
#include "internal.h"

#define MARKS       8u
#define IMAGES      4096u               /* pages in memory, unless the options say otherwise */

struct store_spare {
    struct store *store;
    struct log_reader reader;
    struct scan scan;                   /* of what is applied */
    struct store_report report;
    uint32_t area;
    bool     joined;
    uint64_t sure;                      /* durable at the home (SE2) */
    struct store_mark marks[MARKS];     /* not reached yet, ascending */
    uint32_t mark_count;
    const uint8_t *taking;              /* a group on its way; NULL: none */
    bool     written;
    uint64_t groups, checkpoints;
};

/* ---- open */

static void spare_drop(struct store_spare *spare)
{
    log_reader_close(&spare->reader);
    store_release(spare->store, spare, sizeof *spare);
}

void store_spare_abandon(struct store_spare *spare)
{
    struct store *store = spare ? spare->store : NULL;
    if (spare)
        spare_drop(spare);
    store_abandon(store);
}

static void log_ends(struct store *store, uint64_t lsn, uint32_t crc)
{
    store->log.end = store->log.durable = lsn;
    store->log.crc = crc;
}

/* log_walk walks over the log up to `until`, or its end. */
static int log_walk(struct store_spare *spare, uint64_t until)
{
    int found = 1;
    spare->reader.filled = 0;
    spare->scan = log_scan_begin(&spare->reader, spare->area);
    while (spare->scan.end < until && (found = log_scan_next(&spare->scan)) > 0)
        ;
    return found < 0 ? found : 0;
}

static int spare_load(struct store_spare *spare, struct store_report *report)
{
    struct store *store = spare->store;
    enum base_fact fact;
    int error = tables_setup(store) ?: base_load(store, &spare->area, &fact, report);
    if (!error && fact != BASE_NEWEST)
        error = -ESTALE;
    error = error ?: log_reader_open(&spare->reader, store, READ_AHEAD_BYTES) ?:
                     log_walk(spare, UINT64_MAX);
    log_ends(store, spare->scan.end, spare->scan.prev_crc);
    marks_set(store, spare->area);
    report->end_lsn = store->log.end;
    return error == -EUCLEAN ? -ESTALE : error;
}

int store_spare_open(const struct disk_io *io, const struct disk_memory *memory,
                     const struct store_open_options *options, struct store_spare **out,
                     struct store_report *report)
{
    struct superblock super;
    struct store *store;
    bool twin_first;
    memset(report, 0, sizeof *report);
    int error = slots_find(io, memory, false, &super, &twin_first, report) ?:
                store_new(io, memory, &super, &store);
    if (error)
        return error;
    struct store_spare *spare = store_alloc(store, sizeof *spare);
    if (!spare) {
        store_abandon(store);
        return -ENOMEM;
    }
    spare->store = spare->reader.store = store;
    store->flags = STORE_COPIED;
    store->group_bytes = group_bytes_choose(options ? options->group_bytes : 0, &super);
    store->replay.images.limit = options && options->image_pages ? options->image_pages : IMAGES;
    error = spare_load(spare, report);
    if (error)
        store_spare_abandon(spare);
    else
        *out = spare;
    return error;
}

void store_spare_tell(const struct store_spare *spare, struct store_spare_state *state,
                      struct store_epochs *epochs)
{
    const struct store *store = spare->store;
    *state = (struct store_spare_state){
        .end_lsn = store->log.end, .applied_lsn = spare->joined ? spare->scan.end : 0,
        .sure_lsn = spare->sure, .groups = spare->groups, .checkpoints = spare->checkpoints,
        .images = store->replay.images.table.count, .joined = spare->joined,
        .disk_bytes = store->super.disk_bytes, .log_bytes = store->super.log_bytes };
    memcpy(state->uuid, store->super.uuid, sizeof state->uuid);
    store_epochs_tell(store, epochs);
}

struct store *store_spare_pages(struct store_spare *spare) { return spare->store; }

/* ---- join */

/* epochs_merge makes a table of epochs: the home's, and of what that has forgotten our own, as far
 * back as a recovery may read our log. */
static int epochs_merge(const struct store *store, const struct store_epochs *home,
                        struct superblock *out)
{
    const struct superblock *own = &store->super;
    struct superblock theirs;
    uint32_t kept = 0;
    if (!epochs_decode(home, &theirs))
        return -ESTALE;
    *out = *own;
    epochs_forget(out, store->log.keep);                                        /* SB5 */
    while (kept < out->epoch_count && out->epochs[kept].first_lsn < theirs.epochs[0].first_lsn &&
           out->epochs[kept].epoch < theirs.epochs[0].epoch)
        kept++;
    /* ours must be no newer, or what is cut could be taken for the beginning of a newer one */
    if (kept + theirs.epoch_count > EPOCH_MAX ||
        own->epochs[own->epoch_count - 1].epoch >
            theirs.epochs[theirs.epoch_count - 1].epoch)
        return -ESTALE;
    memcpy(out->epochs + kept, theirs.epochs, theirs.epoch_count * sizeof theirs.epochs[0]);
    out->epoch_count = kept + theirs.epoch_count;
    return 0;
}

/* slots_cut makes both slots say the same, durably (SE3). The first flush: what was read may lie in
 * the disk's cache only. */
static int slots_cut(struct store *store, const struct superblock *next)
{
    int error = io_flush(&store->io);
    if (error)
        return error;
    store->super = *next;
    store->super.flags = FLAG_COPY;
    return superblock_twin(store, &store->super) ?: io_flush(&store->io) ?:
           superblock_twin(store, &store->super) ?: io_flush(&store->io);
}

/* mark_note notes a mark. The home may begin several checkpoints at one LSN, of which the last has
 * the newest keep_lsn. If there are too many marks, the newest one's place is taken. */
static void mark_note(struct store_spare *spare, const struct store_mark *mark)
{
    uint32_t count = spare->mark_count;
    uint64_t last = count ? spare->marks[count - 1].redo_lsn : 0;
    if (mark->redo_lsn < spare->scan.end || mark->redo_lsn < last)
        return;
    if (mark->redo_lsn > last && count < MARKS)
        spare->mark_count = ++count;
    spare->marks[count - 1] = *mark;
}

int store_spare_join(struct store_spare *spare, store_lsn_t common_lsn, uint32_t common_crc,
                     const struct store_epochs *home, store_lsn_t sure_lsn,
                     const struct store_mark *mark)
{
    struct store *store = spare->store;
    struct superblock next;
    int error = spare->joined ? -EINVAL : epochs_merge(store, home, &next);
    if (error)
        return error;
    if (common_lsn < store->super.checkpoints[spare->area].redo_lsn ||
        common_lsn > store->log.end ||
        epochs_common(&store->super, &next, common_lsn) != common_lsn)
        return -ESTALE;
    error = spare->scan.end == common_lsn ? 0 : log_walk(spare, common_lsn);    /* the home waits */
    if (!error && (spare->scan.end != common_lsn || spare->scan.prev_crc != common_crc))
        error = -ESTALE;
    error = error ?: slots_cut(store, &next);
    if (error)
        return error;
    log_ends(store, common_lsn, common_crc);
    store->replay.on = store->replay.homes_begun = true;
    spare->reader.filled = 0;
    spare->scan = log_scan_begin(&spare->reader, spare->area);
    store->replay.from = spare->scan.base->scan_lsn;
    store->log.applied = spare->scan.end;
    store->log.applied_crc = spare->scan.prev_crc;
    spare->sure = MIN(sure_lsn, common_lsn);
    mark_note(spare, mark);
    spare->joined = true;
    return unlogged_forget(store, false, &spare->report.lost);
}

/* ---- groups applied */

static bool mark_valid(const struct store *store, const struct store_mark *mark)
{
    return mark->redo_lsn % BLOCK_BYTES == 0 && mark->scan_lsn % BLOCK_BYTES == 0 &&
           mark->pages_lsn % BLOCK_BYTES == 0 && mark->redo_lsn >> 62 == 0 &&
           mark->scan_lsn <= mark->redo_lsn &&
           mark->redo_lsn - mark->scan_lsn <= store->super.log_bytes &&
           (!mark->pages_lsn ||
            (mark->pages_lsn >= mark->scan_lsn && mark->pages_lsn <= mark->redo_lsn &&
             mark->pages_lsn >= store->super.checkpoints[store->super.checkpoint_index].scan_lsn));
}

/* mark_save makes a checkpoint of what is applied, with LSNs of the home (SE4). If it scans from
 * before the last scan LSN, a backup holds the log there: what a chain needs never moves back. */
static int mark_save(struct store_spare *spare, const struct store_mark *mark)
{
    struct store *store = spare->store;
    struct checkpoint_info *c = &store->checkpoint.info;
    int error = images_home(store);
    if (error)
        return error;
    if (store->replay.passed)
        meta_differs(store);
    store->replay.passed = false;
    const struct checkpoint_info *before = &store->super.checkpoints[spare->area];
    bool held = mark->scan_lsn < before->scan_lsn;
    checkpoint_begin_at(store, spare->scan.end, spare->scan.prev_crc);
    c->scan_lsn = held ? before->scan_lsn : mark->scan_lsn;
    c->scan_crc = held ? before->scan_crc : mark->scan_crc;
    c->pages_lsn = mark->pages_lsn;
    c->pages_crc = mark->pages_crc;
    store->log.redo = pages_begin_lsn(c);
    error = checkpoint_finish(store) ?: store_checkpoint_apply(store);
    spare->area = store->super.checkpoint_index;
    spare->scan.base = &store->super.checkpoints[spare->area];
    spare->checkpoints += !error;
    return error;
}

/* mark_reached makes a mark's checkpoint, two if the home will keep less of its log than we do. */
static int mark_reached(struct store_spare *spare, const struct store_mark *mark)
{
    struct store *store = spare->store;
    if (!mark_valid(store, mark))
        return 0;
    int error = doubts_compare(store, spare->scan.base, UINT64_MAX, &spare->report);
    for (int i = 0; i < 2 && !error; i++)
        if (store->super.checkpoints[spare->area].redo_lsn < mark->redo_lsn ||
            store->log.keep < mark->keep_lsn)
            error = mark_save(spare, mark);
    return error;
}

static int marks_look(struct store_spare *spare)
{
    int error = 0;
    while (spare->mark_count && spare->marks[0].redo_lsn <= spare->scan.end && !error) {
        const struct store_mark mark = spare->marks[0];
        memmove(spare->marks, spare->marks + 1, --spare->mark_count * sizeof mark);
        if (mark.redo_lsn == spare->scan.end)
            error = mark_reached(spare, &mark);
    }
    return error;
}

static int group_next(struct store_spare *spare)
{
    struct store *store = spare->store;
    struct scan *scan = &spare->scan;
    int found = log_scan_next(scan);
    if (found <= 0)
        return found ?: -EIO;           /* the group was there when it was taken */
    int error = group_replay(store, scan, &spare->report);
    if (error)
        return error;
    store->log.applied = scan->end;
    store->log.applied_crc = scan->prev_crc;
    seen_forget(store, scan->lsn);
    return 0;
}

/* groups_apply applies groups until what lies before `lsn` is applied. */
static int groups_apply(struct store_spare *spare, uint64_t lsn)
{
    struct store *store = spare->store;
    int error = fence_get(store) ?: marks_look(spare);
    spare->reader.filled = 0;           /* the ring has more behind it by now */
    while (spare->scan.end < lsn && !error)
        error = group_next(spare) ?: marks_look(spare);
    return error ? fence_set(store, error) : 0;
}

int store_spare_apply(struct store_spare *spare, size_t most)
{
    uint64_t end = MIN(spare->sure, spare->store->log.end);
    uint64_t until = most ? MIN(end, spare->scan.end + most) : end;
    int error = spare->joined ? groups_apply(spare, until) : -EINVAL;
    return error ?: spare->scan.end < end;
}

/* ---- groups taken */

static bool group_fits(const struct store *store, const uint8_t *group)
{
    uint64_t end = le64_get(((const struct group_disk *)group)->lsn) + group_bytes(group);
    return end - store->log.keep <= store->super.log_bytes;                     /* LG3 */
}

int store_spare_take(struct store_spare *spare, const void *group, size_t bytes,
                     const struct store_mark *mark)
{
    struct store *store = spare->store;
    const struct group_disk *header = group;
    int error = fence_get(store);
    if (error)
        return error;
    if (!spare->joined || spare->taking || !log_group_follows(store, group, bytes) ||   /* SE1 */
        le32_get(header->epoch) != epoch_at(&store->super, le64_get(header->lsn)))
        return -EINVAL;
    if (group_loads(group))
        return -EOPNOTSUPP;
    mark_note(spare, mark);
    spare->sure = MAX(spare->sure, MIN(le64_get(header->durable_lsn), store->log.end)); /* SE2 */
    if (!group_fits(store, group))
        error = store_spare_apply(spare, 0);
    if (!error && !group_fits(store, group))
        error = -ENOSPC;
    if (error)
        return error;
    spare->taking = group;
    spare->written = false;
    return 0;
}

int store_spare_write(struct store_spare *spare)
{
    struct store *store = spare->store;
    if (!spare->taking)
        return -EINVAL;
    uint64_t lsn = le64_get(((const struct group_disk *)spare->taking)->lsn);
    int error = fence_get(store) ?:
                io_write(&store->io, ring_offset(store, lsn), spare->taking,
                         group_bytes(spare->taking)) ?:
                (store->io.flush_log ?: store->io.flush)(store->io.context);
    if (error)
        return fence_set(store, error);
    spare->written = true;
    return 0;
}

int store_spare_taken(struct store_spare *spare, store_lsn_t *end_lsn)
{
    struct store *store = spare->store;
    const struct group_disk *header = (const void *)spare->taking;
    if (!header || !spare->written)
        return fence_get(store) ?: -EINVAL;
    log_ends(store, le64_get(header->lsn) + group_bytes(spare->taking), le32_get(header->crc));
    spare->taking = NULL;
    spare->groups++;
    *end_lsn = store->log.end;
    return 0;
}

bool store_spare_needs(const struct store_spare *spare, store_lsn_t end_lsn, uint64_t offset)
{
    const struct store *store = spare->store;
    uint64_t bytes = store->super.log_bytes, at = offset - store->super.log_start;
    if (offset < store->super.log_start || at >= bytes)
        return true;
    return (at + bytes - end_lsn % bytes) % bytes >= bytes - (end_lsn - store->log.keep);
}

/* ---- take-over */

static int take_over(struct store_spare *spare, struct store_report *report)
{
    struct store *store = spare->store;
    if (!spare->joined || store->log.end < known_durable(&store->super))
        return -EUCLEAN;
    int error = groups_apply(spare, store->log.end) ?:
                doubts_compare(store, spare->scan.base, UINT64_MAX, report);
    if (error)
        return error;
    error = log_recovered(store, false, report) ?:
            recovery_end(store, true, report) ?:
            buffers_setup(store);
    store->log.epoch = store->super.epochs[store->super.epoch_count - 1].epoch;
    store->plan_next_object = store->kept.next_object;
    store->plan_cursor_gib = store->kept.cursor_gib;
    meta_trim(store, SPARES_KEPT);
    return error;
}

int store_spare_take_over(struct store_spare *spare, struct store **out,
                          struct store_report *report)
{
    struct store *store = spare->store;
    *report = spare->report;
    int error = take_over(spare, report);
    report->end_lsn = store->log.end;
    spare_drop(spare);
    if (error)
        store_abandon(store);
    else
        *out = store;
    return error;
}
