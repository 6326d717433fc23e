/*
 * test_errors.c - every request fails, every allocation fails, disk and log fill up at each place.
 *
 * A life formats a store and goes through recovery, commits, cleaning, checkpoints, a crash and a
 * close, and every second store grows with its disk. The disk's shape comes from the seed: rings of
 * few groups, tiny groups, all sizes of extents. Method: the life of a seed is lived without
 * failures; then once for each request (or allocation) i that it makes, which fails: once, or with
 * all after it. What is required of each:
 *
 *   - the failure fired, and the caller heard of it (reads are tried three times, so one failed
 *     read is not heard of, and nothing at all changes);
 *   - after a failed write or flush nothing more is acknowledged, and the store refuses to go on;
 *   - an open without failures finds a commit from the last acknowledged to the last submitted;
 *   - all memory comes back.
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
#include "internal.h"
#include "shape.h"
#include "world.h"

enum tally { RUNS, FIRED_WRITE, FIRED_FLUSH, FIRED_READ, FIRED_ALLOC, ACKED, LOST_UNKNOWN, PUT_OFF,
             DISK_FULL, LOG_FULL, GROWN, MOVED };

static struct world world;

/* ---- a life */

static int steps_run(uint32_t steps)
{
    int error = 0;
    for (uint32_t i = 0; i < steps && !error; i++) {
        error = world_step(&world);
        if (error == -ENOMEM && !store_error(world.store)) {
            crew_add(PUT_OFF, 1);       /* refused, nothing happened: the caller tries later */
            error = 0;
        }
    }
    return error;
}

/* The disk is larger now, by few extents or so much that the areas move; the store takes it. */
#define GROWTH_MAX (1u << 20)

static int grow(struct device *device, uint64_t seed)
{
    struct store_report report;
    device->bytes += seed % 4 == 1 ? 14ull * world.options.extent_bytes : GROWTH_MAX;
    struct disk_io io = device_io(device);
    int error = store_grow(&io, &test_memory, 0, &report);
    crew_add(GROWN, report.grown);
    return error;
}

/* A disk that may grow by itself. */
static void disk_open(struct device *device, const struct world_options *shape)
{
    device_open(device, shape->disk_bytes + GROWTH_MAX);
    device->bytes = shape->disk_bytes;
}

/* Returns the error that ended it; only the first open may fail by itself. */
static int life(struct device *device, uint64_t seed, const struct world_options *shape)
{
    struct store_report report;
    int error = world_format(&world, device, seed, shape);
    if (!error)
        error = world_open(&world, &report);
    if (!error)
        error = steps_run(4);
    if (!error)
        error = world_checkpoint(&world);
    if (!error)
        error = steps_run(3);
    if (error)
        return error;
    world_abandon(&world);              /* the power is cut, after all is on the disk */
    error = world_open(&world, &report);
    if (!error)
        error = steps_run(2);
    if (!error)
        error = world_close(&world);
    if (!error && seed % 2)
        error = grow(device, seed);
    if (!error)
        error = world_open(&world, &report);
    if (!error && seed % 2) {
        crew_add(MOVED, world.store->super.area_start[0] >= world.options.disk_bytes);
        error = steps_run(2);
    }
    return error;
}

/* Opens without failures and looks for the commit. */
static void state_require(const struct device *device)
{
    struct store_report report;
    uint64_t digest = 0, k;
    if (world.store)
        world_abandon(&world);
    require(memory_live == 0);
    int error = world_open(&world, &report);
    if (error == -ENODATA && world.submitted == 0)
        return;                         /* format had not got far enough */
    if (!error)
        error = store_digest(world.store, &digest);
    for (k = world.acked; k < world.submitted && world.digests[k] != digest; k++)
        ;
    if (error || world.digests[k] != digest)
        crew_fail("error %d, no commit from %llu to %llu (%s)", error,
                  (unsigned long long)world.acked, (unsigned long long)world.submitted,
                  report.message ? report.message : "opened");
    crew_add(ACKED, world.acked);
    crew_add(LOST_UNKNOWN, world.submitted - world.acked);
    const char *why = "";
    if (store_check(world.store, &why))
        crew_fail("the store's own check: %s", why);
    world_abandon(&world);
    require(device->bytes >= world.options.disk_bytes);
}

/* ---- requests */

static const struct { uint32_t kinds; bool sticky; const char *name; } modes[] = {
    { FAIL_WRITE, false, "write" },      { FAIL_FLUSH, false, "flush" },
    { FAIL_WRITE | FAIL_FLUSH, true, "writes and flushes from" },
    { FAIL_READ, false, "read" },        { FAIL_READ, true, "reads from" },
};

static void fence_require(int error, const struct device *device)
{
    struct store_group *group;
    require(error == -EIO);
    if (!device->failed_in_flush)       /* that flush is of a group written before, and is good */
        require(world.acked == device->acked_at_failure);
    if (!world.store || !store_error(world.store))
        return;                         /* format, open, or the caller's own write of a page */
    require(store_group_begin(world.store, &group) == store_error(world.store));
    require(store_checkpoint_begin(world.store) == store_error(world.store));
}

/* One life in which request i of the mode fails; how many failures fired. */
static uint32_t request_fails(uint64_t seed, const struct world_options *shape, uint32_t mode,
                              uint32_t i)
{
    struct device device;
    disk_open(&device, shape);
    device.fail_kinds = modes[mode].kinds;
    device.fail_at = i;
    device.fail_sticky = modes[mode].sticky;
    crew_at(modes[mode].name, i);
    world.store = NULL;
    int error = life(&device, seed, shape);
    uint32_t fired = device.fired;
    device.fail_kinds = 0;
    if (fired && (modes[mode].kinds & FAIL_READ) == 0)
        fence_require(error, &device);
    else if (fired && !modes[mode].sticky)
        require(!error || error == -ENOSPC);    /* the second try went well */
    else if (fired > 3)                 /* else the last look at the end of the log, not needed */
        require(error == -EIO || error == -EUCLEAN);
    if (fired)
        state_require(&device);
    else
        world_abandon(&world);
    device_close(&device);
    crew_add(RUNS, 1);
    return fired;
}

static void requests_fail(uint64_t seed)
{
    static const enum tally tally_of[] = { FIRED_WRITE, FIRED_FLUSH, FIRED_WRITE, FIRED_READ,
                                           FIRED_READ };
    struct world_options shape = shape_of(seed);
    for (uint32_t mode = 0; mode < sizeof modes / sizeof modes[0]; mode++) {
        uint32_t i = 1, fired;
        for (; (fired = request_fails(seed, &shape, mode, i)) != 0; i++)
            crew_add(tally_of[mode], fired);
        require(i > 5);                 /* a life makes more requests than that of each kind */
    }
}

static uint64_t workloads(void)
{
    return crew_count(crew_long() ? 100 : 50);
}

static void growth_print(void)
{
    printf("# a store grew %llu times, and worked on %llu times in larger areas\n",
           (unsigned long long)crew_sum(GROWN), (unsigned long long)crew_sum(MOVED));
    assert_true(crew_part() || (crew_sum(GROWN) && crew_sum(MOVED)));
}

static void every_failed_request_is_survived(void **state)
{
    (void)state;
    uint64_t seeds = workloads();
    assert_true(crew_run(__func__, seeds, requests_fail));
    growth_print();
    printf("# %llu workloads, %llu lives: failed %llu writes, %llu flushes, %llu reads; %llu "
           "commits "
           "acknowledged, 0 lost; %llu of unknown outcome\n",
           (unsigned long long)seeds, (unsigned long long)crew_sum(RUNS),
           (unsigned long long)crew_sum(FIRED_WRITE), (unsigned long long)crew_sum(FIRED_FLUSH),
           (unsigned long long)crew_sum(FIRED_READ), (unsigned long long)crew_sum(ACKED),
           (unsigned long long)crew_sum(LOST_UNKNOWN));
    assert_true(crew_part() ||
                (crew_sum(FIRED_WRITE) && crew_sum(FIRED_FLUSH) && crew_sum(FIRED_READ)));
}

/* ---- memory, disk, log */

static void allocations_fail(uint64_t seed)
{
    struct world_options shape = shape_of(seed);
    for (uint32_t i = 1, fired = 1; fired; i++) {
        struct device device;
        disk_open(&device, &shape);
        crew_at("allocation", i);
        memory_count = memory_fired = 0;
        memory_fail_at = i;
        world.store = NULL;
        int error = life(&device, seed, &shape);
        fired = memory_fired;
        memory_fail_at = 0;
        require(!error || error == -ENOMEM || error == -ENOSPC ||
                (world.store && store_error(world.store) == error));
        state_require(&device);
        device_close(&device);
        crew_add(FIRED_ALLOC, fired);
        crew_add(RUNS, 1);
    }
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    uint64_t seeds = workloads();
    assert_true(crew_run(__func__, seeds, allocations_fail));
    growth_print();
    printf("# %llu workloads, %llu lives: %llu allocations failed, %llu steps put off, 0 bytes "
           "leaked\n",
           (unsigned long long)seeds, (unsigned long long)crew_sum(RUNS),
           (unsigned long long)crew_sum(FIRED_ALLOC), (unsigned long long)crew_sum(PUT_OFF));
    assert_true(crew_part() || crew_sum(FIRED_ALLOC) > seeds);
}

/* The life of one seed on disks, or with logs, of every size from the smallest: so the disk or the
 * log is full at each place of the same life. Without checkpoints of its own accord. */
static void full_at(uint64_t seed, bool log)
{
    struct world_options shape = shape_of(seed);
    uint64_t step = log ? 4096 : shape.extent_bytes;
    shape.checkpoint_odds = 1u << 30;
    shape.disk_bytes = log ? 1 << 20 : shape_least_disk(&shape);
    shape.log_bytes = log ? 4 * 4096 : shape.log_bytes;
    for (uint32_t i = 0; i < 24; i++) {
        struct device device;
        disk_open(&device, &shape);
        crew_at(log ? "log of blocks" : "disk of bytes", log ? shape.log_bytes / 4096
                                                           : shape.disk_bytes);
        world.store = NULL;
        int error = life(&device, seed, &shape);
        if (error && error != -ENOSPC && error != -EAGAIN)
            crew_fail("a full %s ended it with %d", log ? "log" : "disk", error);
        crew_add(DISK_FULL, world.refused);
        crew_add(LOG_FULL, world.log_full);
        if (world.store)
            require(store_error(world.store) == 0);     /* full is no failure of the disk */
        state_require(&device);
        device_close(&device);
        crew_add(RUNS, 1);
        shape.disk_bytes += log ? 0 : step;
        shape.log_bytes += log ? step : 0;
    }
}

static void full_disk(uint64_t seed)
{
    full_at(seed, false);
}

static void full_log(uint64_t seed)
{
    full_at(seed, true);
}

static void a_full_disk_is_survived_at_each_place(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, workloads(), full_disk));
    printf("# %llu lives, %llu transactions refused for want of space\n",
           (unsigned long long)crew_sum(RUNS), (unsigned long long)crew_sum(DISK_FULL));
    assert_true(crew_part() || crew_sum(DISK_FULL) > 0);
}

static void a_full_log_is_survived_at_each_place(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, workloads(), full_log));
    printf("# %llu lives, %llu commits waited for a checkpoint\n",
           (unsigned long long)crew_sum(RUNS), (unsigned long long)crew_sum(LOG_FULL));
    assert_true(crew_part() || crew_sum(LOG_FULL) > 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_request_is_survived),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(a_full_disk_is_survived_at_each_place),
        cmocka_unit_test(a_full_log_is_survived_at_each_place),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
