/*
 * test_crash.c - power cuts at every point, and the proof that this finds bugs.
 *
 * Method: enumerate.h. A world (world.h) is formatted, worked on, closed and opened again under a
 * recording device, with small rings, groups and disks that the seed chooses; then all crash
 * states of the record are recovered. The control is the store as it is; then each planted bug
 * (bug.h) must be found in the same way.
 *
 * CRASH_SEED=n CRASH_BUG=b runs one world only, and says what happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "bug.h"
#include "enumerate.h"

#ifndef CONTROL_STATES
#define CONTROL_STATES 200000u
#endif

static struct world_options options_for(uint64_t seed)
{
    static const uint32_t log_kib[] = { 16, 24, 32, 64, 128 };
    uint64_t random = seed;
    struct world_options o = {
        .log_bytes = log_kib[random_below(&random, 5)] * 1024,
        .extent_bytes = 4096u << random_below(&random, 4),
        .ahead = random_below(&random, 2),
        .full_only = random_below(&random, 4) == 0,
        .checkpoint_odds = 2 + (uint32_t)random_below(&random, 8),
        .chain_odds = seed % 3 == 0 ? 2 : 0,
    };
    o.disk_bytes = o.log_bytes + 768 * 1024 + random_below(&random, 4) * 65536;
    return o;
}

/* One record of a world's life. 0, or the error of a step that should have worked. */
static int life_record(struct world *world, struct device *device, uint64_t seed, uint32_t steps)
{
    struct world_options options = options_for(seed);
    struct store_report report;
    device_record(device, true);
    int error = world_format(world, device, seed, &options);
    device_mark(device, 0, 0);
    if (!error)
        error = world_open(world, &report);
    for (uint32_t i = 0; i < steps && !error && world->model.commits + 8 < WORLD_COMMITS; i++) {
        error = world_step(world);
        if (!error && i % 16 == 11) {           /* closed, or only stopped; then opened again */
            if (i % 32 == 11)
                error = world_close(world);
            else
                world_abandon(world);
            if (!error)
                error = world_open(world, &report);
        }
    }
    if (world->store)
        world_abandon(world);
    device->recording = false;
    return error;
}

static void world_run(uint64_t seed, uint32_t steps, const struct enumerate_options *options,
                      struct enumerate_result *result)
{
    static struct world world;
    struct device device, base;
    struct world_options shape = options_for(seed);
    device_open(&device, shape.disk_bytes);
    device_open(&base, shape.disk_bytes);
    int error = life_record(&world, &device, seed, steps);
    enumerate(&world, device.events, device.event_count, &base, options, seed, result);
    if (error && error != -ENOSPC && error != -ENODATA && !result->failed) {
        result->failed = true;
        snprintf(result->text, sizeof result->text, "a step of the workload: error %d", error);
    }
    device_close(&device);
    device_close(&base);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const struct enumerate_options everything = {
    .tear = true, .garble = true, .second_odds = 40, .second_steps = 3, .random_subsets = 3,
    .states_max = UINT64_MAX,
};

/* Aim: no crash state of the store as it is loses, mixes up or invents a transaction. */
static void control_survives_every_crash_state(void **state)
{
    (void)state;
    struct enumerate_result total = { .states = 0 };
    double start = seconds();
    uint64_t worlds = 0;
    bug_on = BUG_NONE;
    for (uint64_t seed = 1; total.states < CONTROL_STATES; seed++, worlds++) {
        struct enumerate_options options = everything;
        options.states_max = total.states + 20000;
        options.second_odds = seed % 2 ? 40 : 500;      /* deep into one life, or all along it */
        world_run(seed, 40, &options, &total);
        if (total.failed)
            fail_msg("seed %llu: %s; repeat: CRASH_SEED=%llu test_crash",
                     (unsigned long long)seed, total.text, (unsigned long long)seed);
    }
    assert_int_equal(memory_live, 0);
    printf("# %llu crash states (%llu after a second crash) of %llu worlds in %.1f s\n",
           (unsigned long long)total.states, (unsigned long long)total.second_states,
           (unsigned long long)worlds, seconds() - start);
}

static const enum bug planted[] = {
    BUG_ACK_EARLY, BUG_NO_FLUSH, BUG_NO_CRC, BUG_HEADER_CRC, BUG_NO_LSN, BUG_NO_EPOCH,
    BUG_SUPERBLOCK_FIRST, BUG_SUPERBLOCK_ONE, BUG_CHECKPOINT_SAME, BUG_CHECKPOINT_SKIP,
    BUG_TRUNCATE_EARLY, BUG_RECOVERY_ORDER, BUG_SKIP_BAD, BUG_FULL_BELOW, BUG_CLEANED_STALE,
    BUG_NO_FREEZE, BUG_CHECKPOINT_DIRTY, BUG_AREA_DIRTY,
};

/* The same world without the bug must pass in the same states: else the bug was not what failed. */
static void control_require(uint64_t seed, const struct enumerate_options *options)
{
    static bool passed[256];
    struct enumerate_result result = { .states = 0 };
    struct enumerate_options same = *options;
    if (seed < 256 && passed[seed])
        return;
    same.states_max = 6000;
    world_run(seed, 40, &same, &result);
    if (result.failed)
        fail_msg("seed %llu without a bug: %s; repeat: CRASH_SEED=%llu test_crash",
                 (unsigned long long)seed, result.text, (unsigned long long)seed);
    if (seed < 256)
        passed[seed] = true;
}

/* Aim: the enumerator finds each planted bug. */
static void every_planted_bug_is_killed(void **state)
{
    (void)state;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        enum bug bug = planted[i];
        struct enumerate_result total = { .states = 0 };
        uint64_t seed = 1;
        for (; !total.failed && total.states < 400000; seed++) {
            struct enumerate_options options = everything;
            struct world_options shape = options_for(seed);
            if (bug == BUG_NO_EPOCH && !(shape.full_only && shape.ahead))
                continue;               /* needs a group redone bit by bit, another behind it */
            options.states_max = total.states + 6000;
            options.second_odds = seed % 2 ? 40 : 500;
            bug_on = bug;
            world_run(seed, 40, &options, &total);
            bug_on = BUG_NONE;
            if (total.failed)
                control_require(seed, &options);
        }
        printf("# bug %2u %-36s %s after %llu states, seed %llu\n", bug, bug_table[bug].breaks,
               total.failed ? "killed" : "ALIVE", (unsigned long long)total.states,
               (unsigned long long)seed - 1);
        alive += !total.failed;
    }
    assert_int_equal(alive, 0);
}

static int one_world(const char *seed_text, const char *bug_text)
{
    struct enumerate_result result = { .states = 0 };
    bug_on = bug_text ? bug_find(bug_text) : BUG_NONE;
    world_run(strtoull(seed_text, NULL, 0), 40, &everything, &result);
    printf("%llu states: %s\n", (unsigned long long)result.states,
           result.failed ? result.text : "all recovered");
    return result.failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_survives_every_crash_state),
        cmocka_unit_test(every_planted_bug_is_killed),
    };
    if (getenv("CRASH_SEED"))
        return one_world(getenv("CRASH_SEED"), getenv("CRASH_BUG"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
