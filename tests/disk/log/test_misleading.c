/*
 * test_misleading.c - bytes of programs that look like the store's own in its log, and memory that
 * two groups have set aside.
 *
 * Aim     no program can write what a start takes for a group (LG6), wherever its bytes are;
 *         the store goes on, and opens for writing after a power cut.
 */
#include "prepared_rig.h"

/* A group of one block, whose CRC holds, of an epoch to come. */
static void group_make(const struct bench *b, uint8_t block[4096], uint64_t durable_lsn)
{
    struct group_disk header = { .magic = le64_of(GROUP_MAGIC), .lsn = le64_of(4096),
        .durable_lsn = le64_of(durable_lsn), .epoch = le32_of(EPOCH_LIMIT - 3),
        .blocks = le32_of(1), .records = le32_of(1), .payload_bytes = le32_of(4032) };
    memcpy(header.uuid_low.byte, b->store->super.uuid, 4);
    memset(block, 1, 4096);
    memcpy(block, &header, sizeof header);
    header.crc = le32_of(group_crc(&b->store->super, block, 4096, 0));
    memcpy(block, &header, sizeof header);
}

static int spill_bytes(struct bench *b, struct store_chain *chain, uint64_t page, const void *bytes)
{
    struct store_group *group = bench_group(b);
    int error = store_spill_page(group, chain, b->object, page, bytes);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    return error;
}

/* Aim: a start finds neither damage nor an epoch in what a program wrote. */
static void a_spilled_page_does_not_pass_for_a_group(void **state)
{
    (void)state;
    struct bench b;
    uint8_t block[4096];
    for (int i = 0; i < 3; i++) {
        struct store_chain *chain;
        bench_open(&b, 4 << 20, 1 << 20);
        group_make(&b, block, i ? 1ull << 40 : 0);
        if (i == 2)
            b.store->super.uuid[0] ^= 1;        /* of another store: these are bytes like any */
        assert_int_equal(store_chain_begin(b.store, 2, &chain), 0);
        assert_int_equal(spill_bytes(&b, chain, 0, block), i == 2 ? 0 : -EINVAL);
        if (i == 2)
            b.store->super.uuid[0] ^= 1;
        assert_int_equal(bench_spill(&b, bench_group(&b), chain, 1, 5), 0);
        store_group_cancel(&b.store->groups[b.store->next_group]);
        store_chain_end(chain);
        for (int n = 0; n < 2 && i < 2; n++) {
            assert_int_equal(write_page(&b, 3, 7), 0);
            bench_reopen(&b);
            page_is(&b, 3, 7);
        }
        bench_close(&b);
    }
}

/* Aim: in a large group pages come to lie at each distance from a block. */
static void no_record_passes_for_a_group(void **state)
{
    (void)state;
    struct bench b;
    struct group_disk header;
    uint8_t block[4096], page[4096];
    uint32_t position;
    unsigned refused = 0;
    bench_open(&b, 16 << 20, 4 << 20);
    group_make(&b, block, 1ull << 40);
    memset(page, 1, sizeof page);
    for (size_t at = 16; at + sizeof header <= sizeof page; at += sizeof header)
        memcpy(page + at, block, sizeof header);
    struct store_group *group = bench_group(&b);
    for (uint64_t i = 0; i < 120; i++) {
        store_txn_begin(group, 3);
        assert_int_equal(store_txn_page(group, b.object, i, page), 0);
        int error = store_txn_end(group, &position);
        assert_true(error == 0 || error == -EINVAL);
        refused += error != 0;
        if (error) {                            /* what comes next lies elsewhere */
            value_fill(block, i);
            store_txn_begin(group, 3);
            assert_int_equal(store_txn_page(group, b.object, 200 + i, block), 0);
            assert_int_equal(store_txn_end(group, &position), 0);
        }
    }
    group_done(group);
    assert_true(refused > 0);
    for (size_t at = 4096; at + sizeof header <= group->bytes; at += 4096) {
        memcpy(&header, group->buffer + at, sizeof header);
        assert_false(le64_get(header.magic) == GROUP_MAGIC &&
                     memcmp(header.uuid_low.byte, b.store->super.uuid, 4) == 0);
    }
    bench_reopen(&b);
    bench_close(&b);
}

/* Aim: decisions whose participants, which other sites name, are written again as they are; each
 * commits in a group of its own, and then all come to lie behind each other. */
static void what_is_written_again_does_not_pass_for_a_group(void **state)
{
    (void)state;
    enum { COUNT = 16, BEFORE = 5 * 24 + 8 };   /* bytes of the last one's participants */
    struct bench b;
    uint8_t block[4096];
    uint64_t bytes[8 * 3] = { 0 };
    uint32_t position;
    bench_open(&b, 16 << 20, 4 << 20);
    group_make(&b, block, 1ull << 40);
    memcpy((uint8_t *)bytes + BEFORE, block, sizeof(struct group_disk));
    struct store_participant to[8];
    for (int i = 0; i < 8; i++) {
        memcpy(to[i].store, bytes + 3 * i, sizeof to[i].store);
        to[i].number = bytes[3 * i + 2];
    }
    for (uint8_t i = 0; i < COUNT; i++) {
        struct store_group *group = bench_group(&b);
        struct store_txn_id id = txn_id(i);
        store_txn_begin(group, 3);
        assert_int_equal(store_txn_decided(group, &id, to, 8), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
    }
    b.store->doubts.anew_lsn = b.store->log.end;
    struct store_group *group = bench_group(&b);
    assert_int_equal(store_doubts_renew(group), 0);
    assert_true(group->used > 4096 && group->records == COUNT + 1);
    assert_false(group_misleads(group, 1));
    group_done(group);
    for (int i = 0; i < 2; i++) {
        kcheck_agrees(&b);
        bench_reopen(&b);
        assert_int_equal(in_doubt(&b, false), COUNT);
    }
    bench_close(&b);
}

/* Aim (ME2): what a large group has set aside is not given away when another one ends. */
static void a_group_keeps_its_memory_beside_others(void **state)
{
    (void)state;
    struct bench b;
    uint8_t bytes[4096];
    uint32_t position;
    for (int cancel = 0; cancel < 2; cancel++) {
        bench_open(&b, 64ull << 20, 8 << 20);
        struct store_op claim = { .type = STORE_OP_PAGE_CLAIM, .object = b.object, .page = 0,
                                  .count = 4 * 3000 };
        struct store_group *first = bench_group(&b);
        value_fill(bytes, 7);
        if (!cancel) {
            store_txn_begin(first, 3);
            assert_int_equal(store_txn_page(first, b.object, 20000, bytes), 0);
            assert_int_equal(store_txn_end(first, &position), 0);
            assert_int_equal(store_group_seal(first), 0);
        } else {
            store_txn_begin(first, 3);
            assert_int_equal(store_txn_op(first, &claim), 0);
            assert_int_equal(store_txn_end(first, &position), 0);
            assert_int_equal(store_group_seal(first), 0);
            assert_int_equal(store_group_issue(first), 0);
        }
        struct store_group *second = bench_group(&b);
        if (!cancel) {
            store_txn_begin(second, 3);
            assert_int_equal(store_txn_op(second, &claim), 0);
            assert_int_equal(store_txn_end(second, &position), 0);
            assert_int_equal(store_group_write(first), 0);
            assert_int_equal(store_group_apply(first), 0);
            group_done(second);
        } else {
            store_group_cancel(second);
            assert_int_equal(store_group_write(first), 0);
            assert_int_equal(store_group_apply(first), 0);
        }
        assert_true(b.store->spares.count <= 64);
        bench_reopen(&b);
        kcheck_agrees(&b);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spilled_page_does_not_pass_for_a_group),
        cmocka_unit_test(no_record_passes_for_a_group),
        cmocka_unit_test(what_is_written_again_does_not_pass_for_a_group),
        cmocka_unit_test(a_group_keeps_its_memory_beside_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
