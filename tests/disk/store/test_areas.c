/*
 * test_areas.c - what checkpoints keep: the older one ready to take over, and every change of a
 * table that grows and shrinks; bucket pages with bytes that no store writes. Also the address
 * ranges of containers that are made together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "world.h"

#define PAGES 3000u

/* Flips a bit in the map of the newest area, and opens a copy without writing to it. */
static void older_require(struct world *world, struct device *device)
{
    const struct superblock *super = &world->store->super;
    struct store_open_options options = { .flags = STORE_READ_ONLY };
    struct store_report report;
    struct store *store;
    struct disk_io io = device_io(device);
    uint8_t *byte = &device->image[super->area_start[super->checkpoint_index] + 1];
    uint64_t digest;
    *byte ^= 1;
    assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
    assert_true(report.older_checkpoint);
    assert_int_equal(store_digest(store, &digest), 0);
    assert_int_equal(digest, world->digests[world->model.commits]);
    store_abandon(store);
    *byte ^= 1;
}

/* Aim: whenever the newest area is lost, the older one and the log that it needs give
 * everything. */
static void the_older_checkpoint_can_always_take_over(void **state)
{
    static struct world world;
    uint32_t tried = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 9; seed++) {
        const struct world_options shape = {
            .disk_bytes = 1 << 20, .log_bytes = 128 * 1024, .extent_bytes = 4096,
            .checkpoint_odds = 8, .encoder = (enum store_encoder)(seed % 4),
        };
        struct device device;
        struct store_report report;
        device_open(&device, shape.disk_bytes);
        assert_int_equal(world_format(&world, &device, seed, &shape), 0);
        assert_int_equal(world_open(&world, &report), 0);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(world_step(&world), 0);
            if (world.durable < 2)
                continue;
            older_require(&world, &device);
            tried++;
        }
        world_abandon(&world);
        device_close(&device);
    }
    assert_true(tried > 400);
    assert_int_equal(memory_live, 0);
}

/* A new store on a new disk, open. */
static struct store *opened(struct device *device, struct disk_io *io, uint64_t disk_bytes,
                            const struct store_options *format)
{
    struct store_report report;
    struct store *store;
    device_open(device, disk_bytes);
    *io = device_io(device);
    assert_int_equal(store_format(io, &test_memory, format), 0);
    assert_int_equal(store_open(io, &test_memory, NULL, &store, &report), 0);
    return store;
}

/* ---- a table larger than its first bucket */

static void txn_done(struct store_group *group)
{
    uint32_t position;
    assert_int_equal(store_txn_end(group, &position), 0);
}

static void group_done(struct store_group *group)
{
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

static struct store_op created(struct store_group *group, const char *name)
{
    struct store_op op = { .type = STORE_OP_CREATE, .name = name };
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &op), 0);
    txn_done(group);
    return op;
}

static uint64_t keys[PAGES];

/* Page numbers, half of which fall into the first bucket of any table that these tests make. */
static void keys_choose(struct store *store, uint64_t object)
{
    uint32_t level = store->kept.hash_level, split = store->kept.hash_split;
    uint64_t at = PAGES;
    store->kept.hash_level = 6;
    store->kept.hash_split = 0;
    for (uint32_t i = 0; i < PAGES; i++) {
        while (i % 2 && hash_bucket(store, object, ++at) != 0)
            ;
        keys[i] = i % 2 ? at : i;
    }
    store->kept.hash_level = level;
    store->kept.hash_split = split;
}

/* Toggles `count` pages from keys[at] on, as one transaction. */
static void toggle(struct store *store, uint64_t object, bool *there, uint64_t at, uint64_t count)
{
    struct store_group *group;
    uint8_t page[4096] = { 1 };
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    for (uint64_t i = at; i < at + count; i++) {
        struct store_op op = { .type = STORE_OP_PAGE_FREE, .object = object,
                               .page = keys[i], .count = 1 };
        assert_int_equal(there[i] ? store_txn_op(group, &op)
                                  : store_txn_page(group, object, keys[i], page), 0);
        there[i] = !there[i];
    }
    txn_done(group);
    group_done(group);
}

/* A checkpoint. The pages are not written: only their places count. */
static void checkpoint(struct store *store)
{
    uint64_t cursor = 0, object, page, lsn, offset;
    assert_int_equal(store_checkpoint_begin(store), 0);
    while (store_dirty_next(store, &cursor, &object, &page, &lsn) == 0) {
        assert_int_equal(store_page_home(store, object, page, &offset), 0);
        assert_int_equal(store_page_cleaned(store, object, page, lsn, 1), 0);
    }
    int error;
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

/* A checkpoint of `running`, and what another store finds that has only the disk. */
static void saved_require(struct store *running, struct disk_io *io, uint64_t object,
                          const bool *there)
{
    struct store_open_options options = { .flags = STORE_READ_ONLY };
    struct store_report report;
    struct store_page page;
    struct store *store;
    const char *why = "";
    checkpoint(running);
    assert_int_equal(store_open(io, &test_memory, &options, &store, &report), 0);
    assert_int_equal(report.groups, 0);
    assert_int_equal(store_check(store, &why), 0);
    for (uint64_t i = 0; i < PAGES; i++) {
        assert_int_equal(store_page_find(store, object, keys[i], &page), 0);
        assert_int_equal(page.present, there[i]);
    }
    store_abandon(store);
}

/* Aim: what a checkpoint saves of the table is the table, also where buckets have several pages. */
static void checkpoints_keep_a_table_that_grows_and_shrinks(void **state)
{
    (void)state;
    static bool there[PAGES];
    struct device device;
    struct disk_io io;
    struct store_group *group;
    struct store_options format = { .uuid = { 4 }, .log_bytes = 16 << 20, .extent_bytes = 4096 };
    uint64_t random = 5;
    memset(there, 0, sizeof there);
    struct store *store = opened(&device, &io, 40 << 20, &format);
    assert_int_equal(store_group_begin(store, &group), 0);
    uint64_t object = created(group, "c").object;
    group_done(group);
    keys_choose(store, object);
    for (uint64_t round = 0; round < 450; round++) {
        uint64_t count = round < 150 ? 20 : 1 + random_below(&random, 3);
        uint64_t at = round < 150 ? round * 20 : random_below(&random, PAGES - count);
        toggle(store, object, there, at, count);
        saved_require(store, &io, object, there);
    }
    for (uint64_t at = 0; at < PAGES; at += 60) {       /* and down to nothing */
        for (uint64_t i = at; i < at + 60; i++)
            if (there[i])
                toggle(store, object, there, i, 1);
        saved_require(store, &io, object, there);
    }
    store_abandon(store);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

/* ---- bytes that no store writes, with right checksums */

/* Aim: a chain has each of its places once. */
static void a_chain_has_each_place_once(void **state)
{
    (void)state;
    static const struct { uint16_t second, third; int error; } places[] = {
        { 1, 2, 0 }, { 2, 1, 0 }, { 1, 1, -EUCLEAN }, { 0, 1, -EUCLEAN }, { 1, 3, -EUCLEAN },
        { 2, 2, -EUCLEAN },
    };
    const struct store_options format = { .uuid = { 7 }, .log_bytes = 1 << 20 };
    for (uint32_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct device device;
        struct disk_io io;
        struct store *store = opened(&device, &io, 4 << 20, &format);
        assert_int_equal(meta_reserve(store, 2), 0);
        uint32_t second = meta_page_new(store, META_BUCKET, 0);
        uint32_t third = meta_page_new(store, META_BUCKET, 0);
        assert_true(second && third);
        store->pages[second].place = places[i].second;
        store->pages[third].place = places[i].third;
        checkpoint(store);
        assert_int_equal(tables_renew(store), 0);
        assert_int_equal(meta_load(store, store->super.checkpoint_index), places[i].error);
        store_abandon(store);
        device_close(&device);
    }
    assert_int_equal(memory_live, 0);
}

/* Aim: a new leaf has nothing of the bytes that lay behind the leaves of its bucket. */
static void a_new_leaf_takes_nothing_from_its_place(void **state)
{
    (void)state;
    struct device device;
    struct disk_io io;
    struct store_group *group;
    struct store_report report;
    const struct store_options format = { .uuid = { 8 }, .log_bytes = 1 << 20,
                                          .extent_bytes = 4 * STORE_PAGE_BYTES };
    const uint8_t page[STORE_PAGE_BYTES] = { 1 };
    const char *why = "";
    struct store *store = opened(&device, &io, 4 << 20, &format);
    assert_int_equal(store_group_begin(store, &group), 0);
    uint64_t object = created(group, "c").object;
    group_done(group);
    struct bucket_disk *bucket = (void *)store->pages[store->heads[0]].bytes;
    memset(bucket + 1, 0xff, BLOCK_BYTES - sizeof *bucket);
    meta_touch(store, store->heads[0]);
    checkpoint(store);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_false(report.older_checkpoint);
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 1, page), 0);
    txn_done(group);
    group_done(group);
    struct leaf_disk *leaf = hash_find(store, object, 0, NULL);
    assert_non_null(leaf);
    assert_int_equal(le32_get(leaf->mask), 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(!le32_get(leaf_crc(leaf)[i]) &&
                    (i == 1 || !le64_get(leaf_lsn(store, leaf)[i])));
    assert_int_equal(store_check(store, &why), 0);
    store_abandon(store);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

/* ---- */

/* Aim: containers that are made in one group, before any of them is applied, get addresses
 * apart. */
static void containers_of_one_group_lie_apart(void **state)
{
    (void)state;
    struct device device;
    struct disk_io io;
    struct store_group *group;
    struct store_op op[4];
    static const char *const names[4] = { "a", "b", "c", "d" };
    struct store_options format = { .uuid = { 6 }, .log_bytes = 1 << 20 };
    struct store *store = opened(&device, &io, 4 << 20, &format);
    assert_int_equal(store_group_begin(store, &group), 0);
    for (int i = 0; i < 4; i++)
        op[i] = created(group, names[i]);
    struct store_op taken = { .type = STORE_OP_CREATE, .name = "e", .want_object = 100,
                              .want_address = op[2].address };
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &taken), -EEXIST);
    store_txn_cancel(group);
    group_done(group);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_true(op[i].address != op[j].address && op[i].object != op[j].object);
    store_abandon(store);
    device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_older_checkpoint_can_always_take_over),
        cmocka_unit_test(checkpoints_keep_a_table_that_grows_and_shrinks),
        cmocka_unit_test(a_chain_has_each_place_once),
        cmocka_unit_test(a_new_leaf_takes_nothing_from_its_place),
        cmocka_unit_test(containers_of_one_group_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
