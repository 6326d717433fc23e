/*
 * test_fault_places.c - one fault at any place, in any crash state, loses nothing.
 *
 * Method: lives (life.h) and their crash states, as in test_crash. In a sample of the states each
 * block that is a copy of something is spoiled in turn: a superblock slot or the signpost, if the
 * other slot is valid; a block of an area, if the other area is whole; the log that neither
 * checkpoint needs. Once one of its bits flips, once it cannot be read. The store must open for
 * writing, with everything that was acknowledged.
 *
 * In another sample a block, whatever it holds, cannot be read in one start; the power is cut in
 * that start, and the next one, which can read it, must find everything. (That start may refuse the
 * store.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "internal.h"
#include "life.h"

#define STEPS 24u

enum { STATES, LOOKS, FAULTS, CUTS };

static struct store_open_options options_of(const struct world *world)
{
    return (struct store_open_options){
        .group_bytes = world->options.group_bytes, .step_pages = world->options.step_pages,
        .image_pages = (uint32_t)(world->options.group_bytes / STORE_PAGE_BYTES % 3) };
}

/* ---- what is there twice */

static bool slot_at(const struct device *device, uint64_t offset, struct superblock *super)
{
    uint32_t version;
    return superblock_decode((const void *)(device->image + offset), device->bytes, offset, super,
                             &version) == SLOT_VALID;
}

static bool area_whole(const struct device *device, const struct superblock *super, uint32_t area)
{
    const struct checkpoint_info *info = &super->checkpoints[area];
    const struct map_entry_disk *map = (const void *)(device->image + super->area_start[area]);
    if (!info->redo_lsn ||
        info->root_crc != crc32c(crc_seed(super->uuid, CRC_MAP, info->redo_lsn, 0), map,
                                 (size_t)area_map_bytes(info->pages)))
        return false;
    for (uint32_t i = 0; i < info->pages; i++)
        if (le16_get(map[i].kind) != META_FREE &&
            le32_get(map[i].crc) != crc32c(crc_seed(super->uuid, CRC_META, i, 0),
                                           device->image + area_page_offset(super, area, i),
                                           BLOCK_BYTES))
            return false;
    return true;
}

#define PLACES_MAX 512u

struct places { uint32_t count; uint64_t at[PLACES_MAX]; };

static void places_add(struct places *places, uint64_t at, uint64_t bytes)
{
    for (uint64_t end = at + bytes; at < end && places->count < PLACES_MAX; at += BLOCK_BYTES)
        places->at[places->count++] = at;
}

static void areas_add(struct places *places, const struct superblock *super)
{
    for (uint32_t area = 0; area < 2; area++) {
        places_add(places, super->area_start[area], area_map_bytes(super->checkpoints[area].pages));
        places_add(places, area_page_offset(super, area, 0),
                   (uint64_t)super->checkpoints[area].pages * BLOCK_BYTES);
    }
}

/* The blocks of the ring from LSN `from` on, up to `to`. */
static void ring_add(struct places *places, const struct superblock *super, uint64_t from,
                     uint64_t to)
{
    for (uint64_t lsn = from; lsn < to; lsn += BLOCK_BYTES)
        places_add(places, super->log_start + lsn % super->log_bytes, BLOCK_BYTES);
}

/* Both superblocks, the newest first; false: there is but one, which is the first. */
static bool supers_read(const struct device *device, struct superblock super[2])
{
    struct superblock a, b;
    bool valid = slot_at(device, 0, &a);
    uint64_t at_b = valid ? a.slot_b_offset : slot_b_place(device->bytes);
    bool valid_b = slot_at(device, at_b, &b);
    bool b_first = !valid || (valid_b && b.generation > a.generation);
    super[0] = b_first ? b : a;
    super[1] = b_first ? a : b;
    return valid && valid_b;
}

/* Either slot is a copy of what the other one says, also while a checkpoint is written (SB4). */
static void slots_add(struct places *places, const struct superblock super[2])
{
    for (uint32_t i = 0; i < 2; i++)
        places_add(places, slot_offset(&super[i], super[i].slot), BLOCK_BYTES);
    places_add(places, SIGNPOST_OFFSET, BLOCK_BYTES);
}

static void copies_find(const struct device *device, uint64_t end, struct places *places)
{
    struct superblock super[2];
    places->count = 0;
    if (!supers_read(device, super))
        return;                         /* the cut was a fault already */
    uint64_t newest = super->checkpoints[super->checkpoint_index].scan_lsn;
    uint64_t older = super->checkpoints[!super->checkpoint_index].scan_lsn;
    slots_add(places, super);
    if (area_whole(device, super, 0) && area_whole(device, super, 1))
        areas_add(places, super);
    ring_add(places, super, end, (older && older < newest ? older : newest) + super->log_bytes);
}

/* ---- the store that is left */

/* The state must be a commit that it may be. */
static const char *open_requires(const struct world *world, struct device *device, uint64_t acked,
                                 uint64_t submitted, struct store_report *report)
{
    struct disk_io io = device_io(device);
    struct store_open_options how = options_of(world);
    struct store *store;
    uint64_t digest, k = acked;
    uint32_t stride = world->options.stride ? world->options.stride : 1;
    if (store_open(&io, &test_memory, &how, &store, report))
        return report->message ? report->message : "the store cannot be opened";
    int error = store_digest_wide(store, stride, &digest);
    store_abandon(store);
    while (k <= submitted && world->digests[k] != digest)
        k++;
    return error ? "a page is lost" : k > submitted ? "an acknowledged commit is lost" : NULL;
}

/* Is the block part of the group at this LSN, or of what would be one? */
static bool group_has(const struct device *device, const struct superblock *super, uint64_t lsn,
                      uint64_t at)
{
    uint64_t place = super->log_start + lsn % super->log_bytes;
    const struct group_disk *header = (const void *)(device->image + place);
    bool group = le64_get(header->magic) == GROUP_MAGIC && le64_get(header->lsn) == lsn;
    return at >= place &&
           at < place + (group ? le32_get(header->blocks) : 1) * (uint64_t)BLOCK_BYTES;
}

/* A block that cannot be read where the next group would be is no copy: it may be the last
 * group. */
static bool end_hidden(const struct device *device, uint64_t at, uint64_t end)
{
    struct superblock super[2];
    supers_read(device, super);
    uint64_t ring = super->log_bytes, start = (end + ring - 1) / ring * ring;
    return group_has(device, super, end, at) ||
           (start - end < ring / 2 && group_has(device, super, start, at));
}

static const char *fault_try(const struct world *world, struct device *device, uint64_t at,
                             uint64_t bit, uint64_t acked, uint64_t submitted)
{
    static char text[160];
    struct store_report report;
    uint32_t mark = device->undo_count;
    if (bit) {
        undo_save(device, at, BLOCK_BYTES);
        device->image[at + bit / 8 % BLOCK_BYTES] ^= (uint8_t)(1u << bit % 8);
    } else {
        device->bad_at = at;
        device->bad_bytes = BLOCK_BYTES;
    }
    const char *wrong = open_requires(world, device, acked, submitted, &report);
    if (wrong && !bit && report.damage_lsn && end_hidden(device, at, report.damage_lsn))
        wrong = NULL;
    device->bad_bytes = 0;
    undo_to(device, mark);
    crew_add(FAULTS, 1);
    if (!wrong)
        return NULL;
    snprintf(text, sizeof text, "block at %llu %s: %s %.80s", (unsigned long long)at,
             bit ? "rotten" : "unreadable", report.rule, wrong);
    return text;
}

static const char *every_copy_spoiled(const struct world *world, struct device *device,
                                      uint64_t acked, uint64_t submitted, uint64_t random)
{
    struct places places;
    struct store_report report;
    uint32_t mark = device->undo_count;
    const char *wrong = open_requires(world, device, acked, submitted, &report);
    undo_to(device, mark);
    crew_add(LOOKS, 1);
    if (wrong)
        return NULL;                    /* the walk itself will say so */
    copies_find(device, report.end_lsn, &places);
    for (uint32_t i = 0; i < places.count && !wrong; i++) {
        uint64_t bit = places.at[i] < 2 * BLOCK_BYTES ? random_below(&random, 368 * 8)
                                                      : random_below(&random, BLOCK_BYTES * 8);
        wrong = fault_try(world, device, places.at[i], bit + 1, acked, submitted);
        if (!wrong)
            wrong = fault_try(world, device, places.at[i], 0, acked, submitted);
    }
    return wrong;
}

/* ---- one start that cannot read a block, and is cut off */

static const struct enumerate_options cuts = { .tear = true, .random_subsets = 2, .states_max = 150,
                                             .from_event = 1 };  /* the mark is event 0 */

static const char *cut_try(const struct world *world, struct device *device, struct device *copy,
                           uint64_t at, uint64_t acked, uint64_t submitted, uint64_t random)
{
    static char text[400];
    struct store_open_options how = options_of(world);
    struct disk_io io = device_io(copy);
    struct store_report report;
    struct store *store;
    struct enumerate_result result = { .states = 0 };
    memcpy(copy->image, device->image, device->bytes);
    copy->bad_at = at;
    copy->bad_bytes = BLOCK_BYTES;
    device_record(copy, true);
    device_mark(copy, acked, submitted);
    int error = store_open(&io, &test_memory, &how, &store, &report);
    if (!error)
        store_abandon(store);
    copy->recording = false;
    copy->bad_bytes = 0;
    memcpy(copy->image, device->image, device->bytes);
    struct event *events = copy->events;
    uint32_t count = copy->event_count;
    copy->events = NULL;
    copy->event_count = copy->event_room = 0;
    enumerate(world, events, count, copy, &cuts, random, &result);
    for (uint32_t i = 0; i < count; i++)
        free(events[i].data);
    free(events);
    crew_add(CUTS, result.states);
    if (!result.failed)
        return NULL;
    snprintf(text, sizeof text,
             "block at %llu unreadable in a start (error %d, %s) that is cut off: %s %s",
             (unsigned long long)at, error, report.rule, result.method, result.text);
    return text;
}

static const char *reads_fail_in_one_start(const struct world *world, struct device *device,
                                           uint64_t acked, uint64_t submitted, uint64_t random)
{
    struct places places = { 0 };
    struct superblock super[2];
    struct device copy;
    const char *wrong = NULL;
    if (!supers_read(device, super))
        return NULL;
    crew_add(LOOKS, 1);
    places_add(&places, 0, 2 * BLOCK_BYTES);
    places_add(&places, super->slot_b_offset, BLOCK_BYTES);
    areas_add(&places, super);
    uint64_t older = super->checkpoints[!super->checkpoint_index].scan_lsn;
    uint64_t from = older ? older : super->checkpoints[super->checkpoint_index].scan_lsn;
    ring_add(&places, super, from, from + super->log_bytes);
    places_add(&places, super->data_start, 4ull * super->extent_bytes);
    device_open(&copy, device->bytes);
    for (uint32_t i = (uint32_t)random_below(&random, 4); i < places.count && !wrong; i += 4)
        wrong = cut_try(world, device, &copy, places.at[i], acked, submitted, random_next(&random));
    device_close(&copy);
    return wrong;
}

/* ---- the tests */

static void life_looked_at(uint64_t seed, enumerate_look *look, uint32_t odds)
{
    struct enumerate_result result = { .states = 0 };
    struct enumerate_options how = { .tear = true, .garble = true, .depth = 1, .second_odds = 60,
                                     .second_steps = 3, .random_subsets = 2, .look = look,
                                     .look_odds = odds, .states_max = crew_long() ? 12000 : 4000 };
    crew_at("life", seed);
    life_run(seed, STEPS, &how, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(STATES, result.states);
}

static void copies_job(uint64_t seed)
{
    life_looked_at(seed, every_copy_spoiled, 60);
}

static void starts_job(uint64_t seed)
{
    life_looked_at(seed, reads_fail_in_one_start, 1500);
}

/* Aim: whatever is there twice may be lost once, also after a power cut. */
static void one_spoiled_copy_loses_nothing(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(24), copies_job));
    printf("# %llu of %llu crash states, %llu faults: a copy rotten or unreadable\n",
           (unsigned long long)crew_sum(LOOKS), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(FAULTS));
    assert_true(crew_part() || crew_sum(FAULTS) > 5000);
}

/* Aim: what one start cannot read, the next one has still, wherever the first was cut off. */
static void a_read_that_fails_in_one_start_loses_nothing(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(24), starts_job));
    printf("# %llu of %llu crash states, %llu cuts in a start that could not read a block\n",
           (unsigned long long)crew_sum(LOOKS), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(CUTS));
    assert_true(crew_part() || crew_sum(CUTS) > 10000);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spoiled_copy_loses_nothing),
        cmocka_unit_test(a_read_that_fails_in_one_start_loses_nothing),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
