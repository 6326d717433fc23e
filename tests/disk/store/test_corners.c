/*
 * test_corners.c - calls at moments and of sizes that no workload has: tables that are full, two
 * groups on their way at once, limits to the last page. (Chains in every state: test_spill.)
 */
#include "stage.h"

/* ---- tables that are full */

static void a_full_directory_refuses_containers_and_names(void **state)
{
    (void)state;
    uint64_t made;
    char name[16];
    int error = 0;
    make(16 << 20, 4 << 20);
    uint32_t containers = 1, names = 0;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (; !error; containers += !error) {
        snprintf(name, sizeof name, "n%u", containers);
        error = create(group, name, 0, 0, &made);
        if (!error)
            assert_int_equal(txn_next(group), 0);
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(containers, store->super.directory_pages_max * CONTAINERS_PER_PAGE);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    for (error = 0; !error; names += !error) {
        snprintf(name, sizeof name, "n%u", names);
        error = op(group, STORE_OP_NAME_SET, object, name);
        if (!error)
            error = txn_next(group);
        if (error == -ENOBUFS) {        /* in more groups than one */
            store_txn_cancel(group);
            group_done(group);
            group = group_open();
            store_txn_begin(group, 1);
            error = 0;
            names--;
        }
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(names, store->super.names_pages_max * NAMES_PER_PAGE);
    store_txn_cancel(group);
    group_done(group);
    unmake();
}

/* Aim: a container has so many segments and no more, and addresses come to an end. */
static void addresses_come_to_an_end(void **state)
{
    (void)state;
    int error = 0;
    uint32_t segments = 1;
    uint64_t made;
    make(1 << 20, 256 << 10);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (; !error; segments += !error) {
        error = op(group, STORE_OP_GROW, object, NULL);
        if (!error)
            assert_int_equal(txn_next(group), 0);
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(segments, STORE_SEGMENT_MAX);
    store_txn_cancel(group);
    group_done(group);
    for (uint32_t i = 0;; i++) {        /* others take the rest */
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        group = group_open();
        store_txn_begin(group, 1);
        error = create(group, name, 0, 0, &made);
        for (segments = 1; !error && segments < STORE_SEGMENT_MAX; segments++)
            error = op(group, STORE_OP_GROW, made, NULL);
        if (!error)
            error = txn_next(group);
        store_txn_cancel(group);
        if (error)
            break;
        group_done(group);
    }
    assert_int_equal(error, -ENOSPC);
    group_done(group);
    unmake();
}

/* Aim: segments that overlap, as in a spoiled directory, are not doubled beyond the zone. */
static void more_segments_than_the_zone_holds(void **state)
{
    (void)state;
    make(1 << 20, 256 << 10);
    struct container_disk *container = directory_get(store, object, NULL), good = *container;
    container->segment_count = le32_of(2);
    container->segments[0].gib = container->segments[1].gib =
        le32_of((uint32_t)(STORE_ZONE_BYTES / STORE_SEGMENT_UNIT));
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_GROW, object, NULL), -ENOSPC);
    store_txn_cancel(group);
    store_group_cancel(group);
    *container = good;
    unmake();
}

/* Aim: the first pages of many new containers, some of which share a head of the claims. */
static void claims_of_many_containers(void **state)
{
    (void)state;
    uint64_t made[60], at = 0, random = 1, id = 100;
    make(16 << 20, 4 << 20);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (uint32_t i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        id += 1 + random_below(&random, 1 << 20);
        assert_int_equal(create(group, name, id, 0, &made[i]), 0);
        assert_int_equal(store_txn_page(group, made[i], 0, page_bytes), 0);
    }
    assert_int_equal(txn_next(group), 0);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(txn_diff(group, made[i], 0, 0, NULL, 0, NULL), -ESTALE);
    store_txn_cancel(group);
    group_done(group);
    for (uint32_t i = 0; i < 60; i++) {
        struct store_page found;
        assert_int_equal(store_page_find(store, made[i], 0, &found), 0);
        assert_true(found.present && found.offset_bytes != at);
        at = found.offset_bytes;
    }
    struct store_chain *chain;          /* and so with images of a chain */
    uint32_t crc;
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 10 == 0)
            group = group_open();
        assert_int_equal(spill(group, chain, made[i], 9), 0);
        if (i % 10 == 9)
            group_done(group);
    }
    for (uint32_t i = 0; i < 60; i += 2)
        store_spill_drop(chain, made[i], 9);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(store_spill_find(store, chain, made[i], 9, &at, &crc),
                         i % 2 ? 0 : -ENOENT);
    store_chain_end(chain);
    unmake();
}

/* Aim: the table of images is bounded, however large the log. */
static void the_heads_of_a_large_log(void **state)
{
    (void)state;
    struct store_chain *chain;
    make(1 << 20, 64 << 10);
    uint64_t log_bytes = store->super.log_bytes;
    store->super.log_bytes = 8ull << 30;
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    assert_true(store->spill_head_count <= 65536);
    store->super.log_bytes = log_bytes;
    store_chain_end(chain);
    unmake();
}

/* Aim: a container that is restored gets the id and address it had, or is refused. */
static void wanted_ids_and_addresses(void **state)
{
    (void)state;
    uint64_t made, base = STORE_REGION_BASE;
    make(1 << 20, 256 << 10);
    struct store_group *group = group_open();
    static const struct { uint64_t want, gib_bytes; int error; } cases[] = {
        { 1, 0, -EEXIST },                              /* was given */
        { 1ull << 62, 0, -EEXIST },                     /* no id is so large */
        { 50, 7 * STORE_SEGMENT_UNIT + 4096, -EINVAL },
        { 50, STORE_ZONE_BYTES, -EINVAL },
        { 50, 0x1000, -EINVAL },
        { 50, 7 * STORE_SEGMENT_UNIT, 0 },
        { 51, 7 * STORE_SEGMENT_UNIT, -EEXIST },
        { 52, 5 * STORE_SEGMENT_UNIT, 0 },
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        store_txn_begin(group, 1);
        assert_int_equal(create(group, i >= 6 ? "y" : "x", cases[i].want,
                                cases[i].gib_bytes ? base + cases[i].gib_bytes : 0, &made),
                         cases[i].error);
        uint32_t position;
        assert_int_equal(store_txn_end(group, &position), cases[i].error);
    }
    group_done(group);
    unmake();
}

/* ---- names and containers that are planned only */

static void names_of_a_group_that_is_not_applied(void **state)
{
    (void)state;
    uint64_t made, other;
    make(1 << 20, 256 << 10);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "a", 0, 0, &made), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(op(group, STORE_OP_NAME_SET, made, "n"), 0);
    assert_int_equal(op(group, STORE_OP_LAYOUT, made, "n"), -EINVAL);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_NAME_SET, made, "n"), 0);
    assert_int_equal(op(group, STORE_OP_RENAME, made, "n"), 0); /* the same word, another kind */
    assert_int_equal(op(group, STORE_OP_NAME_UNSET, made, "n"), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(op(group, STORE_OP_NAME_UNSET, made, "n"), -ENOENT);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_RENAME, made, "b"), 0);
    assert_int_equal(create(group, "n", 0, 0, &other), 0);          /* it is free again */
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(op(group, STORE_OP_NAME_SET, made, "d"), 0);   /* no owner of "b" changes */
    assert_int_equal(create(group, "b", 0, 0, &other), -EEXIST);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    struct store_layout layout = { .type = "t" };
    struct store_op set = { .type = STORE_OP_LAYOUT, .object = made, .layout = &layout };
    assert_int_equal(store_txn_op(group, &set), 0);
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(create(group, "b", 0, 0, &other), -EEXIST);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_DELETE, made, NULL), 0);
    assert_int_equal(create(group, "b", 0, 0, &other), 0);
    assert_int_equal(txn_next(group), 0);
    store_txn_cancel(group);
    group_done(group);
    unmake();
}

/* Aim: among many names of one group each is told from every other one, also where hashes are the
 * same. */
static void many_names_of_one_group(void **state)
{
    (void)state;
    static const char *const same[2] = { "n54329", "n125852" };     /* have one key (name_key) */
    uint32_t position;
    uint64_t other;
    char name[16];
    make(16 << 20, 4 << 20);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "other", 0, 0, &other), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 400), 0);
    assert_int_equal(op(group, STORE_OP_NAME_SET, object, same[0]), 0);
    assert_int_equal(op(group, STORE_OP_NAME_UNSET, other, same[0]), -ENOENT);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_NAME_SET, object, same[0]), 0);
    assert_int_equal(op(group, STORE_OP_NAME_UNSET, object, same[1]), -ENOENT);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "other", 0, 0, &other), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 400), 0);
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(op(group, STORE_OP_NAME_SET, i % 3 ? object : other, name), 0);
    }
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(op(group, STORE_OP_NAME_UNSET, i % 3 ? object : other, name), 0);
    }
    assert_int_equal(op(group, STORE_OP_NAME_UNSET, object, "1"), -ENOENT);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(op(group, STORE_OP_NAME_SET, object, name), 0);
        assert_int_equal(op(group, i % 2 ? STORE_OP_NAME_UNSET : STORE_OP_NAME_SET, object, name),
                         0);
    }
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store->kept.names, 150);
    unmake();
}

/* ---- groups beside each other */

static void a_fence_stops_groups_in_every_state(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    struct store_group *first = group_open(), *second;
    assert_int_equal(store_group_seal(first), 0);
    assert_int_equal(store_group_issue(first), 0);
    second = group_open();
    assert_int_equal(store_group_seal(second), 0);
    device.fail_kinds = FAIL_WRITE;
    device.requests = 0;
    device.fail_at = 1;
    assert_int_equal(store_group_issue(second), -EIO);
    assert_int_equal(store_group_write(first), -EIO);   /* not flushed, so not acknowledged */
    assert_int_equal(store_group_apply(first), -EIO);
    assert_int_equal(store_group_apply(second), -EIO);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    struct store_chain *chain, *other;
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    first = group_open();
    fence_set(store, -EIO);
    assert_int_equal(store_spill_page(first, chain, object, 0, page_bytes), -EIO);
    assert_int_equal(store_group_seal(first), -EIO);
    assert_int_equal(store_chain_begin(store, 1, &other), -EIO);
    store_chain_end(chain);
    store_group_cancel(first);
    unmake();
}

/* ---- memory that the caller zeroes */

static void *zeroed(void *context, size_t bytes)
{
    void *memory = test_memory.alloc(context, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static void memory_may_come_zeroed(void **state)
{
    (void)state;
    struct disk_memory memory = test_memory;
    make(1 << 20, 64 << 10);
    store_abandon(store);
    memory.alloc_zeroed = zeroed;
    assert_int_equal(store_open(&io, &memory, NULL, &store, &report), 0);
    unmake();
}
/* ---- claims */

/* Aim: more claims than a group keeps memory for; they are given up and made again. */
static void more_claims_than_a_group_keeps(void **state)
{
    (void)state;
    make(40 << 20, 1 << 20);
    uint64_t free_extents = store->space.free;
    for (uint32_t i = 0; i < 2; i++) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 3, 7000), 0);
        assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 3, 7000), 0);
        assert_true(group->claims.count > 8192);
        assert_int_equal(txn_next(group), 0);
        store_txn_cancel(group);
        if (i)
            group_done(group);
        else
            store_group_cancel(group);
    }
    checkpoint();
    assert_int_equal(store->space.free, free_extents);
    unmake();
}

/* Aim: a claim whose extents do not follow one another and whose records do not fit into a
 * group. */
static void a_claim_of_scattered_extents_that_does_not_fit(void **state)
{
    (void)state;
    struct store_open_options small = { .group_bytes = 2 * BLOCK_BYTES };
    uint32_t position;
    make(8 << 20, 64 << 10);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, &small, &store, &report), 0);
    for (uint64_t i = 1; i < store->super.extents; i += 2)      /* every second one is taken */
        store->extents[i].state = EXTENT_RESERVED;
    uint64_t free_extents = store->space.free;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 200 * store->extent_pages), -E2BIG);
    assert_int_equal(store_txn_end(group, &position), -E2BIG);
    store_group_cancel(group);
    assert_int_equal(store->space.free, free_extents);
    abandon();
}

/* Aim: claims of pending groups, of this container and of others, below its top and above. */
static void unused_pages_beside_claims(void **state)
{
    (void)state;
    uint64_t other, first, n;
    make(4 << 20, 1 << 20);
    n = store->extent_pages;
    commit_pages(3 * n, 3 * n + 1);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "d", 0, 0, &other), 0);
    struct store_op wide = { .type = STORE_OP_PAGE_CLAIM, .object = other, .count = 9 * n };
    assert_int_equal(store_txn_op(group, &wide), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, n, 2), 0);
    assert_int_equal(store_pages_unused(store, object, n, 2, NULL, NULL, &first), 0);
    assert_int_equal(first, n + 2);
    assert_int_equal(store_pages_unused(store, object, 3 * n, 1, NULL, NULL, &first), 0);
    assert_int_equal(first, 3 * n + 1);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 7 * n, n), 0);
    assert_int_equal(store_pages_unused(store, object, 4 * n, 4 * n, NULL, NULL, &first), 0);
    assert_int_equal(first, 8 * n);
    assert_int_equal(txn_next(group), 0);
    store_txn_cancel(group);
    group_done(group);
    unmake();
}

/* Aim: a group whose predecessor has failed is not applied over the gap, though its own flush went
 * well: the store shows nothing of it, and it is not acknowledged. What the disk holds, recovery
 * says. */
static void no_group_is_applied_over_a_gap(void **state)
{
    (void)state;
    struct store_group *two[2];
    struct store_page at;
    for (uint32_t kind = FAIL_WRITE; kind <= FAIL_FLUSH; kind *= 2) {
        make(1 << 20, 256 << 10);
        for (uint64_t i = 0; i < 2; i++) {
            two[i] = group_open();
            store_txn_begin(two[i], 1);
            assert_int_equal(store_txn_page(two[i], object, i, page_bytes), 0);
            assert_int_equal(txn_next(two[i]), 0);
            assert_int_equal(store_group_seal(two[i]), 0);
        }
        if (kind == FAIL_FLUSH)
            assert_int_equal(store_group_issue(two[0]), 0);
        assert_int_equal(store_group_write(two[1]), 0);
        device.requests = 0;
        device.fail_kinds = kind;
        device.fail_at = 1;
        assert_int_equal(store_group_write(two[0]), -EIO);
        device.fail_kinds = 0;
        for (uint64_t i = 0; i < 2; i++) {
            assert_int_equal(store_group_apply(two[i]), -EIO);
            assert_int_equal(store_page_find(store, object, i, &at), 0);
            assert_false(at.present);
        }
        store_abandon(store);
        assert_int_equal(open_with(0), 0);
        for (uint64_t i = 0; i < 2; i++) {      /* both were written, or the first is missing */
            assert_int_equal(store_page_find(store, object, i, &at), 0);
            assert_int_equal(at.present, kind == FAIL_FLUSH);
        }
        unmake();
    }
}

/* Aim: what an operation does not say right is refused, and no name that it does not need is looked
 * at. */
static void operations_that_say_it_wrong(void **state)
{
    (void)state;
    struct store_layout layout = { .version = 1 };
    struct store_op encoder = { .type = STORE_OP_ENCODER,
                                .object = object,
                                .encoder = STORE_ENCODER_COUNT };
    make(1 << 20, 256 << 10);
    struct store_op locking[] = {
        { .type = STORE_OP_LOCKING, .object = object, .locking = STORE_LOCKING_COUNT },
        { .type = STORE_OP_CREATE, .name = "new", .locking = STORE_LOCKING_COUNT },
        { .type = STORE_OP_PROTECTION, .object = object, .protection = STORE_PROTECTION_COUNT },
        { .type = STORE_OP_CREATE, .name = "new", .protection = STORE_PROTECTION_COUNT },
    };
    struct store_op typed = {
        .type = STORE_OP_LAYOUT, .object = object, .layout = &layout, .name = ""
    };
    encoder.object = object;
    memset(layout.type, 'x', sizeof layout.type);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &encoder), -EINVAL);
    store_txn_cancel(group);
    for (uint32_t i = 0; i < 4; i++) {
        store_txn_begin(group, 1);
        assert_int_equal(store_txn_op(group, &locking[i]), -EINVAL);
        store_txn_cancel(group);
    }
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &typed), -EINVAL);     /* its type has no end */
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    for (uint32_t length = 4; length-- > 0;) {  /* "xxx" to "", which is no type */
        layout.type[length] = 0;
        assert_int_equal(store_txn_op(group, &typed), 0);
        assert_int_equal(txn_next(group), 0);
    }
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 1), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 1, 1), 0);    /* of the same extent */
    assert_int_equal(txn_next(group), 0);
    assert_int_equal(pages_op(group, STORE_OP_PAGE_CLAIM, 0, 10000), -ENOSPC);
    store_txn_cancel(group);
    group_done(group);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_directory_refuses_containers_and_names),
        cmocka_unit_test(addresses_come_to_an_end),
        cmocka_unit_test(more_segments_than_the_zone_holds),
        cmocka_unit_test(claims_of_many_containers),
        cmocka_unit_test(the_heads_of_a_large_log),
        cmocka_unit_test(wanted_ids_and_addresses),
        cmocka_unit_test(names_of_a_group_that_is_not_applied),
        cmocka_unit_test(many_names_of_one_group),
        cmocka_unit_test(a_fence_stops_groups_in_every_state),
        cmocka_unit_test(no_group_is_applied_over_a_gap),
        cmocka_unit_test(memory_may_come_zeroed),
        cmocka_unit_test(more_claims_than_a_group_keeps),
        cmocka_unit_test(a_claim_of_scattered_extents_that_does_not_fit),
        cmocka_unit_test(unused_pages_beside_claims),
        cmocka_unit_test(operations_that_say_it_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
