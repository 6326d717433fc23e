/*
 * test_corners.c - calls at moments and of sizes that no workload has: tables that are full, two
 * groups on their way at once, chains in every state, limits to the last page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "device.h"

#define GIB_PAGES (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES)

static const uint8_t page_bytes[STORE_PAGE_BYTES] = { 7 };
static struct device device;
static struct disk_io io;
static struct store *store;
static struct store_report report;
static uint64_t object;

static struct store_group *group_open(void)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(store, &group), 0);
    return group;
}

static void group_done(struct store_group *group)
{
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

/* Ends the transaction that is being built and begins the next. */
static int txn_next(struct store_group *group)
{
    uint32_t position;
    int error = store_txn_end(group, &position);
    assert_int_equal(store_txn_begin(group, 1), 0);
    return error;
}

static int op(struct store_group *group, enum store_op_type type, uint64_t of, const char *name)
{
    struct store_op what = { .type = type, .object = of, .name = name };
    return store_txn_op(group, &what);
}

static int create(struct store_group *group, const char *name, uint64_t want, uint64_t address,
                  uint64_t *made)
{
    struct store_op what = { .type = STORE_OP_CREATE, .name = name, .want_object = want,
                             .want_address = address };
    int error = store_txn_op(group, &what);
    *made = what.object;
    return error;
}

static int pages_free(struct store_group *group, uint64_t from, uint64_t count)
{
    struct store_op what = { .type = STORE_OP_PAGE_FREE, .object = object, .page = from,
                             .count = count };
    return store_txn_op(group, &what);
}

static void make(uint64_t disk_bytes, uint64_t log_bytes)
{
    struct store_options options = { .uuid = { 8 }, .log_bytes = log_bytes };
    device_open(&device, disk_bytes);
    io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &options), 0);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

static void unmake(void)
{
    const char *why = "";
    if (store_check(store, &why))
        fail_msg("the store's own check: %s", why);
    store_abandon(store);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

static void clean(void)
{
    uint64_t cursor = 0, owner, number, lsn, home;
    while (store_dirty_next(store, &cursor, &owner, &number, &lsn) == 0) {
        assert_int_equal(store_page_home(store, owner, number, &home), 0);
        assert_int_equal(io.write(io.context, home, page_bytes, sizeof page_bytes), 0);
        assert_int_equal(store_page_cleaned(store, owner, number, lsn,
                                            crc32c(0, page_bytes, sizeof page_bytes)), 0);
    }
}

static void checkpoint_end(void)
{
    int error;
    clean();
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

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
        assert_int_equal(store_txn_diff(group, made[i], 0, 0, NULL, 0, NULL), -ESTALE);
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
        assert_int_equal(store_spill_page(group, chain, made[i], 9, page_bytes), 0);
        if (i % 10 == 9)
            group_done(group);
    }
    for (uint32_t i = 0; i < 60; i += 2)
        store_spill_drop(chain, made[i], 9);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(store_spill_find(store, chain, made[i], 9, &at, &crc), i % 2 ? 0 : -ENOENT);
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

/* ---- a free of more pages than the disk has extents: by extent, applied and planned ones */

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
    assert_int_equal(pages_free(group, GIB_PAGES + 1, 0), -EINVAL);
    store_txn_cancel(group);
    store_txn_begin(group, 1);
    assert_int_equal(pages_free(group, 50, GIB_PAGES - 50 - 16), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    for (uint32_t i = 1, error = 1; error; i++) {       /* and with memory failing at each place */
        memory_count = memory_fired = 0;
        memory_fail_at = i;
        store_txn_begin(group, 1);
        int freed = pages_free(group, 0, GIB_PAGES);
        error = memory_fired;
        memory_fail_at = 0;
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

/* Frees all, with the i-th allocation failing for each i; in the end it works, and is taken back. */
static void frees_without_memory(struct store_group *group)
{
    uint32_t count = 0;
    for (uint32_t i = 1, fired = 1; fired; i++) {
        memory_count = memory_fired = 0;
        memory_fail_at = i;
        store_txn_begin(group, 1);
        int error = pages_free(group, 0, GIB_PAGES);
        fired = memory_fired;
        memory_fail_at = 0;
        assert_int_equal(error, fired ? -ENOMEM : 0);
        store_txn_cancel(group);
        count += fired;
    }
    assert_true(count > 0);
}

/* Aim: memory that ends in the middle of a wide free, among applied pages and among planned ones. */
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

/* ---- chains */

static int spill(struct store_group *group, struct store_chain *chain, uint64_t of, uint64_t page)
{
    return store_spill_page(group, chain, of, page, page_bytes);
}

/* Aim: images are told apart by container, page and chain, also where they share a hash head. */
static void many_images_of_chains_and_containers(void **state)
{
    (void)state;
    struct store_chain *chains[2];
    uint64_t objects[2], at;
    uint32_t crc, position;
    make(32 << 20, 8 << 20);
    objects[0] = object;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "d", 0, 0, &objects[1]), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store_chain_begin(store, 1, &chains[0]), 0);
    assert_int_equal(store_chain_begin(store, 2, &chains[1]), 0);
    for (uint64_t page = 0; page < 100; page += 10) {
        group = group_open();           /* both in one group, by turns */
        for (uint64_t i = page; i < page + 10; i++) {
            assert_int_equal(spill(group, chains[0], objects[0], i), 0);
            assert_int_equal(spill(group, chains[0], objects[1], i), 0);
            assert_int_equal(spill(group, chains[1], objects[0], i * 3), 0);
            assert_int_equal(spill(group, chains[1], objects[1], i + 7), 0);
        }
        group_done(group);
    }
    for (uint64_t page = 0; page < 100; page += 3)
        store_spill_drop(chains[0], objects[page & 1], page);
    for (uint64_t page = 0; page < 100; page++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(store_spill_find(store, chains[0], objects[i], page, &at, &crc),
                             page % 3 == 0 && (page & 1) == (uint64_t)i ? -ENOENT : 0);
    assert_int_equal(store_checkpoint_begin(store), 0); /* from the older of the two */
    checkpoint_end();
    for (int i = 1; i >= 0; i--) {
        group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(store_txn_chain(group, chains[i]), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
    }
    assert_int_equal(store_check(store, &report.message), 0);
    struct store_open_options read_only = { .flags = STORE_READ_ONLY };
    struct store *again;                /* records of a chain that meet in a group count once */
    assert_int_equal(store_open(&io, &test_memory, &read_only, &again, &report), 0);
    assert_int_equal(report.transactions, 2);
    store_abandon(again);
    assert_int_equal(store_checkpoint_begin(store), 0); /* they are done, and not ended yet */
    checkpoint_end();
    store_chain_end(chains[0]);
    store_chain_end(chains[1]);
    unmake();
}

static void chains_in_the_wrong_state(void **state)
{
    (void)state;
    struct store_chain *chain, *other;
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    assert_int_equal(store_chain_begin(store, 1, &other), 0);
    struct store_group *group = group_open();
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);   /* in no transaction */
    assert_int_equal(spill(group, chain, object, 1), 0);
    assert_int_equal(spill(group, other, object, 1), 0);
    store_txn_begin(group, 1);          /* a record behind the last image: the next begins anew */
    assert_int_equal(store_txn_page(group, object, 9, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(spill(group, other, object, 2), 0);
    store_chain_end(other);             /* in the middle of the group */
    assert_int_equal(spill(group, chain, object, 2), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(spill(group, chain, object, 3), -EINVAL);
    struct store_group *second = group_open();
    assert_int_equal(spill(second, chain, object, 4), 0);       /* images in both */
    assert_int_equal(store_group_seal(second), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(store_group_write(second), 0);
    assert_int_equal(store_group_apply(second), 0);
    group = group_open();
    assert_int_equal(spill(group, chain, object, 5), 0);
    assert_int_equal(store_group_seal(group), 0);
    second = group_open();
    assert_int_equal(spill(second, chain, object, 6), 0);
    store_group_cancel(second);         /* only its own images are lost */
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(store_chain_pages(chain), 4);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(spill(group, chain, object, 7), -EINVAL);  /* its commit is on its way */
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);
    store_txn_cancel(group);
    group_done(group);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);   /* it is over */
    store_txn_cancel(group);
    store_group_cancel(group);
    store_chain_end(chain);
    unmake();
}

/* Aim: a SPILL record whose table has room for one image only. */
static void a_table_at_the_end_of_a_block(void **state)
{
    (void)state;
    struct store_chain *chain;
    struct store_run run = { .length = 3844 };
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_diff(group, object, 0, 0, &run, 1, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(group->used % BLOCK_BYTES, 4008);
    for (uint64_t page = 1; page < 4; page++)
        assert_int_equal(spill(group, chain, object, page), 0);
    assert_int_equal(group->records, 4);        /* page, commit, two SPILL records */
    group_done(group);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_int_equal(report.pages, 4);
    unmake();
}

/* Aim: a chain's commit that does not fit is refused like any other; an aged one stays aged. */
static void a_chain_that_does_not_fit(void **state)
{
    (void)state;
    struct store_open_options small = { .group_bytes = 5 * BLOCK_BYTES };
    struct store_chain *chain;
    uint32_t position;
    make(32 << 20, 8 << 20);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, &small, &store, &report), 0);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    for (uint64_t page = 0; page < 450; page += 3) {
        struct store_group *group = group_open();
        for (uint64_t i = page; i < page + 3; i++)
            assert_int_equal(spill(group, chain, object, i), 0);
        assert_int_equal(store_group_seal(group), 0);
        assert_int_equal(store_group_issue(group), 0);
        assert_int_equal(store_group_apply(group), 0);
    }
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), -E2BIG);
    assert_int_equal(store_txn_end(group, &position), -E2BIG);
    chain->expired = true;
    assert_int_equal(spill(group, chain, object, 0), -E2BIG);
    store_group_cancel(group);
    store_chain_end(chain);
    unmake();
}

/* Aim: the check sees each rule of chains broken (N1, N2, N3). */
static void the_check_sees_broken_chains(void **state)
{
    (void)state;
    struct store_chain *chain;
    const char *why;
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    struct store_group *group = group_open();
    assert_int_equal(spill(group, chain, object, 1), 0);
    assert_int_equal(spill(group, chain, object, 2), 0);
    assert_int_equal(store_check(store, &why), 0);      /* not applied yet */
    group_done(group);
    struct spill_node *node = chain->first, *next = chain->last;
    assert_int_equal(store_check(store, &why), 0);
    uint64_t page = node->page, lsn = node->lsn;
    node->page = next->page;                            /* two of one page, or in a wrong place */
    assert_int_not_equal(store_check(store, &why), 0);
    node->page = page;
    node->lsn = 0;
    assert_int_not_equal(store_check(store, &why), 0);
    chain->expired = true;                              /* an aged chain's log may be gone */
    assert_int_equal(store_check(store, &why), 0);
    chain->expired = false;
    node->lsn = lsn;
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
    assert_int_equal(store_check(store, &why), 0);
    node->lsn = 0;                                      /* committed: its log is needed */
    assert_int_not_equal(store_check(store, &why), 0);
    node->lsn = store->applied_lsn;                     /* newer than its page */
    assert_int_not_equal(store_check(store, &why), 0);
    node->lsn = lsn;
    uint64_t n = store->extent_pages;
    struct leaf_disk *leaf = hash_find(store, object, page / n, NULL);
    page_dirty_set(store, leaf, (uint32_t)(page % n), false);
    assert_int_not_equal(store_check(store, &why), 0);
    page_dirty_set(store, leaf, (uint32_t)(page % n), true);
    for (node->object = 1000; !logged_find(store, node->object, page, &lsn, &position);)
        node->object++;                                 /* of no container, at the right head */
    assert_int_not_equal(store_check(store, &why), 0);
    node->object = object;
    store->logged_pages++;
    assert_int_not_equal(store_check(store, &why), 0);
    store->logged_pages--;
    unmake();
}

/* ---- checkpoints */

static uint64_t microseconds;

static uint64_t clock_read(void *context)
{
    (void)context;
    return microseconds;
}

static void when_a_checkpoint_is_due(void **state)
{
    (void)state;
    struct disk_clock clock = { NULL, clock_read };
    struct store_open_options options = { .clock = &clock };
    uint32_t position;
    make(1 << 20, 256 << 10);
    store_abandon(store);
    microseconds = 1000;
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
    assert_int_equal(store_checkpoint_age(store), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(store_txn_page(group, object, i, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store_checkpoint_age(store), 0);   /* no time has gone by */
    microseconds = 1500;
    assert_int_equal(store_checkpoint_age(store), 500);
    group = group_open();               /* what is free is little, and a checkpoint brings more */
    store_txn_begin(group, 1);
    assert_int_equal(pages_free(group, 0, 8), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    uint64_t taken = store->free_extents;
    while (store->free_extents)
        assert_true(extent_claim(store, UINT64_MAX) != UINT64_MAX);
    assert_int_equal(store_should_checkpoint(store), 2);
    for (uint64_t i = 0; i < store->super.extents; i++)
        extent_unclaim(store, i);
    assert_int_equal(store->free_extents, taken);
    assert_int_equal(store_checkpoint_begin(store), 0);
    checkpoint_end();
    assert_int_equal(store_checkpoint_begin(store), 0);
    checkpoint_end();
    assert_int_equal(store_should_checkpoint(store), 0);
    unmake();
}

/* Aim: a checkpoint's write that fails releases nothing. */
static void a_failed_checkpoint_releases_nothing(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    uint64_t keep = store->keep_lsn;
    assert_int_equal(store_checkpoint_begin(store), 0);
    assert_int_equal(store_checkpoint_apply(store), -EINVAL);
    assert_int_equal(store_checkpoint_write(store), -EINVAL);
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    device.fail_kinds = FAIL_FLUSH;
    device.requests = 0;
    device.fail_at = 1;
    assert_int_equal(store_checkpoint_write(store), -EIO);
    assert_int_equal(store_checkpoint_write(store), -EINVAL);
    assert_int_equal(store_checkpoint_apply(store), -EIO);
    assert_int_equal(store->keep_lsn, keep);
    assert_int_equal(store_checkpoint_write(store), -EINVAL);
    unmake();
}

/* A fence that came between seal and write: nothing is written. */
static void a_fenced_checkpoint_writes_nothing(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    assert_int_equal(store_checkpoint_begin(store), 0);
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    uint32_t writes = device.writes;
    fence_set(store, -EIO);
    assert_int_equal(store_checkpoint_write(store), -EIO);
    assert_int_equal(store_checkpoint_apply(store), -EIO);
    assert_int_equal(device.writes, writes);
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
        cmocka_unit_test(wide_frees),
        cmocka_unit_test(wide_frees_without_memory),
        cmocka_unit_test(a_fence_stops_groups_in_every_state),
        cmocka_unit_test(many_images_of_chains_and_containers),
        cmocka_unit_test(chains_in_the_wrong_state),
        cmocka_unit_test(a_table_at_the_end_of_a_block),
        cmocka_unit_test(a_chain_that_does_not_fit),
        cmocka_unit_test(the_check_sees_broken_chains),
        cmocka_unit_test(when_a_checkpoint_is_due),
        cmocka_unit_test(a_failed_checkpoint_releases_nothing),
        cmocka_unit_test(a_fenced_checkpoint_writes_nothing),
        cmocka_unit_test(memory_may_come_zeroed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
