/*
 * test_scrub_closed.c - kstore scrub, cut off at each write and flush.
 *
 * Method: a life (life.h) is closed, or only stopped; then a copy of what it has is spoiled: a
 * superblock slot, the signpost, an area's map or a page of it, a page at home, log that is not
 * needed, and, of a closed one, the blocks where the next group would lie; by a flipped bit, or so
 * that the block cannot be read until it is written. What kstore does (mend.h) is recorded, and the
 * power cut at each event. Each state must open with everything that was acknowledged, be mended by
 * a second scrub, and hold nothing for a third. What has no other copy is said, and then nothing is
 * written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "internal.h"
#include "life.h"
#include "tools/kstore/mend.h"

enum { FAULTS, MENDED, LOST, STATES };

#define LIFE_STEPS 24u

#define UNREADABLE 0xa5  /* fills a sector that cannot be read before it is written */

static struct world world;
static struct device disk_of_life;
static uint64_t chance;

struct heard { uint32_t rotten, lost; };

static void hear(void *context, struct store *of, const struct store_scrub *piece, int verdict)
{
    struct heard *heard = context;
    (void)of, (void)piece;
    heard->rotten += verdict == -EUCLEAN;
    heard->lost += verdict == -ENODATA;
}

static uint64_t unreadable_at;          /* the block that was made so, or 0 */

/* It cannot be read as long as one of its sectors has not been written. */
static void unreadable_set(struct device *on)
{
    on->bad_bytes = 0;
    on->bad_at = unreadable_at;
    for (uint32_t i = 0; unreadable_at && i < BLOCK_BYTES; i += SECTOR_BYTES) {
        const uint8_t *sector = on->image + unreadable_at + i;
        if (sector[0] == UNREADABLE && !memcmp(sector, sector + 1, SECTOR_BYTES - 1))
            on->bad_bytes = BLOCK_BYTES;
    }
}

static int mend_once(struct device *on, struct heard *heard)
{
    struct disk_io disk = device_io(on);
    struct store_report how;
    memset(heard, 0, sizeof *heard);
    return mend_store(&disk, &test_memory, hear, heard, &how);
}

/* A cut state is mended by a second scrub, and a third finds nothing in it. (The enumerator also
 * recovers it as it is.) */
static const char *mended_again(const struct world *of, struct device *on, uint64_t acked,
                                uint64_t submitted, uint64_t random)
{
    struct store_open_options options = { .group_bytes = of->options.group_bytes };
    struct disk_io disk = device_io(on);
    struct store_report how;
    struct store *found;
    struct heard heard;
    uint64_t digest = 0, k = acked;
    (void)random;
    unreadable_set(on);
    const char *wrong =
        mend_once(on, &heard) || heard.lost ? "a second scrub does not mend it" : NULL;
    if (!wrong && (mend_once(on, &heard) || heard.lost || heard.rotten))
        wrong = "a third scrub still finds something";
    on->bad_bytes = 0;
    if (wrong || store_open(&disk, &test_memory, &options, &found, &how))
        return wrong ? wrong : "what was mended does not open";
    int error = store_digest_wide(found, of->options.stride ? of->options.stride : 1, &digest);
    store_abandon(found);
    while (k < submitted && of->digests[k] != digest)
        k++;
    return error || of->digests[k] != digest ? "what was mended is no commit that it may be" : NULL;
}

enum { SLOT_A, SLOT_B, SIGNPOST, MAP, META, HOME, DEAD_LOG, LOG_END, COPIES };

static uint64_t home_choose(struct store *of)
{
    uint64_t homes[WORLD_CONTAINERS * WORLD_PAGES] = { 0 };
    uint32_t count = 0, stride = world.options.stride ? world.options.stride : 1;
    struct store_container c = { .object = 0 };
    struct store_page at;
    while (store_container_next(of, c.object, &c) == 0)
        for (uint64_t p = 0; p < WORLD_PAGES; p++)
            if (store_page_find(of, c.object, p * stride, &at) == 0 && at.present && !at.dirty)
                homes[count++] = at.offset_bytes;
    return count ? homes[random_below(&chance, count)] : 0;
}

/* Not where the next group would lie, at the end or the ring's start: what cannot be read there may
 * be one. */
static uint64_t dead_log_choose(const struct store *of)
{
    uint64_t ring = of->super.log_bytes, dead = (ring - (of->log.end - of->log.keep)) / BLOCK_BYTES;
    uint64_t lsn = dead > 1 ? of->log.end + (1 + random_below(&chance, dead - 1)) * BLOCK_BYTES : 0;
    return lsn % ring ? of->super.log_start + lsn % ring : 0;
}

/* Where the next group lies: at the log's end, or, if that does not fit before it, at the ring's
 * start. Only a clean stop says that nothing is there; of a log that is full, what the older
 * checkpoint needs first. */
static uint64_t log_end_choose(const struct store *of, bool clean)
{
    uint64_t ring = of->super.log_bytes, end = of->log.end, start = (end + ring - 1) / ring * ring;
    if (start - end < ring / 2 && random_below(&chance, 2))
        end = start;
    return clean ? of->super.log_start + end % ring : 0;
}

/* Where a copy of this kind lies, or 0 (which is slot A) if there is none. */
static uint64_t closed_choose(uint32_t kind)
{
    const struct store_open_options look = { .flags = STORE_READ_ONLY };
    struct disk_io disk = device_io(&disk_of_life);
    struct store_report how;
    struct store *of;
    uint64_t at = 0;
    if (store_open(&disk, &test_memory, &look, &of, &how))
        crew_fail("a store that was put down does not open: %s", how.message);
    uint32_t area = (uint32_t)random_below(&chance, 2), pages = of->super.checkpoints[area].pages;
    if (kind == SLOT_B)
        at = of->super.slot_b_offset;
    else if (kind == SIGNPOST)
        at = SIGNPOST_OFFSET;
    else if (kind == MAP)
        at = of->super.area_start[area];
    else if (kind == META && pages)
        at = area_page_offset(&of->super, area, (uint32_t)random_below(&chance, pages));
    else if (kind == HOME)
        at = home_choose(of);
    else if (kind == DEAD_LOG)
        at = dead_log_choose(of);
    else if (kind == LOG_END)
        at = log_end_choose(of, how.was_clean);
    store_abandon(of);
    return at;
}

static void copy_spoil(uint64_t at, bool rot)
{
    unreadable_at = rot ? 0 : at;
    if (rot)
        disk_of_life.image[at + random_below(&chance, 300)] ^=
            (uint8_t)(1u << random_below(&chance, 8));
    else
        memset(disk_of_life.image + at, UNREADABLE, BLOCK_BYTES);
    disk_of_life.bad_at = at;
    disk_of_life.bad_bytes = rot ? 0 : BLOCK_BYTES;
}

/* What has another copy is mended, at each cut; of all else nothing is written. */
static void closed_cut_off(uint64_t seed, uint32_t kind)
{
    struct enumerate_options how = { .tear = true, .random_subsets = 1, .states_max = 4000,
                                     .from_event = 1, .look = mended_again, .look_odds = 1,
                                     .look_only = kind == HOME, .copy_rotten = true };
    struct enumerate_result result = { .states = 0 };
    struct device copy;
    struct heard heard;
    uint64_t at = closed_choose(kind);
    copy_spoil(at, kind < DEAD_LOG && random_below(&chance, 2));
    device_open(&copy, disk_of_life.bytes);
    memcpy(copy.image, disk_of_life.image, copy.bytes);
    device_record(&disk_of_life, true);
    device_mark(&disk_of_life, world.acked, world.submitted);
    int error = mend_once(&disk_of_life, &heard);
    disk_of_life.recording = false;
    if (error)
        crew_fail("seed %llu, copy %u at %llu: error %d", (unsigned long long)seed, kind,
                  (unsigned long long)at, error);
    if (heard.lost && kind != HOME)
        crew_fail("seed %llu, copy %u at %llu: lost", (unsigned long long)seed, kind,
                  (unsigned long long)at);
    if (!heard.rotten)
        require(disk_of_life.event_count == 1);  /* the mark */
    else
        enumerate(&world, disk_of_life.events, disk_of_life.event_count, &copy, &how, seed,
                  &result);
    if (result.failed)
        crew_fail("seed %llu, copy %u at %llu: %s %s", (unsigned long long)seed, kind,
                  (unsigned long long)at, result.method, result.text);
    crew_add(FAULTS, 1);
    crew_add(MENDED, heard.rotten);
    crew_add(LOST, heard.lost);
    crew_add(STATES, result.states);
    device_close(&copy);
}

/* A life up to its end: closed, or stopped between two checkpoints. */
static bool life_lead(uint64_t seed, bool close)
{
    struct world_options shape = life_options(seed);
    struct store_report how;
    chance = seed;
    world.store = NULL;
    device_open(&disk_of_life, shape.disk_bytes);
    int error = world_format(&world, &disk_of_life, seed, &shape);
    if (!error)
        error = world_open(&world, &how);
    for (uint32_t i = 0; i < LIFE_STEPS && !error; i++)
        error = world_step(&world);
    if (!error && world.checkpointing)
        error = world_checkpoint_some(&world, UINT32_MAX);
    if (!error && close)
        return !world_close(&world);
    world_abandon(&world);
    return !error;
}

static void closed_job(uint64_t seed)
{
    crew_at("life", seed);
    for (uint32_t kind = 0; kind < COPIES; kind++) {
        uint64_t life = seed + kind * 100000;
        if (life_lead(life, (seed + kind) % 2))
            closed_cut_off(life, kind);
        device_close(&disk_of_life);
    }
}

/* Aim: kstore scrub may be cut off at each write and flush: the store opens with all that was
 * acknowledged, and another scrub mends the rest. */
static void a_scrub_of_a_closed_store_may_be_cut_off(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(crew_long() ? 48 : 72), closed_job));
    printf("# %llu faults, %llu put back, %llu pages lost, %llu crash states, each mended again\n",
           (unsigned long long)crew_sum(FAULTS), (unsigned long long)crew_sum(MENDED),
           (unsigned long long)crew_sum(LOST), (unsigned long long)crew_sum(STATES));
    assert_true(crew_part() ||
                (crew_sum(MENDED) > 50 && crew_sum(LOST) && crew_sum(STATES) > 5000));
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scrub_of_a_closed_store_may_be_cut_off),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
