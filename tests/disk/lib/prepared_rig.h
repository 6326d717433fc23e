/*
 * prepared_rig.h - one store, and transactions of several stores in it: for test_prepared.c and
 * test_prepared_crash.c.
 */
#ifndef TESTS_DISK_PREPARED_RIG_H
#define TESTS_DISK_PREPARED_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "internal.h"
#include "life.h"
#include "opinion.h"


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

RIG struct store_txn_id id_of(uint8_t number)
{
    return (struct store_txn_id){ { 1, [15] = number } };
}

RIG int spill(struct bench *b, struct store_group *group, struct store_chain *chain,
                 uint64_t page, uint64_t value)
{
    uint8_t bytes[4096];
    fill(bytes, value);
    return store_spill_page(group, chain, b->object, page, bytes);
}

/* In the open group: pages [from, to) with value 100 + page, and the record. */
RIG int prepare_in(struct bench *b, struct store_group *group, uint8_t number, uint64_t from,
                      uint64_t to, struct store_chain **chain)
{
    struct store_prepare what = { .id = id_of(number), .coordinator = { 5 }, .data = "operations",
                                  .bytes = 10, .names = 1 };
    int error = *chain ? 0 : store_chain_begin(b->store, 2, chain);
    for (; from < to && !error; from++)
        error = spill(b, group, *chain, from, 100 + from);
    return error ? error : store_prepare(group, *chain, &what);
}

RIG int prepare(struct bench *b, uint8_t number, uint64_t from, uint64_t to)
{
    struct store_chain *chain = NULL;
    struct store_group *group = group_open(b);
    int error = prepare_in(b, group, number, from, to, &chain);
    if (!error) {
        group_done(group);
        return 0;
    }
    store_group_cancel(group);
    if (chain)
        store_chain_end(chain);
    return error;
}

RIG int decide(struct bench *b, uint8_t number)
{
    struct store_txn_id id = id_of(number);
    uint32_t position;
    struct store_group *group = group_open(b);
    store_txn_begin(group, 2);
    int error = store_txn_decided(group, &id, NULL, 0), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

RIG int alone(struct bench *b, uint8_t number,
                 int (*what)(struct store_group *, const struct store_txn_id *))
{
    struct store_txn_id id = id_of(number);
    struct store_group *group = group_open(b);
    int error = what(group, &id);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

RIG int write_page(struct bench *b, uint64_t page, uint64_t value)
{
    uint8_t bytes[4096];
    uint32_t position;
    struct store_group *group = group_open(b);
    fill(bytes, value);
    store_txn_begin(group, 3);
    int error = store_txn_page(group, b->object, page, bytes);
    int end = store_txn_end(group, &position);
    if (error || end)
        store_group_cancel(group);
    else
        group_done(group);
    return error ? error : end;
}

RIG void page_is(struct bench *b, uint64_t page, uint64_t value)
{
    uint8_t found[4096], wanted[4096] = { 0 };
    if (value)
        fill(wanted, value);
    assert_int_equal(store_page_read(b->store, b->object, page, found), 0);
    assert_memory_equal(found, wanted, 4096);
}

RIG uint32_t in_doubt(struct bench *b, bool prepared)
{
    struct store_doubt d;
    uint32_t cursor = 0, count = 0;
    while (store_doubt_next(b->store, &cursor, &d) == 0)
        count += d.prepared == prepared;
    return count;
}

RIG void clean(struct bench *b)
{
    uint64_t cursor = 0, object, page, lsn, home;
    uint8_t bytes[4096];
    while (store_dirty_next(b->store, &cursor, &object, &page, &lsn) == 0) {
        struct store_page at;
        assert_int_equal(store_page_find(b->store, object, page, &at), 0);
        if (at.log_offset_bytes)
            assert_int_equal(b->io.read(b->io.context, at.log_offset_bytes, bytes, 4096), 0);
        else
            fill(bytes, 7);
        assert_int_equal(store_page_home(b->store, object, page, &home), 0);
        assert_int_equal(b->io.write(b->io.context, home, bytes, 4096), 0);
        assert_int_equal(store_page_cleaned(b->store, object, page, lsn, crc32c(0, bytes, 4096)),
                         0);
    }
}

RIG void checkpoint(struct bench *b)
{
    int error;
    assert_int_equal(store_checkpoint_begin(b->store), 0);
    clean(b);
    while ((error = store_checkpoint_seal(b->store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(b->store), 0);
    assert_int_equal(store_checkpoint_apply(b->store), 0);
}

/* What is due; in how many groups. */
RIG uint64_t renew(struct bench *b)
{
    uint64_t groups = 0;
    for (int more = 1; more && store_doubts_due(b->store); groups++) {
        struct store_group *group = group_open(b);
        more = store_doubts_renew(group);
        if (more == -EAGAIN) {
            store_group_cancel(group);
            checkpoint(b);
            continue;
        }
        assert_in_range(more, 0, 1);
        group_done(group);
    }
    return groups;
}

RIG void kcheck_agrees(struct bench *b)
{
    struct kcheck_result own;
    char said[OPINION_BYTES];
    opinion_ask(&b->device, &own, said);
    if (own.error || own.damages)
        fail_msg("%s (error %d)", said, own.error);
}

#endif
