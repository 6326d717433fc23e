/*
 * test_damage.c - whatever one fault of a disk does to an image, it is noticed or does no harm.
 *
 * Method: finished images of several kinds (picture.h), small and of 1 MiB. In each, every byte of
 * the metadata gets a flipped bit (each of its bits with LONG=1), every sector and block is zeroed,
 * put back to an earlier version, and exchanged with another; then every single write of a whole
 * life is left out. The damaged image is opened and read to the end. Allowed are: it is refused; a
 * page is reported when read; nothing differs. Where no idle group protects the last commit, damage
 * in that group may pass for a torn tail; the state is then exactly that without it.
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
#include "picture.h"

enum { UNREAD = VERDICTS };      /* a tally beside the verdicts */

#define CHUNKS 32u
#define IMAGES 4u
#define SMALL_BYTES (384u * 1024)

static const struct { enum picture_kind kind; uint64_t bytes; } images[IMAGES] = {
    { PICTURE_IDLE, SMALL_BYTES }, { PICTURE_BUSY, SMALL_BYTES }, { PICTURE_CLOSED, SMALL_BYTES },
    { PICTURE_IDLE, 1 << 20 },
};

static struct picture picture;

/* In `make test` one place of eight is damaged, others in each job. */
static uint32_t thinner(void)
{
    return crew_long() ? 1 : 8;
}

/* The picture of a job, made once for all jobs of it in a process; the job's share of it. */
static uint32_t picture_for(uint64_t seed)
{
    static uint64_t made = UINT64_MAX;
    uint64_t which = (seed - 1) / CHUNKS;
    if (made != which) {
        if (made != UINT64_MAX)
            picture_free(&picture);
        crew_at("making image", which);
        picture_make(&picture, images[which % IMAGES].kind, 1 + which / IMAGES,
                     images[which % IMAGES].bytes);
        made = which;
    }
    return (uint32_t)((seed - 1) % CHUNKS);
}

/* One round of the images, and one more for each TIMES of the long tier. */
static uint64_t jobs(void)
{
    return crew_all((crew_long() ? crew_times() : 1) * IMAGES * CHUNKS);
}

/* The image is damaged at two places, or at one. */
static void judge(struct picture *of, uint64_t one, uint64_t two)
{
    const char *why = NULL;
    enum verdict verdict = picture_judge(of, &why);
    if (verdict == TORN_TAIL && !picture_ambiguous(of, one, two)) {
        verdict = SILENT;
        why = "the last commit is missing";
    }
    crew_add(verdict, 1);
    if (verdict == SILENT)
        crew_fail("damage at %llu and %llu was not noticed: %s", (unsigned long long)one,
                  (unsigned long long)two, why ? why : "no message");
}

static void table_print(const char *what)
{
    uint64_t all = 0;
    for (uint32_t v = 0; v < VERDICTS; v++)
        all += crew_sum(v);
    all += crew_sum(UNREAD);
    printf("# %-26s %8llu: %llu in blocks never read, %llu refused, %llu page reported, "
           "%llu harmless, %llu last group taken for a torn tail, %llu silent\n",
           what, (unsigned long long)all, (unsigned long long)crew_sum(UNREAD),
           (unsigned long long)crew_sum(NOTICED), (unsigned long long)crew_sum(REPORTED),
           (unsigned long long)crew_sum(HARMLESS), (unsigned long long)crew_sum(TORN_TAIL),
           (unsigned long long)crew_sum(SILENT));
    assert_true(crew_part() || all > 0);
    assert_int_equal(crew_sum(SILENT), 0);
}

/* ---- bits */

/* What is never read cannot matter: the same inputs give the same run. One in 67 is run even so. */
static void flip(uint64_t offset, uint32_t bit)
{
    struct device *device = &picture.device;
    if (!picture.read_map[offset / 4096] && (offset * 8 + bit) % 67) {
        crew_add(UNREAD, 1);
        return;
    }
    crew_at("bit", offset * 8 + bit);
    undo_begin(device);
    undo_save(device, offset, 1);
    device->image[offset] ^= (uint8_t)(1u << bit);
    judge(&picture, offset, offset);
}

static void metadata_bits(uint64_t seed)
{
    uint32_t chunk = picture_for(seed);
    uint64_t random = seed, first = chunk + CHUNKS * (seed % thinner());
    for (uint64_t at = first; at < picture.device.bytes; at += CHUNKS * thinner()) {
        if (!picture_metadata(&picture, at))
            continue;
        uint32_t bit = (uint32_t)random_below(&random, 8);
        for (uint32_t b = 0; b < 8; b++)
            /* one; in the long tier three, all with TIMES=4 */
            if ((b + 8 - bit) % 8 <= 2 * crew_times())
                flip(at, b);
    }
}

static void every_flipped_byte_of_metadata_is_noticed(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, jobs(), metadata_bits));
    table_print("bits of metadata flipped");
    assert_true(crew_part() || (crew_sum(NOTICED) && crew_sum(HARMLESS) && crew_sum(TORN_TAIL)));
}

static void data_bits(uint64_t seed)
{
    uint32_t chunk = picture_for(seed);
    uint64_t random = seed * 3, step = crew_long() ? 7 : 251;
    for (uint64_t i = picture.data_start + chunk * step; i < picture.device.bytes;
         i += CHUNKS * step)
        if (!picture_metadata(&picture, i))
            flip(i, (uint32_t)random_below(&random, 8));
}

static void flipped_bits_of_pages_are_noticed(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, jobs(), data_bits));
    table_print("bits of pages flipped");
    assert_true(crew_part() || (crew_sum(REPORTED) && crew_sum(HARMLESS)));
    assert_int_equal(crew_sum(NOTICED) + crew_sum(TORN_TAIL), 0);
}

/* ---- sectors and blocks */

static void piece_replace(uint64_t offset, const uint8_t *with, uint64_t bytes)
{
    undo_save(&picture.device, offset, bytes);
    memcpy(picture.device.image + offset, with, bytes);
}

/* Zeroed, aged, exchanged with another one: near, and anywhere. */
static void piece_damage(uint64_t offset, uint64_t bytes, uint64_t *random)
{
    static const uint8_t zeros[4096];
    struct device *device = &picture.device;
    uint8_t own[4096], other[4096];
    crew_at("sector zeroed", offset / bytes);
    undo_begin(device);
    piece_replace(offset, zeros, bytes);
    judge(&picture, offset, offset);
    for (uint32_t age = 0; age < PICTURE_AGES; age++) {
        crew_at("sector aged", offset / bytes);
        piece_replace(offset, picture.aged[age] + offset, bytes);
        judge(&picture, offset, offset);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t to = i ? random_below(random, device->bytes / bytes) * bytes
                        : (offset + bytes) % device->bytes;
        crew_at("sector exchanged", offset / bytes);
        memcpy(own, device->image + offset, bytes);
        memcpy(other, device->image + to, bytes);
        piece_replace(offset, other, bytes);
        piece_replace(to, own, bytes);
        judge(&picture, offset, to);
    }
}

static void pieces(uint64_t seed)
{
    uint32_t chunk = picture_for(seed);
    uint64_t random = seed * 7;
    uint64_t first = chunk + CHUNKS * (seed % thinner()), step = CHUNKS * thinner();
    for (uint64_t at = first * 512; at < picture.device.bytes; at += step * 512)
        piece_damage(at, 512, &random);
    for (uint64_t at = chunk * 4096; at < picture.device.bytes; at += CHUNKS * 4096)
        piece_damage(at, 4096, &random);
}

static void zeroed_aged_and_exchanged_sectors_are_noticed(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, jobs(), pieces));
    table_print("sectors and blocks damaged");
    assert_true(crew_part() || (crew_sum(NOTICED) && crew_sum(REPORTED) && crew_sum(HARMLESS)));
}

/* ---- lost writes */

/* Aim: the disk says of one write of a whole life that it was done, and it was not. */
static void lost_writes(uint64_t seed)
{
    static struct picture life;
    static const enum picture_kind kinds[] = { PICTURE_IDLE, PICTURE_BUSY, PICTURE_CLOSED };
    crew_at("making image", seed);
    picture_make(&life, kinds[seed % 3], seed, SMALL_BYTES);
    for (uint32_t i = 0; i < life.device.event_count; i++) {
        const struct event *lost = &life.device.events[i];
        if (lost->kind != WRITE_ISSUE)
            continue;
        crew_at("lost write", i);
        picture_replay(&life, i);
        judge(&life, lost->offset, lost->offset);
    }
    picture_free(&life);
}

static void each_lost_write_is_noticed(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(60), lost_writes));
    table_print("writes lost");
    assert_true(crew_part() || (crew_sum(NOTICED) && crew_sum(REPORTED) && crew_sum(HARMLESS)));
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_byte_of_metadata_is_noticed),
        cmocka_unit_test(flipped_bits_of_pages_are_noticed),
        cmocka_unit_test(zeroed_aged_and_exchanged_sectors_are_noticed),
        cmocka_unit_test(each_lost_write_is_noticed),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
