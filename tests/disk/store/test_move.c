/*
 * test_move.c - an extent that gets another place on the disk.
 *
 * Aim     its pages are the same ones there, before and after a power cut; the old place is given
 *         away no earlier than any that was freed; what cannot be moved changes nothing. (Crash
 *         states of moves: every fourth life of test_crash.)
 */
#include "stage.h"
#include "tools/kcheck/kcheck.h"

#include <stdlib.h>

#define N 4u                                    /* pages of an extent */

static uint8_t bytes[N][STORE_PAGE_BYTES];
static const void *all[N];

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        memset(bytes[i], (int)i + 1, sizeof bytes[i]);
        all[i] = bytes[i];
    }
    make(1 << 20, 128 << 10);
    commit_pages(0, 6);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    abandon();
    return 0;
}

static uint64_t place(uint64_t page)
{
    struct store_page found;
    assert_int_equal(store_page_find(store, object, page, &found), 0);
    return found.offset_bytes;
}

static struct store_stats stats_now(void)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats;
}

static void sound_require(void)
{
    struct kcheck_io disk = { &device, device.bytes, io.read };
    struct kcheck_result own;
    assert_int_equal(kcheck_image(&disk, NULL, &own), KCHECK_SOUND);
    assert_int_equal(own.damages + own.warnings, 0);
}

static void pages_require(uint64_t first, const uint8_t *fill)
{
    uint8_t page[STORE_PAGE_BYTES];
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(store_page_read(store, object, first + i, page), 0);
        assert_true(page[0] == fill[i] && page[STORE_PAGE_BYTES - 1] == fill[i]);
    }
}

static void reopen(void)
{
    store_abandon(store);
    store = NULL;
    sound_require();
    assert_int_equal(open_with(0), 0);
}

static void move_now(void)
{
    uint32_t position;
    struct store_group *group = group_open();
    assert_int_equal(store_txn_begin(group, 1), 0);
    assert_int_equal(store_txn_move(group, object, 0, all), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

static void an_extent_gets_another_place(void **state)
{
    (void)state;
    uint64_t before = place(0), other = place(4);
    move_now();
    uint64_t now = place(0);
    assert_true(now != before && place(3) == now + 3 * STORE_PAGE_BYTES && place(4) == other);
    assert_int_equal(stats_now().freed_extents, 1);
    assert_int_equal(stats_now().pages_present, 6);
    reopen();                                   /* from the log */
    assert_int_equal(place(0), now);
    pages_require(0, (const uint8_t[]){ 1, 2, 3, 4 });
    reopen();                                   /* from home */
    pages_require(0, (const uint8_t[]){ 1, 2, 3, 4 });
    checkpoint();
    assert_int_equal(stats_now().freed_extents, 0);
}

/* The next groups follow it to its new place, and may move it once more, before it is there. */
static void groups_that_are_under_way_follow(void **state)
{
    (void)state;
    uint32_t position;
    struct store_group *first = group_open();
    assert_int_equal(store_txn_begin(first, 1), 0);
    assert_int_equal(store_txn_move(first, object, 0, all), 0);
    assert_int_equal(txn_next(first), 0);
    assert_int_equal(store_txn_page(first, object, 1, bytes[3]), 0);
    assert_int_equal(store_txn_end(first, &position), 0);
    assert_int_equal(store_group_seal(first), 0);
    struct store_group *second = group_open();
    assert_int_equal(store_txn_begin(second, 1), 0);
    assert_int_equal(store_txn_page(second, object, 2, bytes[0]), 0);
    assert_int_equal(txn_next(second), 0);
    all[1] = bytes[3];
    all[2] = bytes[0];
    assert_int_equal(store_txn_move(second, object, 0, all), 0);
    assert_int_equal(store_txn_end(second, &position), 0);
    assert_int_equal(store_group_write(first), 0);
    assert_int_equal(store_group_apply(first), 0);
    uint64_t once = place(0);
    group_done(second);
    assert_true(place(0) != once);
    assert_int_equal(stats_now().freed_extents, 2);
    reopen();
    pages_require(0, (const uint8_t[]){ 1, 4, 1, 4 });
}

static void what_cannot_be_moved_is_refused(void **state)
{
    (void)state;
    const void *few[N] = { bytes[0], bytes[1], NULL, bytes[3] };
    uint64_t before = place(0);
    struct store_group *group = group_open();
    assert_int_equal(store_txn_begin(group, 1), 0);
    assert_int_equal(store_txn_move(group, object, 1, all), -EINVAL);
    assert_int_equal(txn_next(group), -EINVAL);
    assert_int_equal(store_txn_move(group, object, 0, few), -EINVAL);
    assert_int_equal(txn_next(group), -EINVAL);
    assert_int_equal(store_txn_move(group, object, 8, all), -ENOENT);
    assert_int_equal(txn_next(group), -ENOENT);
    assert_int_equal(store_txn_move(group, object + 1, 0, all), -ENOENT);
    assert_int_equal(txn_next(group), -ENOENT);
    assert_int_equal(store_txn_page(group, object, 2, bytes[0]), 0);
    assert_int_equal(store_txn_move(group, object, 0, all), -EINVAL);
    assert_int_equal(txn_next(group), -EINVAL);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 0, 4), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(store_txn_move(group, object, 0, all), -ENOENT);       /* it will be gone */
    assert_int_equal(txn_next(group), -ENOENT);
    store_group_cancel(group);
    assert_int_equal(stats_now().claimed_extents, 0);
    assert_int_equal(place(0), before);
    move_now();
}

/* What is saved is from before the move, which the log makes again. */
static void a_checkpoint_that_began_before_does_not_have_it(void **state)
{
    (void)state;
    checkpoint();
    assert_int_equal(store_checkpoint_begin(store), 0);
    move_now();
    uint64_t now = place(0);
    seal();
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
    reopen();
    assert_int_equal(place(0), now);
    pages_require(0, (const uint8_t[]){ 1, 2, 3, 4 });
}

/* Pages that were never written stay so; a page that is freed behind the move stays free. */
static void claims_and_frees_go_with_it(void **state)
{
    (void)state;
    struct store_page found;
    uint32_t position;
    struct store_group *group = group_open();
    assert_int_equal(store_txn_begin(group, 1), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 8, 2), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(store_txn_move(group, object, 8, all), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(store_txn_move(group, object, 0, all), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 1, 1), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    for (int again = 0; again < 2; again++, reopen()) {
        assert_int_equal(store_page_find(store, object, 9, &found), 0);
        assert_true(found.claimed && !found.present);
        assert_int_equal(store_page_find(store, object, 1, &found), 0);
        assert_true(!found.claimed && !found.present);
        assert_int_equal(stats_now().pages_present, 5);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_extent_gets_another_place),
        TEST(groups_that_are_under_way_follow),
        TEST(what_cannot_be_moved_is_refused),
        TEST(a_checkpoint_that_began_before_does_not_have_it),
        TEST(claims_and_frees_go_with_it),
    };
    return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
