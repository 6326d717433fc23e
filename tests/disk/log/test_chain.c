/*
 * test_chain.c - transactions of several groups: spill, read back, drop, commit, abort, age; what a
 * restart makes of each, and of damage to them. (Power cuts at every point: test_crash.)
 */
#include "store_rig.h"

/* Spills pages [from, to) with value 100 + page, in groups of at most five; no flush. */
static void spill_run(struct bench *b, struct store_chain *chain, uint64_t from, uint64_t to)
{
    while (from < to) {
        struct store_group *group = bench_group(b);
        for (int i = 0; i < 5 && from < to; i++, from++)
            assert_int_equal(bench_spill(b, group, chain, from, 100 + from), 0);
        assert_int_equal(store_group_seal(group), 0);
        assert_int_equal(store_group_issue(group), 0);
        assert_int_equal(store_group_apply(group), 0);
    }
}

static struct store_chain *chain_open(struct bench *b, uint64_t log_bytes)
{
    struct store_chain *chain;
    bench_open(b, 4 << 20, log_bytes);
    assert_int_equal(store_chain_begin(b->store, 2, &chain), 0);
    return chain;
}

static int chain_commit(struct bench *b, struct store_chain *chain)
{
    uint32_t position;
    struct store_group *group = bench_group(b);
    store_txn_begin(group, 2);
    int error = store_txn_chain(group, chain);
    int end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

/* Takes every dirty page home, from the log where it is only there. */
static void clean(struct bench *b)
{
    uint64_t cursor = 0, object, page, lsn, home;
    uint8_t bytes[4096];
    while (store_dirty_next(b->store, &cursor, &object, &page, &lsn) == 0) {
        struct store_page at;
        assert_int_equal(store_page_find(b->store, object, page, &at), 0);
        assert_true(at.dirty && at.log_offset_bytes);
        assert_int_equal(b->io.read(b->io.context, at.log_offset_bytes, bytes, 4096), 0);
        assert_int_equal(crc32c(0, bytes, 4096), at.log_crc);
        assert_int_equal(store_page_home(b->store, object, page, &home), 0);
        assert_int_equal(b->io.write(b->io.context, home, bytes, 4096), 0);
        assert_int_equal(store_page_cleaned(b->store, object, page, lsn, at.log_crc), 0);
    }
}

static void checkpoint(struct bench *b)
{
    int error;
    assert_int_equal(store_checkpoint_begin(b->store), 0);
    clean(b);
    while ((error = store_checkpoint_seal(b->store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(b->store), 0);
    assert_int_equal(store_checkpoint_apply(b->store), 0);
}

/* ---- */

static void a_committed_chain_is_there_and_an_unfinished_one_is_not(void **state)
{
    (void)state;
    struct bench b;
    struct store_chain *one, *two;
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(b.store, 2, &one), 0);
    assert_int_equal(store_chain_begin(b.store, 3, &two), 0);
    spill_run(&b, one, 0, 12);
    spill_run(&b, two, 20, 30);
    spill_run(&b, one, 12, 14);
    assert_int_equal(chain_commit(&b, one), 0);
    store_chain_end(one);
    for (uint64_t page = 0; page < 14; page++)
        page_is(&b, page, 100 + page);
    page_is(&b, 20, 0);
    bench_reopen(&b);
    assert_int_equal(b.report.transactions, 2);
    assert_int_equal(b.report.pages, 14);
    for (uint64_t page = 0; page < 14; page++)
        page_is(&b, page, 100 + page);
    page_is(&b, 20, 0);
    bench_close(&b);
}

static void spilled_pages_are_read_back_replaced_dropped_and_home(void **state)
{
    (void)state;
    struct bench b;
    uint64_t at;
    uint32_t crc, position;
    uint8_t bytes[4096], wanted[4096];
    struct store_chain *chain = chain_open(&b, 1 << 20);
    struct store_group *group = bench_group(&b);
    assert_int_equal(bench_spill(&b, group, chain, 1, 1), 0);
    assert_int_equal(bench_spill(&b, group, chain, 2, 2), 0);
    assert_int_equal(store_spill_find(b.store, chain, b.object, 1, &at, &crc), -EBUSY);
    assert_int_equal(store_txn_begin(group, 2), 0);
    assert_int_equal(store_txn_chain(group, chain), -ENOBUFS);
    store_txn_cancel(group);
    group_done(group);
    assert_int_equal(store_spill_find(b.store, chain, b.object, 3, &at, &crc), -ENOENT);
    assert_int_equal(store_spill_find(b.store, chain, b.object, 1, &at, &crc), 0);
    assert_int_equal(at % 4096, 0);
    assert_int_equal(b.io.read(b.io.context, at, bytes, 4096), 0);
    value_fill(wanted, 1);
    assert_memory_equal(bytes, wanted, 4096);
    assert_int_equal(crc, crc32c(0, bytes, 4096));
    group = bench_group(&b);                     /* 1 is replaced, 2 comes back into memory */
    assert_int_equal(bench_spill(&b, group, chain, 1, 11), 0);
    group_done(group);
    store_spill_drop(chain, b.object, 2);
    assert_int_equal(store_chain_pages(chain), 1);
    group = bench_group(&b);
    store_txn_begin(group, 2);
    value_fill(bytes, 22);
    assert_int_equal(store_txn_page(group, b.object, 2, bytes), 0);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
    page_is(&b, 1, 11);
    struct store_page page;
    assert_int_equal(store_page_find(b.store, b.object, 2, &page), 0);
    assert_int_equal(page.log_offset_bytes, 0);
    bench_reopen(&b);
    page_is(&b, 1, 11);
    page_is(&b, 2, 22);
    bench_close(&b);
}

/* Aim: a checkpoint beside a running chain keeps its images; one after it brings them home. */
static void checkpoints_go_on_beside_a_running_chain(void **state)
{
    (void)state;
    struct bench b;
    struct store_stats stats;
    struct store_chain *chain = chain_open(&b, 1 << 20);
    spill_run(&b, chain, 0, 7);
    checkpoint(&b);
    checkpoint(&b);
    spill_run(&b, chain, 7, 9);
    assert_int_equal(chain_commit(&b, chain), 0);
    store_chain_end(chain);
    struct disk_io io = b.io;
    struct store *again;
    undo_begin(&b.device);
    assert_int_equal(store_open(&io, &test_memory, NULL, &again, &b.report), 0);
    store_abandon(again);
    undo_to(&b.device, 0);
    b.device.undoing = false;
    checkpoint(&b);
    store_stats(b.store, &stats);
    assert_int_equal(stats.logged_pages, 0);
    bench_reopen(&b);
    for (uint64_t page = 0; page < 9; page++)
        page_is(&b, page, 100 + page);
    bench_close(&b);
}

/* Aim: a chain that lives too long cannot keep the log from being released. */
static void a_chain_older_than_half_the_log_is_dropped(void **state)
{
    (void)state;
    struct bench b;
    struct store_chain *old, *big;
    struct store_stats stats;
    uint64_t at, page = 0;
    uint32_t crc;
    int error = 0;
    bench_open(&b, 4 << 20, 256 << 10);
    assert_int_equal(store_chain_begin(b.store, 2, &big), 0);
    while (!error) {
        struct store_group *group = bench_group(&b);
        error = bench_spill(&b, group, big, page, page);
        page += !error;
        group_done(group);
    }
    assert_int_equal(error, -E2BIG);
    assert_true(page >= 10 && page <= 32);
    store_chain_end(big);
    checkpoint(&b);
    checkpoint(&b);
    assert_int_equal(store_chain_begin(b.store, 2, &old), 0);
    spill_run(&b, old, 0, 1);
    for (int i = 0; i < 200; i++) {
        struct store_group *group = bench_group(&b);
        error = store_group_seal(group);
        if (error == -EAGAIN) {
            store_group_cancel(group);
            checkpoint(&b);
            checkpoint(&b);
            continue;
        }
        assert_int_equal(error, 0);
        assert_int_equal(store_group_write(group), 0);
        assert_int_equal(store_group_apply(group), 0);
    }
    assert_int_equal(store_spill_find(b.store, old, b.object, 0, &at, &crc), -E2BIG);
    assert_int_equal(chain_commit(&b, old), -E2BIG);
    store_chain_end(old);
    store_stats(b.store, &stats);
    assert_int_equal(stats.chains, 0);
    bench_close(&b);
}

static uint64_t ring(const struct bench *b, uint64_t lsn)
{
    return b->store->super.log_start + lsn % b->store->super.log_bytes;
}

/* Aim: what of a committed chain is lost is called damage, before and behind the redo LSN. */
static void damage_to_a_committed_chain_is_reported(void **state)
{
    (void)state;
    struct bench b;
    struct store *damaged;
    struct store_chain *chain = chain_open(&b, 1 << 20);
    spill_run(&b, chain, 0, 12);
    uint64_t second = ring(&b, chain->hold.lsn) + 2 * 4096;
    checkpoint(&b);
    spill_run(&b, chain, 12, 14);
    assert_int_equal(chain_commit(&b, chain), 0);
    store_abandon(b.store);
    b.store = NULL;
    for (int i = 0; i < 5; i++) {               /* each group before the redo LSN */
        uint64_t at = second + (uint64_t)i * 3 * 4096 + 77;
        b.device.image[at] ^= 1;
        assert_int_equal(store_open(&b.io, &test_memory, NULL, &damaged, &b.report), -EUCLEAN);
        assert_int_not_equal(b.report.damage_lsn, 0);
        b.device.image[at] ^= 1;
    }
    bench_reopen(&b);
    for (uint64_t page = 0; page < 14; page++)
        page_is(&b, page, 100 + page);
    bench_close(&b);
}

/* Aim: damage to an unfinished chain before the redo LSN costs nothing. */
static void damage_to_an_unfinished_chain_is_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct store_chain *chain = chain_open(&b, 1 << 20);
    spill_run(&b, chain, 0, 12);
    uint64_t at = ring(&b, chain->hold.lsn);
    checkpoint(&b);
    struct store_chain *other;
    assert_int_equal(store_chain_begin(b.store, 3, &other), 0);
    spill_run(&b, other, 30, 32);
    assert_int_equal(chain_commit(&b, other), 0);
    b.device.image[at + 5000] ^= 1;
    bench_reopen(&b);
    page_is(&b, 0, 0);
    page_is(&b, 31, 131);
    bench_close(&b);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct bench b;
    uint32_t position;
    uint64_t at;
    uint32_t crc;
    struct store_chain *chain = chain_open(&b, 256 << 10);
    struct store_group *group = bench_group(&b);
    assert_int_equal(bench_spill(&b, group, chain, 1ull << 40, 1), -EINVAL);
    uint64_t object = b.object;
    b.object = 99;
    assert_int_equal(bench_spill(&b, group, chain, 0, 1), -ENOENT);
    b.object = object;
    store_txn_begin(group, 1);
    assert_int_equal(bench_spill(&b, group, chain, 0, 1), -EINVAL);
    store_txn_cancel(group);
    assert_int_equal(bench_spill(&b, group, chain, 0, 1), 0);
    store_group_cancel(group);
    assert_int_equal(store_spill_find(b.store, chain, b.object, 0, &at, &crc), -ENOENT);
    spill_run(&b, chain, 0, 3);
    assert_int_equal(store_close(b.store), -EBUSY);
    group = bench_group(&b);                     /* a cancelled commit can be done again */
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);
    assert_int_equal(store_txn_end(group, &position), -EINVAL);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    store_group_cancel(group);
    assert_int_equal(chain_commit(&b, chain), 0);
    page_is(&b, 2, 102);
    bench_close(&b);
}

/* Aim: a page that is written again is no longer in the log as a whole image. */
static void a_page_written_again_is_not_the_spilled_one(void **state)
{
    (void)state;
    struct bench b;
    struct store_page page;
    uint8_t bytes[4096] = { 1 };
    uint32_t position;
    struct store_chain *chain = chain_open(&b, 1 << 20);
    spill_run(&b, chain, 0, 2);
    assert_int_equal(chain_commit(&b, chain), 0);
    store_chain_end(chain);
    struct store_group *group = bench_group(&b);
    store_txn_begin(group, 5);
    assert_int_equal(store_txn_page(group, b.object, 0, bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store_page_find(b.store, b.object, 0, &page), 0);
    assert_int_equal(page.log_offset_bytes, 0);
    assert_int_equal(store_page_find(b.store, b.object, 1, &page), 0);
    assert_int_not_equal(page.log_offset_bytes, 0);
    bench_close(&b);
}

/* Aim: a chain whose first group is lost before the redo LSN is not committed without it. */
static void a_commit_needs_its_whole_chain(void **state)
{
    (void)state;
    struct bench b;
    struct store *store;
    struct store_chain *chain = chain_open(&b, 1 << 20);
    spill_run(&b, chain, 0, 2);
    uint64_t head = ring(&b, chain->hold.lsn);
    checkpoint(&b);
    assert_int_equal(chain_commit(&b, chain), 0);
    store_abandon(b.store);
    b.store = NULL;
    b.device.image[head + 8] ^= 1;                      /* the head's LSN */
    assert_int_equal(store_open(&b.io, &test_memory, NULL, &store, &b.report), -EUCLEAN);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_committed_chain_is_there_and_an_unfinished_one_is_not),
        cmocka_unit_test(spilled_pages_are_read_back_replaced_dropped_and_home),
        cmocka_unit_test(checkpoints_go_on_beside_a_running_chain),
        cmocka_unit_test(a_chain_older_than_half_the_log_is_dropped),
        cmocka_unit_test(damage_to_a_committed_chain_is_reported),
        cmocka_unit_test(damage_to_an_unfinished_chain_is_nothing),
        cmocka_unit_test(a_page_written_again_is_not_the_spilled_one),
        cmocka_unit_test(a_commit_needs_its_whole_chain),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
