/*
 * open.c - opens a store: superblock, checkpoint, recovery; and closes it. The chapter has
 * the steps of a recovery, which are functions here: slots_find (slots.c), base_load, scan_verify,
 * scan_apply, log_end_clear, homes_begin, recovery_end.
 *
 * Nothing is written before scan_apply is through (ST12), but home pages that memory cannot hold
 * (image.c); and recovery takes no log space, so a crash inside it costs only time.
 */
#include "internal.h"

#define GROUP_BYTES_DEFAULT (4u << 20)

/* ---- the checkpoint to start from */

/* tables_setup asks for all tables, whatever becomes of the first (store_memory counts). */
int tables_setup(struct store *store)
{
    int made = tables_make(store, &store->super, store->tables), meta = meta_setup(store);
    return made || meta ? -ENOMEM : 0;
}

/* buffers_setup gets the groups' buffers, so that a store that is open need not ask for them. */
int buffers_setup(struct store *store)
{
    for (int i = 0; i < 2; i++) {
        store->groups[i].buffer = store->memory.alloc(store->memory.context, store->group_bytes);
        store->groups[i].zero.from = store->group_bytes;
    }
    return store->groups[0].buffer && store->groups[1].buffer ? 0 : -ENOMEM;
}

static int area_load(struct store *store, uint32_t area, struct store_report *report)
{
    const char *why = NULL;
    int error = meta_load(store, area) ?: store_rebuild_extents(store, &why);
    if (why)
        report->message = why;
    return error;
}

int tables_renew(struct store *store)
{
    meta_forget(store);
    tables_release(store, &store->super, store->tables);
    return tables_make(store, &store->super, store->tables);
}

/* base_load loads the newest checkpoint, or the older one: its log is kept (CP3). -ENOMEM. */
int base_load(struct store *store, uint32_t *area, enum base_fact *fact,
              struct store_report *report)
{
    *area = store->super.checkpoint_index;
    *fact = BASE_NEWEST;
    int error = area_load(store, *area, report);
    if (error && error != -ENOMEM) {
        *area = !*area;
        report->older_checkpoint = true;
        error = tables_renew(store) ?: area_load(store, *area, report);
        *fact = error ? BASE_NONE : BASE_OLDER;
    }
    report->redo_lsn = store->super.checkpoints[*area].redo_lsn;
    return error == -ENOMEM ? error : 0;
}

/* ---- the two scans */

/* known_durable is the LSN before which all was durable; so was the log when an epoch began. */
uint64_t known_durable(const struct superblock *super)
{
    uint64_t known = MAX(super->checkpoints[super->checkpoint_index].redo_lsn,
                         super->epochs[super->epoch_count - 1].first_lsn);
    return super->flags & FLAG_CLEAN ? MAX(super->end_lsn, known) : known;
}

/* disk_answers tells whether it was single blocks of the log that cannot be read: if the disk has
 * gone, nothing is known of the log's end. The superblock was read a moment ago. */
static int disk_answers(const struct store *store, struct log_reader *reader)
{
    uint64_t slot = slot_offset(&store->super, store->super.generation & 1);
    reader->filled = 0;
    return reader->unreadable_count ? io_read(&store->io, slot, reader->buffer, BLOCK_BYTES) : 0;
}

static int scan_verify(struct store *store, struct log_reader *reader, uint32_t area,
                       enum log_fact *fact, bool *unreadable, struct fingerprint *seen,
                       struct store_report *report)
{
    struct scan scan = log_scan_begin(reader, area);
    bool early = report->older_checkpoint && store->replay.images.limit;
    int found, error = 0;
    while (!error && (found = log_scan_next(&scan)) > 0) {
        report->groups += scan.lsn >= pages_begin_lsn(scan.base);
        error = early ? images_spare(store, scan.group, scan.lsn) : 0;
    }
    if (error)
        return error;
    if (found == -EUCLEAN) {            /* no room in the table for one epoch more */
        *fact = LOG_UNFIT;
        report->damage_lsn = scan.lsn;
        return 0;
    }
    if (found < 0)
        return found;
    *seen = scan.seen;
    store->log.end = store->log.applied = store->log.durable = report->end_lsn = scan.end;
    store->log.crc = store->log.applied_crc = scan.prev_crc;
    struct log_facts facts = { .end_lsn = scan.end, .known_durable = known_durable(&store->super),
                               .groups = report->groups };
    uint64_t damage = 0;
    bool slot_lost = report->slot_bad[0] || report->slot_bad[1]; /* the slot may have been newer */
    if (!(report->was_clean && scan.end == store->super.end_lsn) || slot_lost) {
        found = log_find_damage(reader, scan.end, &damage);
        if (!damage && !found && log_end_unreadable(reader, scan.end, scan.prev_crc)) {
            damage = scan.end;
            *unreadable = true;
        }
    }
    facts.later_history = damage != 0;
    *fact = log_fact(&facts);
    report->damage_lsn = *fact == LOG_DAMAGED ? scan.end : 0;
    report->log_unreadable = reader->unreadable_count;
    return found ?: disk_answers(store, reader);
}

/* tail_look notes whether something at the end looks like a group that was being written. */
static void tail_look(struct log_reader *reader, struct store_report *report)
{
    const struct store *store = reader->store;
    uint64_t offset = ring_offset(store, report->end_lsn);
    if (io_read(&store->io, offset, reader->buffer, BLOCK_BYTES) == 0) {
        const struct group_disk *header = (const void *)reader->buffer;
        report->torn_tail = le64_get(header->magic) == GROUP_MAGIC &&
                            le64_get(header->lsn) == report->end_lsn &&
                            le32_get(header->epoch) == epoch_at(&store->super, report->end_lsn);
    }
    reader->filled = 0;
}

/* unfit reports that what the log holds does not fit the metadata. */
static int unfit(struct store_report *report, uint64_t lsn)
{
    report->damage_lsn = lsn;
    return recovery_report(report, SLOTS_GOOD, report->older_checkpoint ? BASE_OLDER : BASE_NEWEST,
                           LOG_UNFIT)->error;
}

/* doubts_compare checks that what was in doubt at the redo LSN is what the checkpoint says (TP5):
 * once, before the first group behind it is replayed, or at the log's end. */
int doubts_compare(struct store *store, const struct checkpoint_info *base, uint64_t lsn,
                   struct store_report *report)
{
    uint32_t sum, told = store->kept.doubts_sum;
    if (store->replay.counted || lsn < base->redo_lsn)
        return 0;
    store->replay.counted = true;
    bool missed = store->kept.doubts != doubts_count(store, &sum) || (told && told != sum);
    return missed ? unfit(report, base->redo_lsn) : 0;
}

int group_replay(struct store *store, const struct scan *scan, struct store_report *report)
{
    bool before = scan->lsn < scan->base->redo_lsn;
    int error = doubts_compare(store, scan->base, scan->lsn, report);
    if (!error && before)
        error = spills_note(store, scan->group, scan->lsn, scan->base->redo_lsn);
    if (error || scan->lsn < pages_begin_lsn(scan->base))
        return error;
    error = before ? images_before(store, scan->group, scan->lsn)
                   : records_apply(store, scan->group, scan->lsn, &report->transactions);
    return error == -EUCLEAN || error == -ENOSPC ? unfit(report, scan->lsn) : error;
}

/* scan_apply replays the log. When memory may not hold an image for each record, some pages go home
 * before the sums can be compared: then each group is verified once more before it is applied. */
static int scan_apply(struct store *store, struct log_reader *reader, uint32_t area,
                      const struct fingerprint *seen, struct store_report *report)
{
    struct scan scan = log_scan_begin(reader, area);
    int error = 0;
    store->replay.on = true;
    scan.until = report->end_lsn;
    store->replay.from = scan.base->scan_lsn;
    if (!store->replay.images.limit || seen->records <= store->replay.images.limit)
        reader->verified_from = pages_begin_lsn(scan.base);
    while (scan.end < report->end_lsn && !error) {
        int found = log_scan_next(&scan);
        if (found < 0 || (found == 0 && scan.end < report->end_lsn))
            return found ? found : -EIO;        /* the group was there a moment ago */
        if (found)
            error = group_replay(store, &scan, report);
    }
    error = error ?: doubts_compare(store, scan.base, UINT64_MAX, report);
    if (!error && memcmp(&scan.seen, seen, sizeof scan.seen))
        error = -EIO;                           /* these are not the bytes that were verified */
    return error;
}

/* ---- the end of recovery */

uint32_t epoch_next(const struct store *store)
{
    uint32_t newest = store->super.epochs[store->super.epoch_count - 1].epoch;
    return MAX(newest, store->log.epoch_seen) + 1;
}

/* superblock_advance begins an epoch. The checkpoint stays; one that did not verify is dropped. */
int superblock_advance(struct store *store)
{
    struct superblock next = store->super;
    struct checkpoint_info *older = &next.checkpoints[!next.checkpoint_index];
    if (older->redo_lsn > next.checkpoints[next.checkpoint_index].redo_lsn)
        *older = (struct checkpoint_info){ .sequence = older->sequence };
    next.generation++;
    next.flags &= FLAG_COPY;            /* FLAG_COPY: the log still comes from the home */
    int error = epoch_begin(&next, epoch_next(store), store->log.end, store->log.keep) ?:
                superblock_write(&store->io, &next, meta_block(store));
    if (!error)
        store->super = next;
    return error;
}

int superblock_twin(struct store *store, struct superblock *super)
{
    if (super->format != FORMAT_VERSION)
        return superblock_again(&store->io, super, meta_block(store));
    super->generation++;
    return superblock_write(&store->io, super, meta_block(store));
}

/* homes_begin flushes first: what was read may lie in the disk's cache only, written by a manager
 * that died before its flush: neither a home page nor an epoch must be newer than the log. And if
 * the next start could find a checkpoint that this one did not, it must not: pages that count as
 * home there are about to be overwritten. Nor must a slot name the area that is (SB4): a cut may
 * have come before the newest superblock had its twin. */
int homes_begin(struct store *store)
{
    if (store->replay.homes_begun)
        return 0;
    store->replay.homes_begun = true;
    int error = io_flush(&store->io);
    if (error || !(store->replay.advance || store->replay.twin_first))
        return error;
    return (store->replay.advance ? superblock_advance(store)
                                  : superblock_twin(store, &store->super)) ?: io_flush(&store->io);
}

/* replayed_home writes pages and metadata home, and a superblock that names them. */
static int replayed_home(struct store *store)
{
    int error = images_home(store);
    images_drop(store);
    if (error)
        return error;
    if (store->replay.passed)           /* a checkpoint that was cut off had not */
        meta_differs(store);
    checkpoint_begin_at(store, store->log.end, store->log.crc);
    store->checkpoint.recovery = true;
    return checkpoint_finish(store) ?: store_checkpoint_apply(store);
}

/* recovery_end makes three flushes, one after the other: the log that was read; the pages and
 * metadata made of it; the superblock. No epoch says before that the log was durable, for if its
 * flush had failed once, another one that works proves nothing of it. */
int recovery_end(struct store *store, bool replayed, struct store_report *report)
{
    store->replay.advance |= !replayed;          /* there is no other superblock then */
    int error = homes_begin(store) ?: (replayed ? replayed_home(store) : 0);
    if (!error && store->flags & STORE_COPIED)                                  /* SE3 */
        error = superblock_twin(store, &store->super) ?: io_flush(&store->io);
    store->replay.on = false;
    report->pages = store->replay.images.written;
    return error;
}

/* ---- open and close */

void marks_set(struct store *store, uint32_t area)
{
    uint64_t older = store->super.checkpoints[!area].scan_lsn;
    uint64_t scan = store->super.checkpoints[area].scan_lsn;
    bool kept = older && older < scan && store->log.end - older <= store->super.log_bytes;
    store->log.redo = store->super.checkpoints[area].redo_lsn;
    store->log.keep = kept ? older : scan;
    store->super.checkpoint_index = area;       /* the base of the next checkpoint */
}

static int refuse(struct store_report *report, int error, const char *message)
{
    report->message = message;
    return error;
}

/* upgrade_allowed refuses to give up anything that the store's own version can still repair. */
static int upgrade_allowed(const struct store *store, const struct recovery_rule *rule,
                           struct store_report *report)
{
    if (store->super.format == FORMAT_VERSION)
        return 0;
    if (store->replay.advance)
        return refuse(report, -EUCLEAN,
                      "the store is damaged; start it with the Katydid that made it, which may "
                      "repair it, before it is upgraded");
    if (rule->action == RECOVERY_REPLAY && upgrade_needs_empty_log(store->super.format))
        return refuse(report, -EOPNOTSUPP,
                      "the store was not closed; start it with the Katydid that made it, and "
                      "`halt`, before it is upgraded");
    return 0;
}

/* log_recovered restores what is in doubt; a new life (RL3) has no part in what the old one has. */
int log_recovered(struct store *store, bool same, struct store_report *report)
{
    unlogged_lose(store, same, &report->lost);
    if (store->replay.roll)
        doubts_drop(store);
    int error = doubts_restore(store);
    seen_drop(store);
    report->doubts = doubts_count(store, NULL);
    return error == -EUCLEAN ? unfit(report, store->log.end) : error;
}

/* now is the time in microseconds; 0 without a clock. */
static uint64_t now(const struct disk_clock *clock)
{
    return clock ? clock->microseconds(clock->context) : 0;
}

/* log_recover makes both scans. *rule: what is to be done then. */
static int log_recover(struct store *store, uint32_t area, enum base_fact base,
                       const struct recovery_rule **rule, const struct disk_clock *clock,
                       struct store_report *report)
{
    struct log_reader reader;
    uint64_t started = now(clock);
    struct fingerprint seen;
    enum log_fact log = LOG_EMPTY;
    bool unreadable = false;
    bool read_only = store->flags & STORE_READ_ONLY;
    int error = log_reader_open(&reader, store, READ_AHEAD_BYTES) ?:
                scan_verify(store, &reader, area, &log, &unreadable, &seen, report) ?:
                (*rule = recovery_report(report, SLOTS_GOOD, base, log))->error;
    report->verify_microseconds = now(clock) - started;
    if (unreadable)
        report->message =
            "a block at the log's end cannot be read, and what was committed last may lie there; "
            "try again, or open read-only to save the rest";
    if (error && log == LOG_DAMAGED && read_only)
        error = 0;                              /* a reader gets what is left */
    if (!error)
        tail_look(&reader, report);
    marks_set(store, area);
    struct store_roll *roll = store->replay.roll;
    bool idle = (*rule)->action == RECOVERY_EPOCH && !roll;
    bool same = base == BASE_NEWEST && idle;                                    /* UL3 */
    bool apply = !idle || store->kept.doubts || read_only;
    store->replay.advance = base == BASE_OLDER || report->slot_bad[0] || report->slot_bad[1];
    error = error ?:
            upgrade_allowed(store, *rule, report) ?:
            unlogged_forget(store, same, &report->lost) ?:
            (apply ? scan_apply(store, &reader, area, &seen, report) : 0) ?:
            (roll ? roll_forward(store, roll, report) : 0) ?:
            log_recovered(store, same, report);
    if (!error && !read_only && report->was_clean && store->log.end == store->super.end_lsn)
        log_end_clear(&reader, store->log.end);
    log_reader_close(&reader);
    return error;
}

static int recover(struct store *store, const struct disk_clock *clock,
                   struct store_report *report)
{
    uint32_t area;
    enum base_fact base;
    const struct recovery_rule *rule;
    report->was_clean = store->super.flags & FLAG_CLEAN;
    int error = tables_setup(store) ?:
                base_load(store, &area, &base, report) ?:
                (rule = recovery_report(report, SLOTS_GOOD, base, LOG_EMPTY))->error ?:
                log_recover(store, area, base, &rule, clock, report);
    if (error)
        return error;
    struct store_roll *roll = store->replay.roll;
    bool anew = store->super.format < FORMAT_VERSION || roll;
    if (store->flags & STORE_READ_ONLY)
        fence_set(store, -EROFS);
    else
        error = (roll ? roll_end(store, roll->uuid) : 0) ?:
                recovery_end(store, anew || report->lost || rule->action == RECOVERY_REPLAY,
                             report);
    store->replay.roll = NULL;
    store->replay.rolling = false;
    store->log.epoch = store->super.epochs[store->super.epoch_count - 1].epoch;
    store->plan_next_object = store->kept.next_object;
    store->plan_cursor_gib = store->kept.cursor_gib;
    meta_trim(store, SPARES_KEPT);
    return error;
}

/* group_bytes_choose is the size of the largest group, of what is wanted (0: the default). */
size_t group_bytes_choose(size_t wanted, const struct superblock *super)
{
    uint64_t bytes = MAX(wanted ? wanted : GROUP_BYTES_DEFAULT, 2 * BLOCK_BYTES);
    return (size_t)MIN(bytes, super->log_bytes / 2) / BLOCK_BYTES * BLOCK_BYTES;
}

/* grow_try grows the store, which is open in any case, unless the disk failed, or memory when the
 * larger tables were in use. */
static int grow_try(struct store *store, uint64_t bytes, struct store_report *report)
{
    uint64_t before = store->super.disk_bytes;
    report->grow_error = bytes > store->io.bytes ? -EINVAL : grow_to(store, bytes);
    report->grown = !report->grow_error && store->super.disk_bytes > before;
    return fence_get(store);
}

int store_open(const struct disk_io *io, const struct disk_memory *memory,
               const struct store_open_options *options, struct store **out,
               struct store_report *report)
{
    static const struct store_open_options none;
    struct superblock super;
    bool twin_first;
    options = options ? options : &none;
    uint64_t started = now(options->clock);
    memset(report, 0, sizeof *report);
    int error = slots_find(io, memory, options->flags & STORE_UPGRADE, &super, &twin_first, report);
    if (error)
        return error;
    struct store *store;
    error = store_new(io, memory, &super, &store);
    if (error)
        return refuse(report, error, "out of memory");
    store->flags = options->flags;
    store->replay.twin_first = twin_first;
    store->replay.roll = options->flags & STORE_READ_ONLY ? NULL : options->roll;
    if (options->step_pages && options->step_pages < PART_PAGES)
        store->step_pages = options->step_pages;
    store->group_bytes = group_bytes_choose(options->group_bytes, &super);
    store->replay.images.limit = options->flags & STORE_READ_ONLY ? 0 : options->image_pages;
    error = recover(store, options->clock, report);
    if (!error && !(options->flags & STORE_READ_ONLY))
        error = buffers_setup(store);
    if (!error && (options->flags & (STORE_GROW | STORE_READ_ONLY)) == STORE_GROW)
        error = grow_try(store, options->grow_bytes ? options->grow_bytes : io->bytes, report);
    report->microseconds = now(options->clock) - started;
    if (error) {
        if (!report->message)
            report->message = error == -ENOMEM ? "out of memory"
                                               : "the disk cannot be read or written";
        store_abandon(store);
        return error;
    }
    *out = store;
    return 0;
}

/* held_by_others looks for what outlives the store: a chain not prepared, a hold of no doubt. */
static bool held_by_others(const struct store *store)
{
    uint32_t holds = 0, chains = 0;
    for (const struct store_hold *hold = store->holds; hold; hold = hold->next)
        holds++;
    for (const struct store_chain *chain = store->chains; chain; chain = chain->next)
        chains += !chain->prepared;
    return chains || holds > doubts_count(store, NULL);
}

int store_close(struct store *store)
{
    if (store->flags & STORE_READ_ONLY) {
        store_abandon(store);
        return 0;
    }
    if (!fence_get(store) && (store->space.dirty || held_by_others(store) ||
                   store->checkpoint.running || !groups_idle(store)))
        return -EBUSY;
    store->sweep.on = false;
    int error = store_checkpoint_begin(store);
    store->checkpoint.clean = true;
    error = error ?: checkpoint_finish(store);
    store_abandon(store);
    return error;
}
