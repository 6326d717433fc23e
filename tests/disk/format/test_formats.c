/*
 * test_formats.c - each format on disk: round trip, golden bytes, every byte flipped, cut at every
 * length, zeros, stale lap. (Hostile bytes whose CRCs are right: test_hostile.)
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

#include "hostile.h"
#include "internal.h"
#include "world.h"

/* CRC-32C of the blocks that the golden tests make; a changed layout is a new format version. */
#define SUPERBLOCK_GOLDEN 0xa4687380u
#define GROUP_GOLDEN 0x599b7522u

static const struct world_options shape = {
    .disk_bytes = 768 * 1024, .log_bytes = 64 * 1024, .extent_bytes = 16384, .checkpoint_odds = 4,
};

/* A life of `steps` groups; the disk is left as after a power cut that lost nothing. */
static void life(struct world *world, struct device *device, uint64_t seed, uint32_t steps)
{
    struct store_report report;
    device_open(device, shape.disk_bytes);
    assert_int_equal(world_format(world, device, seed, &shape), 0);
    assert_int_equal(world_open(world, &report), 0);
    for (uint32_t i = 0; i < steps; i++)
        assert_int_equal(world_step(world), 0);
}

/* The store of a device without touching it: tables only. */
static struct store *bare_store(struct device *device)
{
    struct superblock super[2];
    struct store *store;
    uint32_t version;
    struct disk_io io = device_io(device);
    uint64_t b = slot_b_place(device->bytes);
    assert_int_equal(superblock_decode((void *)device->image, device->bytes, 0, &super[0],
                                       &version),
                     SLOT_VALID);
    assert_int_equal(superblock_decode((void *)(device->image + b), device->bytes, b, &super[1],
                                       &version), SLOT_VALID);
    int newer = super[1].generation > super[0].generation;
    assert_int_equal(store_new(&io, &test_memory, &super[newer], &store), 0);
    return store;
}

/* ---- crc32c */

static void crc32c_gives_the_published_values(void **state)
{
    (void)state;
    uint8_t zeros[32] = { 0 }, ones[32], rising[32], page[4096];
    uint64_t random = 1;
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++)
        rising[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);     /* RFC 3720, B.4 */
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, rising, 32), 0x46dd794e);
    for (uint32_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)random_next(&random);
    for (uint32_t cut = 0; cut < 300; cut++)
        assert_int_equal(crc32c(crc32c(7, page, cut), page + cut, 4096 - cut),
                         crc32c(7, page, 4096));
}

static uint64_t fake_time;
static uint64_t fake_clock(void *context)
{
    uint64_t step = *(uint64_t *)context;
    return fake_time += step;
}

static uint32_t crc_bit_by_bit(uint32_t seed, const uint8_t *bytes, size_t count)
{
    uint32_t crc = ~seed;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* For all lengths near the places where a way of computing begins or ends. */
static void all_ways_of_crc32c_agree(void **state)
{
    static const char *const names[] = { "table", "sums", "instruction" };
    static uint8_t page[9000];
    uint64_t step = 3;
    struct disk_clock clock = { &step, fake_clock };
    (void)state;
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t n = 0; n < sizeof page; n += n < 1200 ? 1 : 97) {
        uint32_t right = crc_bit_by_bit((uint32_t)n, page + n % 16, n - n % 16);
        for (int i = 0; i < 3; i++)
            if (crc32c_fix(names[i]))
                assert_int_equal(crc32c((uint32_t)n, page + n % 16, n - n % 16), right);
    }
    assert_false(crc32c_fix("t"));
    crc32c_choose(&clock);
    assert_true(crc32c_fix(crc32c_chosen()));
    crc32c_choose(NULL);
}

/* For all lengths of a message in a block, by each way. */
static void zeros_behind_a_message_count_like_other_bytes(void **state)
{
    static const char *const names[] = { "table", "sums", "instruction" };
    static uint8_t page[4096];
    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(page, 0, sizeof page);
        if (crc32c_fix(names[i]))
            for (size_t n = 0; n < sizeof page; page[n] = (uint8_t)(n % 255 + 1), n++)
                assert_int_equal(crc32c_padded((uint32_t)n, page, sizeof page, sizeof page - n),
                                 crc32c((uint32_t)n, page, sizeof page));
    }
    crc32c_choose(NULL);
}

/* ---- superblock */

static void superblock_sample(struct device *device, struct superblock *super, uint8_t *block)
{
    static struct world world;
    uint32_t version;
    life(&world, device, 11, 4);
    world_abandon(&world);
    memcpy(block, device->image, 4096);
    assert_int_equal(superblock_decode((void *)block, device->bytes, 0, super, &version),
                     SLOT_VALID);
}

static void superblock_round_trip_flip_cut_and_zero(void **state)
{
    (void)state;
    struct device device;
    struct superblock super, again;
    uint8_t block[4096], copy[4096];
    uint32_t version;
    superblock_sample(&device, &super, block);
    superblock_encode(&super, (void *)copy);
    assert_memory_equal(block, copy, 4096);
    for (uint32_t i = 0; i < 4096; i++) {
        memcpy(copy, block, 4096);
        copy[i] ^= (uint8_t)(1u << (i % 8));
        assert_int_not_equal(superblock_decode((void *)copy, device.bytes, 0, &again, &version),
                             SLOT_VALID);
    }
    for (uint32_t cut = 0; cut < 4096; cut++) {
        memcpy(copy, block, 4096);
        memset(copy + cut, 0, 4096 - cut);
        int valid =
            superblock_decode((void *)copy, device.bytes, 0, &again, &version) == SLOT_VALID;
        assert_int_equal(valid, memcmp(copy, block, 4096) == 0);
    }
    memset(copy, 0, 4096);
    assert_int_equal(superblock_decode((void *)copy, device.bytes, 0, &again, &version), SLOT_ZERO);
    assert_int_equal(superblock_decode((void *)block, device.bytes, 4096, &again, &version),
                     SLOT_DAMAGED);     /* right block, wrong place */
    device_close(&device);
}

static void superblock_golden_bytes(void **state)
{
    (void)state;
    struct superblock super = { .generation = 2, .disk_bytes = 0x100000, .slot_b_offset = 0x80000,
        .log_start = 0x2000, .log_bytes = 0x10000, .extent_bytes = 0x4000, .zone = 3,
        .area_pages = 9, .epoch_count = 1, .epochs = { { 5, 0x10000 } } };
    static const uint8_t golden[] = {
        0x31, 0x6f, 0x74, 0x53, 0x4b, 0x64, 0x69, 0x62, 0, 0, 0, 0, 4, 0, 0, 0,
    };
    struct superblock_disk disk;
    superblock_encode(&super, &disk);
    const uint8_t *bytes = (const void *)&disk;
    assert_memory_equal(bytes, golden, 8);
    assert_memory_equal(bytes + 12, golden + 12, 4);
    assert_int_equal(bytes[48], 2);
    assert_int_equal(bytes[66], 8);
    assert_int_equal(bytes[92], 3);
    assert_int_equal(bytes[240], 5);
    assert_int_equal(bytes[250], 1);
    assert_int_equal(crc32c(0, bytes, 4096), SUPERBLOCK_GOLDEN);
}

/* Aim: who gives a meaning to bytes that were 0, or makes a record, is told here that this is a new
 * version, since a Katydid of before would not see what is there. */
static void what_is_new_is_of_a_new_version(void **state)
{
    (void)state;
    assert_int_equal(FORMAT_VERSION, 4);
    assert_int_equal(RECORD_TYPES, 26);
    assert_int_equal(DECIDED_COUNT, 5);
    assert_int_equal(offsetof(struct superblock_disk, zero), 400);
    assert_int_equal(offsetof(struct container_disk, created), 264);
}

/* ---- groups */

struct sample {
    struct device device;
    struct store *store;
    struct log_reader reader;
    uint64_t lsn, offset, bytes;
    uint32_t prev_crc;
    const uint8_t *group;
};

/* A store with exactly one group after its checkpoint. */
static void sample_open(struct sample *s)
{
    static struct world world;
    life(&world, &s->device, 5, 0);
    assert_int_equal(world_step(&world), 0);
    world_abandon(&world);
    s->store = bare_store(&s->device);
    const struct checkpoint_info *c =
        &s->store->super.checkpoints[s->store->super.checkpoint_index];
    uint64_t end = c->redo_lsn;
    uint32_t crc = s->prev_crc = c->prev_crc;
    assert_int_equal(log_reader_open(&s->reader, s->store, READ_AHEAD_BYTES), 0);
    assert_int_equal(log_next(&s->reader, &end, &crc, &s->group), 1);
    s->lsn = le64_get(((const struct group_disk *)s->group)->lsn);
    s->bytes = (uint64_t)le32_get(((const struct group_disk *)s->group)->blocks) * 4096;
    s->offset = s->store->super.log_start + s->lsn % s->store->super.log_bytes;
}

static int sample_look(struct sample *s)
{
    uint64_t lsn = s->lsn;
    uint32_t crc = s->prev_crc;
    s->reader.filled = 0;
    return log_next(&s->reader, &lsn, &crc, &s->group);
}

static void sample_close(struct sample *s)
{
    log_reader_close(&s->reader);
    store_abandon(s->store);
    device_close(&s->device);
}

static void group_flip_cut_and_zero_end_the_log(void **state)
{
    (void)state;
    struct sample s;
    sample_open(&s);
    uint8_t *at = s.device.image + s.offset, *copy = malloc(s.bytes);
    memcpy(copy, at, s.bytes);
    for (uint64_t i = 0; i < s.bytes; i++) {
        at[i] ^= (uint8_t)(1u << (i % 8));
        assert_int_equal(sample_look(&s), 0);
        at[i] = copy[i];
    }
    for (uint64_t cut = 0; cut < s.bytes; cut += 8) {
        memset(at + cut, 0, s.bytes - cut);
        assert_int_equal(sample_look(&s), memcmp(at, copy, s.bytes) == 0);
        memcpy(at, copy, s.bytes);
    }
    assert_int_equal(sample_look(&s), 1);
    free(copy);
    sample_close(&s);
}

static void group_of_a_stale_lap_epoch_store_or_history_ends_the_log(void **state)
{
    (void)state;
    struct sample s;
    sample_open(&s);
    struct group_disk *header = (void *)(s.device.image + s.offset), good = *header;
    struct { const char *what; le64 lsn; le32 epoch, prev_crc, uuid; } wrong[] = {
        { "stale lap", le64_of(s.lsn - s.store->super.log_bytes), good.epoch, good.prev_crc,
          good.uuid_low },
        { "old epoch", good.lsn, le32_of(le32_get(good.epoch) - 1), good.prev_crc, good.uuid_low },
        { "other history", good.lsn, good.epoch, le32_of(99), good.uuid_low },
        { "other store", good.lsn, good.epoch, good.prev_crc, le32_of(99) },
    };
    for (uint32_t i = 0; i < 4; i++) {
        header->lsn = wrong[i].lsn;
        header->epoch = wrong[i].epoch;
        header->prev_crc = wrong[i].prev_crc;
        header->uuid_low = wrong[i].uuid;
        header->crc = le32_of(group_crc(&s.store->super, (void *)header, s.bytes, 0));
        assert_int_equal(sample_look(&s), 0);
        *header = good;
    }
    assert_int_equal(sample_look(&s), 1);
    sample_close(&s);
}

static void group_golden_bytes(void **state)
{
    (void)state;
    struct device device;
    struct store *store;
    struct store_group *group;
    struct store_report report;
    uint32_t position;
    struct disk_io io;
    struct store_options format = { .uuid = { 1, 2, 3, 4 }, .log_bytes = 64 * 1024 };
    device_open(&device, 768 * 1024);
    io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &format), 0);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_int_equal(store_group_begin(store, &group), 0);
    store_txn_begin(group, 7);
    struct store_op op = { .type = STORE_OP_CREATE, .name = "golden", .flags = 5 };
    assert_int_equal(store_txn_op(group, &op), 0);
    assert_int_equal(op.object, 1);
    assert_int_equal(op.address, STORE_REGION_BASE);
    struct diff_run runs[] = { { 16, 3 }, { 100, 2 } };
    assert_int_equal(txn_diff(group, 1, 2, 0, runs, 2, "abcde"), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    const uint8_t *bytes = group->buffer;
    static const uint8_t diff[] = { 16, 0, 3, 0, 'a', 'b', 'c', 100, 0, 2, 0, 'd', 'e', 0, 0, 0 };
    uint32_t at = 64 + 48 + (uint32_t)CREATE_BYTES;
    assert_int_equal(CREATE_BYTES % 8, 0);
    assert_int_equal(bytes[at + 4], RECORD_PAGE_DIFF);
    assert_int_equal(bytes[at + 8], 13);
    assert_memory_equal(bytes + at + 48, diff, sizeof diff);
    assert_int_equal(position, at + 48 + 16);
    assert_int_equal(store_group_csn(group, position), 0x10000 + position);
    assert_int_equal(crc32c(0, bytes, group->bytes), GROUP_GOLDEN);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    store_abandon(store);
    device_close(&device);
}

/* Aim: each commit record has its transaction's id and the group's time, whatever was taken back in
 * between; and nothing of the way that seal finds them. */
static void commit_records_say_when_and_which(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_group *group;
    uint32_t position[3];
    life(&world, &device, 5, 6);
    for (uint64_t time = 1; time < 3; time++) {
        assert_int_equal(store_group_begin(world.store, &group), 0);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t none;
            store_txn_begin(group, 20 + i);
            store_txn_id(group, 100 + i);
            assert_int_equal(store_txn_op(group, &(struct store_op){ .type = 99 }), -ENOENT);
            assert_int_equal(store_txn_end(group, &none), -ENOENT);
            store_txn_begin(group, 10 + i);
            if (i)
                store_txn_id(group, i << 20 | time);
            assert_int_equal(store_txn_end(group, &position[i]), 0);
        }
        store_group_time(group, time << 40);
        assert_int_equal(store_group_seal(group), 0);
        for (uint32_t i = 0; i < 3; i++) {
            const struct record_disk *commit = (const void *)(group->buffer + position[i]);
            assert_int_equal(le16_get(commit->type), RECORD_COMMIT);
            assert_int_equal(le64_get(commit->object), 10 + i);
            assert_int_equal(le64_get(commit->base), time << 40);
            assert_int_equal(le64_get(commit->physical), i ? i << 20 | time : 0);
        }
        assert_int_equal(store_group_write(group), 0);
        assert_int_equal(store_group_apply(group), 0);
    }
    world_abandon(&world);
    device_close(&device);
}

/* Aim: a commit of one whole page is one write of at most 8 KiB and one flush. */
static void commit_of_one_page_is_one_write_and_one_flush(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_group *group;
    struct store_container c;
    uint8_t page[4096] = { 1 };
    uint32_t position;
    life(&world, &device, 5, 6);
    assert_int_equal(store_container_next(world.store, 0, &c), 0);
    uint32_t writes = device.writes, flushes = device.flushes;
    device_record(&device, true);
    assert_int_equal(store_group_begin(world.store, &group), 0);
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, c.object, 100, page), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(device.writes - writes, 1);
    assert_int_equal(device.flushes - flushes, 1);
    assert_int_equal(device.events[0].bytes, 8192);
    world_abandon(&world);
    device_close(&device);
}

/* ---- the whole image */

/* Aim: damage in acknowledged history is told from a torn tail, and can be read up to there. */
static void damage_in_acknowledged_history_is_reported(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_report report;
    struct store *store;
    struct disk_io io;
    uint64_t digest;
    life(&world, &device, 5, 0);
    for (int i = 0; i < 4; i++) {
        struct world_options never = shape;
        never.checkpoint_odds = 1u << 30;
        world.options = never;
        assert_int_equal(world_step(&world), 0);
    }
    uint64_t start = world.store->super.log_start;
    world_abandon(&world);
    device.image[start + 100] ^= 4;     /* the first group, others follow it */
    io = device_io(&device);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EUCLEAN);
    assert_int_equal(report.damage_lsn, 64 * 1024);
    struct store_open_options read_only = { .flags = STORE_READ_ONLY };
    uint32_t writes = device.writes;
    assert_int_equal(store_open(&io, &test_memory, &read_only, &store, &report), 0);
    assert_int_equal(store_digest(store, &digest), 0);
    assert_int_equal(digest, world.digests[0]);
    assert_int_equal(device.writes, writes);
    store_abandon(store);
    device_close(&device);
}

static void disks_that_are_no_store_are_told_apart(void **state)
{
    (void)state;
    static struct world world;
    struct device device;
    struct store_report report;
    struct store *store;
    device_open(&device, 768 * 1024);
    struct disk_io io = device_io(&device);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -ENODATA);
    memcpy(device.image + 0x1fe, "\x55\xaa", 2);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    device.image[0x1fe] = device.image[0x1ff] = 0;
    device.image[5000] = 1;
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    device_close(&device);
    life(&world, &device, 1, 3);
    world_abandon(&world);
    io = device_io(&device);
    uint64_t b = slot_b_place(device.bytes);
    device.image[12]++;
    device.image[b + 12]++;
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EPROTONOSUPPORT);
    assert_int_equal(report.version, FORMAT_VERSION + 1);
    device.image[12] = device.image[b + 12] = FORMAT_VERSION - 1;
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EUCLEAN);
    slot_mend(device.image);
    slot_mend(device.image + b);        /* as the version that has written it left it */
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EOPNOTSUPP);
    assert_int_equal(report.version, FORMAT_VERSION - 1);
    assert_string_equal(report.rule, "RV12");
    device.image[12] = device.image[b + 12] = FORMAT_VERSION;
    slot_mend(device.image);
    slot_mend(device.image + b);
    device.image[20]++;
    device.image[b + 20]++;
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EUCLEAN);
    assert_non_null(report.message);
    memset(device.image, 0, BLOCK_BYTES);
    memset(device.image + b, 'x', BLOCK_BYTES);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EUCLEAN);
    assert_string_equal(report.rule, "RV5");     /* for the signpost leads to a store */
    device.image[SIGNPOST_OFFSET + 16] ^= 1;
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), -EMEDIUMTYPE);
    device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_values),
        cmocka_unit_test(all_ways_of_crc32c_agree),
        cmocka_unit_test(zeros_behind_a_message_count_like_other_bytes),
        cmocka_unit_test(superblock_round_trip_flip_cut_and_zero),
        cmocka_unit_test(superblock_golden_bytes),
        cmocka_unit_test(what_is_new_is_of_a_new_version),
        cmocka_unit_test(group_flip_cut_and_zero_end_the_log),
        cmocka_unit_test(group_of_a_stale_lap_epoch_store_or_history_ends_the_log),
        cmocka_unit_test(group_golden_bytes),
        cmocka_unit_test(commit_records_say_when_and_which),
        cmocka_unit_test(commit_of_one_page_is_one_write_and_one_flush),
        cmocka_unit_test(damage_in_acknowledged_history_is_reported),
        cmocka_unit_test(disks_that_are_no_store_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
