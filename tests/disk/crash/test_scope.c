/*
 * test_scope.c - small scope, exhaustively: every sequence of up to three of sixteen operations,
 * and every crash state of the last of them.
 *
 * Method: the states of a sequence's earlier operations are those of the shorter sequence, so only
 * the last operation's are made: all subsets of the unflushed writes, each write cut before every
 * sector from either side, every sector alone lost or alone written, one garbled. It is done in
 * small stores of four shapes: rings of four blocks where the third group wraps, each encoder,
 * sectors of 512 and 4096 bytes. One sequence of three in 32 is run in one of the shapes, and all
 * in all by the long tier, which takes sequences of four, too.
 *
 * A job is one first operation in one shape. The same in rings of four to nine blocks, from each
 * block on; and with a manager that dies before its flush, so that recovery finds what no flush has
 * covered.
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

#include "crew.h"
#include "enumerate.h"
#include "internal.h"

enum { SEQUENCES, STATES, AGAIN, DEEPER, THIRD, ASKED, NANOSECONDS, PLACES };

typedef int operation(struct world *world);

static int commit_of(struct world *world, enum world_want want, uint32_t txns, bool ahead)
{
    world->want = want;
    int error = world_commit(world, txns, ahead);
    for (int i = 0; error == -EAGAIN && i < 3; i++) {       /* the log is full */
        error = world_checkpoint(world);
        if (!error)
            error = world_commit(world, txns, ahead);
    }
    world->want = WANT_ANY;
    return error == -ENODATA || error == -ENOENT || error == -ENOSPC || error == -E2BIG ? 0 : error;
}

static int new_page(struct world *w) { return commit_of(w, WANT_PAGE, 1, false); }
static int same_page(struct world *w) { return commit_of(w, WANT_SAME_PAGE, 1, false); }
static int three_pages(struct world *w) { return commit_of(w, WANT_PAGES, 1, false); }
static int two_txns(struct world *w) { return commit_of(w, WANT_SAME_PAGE, 2, false); }
static int two_groups(struct world *w) { return commit_of(w, WANT_SAME_PAGE, 1, true); }
static int free_pages(struct world *w) { return commit_of(w, WANT_FREE, 1, false); }
static int create(struct world *w) { return commit_of(w, WANT_CREATE, 1, false); }
static int delete(struct world *w) { return commit_of(w, WANT_DELETE, 1, false); }
static int rename_it(struct world *w) { return commit_of(w, WANT_RENAME, 1, false); }
static int encoder(struct world *w) { return commit_of(w, WANT_ENCODER, 1, false); }
static int claim(struct world *w) { return commit_of(w, WANT_CLAIM, 1, false); }
static int name_set(struct world *w) { return commit_of(w, WANT_NAME_SET, 1, false); }
static int idle(struct world *w) { return world_idle(w); }

static int checkpoint(struct world *world)
{
    return world_checkpoint(world);
}

/* One page home, a commit inside the checkpoint, the rest home. */
static int checkpoint_beside(struct world *world)
{
    int error = world->checkpointing ? 0 : world_checkpoint_begin(world);
    if (!error)
        error = world_checkpoint_some(world, 1);
    if (!error)
        error = commit_of(world, WANT_SAME_PAGE, 1, false);
    return error ? error : world_checkpoint_some(world, UINT32_MAX);
}

static int restart(struct world *world)
{
    struct store_report report;
    world_abandon(world);
    return world_open(world, &report);
}

static const struct { const char *name; operation *run; } operations[] = {
    { "same page", same_page }, { "new page", new_page }, { "two groups", two_groups },
    { "checkpoint", checkpoint }, { "restart", restart }, { "free", free_pages },
    { "checkpoint beside", checkpoint_beside }, { "delete", delete },
    { "three pages", three_pages }, { "two txns", two_txns }, { "create", create },
    { "encoder", encoder }, { "name set", name_set }, { "idle", idle }, { "rename", rename_it },
    { "claim", claim },
};
#define OPERATIONS (sizeof operations / sizeof operations[0])

struct shape { uint32_t disk_kib, log_kib, extent_kib, sector; enum store_encoder encoder; };
static const struct shape shapes[] = {
    { 128, 16, 4, 512, STORE_ENCODER_ADAPTIVE }, { 256, 24, 16, 512, STORE_ENCODER_DIFF },
    { 128, 16, 4, 4096, STORE_ENCODER_FULL }, { 160, 20, 8, 512, STORE_ENCODER_RANGES },
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static int life_begin(struct world *world, struct device *device, const struct shape *shape)
{
    struct world_options options = { .disk_bytes = device->bytes,
                                     .log_bytes = shape->log_kib * 1024,
                                     .extent_bytes = shape->extent_kib * 1024,
                                     .ahead = true, .encoder = shape->encoder, .checkpoint_odds = 1,
                                     .watch = true };
    struct store_report report;
    int error = world_format(world, device, 1, &options);
    device_mark(device, 0, 0);
    if (!error)
        error = world_open(world, &report);
    return error ? error : commit_of(world, WANT_CREATE, 1, false);
}

/* Of all first crashes some are followed by a second: more in the long tier, but behind three or
 * four operations, of which there are many, only with TIMES=2 or more. */
static struct enumerate_options two_crashes(uint32_t length)
{
    bool more = crew_long() && (length < 3 || crew_times() > 1);
    return (struct enumerate_options){ .depth = 1, .second_odds = more ? 500 : 1500 };
}

/* All crash states of what was recorded from `from` on. */
static void states_run(struct world *world, struct device *device, uint32_t from, uint32_t sector,
                       const char *text, struct enumerate_options options,
                       struct enumerate_result *result)
{
    static struct device base;
    options.tear = options.garble = options.exhaustive = true;
    options.sector_bytes = sector;
    options.from_event = from;
    options.states_max = UINT64_MAX;
    device_open(&base, device->bytes);
    enumerate(world, device->events, device->event_count, &base, &options, result->states, result);
    if (result->failed)
        crew_fail("%s: %s", text, result->text);
    device_close(&base);
}

static void sequence_text(const uint32_t *sequence, uint32_t length, char *text, size_t room)
{
    text[0] = 0;
    for (uint32_t i = 0; i < length; i++)
        snprintf(text + strlen(text), room - strlen(text), "%s%s", i ? ", " : "",
                 operations[sequence[i]].name);
}

static void sequence_run(const struct shape *shape, const uint32_t *sequence, uint32_t length,
                         struct enumerate_options options, struct enumerate_result *result)
{
    static struct world world;
    static struct device device;
    uint32_t from = 0;
    char text[120];
    sequence_text(sequence, length, text, sizeof text);
    device_open(&device, shape->disk_kib * 1024);
    device_record(&device, true);
    int error = life_begin(&world, &device, shape);
    for (uint32_t i = 0; i < length && !error; i++) {
        if (i == length - 1)
            from = device.event_count;
        error = operations[sequence[i]].run(&world);
    }
    if (world.store)
        world_abandon(&world);
    device.recording = false;
    if (error)
        crew_fail("%s: %s (error %d)", text, world.wrong ? world.wrong : "refused", error);
    states_run(&world, &device, from, shape->sector, text, options, result);
    device_close(&device);
    crew_add(SEQUENCES, 1);
}

/* A sequence of two is met in one of the shapes. The sum of its operations tells one of three its
 * shape, if any: so each pair of operations at any two of the three places is met once in each
 * shape; every eighth of them counts, others for each place. The long tier takes those of two and
 * three in all shapes, and of those of four one in 32, all with TIMES=32. */
static bool sequence_wanted(const struct shape *shape, const uint32_t *sequence, uint32_t length)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < length; i++)
        sum += sequence[i];
    if (length == 4)
        return (sequence[0] * 3 + sequence[1] * 5 + sequence[2] * 7 + sequence[3]) % 32 <
               crew_times();
    if (length == 1 || crew_long())
        return true;
    uint32_t number = (uint32_t)(shape - shapes);
    return length == 2 ? ((sequence[0] >> 1) + sequence[1] + number) % SHAPES == 0
                       : sum % OPERATIONS == number && ((sequence[0] >> 1) + sequence[1]) % 8 == 0;
}

static void sequences_from(const struct shape *shape, uint32_t *sequence, uint32_t length,
                           uint32_t longest, uint32_t choices, struct enumerate_result *result)
{
    if (sequence_wanted(shape, sequence, length))
        sequence_run(shape, sequence, length, two_crashes(length), result);
    for (uint32_t i = 0; i < choices && length < longest; i++) {
        sequence[length] = i;
        sequences_from(shape, sequence, length + 1, longest, choices, result);
    }
}

static void tallies_add(const struct enumerate_result *result)
{
    crew_add(STATES, result->states);
    crew_add(AGAIN, result->again_states);
    crew_add(DEEPER, result->second_states);
    crew_add(THIRD, result->third_states);
    crew_add(ASKED, result->kcheck_states);
}

static void first_operation(uint64_t seed)
{
    const struct shape *shape = &shapes[(seed - 1) / OPERATIONS % SHAPES];
    uint32_t sequence[4] = { (uint32_t)((seed - 1) % OPERATIONS) };
    struct enumerate_result result = { .states = 0 };
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    crew_at(operations[sequence[0]].name, seed);
    sequences_from(shape, sequence, 1, crew_short() ? 2 : crew_long() ? 4 : 3, OPERATIONS, &result);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    crew_add(NANOSECONDS, (uint64_t)(end.tv_sec - start.tv_sec) * 1000000000 +
                          (uint64_t)end.tv_nsec - (uint64_t)start.tv_nsec);
    tallies_add(&result);
}

/* Aim: no crash state of any short sequence loses, mixes up or invents a transaction. */
static void every_short_sequence_survives_every_crash_state(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_all(OPERATIONS * SHAPES), first_operation));
    printf("# %llu sequences, %llu crash states (%llu recovered twice, %llu after a second crash, "
           "%llu "
           "asked of kcheck), %.0f a second and core\n",
           (unsigned long long)crew_sum(SEQUENCES), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(AGAIN), (unsigned long long)crew_sum(DEEPER),
           (unsigned long long)crew_sum(ASKED),
           (double)crew_sum(STATES) * 1e9 / (double)crew_sum(NANOSECONDS));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

/* ---- three crashes */

static uint32_t const small_logs[] = { 0, 3, 4, 5, 12 };    /* one operation each */
#define SMALL_LOGS (sizeof small_logs / sizeof small_logs[0] * SHAPES)

enum { THIRD_ODDS = 160 };

static void three_crashes(uint64_t seed)
{
    const struct shape *shape = &shapes[(seed - 1) % SHAPES];
    const uint32_t *operation = &small_logs[(seed - 1) / SHAPES % (SMALL_LOGS / SHAPES)];
    uint32_t odds = crew_long() ? 1 : 80, times = (uint32_t)crew_times();
    uint32_t third = !crew_long() ? 200 : times < THIRD_ODDS ? THIRD_ODDS / times : 1;
    struct enumerate_options options = { .depth = 2, .second_odds = odds, .third_odds = third };
    struct enumerate_result result = { .states = 0 };
    crew_at(operations[*operation].name, seed);
    sequence_run(shape, operation, 1, options, &result);
    tallies_add(&result);
}

/* Aim: so does a crash in the recovery from a crash in a recovery. Method: of twenty small logs
 * every state at the first two depths in the long tier, and at the third with TIMES=160; else of a
 * part. */
static void every_small_log_survives_three_crashes(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_all(SMALL_LOGS), three_crashes));
    printf("# %llu small logs, %llu crash states: %llu after a second crash, %llu after a third\n",
           (unsigned long long)crew_sum(SEQUENCES), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(DEEPER), (unsigned long long)crew_sum(THIRD));
    assert_true(crew_part() || crew_sum(THIRD) > 0);
}

/* ---- each place of the ring */

enum { RING_LEAST = 4, RING_MOST = 9 };

static uint64_t place_of(const struct world *world)
{
    return world->store->log.end % world->options.log_bytes / 4096;
}

/* Groups of one block until the log ends there; a checkpoint whenever it is full. */
static int log_advance(struct world *world, uint64_t place)
{
    int error = 0;
    while (!error && place_of(world) != place) {
        uint64_t before = place_of(world);
        error = idle(world);
        if (!error && place_of(world) == before)
            error = checkpoint(world);
    }
    return error;
}

/* From that place on: one operation, and then commits over the end of the ring. */
static void place_run(const struct shape *shape, uint64_t place, uint32_t first,
                      struct enumerate_result *result)
{
    static struct world world;
    static struct device device;
    device_open(&device, shape->disk_kib * 1024);
    device_record(&device, true);
    int error = life_begin(&world, &device, shape);
    error = error ? error : log_advance(&world, place);
    uint32_t from = device.event_count;
    error = error ? error : operations[first].run(&world);
    for (int i = 0; i < 2 && !error; i++)
        error = i ? new_page(&world) : same_page(&world);
    if (world.store)
        world_abandon(&world);
    device.recording = false;
    if (error)
        crew_fail("%s at block %llu: %s (error %d)", operations[first].name,
                  (unsigned long long)place, world.wrong ? world.wrong : "refused", error);
    states_run(&world, &device, from, shape->sector, operations[first].name, two_crashes(1),
               result);
    device_close(&device);
    crew_add(PLACES + (uint32_t)place, 1);
}

/* A job is a ring's size and a block of it; in `make test` with every fifth operation and in `make
 * check` with every sixth, others for the next. */
static void place_job(uint64_t seed)
{
    uint32_t ring = RING_LEAST + (uint32_t)(seed - 1) / RING_MOST % (RING_MOST - RING_LEAST + 1);
    uint64_t place = (seed - 1) % RING_MOST;
    struct shape shape = { 192, ring * 4, 4, place % 2 ? 512 : 4096,
                           (enum store_encoder)(seed % STORE_ENCODER_COUNT) };
    struct enumerate_result result = { .states = 0 };
    uint32_t step = crew_long() ? 1 : 6;
    for (uint32_t first = (uint32_t)seed % step; first < OPERATIONS && place < ring; first += step)
        place_run(&shape, place, first, &result);
    tallies_add(&result);
}

/* Aim: rings of four to nine blocks; wherever in them the log ends, what goes over their end is
 * safe. */
static void every_place_of_the_ring_survives_every_crash_state(void **state)
{
    (void)state;
    uint64_t jobs = crew_all(RING_MOST * (RING_MOST - RING_LEAST + 1));
    assert_true(crew_run(__func__, jobs, place_job));
    printf("# %llu crash states at each place of six rings\n",
           (unsigned long long)crew_sum(STATES));
    for (uint32_t place = 0; place < RING_MOST; place++)
        assert_true(crew_part() || crew_sum(PLACES + place));
}

/* ---- a manager that dies between a group's write and its flush */

static int kill(struct world *world)
{
    world->want = WANT_SAME_PAGE;
    int error = world_kill(world);
    for (int i = 0; error == -EAGAIN && i < 3; i++) {       /* the log is full */
        error = world_checkpoint(world);
        error = error ? error : world_kill(world);
    }
    world->want = WANT_ANY;
    return error;
}

/* After one operation, in half of the shapes but for the long tier; the next manager's recovery
 * finds what the disk has only in its cache. */
static void killed_after(uint64_t seed)
{
    const struct shape *shape = &shapes[(seed - 1) / OPERATIONS % SHAPES];
    uint32_t first = (uint32_t)((seed - 1) % OPERATIONS);
    static struct world world;
    static struct device device;
    struct enumerate_result result = { .states = 0 };
    if (!crew_long() && !crew_part() && (seed + (seed - 1) / OPERATIONS) % 2)
        return;
    device_open(&device, shape->disk_kib * 1024);
    device_record(&device, true);
    int error = life_begin(&world, &device, shape);
    error = error ? error : operations[first].run(&world);
    uint32_t from = device.event_count;
    error = error ? error : kill(&world);
    error = error ? error : same_page(&world);
    if (world.store)
        world_abandon(&world);
    device.recording = false;
    if (error)
        crew_fail("%s, kill: %s (error %d)", operations[first].name,
                  world.wrong ? world.wrong : "refused", error);
    states_run(&world, &device, from, shape->sector, operations[first].name, two_crashes(1),
               &result);
    device_close(&device);
    crew_add(SEQUENCES, 1);
    tallies_add(&result);
}

/* Aim: a power cut in the recovery that follows a kill: no page at home is newer than the log. */
static void a_killed_manager_survives_every_crash_state(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_all(OPERATIONS * SHAPES), killed_after));
    printf("# %llu kills, %llu crash states\n", (unsigned long long)crew_sum(SEQUENCES),
           (unsigned long long)crew_sum(STATES));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_sequence_survives_every_crash_state),
        cmocka_unit_test(every_small_log_survives_three_crashes),
        cmocka_unit_test(a_killed_manager_survives_every_crash_state),
        cmocka_unit_test(every_place_of_the_ring_survives_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
