/*
 * span.c - several disks as one: places, flushes, labels.
 *
 * Invariants
 *   SN1  A flush returns 0 when each disk has been flushed that was written before: a write is
 *       counted when it has completed, a flush covers what was counted before it began.
 *   SN2  All that is below head_bytes lies on disk 0, and so does superblock slot B.
 *   SN3  No field of a label is believed before its CRC holds and all are in range; no disk is used
 *       unless all of the same store are there, each once and of the size that it had.
 *   SN4  Until all of a new store is durable, each of its labels says that it is being made.
 */
#include "internal.h"
#include "span.h"

/* ---- places: a label; on disk 0 the head; units; on disk 0 slot B; the label's second copy */

static uint64_t unit_place(const struct span *span, uint32_t disk, uint64_t row)
{
    return BLOCK_BYTES + (disk ? 0 : span->head_bytes) + row * span->unit_bytes;
}

uint64_t span_place(const struct span *span, uint64_t offset, uint32_t *disk, uint64_t *at)
{
    *disk = 0;
    *at = offset;
    if (span->count == 1)
        return span->total_bytes - offset;
    uint64_t in = (offset - span->head_bytes) % span->unit_bytes;
    uint64_t unit = (offset - span->head_bytes) / span->unit_bytes;
    uint64_t to_b = span->slot_b_offset - offset, run = span->unit_bytes - in;
    if (-to_b < BLOCK_BYTES) {                                                  /* SN2 */
        *at = unit_place(span, 0, span->units) - to_b;
        return BLOCK_BYTES + to_b;
    }
    if (offset < span->head_bytes) {
        *at += BLOCK_BYTES;
        run = span->head_bytes - offset;
    } else {
        *disk = (uint32_t)(unit % span->count);
        *at = unit_place(span, *disk, unit / span->count) + in;
    }
    return to_b < run ? to_b : run;
}

/* ---- reads, writes, flushes */

void span_wrote(struct span *span, uint32_t disk)
{
    __atomic_add_fetch(&span->written[disk], 1, __ATOMIC_SEQ_CST);
}

static int transfer(struct span *span, uint64_t offset, uint8_t *buffer, size_t bytes, bool writes)
{
    int error = 0;
    for (uint64_t run, at; bytes && !error; offset += run, buffer += run, bytes -= run) {
        uint32_t i;
        run = span_place(span, offset, &i, &at);
        run = run < bytes ? run : bytes;
        const struct disk_io *disk = &span->disk[i];
        error = writes ? disk->write(disk->context, at, buffer, run)
                       : disk->read(disk->context, at, buffer, run);
        if (writes)
            span_wrote(span, i);                                                /* SN1 */
    }
    return error;
}

static int span_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    return transfer(context, offset, buffer, bytes, false);
}

static int span_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    return transfer(context, offset, (uint8_t *)buffer, bytes, true);
}

static int disk_flush(struct span *span, uint32_t disk)
{
    uint64_t written = __atomic_load_n(&span->written[disk], __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&span->flushed[disk], __ATOMIC_SEQ_CST) == written)
        return 0;
    int error = span->disk[disk].flush(span->disk[disk].context);
    if (!error)                                                                 /* SN1 */
        __atomic_store_n(&span->flushed[disk], written, __ATOMIC_SEQ_CST);
    return error;
}

static int span_flush(void *context)
{
    struct span *span = context;
    int error = 0;
    for (uint32_t i = 0; i < span->count && !error; i++)
        error = disk_flush(span, i);
    return error;
}

static int span_flush_log(void *context)
{
    return disk_flush(context, 0);                                              /* SN2 */
}

struct disk_io span_io(struct span *span)
{
    if (span->count == 1)
        return span->disk[0];
    for (uint32_t i = 0; i < span->count; i++)
        span_wrote(span, i);            /* whoever was here before may not have flushed */
    span->total_bytes = span->head_bytes + span->count * span->units * span->unit_bytes;
    span->slot_b_offset = slot_b_place(span->total_bytes);
    return (struct disk_io){ .context = span, .bytes = span->total_bytes, .read = span_read,
                             .write = span_write, .flush = span_flush,
                             .flush_log = span_flush_log };
}

/* ---- labels */

/* labels_equal compares what the labels of a store have in common. */
static bool labels_equal(const struct label_disk *a, const struct label_disk *b)
{
    return !memcmp(a->uuid, b->uuid, 16) && le32_get(a->count) == le32_get(b->count) &&
           !memcmp(&a->unit_bytes, &b->unit_bytes, 24);
}

/* label_check looks at a label. 0; -ENODATA: the block at `at` of a disk is none. */
static int label_check(const struct label_disk *in, uint64_t at)
{
    uint64_t unit = le64_get(in->unit_bytes), units = le64_get(in->units);
    uint64_t bytes = le64_get(in->disk_bytes), head = le64_get(in->head_bytes);
    if (le64_get(in->magic) != LABEL_MAGIC || le32_get(in->crc) != block_crc(in, CRC_LABEL, at))
        return -ENODATA;
    if (le32_get(in->version) > LABEL_VERSION)
        return -EPROTONOSUPPORT;
    uint32_t count = le32_get(in->count), number = le32_get(in->number);
    bool good = count >= 2 && count <= SPAN_DISKS_MAX && number < count &&      /* SN3 */
        unit >= BLOCK_BYTES && unit < 1ull << 40 && !(unit & (unit - 1)) && bytes < 1ull << 60 &&
        (head | bytes) % BLOCK_BYTES == 0 && head < 1ull << 60 && units && units <= bytes / unit &&
        units * unit + 2 * BLOCK_BYTES + (number ? 0 : head + BLOCK_BYTES) <= bytes &&
        le64_get(in->making) < 2 && bytes_zero(in->zero, sizeof in->zero);
    return good ? 0 : -ENODATA;
}

/* label_find finds the copy that is sound, and rather one that says that the store is made; 0, or
 * what is wrong with both. A disk that begins with a superblock, or one that is `alone` and has a
 * superblock's signpost, is a store by itself, whatever its end looks like. */
static int label_find(const struct disk_io *disk, bool alone, struct label_disk *label)
{
    uint8_t block[BLOCK_BYTES];
    struct label_disk copy;
    uint64_t b, end = disk->bytes / BLOCK_BYTES * BLOCK_BYTES;
    int error, result = -ENODATA;
    for (uint32_t i = 0; i < 2 && end >= SMALLEST_BYTES; i++) {
        uint64_t at = i ? end - BLOCK_BYTES : 0;
        error = io_read(disk, at, &copy, BLOCK_BYTES);
        bool own = !at && !error && le64_get(copy.magic) == SUPERBLOCK_MAGIC;
        error = error ? error : label_check(&copy, at);
        if (result == -ENODATA || (!error && (result || le64_get(label->making))))
            *label = copy, result = error;
        if (own || (alone && !at && error && !io_read(disk, SIGNPOST_OFFSET, block, BLOCK_BYTES) &&
                    signpost_decode((void *)block, disk->bytes, &b)))
            break;
    }
    return result;
}

static int refuse(struct span_report *report, uint32_t given, int error, const char *message)
{
    report->message = message;
    report->given = given;
    return error;
}

/* disk_enter takes a disk of this store, if no other has its number and its size is as it was. */
static int disk_enter(struct span *span, const struct disk_io *disk, uint32_t given,
                      const struct label_disk *label, struct span_report *report)
{
    uint64_t bytes = disk->bytes / BLOCK_BYTES * BLOCK_BYTES, wanted = le64_get(label->disk_bytes);
    uint32_t number = le32_get(label->number);
    report->number = number + 1;
    if (span->disk[number].read)
        return refuse(report, given, -EUCLEAN, "is given twice");
    if (bytes != wanted)
        return refuse(report, given, -EUCLEAN, bytes < wanted
            ? "is smaller than it was: its end is cut off; restore a copy"
            : "is larger than it was, and cannot grow: give it its old size");
    span->disk[number] = *disk;
    return 0;
}

/* disks_enter takes disks by their labels, which must agree with `made`, of one of them. */
static int disks_enter(struct span *span, const struct disk_io *disks, uint32_t count,
                       const struct label_disk *made, struct span_report *report)
{
    struct label_disk label;
    memcpy(span->uuid, made->uuid, 16);
    report->of = span->count = le32_get(made->count);
    span->unit_bytes = le64_get(made->unit_bytes);
    span->units = le64_get(made->units);
    span->head_bytes = le64_get(made->head_bytes);
    for (uint32_t i = 0; i < count; i++) {
        int error = label_find(&disks[i], count == 1, &label);
        report->number = 0;
        if (error == -EIO)
            return refuse(report, i, -EIO, "has a label that cannot be read");
        if (error || !labels_equal(made, &label))
            return refuse(report, i, -EUCLEAN, error ? "has no label of the others' store"
                                                     : "is of another store than the others");
        error = disk_enter(span, &disks[i], i, &label, report);
        if (error)
            return error;
    }
    for (report->number = 1; report->number <= span->count; report->number++)
        if (!span->disk[report->number - 1].read)
            return refuse(report, SPAN_MISSING, -EUCLEAN, "is missing: give it, too");
    return 0;
}

int span_open(const struct disk_io *disks, uint32_t count, struct span *span, struct disk_io *io,
              struct span_report *report)
{
    struct label_disk label, made;
    int error = -ENODATA;
    bool found = false;
    memset(span, 0, sizeof *span);
    *report = (struct span_report){ .given = SPAN_MISSING };
    if (count < 1 || count > SPAN_DISKS_MAX)
        return refuse(report, SPAN_MISSING, -EINVAL, "a store has 1 to 4 disks");
    for (uint32_t i = 0; i < count; i++) {
        error = label_find(&disks[i], count == 1, &label);
        if (error == -EPROTONOSUPPORT)
            return refuse(report, i, error, "has a label of a newer Katydid");
        if (!error && !found && !le64_get(label.making)) {                      /* SN4 */
            found = true;
            made = label;
        }
    }
    if (count == 1 && error) {
        span->count = 1;
        span->total_bytes = disks->bytes;
        span->disk[0] = *disks;
    } else if (!found) {
        return refuse(report, SPAN_MISSING, -ENODATA, "the disks: no store was made over them");
    } else if ((error = disks_enter(span, disks, count, &made, report)))
        return error;
    *io = span_io(span);
    return 0;
}
