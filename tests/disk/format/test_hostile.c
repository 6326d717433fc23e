/*
 * test_hostile.c - seeded mutations of images and logs with right checksums, under gcc's address
 * and undefined-behaviour sanitizers. `make fuzz` does the same, guided by libFuzzer. And the
 * random lives of test_crash, with some crash states of each, under the same sanitizers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "hostile.h"
#include "internal.h"
#include "life.h"
#include "lz4/lz4.h"
#include "tools/kcheck/view.h"

#define TRIES 250u              /* of one job */
#define BASES 6u

/* What is freed comes back after 16 MiB more, not 256: those were new pages for nearly each
 * allocation. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=16";
}

static void part_mutate(uint64_t seed, enum hostile_part part)
{
    static uint8_t good[HOSTILE_BYTES_MAX], bytes[HOSTILE_BYTES_MAX];
    static struct hostile hostile;
    hostile_open(&hostile, 1 + seed % BASES);
    size_t count = hostile_take(&hostile, part, good);
    for (uint32_t i = 0; i < TRIES; i++) {
        uint64_t random = seed << 20 | i;
        crew_at("mutation", i);
        memcpy(bytes, good, count);
        if (i)                          /* the first is the good one: it must open */
            hostile_mutate(part, bytes, count, &random);
        hostile_try(&hostile, part, bytes, count);
        require(i || hostile.opened == 2);
    }
    crew_add(0, hostile.opened);
    crew_add(1, hostile.refused);
    hostile_close(&hostile);
}

static void image_mutate(uint64_t seed)
{
    part_mutate(seed, HOSTILE_IMAGE);
}

static void log_mutate(uint64_t seed)
{
    part_mutate(seed, HOSTILE_LOG);
}

static void mutate(const char *test, const char *what, crew_job *job, uint64_t count)
{
    assert_true(crew_run(test, count, job));
    printf("# %llu hostile %s, opened %llu times, refused %llu times, 0 crashes\n",
           (unsigned long long)(count * TRIES), what, (unsigned long long)crew_sum(0),
           (unsigned long long)crew_sum(1));
    assert_true(crew_part() || (crew_sum(0) && crew_sum(1)));
}

static void hostile_images_never_crash_the_store(void **state)
{
    (void)state;
    mutate(__func__, "images", image_mutate, crew_count(crew_long() ? 30 : 15));
}

static void hostile_logs_never_crash_the_store(void **state)
{
    (void)state;
    mutate(__func__, "logs", log_mutate, crew_count(crew_long() ? 30 : 15));
}

static void life_run_watched(uint64_t seed)
{
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 2,
                                         .second_odds = 60, .third_odds = 20, .second_steps = 3,
                                         .random_subsets = 2, .rot_flips = 4,
                                         .states_max = crew_long() ? 3000 : 700 };
    struct enumerate_result result = { .states = 0 };
    crew_at("life", seed);
    life_run(seed, 40, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(2, result.states);
}

/* Aim: work, cut-off recoveries and what kcheck reads stay inside their memory. */
static void lives_break_no_rule_of_the_language(void **state)
{
    (void)state;
    uint64_t lives = crew_count(crew_long() ? 24 : 12);
    assert_true(crew_run(__func__, lives, life_run_watched));
    printf("# %llu lives, %llu crash states under the sanitizers\n", (unsigned long long)lives,
           (unsigned long long)crew_sum(2));
}

/* Data of packed records: random, or what was packed with some bytes changed. */
static void unpack_anything(uint64_t seed)
{
    static struct { struct record_disk record; uint8_t data[4 * STORE_PAGE_BYTES]; } hostile;
    static struct unpacked unpacked;
    static uint8_t plain[STORE_PAGE_BYTES], own[KUNPACKED_BYTES];
    uint64_t random = seed;
    for (uint32_t i = 0; i < 20 * TRIES; i++) {
        crew_at("payload", i);
        uint32_t bytes = (uint32_t)random_below(&random, i % 8 ? 600 : sizeof hostile.data);
        for (uint32_t k = 0; k < bytes; k++)
            hostile.data[k] = (uint8_t)random_next(&random);
        if (i % 2) {
            for (uint32_t k = 0; k < sizeof plain; k++)
                plain[k] = (uint8_t)(k * seed / 64);
            bytes = (uint32_t)LZ4_compress_default((const char *)plain, (char *)hostile.data,
                                                   sizeof plain, sizeof hostile.data);
            for (uint64_t changes = random_below(&random, 4); changes--;)
                hostile.data[random_below(&random, bytes)] = (uint8_t)random_next(&random);
        }
        hostile.record = (struct record_disk){ .type = le16_of(RECORD_PAGE_DIFF),
                                               .flags = le16_of(RECORD_PACKED),
                                               .data_bytes = le32_of(bytes) };
        const struct record_disk *record = record_unpack(&hostile.record, &unpacked);
        int n = kunpack(hostile.data, bytes, own);
        require((record != NULL) == (n >= 0));
        require(!record || (le32_get(record->data_bytes) == (uint32_t)n &&
                            memcmp(record + 1, own, (size_t)n) == 0));
        crew_add(record ? 3 : 4, 1);
    }
}

/* Aim: whatever a packed record holds, unpacking it stays inside its memory. */
static void hostile_packed_records_stay_inside(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(8), unpack_anything));
    printf("# %llu payloads unpacked, %llu refused\n", (unsigned long long)crew_sum(3),
           (unsigned long long)crew_sum(4));
    assert_true(crew_sum(3) && crew_sum(4));
}

/* Operations that fit, with up to two bytes changed, or bytes that are none; how many. */
static uint32_t operations_make(uint8_t *data, uint32_t most, uint64_t *random)
{
    uint32_t used = 0;
    while (used + 24 < most) {
        uint32_t function = (uint32_t)random_below(random, 3), n = 1 + random_below(random, 16);
        data[used++] = (uint8_t)((8 + random_below(random, 8)) << 2 | function);
        data[used++] = (uint8_t)n;
        for (uint32_t i = function ? 1 : n; i--;)
            data[used++] = (uint8_t)random_below(random, 12);
    }
    for (uint64_t changes = random_below(random, 3); changes-- && used;)
        data[random_below(random, used)] = (uint8_t)random_next(random);
    return used - (used && random_below(random, 8) == 0);
}

static void operate_anything(uint64_t seed)
{
    static uint8_t made[STORE_PAGE_BYTES + 64];
    static uint8_t page[STORE_PAGE_BYTES], own[STORE_PAGE_BYTES];
    uint64_t random = seed;
    for (uint32_t i = 0; i < 20 * TRIES; i++) {
        crew_at("operations", i);
        uint32_t most = 1 + (uint32_t)random_below(&random, i % 8 ? 200 : sizeof made);
        uint32_t bytes = most;
        for (uint32_t k = 0; k < most; k++)
            made[k] = (uint8_t)random_next(&random);
        if (i % 4)
            bytes = operations_make(made, most, &random);
        uint8_t *data = malloc(bytes + !bytes); /* a byte behind it is found out */
        require(data != NULL);
        memcpy(data, made, bytes);
        bool fine = !operations_check(data, bytes);
        require(fine == !koperations(data, bytes));
        for (uint32_t k = 0; k < sizeof page; k++)
            page[k] = own[k] = (uint8_t)(k * seed / 16);
        if (fine) {
            operations_apply(data, bytes, page);
            koperate(own, data, bytes);
        }
        require(memcmp(page, own, sizeof page) == 0);
        free(data);
        crew_add(fine ? 5 : 6, 1);
    }
}

/* Aim: whatever a record of operations holds, it stays inside its page, and two readers agree. */
static void hostile_operations_stay_inside(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(8), operate_anything));
    printf("# %llu lists of operations applied, %llu refused\n", (unsigned long long)crew_sum(5),
           (unsigned long long)crew_sum(6));
    assert_true(crew_sum(5) > 100 && crew_sum(6) > 100);
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_images_never_crash_the_store),
        cmocka_unit_test(hostile_logs_never_crash_the_store),
        cmocka_unit_test(hostile_packed_records_stay_inside),
        cmocka_unit_test(hostile_operations_stay_inside),
        cmocka_unit_test(lives_break_no_rule_of_the_language),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
