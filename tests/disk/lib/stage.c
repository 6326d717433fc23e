/*
 * stage.c - see stage.h.
 */
#include "stage.h"

const uint8_t page_bytes[STORE_PAGE_BYTES] = { 7 };
struct device device;
struct disk_io io;
struct store *store;
struct store_report report;
uint64_t object;

struct store_group *group_open(void)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(store, &group), 0);
    return group;
}

void group_done(struct store_group *group)
{
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

int txn_next(struct store_group *group)
{
    uint32_t position;
    int error = store_txn_end(group, &position);
    assert_int_equal(store_txn_begin(group, 1), 0);
    return error;
}

int op(struct store_group *group, enum store_op_type type, uint64_t of, const char *name)
{
    struct store_op what = { .type = type, .object = of, .name = name };
    return store_txn_op(group, &what);
}

int create(struct store_group *group, const char *name, uint64_t want, uint64_t address,
           uint64_t *made)
{
    struct store_op what = { .type = STORE_OP_CREATE, .name = name, .want_object = want,
                             .want_address = address };
    int error = store_txn_op(group, &what);
    *made = what.object;
    return error;
}

int pages_op(struct store_group *group, enum store_op_type type, uint64_t from, uint64_t count)
{
    struct store_op what = { .type = type, .object = object, .page = from, .count = count };
    return store_txn_op(group, &what);
}

int spill(struct store_group *group, struct store_chain *chain, uint64_t of, uint64_t page)
{
    return store_spill_page(group, chain, of, page, page_bytes);
}

struct store_chain *chain_of_two(void)
{
    struct store_chain *chain;
    assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    for (uint64_t i = 0; i < 2; i++) {
        struct store_group *group = group_open();
        assert_int_equal(spill(group, chain, object, 60 + i), 0);
        group_done(group);
        if (!i)
            checkpoint();
    }
    return chain;
}

int open_with(uint32_t flags)
{
    struct store_open_options options = { .flags = flags };
    return store_open(&io, &test_memory, &options, &store, &report);
}

void make_here(uint64_t log_bytes)
{
    struct store_options options = { .uuid = { 8 }, .log_bytes = log_bytes };
    io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &options), 0);
    assert_int_equal(open_with(0), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

void make(uint64_t disk_bytes, uint64_t log_bytes)
{
    device_open(&device, disk_bytes);
    make_here(log_bytes);
}

void make_saved(uint64_t disk_bytes, uint64_t log_bytes)
{
    make(disk_bytes, log_bytes);
    checkpoint();
}

void abandon(void)
{
    store_abandon(store);
    store = NULL;
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

void unmake(void)
{
    const char *why = "";
    if (store_check(store, &why))
        fail_msg("the store's own check: %s", why);
    abandon();
}

void commit_pages(uint64_t from, uint64_t to)
{
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 1);
    for (; from < to; from++)
        assert_int_equal(store_txn_page(group, object, from, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

void seal(void)
{
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(error, 0);
}

void all_home(void)
{
    uint64_t cursor = 0, owner, number, lsn, home;
    while (store_dirty_next(store, &cursor, &owner, &number, &lsn) == 0) {
        assert_int_equal(store_page_home(store, owner, number, &home), 0);
        assert_int_equal(io.write(io.context, home, page_bytes, sizeof page_bytes), 0);
        assert_int_equal(store_page_cleaned(store, owner, number, lsn,
                                            crc32c(0, page_bytes, sizeof page_bytes)), 0);
    }
}

void checkpoint(void)
{
    assert_int_equal(store_checkpoint_begin(store), 0);
    all_home();
    seal();
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

void alloc_fail(uint32_t i)
{
    memory_count = memory_fired = 0;
    memory_fail_at = i;
}

bool alloc_fired(void)
{
    memory_fail_at = 0;
    return memory_fired != 0;
}
