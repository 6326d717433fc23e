/*
 * test_grow.c - a store that takes a larger disk, and a hash table that shrinks with what it holds.
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
#include "enumerate.h"
#include "internal.h"

#define SMALL (768u * 1024)
#define LARGE (3u << 20)

enum { STATES, SECOND, THIRD };

static struct world_options shape = {
    .disk_bytes = SMALL, .log_bytes = 64 * 1024, .extent_bytes = 4096, .checkpoint_odds = 4,
};

static uint64_t disk_bytes(struct store *store)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats.disk_bytes;
}

/* A world whose disk is larger than its store; closed. */
static int life(struct world *world, struct device *device, uint64_t seed)
{
    struct store_report report;
    device->bytes = SMALL;
    shape.encoder = (enum store_encoder)(seed % STORE_ENCODER_COUNT);
    int error = world_format(world, device, seed, &shape);
    device_mark(device, 0, 0);
    if (!error)
        error = world_open(world, &report);
    for (int i = 0; i < 4 && !error; i++)
        error = world_step(world);
    if (!error)
        error = world_close(world);
    device->bytes = LARGE;
    return error;
}

static int work(struct world *world, int steps)
{
    struct store_report report;
    const char *why;
    int error = world_open(world, &report);
    for (int i = 0; i < steps && !error; i++)
        error = world_step(world);
    return error ? error : store_check(world->store, &why);
}

static void a_grown_store_holds_what_it_held_and_more(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_report report;
    uint64_t digest;
    device_open(&device, LARGE);
    struct disk_io io = device_io(&device);
    assert_int_equal(life(&world, &device, 7), 0);
    io = device_io(&device);
    assert_int_equal(store_grow(&io, &test_memory, LARGE + 4096, &report), -EINVAL);
    assert_int_equal(store_grow(&io, &test_memory, SMALL - 4096, &report), -EINVAL);
    assert_int_equal(store_grow(&io, &test_memory, SMALL + 16384, &report), 0); /* the areas do */
    assert_true(report.grown);
    assert_int_equal(store_grow(&io, &test_memory, 1600 * 1024, &report), 0);
    assert_true(report.grown);
    assert_int_equal(work(&world, 5), 0);
    assert_int_equal(disk_bytes(world.store), 1600 * 1024);
    assert_int_equal(world_close(&world), 0);
    assert_int_equal(world_open(&world, &report), 0);
    assert_int_equal(store_digest(world.store, &digest), 0);
    assert_int_equal(digest, world.digests[world.model.commits]);
    world_abandon(&world);
    assert_int_equal(store_grow(&io, &test_memory, 0, &report), 0);     /* again, to the end */
    assert_true(report.grown);
    assert_int_equal(store_grow(&io, &test_memory, 0, &report), 0);     /* nothing to do */
    assert_false(report.grown);
    assert_int_equal(work(&world, 5), 0);
    assert_int_equal(disk_bytes(world.store), LARGE);
    assert_int_equal(world.store->super.slot_b_offset, SMALL / 2);
    world_abandon(&world);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

/* Aim: where larger areas are needed and do not fit behind the old end, the store stays as it
 * is. */
static void growing_too_little_is_refused(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_report report;
    uint64_t bytes = 2560 * 1024;
    int error = 0;
    device_open(&device, LARGE);
    assert_int_equal(life(&world, &device, 7), 0);
    struct disk_io io = device_io(&device);
    for (; !error && bytes < LARGE; bytes += 4096)
        error = store_grow(&io, &test_memory, bytes, &report);
    assert_int_equal(error, -ENOSPC);
    assert_false(report.grown);
    assert_int_equal(work(&world, 2), 0);
    assert_int_equal(disk_bytes(world.store), bytes - 2 * 4096);
    world_abandon(&world);
    device_close(&device);
}

/* Aim: slot B is found on a disk that has grown, also when slot A is torn. */
static void the_signpost_leads_to_slot_b(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_report report;
    device_open(&device, LARGE);
    assert_int_equal(life(&world, &device, 7), 0);
    memset(device.image, 0x5a, 512);
    assert_int_equal(world_open(&world, &report), 0);
    assert_true(report.slot_bad[0]);
    world_abandon(&world);
    device_close(&device);
}

static void growing_survives(uint64_t seed)
{
    static struct world world;
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 2,
                                         .second_odds = 60, .third_odds = 60, .second_steps = 2,
                                         .random_subsets = 3, .states_max = UINT64_MAX };
    struct device device, base;
    struct store_report report;
    struct enumerate_result result = { .states = 0 };
    device_open(&device, LARGE);
    device_open(&base, LARGE);
    device_record(&device, true);
    crew_at("life", seed);
    require(life(&world, &device, seed) == 0);
    struct disk_io io = device_io(&device);
    require(store_grow(&io, &test_memory, 0, &report) == 0);
    require(work(&world, 4) == 0);
    world_abandon(&world);
    enumerate(&world, device.events, device.event_count, &base, &options, seed, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(THIRD, result.third_states);
    device_close(&device);
    device_close(&base);
}

/* Aim: a power cut at any point of growing leaves the old store or the grown one; so does one in
 * the recovery from that, and in the next. */
static void growing_survives_every_crash_state(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(4), growing_survives));
    printf("# %llu crash states of growing: %llu after a second crash, %llu after a third\n",
           (unsigned long long)crew_sum(STATES), (unsigned long long)crew_sum(SECOND),
           (unsigned long long)crew_sum(THIRD));
    assert_true(crew_part() || (crew_sum(SECOND) > 0 && crew_sum(THIRD) > 0));
}

/* ---- the table */

static int commit_pages(struct store *store, uint64_t object, uint64_t from, uint64_t to, bool free)
{
    struct store_group *group;
    uint32_t position;
    uint8_t page[4096] = { 1 };
    struct store_op op = { .type = STORE_OP_PAGE_FREE, .object = object, .page = from,
                           .count = to - from };
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    for (uint64_t i = from; i < to && !free; i++)
        assert_int_equal(store_txn_page(group, object, i, page), 0);
    if (free)
        assert_int_equal(store_txn_op(group, &op), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    return store_group_apply(group);
}

static void the_hash_table_grows_and_shrinks(void **state)
{
    (void)state;
    struct device device;
    struct store *store;
    struct store_report report;
    struct store_group *group;
    uint32_t position, most;
    const char *why;
    struct store_options format = { .uuid = { 3 }, .log_bytes = 16 << 20, .extent_bytes = 4096 };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "c" };
    device_open(&device, 40 << 20);
    struct disk_io io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &format), 0);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &op), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    for (uint64_t i = 0; i < 3000; i += 500)
        assert_int_equal(commit_pages(store, op.object, i, i + 500, false), 0);
    most = hash_buckets(store);
    uint32_t pages = store->super.area_pages - store->numbers.free;
    assert_true(most > 50);
    assert_int_equal(store_check(store, &why), 0);
    for (uint64_t i = 0; i < 2900; i += 29) {
        assert_int_equal(commit_pages(store, op.object, i, i + 29, true), 0);
        assert_int_equal(store_check(store, &why), 0);
    }
    assert_true(hash_buckets(store) <= 4);
    assert_true(store->super.area_pages - store->numbers.free < pages / 8);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_int_equal(store_check(store, &why), 0);
    assert_int_equal(store->kept.leaves, 100);
    store_abandon(store);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grown_store_holds_what_it_held_and_more),
        cmocka_unit_test(growing_too_little_is_refused),
        cmocka_unit_test(the_signpost_leads_to_slot_b),
        cmocka_unit_test(growing_survives_every_crash_state),
        cmocka_unit_test(the_hash_table_grows_and_shrinks),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
