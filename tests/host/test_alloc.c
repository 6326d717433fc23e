/*
 * test_alloc.c - libpstore's allocator against a double of kernel and store manager
 * (fake_store.h).
 *
 * Method: random work against a model, aborted by the "kernel" at random page faults, that is in
 * the middle of loads and stores of the library itself; after each transaction every page's
 * invariants hold, every object has its contents, and no page is in use that no lease covered.
 */
#include "fake_box.h"

static uint32_t seed = 7;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* ---- random work against a model ---- */

enum { OBJECTS = 3000 };
struct object { uint8_t *at; uint32_t bytes; uint8_t fill; };
static struct object live[OBJECTS], tried[OBJECTS];
static unsigned live_count, tried_count;

static int random_body(void *arg)
{
    const unsigned *limits = arg;         /* steps, largest object, one in how many is large */
    memcpy(tried, live, sizeof tried);
    tried_count = live_count;
    for (unsigned step = draw(limits[0]); step > 0; step--) {
        if (tried_count < OBJECTS && draw(9) < (tried_count < OBJECTS / 2 ? 6u : 4u)) {
            uint32_t bytes = 1 + draw(draw(limits[2]) ? limits[1] : 40000);
            void *near = tried_count && draw(2) ? tried[draw(tried_count)].at : NULL;
            uint8_t *p = ps_alloc(container, bytes, near);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            assert_in_range(ps_size(p), bytes, (bytes + 15) / 16 * 16 + (bytes > 4048 ? 32 : 0));
            for (uint32_t i = 0; i < bytes; i++)
                assert_int_equal(p[i], 0);
            tried[tried_count] = (struct object){p, bytes, (uint8_t)(1 + draw(255))};
            memset(p, tried[tried_count].fill, bytes);
            tried_count++;
        } else if (tried_count > 0) {
            unsigned victim = draw(tried_count);
            assert_int_equal(ps_free(tried[victim].at), 0);
            tried[victim] = tried[--tried_count];
        }
    }
    return draw(5) == 0;
}

static void everything_is_right(void)
{
    static uint64_t pages[FAKE_PAGES];
    unsigned used = fake_used_pages(pages, FAKE_PAGES), slotted = 0, objects = 0;
    fake_look(1);
    for (unsigned i = 0; i < used;) {
        struct slot_page *page = (struct slot_page *)(uintptr_t)pages[i];
        if (!slot_is_page(page))          /* formatted and freed by one transaction */
            fail_msg("page %u of %u in use is neither slotted nor in a run", i, used);
        assert_int_equal(slot_check(page), 0);
        slotted++;
        for (unsigned at = slot_next(page, 0, 0); at; at = slot_next(page, at, 0))
            objects++;
        for (uint32_t t = 1; t <= page->tail; t++)
            assert_int_equal(pages[i + t], pages[i] + t * 4096ull);
        i += 1 + page->tail;
    }
    assert_int_equal(objects, live_count);
    for (unsigned i = 0; i < live_count; i++)
        for (uint32_t b = 0; b < live[i].bytes; b++)
            assert_int_equal(live[i].at[b], live[i].fill);
    assert_int_equal(fake_counts.wrong_pages, 0);
    fake_look(0);
}

static void random_rounds(unsigned rounds, unsigned steps, unsigned largest, unsigned large_in)
{
    unsigned limits[] = {steps, largest, large_in};
    live_count = 0;
    for (unsigned round = 0; round < rounds; round++) {
        fake_abort_at_fault(draw(3) ? 0 : 1 + draw(60), draw(2) ? EDEADLK : ETIMEDOUT);
        if (draw(8) == 0)
            fake_refuse_commit(ENOSPC);
        int result = ps_transaction(random_body, limits);
        if (result == 0) {
            memcpy(live, tried, sizeof live);
            live_count = tried_count;
        }
        if (round % 8 == 0)
            everything_is_right();
    }
    fake_abort_at_fault(0, 0);
    fake_refuse_commit(0);
    everything_is_right();
    assert_in_range(fake_counts.aborts, rounds / 8, 10 * rounds); /* the injector fires */
    assert_in_range(fake_counts.commits, rounds / 4, rounds);
}

static void random_small_objects(void **state)
{
    (void)state;
    random_rounds(200, 300, 200, 10000);
}

static void random_sizes_up_to_many_pages(void **state)
{
    (void)state;
    random_rounds(100, 40, 5000, 8);
}

static int free_all(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < live_count; i++)
        assert_int_equal(ps_free(live[i].at), 0);
    return 0;
}

static void what_is_freed_goes_back_to_the_manager(void **state)
{
    (void)state;
    static uint64_t pages[FAKE_PAGES];
    random_rounds(60, 60, 3000, 8);
    assert_int_equal(ps_transaction(free_all, NULL), 0);
    assert_true(fake_used_pages(pages, FAKE_PAGES) <= 2); /* the page being filled */
}

/* ---- density and cost ---- */

static int import_body(void *arg)
{
    void **previous = arg;
    for (unsigned i = 0; i < 2000; i++) {
        static const uint32_t sizes[] = {48, 96, 64, 160, 80, 32, 120, 56};
        *previous = ps_alloc(container, sizes[i % 8], i % 2 ? *previous : NULL);
        assert_non_null(*previous);
    }
    return 0;
}

static void sequential_objects_fill_their_pages(void **state)
{
    (void)state;
    static uint64_t pages[FAKE_PAGES];
    void *previous = NULL;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(ps_transaction(import_body, &previous), 0);
    /* (48+96+64+160+80+32+128+64)/8 + 6 = 90 bytes each */
    unsigned used = fake_used_pages(pages, FAKE_PAGES);
    assert_in_range(used, 20000 * 90 / 4096, 20000 * 90 / 4096 * 103 / 100 + 2);
    assert_true(fake_counts.leases < 12);
    assert_true(fake_counts.spaces < 12);
}

static void *near_made[64];

static int near_body(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 8; i++)      /* far from each other: a page each */
        near_made[i] = ps_alloc(container, 3900, NULL);
    for (unsigned i = 0; i < 8; i++) {
        void *close_by = ps_alloc(container, 100, near_made[i]);
        assert_int_equal(PAGE_OF((uintptr_t)close_by), PAGE_OF((uintptr_t)near_made[i]));
    }
    for (unsigned i = 0; i < 8; i++) {
        uint64_t near = (uintptr_t)near_made[i];
        uint64_t got = (uintptr_t)ps_alloc(container, 1000, near_made[i]);
        assert_true((got > near ? got - near : near - got) < 256 * 1024);
    }
    return 0;
}

static void a_hint_is_followed_down_the_ladder(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(near_body, NULL), 0);
}

static int one_object(void *arg)
{
    *(void **)arg = ps_alloc(container, 64, NULL);
    return *(void **)arg ? 0 : -errno;
}

static void a_later_opening_fills_the_page_left_half_full(void **state)
{
    (void)state;
    void *before, *after;
    assert_int_equal(ps_transaction(one_object, &before), 0);
    ps_close(container);
    container = ps_open("box", PS_WRITE, NULL);
    assert_int_equal(ps_transaction(one_object, &after), 0);
    assert_int_equal(PAGE_OF((uintptr_t)before), PAGE_OF((uintptr_t)after));
}

int main(void)
{
    if (getenv("SEED"))                   /* SEED=N test_alloc: other random work */
        seed = (uint32_t)strtoul(getenv("SEED"), NULL, 0);
    const struct CMUnitTest tests[] = {
        TEST(random_small_objects),
        TEST(random_sizes_up_to_many_pages),
        TEST(what_is_freed_goes_back_to_the_manager),
        TEST(sequential_objects_fill_their_pages),
        TEST(a_hint_is_followed_down_the_ladder),
        TEST(a_later_opening_fills_the_page_left_half_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
