/*
 * superblock.c - the pair of superblock slots.
 *
 * Invariants
 *   SB1  What a slot names is flushed before the slot is written, and the slot is flushed before
 *       anything it releases is used again (the callers' order; see checkpoint.c and open.c).
 *   SB2  Generation g lies in slot g & 1, so a torn write never hits the newest good slot.
 *   SB3  No field is believed before magic, version and CRC hold and all fields are in range.
 *   SB4  While an area is written, both slots name the other one (but see CP2). So each superblock
 *       that names another area than the one before has a twin: the same, one generation on, in the
 *       other slot, once it is durable itself. One slot that is lost costs nothing then, at any
 *       time.
 *   SB5  A start finds room in the table for its epoch. One stays there as long as the log that is
 *       kept has it, so what is in doubt is written again when more than half of the table is full.
 */
#include "internal.h"

#define CRC_START offsetof(struct superblock_disk, version)
_Static_assert(offsetof(struct signpost_disk, version) == CRC_START &&
               offsetof(struct signpost_disk, uuid) == offsetof(struct superblock_disk, uuid) &&
               offsetof(struct label_disk, version) == CRC_START, "block_crc");

uint32_t crc_seed(const uint8_t uuid[16], enum crc_kind kind, uint64_t address, uint32_t epoch)
{
    struct { uint8_t uuid[16]; le32 kind, epoch; le64 address; } seed;
    memcpy(seed.uuid, uuid, 16);
    seed.kind = le32_of(kind);
    seed.epoch = le32_of(epoch);
    seed.address = le64_of(address);
    return crc32c(0, &seed, sizeof seed);
}

uint32_t map_seed(const struct superblock *super, uint32_t area)
{
    return crc_seed(super->uuid, CRC_MAP, super->checkpoints[area].redo_lsn, 0);
}

uint32_t meta_crc(const struct superblock *super, uint64_t page, const void *bytes)
{
    return crc32c(crc_seed(super->uuid, CRC_META, page, 0), bytes, BLOCK_BYTES);
}

/* block_crc gives the CRC of slot, signpost or label: they have version and uuid at one place. */
uint32_t block_crc(const void *block, enum crc_kind kind, uint64_t address)
{
    const struct signpost_disk *post = block;
    return crc32c(crc_seed(post->uuid, kind, address, 0), (const uint8_t *)block + CRC_START,
                  BLOCK_BYTES - CRC_START);
}

static uint32_t slot_crc(const struct superblock_disk *slot)
{
    return block_crc(slot, CRC_SUPERBLOCK, le32_get(slot->slot));
}

uint64_t slot_b_place(uint64_t disk_bytes)
{
    return disk_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES;
}

uint64_t slot_offset(const struct superblock *super, uint32_t slot)
{
    return slot ? super->slot_b_offset : 0;
}

void signpost_encode(const struct superblock *super, uint64_t slot_b_offset,
                     struct signpost_disk *out)
{
    memset(out, 0, sizeof *out);
    out->magic = le64_of(SIGNPOST_MAGIC);
    out->version = le32_of(FORMAT_VERSION);
    memcpy(out->uuid, super->uuid, 16);
    out->slot_b_offset = le64_of(slot_b_offset);
    out->crc = le32_of(block_crc(out, CRC_SIGNPOST, SIGNPOST_OFFSET));
}

bool signpost_decode(const struct signpost_disk *in, uint64_t disk_bytes, uint64_t *slot_b_offset)
{
    uint64_t offset = le64_get(in->slot_b_offset);
    if (le64_get(in->magic) != SIGNPOST_MAGIC || le32_get(in->version) > FORMAT_VERSION ||
        le32_get(in->crc) != block_crc(in, CRC_SIGNPOST, SIGNPOST_OFFSET) || offset % BLOCK_BYTES ||
        offset > disk_bytes - BLOCK_BYTES)
        return false;
    *slot_b_offset = offset;
    return true;
}

#define NUMBERS(number) \
    number(32, slot) number(32, flags) number(64, generation) number(64, disk_bytes) \
    number(64, slot_b_offset) number(64, log_start) number(64, log_bytes) number(32, extent_bytes) \
    number(32, zone) number(32, area_pages) number(32, directory_pages_max) \
    number(32, names_pages_max) number(32, checkpoint_index) number(64, data_start) \
    number(64, extents) number(64, end_lsn) number(32, epoch_count)
#define AREA_NUMBERS(number, i)                                                  \
    number(64, area_start[i]) number(64, checkpoints[i].redo_lsn)                \
        number(64, checkpoints[i].scan_lsn) number(32, checkpoints[i].scan_crc)  \
            number(32, checkpoints[i].root_crc) number(32, checkpoints[i].pages) \
                number(32, checkpoints[i].prev_crc) number(64, checkpoints[i].sequence)
#define EPOCH_NUMBERS(number, i) number(32, epochs[i].epoch) number(64, epochs[i].first_lsn)

void superblock_encode(const struct superblock *in, struct superblock_disk *out)
{
    memset(out, 0, sizeof *out);
    out->magic = le64_of(SUPERBLOCK_MAGIC);
    memcpy(out->uuid, in->uuid, 16);
    NUMBERS(NUMBER_ENCODE)
    AREA_NUMBERS(NUMBER_ENCODE, 0)
    AREA_NUMBERS(NUMBER_ENCODE, 1)
    for (uint32_t i = 0; i < 2; i++) {
        out->chunks[i].pages_lsn = le64_of(in->checkpoints[i].pages_lsn);
        out->chunks[i].pages_crc = le32_of(in->checkpoints[i].pages_crc);
    }
    for (uint32_t i = 0; i < in->epoch_count; i++) {
        EPOCH_NUMBERS(NUMBER_ENCODE, i)
    }
    superblock_seal(out);
}

void superblock_seal(struct superblock_disk *block)
{
    block->version = le32_of(FORMAT_VERSION);
    block->crc = le32_of(slot_crc(block));
}

static void fields_decode(const struct superblock_disk *in, struct superblock *out)
{
    memset(out, 0, sizeof *out);
    out->format = FORMAT_VERSION;
    memcpy(out->uuid, in->uuid, 16);
    NUMBERS(NUMBER_DECODE)
    AREA_NUMBERS(NUMBER_DECODE, 0)
    AREA_NUMBERS(NUMBER_DECODE, 1)
    for (uint32_t i = 0; i < 2; i++) {
        out->checkpoints[i].pages_lsn = le64_get(in->chunks[i].pages_lsn);
        out->checkpoints[i].pages_crc = le32_get(in->chunks[i].pages_crc);
    }
    for (uint32_t i = 0; i < EPOCH_MAX; i++) {
        EPOCH_NUMBERS(NUMBER_DECODE, i)
    }
}

/* range_valid: [start, start + bytes) is whole blocks inside the disk and behind the signpost. */
static bool range_valid(const struct superblock *super, uint64_t start, uint64_t bytes)
{
    return start % BLOCK_BYTES == 0 && start > SIGNPOST_OFFSET && start < super->disk_bytes &&
           bytes <= super->disk_bytes - start;
}

static bool ranges_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a + a_bytes <= b || b + b_bytes <= a;
}

bool units_valid(const struct superblock *super)
{
    uint32_t extent = super->extent_bytes;
    return extent >= BLOCK_BYTES && extent <= STORE_EXTENT_PAGES_MAX * BLOCK_BYTES &&
           !(extent & (extent - 1)) && store_zone_valid(super->zone);
}

static bool geometry_valid(const struct superblock *super)
{
    uint64_t area = area_bytes(super->area_pages);
    uint64_t data_bytes = super->extents * super->extent_bytes;
    uint32_t extent = super->extent_bytes;
    if (!units_valid(super) || super->disk_bytes >> 62 ||
        super->extents > super->disk_bytes / extent)
        return false;
    if (super->area_pages < 4 || super->area_pages > super->disk_bytes / BLOCK_BYTES ||
        super->directory_pages_max < 1 || super->names_pages_max < 1 ||
        super->directory_pages_max > DIRECTORY_PAGES_MOST ||
        super->names_pages_max > DIRECTORY_PAGES_MOST ||
        super->area_pages < area_pages_for(super->extents, extent, super->directory_pages_max,
                                           super->names_pages_max))
        return false;
    if (super->log_bytes < LOG_BYTES_MIN || super->log_bytes % BLOCK_BYTES)
        return false;
    struct { uint64_t start, bytes; } range[5] = {
        { super->log_start, super->log_bytes }, { super->area_start[0], area },
        { super->area_start[1], area }, { super->data_start, data_bytes },
        { super->slot_b_offset, BLOCK_BYTES },
    };
    for (int i = 0; i < 5; i++) {
        if (!range_valid(super, range[i].start, range[i].bytes))
            return false;
        for (int j = 0; j < i; j++)     /* only the log may not lie among the extents */
            if ((i == 3 || j == 3 ? j == 0 : true) && !ranges_apart(range[i].start, range[i].bytes,
                                                     range[j].start, range[j].bytes))
                return false;
    }
    return true;
}

static bool checkpoint_valid(const struct superblock *super, const struct checkpoint_info *c)
{
    return c->redo_lsn % BLOCK_BYTES == 0 && c->scan_lsn % BLOCK_BYTES == 0 &&
           c->redo_lsn >> 62 == 0 && c->scan_lsn >= super->log_bytes &&
           c->scan_lsn <= c->redo_lsn && c->redo_lsn - c->scan_lsn <= super->log_bytes &&
           (!c->pages_lsn || (c->pages_lsn % BLOCK_BYTES == 0 && c->pages_lsn >= c->scan_lsn &&
                              c->pages_lsn <= c->redo_lsn));
}

bool epochs_valid(const struct superblock *super)
{
    if (super->epoch_count < 1 || super->epoch_count > EPOCH_MAX)
        return false;
    for (uint32_t i = 1; i < super->epoch_count; i++)
        if (super->epochs[i].first_lsn <= super->epochs[i - 1].first_lsn ||
            super->epochs[i].epoch <= super->epochs[i - 1].epoch)
            return false;
    return super->epochs[super->epoch_count - 1].epoch < EPOCH_LIMIT;
}

static bool lsns_valid(const struct superblock *super)
{
    const struct checkpoint_info *newest = &super->checkpoints[super->checkpoint_index];
    const struct checkpoint_info *older = &super->checkpoints[!super->checkpoint_index];
    if (!checkpoint_valid(super, newest) ||
        (older->redo_lsn &&
         (older->redo_lsn > newest->redo_lsn || !checkpoint_valid(super, older))))
        return false;
    if (super->flags & FLAG_CLEAN &&
        (super->end_lsn < newest->redo_lsn || super->end_lsn >> 62 || super->end_lsn % BLOCK_BYTES))
        return false;
    return epochs_valid(super) && super->generation < UINT64_MAX / 2;
}

/* superblock_decode checks and decodes a slot. `offset` is where it was read; 0 is slot A. */
enum slot_verdict superblock_decode(const struct superblock_disk *in, uint64_t disk_bytes,
                                    uint64_t offset, struct superblock *out, uint32_t *version)
{
    if (bytes_zero(in, sizeof *in))
        return SLOT_ZERO;
    if (le64_get(in->magic) != SUPERBLOCK_MAGIC)
        return SLOT_FOREIGN;
    *version = le32_get(in->version);
    if (*version > FORMAT_VERSION)
        return SLOT_NEWER;
    if (le32_get(in->crc) != slot_crc(in))
        return SLOT_DAMAGED;
    if (*version < FORMAT_VERSION)      /* the CRC is where it was and covers what it did */
        return SLOT_OLDER;
    if (le64_get(in->features))
        return SLOT_NEWER;
    fields_decode(in, out);
    if (out->slot > 1 || out->generation % 2 != out->slot || out->checkpoint_index > 1 ||
        out->disk_bytes > disk_bytes || slot_offset(out, out->slot) != offset ||
        !bytes_zero(in->zero, sizeof in->zero) || !geometry_valid(out) || !lsns_valid(out))
        return SLOT_DAMAGED;
    return SLOT_VALID;
}

/* superblock_write writes the slot of super->generation. `block` is 4 KiB of scratch. No flush. */
int superblock_write(const struct disk_io *io, const struct superblock *super, void *block)
{
    struct superblock slot = *super;
    slot.slot = super->generation & 1;
    superblock_encode(&slot, block);
    return io_write(io, slot_offset(super, slot.slot), block, BLOCK_BYTES);
}

int superblock_again(const struct disk_io *io, struct superblock *super, void *scratch)
{
    struct superblock_disk *block = scratch;
    struct superblock read;
    uint32_t slot = super->generation & 1, version;
    uint64_t from = slot_offset(super, slot);
    int error = io_read(io, from, block, BLOCK_BYTES);
    if (!error &&
        (superblock_decode(block, io->bytes, from, &read, &version) != SLOT_OLDER ||
         le64_get(block->generation) != super->generation))
        error = -EIO;                   /* these are not the bytes that were verified */
    block->generation = le64_of(++super->generation);
    block->slot = le32_of(!slot);
    block->crc = le32_of(slot_crc(block));
    return error ?: io_write(io, slot_offset(super, !slot), block, BLOCK_BYTES);
}

/* epoch_at is the epoch that a group at this LSN must carry; 0 matches none. */
uint32_t epoch_at(const struct superblock *super, uint64_t lsn)
{
    uint32_t epoch = 0;
    for (uint32_t i = 0; i < super->epoch_count && super->epochs[i].first_lsn <= lsn; i++)
        epoch = super->epochs[i].epoch;
    return epoch;
}

/* epoch_fits tells whether a group at this LSN may carry this epoch. One that is newer than all in
 * the table began in a superblock that is lost; its group is believed for all else that it says. */
bool epoch_fits(const struct superblock *super, uint32_t epoch, uint64_t lsn)
{
    const struct epoch_info *newest = &super->epochs[super->epoch_count - 1];
    return epoch == epoch_at(super, lsn) ||
           (epoch > newest->epoch && lsn >= newest->first_lsn);
}

void epochs_forget(struct superblock *super, uint64_t keep_lsn)
{
    uint32_t first = 0;
    while (first + 1 < super->epoch_count && super->epochs[first + 1].first_lsn <= keep_lsn)
        first++;
    super->epoch_count -= first;
    memmove(super->epochs, super->epochs + first, super->epoch_count * sizeof super->epochs[0]);
}

/* epoch_begin begins epoch `epoch`, which is newer than all others, at lsn. Epochs that end before
 * keep_lsn are forgotten; one in which nothing was logged is replaced, so that crashes in a row do
 * not fill the table. -EUCLEAN: it is full, or the numbers are used up. */
int epoch_begin(struct superblock *super, uint32_t epoch, uint64_t lsn, uint64_t keep_lsn)
{
    if (epoch >= EPOCH_LIMIT)
        return -EUCLEAN;
    epochs_forget(super, keep_lsn);
    if (super->epochs[super->epoch_count - 1].first_lsn >= lsn)
        super->epoch_count--;
    if (super->epoch_count == EPOCH_MAX)
        return -EUCLEAN;
    super->epochs[super->epoch_count].epoch = epoch;
    super->epochs[super->epoch_count++].first_lsn = lsn;
    return 0;
}
