/*
 * test_span.c - one store over several disks: places, flushes, and every crash state. (Labels:
 * test_span_labels.c.)
 *
 * Method: lives (life.h) on 2 to 4 recorded disks, of each of which only its own flush makes
 * anything durable: crash states keep any subset of what each disk holds back. In a sample of the
 * states each copy of a label, and each superblock, is spoiled. Beside that single cases.
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

#define STEPS 24u
#define MIB   (1ull << 20)

enum { STATES, SECOND, KCHECK, LOOKS, FAULTS, ACKED, FIRED };

static struct world world;

/* ---- places */

static struct span some_span(uint64_t *random)
{
    struct span span = { .count = 2 + (uint32_t)random_below(random, 3),
                         .unit_bytes = 4096ull << random_below(random, 5),
                         .units = 1 + random_below(random, 40),
                         .head_bytes = 4096 * (1 + random_below(random, 30)) };
    span_io(&span);
    return span;
}

/* Aim (SN2): each byte of the whole has a place of its own, behind the first label and in front of
 * the last; head and slot B are on disk 0. */
static void every_block_has_a_place_of_its_own(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 300; i++) {
        struct span span = some_span(&random);
        static uint8_t used[SPAN_DISKS_MAX][1024 * 16];
        memset(used, 0, sizeof used);
        for (uint64_t offset = 0, run; offset < span.total_bytes; offset += run) {
            uint32_t disk, other;
            uint64_t at, inner, most = span.units * span.unit_bytes + 8192;
            run = span_place(&span, offset, &disk, &at);
            assert_true(run && run % 4096 == 0 && at % 4096 == 0 && disk < span.count);
            assert_true(at >= 4096);
            assert_true(at + run <= most - 4096 + (disk ? 0 : span.head_bytes + 4096));
            assert_true(disk == 0 || (offset >= span.head_bytes && offset != span.slot_b_offset));
            for (uint64_t b = 0; b < run; b += 4096) {
                assert_false(used[disk][(at + b) / 4096]++);
                assert_true(span_place(&span, offset + b, &other, &inner) == run - b);
                assert_true(other == disk && inner == at + b);
            }
        }
    }
}

/* Aim: extents follow each other from disk to disk, and none lies on two. */
static void extents_go_round(void **state)
{
    (void)state;
    struct device device;
    uint64_t bytes[3] = { 4 * MIB, 3 * MIB, 3 * MIB };
    struct store_options options = { .uuid = { 7 }, .log_bytes = 65536, .extent_bytes = 8192 };
    struct store_report report;
    struct store *store;
    struct store_stats stats;
    device_open_disks(&device, bytes, 3);
    assert_int_equal(device_format(&device, &options, 0), 0);
    struct disk_io io = device_io(&device);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    store_stats(store, &stats);
    assert_true(stats.extents > 3 * (3 * MIB / 8192 - 2));
    for (uint64_t e = 0; e < stats.extents; e++) {
        uint32_t disk;
        uint64_t at, offset = extent_offset(store, e);
        uint64_t run = span_place(&device.span, offset, &disk, &at);
        if (offset + 8192 > device.span.slot_b_offset && offset <= device.span.slot_b_offset)
            continue;
        assert_true(run >= 8192);
        assert_int_equal(disk, e % 3);
    }
    store_abandon(store);
    device_close(&device);
}

/* ---- crash states */

static const char *state_wrong(struct device *device, uint64_t acked, uint64_t submitted,
                               const struct world *of)
{
    struct store_open_options how = { .group_bytes = of->options.group_bytes };
    struct span_report span;
    struct store_report report;
    struct disk_io io;
    struct store *store;
    uint64_t digest, k = acked;
    if (device_start(device, &io, &span))
        return span.message;
    if (store_open(&io, &test_memory, &how, &store, &report))
        return report.message;
    int error = store_digest_wide(store, of->options.stride ? of->options.stride : 1, &digest);
    store_abandon(store);
    while (k <= submitted && of->digests[k] != digest)
        k++;
    return error ? "a page is lost" : k > submitted ? "an acknowledged commit is lost" : NULL;
}

/* [at, at + bytes) of the image cannot be read, or is zeros, or one bit of its head has flipped. */
static const char *fault_try(const struct world *of, struct device *device, uint64_t at,
                             uint64_t bytes, uint64_t kind, uint64_t acked, uint64_t submitted)
{
    static char text[160];
    uint32_t mark = device->undo_count;
    undo_save(device, at, bytes);
    if (kind == 1)
        memset(device->image + at, 0, bytes);
    else if (kind)
        device->image[at + kind / 8 % 64] ^= (uint8_t)(1u << kind % 8);
    else {
        device->bad_at = at;
        device->bad_bytes = bytes;
    }
    const char *wrong = state_wrong(device, acked, submitted, of);
    device->bad_bytes = 0;
    undo_to(device, mark);
    crew_add(FAULTS, 1);
    snprintf(text, sizeof text, "%llu bytes at %llu, kind %llu: %s", (unsigned long long)bytes,
             (unsigned long long)at, (unsigned long long)kind, wrong ? wrong : "");
    return wrong ? text : NULL;
}

static const char *copies_spoiled(const struct world *of, struct device *device, uint64_t acked,
                                  uint64_t submitted, uint64_t random)
{
    struct span_report span;
    struct disk_io io;
    uint32_t version, mark = device->undo_count;
    const char *wrong = state_wrong(device, acked, submitted, of);
    undo_to(device, mark);
    if (wrong)
        return NULL;                    /* the walk itself will say so */
    crew_add(LOOKS, 1);
    for (uint32_t i = 0; i < 2 * device->disk_count && !wrong; i++) {
        const struct device_disk *disk = &device->disks[i / 2];
        uint64_t at = disk->start + (i % 2 ? disk->bytes - 4096 : 0);
        for (uint64_t n = 0; n < 3 && !wrong; n++)
            wrong = fault_try(of, device, at, 4096, n < 2 ? n : 2 + random_below(&random, 510),
                              acked, submitted);
    }
    struct superblock a, b;
    uint8_t *image = device->image;
    require(device_start(device, &io, &span) == 0);
    uint64_t slot_b = device_place(device, device->span.slot_b_offset);
    bool both = superblock_decode((void *)(image + device_place(device, 0)), io.bytes, 0, &a,
                                  &version) == SLOT_VALID &&
                superblock_decode((void *)(image + slot_b), io.bytes, device->span.slot_b_offset,
                                  &b, &version) == SLOT_VALID;
    if (!wrong && both)
        wrong = fault_try(of, device, slot_b, 4096, 0, acked, submitted);
    if (!wrong && both)         /* label, slot A, signpost, as of an image's first cluster */
        wrong = fault_try(of, device, 0, 3 * 4096, 1, acked, submitted);
    return wrong;
}

static void life_survives(uint64_t seed)
{
    struct enumerate_result result = { .states = 0 };
    struct enumerate_options how = {
        .tear = true, .garble = true, .depth = 2, .second_odds = seed % 2 ? 40 : 500,
        .third_odds = 200, .second_steps = 3, .random_subsets = 3, .rot_flips = 4,
        .sector_bytes = seed % 5 ? 512 : 4096, .look = copies_spoiled, .look_odds = 100,
        .states_max = crew_long() ? 12000 : 3000 };
    crew_at("life", seed);
    life_run_disks(seed, STEPS, &how, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(KCHECK, result.kcheck_states);
}

/* Aim: no crash state of a life on several disks loses, mixes up or invents a transaction, and each
 * copy may be lost besides. */
static void lives_on_several_disks_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(30);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash, %llu asked of kcheck; in "
           "%llu of them %llu copies spoiled\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND), (unsigned long long)crew_sum(KCHECK),
           (unsigned long long)crew_sum(LOOKS), (unsigned long long)crew_sum(FAULTS));
    assert_true(crew_part() || (crew_sum(SECOND) > 500 && crew_sum(FAULTS) > 500));
}

/* ---- flushes */

static uint32_t flushes_of(const struct device *device, uint32_t disk, uint32_t *writes)
{
    uint32_t flushes = 0;
    *writes = 0;
    for (uint32_t i = 0; i < device->event_count; i++) {
        const struct event *e = &device->events[i];
        if (e->offset - device->disks[disk].start >= device->disks[disk].bytes)
            continue;
        flushes += e->kind == FLUSH_ISSUE;
        *writes += e->kind == WRITE_ISSUE;
    }
    return flushes;
}

/* Aim (SN1): a commit is one write and one flush, of the first disk, also when pages have gone home
 * to others; a flush of all reaches each disk that was written, once. */
static void a_commit_is_one_write_and_one_flush(void **state)
{
    (void)state;
    struct device device;
    struct world_options options = { .log_bytes = 65536, .extent_bytes = 4096,
                                     .checkpoint_odds = 4 };
    struct store_report report;
    uint64_t bytes[3] = { 2 * MIB, MIB, MIB };
    uint32_t writes, homes = 0;
    device_open_disks(&device, bytes, 3);
    assert_int_equal(world_format(&world, &device, 5, &options), 0);
    assert_int_equal(world_open(&world, &report), 0);
    for (int i = 0; i < 40; i++) {
        device_record(&device, true);
        assert_int_equal(world_commit(&world, 1, false), 0);
        assert_int_equal(flushes_of(&device, 0, &writes), 1);
        assert_int_equal(writes, 1);
        for (uint32_t disk = 1; disk < 3; disk++) {
            assert_int_equal(flushes_of(&device, disk, &writes), 0);
            assert_int_equal(writes, 0);
        }
        device_record(&device, true);
        assert_int_equal(world_clean(&world, 3), 0);
        uint32_t dirty[3];
        for (uint32_t disk = 0; disk < 3; disk++)
            assert_int_equal(flushes_of(&device, disk, &dirty[disk]), 0);
        homes += dirty[1] + dirty[2];
        if (i % 4)
            continue;
        struct disk_io io = device_io(&device);
        uint64_t seen[3];
        memcpy(seen, device.span.written, sizeof seen);
        for (uint32_t disk = 0; disk < 3; disk++)
            seen[disk] -= device.span.flushed[disk];
        device_record(&device, true);
        assert_int_equal(io.flush(io.context), 0);
        for (uint32_t disk = 0; disk < 3; disk++)
            assert_int_equal(flushes_of(&device, disk, &writes), seen[disk] != 0);
        if (store_should_checkpoint(world.store))
            assert_int_equal(world_checkpoint(&world), 0);
    }
    assert_true(homes > 10);
    world_abandon(&world);
    device_close(&device);
}

static void disk_flushed(struct device *device, uint32_t disk, uint32_t count)
{
    uint32_t writes;
    assert_int_equal(flushes_of(device, disk, &writes), count);
}

/* Aim (SN1): the first flush of a start reaches all disks, for who was here before may have died;
 * the second none. */
static void the_first_flush_reaches_all(void **state)
{
    (void)state;
    struct device device;
    struct store_options options = { .uuid = { 8 }, .log_bytes = 65536 };
    uint64_t bytes[2] = { 2 * MIB, MIB };
    struct span_report said;
    struct disk_io io;
    device_open_disks(&device, bytes, 2);
    assert_int_equal(device_format(&device, &options, 0), 0);
    assert_int_equal(device_start(&device, &io, &said), 0);
    for (uint32_t wanted = 1; wanted < 2; wanted--) {
        device_record(&device, true);
        assert_int_equal(io.flush(io.context), 0);
        disk_flushed(&device, 0, wanted);
        disk_flushed(&device, 1, wanted);
    }
    device_close(&device);
}

/* Aim (SN1): a flush that failed has made nothing durable: the next one goes to the disk again. */
static void a_flush_that_failed_is_done_again(void **state)
{
    (void)state;
    static uint8_t page[STORE_PAGE_BYTES];
    struct device device;
    struct store_options options = { .uuid = { 8 }, .log_bytes = 65536 };
    uint64_t bytes[2] = { 2 * MIB, MIB };
    device_open_disks(&device, bytes, 2);
    assert_int_equal(device_format(&device, &options, 0), 0);
    struct disk_io io = device_io(&device);
    assert_int_equal(io.flush(io.context), 0);
    uint64_t second = device.span.head_bytes + device.span.unit_bytes;
    assert_int_equal(io.write(io.context, second, page, sizeof page), 0);
    device.fail_kinds = FAIL_FLUSH;
    device.fail_at = 1;
    device_record(&device, true);
    assert_int_equal(io.flush(io.context), -EIO);
    assert_int_equal(io.flush(io.context), 0);
    disk_flushed(&device, 0, 0);
    disk_flushed(&device, 1, 1);
    device_close(&device);
}

/* ---- errors of one disk */

/* Every request of one disk from some number on fails; what was acknowledged is there later. */
static void failures_survived(uint64_t seed)
{
    struct world_options options = life_options(seed);
    struct device device;
    struct store_report report;
    uint64_t bytes[SPAN_DISKS_MAX], digest, k;
    uint32_t count = life_disks(seed, bytes);
    static const uint32_t kinds[] = { FAIL_WRITE, FAIL_FLUSH, FAIL_READ };
    for (uint32_t n = 0; n < 60; n++) {
        crew_at("request", n);
        device_open_disks(&device, bytes, count);
        int error = world_format(&world, &device, seed, &options);
        error = error ? error : world_open(&world, &report);
        if (error)
            crew_fail("error %d: %s", error, report.message);
        device.fail_disk = 1 + n % count;
        device.fail_kinds = kinds[n / count % 3];
        device.fail_at = 1 + n / (3 * count);
        device.fail_sticky = true;
        for (int i = 0; i < 30 && !error; i++)
            error = world_step(&world);
        crew_add(FIRED, device.fired != 0);
        if (device.fired && device.fail_kinds != FAIL_READ)
            require(error);
        device.fail_at = 0;
        world_abandon(&world);
        error = world_open(&world, &report);
        if (!error)
            error = store_digest_wide(world.store, options.stride ? options.stride : 1, &digest);
        for (k = world.acked; !error && k < world.submitted && world.digests[k] != digest; k++)
            ;
        if (error || world.digests[k] != digest)
            crew_fail("error %d, no commit from %llu to %llu", error,
                      (unsigned long long)world.acked, (unsigned long long)world.submitted);
        crew_add(ACKED, world.acked);
        world_abandon(&world);
        device_close(&device);
    }
    require(memory_live == 0);
}

/* Aim: when one of the disks fails, nothing more is acknowledged, and nothing that was is lost. */
static void errors_of_one_disk_lose_nothing(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(crew_long() ? 12 : 18), failures_survived));
    printf("# %llu failures, %llu commits acknowledged, 0 lost\n",
           (unsigned long long)crew_sum(FIRED), (unsigned long long)crew_sum(ACKED));
    assert_true(crew_part() || crew_sum(FIRED) > 100);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_has_a_place_of_its_own),
        cmocka_unit_test(extents_go_round),
        cmocka_unit_test(a_commit_is_one_write_and_one_flush),
        cmocka_unit_test(the_first_flush_reaches_all),
        cmocka_unit_test(a_flush_that_failed_is_done_again),
        cmocka_unit_test(errors_of_one_disk_lose_nothing),
        cmocka_unit_test(lives_on_several_disks_survive_every_crash_state),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
