/*
 * test_unflushed.c - superblocks that a power cut takes, or brings back, at the worst moment.
 *
 * Method  a disk that keeps each write of a superblock slot to itself until the next flush, and
 *         groups that are written and never flushed: of the legal crash states always the
 *         unluckiest.
 */
#include "stage.h"
#include "tools/kcheck/kcheck.h"

static struct { uint64_t offset; bool held; uint8_t bytes[BLOCK_BYTES]; } slot;

static int write_holding(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct disk_io under = device_io(context);
    if (offset && offset != slot_b_place(under.bytes))
        return under.write(context, offset, buffer, bytes);
    slot.held = true;
    slot.offset = offset;
    memcpy(slot.bytes, buffer, bytes);
    return 0;
}

static int flush_holding(void *context)
{
    struct disk_io under = device_io(context);
    int error = slot.held ? under.write(context, slot.offset, slot.bytes, BLOCK_BYTES) : 0;
    slot.held = false;
    return error ? error : under.flush(context);
}

static int setup(void **state)
{
    (void)state;
    make_saved(1 << 20, 64 * 1024);
    io.write = write_holding;
    io.flush = flush_holding;
    slot.held = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    abandon();
    return 0;
}

/* The machine stops: a superblock that no flush covers is lost. */
static int cut_and_open(void)
{
    store_abandon(store);
    store = NULL;
    slot.held = false;
    return open_with(0);
}

/* A group that reaches the disk by luck. */
static void group_unflushed(void)
{
    struct store_group *group = group_open();
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_issue(group), 0);
}

/* Aim: each start begins an epoch, and leaves a group behind it; there is always room for the
 * next. */
static void the_table_of_epochs_never_fills(void **state)
{
    (void)state;
    commit_pages(0, 1);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(cut_and_open(), 0);
        assert_true(store->super.epoch_count < EPOCH_MAX / 2);
        group_unflushed();
    }
}

/* Aim: an epoch began behind a log that was flushed. While the superblock that says so still names
 * an older checkpoint, rot in the last group before it is no torn tail. kcheck says so, too. */
static void an_epoch_proves_the_log_before_it(void **state)
{
    (void)state;
    struct kcheck_options how = { .context = NULL };
    struct kcheck_io disk = { &device, device.bytes, NULL };
    struct kcheck_result own;
    commit_pages(0, 1);
    uint64_t last = store->super.log_start + store->log.end % store->super.log_bytes - BLOCK_BYTES;
    assert_int_equal(superblock_advance(store), 0);
    assert_int_equal(io.flush(io.context), 0);
    device.image[last + 100] ^= 1;
    int error = cut_and_open();
    assert_int_equal(error, -EUCLEAN);
    assert_string_equal(report.rule, "RV7");
    disk.read = io.read;
    kcheck_image(&disk, &how, &own);
    assert_int_equal(own.damage_lsn, report.damage_lsn);
}

/* Aim: the newest area is lost, so recovery begins with the older one; its first superblock must be
 * a valid one, for it may be all that is there of what follows. */
static void an_area_that_is_lost_is_forgotten(void **state)
{
    (void)state;
    commit_pages(0, 1);
    checkpoint();
    commit_pages(1, 2);
    device.image[store->super.area_start[store->super.checkpoint_index] + 1] ^= 1;
    device.fail_kinds = FAIL_FLUSH;
    device.requests = 0;
    device.fail_at = 3;                         /* the one that follows the home pages */
    assert_int_equal(cut_and_open(), -EIO);
    device.fail_kinds = 0;
    assert_true(report.older_checkpoint);
    assert_int_equal(cut_and_open(), 0);
    assert_int_equal(report.slot_bad[0] + report.slot_bad[1], 0);
}

/* Aim: a start after a clean stop looks at nothing behind the log's end. So no group may get there
 * before the superblock of its epoch is durable: the epoch would begin again with the same number,
 * the group before it would be done again, bit by bit, and it would come back to life. */
static void a_clean_start_begins_its_epoch_before_work(void **state)
{
    (void)state;
    assert_int_equal(store_close(store), 0);
    store = NULL;
    assert_int_equal(open_with(0), 0);
    uint64_t first = store->super.log_start + store->log.end % store->super.log_bytes;
    group_unflushed();
    group_unflushed();
    memset(device.image + first, 0, BLOCK_BYTES);
    assert_int_equal(cut_and_open(), 0);
    assert_int_equal(report.groups, 0);
    group_unflushed();
    assert_int_equal(cut_and_open(), 0);
    assert_int_equal(report.groups, 1);
}

/* ---- a slot that is torn when its write was garbled before */

static struct { uint64_t offset; uint8_t bytes[BLOCK_BYTES]; } homes[16];
static uint32_t home_count;
static bool tear_home, slot_torn;

/* Homes wait for a flush, or are torn; of a slot all but the first sector is written. */
static int write_tearing(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct disk_io under = device_io(context);
    if (!offset || offset == slot_b_place(under.bytes)) {
        memcpy(device.image + offset + SECTOR_BYTES, (const uint8_t *)buffer + SECTOR_BYTES,
               bytes - SECTOR_BYTES);
        slot_torn = true;
        return 0;
    }
    for (size_t at = 0; offset >= slot.offset && at < bytes; at += BLOCK_BYTES) {
        assert_true(home_count < 16);
        homes[home_count].offset = offset + at;
        memcpy(homes[home_count++].bytes, (const uint8_t *)buffer + at, BLOCK_BYTES);
    }
    if (offset < slot.offset)
        return under.write(context, offset, buffer, bytes);
    for (size_t at = 0; tear_home && at < bytes; at += BLOCK_BYTES)
        memset(device.image + offset + at, 0xee, SECTOR_BYTES);
    return 0;
}

/* The power goes before the first flush that is to cover a slot, or torn homes. */
static int flush_tearing(void *context)
{
    struct disk_io under = device_io(context);
    if (slot_torn || (tear_home && home_count))
        return -EIO;
    for (; home_count; home_count--)
        memcpy(device.image + homes[home_count - 1].offset, homes[home_count - 1].bytes,
               BLOCK_BYTES);
    return under.flush(context);
}

/* Aim: a superblock whose write was garbled behind its first sector comes back when the next write
 * of the slot is torn; by then every page that it relies on must be durable, whatever recoveries
 * were cut off. */
static void a_garbled_superblock_that_comes_back_does_no_harm(void **state)
{
    (void)state;
    uint8_t page[STORE_PAGE_BYTES];
    struct store_page found;
    commit_pages(0, 4);
    checkpoint();
    io = device_io(&device);
    uint64_t newest = store->super.generation % 2 ? store->super.slot_b_offset : 0;
    device.image[newest + 3 * SECTOR_BYTES] ^= 0xff;
    slot.offset = store->super.data_start;
    store_abandon(store);
    for (int i = 0; i < 2; i++) {
        io.write = write_tearing;
        io.flush = flush_tearing;
        tear_home = !i;
        home_count = 0;
        slot_torn = false;
        assert_int_equal(open_with(0), -EIO);
    }
    io = device_io(&device);
    assert_int_equal(open_with(0), 0);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(store_page_find(store, object, i, &found), 0);
        assert_int_equal(store_page_read(store, object, i, page), 0);
    }
}

/* Aim (CP8): a checkpoint has what a lazy commit did, and is cut off; the commit is lost. What was
 * written of it is not taken for saved by the next start: both areas are whole after that. */
static void an_area_is_whole_after_a_cut_takes_a_lazy_commit(void **state)
{
    (void)state;
    uint64_t made;
    checkpoint();
    struct store_group *group = group_open();   /* its flush is the last checkpoint's, too (CP7) */
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "other", 0, 0, &made), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 1), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(store_group_seal(group), 0);
    uint8_t *place = device.image + ring_offset(store, group->lsn);
    size_t bytes = group->bytes;
    assert_int_equal(store_group_issue(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    uint32_t flushes = device.flushes;
    assert_int_equal(store_checkpoint_begin(store), 0);
    store->step_pages = 1;
    seal();
    if (device.flushes == flushes)
        memset(place, 0, bytes);
    assert_int_equal(cut_and_open(), 0);
    assert_int_equal(cut_and_open(), 0);
    assert_false(report.older_checkpoint);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_table_of_epochs_never_fills),
        TEST(an_epoch_proves_the_log_before_it),
        TEST(an_area_that_is_lost_is_forgotten),
        TEST(a_clean_start_begins_its_epoch_before_work),
        TEST(a_garbled_superblock_that_comes_back_does_no_harm),
        TEST(an_area_is_whole_after_a_cut_takes_a_lazy_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
