/*
 * test_agree.c - the store and kcheck, two readers of one format, say the same of every image.
 *
 * kcheck was written from the chapter and shares no algorithm with the store. Both are given the
 * same image: good ones after each step of a life, with writes that no flush covered left out; ones
 * with a damaged sector or bit; and hostile ones with right checksums. They must agree whether it
 * opens and with which error, where replay begins and the log ends, what of history is lost, and
 * how many pages cannot be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "disk/tools/kcheck/kcheck.h"
#include "hostile.h"
#include "shape.h"
#include "world.h"

enum tally { SOUND, DAMAGED, REFUSED };

struct opinion {
    int      error;
    uint64_t damage_lsn, redo_lsn, end_lsn, groups, transactions, pages, pages_lost;
    bool     slot_bad[2], older_checkpoint, was_clean;
};

static struct world world;
static char finding[160];

static void finding_keep(void *context, enum kcheck_level level, const char *label,
                         const char *text)
{
    (void)context;
    if (level == KCHECK_DAMAGE && !finding[0])
        snprintf(finding, sizeof finding, "%s %s", label, text);
}

static struct opinion kcheck_opinion(struct device *device)
{
    struct disk_io io = device_io(device);
    struct kcheck_io kio = { .context = io.context, .bytes = io.bytes, .read = io.read };
    struct kcheck_options options = { .report = finding_keep };
    struct kcheck_result r;
    finding[0] = 0;
    kcheck_image(&kio, &options, &r);
    return (struct opinion){ r.error, r.damage_lsn, r.redo_lsn, r.end_lsn, r.groups,
                             r.transactions, r.pages, r.pages_lost,
                             { r.slot_bad[0], r.slot_bad[1] }, r.older_checkpoint, r.was_clean };
}

static uint64_t pages_lost(struct store *store)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t lost = 0, seen = 0, page;
    struct store_page found;
    while (store_container_next(store, c.object, &c) == 0)
        for (page = 0, seen = 0; seen < c.pages_present && page < c.pages; page++)
            if (store_page_find(store, c.object, page, &found) == 0 && found.present) {
                seen++;
                lost += store_page_read(store, c.object, page, bytes) != 0;
            }
    return lost;
}

static struct opinion store_opinion(struct device *device)
{
    struct disk_io io = device_io(device);
    struct store_open_options options = { .flags = STORE_READ_ONLY };
    struct store_report r;
    struct store_stats stats = { .pages_present = 0 };
    struct store *store;
    uint64_t lost = 0;
    int error = store_open(&io, &test_memory, &options, &store, &r);
    if (!error) {
        lost = pages_lost(store);
        store_stats(store, &stats);
        store_abandon(store);
    }
    return (struct opinion){ error, r.damage_lsn, r.redo_lsn, r.end_lsn, r.groups, r.transactions,
                             stats.pages_present, lost, { r.slot_bad[0], r.slot_bad[1] },
                             r.older_checkpoint, r.was_clean };
}

/* kcheck also compares the two checkpoints, so of bytes that no store wrote it may lose more
 * pages. */
static void agree(struct device *device, bool written_by_a_store)
{
    struct opinion a = store_opinion(device), b = kcheck_opinion(device);
    bool same = a.error == b.error;
    if (!a.error)
        same = same && a.damage_lsn == b.damage_lsn && a.redo_lsn == b.redo_lsn &&
               a.end_lsn == b.end_lsn && a.groups == b.groups && a.pages == b.pages &&
               a.transactions == b.transactions &&
               (written_by_a_store ? a.pages_lost == b.pages_lost : a.pages_lost <= b.pages_lost) &&
               a.slot_bad[0] == b.slot_bad[0] && a.slot_bad[1] == b.slot_bad[1] &&
               a.older_checkpoint == b.older_checkpoint && a.was_clean == b.was_clean;
    if (!same)
        crew_fail("store/kcheck: error %d/%d damage %llu/%llu redo %llu/%llu end %llu/%llu groups "
                  "%llu/%llu txns %llu/%llu pages %llu/%llu lost %llu/%llu older %d/%d; %s",
                  a.error, b.error,
                  (unsigned long long)a.damage_lsn, (unsigned long long)b.damage_lsn,
                  (unsigned long long)a.redo_lsn, (unsigned long long)b.redo_lsn,
                  (unsigned long long)a.end_lsn, (unsigned long long)b.end_lsn,
                  (unsigned long long)a.groups, (unsigned long long)b.groups,
                  (unsigned long long)a.transactions, (unsigned long long)b.transactions,
                  (unsigned long long)a.pages, (unsigned long long)b.pages,
                  (unsigned long long)a.pages_lost, (unsigned long long)b.pages_lost,
                  a.older_checkpoint, b.older_checkpoint, finding);
    crew_add(a.error ? REFUSED : a.damage_lsn || a.pages_lost ? DAMAGED : SOUND, 1);
}

/* ---- what a crash leaves */

/* The image with all writes up to event `end`, but for a random few of those no flush covers. */
static void crash_state(struct device *to, const struct device *from, uint32_t end,
                        uint64_t *random)
{
    uint32_t covered = 0;
    for (uint32_t i = 0; i < end; i++)
        if (from->events[i].kind == FLUSH_COMPLETE)
            covered = from->events[i].write;
    memset(to->image, 0, to->bytes);
    for (uint32_t i = 0; i < end; i++) {
        const struct event *e = &from->events[i];
        if (e->kind != WRITE_ISSUE || (i > covered && random_below(random, 3) == 0))
            continue;
        size_t bytes = i > covered && random_below(random, 3) == 0
                           ? random_below(random, e->bytes / 512) * 512 : e->bytes;
        memcpy(to->image + e->offset, e->data, bytes);
    }
}

static void life_record(struct device *device, uint64_t seed)
{
    struct world_options shape = shape_of(seed);
    struct store_report report;
    device_open(device, shape.disk_bytes);
    device_record(device, true);
    require(world_format(&world, device, seed, &shape) == 0);
    require(world_open(&world, &report) == 0);
    for (int i = 0; i < 8 && world_step(&world) == 0; i++)
        ;
    world_abandon(&world);
    if (seed % 2 && world_open(&world, &report) == 0)
        require(world_close(&world) == 0);
    device->recording = false;
}

static void crash_states(uint64_t seed)
{
    struct device from, to;
    uint64_t random = seed;
    crew_at("living", 0);
    life_record(&from, seed);
    device_open(&to, from.bytes);
    for (uint32_t end = 1; end <= from.event_count; end++) {
        crew_at("event", end);
        crash_state(&to, &from, end, &random);
        agree(&to, true);
    }
    device_close(&to);
    device_close(&from);
}

/* ---- damage and hostility */

static void damaged(uint64_t seed)
{
    struct device device;
    uint64_t random = seed * 5;
    life_record(&device, seed);
    undo_begin(&device);
    for (uint32_t i = 0; i < 150; i++) {
        crew_at("damage", i);
        uint64_t at = random_below(&random, device.bytes);
        if (random_below(&random, 3) == 0)
            at %= 4096;                 /* slot A */
        undo_save(&device, at / 4096 * 4096, 4096);
        if (i % 3)
            device.image[at] ^= (uint8_t)(1u << random_below(&random, 8));
        else
            memset(device.image + at / 512 * 512, 0, 512);
        agree(&device, true);
        undo_to(&device, 0);
    }
    device_close(&device);
}

static struct hostile hostile;

static void hostile_agree(struct hostile *of)
{
    agree(&of->device, false);
}

static void hostiles(uint64_t seed)
{
    static uint8_t good[HOSTILE_BYTES_MAX], bytes[HOSTILE_BYTES_MAX];
    enum hostile_part part = seed % 2 ? HOSTILE_IMAGE : HOSTILE_LOG;
    hostile_open(&hostile, 1 + seed % 6);
    size_t count = hostile_take(&hostile, part, good);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t random = seed << 20 | i;
        crew_at("mutation", i);
        memcpy(bytes, good, count);
        if (i)
            hostile_mutate(part, bytes, count, &random);
        hostile_with(&hostile, part, bytes, count, hostile_agree);
    }
    hostile_close(&hostile);
}

static void agreement(const char *test, const char *what, uint64_t count, crew_job *job)
{
    assert_true(crew_run(test, count, job));
    printf("# %s: %llu sound, %llu damaged, %llu refused; kcheck said the same of all\n", what,
           (unsigned long long)crew_sum(SOUND), (unsigned long long)crew_sum(DAMAGED),
           (unsigned long long)crew_sum(REFUSED));
    assert_true(crew_part() || crew_sum(SOUND) > 0);
}

static void both_agree_on_what_a_crash_leaves(void **state)
{
    (void)state;
    agreement(__func__, "crash states", crew_count(30), crash_states);
}

static void both_agree_on_damaged_images(void **state)
{
    (void)state;
    agreement(__func__, "damaged images", crew_count(60), damaged);
}

static void both_agree_on_hostile_images(void **state)
{
    (void)state;
    agreement(__func__, "hostile images", crew_count(40), hostiles);
}

/* kcheck ended at a group of a hostile scan LSN that goes beyond one lap; the store went on at the
 * redo LSN. */
static void disputed(uint64_t seed)
{
    static const uint64_t seeds[] = { 287 };
    hostiles(seeds[(seed - 1) % (sizeof seeds / sizeof seeds[0])]);
}

static void both_agree_on_what_they_once_disputed(void **state)
{
    (void)state;
    agreement(__func__, "once disputed", 1, disputed);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_agree_on_what_a_crash_leaves),
        cmocka_unit_test(both_agree_on_damaged_images),
        cmocka_unit_test(both_agree_on_hostile_images),
        cmocka_unit_test(both_agree_on_what_they_once_disputed),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
