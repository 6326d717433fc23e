/*
 * test_slot.c - the slotted page (libpstore/slot.c).
 *
 * Method: a model remembers what each object should hold; slot_check() walks the page's invariants
 * at each step. Hostile pages lie between two guard pages, so an access outside ends the test.
 */
#include "slot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* A page between two that cannot be touched. */
static struct slot_page *page_new(void)
{
    char *memory = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    return (struct slot_page *)(memory + 4096);
}

static void page_drop(struct slot_page *page)
{
    munmap((char *)page - 4096, 3 * 4096);
}

static void golden_bytes(void **state)
{
    (void)state;
    static const uint8_t header_and_slots[] = {0, 0, 0, 0, 2, 0, 4, 251, 255, 1, 252, 3};
    struct slot_page *page = page_new();
    memset(page, 0xee, 4096);
    slot_format(page);
    assert_int_equal(slot_alloc(page, 1, 0), 255);
    assert_int_equal(slot_alloc(page, 3, 0), 252);
    assert_int_equal(page->seal ^ SLOT_SEAL, (uint32_t)((uintptr_t)page >> 12));
    assert_memory_equal((char *)page + 4, header_and_slots, sizeof header_and_slots);
    page_drop(page);
}

static void a_page_holds_226_objects_of_16_bytes(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    slot_format(page);
    for (unsigned i = 0; i < SLOT_COUNT_MAX; i++)
        assert_int_equal(slot_alloc(page, 1, 0), 255 - i);
    assert_int_equal(slot_alloc(page, 1, 0), -ENOSPC);
    assert_int_equal(slot_check(page), 0);
    page_drop(page);
}

static void each_size_fits_exactly_once_or_more(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    for (unsigned units = 1; units <= SLOT_SMALL_MAX; units++) {
        unsigned count = 0;
        slot_format(page);
        assert_int_equal(slot_room(page), SLOT_SMALL_MAX * 16);
        while (slot_alloc(page, units, 0) > 0)
            count++;
        assert_true(count >= 1 && count * (units * 16 + 2) + 12 <= 4096);
        assert_true((count + 1) * (units * 16 + 2) + 12 + 16 > 4096);
        assert_true(slot_room(page) < units * 16);
    }
    page_drop(page);
}

struct object { int start; unsigned units; uint8_t fill; };

static void contents_check(const struct slot_page *page, const struct object *o, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *bytes = (const uint8_t *)page + o[i].start * 16;
        assert_int_equal(slot_units(page, (unsigned)o[i].start), o[i].units);
        for (unsigned b = 0; b < o[i].units * 16; b++)
            assert_int_equal(bytes[b], o[i].fill);
    }
}

static void random_work_keeps_contents_and_invariants(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    struct object objects[SLOT_COUNT_MAX];
    unsigned resized = 0;
    for (unsigned round = 0; round < 60; round++) {
        unsigned count = 0, largest = 1 + draw(round % 4 ? 12 : 120);
        memset(page, 0xee, 4096);
        slot_format(page);
        if (round % 2)
            slot_format_marked(page, 4711, 0);
        for (unsigned step = 0; step < 400; step++) {
            if (count > 0 && draw(4) == 0) {
                struct object *o = &objects[draw(count)];
                unsigned units = 1 + draw(largest);
                if (slot_resize(page, (unsigned)o->start, units) == 0) {
                    uint8_t *bytes = (uint8_t *)page + o->start * 16;
                    for (unsigned b = 0; b < units * 16; b++)
                        assert_int_equal(bytes[b], b < o->units * 16 ? o->fill : 0);
                    memset(bytes, o->fill, units * 16);
                    resized += units > o->units;
                    o->units = units;
                } else {
                    assert_true(units > o->units);
                }
            } else if (draw(5) < 3) {
                unsigned units = 1 + draw(largest), room = slot_room(page);
                int start = slot_alloc(page, units, round % 2 ? units : 0);
                assert_int_equal(start > 0, room >= units * 16);
                assert_int_equal(start > 0 ? slot_type(page, (unsigned)start) : 0,
                                 start > 0 && round % 2 ? units : 0);
                if (start < 0)
                    continue;
                char *bytes = (char *)page + start * 16;
                for (unsigned b = 0; b < units * 16; b++)
                    assert_int_equal(bytes[b], 0);
                objects[count] = (struct object){start, units, (uint8_t)draw(256)};
                memset(bytes, objects[count].fill, units * 16);
                count++;
            } else if (count > 0) {
                unsigned victim = draw(count);
                uint32_t tail;
                assert_int_equal(slot_free(page, (unsigned)objects[victim].start, &tail), 0);
                assert_int_equal(tail, 0);
                objects[victim] = objects[--count];
            }
            assert_int_equal(slot_check(page), 0);
            assert_int_equal(slot_is_empty(page), count == 0);
        }
        contents_check(page, objects, count);
    }
    assert_true(resized > 100);
    page_drop(page);
}

static void a_run_shares_its_first_page_with_small_objects(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    uint32_t tail;
    for (unsigned start = 1; start <= SLOT_UNITS; start++) {
        slot_format(page);
        slot_alloc_run(page, start, 7, 0);
        assert_int_equal(slot_check(page), 0);
        assert_int_equal(slot_units(page, start), 7 * SLOT_UNITS + SLOT_UNITS - start);
        int small = slot_alloc(page, 1, 0);
        assert_int_equal(small > 0, start >= 2); /* unit 1 */
        assert_int_equal(slot_free(page, start, &tail), 0);
        assert_int_equal(tail, 7);
        assert_int_equal(slot_free(page, start, &tail), -EINVAL);
        assert_int_equal(slot_check(page), 0);
        assert_int_equal(slot_is_empty(page), small < 0);
    }
    page_drop(page);
}

static void wrong_frees_are_refused(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    uint32_t tail;
    assert_int_equal(slot_alloc(page, 1, 0), -EUCLEAN); /* all zero: no slotted page */
    assert_int_equal(slot_free(page, 255, &tail), -EINVAL);
    slot_format(page);
    int start = slot_alloc(page, 4, 0);
    for (unsigned wrong = 0; wrong <= SLOT_UNITS; wrong++)
        if (wrong != (unsigned)start)
            assert_int_equal(slot_free(page, wrong, &tail), -EINVAL);
    assert_int_equal(slot_free(page, (unsigned)start, &tail), 0);
    assert_int_equal(slot_free(page, (unsigned)start, &tail), -EINVAL);
    slot_unformat(page);
    assert_int_equal(slot_alloc(page, 1, 0), -EUCLEAN);
    page_drop(page);
}

static void a_page_elsewhere_is_no_page_of_ours(void **state)
{
    (void)state;
    struct slot_page *page = page_new(), *copy = page_new();
    slot_format(page);
    memcpy(copy, page, 4096);
    assert_true(slot_is_page(page));
    assert_false(slot_is_page(copy));
    page_drop(page);
    page_drop(copy);
}

/* Whatever lies in a page: errors, never an access outside it. */
static void spoilt_pages_give_errors(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    for (unsigned round = 0; round < 20000; round++) {
        uint32_t tail;
        slot_format(page);
        uint32_t seal = page->seal;
        for (unsigned i = 0; i < 6; i++)
            slot_alloc(page, 1 + draw(40), 0);
        uint8_t *bytes = (uint8_t *)page;
        for (unsigned i = 0, flips = 1 + draw(30); i < flips; i++)
            bytes[4 + draw(draw(2) ? 8 : 60)] = (uint8_t)draw(256);
        assert_int_equal(page->seal, seal);
        slot_check(page);
        slot_room(page);
        slot_is_empty(page);
        slot_units(page, draw(257));
        slot_alloc(page, 1 + draw(SLOT_SMALL_MAX), 0);
        slot_free(page, 1 + draw(256), &tail);
        slot_alloc(page, 1 + draw(8), 0);
        for (unsigned start = 0; start <= SLOT_UNITS; start++)
            slot_free(page, start, &tail);
    }
    page_drop(page);
}

static void each_broken_invariant_is_found(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    uint32_t tail, kept = 0;
    for (unsigned byte = 0; byte < 12 + 2 * 5; byte++)
        for (unsigned bit = 0; bit < 8; bit++) {
            slot_format(page);
            for (unsigned i = 0; i < 5; i++)
                slot_alloc(page, 2 + i, 0);
            slot_free(page, SLOT_UNITS - 2, &tail); /* the smallest: nothing else fits there */
            assert_int_equal(slot_check(page), 0);
            unsigned stack = page->stack;
            ((uint8_t *)page)[byte] ^= (uint8_t)(1u << bit);
            kept += slot_check(page) == 0 && page->stack <= stack; /* more is none: SL4 */
        }
    assert_int_equal(kept, 0);
    page_drop(page);
}

/* In item mode: settled, it is the page that slot_free leaves; and sound before. */
static void freed_beside_others_and_settled_is_freed(void **state)
{
    (void)state;
    struct slot_page *page = page_new();
    for (unsigned round = 0; round < 2000; round++) {
        uint32_t tail;
        uint8_t before[4096], freed[4096];
        unsigned start[12], made = 1 + draw(12);
        slot_format(page);
        if (round % 2) slot_format_marked(page, 0, 0);
        for (unsigned i = 0; i < made; i++) start[i] = (unsigned)slot_alloc(page, 1 + draw(12), 0);
        memcpy(before, page, sizeof before);
        for (unsigned i = round % 3; i < made; i += 2)
            assert_int_equal(slot_free(page, start[i], &tail), 0);
        slot_settle(page);
        memcpy(freed, page, sizeof freed);
        memcpy(page, before, sizeof before);
        for (unsigned i = round % 3; i < made; i += 2)
            assert_int_equal(slot_free_beside(page, start[i]), 0);
        assert_int_equal(slot_free_beside(page, 1), -EINVAL);
        assert_int_equal(slot_check(page), 0);
        slot_settle(page);
        assert_memory_equal(page, freed, sizeof freed);
    }
    page_drop(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(freed_beside_others_and_settled_is_freed),
        cmocka_unit_test(a_page_holds_226_objects_of_16_bytes),
        cmocka_unit_test(each_size_fits_exactly_once_or_more),
        cmocka_unit_test(random_work_keeps_contents_and_invariants),
        cmocka_unit_test(a_run_shares_its_first_page_with_small_objects),
        cmocka_unit_test(wrong_frees_are_refused),
        cmocka_unit_test(a_page_elsewhere_is_no_page_of_ours),
        cmocka_unit_test(spoilt_pages_give_errors),
        cmocka_unit_test(each_broken_invariant_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
