/*
 * test_upgrade.c - a store of an older format becomes one of today's, whatever moment the power
 * goes.
 *
 * Aim     no store is refused without a word of what to do; one that can be upgraded holds the same
 *         afterwards; cut off at any request, it is the old store or the new one, and goes on.
 * Method  a format that never was, the one before the first: the number of epochs in superblocks,
 *         and in metadata the next object's id and the numbers in bucket pages, are complements.
 *         Stores of it are made from those of today by changing these, and all checksums above.
 *         And version 2, of which two words of each container's slot held anything.
 */
#include "stage.h"
#include "tools/kcheck/kcheck.h"

#include <stdlib.h>

#define OLD (FORMAT_VERSION - 1)

/* ---- the step from it, and back */

static const struct format_step *steps;         /* those of today */
static uint32_t step_count;
static bool two;                                /* the store is made one of version 2 */

static void super_turn(struct superblock_disk *block)
{
    if (!two)
        block->epoch_count = le32_of(~le32_get(block->epoch_count));
}

static void page_turn(uint32_t kind, uint8_t *bytes)
{
    struct meta_header_disk *header = (void *)bytes;
    struct bucket_disk *bucket = (void *)bytes;
    struct container_disk *container = (void *)bytes;
    if (two) {
        if (kind == META_DIRECTORY)
            container->durability = container->protection = le16_of(0xffff);
        return;
    }
    if (kind == META_HEADER)
        header->next_object = le64_of(~le64_get(header->next_object));
    if (kind == META_BUCKET)
        bucket->bucket = le32_of(~le32_get(bucket->bucket));
}

static struct format_step step;

/* The pages of one area and its map, whose CRC is the answer. */
static uint32_t area_turn(const struct superblock *super, uint32_t area)
{
    const struct checkpoint_info *c = &super->checkpoints[area];
    struct map_entry_disk *map = (void *)(device.image + super->area_start[area]);
    for (uint32_t i = 0; i < c->pages; i++) {
        uint8_t *bytes = device.image + area_page_offset(super, area, i);
        uint32_t seed = crc_seed(super->uuid, CRC_META, i, 0);
        if (le16_get(map[i].kind) == META_FREE)
            continue;
        page_turn(le16_get(map[i].kind), bytes);
        map[i].crc = le32_of(crc32c(seed, bytes, BLOCK_BYTES));
    }
    return crc32c(crc_seed(super->uuid, CRC_MAP, c->redo_lsn, 0), map, area_map_bytes(c->pages));
}

static void slot_turn(const struct superblock *super, const uint32_t crcs[2], uint64_t offset)
{
    struct superblock_disk *slot = (void *)(device.image + offset);
    for (uint32_t i = 0; i < 2; i++)            /* unless it is another checkpoint that it names */
        if (le64_get(slot->checkpoints[i].redo_lsn) == super->checkpoints[i].redo_lsn)
            slot->checkpoints[i].root_crc = le32_of(crcs[i]);
    super_turn(slot);
    slot->version = le32_of(two ? 2 : OLD);
    uint32_t seed = crc_seed(slot->uuid, CRC_SUPERBLOCK, le32_get(slot->slot), 0);
    slot->crc = le32_of(crc32c(seed, (uint8_t *)slot + 12, BLOCK_BYTES - 12));
}

/* What is on the device becomes a store of that format. */
static void grow_old(void)
{
    const struct superblock super = store->super;
    uint32_t crcs[2];
    store_abandon(store);
    store = NULL;
    for (uint32_t i = 0; i < 2; i++)
        crcs[i] = area_turn(&super, i);
    slot_turn(&super, crcs, 0);
    slot_turn(&super, crcs, super.slot_b_offset);
}

/* ---- the stores */

static uint8_t *old;                            /* the image before the upgrade */

static int setup(void **state)
{
    (void)state;
    make(1 << 20, 128 << 10);
    commit_pages(0, 6);
    checkpoint();
    checkpoint();
    commit_pages(3, 9);
    step = (struct format_step){ .from = OLD, .superblock = super_turn, .page = page_turn };
    if (!steps) {
        steps = format_steps;
        step_count = format_step_count;
    }
    format_steps = two ? steps : &step;
    format_step_count = two ? step_count : 1;
    grow_old();
    old = malloc(device.bytes);
    assert_non_null(old);
    memcpy(old, device.image, device.bytes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(old);
    abandon();
    return 0;
}

static void contents_require(void)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    const char *why = "";
    assert_int_equal(store_check(store, &why), 0);
    for (uint64_t page = 0; page < 9; page++) {
        assert_int_equal(store_page_read(store, object, page, bytes), 0);
        assert_memory_equal(bytes, page_bytes, sizeof bytes);
    }
}

static void today_require(void)
{
    struct kcheck_options how = { .context = NULL };
    struct kcheck_io disk = { &device, device.bytes, io.read };
    struct kcheck_result own;
    kcheck_image(&disk, &how, &own);
    assert_int_equal(own.error, 0);
    assert_int_equal(own.verdict, KCHECK_SOUND);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(report.version, FORMAT_VERSION);
    contents_require();
    commit_pages(9, 10);
    store_abandon(store);
    store = NULL;
}

/* ---- the tests */

/* Aim: without being asked nothing is upgraded; asked, all is, in both areas and both slots. */
static void an_older_store_is_upgraded_when_that_is_wanted(void **state)
{
    (void)state;
    assert_int_equal(open_with(0), -EOPNOTSUPP);
    assert_int_equal(report.version, OLD);
    assert_non_null(strstr(report.message, "kstore upgrade"));
    assert_memory_equal(device.image, old, device.bytes);
    assert_true(store_upgradable(OLD) && store_upgradable(FORMAT_VERSION));
    assert_false(store_upgradable(OLD - 1) || store_upgradable(FORMAT_VERSION + 1));
    assert_int_equal(open_with(STORE_UPGRADE | STORE_READ_ONLY), 0);  /* looking changes nothing */
    contents_require();
    store_abandon(store);
    store = NULL;
    assert_memory_equal(device.image, old, device.bytes);
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    assert_int_equal(report.version, OLD);
    format_step_count = 0;                      /* nothing of the old format is left */
    today_require();
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    assert_int_equal(report.version, FORMAT_VERSION);
}

/* Aim: each write and flush of an upgrade is the last one; with the last write torn in its middle.
 * What is there then is the old store, which can be upgraded, or the new one. */
static void an_upgrade_may_be_cut_off_anywhere(void **state)
{
    (void)state;
    uint32_t olds = 0, news = 0;
    int error = -EIO;
    for (uint32_t at = 1; error; at++) {
        memcpy(device.image, old, device.bytes);
        device_record(&device, true);
        device.fail_kinds = FAIL_WRITE | FAIL_FLUSH;
        device.fail_sticky = true;
        device.requests = 0;
        device.fail_at = at;
        error = store_upgrade(&io, &test_memory, &report);
        device.fail_kinds = 0;
        device.recording = false;
        const struct event *last = NULL;
        for (uint32_t i = 0; i < device.event_count; i++)
            last = device.events[i].kind == WRITE_ISSUE ? &device.events[i] : last;
        if (last && at % 2)                     /* what was written last is torn */
            memcpy(device.image + last->offset, old + last->offset, SECTOR_BYTES);
        int found = open_with(0);
        if (found == 0) {
            news++;
            contents_require();
            store_abandon(store);
            store = NULL;
        } else {
            assert_int_equal(found, -EOPNOTSUPP);
            olds++;
        }
        assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
        today_require();
    }
    assert_true(olds > 3 && news > 3);
}

/* older_turn makes the older slot name the other checkpoint: the power went before the newest
 * superblock had its twin. Returns where the newest lies. */
static uint64_t older_turn(void)
{
    struct superblock_disk *a = (void *)device.image;
    struct superblock_disk *b = (void *)(device.image + le64_get(a->slot_b_offset));
    bool first = le64_get(a->generation) > le64_get(b->generation);
    struct superblock_disk *older = first ? b : a;
    uint32_t named = le32_get(older->checkpoint_index);
    older->checkpoint_index = le32_of(!named);
    memset(&older->checkpoints[named], 0, sizeof older->checkpoints[named]);
    uint32_t seed = crc_seed(older->uuid, CRC_SUPERBLOCK, le32_get(older->slot), 0);
    older->crc = le32_of(crc32c(seed, (uint8_t *)older + 12, BLOCK_BYTES - 12));
    return (uint64_t)((uint8_t *)(first ? a : b) - device.image);
}

/* Aim (SB4): as before, but the slots of the old store name two areas; and where the upgrade was
 * cut off, the slot rots that was the newest one. What the other names is whole. */
static void no_slot_names_what_an_upgrade_overwrites(void **state)
{
    (void)state;
    uint64_t newest = older_turn();
    int error = -EIO;
    memcpy(old, device.image, device.bytes);
    for (uint32_t at = 1; error; at++) {
        memcpy(device.image, old, device.bytes);
        device.fail_kinds = FAIL_WRITE | FAIL_FLUSH;
        device.fail_sticky = true;
        device.requests = 0;
        device.fail_at = at;
        error = store_upgrade(&io, &test_memory, &report);
        device.fail_kinds = 0;
        device.image[newest + 100] ^= 1;
        if (open_with(STORE_UPGRADE | STORE_READ_ONLY) == 0) {
            contents_require();
            store_abandon(store);
            store = NULL;
        } else {                                /* and is what repairs it, before an upgrade */
            assert_non_null(strstr(report.message, "Katydid that made it"));
        }
        device.image[newest + 100] ^= 1;
        assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
        today_require();
    }
}

static uint64_t other_at;                       /* a slot whose next reads give what is in other */
static uint32_t other_met;
static uint8_t other[BLOCK_BYTES];
static int (*read_as_is)(void *context, uint64_t offset, void *buffer, size_t bytes);

static int other_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    int error = read_as_is(context, offset, buffer, bytes);
    if (offset == other_at && bytes == BLOCK_BYTES && other_met++)
        memcpy(buffer, other, BLOCK_BYTES);
    return error;
}

static void other_is_refused(void)
{
    other_met = 0;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), -EIO);
    assert_int_equal(other_met, 2);
    assert_memory_equal(device.image, old, device.bytes);
}

/* Aim (SB4): the twin of an old superblock has the bytes that were verified. If the slot gives
 * others when it is read once more, spoiled in any place or of a time before, none is written. */
static void a_twin_is_what_was_verified(void **state)
{
    (void)state;
    other_at = older_turn();
    memcpy(old, device.image, device.bytes);
    const uint8_t *slot = old + other_at;
    struct superblock_disk *turned = (void *)other;
    read_as_is = io.read;
    io.read = other_read;
    for (uint32_t at = 0; at < BLOCK_BYTES; at += at < 512 ? 1 : 61) {
        memcpy(other, slot, BLOCK_BYTES);
        other[at] ^= 1;
        other_is_refused();
    }
    memcpy(other, slot, BLOCK_BYTES);
    turned->generation = le64_of(le64_get(turned->generation) - 2);
    uint32_t seed = crc_seed(turned->uuid, CRC_SUPERBLOCK, le32_get(turned->slot), 0);
    turned->crc = le32_of(crc32c(seed, other + 12, BLOCK_BYTES - 12));
    other_is_refused();
    memcpy(other, slot, BLOCK_BYTES);
    other_met = 0;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    io.read = read_as_is;
    today_require();
}

/* Aim: a log of the older format that cannot be replayed, a way that is not there, and damage: each
 * is refused with a sentence, and nothing is written. */
static void what_cannot_be_upgraded_is_left_alone(void **state)
{
    (void)state;
    step.log_differs = true;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), -EOPNOTSUPP);
    assert_non_null(strstr(report.message, "halt"));
    step.log_differs = false;
    step.from = OLD - 1;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), -EOPNOTSUPP);
    assert_int_equal(report.version, OLD);
    step.from = OLD;
    assert_memory_equal(device.image, old, device.bytes);
    device.image[100] ^= 1;                     /* slot A rots */
    assert_int_equal(store_upgrade(&io, &test_memory, &report), -EUCLEAN);
    assert_non_null(strstr(report.message, "Katydid that made it"));
    device.image[100] ^= 1;
    assert_memory_equal(device.image, old, device.bytes);
}

/* Aim: a store that was closed, of a format whose log cannot be replayed. */
static void a_closed_store_needs_no_log(void **state)
{
    (void)state;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    assert_int_equal(open_with(0), 0);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(open_with(STORE_READ_ONLY), 0);
    grow_old();
    step.log_differs = true;
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    today_require();
}

static int setup_two(void **state)
{
    two = true;
    return setup(state);
}

static int teardown_two(void **state)
{
    two = false;
    return teardown(state);
}

/* Aim: a store of version 2 that was not closed is whole afterwards, whatever those words held, and
 * has neither durability nor protection. */
static void a_store_of_version_2_has_no_properties_yet(void **state)
{
    (void)state;
    assert_int_equal(open_with(0), -EOPNOTSUPP);
    assert_int_equal(report.version, 2);
    assert_int_equal(store_upgrade(&io, &test_memory, &report), 0);
    today_require();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_older_store_is_upgraded_when_that_is_wanted),
        TEST(an_upgrade_may_be_cut_off_anywhere),
        TEST(no_slot_names_what_an_upgrade_overwrites),
        TEST(a_twin_is_what_was_verified),
        TEST(what_cannot_be_upgraded_is_left_alone),
        TEST(a_closed_store_needs_no_log),
        cmocka_unit_test_setup_teardown(a_store_of_version_2_has_no_properties_yet, setup_two,
                                        teardown_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
