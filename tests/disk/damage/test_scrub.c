/*
 * test_scrub.c - what rots, or cannot be read, while a store is at work is found and put back.
 *
 * Method: first single cases, each copy of a small store spoiled in turn, twice. Then lives
 * (life.h) with a piece of a scrub between two steps of the work: nothing is found where nothing is
 * wrong; and a copy that is spoiled at some step is mended, with the power cut at each write of the
 * repair: every state must recover. (What `kstore scrub` does: test_scrub_closed.)
 */
#include <stdlib.h>

#include "crew.h"
#include "life.h"
#include "stage.h"

enum { ROUNDS, FAULTS, MENDED, BY_CHECKPOINT, STATES };

#define LIFE_STEPS 24u

struct outcome { uint32_t mended, lost, saved; };

static struct store_scrub scrub;
static void (*between)(void);           /* the work of others, between two calls */

static void others(void)
{
    if (between)
        between();
}

/* Copies that memory and the log do not have are written by checkpoints. */
static int twice(struct store *of, int (*save)(struct store *))
{
    int error = save(of);
    return error ? error : save(of);
}

/* What was found is put back, or given up. 0, or an error of the store. */
static int mend(struct store *of, int (*save)(struct store *), struct outcome *o)
{
    int error = store_scrub_seek(of, &scrub);
    others();
    if (!error)
        error = store_scrub_holds(of, &scrub);
    if (!error) {
        error = store_scrub_write(of, &scrub);
        o->mended += !error;
        return error;
    }
    if (error != -ENODATA)
        return error == -EAGAIN ? 0 : error;
    if (scrub.kind != STORE_SCRUB_PAGE && o->saved++ < 1)
        return twice(of, save);
    store_scrub_skip(&scrub);
    o->lost++;
    return 0;
}

/* One round, from its beginning. */
static int scrub_round(struct store *of, int (*save)(struct store *), struct outcome *o)
{
    int error;
    memset(&scrub, 0, sizeof scrub);
    memset(o, 0, sizeof *o);
    while ((error = store_scrub_next(of, &scrub)) == 0 || error == -EAGAIN) {
        if (!error) {
            others();
            store_scrub_read(of, &scrub);
        }
        others();
        if (!error && store_scrub_judge(of, &scrub) == -EUCLEAN && (error = mend(of, save, o)))
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

/* ---- single cases */

static int save_here(struct store *of)
{
    assert_ptr_equal(of, store);
    checkpoint();
    return 0;
}

/* Three checkpoints, so that the areas differ; pages that are at home, and a page that is not. */
static void history_make(void)
{
    make_saved(1 << 20, 64 * 1024);
    commit_pages(0, 3);
    checkpoint();
    commit_pages(3, 4);
    checkpoint();
    commit_pages(40, 41);
}

static void pages_require(uint64_t lost)
{
    uint8_t page[STORE_PAGE_BYTES];
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(store_page_read(store, object, i, page), i == lost ? -EUCLEAN : 0);
}

/* Spoils a block of a store that has just been made, scrubs, and scrubs again. */
static struct outcome spoiled(uint64_t at, bool rot)
{
    struct outcome first, second;
    if (rot)
        device.image[at + 100] ^= 4;
    device.bad_at = at;
    device.bad_bytes = rot ? 0 : BLOCK_BYTES;
    assert_int_equal(scrub_round(store, save_here, &first), 0);
    assert_int_equal(first.mended + first.lost + first.saved > 0, 1);
    assert_int_equal(device.bad_bytes, 0);
    assert_int_equal(scrub_round(store, save_here, &second), 0);
    assert_int_equal(second.mended + second.saved, 0);
    assert_int_equal(second.lost, first.lost);
    return first;
}

/* The image is bit by bit as it was before, or checkpoints have written it anew; and it opens. */
static void block_mended(uint64_t at, bool rot, uint32_t lost)
{
    uint8_t *before = malloc(device.bytes);
    assert_non_null(before);
    memcpy(before, device.image, device.bytes);
    struct outcome o = spoiled(at, rot);
    assert_int_equal(o.lost, lost);
    if (!o.saved && !lost)
        assert_memory_equal(device.image, before, device.bytes);
    free(before);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_false(report.slot_bad[0] || report.slot_bad[1] || report.older_checkpoint);
    pages_require(UINT64_MAX);
    unmake();
    history_make();
}

static void range_mended(uint64_t from, uint64_t bytes)
{
    for (uint64_t at = from; at < from + bytes; at += BLOCK_BYTES)
        for (int rot = 0; rot < 2; rot++)
            block_mended(at, rot, 0);
}

/* Aim: each copy, rotten or unreadable, is found by one round and is sound in the next. */
static void each_copy_is_mended(void **state)
{
    (void)state;
    history_make();
    struct superblock super = store->super;
    for (uint32_t area = 0; area < 2; area++) {
        uint32_t pages = super.checkpoints[area].pages;
        range_mended(super.area_start[area], area_map_bytes(pages));
        range_mended(area_page_offset(&super, area, 0), (uint64_t)pages * BLOCK_BYTES);
    }
    range_mended(0, 2 * BLOCK_BYTES);
    range_mended(super.slot_b_offset, BLOCK_BYTES);
    for (uint64_t i = 0, home; i < 4; i++) {
        assert_int_equal(store_page_home(store, object, i, &home), 0);
        range_mended(home, BLOCK_BYTES);
    }
    unmake();
}

/* Aim: a block of the ring that cannot be read is written, if no log is there; else checkpoints let
 * go of it. */
static void unreadable_log_is_mended(void **state)
{
    (void)state;
    uint8_t page[STORE_PAGE_BYTES];
    history_make();
    struct superblock super = store->super;
    for (uint64_t at = 0; at < super.log_bytes; at += BLOCK_BYTES) {
        uint64_t end = super.log_start + store->log.end % super.log_bytes;
        struct outcome o = spoiled(super.log_start + at, false);
        assert_int_equal(o.mended, 1);
        assert_int_equal(o.lost, 0);
        assert_true(super.log_start + at != end || !o.saved);
        store_abandon(store);
        assert_int_equal(open_with(0), 0);
        pages_require(UINT64_MAX);
        assert_int_equal(store_page_read(store, object, 40, page), 0);
        assert_memory_equal(page, page_bytes, sizeof page);
        unmake();
        history_make();
    }
    unmake();
}

/* Aim: rot in the log that a recovery would need is found; checkpoints let go of it, and nothing is
 * lost. */
static void rotten_log_is_let_go(void **state)
{
    (void)state;
    uint8_t page[STORE_PAGE_BYTES];
    history_make();
    uint64_t from = store->log.keep, end = store->log.end, ring = store->super.log_bytes;
    assert_true(end - from >= 3 * BLOCK_BYTES);
    for (uint64_t lsn = from; lsn < end; lsn += BLOCK_BYTES) {
        struct outcome o = spoiled(store->super.log_start + lsn % ring, true);
        assert_int_equal(o.saved, 1);
        assert_int_equal(o.mended + o.lost, 0);
        store_abandon(store);
        assert_int_equal(open_with(0), 0);
        pages_require(UINT64_MAX);
        assert_int_equal(store_page_read(store, object, 40, page), 0);
        unmake();
        history_make();
    }
    memory_fail_at = memory_count + 1;          /* for the groups: no memory is no rot */
    struct outcome o;
    assert_int_equal(scrub_round(store, save_here, &o), 0);
    assert_int_equal(o.mended + o.lost + o.saved, 0);
    memory_fail_at = 0;
    unmake();
}

static void page_put(uint64_t page, uint8_t first, bool full)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    static const struct diff_run run = { .offset = 0, .length = 1 };
    struct store_page at;
    struct store_group *group = group_open();
    memset(bytes, first, sizeof bytes);
    store_txn_begin(group, 1);
    assert_int_equal(store_page_find(store, object, page, &at), 0);
    assert_int_equal(full ? store_txn_page(group, object, page, bytes)
                          : txn_diff(group, object, page, at.lsn, &run, 1, "\t"), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
    uint64_t home;
    bytes[0] = full ? first : '\t';
    assert_int_equal(store_page_home(store, object, page, &home), 0);
    assert_int_equal(io.write(io.context, home, bytes, sizeof bytes), 0);
    assert_int_equal(store_page_find(store, object, page, &at), 0);
    assert_int_equal(store_page_cleaned(store, object, page, at.lsn,
                                        crc32c(0, bytes, sizeof bytes)),
                     0);
}

/* Aim: a page whose last version is a difference is put together again; one that the ring has no
 * more is lost, said once a round, and everything else goes on. */
static void a_page_comes_from_the_log_or_is_lost(void **state)
{
    (void)state;
    uint64_t home;
    history_make();
    page_put(7, 5, true);
    page_put(7, 5, false);
    assert_int_equal(store_page_home(store, object, 7, &home), 0);
    struct outcome o = spoiled(home, true);
    assert_int_equal(o.mended, 1);
    for (uint64_t i = 0; i < 20; i++) {                 /* the ring goes round */
        commit_pages(50, 52);
        checkpoint();
    }
    o = spoiled(home, true);
    assert_int_equal(o.lost, 1);
    assert_int_equal(o.mended, 0);
    assert_int_equal(scrub.kind, STORE_SCRUB_SLOT);     /* ready for another round */
    pages_require(UINT64_MAX);
    unmake();
}

/* Aim: a place that takes no write is left as it is; a flush that fails ends the store's
 * writing. */
static void a_repair_may_fail(void **state)
{
    (void)state;
    struct outcome o;
    for (int kind = FAIL_WRITE; kind <= FAIL_FLUSH; kind *= 2) {
        history_make();
        device.image[slot_offset(&store->super, 1) + 100] ^= 4;
        device.requests = 0;
        device.fail_kinds = (uint32_t)kind;
        device.fail_at = 1;
        assert_int_equal(scrub_round(store, save_here, &o), -EIO);
        assert_int_equal(store_error(store), kind == FAIL_FLUSH ? -EIO : 0);
        device.fail_kinds = 0;
        abandon();
    }
}

static int write_nothing(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    (void)context, (void)offset, (void)buffer, (void)bytes;
    return 0;
}

/* Aim: a disk that takes a write and has not done it is not asked for ever. */
static void a_repair_that_does_not_help_is_given_up(void **state)
{
    (void)state;
    uint64_t home;
    struct outcome o;
    history_make();
    assert_int_equal(store_page_home(store, object, 3, &home), 0);
    device.image[home] ^= 1;
    store->io.write = write_nothing;
    assert_int_equal(scrub_round(store, save_here, &o), 0);
    assert_int_equal(o.mended, 1);
    assert_int_equal(o.lost, 1);
    abandon();
}

/* A checkpoint begins, and is dropped because a commit finds no memory to keep what it saves. */
static void checkpoint_dropped(void)
{
    assert_int_equal(store_checkpoint_begin(store), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(op(group, STORE_OP_RENAME, object, "d"), 0);
    assert_int_equal(txn_next(group), 0);
    alloc_fail(1);
    group_done(group);
    assert_true(alloc_fired());
    assert_int_equal(store_checkpoint_seal(store), -ENOMEM);
}

/* Aim: a new store has one checkpoint, of which memory keeps no copy once another one has begun.
 * Its area rots: the next checkpoint goes to the other area. */
static void the_only_checkpoint_may_rot(void **state)
{
    (void)state;
    make(1 << 20, 64 * 1024);
    uint32_t area = store->super.checkpoint_index;
    assert_int_equal(store->super.checkpoints[!area].redo_lsn, 0);
    checkpoint_dropped();
    struct outcome o = spoiled(area_page_offset(&store->super, area, 0), true);
    assert_int_equal(o.saved, 1);
    assert_int_equal(o.lost, 0);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_false(report.older_checkpoint);
    unmake();
}

/* Rots a page of the newest area, which a round finds. -ENODATA: it has changed since, so neither
 * memory nor the log has a copy. */
static int newest_rots(uint32_t page)
{
    int error;
    uint64_t at = area_page_offset(&store->super, store->super.checkpoint_index, page);
    device.image[at + 100] ^= 4;
    memset(&scrub, 0, sizeof scrub);
    while ((error = store_scrub_next(store, &scrub)) == 0 || error == -EAGAIN) {
        store_scrub_read(store, &scrub);
        if (store_scrub_judge(store, &scrub) == -EUCLEAN)
            break;
    }
    assert_int_equal(error, 0);
    assert_int_equal(scrub.good_offset, at);
    return store_scrub_seek(store, &scrub) ?: store_scrub_holds(store, &scrub);
}

/* A checkpoint whose writes end at the n-th: its error. */
static int checkpoint_cut_off(uint32_t n)
{
    int error;
    assert_int_equal(store_checkpoint_begin(store), 0);
    all_home();
    device.fail_kinds = FAIL_WRITE;
    device.requests = 0;
    device.fail_at = n;
    device.fail_sticky = true;
    do {
        int sealed = store_checkpoint_seal(store);
        error = store_checkpoint_write(store) ?: sealed;
    } while (error == -EAGAIN);
    assert_int_equal(store_checkpoint_apply(store), error);
    device.fail_kinds = 0;
    return error;
}

/* Aim: when the newest area has rotted and nothing has a copy, the older one is all there is. The
 * next checkpoint leaves it alone (SR4): wherever its writes end, the store opens. */
static void the_older_area_is_left_alone(void **state)
{
    (void)state;
    uint32_t cut = 0, pages = 1;
    for (uint32_t page = 0; page < pages; page++) {
        int error = -EIO;
        for (uint32_t n = 1; error; n++) {
            history_make();
            pages = store->super.checkpoints[store->super.checkpoint_index].pages;
            error = newest_rots(page) == -ENODATA ? checkpoint_cut_off(n) : 0;
            cut += error != 0;
            store_abandon(store);
            assert_int_equal(open_with(0), 0);
            pages_require(UINT64_MAX);
            abandon();
        }
    }
    assert_true(cut > 2);
}

/* Aim: the disk goes while the log is searched for a page's image: that is said, and neither is the
 * page lost nor anything written. */
static void a_disk_that_goes_in_the_search_is_no_loss(void **state)
{
    (void)state;
    uint64_t home;
    make_saved(4 << 20, 2 * READ_AHEAD_BYTES);
    commit_pages(0, 3);
    checkpoint();
    assert_int_equal(store_page_home(store, object, 1, &home), 0);
    device.image[home + 100] ^= 4;
    memset(&scrub, 0, sizeof scrub);
    int error;
    do {
        error = store_scrub_next(store, &scrub);
        if (!error)
            store_scrub_read(store, &scrub);
    } while (error == -EAGAIN || (!error && store_scrub_judge(store, &scrub) != -EUCLEAN));
    assert_int_equal(error, 0);
    device.fail_kinds = FAIL_READ;
    device.requests = 0;
    device.fail_at = 1;
    device.fail_sticky = true;
    assert_int_equal(store_scrub_seek(store, &scrub), -EIO);
    device.fail_kinds = 0;
    assert_int_equal(store_scrub_seek(store, &scrub), 0);
    assert_int_equal(store_scrub_holds(store, &scrub), 0);
    assert_int_equal(store_scrub_write(store, &scrub), 0);
    struct outcome o;
    assert_int_equal(scrub_round(store, save_here, &o), 0);
    assert_int_equal(o.mended + o.lost + o.saved, 0);
    unmake();
}

/* ---- lives */

static struct world world;
static struct device life_device;
static uint64_t life_random;
static int life_error;

static void work(void)
{
    bool on = world.model.commits + 8 < WORLD_COMMITS;
    if (!life_error && on && random_below(&life_random, 3) == 0)
        life_error = world_step(&world);
    else if (!life_error && !on && world.checkpointing)
        life_error = world_checkpoint_some(&world, UINT32_MAX);
    if (life_error == -ENOSPC || life_error == -ENODATA)
        life_error = 0;
}

static int save_life(struct store *of)
{
    (void)of;
    int error = world.checkpointing ? world_checkpoint_some(&world, UINT32_MAX) : 0;
    return error ? error : world_checkpoint(&world);
}

static bool life_begin(uint64_t seed)
{
    struct world_options shape = life_options(seed);
    struct store_report how;
    life_random = seed;
    device_open(&life_device, shape.disk_bytes);
    life_error = world_format(&world, &life_device, seed, &shape);
    if (!life_error)
        life_error = world_open(&world, &how);
    for (uint32_t i = 0; i < LIFE_STEPS && !life_error; i++)
        life_error = world_step(&world);
    return !life_error;
}

static void life_end(void)
{
    world_abandon(&world);
    device_close(&life_device);
}

static void calm_job(uint64_t seed)
{
    struct outcome o;
    crew_at("life", seed);
    between = work;
    for (int i = 0; life_begin(seed) && i < 3; i++) {
        int error = scrub_round(world.store, save_life, &o);
        if (error && error != -ENOENT)
            crew_fail("seed %llu: error %d", (unsigned long long)seed, error);
        if (life_error)
            crew_fail("seed %llu: the work: error %d", (unsigned long long)seed, life_error);
        if (o.mended + o.lost + o.saved)
            crew_fail("seed %llu: found in a sound store: kind %u part %u at %llu",
                      (unsigned long long)seed, scrub.kind, scrub.part,
                      (unsigned long long)scrub.at);
        crew_add(ROUNDS, 1);
        life_end();
        seed += 1000;
    }
    between = NULL;
}

/* Aim: commits, home writes and checkpoints between any two calls are no rot. */
static void nothing_is_found_where_nothing_is_wrong(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(48), calm_job));
    printf("# %llu rounds\n", (unsigned long long)crew_sum(ROUNDS));
}

/* A block that recovery needs, or would if its copy were lost. */
static uint64_t copy_choose(uint64_t *random)
{
    const struct superblock *super = &world.store->super;
    uint32_t area = (uint32_t)random_below(random, 2), pages = super->checkpoints[area].pages;
    switch (random_below(random, 5)) {
    case 0: return slot_offset(super, 0);
    case 1: return slot_offset(super, 1);
    case 2: return SIGNPOST_OFFSET;
    case 3: return super->area_start[area];
    default:
        return pages ? area_page_offset(super, area, (uint32_t)random_below(random, pages)) : 0;
    }
}

static const struct enumerate_options cuts = { .tear = true, .random_subsets = 2, .states_max = 400,
                                             .from_event = 1 };  /* the mark is event 0 */

/* The power is cut at each write of what the scrub does; the rotten block is in all these
 * states. */
static void mend_cut_off(uint64_t seed, uint64_t at, bool rot)
{
    struct enumerate_result result = { .states = 0 };
    struct device copy;
    struct outcome o;
    if (rot)
        life_device.image[at + random_below(&life_random, 300)] ^=
            (uint8_t)(1u << random_below(&life_random, 8));
    else
        memset(life_device.image + at, 0, BLOCK_BYTES);
    device_open(&copy, life_device.bytes);
    memcpy(copy.image, life_device.image, copy.bytes);
    device_record(&life_device, true);
    device_mark(&life_device, world.acked, world.submitted);
    int error = scrub_round(world.store, save_life, &o);
    life_device.recording = false;
    if (error || o.lost)
        crew_fail("seed %llu, block at %llu: error %d, %u lost", (unsigned long long)seed,
                  (unsigned long long)at, error, o.lost);
    enumerate(&world, life_device.events, life_device.event_count, &copy, &cuts, seed, &result);
    if (result.failed)
        crew_fail("seed %llu, block at %llu: %s %s", (unsigned long long)seed,
                  (unsigned long long)at, result.method, result.text);
    crew_add(FAULTS, 1);
    crew_add(MENDED, o.mended);
    crew_add(BY_CHECKPOINT, o.saved);
    crew_add(STATES, result.states);
    device_close(&copy);
}

static void rot_job(uint64_t seed)
{
    crew_at("life", seed);
    for (uint64_t i = 0; i < 6; i++) {
        if (life_begin(seed + i * 100000) && (!world.checkpointing || !save_life(world.store)))
            mend_cut_off(seed, copy_choose(&life_random), i & 1);
        life_end();
    }
}

/* Aim: one spoiled copy loses nothing, wherever the power is cut while it is mended. */
static void a_repair_may_be_cut_off(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(96), rot_job));
    printf("# %llu faults, %llu put back, %llu by checkpoints, %llu crash states\n",
           (unsigned long long)crew_sum(FAULTS), (unsigned long long)crew_sum(MENDED),
           (unsigned long long)crew_sum(BY_CHECKPOINT), (unsigned long long)crew_sum(STATES));
    assert_true(crew_part() || (crew_sum(MENDED) > 50 && crew_sum(STATES) > 1000));
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_copy_is_mended),
        cmocka_unit_test(unreadable_log_is_mended),
        cmocka_unit_test(rotten_log_is_let_go),
        cmocka_unit_test(a_page_comes_from_the_log_or_is_lost),
        cmocka_unit_test(a_repair_may_fail),
        cmocka_unit_test(a_repair_that_does_not_help_is_given_up),
        cmocka_unit_test(the_only_checkpoint_may_rot),
        cmocka_unit_test(the_older_area_is_left_alone),
        cmocka_unit_test(a_disk_that_goes_in_the_search_is_no_loss),
        cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
        cmocka_unit_test(a_repair_may_be_cut_off),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
