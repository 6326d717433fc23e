/*
 * test_roll.c - stores that are lost, and made again from a copy and the log that was archived.
 *
 * Aim     a restore to any instant, or to any transaction, equals the model there; a hole, or a
 *         group that was changed, is refused; the restored store lives another life.
 * Method  a world works; all groups that are durable are put away, through clean stops and power
 *         cuts; copies are made at work. Then instants are chosen, and restored from one of the
 *         copies that are older.
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

#include "tools/kcheck/kcheck.h"
#include "internal.h"
#include "life.h"

#define BASES   3u
#define GROUPS  2000u

static struct world world, again;
static struct device disk, target;
static uint64_t seed;

struct base { struct device device; uint64_t end_lsn, commits; };
static struct base bases[BASES];
static uint32_t base_count;

static struct archive {
    uint8_t *groups[GROUPS];
    uint64_t lsn[GROUPS];
    size_t   bytes[GROUPS];
    uint32_t count, missing;    /* missing: this one is not there (its number from 1 on) */
    uint64_t end;
    uint32_t crc;
    struct store_hold hold;
    bool     held, lagged;
} archive;

static uint64_t random_seed;
static uint64_t below(uint64_t limit) { return random_below(&random_seed, limit); }

static void fail_at(const char *what, int error)
{
    fail_msg("seed %llu: %s (error %d)%s%s", (unsigned long long)seed, what, error,
             world.wrong ? ": " : "", world.wrong ? world.wrong : "");
}

/* ---- the archive: pages of loads */

#define LOADS 4000u
static struct { uint64_t csn, index; uint8_t bytes[STORE_PAGE_BYTES]; } *loads;
static uint32_t load_count;
static uint64_t loads_rolled;

/* What the group brought home, from there. False: a page of it was changed since. */
static bool loads_put_away(const uint8_t *group, uint64_t lsn)
{
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    uint64_t n = world.store->extent_pages;
    uint32_t first = load_count;
    while (record_next(&walk, &record) > 0) {
        const le32 *crc = (const le32 *)(record + 1);
        uint64_t page = le64_get(record->page), count = le32_get(record->data_bytes) / 4;
        uint64_t csn = lsn + (uint64_t)((const uint8_t *)record - group);
        if (le16_get(record->type) == RECORD_COMMIT)
            for (; first < load_count; first++)
                loads[first].csn = csn;
        for (uint64_t i = 0; le16_get(record->type) == RECORD_PAGE_HOME && i < count; i++) {
            uint64_t extent = le64_get(record->physical) + (page + i) / n - page / n;
            const uint8_t *home = disk.image + extent_offset(world.store, extent) +
                                  (page + i) % n * STORE_PAGE_BYTES;
            if (crc32c(0, home, STORE_PAGE_BYTES) != le32_get(crc[i]))
                return false;
            assert_true(load_count < LOADS);
            loads[load_count].index = load_count - first;
            memcpy(loads[load_count++].bytes, home, STORE_PAGE_BYTES);
        }
    }
    return true;
}

static int load_page(void *context, store_lsn_t csn, uint64_t index, void *bytes)
{
    (void)context;
    for (uint32_t i = 0; i < load_count; i++)
        if (loads[i].csn == csn && loads[i].index == index) {
            memcpy(bytes, loads[i].bytes, STORE_PAGE_BYTES);
            loads_rolled++;
            return 0;
        }
    return -ENODATA;
}

/* ---- what is durable of the log */

static bool group_put_away(uint64_t lsn)
{
    const struct superblock *super = &world.store->super;
    const uint8_t *group = disk.image + super->log_start + lsn % super->log_bytes;
    const struct group_disk *header = (const void *)group;
    if (le64_get(header->magic) != GROUP_MAGIC || le64_get(header->lsn) != lsn ||
        le32_get(header->prev_crc) != archive.crc)
        return false;
    size_t bytes = group_bytes(group);
    if (!loads_put_away(group, lsn))
        return false;                   /* as a hole */
    assert_true(archive.count < GROUPS);
    archive.groups[archive.count] = malloc(bytes);
    assert_non_null(archive.groups[archive.count]);
    memcpy(archive.groups[archive.count], group, bytes);
    archive.lsn[archive.count] = lsn;
    archive.bytes[archive.count++] = bytes;
    archive.end = lsn + bytes;
    archive.crc = le32_get(header->crc);
    return true;
}

static void log_put_away(void)
{
    uint64_t ring = world.store->super.log_bytes;
    while (archive.end < world.store->log.durable && !archive.lagged)
        if (!group_put_away(archive.end) &&
            !group_put_away((archive.end + ring - 1) / ring * ring))
            archive.lagged = true;      /* a step may write more than a small ring holds */
    if (archive.held && store_hold_move(world.store, &archive.hold)) {
        store_hold_end(world.store, &archive.hold);     /* it has expired, within one step */
        archive.held = !store_hold_begin(world.store, &archive.hold, "an archive", false);
    }
}

static void archive_begin(void)
{
    archive.end = world.store->log.applied;
    archive.crc = world.store->log.applied_crc;
}

static void archive_hold(void)
{
    archive.held = !store_hold_begin(world.store, &archive.hold, "an archive", false);
}

static void work(uint32_t steps)
{
    for (uint32_t i = 0; i < steps && world.model.commits + 8 < WORLD_COMMITS; i++) {
        int error = world_step(&world);
        if (error && error != -ENOSPC && error != -ENODATA)
            fail_at("the store refuses work", error);
        log_put_away();
    }
}

/* The store is closed, or the power is cut, and it starts again. */
static void stop_and_start(bool cut)
{
    struct store_report report;
    store_hold_end(world.store, &archive.hold);
    archive.held = false;
    int error = 0;
    if (cut)
        world_abandon(&world);
    else
        error = world_close(&world);
    if (error)
        fail_at("the store does not close", error);
    error = world_open(&world, &report);
    if (error)
        fail_at("the store does not open", error);
    world.acked = world.model.commits;
    log_put_away();
    archive_hold();
}

/* ---- copies, made while others work and tear what is copied */

static void piece_copy(struct device *to, const struct store_backup *b)
{
    size_t cut = below(b->bytes / SECTOR_BYTES) * SECTOR_BYTES;
    if (b->zeros) {
        memset(to->image + b->offset, 0, b->bytes);
        return;
    }
    memcpy(to->image + b->offset, disk.image + b->offset, cut);
    work(below(8) == 0);
    memcpy(to->image + b->offset + cut, disk.image + b->offset + cut, b->bytes - cut);
}

static void commits_count(struct base *base)
{
    for (base->commits = 0; base->commits < world.model.commits &&
         world.csns[base->commits + 1] < base->end_lsn; base->commits++)
        ;
    base_count++;
}

/* What a power cut leaves is a copy as well: with both checkpoints. */
static void base_take(void)
{
    struct base *base = &bases[base_count];
    device_open(&base->device, disk.bytes);
    memcpy(base->device.image, disk.image, disk.bytes);
    base->end_lsn = world.store->log.applied;
    commits_count(base);
}

static void base_make(void)
{
    static struct store_backup b;
    struct base *base = &bases[base_count];
    int error;
    memset(&b, 0, sizeof b);
    b.most = world.options.extent_bytes * 2;
    device_open(&base->device, disk.bytes);
    while ((error = store_backup_next(world.store, &b)) == 0 || error == -EAGAIN) {
        if (error == -EAGAIN)
            error = world_checkpoint(&world);
        else if (b.bytes)
            piece_copy(&base->device, &b);
    }
    store_backup_end(world.store, &b);
    if (error == -EBUSY) {              /* writers are faster: no copy this time */
        device_close(&base->device);
        return;
    }
    if (error != -ENOENT)
        fail_at("the copy does not come to an end", error);
    for (int i = 2; i >= 0; i--)
        memcpy(base->device.image + b.slot_offset[i], b.slot[i], STORE_PAGE_BYTES);
    base->end_lsn = b.end_lsn;
    commits_count(base);
}

/* ---- restoring */

static int archive_next(void *context, store_lsn_t lsn, const void **group, size_t *bytes)
{
    (void)context;
    for (uint32_t i = 0; i < archive.count; i++)
        if (archive.lsn[i] >= lsn && i + 1 != archive.missing) {
            *group = archive.groups[i];
            *bytes = archive.bytes[i];
            return 1;
        }
    return 0;
}

static int restore(const struct base *base, struct store_roll *roll, struct store **store,
                   struct store_report *report)
{
    struct store_open_options options = { .roll = roll, .image_pages = (uint32_t)below(3) * 2,
                                          .group_bytes = world.options.group_bytes };
    struct disk_io io = device_io(&target);
    roll->next = archive_next;
    roll->page = load_page;
    roll->uuid[0] = (uint8_t)(seed + 100);
    roll->uuid[15] = 77;
    memcpy(target.image, base->device.image, target.bytes);
    return store_open(&io, &test_memory, &options, store, report);
}

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    (void)context;
    memcpy(buffer, target.image + offset, bytes);
    return 0;
}

static void finding_say(void *context, enum kcheck_level level, const char *label, const char *text)
{
    (void)context;
    if (level != KCHECK_NOTE)
        print_message("# %s %s\n", label, text);
}

static void sound_require(void)
{
    struct kcheck_io io = { NULL, target.bytes, image_read };
    struct kcheck_options how = { .report = finding_say };
    struct kcheck_result result;
    if (kcheck_image(&io, &how, &result) != KCHECK_SOUND || result.warnings)
        fail_at("kcheck finds the restored store damaged, or warns", result.error);
}

/* The store is that after `commits` of them. */
static void state_require(struct store *store, uint64_t commits)
{
    uint32_t stride = world.options.stride ? world.options.stride : 1;
    uint64_t digest;
    const char *why;
    if (store_check(store, &why))
        fail_at(why, -EUCLEAN);
    int error = store_digest_wide(store, stride, &digest);
    if (error)
        fail_at("a page of the restored store cannot be read", error);
    if (digest != world.digests[commits])
        fail_at("the restored store is not that of the instant", (int)commits);
}

/* It takes work, power cuts and a clean stop, and none of the archive of the life before. */
static void next_life_require(struct store *store, uint64_t commits)
{
    struct store_report report;
    struct base new = { 0 };
    struct store_roll roll = { 0 };
    assert_int_equal(world_resume(&again, &world, commits, store, &target), 0);
    again.options.hold_odds = 0;
    for (uint32_t i = 0; i < 6 && again.model.commits + 8 < WORLD_COMMITS; i++) {
        int error = world_step(&again);
        if (error && error != -ENOSPC && error != -ENODATA)
            fail_at("the restored store refuses work", error);
        if (i == 3) {
            world_abandon(&again);
            sound_require();
            assert_int_equal(world_open(&again, &report), 0);
        }
    }
    assert_int_equal(world_close(&again), 0);
    sound_require();
    device_open(&new.device, target.bytes);
    memcpy(new.device.image, target.image, target.bytes);
    int error = restore(&new, &roll, &store, &report);
    if (archive.count && archive.lsn[archive.count - 1] >= report.end_lsn)
        assert_int_equal(error, -EUCLEAN);
    if (!error)
        store_abandon(store);
    device_close(&new.device);
}

static void one_restore(void)
{
    struct store_roll roll = { 0 };
    struct store_report report;
    struct store *store;
    const struct base *base = &bases[below(base_count)];
    uint64_t k = base->commits + below(world.acked - base->commits + 1);
    bool all = below(6) == 0, by_time = below(2);
    if (all) {
        k = world.acked;
    } else if (by_time) {               /* all of a group are of one time */
        while (k < world.acked && world.times[k + 1] == world.times[k])
            k++;
        roll.to_time = world.times[k] + below(WORLD_GROUP_TIME);
        while (k < world.acked && world.times[k + 1] <= roll.to_time)
            k++;
    } else {
        roll.to_csn = k > base->commits ? world.csns[k] : base->end_lsn;
    }
    if (by_time && !all && roll.to_time < world.times[base->commits])
        return;
    int error = restore(base, &roll, &store, &report);
    if (error)
        fail_at(report.message, error);
    assert_int_equal(roll.transactions, k - base->commits);
    assert_true(roll.last_csn == (k > base->commits ? world.csns[k] : 0));
    assert_true(roll.reached == (roll.to_csn || k < world.acked));
    struct store_stats stats;
    store_stats(store, &stats);
    assert_memory_equal(stats.uuid, roll.uuid, sizeof roll.uuid);
    state_require(store, k);
    next_life_require(store, k);
}

static void life_begin(uint64_t number)
{
    struct store_report report;
    struct world_options options = life_options(number);
    seed = random_seed = number;
    options.log_bytes *= 2 + number % 3;
    options.disk_bytes += 2 * options.log_bytes;
    options.hold_odds = 0;
    memset(&archive, 0, sizeof archive);
    base_count = load_count = 0;
    if (!loads)
        loads = malloc(LOADS * sizeof *loads);
    assert_non_null(loads);
    device_open(&disk, options.disk_bytes);
    device_open(&target, options.disk_bytes);
    int error = world_format(&world, &disk, number, &options) ?: world_open(&world, &report);
    if (error)
        fail_at("no store can be made", error);
    archive_begin();
    archive_hold();
    work(10);
    base_make();
    work(20);
    stop_and_start(number % 2);
    work(10);
    base_make();
    work(10);
    base_take();
    stop_and_start(!(number % 2));
    work(20);
}

static void life_end(void)
{
    store_hold_end(world.store, &archive.hold);
    world_abandon(&world);
    device_close(&disk);
    device_close(&target);
    while (base_count)
        device_close(&bases[--base_count].device);
    while (archive.count)
        free(archive.groups[--archive.count]);
    assert_int_equal(memory_live, 0);
}

static uint32_t instants(void)
{
    const char *tier = getenv("TEST_TIER");
    return tier && !strcmp(tier, "long") ? 200 : 24;
}

static void restores_to_any_instant_equal_the_model(void **state)
{
    (void)state;
    const char *only = getenv("SEED");
    uint32_t done = 0, lagged = 0;
    for (uint64_t number = only ? strtoull(only, NULL, 0) : 1; done < instants(); number++) {
        life_begin(number);
        for (uint32_t i = 0; base_count && !archive.lagged && i < 4; i++, done++)
            one_restore();
        lagged += archive.lagged;
        life_end();
    }
    print_message("# %u instants, %u lives whose archive lagged\n", done, lagged);
    assert_true(lagged <= done / 8);
}

/* Over loads past the log as well: their pages are in the archive; or the restore ends. */
static void restores_over_loads_equal_the_model(void **state)
{
    (void)state;
    const char *only = getenv("SEED");
    uint32_t done = 0, lagged = 0;
    struct store_report report;
    struct store *store;
    loads_rolled = 0;
    for (uint64_t number = only ? strtoull(only, NULL, 0) : 1; done < instants(); number++) {
        life_begin(LIFE_BULK + number);
        for (uint32_t i = 0; base_count && !archive.lagged && i < 4; i++, done++)
            one_restore();
        struct store_roll roll = { 0 };
        uint64_t rolled = loads_rolled;
        if (base_count && !archive.lagged && !restore(&bases[0], &roll, &store, &report)) {
            store_abandon(store);
            rolled = loads_rolled - rolled;
            for (uint32_t i = 0; i < load_count; i++)   /* no page has its CRC */
                loads[i].bytes[below(STORE_PAGE_BYTES)] ^= 1;
            roll = (struct store_roll){ 0 };
            int error = restore(&bases[0], &roll, &store, &report);
            assert_int_equal(error, rolled ? -EUCLEAN : 0);
            if (error)
                assert_non_null(strstr(report.message, "pages of a load"));
            else
                store_abandon(store);
        }
        lagged += archive.lagged;
        life_end();
    }
    print_message("# %u instants, %llu pages of loads, %u lives whose archive lagged\n", done,
                  (unsigned long long)loads_rolled, lagged);
    assert_true(only || loads_rolled > 20);
}

/* Every group in turn is missing, or has a bit changed. */
static void a_hole_is_refused(void **state)
{
    (void)state;
    struct store_report report;
    struct store *store;
    life_begin(5);
    assert_true(base_count > 0);
    uint32_t first = 0;
    while (archive.lsn[first] < bases[0].end_lsn)
        first++;
    for (uint32_t i = first; i + 1 < archive.count; i++) {
        struct store_roll roll = { 0 };
        archive.missing = i + 1;
        assert_int_equal(restore(&bases[0], &roll, &store, &report), -EUCLEAN);
        assert_non_null(strstr(report.message, "does not follow"));
        assert_int_equal(report.end_lsn, i ? archive.lsn[i - 1] + archive.bytes[i - 1]
                                           : bases[0].end_lsn);
        archive.missing = 0;
        uint8_t *byte = &archive.groups[i][below(archive.bytes[i])];
        uint8_t bit = (uint8_t)(1u << below(8));
        *byte ^= bit;
        assert_int_equal(restore(&bases[0], &roll, &store, &report), -EUCLEAN);
        *byte ^= bit;
    }
    life_end();
}

/* A group says something else, and its CRC is right: it is refused itself, not what follows. */
static void group_refused(uint32_t i, uint32_t prev_crc, uint32_t epoch)
{
    struct store_roll roll = { 0 };
    struct store_report report;
    struct store *store;
    struct group_disk *header = (void *)archive.groups[i], good = *header;
    header->prev_crc = le32_of(prev_crc);
    header->epoch = le32_of(epoch);
    header->crc = le32_of(group_crc(&world.store->super, archive.groups[i], archive.bytes[i], 0));
    assert_int_equal(restore(&bases[0], &roll, &store, &report), -EUCLEAN);
    assert_int_equal(report.end_lsn, i ? archive.lsn[i - 1] + archive.bytes[i - 1]
                                       : bases[0].end_lsn);
    *header = good;
}

/* A group of another history, or of an epoch that was over. */
static void another_history_is_refused(void **state)
{
    (void)state;
    life_begin(5);
    assert_true(base_count > 0);
    for (uint32_t i = 0; i < archive.count; i++) {
        const struct group_disk *header = (const void *)archive.groups[i];
        if (archive.lsn[i] < bases[0].end_lsn)
            continue;
        group_refused(i, le32_get(header->prev_crc) ^ 1, le32_get(header->epoch));
        if (i && archive.lsn[i - 1] >= bases[0].end_lsn)
            group_refused(i, le32_get(header->prev_crc),
                          le32_get(((struct group_disk *)archive.groups[i - 1])->epoch) - 1);
        group_refused(i, le32_get(header->prev_crc), EPOCH_LIMIT);
    }
    life_end();
}

/* A copy of which a slot is lost, or that is newer than what is wanted: nothing is made of it. */
static void a_copy_that_is_no_base_is_refused(void **state)
{
    (void)state;
    struct store_roll roll = { 0 };
    struct store_report report;
    struct store *store;
    life_begin(5);
    roll.to_csn = bases[0].end_lsn - 1;
    assert_int_equal(restore(&bases[0], &roll, &store, &report), -EUCLEAN);
    assert_non_null(strstr(report.message, "newer"));
    roll.to_csn = 0;
    bases[0].device.image[100] ^= 1;
    assert_int_equal(restore(&bases[0], &roll, &store, &report), -EUCLEAN);
    assert_non_null(strstr(report.message, "damaged"));
    life_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restores_to_any_instant_equal_the_model),
        cmocka_unit_test(restores_over_loads_equal_the_model),
        cmocka_unit_test(a_hole_is_refused),
        cmocka_unit_test(another_history_is_refused),
        cmocka_unit_test(a_copy_that_is_no_base_is_refused),
    };
    return cmocka_run_group_tests_name("roll", tests, NULL, NULL);
}
