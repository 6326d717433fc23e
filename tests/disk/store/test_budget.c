/*
 * test_budget.c - a store that could be made, opened and worked on with so much memory can be
 * saved, closed, and recovered after a power cut with the same; one that could not be opened is not
 * made.
 *
 * Method  a disk of which only written blocks are there, so that it may be large, and memory that
 *         counts what is alive, also tables of which only a part is used, and refuses what goes
 *         beyond a budget.
 */
#include "stage.h"

#include <stdlib.h>
#include <sys/mman.h>

#define GROUP_BYTES (1u << 20)

/* ---- a large disk */

static uint8_t *disk;

static int disk_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    (void)context;
    memcpy(buffer, disk + offset, bytes);
    return 0;
}

static int disk_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    (void)context;
    memcpy(disk + offset, buffer, bytes);
    return 0;
}

static int disk_flush(void *context)
{
    (void)context;
    return 0;
}

static void disk_make(uint64_t bytes)
{
    disk = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(disk != MAP_FAILED);
    io = (struct disk_io){ .context = NULL, .bytes = bytes, .read = disk_read,
                             .write = disk_write, .flush = disk_flush };
}

/* ---- memory by a budget */

static uint64_t alive, most, budget;

static bool budget_take(size_t bytes)
{
    if (alive + bytes > budget)
        return false;
    alive += bytes;
    most = alive > most ? alive : most;
    return true;
}

static void *budget_alloc(void *context, size_t bytes)
{
    (void)context;
    return budget_take(bytes) ? malloc(bytes) : NULL;
}

static void *budget_zeroed(void *context, size_t bytes)
{
    (void)context;
    return budget_take(bytes) ? calloc(1, bytes) : NULL;
}

static void budget_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    alive -= memory ? bytes : 0;
    free(memory);
}

static const struct disk_memory memory = { NULL, budget_alloc, budget_free, budget_zeroed };
static const struct store_options form = { .uuid = { 3 }, .group_bytes = GROUP_BYTES };
static const struct store_open_options how = { .group_bytes = GROUP_BYTES,
    .image_pages = GROUP_BYTES / STORE_PAGE_BYTES * 15 / 16 };

static int start(void)
{
    return store_open(&io, &memory, &how, &store, &report);
}

static int setup(void **state)
{
    (void)state;
    alive = most = 0;
    budget = UINT64_MAX;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_abandon(store);
    store = NULL;
    munmap(disk, io.bytes);
    assert_int_equal(alive, 0);
    return 0;
}

static void made(void)
{
    uint32_t position;
    assert_int_equal(store_format(&io, &memory, &form), 0);
    assert_int_equal(start(), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(op(group, STORE_OP_GROW, object, NULL), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

/* Pages far apart, each with an extent and a leaf of its own. */
static void pages_put(uint64_t from, uint64_t count)
{
    uint32_t position;
    for (uint64_t end = from + count; from < end;) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        for (uint64_t last = from + 200; from < last && from < end; from++)
            assert_int_equal(store_txn_page(group, object, from * 4, page_bytes), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
    }
}

static void extents_claim(uint64_t extents)
{
    uint32_t position;
    for (uint64_t at = 0; at < extents; at += 4096) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, at * 4, 4096 * 4), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
    }
}

/* ---- the tests */

/* Aim: a large disk that holds little, cut while its log is full of pages. */
static void what_committed_can_be_recovered(void **state)
{
    (void)state;
    disk_make(16ull << 30);
    made();
    pages_put(0, 3000);
    budget = most;
    store_abandon(store);
    store = NULL;
    assert_int_equal(start(), 0);
    assert_true(report.transactions > 10 && report.pages >= 3000);
    assert_true(most <= budget);
}

/* Aim: much metadata, all of it changed: a checkpoint, a close, and recoveries need no copy of
 * it. */
static void what_committed_can_be_saved_and_closed(void **state)
{
    (void)state;
    disk_make(8ull << 30);
    made();
    extents_claim(100 * 4096);
    uint64_t metadata = (uint64_t)store->numbers.limit * BLOCK_BYTES;
    assert_true(metadata > 32u << 20);
    budget = most;
    store_abandon(store);                       /* the power is cut: all is in the log */
    store = NULL;
    assert_int_equal(start(), 0);
    pages_put(0, 1000);
    checkpoint();
    assert_int_equal(store_close(store), 0);
    store = NULL;
    assert_int_equal(start(), 0);
    assert_true(report.was_clean);
    pages_put(0, 1000);
    checkpoint();
    assert_true(most <= budget);
}

/* Aim: a disk whose store could not be opened with this memory stays as it is. */
static void what_cannot_be_opened_is_not_made(void **state)
{
    (void)state;
    disk_make(16ull << 30);
    assert_int_equal(store_format(&io, &memory, &form), 0);
    assert_int_equal(start(), 0);
    uint64_t enough = most;
    store_abandon(store);
    store = NULL;
    memset(disk, 0, 1 << 20);
    budget = enough - 1;
    assert_int_equal(store_format(&io, &memory, &form), -ENOMEM);
    assert_true(bytes_zero(disk, 1 << 20));
    assert_in_range(store_memory(&io, &form), enough - (1 << 20), enough + (1 << 20));
    budget = enough;
    assert_int_equal(store_format(&io, &memory, &form), 0);
    assert_int_equal(start(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_committed_can_be_recovered),
        TEST(what_committed_can_be_saved_and_closed),
        TEST(what_cannot_be_opened_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
