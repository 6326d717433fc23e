/*
 * test_writers.c - two and three transactions of one group that write the same page, each as a
 * difference from the version of the one before it (STORE_BASE_NEWEST), and every crash state.
 *
 * Method: a life of a few groups in which all write one page: whole images and differences mixed,
 * groups issued ahead, transactions that are cancelled in between, frees, checkpoints; every crash
 * state of it against the world's model. What lies in the log is looked at, too.
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
#include "stage.h"

enum { STATES, SECOND, IN_GROUP, AFTER_FULL };

static const enum store_encoder encoders[] = { STORE_ENCODER_DIFF, STORE_ENCODER_ADAPTIVE,
                                               STORE_ENCODER_RANGES };

/* The differences in the log whose base is in their own group; *full: those from a whole image. */
static uint64_t count_in_group(const struct event *event, uint64_t *full)
{
    struct record_walk walk = group_walk(event->data);
    uint64_t lsn = le64_get(((const struct group_disk *)event->data)->lsn), count = 0;
    const struct record_disk *record, *image = NULL, *last = NULL;
    while (record_next(&walk, &record) > 0) {
        enum record_type type = le16_get(record->type);
        if (type == RECORD_PAGE_DIFF && le64_get(record->base) >= lsn) {
            const struct record_disk *base =
                (const void *)(event->data + (le64_get(record->base) - lsn));
            if (le16_get(base->type) != RECORD_COMMIT || le32_get(record->crc))
                crew_fail("a difference's base is no commit of its group");
            *full += image && base == last;
            count++;
        }
        image = type == RECORD_PAGE_FULL ? record : type == RECORD_COMMIT ? image : NULL;
        last = type == RECORD_COMMIT ? record : last;
    }
    return count;
}

static int act(struct world *world, uint64_t *random)
{
    world->want = WANT_SAME_PAGE;
    int error = world_commit(world, 1 + (uint32_t)random_below(random, 3), random_below(random, 2));
    switch (random_below(random, 8)) {
    case 0:
        world->want = WANT_FREE;
        return error ? error : world_commit(world, 2, false);
    case 1:
        return error ? error : world_checkpoint(world);
    case 2:
        return error || world->checkpointing ? error : world_checkpoint_begin(world);
    case 3:
        return error ? error : world_checkpoint_some(world, 1);
    default:
        return error;
    }
}

static void life(uint64_t seed)
{
    static struct world world;
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 1,
        .second_odds = 200, .second_steps = 2, .random_subsets = 3, .states_max = UINT64_MAX };
    struct world_options shape = { .disk_bytes = 256 << 10, .log_bytes = 64 << 10,
        .extent_bytes = 4096u << seed % 3, .encoder = encoders[seed % 3], .newest = true,
        .ahead = true, .doomed = true, .watch = true, .checkpoint_odds = 4 };
    struct enumerate_result result = { .states = 0 };
    struct store_report found;
    struct device disk, base;
    uint64_t random = seed, full = 0;
    crew_at("life", seed);
    device_open(&disk, shape.disk_bytes);
    device_open(&base, shape.disk_bytes);
    device_record(&disk, true);
    int error = world_format(&world, &disk, seed, &shape);
    device_mark(&disk, 0, 0);
    error = error ? error : world_open(&world, &found);
    world.want = WANT_CREATE;
    error = error ? error : world_commit(&world, 1, false);
    for (int i = 0; i < 8 && !error; i++) {
        error = act(&world, &random);
        if (error == -EAGAIN)
            error = world_checkpoint(&world);
    }
    if (error)
        crew_fail("%s (error %d)", world.wrong ? world.wrong : "refused", error);
    world_abandon(&world);
    disk.recording = false;
    for (uint32_t i = 0; i < disk.event_count; i++)
        if (disk.events[i].kind == WRITE_ISSUE &&
            le64_get(((const struct group_disk *)disk.events[i].data)->magic) == GROUP_MAGIC)
            crew_add(IN_GROUP, count_in_group(&disk.events[i], &full));
    crew_add(AFTER_FULL, full);
    enumerate(&world, disk.events, disk.event_count, &base, &options, seed, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    device_close(&disk);
    device_close(&base);
}

/* Aim: no crash state of groups whose transactions write one page loses or mixes up one of them. */
static void writers_of_a_page_in_one_group_survive_every_crash_state(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(96), life));
    printf("# %llu differences from their own group, %llu of them from a whole image; %llu crash "
           "states, %llu after a second crash\n", (unsigned long long)crew_sum(IN_GROUP),
           (unsigned long long)crew_sum(AFTER_FULL), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || (crew_sum(IN_GROUP) > 100 && crew_sum(AFTER_FULL) > 10));
}

/* ---- single calls */

static int diff(struct store_group *group, uint64_t base, uint16_t at, const char *four)
{
    struct diff_run run = { at, 4 };
    return txn_diff(group, object, 0, base, &run, 1, four);
}

static void is_read(const uint8_t *wanted)
{
    uint8_t read[STORE_PAGE_BYTES];
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(store_page_read(store, object, 0, read), 0);
    assert_memory_equal(read, wanted, sizeof read);
}

/* Aim: what a cancelled writer said is nobody's base, and the one behind it has that before. */
static void the_base_of_one_behind_a_cancelled_writer(void **state)
{
    (void)state;
    uint8_t wanted[STORE_PAGE_BYTES];
    make(1 << 20, 64 << 10);
    memcpy(wanted, page_bytes, sizeof wanted);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 0, "none"), -ESTALE);   /* was never written */
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 0, page_bytes), 0);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 0, "same"), -EINVAL);   /* one transaction */
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 0, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 8, "abcd"), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 16, "gone"), 0);
    store_txn_cancel(group);
    store_txn_begin(group, 3);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 24, "efgh"), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 0, 1), 0);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 32, "free"), -ESTALE);
    store_txn_cancel(group);
    group_done(group);
    memcpy(wanted + 8, "abcd", 4);
    memcpy(wanted + 24, "efgh", 4);
    is_read(wanted);
    group = group_open();               /* what recovery wrote home is older than its checkpoint */
    store_txn_begin(group, 1);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 40, "old!"), -ESTALE);
    store_txn_cancel(group);
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_page(group, object, 0, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(diff(group, STORE_BASE_NEWEST, 48, "lost"), 0);
    assert_int_equal(txn_next(group), 0);
    store_group_cancel(group);
    group = group_open();               /* where "lost" was there is now a claim's record */
    store_txn_begin(group, 3);
    assert_int_equal(store_txn_page(group, object, 0, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 4, 2), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    is_read(page_bytes);
    unmake();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_of_one_behind_a_cancelled_writer),
        cmocka_unit_test(writers_of_a_page_in_one_group_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
