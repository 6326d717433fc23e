/*
 * test_kcheck.c - the independent checker and the store must agree: on crash states, and on images
 * in which something was overwritten.
 *
 * Method: a world lives under a recording device. States are made from the record: all writes up
 * to some event, some of those that no flush covers dropped or torn. Then, in every second one, a
 * few sectors are flipped, zeroed, or replaced by others. The store opens the image read-only and
 * reads every page; kcheck_image gives its own verdict.
 *
 * KCHECK_SEED=n runs one seed only.
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

#include "tools/kcheck/kcheck.h"
#include "world.h"

#define SEEDS           8u      /* test_agree has more */
#define STATES_PER_SEED 120u
#define PAGES_USED      204u    /* page numbers in use are below it */

static char findings[4000];

static void finding(void *context, enum kcheck_level level, const char *label, const char *text)
{
    size_t used = strlen(findings);
    (void)context;
    snprintf(findings + used, sizeof findings - used, "    %d %s: %s\n", (int)level, label, text);
}

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct device *device = context;
    memcpy(buffer, device->image + offset, bytes);
    return 0;
}

static void kcheck(struct device *device, struct kcheck_result *result)
{
    struct kcheck_io io = { device, device->bytes, image_read };
    struct kcheck_options how = { .report = finding };
    findings[0] = 0;
    kcheck_image(&io, &how, result);
}

/* 0 if every page can be read. */
static int pages_read(struct store *store)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    int error = 0;
    while (!error && store_container_next(store, c.object, &c) == 0)
        for (uint32_t p = 0; p < PAGES_USED && !error; p++)
            error = store_page_read(store, c.object, p, bytes);
    return error;
}

/* What the store says of the image, in the checker's words. */
static void store_verdict(struct device *device, struct kcheck_result *out)
{
    struct disk_io io = device_io(device);
    struct store_open_options options = { .flags = STORE_READ_ONLY };
    struct store_report report;
    struct store *store = NULL;
    memset(out, 0, sizeof *out);
    out->error = store_open(&io, &test_memory, &options, &store, &report);
    out->damage_lsn = report.damage_lsn;
    out->older_checkpoint = report.older_checkpoint;
    out->torn_tail = report.torn_tail;
    out->groups = report.groups;
    out->end_lsn = report.end_lsn;
    if (out->error)
        return;
    out->damages = report.damage_lsn || pages_read(store);
    store_abandon(store);
}

static bool agree(const struct kcheck_result *store, const struct kcheck_result *own)
{
    if (store->error != own->error)
        return false;
    if (store->error)
        return own->verdict != KCHECK_SOUND;
    return store->damage_lsn == own->damage_lsn && store->end_lsn == own->end_lsn &&
           store->groups == own->groups && store->older_checkpoint == own->older_checkpoint &&
           (store->damage_lsn || store->torn_tail == own->torn_tail) &&
           !store->damages == (own->verdict == KCHECK_SOUND);
}

static void compare(struct device *device, uint64_t seed, uint32_t state, bool changed)
{
    struct kcheck_result store, own;
    store_verdict(device, &store);
    kcheck(device, &own);
    if (agree(&store, &own) && (changed || own.verdict != KCHECK_DAMAGED))
        return;
    print_error("seed %llu state %u (%s): the store says error %d, damage at %llu, end %llu, %llu "
                "groups, older %d, torn %d, bad %llu; kcheck says error %d, damage at %llu, end "
                "%llu, %llu groups, older %d, torn %d, verdict %d\n%sagain: KCHECK_SEED=%llu "
                "build/tests/disk/test_kcheck\n", (unsigned long long)seed, state,
                changed ? "changed" : "a crash", store.error,
                (unsigned long long)store.damage_lsn, (unsigned long long)store.end_lsn,
                (unsigned long long)store.groups, store.older_checkpoint, store.torn_tail,
                (unsigned long long)store.damages, own.error,
                (unsigned long long)own.damage_lsn, (unsigned long long)own.end_lsn,
                (unsigned long long)own.groups, own.older_checkpoint, own.torn_tail,
                (int)own.verdict, findings, (unsigned long long)seed);
    fail();
}

/* ---- states */

/* A group outside of the world's model: `images` pages of a chain, which need no flush, or its
 * commit. */
static int chain_group(struct store *store, struct store_chain *chain, uint64_t object,
                       uint32_t first, uint32_t images, bool commit)
{
    struct store_group *group;
    uint8_t page[STORE_PAGE_BYTES];
    uint32_t position;
    int error = store_group_begin(store, &group);
    for (uint32_t i = 0; i < images && !error; i++) {
        memset(page, (int)(first + i), sizeof page);
        error = store_spill_page(group, chain, object, first + i, page);
    }
    if (!error && commit) {
        assert_int_equal(store_txn_begin(group, 7), 0);
        store_txn_chain(group, chain);
        error = store_txn_end(group, &position);
    }
    if (error) {
        store_group_cancel(group);
        return error;
    }
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(images ? store_group_issue(group) : store_group_write(group), 0);
    return store_group_apply(group);
}

/* Two chains beside each other, one of which commits after a checkpoint; as far as there is room.
 * False: there was none. */
static bool chains_run(struct world *world, uint64_t seed)
{
    struct store *store = world->store;
    struct store_chain *one, *other;
    struct store_container c;
    if (store_container_next(store, 0, &c))
        return false;
    assert_int_equal(store_chain_begin(store, 1, &one), 0);
    assert_int_equal(store_chain_begin(store, 2, &other), 0);
    int error = chain_group(store, one, c.object, 100, 2, false);
    if (!error && seed & 4)
        error = world_checkpoint(world);
    if (!error)
        error = chain_group(store, other, c.object, 200, 1, false);
    if (!error)
        error = chain_group(store, one, c.object, 101, 1, false);
    for (uint32_t i = 0; i < 3 && seed % 4 == 3 && !error; i++) /* where there is room */
        error = chain_group(store, other, c.object, 201 + i, 1, false);
    if (!error)
        error = chain_group(store, one, c.object, 0, 0, true);
    store_chain_end(one);
    store_chain_end(other);
    return !error;
}

static uint32_t chains_committed;

static void life_record(struct world *world, struct device *device, uint64_t seed)
{
    struct store_report report;
    struct world_options shape = {
        .log_bytes = (16 + 48 * (seed % 4)) * 1024, .extent_bytes = 4096u << seed % 5,
        .ahead = seed & 1, .checkpoint_odds = 2 + (uint32_t)seed % 7,
        .encoder = (enum store_encoder)(seed % STORE_ENCODER_COUNT),
    };
    shape.disk_bytes = shape.log_bytes + 768 * 1024;
    device_open(device, shape.disk_bytes);
    device_record(device, true);
    assert_int_equal(world_format(world, device, seed, &shape), 0);
    assert_int_equal(world_open(world, &report), 0);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(world_step(world), 0);
        if (i % 12 == 11) {
            if (seed & 2)
                assert_int_equal(world_close(world), 0);
            else
                world_abandon(world);
            assert_int_equal(world_open(world, &report), 0);
        }
    }
    chains_committed += chains_run(world, seed);
    world_abandon(world);
    device->recording = false;
}

/* Is this write covered by a flush that completed before event `at`? */
static bool covered(const struct device *device, uint32_t write, uint32_t at)
{
    uint32_t complete = at;
    for (uint32_t i = write; i < at && complete == at; i++)
        if (device->events[i].kind == WRITE_COMPLETE && device->events[i].write == write)
            complete = i;
    for (uint32_t i = complete; i < at; i++)
        if (device->events[i].kind == FLUSH_COMPLETE && device->events[i].write > complete)
            return true;
    return false;
}

static void state_make(const struct device *device, struct device *state, uint32_t at,
                       uint64_t *random)
{
    memset(state->image, 0, state->bytes);
    for (uint32_t i = 0; i < at; i++) {
        const struct event *event = &device->events[i];
        if (event->kind != WRITE_ISSUE)
            continue;
        size_t bytes = event->bytes;
        if (at - i < 200 && !covered(device, i, at)) {
            uint64_t fate = random_below(random, 4);
            bytes = fate == 0 ? 0 : fate == 1 ? random_below(random, bytes / SECTOR_BYTES) *
                                                SECTOR_BYTES : bytes;
        }
        memcpy(state->image + event->offset, event->data, bytes);
    }
}

static void sectors_spoil(struct device *state, uint64_t *random)
{
    for (uint64_t n = 1 + random_below(random, 3); n; n--) {
        uint64_t sectors = state->bytes / SECTOR_BYTES, kind = random_below(random, 4);
        /* half of them in the first blocks of the log, areas and superblock */
        uint64_t at = random_below(random, random_below(random, 2) ? sectors : sectors / 4);
        uint8_t *sector = state->image + at * SECTOR_BYTES;
        if (kind == 0)
            memset(sector, 0, SECTOR_BYTES);
        else if (kind == 1)
            memcpy(sector, state->image + random_below(random, sectors) * SECTOR_BYTES,
                   SECTOR_BYTES);
        else
            sector[random_below(random, SECTOR_BYTES)] ^= (uint8_t)(1u << random_below(random, 8));
    }
}

static uint32_t seed_run(uint64_t seed)
{
    static struct world world;
    struct device device, state;
    uint64_t random = seed * 77 + 5;
    uint32_t damaged = 0;
    life_record(&world, &device, seed);
    device_open(&state, device.bytes);
    for (uint32_t i = 0; i < STATES_PER_SEED; i++) {
        struct kcheck_result own;
        /* every third near the end, where the chains are */
        uint64_t back = random_below(&random, i % 3 ? device.event_count + 1 : 24);
        state_make(&device, &state, device.event_count - (uint32_t)back, &random);
        compare(&state, seed, i, false);
        sectors_spoil(&state, &random);
        compare(&state, seed, i, true);
        kcheck(&state, &own);
        damaged += own.verdict == KCHECK_DAMAGED;
        memset(state.image, (int)(i % 2), STORE_PAGE_BYTES);    /* the signpost is left */
        memset(state.image + state.bytes / 2 / STORE_PAGE_BYTES * STORE_PAGE_BYTES, 0,
               STORE_PAGE_BYTES);
        compare(&state, seed, i, true);
    }
    device_close(&state);
    device_close(&device);
    return damaged;
}

static void kcheck_and_the_store_agree_on_crash_states_and_spoiled_ones(void **state)
{
    const char *one = getenv("KCHECK_SEED");
    uint32_t damaged = 0;
    (void)state;
    if (one) {
        seed_run(strtoull(one, NULL, 0));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        damaged += seed_run(seed);
    assert_true(damaged > SEEDS * STATES_PER_SEED / 10);        /* else nothing was compared */
    assert_true(chains_committed > SEEDS / 4);
    assert_int_equal(memory_live, 0);
}

/* ---- each finding once: a control for the checker */

static void kcheck_crc_gives_the_published_value(void **state)
{
    (void)state;
    assert_int_equal(kcheck_crc(0, "123456789", 9), 0xe3069283);
    assert_int_equal(kcheck_crc(kcheck_crc(0, "12345", 5), "6789", 4), 0xe3069283);
}

static void kcheck_tells_what_is_no_store(void **state)
{
    struct device device;
    struct kcheck_result result;
    (void)state;
    device_open(&device, 1 << 20);
    kcheck(&device, &result);
    assert_int_equal(result.verdict, KCHECK_NO_STORE);
    assert_int_equal(result.error, -ENODATA);
    memset(device.image, 'x', 8192);
    kcheck(&device, &result);
    assert_int_equal(result.error, -EMEDIUMTYPE);
    device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kcheck_crc_gives_the_published_value),
        cmocka_unit_test(kcheck_tells_what_is_no_store),
        cmocka_unit_test(kcheck_and_the_store_agree_on_crash_states_and_spoiled_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
