/*
 * slots.c - the superblock slots: which is valid, which is believed, and what kind of disk it is.
 */
#include "view.h"

#include <string.h>

uint64_t kslot_map_bytes(uint32_t pages)
{
    uint64_t per_block = BLOCK_BYTES / sizeof(struct map_entry_disk);
    return ((uint64_t)pages + per_block - 1) / per_block * BLOCK_BYTES;
}

uint64_t kslot_page_offset(const struct kslot *super, uint32_t area, uint32_t page)
{
    return super->area_start[area] + kslot_map_bytes(super->area_pages) +
           (uint64_t)page * BLOCK_BYTES;
}

static bool meets(const struct kslot *super, uint64_t extent, uint64_t start, uint64_t bytes)
{
    uint64_t first = super->data_start + extent * super->extent_bytes;
    return first < start + bytes && start < first + super->extent_bytes;
}

static uint64_t area_bytes(const struct kslot *super)
{
    return kslot_map_bytes(super->area_pages) + (uint64_t)super->area_pages * BLOCK_BYTES;
}

bool kslot_reserves(const struct kslot *super, uint64_t extent)
{
    return meets(super, extent, super->slot_b_offset, BLOCK_BYTES) ||
           meets(super, extent, super->area_start[0], area_bytes(super)) ||
           meets(super, extent, super->area_start[1], area_bytes(super));
}

/* Extents that meet [start, start + bytes): [*first, *end). */
static void extents_of(const struct kslot *super, uint64_t start, uint64_t bytes, uint64_t *first,
                       uint64_t *end)
{
    uint64_t last = start + bytes - 1;
    *first = *end = 0;
    if (last < super->data_start || !super->extents)
        return;
    *first = start < super->data_start ? 0 : (start - super->data_start) / super->extent_bytes;
    *end = (last - super->data_start) / super->extent_bytes + 1;
    *end = *end < super->extents ? *end : super->extents;
}

/* Each extent counts with the last of the three parts that it meets. */
uint64_t kslot_reserved(const struct kslot *super)
{
    const struct { uint64_t start, bytes; } part[] = {
        { super->slot_b_offset, BLOCK_BYTES }, { super->area_start[0], area_bytes(super) },
        { super->area_start[1], area_bytes(super) } };
    uint64_t count = 0, first, end;
    for (int i = 0; i < 3; i++) {
        extents_of(super, part[i].start, part[i].bytes, &first, &end);
        for (uint64_t e = first; e < end; e++) {
            bool again = false;
            for (int j = i + 1; j < 3; j++)
                again |= meets(super, e, part[j].start, part[j].bytes);
            count += !again;
        }
    }
    return count;
}

static bool all_zero(const uint8_t *bytes, size_t count)
{
    while (count && !*bytes)
        bytes++, count--;
    return !count;
}

static void decode(const struct superblock_disk *d, struct kslot *s)
{
    memcpy(s->uuid, d->uuid, 16);
    s->slot = le32_get(d->slot);
    s->flags = le32_get(d->flags);
    s->generation = le64_get(d->generation);
    s->disk_bytes = le64_get(d->disk_bytes);
    s->slot_b_offset = le64_get(d->slot_b_offset);
    s->log_start = le64_get(d->log_start);
    s->log_bytes = le64_get(d->log_bytes);
    s->extent_bytes = le32_get(d->extent_bytes);
    s->zone = le32_get(d->zone);
    s->area_pages = le32_get(d->area_pages);
    s->directory_pages_max = le32_get(d->directory_pages_max);
    s->names_pages_max = le32_get(d->names_pages_max);
    s->newest = le32_get(d->checkpoint_index);
    s->data_start = le64_get(d->data_start);
    s->extents = le64_get(d->extents);
    s->end_lsn = le64_get(d->end_lsn);
    s->epoch_count = le32_get(d->epoch_count);
    for (int i = 0; i < 2; i++) {
        const struct checkpoint_disk *c = &d->checkpoints[i];
        s->area_start[i] = le64_get(d->area_start[i]);
        s->checkpoints[i] = (struct kcheckpoint){
            .redo_lsn = le64_get(c->redo_lsn), .scan_lsn = le64_get(c->scan_lsn),
            .pages_lsn = le64_get(d->chunks[i].pages_lsn),
            .pages_crc = le32_get(d->chunks[i].pages_crc),
            .sequence = le64_get(c->sequence), .root_crc = le32_get(c->root_crc),
            .pages = le32_get(c->pages), .prev_crc = le32_get(c->prev_crc),
            .scan_crc = le32_get(c->scan_crc) };
        if (!s->checkpoints[i].pages_lsn) {
            s->checkpoints[i].pages_lsn = le64_get(c->redo_lsn);
            s->checkpoints[i].pages_crc = le32_get(c->prev_crc);
        }
    }
    for (uint32_t i = 0; i < EPOCH_MAX; i++)
        s->epochs[i] = (struct kepoch){ le64_get(d->epochs[i].first_lsn),
                                        le32_get(d->epochs[i].epoch) };
}

/* ---- the ranges of the fields; each function gives the first rule that is broken, or NULL */

static const char *sizes_wrong(const struct kslot *s)
{
    uint32_t pages = s->extent_bytes / BLOCK_BYTES;
    if (s->extent_bytes % BLOCK_BYTES || !pages || pages > STORE_EXTENT_PAGES_MAX ||
        kbits(pages) != 1)
        return "its extent size is not 4, 8, 16, 32 or 64 KiB";
    if (!store_zone_valid(s->zone))
        return "its zone does not exist";
    if (s->disk_bytes >= 1ull << 62 || s->extents > s->disk_bytes / s->extent_bytes)
        return "it has more extents than fit on its disk";
    if (s->log_bytes < LOG_BYTES_MIN || s->log_bytes % BLOCK_BYTES ||
        s->log_bytes > s->disk_bytes)
        return "its log has a wrong size";
    if (s->area_pages < 4 || s->area_pages > s->disk_bytes / BLOCK_BYTES)
        return "its metadata areas have a wrong size";
    if (!s->directory_pages_max || s->directory_pages_max > DIRECTORY_PAGES_MOST ||
        !s->names_pages_max || s->names_pages_max > DIRECTORY_PAGES_MOST)
        return "its limits of directory or names are out of range";
    return NULL;
}

/* All leaves, in chains of pages that are three quarters full, must fit into an area. */
static const char *area_too_small(const struct kslot *s)
{
    uint64_t per_page = (BLOCK_BYTES - 16) / (40 + 12 * (s->extent_bytes / BLOCK_BYTES));
    uint64_t need = 4 + (uint64_t)s->directory_pages_max + s->names_pages_max +
                    s->extents / per_page + 4 * s->extents / (3 * per_page);
    if (need > UINT32_MAX / 2)
        need = UINT32_MAX / 2;
    return s->area_pages < need ? "its metadata areas are too small for its extents" : NULL;
}

static const char *places_wrong(const struct kslot *s)
{
    uint64_t area = area_bytes(s);
    const struct { uint64_t start, bytes;
    } part[] = {
        { 0, SIGNPOST_OFFSET + BLOCK_BYTES },
        { s->log_start, s->log_bytes },
        { s->area_start[0], area },
        { s->area_start[1], area },
        { s->data_start, s->extents * s->extent_bytes },
        { s->slot_b_offset, BLOCK_BYTES },
    };
    const int count = 6, log = 1, data = 4;
    for (int i = 1; i < count; i++) {
        if (part[i].start % BLOCK_BYTES || part[i].start <= SIGNPOST_OFFSET ||
            part[i].start >= s->disk_bytes || part[i].bytes > s->disk_bytes - part[i].start)
            return "a part lies outside its disk";
        for (int j = 0; j < i; j++) {
            bool apart = part[i].start >= part[j].start + part[j].bytes ||
                         part[j].start >= part[i].start + part[i].bytes;
            bool lent = i == data || j == data;     /* only the log keeps out of the extents */
            if (!apart && !(lent && i != log && j != log && j != 0))
                return "two parts of the disk overlap";
        }
    }
    return NULL;
}

static bool lsn_odd(uint64_t lsn)
{
    return lsn % BLOCK_BYTES || lsn >> 62;
}

static bool checkpoint_odd(const struct kslot *s, const struct kcheckpoint *c)
{
    return lsn_odd(c->redo_lsn) || lsn_odd(c->scan_lsn) || c->scan_lsn < s->log_bytes ||
           c->scan_lsn > c->redo_lsn || c->redo_lsn - c->scan_lsn > s->log_bytes ||
           lsn_odd(c->pages_lsn) || c->pages_lsn < c->scan_lsn || c->pages_lsn > c->redo_lsn;
}

static const char *history_wrong(const struct kslot *s)
{
    const struct kcheckpoint *c = &s->checkpoints[s->newest], *o = &s->checkpoints[!s->newest];
    uint64_t newest = c->redo_lsn, older = o->redo_lsn;
    if (checkpoint_odd(s, c))
        return "its newest checkpoint's LSNs are out of range";
    if (older && (older > newest || checkpoint_odd(s, o)))
        return "its older checkpoint's LSNs are out of range";
    if (s->flags & FLAG_CLEAN && (lsn_odd(s->end_lsn) || s->end_lsn < newest))
        return "its end of the log is out of range";
    if (s->epoch_count < 1 || s->epoch_count > EPOCH_MAX)
        return "its epoch table has a wrong length";
    for (uint32_t i = 1; i < s->epoch_count; i++)
        if (s->epochs[i].first_lsn <= s->epochs[i - 1].first_lsn ||
            s->epochs[i].epoch <= s->epochs[i - 1].epoch)
            return "its epochs do not ascend";
    if (s->epochs[s->epoch_count - 1].epoch >= UINT32_MAX - 1 || s->generation >= UINT64_MAX / 2)
        return "its epoch or generation is out of range";
    return NULL;
}

static const char *fields_wrong(const struct superblock_disk *d, const struct kslot *s)
{
    if (s->slot > 1 || s->generation % 2 != s->slot || s->newest > 1)
        return "its slot number or checkpoint index is out of range";
    if ((s->slot ? s->slot_b_offset : 0) != s->offset)
        return "it belongs elsewhere";
    if (!all_zero(d->zero, sizeof d->zero))
        return "bytes that must be zero are not";
    const char *why = sizes_wrong(s);
    why = why ? why : area_too_small(s);
    why = why ? why : places_wrong(s);
    return why ? why : history_wrong(s);
}

static enum kslot_state judge(struct kslot *s, const struct superblock_disk *d,
                              const struct kview *view)
{
    s->version = le32_get(d->version);
    if (all_zero((const uint8_t *)d, sizeof *d)) {
        s->why = "it is all zeros";
        return KSLOT_ZERO;
    }
    s->why = "it has no superblock's magic number";
    if (le64_get(d->magic) != SUPERBLOCK_MAGIC)
        return KSLOT_FOREIGN;
    s->why = "it is of a newer format";
    if (s->version > FORMAT_VERSION)
        return KSLOT_NEWER;
    uint32_t seed = kview_seed(d->uuid, CRC_SUPERBLOCK, le32_get(d->slot), 0);
    const size_t from = offsetof(struct superblock_disk, version);
    s->why = "its CRC is wrong";
    if (kcheck_crc(seed, (const uint8_t *)d + from, sizeof *d - from) != le32_get(d->crc))
        return KSLOT_DAMAGED;
    s->why = "it is of an older format";
    if (s->version < (view->archived ? FORMAT_ALIKE : FORMAT_VERSION))
        return KSLOT_OLDER;
    s->why = "it uses features of a newer format";
    if (le64_get(d->features))
        return KSLOT_NEWER;
    decode(d, s);
    s->why = fields_wrong(d, s);
    if (!s->why && s->disk_bytes > view->io.bytes && !view->rescue)
        s->why = "the image is shorter than the store";
    if (s->why)
        return KSLOT_DAMAGED;
    s->extent_pages = s->extent_bytes / BLOCK_BYTES;
    s->leaf_bytes = (uint32_t)sizeof(struct leaf_disk) + 12 * s->extent_pages;
    s->leaves_per_page = (BLOCK_BYTES - (uint32_t)sizeof(struct bucket_disk)) / s->leaf_bytes;
    return KSLOT_VALID;
}

static void slot_read(struct kview *view, struct kslot *slot, uint64_t offset)
{
    struct superblock_disk block;
    memset(slot, 0, sizeof *slot);
    slot->offset = offset;
    slot->state = KSLOT_DAMAGED;
    slot->why = "it cannot be read";
    slot->unreadable = kview_read(view, offset, &block, sizeof block) != 0;
    if (slot->unreadable)
        return;
    slot->unfinished = le64_get(block.magic) == UNFINISHED_MAGIC;
    slot->state = judge(slot, &block, view);
}

/* Is a valid superblock there? Then it is slot B. */
static bool slot_b_try(struct kview *view, uint64_t at)
{
    struct kslot slot;
    slot_read(view, &slot, at);
    if (slot.state == KSLOT_VALID)
        view->slots[1] = slot;
    return slot.state == KSLOT_VALID;
}

/* The disk had half its size, or a quarter ... when the store was made. */
static bool slot_b_guess(struct kview *view)
{
    for (uint64_t bytes = view->io.bytes; bytes >= 8 * BLOCK_BYTES; bytes /= 2)
        if (slot_b_try(view, bytes / BLOCK_BYTES / 2 * BLOCK_BYTES))
            return true;
    return false;
}

#define SEEK_BYTES (1u << 20)

/* Both slots seem lost, or A is and the disk has another size now: look at every block. */
static void slot_b_seek(struct kview *view)
{
    for (uint64_t at = 0; at < view->io.bytes; at += SEEK_BYTES) {
        size_t bytes =
            view->io.bytes - at < SEEK_BYTES ? (size_t)(view->io.bytes - at) : SEEK_BYTES;
        kview_progress(view, "looking for a superblock", at, view->io.bytes);
        bool read = !kview_buffer(view, SEEK_BYTES) && !kview_read(view, at, view->buffer, bytes);
        for (size_t i = 0; i + BLOCK_BYTES <= bytes; i += BLOCK_BYTES) {
            const struct superblock_disk *block = (const void *)(view->buffer + i);
            if ((!read || le64_get(block->magic) == SUPERBLOCK_MAGIC) && at + i &&
                slot_b_try(view, at + i))
                return;
        }
    }
}

/* Where slot B is when slot A does not tell: the signpost says it, or it is in the middle. */
static uint64_t slot_b_place(struct kview *view)
{
    struct signpost_disk post;
    const size_t from = offsetof(struct signpost_disk, version);
    uint64_t middle = view->io.bytes / BLOCK_BYTES / 2 * BLOCK_BYTES;
    if (kview_read(view, SIGNPOST_OFFSET, &post, sizeof post))
        return middle;
    uint32_t seed = kview_seed(post.uuid, CRC_SIGNPOST, SIGNPOST_OFFSET, 0);
    uint64_t place = le64_get(post.slot_b_offset);
    view->signpost_valid = le64_get(post.magic) == SIGNPOST_MAGIC &&
                           le32_get(post.version) <= FORMAT_VERSION &&
                           kcheck_crc(seed, (const uint8_t *)&post + from, sizeof post - from) ==
                               le32_get(post.crc) &&
                           place % BLOCK_BYTES == 0 && place <= view->io.bytes - BLOCK_BYTES;
    view->being_made = view->signpost_valid && !place;
    memcpy(view->making, post.uuid, sizeof view->making);
    return view->signpost_valid && place ? place : middle;
}

void kslots_read(struct kview *view)
{
    struct kslot *a = &view->slots[0], *b = &view->slots[1];
    slot_read(view, a, 0);
    uint64_t place = slot_b_place(view);
    slot_read(view, b, a->state == KSLOT_VALID ? a->slot_b_offset : place);
    if (a->state == KSLOT_VALID && b->state == KSLOT_VALID && memcmp(a->uuid, b->uuid, 16)) {
        b->state = KSLOT_FOREIGN;
        b->why = "it is of another store";
    }
    for (int i = 0; i < 2; i++)         /* made but for the signpost's last write */
        if (view->slots[i].state == KSLOT_VALID && view->slots[i].generation >= GENERATION_MADE &&
            !memcmp(view->slots[i].uuid, view->making, sizeof view->making))
            view->being_made = false;
    bool found = view->signpost_valid || a->state == KSLOT_VALID || b->state == KSLOT_VALID ||
                 slot_b_guess(view);
    for (int i = 0; i < 2; i++)         /* the signpost proves that there was a store */
        if (view->signpost_valid && (view->slots[i].state == KSLOT_ZERO ||
                                     view->slots[i].state == KSLOT_FOREIGN))
            view->slots[i].state = KSLOT_DAMAGED;
    if (view->rescue && (!found || view->signpost_valid) && a->state != KSLOT_VALID &&
        b->state != KSLOT_VALID)
        slot_b_seek(view);
    for (int i = 0; i < 2; i++)
        view->result.slot_bad[i] = view->slots[i].state != KSLOT_VALID;
}

static bool block_blank(struct kview *view, uint64_t at)
{
    uint8_t block[BLOCK_BYTES];
    return !kview_read(view, at, block, sizeof block) && all_zero(block, sizeof block);
}

/* Zeros at the start, at the end, and wherever slot B might have been. */
static bool image_blank(struct kview *view)
{
    uint64_t blocks = view->io.bytes / BLOCK_BYTES;
    for (uint64_t at = 0; at < BLANK_BYTES && at < blocks * BLOCK_BYTES; at += BLOCK_BYTES)
        if (!block_blank(view, at))
            return false;
    for (uint64_t bytes = view->io.bytes; bytes >= 8 * BLOCK_BYTES; bytes /= 2)
        if (!block_blank(view, bytes / BLOCK_BYTES / 2 * BLOCK_BYTES))
            return false;
    return block_blank(view, (blocks - 1) * BLOCK_BYTES);
}

/* What to believe: the valid slot of the larger generation. Else, what the disk is. */
int kslots_choose(struct kview *view)
{
    const struct kslot *a = &view->slots[0], *b = &view->slots[1];
    if (a->unfinished)                  /* the signpost may be a store's that was there before */
        return -EMEDIUMTYPE;
    if (view->being_made)               /* the power was cut while the store was created */
        return -ENODATA;
    if (a->state == KSLOT_VALID || b->state == KSLOT_VALID) {
        bool take_b = a->state != KSLOT_VALID ||
                      (b->state == KSLOT_VALID && b->generation > a->generation);
        view->super = take_b ? *b : *a;
        return 0;
    }
    if (a->unreadable && b->unreadable)
        return -EIO;
    if (a->state == KSLOT_NEWER || b->state == KSLOT_NEWER)
        return -EPROTONOSUPPORT;
    if (a->state == KSLOT_OLDER || b->state == KSLOT_OLDER)
        return -EOPNOTSUPP;
    if (a->state == KSLOT_DAMAGED || b->state == KSLOT_DAMAGED)
        return -EUCLEAN;
    bool blank = a->state == KSLOT_ZERO && b->state == KSLOT_ZERO && image_blank(view);
    return blank ? -ENODATA : -EMEDIUMTYPE;
}
