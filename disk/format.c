/*
 * format.c - writes an empty store.
 *
 * Order: a signpost to nowhere, flush; area 0, flush; slot B, flush; slot A, flush; the signpost,
 * flush. A disk with a signpost to nowhere counts as blank, unless slot A of the same store is
 * there. So a power cut leaves what was there before (until the first flush), a blank disk, or
 * (once slot A is written) the new store. The log is not written: the uuid is new, so nothing old
 * in it verifies.
 */
#include "internal.h"

#define LOG_BYTES_DEFAULT (32ull << 20)
#define PAGES_TO_WORK 64u               /* of metadata, for the first commits */

/* place finds the next place for `bytes` from *cursor on that leaves slot B's block alone. */
static uint64_t place(uint64_t *cursor, uint64_t bytes, uint64_t slot_b)
{
    uint64_t at = *cursor;
    if (at <= slot_b && slot_b < at + bytes)
        at = slot_b + BLOCK_BYTES;
    *cursor = at + bytes;
    return at;
}

uint32_t directory_pages_for(uint64_t disk_bytes)
{
    uint64_t pages = disk_bytes >> 20;
    return (uint32_t)MAX(MIN(pages, DIRECTORY_PAGES_MOST), 1);
}

static int geometry_make(const struct store_options *options, uint64_t disk_bytes,
                         struct superblock *super)
{
    memset(super, 0, sizeof *super);
    memcpy(super->uuid, options->uuid, 16);
    super->disk_bytes = disk_bytes / BLOCK_BYTES * BLOCK_BYTES;
    super->slot_b_offset = slot_b_place(super->disk_bytes);
    super->extent_bytes = options->extent_bytes ?: EXTENT_BYTES;
    super->zone = options->zone;
    super->log_bytes = options->log_bytes ?: MIN(disk_bytes / 8, LOG_BYTES_DEFAULT);
    super->log_bytes = super->log_bytes / BLOCK_BYTES * BLOCK_BYTES;
    if (!units_valid(super))
        return -EINVAL;
    if (super->log_bytes < LOG_BYTES_MIN || super->log_bytes > super->disk_bytes / 2)
        return options->log_bytes ? -EINVAL : -ENOSPC;
    super->directory_pages_max = directory_pages_for(disk_bytes);
    super->names_pages_max = directory_pages_for(disk_bytes);
    uint64_t extents_at_most = super->disk_bytes / super->extent_bytes;
    super->area_pages = area_pages_for(extents_at_most, super->extent_bytes,
                                       super->directory_pages_max, super->names_pages_max);
    uint64_t area = area_bytes(super->area_pages);
    uint64_t cursor = SIGNPOST_OFFSET + BLOCK_BYTES;
    super->log_start = place(&cursor, super->log_bytes, super->slot_b_offset);
    super->area_start[0] = place(&cursor, area, super->slot_b_offset);
    super->area_start[1] = place(&cursor, area, super->slot_b_offset);
    if (cursor == super->slot_b_offset)
        cursor += BLOCK_BYTES;
    super->data_start = MAX(cursor, options->data_start);
    if ((options->data_start && cursor > options->data_start) ||
        super->data_start + 4 * super->extent_bytes > super->disk_bytes)
        return -ENOSPC;
    super->extents = (super->disk_bytes - super->data_start) / super->extent_bytes;
    super->checkpoint_index = 1;        /* so that the first checkpoint goes to area 0 */
    super->format = FORMAT_VERSION;
    super->epoch_count = 1;
    super->epochs[0] = (struct epoch_info){ .epoch = 1, .first_lsn = super->log_bytes };
    return 0;
}

uint64_t store_data_start(uint64_t disk_bytes, const struct store_options *options)
{
    struct superblock super;
    return geometry_make(options, disk_bytes, &super) ? 0 : super.data_start;
}

/* signpost_write writes the signpost; slot B's place of 0: the store is being made. */
static int signpost_write(const struct disk_io *io, const struct superblock *super,
                          uint64_t slot_b_offset, void *block)
{
    signpost_encode(super, slot_b_offset, block);
    return io_write(io, SIGNPOST_OFFSET, block, BLOCK_BYTES);
}

/* creation_end writes slot A, and the signpost that ends creation. */
static int creation_end(const struct disk_io *io, struct superblock *super, void *block)
{
    super->generation++;
    return superblock_write(io, super, block) ?:
           io_flush(io) ?:
           signpost_write(io, super, super->slot_b_offset, block) ?:
           io_flush(io);
}

static int first_pages(struct store *store)
{
    int error = meta_reserve(store, PAGES_TO_WORK);
    if (error)
        return error;
    meta_page_new(store, META_HEADER, 0);
    store->heads[0] = meta_page_new(store, META_BUCKET, 0);
    store->kept.next_object = 1;
    return 0;
}

int store_format(const struct disk_io *io, const struct disk_memory *memory,
                 const struct store_options *options)
{
    struct superblock super;
    struct store *store;
    int error = geometry_make(options, io->bytes, &super) ?: store_new(io, memory, &super, &store);
    if (error)
        return error;
    store->group_bytes = group_bytes_choose(options->group_bytes, &super);
    error = tables_setup(store) ?: buffers_setup(store) ?:      /* what opening it takes */
            first_pages(store) ?:
            signpost_write(io, &super, 0, meta_block(store)) ?:
            io_flush(io);
    if (!error) {
        store->log.end = store->log.durable = super.log_bytes;
        checkpoint_begin_at(store, store->log.end, 0);
        store->checkpoint.clean = true; /* the first start need not read the log for its end */
        error = checkpoint_finish(store) ?:             /* generation 1: slot B */
                creation_end(io, &store->checkpoint.next, meta_block(store));
    }
    store_abandon(store);
    return error;
}

/* ---- how much memory */

static void *alloc_count(void *context, size_t bytes)
{
    *(uint64_t *)context += bytes;
    return NULL;
}

uint64_t store_memory(const struct disk_io *io, const struct store_options *options)
{
    uint64_t bytes = sizeof(struct store) + PAGES_TO_WORK * BLOCK_BYTES;
    struct store store;
    memset(&store, 0, sizeof store);
    store.memory = (struct disk_memory){ .context = &bytes, .alloc = alloc_count };
    if (geometry_make(options, io->bytes, &store.super))
        return 0;
    store.group_bytes = group_bytes_choose(options->group_bytes, &store.super);
    int tables = tables_setup(&store), buffers = buffers_setup(&store);
    return tables && buffers ? bytes : 0;
}
