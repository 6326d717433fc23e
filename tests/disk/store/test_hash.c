/*
 * test_hash.c - the table of leaves against a list: growing, shrinking, chains, and no page left.
 *
 * Method: keys are inserted and removed in seeded order in a table that belongs to no disk; half of
 * them were chosen so that they fall into one bucket at any size of the table, so chains grow.
 * After each round all keys of the list must be found, no other, and each in its bucket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "internal.h"
#include "device.h"

#define KEYS_MAX 6000u

static struct store *store;
static struct { uint64_t object, index; bool in; } keys[KEYS_MAX];
static uint32_t key_count;

/* Half of the keys: those that fall into the first (or last) bucket of a table of 2^10 buckets, and
 * so of a smaller one. */
static void keys_choose(uint64_t *random, uint32_t count, bool last)
{
    uint32_t level = store->kept.hash_level, split = store->kept.hash_split;
    for (key_count = 0; key_count < count;) {
        uint64_t object = 1 + random_below(random, 9),
                 index = random_below(random, 1u << 20) * KEYS_MAX + key_count;
        store->kept.hash_level = 10;
        store->kept.hash_split = 0;
        bool wanted = key_count % 2 || hash_bucket(store, object, index) == (last ? 1023 : 0);
        store->kept.hash_level = level;
        store->kept.hash_split = split;
        if (wanted)
            keys[key_count].object = object, keys[key_count].index = index,
            keys[key_count++].in = false;
    }
}

static void table_require(void)
{
    uint64_t leaves = 0, seen = 0;
    for (uint32_t i = 0; i < key_count; i++) {
        struct leaf_disk *leaf = hash_find(store, keys[i].object, keys[i].index, NULL);
        require((leaf != NULL) == keys[i].in);
        leaves += keys[i].in;
    }
    require(leaves == store->kept.leaves);
    for (uint32_t bucket = 0; bucket < hash_buckets(store); bucket++)
        for (uint32_t at = store->heads[bucket]; at; at = store->pages[at].next) {
            const struct bucket_disk *page = (const void *)store->pages[at].bytes;
            require(le32_get(page->bucket) == bucket);
            require(!store->pages[at].next || le32_get(page->count) == store->leaves_per_page);
            require(le32_get(page->count) || at == store->heads[bucket]);
            for (uint32_t i = 0; i < le32_get(page->count); i++, seen++) {
                const struct leaf_disk *leaf = bucket_leaf(store, store->pages[at].bytes, i);
                require(hash_bucket(store, le64_get(leaf->object), le64_get(leaf->index)) ==
                        bucket);
            }
        }
    require(seen == leaves);
}

/* A table for `extents` extents, or with fewer pages than they need. */
static void table_make(uint32_t extent_bytes, uint64_t extents, uint32_t pages)
{
    struct disk_io io = { .bytes = 1 << 20 };
    struct superblock super = { .extent_bytes = extent_bytes, .extents = extents,
                                .directory_pages_max = 1, .names_pages_max = 1 };
    super.area_pages = pages ? pages : area_pages_for(extents, extent_bytes, 1, 1);
    require(store_new(&io, &test_memory, &super, &store) == 0);
    require(tables_setup(store) == 0 && meta_reserve(store, 2) == 0);
    require(meta_page_new(store, META_HEADER, 0) == 0 || true);
    store->heads[0] = meta_page_new(store, META_BUCKET, 0);
    require(store->heads[0]);
}

static void key_toggle(uint32_t i, uint64_t limit)
{
    uint32_t page;
    if (keys[i].in)
        hash_remove(store, keys[i].object, keys[i].index);
    else if (store->kept.leaves == limit ||
             !hash_insert(store, keys[i].object, keys[i].index, &page))
        return;
    keys[i].in = !keys[i].in;
}

static void grow_and_shrink(uint64_t seed)
{
    static const uint32_t sizes[] = { 4096, 16384, 65536 };
    uint64_t random = seed, extents = 200 + random_below(&random, 2500);
    bool scarce = seed % 3 == 0;        /* the area is too small: insertions fail, and no more */
    table_make(sizes[seed % 3 == 0 ? 2 : seed % 2], extents, scarce ? 12 + seed % 20 : 0);
    keys_choose(&random, (uint32_t)extents, seed % 4 == 1);
    for (uint32_t round = 0; round < 12; round++) {
        crew_at("round", round);
        uint32_t tilt = round % 4 < 2 ? 4 : 0;  /* mostly in, then mostly out */
        for (uint32_t n = 0; n < key_count; n++) {
            uint32_t i = (uint32_t)random_below(&random, key_count);
            if (keys[i].in == (random_below(&random, 5) >= tilt)) {
                if (!(seed % 5 == 0 && n % 3))  /* sometimes without spare pages */
                    require(meta_reserve(store, 3) == 0);
                key_toggle(i, extents);
            }
        }
        table_require();
    }
    crew_add(0, store->kept.leaves);
    store_abandon(store);
    require(memory_live == 0);
}

static void the_table_of_leaves_is_a_table(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(60), grow_and_shrink));
    assert_true(crew_part() || crew_sum(0) > 0);
}

/* Aim: without a spare page a merge is put off, and nothing is lost. */
static void a_merge_waits_for_a_spare_page(void **state)
{
    (void)state;
    uint64_t random = 9;
    table_make(4096, 600, 0);
    keys_choose(&random, 300, false);
    for (uint32_t i = 0; i < key_count; i += 2) {       /* those of no one bucket */
        assert_int_equal(meta_reserve(store, 3), 0);
        key_toggle(i + 1, 600);
    }
    uint32_t buckets = hash_buckets(store), spare = store->spares.count;
    assert_true(buckets > 1);
    store->spares.count = 0;
    for (uint32_t i = 0; i < key_count; i += 2) {
        key_toggle(i + 1, 600);
        store->spares.count = 0;
    }
    assert_int_equal(hash_buckets(store), buckets);
    assert_int_equal(store->kept.leaves, 0);
    store->spares.count = spare;
    store_abandon(store);
    assert_int_equal(memory_live, 0);
}

/* The table of epochs forgets what is no longer in the log, and refuses when it is full. */
static void epochs_are_forgotten_with_their_log(void **state)
{
    (void)state;
    struct superblock super = { .epoch_count = 1, .epochs = { { 1, 1000 } } };
    for (uint32_t i = 1; i < EPOCH_MAX; i++)
        assert_int_equal(epoch_begin(&super, 1 + i, 1000 + i, 1000), 0);
    assert_int_equal(super.epoch_count, EPOCH_MAX);
    struct superblock full = super;
    assert_int_equal(epoch_begin(&full, EPOCH_MAX + 1, 2000, 1000), -EUCLEAN);
    assert_int_equal(epoch_begin(&full, EPOCH_LIMIT, 2000, 1004), -EUCLEAN);
    assert_int_equal(epoch_at(&super, 999), 0);
    assert_int_equal(epoch_at(&super, 1003), 4);
    assert_int_equal(epoch_begin(&super, EPOCH_MAX + 1, 2000, 1004), 0);
    assert_int_equal(super.epochs[0].epoch, 5);
    assert_int_equal(epoch_at(&super, 2000), EPOCH_MAX + 1);
    uint32_t count = super.epoch_count;         /* nothing was logged in it: it is replaced */
    assert_int_equal(epoch_begin(&super, EPOCH_MAX + 2, 2000, 1004), 0);
    assert_int_equal(super.epoch_count, count);
    assert_int_equal(epoch_at(&super, 2000), EPOCH_MAX + 2);
    assert_true(epoch_fits(&super, EPOCH_MAX + 2, 2000));
    assert_false(epoch_fits(&super, EPOCH_MAX + 1, 2000));
    assert_true(epoch_fits(&super, EPOCH_MAX + 9, 2000));       /* of a superblock that is lost */
    /* which began behind all that are known */
    assert_false(epoch_fits(&super, EPOCH_MAX + 9, 1999));
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_leaves_is_a_table),
        cmocka_unit_test(a_merge_waits_for_a_spare_page),
        cmocka_unit_test(epochs_are_forgotten_with_their_log),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
