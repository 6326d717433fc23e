/*
 * test_wide_free.c - a free of more pages than the disk has extents: it goes by extent, over pages
 * that are applied or planned, and memory may end in the middle of it.
 */
#include "stage.h"

#define GIB_PAGES (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES)

static void wide_frees(void **state)
{
    (void)state;
    uint32_t position;
    make(1 << 20, 256 << 10);
    struct store_group *group = group_open();
    uint64_t other;
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "d", 0, 0, &other), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(store_txn_page(group, object, i * 100, page_bytes), 0);
    assert_int_equal(store_txn_page(group, object, GIB_PAGES - 1, page_bytes), 0);
    assert_int_equal(store_txn_page(group, other, 5, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    store_txn_cancel(group);
    group_done(group);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 150000, page_bytes), 0);
    assert_int_equal(store_txn_page(group, other, 6000, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, GIB_PAGES + 1, 0), -EINVAL);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 50, GIB_PAGES - 50 - 16), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    for (uint32_t i = 1, error = 1; error; i++) {       /* and with memory failing at each place */
        alloc_fail(i);
        store_txn_begin(group, 1);
        int freed = pages_op(group, STORE_OP_PAGE_FREE, 0, GIB_PAGES);
        error = alloc_fired();
        assert_int_equal(freed, error ? -ENOMEM : 0);
        store_txn_cancel(group);
    }
    group_done(group);
    static const struct { uint64_t page; bool there; } after[] = {
        { 0, true }, { 100, false }, { 200, false }, { 150000, false }, { GIB_PAGES - 1, true },
    };
    for (uint32_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        struct store_page found;
        assert_int_equal(store_page_find(store, object, after[i].page, &found), 0);
        assert_int_equal(found.present, after[i].there);
    }
    unmake();
}

static void pages_put(struct store_group *group, uint64_t from, uint64_t to)
{
    store_txn_begin(group, 1);
    for (; from < to; from++)
        assert_int_equal(store_txn_page(group, object, from, page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    store_txn_cancel(group);
}

/* Frees all, with the i-th allocation failing for each i; in the end it works, and is taken
 * back. */
static void frees_without_memory(struct store_group *group)
{
    uint32_t count = 0;
    for (uint32_t i = 1, fired = 1; fired; i++) {
        alloc_fail(i);
        store_txn_begin(group, 1);
        int error = pages_op(group, STORE_OP_PAGE_FREE, 0, GIB_PAGES);
        fired = alloc_fired();
        assert_int_equal(error, fired ? -ENOMEM : 0);
        store_txn_cancel(group);
        count += fired;
    }
    assert_true(count > 0);
}

/* Aim: memory that ends in the middle of a wide free, among applied pages and among planned
 * ones. */
static void wide_frees_without_memory(void **state)
{
    (void)state;
    make(8 << 20, 2 << 20);
    struct store_group *group = group_open();
    pages_put(group, 0, 30);
    group_done(group);
    group = group_open();
    pages_put(group, 100, 120);
    frees_without_memory(group);
    group_done(group);
    group = group_open();
    pages_put(group, 200, 240);
    group_done(group);
    group_done(group_open());
    group = group_open();
    frees_without_memory(group);
    store_group_cancel(group);
    unmake();
}

/* Aim: memory ends while the pages of a wide free are noted: those at home, and those that the
 * group itself writes. */
static void a_wide_free_that_runs_out_of_memory(void **state)
{
    (void)state;
    uint32_t i = 1, refused = 0;
    int error;
    make(16 << 20, 4 << 20);
    commit_pages(0, 150);
    commit_pages(200000, 200001);               /* far behind, so that the free goes by extents */
    group_done(group_open());                   /* the next one has memory for few claims */
    struct store_group *group = group_open();
    do {
        store_txn_begin(group, 1);
        for (uint64_t page = 150; page < 210; page++)
            assert_int_equal(store_txn_page(group, object, page, page_bytes), 0);
        alloc_fail(i++);
        error = pages_op(group, STORE_OP_PAGE_FREE, 0, 190000);
        refused += error == -ENOMEM;
        store_txn_cancel(group);
    } while (alloc_fired());
    assert_int_equal(error, 0);
    assert_true(refused >= 2);
    store_group_cancel(group);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_frees),
        cmocka_unit_test(wide_frees_without_memory),
        cmocka_unit_test(a_wide_free_that_runs_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
