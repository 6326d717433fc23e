/*
 * hostile.c - see hostile.h.
 */
#include "hostile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "world.h"

#define SLOT_BYTES 512u
#define TRY_PAGES 40u

void hostile_open(struct hostile *hostile, uint64_t seed)
{
    static struct world world;
    struct world_options shape = { .disk_bytes = 384 * 1024, .log_bytes = 80 * 1024,
        .extent_bytes = seed % 2 ? 16384 : 4096, .checkpoint_odds = 5, .ahead = seed % 2,
        .encoder = (enum store_encoder)(seed % STORE_ENCODER_COUNT) };
    struct store_report report;
    memset(hostile, 0, sizeof *hostile);
    device_open(&hostile->device, shape.disk_bytes);
    require(world_format(&world, &hostile->device, seed, &shape) == 0);
    require(world_open(&world, &report) == 0);
    for (int i = 0; i < 12; i++)
        require(world_step(&world) == 0);
    world.options.checkpoint_odds = 1u << 30;
    require(world_checkpoint(&world) == 0);
    for (int i = 0; i < 4; i++)
        require(world_step(&world) == 0);
    hostile->super = world.store->super;
    hostile->super.slot = hostile->super.generation & 1;
    const struct checkpoint_info *c = &hostile->super.checkpoints[hostile->super.checkpoint_index];
    hostile->bytes[HOSTILE_IMAGE] = SLOT_BYTES + area_map_bytes(c->pages) + c->pages * 4096ull;
    hostile->bytes[HOSTILE_LOG] = world.store->log.end - c->redo_lsn;
    world_abandon(&world);
    undo_begin(&hostile->device);
}

void hostile_close(struct hostile *hostile)
{
    device_close(&hostile->device);
}

/* ---- where the bytes of a part lie */

struct piece { uint64_t offset, bytes; };

static uint32_t pieces(const struct hostile *hostile, enum hostile_part part, struct piece out[3])
{
    const struct superblock *super = &hostile->super;
    const struct checkpoint_info *c = &super->checkpoints[super->checkpoint_index];
    if (part == HOSTILE_LOG) {
        uint64_t at = c->redo_lsn % super->log_bytes;
        out[0] = (struct piece){ super->log_start + at, super->log_bytes - at };
        out[1] = (struct piece){ super->log_start, at };
        return 2;
    }
    out[0] = (struct piece){ slot_offset(super, super->slot), SLOT_BYTES };
    out[1] = (struct piece){ super->area_start[super->checkpoint_index], area_map_bytes(c->pages) };
    out[2] = (struct piece){ area_page_offset(super, super->checkpoint_index, 0),
                             c->pages * 4096ull };
    return 3;
}

size_t hostile_take(const struct hostile *hostile, enum hostile_part part, uint8_t *out)
{
    struct piece piece[3];
    uint32_t count = pieces(hostile, part, piece);
    size_t done = 0, all = hostile->bytes[part];
    for (uint32_t i = 0; i < count && done < all; i++) {
        size_t n = piece[i].bytes < all - done ? piece[i].bytes : all - done;
        memcpy(out + done, hostile->device.image + piece[i].offset, n);
        done += n;
    }
    return all;
}

static void lay(struct hostile *hostile, enum hostile_part part, const uint8_t *bytes, size_t count)
{
    struct piece piece[3];
    uint32_t n = pieces(hostile, part, piece);
    for (uint32_t i = 0; i < n; i++) {
        size_t here = piece[i].bytes < count ? piece[i].bytes : count;
        if (!piece[i].bytes)
            continue;
        undo_save(&hostile->device, piece[i].offset, piece[i].bytes);
        memcpy(hostile->device.image + piece[i].offset, bytes, here);
        bytes += here;
        count -= here;
    }
}

/* ---- checksums made right */

void slot_mend(uint8_t *block)
{
    struct superblock_disk *slot = (void *)block;
    slot->crc = le32_of(crc32c(crc_seed(slot->uuid, CRC_SUPERBLOCK, le32_get(slot->slot), 0),
                               block + 12, BLOCK_BYTES - 12));
}

/* Map, root and slot: of the newest checkpoint, where the good superblock says. */
static void image_mend(struct hostile *hostile)
{
    const struct superblock *super = &hostile->super;
    uint32_t area = super->checkpoint_index, pages = super->checkpoints[area].pages;
    uint8_t *image = hostile->device.image;
    struct superblock_disk *slot = (void *)(image + slot_offset(super, super->slot));
    struct map_entry_disk *map = (void *)(image + super->area_start[area]);
    for (uint32_t i = 0; i < pages; i++)
        map[i].crc = le32_of(crc32c(crc_seed(super->uuid, CRC_META, i, 0),
                                    image + area_page_offset(super, area, i), 4096));
    uint32_t root = crc32c(crc_seed(super->uuid, CRC_MAP, super->checkpoints[area].redo_lsn, 0),
                           map, area_map_bytes(pages));
    slot->checkpoints[area].root_crc = le32_of(root);
    slot->magic = le64_of(SUPERBLOCK_MAGIC);
    slot->version = le32_of(FORMAT_VERSION);
    slot_mend((uint8_t *)slot);
}

/* Headers of one group after the other, until one does not say a length that can be. */
static void log_mend(struct hostile *hostile)
{
    const struct superblock *super = &hostile->super;
    const struct checkpoint_info *c = &super->checkpoints[super->checkpoint_index];
    uint64_t lsn = c->redo_lsn, left = hostile->bytes[HOSTILE_LOG];
    uint32_t prev_crc = c->prev_crc;
    while (left >= BLOCK_BYTES) {
        uint8_t *group = hostile->device.image + super->log_start + lsn % super->log_bytes;
        struct group_disk *header = (void *)group;
        uint64_t bytes = le32_get(header->blocks) * (uint64_t)BLOCK_BYTES;
        uint64_t to_end = super->log_bytes - lsn % super->log_bytes;
        if (!bytes || bytes > left || bytes > to_end) {
            left -= to_end < left ? to_end : left;      /* the writer may have skipped the end */
            lsn += to_end;
            continue;
        }
        header->magic = le64_of(GROUP_MAGIC);
        header->lsn = le64_of(lsn);
        memcpy(header->uuid_low.byte, super->uuid, 4);
        header->epoch = le32_of(epoch_at(super, lsn));
        header->prev_crc = le32_of(prev_crc);
        prev_crc = group_crc(super, group, bytes, 0);
        header->crc = le32_of(prev_crc);
        lsn += bytes;
        left -= bytes;
    }
}

/* ---- living with it */

static int look(struct store *store)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    const char *why = "";
    if (store_check(store, &why))
        crew_fail("opened, and its own check says: %s", why);
    while (store_container_next(store, c.object, &c) == 0) {
        struct store_name name;
        uint32_t cursor = 0;
        while (store_name_next(store, c.object, &cursor, &name) == 0)
            ;
        for (uint32_t p = 0; p < TRY_PAGES; p++) {
            int error = store_page_read(store, c.object, p, bytes);
            if (error && error != -EUCLEAN && error != -EIO && error != -EBUSY)
                return error;
        }
    }
    return 0;
}

static int commit(struct store *store)
{
    static const uint8_t page[STORE_PAGE_BYTES] = { 1 };
    struct store_group *group;
    struct store_container c;
    uint32_t position;
    int error = store_group_begin(store, &group);
    if (error)
        return error;
    store_txn_begin(group, 1);
    if (store_container_next(store, 0, &c) == 0)
        store_txn_page(group, c.object, 3, page);
    struct store_op op = { .type = STORE_OP_CREATE, .name = "hostile-new" };
    store_txn_op(group, &op);
    error = store_txn_end(group, &position);
    if (error || (error = store_group_seal(group)) != 0) {
        store_group_cancel(group);
        return error;
    }
    error = store_group_write(group);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

static int save(struct hostile *hostile, struct store *store)
{
    static const uint8_t page[STORE_PAGE_BYTES] = { 2 };
    struct disk_io io = device_io(&hostile->device);
    uint64_t object, number, lsn, offset;
    int error = store_checkpoint_begin(store), more;
    while (!error && ((more = store_checkpoint_next(store, &object, &number, &lsn)) == 0 ||
                      more == -EAGAIN)) {
        if (more)
            continue;
        error = store_page_home(store, object, number, &offset);
        if (!error)
            error = io.write(io.context, offset, page, sizeof page);
        if (!error)
            error = store_page_cleaned(store, object, number, lsn, crc32c(0, page, sizeof page));
    }
    while (!error && (error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    if (!error)
        error = store_checkpoint_write(store);
    return error ? error : store_checkpoint_apply(store);
}

/* Two uses, then what was saved is opened again: what the store wrote itself it must believe. */
static void use(struct hostile *hostile, bool read_only)
{
    struct disk_io io = device_io(&hostile->device);
    struct store_open_options options = { .flags = read_only ? STORE_READ_ONLY : 0 };
    struct store_report report;
    struct store *store;
    const char *why = "";
    if (store_open(&io, &test_memory, &options, &store, &report)) {
        hostile->refused++;
        require(report.message);
        return;
    }
    hostile->opened++;
    int error = look(store);
    if (!error && !read_only)
        error = commit(store);
    if (!error && !read_only)
        error = save(hostile, store);
    if (!error && store_check(store, &why))
        crew_fail("after work, the store's own check: %s", why);
    store_abandon(store);
    if (error || read_only)
        return;
    error = store_open(&io, &test_memory, &options, &store, &report);
    if (error)
        crew_fail("the store does not open what it saved: %d, %s", error,
                  report.message ? report.message : "");
    store_abandon(store);
}

static void use_both_ways(struct hostile *hostile)
{
    uint32_t mark = hostile->device.undo_count;
    use(hostile, true);
    require(hostile->device.undo_count == mark);        /* reading only wrote nothing */
    use(hostile, false);
}

void hostile_with(struct hostile *hostile, enum hostile_part part, const uint8_t *bytes,
                  size_t count, void (*what)(struct hostile *hostile))
{
    lay(hostile, part, bytes, count);
    if (part == HOSTILE_IMAGE)
        image_mend(hostile);
    else
        log_mend(hostile);
    what(hostile);
    undo_to(&hostile->device, 0);
    require(memory_live == 0);
}

void hostile_try(struct hostile *hostile, enum hostile_part part, const uint8_t *bytes,
                 size_t count)
{
    hostile_with(hostile, part, bytes, count, use_both_ways);
}

/* ---- mutations */

static void scribble(uint8_t *bytes, size_t count, uint64_t *random)
{
    static const uint64_t likely[] = { 0, 1, 2, 3, 0xff, 0x100, 0x7fffffff, 0xffffffff, UINT64_MAX,
                                       1ull << 63, 1ull << 40, 4096, 65536 };
    uint64_t old = 0, value, kind = random_below(random, 8);
    size_t at = 0;
    for (int i = 0; i < 16 && !old; i++) {
        at = random_below(random, count - 8);
        if (kind)
            at &= ~(size_t)3;           /* fields are mostly aligned */
        memcpy(&old, bytes + at, kind < 2 ? 0 : 8);     /* and not zero */
    }
    memcpy(&old, bytes + at, 8);
    switch (random_below(random, 4)) {
    case 0:  value = old + 1 - 2 * random_below(random, 2); break;
    case 1:  value = old ^ 1ull << random_below(random, 64); break;
    case 2:  value = random_next(random); break;
    default: value = likely[random_below(random, sizeof likely / sizeof likely[0])];
    }
    memcpy(bytes + at, &value, (size_t)1 << random_below(random, 4));
}

/* A record of the group is changed, doubled over its neighbour, or its type is another. */
static void record_mutate(uint8_t *group, size_t count, uint64_t *random)
{
    const struct group_disk *header = (const void *)group;
    size_t bytes = le32_get(header->blocks) * (size_t)BLOCK_BYTES, at = sizeof *header;
    uint64_t steps = random_below(random, 1ull + le32_get(header->records));
    struct record_disk *record;
    for (;; at += le32_get(record->length)) {
        record = (void *)(group + at);
        if (bytes > count || at + sizeof *record > bytes ||
            le32_get(record->length) < sizeof *record || le32_get(record->length) > bytes - at)
            return;
        if (!steps--)
            break;
    }
    if (random_below(random, 4) == 0)
        record->type = le16_of((uint16_t)random_below(random, 20));
    scribble((uint8_t *)record, le32_get(record->length) < 120 ? le32_get(record->length) : 120,
             random);
}

void hostile_mutate(enum hostile_part part, uint8_t *bytes, size_t count, uint64_t *random)
{
    uint64_t changes = 1 + random_below(random, 3);
    while (changes--) {
        size_t blocks = count / 4096, block = random_below(random, blocks ? blocks : 1);
        switch (random_below(random, 4)) {
        case 0:
            scribble(bytes, count, random);
            break;
        case 1:                         /* what comes first is densest: the superblock, headers */
            scribble(bytes + (part == HOSTILE_LOG ? block * 4096 : 0), 400, random);
            break;
        case 2:
            if (part == HOSTILE_LOG)
                record_mutate(bytes + block * 4096, count - block * 4096, random);
            else
                scribble(bytes + 512 + block * 4096, 256, random);
            break;
        default:                        /* one place's bytes over another's */
            memmove(bytes + random_below(random, count - 64),
                    bytes + random_below(random, count - 64), 8 * (1 + random_below(random, 8)));
        }
    }
}
