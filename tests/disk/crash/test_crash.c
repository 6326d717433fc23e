/*
 * test_crash.c - seeded simulation: lives of random transactions, cut at every event.
 *
 * Method: a life (life.h) is formatted, worked on, closed and opened again under a recording
 * device; then crash states of the record are recovered and compared with the model. One state in
 * ten goes on under record, in recovery and in work after it, and is cut again; some of those a
 * third time. Known states lie in fixtures/ and are run first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "crew.h"
#include "life.h"

#define STEPS    40u
#define WHOLE    8u             /* in the long tier, times TIMES: of so many lives every state */
#define FIXTURES "tests/disk/fixtures"

enum { STATES, SECOND, THIRD, AGAIN, ROTTEN, NANOSECONDS };

static const struct enumerate_options everything = {
    .tear = true, .garble = true, .depth = 2, .third_odds = 200, .second_steps = 3,
    .random_subsets = 3, .rot_flips = 8,
};

/* Odd lives are cut deep, even ones all along; every fifth has sectors of 4096 bytes. */
static struct enumerate_options options_of(uint64_t seed)
{
    struct enumerate_options options = everything;
    options.states_max = seed <= WHOLE * crew_times() ? UINT64_MAX : 12000;
    options.second_odds = seed % 2 ? 40 : 500;
    options.sector_bytes = seed % 5 == 0 ? 4096 : 512;
    return options;
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void life_survives(uint64_t seed)
{
    struct enumerate_options options = options_of(seed);
    struct enumerate_result result = { .states = 0 };
    uint64_t start = nanoseconds();
    crew_at("life", seed);
    life_run(seed, STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(THIRD, result.third_states);
    crew_add(AGAIN, result.again_states);
    crew_add(ROTTEN, result.rotten_states);
    crew_add(NANOSECONDS, nanoseconds() - start);
}

/* Aim: no crash state of a random life loses, mixes up or invents a transaction. */
static void random_lives_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(crew_long() ? 48 : 24);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash, %llu after a third; "
           "%llu recovered twice, %llu with a rotten bit; %.0f states a second and core\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND), (unsigned long long)crew_sum(THIRD),
           (unsigned long long)crew_sum(AGAIN), (unsigned long long)crew_sum(ROTTEN),
           (double)crew_sum(STATES) * 1e9 / (double)crew_sum(NANOSECONDS));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

/* ---- crash after crash */

static struct world world;

static void stats_of(struct store_stats *stats)
{
    require(world_open(&world, &(struct store_report){ 0 }) == 0);
    store_stats(world.store, stats);
}

/* Aim (ST9, ST31): fifty crashes in a row cost nothing but a generation each, and the store
 * works. */
static void restarted(uint64_t seed)
{
    struct world_options options = life_options(seed);
    struct device device;
    struct store_stats last, now;
    options.watch = options.doomed = true;
    device_open(&device, options.disk_bytes);
    require(world_format(&world, &device, seed, &options) == 0);
    stats_of(&last);
    for (int i = 0; i < 20; i++) {
        int error = world_step(&world);
        if (error && error != -ENOSPC && error != -ENODATA)
            crew_fail("step %d: %s (error %d)", i, world.wrong ? world.wrong : "refused", error);
    }
    world_abandon(&world);
    stats_of(&last);
    for (int i = 0; i < 50; i++) {
        crew_at("crash", (uint64_t)i);
        world_abandon(&world);
        stats_of(&now);
        require(now.generation > last.generation && now.end_lsn >= last.end_lsn);
        if (i == 0)                     /* its flush covers recovery's superblock: more is free */
            require(now.log_used_bytes <= last.log_used_bytes &&
                    now.free_extents >= last.free_extents);
        else
            require(now.log_used_bytes == last.log_used_bytes &&
                    now.free_extents == last.free_extents);
        last = now;
    }
    for (int i = 0; i < 100 && world.model.commits + 8 < WORLD_COMMITS; i++) {
        int error = world_step(&world);
        if (error == -ENOSPC || error == -ENODATA)
            break;
        if (error)
            crew_fail("work after fifty crashes: %s (error %d)",
                      world.wrong ? world.wrong : "refused", error);
    }
    world_abandon(&world);
    device_close(&device);
}

static void crashes_in_a_row_leave_no_trace(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(crew_long() ? 60 : 30), restarted));
}

/* ---- fixtures: `seed N states N` a line; # begins a remark */

static void fixture_run(uint64_t seed, uint64_t states)
{
    struct enumerate_options options = options_of(seed);
    struct enumerate_result result = { .states = 0 };
    options.states_max = states;
    life_run(seed, STEPS, &options, &result);
    if (result.failed)
        fail_msg("seed %llu: %s", (unsigned long long)seed, result.text);
}

static uint32_t fixture_file(const char *name)
{
    char path[300], line[200];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/%s", FIXTURES, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long long seed, states;
        if (sscanf(line, "seed %llu states %llu", &seed, &states) == 2) {
            fixture_run(seed, states);
            count++;
        } else
            assert_true(line[0] == '#' || line[0] == '\n');
    }
    fclose(file);
    return count;
}

/* Aim: lives in which something was found once pass. */
static void fixtures_are_repeated(void **state)
{
    (void)state;
    uint32_t count = 0;
    DIR *folder = opendir(FIXTURES);
    if (!folder)
        fail_msg("run me in the root of the tree: there is no " FIXTURES);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".txt"))
            count += fixture_file(entry->d_name);
    closedir(folder);
    printf("# %u fixtures\n", count);
    assert_true(count > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_are_repeated),
        cmocka_unit_test(random_lives_survive_every_crash_state),
        cmocka_unit_test(crashes_in_a_row_leave_no_trace),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
