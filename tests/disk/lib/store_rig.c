/*
 * store_rig.c - see store_rig.h.
 */
#include "store_rig.h"

void bench_reopen(struct bench *b)
{
    if (b->store)
        store_abandon(b->store);
    b->store = NULL;
    assert_int_equal(store_open(&b->io, &test_memory, NULL, &b->store, &b->report), 0);
}

struct store_group *bench_group(struct bench *b)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(b->store, &group), 0);
    return group;
}

int bench_op(struct bench *b, struct store_op *op)
{
    uint32_t position;
    struct store_group *group = bench_group(b);
    store_txn_begin(group, 1);
    int error = store_txn_op(group, op), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

void bench_open(struct bench *b, uint64_t disk_bytes, uint64_t log_bytes)
{
    struct store_options format = { .uuid = { 9 }, .log_bytes = log_bytes };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "c" };
    memset(b, 0, sizeof *b);
    device_open(&b->device, disk_bytes);
    b->io = device_io(&b->device);
    assert_int_equal(store_format(&b->io, &test_memory, &format), 0);
    bench_reopen(b);
    assert_int_equal(bench_op(b, &op), 0);
    b->object = op.object;
}

void bench_close(struct bench *b)
{
    const char *why;
    if (b->store) {
        assert_int_equal(store_check(b->store, &why), 0);
        store_abandon(b->store);
    }
    device_close(&b->device);
    assert_int_equal(memory_live, 0);
}

void value_fill(uint8_t *bytes, uint64_t value)
{
    uint64_t random = value;
    for (uint32_t i = 0; i < 4096; i += 8) {
        uint64_t x = random_next(&random);
        memcpy(bytes + i, &x, 8);
    }
}

int bench_spill(struct bench *b, struct store_group *group, struct store_chain *chain,
                uint64_t page, uint64_t value)
{
    uint8_t bytes[4096];
    value_fill(bytes, value);
    return store_spill_page(group, chain, b->object, page, bytes);
}

void page_is(struct bench *b, uint64_t page, uint64_t value)
{
    uint8_t found[4096], wanted[4096] = { 0 };
    if (value)
        value_fill(wanted, value);
    assert_int_equal(store_page_read(b->store, b->object, page, found), 0);
    assert_memory_equal(found, wanted, 4096);
}
