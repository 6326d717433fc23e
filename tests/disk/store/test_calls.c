/*
 * test_calls.c - calls in any order, with any arguments: each is carried out or refused.
 *
 * Method: seeded sequences of calls on a small store, most of them in a sensible order and some in
 * none: groups begun twice, sealed while a transaction is open, applied before they are written,
 * operations on containers that do not exist or on names that are taken, in the same group or
 * across two. After each applied group the store's own check must hold; from time to time the power
 * is cut, and what recovery builds must be what the running store had.
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
#include "device.h"
#include "shape.h"

#define CALLS 700u
#define OBJECTS 6u
#define PAGES 20u

enum tally { DONE, REFUSED, RECOVERED };

static struct device device;
static struct store *store;
static struct store_group *groups[2];
static uint64_t random_state;

static uint64_t pick(uint64_t limit)
{
    return random_below(&random_state, limit);
}

/* Every answer that a call may give; anything else is a bug. */
static int answer(int error)
{
    static const int known[] = { 0, -EINVAL, -EBUSY, -ENOENT, -EEXIST, -ENOSPC, -EAGAIN, -E2BIG,
                                 -ENOBUFS, -ESTALE };
    crew_add(error ? REFUSED : DONE, 1);
    for (uint32_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (error == known[i])
            return error;
    crew_fail("an answer of %d", error);
}

static uint64_t object_any(void)
{
    struct store_container c = { .object = 0 };
    if (!pick(16))
        return pick(3) ? pick(3) : UINT64_MAX;
    if (!pick(4))                       /* the newest, perhaps of this very group */
        return store->plan_next_object - 1;
    for (uint64_t i = pick(OBJECTS) + 1; i && store_container_next(store, c.object, &c) == 0; i--)
        ;
    return c.object;
}

static uint64_t page_any(void)
{
    return pick(30) ? pick(PAGES) : pick(2) ? 262143 + pick(3) : UINT64_MAX - pick(2);
}

/* ---- inside a transaction */

static void call_page(struct store_group *group)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    memset(bytes, (int)pick(256), sizeof bytes);
    answer(store_txn_page(group, object_any(), page_any(), bytes));
}

static void call_diff(struct store_group *group)
{
    static const uint8_t data[0x50000];
    uint64_t object = object_any(), page = page_any();
    struct store_page found = { .present = false };
    struct diff_run runs[5];
    uint32_t count = (uint32_t)pick(5), at = 0;
    for (uint32_t i = 0; i < count; i++) {
        runs[i].offset = (uint16_t)(at + pick(200));
        runs[i].length = (uint16_t)(pick(20) ? 1 + pick(200) : pick(60000));
        at = runs[i].offset + runs[i].length;
    }
    if (store_page_find(store, object, page, &found))
        found.lsn = 0;
    if (pick(8)) {
        answer(txn_diff(group, object, page, pick(10) ? found.lsn : 1, runs, count, data));
        return;
    }
    void *space;                        /* the direct form, also done wrong */
    if (pick(4) && answer(store_txn_diff_space(group, (uint32_t)pick(9000), &space)) == 0)
        memset(space, 0, 4);
    answer(store_txn_diff_done(group, object, page, 0, (uint32_t)pick(3) * 4));
}

static void call_op(struct store_group *group)
{
    static const char *names[] = { "a", "b", "c", "d", "e", "" , NULL, "f" };
    struct store_layout layout = { .type = "t", .version = 1 };
    if (!pick(8))
        layout.type[0] = 0;
    if (!pick(12))
        memset(layout.type, 'x', sizeof layout.type);
    struct store_op op = {
        .type = (enum store_op_type)(pick(18)), .flags = (uint32_t)pick(9),
        .object = object_any(), .page = page_any(), .count = pick(9) ? 1 + pick(6) : page_any(),
        .address = pick(1000) << 12, .bytes = pick(100), .name = names[pick(8)],
        .layout = pick(6) ? &layout : NULL, .encoder = (enum store_encoder)pick(6),
        .locking = (enum store_locking)pick(3),
    };
    answer(store_txn_op(group, &op));
}

static void call_in_group(struct store_group *group)
{
    uint32_t position;
    switch (pick(16)) {
    case 0: case 1:          answer(store_txn_begin(group, pick(100))); break;
    case 2: case 3: case 4:  call_page(group); break;
    case 5: case 6:          call_diff(group); break;
    case 7: case 8: case 9:
    case 10: case 11:        call_op(group); break;
    case 12: case 13:        answer(store_txn_end(group, &position)); break;
    case 14:                 if (!pick(3)) store_txn_cancel(group); break;
    default:                 if (!pick(8)) store_group_cancel(group);
    }
}

/* ---- groups, homes, checkpoints */

static void check(void)
{
    const char *why = "";
    if (store_check(store, &why))
        crew_fail("the store's own check: %s", why);
}

static void call_group(void)
{
    struct store_group *group = groups[pick(2)];
    switch (pick(6)) {
    case 0: case 1: {
        struct store_group *begun;
        if (answer(store_group_begin(store, &begun)) == 0)
            groups[begun == &store->groups[1]] = begun;
        break;
    }
    case 2: answer(store_group_seal(group)); break;
    case 3: if (!pick(3)) answer(store_group_issue(group)); break;
    case 4: answer(store_group_write(group)); break;
    default:
        if (answer(store_group_apply(group)) == 0)
            check();
    }
}

static void home(uint64_t object, uint64_t page, uint64_t lsn)
{
    static const uint8_t zeros[STORE_PAGE_BYTES];
    struct disk_io io = device_io(&device);
    uint64_t offset;
    if (answer(store_page_home(store, object, page, &offset)))
        return;
    require(io.write(io.context, offset, zeros, sizeof zeros) == 0);
    answer(store_page_cleaned(store, object, page, lsn, crc32c(0, zeros, sizeof zeros)));
}

static void call_checkpoint(void)
{
    uint64_t object, page, lsn, cursor = 0;
    switch (pick(8)) {
    case 0: answer(store_checkpoint_begin(store)); break;
    case 1: answer(store_checkpoint_seal(store)); break;
    case 2: answer(store_checkpoint_write(store)); break;
    case 3: answer(store_checkpoint_apply(store)); break;
    case 4: home(object_any(), page_any(), pick(2)); break;
    case 5:
        if (answer(store_dirty_next(store, &cursor, &object, &page, &lsn)) == 0)
            home(object, page, lsn);
        break;
    default:
        while (answer(store_checkpoint_next(store, &object, &page, &lsn)) == 0)
            home(object, page, lsn);
    }
    require(store_should_checkpoint(store) <= 2);
}

/* ---- power cuts */

static uint64_t digest(void)
{
    struct store_container c = { .object = 0 };
    uint64_t sum = 0;
    while (store_container_next(store, c.object, &c) == 0) {
        struct store_name name;
        uint32_t cursor = 0;
        sum = crc32c((uint32_t)sum, &c, sizeof c);
        while (memset(&name, 0, sizeof name), store_name_next(store, c.object, &cursor, &name) == 0)
            sum += crc32c(1, &name, sizeof name);
        for (uint64_t p = 0; p < PAGES; p++) {
            struct store_page found;
            require(store_page_find(store, c.object, p, &found) == 0);
            sum += found.lsn * (p + 1);
        }
    }
    return sum;
}

static void reopen(bool close)
{
    struct disk_io io = device_io(&device);
    struct store_open_options options = { .group_bytes = pick(5) * 4096 };
    struct store_report report;
    for (int i = 0; i < 4; i++) {       /* what was begun comes to its end */
        struct store_group *group = &store->groups[i % 2];
        store_group_cancel(group);
        int ignored = store_group_write(group);
        ignored = store_group_apply(group);
        (void)ignored;
    }
    check();
    uint64_t before = digest();
    if (!close || answer(store_close(store)) == -EBUSY)
        store_abandon(store);
    int error = store_open(&io, &test_memory, &options, &store, &report);
    if (error)
        crew_fail("open after %s: %d, %s", close ? "close" : "a cut", error, report.message);
    groups[0] = &store->groups[0];
    groups[1] = &store->groups[1];
    check();
    require(digest() == before);
    crew_add(RECOVERED, 1);
}

/* The next call that makes sense; true if there was one. */
static bool sensible(void)
{
    uint32_t position;
    for (int i = 0; i < 2; i++) {
        struct store_group *group = &store->groups[i];
        if (group->state == GROUP_OPEN && !group->in_txn) {
            answer(pick(3) ? store_txn_begin(group, 1) : store_group_seal(group));
            return true;
        }
        if (group->state == GROUP_OPEN) {
            uint64_t what = pick(10);
            if (what < 3)
                answer(store_txn_end(group, &position));
            else
                what < 6 ? call_page(group) : what < 8 ? call_op(group) : call_diff(group);
            return true;
        }
    }
    struct store_group *group = &store->groups[store->next_apply], *begun;
    if (group->state == GROUP_SEALED && pick(2))
        return answer(store_group_write(group)), true;
    if (group->state == GROUP_DURABLE && pick(2)) {
        require(answer(store_group_apply(group)) == 0);
        return check(), true;
    }
    if (store->checkpoint.running && pick(2))
        return call_checkpoint(), true;
    if (store_should_checkpoint(store) && pick(3))
        return answer(store_checkpoint_begin(store)), true;
    return answer(store_group_begin(store, &begun)) == 0;
}

static void calls(uint64_t seed)
{
    struct world_options shape = shape_of(seed);
    struct store_options format = { .uuid = { (uint8_t)seed, 3 }, .log_bytes = shape.log_bytes,
                                    .extent_bytes = shape.extent_bytes };
    struct store_report report;
    random_state = seed;
    device_open(&device, shape.disk_bytes);
    struct disk_io io = device_io(&device);
    require(store_format(&io, &test_memory, &format) == 0);
    require(store_open(&io, &test_memory, NULL, &store, &report) == 0);
    groups[0] = &store->groups[0];
    groups[1] = &store->groups[1];
    for (uint32_t i = 0; i < CALLS; i++) {
        crew_at("call", i);
        uint64_t what = pick(100);
        if (seed % 8 && pick(100) < 90 && sensible())
            continue;
        if (what < 60)
            call_in_group(groups[store->groups[1].state == GROUP_OPEN ? pick(8) != 0 : !pick(8)]);
        else if (what < 85)
            call_group();
        else if (what < 96)
            call_checkpoint();
        else
            reopen(pick(2));
    }
    store_abandon(store);
    device_close(&device);
    require(memory_live == 0);
}

static void calls_in_any_order_are_carried_out_or_refused(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(1000), calls));
    printf("# %llu calls carried out, %llu refused; %llu times opened again, each time as it was\n",
           (unsigned long long)crew_sum(DONE), (unsigned long long)crew_sum(REFUSED),
           (unsigned long long)crew_sum(RECOVERED));
    assert_true(crew_part() || (crew_sum(DONE) && crew_sum(REFUSED) && crew_sum(RECOVERED)));
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_any_order_are_carried_out_or_refused),
    };
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
