/*
 * test_messages.c - messages of remote and agent (user/sites/message.h).
 *
 * Aim     what is put comes out as it was; of a frame with any byte changed, cut short or made
 *         longer, either nothing is taken, or what is taken keeps its promises and lies in the
 *         frame.
 * Method  one message of each kind, with sanitizers; frames are in memory of just their size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/message.h"

enum { ROOM = 16384 };
#define PAGE 0x200000003000ull

static uint8_t contents[2 * SITE_PAGE_BYTES], runs[512];
static size_t runs_bytes;

static void runs_make(void)
{
    struct fields_out o = {.begin = runs, .at = runs, .end = runs + sizeof runs};
    for (unsigned i = 0; i < 3; i++)
        run_put(&o, &(struct site_run){.page = PAGE + i * SITE_PAGE_BYTES, .serial = 7 + i,
                                       .offset = (uint16_t)(8 * i), .bytes = 16,
                                       .data = contents + 100 * i});
    assert_false(o.full);
    runs_bytes = (size_t)(o.at - runs);
}

static struct site_message sample(unsigned kind)
{
    struct site_message m = {.kind = (uint16_t)kind, .number = 11, .answer_to = 12};
    m.error = kind == SITE_TOLD ? -2
              : kind == SITE_DENIED || kind == SITE_REFUSED || kind == SITE_SNAPPED ||
                        kind == SITE_STOOD
                    ? 35 : 0;
    m.right = kind == SITE_GET || kind == SITE_GRANT || kind == SITE_CALL ||
                      kind == SITE_GONE || kind == SITE_SNAP
                  ? SITE_SHARED : SITE_NO;
    m.wants = kind == SITE_GET;
    m.request = kind == SITE_ASK || kind == SITE_COMMIT ? 0xfffffffeu : 0;
    m.page = kind == SITE_ASK || kind == SITE_TOLD || kind == SITE_COMMIT || kind == SITE_DONE ||
             kind == SITE_REFUSED || kind == SITE_SNAP || kind == SITE_SNAPPED ||
             kind == SITE_SNAP_END || kind >= SITE_VOTED ? 0 : PAGE;
    m.serial = kind == SITE_GRANT || kind == SITE_CALL || kind == SITE_GONE || kind == SITE_DONE ||
               kind == SITE_PROBE || kind == SITE_GET_OLD || kind == SITE_SNAP_END ||
                       kind == SITE_STILL
                   ? 99 : 0;
    m.count = kind == SITE_TOLD || kind == SITE_GRANT ? 2 : kind == SITE_PROBED ? 3
              : kind == SITE_GET ? 7 : 0;
    for (unsigned i = 0; i < SITE_WORDS && (kind == SITE_ASK || kind == SITE_TOLD); i++)
        m.word[i] = i * 1000;
    for (unsigned i = 0; i < m.count; i++)
        if (kind == SITE_TOLD)
            m.segment[i] = (struct site_segment){5, PAGE, 1000 + i};
        else if (kind == SITE_PROBED)
            m.waits[i] = (struct site_wait){50 + i, 9000 + i};
    bool page = kind == SITE_GRANT || kind == SITE_OLD;
    if (kind == SITE_ASK || kind == SITE_TOLD || kind == SITE_COMMIT || page) {
        m.data = contents;
        m.bytes = kind == SITE_GRANT ? sizeof contents : page ? SITE_PAGE_BYTES : 64;
    }
    if (kind == SITE_COMMIT) m.runs = runs, m.runs_bytes = runs_bytes;
    return m;
}

/* The frame's CRC is made to fit: link looks at it before anybody else. */
static bool take(struct site_message *m, const uint8_t *frame, size_t bytes)
{
    struct frame f;
    if (!frame_head(&f, frame, bytes) || f.bytes != bytes) return false;
    return message_take(m, &f, frame);
}

static bool inside(const void *at, size_t bytes, const uint8_t *frame, size_t all)
{
    const uint8_t *p = at;
    return bytes == 0 || (p >= frame + FRAME_HEADER && bytes <= (size_t)(frame + all - p));
}

static void promises(const struct site_message *m, const uint8_t *frame, size_t bytes)
{
    struct site_run r;
    struct fields_in i = message_runs(m);
    assert_true(inside(m->data, m->bytes, frame, bytes));
    assert_true(m->right <= SITE_EXCLUSIVE);
    assert_true(m->count <= SITE_PROBED_MAX);
    assert_true(m->kind != SITE_TOLD || m->count <= SITE_SEGMENTS_MAX);
    assert_true(m->kind != SITE_OLD || m->bytes == (m->error ? 0 : SITE_PAGE_BYTES));
    if (m->kind == SITE_GET || m->kind == SITE_GRANT) {
        assert_true(m->count == 1 || (m->count <= SITE_GRANT_MAX && m->right == SITE_SHARED));
        assert_true(m->kind == SITE_GET || m->bytes == m->count * SITE_PAGE_BYTES ||
                    (m->bytes == 0 && m->count == 1));
        assert_true(m->count && (m->page & (SITE_PAGE_BYTES - 1)) == 0);
    }
    while (m->kind == SITE_COMMIT && run_next(&i, &r)) {
        assert_true(inside(r.data, r.bytes, frame, bytes));
        assert_true(r.offset + r.bytes <= (int)SITE_PAGE_BYTES);
        assert_true(r.page >= 0x200000000000ull && r.page % SITE_PAGE_BYTES == 0);
    }
}

static void round_trip(void **state)
{
    static uint8_t frame[ROOM];
    (void)state;
    runs_make();
    for (unsigned kind = SITE_ASK; kind < SITE_KINDS; kind++) {
        struct site_message m = sample(kind), back = {0};
        size_t bytes = message_put(&m, frame, sizeof frame);
        assert_true(bytes > 0 && take(&back, frame, bytes));
        assert_int_equal(back.bytes, m.bytes);
        if (m.bytes) assert_memory_equal(back.data, m.data, m.bytes);
        assert_int_equal(back.runs_bytes, m.runs_bytes);
        if (m.runs_bytes) assert_memory_equal(back.runs, m.runs, m.runs_bytes);
        back.data = m.data;
        back.runs = m.runs;
        assert_memory_equal(&back, &m, sizeof m);
        for (size_t room = 0; room < bytes; room += 13)
            assert_int_equal(message_put(&m, frame, room), 0);
    }
}

static void hostile(void **state)
{
    static uint8_t whole[ROOM];
    unsigned taken = 0, refused = 0;
    (void)state;
    runs_make();
    srand(1);
    for (unsigned n = 0; n < 60000; n++) {
        struct site_message m = sample(SITE_ASK + n % (SITE_KINDS - SITE_ASK)), back;
        size_t bytes = message_put(&m, whole, sizeof whole), size = bytes;
        if (n % 3 == 1) size = FRAME_HEADER + (size_t)rand() % (bytes - FRAME_HEADER + 1);
        if (n % 3 == 2) size += (size_t)rand() % 40;
        uint8_t *frame = malloc(size);
        memcpy(frame, whole, size < bytes ? size : bytes);
        if (size > bytes) memset(frame + bytes, rand(), size - bytes);
        struct frame f;
        assert_true(frame_head(&f, whole, bytes));
        for (int i = rand() % 4; i > 0; i--) {
            size_t at = FRAME_HEADER + (size_t)rand() % 120;
            if (at < size) frame[at] = (uint8_t)(rand() % 2 ? rand() : 1 << rand() % 8);
        }
        f.bytes = (uint32_t)size;
        if (rand() % 8 == 0) f.kind = (uint16_t)rand();
        frame_seal(&f, frame);
        if (take(&back, frame, size)) {
            promises(&back, frame, size);
            taken++;
        } else {
            refused++;
        }
        free(frame);
    }
    print_message("%u taken, %u refused\n", taken, refused);
    assert_true(taken > 1000 && refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
