/*
 * test_forms.c - containers that differ in durability: durable, lazy, volatile, to be rebuilt; and
 * records that are packed.
 *
 * Method: random lives (life.h) in which each container has one of them, and some pack, cut
 * everywhere; and single cases: what an orderly end keeps, what is refused, what a record takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "life.h"
#include "stage.h"

#define STEPS 40u

enum { STATES, SECOND };

/* ---- lives */

static void life_survives(uint64_t seed)
{
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 2,
                                         .third_odds = 200, .second_steps = 3, .random_subsets = 3,
                                         .rot_flips = 8, .states_max = crew_long() ? 12000 : 3000,
                                         .second_odds = seed % 2 ? 40 : 200, .sector_bytes = 512 };
    struct enumerate_result result = { .states = 0 };
    crew_at("life", seed);
    life_run(LIFE_FORMS + seed, STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
}

/* Aim (UL1, UL2): what is logged survives every crash state, and nothing else is ever there. */
static void lives_of_each_durability_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(24);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

/* ---- single cases */

static struct store_group *group_begun(void)
{
    struct store_group *group = group_open();
    assert_int_equal(store_txn_begin(group, 1), 0);
    return group;
}

static void group_ended(struct store_group *group)
{
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

static int durability(struct store_group *group, uint64_t of, enum store_durability value)
{
    struct store_op o = { .type = STORE_OP_DURABILITY, .object = of, .durability = value };
    return store_txn_op(group, &o);
}

static void durability_set(enum store_durability value)
{
    struct store_group *group = group_begun();
    assert_int_equal(durability(group, object, value), 0);
    group_ended(group);
}

static void pages_written(uint64_t from, uint64_t to)
{
    struct store_group *group = group_begun();
    for (uint64_t p = from; p < to; p++)
        assert_int_equal(store_txn_written(group, object, p), 0);
    group_ended(group);
}

static uint64_t log_bytes(void)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats.log_bytes_written;
}

static struct store_container container(void)
{
    struct store_container c;
    assert_int_equal(store_container_get(store, object, &c), 0);
    return c;
}

/* Everything goes home and the store is closed and opened again. */
static void closed_and_opened(void)
{
    uint64_t cursor = 0, of, page, lsn, offset;
    while (store_dirty_next(store, &cursor, &of, &page, &lsn) == 0) {
        assert_int_equal(store_page_home(store, of, page, &offset), 0);
        assert_int_equal(io.write(io.context, offset, page_bytes, STORE_PAGE_BYTES), 0);
        assert_int_equal(store_page_cleaned(store, of, page, lsn,
                                            crc32c(0, page_bytes, STORE_PAGE_BYTES)), 0);
    }
    assert_int_equal(store_close(store), 0);
    store = NULL;
    assert_int_equal(open_with(0), 0);
}

/* Aim (UL2): pages begin or end to be logged only in a container that has none. */
static void a_container_with_pages_stays_in_the_log_or_out_of_it(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    struct store_group *group = group_begun();
    assert_int_equal(store_txn_written(group, object, 0), -EINVAL);
    assert_int_equal(txn_next(group), -EINVAL);
    assert_int_equal(durability(group, object, STORE_DURABILITY_LOST), -EINVAL);
    assert_int_equal(txn_next(group), -EINVAL);
    assert_int_equal(durability(group, object, STORE_DURABILITY_VOLATILE), 0);
    assert_int_equal(store_txn_durability(group, object), STORE_DURABILITY_VOLATILE);
    assert_int_equal(store_txn_written(group, object, 0), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(durability(group, object, STORE_DURABILITY_LAZY), -ENOTEMPTY);
    assert_int_equal(txn_next(group), -ENOTEMPTY);
    group_ended(group);
    group = group_begun();
    assert_int_equal(durability(group, object, STORE_DURABILITY_FULL), -ENOTEMPTY);
    assert_int_equal(txn_next(group), -ENOTEMPTY);
    assert_int_equal(durability(group, object, STORE_DURABILITY_REBUILD), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 0, 8), 0);
    group_ended(group);
    durability_set(STORE_DURABILITY_FULL);
    commit_pages(0, 1);
    group = group_begun();
    assert_int_equal(durability(group, object, STORE_DURABILITY_VOLATILE), -ENOTEMPTY);
    assert_int_equal(txn_next(group), -ENOTEMPTY);
    group_ended(group);
    unmake();
}

/* Aim: a hundred pages that are written cost the log one block. */
static void written_pages_cost_the_log_next_to_nothing(void **state)
{
    (void)state;
    make(2 << 20, 64 << 10);
    durability_set(STORE_DURABILITY_VOLATILE);
    uint64_t before = log_bytes();
    pages_written(0, 100);
    assert_int_equal(log_bytes() - before, STORE_PAGE_BYTES);
    assert_int_equal(container().pages_present, 100);
    unmake();
}

/* Aim (UL1, UL3): what each start finds. */
static void an_orderly_end_keeps_what_is_to_be_rebuilt(void **state)
{
    (void)state;
    struct store_page page;
    make(1 << 20, 64 << 10);
    durability_set(STORE_DURABILITY_REBUILD);
    pages_written(0, 5);
    closed_and_opened();
    assert_int_equal(container().durability, STORE_DURABILITY_REBUILD);
    assert_int_equal(container().pages_present, 5);
    uint8_t bytes[STORE_PAGE_BYTES];
    assert_int_equal(store_page_read(store, object, 4, bytes), 0);
    assert_memory_equal(bytes, page_bytes, sizeof bytes);
    pages_written(2, 3);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_true(report.lost);
    assert_int_equal(container().durability, STORE_DURABILITY_LOST);
    assert_int_equal(container().pages_present, 0);
    durability_set(STORE_DURABILITY_VOLATILE);
    pages_written(0, 5);
    closed_and_opened();
    assert_true(report.lost);
    assert_int_equal(store_page_find(store, object, 4, &page), 0);
    assert_false(page.present);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_false(report.lost);
    unmake();
}

/* What a page of the bytes takes in the log, packed or not; a restart must find the bytes. */
static uint64_t page_logged(const uint8_t *bytes, bool pack, bool diff)
{
    uint8_t found[STORE_PAGE_BYTES];
    struct store_group *group = group_begun();
    if (diff) {
        assert_int_equal(store_txn_page(group, object, 0, page_bytes), 0);
        assert_int_equal(txn_next(group), 0);
    }
    size_t before = group->used;
    if (diff) {
        void *runs;
        assert_int_equal(store_txn_diff_space(group, 4 + 4000, &runs), 0);
        memcpy(runs, (const uint8_t[]){ 0, 0, 4000 & 255, 4000 >> 8 }, 4);
        memcpy((uint8_t *)runs + 4, bytes, 4000);
        assert_int_equal(store_txn_diff_done(group, object, 0, STORE_BASE_NEWEST, 4004), 0);
    } else
        assert_int_equal(store_txn_page(group, object, 0, bytes), 0);
    if (pack)
        assert_int_equal(store_txn_pack(group), 0);
    size_t used = group->used - before;
    group_ended(group);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(store_page_read(store, object, 0, found), 0);
    assert_memory_equal(found, bytes, diff ? 4000 : sizeof found);
    return used;
}

/* Aim: packed records take less, and recovery makes the same bytes of them. */
static void packed_records_take_less_and_come_back(void **state)
{
    (void)state;
    uint8_t text[STORE_PAGE_BYTES], noise[STORE_PAGE_BYTES];
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)("a synonym of "[i % 13] + (i % 97 == 0));
        noise[i] = (uint8_t)random_next(&random);
    }
    make(1 << 20, 256 << 10);
    for (int diff = 0; diff < 2; diff++) {
        uint64_t plain = page_logged(text, false, diff);
        assert_true(page_logged(text, true, diff) * 3 < plain);
        assert_int_equal(page_logged(noise, true, diff), page_logged(noise, false, diff));
    }
    unmake();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_container_with_pages_stays_in_the_log_or_out_of_it),
        cmocka_unit_test(written_pages_cost_the_log_next_to_nothing),
        cmocka_unit_test(an_orderly_end_keeps_what_is_to_be_rebuilt),
        cmocka_unit_test(packed_records_take_less_and_come_back),
        cmocka_unit_test(lives_of_each_durability_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
