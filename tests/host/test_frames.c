/*
 * test_frames.c - frames between sites: what is put in comes out, what was changed on the way is
 * noticed, and nothing is read or written outside of a frame.
 *
 * Aim     every field comes back, at every length; a frame that is too long for its memory is none;
 *         a flip of each bit of a frame is found, by its header or by its CRC; a frame whose fields
 *         lie, under a CRC that fits, is bad at its end and reads as zero and empty from there on.
 * Method  user/sites/frame.c itself, under the address sanitizer; frames lie at the end of memory
 *         of just their size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/frame.h"

enum { ROOM = 400, LIES = 20000 };
static const char text[] = "a site";

static uint64_t random_next(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

/* A frame with a field of each kind, in `room` bytes; how long it became, 0: too long. */
static size_t frame_make(uint8_t *at, size_t room)
{
    struct fields_out o = frame_begin(at, room);
    put_u8(&o, 0x12);
    put_u16(&o, 0x3456);
    put_u32(&o, 0x789abcde);
    put_text(&o, text);
    put_u64(&o, 0xf0123456789abcde);
    put_bytes(&o, text, 3);
    put_text(&o, "");
    return frame_end(&o, 17, 5, 4);
}

static bool fields_read(struct fields_in *i)
{
    char read[sizeof(text)];
    bool same = take_u8(i) == 0x12;
    same &= take_u16(i) == 0x3456;
    same &= take_u32(i) == 0x789abcde;
    take_text(i, read, sizeof(read));
    same &= strcmp(read, text) == 0;
    same &= take_u64(i) == 0xf0123456789abcde;
    const uint8_t *bytes = take_bytes(i, 3);
    same &= bytes && memcmp(bytes, text, 3) == 0;
    take_text(i, read, sizeof(read));
    return same && read[0] == 0;
}

/* `link`'s part: the header, and the CRC. */
static void seal(uint8_t *at, size_t bytes)
{
    struct frame f;
    assert_true(frame_head(&f, at, bytes));
    f.to = FRAME_CLIENT;
    f.session = 0x1111111122222222;
    f.sequence = 0x33333333;
    f.held = 0x44444444;
    f.time = 0x5555555566666666;
    f.heard = 0x7777777788888888;
    frame_seal(&f, at);
}

static void what_is_put_comes_back(void **state)
{
    (void)state;
    uint8_t memory[ROOM];
    struct frame f;
    size_t bytes = frame_make(memory, sizeof(memory));
    assert_int_equal(bytes, FRAME_HEADER + 1 + 2 + 4 + 2 + 6 + 8 + 3 + 2);
    seal(memory, bytes);
    assert_true(frame_head(&f, memory, bytes) && frame_whole(&f, memory, bytes));
    assert_true(f.bytes == bytes && f.kind == 17 && f.number == 5 && f.answer_to == 4);
    assert_true(f.to == FRAME_CLIENT && f.sequence == 0x33333333);
    assert_true(f.session == 0x1111111122222222);
    assert_true(f.held == 0x44444444 && f.time == 0x5555555566666666);
    assert_true(f.heard == 0x7777777788888888);
    struct fields_in i = frame_fields(&f, memory);
    assert_true(fields_read(&i) && take_end(&i));
}

static void the_largest_frame(void **state)
{
    (void)state;
    uint8_t *memory = malloc(FRAME_BYTES_MAX + 1);
    struct frame f;
    struct fields_out o = frame_begin(memory, FRAME_BYTES_MAX + 1);
    uint8_t *room = put_room(&o, FRAME_BYTES_MAX - FRAME_HEADER);
    assert_non_null(room);
    memset(room, 7, FRAME_BYTES_MAX - FRAME_HEADER);
    assert_int_equal(frame_end(&o, 17, 0, 0), FRAME_BYTES_MAX);
    seal(memory, FRAME_BYTES_MAX);
    assert_true(frame_head(&f, memory, FRAME_HEADER) && frame_whole(&f, memory, FRAME_BYTES_MAX));
    assert_false(frame_whole(&f, memory, FRAME_BYTES_MAX - 1));
    put_u8(&o, 1);
    assert_int_equal(frame_end(&o, 17, 0, 0), 0);
    free(memory);
}

static void too_little_room(void **state)
{
    (void)state;
    uint8_t all[ROOM];
    size_t bytes = frame_make(all, sizeof(all));
    for (size_t room = 0; room < bytes; room++) {
        uint8_t *memory = malloc(room ? room : 1);
        assert_int_equal(frame_make(memory, room), 0);
        free(memory);
    }
}

static void each_bit_counts(void **state)
{
    (void)state;
    uint8_t memory[ROOM];
    struct frame f;
    size_t bytes = frame_make(memory, sizeof(memory));
    seal(memory, bytes);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(frame_head(&f, memory, bytes) && frame_whole(&f, memory, bytes));
        memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(frame_head(&f, memory, bytes) && frame_whole(&f, memory, bytes));
}

static void a_cut_frame_is_none(void **state)
{
    (void)state;
    uint8_t memory[ROOM];
    struct frame f;
    size_t bytes = frame_make(memory, sizeof(memory));
    seal(memory, bytes);
    for (size_t part = 0; part < bytes; part++) {
        uint8_t *cut = malloc(part ? part : 1);
        memcpy(cut, memory, part);
        assert_false(frame_head(&f, cut, part) && frame_whole(&f, cut, part));
        assert_true(part >= FRAME_HEADER || !frame_head(&f, cut, part));
        free(cut);
    }
}

/* Somebody who knows how frames are made has written into this one what he liked. */
static void fields_that_lie(void **state)
{
    (void)state;
    unsigned bad = 0, same = 0;
    for (unsigned n = 0; n < LIES; n++) {
        uint8_t all[ROOM];
        struct frame f;
        size_t bytes = frame_make(all, sizeof(all));
        seal(all, bytes);
        for (unsigned i = 0; i <= n % 3; i++)
            all[FRAME_HEADER + random_next() % (bytes - FRAME_HEADER)] = (uint8_t)random_next();
        if (n % 4 == 0)
            bytes = FRAME_HEADER + random_next() % (bytes - FRAME_HEADER);
        uint8_t *memory = malloc(bytes);
        memcpy(memory, all, bytes);
        assert_true(frame_head(&f, memory, bytes));
        f.bytes = (uint32_t)bytes;
        frame_seal(&f, memory);
        assert_true(frame_head(&f, memory, bytes) && frame_whole(&f, memory, bytes));
        struct fields_in i = frame_fields(&f, memory);
        same += fields_read(&i);
        bad += i.bad;
        if (i.bad) {
            char read[4] = "old";
            take_text(&i, read, sizeof(read));
            assert_true(!take_end(&i) && take_u64(&i) == 0 && !take_bytes(&i, 0) && !read[0]);
        }
        free(memory);
    }
    assert_true(bad > LIES / 10 && same < LIES / 10);
}

static void texts_that_do_not_fit(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t count; bool bad; } texts[] = {
        {"\3\0abc", 5, false}, {"\4\0abcd", 6, true}, {"\3\0a\0c", 5, true}, {"\4\0abc", 5, true},
        {"\0", 1, true}, {"\0\0", 2, false},
    };
    for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); n++) {
        uint8_t *memory = malloc(texts[n].count);
        char read[4];
        memcpy(memory, texts[n].bytes, texts[n].count);
        struct fields_in i = {memory, memory + texts[n].count, false};
        take_text(&i, read, sizeof(read));
        assert_int_equal(i.bad, texts[n].bad);
        assert_true(strlen(read) == (texts[n].bad ? 0 : texts[n].count - 2));
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back),
        cmocka_unit_test(the_largest_frame),
        cmocka_unit_test(too_little_room),
        cmocka_unit_test(each_bit_counts),
        cmocka_unit_test(a_cut_frame_is_none),
        cmocka_unit_test(fields_that_lie),
        cmocka_unit_test(texts_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
