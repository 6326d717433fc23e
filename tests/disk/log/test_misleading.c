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

/* Aim: nor does one that two parts of the log fill: the end of a page's bytes, so many of them in
 * the block, and the commit behind it, which has the owner's number, its own length, and how many
 * records there are. */
static void seam_try(struct bench *b, uint32_t uuid_low, uint32_t inside, int wanted)
{
    enum { DATA = 4096 - sizeof(struct group_disk) - sizeof(struct record_disk) };
    struct group_disk header = { .magic = le64_of(GROUP_MAGIC), .uuid_low = le32_of(uuid_low) };
    struct store_group *group = bench_group(b);
    uint32_t bytes = DATA + inside, position;
    uint16_t count = (uint16_t)(bytes - 4);
    uint8_t *runs, page[4096] = { 1 };
    memcpy(b->store->super.uuid, header.uuid_low.byte, 4);
    store_txn_begin(group, uuid_low);
    assert_int_equal(store_txn_diff_space(group, bytes, (void **)&runs), 0);
    memset(runs, 1, bytes);
    memset(runs, 0, 2);
    memcpy(runs + 2, &count, 2);
    memcpy(runs + DATA, &header, MIN(inside, sizeof header));
    assert_int_equal(store_txn_diff_done(group, b->object, 3, STORE_BASE_NEWEST, bytes), 0);
    assert_int_equal(store_txn_end(group, &position), wanted);
    store_txn_begin(group, uuid_low);           /* others of the group are none the worse */
    assert_int_equal(store_txn_page(group, b->object, 100, page), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_false(passes_for_group(b->store, group->buffer + 4096));
    store_group_cancel(group);
}

static void no_block_that_two_fill_passes_for_a_group(void **state)
{
    (void)state;
    struct bench b;
    enum { RECORDS = 1, LENGTH = sizeof(struct record_disk) };
    bench_open(&b, 16 << 20, 4 << 20);
    assert_int_equal(write_page(&b, 3, 7), 0);
    for (uint32_t inside = 8; inside <= 64; inside += 8) {
        bool always = inside == 16 || inside >= 40;     /* the owner is any number */
        seam_try(&b, 0x94939291, inside, always ? -EINVAL : 0);
        seam_try(&b, RECORDS, inside, always || inside == 8 ? -EINVAL : 0);
        seam_try(&b, LENGTH, inside, always || inside == 32 ? -EINVAL : 0);
    }
    bench_close(&b);
}

/* The ways of a name, and of other numbers of a program's, into the log. */
static int op_try(struct store_group *group, struct store_op op)
{
    uint32_t position;
    store_txn_begin(group, 4);
    int error = store_txn_op(group, &op), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    return error;
}

/* Aim: what others have to write once more, in whatever order, begins nowhere as a group: so names
 * are refused where they come from, and those of the same group are none the worse. */
static void no_name_begins_as_a_group(void **state)
{
    (void)state;
    struct bench b;
    struct store_layout layout = { .type = "t" };
    char name[64];
    uint64_t magic = GROUP_MAGIC;
    bench_open(&b, 16 << 20, 4 << 20);
    struct store_group *group = bench_group(&b);
    struct store_op set = { .type = STORE_OP_NAME_SET, .object = b.object, .name = name },
                    create = { .type = STORE_OP_CREATE, .name = name },
                    rename = { .type = STORE_OP_RENAME, .object = b.object, .name = name },
                    type = { .type = STORE_OP_LAYOUT, .object = b.object, .layout = &layout };
    for (unsigned at = 0; at + 8 < sizeof name; at += 4) {
        memset(name, 'a', 63);
        name[63] = '\0';
        memcpy(name + at, &magic, 8);
        memcpy(layout.type, name, sizeof name);
        int wanted = at % 8 ? 0 : -EINVAL;
        assert_int_equal(op_try(group, set), wanted);
        assert_int_equal(op_try(group, create), wanted);
        assert_int_equal(op_try(group, rename), wanted ?: -EEXIST);
        assert_int_equal(op_try(group, type), wanted);
        strcpy(name, "plain");
        name[5] = (char)('0' + at / 8);
        name[6] = at % 8 ? 'b' : 'a';
        name[7] = '\0';
        assert_int_equal(op_try(group, create), 0);
    }
    set.bytes = magic;                          /* how large an object is, is a program's, too */
    assert_int_equal(op_try(group, set), -EINVAL);
    layout = (struct store_layout){ "t", (uint32_t)magic, (uint32_t)(magic >> 32) };
    assert_int_equal(op_try(group, type), -EINVAL);
    group_done(group);
    bench_reopen(&b);
    kcheck_agrees(&b);
    bench_close(&b);
}

/* Aim: nor does what a commit says of itself. */
static void no_commit_begins_as_a_group(void **state)
{
    (void)state;
    struct bench b;
    uint8_t page[4096] = { 1 };
    uint32_t position;
    bench_open(&b, 16 << 20, 4 << 20);
    struct store_group *group = bench_group(&b);
    for (unsigned i = 0; i < 3; i++) {
        store_txn_begin(group, i == 0 ? GROUP_MAGIC : 3);
        store_txn_id(group, i == 1 ? GROUP_MAGIC : 5);
        assert_int_equal(store_txn_page(group, b.object, 1, page), 0);
        assert_int_equal(store_txn_end(group, &position), i < 2 ? -EINVAL : 0);
    }
    group_done(group);
    bench_close(&b);
}

static int decided_try(struct store_group *group, const struct store_txn_id *id,
                       const struct store_participant *to, uint32_t count)
{
    uint32_t position;
    store_txn_begin(group, 3);
    int error = store_txn_decided(group, id, to, count), end = store_txn_end(group, &position);
    assert_int_equal(error, end);
    return error;
}

/* Aim: votes and decisions are written again wherever it is their turn: none comes into the log
 * with a word that begins a group, in what others chose of it, and what is there stays. */
static void no_vote_or_decision_begins_as_a_group(void **state)
{
    (void)state;
    struct bench b;
    uint8_t kept[2 * 112] = { 0 };
    uint64_t magic = GROUP_MAGIC;
    bench_open(&b, 16 << 20, 4 << 20);
    struct store_chain *chain = NULL;
    struct store_group *group = bench_group(&b);
    assert_int_equal(store_chain_begin(b.store, 2, &chain), 0);
    assert_int_equal(bench_spill(&b, group, chain, 1, 100), 0);
    const struct store_prepare good = { .id = txn_id(9), .data = kept, .bytes = sizeof kept };
    for (unsigned i = 0; i < 4 + sizeof kept / 8; i++) {
        struct store_prepare what = good;
        uint8_t *to = i < 2 ? what.id.bytes + 8 * i : i < 4 ? what.coordinator + 8 * (i - 2)
                                                            : kept + 8 * (i - 4);
        memcpy(to, &magic, 8);
        assert_int_equal(store_prepare(group, chain, &what), -EINVAL);
        memset(kept, 0, sizeof kept);
    }
    memcpy(kept + 52, &magic, 8);
    assert_int_equal(store_prepare(group, chain, &good), 0);
    for (unsigned i = 0; i < 8; i++) {
        struct store_participant to[2] = { { .number = 1 }, { .number = 2 } };
        struct store_txn_id id = txn_id(1);
        uint8_t *at = i < 2 ? id.bytes + 8 * i : (uint8_t *)to + 8 * (i - 2);
        memcpy(at, &magic, 8);
        assert_int_equal(decided_try(group, &id, to, 2), -EINVAL);
    }
    struct store_txn_id id = txn_id(1);
    struct store_participant to = { .number = 1 };
    assert_int_equal(decided_try(group, &id, &to, 1), 0);
    group_done(group);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(in_doubt(&b, true), 1);
        assert_int_equal(in_doubt(&b, false), 1);
        b.store->doubts.anew_lsn = b.store->log.end;
        assert_int_equal(bench_renew(&b), 1);
        kcheck_agrees(&b);
        bench_reopen(&b);
    }
    assert_int_equal(decide(&b, 9), 0);
    page_is(&b, 1, 100);
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
        cmocka_unit_test(no_block_that_two_fill_passes_for_a_group),
        cmocka_unit_test(no_name_begins_as_a_group),
        cmocka_unit_test(no_commit_begins_as_a_group),
        cmocka_unit_test(no_vote_or_decision_begins_as_a_group),
        cmocka_unit_test(a_group_keeps_its_memory_beside_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
