/*
 * test_recovery.c - a fault at one start, a power cut in the recovery of that start, and a start
 * without any fault: nothing that was acknowledged is lost, and the store can be written.
 *
 * Method  a disk whose requests pass through hooks: reads of one place that fail or flip a bit for
 *         a moment, writes that end at one home page, a flush that fails and has lost what it was
 *         to cover, though that still reads back until the power goes.
 */
#include "stage.h"

#define PAGES 48u

static uint64_t versions[PAGES];                /* 0: never written */
static const struct store_open_options few_images = { .image_pages = 8 };

/* ---- the disk's hooks */

static struct { uint64_t from, to, left, byte; bool flip; } bad_read;
static uint64_t homes_from, homes_left;         /* so many home pages more, then the power goes */
static bool power_gone;

/* Blocks that were written since the last flush that worked, as they were before. */
static struct { uint64_t offset; uint8_t before[BLOCK_BYTES]; } cached[512];
static uint32_t cached_count;
static bool caching, flush_fails, lost[512];

static int hooked_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct disk_io under = device_io(context);
    int error = under.read(context, offset, buffer, bytes);
    if (error || !bad_read.left || offset >= bad_read.to || offset + bytes <= bad_read.from)
        return error;
    bad_read.left--;
    if (!bad_read.flip)
        return -EIO;
    if (!bad_read.left)                         /* the last of them */
        ((uint8_t *)buffer)[bad_read.byte - offset] ^= 1;
    return 0;
}

static void cache_note(uint64_t offset)
{
    uint32_t i = 0;
    while (i < cached_count && cached[i].offset != offset)
        i++;
    if (i == cached_count) {
        assert_true(cached_count < 512);
        cached[i].offset = offset;
        memcpy(cached[i].before, device.image + offset, BLOCK_BYTES);
        cached_count++;
    }
    lost[i] = false;                            /* written again: the next flush covers it */
}

static int hooked_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct disk_io under = device_io(context);
    bool home = homes_from && offset >= homes_from;
    power_gone |= home && !homes_left;
    if (power_gone)
        return -EIO;
    homes_left -= home;
    for (size_t at = 0; caching && at < bytes; at += BLOCK_BYTES)
        cache_note(offset + at);
    return under.write(context, offset, buffer, bytes);
}

static int hooked_flush(void *context)
{
    struct disk_io under = device_io(context);
    if (power_gone)
        return -EIO;
    if (!caching)
        return under.flush(context);
    uint32_t left = 0;
    for (uint32_t i = 0; i < cached_count; i++) {
        lost[left] = lost[i] || flush_fails;
        memmove(&cached[left], &cached[i], sizeof cached[i]);
        left += lost[left];
    }
    cached_count = left;
    int error = flush_fails ? -EIO : under.flush(context);
    flush_fails = false;
    return error;
}

static int start(void)
{
    store_abandon(store);
    store = NULL;
    return store_open(&io, &test_memory, &few_images, &store, &report);
}

/* The power goes: what no flush covers is as it was before. */
static void cut(void)
{
    store_abandon(store);
    store = NULL;
    for (; cached_count; cached_count--)
        memcpy(device.image + cached[cached_count - 1].offset, cached[cached_count - 1].before,
               BLOCK_BYTES);
    caching = false;
}

static int setup(void **state)
{
    (void)state;
    make_saved(4 << 20, 1 << 20);
    io.read = hooked_read;
    io.write = hooked_write;
    io.flush = hooked_flush;
    memset(&bad_read, 0, sizeof bad_read);
    memset(versions, 0, sizeof versions);
    homes_from = cached_count = 0;
    power_gone = caching = flush_fails = false;
    return start();
}

static int teardown(void **state)
{
    (void)state;
    abandon();
    return 0;
}

/* ---- pages with versions */

static void page_make(uint64_t page, uint64_t version, uint8_t *bytes)
{
    for (uint32_t i = 0; i < STORE_PAGE_BYTES; i++)
        bytes[i] = (uint8_t)(page * 7 + version * 31 + i);
}

/* A group with one commit of the page, which is to be written. */
static struct store_group *put_sealed(uint64_t page, uint64_t version)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    uint32_t position;
    struct store_group *group = group_open();
    page_make(page, version, bytes);
    store_txn_begin(group, version);
    assert_int_equal(store_txn_page(group, object, page, bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    return group;
}

static int put_try(uint64_t page, uint64_t version)
{
    struct store_group *group = put_sealed(page, version);
    int error = store_group_write(group);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

static void put(uint64_t page, uint64_t version)
{
    assert_int_equal(put_try(page, version), 0);
    versions[page] = version;
}

static void saved(void)
{
    uint64_t cursor = 0, owner, page, lsn, home;
    uint8_t bytes[STORE_PAGE_BYTES];
    assert_int_equal(store_checkpoint_begin(store), 0);
    while (store_dirty_next(store, &cursor, &owner, &page, &lsn) == 0) {
        page_make(page, versions[page], bytes);
        assert_int_equal(store_page_home(store, owner, page, &home), 0);
        assert_int_equal(io.write(io.context, home, bytes, sizeof bytes), 0);
        assert_int_equal(store_page_cleaned(store, owner, page, lsn,
                                            crc32c(0, bytes, sizeof bytes)), 0);
    }
    seal();
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

static void pages_require(void)
{
    uint8_t bytes[STORE_PAGE_BYTES], wanted[STORE_PAGE_BYTES];
    for (uint64_t page = 0; page < PAGES; page++) {
        if (!versions[page])
            continue;
        page_make(page, versions[page], wanted);
        assert_int_equal(store_page_read(store, object, page, bytes), 0);
        assert_memory_equal(bytes, wanted, sizeof bytes);
    }
}

/* ---- the tests */

/* Two checkpoints; in the log of the older one each page has several versions. The newer one's
 * superblock has no twin: the power was cut before. */
static void history_make(void)
{
    uint8_t older[BLOCK_BYTES];
    uint64_t twin;
    for (uint64_t page = 0; page < 12; page++)
        put(page, 1);
    saved();
    for (uint64_t version = 2; version < 4; version++)
        for (uint64_t page = 0; page < 12; page++)
            put(page, version);
    twin = slot_offset(&store->super, store->super.generation & 1);
    memcpy(older, device.image + twin, sizeof older);
    saved();
    memcpy(device.image + twin, older, sizeof older);
    store->super.generation--;
    put(40, 1);
}

/* Aim: the newest checkpoint, or the slot that names it, cannot be read at one start; so that
 * begins with the older one and is cut off among home pages. At the next start the newest one is
 * there again: it must not count, for the homes hold versions that it does not know. */
static void what_was_given_up_once_is_given_up(void **state)
{
    (void)state;
    for (uint64_t homes = 0; homes < 6; homes++)
        for (int slot = 0; slot < 2; slot++) {
            if (homes || slot) {
                abandon();
                setup(NULL);
            }
            history_make();
            const struct superblock *super = &store->super;
            bad_read.from = slot ? slot_offset(super, super->generation & 1)
                                 : super->area_start[super->checkpoint_index];
            bad_read.to = bad_read.from + BLOCK_BYTES;
            bad_read.left = 3;
            homes_from = super->data_start;
            homes_left = homes;
            assert_int_equal(start(), -EIO);
            bad_read.left = homes_from = 0;
            power_gone = false;
            assert_int_equal(start(), 0);
            pages_require();
        }
}

/* Aim: a page of metadata that arrives spoiled is read once more before the older checkpoint is
 * taken. */
static void a_spoiled_transfer_is_tried_again(void **state)
{
    (void)state;
    history_make();
    const struct superblock *super = &store->super;
    for (uint32_t page = 0; page < 3; page++) {
        bad_read.from = area_page_offset(super, super->checkpoint_index, page);
        bad_read.to = bad_read.from + BLOCK_BYTES;
        bad_read.byte = bad_read.from + 9;
        bad_read.left = 1;
        bad_read.flip = true;
        struct store_open_options look = { .flags = STORE_READ_ONLY };
        struct store *other;
        assert_int_equal(store_open(&io, &test_memory, &look, &other, &report), 0);
        assert_int_equal(bad_read.left, 0);
        assert_false(report.older_checkpoint);
        store_abandon(other);
    }
}

/* Aim: the second scan reads other bytes than the first verified, while pages go home that memory
 * cannot hold: none of them is made of bytes that nobody has verified. */
static void the_second_reading_is_verified(void **state)
{
    (void)state;
    bool noticed = false;
    for (uint64_t reading = 1; reading < 6; reading++) {
        if (reading > 1) {
            abandon();
            setup(NULL);
        }
        for (uint64_t page = 0; page < 24; page++)
            put(page, 1);
        saved();
        uint64_t first = store->super.log_start + store->log.end % store->super.log_bytes;
        put(1, 2);
        for (uint64_t page = 4; page < 24; page++)
            put(page, 2);
        bad_read.from = first;
        bad_read.to = first + 1;
        bad_read.byte = first + sizeof(struct group_disk) + offsetof(struct record_disk, page);
        bad_read.left = reading;
        bad_read.flip = true;
        noticed |= start() != 0;
        memset(&bad_read, 0, sizeof bad_read);
        assert_int_equal(start(), 0);
        pages_require();
    }
    assert_true(noticed);
}

/* Aim: a flush fails and the device drops what it was to cover, but gives it back when it is read;
 * the manager starts again, and the power goes before, or after, its first commit. What the start
 * made of that group is not lost again, and the store can be written. */
static void a_group_whose_flush_failed_may_vanish(void **state)
{
    (void)state;
    for (uint64_t commits = 0; commits < 3; commits++) {
        if (commits) {
            abandon();
            setup(NULL);
        }
        for (uint64_t page = 0; page < 8; page++)
            put(page, 1);
        saved();
        for (uint64_t page = 0; page < 4; page++)
            put(page, 2);
        caching = flush_fails = true;
        assert_int_equal(put_try(5, 2), -EIO);
        assert_int_equal(start(), 0);
        versions[5] = 2;
        pages_require();
        for (uint64_t i = 0; i < commits; i++)
            put(6, 2 + i);
        cut();
        assert_int_equal(start(), 0);
        pages_require();
    }
}

/* As put, and no flush covers it. */
static void put_lazy(uint64_t page, uint64_t version)
{
    struct store_group *group = put_sealed(page, version);
    assert_int_equal(store_group_issue(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

/* Aim: of two groups that no flush covers the first is lost and the second is not; a start ends the
 * log before both. Then the first commit is made again, byte for byte: what lies behind it stays
 * dead, as it is of an older epoch. */
static void a_cut_off_tail_stays_dead(void **state)
{
    (void)state;
    for (uint64_t page = 1; page < 4; page++)
        put(page, 1);
    saved();
    put(1, 2);
    uint64_t offset = store->super.log_start + store->log.end % store->super.log_bytes;
    put_lazy(2, 2);
    put_lazy(3, 2);
    memset(device.image + offset, 0, BLOCK_BYTES);
    assert_int_equal(start(), 0);
    pages_require();
    put_lazy(2, 2);
    versions[2] = 2;
    assert_int_equal(start(), 0);
    pages_require();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_given_up_once_is_given_up),
        TEST(a_spoiled_transfer_is_tried_again),
        TEST(the_second_reading_is_verified),
        TEST(a_group_whose_flush_failed_may_vanish),
        TEST(a_cut_off_tail_stays_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
