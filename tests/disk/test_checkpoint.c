/*
 * test_checkpoint.c - a checkpoint of much changed metadata, in small steps beside commits.
 *
 * Method: a container whose pages lie far apart, so that each has a leaf of its own, fills hundreds
 * of metadata pages. Between the steps of the checkpoint pages are written and freed, which changes
 * what is still to be copied. No call may handle more than was agreed; the power is then cut, and
 * recovery must build what the running store had. (test_crash does the same at every write, with
 * steps of one or two pages.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "device.h"
#include "internal.h"

#define LEAVES  8192u
#define STEP    3u

static struct device device;
static struct store *store;
static uint64_t object, stamp;
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
    struct store_report report;
    struct disk_io io = device_io(&device);
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
}

static void commit(struct store_group *group)
{
    uint32_t position;
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

static struct store_group *begin(void)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(store, &group), 0);
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
    struct disk_io io = device_io(&device);
    uint64_t offset;
    page_make(stamps[page / 4]);
    assert_int_equal(store_page_home(store, object, page, &offset), 0);
    assert_int_equal(io.write(io.context, offset, bytes, sizeof bytes), 0);
    assert_int_equal(store_page_cleaned(store, object, page, lsn, crc32c(0, bytes, sizeof bytes)),
                     0);
}

/* Its steps; with `beside`, commits between them. How many there were. */
static uint32_t checkpoint(bool beside)
{
    uint64_t id, page, lsn;
    uint32_t steps = 0;
    int error;
    assert_int_equal(store_checkpoint_begin(store), 0);
    while ((error = store_checkpoint_next(store, &id, &page, &lsn)) != -ENOENT)
        if (error != -EAGAIN)
            home(page, lsn);
    for (; (error = store_checkpoint_seal(store)) == -EAGAIN; steps++)
        if (beside && steps % 4 == 0) {
            pages_write(steps * 37 % LEAVES, 3, 1021);
            page_free(steps * 11 % LEAVES);
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
    struct disk_io io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &options), 0);
    open_store();
    struct store_group *group = begin();
    struct store_op op = { .type = STORE_OP_CREATE, .name = "wide" };
    assert_int_equal(store_txn_op(group, &op), 0);
    object = op.object;
    commit(group);
    for (uint32_t at = 0; at < LEAVES; at += 256) {
        pages_write(at, 256, 1);
        if (at % 512 == 256)
            checkpoint(false);
    }
    for (uint32_t round = 0; round < 2; round++) {
        pages_write(round, 900, 9);         /* nearly all metadata pages change */
        assert_true(checkpoint(true) > 20);
        store_stats(store, &stats);
        assert_in_range(stats.checkpoint_step_pages, 1, STEP);
        store_abandon(store);               /* the power is cut */
        open_store();
        store_compare();
    }
    store_abandon(store);
    device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_small_and_what_changes_meanwhile_is_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
