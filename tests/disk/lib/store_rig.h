/*
 * store_rig.h - one store with one container on a simulated disk, and groups of its log: for
 * test_chain.c and, by prepared_rig.h, for the tests of prepared transactions.
 */
#ifndef TESTS_DISK_STORE_RIG_H
#define TESTS_DISK_STORE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device.h"
#include "internal.h"

#define RIG __attribute__((unused)) static

struct bench {
    struct device device;
    struct disk_io io;
    struct store *store;
    struct store_report report;
    uint64_t object;
};

RIG void reopen(struct bench *b)
{
    if (b->store)
        store_abandon(b->store);
    b->store = NULL;
    assert_int_equal(store_open(&b->io, &test_memory, NULL, &b->store, &b->report), 0);
}

RIG struct store_group *group_open(struct bench *b)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(b->store, &group), 0);
    return group;
}

RIG void group_done(struct store_group *group)
{
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

RIG int one_op(struct bench *b, struct store_op *op)
{
    uint32_t position;
    struct store_group *group = group_open(b);
    store_txn_begin(group, 1);
    int error = store_txn_op(group, op), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

RIG void bench_open(struct bench *b, uint64_t disk_bytes, uint64_t log_bytes)
{
    struct store_options format = { .uuid = { 9 }, .log_bytes = log_bytes };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "c" };
    memset(b, 0, sizeof *b);
    device_open(&b->device, disk_bytes);
    b->io = device_io(&b->device);
    assert_int_equal(store_format(&b->io, &test_memory, &format), 0);
    reopen(b);
    assert_int_equal(one_op(b, &op), 0);
    b->object = op.object;
}

RIG void bench_close(struct bench *b)
{
    const char *why;
    if (b->store) {
        assert_int_equal(store_check(b->store, &why), 0);
        store_abandon(b->store);
    }
    device_close(&b->device);
    assert_int_equal(memory_live, 0);
}

RIG void fill(uint8_t *bytes, uint64_t value)
{
    uint64_t random = value;
    for (uint32_t i = 0; i < 4096; i += 8) {
        uint64_t x = random_next(&random);
        memcpy(bytes + i, &x, 8);
    }
}

RIG int spill(struct bench *b, struct store_group *group, struct store_chain *chain,
                 uint64_t page, uint64_t value)
{
    uint8_t bytes[4096];
    fill(bytes, value);
    return store_spill_page(group, chain, b->object, page, bytes);
}

RIG void page_is(struct bench *b, uint64_t page, uint64_t value)
{
    uint8_t found[4096], wanted[4096] = { 0 };
    if (value)
        fill(wanted, value);
    assert_int_equal(store_page_read(b->store, b->object, page, found), 0);
    assert_memory_equal(found, wanted, 4096);
}

#endif
