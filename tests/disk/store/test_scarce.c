/*
 * test_scarce.c - an open that needs all its buffers, without memory, without reads, and on a disk
 * that forgets.
 */
#include "stage.h"

static uint64_t before_large;           /* the LSN of the group before the last one */

static void large_diffs(void)
{
    struct diff_run run = { 100, 8 };
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 4);
    for (uint64_t i = 1; i < 90; i += 11) {
        struct store_page page;
        assert_int_equal(store_page_find(store, object, i, &page), 0);
        assert_int_equal(txn_diff(group, object, i, page.lsn, &run, 1, "changed!"), 0);
    }
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

static void make_large(void)
{
    make_saved(16 << 20, 4 << 20);
    commit_pages(0, 1);
    commit_pages(1, 90);
    struct store_chain *chain = chain_of_two();
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    group = group_open();               /* of which the table takes many pages at once */
    store_txn_begin(group, 3);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 1000, 1200), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    before_large = store->log.end;
    group_done(group);
    commit_pages(1, 90);
    large_diffs();
    commit_pages(400, 401);             /* apart from the others, and from each other */
    commit_pages(404, 405);
    store_abandon(store);
    store = NULL;
    undo_begin(&device);
}

/* Opens with the i-th allocation failing, for each i; what must come out of the last. */
static void open_without_memory(int last)
{
    int error = -ENOMEM;
    for (uint32_t i = 1; error == -ENOMEM; i++) {
        alloc_fail(i);
        error = open_with(0);
        assert_true(alloc_fired() ? error == -ENOMEM : error == last);
        if (!error)
            store_abandon(store);
        undo_to(&device, 0);
        assert_int_equal(memory_live, 0);
    }
}

static void an_open_without_memory_says_so(void **state)
{
    (void)state;
    struct superblock super, other;
    uint32_t version;
    make_large();
    open_without_memory(0);
    assert_int_equal(superblock_decode((void *)device.image, device.bytes, 0, &super, &version), 0);
    uint64_t b = super.slot_b_offset;
    assert_int_equal(superblock_decode((void *)(device.image + b), device.bytes, b, &other,
                                       &version), 0);
    if (other.generation > super.generation)
        super = other;
    uint32_t newest = super.checkpoint_index;
    uint64_t at = super.log_start + super.checkpoints[newest].redo_lsn % super.log_bytes;
    device.image[super.area_start[newest]] ^= 1;        /* and with the older checkpoint */
    open_without_memory(0);
    device.image[super.area_start[newest]] ^= 1;
    device.image[at + 100] ^= 1;
    open_without_memory(-EUCLEAN);
    device.image[at + 100] ^= 1;
    at = super.log_start + before_large % super.log_bytes;
    device.image[at + 100] ^= 1;        /* what proves a loss is a large group */
    open_without_memory(-EUCLEAN);
    store = NULL;
    abandon();
}

/* Claims pages until the disk or the log is full. */
static void fill(void)
{
    uint32_t position;
    for (uint64_t page = 0;; page += 32) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        if (pages_op(group, STORE_OP_PAGE_CLAIM, page, 32) || store_txn_end(group, &position)) {
            store_group_cancel(group);
            return;
        }
        group_done(group);
    }
}

/* The disk has grown, and the i-th allocation fails. True: the store is open, and did not grow. */
static bool open_grown(uint64_t bytes, uint32_t i, bool *fired)
{
    device.bytes = bytes;
    io = device_io(&device);
    alloc_fail(i);
    int error = open_with(STORE_GROW);
    *fired = alloc_fired();
    assert_true(!error || (error == -ENOMEM && *fired));
    store = error ? NULL : store;
    return store && report.grow_error;
}

/* Aim: a store that does not grow for lack of memory counts on no room that its superblock does not
 * know: the next recovery finds what was committed then. */
static void a_store_that_cannot_grow_stays_as_it_was(void **state)
{
    (void)state;
    static const uint64_t larger[] = { 1200 << 10, 4 << 20 };   /* the areas stay; they move */
    uint32_t failed = 0;
    for (uint32_t k = 0; k < 2; k++) {
        bool fired = true;
        for (uint32_t i = 1; fired; i++) {
            device_open(&device, 4 << 20);
            device.bytes = 1 << 20;
            make_here(256 << 10);
            checkpoint();
            store_abandon(store);
            if (open_grown(larger[k], i, &fired)) {
                failed++;
                fill();
                store_abandon(store);
                assert_int_equal(open_with(0), 0);
            }
            abandon();
        }
    }
    assert_true(failed > 2);
}

/* From request i of that kind on all fail; recovery may hold so many pages, 0: all. False: none
 * did. */
static bool open_failing(uint32_t kinds, uint32_t i, uint32_t image_pages)
{
    struct store_open_options options = { .image_pages = image_pages };
    device.fail_kinds = kinds;
    device.requests = device.fired = 0;
    device.fail_at = i;
    device.fail_sticky = true;
    int error = store_open(&io, &test_memory, &options, &store, &report);
    bool fired = device.fired != 0;
    device.fail_kinds = 0;
    assert_true(fired ? error == -EIO || (kinds == FAIL_READ && (error == -EUCLEAN || !error))
                      : !error);
    if (!error)
        store_abandon(store);
    undo_to(&device, 0);
    assert_int_equal(memory_live, 0);
    return fired;
}

static void an_open_that_cannot_read_or_write_says_so(void **state)
{
    (void)state;
    static const uint32_t kinds[] = { FAIL_READ, FAIL_WRITE, FAIL_FLUSH };
    make_large();
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t pages = 0; pages < 8; pages += 4) {
            uint32_t i = 1;
            while (open_failing(kinds[k], i, pages))
                i++;
            assert_true(i > 2);
        }
    store = NULL;
    abandon();
}

/* A disk that gives zeros from some read on: what was verified is not there a moment later. */
static uint32_t reads_left;

static int read_some(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct disk_io real = device_io(context);
    int error = real.read(real.context, offset, buffer, bytes);
    if (!reads_left)
        memset(buffer, 0, bytes);
    else
        reads_left--;
    return error;
}

static void a_disk_that_forgets_is_told(void **state)
{
    (void)state;
    const char *why;
    uint32_t opened = 0, refused = 0;
    make_large();
    for (uint32_t i = 6; opened < 2; i++) {  /* each twice: with room for all pages, and for four */
        struct store_open_options options = { .image_pages = i % 2 * 4 };
        reads_left = i / 2;
        io.read = read_some;
        int error = store_open(&io, &test_memory, &options, &store, &report);
        opened += reads_left > 0;       /* not one read of it was wrong */
        assert_true(!reads_left || !error);
        refused += error == -EIO || error == -EUCLEAN;
        if (!error) {
            assert_int_equal(store_check(store, &why), 0);
            store_abandon(store);
        }
        undo_to(&device, 0);
    }
    assert_true(refused > 3);
    store = NULL;
    abandon();
}

/* A blank disk of which the first blocks cannot all be read is not called blank. */
static void an_unreadable_block_is_not_blank(void **state)
{
    (void)state;
    device_open(&device, 1 << 20);
    io = device_io(&device);
    assert_int_equal(open_with(0), -ENODATA);
    for (uint32_t i = 4; i < 7; i++) {
        device.fail_kinds = FAIL_READ;
        device.requests = 0;
        device.fail_at = i;
        device.fail_sticky = true;
        assert_int_equal(open_with(0), -EMEDIUMTYPE);
    }
    device.fail_kinds = 0;
    device_close(&device);
    assert_int_equal(memory_live, 0);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_without_memory_says_so),
        cmocka_unit_test(a_store_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(an_open_that_cannot_read_or_write_says_so),
        cmocka_unit_test(a_disk_that_forgets_is_told),
        cmocka_unit_test(an_unreadable_block_is_not_blank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
