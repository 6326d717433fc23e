/*
 * test_forms.c - containers that differ in durability: durable, lazy, volatile, to be rebuilt; and
 * records that are packed, or of operations.
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
#include "opinion.h"
#include "stage.h"
#include "tools/kcheck/view.h"

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

/* ---- what the log does not change again */

/* The first extent from `index` on that is in a bucket of the table as it is now. */
static uint64_t index_in(uint64_t of, uint64_t index, uint32_t bucket)
{
    while (hash_bucket(store, of, index) != bucket)
        index++;
    return index;
}

static void extent_written(uint64_t index)
{
    commit_pages(index * store->extent_pages, index * store->extent_pages + 1);
}

/* Two buckets, of which one more leaf makes three: all of container "c" but one, of a container
 * that is volatile. It is in bucket 1, and so will the next one be: bucket 0 is divided. */
static uint64_t table_filled(void)
{
    uint64_t index = 0;
    make(4 << 20, 1 << 20);
    uint64_t durable = object;
    struct store_group *group = group_begun();
    assert_int_equal(create(group, "volatile", 0, 0, &object), 0);
    assert_int_equal(durability(group, object, STORE_DURABILITY_VOLATILE), 0);
    group_ended(group);
    uint64_t volatile_one = object, full = 2ull * store->leaves_per_page * 3 / 4;
    object = durable;
    while (store->kept.leaves + 1 < full)
        extent_written(index++);
    assert_int_equal(hash_buckets(store), 2);
    uint64_t page = index_in(volatile_one, 0, 1) * store->extent_pages;
    object = volatile_one;
    pages_written(page, page + 1);
    object = durable;
    return index_in(durable, index, 1);
}

/* Aim (UL1): a start forgets leaves, so the log divides no more a bucket that it had divided. What
 * a checkpoint that was cut off wrote of that bucket is written again: both areas are whole. */
static void an_area_is_whole_after_a_cut_in_a_checkpoint(void **state)
{
    (void)state;
    uint64_t next = table_filled();
    checkpoint();
    checkpoint();
    extent_written(next);
    assert_int_equal(hash_buckets(store), 3);
    assert_int_equal(store_checkpoint_begin(store), 0);
    all_home();
    store->step_pages = 1;
    seal();
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(hash_buckets(store), 2);
    assert_int_equal(report.lost, 1);
    store_abandon(store);
    struct kcheck_result own;
    char said[OPINION_BYTES];
    opinion_ask(&device, &own, said);
    assert_int_equal(own.damages + own.warnings, 0);
    assert_int_equal(open_with(0), 0);
    assert_false(report.older_checkpoint);
    unmake();
}

/* ---- records that are packed */

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

/* ---- operations */

/* The page `before`, then a commit that makes `now` of it, told by one run: what that takes in the
 * log as operations. A restart must find the bytes, and so must kcheck. */
static uint64_t operated(const uint8_t *before, const uint8_t *now, uint32_t from, uint32_t to,
                         enum record_type *type)
{
    uint8_t found[STORE_PAGE_BYTES];
    struct kcheck_result own;
    char said[OPINION_BYTES];
    struct diff_run run = { (uint16_t)from, (uint16_t)(to - from) };
    struct store_group *group = group_begun();
    assert_int_equal(store_txn_page(group, object, 0, before), 0);
    assert_int_equal(txn_next(group), 0);
    size_t used = group->used;
    assert_int_equal(txn_diff(group, object, 0, STORE_BASE_NEWEST, &run, 1, now + from), 0);
    int became = store_txn_operate(group, before);
    *type = le16_get(record_last(group)->type);
    assert_int_equal(became, *type == RECORD_PAGE_OP);
    used = group->used - used;
    group_ended(group);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(store_page_read(store, object, 0, found), 0);
    assert_memory_equal(found, now, sizeof found);
    store_abandon(store);                   /* and kcheck says that it is sound */
    opinion_ask(&device, &own, said);
    assert_int_equal(own.damages, 0);
    assert_int_equal(open_with(0), 0);
    return used;
}

/* Aim (FN1): an element goes into a sorted array, two go out of it, a part becomes zeros: the log
 * has what was done, not what moved; and recovery makes the same bytes of it. */
static void operations_take_less_and_come_back(void **state)
{
    (void)state;
    enum { AT = 1600, TO = 3600, WIDE = 24 };
    uint8_t before[STORE_PAGE_BYTES], now[STORE_PAGE_BYTES];
    enum record_type type;
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof before; i++)
        before[i] = (uint8_t)random_next(&random);
    make(1 << 20, 256 << 10);
    memcpy(now, before, sizeof now);
    memmove(now + AT + WIDE, before + AT, TO - AT - WIDE);
    memset(now + AT, 0x5a, 4);
    uint64_t put = operated(before, now, AT, TO, &type);
    assert_int_equal(type, RECORD_PAGE_OP);
    memcpy(now, before, sizeof now);
    memmove(now + AT, before + AT + WIDE, TO - AT - WIDE);
    memmove(now + AT + 400, before + AT + 400 + 3 * WIDE, TO - AT - 400 - 3 * WIDE);
    uint64_t taken = operated(before, now, AT, TO, &type);
    assert_int_equal(type, RECORD_PAGE_OP);
    memcpy(now, before, sizeof now);
    memset(now + AT, 0, TO - AT);
    uint64_t zeros = operated(before, now, AT, TO, &type);
    printf("# of 2,000 bytes: %llu for one put in, %llu for two taken out, %llu for zeros\n",
           (unsigned long long)put, (unsigned long long)taken, (unsigned long long)zeros);
    assert_true(put < 48 + 48 && taken < 48 + 160 && zeros <= 48 + 8);
    for (size_t i = AT; i < TO; i++)
        now[i] = (uint8_t)random_next(&random);
    assert_int_equal(operated(before, now, AT, TO, &type), record_room(4 + TO - AT));
    assert_int_equal(type, RECORD_PAGE_DIFF);
    unmake();
}

/* Some change of a page: bytes that move, in one direction or the other, or are filled, or new. */
static void change(uint8_t *page, uint64_t *random)
{
    uint32_t n = 1 + (uint32_t)random_below(random, 600), most = STORE_PAGE_BYTES - n;
    uint32_t at = (uint32_t)random_below(random, most), far = (uint32_t)random_below(random, 200);
    switch (random_below(random, 4)) {
    case 0: memmove(page + MIN(at + far, most), page + at, n); break;
    case 1: memmove(page + (at > far ? at - far : 0), page + at, n); break;
    case 2: memset(page + at, (int)random_below(random, 3), n); break;
    default:
        for (uint32_t i = at; i < at + n % 30; i++)
            page[i] = (uint8_t)random_next(random);
    }
}

/* Aim (FN2): whatever was done, the record makes the same of the page; to kcheck, too. */
static void any_change_is_made_again(void **state)
{
    (void)state;
    static uint8_t before[STORE_PAGE_BYTES], now[STORE_PAGE_BYTES], own[STORE_PAGE_BYTES];
    static struct { struct record_disk record; uint8_t runs[2 * STORE_PAGE_BYTES]; } made;
    uint64_t random = 11, smaller = 0, left = 0;
    make(1 << 20, 256 << 10);
    for (uint32_t i = 0; i < 3000; i++) {
        for (size_t k = 0; k < sizeof before; k++)
            before[k] = (uint8_t)(random_next(&random) % (i % 3 ? 256 : 3));
        memcpy(now, before, sizeof now);
        for (uint64_t n = 1 + random_below(&random, 4); n--;)
            change(now, &random);
        struct store_group *group = group_begun();
        struct diff_run run = { 0, STORE_PAGE_BYTES };
        assert_int_equal(txn_diff(group, object, 0, 0, &run, 1, now), 0);
        assert_true(store_txn_operate(group, before) >= 0);
        const struct record_disk *record = record_last(group);
        memcpy(&made, record, le32_get(record->length));
        store_group_cancel(group);
        smaller += le16_get(made.record.type) == RECORD_PAGE_OP;
        left += le16_get(made.record.type) == RECORD_PAGE_DIFF;
        if (le16_get(made.record.type) != RECORD_PAGE_OP)
            continue;
        assert_true(record_page_valid(&made.record) &&
                    le32_get(made.record.data_bytes) < STORE_PAGE_BYTES);
        memcpy(own, before, sizeof own);
        koperate(own, made.runs, le32_get(made.record.data_bytes));
        assert_memory_equal(own, now, sizeof now);
        made.record.base = le64_of(1);
        record_page(&made.record, before);
        assert_memory_equal(before, now, sizeof now);
    }
    printf("# %llu changes as operations, %llu as they were\n", (unsigned long long)smaller,
           (unsigned long long)left);
    assert_true(smaller > 2000);
    unmake();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_take_less_and_come_back),
        cmocka_unit_test(any_change_is_made_again),
        cmocka_unit_test(a_container_with_pages_stays_in_the_log_or_out_of_it),
        cmocka_unit_test(written_pages_cost_the_log_next_to_nothing),
        cmocka_unit_test(an_orderly_end_keeps_what_is_to_be_rebuilt),
        cmocka_unit_test(an_area_is_whole_after_a_cut_in_a_checkpoint),
        cmocka_unit_test(packed_records_take_less_and_come_back),
        cmocka_unit_test(lives_of_each_durability_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
