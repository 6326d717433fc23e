/*
 * test_recast.c - another layout for a container, made at the spare (user/store/recast.h).
 *
 * Aim     what the home commits while the spare converts is in what the spare has when it takes
 *         over, in the new layout; a power cut leaves all of it or nothing; what cannot be
 *         converted changes nothing.
 * Method  a home that commits whole pages, their differences and frees; its groups go to a copy,
 *         which applies and converts at random. Pages of both layouts are made here, by C
 *         structures. Each state that a power cut leaves of the take-over is opened.
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
#include "power.h"
#include "slot_made.h"
#include "store_made.h"
#include "user/sites/agent_types.c"
#include "user/store/recast.c"

/* Page 0 has root and phase, 1 the description. */
enum { PAGES = 40, EACH = 30, FIRST = 2, ROUNDS = 60 };
enum { STATES, MADE, AGAIN, NEW, OLD };

static const char old_text[] = "order little\n"
                               "type 16 struct root\n0 ptr first\n8 u64 count\n"
                               "type 8 struct phase\n0 u64 number\nname phase struct phase\n"
                               "type 48 struct account\n"
                               "0 ptr next\n8 i64 amount\n16 u64 limit\n24 char*24 owner\n";
static const char new_text[] = "order little\n"
                               "type 16 struct root\n0 u64 count\n8 ptr first\n"
                               "type 16 struct phase\n0 u64 number\n8 u64 since\n"
                               "name phase struct phase\n"
                               "type 44 struct account\n0 char*20 owner\n20 i32 amount\n"
                               "24 u32 limit\n28 ptr next\n36 u32 kind\n";
struct old_account { uint64_t next; int64_t amount; uint64_t limit; char owner[24]; };
struct __attribute__((packed)) new_account {
    char owner[20];
    int32_t amount;
    uint32_t limit;
    uint64_t next;
    uint32_t kind, rest[2];
};
_Static_assert(sizeof(struct old_account) == 48 && sizeof(struct new_account) == 48, "3 units");

static struct power sides[2];           /* 0: the home's disk; 1: the copy's */
static struct store *home;
static struct store_spare *copy;
static uint64_t box, base, random_seed;
static uint32_t value[PAGES];           /* the commit that wrote the page; 0: it is not there */
static bool large[PAGES];               /* with an amount that the new layout has no room for */

static uint64_t below(uint64_t limit) { return random_below(&random_seed, limit); }

/* ---- pages ---- */

static void accounts_make(uint8_t *page, uint32_t number, bool is_new)
{
    for (uint32_t i = 0; i < EACH; i++) {
        struct old_account o = {base + i, (int64_t)value[number] * 100 + i - 50, i, ""};
        if (large[number] && i == 3) o.amount = 1ll << 40;
        snprintf(o.owner, sizeof o.owner, "owner %u of %u", i, number);
        struct new_account n = {.amount = (int32_t)o.amount, .limit = i, .next = o.next};
        memcpy(n.owner, o.owner, sizeof n.owner);
        object_add(page, SLOT_UNITS - 3 * (i + 1), 3, slot_type_of("struct account"),
                   is_new ? (void *)&n : (void *)&o, 48);
    }
}

static void page_make(uint8_t *page, uint32_t number, bool is_new)
{
    struct slot_page_marked head = {.page.seal =
                                        SLOT_SEAL_MARKED ^ (uint32_t)(base / 4096 + number)};
    uint64_t count[2] = {is_new ? value[0] : base, is_new ? base : value[0]};
    uint64_t phase[2] = {value[0], 0};
    memset(page, 0, STORE_PAGE_BYTES);
    if (number >= FIRST && !value[number]) return;
    memcpy(page, &head, sizeof head);
    if (number >= FIRST) return accounts_make(page, number, is_new);
    if (number == 1) {
        char text[TYPES_TEXT_MAX] = "";
        strcpy(text, is_new ? new_text : old_text);
        object_add(page, 6, 250, SLOT_TYPE_NAME | slot_type_of(TYPES_NAME), text, sizeof text);
        return;
    }
    object_add(page, 255, 1, slot_type_of("struct root"), count, sizeof count);
    object_add(page, 254, 1, SLOT_TYPE_NAME | slot_type_of("phase"), phase, is_new ? 16 : 8);
}

/* ---- the home ---- */

static void op_log(struct store_group *group, struct store_op op) { store_txn_op(group, &op); }

/* A container of that layout, with no accounts in it. */
static uint64_t container_make(struct store *store, const char *name, bool is_new)
{
    struct store_layout layout = { .type = "struct root", .version = 1 + is_new, .bytes = 16 };
    struct store_op create = { .type = STORE_OP_CREATE, .name = name };
    struct store_group *group;
    uint8_t page[STORE_PAGE_BYTES];
    uint32_t position;
    require(store_group_begin(store, &group) == 0 && store_txn_begin(group, 1) == 0);
    require(store_txn_op(group, &create) == 0);
    base = create.address;
    op_log(group, (struct store_op){ .type = STORE_OP_LAYOUT, .object = create.object,
                                     .layout = &layout, .address = base + 4080 });
    op_log(group, (struct store_op){ .type = STORE_OP_NAME_SET, .object = create.object,
                                     .name = ROOT_NAME, .address = base + 4080, .bytes = 16 });
    op_log(group, (struct store_op){ .type = STORE_OP_NAME_SET, .object = create.object,
                                     .name = "phase", .address = base + 4064,
                                     .bytes = is_new ? 16 : 8 });
    op_log(group, (struct store_op){ .type = STORE_OP_NAME_SET, .object = create.object,
                                     .name = TYPES_NAME, .address = base + 4096 + 96,
                                     .bytes = TYPES_TEXT_MAX });
    for (uint32_t i = 0; i < FIRST; i++) {
        page_make(page, i, is_new);
        store_txn_page(group, create.object, i, page);
    }
    require(store_txn_end(group, &position) == 0 && store_group_seal(group) == 0);
    require(store_group_write(group) == 0 && store_group_apply(group) == 0);
    return create.object;
}

static void group_sends(const struct store_group *group)
{
    struct store_mark mark;
    store_lsn_t have;
    size_t bytes;
    const void *at = store_group_sealed_bytes(group, &bytes);
    store_mark_tell(home, &mark);
    require(store_spare_take(copy, at, bytes, &mark) == 0 && store_spare_write(copy) == 0 &&
            store_spare_taken(copy, &have) == 0);
}

static void page_log(struct store_group *group, uint32_t number, uint32_t commit)
{
    uint8_t page[STORE_PAGE_BYTES];
    if (value[number] && number >= FIRST && below(6) == 0) {
        value[number] = 0;
        return op_log(group, (struct store_op){ .type = STORE_OP_PAGE_FREE, .object = box,
                                                .page = number, .count = 1 });
    }
    value[number] = commit;
    large[number] = number >= FIRST && below(16) == 0;
    page_make(page, number, false);
    require(store_txn_page(group, box, number, page) == 0);
}

static void commits(uint32_t commit)
{
    struct store_group *group;
    uint32_t position, from = (uint32_t)below(PAGES), count = 1 + (uint32_t)below(3);
    require(store_group_begin(home, &group) == 0 && store_txn_begin(group, commit) == 0);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = (from + 7 * i) % PAGES;
        if (number != 1) page_log(group, number, commit);
    }
    require(store_txn_end(group, &position) == 0 && store_group_seal(group) == 0);
    group_sends(group);
    require(store_group_write(group) == 0 && store_group_apply(group) == 0);
}

/* Nothing is too large any more. */
static void all_small(uint32_t commit)
{
    struct store_group *group;
    uint8_t page[STORE_PAGE_BYTES];
    uint32_t position;
    require(store_group_begin(home, &group) == 0 && store_txn_begin(group, commit) == 0);
    for (uint32_t i = 0; i < PAGES; i++) {
        if (!large[i] || !value[i]) continue;
        large[i] = false;
        page_make(page, i, false);
        require(store_txn_page(group, box, i, page) == 0);
    }
    require(store_txn_end(group, &position) == 0 && store_group_seal(group) == 0);
    group_sends(group);
    require(store_group_write(group) == 0 && store_group_apply(group) == 0);
}

/* ---- a pair ---- */

static void copy_joins(void)
{
    struct disk_io io = device_io(&sides[1].device);
    struct store_open_options how = { .flags = STORE_COPIED, .image_pages = 9 };
    struct store_report report;
    struct store_spare_state state;
    struct store_epochs theirs, ours;
    struct store_feed f;
    struct store_mark mark;
    require(store_spare_open(&io, &test_memory, &how, &copy, &report) == 0);
    store_spare_tell(copy, &state, &theirs);
    require(store_feed_begin(home, &f, &theirs, state.end_lsn) == 0);
    require(store_feed_seek(home, &f, 1 << 20) == 0);
    store_epochs_tell(home, &ours);
    store_mark_tell(home, &mark);
    require(store_spare_join(copy, f.lsn, f.prev_crc, &ours, f.lsn, &mark) == 0);
    store_feed_end(home, &f);
}

static void pair_begin(uint64_t seed)
{
    uint64_t object;
    struct store_report report;
    struct store_open_options how = { .flags = STORE_COPIED };
    random_seed = seed;
    memset(value, 0, sizeof value);
    memset(large, 0, sizeof large);
    for (int i = 0; i < 2; i++) {
        memset(&sides[i], 0, sizeof sides[i]);
        device_open(&sides[i].device, 16 << 20);
    }
    struct disk_io io = device_io(&sides[0].device);
    struct store *store = store_made(&io, 4 << 20, &object);
    require(store);
    container_make(store, "like", true);
    box = container_make(store, "box", false);
    require(store_close(store) != 0);
    store_abandon(store);
    require(store_open(&io, &test_memory, &how, &home, &report) == 0);
    memcpy(sides[1].device.image, sides[0].device.image, 16 << 20);
    copy_joins();
}

static void pair_end(void)
{
    for (int i = 0; i < 2; i++) {
        device_close(&sides[i].device);
        free(sides[i].before);
    }
    if (memory_live) crew_fail("%lld bytes of memory are lost", (long long)memory_live);
}

static struct recast *begins(void)
{
    struct recast *r;
    char refused[RECAST_TYPE_BYTES];
    int error = recast_begin(store_spare_pages(copy), &test_memory, "box", "like", &r, refused);
    if (error) crew_fail("it does not begin: error %d, %s", error, refused);
    return r;
}

/* All of the container is in one layout: which? */
static bool is_new(struct store *store)
{
    uint8_t want[STORE_PAGE_BYTES], is[STORE_PAGE_BYTES];
    struct store_container c;
    struct store_name name;
    const char *why;
    require(store_check(store, &why) == 0 && store_container_get(store, box, &c) == 0);
    bool becomes = c.layout.version == 2;
    require(store_name_find(store, box, "phase", &name) == 0);
    require(name.bytes == (becomes ? 16 : 8) && c.root == base + 4080 && c.layout.bytes == 16);
    for (uint32_t i = 0; i < PAGES; i++) {
        struct store_page found;
        require(store_page_find(store, box, i, &found) == 0);
        if (found.dirty && !found.log_offset_bytes) crew_fail("page %u is only in memory", i);
        require(store_page_read(store, box, i, is) == 0);
        page_make(want, i, becomes);
        if (memcmp(want, is, sizeof is)) crew_fail("page %u is not of version %u", i, becomes + 1);
    }
    return becomes;
}

/* Each state that a power cut leaves of what was written since the spare began to take over. */
static void cuts(uint32_t committed, int result)
{
    struct device *d = &sides[1].device;
    struct store_open_options how = { .flags = STORE_COPIED };
    uint32_t count = d->event_count;
    for (uint32_t cut = 0; cut <= count; cut++)
        for (uint32_t k = 0; k < 2; k++) {
            struct store_report report;
            struct store *store;
            struct disk_io io = device_io(d);
            d->event_count = cut;
            power_off(&sides[1], &random_seed, 0);
            int error = store_open(&io, &test_memory, &how, &store, &report);
            if (error) crew_fail("cut at %u of %u: error %d", cut, count, error);
            bool becomes = is_new(store);
            crew_add(STATES, 1);
            crew_add(becomes ? NEW : OLD, 1);
            if (becomes && cut < committed) crew_fail("at %u it is new already", cut);
            if (result == 0 && cut == count) require(becomes);
            if (result) require(!becomes);
            store_abandon(store);
        }
}

/* The home dies, the copy takes over; the result of the commit. */
static int takes_over(struct recast *r)
{
    struct store *store;
    struct store_report report;
    struct recast_state state;
    store_abandon(home);
    power_on(&sides[1]);
    require(store_spare_take_over(copy, &store, &report) == 0);
    recast_tell(r, &state);
    crew_add(AGAIN, state.converted > state.pages);
    uint32_t before = sides[1].device.event_count;
    int result = recast_commit(r);
    recast_end(r);
    sides[1].device.recording = false;
    store_abandon(store);
    cuts(before, result);
    return result;
}

static void converts(uint64_t seed)
{
    struct recast *r = NULL;
    bool fits = seed % 4 != 0;
    uint32_t begin = (uint32_t)(seed % ROUNDS);
    crew_at("pair", seed);
    pair_begin(seed);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        crew_at("round", i);
        commits(i + 1);
        if (below(2)) require(store_spare_apply(copy, (uint32_t)below(4) * 8192) >= 0);
        if (i >= begin && !r) r = begins();
        if (r && below(2)) require(recast_step(r, 1 + (uint32_t)below(9)) >= 0);
    }
    if (fits) all_small(ROUNDS + 1);
    bool wrong = false;
    for (uint32_t i = 0; i < PAGES; i++) wrong |= large[i] && value[i];
    int result = takes_over(r);
    if (result != (wrong ? -EOVERFLOW : 0)) crew_fail("the commit says %d", result);
    crew_add(MADE, !wrong);
    pair_end();
}

static void a_container_has_another_layout_when_the_spare_takes_over(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(48), converts));
    printf("# %llu layouts were put in, %llu with pages made again; %llu states of power cuts: "
           "%llu new, %llu old\n", (unsigned long long)crew_sum(MADE),
           (unsigned long long)crew_sum(AGAIN), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(NEW), (unsigned long long)crew_sum(OLD));
    bool many = crew_sum(MADE) > 4 && crew_sum(NEW) > 20 && crew_sum(OLD) > 100;
    assert_true(crew_part() || (many && crew_sum(AGAIN) > 4));
}

/* Aim: no memory, at each allocation of the commit: it is refused, and all is as it was. */
static void without_memory_all_is_as_it_was(void **state)
{
    (void)state;
    struct store_report report;
    uint32_t failed = 0, at = 1;
    for (int result = -1; result; at++) {
        struct store *store;
        pair_begin(5);
        for (uint32_t i = 0; i < 9; i++) commits(i + 1);
        all_small(10);
        struct recast *r = begins();
        store_abandon(home);
        assert_int_equal(store_spare_take_over(copy, &store, &report), 0);
        memory_fired = 0;
        memory_count = 0;
        memory_fail_at = at;
        result = recast_commit(r);
        memory_fail_at = 0;
        assert_int_equal(result, memory_fired ? -ENOMEM : 0);
        failed += result != 0;
        if (result) assert_int_equal(recast_commit(r), 0);
        recast_end(r);
        store_abandon(store);
        pair_end();
    }
    printf("# %u allocations failed\n", failed);
    assert_true(failed > 10);
}

static void logs(uint32_t commit, void (*what)(struct store_group *))
{
    struct store_group *group;
    uint32_t position;
    require(store_group_begin(home, &group) == 0 && store_txn_begin(group, commit) == 0);
    if (what) what(group);
    require(store_txn_end(group, &position) == 0 && store_group_seal(group) == 0);
    group_sends(group);
    require(store_group_write(group) == 0 && store_group_apply(group) == 0);
}

static void two_pages(struct store_group *group)
{
    uint8_t page[STORE_PAGE_BYTES];
    for (uint32_t number = FIRST; number < PAGES; number += PAGES - 1 - FIRST) {
        value[number] = 1;
        page_make(page, number, false);
        store_txn_page(group, box, number, page);
    }
}

static void last_freed(struct store_group *group)
{
    value[PAGES - 1] = 0;
    op_log(group, (struct store_op){ .type = STORE_OP_PAGE_FREE, .object = box,
                                     .page = PAGES - 1, .count = 1 });
}

/* Aim: the container's last page is freed after it was converted: it does not come back. */
static void a_last_page_that_was_freed_stays_away(void **state)
{
    (void)state;
    struct store *store;
    struct store_report report;
    pair_begin(7);
    logs(1, two_pages);
    logs(2, NULL);
    assert_int_equal(store_spare_apply(copy, 0), 0);
    struct recast *r = begins();
    while (recast_step(r, 9) > 0)
        ;
    logs(3, last_freed);
    store_abandon(home);
    assert_int_equal(store_spare_take_over(copy, &store, &report), 0);
    assert_int_equal(recast_commit(r), 0);
    recast_end(r);
    assert_true(is_new(store));
    store_abandon(store);
    pair_end();
}

/* Aim: each way in which it cannot begin has its error, and is told; what is done at the home while
 * it converts, too. */
static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct recast *r;
    struct recast_state s;
    char refused[RECAST_TYPE_BYTES];
    pair_begin(3);
    struct store *store = store_spare_pages(copy);
    const struct disk_memory *m = &test_memory;
    assert_int_equal(recast_begin(store, m, "none", "like", &r, refused), -ENOENT);
    assert_int_equal(recast_begin(store, m, "box", "none", &r, refused), -ENOENT);
    assert_int_equal(recast_begin(store, m, "box", "c", &r, refused), -ENODATA);
    assert_int_equal(recast_begin(store, m, "c", "like", &r, refused), -ENODATA);
    r = begins();
    for (uint32_t i = 0; i < 8; i++) commits(i + 1);
    large[9] = true;
    value[9] = 50;
    struct store_group *group;
    uint8_t page[STORE_PAGE_BYTES];
    uint32_t position;
    assert_int_equal(store_group_begin(home, &group), 0);
    store_txn_begin(group, 9);
    page_make(page, 9, false);
    store_txn_page(group, box, 9, page);
    assert_int_equal(store_txn_end(group, &position) ?: store_group_seal(group), 0);
    group_sends(group);
    assert_int_equal(store_group_write(group) ?: store_group_apply(group), 0);
    commits(10);                        /* the home says that it has the one before */
    assert_int_equal(store_spare_apply(copy, 0), 0);
    while (recast_step(r, 3) > 0)
        ;
    recast_tell(r, &s);
    assert_true(s.all && s.wrong >= 1 && s.wrong_error == -EOVERFLOW && s.pages > 3);
    assert_int_equal(s.wrong_type, slot_type_of("struct account"));
    assert_int_equal(store_group_begin(home, &group), 0);
    store_txn_begin(group, 11);
    op_log(group, (struct store_op){ .type = STORE_OP_DELETE, .object = box });
    assert_int_equal(store_txn_end(group, &position) ?: store_group_seal(group), 0);
    group_sends(group);
    assert_int_equal(store_group_write(group) ?: store_group_apply(group), 0);
    assert_int_equal(store_group_begin(home, &group), 0);
    assert_int_equal(store_group_seal(group), 0);
    group_sends(group);
    assert_int_equal(store_group_write(group) ?: store_group_apply(group), 0);
    assert_int_equal(store_spare_apply(copy, 0), 0);
    assert_int_equal(recast_step(r, 3), -ENOENT);
    recast_end(r);
    store_spare_abandon(copy);
    store_abandon(home);
    pair_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_last_page_that_was_freed_stays_away),
        cmocka_unit_test(without_memory_all_is_as_it_was),
        cmocka_unit_test(a_container_has_another_layout_when_the_spare_takes_over),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
