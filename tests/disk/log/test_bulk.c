/*
 * test_bulk.c - pages that go home before their commit: what a chain may write, what a commit makes
 * of it, what a restart finds, and every crash state of lives that load this way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "chain.h"
#include "crew.h"
#include "life.h"
#include "stage.h"

#define STEPS 40u

static struct store_chain *chain;

static int setup(void **state)
{
    (void)state;
    make_saved(2 << 20, 64 * 1024);
    assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unmake();
    return 0;
}

static void fill(uint8_t *bytes, uint64_t value)
{
    for (uint32_t i = 0; i < STORE_PAGE_BYTES; i += 8)
        memcpy(bytes + i, &(uint64_t){ random_next(&value) }, 8);
}

/* The page goes home with this content. */
static int home(uint64_t page, uint64_t value)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t offset;
    int error = store_bulk_page(chain, object, page, &offset);
    if (error)
        return error;
    fill(bytes, value);
    assert_int_equal(io.write(io.context, offset, bytes, sizeof bytes), 0);
    store_bulk_written(chain, object, page, crc32c(0, bytes, sizeof bytes));
    return 0;
}

static void page_is(uint64_t page, uint64_t value)
{
    uint8_t found[STORE_PAGE_BYTES], wanted[STORE_PAGE_BYTES] = { 0 };
    if (value)
        fill(wanted, value);
    assert_int_equal(store_page_read(store, object, page, found), 0);
    assert_memory_equal(found, wanted, sizeof found);
}

/* The chain's transaction, with nothing else in it. */
static int commit(bool flush)
{
    struct store_group *group = group_open();
    uint32_t position;
    if (flush)
        assert_int_equal(store_bulk_flush(chain), 0);
    store_txn_begin(group, 2);
    int error = store_txn_chain(group, chain);
    int end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error) {
        store_group_cancel(group);
        return error;
    }
    group_done(group);
    store_chain_end(chain);
    chain = NULL;
    return 0;
}

static void sound(void)
{
    const char *why = "";
    if (store_check(store, &why))
        fail_msg("%s", why);
}

static uint64_t claimed(void)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats.claimed_extents;
}

static uint64_t free_extents(void)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats.free_extents;
}

static void restart(uint32_t image_pages)
{
    chain = NULL;
    store_abandon(store);
    struct store_open_options options = { .image_pages = image_pages };
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
    sound();
}

/* ---- a load */

/* Aim: a load four times as large as the log commits, in one small group, and survives a cut; what
 * it wrote to the log is 4 bytes a page and little more. */
static void a_load_larger_than_the_log_commits(void **state)
{
    (void)state;
    struct store_stats before, after;
    store_stats(store, &before);
    for (uint64_t page = 40; page < 104; page++)
        assert_int_equal(home(page, page), 0);
    assert_int_equal(store_chain_pages(chain), 64);
    assert_int_equal(chain->home_pages, 64);
    assert_int_equal(commit(true), 0);
    store_stats(store, &after);
    assert_int_equal(after.log_bytes_written - before.log_bytes_written, BLOCK_BYTES);
    assert_int_equal(after.pages_dirty, before.pages_dirty);
    for (int round = 0; round < 3; round++) {
        for (uint64_t page = 39; page < 105; page++)
            page_is(page, page == 39 || page == 104 ? 0 : page);
        sound();
        if (round == 1)
            checkpoint();
        restart(0);
    }
}

/* Aim: a load that is given up, or that a cut ends, costs no space, and its pages are zeros. */
static void a_load_without_a_commit_leaves_nothing(void **state)
{
    (void)state;
    uint64_t free = free_extents();
    for (int cut = 0; cut < 2; cut++) {
        for (uint64_t page = 40; page < 60; page++)
            assert_int_equal(home(page, page), 0);
        assert_true(claimed() == 5 && free_extents() == free - 5);
        if (cut)
            restart(0);
        else
            store_chain_end(chain);
        assert_true(claimed() == 0 && free_extents() == free);
        page_is(45, 0);
        sound();
        if (!cut)
            assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    }
}

/* Aim: without a flush behind the last of them the homes are not believed (BH2). */
static void homes_are_flushed_before_their_commit(void **state)
{
    (void)state;
    assert_int_equal(home(40, 1), 0);
    assert_int_equal(commit(false), -EINVAL);
    assert_int_equal(store_bulk_flush(chain), 0);
    assert_int_equal(home(41, 2), 0);
    assert_int_equal(commit(false), -EINVAL);
    uint32_t flushes = device.flushes;
    assert_int_equal(commit(true), 0);
    assert_int_equal(device.flushes, flushes + 2);
    page_is(41, 2);
}

/* Aim: a failed flush fences the store. */
static void a_flush_that_fails_ends_it(void **state)
{
    (void)state;
    assert_int_equal(home(40, 1), 0);
    device.requests = 0;
    device.fail_kinds = FAIL_FLUSH;
    device.fail_at = 1;
    assert_int_equal(store_bulk_flush(chain), -EIO);
    device.fail_kinds = 0;
    assert_int_equal(store_error(store), -EIO);
    uint64_t offset;
    assert_int_equal(store_bulk_page(chain, object, 41, &offset), -EIO);
    store_chain_end(chain);
}

/* Aim: a page comes back into memory, goes home again, to the same place, or to the log; of one
 * that has both the newer counts. */
static void a_page_leaves_twice(void **state)
{
    (void)state;
    uint64_t first, second;
    uint32_t crc;
    uint8_t bytes[STORE_PAGE_BYTES];
    assert_int_equal(home(40, 1), 0);
    assert_int_equal(store_spill_find(store, chain, object, 40, &first, &crc), 0);
    fill(bytes, 1);
    assert_int_equal(crc, crc32c(0, bytes, sizeof bytes));
    store_spill_drop(chain, object, 40);
    assert_int_equal(store_spill_find(store, chain, object, 40, &second, &crc), -ENOENT);
    assert_int_equal(store_chain_pages(chain), 0);
    assert_int_equal(home(40, 2), 0);
    assert_int_equal(home(40, 3), 0);
    assert_int_equal(store_spill_find(store, chain, object, 40, &second, &crc), 0);
    assert_int_equal(first, second);
    struct store_group *group = group_open();
    fill(bytes, 4);
    assert_int_equal(store_spill_page(group, chain, object, 40, bytes), 0);
    fill(bytes, 5);
    assert_int_equal(store_spill_page(group, chain, object, 41, bytes), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_issue(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(home(41, 6), 0);
    assert_int_equal(store_chain_pages(chain), 2);
    assert_int_equal(chain->home_pages, 1);
    assert_int_equal(commit(true), 0);
    page_is(40, 4);
    page_is(41, 6);
    restart(0);
    page_is(40, 4);
    page_is(41, 6);
}

/* Aim: pages that follow one another in the container, in extents that do not, are two records. */
static void a_run_ends_where_its_extents_part(void **state)
{
    (void)state;
    uint64_t n = store->extent_pages;
    assert_int_equal(home(10 * n, 1), 0);
    commit_pages(20 * n, 20 * n + 1);           /* takes the extent behind */
    for (uint64_t page = 10 * n + 1; page < 12 * n; page++)
        assert_int_equal(home(page, page), 0);
    assert_int_equal(commit(true), 0);
    for (int round = 0; round < 2; round++) {
        for (uint64_t page = 10 * n + 1; page < 12 * n; page++)
            page_is(page, page);
        restart(0);
    }
}

/* ---- with others */

/* Aim: an extent of which anybody has a page, or is about to, is not fresh. */
static void an_extent_in_use_takes_none(void **state)
{
    (void)state;
    uint64_t offset, free = free_extents();
    commit_pages(40, 41);
    assert_int_equal(store_bulk_page(chain, object, 41, &offset), -ENOENT);
    assert_int_equal(store_bulk_page(chain, object, 1ull << 40, &offset), -EINVAL);
    assert_int_equal(store_bulk_page(chain, object + 1, 0, &offset), -EINVAL);
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 44, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_bulk_page(chain, object, 45, &offset), -ENOENT);
    group_done(group);
    assert_int_equal(free_extents(), free - 2);
    store_chain_end(chain);
}

/* Aim: who comes first has the extent (BH3): the load is refused, and leaves nothing. */
static void who_comes_first_has_the_extent(void **state)
{
    (void)state;
    assert_int_equal(home(40, 1), 0);
    assert_int_equal(home(48, 2), 0);
    commit_pages(49, 50);
    uint64_t free = free_extents();
    assert_int_equal(commit(true), -ESTALE);
    assert_int_equal(claimed(), 2);
    store_chain_end(chain);
    assert_true(claimed() == 0 && free_extents() == free + 2);
    page_is(40, 0);
    page_is(48, 0);
    sound();
    restart(0);
    page_is(40, 0);
}

/* Aim: a commit that the group has no room for leaves the load as it was; the next one has it. */
static void a_refused_commit_is_made_again(void **state)
{
    (void)state;
    for (uint64_t page = 40; page < 48; page++)
        assert_int_equal(home(page, page), 0);
    assert_int_equal(store_bulk_flush(chain), 0);
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_page(group, object, 41, page_bytes), -EINVAL);   /* twice */
    assert_int_equal(store_txn_end(group, &position), -EINVAL);
    store_group_cancel(group);
    assert_int_equal(claimed(), 2);
    sound();
    assert_int_equal(commit(true), 0);
    assert_int_equal(claimed(), 0);
    page_is(47, 47);
}

/* Aim: the rest of a transaction finds the extents that its pages at home have, and large objects
 * may be claimed over them. */
static void other_pages_of_it_share_the_extents(void **state)
{
    (void)state;
    struct store_group *group;
    uint32_t position;
    assert_int_equal(home(41, 1), 0);
    assert_int_equal(home(44, 2), 0);
    assert_int_equal(store_bulk_flush(chain), 0);
    group = group_open();
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_page(group, object, 40, page_bytes), 0);
    struct store_op op = { .type = STORE_OP_PAGE_CLAIM, .object = object, .page = 40, .count = 12 };
    assert_int_equal(store_txn_op(group, &op), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
    for (int round = 0; round < 2; round++) {
        struct store_page at;
        page_is(41, 1);
        page_is(44, 2);
        assert_int_equal(store_page_find(store, object, 45, &at), 0);
        assert_true(at.claimed && !at.present);
        restart(0);
    }
}

/* ---- the next record (BH4) */

static int diff(struct store_group *group, uint64_t page, uint64_t base)
{
    void *runs;
    static const uint8_t run[8] = { 0, 0, 4, 0, 9, 9, 9, 9 };
    int error = store_txn_diff_space(group, sizeof run, &runs);
    if (error)
        return error;
    memcpy(runs, run, sizeof run);
    return store_txn_diff_done(group, object, page, base, sizeof run);
}

/* Aim: the first record of such a page is a full image, though the page is newer than the last
 * checkpoint: in the same group, in the one after it, and later. Then differences may follow. */
static void the_next_record_is_a_full_image(void **state)
{
    (void)state;
    struct store_page at;
    struct store_group *group = group_open();
    uint32_t position;
    assert_int_equal(home(40, 1), 0);
    assert_int_equal(store_bulk_flush(chain), 0);
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    store_txn_begin(group, 3);
    assert_int_equal(diff(group, 40, STORE_BASE_NEWEST), -ESTALE);
    assert_int_equal(store_txn_end(group, &position), -ESTALE);
    group_done(group);
    store_chain_end(chain);
    assert_int_equal(store_page_find(store, object, 40, &at), 0);
    assert_true(!at.dirty && at.lsn >= store_full_below(store));
    for (int i = 0; i < 2; i++) {
        group = group_open();
        store_txn_begin(group, 3);
        assert_int_equal(diff(group, 40, i ? at.lsn : STORE_BASE_NEWEST), -ESTALE);
        store_txn_cancel(group);
        store_group_cancel(group);
    }
    commit_pages(40, 41);
    group = group_open();
    store_txn_begin(group, 3);
    assert_int_equal(diff(group, 40, STORE_BASE_NEWEST), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    restart(0);
    uint8_t found[STORE_PAGE_BYTES];
    assert_int_equal(store_page_read(store, object, 40, found), 0);
    assert_int_equal(found[0], 9);
    assert_memory_equal(found + 4, page_bytes + 4, sizeof found - 4);
}

/* ---- from the older checkpoint (BH5) */

/* Aim: pages of one owner are freed, and a load gets their extents; then the newest area rots. A
 * recovery from the older one meets the first owner's pages again, and has no room for many images:
 * it must not bring them home over the load. */
static void no_older_page_goes_home_over_a_load(void **state)
{
    (void)state;
    store_chain_end(chain);
    uint64_t n = store->extent_pages, pages = 2 * n;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);                  /* so that two extents are left for all of it */
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 200, (free_extents() - 2) * n), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    checkpoint();
    commit_pages(100, 100 + n);                 /* both extents, behind the older checkpoint */
    commit_pages(100 + n, 100 + pages);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 100, pages), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    checkpoint();                               /* the newest: it has the free */
    assert_int_equal(free_extents(), 2);
    assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    for (uint64_t page = 0; page < pages; page++)
        assert_int_equal(home(140 + page, page + 1), 0);
    assert_int_equal(commit(true), 0);
    device.image[store->super.area_start[store->super.checkpoint_index]] ^= 1;
    restart(1);
    assert_true(report.older_checkpoint);
    for (uint64_t page = 0; page < pages; page++)
        page_is(140 + page, page + 1);
    page_is(100, 0);
}

/* Aim: a copy that lacks a load hears that it is to be made anew: its pages are in no log. */
static void a_copy_is_not_fed_with_a_load(void **state)
{
    (void)state;
    struct store_epochs epochs;
    struct store_feed feed;
    const void *group;
    size_t bytes;
    store_lsn_t before = store_log_applied(store);
    store_epochs_tell(store, &epochs);
    commit_pages(3, 4);
    assert_int_equal(home(40, 1), 0);
    assert_int_equal(commit(true), 0);
    store_lsn_t behind = store_log_applied(store);
    commit_pages(4, 5);
    assert_int_equal(store_feed_begin(store, &feed, &epochs, before), 0);
    assert_int_equal(store_feed_seek(store, &feed, store->super.log_bytes), 0);
    assert_int_equal(store_feed_next(store, &feed, &group, &bytes), 1);
    assert_int_equal(store_feed_next(store, &feed, &group, &bytes), -ESTALE);
    store_feed_end(store, &feed);
    assert_int_equal(store_feed_begin(store, &feed, &epochs, behind), 0);   /* one that has it */
    assert_int_equal(store_feed_seek(store, &feed, store->super.log_bytes), 0);
    assert_int_equal(store_feed_next(store, &feed, &group, &bytes), 1);
    assert_int_equal(store_feed_next(store, &feed, &group, &bytes), 0);
    store_feed_end(store, &feed);
}

/* ---- crash states */

enum { STATES, SECOND, ROTTEN };

static void life_survives(uint64_t seed)
{
    static const struct enumerate_options everything = {
        .tear = true, .garble = true, .depth = 2, .third_odds = 200, .second_steps = 3,
        .random_subsets = 3, .rot_flips = 8, .sector_bytes = 512,
    };
    struct enumerate_options options = everything;
    struct enumerate_result result = { .states = 0 };
    options.states_max = crew_long() ? 20000 : 4000;
    options.second_odds = seed % 4 == 1 ? 40 : 2000;     /* deep, or all along the life */
    crew_at("life", seed);
    life_run(LIFE_BULK + seed, STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(ROTTEN, result.rotten_states);
}

/* Aim: no crash state of a life that loads past the log loses, mixes up or invents any commit. */
static void loading_lives_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(16);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash, %llu with a rotten bit\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND), (unsigned long long)crew_sum(ROTTEN));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_load_larger_than_the_log_commits),
        TEST(a_load_without_a_commit_leaves_nothing),
        TEST(homes_are_flushed_before_their_commit),
        TEST(a_flush_that_fails_ends_it),
        TEST(a_page_leaves_twice),
        TEST(a_run_ends_where_its_extents_part),
        TEST(an_extent_in_use_takes_none),
        TEST(who_comes_first_has_the_extent),
        TEST(a_refused_commit_is_made_again),
        TEST(other_pages_of_it_share_the_extents),
        TEST(the_next_record_is_a_full_image),
        TEST(no_older_page_goes_home_over_a_load),
        TEST(a_copy_is_not_fed_with_a_load),
        cmocka_unit_test(loading_lives_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
