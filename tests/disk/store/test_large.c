/*
 * test_large.c - disks of 1 to 16 TiB, of which hardly anything is written; and hostile stores
 * whose numbers or chains are as large as their checksums let them be.
 *
 * Method: a sparse disk (vdisk.h). Nothing here is measured in time, but the program may use
 * CPU_SECONDS: what walks over everything for each of many records would need minutes.
 */
#include "stage.h"
#include "vdisk.h"

#include <stdlib.h>
#include <sys/resource.h>

#define CPU_SECONDS 60u

static struct vdisk disk;

static void large_open(uint64_t bytes)
{
    vdisk_open(&disk, bytes);
    io = vdisk_io(&disk);
}

static struct kcheck_result kcheck_asked(void)
{
    struct kcheck_io own = vdisk_kcheck_io(&disk);
    struct kcheck_options how = { .quick = true };
    struct kcheck_result result;
    kcheck_image(&own, &how, &result);
    return result;
}

static void pages_same(const uint64_t *pages, uint32_t count)
{
    uint8_t page[STORE_PAGE_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(store_page_read(store, object, pages[i], page), 0);
        assert_memory_equal(page, page_bytes, sizeof page);
    }
}

/* Tables in memory are of the disk's size: calloc gives what is not touched for nothing. */
static void *zeroed(void *context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes);
}

static void *plain(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void given_back(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

static const struct disk_memory memory = { NULL, plain, given_back, zeroed };

static int large_start(uint32_t flags)
{
    struct store_open_options options = { .flags = flags };
    return store_open(&io, &memory, &options, &store, &report);
}

/* Geometry of a store that fits the disk, with room for few extents; hostile numbers are put into
 * it. */
static struct superblock super_make(uint64_t extents, uint32_t extent_bytes, uint32_t directory,
                                    uint32_t names, uint32_t pages)
{
    struct superblock super = { .uuid = { 3 }, .generation = 2, .extent_bytes = extent_bytes,
                                .extents = extents, .directory_pages_max = directory,
                                .names_pages_max = names, .log_bytes = 65536, .epoch_count = 1,
                                .epochs = { { 1, 65536 } },
                                .checkpoints = { { .redo_lsn = 65536, .scan_lsn = 65536,
                                                   .sequence = 1, .pages = pages } } };
    super.area_pages = area_pages_for(extents, extent_bytes, directory, names);
    uint64_t area = area_map_bytes(super.area_pages) + (uint64_t)super.area_pages * BLOCK_BYTES;
    super.log_start = 2 * BLOCK_BYTES;
    super.area_start[0] = super.log_start + super.log_bytes;
    super.area_start[1] = super.area_start[0] + area;
    super.data_start = super.area_start[1] + area;
    super.slot_b_offset = super.data_start + extents * extent_bytes;
    super.disk_bytes = super.slot_b_offset + BLOCK_BYTES;
    return super;
}

static struct map_entry_disk *map;

static void meta_put(const struct superblock *super, uint32_t number, enum meta_kind kind,
                     uint32_t chain, const uint8_t *page)
{
    map[number].kind = le16_of((uint16_t)kind);
    map[number].chain = le16_of((uint16_t)chain);
    map[number].crc =
        le32_of(crc32c(crc_seed(super->uuid, CRC_META, number, 0), page, BLOCK_BYTES));
    assert_int_equal(io.write(io.context, area_page_offset(super, 0, number), page, BLOCK_BYTES),
                     0);
}

static void header_put(const struct superblock *super, uint64_t leaves)
{
    struct meta_header_disk header = { .magic = le64_of(META_MAGIC), .redo_lsn = le64_of(65536),
                                       .next_object = le64_of(2), .containers = le32_of(1),
                                       .leaves = le64_of(leaves) };
    meta_put(super, 0, META_HEADER, 0, (const uint8_t *)&header);
}

static void container_put(const struct superblock *super, uint32_t gib)
{
    static uint8_t page[BLOCK_BYTES];
    struct container_disk *c = (void *)page;
    memset(page, 0, sizeof page);
    c->object = le64_of(1);
    c->name[0] = 'c';
    c->segment_count = le32_of(1);
    c->segments[0].gib = le32_of(gib);
    meta_put(super, 1, META_DIRECTORY, 0, page);
}

static void super_put(struct superblock *super)
{
    static uint8_t block[BLOCK_BYTES];
    size_t bytes = (size_t)area_map_bytes(super->checkpoints[0].pages);
    super->checkpoints[0].root_crc = crc32c(crc_seed(super->uuid, CRC_MAP, 65536, 0), map, bytes);
    assert_int_equal(io.write(io.context, super->area_start[0], map, bytes), 0);
    superblock_encode(super, (void *)block);
    assert_int_equal(io.write(io.context, 0, block, BLOCK_BYTES), 0);
    signpost_encode(super, super->slot_b_offset, (void *)block);
    assert_int_equal(io.write(io.context, SIGNPOST_OFFSET, block, BLOCK_BYTES), 0);
}

/* ---- stores of many TiB */

static void large_commit(const uint64_t *pages, uint32_t count)
{
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(store_txn_page(group, object, pages[i], page_bytes), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

/* Recovery has a table of 8 bytes for each page of the disk: `cut` only where there is memory for
 * that. */
static void store_lives(uint64_t bytes, bool cut)
{
    static const uint64_t pages[] = { 0, 1, 70000, 200000 };
    struct store_options options = { .uuid = { 4 }, .extent_bytes = 65536 };
    large_open(bytes);
    assert_int_equal(store_format(&io, &memory, &options), 0);
    assert_int_equal(large_start(0), 0);
    assert_true(store->super.extents > bytes / 65536 / 2);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    large_commit(pages, 4);
    store->space.cursor = store->super.extents - 1;    /* the last one, and places near 2^44 */
    static const uint64_t far[] = { 230000 };
    large_commit(far, 1);
    if (cut) {
        store_abandon(store);
        assert_int_equal(kcheck_asked().verdict, KCHECK_SOUND);
        assert_int_equal(large_start(0), 0);
        pages_same(pages, 4);
        pages_same(far, 1);
    } else
        checkpoint();
    assert_int_equal(store_close(store), 0);
    assert_int_equal(large_start(0), 0);
    assert_true(report.was_clean);
    pages_same(far, 1);
    store_abandon(store);
    vdisk_close(&disk);
}

/* Aim: on disks of 1 and 16 TiB a store is made, written to its last extent, recovered and
 * closed. */
static void stores_of_many_tebibytes_live(void **state)
{
    (void)state;
    store_lives(1ull << 40, true);
    store_lives(1ull << 44, false);
}

/* Aim: a store of 1 GiB takes a disk of 1 TiB. */
static void a_store_grows_to_a_tebibyte(void **state)
{
    (void)state;
    struct store_options options = { .uuid = { 4 }, .extent_bytes = 65536 };
    large_open(1 << 30);
    assert_int_equal(store_format(&io, &memory, &options), 0);
    disk.bytes = 1ull << 40;
    io = vdisk_io(&disk);
    assert_int_equal(store_grow(&io, &memory, 0, &report), 0);
    assert_int_equal(large_start(0), 0);
    assert_true(store->super.disk_bytes == disk.bytes);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(kcheck_asked().verdict, KCHECK_SOUND);
    vdisk_close(&disk);
}

/* Aim: what was never used is not looked at: a scrub's round over a disk of 1 TiB with a few pages
 * takes few calls, each of which looks at 1,024 extents of 64 KiB at most. */
static void a_round_passes_what_was_never_used(void **state)
{
    (void)state;
    static const uint64_t pages[] = { 0, 1, 70000 };
    static struct store_scrub scrub;
    struct store_options options = { .uuid = { 4 }, .extent_bytes = 65536, .log_bytes = 1 << 20 };
    unsigned calls = 0, seen = 0;
    large_open(1ull << 40);
    assert_int_equal(store_format(&io, &memory, &options), 0);
    assert_int_equal(large_start(0), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    large_commit(pages, 3);
    checkpoint();
    memset(&scrub, 0, sizeof scrub);
    for (int error; (error = store_scrub_next(store, &scrub)) != -ENOENT; calls++) {
        assert_true(error == 0 || error == -EAGAIN);
        seen += !error && scrub.kind == STORE_SCRUB_PAGE;
        if (!error)
            store_scrub_read(store, &scrub);
        if (!error)
            assert_int_equal(store_scrub_judge(store, &scrub), 0);
    }
    assert_true(seen == 2 && calls < 100);
    store_abandon(store);
    vdisk_close(&disk);
}

/* ---- hostile numbers */

/* Aim: limits of the directory and of names whose tables no 32-bit number counts are out of range;
 * so is each number of the superblock that is very large. Method: each alone, with all checksums
 * right. */
static void a_superblock_with_huge_numbers_is_refused(void **state)
{
    (void)state;
    static const struct { uint32_t directory, names; } limits[] = {
        { 1, 1u << 27 }, { 1u << 29, 1 }, { 1u << 28, 1u << 26 }, { 1, 1025 }, { 1025, 1 } };
    for (uint32_t i = 0; i < 5; i++) {
        struct superblock super = super_make(4, 65536, limits[i].directory, limits[i].names, 2);
        large_open(super.disk_bytes);
        map = calloc(1, (size_t)area_map_bytes(2));
        header_put(&super, 0);
        container_put(&super, 1);
        super_put(&super);
        assert_int_equal(large_start(STORE_READ_ONLY), -EUCLEAN);
        assert_string_equal(report.rule, "RV5");
        assert_int_equal(kcheck_asked().error, -EUCLEAN);
        free(map);
        vdisk_close(&disk);
    }
}

/* ---- hostile chains and logs */

#define CHAINED 320000u

/* Aim: all leaves in one bucket's chain are read in a time that grows with their number, not its
 * square; of two with one key the store says so, as kcheck does. */
static void a_chain_of_all_leaves_takes_no_square(void **state)
{
    (void)state;
    uint32_t per = (BLOCK_BYTES - sizeof(struct bucket_disk)) / leaf_bytes_for(BLOCK_BYTES);
    uint32_t chain = (CHAINED + per - 1) / per;
    for (int twice = 0; twice < 2; twice++) {
        struct superblock super = super_make(CHAINED, BLOCK_BYTES, 1, 1, 2 + chain);
        large_open(super.disk_bytes);
        map = calloc(1, (size_t)area_map_bytes(2 + chain));
        header_put(&super, CHAINED);
        container_put(&super, 4096);
        for (uint32_t k = 0; k < chain; k++) {
            uint8_t page[BLOCK_BYTES] = { 0 };
            uint32_t first = k * per, count = CHAINED - first < per ? CHAINED - first : per;
            ((struct bucket_disk *)page)->count = le32_of(count);
            for (uint32_t i = 0; i < count; i++) {
                struct leaf_disk *leaf = (void *)(page + sizeof(struct bucket_disk) +
                                                  i * leaf_bytes_for(BLOCK_BYTES));
                uint64_t number = first + i;
                leaf->object = le64_of(1);
                leaf->index = le64_of(twice && number == CHAINED - 1 ? 77 : number);
                leaf->physical = le64_of(number);
                leaf->born = le64_of(1);
                leaf->claimed = le16_of(1);
            }
            meta_put(&super, 2 + k, META_BUCKET, k, page);
        }
        super_put(&super);
        assert_int_equal(large_start(STORE_READ_ONLY), twice ? -EUCLEAN : 0);
        assert_int_equal(kcheck_asked().error, twice ? -EUCLEAN : 0);
        if (!twice)
            assert_int_equal(store_close(store), 0);
        free(map);
        vdisk_close(&disk);
    }
}

/* Aim: a log full of records that free a whole container, in which nothing is, costs no walk
 * each. */
static void many_frees_of_nothing_are_no_walks(void **state)
{
    (void)state;
    enum { FREES = 120000, DOUBLINGS = 6 };
    struct store_options options = { .uuid = { 4 }, .extent_bytes = BLOCK_BYTES };
    struct store_open_options how = { .group_bytes = 16 << 20 };
    large_open(16ull << 30);
    assert_int_equal(store_format(&io, &memory, &options), 0);
    assert_int_equal(store_open(&io, &memory, &how, &store, &report), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "c", 0, 0, &object), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    for (int i = 0; i < DOUBLINGS; i++) {
        group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(op(group, STORE_OP_GROW, object, NULL), 0);
        assert_int_equal(txn_next(group), 0);
        group_done(group);
    }
    struct store_container all;
    assert_int_equal(store_container_get(store, object, &all), 0);
    group = group_open();
    store_txn_begin(group, 1);
    for (int i = 0; i < FREES; i++)
        assert_int_equal(pages_op(group, STORE_OP_PAGE_FREE, 0, all.pages), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    store_abandon(store);
    assert_int_equal(large_start(0), 0);
    assert_int_equal(report.transactions, 2 + DOUBLINGS);
    store_abandon(store);
    vdisk_close(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_of_many_tebibytes_live),
        cmocka_unit_test(a_store_grows_to_a_tebibyte),
        cmocka_unit_test(a_round_passes_what_was_never_used),
        cmocka_unit_test(a_superblock_with_huge_numbers_is_refused),
        cmocka_unit_test(a_chain_of_all_leaves_takes_no_square),
        cmocka_unit_test(many_frees_of_nothing_are_no_walks),
    };
    setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS });
    return cmocka_run_group_tests(tests, NULL, NULL);
}
