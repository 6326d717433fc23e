/*
 * test_checkpoint.c - a checkpoint of much changed metadata, in small steps beside commits.
 *
 * Method: a container whose pages lie far apart, so that each has a leaf of its own, fills hundreds
 * of metadata pages. Between the steps of the checkpoint pages are written and freed, which changes
 * what is still to be copied. No call may handle more than was agreed; the power is then cut, and
 * recovery must build what the running store had. (test_crash does the same at every write, with
 * steps of one or two pages.)
 */
#include "stage.h"

#define LEAVES  8192u
#define STEP    1u

static uint64_t stamp;
static uint64_t stamps[LEAVES];             /* of each page; 0: free */
static uint8_t bytes[STORE_PAGE_BYTES];

static void page_make(uint64_t value)
{
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &value, sizeof value);
}

static void open_store(void)
{
    struct store_open_options options = { .step_pages = STEP };
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
}

static void commit(struct store_group *group)
{
    uint32_t position;
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

static struct store_group *begin(void)
{
    struct store_group *group = group_open();
    assert_int_equal(store_txn_begin(group, 1), 0);
    return group;
}

static void pages_write(uint32_t from, uint32_t count, uint32_t stride)
{
    struct store_group *group = begin();
    for (uint32_t i = 0, at = from; i < count; i++, at = (at + stride) % LEAVES) {
        page_make(++stamp);
        assert_int_equal(store_txn_page(group, object, at * 4ull, bytes), 0);
        stamps[at] = stamp;
    }
    commit(group);
}

static void page_free(uint32_t at)
{
    struct store_group *group = begin();
    struct store_op op = { .type = STORE_OP_PAGE_FREE, .object = object, .page = at * 4ull,
                           .count = 1 };
    assert_int_equal(store_txn_op(group, &op), 0);
    commit(group);
    stamps[at] = 0;
}

static void home(uint64_t page, uint64_t lsn)
{
    uint64_t offset;
    page_make(stamps[page / 4]);
    assert_int_equal(store_page_home(store, object, page, &offset), 0);
    assert_int_equal(io.write(io.context, offset, bytes, sizeof bytes), 0);
    assert_int_equal(store_page_cleaned(store, object, page, lsn, crc32c(0, bytes, sizeof bytes)),
                     0);
}

/* Its steps; with `beside`, commits between them. How many there were. */
static uint32_t stepwise(bool beside)
{
    uint64_t id, page, lsn;
    uint32_t steps = 0;
    int error;
    assert_int_equal(store_checkpoint_begin(store), 0);
    if (beside)                             /* their metadata is copied before all pages are home */
        pages_write(5, 40, 211);
    while ((error = store_checkpoint_next(store, &id, &page, &lsn)) != -ENOENT)
        if (error != -EAGAIN)
            home(page, lsn);
    for (; (error = store_checkpoint_seal(store)) == -EAGAIN; steps++) {
        if (beside && steps % 4 == 0) {
            pages_write(steps * 37 % LEAVES, 3, 1021);
            page_free(steps * 11 % LEAVES);
        }
        assert_int_equal(store_checkpoint_write(store), 0);
    }
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
    return steps;
}

static void store_compare(void)
{
    const char *why;
    uint64_t value;
    assert_int_equal(store_check(store, &why), 0);
    for (uint32_t i = 0; i < LEAVES; i++) {
        assert_int_equal(store_page_read(store, object, i * 4ull, bytes), 0);
        memcpy(&value, bytes, sizeof value);
        assert_int_equal(value, stamps[i]);
    }
}

static void steps_are_small_and_what_changes_meanwhile_is_not_saved(void **state)
{
    (void)state;
    struct store_options options = { .log_bytes = 8u << 20, .extent_bytes = 4096, .uuid = "c" };
    struct store_stats stats;
    device_open(&device, 56u << 20);
    io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &options), 0);
    open_store();
    struct store_group *group = begin();
    assert_int_equal(create(group, "wide", 0, 0, &object), 0);
    commit(group);
    for (uint32_t at = 0; at < LEAVES; at += 256) {
        pages_write(at, 256, 1);
        if (at % 512 == 256)
            stepwise(false);
    }
    for (uint32_t round = 0; round < 2; round++) {
        pages_write(round, 900, 9);         /* nearly all metadata pages change */
        assert_true(stepwise(true) > 20);
        store_stats(store, &stats);
        assert_in_range(stats.checkpoint_step_pages, 1, STEP);
        store_abandon(store);               /* the power is cut */
        open_store();
        store_compare();
    }
    stepwise(false);                        /* both areas hold all */
    pages_write(1, 1, 1);                   /* one that changed among many that did not */
    assert_true(stepwise(false) > 0);
    pages_write(5, 900, 9);
    uint64_t cursor = 0, id, page, lsn;
    while (!store_dirty_next(store, &cursor, &id, &page, &lsn))
        home(page, lsn);
    assert_int_equal(store_close(store), 0);        /* which takes as many steps */
    open_store();
    assert_true(report.was_clean);
    store_compare();
    abandon();
}

/* Aim: a page that was handed out and is not home yet comes again, after one -ENOENT; a look over a
 * large disk is cut into parts. */
static void a_page_that_stays_dirty_comes_again(void **state)
{
    (void)state;
    struct store_open_options options = { .step_pages = 1 };
    uint64_t id, page, lsn;
    uint32_t parts = 0;
    int error;
    make(40 << 20, 1 << 20);
    store->space.cursor = store->super.extents - 2;    /* so all extents are looked at */
    commit_pages(0, 1);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
    commit_pages(5000, 5001);
    assert_int_equal(store_checkpoint_begin(store), 0);
    for (uint32_t round = 0; round < 2; round++) {
        assert_int_equal(store_checkpoint_next(store, &id, &page, &lsn), 0);
        assert_int_equal(page, 5000);
        while ((error = store_checkpoint_next(store, &id, &page, &lsn)) == -EAGAIN)
            parts++;
        assert_int_equal(error, -ENOENT);
        assert_int_equal(store_checkpoint_seal(store), -EBUSY);
    }
    assert_true(parts > 20);
    unmake();
}

/* ---- when, and when not */

static void when_a_checkpoint_is_due(void **state)
{
    (void)state;
    uint32_t position;
    make(1 << 20, 256 << 10);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(store_txn_page(group, object, i, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    group = group_open();               /* what is free is little, and a checkpoint brings more */
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 0, 8), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    uint64_t taken = store->space.free;
    while (store->space.free)
        assert_true(extent_claim(store, UINT64_MAX) != UINT64_MAX);
    assert_int_equal(store_should_checkpoint(store), 2);
    for (uint64_t i = 0; i < store->super.extents; i++)
        extent_unclaim(store, i);
    assert_int_equal(store->space.free, taken);
    checkpoint();
    checkpoint();
    assert_int_equal(store_should_checkpoint(store), 0);
    unmake();
}

/* Aim: a checkpoint's write that fails releases nothing. */
static void a_failed_checkpoint_releases_nothing(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    uint64_t keep = store->log.keep;
    assert_int_equal(store_checkpoint_begin(store), 0);
    assert_int_equal(store_checkpoint_apply(store), -EINVAL);
    seal();
    device.fail_kinds = FAIL_FLUSH;
    device.requests = 0;
    device.fail_at = 1;
    assert_int_equal(store_checkpoint_write(store), -EIO);
    assert_int_equal(store_checkpoint_write(store), -EINVAL);
    assert_int_equal(store_checkpoint_apply(store), -EIO);
    assert_int_equal(store->log.keep, keep);
    assert_int_equal(store_checkpoint_write(store), -EINVAL);
    unmake();
}

/* A fence that came between seal and write: nothing is written. */
static void a_fenced_checkpoint_writes_nothing(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    assert_int_equal(store_checkpoint_begin(store), 0);
    seal();
    uint32_t writes = device.writes;
    fence_set(store, -EIO);
    assert_int_equal(store_checkpoint_write(store), -EIO);
    assert_int_equal(store_checkpoint_apply(store), -EIO);
    assert_int_equal(device.writes, writes);
    unmake();
}

/* ---- parts */

static void opened(uint32_t step_pages)
{
    struct store_open_options options = { .step_pages = step_pages };
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
}

/* Aim: what seal has copied is written before there is more; more than 64 pages are no part. */
static void a_part_is_written_before_the_next(void **state)
{
    (void)state;
    make(8 << 20, 2 << 20);
    commit_pages(0, 100);
    store_abandon(store);
    opened(1);
    commit_pages(0, 100);
    assert_int_equal(store_checkpoint_begin(store), 0);
    uint64_t id, page, lsn, offset;
    while (store_checkpoint_next(store, &id, &page, &lsn) != -ENOENT) {
        assert_int_equal(store_page_home(store, id, page, &offset), 0);
        assert_int_equal(io.write(io.context, offset, page_bytes, sizeof page_bytes), 0);
        assert_int_equal(store_page_cleaned(store, id, page, lsn,
                                            crc32c(0, page_bytes, sizeof page_bytes)), 0);
    }
    assert_int_equal(store_checkpoint_seal(store), -EAGAIN);
    assert_int_equal(store_checkpoint_seal(store), -EINVAL);
    assert_int_equal(store_checkpoint_write(store), 0);
    seal();
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
    store_abandon(store);
    opened(1000);
    commit_pages(0, 100);
    checkpoint();
    unmake();
}

/* Aim: any write of a close fails, of each part, the map or the superblock: the next start
 * recovers. */
static void each_write_of_a_close_may_fail(void **state)
{
    (void)state;
    int error = -EIO;
    make(8 << 20, 2 << 20);
    for (uint32_t at = 1; error; at++) {
        store_abandon(store);
        opened(1);
        commit_pages(0, 100);
        checkpoint();
        commit_pages(at, at + 1);
        uint64_t id, page, lsn, cursor = 0, offset;
        assert_int_equal(store_dirty_next(store, &cursor, &id, &page, &lsn), 0);
        assert_int_equal(store_page_home(store, id, page, &offset), 0);
        assert_int_equal(io.write(io.context, offset, page_bytes, sizeof page_bytes), 0);
        assert_int_equal(store_page_cleaned(store, id, page, lsn,
                                            crc32c(0, page_bytes, sizeof page_bytes)), 0);
        device.fail_kinds = FAIL_WRITE;
        device.requests = 0;
        device.fail_at = at;
        error = store_close(store);
        store = NULL;
        device.fail_kinds = 0;
        assert_true(error ? error == -EIO : at > 4);
    }
    opened(0);
    assert_true(report.was_clean);
    unmake();
}

/* Aim: a commit changes metadata that a checkpoint is still to save, and there is no memory to keep
 * it as it was: the commit is applied, the checkpoint says so and is over, and the next one saves
 * all. */
static void a_page_that_cannot_be_kept_ends_the_checkpoint(void **state)
{
    (void)state;
    uint32_t position;
    make(8 << 20, 2 << 20);
    commit_pages(0, 8);
    checkpoint();
    commit_pages(0, 8);
    assert_int_equal(store_checkpoint_begin(store), 0);
    for (int kept = 0; kept < 2; kept++) {              /* one page is kept, one is not */
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(kept ? store_txn_page(group, object, 1, page_bytes)
                              : op(group, STORE_OP_RENAME, object, "other"), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        assert_int_equal(store_group_seal(group), 0);
        assert_int_equal(store_group_write(group), 0);
        alloc_fail(kept);
        assert_int_equal(store_group_apply(group), 0);
        assert_int_equal(alloc_fired(), kept);
    }
    assert_int_equal(store_checkpoint_seal(store), -ENOMEM);
    assert_int_equal(store_checkpoint_seal(store), -EINVAL);
    assert_int_equal(store_error(store), 0);
    checkpoint();
    store_abandon(store);
    opened(0);
    struct store_container container;
    assert_int_equal(report.groups, 0);
    assert_int_equal(store_container_find(store, "other", &container), 0);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_a_checkpoint_is_due),
        cmocka_unit_test(a_failed_checkpoint_releases_nothing),
        cmocka_unit_test(a_fenced_checkpoint_writes_nothing),
        cmocka_unit_test(a_page_that_stays_dirty_comes_again),
        cmocka_unit_test(a_part_is_written_before_the_next),
        cmocka_unit_test(each_write_of_a_close_may_fail),
        cmocka_unit_test(a_page_that_cannot_be_kept_ends_the_checkpoint),
        cmocka_unit_test(steps_are_small_and_what_changes_meanwhile_is_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
