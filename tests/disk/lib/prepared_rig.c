/*
 * prepared_rig.c - see prepared_rig.h.
 */
#include "prepared_rig.h"

#include "crew.h"
#include "opinion.h"

struct store_txn_id txn_id(uint8_t number)
{
    return (struct store_txn_id){ { 1, [15] = number } };
}

int prepare_in(struct bench *b, struct store_group *group, uint8_t number, uint64_t from,
               uint64_t to, struct store_chain **chain)
{
    struct store_prepare what = { .id = txn_id(number), .coordinator = { 5 }, .data = "operations",
                                  .bytes = 10, .names = 1 };
    int error = *chain ? 0 : store_chain_begin(b->store, 2, chain);
    for (; from < to && !error; from++)
        error = bench_spill(b, group, *chain, from, 100 + from);
    return error ? error : store_prepare(group, *chain, &what);
}

int prepare(struct bench *b, uint8_t number, uint64_t from, uint64_t to)
{
    struct store_chain *chain = NULL;
    struct store_group *group = bench_group(b);
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

int decide(struct bench *b, uint8_t number)
{
    struct store_txn_id id = txn_id(number);
    uint32_t position;
    struct store_group *group = bench_group(b);
    store_txn_begin(group, 2);
    int error = store_txn_decided(group, &id, NULL, 0), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

int bench_alone(struct bench *b, uint8_t number,
                int (*what)(struct store_group *, const struct store_txn_id *))
{
    struct store_txn_id id = txn_id(number);
    struct store_group *group = bench_group(b);
    int error = what(group, &id);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

int write_page(struct bench *b, uint64_t page, uint64_t value)
{
    uint8_t bytes[4096];
    uint32_t position;
    struct store_group *group = bench_group(b);
    value_fill(bytes, value);
    store_txn_begin(group, 3);
    int error = store_txn_page(group, b->object, page, bytes);
    int end = store_txn_end(group, &position);
    if (error || end)
        store_group_cancel(group);
    else
        group_done(group);
    return error ? error : end;
}

uint32_t in_doubt(struct bench *b, bool prepared)
{
    struct store_doubt d;
    uint64_t cursor = 0;
    uint32_t count = 0;
    while (store_doubt_next(b->store, &cursor, &d) == 0)
        count += d.prepared == prepared;
    return count;
}

void bench_clean(struct bench *b)
{
    uint64_t cursor = 0, object, page, lsn, home;
    uint8_t bytes[4096];
    while (store_dirty_next(b->store, &cursor, &object, &page, &lsn) == 0) {
        struct store_page at;
        assert_int_equal(store_page_find(b->store, object, page, &at), 0);
        if (at.log_offset_bytes)
            assert_int_equal(b->io.read(b->io.context, at.log_offset_bytes, bytes, 4096), 0);
        else
            value_fill(bytes, 7);
        assert_int_equal(store_page_home(b->store, object, page, &home), 0);
        assert_int_equal(b->io.write(b->io.context, home, bytes, 4096), 0);
        assert_int_equal(store_page_cleaned(b->store, object, page, lsn, crc32c(0, bytes, 4096)),
                         0);
    }
}

void bench_checkpoint(struct bench *b)
{
    int error;
    assert_int_equal(store_checkpoint_begin(b->store), 0);
    bench_clean(b);
    while ((error = store_checkpoint_seal(b->store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(b->store), 0);
    assert_int_equal(store_checkpoint_apply(b->store), 0);
}

uint64_t bench_renew(struct bench *b)
{
    uint64_t groups = 0;
    for (int more = 1; more && store_doubts_due(b->store); groups++) {
        struct store_group *group = bench_group(b);
        more = store_doubts_renew(group);
        if (more == -EAGAIN) {
            store_group_cancel(group);
            bench_checkpoint(b);
            continue;
        }
        assert_in_range(more, 0, 1);
        group_done(group);
    }
    return groups;
}

void kcheck_agrees(struct bench *b)
{
    struct kcheck_result own;
    char said[OPINION_BYTES];
    opinion_ask(&b->device, &own, said);
    if (own.error || own.damages)
        fail_msg("%s (error %d)", said, own.error);
}
