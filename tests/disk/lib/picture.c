/*
 * picture.c - see picture.h.
 */
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "internal.h"

static struct world world;

static int contents_read(struct store *store, struct contents *out)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    memset(out, 0, sizeof *out);
    while (store_container_next(store, c.object, &c) == 0) {
        struct store_name name;
        uint32_t cursor = 0;
        struct store_container bare = c;
        bare.pages_present = 0;
        out->directory = crc32c((uint32_t)out->directory, &bare, sizeof bare);
        while (memset(&name, 0, sizeof name), store_name_next(store, c.object, &cursor, &name) == 0)
            out->directory = crc32c((uint32_t)out->directory, &name, sizeof name);
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            if (out->pages == PICTURE_PAGES)
                return -E2BIG;
            int error = store_page_read(store, c.object, p, bytes);
            if (error && error != -EUCLEAN)
                return error;
            out->unreadable += error != 0;
            out->page[out->pages].object = c.object;
            out->page[out->pages].page = p;
            out->page[out->pages].readable = !error;
            out->page[out->pages++].crc = error ? 0 : crc32c(0, bytes, sizeof bytes);
        }
    }
    return 0;
}

/* Equal, but for pages that could not be read. */
static bool contents_match(const struct contents *seen, const struct contents *wanted)
{
    if (seen->directory != wanted->directory || seen->pages != wanted->pages)
        return false;
    for (uint32_t i = 0; i < seen->pages; i++)
        if (seen->page[i].object != wanted->page[i].object ||
            seen->page[i].page != wanted->page[i].page ||
            (seen->page[i].readable && seen->page[i].crc != wanted->page[i].crc))
            return false;
    return true;
}

/* What the image says now; the image is not changed. */
static void contents_take(struct picture *picture, struct contents *out, uint64_t commit)
{
    struct store_report report;
    uint64_t digest;
    bool recording = picture->device.recording, checkpointing = world.checkpointing;
    struct store *store = world.store;
    picture->device.recording = false;
    undo_begin(&picture->device);
    require(world_open(&world, &report) == 0);
    require(store_digest(world.store, &digest) == 0);
    require(digest == world.digests[commit]);
    require(contents_read(world.store, out) == 0 && out->unreadable == 0);
    world_abandon(&world);
    undo_to(&picture->device, 0);
    picture->device.undoing = false;
    picture->device.recording = recording;
    world.checkpointing = checkpointing;
    world.store = store;
}

static uint8_t *image_copy(const struct device *device)
{
    uint8_t *copy = malloc(device->bytes);
    require(copy);
    memcpy(copy, device->image, device->bytes);
    return copy;
}

static uint64_t group_offset(const struct store_group *group)
{
    const struct superblock *super = &world.store->super;
    return super->log_start + group->lsn % super->log_bytes;
}

static void guard_write(struct picture *picture)
{
    struct store_group *group;
    require(store_group_begin(world.store, &group) == 0);
    require(store_group_seal(group) == 0);
    picture->guard_start = group_offset(group);
    picture->guard_bytes = group->bytes;
    require(store_group_write(group) == 0);
    require(store_group_apply(group) == 0);
}

static void steps(uint32_t count)
{
    while (count--)
        require(world_step(&world) == 0);
}

/* No checkpoint is running, and the log has room for so many blocks. */
static void room_make(uint64_t blocks)
{
    if (world.checkpointing)
        require(world_checkpoint(&world) == 0);
    while (store_log_free(world.store) < blocks * 4096)
        require(world_checkpoint(&world) == 0);
}

/* Leaves the store abandoned with a last group behind a checkpoint and other groups. */
static void last_group(struct picture *picture)
{
    struct contents *before = &picture->before;
    uint64_t lsn;
    do {                                /* until a step is a single group at the log's end */
        room_make(10);
        uint64_t commit = world.acked;
        uint8_t *image = image_copy(&picture->device);
        lsn = world.store->log.end;
        steps(1);
        uint8_t *now = picture->device.image;
        picture->device.image = image;
        contents_take(picture, before, commit);
        picture->device.image = now;
        free(image);
    } while (world.store->groups[0].lsn != lsn && world.store->groups[1].lsn != lsn);
    const struct store_group *group = &world.store->groups[world.store->groups[1].lsn == lsn];
    if (group->lsn + group->bytes != world.store->log.end)
        return last_group(picture);
    picture->group_start = group_offset(group);
    picture->group_bytes = group->bytes;
}

void picture_make(struct picture *picture, enum picture_kind kind, uint64_t seed, uint64_t bytes)
{
    struct world_options shape = { .disk_bytes = bytes, .log_bytes = bytes / 5 / 4096 * 4096,
        .extent_bytes = seed % 3 == 2 ? 4096 : 16384, .checkpoint_odds = 4,
        .encoder = (enum store_encoder)(seed % STORE_ENCODER_COUNT) };
    struct store_report report;
    memset(picture, 0, sizeof *picture);
    picture->kind = kind;
    device_open(&picture->device, bytes);
    device_record(&picture->device, true);
    require(world_format(&world, &picture->device, seed, &shape) == 0);
    require(world_open(&world, &report) == 0);
    for (uint32_t age = 0; age < PICTURE_AGES; age++) {
        steps(6);
        picture->aged[age] = image_copy(&picture->device);
    }
    world_abandon(&world);
    require(world_open(&world, &report) == 0);
    steps(5);
    picture->data_start = world.store->super.data_start;
    picture->slot_b = world.store->super.slot_b_offset;
    world.options.checkpoint_odds = 1u << 30;
    room_make(shape.log_bytes / 4096 * 3 / 4);
    steps(3);
    last_group(picture);
    if (kind == PICTURE_IDLE)
        guard_write(picture);
    if (kind == PICTURE_CLOSED)
        require(world_close(&world) == 0);
    else
        world_abandon(&world);
    picture->device.recording = false;
    picture->read_map = calloc(1, bytes / 4096);
    require(picture->read_map);
    picture->device.read_map = picture->read_map;
    contents_take(picture, &picture->last, world.acked);
    picture->device.read_map = NULL;
}

void picture_free(struct picture *picture)
{
    for (uint32_t age = 0; age < PICTURE_AGES; age++)
        free(picture->aged[age]);
    free(picture->read_map);
    device_close(&picture->device);
}

bool picture_ambiguous(const struct picture *picture, uint64_t one, uint64_t two)
{
    bool group = one - picture->group_start < picture->group_bytes ||
                 two - picture->group_start < picture->group_bytes;
    bool guard = one - picture->guard_start < picture->guard_bytes ||
                 two - picture->guard_start < picture->guard_bytes;
    return picture->kind != PICTURE_CLOSED && group && (guard || !picture->guard_bytes);
}

bool picture_metadata(const struct picture *picture, uint64_t offset)
{
    return offset < picture->data_start || offset / 4096 == picture->slot_b / 4096;
}

static enum verdict judge_open(struct picture *picture, const char **why)
{
    struct store_report report;
    struct contents seen;
    int error = world_open(&world, &report);
    *why = report.message;
    if (error == -EUCLEAN || error == -EIO)
        return NOTICED;
    if (error)
        return SILENT;                  /* taken for a blank or a foreign disk */
    error = contents_read(world.store, &seen);
    world_abandon(&world);
    *why = "opened, with other contents";
    if (error)
        return SILENT;
    if (contents_match(&seen, &picture->last))
        return seen.unreadable ? REPORTED : HARMLESS;
    return contents_match(&seen, &picture->before) ? TORN_TAIL : SILENT;
}

void picture_replay(struct picture *picture, uint32_t lost)
{
    struct device *device = &picture->device;
    memset(device->image, 0, device->bytes);
    for (uint32_t i = 0; i < device->event_count; i++)
        if (device->events[i].kind == WRITE_ISSUE && i != lost)
            memcpy(device->image + device->events[i].offset, device->events[i].data,
                   device->events[i].bytes);
    undo_begin(device);
}

enum verdict picture_judge(struct picture *picture, const char **why)
{
    world.device = &picture->device;
    enum verdict verdict = judge_open(picture, why);
    undo_to(&picture->device, 0);
    require(memory_live == 0);
    return verdict;
}
