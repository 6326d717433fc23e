/*
 * test_scope.c - small scope, exhaustively: every sequence of up to three of fourteen operations,
 * and every crash state of the last of them.
 *
 * Method: the states of a sequence's earlier operations are those of the shorter sequence, so only
 * the last operation's are made: all subsets of the unflushed writes, each write cut before every
 * sector from either side, every sector alone lost or alone written, one garbled. It is done in
 * small stores of several shapes: rings of four blocks where the third group wraps, each encoder,
 * sectors of 512 and 4096 bytes. The long tier takes sequences of four of the first eight.
 *
 * A job is one first operation in one shape.
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

enum { SEQUENCES, STATES, AGAIN, DEEPER, NANOSECONDS };

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
    { "rename", rename_it }, { "name set", name_set }, { "idle", idle },
};
#define OPERATIONS (sizeof operations / sizeof operations[0])

struct shape { uint32_t disk_kib, log_kib, extent_kib, sector; enum world_encoder encoder; };
static const struct shape shapes[] = {
    { 128, 16, 4, 512, ENCODER_ADAPTIVE }, { 256, 24, 16, 512, ENCODER_DIFF },
    { 128, 16, 4, 4096, ENCODER_FULL }, { 160, 20, 8, 512, ENCODER_RANGES },
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static int life_begin(struct world *world, struct device *device, const struct shape *shape)
{
    struct world_options options = { .disk_bytes = device->bytes, .log_bytes = shape->log_kib * 1024,
                                     .extent_bytes = shape->extent_kib * 1024, .ahead = true,
                                     .encoder = shape->encoder, .checkpoint_odds = 1, .watch = true };
    struct store_report report;
    int error = world_format(world, device, 1, &options);
    device_mark(device, 0, 0);
    if (!error)
        error = world_open(world, &report);
    return error ? error : commit_of(world, WANT_CREATE, 1, false);
}

static void sequence_text(const uint32_t *sequence, uint32_t length, char *text, size_t room)
{
    text[0] = 0;
    for (uint32_t i = 0; i < length; i++)
        snprintf(text + strlen(text), room - strlen(text), "%s%s", i ? ", " : "",
                 operations[sequence[i]].name);
}

static void sequence_run(const struct shape *shape, const uint32_t *sequence, uint32_t length,
                         struct enumerate_result *result)
{
    static struct world world;
    static struct device device, base;
    struct enumerate_options options = { .tear = true, .garble = true, .exhaustive = true,
        .sector_bytes = shape->sector, .depth = 1, .second_odds = 1500, .states_max = UINT64_MAX };
    char text[120];
    sequence_text(sequence, length, text, sizeof text);
    device_open(&device, shape->disk_kib * 1024);
    device_open(&base, device.bytes);
    device_record(&device, true);
    int error = life_begin(&world, &device, shape);
    for (uint32_t i = 0; i < length && !error; i++) {
        if (i == length - 1)
            options.from_event = device.event_count;
        error = operations[sequence[i]].run(&world);
    }
    if (world.store)
        world_abandon(&world);
    device.recording = false;
    if (error)
        crew_fail("%s: %s (error %d)", text, world.wrong ? world.wrong : "refused", error);
    enumerate(&world, device.events, device.event_count, &base, &options, result->states, result);
    if (result->failed)
        crew_fail("%s: %s", text, result->text);
    device_close(&device);
    device_close(&base);
    crew_add(SEQUENCES, 1);
}

static void sequences_from(const struct shape *shape, uint32_t *sequence, uint32_t length,
                           uint32_t longest, uint32_t choices, struct enumerate_result *result)
{
    sequence_run(shape, sequence, length, result);
    for (uint32_t i = 0; i < choices && length < longest; i++) {
        sequence[length] = i;
        sequences_from(shape, sequence, length + 1, longest, choices, result);
    }
}

static void first_operation(uint64_t seed)
{
    const struct shape *shape = &shapes[(seed - 1) / OPERATIONS % SHAPES];
    uint32_t sequence[4] = { (uint32_t)((seed - 1) % OPERATIONS) };
    struct enumerate_result result = { .states = 0 };
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    crew_at(operations[sequence[0]].name, seed);
    sequences_from(shape, sequence, 1, crew_short() ? 2 : 3, OPERATIONS, &result);
    if (crew_long() && sequence[0] < 8)
        sequences_from(shape, sequence, 1, 4, 8, &result);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    crew_add(NANOSECONDS, (uint64_t)(end.tv_sec - start.tv_sec) * 1000000000 +
                          (uint64_t)end.tv_nsec - (uint64_t)start.tv_nsec);
    crew_add(STATES, result.states);
    crew_add(AGAIN, result.again_states);
    crew_add(DEEPER, result.second_states);
}

/* Aim: no crash state of any short sequence loses, mixes up or invents a transaction. */
static void every_short_sequence_survives_every_crash_state(void **state)
{
    (void)state;
    uint64_t jobs = crew_count(OPERATIONS * SHAPES, OPERATIONS * SHAPES);
    assert_true(crew_run(__func__, jobs, first_operation));
    printf("# %llu sequences, %llu crash states (%llu recovered twice, %llu after a second crash), "
           "%.0f a second and core\n", (unsigned long long)crew_sum(SEQUENCES),
           (unsigned long long)crew_sum(STATES), (unsigned long long)crew_sum(AGAIN),
           (unsigned long long)crew_sum(DEEPER),
           (double)crew_sum(STATES) * 1e9 / (double)crew_sum(NANOSECONDS));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_sequence_survives_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
