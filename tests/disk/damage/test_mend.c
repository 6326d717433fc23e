/*
 * test_mend.c - pages that are made anew from their homes and the log, while a store is at work.
 *
 * Method  worlds (world.h) with chains, holds, checkpoints and differences from the newest version;
 *         after each step every page of the model is mended and compared with it, half of them
 *         with commits between the reading and the last look. What the log has lost is an error.
 */
#include "crew.h"
#include "stage.h"
#include "world.h"

enum { STEPS = 60 };

static struct store_mend mend_of[WORLD_CONTAINERS * WORLD_PAGES];
static uint64_t dirty, clean, absent, again, loaded, changed;

static bool was_home[WORLD_CONTAINERS][WORLD_PAGES];    /* loaded in this life of the page */

static struct store_mend *mend_at(uint32_t c, uint32_t p) { return &mend_of[c * WORLD_PAGES + p]; }

/* Of all pages that the model has, and those that it has not. */
static void begin_and_read(struct world *world)
{
    for (uint32_t c = 0; c < WORLD_CONTAINERS; c++)
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            struct store_mend *m = mend_at(c, p);
            uint64_t object = world->model.containers[c].object;
            m->object = 0;
            if (!object)
                continue;
            assert_int_equal(store_mend_begin(world->store, object, p, m), 0);
            assert_int_equal(store_mend_read(world->store, m), 0);
            const struct model_page *is = &world->model.containers[c].pages[p];
            loaded += is->home;         /* its bytes are in no log */
            changed += was_home[c][p] && !is->home && m->at.dirty;
            was_home[c][p] = is->present && (is->home || was_home[c][p]);
            dirty += m->at.dirty;
            clean += m->at.present && !m->at.dirty;
            absent += !m->at.present;
        }
}

static void compare(struct world *world)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    for (uint32_t c = 0; c < WORLD_CONTAINERS; c++)
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            struct store_mend *m = mend_at(c, p);
            const struct model_container *of = &world->model.containers[c];
            if (!m->object || m->object != of->object)
                continue;
            if (store_mend_again(world->store, m)) {
                assert_int_equal(store_mend_read(world->store, m), 0);
                again++;
            }
            memset(bytes, 0, sizeof bytes);
            if (of->pages[p].present)
                page_fill(of->pages[p].cells, bytes);
            assert_int_equal(m->at.present, of->pages[p].present);
            assert_memory_equal(m->bytes, bytes, sizeof bytes);
        }
}

static void life(uint64_t seed, bool newest, uint32_t chain_odds, bool bulk, bool chunks)
{
    static struct world world;
    struct device disk;
    struct world_options options = { .disk_bytes = 8 << 20, .log_bytes = 2 << 20,
                                    .extent_bytes = 8192,
                                     .group_bytes = 64 * 1024, .newest = newest,
                          .checkpoint_odds = 6,
                                     .chain_odds = chain_odds, .hold_odds = chain_odds ? 7 : 0,
                                     .bulk = bulk, .chunks = chunks };
    memset(was_home, 0, sizeof was_home);
    device_open(&disk, options.disk_bytes);
    struct store_report found;
    assert_int_equal(world_format(&world, &disk, seed, &options), 0);
    assert_int_equal(world_open(&world, &found), 0);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(world_step(&world), 0);
        begin_and_read(&world);
        if (i % 2)
            assert_int_equal(world_commit(&world, 3, false), 0);
        compare(&world);
    }
    world_abandon(&world);
    device_close(&disk);
}

/* Aim: what is made of a page is what was committed last. */
static void pages_are_as_they_were_committed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        life(seed, seed % 2, seed % 3 ? 0 : 5, false, seed > 8);
    assert_true(dirty > 1000 && clean > 100 && absent > 100 && again > 100);
}

/* Aim: so is a page that a load brought home past the log, and what was changed of it since. */
static void pages_of_a_load_are_mended(void **state)
{
    (void)state;
    loaded = changed = 0;
    for (uint64_t seed = 100; seed <= 108; seed++)
        life(seed, seed % 2, 1, true, seed % 4 == 1);
    printf("# %llu looks at pages of a load, %llu at such that were changed since\n",
           (unsigned long long)loaded, (unsigned long long)changed);
    assert_true(loaded > 100 && changed > 100);
}

/* Aim: where a record, or a home, is lost, that is an error and not another page. */
static void what_is_lost_is_an_error(void **state)
{
    (void)state;
    static struct store_mend m;
    make_saved(1 << 20, 64 * 1024);
    commit_pages(0, 3);
    assert_int_equal(store_mend_begin(store, object, 1, &m), 0);
    assert_true(m.at.dirty);
    assert_int_equal(store_mend_read(store, &m), 0);
    device.image[ring_offset(store, store->log.applied) - 100] ^= 1;
    assert_int_equal(store_mend_begin(store, object, 1, &m), 0);
    assert_int_equal(store_mend_read(store, &m), -EUCLEAN);
    device.image[ring_offset(store, store->log.applied) - 100] ^= 1;
    checkpoint();
    assert_int_equal(store_mend_begin(store, object, 1, &m), 0);
    assert_false(m.at.dirty);
    device.image[m.at.offset_bytes + 77] ^= 1;
    assert_int_equal(store_mend_read(store, &m), -EUCLEAN);
    assert_int_equal(store_mend_begin(store, object + 100, 1, &m), -ENOENT);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_as_they_were_committed),
        cmocka_unit_test(pages_of_a_load_are_mended),
        cmocka_unit_test(what_is_lost_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
