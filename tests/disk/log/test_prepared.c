/*
 * test_prepared.c - transactions of several stores: prepared, decided, undone, written again; what
 * a restart makes of each. (Many starts: test_prepared_starts.c; damage, hostile records, power
 * cuts: test_prepared_crash.c.)
 */
#include "crew.h"
#include "prepared_rig.h"

/* Aim (TP1): a vote outlives restarts, checkpoints and a close; its commit is there as a whole. */
static void what_is_prepared_stays_until_it_is_decided(void **state)
{
    (void)state;
    struct bench b;
    struct store_doubt d;
    struct store_txn_id id = txn_id(1);
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(prepare(&b, 1, 0, 6), 0);
    page_is(&b, 3, 0);
    for (int i = 0; i < 3; i++) {
        kcheck_agrees(&b);
        bench_reopen(&b);
        assert_int_equal(b.report.doubts, 1);
        assert_int_equal(store_doubt_find(b.store, &id, &d), 0);
        assert_true(d.prepared && d.pages == 6 && d.coordinator[0] == 5 && d.bytes == 10);
        assert_memory_equal(d.data, "operations", 10);
        page_is(&b, 3, 0);
        if (i)
            bench_checkpoint(&b);
    }
    bench_clean(&b);
    assert_int_equal(store_close(b.store), 0);
    b.store = NULL;
    kcheck_agrees(&b);
    bench_reopen(&b);
    assert_true(b.report.was_clean);
    assert_int_equal(b.report.doubts, 1);
    assert_int_equal(decide(&b, 1), 0);
    assert_int_equal(in_doubt(&b, true), 0);
    for (int i = 0; i < 2; i++) {
        for (uint64_t page = 0; page < 6; page++)
            page_is(&b, page, 100 + page);
        bench_reopen(&b);
        assert_int_equal(b.report.doubts, 0);
        kcheck_agrees(&b);
    }
    bench_close(&b);
}

static void what_is_undone_leaves_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct store_stats before, after;
    bench_open(&b, 4 << 20, 1 << 20);
    store_stats(b.store, &before);
    assert_int_equal(prepare(&b, 1, 0, 6), 0);
    assert_int_equal(prepare(&b, 2, 8, 9), 0);
    bench_reopen(&b);
    assert_int_equal(bench_alone(&b, 1, store_undo), 0);
    assert_int_equal(bench_alone(&b, 1, store_undo), -ENOENT);
    assert_int_equal(decide(&b, 2), 0);
    bench_reopen(&b);
    assert_int_equal(b.report.doubts, 0);
    page_is(&b, 0, 0);
    page_is(&b, 8, 108);
    store_stats(b.store, &after);
    assert_int_equal(after.free_extents, before.free_extents - 1);
    assert_int_equal(after.chains, 0);
    bench_close(&b);
}

/* Aim (TP1): a decision is kept, with its participants, until it is forgotten. */
static void decisions_are_kept_until_they_are_forgotten(void **state)
{
    (void)state;
    struct bench b;
    struct store_doubt d;
    struct store_txn_id id = txn_id(4);
    struct store_participant to[2] = { { { 1 }, 10 }, { { 2 }, 20 } };
    uint32_t position;
    bench_open(&b, 4 << 20, 256 << 10);
    struct store_group *group = bench_group(&b);
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_decided(group, &id, to, 2), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(decide(&b, 4), -EEXIST);
    assert_int_equal(bench_alone(&b, 4, store_undo), -ENOENT);
    for (int i = 0; i < 200; i++) {             /* the log goes round several times */
        if (store_doubts_due(b.store)) {
            group = bench_group(&b);
            assert_int_equal(store_doubts_renew(group), 0);
            group_done(group);
        }
        assert_int_equal(write_page(&b, 0, 7), 0);
        if (store_should_checkpoint(b.store))
            bench_checkpoint(&b);
        if (i % 50 == 49) {
            kcheck_agrees(&b);
            bench_reopen(&b);
        }
    }
    assert_int_equal(store_doubt_find(b.store, &id, &d), 0);
    assert_true(!d.prepared && d.participants == 2);
    assert_int_equal(store_doubt_participant(&d, 1).store[0], 2);
    assert_int_equal(store_doubt_participant(&d, 1).number, 20);
    assert_int_equal(bench_alone(&b, 4, store_forget), 0);
    bench_reopen(&b);
    assert_int_equal(store_doubt_find(b.store, &id, &d), -ENOENT);
    bench_close(&b);
}

/* One group of `count` pages, behind those of votes. */
static int write_pages(struct bench *b, uint64_t count, uint64_t value)
{
    struct store_group *group = bench_group(b);
    uint8_t bytes[4096];
    uint32_t position;
    int error = 0;
    value_fill(bytes, value);
    store_txn_begin(group, 3);
    for (uint64_t i = 0; i < count && !error; i++)
        error = store_txn_page(group, b->object, 40 + i, bytes);
    int end = store_txn_end(group, &position);
    assert_int_equal(error ? error : end, end);
    if (end)
        store_group_cancel(group);
    else
        group_done(group);
    return end;
}

/* What a manager does of which a group found no room. */
static void make_room(struct bench *b)
{
    bench_checkpoint(b);
    for (int more = 1; more == 1 && store_doubts_due(b->store);) {
        struct store_group *group = bench_group(b);
        more = store_doubts_renew(group);
        if (more < 0)
            store_group_cancel(group);
        else
            group_done(group);
    }
}

/* Aim (TP2): whatever the groups' sizes are, and whether or not votes are written again between
 * them, the log is never full of a vote for good. */
static void groups_leave_room_for_what_is_written_again(void **state)
{
    (void)state;
    for (uint64_t k = 2; k < 32; k++) {
        uint64_t pages = k / 2;
        struct bench b;
        bench_open(&b, 4 << 20, 128 << 10);
        assert_int_equal(prepare(&b, 1, 0, 2), 0);
        for (int i = 0; i < 40; i++) {
            if (k % 2)
                make_room(&b);
            int error = write_pages(&b, pages, 7), tries = 0;
            for (; error == -EAGAIN && tries < 12; tries++) {
                make_room(&b);
                error = write_pages(&b, pages, 7);
            }
            if (error)
                fail_msg("case %llu, group %d: %d", (unsigned long long)k, i, error);
            if (i % 16 == 15)
                bench_reopen(&b);
        }
        for (int i = 0; i < 3; i++)
            make_room(&b);
        assert_int_equal(decide(&b, 1), 0);
        page_is(&b, 1, 101);
        bench_close(&b);
    }
}

/* Aim (TP2): the log goes round many times; images and record are written again, and the log is
 * never full of them. */
static void votes_are_written_again_as_the_log_goes_on(void **state)
{
    (void)state;
    struct bench b;
    struct store_stats stats;
    uint64_t renewed = 0;
    bench_open(&b, 4 << 20, 512 << 10);
    assert_int_equal(prepare(&b, 1, 20, 24), 0);
    assert_int_equal(prepare(&b, 2, 30, 33), 0);
    for (int i = 0; i < 300; i++) {
        renewed += bench_renew(&b);
        assert_true(store_page_prepared(b.store, b.object, 23));
        assert_int_equal(write_page(&b, 0, 7), 0);
        if (store_should_checkpoint(b.store))
            bench_checkpoint(&b);
        if (i % 60 == 59) {
            kcheck_agrees(&b);
            bench_reopen(&b);
            assert_int_equal(b.report.doubts, 2);
        }
    }
    assert_true(renewed > 10);
    assert_int_equal(decide(&b, 2), 0);
    assert_int_equal(decide(&b, 1), 0);
    bench_reopen(&b);
    page_is(&b, 23, 123);
    page_is(&b, 32, 132);
    store_stats(b.store, &stats);
    assert_int_equal(stats.prepared, 0);
    bench_close(&b);
}

/* Aim (TP2): a vote's images begin before its record's group. It is over, and another hold begins
 * between the two, so the scan meets its record and not what it counts: that is no damage. */
static void the_record_of_a_vote_that_is_over_is_passed_over(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {       /* the other is a vote, or a chain; committed, undone */
        struct bench b;
        struct store_chain *chain, *other = NULL;
        bench_open(&b, 4 << 20, 1 << 20);
        assert_int_equal(store_chain_begin(b.store, 2, &chain), 0);
        struct store_group *group = bench_group(&b);
        assert_int_equal(bench_spill(&b, group, chain, 0, 100), 0);
        group_done(group);
        group = bench_group(&b);
        if (i % 2 == 0) {
            assert_int_equal(prepare_in(&b, group, 2, 8, 9, &other), 0);
        } else {
            assert_int_equal(store_chain_begin(b.store, 2, &other), 0);
            assert_int_equal(bench_spill(&b, group, other, 8, 108), 0);
        }
        assert_int_equal(prepare_in(&b, group, 1, 1, 3, &chain), 0);
        group_done(group);
        assert_int_equal(i < 2 ? decide(&b, 1) : bench_alone(&b, 1, store_undo), 0);
        bench_checkpoint(&b);
        kcheck_agrees(&b);
        bench_reopen(&b);
        assert_int_equal(b.report.doubts, i % 2 == 0);
        for (uint64_t page = 0; page < 3; page++)
            page_is(&b, page, i < 2 ? 100 + page : 0);
        if (i % 2 == 0)
            assert_int_equal(decide(&b, 2), 0);
        kcheck_agrees(&b);
        bench_reopen(&b);
        page_is(&b, 8, i % 2 == 0 ? 108 : 0);
        bench_close(&b);
    }
}

/* Aim (TP2): a chain that begins long before its record is whole after a restart, and stays so. */
static void a_vote_of_several_groups_keeps_its_first(void **state)
{
    (void)state;
    struct bench b;
    struct store_chain *chain;
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(b.store, 2, &chain), 0);
    for (uint64_t page = 0; page < 3; page++) {
        struct store_group *group = bench_group(&b);
        assert_int_equal(bench_spill(&b, group, chain, page, 100 + page), 0);
        group_done(group);
        assert_int_equal(write_page(&b, 9, 7), 0);
    }
    struct store_group *group = bench_group(&b);
    assert_int_equal(prepare_in(&b, group, 1, 3, 5, &chain), 0);
    group_done(group);
    for (int i = 0; i < 100; i++) {
        bench_renew(&b);
        assert_int_equal(write_page(&b, 9, 7), 0);
        if (store_should_checkpoint(b.store) || i % 10 == 0)
            bench_checkpoint(&b);
        if (i % 10 == 1)
            bench_reopen(&b);
        kcheck_agrees(&b);
    }
    assert_int_equal(decide(&b, 1), 0);
    bench_reopen(&b);
    for (uint64_t page = 0; page < 5; page++)
        page_is(&b, page, 100 + page);
    bench_close(&b);
}

/* Aim (TP3): a disk that others have filled has room for what has voted yes, and for it alone. */
static void the_commit_of_a_vote_has_its_room(void **state)
{
    (void)state;
    struct bench b;
    uint64_t page = 100;
    int error = 0;
    bench_open(&b, 2 << 20, 512 << 10);
    assert_int_equal(prepare(&b, 1, 0, 4), 0);
    assert_int_equal(prepare(&b, 2, 40, 41), 0);
    bench_reopen(&b);
    while (!error) {
        bench_renew(&b);
        error = write_page(&b, page, 7);
        page += !error ? 4 : 0;
        if (error == -EAGAIN) {
            bench_checkpoint(&b);
            error = 0;
        }
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(prepare(&b, 3, 80, 81), -ENOSPC);
    bench_checkpoint(&b);
    bench_checkpoint(&b);
    assert_int_equal(write_page(&b, page, 7), -ENOSPC);
    bench_reopen(&b);
    assert_int_equal(write_page(&b, page, 7), -ENOSPC);
    assert_int_equal(decide(&b, 1), 0);
    assert_int_equal(write_page(&b, page, 7), -ENOSPC);
    assert_int_equal(bench_alone(&b, 2, store_undo), 0);
    assert_int_equal(write_page(&b, page, 7), 0);
    page_is(&b, 3, 103);
    bench_close(&b);
}

static int claim(struct bench *b, uint8_t number, const struct store_op *ops, uint32_t count)
{
    struct store_txn_id id = txn_id(number);
    return store_doubt_claims(b->store, &id, ops, count);
}

/* Aim (TP3, TP4): pages that a vote claims are nobody else's, and have their extents. */
static void what_a_vote_claims_is_promised(void **state)
{
    (void)state;
    struct bench b;
    struct store_page at;
    struct store_txn_id id = txn_id(1);
    uint64_t first;
    uint32_t position;
    int error = 0;
    bench_open(&b, 2 << 20, 512 << 10);
    struct store_op claims[] = {                /* 13 extents, two of which have images */
        { .type = STORE_OP_PAGE_CLAIM, .object = b.object, .page = 200, .count = 40 },
        { .type = STORE_OP_PAGE_CLAIM, .object = b.object, .page = 3, .count = 6 },
        { .type = STORE_OP_PAGE_CLAIM, .object = b.object, .page = 210, .count = 2 },
    };
    assert_int_equal(claim(&b, 1, claims, 3), -ENOENT);
    assert_int_equal(prepare(&b, 1, 0, 8), 0);
    for (int i = 0; i < 2; i++) {
        struct store_op free = { .type = STORE_OP_PAGE_FREE, .object = b.object, .page = 190,
                                 .count = 11 };
        assert_int_equal(claim(&b, 1, claims, 3), 0);
        assert_int_equal(claim(&b, 1, claims, 3), -ENOENT);
        for (uint64_t page = 200; page < 240; page++)
            assert_true(store_page_prepared(b.store, b.object, page));
        assert_true(store_page_prepared(b.store, b.object, 8));
        assert_false(store_page_prepared(b.store, b.object, 9));
        assert_false(store_page_prepared(b.store, b.object, 240));
        assert_int_equal(write_page(&b, 220, 7), -EBUSY);
        assert_int_equal(bench_op(&b, &free), -EBUSY);
        assert_int_equal(store_pages_unused(b.store, b.object, 190, 11, NULL, NULL, &first), 0);
        assert_int_equal(first, 240);
        assert_int_equal(store_pages_unused(b.store, b.object, 5, 4, NULL, NULL, &first), 0);
        assert_int_equal(first, 9);
        if (!i)
            bench_reopen(&b);
    }
    for (uint64_t page = 300; !error; page += !error ? 4 : 0) {
        bench_renew(&b);
        error = write_page(&b, page, 7);
        if (error == -EAGAIN) {
            bench_checkpoint(&b);
            error = 0;
        }
    }
    assert_int_equal(error, -ENOSPC);
    bench_checkpoint(&b);
    bench_checkpoint(&b);
    struct store_group *group = bench_group(&b);
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_decided(group, &id, NULL, 0), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_txn_op(group, &claims[i]), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store_page_find(b.store, b.object, 239, &at), 0);
    assert_true(at.claimed && !at.present);
    kcheck_agrees(&b);
    bench_reopen(&b);
    page_is(&b, 7, 107);
    bench_close(&b);
}

/* Aim (TP4): nobody else gets a page that has voted, before and after a restart. */
static void pages_of_a_vote_are_left_alone(void **state)
{
    (void)state;
    struct bench b;
    uint64_t first;
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(write_page(&b, 5, 7), 0);
    assert_int_equal(prepare(&b, 1, 2, 7), 0);
    for (int i = 0; i < 2; i++) {
        struct store_op free = { .type = STORE_OP_PAGE_FREE, .object = b.object, .page = 4,
                                 .count = 9 };
        struct store_op delete = { .type = STORE_OP_DELETE, .object = b.object };
        struct store_op lose = { .type = STORE_OP_DURABILITY, .object = b.object,
                                 .durability = STORE_DURABILITY_VOLATILE };
        assert_true(store_page_prepared(b.store, b.object, 2));
        assert_false(store_page_prepared(b.store, b.object, 7));
        assert_int_equal(write_page(&b, 2, 7), -EBUSY);
        assert_int_equal(write_page(&b, 5, 7), -EBUSY);
        assert_int_equal(bench_op(&b, &free), -EBUSY);
        assert_int_equal(bench_op(&b, &delete), -EBUSY);
        assert_int_equal(bench_op(&b, &lose), -ENOTEMPTY);
        assert_int_equal(store_pages_unused(b.store, b.object, 0, 3, NULL, NULL, &first), 0);
        assert_int_equal(first, 7);
        bench_reopen(&b);
    }
    assert_int_equal(write_page(&b, 1, 9), 0);
    bench_reopen(&b);
    page_is(&b, 1, 9);
    assert_int_equal(bench_alone(&b, 1, store_undo), 0);
    assert_int_equal(write_page(&b, 2, 7), 0);
    bench_close(&b);
}

static void limits_hold(void **state)
{
    (void)state;
    struct bench b;
    struct store_chain *chain;
    struct store_group *group;
    struct store_txn_id id = txn_id(1);
    uint32_t position;
    bench_open(&b, 16 << 20, 4 << 20);
    for (uint8_t i = 0; i < STORE_PREPARED_MAX; i++)
        assert_int_equal(prepare(&b, i, i, i + 1u), 0);
    assert_int_equal(prepare(&b, 99, 60, 61), -EAGAIN);
    assert_int_equal(prepare(&b, 5, 60, 61), -EEXIST);
    bench_reopen(&b);
    assert_int_equal(in_doubt(&b, true), STORE_PREPARED_MAX);
    assert_int_equal(decide(&b, 7), 0);
    assert_int_equal(prepare(&b, 99, 60, 61), 0);
    for (uint8_t i = 0; i < STORE_PREPARED_MAX; i++)
        if (i != 7)
            assert_int_equal(bench_alone(&b, i, store_undo), 0);
    assert_int_equal(prepare(&b, 1, 100, 227), -E2BIG);        /* an eighth of the log is 128 */
    assert_int_equal(prepare(&b, 1, 100, 220), 0);
    assert_int_equal(prepare(&b, 2, 240, 244), -EAGAIN);
    group = bench_group(&b);                     /* twice in one group; before it is applied */
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_decided(group, &id, NULL, 9), -EINVAL);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_decided(group, &id, NULL, 0), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_decided(group, &id, NULL, 0), -EBUSY);
    store_txn_cancel(group);
    assert_int_equal(store_undo(group, &id), -EBUSY);
    store_group_cancel(group);
    assert_int_equal(decide(&b, 1), 0);
    page_is(&b, 130, 230);
    assert_int_equal(store_chain_begin(b.store, 2, &chain), 0);
    group = bench_group(&b);
    id = txn_id(3);
    struct store_prepare what = { .id = id, .bytes = 0 };
    assert_int_equal(store_prepare(group, chain, &what), 0);    /* of no pages */
    assert_int_equal(store_prepare(group, chain, &what), -EINVAL);
    assert_int_equal(bench_spill(&b, group, chain, 1, 1), -EINVAL);
    store_group_cancel(group);
    assert_int_equal(in_doubt(&b, true), 1);
    group = bench_group(&b);
    assert_int_equal(store_prepare(group, chain, &what), 0);    /* it was the caller's again */
    group_done(group);
    bench_reopen(&b);
    assert_int_equal(decide(&b, 3), 0);
    bench_reopen(&b);
    assert_int_equal(in_doubt(&b, true), 1);
    bench_close(&b);
}

/* Aim: for each wanted cause of a cancelled group, promises and tables are as before. */
static void a_cancelled_decision_can_be_made_again(void **state)
{
    (void)state;
    struct bench b;
    struct store_txn_id id = txn_id(1), other = txn_id(2);
    uint32_t position;
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(prepare(&b, 1, 0, 4), 0);
    uint64_t promised = b.store->doubts.extents;
    assert_int_equal(promised, 1);
    for (int i = 0; i < 3; i++) {
        struct store_chain *chain = NULL;
        struct store_group *group = bench_group(&b);
        store_txn_begin(group, 1);
        assert_int_equal(store_txn_decided(group, &id, NULL, 0), 0);
        assert_int_equal(b.store->doubts.extents, 0);
        if (i == 0)
            store_txn_cancel(group);
        else
            assert_int_equal(store_txn_end(group, &position), 0);
        store_txn_begin(group, 1);
        assert_int_equal(store_txn_decided(group, &other, NULL, 0), 0);
        store_txn_cancel(group);
        if (i == 2)
            assert_int_equal(prepare_in(&b, group, 7, 20, 21, &chain), 0);
        store_group_cancel(group);
        assert_int_equal(b.store->doubts.extents, promised);
        assert_int_equal(b.store->doubts.kept, 0);
        assert_int_equal(b.store->doubts.prepared, 1);
    }
    assert_int_equal(decide(&b, 1), 0);
    assert_int_equal(b.store->doubts.extents, 0);
    page_is(&b, 3, 103);
    bench_close(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_prepared_stays_until_it_is_decided),
        cmocka_unit_test(what_is_undone_leaves_nothing),
        cmocka_unit_test(decisions_are_kept_until_they_are_forgotten),
        cmocka_unit_test(votes_are_written_again_as_the_log_goes_on),
        cmocka_unit_test(groups_leave_room_for_what_is_written_again),
        cmocka_unit_test(a_vote_of_several_groups_keeps_its_first),
        cmocka_unit_test(the_record_of_a_vote_that_is_over_is_passed_over),
        cmocka_unit_test(the_commit_of_a_vote_has_its_room),
        cmocka_unit_test(what_a_vote_claims_is_promised),
        cmocka_unit_test(pages_of_a_vote_are_left_alone),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_cancelled_decision_can_be_made_again),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
