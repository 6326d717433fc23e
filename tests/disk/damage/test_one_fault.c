/*
 * test_one_fault.c - one fault loses nothing: what is there twice may rot or be unreadable in one
 * place, and the store opens for writing with everything that was acknowledged.
 *
 * Method: single cases first, each a store with acknowledged commits, a power cut and one fault at
 * the place that a rule of recovery is about.
 */
#include <stdlib.h>

#include "stage.h"
#include "tools/kcheck/kcheck.h"

static int setup(void **state)
{
    (void)state;
    make_saved(1 << 20, 64 * 1024);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unmake();
    return 0;
}

/* The machine stops; nothing is lost but what was in memory. */
static void cut(void)
{
    store_abandon(store);
    store = NULL;
}

static uint64_t newest_slot(void)
{
    return slot_offset(&store->super, store->super.generation & 1);
}

static void pages_require(uint64_t count)
{
    uint8_t page[STORE_PAGE_BYTES];
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(store_page_read(store, object, i, page), 0);
        assert_memory_equal(page, page_bytes, sizeof page);
    }
}

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct disk_io under = device_io(context);
    return under.read(under.context, offset, buffer, bytes);
}

/* kcheck says of the image what the store says, and that no history is lost. */
static void kcheck_agrees(void)
{
    struct kcheck_io disk = { &device, device.bytes, image_read };
    struct kcheck_result own;
    kcheck_image(&disk, NULL, &own);
    assert_int_equal(own.error, 0);
    assert_int_equal(own.damage_lsn, 0);
}

/* ---- the newest superblock */

/* After a power cut this slot has rotted; the start replays so many transactions, and three
 * pages are there. */
static void rotten_slot_replays(uint64_t slot, uint64_t transactions)
{
    cut();
    device.image[slot + 100] ^= 4;
    kcheck_agrees();
    assert_int_equal(open_with(0), 0);
    assert_true(report.slot_bad[slot != 0]);
    assert_string_equal(report.rule, "RV10");
    assert_int_equal(report.transactions, transactions);
    pages_require(3);
}

/* Aim: an ordinary start writes one superblock, which begins an epoch. When that one rots, the
 * commits since then are found by what their groups say. */
static void commits_since_a_start_survive_its_superblock(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        if (clean)
            assert_int_equal(store_close(store), 0);
        else
            cut();
        assert_int_equal(open_with(0), 0);
        assert_string_equal(report.rule, "RV9");
        for (uint64_t i = 0; i < 3; i++)
            commit_pages(i, i + 1);
        uint64_t slot = newest_slot();
        rotten_slot_replays(slot, 3);
        checkpoint();
    }
}

/* One page in a group that is sealed and whose write is issued. */
static struct store_group *group_issued(uint64_t page)
{
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, page, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    return group;
}

/* Aim: of two groups on their way the cut takes the first, and rot the superblock of their epoch.
 * That is no loss. The first is then done again, bit by bit: its old successor must not come back
 * to life. */
static void a_group_behind_the_end_stays_dead(void **state)
{
    (void)state;
    cut();
    assert_int_equal(open_with(0), 0);
    uint64_t slot = newest_slot(),
             first = store->super.log_start + store->log.end % store->super.log_bytes;
    assert_int_equal(store_group_issue(group_issued(0)), 0);
    assert_int_equal(store_group_issue(group_issued(1)), 0);
    cut();
    memset(device.image + first, 0, BLOCK_BYTES);
    device.image[slot + 100] ^= 4;
    kcheck_agrees();
    assert_int_equal(open_with(0), 0);
    assert_int_equal(report.transactions, 0);
    commit_pages(0, 1);
    cut();
    kcheck_agrees();
    assert_int_equal(open_with(0), 0);
    assert_int_equal(report.transactions, 1);
}

/* Aim: a group of two blocks at the ring's end is torn; the next start counts it as none, and its
 * first commit, too large for that place, begins at the ring's start. Then the superblock of this
 * start rots: the epoch that the commit tells of began before the torn group, which must not count
 * as its predecessor. */
static void a_torn_group_at_the_rings_end_stays_dead(void **state)
{
    (void)state;
    uint64_t ring = store->super.log_bytes;
    while (store->log.end % ring != ring - 2 * BLOCK_BYTES) {
        commit_pages(0, 1);
        checkpoint();
    }
    uint64_t torn = store->super.log_start + ring - BLOCK_BYTES;
    assert_int_equal(store_group_issue(group_issued(0)), 0);
    cut();
    device.image[torn + 50] ^= 1;
    assert_int_equal(open_with(0), 0);
    assert_string_equal(report.rule, "RV9");
    commit_pages(0, 3);
    uint64_t slot = newest_slot();
    rotten_slot_replays(slot, 1);
}

/* Aim: a checkpoint was cut off while it overwrote the older area; either superblock rots, or
 * cannot be read. */
static void a_superblock_lost_in_a_checkpoint_costs_nothing(void **state)
{
    (void)state;
    commit_pages(0, 3);
    checkpoint();
    commit_pages(1, 2);
    struct superblock super = store->super;
    cut();
    memset(device.image + super.area_start[!super.checkpoint_index], 0x5a, 8 * BLOCK_BYTES);
    uint8_t *stopped = malloc(device.bytes);
    assert_non_null(stopped);
    memcpy(stopped, device.image, device.bytes);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t slot = slot_offset(&super, i & 1);
        memcpy(device.image, stopped, device.bytes);
        device.image[slot + 100] ^= i < 2 ? 4 : 0;
        device.bad_at = slot;
        device.bad_bytes = i < 2 ? 0 : BLOCK_BYTES;
        assert_int_equal(open_with(0), 0);
        assert_true(report.slot_bad[i & 1]);
        pages_require(3);
        cut();
    }
    device.bad_bytes = 0;
    memcpy(device.image, stopped, device.bytes);
    free(stopped);
    assert_int_equal(open_with(0), 0);
}

/* ---- the log's ring */

/* kcheck and the store agree, and the store opens for writing with the pages 0 to 3; so it does
 * after a cut before anything is committed. */
static void fault_survived(void)
{
    for (int start = 0; start < 2; start++) {
        kcheck_agrees();
        assert_int_equal(open_with(0), 0);
        pages_require(3);
        cut();
    }
}

/* The next group might lie there: at the log's end; at the start of the ring, if one of the largest
 * does not fit before. */
static bool next_group_at(uint64_t lsn, uint64_t end, uint64_t ring)
{
    return lsn == end || (lsn % ring == 0 && lsn - end < ring / 2);
}

/* Aim: what cannot be read behind the log's end holds nothing that anybody needs; a clean stop and
 * a cut, with the end in either half of the ring. */
static void unreadable_blocks_of_dead_log_do_no_harm(void **state)
{
    (void)state;
    uint8_t *stopped = malloc(device.bytes);
    assert_non_null(stopped);
    for (int round = 0; round < 4; round++) {
        bool clean = round & 1;
        commit_pages(0, round & 1 ? 1 : 3);
        checkpoint();
        checkpoint();
        uint64_t ring = store->super.log_bytes, start = store->super.log_start,
                 live = store->log.keep;
        uint64_t end = store->log.end;
        if (clean)
            assert_int_equal(store_close(store), 0);
        else
            cut();
        memcpy(stopped, device.image, device.bytes);
        for (uint64_t lsn = end; lsn < live + ring; lsn += BLOCK_BYTES) {
            memcpy(device.image, stopped, device.bytes);
            device.bad_at = start + lsn % ring;
            device.bad_bytes = BLOCK_BYTES;
            if (clean || !next_group_at(lsn, end, ring))
                fault_survived();
            else
                assert_int_equal(open_with(0), -EUCLEAN);
        }
        device.bad_bytes = 0;
        memcpy(device.image, stopped, device.bytes);
        assert_int_equal(open_with(0), 0);
    }
    free(stopped);
}

/* Aim: after a clean stop the blocks where the next group may lie are written before the superblock
 * that says so is given up; one that takes no write keeps nobody from starting. */
static void a_block_at_the_end_that_takes_no_write_stays(void **state)
{
    (void)state;
    uint64_t end = store->super.log_start + store->log.end % store->super.log_bytes;
    assert_int_equal(store_close(store), 0);
    device.bad_at = end;
    device.bad_bytes = BLOCK_BYTES;
    device.requests = 0;
    device.fail_kinds = FAIL_WRITE;
    device.fail_at = 1;
    assert_int_equal(open_with(0), 0);
    assert_int_equal(device.fired, 1);
    device.fail_kinds = 0;
    assert_int_equal(device.bad_bytes, BLOCK_BYTES);
    commit_pages(0, 3);                 /* the first group is written there */
    assert_int_equal(device.bad_bytes, 0);
    cut();
    assert_int_equal(open_with(0), 0);
    pages_require(3);
}

/* Aim: a torn group that a start has given up is of an epoch that is over: what cannot be read
 * behind its header hides no commit. */
static void a_group_that_was_given_up_hides_nothing(void **state)
{
    (void)state;
    uint64_t end = store->super.log_start + store->log.end % store->super.log_bytes;
    commit_pages(0, 2);
    cut();
    device.image[end + BLOCK_BYTES] ^= 1;
    assert_int_equal(open_with(0), 0);
    assert_true(report.torn_tail);
    cut();
    device.bad_at = end + BLOCK_BYTES;
    device.bad_bytes = BLOCK_BYTES;
    kcheck_agrees();
    assert_int_equal(open_with(0), 0);
}

static void renamed(const char *name)
{
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_RENAME, object, name), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

/* Aim: why a block that cannot be read at the log's end stops writing. With a commit there that was
 * acknowledged and without one the disks differ in this block only: nothing else can tell. */
static void the_block_at_the_logs_end_is_the_only_witness(void **state)
{
    (void)state;
    uint8_t *without = malloc(device.bytes);
    assert_non_null(without);
    memcpy(without, device.image, device.bytes);
    uint64_t end = store->super.log_start + store->log.end % store->super.log_bytes;
    renamed("acknowledged");
    cut();
    for (uint64_t at = 0; at < device.bytes; at += BLOCK_BYTES)
        assert_int_equal(memcmp(without + at, device.image + at, BLOCK_BYTES) != 0, at == end);
    device.bad_at = end;
    device.bad_bytes = BLOCK_BYTES;
    uint32_t writes = device.writes;
    assert_int_equal(open_with(0), -EUCLEAN);
    assert_int_equal(device.writes, writes);
    assert_int_equal(open_with(STORE_READ_ONLY), 0);
    cut();
    device.bad_bytes = 0;
    free(without);
    assert_int_equal(open_with(0), 0);
    assert_true(index_container(store, "acknowledged") != NO_SLOT);
}

/* Aim: the header at the log's end can be read and is that of the next group; a block behind it
 * cannot, and the commit may have been acknowledged. If all of the group can be read and it is
 * torn, no other block hides it. */
static void a_block_behind_the_last_header_is_a_witness_too(void **state)
{
    (void)state;
    uint64_t end = store->super.log_start + store->log.end % store->super.log_bytes;
    commit_pages(0, 3);
    cut();
    device.bad_at = end + BLOCK_BYTES;
    device.bad_bytes = BLOCK_BYTES;
    assert_int_equal(open_with(0), -EUCLEAN);
    assert_non_null(strstr(report.message, "a block at the log's end"));
    device.bad_bytes = 0;
    assert_int_equal(open_with(STORE_READ_ONLY), 0);
    assert_int_equal(report.transactions, 1);
    uint64_t behind = store->super.log_start + store->log.end % store->super.log_bytes;
    cut();
    device.image[end + BLOCK_BYTES] ^= 1;
    device.bad_at = behind + BLOCK_BYTES;
    device.bad_bytes = BLOCK_BYTES;
    kcheck_agrees();
    assert_int_equal(open_with(0), 0);
    assert_int_equal(report.transactions, 0);
    assert_true(report.torn_tail);
}

/* Aim: what cannot be read of live log is damage, as if it had rotted: refused, and open for
 * reading. */
static void an_unreadable_block_of_live_log_is_damage(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        commit_pages(i, i + 1);
    device.bad_at = store->super.log_start + store->log.redo % store->super.log_bytes;
    device.bad_bytes = BLOCK_BYTES;
    cut();
    assert_int_equal(open_with(0), -EUCLEAN);
    assert_string_equal(report.rule, "RV7");
    assert_true(report.log_unreadable > 0);
    assert_int_equal(open_with(STORE_READ_ONLY), 0);
    store_abandon(store);
    device.bad_bytes = 0;
    assert_int_equal(open_with(0), 0);
    pages_require(3);
}

/* The disk stops to answer at each read of an opening in turn. */
static void goes_away_at_each_read(void)
{
    commit_pages(0, 3);
    cut();
    uint32_t reads = device.reads;
    assert_int_equal(open_with(STORE_READ_ONLY), 0);
    store_abandon(store);
    reads = device.reads - reads;
    for (uint32_t at = 1; at <= reads; at++) {
        device.requests = 0;
        device.fail_kinds = FAIL_READ;
        device.fail_at = at;
        device.fail_sticky = true;
        uint32_t writes = device.writes;
        int error = open_with(0);
        device.fail_kinds = 0;
        if (!error)
            pages_require(3);
        else
            assert_int_equal(device.writes, writes);
        if (!error)
            cut();
    }
    assert_int_equal(open_with(0), 0);
    pages_require(3);
}

/* Aim: a disk that stops to answer while the log is read says nothing about the log's end: with a
 * small ring, and with one of more blocks than may be unreadable, one of which was so before. */
static void a_disk_that_goes_away_is_no_empty_log(void **state)
{
    (void)state;
    goes_away_at_each_read();
    abandon();
    make_saved(4 << 20, 2 * READ_AHEAD_BYTES);
    device.bad_at = store->super.log_start + store->super.log_bytes - BLOCK_BYTES;
    device.bad_bytes = BLOCK_BYTES;
    goes_away_at_each_read();
}

/* ---- the first blocks */

/* Aim: a store that has grown and whose first blocks are lost, slot A and signpost with them, is no
 * blank disk. Twice as large, its slot B is found; else it is left alone. */
static void a_store_whose_first_blocks_are_zero_is_not_blank(void **state)
{
    (void)state;
    static const uint64_t bytes[] = { 2 << 20, 4 << 20, 3 << 20 };
    abandon();
    for (int i = 0; i < 3; i++) {
        make_saved(1 << 20, 64 * 1024);
        commit_pages(0, 3);
        checkpoint();
        assert_int_equal(store_close(store), 0);
        device.image = realloc(device.image, bytes[i]);
        memset(device.image + device.bytes, 0, bytes[i] - device.bytes);
        device.bytes = io.bytes = bytes[i];
        assert_int_equal(store_grow(&io, &test_memory, 0, &report), 0);
        uint64_t lost = i ? 16 * 1024 : 8 * 1024;
        memset(device.image, 0, lost);
        store = NULL;
        struct kcheck_io disk = { &device, device.bytes, image_read };
        struct kcheck_result own;
        kcheck_image(&disk, NULL, &own);
        int error = open_with(0);
        assert_int_equal(error, own.error);
        assert_int_equal(error, i < 2 ? 0 : -EMEDIUMTYPE);
        if (!error)
            pages_require(3);
        if (i < 2)
            abandon();
    }
    device_close(&device);
    make_saved(1 << 20, 64 * 1024);
}

/* Aim: a table of epochs that is full takes no other; that is said, and nothing is written. */
static void a_full_table_of_epochs_learns_none(void **state)
{
    (void)state;
    struct superblock super;
    for (uint32_t i = 0; i < EPOCH_MAX; i++) {          /* each start counts one */
        cut();
        assert_int_equal(open_with(0), 0);
    }
    commit_pages(0, 1);
    super = store->super;
    cut();
    uint32_t newest = super.epochs[super.epoch_count - 1].epoch;
    uint64_t begun = super.epochs[super.epoch_count - 1].first_lsn;
    super.epoch_count = EPOCH_MAX;
    for (uint32_t i = 0; i < EPOCH_MAX; i++)
        super.epochs[i] =
            (struct epoch_info){ newest - EPOCH_MAX + i, begun - (EPOCH_MAX - i) * BLOCK_BYTES };
    super.slot = super.generation & 1;
    superblock_encode(&super, (void *)(device.image + slot_offset(&super, super.slot)));
    memset(device.image + slot_offset(&super, !super.slot), 0, BLOCK_BYTES);
    uint32_t writes = device.writes;
    assert_int_equal(open_with(0), -EUCLEAN);
    assert_string_equal(report.rule, "RV8");
    assert_int_equal(device.writes, writes);
    struct kcheck_io disk = { &device, device.bytes, image_read };
    struct kcheck_result own;
    kcheck_image(&disk, NULL, &own);
    assert_int_equal(own.error, -EUCLEAN);
    assert_int_equal(own.damage_lsn, report.damage_lsn);
    abandon();
    make_saved(1 << 20, 64 * 1024);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(commits_since_a_start_survive_its_superblock),
        TEST(a_group_behind_the_end_stays_dead),
        TEST(a_torn_group_at_the_rings_end_stays_dead),
        TEST(a_superblock_lost_in_a_checkpoint_costs_nothing),
        TEST(unreadable_blocks_of_dead_log_do_no_harm),
        TEST(a_block_at_the_end_that_takes_no_write_stays),
        TEST(a_group_that_was_given_up_hides_nothing),
        TEST(the_block_at_the_logs_end_is_the_only_witness),
        TEST(a_block_behind_the_last_header_is_a_witness_too),
        TEST(an_unreadable_block_of_live_log_is_damage),
        TEST(a_disk_that_goes_away_is_no_empty_log),
        TEST(a_store_whose_first_blocks_are_zero_is_not_blank),
        TEST(a_full_table_of_epochs_learns_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
