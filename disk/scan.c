/*
 * scan.c - reads groups back from the ring.
 *
 * A group is believed only if everything in the comment at struct group_disk holds. The first place
 * without a valid group is the end of the log, unless a valid group further on says (durable_lsn)
 * that something at or after that place had been acknowledged: then it is damage.
 */
#include "internal.h"

int log_reader_open(struct log_reader *reader, struct store *store, size_t ahead)
{
    memset(reader, 0, sizeof *reader);
    reader->store = store;
    reader->verified_from = UINT64_MAX;
    reader->room = (size_t)MIN(store->super.log_bytes, ahead);
    reader->buffer = store->memory.alloc(store->memory.context, reader->room);
    return reader->buffer ? 0 : -ENOMEM;
}

void log_reader_close(struct log_reader *reader)
{
    store_release(reader->store, reader->buffer, reader->room);
    reader->buffer = NULL;
}

static bool unreadable_in(const struct log_reader *reader, uint64_t offset, uint64_t bytes)
{
    for (uint32_t i = 0; i < reader->unreadable_count; i++)
        if (reader->unreadable[i] >= offset && reader->unreadable[i] < offset + bytes)
            return true;
    return false;
}

/* unreadable_note notes a block that cannot be read. False: there are too many. */
static bool unreadable_note(struct log_reader *reader, uint64_t offset)
{
    if (unreadable_in(reader, offset, BLOCK_BYTES))
        return true;
    if (reader->unreadable_count == UNREADABLE_MAX)
        return false;
    reader->unreadable[reader->unreadable_count++] = offset;
    return true;
}

/* blocks_read reads a part of the ring, block by block: one that cannot be read is zeros, which are
 * no group. Behind the log's end that is all the same; before it the log breaks off there, as with
 * a block that rotted. If there are too many, the disk is failing: -EIO, or whatever it says. */
static int blocks_read(struct log_reader *reader, uint64_t offset, size_t bytes)
{
    int error = 0;
    for (size_t at = 0; at < bytes && !error; at += BLOCK_BYTES) {
        error = io_read(&reader->store->io, offset + at, reader->buffer + at, BLOCK_BYTES);
        if (!error || !unreadable_note(reader, offset + at))
            continue;
        memset(reader->buffer + at, 0, BLOCK_BYTES);
        error = 0;
    }
    return error;
}

/* reader_get reads [lsn, lsn + bytes) of the ring in one piece, which must not cross its end. */
static int reader_get(struct log_reader *reader, uint64_t lsn, size_t bytes, const uint8_t **out)
{
    const struct store *store = reader->store;
    uint64_t log_bytes = store->super.log_bytes, left = log_bytes - lsn % log_bytes;
    if (reader->filled && lsn >= reader->lsn && lsn - reader->lsn <= reader->filled &&
        bytes <= reader->filled - (lsn - reader->lsn)) {
        *out = reader->buffer + (lsn - reader->lsn);
        return 0;
    }
    reader->filled = 0;
    if (bytes > reader->room) {         /* large groups: each in one read, mostly */
        size_t room = (size_t)MIN(bytes + READ_AHEAD_BYTES, left);
        log_reader_close(reader);
        reader->buffer = store->memory.alloc(store->memory.context, room);
        reader->room = reader->buffer ? room : 0;
        if (!reader->buffer)
            return -ENOMEM;
    }
    size_t want = (size_t)MIN(reader->room, left);
    uint64_t offset = ring_offset(store, lsn);
    if (io_read(&store->io, offset, reader->buffer, want)) {
        int error = blocks_read(reader, offset, want);
        if (error)
            return error;
    }
    reader->lsn = lsn;
    reader->filled = want;
    *out = reader->buffer;
    return 0;
}

/* header_plausible checks the header's fields that do not depend on the place in history. */
static bool header_plausible(const struct store *store, const struct group_disk *header,
                             uint64_t lsn)
{
    uint64_t left = store->super.log_bytes - lsn % store->super.log_bytes;
    uint64_t bytes = (uint64_t)le32_get(header->blocks) * BLOCK_BYTES;
    return le64_get(header->magic) == GROUP_MAGIC &&
           memcmp(header->uuid_low.byte, store->super.uuid, 4) == 0 &&
           bytes > 0 && bytes <= left &&
           bytes <= store->super.log_bytes / 2 &&
           le32_get(header->payload_bytes) <= bytes - sizeof *header &&
           le32_get(header->epoch) < EPOCH_LIMIT;
}

bool log_group_follows(const struct store *store, const uint8_t *group, size_t bytes)
{
    const struct group_disk *header = (const void *)group;
    return bytes >= BLOCK_BYTES && bytes % BLOCK_BYTES == 0 &&
           le64_get(header->lsn) == log_place(store, store->log.end, bytes) &&
           le32_get(header->prev_crc) == store->log.crc &&
           header_plausible(store, header, le64_get(header->lsn)) && group_bytes(group) == bytes &&
           group_crc(&store->super, group, bytes, 0) == le32_get(header->crc);
}

static int crc_holds(struct log_reader *reader, uint64_t lsn, size_t bytes, const uint8_t **group)
{
    int error = reader_get(reader, lsn, bytes, group);
    if (error)
        return error;
    if (lsn >= reader->verified_from)
        return 1;
    return group_crc(&reader->store->super, *group, bytes, 0) ==
           le32_get(((const struct group_disk *)*group)->crc);
}

/* header_fits tells if the header says that it is that of this history's group at lsn. */
static bool header_fits(const struct store *store, const struct group_disk *header, uint64_t lsn,
                        uint32_t prev_crc)
{
    return header_plausible(store, header, lsn) && le64_get(header->lsn) == lsn &&
           le32_get(header->prev_crc) == prev_crc &&
           epoch_fits(&store->super, le32_get(header->epoch), lsn);
}

/* group_at reads a group. 1: a valid one of this history lies at lsn. 0: none. < 0: cannot read. */
static int group_at(struct log_reader *reader, uint64_t lsn, uint32_t prev_crc,
                    const uint8_t **group)
{
    int error = reader_get(reader, lsn, BLOCK_BYTES, group);
    if (error || !header_fits(reader->store, (const void *)*group, lsn, prev_crc))
        return error;
    return crc_holds(reader, lsn, group_bytes(*group), group);
}

int log_next(struct log_reader *reader, uint64_t *lsn, uint32_t *crc, const uint8_t **group)
{
    uint64_t at = *lsn, left = reader->store->super.log_bytes - at % reader->store->super.log_bytes;
    int found = group_at(reader, at, *crc, group);
    if (!found && left < reader->store->super.log_bytes)
        found = group_at(reader, at += left, *crc, group);
    if (found > 0) {
        *lsn = at + group_bytes(*group);
        *crc = le32_get(((const struct group_disk *)*group)->crc);
    }
    return found;
}

/* next_places finds where the next group may lie: at the log's end; at the ring's next start, if it
 * does not fit before that, and none is larger than half. Returns how many places these are. */
static uint32_t next_places(const struct store *store, uint64_t end, uint64_t lsn[2])
{
    uint64_t ring = store->super.log_bytes;
    lsn[0] = end;
    lsn[1] = (end + ring - 1) / ring * ring;
    return lsn[1] - end < ring / 2 ? 2 : 1;
}

/* next_unreadable tells whether a block of the group that would come next cannot be read: its first
 * one, or, if that says a group of this history, one of those behind. */
static bool next_unreadable(struct log_reader *reader, uint64_t lsn, uint32_t prev_crc)
{
    const struct store *store = reader->store;
    uint64_t offset = ring_offset(store, lsn);
    const uint8_t *block;
    if (reader_get(reader, lsn, BLOCK_BYTES, &block) || unreadable_in(reader, offset, BLOCK_BYTES))
        return true;
    const struct group_disk *header = (const void *)block;
    return header_fits(store, header, lsn, prev_crc) &&
           unreadable_in(reader, offset, group_bytes(block));
}

bool log_end_unreadable(struct log_reader *reader, uint64_t end, uint32_t prev_crc)
{
    uint64_t lsn[2];
    bool hidden = false;
    for (uint32_t i = next_places(reader->store, end, lsn); i-- && reader->unreadable_count;)
        hidden |= next_unreadable(reader, lsn[i], prev_crc);
    return hidden;
}

void log_end_clear(struct log_reader *reader, uint64_t end)
{
    uint64_t lsn[2];
    reader->filled = 0;
    memset(reader->buffer, 0, BLOCK_BYTES);
    for (uint32_t i = next_places(reader->store, end, lsn); i--;) {
        uint64_t offset = ring_offset(reader->store, lsn[i]);
        if (unreadable_in(reader, offset, BLOCK_BYTES))
            (void)io_write(&reader->store->io, offset, reader->buffer, BLOCK_BYTES);
    }
}

/* ---- a scan of the whole log */

/* fingerprint_add adds a group to the sum of a scan: word by word, each weighed by its place. */
static void fingerprint_add(struct fingerprint *f, const uint8_t *group, size_t bytes)
{
    uint64_t sum = f->sum, weighed = f->weighed;
    for (const uint8_t *at = group; at < group + bytes; at += 32) {
        weighed += sum += load64(at);
        weighed += sum += load64(at + 8);
        weighed += sum += load64(at + 16);
        weighed += sum += load64(at + 24);
    }
    f->sum = sum;
    f->weighed = weighed;
    f->records += le32_get(((const struct group_disk *)group)->records);
}

/* group_next finds the group at scan->end or the ring's start; none if it ends beyond one lap. */
static int group_next(struct scan *scan)
{
    uint64_t end = scan->end;
    uint32_t crc = scan->prev_crc;
    int found = log_next(scan->reader, &end, &crc, &scan->group);
    scan->lsn = found > 0 ? end - group_bytes(scan->group) : end;
    return found > 0 ? end - scan->base->scan_lsn <= scan->reader->store->super.log_bytes : found;
}

/* epoch_learn: the group just found may be the first that tells of its epoch: the superblock that
 * began it is lost. From here on the table has it, and like that superblock says that the epoch
 * began where the last one's groups end. The group itself may lie further on, at the ring's start:
 * what a crash left torn between the two is of the older epoch, and stays dead (EPOCH_SKIP). */
static int epoch_learn(struct scan *scan)
{
    struct superblock *super = &scan->reader->store->super;
    uint32_t epoch = le32_get(((const struct group_disk *)scan->group)->epoch);
    return epoch > super->epochs[super->epoch_count - 1].epoch
               ? epoch_begin(super, epoch, scan->end, 0) : 0;
}

int log_scan_next(struct scan *scan)
{
    int found = group_next(scan);
    if (found == 0 && scan->end < pages_begin_lsn(scan->base)) {
        scan->end = scan->lsn = pages_begin_lsn(scan->base);
        scan->prev_crc = scan->base->pages_lsn ? scan->base->pages_crc : scan->base->prev_crc;
        found = scan->end == scan->until ? 0 : group_next(scan);
    }
    int error = found > 0 ? epoch_learn(scan) : found;
    if (error || !found)
        return error;
    size_t bytes = group_bytes(scan->group);
    fingerprint_add(&scan->seen, scan->group, bytes);
    scan->end = scan->lsn + bytes;
    scan->prev_crc = le32_get(((const struct group_disk *)scan->group)->crc);
    return 1;
}

struct scan log_scan_begin(struct log_reader *reader, uint32_t area)
{
    const struct checkpoint_info *base = &reader->store->super.checkpoints[area];
    return (struct scan){ .reader = reader, .base = base, .end = base->scan_lsn,
                          .until = UINT64_MAX, .prev_crc = base->scan_crc };
}

int log_group_any(struct log_reader *reader, uint64_t *lsn, uint64_t until, const uint8_t **group)
{
    for (; *lsn < until; *lsn += BLOCK_BYTES) {
        int found = reader_get(reader, *lsn, BLOCK_BYTES, group);
        const struct group_disk *header = (const void *)*group;
        if (!found && header_plausible(reader->store, header, *lsn))
            found = crc_holds(reader, *lsn, group_bytes(*group), group);
        if (found)
            return found;
    }
    return -ENOENT;
}

/* log_find_damage looks behind the log's end, `end`, for a valid group that proves a loss, because
 * something at or after the end was durable when it was sealed. *damage is `end` or 0. The group
 * may lie in a wrong place: its CRC covers the LSN that it says, and stale laps say durable LSNs
 * before `end`. A group of an epoch that no superblock names counts like those of the newest: an
 * epoch's groups say that the log before it was durable. log.epoch_seen tells of it, so that no
 * later group goes on from it. */
int log_find_damage(struct log_reader *reader, uint64_t end, uint64_t *damage)
{
    struct store *store = reader->store;
    const struct superblock *super = &store->super;
    *damage = 0;
    store->log.epoch_seen = super->epochs[super->epoch_count - 1].epoch;
    for (uint64_t lsn = end; lsn < end + super->log_bytes; lsn += BLOCK_BYTES) {
        const uint8_t *block;
        int error = reader_get(reader, lsn, BLOCK_BYTES, &block);
        if (error)
            return error;
        const struct group_disk *header = (const void *)block;
        uint32_t epoch = le32_get(header->epoch);
        bool newer = epoch > store->log.epoch_seen;
        bool proof = epoch >= super->epochs[super->epoch_count - 1].epoch &&
                     le64_get(header->durable_lsn) > end;
        if (!header_plausible(store, header, lsn) || !(newer || proof))
            continue;
        int holds = crc_holds(reader, lsn, group_bytes(block), &block);
        if (holds < 0)
            return holds;
        if (holds && newer)
            store->log.epoch_seen = epoch;
        if (holds && proof) {
            *damage = end;
            return 0;
        }
    }
    return 0;
}
