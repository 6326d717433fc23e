/*
 * span.c - a new store over several disks, and its labels (SN4).
 */
#include "internal.h"
#include "tools.h"

static uint64_t copy_offset(const struct disk_io *disk, uint32_t copy)
{
    return copy ? disk->bytes / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES : 0;
}

static void label_encode(const struct span *span, uint32_t disk, bool making, uint64_t at,
                         struct label_disk *out)
{
    memset(out, 0, sizeof *out);
    out->magic = le64_of(LABEL_MAGIC);
    out->version = le32_of(LABEL_VERSION);
    memcpy(out->uuid, span->uuid, 16);
    out->count = le32_of(span->count);
    out->number = le32_of(disk);
    out->making = le64_of(making);
    out->unit_bytes = le64_of(span->unit_bytes);
    out->units = le64_of(span->units);
    out->head_bytes = le64_of(span->head_bytes);
    out->disk_bytes = le64_of(span->disk[disk].bytes / BLOCK_BYTES * BLOCK_BYTES);
    out->crc = le32_of(block_crc(out, CRC_LABEL, at));
}

/* Both copies on each disk, and a flush of each; those that are right already are left alone. */
static int labels_write(struct span *span, bool making, uint32_t *written)
{
    struct label_disk label, there;
    int error = 0;
    *written = 0;
    for (uint32_t i = 0; i < 2 * span->count && !error; i++) {
        const struct disk_io *disk = &span->disk[i / 2];
        uint64_t at = copy_offset(disk, i % 2);
        label_encode(span, i / 2, making, at, &label);
        if (!io_read(disk, at, &there, sizeof there) && !memcmp(&label, &there, sizeof label))
            continue;
        error = disk->write(disk->context, at, &label, sizeof label);
        ++*written;
    }
    for (uint32_t i = 0; i < span->count && !error && *written; i++)
        error = span->disk[i].flush(span->disk[i].context);
    return error;
}

int span_mend(struct span *span, uint32_t *mended)
{
    *mended = 0;
    return span->count > 1 ? labels_write(span, false, mended) : 0;
}

/* What there was of labels goes, before the only disk becomes a store. */
static int label_wipe(const struct disk_io *disk)
{
    uint8_t block[BLOCK_BYTES];
    int error = 0;
    bool wiped = false;
    for (uint32_t copy = 0; copy < 2 && disk->bytes >= SMALLEST_BYTES && !error; copy++) {
        uint64_t at = copy_offset(disk, copy);
        if (io_read(disk, at, block, BLOCK_BYTES) || le64_get(*(const le64 *)block) != LABEL_MAGIC)
            continue;
        wiped = true;
        memset(block, 0, sizeof block);
        error = disk->write(disk->context, at, block, sizeof block);
    }
    return error || !wiped ? error : disk->flush(disk->context);
}

/* Sizes of a new store. What the smallest disk has room for counts on all of them; disk 0 holds
 * superblocks, log and areas besides. */
static int span_measure(struct span *span, const struct store_options *options)
{
    uint64_t total = 0, extent = options->extent_bytes ? options->extent_bytes : EXTENT_BYTES;
    if (!span->unit_bytes)
        span->unit_bytes = extent;
    if (span->unit_bytes < extent || (span->unit_bytes & (span->unit_bytes - 1)))
        return -EINVAL;
    for (uint32_t i = 0; i < span->count; i++)
        total += span->disk[i].bytes / BLOCK_BYTES * BLOCK_BYTES;
    span->head_bytes = store_data_start(total, options);
    span->units = UINT64_MAX;
    if (!span->head_bytes)
        return -EINVAL;
    for (uint32_t i = 0; i < span->count; i++) {
        uint64_t bytes = span->disk[i].bytes / BLOCK_BYTES * BLOCK_BYTES;
        uint64_t other = 2 * BLOCK_BYTES + (i ? 0 : span->head_bytes + BLOCK_BYTES);
        uint64_t units = bytes < other ? 0 : (bytes - other) / span->unit_bytes;
        span->units = units < span->units ? units : span->units;
    }
    return span->units ? 0 : -ENOSPC;
}

int span_format(const struct disk_io *disks, uint32_t count, const struct disk_memory *memory,
                const struct store_options *options, uint64_t unit_bytes, struct span *span)
{
    struct store_options inside = *options;
    uint32_t written;
    memset(span, 0, sizeof *span);
    if (count < 1 || count > SPAN_DISKS_MAX)
        return -EINVAL;
    if (count == 1) {
        int wiped = label_wipe(disks);
        return wiped ? wiped : store_format(disks, memory, options);
    }
    span->count = count;
    span->unit_bytes = unit_bytes;
    memcpy(span->disk, disks, count * sizeof *disks);
    memcpy(span->uuid, options->uuid, 16);
    int error = span_measure(span, options);
    if (error)
        return error;
    struct disk_io io = span_io(span);
    inside.data_start = span->head_bytes;
    error = labels_write(span, true, &written);                                 /* SN4 */
    if (!error)
        error = store_format(&io, memory, &inside);
    return error ? error : labels_write(span, false, &written);
}
