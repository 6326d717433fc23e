/*
 * test_open.c - ways to open and close a store that no workload takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "device.h"

static struct device device;
static struct disk_io io;
static struct store *store;
static struct store_report report;

static int setup(void **state)
{
    (void)state;
    struct store_options options = { .uuid = { 5 }, .log_bytes = 64 * 1024 };
    device_open(&device, 1 << 20);
    io = device_io(&device);
    return store_format(&io, &test_memory, &options);
}

static int teardown(void **state)
{
    (void)state;
    device_close(&device);
    return memory_live == 0 ? 0 : -1;
}

static int open_with(const struct store_open_options *options)
{
    return store_open(&io, &test_memory, options, &store, &report);
}

static uint64_t tick(void *context)
{
    return *(uint64_t *)context += 5;
}

static void a_clock_measures_the_open(void **state)
{
    (void)state;
    uint64_t time = 0;
    struct disk_clock clock = { &time, tick };
    struct store_open_options options = { .clock = &clock };
    assert_int_equal(open_with(&options), 0);
    assert_true(report.microseconds > 0);
    assert_int_equal(store_close(store), 0);
    crc32c_choose(NULL);
}

static void a_tiny_disk_is_no_store(void **state)
{
    (void)state;
    struct disk_io tiny = io;
    tiny.bytes = 7 * 4096;
    assert_int_equal(store_open(&tiny, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    assert_non_null(report.message);
}

/* The message is about the disk's length, not about superblocks that nothing is wrong with. */
static void a_store_whose_end_is_missing_says_so(void **state)
{
    (void)state;
    struct disk_io cut = io;
    for (cut.bytes = io.bytes - 4096; cut.bytes > io.bytes / 4; cut.bytes -= 4096 * 7) {
        assert_int_equal(store_open(&cut, &test_memory, NULL, &store, &report), -EUCLEAN);
        assert_int_equal(report.cut_bytes, io.bytes);
        assert_non_null(strstr(report.message, "shorter than its store"));
    }
}

static void a_group_has_two_blocks_at_least(void **state)
{
    (void)state;
    static const uint8_t page[STORE_PAGE_BYTES] = { 1 };
    struct store_open_options options = { .group_bytes = 1 };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "a" };
    struct store_group *group;
    uint32_t position;
    assert_int_equal(open_with(&options), 0);
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    store_txn_op(group, &op);
    store_txn_page(group, op.object, 0, page);
    assert_int_equal(store_txn_end(group, &position), 0);
    store_abandon(store);
}

static void noop_commit(void)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(store, &group), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

static uint64_t newest_slot(void)
{
    return store->super.generation % 2 ? store->super.slot_b_offset : 0;
}

/* Aim: the older slot is clean, but the newer, lost one had begun an epoch, and groups were
 * acknowledged in it. With the first of them lost, too, the next one proves it: that is damage, not
 * the end that the clean slot knows of. */
static void a_clean_slot_ends_no_log_that_goes_on(void **state)
{
    (void)state;
    assert_int_equal(open_with(NULL), 0);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(open_with(NULL), 0);
    assert_true(report.was_clean);
    uint64_t first = store->super.log_start + store->log.end % store->super.log_bytes;
    noop_commit();
    noop_commit();
    uint64_t slot = newest_slot();
    store_abandon(store);
    device.image[slot + 64] ^= 1;
    device.image[first + 64] ^= 1;
    assert_int_equal(open_with(NULL), -EUCLEAN);
    assert_true(report.was_clean && report.slot_bad[slot != 0]);
    assert_string_equal(report.rule, "RV7");
}

/* Aim: a store with work in it is not closed. */
static void a_busy_store_stays_open(void **state)
{
    (void)state;
    static const uint8_t page[STORE_PAGE_BYTES] = { 1 };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "a" };
    struct store_group *first, *second;
    uint32_t position;
    assert_int_equal(open_with(NULL), 0);
    assert_int_equal(store_group_begin(store, &first), 0);
    assert_int_equal(store_close(store), -EBUSY);
    store_txn_begin(first, 1);
    store_txn_op(first, &op);
    store_txn_page(first, op.object, 0, page);
    assert_int_equal(store_txn_end(first, &position), 0);
    assert_int_equal(store_group_seal(first), 0);
    assert_int_equal(store_group_write(first), 0);
    assert_int_equal(store_group_apply(first), 0);
    assert_int_equal(store_close(store), -EBUSY);       /* a page is dirty */
    uint64_t offset;
    struct store_page found;
    assert_int_equal(store_page_find(store, op.object, 0, &found), 0);
    assert_int_equal(store_page_home(store, op.object, 0, &offset), 0);
    assert_int_equal(io.write(io.context, offset, page, sizeof page), 0);
    assert_int_equal(store_page_cleaned(store, op.object, 0, found.lsn,
                                        crc32c(0, page, sizeof page)), 0);
    assert_int_equal(store_group_begin(store, &second), 0);
    assert_int_equal(store_close(store), -EBUSY);       /* the other group is open */
    store_group_cancel(second);
    assert_int_equal(store_checkpoint_begin(store), 0);
    assert_int_equal(store_checkpoint_begin(store), -EBUSY);
    assert_int_equal(store_close(store), -EBUSY);
    assert_int_equal(store_checkpoint_seal(store), 0);
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
    assert_int_equal(store_close(store), 0);
    struct store_open_options read_only = { .flags = STORE_READ_ONLY };
    uint32_t writes = device.writes;
    assert_int_equal(open_with(&read_only), 0);
    assert_true(report.was_clean);
    assert_int_equal(store_group_begin(store, &first), -EROFS);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(device.writes, writes);
}

static void a_fenced_store_closes_with_its_error(void **state)
{
    (void)state;
    struct store_group *group;
    assert_int_equal(open_with(NULL), 0);
    assert_int_equal(store_group_begin(store, &group), 0);
    assert_int_equal(store_group_seal(group), 0);
    device.fail_kinds = FAIL_WRITE;
    device.fail_at = 1;
    assert_int_equal(store_group_write(group), -EIO);
    assert_int_equal(store_group_write(group), -EIO);   /* and says so again */
    assert_int_equal(store_group_apply(group), -EIO);
    assert_int_equal(store_checkpoint_seal(store), -EIO);
    assert_int_equal(store_should_checkpoint(store), 0);
    assert_int_equal(store_close(store), -EIO);
}

/* Aim: with either slot, or both, unreadable or of a newer version, the disk is told for what it
 * is. */
static void each_slot_may_be_unreadable_or_newer(void **state)
{
    (void)state;
    struct superblock super;
    uint32_t version;
    assert_int_equal(superblock_decode((void *)device.image, device.bytes, 0, &super, &version),
                     SLOT_VALID);
    uint64_t b = super.slot_b_offset;
    device.fail_kinds = FAIL_READ;
    device.fail_at = 1;
    device.fail_sticky = true;
    assert_int_equal(open_with(NULL), -EIO);
    assert_non_null(report.message);
    device.fail_kinds = 0;
    device.image[12]++;                 /* A says a newer version, B is good: B is believed */
    assert_int_equal(open_with(NULL), 0);
    assert_true(report.slot_bad[0]);
    store_abandon(store);
    device.image[12] = (uint8_t)(FORMAT_VERSION + 1);
    memset(device.image + b, 0, 4096);
    assert_int_equal(open_with(NULL), -EPROTONOSUPPORT);
    assert_int_equal(report.version, FORMAT_VERSION + 1);
}

/* Aim: a store is being made over another one, whose slots are still good: it is blank. */
static void a_store_under_a_new_one_does_not_count(void **state)
{
    (void)state;
    struct superblock making = { .uuid = { 77 } };
    signpost_encode(&making, 0, (void *)(device.image + SIGNPOST_OFFSET));
    assert_int_equal(open_with(NULL), -ENODATA);
    assert_string_equal(report.rule, "RV2");
}

/* A read of the log, by number, that brings one other byte than the disk holds. */
static uint32_t log_reads, log_read_bad;
static int (*read_well)(void *, uint64_t, void *, size_t);

static int read_badly(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    int error = read_well(context, offset, buffer, bytes);
    if (bytes > 2 * STORE_PAGE_BYTES && ++log_reads == log_read_bad)
        ((uint8_t *)buffer)[STORE_PAGE_BYTES - 1] ^= 1;
    return error;
}

/* Aim: what the second scan applies is what the first one verified. Method: the first committed
 * group is read well once, and differently the second time; nothing may be written then. */
static void a_log_that_reads_differently_is_not_applied(void **state)
{
    (void)state;
    static const uint8_t page[STORE_PAGE_BYTES] = { 1 };
    struct store_open_options read_only = { .flags = STORE_READ_ONLY };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "a" };
    struct store_group *group;
    uint32_t position;
    assert_int_equal(open_with(NULL), 0);
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    store_txn_op(group, &op);
    store_txn_page(group, op.object, 0, page);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    store_abandon(store);
    read_well = io.read;
    io.read = read_badly;
    log_reads = log_read_bad = 0;
    assert_int_equal(open_with(&read_only), 0);
    assert_int_equal(report.transactions, 1);
    store_abandon(store);
    log_read_bad = log_reads;
    assert_true(log_read_bad > 1);
    log_reads = 0;
    uint32_t writes = device.writes;
    assert_int_equal(open_with(NULL), -EIO);
    assert_int_equal(device.writes, writes);
    log_read_bad = 0;
    assert_int_equal(open_with(NULL), 0);
    assert_int_equal(report.transactions, 1);
    store_abandon(store);
}

/* Aim: a read is tried three times, no more; one that works the second time is no error. */
static void a_read_is_tried_three_times(void **state)
{
    (void)state;
    uint8_t block[BLOCK_BYTES];
    assert_int_equal(open_with(NULL), 0);
    device.fail_kinds = FAIL_READ;
    device.requests = device.fired = 0;
    device.fail_at = 1;
    assert_int_equal(io_read(&io, 0, block, sizeof block), 0);
    assert_int_equal(device.fired, 1);
    device.requests = device.fired = 0;
    device.fail_sticky = true;
    assert_int_equal(io_read(&io, 0, block, sizeof block), -EIO);
    assert_int_equal(device.fired, 3);
    store_abandon(store);
}

/* Aim: a disk of zeros may be formatted only if each block that was looked at could be read; else
 * nobody says that it is blank. The first, the log's place, the middles where slot B may be, and
 * the end. */
static void what_cannot_be_read_is_not_blank(void **state)
{
    (void)state;
    const uint64_t blocks[] = { 0, 2 * BLOCK_BYTES, slot_b_place(device.bytes),
                                slot_b_place(device.bytes / 4), device.bytes - BLOCK_BYTES };
    memset(device.image, 0, device.bytes);
    assert_int_equal(open_with(NULL), -ENODATA);
    for (uint32_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        device.bad_at = blocks[i];
        device.bad_bytes = BLOCK_BYTES;
        assert_int_not_equal(open_with(NULL), -ENODATA);
        assert_int_not_equal(open_with(NULL), 0);
    }
    device.bad_bytes = 0;
    assert_int_equal(open_with(NULL), -ENODATA);
}

/* Aim: so it is where slot B of a store lies that has grown, and at the end of a disk, behind all
 * that is looked at else; and a disk whose last block says something is not blank. */
static void what_is_far_behind_counts_too(void **state)
{
    (void)state;
    struct device larger;
    device_open(&larger, 64 << 20);
    struct disk_io disk = device_io(&larger);
    const uint64_t last = larger.bytes - BLOCK_BYTES;
    const uint64_t blocks[] = { slot_b_place(larger.bytes / 2), last };
    for (uint32_t i = 0; i < 2; i++) {
        larger.bad_bytes = 0;
        assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), -ENODATA);
        larger.bad_at = blocks[i];
        larger.bad_bytes = BLOCK_BYTES;
        assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    }
    larger.bad_bytes = 0;
    larger.image[last + 17] = 1;
    assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    device_close(&larger);
}

/* Aim: a disk without a store is no copy of one, and is looked at within the memory for that. */
static void a_blank_disk_is_no_copy(void **state)
{
    (void)state;
    struct store_spare *spare;
    const uint32_t writes = device.writes;
    memset(device.image, 0, device.bytes);
    assert_int_equal(store_spare_open(&io, &test_memory, NULL, &spare, &report), -ENODATA);
    io.bytes = SMALLEST_BYTES - 1;
    assert_int_equal(store_spare_open(&io, &test_memory, NULL, &spare, &report), -EMEDIUMTYPE);
    assert_int_equal(device.writes, writes);
}

/* Aim: one byte in any block of the first 8 MiB says that a disk is not blank, and none is written.
 * Method: the blocks of two runs that are read at once and the last ones, first and last byte by
 * turns. */
static void each_of_the_first_blocks_counts(void **state)
{
    (void)state;
    struct device larger;
    device_open(&larger, 64 << 20);
    struct disk_io disk = device_io(&larger);
    for (uint64_t i = 3; i < 3 + 48; i++) {
        uint64_t block = i < 35 ? i : BLANK_BYTES / BLOCK_BYTES - 1 - (i - 35);
        uint8_t *byte = larger.image + block * BLOCK_BYTES + (i % 2 ? 0 : BLOCK_BYTES - 1);
        *byte = 1;
        assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
        *byte = 0;
    }
    assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), -ENODATA);
    assert_int_equal(larger.writes, 0);
    device_close(&larger);
}

/* Aim: with slot A and the signpost gone, slot B of a disk that has doubled is found behind a
 * middle that cannot be read. */
static void slot_b_is_found_behind_a_middle_that_cannot_be_read(void **state)
{
    (void)state;
    struct device larger;
    device_open(&larger, 2 * device.bytes);
    memcpy(larger.image, device.image, device.bytes);
    memset(larger.image, 0, 2 * BLOCK_BYTES);
    larger.bad_at = slot_b_place(larger.bytes);
    larger.bad_bytes = BLOCK_BYTES;
    struct disk_io disk = device_io(&larger);
    assert_int_equal(store_open(&disk, &test_memory, NULL, &store, &report), 0);
    assert_true(report.slot_bad[0] && !report.slot_bad[1]);
    store_abandon(store);
    device_close(&larger);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_clock_measures_the_open),
        TEST(a_tiny_disk_is_no_store),
        TEST(a_store_whose_end_is_missing_says_so),
        TEST(a_group_has_two_blocks_at_least),
        TEST(a_clean_slot_ends_no_log_that_goes_on),
        TEST(a_busy_store_stays_open),
        TEST(a_fenced_store_closes_with_its_error),
        TEST(a_log_that_reads_differently_is_not_applied),
        TEST(a_read_is_tried_three_times),
        TEST(a_store_under_a_new_one_does_not_count),
        TEST(each_slot_may_be_unreadable_or_newer),
        TEST(what_cannot_be_read_is_not_blank),
        TEST(what_is_far_behind_counts_too),
        TEST(a_blank_disk_is_no_copy),
        TEST(each_of_the_first_blocks_counts),
        TEST(slot_b_is_found_behind_a_middle_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
