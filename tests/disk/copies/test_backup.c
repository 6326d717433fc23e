/*
 * test_backup.c - copies of a store that others commit to, made piece by piece: each opens as the
 * store was when its log was copied; one that is not finished is refused; holds end in time.
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

static struct world world;
static struct device disk, target;
static uint64_t seed, finished, pieces, rounds, lost, torn;

static uint64_t long_or(uint64_t usual, uint64_t most)
{
    const char *tier = getenv("TEST_TIER");
    if (!tier) return usual;
    return !strcmp(tier, "long") ? most : !strcmp(tier, "check") ? usual / 3 : usual;
}

static void fail_at(const char *what, int error)
{
    fail_msg("seed %llu: %s (error %d)%s%s", (unsigned long long)seed, what, error,
             world.wrong ? ": " : "", world.wrong ? world.wrong : "");
}

/* Others go on. */
static void work(uint32_t steps)
{
    for (uint32_t i = 0; i < steps && world.model.commits + 8 < WORLD_COMMITS; i++) {
        int error = world_step(&world);
        if (error && error != -ENOSPC && error != -ENODATA)
            fail_at("the store refuses work while it is copied", error);
    }
}

/* A piece is copied in two parts, cut at a sector, between which others may write. */
static void piece_copy(const struct store_backup *b, uint64_t *random, uint32_t steps)
{
    uint64_t cut = random_below(random, b->bytes / SECTOR_BYTES) * SECTOR_BYTES;
    if (b->zeros) {
        memset(target.image + b->offset, 0, b->bytes);
        return;
    }
    memcpy(target.image + b->offset, disk.image + b->offset, cut);
    uint64_t before = world.model.commits;
    work(steps);
    torn += world.model.commits > before;
    memcpy(target.image + b->offset + cut, disk.image + b->offset + cut, b->bytes - cut);
}

static int target_open(struct store **store, struct store_report *report)
{
    struct disk_io io = device_io(&target);
    return store_open(&io, &test_memory, NULL, store, report);
}

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    (void)context;
    memcpy(buffer, target.image + offset, bytes);
    return 0;
}

static void copy_is_refused(void)
{
    struct store_report report;
    struct store *copy;
    struct kcheck_io io = { NULL, target.bytes, image_read };
    struct kcheck_result result;
    int error = target_open(&copy, &report);
    if (error != -EMEDIUMTYPE || !report.message || !strstr(report.message, "never finished"))
        fail_at("a copy that is not finished is not refused as one", error);
    if (kcheck_image(&io, NULL, &result) != KCHECK_NO_STORE || result.error != -EMEDIUMTYPE)
        fail_at("kcheck takes a copy that is not finished for a store", result.error);
}

static void finding_say(void *context, enum kcheck_level level, const char *label, const char *text)
{
    (void)context;
    if (level != KCHECK_NOTE)
        print_message("# %s %s\n", label, text);
}

/* The copy holds what was committed up to some commit from `least` on. */
static void copy_is_good(uint64_t least)
{
    struct store_report report;
    struct store *copy;
    uint64_t digest, k;
    struct kcheck_io io = { NULL, target.bytes, image_read };
    struct kcheck_options how = { .report = finding_say };
    struct kcheck_result result;
    if (kcheck_image(&io, &how, &result) != KCHECK_SOUND || result.warnings)
        fail_at("kcheck finds the copy damaged, or warns", result.error);
    int error = target_open(&copy, &report);
    if (error)
        fail_at(report.message ? report.message : "the copy does not open", error);
    const char *why;
    if (store_check(copy, &why))
        fail_at(why, -EUCLEAN);
    uint32_t stride = world.options.stride ? world.options.stride : 1;
    error = store_digest_wide(copy, stride, &digest);
    if (error)
        fail_at("a page of the copy cannot be read", error);
    for (k = least; k <= world.model.commits && world.digests[k] != digest; k++)
        ;
    if (k > world.model.commits)
        fail_at("the copy is of no state since its end", 0);
    store_abandon(copy);
}

/* Copies while others work. True: it was finished; *least: commits that were acknowledged when it
 * began to copy the log. */
static bool copy_make(struct store_backup *b, uint64_t *random, uint32_t odds, uint64_t *least)
{
    int error;
    store_backup_mark(target.image);
    for (uint64_t calls = 0; calls < 20000; calls++) {
        uint64_t end = b->end_lsn;
        error = store_backup_next(world.store, b);
        if (b->end_lsn != end)
            *least = world.acked;
        if (error == -EAGAIN && random_below(random, world.options.chunks ? 9 : 2) == 1)
            error = world_checkpoint(&world);
        else if (!error && b->bytes)
            piece_copy(b, random, random_below(random, odds) == 0);
        pieces += !error;
        if (error && error != -EAGAIN)
            break;
        if (random_below(random, odds) == 0)
            work(1);
        if (random_below(random, 16) == 0)
            copy_is_refused();
    }
    if (error != -ENOENT && error != -EBUSY)
        fail_at("the copy does not come to an end", error);
    return error == -ENOENT;
}

static void copy_finish(const struct store_backup *b, uint64_t least)
{
    for (int i = 2; i >= 0; i--) {
        copy_is_refused();
        memcpy(target.image + b->slot_offset[i], b->slot[i], STORE_PAGE_BYTES);
    }
    copy_is_good(least);
}

static void one_copy(uint64_t number)
{
    uint64_t random = number, least = 0;
    struct store_report report;
    struct world_options options = life_options(number);
    struct store_backup b = { .most = options.extent_bytes * (1 + (uint32_t)number % 4) };
    seed = number;
    options.log_bytes *= 1 + number % 3;
    options.disk_bytes += 2 * options.log_bytes;
    device_open(&disk, options.disk_bytes);
    device_open(&target, options.disk_bytes);
    memset(target.image, (int)random_below(&random, 256), target.bytes);
    int error = world_format(&world, &disk, number, &options);
    if (!error)
        error = world_open(&world, &report);
    if (error)
        fail_at("no store can be made", error);
    work(20);
    uint32_t odds = 1 + (uint32_t)random_below(&random, 12);
    if (copy_make(&b, &random, odds, &least)) {
        copy_finish(&b, least);
        finished++;
    }
    rounds += b.rounds;
    lost += b.lost;
    store_backup_end(world.store, &b);
    work(10);
    error = world_close(&world);
    if (error)
        fail_at("the store does not close after it was copied", error);
    device_close(&disk);
    device_close(&target);
    assert_int_equal(memory_live, 0);
}

static void a_copy_made_at_work_is_the_store_as_it_was(void **state)
{
    (void)state;
    const char *only = getenv("SEED");
    uint64_t from = only ? strtoull(only, NULL, 0) : 1, count = only ? 1 : long_or(600, 6000);
    for (uint64_t i = from; i < from + count; i++)
        one_copy(i);
    print_message("# %llu copies of %llu, %llu pieces, %llu torn, %llu rounds, %llu begun anew\n",
                  (unsigned long long)finished, (unsigned long long)count,
                  (unsigned long long)pieces, (unsigned long long)torn,
                  (unsigned long long)rounds, (unsigned long long)lost);
    assert_true(only || (finished > count / 2 && torn > count && lost > count / 10));
}

/* Aim (BU4): what is loaded past the log while the last round goes over the extents is in the copy,
 * as its log says. */
static void a_copy_of_a_store_that_is_loaded_is_good(void **state)
{
    (void)state;
    const char *only = getenv("SEED");
    uint64_t from = only ? strtoull(only, NULL, 0) : 1, count = only ? 1 : long_or(300, 6000);
    for (uint64_t i = from; i < from + count; i++)
        one_copy(LIFE_BULK + i);
}

/* Aim (BU1, CU3): what was not home when a round's checkpoint was saved is in the next round. */
static void a_copy_of_a_store_whose_checkpoints_are_by_chunks_is_good(void **state)
{
    (void)state;
    const char *only = getenv("SEED");
    uint64_t from = only ? strtoull(only, NULL, 0) : 1, count = only ? 1 : long_or(150, 6000);
    for (uint64_t i = from; i < from + count; i++)
        one_copy(LIFE_CHUNKS | i);
}

/* The copy's disk holds the same store as it went on from here, but for a fault that made its owner
 * go back: groups of that time lie behind the end of the log that is copied. */
static void a_copy_over_an_older_copy_is_good(void **state)
{
    (void)state;
    static struct world before;
    struct store_report report;
    struct world_options options = life_options(2);
    struct store_backup b = { 0 };
    uint64_t random = 1, least = 0;
    seed = 2;
    options.log_bytes = 512 << 10;
    options.disk_bytes = 4 << 20;
    options.checkpoint_odds = 1000;
    device_open(&disk, options.disk_bytes);
    device_open(&target, options.disk_bytes);
    assert_int_equal(world_format(&world, &disk, seed, &options), 0);
    assert_int_equal(world_open(&world, &report), 0);
    work(10);
    world_abandon(&world);
    before = world;
    struct device then = disk;
    device_open(&disk, options.disk_bytes);
    memcpy(disk.image, then.image, disk.bytes);
    assert_int_equal(world_open(&world, &report), 0);
    assert_int_equal(world_checkpoint(&world), 0);
    work(10);
    world_abandon(&world);
    memcpy(target.image, disk.image, disk.bytes);
    memcpy(disk.image, then.image, disk.bytes);
    world = before;
    assert_int_equal(world_open(&world, &report), 0);
    assert_true(copy_make(&b, &random, 1000000, &least));
    copy_finish(&b, world.acked);
    world_abandon(&world);
    device_close(&disk);
    device_close(&target);
    device_close(&then);
}

/* The copy's disk is larger and held another store, or the making of one was cut off there. */
static void copy_over_another_store(bool cut, bool lose_slot_a)
{
    struct world_options options = life_options(2);
    const struct store_options other = { .uuid = { 99 }, .log_bytes = 512 << 10 };
    struct store_report report;
    struct store_backup b = { 0 };
    uint64_t random = 1, least = 0;
    seed = 2;
    device_open(&disk, options.disk_bytes);
    device_open(&target, options.disk_bytes + (7 << 20));
    struct disk_io io = device_io(&target);
    assert_int_equal(store_format(&io, &test_memory, &other), 0);
    if (cut) {                          /* as after the first flush of store_format */
        struct superblock super = { .uuid = { 99 } };
        signpost_encode(&super, 0, (void *)(target.image + SIGNPOST_OFFSET));
    }
    assert_int_equal(world_format(&world, &disk, seed, &options), 0);
    assert_int_equal(world_open(&world, &report), 0);
    work(10);
    assert_true(copy_make(&b, &random, 1000000, &least));
    copy_finish(&b, least);
    if (lose_slot_a) {
        struct store *copy;
        memset(target.image, 0xa5, STORE_PAGE_BYTES);
        assert_int_equal(target_open(&copy, &report), 0);
        store_abandon(copy);
    }
    world_abandon(&world);
    device_close(&disk);
    device_close(&target);
}

static void a_copy_where_another_store_was_is_the_copy(void **state)
{
    (void)state;
    copy_over_another_store(true, false);
    copy_over_another_store(false, true);
}

/* ---- holds */

static void stage_open(uint64_t log_bytes)
{
    struct world_options options = { .disk_bytes = 2 << 20, .log_bytes = log_bytes,
                                     .extent_bytes = 16384, .checkpoint_odds = 1000 };
    struct store_report report;
    seed = 1;
    device_open(&disk, options.disk_bytes);
    assert_int_equal(world_format(&world, &disk, 1, &options), 0);
    assert_int_equal(world_open(&world, &report), 0);
    work(10);
    assert_int_equal(world_checkpoint(&world), 0);
}

static void stage_close(void)
{
    assert_int_equal(world_close(&world), 0);
    device_close(&disk);
    assert_int_equal(memory_live, 0);
}

static void the_log_is_kept_while_it_is_held(void **state)
{
    (void)state;
    struct store_hold hold;
    stage_open(256 << 10);
    assert_int_equal(store_hold_begin(world.store, &hold, "a test", false), 0);
    for (int i = 0; i < 4; i++) {
        work(1);
        assert_int_equal(world_checkpoint(&world), 0);
        assert_true(world.store->log.keep <= hold.lsn);
    }
    assert_int_equal(store_close(world.store), -EBUSY);
    store_hold_end(world.store, &hold);
    for (int i = 0; i < 2; i++) {
        work(1);
        assert_int_equal(world_checkpoint(&world), 0);
    }
    assert_true(world.store->log.keep > hold.lsn);
    stage_close();
}

/* A holder that never ends its hold, perhaps because it has died: it expires, and others go on. */
static void a_hold_ends_before_anybody_waits_for_it(void **state)
{
    (void)state;
    struct store_hold hold;
    struct store_stats stats;
    stage_open(64 << 10);
    assert_int_equal(store_hold_begin(world.store, &hold, "a test", false), 0);
    store_stats(world.store, &stats);
    uint64_t begin = stats.end_lsn;
    work(120);
    store_stats(world.store, &stats);
    assert_true(stats.end_lsn - begin > 4 * (64 << 10));
    assert_true(hold.expired);
    assert_true(world.store->log.keep > hold.lsn);
    store_hold_end(world.store, &hold);
    stage_close();
}

/* One that does not expire: commits are refused rather than what it holds overwritten, until its
 * owner moves it on. */
static void a_hold_that_stays_is_never_overwritten(void **state)
{
    (void)state;
    struct store_hold hold, more[STORE_HOLDS_MAX];
    struct store_stats stats;
    static uint8_t held[64 << 10];
    uint32_t count = 0;
    int error = 0;
    stage_open(64 << 10);
    assert_int_equal(store_hold_begin(world.store, &hold, "somebody", true), 0);
    uint64_t ring = world.store->super.log_start, place = hold.lsn % sizeof held;
    world.want = WANT_PAGE;
    assert_int_equal(world_commit(&world, 1, false), 0);
    memcpy(held, disk.image + ring, sizeof held);
    for (uint32_t i = 0; i < 40; i++) {
        error = world_commit(&world, 1, false);
        assert_true(!error || error == -EAGAIN);
        assert_int_equal(error ? world_checkpoint(&world) : 0, 0);
    }
    assert_int_equal(error, -EAGAIN);
    assert_true(!hold.expired && world.store->log.keep <= hold.lsn);
    assert_memory_equal(held + place, disk.image + ring + place, 4096);
    store_stats(world.store, &stats);
    assert_true(stats.holds == 1 && !stats.holds_expired && !strcmp(stats.hold_owner, "somebody"));
    assert_int_equal(store_hold_move(world.store, &hold), 0);
    assert_true(hold.stays && hold.lsn == stats.end_lsn);
    assert_int_equal(world_checkpoint(&world), 0);
    assert_int_equal(world_checkpoint(&world), 0);
    assert_int_equal(world_commit(&world, 1, false), 0);
    assert_int_equal(world_checkpoint(&world), 0);
    assert_true(world.store->log.keep == hold.lsn);
    while (store_hold_begin(world.store, &more[count], "another", false) == 0)
        count++;
    assert_int_equal(count, STORE_HOLDS_MAX - 1);
    world.want = WANT_ANY;
    for (int i = 0; i < 60; i++) {
        work(2);
        assert_int_equal(store_hold_move(world.store, &hold), 0);
    }
    assert_int_equal(store_hold_move(world.store, &more[0]), -EINVAL);
    store_stats(world.store, &stats);
    assert_true(stats.holds == STORE_HOLDS_MAX && more[0].expired && !hold.expired);
    assert_int_equal(stats.holds_expired, count);
    assert_string_equal(stats.expired_owner, "another");
    while (count)
        store_hold_end(world.store, &more[--count]);
    store_hold_end(world.store, &hold);
    stage_close();
}

static void a_hold_waits_for_a_checkpoint_that_ends(void **state)
{
    (void)state;
    struct store_hold hold;
    stage_open(256 << 10);
    work(1);
    assert_int_equal(store_checkpoint_begin(world.store), 0);
    world.checkpointing = true;
    assert_int_equal(store_hold_begin(world.store, &hold, "a test", false), 0);
    store_hold_end(world.store, &hold);
    world.checkpointing = false;
    assert_int_equal(world_clean(&world, UINT32_MAX), 0);
    assert_int_equal(store_checkpoint_seal(world.store), 0);
    assert_int_equal(store_hold_begin(world.store, &hold, "a test", false), -EBUSY);
    assert_int_equal(store_checkpoint_write(world.store), 0);
    assert_int_equal(store_checkpoint_apply(world.store), 0);
    assert_int_equal(store_hold_begin(world.store, &hold, "a test", false), 0);
    store_hold_end(world.store, &hold);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_made_at_work_is_the_store_as_it_was),
        cmocka_unit_test(a_copy_of_a_store_that_is_loaded_is_good),
        cmocka_unit_test(a_copy_of_a_store_whose_checkpoints_are_by_chunks_is_good),
        cmocka_unit_test(a_copy_over_an_older_copy_is_good),
        cmocka_unit_test(a_copy_where_another_store_was_is_the_copy),
        cmocka_unit_test(a_hold_waits_for_a_checkpoint_that_ends),
        cmocka_unit_test(the_log_is_kept_while_it_is_held),
        cmocka_unit_test(a_hold_ends_before_anybody_waits_for_it),
        cmocka_unit_test(a_hold_that_stays_is_never_overwritten),
    };
    return cmocka_run_group_tests_name("backup", tests, NULL, NULL);
}
