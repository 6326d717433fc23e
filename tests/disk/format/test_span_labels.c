/*
 * test_span_labels.c - which disks are one store: their labels.
 *
 * Method: each wrong set of disks is refused with a sentence about the right one, and nothing is
 * written; then labels at random, with right checksums. kcheck must say the same of each set.
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

#include "crew.h"
#include "internal.h"
#include "life.h"
#include "tools/kcheck/span.h"

#define MIB (1ull << 20)

enum { HOSTILE, OPENED };

static struct world world;

/* ---- the wrong disks */

struct shelf { struct device device; struct disk_io io[SPAN_DISKS_MAX]; uint8_t *image; };

static void shelf_fill(struct shelf *shelf, uint32_t count, uint64_t seed)
{
    struct world_options options = { .log_bytes = 65536, .extent_bytes = 4096,
                                     .checkpoint_odds = 4 };
    struct store_report report;
    uint64_t bytes[SPAN_DISKS_MAX] = { 2 * MIB, MIB, MIB, MIB };
    device_open_disks(&shelf->device, bytes, count);
    assert_int_equal(world_format(&world, &shelf->device, seed, &options), 0);
    assert_int_equal(world_open(&world, &report), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(world_step(&world), 0);
    assert_int_equal(world_checkpoint(&world), 0);
    assert_int_equal(world_close(&world), 0);
    for (uint32_t i = 0; i < count; i++)
        shelf->io[i] = device_disk_io(&shelf->device, i);
    shelf->image = malloc(shelf->device.bytes);
    memcpy(shelf->image, shelf->device.image, shelf->device.bytes);
}

static void shelf_empty(struct shelf *shelf)
{
    assert_memory_equal(shelf->image, shelf->device.image, shelf->device.bytes);
    free(shelf->image);
    device_close(&shelf->device);
}

static struct span span;
static struct span_report said;

/* kcheck, which reads labels by rules of its own, must say the same. */
static int both_open(const struct disk_io *disks, uint32_t count, struct disk_io *io)
{
    static uint8_t mine[65536], other[65536];
    struct kcheck_io own[SPAN_DISKS_MAX], whole;
    struct kspan kspan;
    for (uint32_t i = 0; i < count; i++)
        own[i] = (struct kcheck_io){ disks[i].context, disks[i].bytes, disks[i].read };
    int error = span_open(disks, count, &span, io, &said);
    if (!count)
        return error;
    require(kspan_open(own, count, &kspan, &whole) == error);
    require(error || (whole.bytes == io->bytes && kspan.count == span.count));
    for (uint64_t at = 0; !error && at + sizeof mine <= io->bytes && at < 64 * MIB;
         at += sizeof mine) {
        require(io->read(io->context, at, mine, sizeof mine) == 0);
        require(whole.read(whole.context, at, other, sizeof other) == 0);
        require(!memcmp(mine, other, sizeof mine));
    }
    return error;
}

static void refused(const struct disk_io *disks, uint32_t count, int error, const char *text,
                    uint32_t given, uint32_t number)
{
    struct disk_io io;
    assert_int_equal(both_open(disks, count, &io), error);
    if (!strstr(said.message, text))
        fail_msg("\"%s\" instead of \"%s\"", said.message, text);
    assert_int_equal(said.given, given);
    assert_int_equal(said.number, number);
}

static void opens(const struct disk_io *disks, uint32_t count)
{
    struct store_open_options how = { .flags = STORE_READ_ONLY };
    struct store_report report;
    struct store *store;
    struct disk_io io;
    uint64_t digest;
    assert_int_equal(both_open(disks, count, &io), 0);
    assert_int_equal(store_open(&io, &test_memory, &how, &store, &report), 0);
    assert_int_equal(store_digest(store, &digest), 0);
    assert_true(digest == world.digests[world.model.commits]);
    store_abandon(store);
}

/* Aim: in any order. */
static void any_order_opens(void **state)
{
    (void)state;
    static struct shelf s;
    shelf_fill(&s, 3, 1);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++)
            if (i != j) {
                struct disk_io disks[3] = { s.io[i], s.io[j], s.io[3 - i - j] };
                opens(disks, 3);
            }
    shelf_empty(&s);
}

/* Aim (SN3): each wrong set of disks is refused, with a sentence about the right one, and nothing
 * is written. */
static void wrong_disks_are_told(void **state)
{
    (void)state;
    static struct shelf s, t;
    static struct device plain;
    shelf_fill(&t, 3, 2);
    shelf_fill(&s, 3, 1);
    device_open(&plain, MIB);
    struct disk_io blank = device_io(&plain), disks[4] = { s.io[0], s.io[1], s.io[2], s.io[1] };
    refused(disks, 2, -EUCLEAN, "is missing", SPAN_MISSING, 3);
    refused(disks + 1, 1, -EUCLEAN, "is missing", SPAN_MISSING, 1);
    refused(disks, 4, -EUCLEAN, "is given twice", 3, 2);
    disks[1] = t.io[1];
    refused(disks, 3, -EUCLEAN, "is of another store", 1, 0);
    disks[1] = blank;
    refused(disks, 3, -EUCLEAN, "has no label", 1, 0);
    refused((struct disk_io[]){ blank, blank }, 2, -ENODATA, "no store was made", SPAN_MISSING, 0);
    refused(disks, 0, -EINVAL, "1 to 4", SPAN_MISSING, 0);
    disks[1] = s.io[1];
    disks[1].bytes -= 8192;
    refused(disks, 3, -EUCLEAN, "is smaller", 1, 2);
    disks[1].bytes += 16384;            /* of its last block nothing is believed */
    s.device.disks[1].bytes += 8192;
    refused(disks, 3, -EUCLEAN, "is larger", 1, 2);
    s.device.disks[1].bytes -= 8192;
    disks[1] = s.io[1];
    opens(disks, 3);
    device_close(&plain);
    shelf_empty(&s);
    shelf_empty(&t);
}

/* Aim: a disk whose label cannot be read, or is newer, is told; one lost copy is mended. */
static void labels_are_read_twice_and_mended(void **state)
{
    (void)state;
    static struct shelf s;
    uint32_t mended;
    shelf_fill(&s, 2, 3);
    struct label_disk *first = (void *)(s.device.image + s.device.disks[1].start);
    struct label_disk *last = first + s.device.disks[1].bytes / 4096 - 1;
    struct label_disk good = *first;
    first->version = last->version = le32_of(2);
    first->crc = le32_of(block_crc(first, CRC_LABEL, 0));
    refused(s.io, 2, -EPROTONOSUPPORT, "newer", 1, 0);
    last->crc = le32_of(block_crc(last, CRC_LABEL, s.device.disks[1].bytes - 4096));
    refused(s.io, 2, -EPROTONOSUPPORT, "newer", 1, 0);
    *first = good;
    opens(s.io, 2);                     /* the last one does not count then */
    assert_int_equal(span_mend(&span, &mended), 0);
    assert_int_equal(mended, 1);
    assert_int_equal(span_mend(&span, &mended), 0);
    assert_int_equal(mended, 0);
    memset(first, 0, 4096);
    s.device.bad_at = (uint64_t)((uint8_t *)last - s.device.image);
    s.device.bad_bytes = 4096;
    refused(s.io, 2, -EIO, "cannot be read", 1, 0);
    s.device.bad_bytes = 0;
    opens(s.io, 2);
    assert_int_equal(span_mend(&span, &mended), 0);
    assert_int_equal(mended, 1);
    shelf_empty(&s);
}

/* Aim: a store by itself stays one, whatever its last block looks like, and though its first is
 * lost; and it can be made on a disk that had a label. */
static void a_single_disk_is_what_it_was(void **state)
{
    (void)state;
    static struct shelf s;
    struct store_options options = { .uuid = { 9 }, .log_bytes = 65536 };
    struct store_report report;
    struct disk_io io;
    struct store *store;
    shelf_fill(&s, 2, 4);
    uint64_t end = s.device.disks[1].start + s.device.disks[1].bytes;
    uint8_t *first = s.device.image + s.device.disks[1].start, label[4096];
    memcpy(label, s.device.image + end - 4096, sizeof label);
    assert_int_equal(span_format(s.io + 1, 1, &test_memory, &options, 0, &span), 0);
    refused(s.io, 2, -EUCLEAN, "has no label", 1, 0);
    memcpy(s.device.image + end - 4096, label, sizeof label);
    for (int i = 0; i < 2; i++) {
        memset(first + i * 4096, 0, 4096);      /* slot A is lost, or the signpost is */
        assert_int_equal(both_open(s.io + 1, 1, &io), 0);
        assert_int_equal(span.count, 1);
        assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
        assert_int_equal(store_close(store), 0);
    }
    free(s.image);
    device_close(&s.device);
}

/* ---- hostile labels */

static void hostile_labels(uint64_t seed)
{
    static struct shelf s;
    uint64_t random = seed * 99;
    static const uint32_t fields[] = { 16, 32, 36, 40, 48, 56, 64, 72, 2000 };
    shelf_fill(&s, 2 + seed % 3, seed);
    for (int i = 0; i < 400; i++) {
        uint32_t count = s.device.disk_count, mark = (uint32_t)random_below(&random, 1u << count);
        uint32_t field = fields[random_below(&random, 9)];
        bool any = random_below(&random, 3);
        uint64_t value = any ? random_next(&random) >> random_below(&random, 64)
                             : 4096 * random_below(&random, 600);
        for (uint32_t d = 0; d < 2 * count; d++) {
            const struct device_disk *disk = &s.device.disks[d / 2];
            uint64_t at = d % 2 ? disk->bytes - 4096 : 0;
            struct label_disk *label = (void *)(s.device.image + disk->start + at);
            if (!(mark >> d / 2 & 1) && i % 2)
                continue;
            memcpy((uint8_t *)label + field, &value, field == 32 || field == 36 ? 4 : 8);
            label->crc = le32_of(block_crc(label, CRC_LABEL, at));
        }
        struct disk_io io;
        int error = both_open(s.io, count, &io);
        require(error ? said.message != NULL : io.bytes == span.total_bytes || span.count == 1);
        crew_add(HOSTILE, 1);
        crew_add(OPENED, !error);
        memcpy(s.device.image, s.image, s.device.bytes);
    }
    shelf_empty(&s);
}

/* Aim: a label may say anything: no request leaves its disk (the device aborts then). */
static void hostile_labels_do_no_harm(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(9), hostile_labels));
    printf("# %llu labels, %llu opened\n", (unsigned long long)crew_sum(HOSTILE),
           (unsigned long long)crew_sum(OPENED));
    assert_true(crew_part() || crew_sum(OPENED) > 20);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_opens),
        cmocka_unit_test(wrong_disks_are_told),
        cmocka_unit_test(labels_are_read_twice_and_mended),
        cmocka_unit_test(a_single_disk_is_what_it_was),
        cmocka_unit_test(hostile_labels_do_no_harm),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
