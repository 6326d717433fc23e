/*
 * test_chunks.c - checkpoints by chunks, and recovery from them.
 *
 * Method: lives (life.h) whose checkpoints are mostly by chunks of mixed sizes are cut at every
 * event, as in test_crash, also with forms, loads past the log, chains and holds; and single cases
 * on a stage.
 */
#include <stdio.h>

#include "crew.h"
#include "life.h"
#include "stage.h"

#define STEPS 60u

enum { STATES, SECOND };

static void life_survives(uint64_t seed)
{
    struct enumerate_options options = {
        .tear = true, .garble = true, .depth = 2, .third_odds = 200, .second_steps = 3,
        .random_subsets = 3, .rot_flips = 8, .states_max = 1500,
        .second_odds = seed % 2 ? 40 : 500, .sector_bytes = seed % 5 ? 512 : 4096 };
    struct enumerate_result result = { .states = 0 };
    uint64_t kind = seed % 4 == 1 ? LIFE_BULK : seed % 4 == 2 ? LIFE_FORMS : 0;
    crew_at("life", seed);
    life_run(LIFE_CHUNKS | (kind + seed), STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
}

/* Aim: no crash state loses, mixes up or invents a transaction. */
static void lives_by_chunks_survive_every_crash_state(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(24), life_survives));
    printf("# %llu crash states, %llu after a second crash\n", (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

/* ---- on a stage */

static uint8_t bytes[STORE_PAGE_BYTES];

/* A difference of one byte, from the newest version. */
static int change(uint64_t page, uint8_t value)
{
    struct store_group *group = group_open();
    uint8_t *runs;
    uint32_t position;
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_diff_space(group, 5, (void **)&runs), 0);
    memcpy(runs, (uint8_t[]){ 9, 0, 1, 0, value }, 5);
    int error = store_txn_diff_done(group, object, page, STORE_BASE_NEWEST, 5);
    assert_int_equal(store_txn_end(group, &position), error);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

static void home(uint64_t page, uint64_t lsn)
{
    uint64_t offset;
    assert_int_equal(store_page_home(store, object, page, &offset), 0);
    assert_int_equal(io.write(io.context, offset, page_bytes, sizeof page_bytes), 0);
    assert_int_equal(store_page_cleaned(store, object, page, lsn,
                                        crc32c(0, page_bytes, sizeof page_bytes)), 0);
}

static uint64_t eight(void *context, uint64_t of)
{
    (void)context;
    return of == object ? 8 : 0;
}

/* All chunks that have something have their turn; how many. */
static uint32_t sweep(void)
{
    struct store_chunk chunk;
    uint64_t page, lsn;
    uint32_t count = 0;
    int error;
    while ((error = store_chunk_begin(store, eight, NULL, &chunk)) == 0) {
        while (store_chunk_next(store, &chunk, &page, &lsn) == 0)
            home(page, lsn);
        count++;
    }
    assert_int_equal(error, -ENOENT);
    return count;
}

static void by_chunks(void)
{
    uint64_t id, page, lsn;
    assert_int_equal(store_checkpoint_begin(store), 0);
    assert_int_equal(store_checkpoint_next(store, &id, &page, &lsn), -ENOENT);
    seal();
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

static void reopen(int error)
{
    store_abandon(store);
    store = NULL;
    assert_int_equal(open_with(0), error);
}

static void expect(uint64_t page, uint8_t value)
{
    assert_int_equal(store_page_read(store, object, page, bytes), 0);
    assert_int_equal(bytes[9], value);
}

/* Aim: a redo point is that of one chunk, which is as large as was asked, and comes between two
 * groups. */
static void a_chunk_has_a_redo_point_of_its_own(void **state)
{
    (void)state;
    struct store_chunk chunk;
    uint64_t page, lsn;
    make(2 << 20, 256 << 10);
    commit_pages(0, 17);
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), -EINVAL);
    assert_int_equal(store_sweep_begin(store), 0);
    struct store_group *group = group_open();
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), -EBUSY);    /* CU2 */
    store_group_cancel(group);
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), 0);
    assert_int_equal(chunk.page, 0);
    assert_int_equal(chunk.count, 8);
    assert_true(store_chunk_full_below(store, object, 0) == store->log.applied);
    assert_true(store_chunk_full_below(store, object, 7) == store->log.applied);
    assert_true(store_chunk_full_below(store, object, 8) == store_full_below(store));
    assert_int_equal(change(7, 1), -ESTALE);                                    /* CU1 */
    assert_int_equal(change(8, 1), 0);
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), -EBUSY);    /* CU3 */
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(store_chunk_next(store, &chunk, &page, &lsn), 0);
        assert_int_equal(page, i);
        if (i != 3)
            home(page, lsn);
    }
    assert_int_equal(store_chunk_next(store, &chunk, &page, &lsn), -EAGAIN);
    assert_int_equal(store_chunk_next(store, &chunk, &page, &lsn), 0);
    assert_int_equal(page, 3);
    home(page, lsn);
    assert_int_equal(store_chunk_next(store, &chunk, &page, &lsn), -ENOENT);
    unmake();
}

/* Aim: what is clean when a sweep comes by needs a full image after it all the same. */
static void what_is_clean_has_its_turn(void **state)
{
    (void)state;
    struct store_page at;
    make(2 << 20, 256 << 10);
    commit_pages(0, 2);
    commit_pages(8, 9);
    assert_int_equal(store_page_find(store, object, 8, &at), 0);
    home(8, at.lsn);
    assert_int_equal(store_sweep_begin(store), 0);
    assert_int_equal(change(1, 7), 0);          /* its base is older: home before the checkpoint */
    assert_int_equal(sweep(), 1);
    assert_int_equal(change(8, 1), -ESTALE);
    commit_pages(8, 9);
    assert_int_equal(change(8, 1), 0);
    by_chunks();
    assert_int_equal(change(8, 2), 0);          /* its base is in the log that is kept */
    reopen(0);
    expect(8, 2);
    unmake();
}

/* Aim: a checkpoint by chunks waits for no page, cuts the log off where the sweep began, and what
 * was not home comes from the log, if no group follows it as well. */
static void what_is_not_home_is_in_the_log(void **state)
{
    (void)state;
    make(2 << 20, 256 << 10);
    commit_pages(0, 17);
    for (uint8_t round = 1; round < 4; round++) {
        uint64_t from = store->log.applied;
        assert_int_equal(store_sweep_begin(store), 0);
        commit_pages(20, 21);           /* behind the cursor, or not: it counts either way */
        assert_true(sweep() > 0);
        commit_pages(1, 2);
        assert_int_equal(change(1, round), 0);
        commit_pages(9, 10);
        by_chunks();
        assert_true(store->space.dirty >= 2);
        const struct checkpoint_info *c = &store->super.checkpoints[store->super.checkpoint_index];
        assert_true(c->pages_lsn == from && c->scan_lsn == from && c->redo_lsn > from);
    }
    assert_true(store->log.keep > store->super.log_bytes);
    reopen(0);
    assert_string_equal(report.rule, "RV10");
    assert_true(report.groups > 0 && report.pages >= 2);
    expect(1, 3);
    expect(9, page_bytes[9]);
    unmake();
}

/* Aim: images that a chain had logged before the sweep are there as long as they are needed. */
static void a_chain_from_before_the_sweep_is_kept(void **state)
{
    (void)state;
    uint32_t position;
    make(2 << 20, 256 << 10);
    struct store_chain *chain = chain_of_two();
    assert_int_equal(store_sweep_begin(store), 0);
    assert_int_equal(sweep(), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    by_chunks();
    reopen(0);
    expect(60, page_bytes[9]);
    expect(61, page_bytes[9]);
    unmake();
}

/* Aim: a group that is lost between where the pages begin and the redo LSN is a loss. */
static void the_log_of_pages_is_not_stepped_over(void **state)
{
    (void)state;
    make(2 << 20, 256 << 10);
    commit_pages(0, 3);
    assert_int_equal(store_sweep_begin(store), 0);
    uint64_t from = store->log.applied;
    assert_int_equal(sweep(), 1);
    commit_pages(1, 2);
    by_chunks();
    uint64_t at = ring_offset(store, from) + 99;
    device.image[at] ^= 1;
    reopen(-EUCLEAN);
    assert_true(report.damage_lsn == from);
    device.image[at] ^= 1;
    assert_int_equal(open_with(0), 0);
    expect(1, page_bytes[9]);
    unmake();
}

/* Aim: a slot whose pages begin where they cannot is none. */
static void hostile_slots_are_refused(void **state)
{
    (void)state;
    make(2 << 20, 256 << 10);
    commit_pages(0, 3);
    assert_int_equal(store_sweep_begin(store), 0);
    assert_int_equal(sweep(), 1);
    commit_pages(1, 2);
    by_chunks();
    struct superblock super = store->super;
    struct checkpoint_info *c = &super.checkpoints[super.checkpoint_index], good = *c;
    const uint64_t wrong[] = { good.redo_lsn + BLOCK_BYTES, good.pages_lsn + 8,
                               good.scan_lsn - BLOCK_BYTES, UINT64_MAX, 1 };
    uint8_t block[BLOCK_BYTES];
    for (uint32_t i = 0; i < 5; i++) {
        struct superblock_disk *slot = (void *)block;
        uint32_t version;
        struct superblock back;
        c->pages_lsn = wrong[i];
        super.slot = super.generation & 1;
        superblock_encode(&super, slot);
        assert_int_equal(superblock_decode(slot, super.disk_bytes, slot_offset(&super, super.slot),
                                           &back, &version), SLOT_DAMAGED);
    }
    unmake();
}

/* Aim: a checkpoint that begins in the middle of a sweep is one of the whole store. */
static void a_checkpoint_ends_a_sweep(void **state)
{
    (void)state;
    struct store_chunk chunk;
    make(2 << 20, 256 << 10);
    commit_pages(0, 17);
    assert_int_equal(store_sweep_begin(store), 0);
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), 0);
    assert_int_equal(store_checkpoint_begin(store), 0);
    assert_int_equal(store_sweep_begin(store), -EBUSY);
    assert_int_equal(store_checkpoint_seal(store), -EBUSY);
    assert_int_equal(store_chunk_begin(store, eight, NULL, &chunk), -EINVAL);
    checkpoint_drop(store);             /* as if there had been no memory: pages are old still */
    assert_int_equal(store_sweep_begin(store), -EBUSY);
    checkpoint();
    assert_int_equal(store->super.checkpoints[store->super.checkpoint_index].pages_lsn, 0);
    assert_int_equal(store_sweep_begin(store), 0);
    unmake();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_has_a_redo_point_of_its_own),
        cmocka_unit_test(what_is_clean_has_its_turn),
        cmocka_unit_test(what_is_not_home_is_in_the_log),
        cmocka_unit_test(a_chain_from_before_the_sweep_is_kept),
        cmocka_unit_test(the_log_of_pages_is_not_stepped_over),
        cmocka_unit_test(hostile_slots_are_refused),
        cmocka_unit_test(a_checkpoint_ends_a_sweep),
        cmocka_unit_test(lives_by_chunks_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
