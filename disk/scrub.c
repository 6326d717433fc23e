/*
 * scrub.c - reads every copy on the disk of a store that is at work, and puts back what has another
 * one.
 *
 * A round goes over the superblock slots and the signpost; of each area the map, then its pages;
 * the blocks of the log's ring, then the groups that a recovery would need; the pages at home, by
 * extent. Each piece goes through the calls in store.h: next, read, judge, and if something is
 * rotten seek, holds, write.
 *
 * Invariants
 *   SR1  Nothing is believed of a piece if what it belongs to has changed while it was read: the
 *        superblock's generation, or the page's LSN.
 *   SR2  What is put back has the CRC that superblock, map or leaf give, and goes where the rotten
 *        bytes are. So a write that the power cuts off leaves no more rotten than was.
 *   SR3  Of the ring only dead log is written: a block that cannot be read would one day be where
 *        the log ends.
 *   SR4  The next checkpoint leaves the older area alone if memory does not have what has rotted of
 *        the newest one.
 */
#include "internal.h"

#define VISITS       1024u      /* so many extents are looked at in one call under the mutex */
#define READ_AGAIN   2u
#define MAP_ENTRIES  (BLOCK_BYTES / sizeof(struct map_entry_disk))
#define SLOT_PARTS   3u         /* slot A, slot B, signpost */

/* ---- next */

/* blocks_choose takes up to `most` blocks, from s->at on, of so many that begin at `start`. */
static void blocks_choose(struct store_scrub *s, uint64_t start, uint64_t blocks, uint64_t most)
{
    s->offset = start + s->at * BLOCK_BYTES;
    s->count = s->at < blocks ? (uint32_t)MIN(blocks - s->at, most) : 0;
}

static void map_choose(struct store *store, struct store_scrub *s, uint32_t pages)
{
    uint64_t blocks = area_map_bytes(pages) / BLOCK_BYTES;
    if (s->map_generation != s->generation)
        s->at = 0;                              /* another map */
    s->map_generation = s->generation;
    if (!s->at)
        s->sum = map_seed(&store->super, s->part);
    blocks_choose(s, store->super.area_start[s->part], blocks, STORE_SCRUB_BLOCKS);
    s->last = s->at + s->count == blocks;
}

/* meta_choose takes the block of the map first, then pages that it tells of. */
static void meta_choose(struct store *store, struct store_scrub *s, uint32_t pages)
{
    s->map_offset = store->super.area_start[s->part] + s->at / MAP_ENTRIES * BLOCK_BYTES;
    blocks_choose(s, area_page_offset(&store->super, s->part, 0), pages,
                  MIN(MAP_ENTRIES - s->at % MAP_ENTRIES, STORE_SCRUB_BLOCKS - 1));
}

/* of_groups tells whether a piece is of part 1 of the ring: the groups that are applied, of which
 * s->at is an LSN and s->sum the CRC of the group before. */
static bool of_groups(const struct store_scrub *s)
{
    return s->kind == STORE_SCRUB_RING && s->part;
}

static void groups_choose(struct store *store, struct store_scrub *s)
{
    const struct checkpoint_info *from = store->super.checkpoints;
    from += from->scan_lsn != store->log.keep;
    if (s->at < store->log.keep) {              /* the first one, or those before were released */
        s->at = store->log.keep;
        s->sum = from->scan_crc;
    }
    s->end_lsn = store->log.applied;
    s->count = s->at < s->end_lsn;
}

/* homes_of gives the pages of extent s->at whose home counts: bit p is page p. */
static uint32_t homes_of(struct store *store, const struct store_scrub *s, struct leaf_disk **leaf)
{
    const struct extent *e = &store->extents[s->at];
    *leaf = extent_state(store, s->at) == EXTENT_USED ? extent_leaf(store, e, NULL) : NULL;
    return *leaf ? le32_get((*leaf)->mask) & ~(uint32_t)e->dirty : 0;
}

static bool pages_choose(struct store *store, struct store_scrub *s)
{
    struct leaf_disk *leaf;
    for (uint32_t visits = VISITS; s->at < store->space.top && visits--; s->at++) {
        s->homes = homes_of(store, s, &leaf);
        if (!s->homes)
            continue;
        s->object = le64_get(leaf->object);
        s->index = le64_get(leaf->index);
        s->offset = extent_offset(store, s->at);
        s->count = store->extent_pages;
        for (uint32_t p = 0; p < s->count; p++)
            s->lsn[p] = le64_get(leaf_lsn(store, leaf)[p]);
        return true;
    }
    s->count = 0;
    return s->at < store->space.top;        /* nothing to read this time */
}

static bool choose(struct store *store, struct store_scrub *s)
{
    const struct superblock *super = &store->super;
    const struct checkpoint_info *c = &super->checkpoints[s->part & 1];
    uint32_t pages = c->redo_lsn ? c->pages : 0;
    if (s->kind == STORE_SCRUB_PAGE)
        return pages_choose(store, s);
    if (s->kind == STORE_SCRUB_SLOT)
        blocks_choose(s, s->part < 2 ? slot_offset(super, s->part) : SIGNPOST_OFFSET, 1, 1);
    else if (s->kind == STORE_SCRUB_MAP)
        map_choose(store, s, pages);
    else if (s->kind == STORE_SCRUB_META)
        meta_choose(store, s, pages);
    else if (of_groups(s))
        groups_choose(store, s);
    else
        blocks_choose(s, super->log_start, super->log_bytes / BLOCK_BYTES, STORE_SCRUB_BLOCKS);
    return s->count;
}

/* part_next goes to the next part of this kind, or the next kind. False: the round is over. */
static bool part_next(struct store_scrub *s)
{
    static const uint8_t parts[STORE_SCRUB_KINDS] = { SLOT_PARTS, 2, 2, 2, 1 };
    s->at = s->skip = s->written = s->again = 0;
    if (++s->part < parts[s->kind])
        return true;
    s->part = 0;
    s->kind = (s->kind + 1) % STORE_SCRUB_KINDS;
    return s->kind != STORE_SCRUB_SLOT;
}

int store_scrub_next(struct store *store, struct store_scrub *s)
{
    int fence = fence_get(store);
    if (fence && fence != -EROFS)
        return fence;
    if (store->checkpoint.running)
        return -EAGAIN;
    s->generation = store->super.generation;
    while (!choose(store, s))
        if (!part_next(s))
            return -ENOENT;
    return s->count ? 0 : -EAGAIN;
}

/* ---- read */

static void blocks_read(const struct store *store, struct store_scrub *s)
{
    s->unreadable = 0;
    if (!io_read(&store->io, s->offset, s->bytes, (size_t)s->count * BLOCK_BYTES))
        return;
    for (uint32_t i = 0; i < s->count; i++)
        if (io_read(&store->io, s->offset + (uint64_t)i * BLOCK_BYTES,
                       s->bytes + (size_t)i * BLOCK_BYTES, BLOCK_BYTES))
            s->unreadable |= 1u << i;
}

/* groups_read follows the groups for a piece's bytes, or one that is larger. s->offset is where it
 * broke off. */
static void groups_read(struct store *store, struct store_scrub *s)
{
    const size_t most = STORE_SCRUB_BLOCKS * BLOCK_BYTES;
    struct log_reader reader;
    const uint8_t *group;
    s->next_lsn = s->at;
    s->next_crc = s->sum;
    s->unreadable = 0;
    s->result = log_reader_open(&reader, store, most) ? -ENOMEM : 1;
    while (s->result > 0 && s->next_lsn < s->end_lsn && s->next_lsn - s->at < most)
        s->result = log_next(&reader, &s->next_lsn, &s->next_crc, &group);
    log_reader_close(&reader);
    s->offset = ring_offset(store, s->next_lsn);
    s->count = 1 + (uint32_t)((s->next_lsn - s->at) / BLOCK_BYTES);
}

void store_scrub_read(struct store *store, struct store_scrub *s)
{
    if (of_groups(s))
        groups_read(store, s);
    else
        blocks_read(store, s);
    s->blocks += s->count;
    s->map_lost =
        s->kind == STORE_SCRUB_META && io_read(&store->io, s->map_offset, s->map, BLOCK_BYTES);
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *block = s->bytes + (size_t)i * BLOCK_BYTES;
        if (s->kind == STORE_SCRUB_MAP)
            s->sum = crc32c(s->sum, block, BLOCK_BYTES);
        else if (s->kind == STORE_SCRUB_META)
            s->crc[i] = meta_crc(&store->super, s->at + i, block);
        else if (s->kind == STORE_SCRUB_PAGE && s->homes >> i & 1)
            s->crc[i] = crc32c(0, block, BLOCK_BYTES);
    }
}

/* ---- judge */

static bool slot_sound(struct store *store, const struct store_scrub *s)
{
    struct superblock super;
    uint32_t version;
    uint64_t b;
    if (s->part == 2)
        return signpost_decode((const void *)s->bytes, store->io.bytes, &b) &&
               b == store->super.slot_b_offset;
    return superblock_decode((const void *)s->bytes, store->io.bytes, s->offset, &super,
                             &version) == SLOT_VALID &&
           store->super.generation - super.generation < 2;
}

/* block_sound tells whether block i of the piece is as it should be, or nobody needs it. */
static bool block_sound(struct store *store, struct store_scrub *s, uint32_t i)
{
    const struct map_entry_disk *entry = (const void *)s->map;
    bool readable = !(s->unreadable >> i & 1);
    struct leaf_disk *leaf;
    switch (s->kind) {
    case STORE_SCRUB_SLOT:
        return readable && slot_sound(store, s);
    case STORE_SCRUB_MAP:
        return readable && (!s->last || i + 1 < s->count ||
                            s->sum == store->super.checkpoints[s->part].root_crc);
    case STORE_SCRUB_META:
        entry += (s->at + i) % MAP_ENTRIES;
        s->wanted = le32_get(entry->crc);
        return s->map_lost || le16_get(entry->kind) == META_FREE ||
               (readable && s->crc[i] == s->wanted);
    case STORE_SCRUB_RING:
        return s->part ? s->result > 0 : readable;
    default:
        if (!(s->homes >> i & homes_of(store, s, &leaf) >> i & 1) ||
            le64_get(leaf->object) != s->object || le64_get(leaf->index) != s->index ||
            le64_get(leaf_lsn(store, leaf)[i]) != s->lsn[i])
            return true;
        s->wanted = le32_get(leaf_crc(leaf)[i]);
        return readable && s->crc[i] == s->wanted;
    }
}

/* ring_dead tells if the ring's block may be written, as nobody needs a log that lies there. */
static bool ring_dead(const struct store *store, uint64_t offset)
{
    uint64_t ring = store->super.log_bytes;
    uint64_t from = (offset - store->super.log_start + ring - store->log.keep % ring) % ring;
    return from >= store->log.end - store->log.keep;
}

/* good_from_memory puts what memory knows of block s->bad into s->good. */
static void good_from_memory(struct store *store, struct store_scrub *s)
{
    struct superblock super = store->super;
    uint32_t number = (uint32_t)(s->at + s->bad);
    const struct meta_page *page = &store->pages[number];
    s->found = true;
    if (s->kind == STORE_SCRUB_SLOT && s->part == 2) {
        signpost_encode(&super, super.slot_b_offset, (void *)s->good);
    } else if (s->kind == STORE_SCRUB_SLOT) {
        super.generation -= (super.generation ^ s->part) & 1;
        super.slot = s->part;
        superblock_encode(&super, (void *)s->good);
    } else if (s->kind == STORE_SCRUB_MAP) {
        const struct checkpoint_info *c = &super.checkpoints[s->part];
        s->good_map = area_map_bytes(c->pages);
        s->found = crc32c(map_seed(&super, s->part), store->map, s->good_map) == c->root_crc;
    } else if (s->kind == STORE_SCRUB_META && page->bytes) {
        memcpy(s->good, page->bytes, BLOCK_BYTES);
        s->found = meta_crc(&store->super, number, s->good) == s->wanted;
    } else if (s->kind == STORE_SCRUB_RING) {
        memset(s->good, 0, BLOCK_BYTES);
        s->found = ring_dead(store, s->good_offset);
    } else {
        s->found = false;
    }
}

static void piece_done(struct store_scrub *s)
{
    if (of_groups(s)) {
        s->at = s->next_lsn;
        s->sum = s->next_crc;
    } else {
        s->at += s->kind == STORE_SCRUB_PAGE ? 1 : s->count;
    }
    s->skip = 0;
    if (s->kind != STORE_SCRUB_MAP || s->last)  /* a map is read again as a whole */
        s->again = s->written = 0;
}

int store_scrub_judge(struct store *store, struct store_scrub *s)
{
    if (store->checkpoint.running || store->super.generation != s->generation)
        return -EAGAIN;                                                                 /* SR1 */
    if (of_groups(s) && s->result == -ENOMEM)
        return -EAGAIN;
    uint32_t blocks = of_groups(s) ? 1 : s->count;
    for (s->bad = 0; s->bad < blocks; s->bad++)
        if (!(s->skip >> s->bad & 1) && !block_sound(store, s, s->bad))
            break;
    if (s->bad == blocks) {
        piece_done(s);
        return 0;
    }
    bool map = s->kind == STORE_SCRUB_MAP;
    if (map)
        s->at = 0;
    if (s->again++ < READ_AGAIN)
        return -EAGAIN;
    s->good_offset =
        map ? store->super.area_start[s->part] : s->offset + (uint64_t)s->bad * BLOCK_BYTES;
    s->page = s->index * store->extent_pages + s->bad;
    s->end_lsn = store->log.end;
    good_from_memory(store, s);
    store->area_rotten |= !s->found && (map || s->kind == STORE_SCRUB_META) &&
                          s->part == store->super.checkpoint_index;
    return -EUCLEAN;
}

void store_scrub_skip(struct store_scrub *s)
{
    if (s->kind == STORE_SCRUB_MAP || of_groups(s))
        s->at = UINT64_MAX / BLOCK_BYTES;       /* no block of this map, no group is behind */
    s->skip |= 1u << s->bad;
    s->again = 0;
}

/* ---- seek */

/* record_take makes of s->good what its page's record says; true: that is what the leaf wants. */
static bool record_take(struct store_scrub *s, const struct record_disk *record)
{
    struct unpacked unpacked;
    if (le64_get(record->object) != s->object || le64_get(record->page) != s->page ||
        !(record = record_unpack(record, &unpacked)) || !record_page_valid(record) ||
        le16_get(record->type) == RECORD_PAGE_LOGGED)
        return false;
    record_page(record, s->good);
    return crc32c(0, s->good, BLOCK_BYTES) == s->wanted;
}

static bool group_search(struct store_scrub *s, const uint8_t *group)
{
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    while (record_next(&walk, &record) > 0)
        if (record_take(s, record))
            return true;
    return false;
}

/* ring_search looks in all groups, oldest first. What is overwritten meanwhile has no valid CRC. */
static int ring_search(struct store *store, struct store_scrub *s)
{
    struct log_reader reader;
    const uint8_t *group;
    uint64_t lsn = s->end_lsn, until = lsn + store->super.log_bytes;
    int error = log_reader_open(&reader, store, READ_AHEAD_BYTES);
    while (!error && !s->found && (error = log_group_any(&reader, &lsn, until, &group)) > 0) {
        s->found = group_search(s, group);
        lsn += group_bytes(group);
        error = 0;
    }
    log_reader_close(&reader);
    return error == -ENOENT ? 0 : error;
}

int store_scrub_seek(struct store *store, struct store_scrub *s)
{
    uint32_t number = (uint32_t)(s->at + s->bad);
    int error = 0;
    if (s->written >> s->bad & 1)               /* the disk took the write, and gives other bytes */
        return -ENODATA;
    if (!s->found && s->kind == STORE_SCRUB_PAGE)
        error = ring_search(store, s);
    else if (!s->found && s->kind == STORE_SCRUB_META)
        s->found = !io_read(&store->io, area_page_offset(&store->super, !s->part, number), s->good,
                            BLOCK_BYTES) &&
                   meta_crc(&store->super, number, s->good) == s->wanted;
    return error ?: s->found ? 0 : -ENODATA;
}

/* ---- write */

int store_scrub_holds(struct store *store, struct store_scrub *s)
{
    uint32_t wanted = s->wanted;
    bool changed =
        store->checkpoint.running || store->super.generation != s->generation ||
        (s->kind == STORE_SCRUB_RING && !ring_dead(store, s->good_offset)) ||           /* SR3 */
        (s->kind == STORE_SCRUB_PAGE && (block_sound(store, s, s->bad) || s->wanted != wanted));
    return fence_get(store) ?: changed ? -EAGAIN : 0;
}

int store_scrub_write(struct store *store, struct store_scrub *s)
{
    bool map = s->kind == STORE_SCRUB_MAP;
    s->again = 0;
    s->written |= 1u << s->bad;
    if (io_write(&store->io, s->good_offset, map ? (const void *)store->map : s->good,
                   map ? s->good_map : BLOCK_BYTES))
        return -EIO;                            /* the block is as rotten as it was */
    int error = io_flush(&store->io);
    return error ? fence_set(store, error) : 0;
}
