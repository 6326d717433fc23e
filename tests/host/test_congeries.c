/*
 * test_congeries.c - congeries against a double of kernel and store manager (fake_store.h).
 *
 * Method: random work on four congeries of different knobs beside a model that lies in the root, so
 * that whatever undoes the one undoes the other. The "kernel" aborts at random page faults, in the
 * middle of the library's own stores; after each transaction each object has its contents and its
 * congeries, each list has each page once, and what is counted is what the model says. Then the
 * same with a store that is full at each of many points. CONGERIES_SEED=N repeats a run.
 */
#include "congeries.h"
#include "fake_store.h"
#include "pstore_private.h"
#include "tests/structures/congeries_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ps_container *container;

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

static uint32_t first_seed(void)
{
    return getenv("CONGERIES_SEED") ? (uint32_t)atoi(getenv("CONGERIES_SEED")) : 1;
}

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    regions_wrong = NULL;
    container = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct regions, 1));
    return container ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fake_look(0);
    return ps_close(container);
}

static int begin(void *unused)
{
    (void)unused;
    return regions_begin(container, first_seed());
}

/* AR1 and AR2: each page that names a congeries is in its list once. */
static void list_compare(const ps_congeries *g)
{
    uint64_t tail, headers = 0, used[4096];
    unsigned count = fake_used_pages(used, 4096);
    for (uint64_t page = 0; (page = arena_page_after(container, g, page, &tail)) > 1;)
        headers++;
    for (unsigned i = 0; i < count && i < 4096; i++) {
        const struct slot_page *page = (const struct slot_page *)(uintptr_t)used[i];
        if (slot_is_page(page) && slot_arena(page) == (uintptr_t)g) {
            MUST(slot_check(page) == 0);
            headers--;
        }
    }
    MUST(headers == 0);
}

static int compare(void *unused)
{
    const struct regions *root = ps_root(container);
    (void)unused;
    regions_compare(container);
    for (uint8_t i = 0; i < REGIONS; i++)
        list_compare(root->region[i]);
    return 0;
}

static int work(void *count)
{
    return regions_work(container, *(int *)count);
}

static int work_undone(void *count)
{
    int error = work(count);
    return error ? error : 77;
}

static void all_right(void)
{
    if (regions_wrong)
        fail_msg("%s", regions_wrong);
}

static void equal(const char *when)
{
    if (!regions_wrong)
        assert_int_equal(ps_transaction(compare, NULL), 0);
    if (regions_wrong)
        fail_msg("%s: %s; CONGERIES_SEED=%u repeats it", when, regions_wrong, first_seed());
    assert_int_equal(fake_counts.wrong_pages, 0);
}

static void random_work_equals_a_model(void **state)
{
    const char *tier = getenv("TEST_TIER");
    int rounds = tier && strcmp(tier, "long") == 0 ? 2000 : 400;
    uint32_t seed = first_seed() + 99;
    (void)state;
    assert_int_equal(ps_transaction(begin, NULL), 0);
    for (int i = 0; i < rounds; i++) {
        int some = 1 + (int)draw(&seed, 40);
        if (draw(&seed, 3) == 0)
            fake_abort_at_fault(1 + draw(&seed, 60), EDEADLK);
        if (draw(&seed, 4) == 0)
            assert_int_equal(ps_transaction(work_undone, &some), 77);
        else
            assert_int_equal(ps_transaction(work, &some), 0);
        fake_abort_at_fault(0, 0);
        equal(i % 4 ? "after a commit or an abort" : "after a round");
    }
}

/* The store has room for n pages more when the work begins, for many n. */
static void a_full_store_undoes_and_harms_nothing(void **state)
{
    unsigned full = 0;
    (void)state;
    assert_int_equal(ps_transaction(begin, NULL), 0);
    for (unsigned n = 0; n < 200; n++) {
        int some = 60;
        fake_space_left(n % 40);
        int error = ps_transaction(work, &some);
        assert_true(error == 0 || error == -ENOSPC);
        full += error != 0;
        equal("after the store was full");
        fake_space_left(2000);
        some = 10;
        assert_int_equal(ps_transaction(work, &some), 0);
        equal("with room again");
    }
    assert_in_range(full, 20, 200);
}

/* ---- blocks ---- */

static ps_congeries *blocks;
static void *last;

static int fill_blocks(void *objects)
{
    if (!blocks)
        blocks = ps_congeries_make(container, "blocks", &(struct ps_congeries_wish){8, 0});
    for (int i = *(int *)objects; i > 0; i--) {
        void *other = ps_alloc(container, 900, NULL);   /* takes pages of the lease, too */
        last = blocks ? ps_alloc_in(blocks, 500, i % 3 ? NULL : last, NULL) : NULL;
        if (!other || !last)
            return -errno;
    }
    return 0;
}

/* Pages of the list, by the block of 8 that they lie in: each has all 8, or none. */
static int blocks_whole(void *unused)
{
    static uint8_t pages[FAKE_PAGES / 8];
    uint64_t tail;
    (void)unused;
    memset(pages, 0, sizeof pages);
    for (uint64_t page = 0; (page = arena_page_after(container, blocks, page, &tail)) > 1;)
        pages[page / KD_PAGE_BYTES / 8 % (FAKE_PAGES / 8)]++;
    for (size_t i = 0; i < sizeof pages; i++)
        MUST(pages[i] == 0 || pages[i] == 8);
    return 0;
}

static int count_blocks(void *info)
{
    return ps_congeries_count(blocks, info);
}

static int grow_blocks(void *unused)
{
    (void)unused;
    return ps_congeries_grow(blocks, 3);
}

static int release_blocks(void *pages)
{
    *(int64_t *)pages = ps_congeries_release(blocks);
    return 0;
}

static void blocks_are_whole_and_aligned(void **state)
{
    struct ps_congeries_info info;
    int some = 100;
    int64_t given;
    (void)state;
    blocks = NULL;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ps_transaction(fill_blocks, &some), 0);
        assert_int_equal(ps_transaction(blocks_whole, NULL), 0);
    }
    assert_int_equal(ps_transaction(count_blocks, &info), 0);
    assert_int_equal(info.pages, 8 * info.blocks);
    assert_in_range(info.blocks, 8, 11);        /* 500 objects, 8 on a page */
    assert_int_equal(ps_transaction(grow_blocks, NULL), 0);
    assert_int_equal(ps_transaction(grow_blocks, NULL), 0);
    uint64_t before = info.blocks;
    assert_int_equal(ps_transaction(count_blocks, &info), 0);
    assert_int_equal(info.spare_blocks, 6);
    assert_int_equal(info.blocks, before + 6);
    some = 250;                                 /* goes to the spare ones */
    assert_int_equal(ps_transaction(fill_blocks, &some), 0);
    assert_int_equal(ps_transaction(count_blocks, &info), 0);
    assert_int_equal(info.blocks, before + 6);
    assert_in_range(info.spare_blocks, 1, 3);
    assert_int_equal(ps_transaction(release_blocks, &given), 0);
    assert_in_range(given, 8 * info.spare_blocks, 8 * info.spare_blocks + 16);
    assert_int_equal(ps_transaction(count_blocks, &info), 0);
    assert_int_equal(info.spare_blocks, 0);
    assert_int_equal(ps_transaction(blocks_whole, NULL), 0);
    all_right();
}

/* ---- more at once than a view has places for ---- */

enum { MANY = 600 };

static int many_fill(void *unused)
{
    static ps_congeries *many[MANY];
    struct ps_congeries_wish wish = {.block_pages = 1};
    uint32_t seed = 3;
    (void)unused;
    for (int i = 0; i < MANY; i++)
        if (!(many[i] = ps_congeries_make(container, NULL, &wish)))
            return -errno;
    for (int i = 0; i < 10 * MANY; i++)
        if (!ps_alloc_in(many[draw(&seed, MANY)], 200, NULL, NULL))
            return -errno;
    return 0;
}

static void many_at_once_waste_little(void **state)
{
    static uint64_t used[8192];
    (void)state;
    assert_int_equal(ps_transaction(many_fill, NULL), 0);
    assert_in_range(fake_used_pages(used, 8192), 2 * MANY, 3 * MANY);
}

/* ---- fill ---- */

static int fill_half(void *unused)
{
    ps_congeries *g = ps_congeries_make(container, "half", &(struct ps_congeries_wish){4, 50});
    unsigned char *at[12];
    (void)unused;
    for (int i = 0; i < 12; i++)
        at[i] = ps_alloc_in(g, 500, NULL, NULL);
    for (int i = 0; i < 12; i++) {              /* 3 or 4 on each page, and room for those near */
        unsigned char *near = ps_alloc_in(g, 300, at[i], NULL);
        MUST(near && PAGE_OF(near) == PAGE_OF(at[i]));
    }
    return 0;
}

static void half_full_pages_have_room_for_what_is_near(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(fill_half, NULL), 0);
    all_right();
}

/* ---- collect over pointers ---- */

struct link { struct link *next; char large[9000]; };

/* Two chains, one of them with large objects; a pointer into the middle counts. */
static int chains(void *unused)
{
    ps_congeries *g = ps_congeries_make(container, NULL, NULL);
    struct link **root = ps_alloc(container, sizeof *root, NULL);
    struct link *first = NULL;
    (void)unused;
    for (int i = 0; i < 6; i++) {
        struct link *l = ps_alloc_in(g, i % 2 ? sizeof *l : 40, first, NULL);
        l->next = first;
        first = l;
    }
    char *inside = ps_alloc_in(g, 20000, NULL, NULL);
    void *kept = ps_alloc_in(g, 16, NULL, NULL);
    memcpy(inside + 19001, &kept, sizeof kept);         /* at an odd place, on its last page */
    MUST(ps_congeries_collect(g, (void *[]){first, inside}, 2) == 0);
    MUST(ps_congeries_collect(g, (void *[]){(char *)first + 8}, 1) == -EINVAL);
    *root = (struct link *)(void *)(inside + 12345);
    MUST(ps_congeries_collect(g, (void *[]){root, first}, 2) == 0);
    MUST(ps_congeries_collect(g, (void *[]){first->next, root}, 2) == 1);
    MUST(ps_congeries_collect(g, (void *[]){root}, 1) == 5);
    MUST(ps_congeries_collect(g, NULL, 0) == 0);        /* the root object leads there */
    *root = NULL;
    MUST(ps_congeries_collect(g, NULL, 0) == 2);
    struct ps_congeries_info info;
    MUST(ps_congeries_count(g, &info) == 0 && info.objects == 0);
    MUST(ps_congeries_release(g) > 0);
    return 0;
}

static void collection_follows_pointers(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(chains, NULL), 0);
    all_right();
}

/* A wild store has made a page its own successor. */
static int list_comes_back(void *unused)
{
    (void)unused;
    ps_congeries *g = ps_congeries_make(container, "round", NULL);
    MUST(g && ps_alloc_in(g, 64, NULL, NULL));
    struct slot_page_marked *page =
        (struct slot_page_marked *)((uintptr_t)g / KD_PAGE_BYTES * KD_PAGE_BYTES);
    page->next = (uintptr_t)page;
    MUST(ps_congeries_collect(g, NULL, 0) == -EUCLEAN);
    return -ECANCELED;
}

static void a_list_that_comes_back_is_told(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(list_comes_back, NULL), -ECANCELED);
}

/* ---- names, rules, errors ---- */

static int names_and_rules(void *unused)
{
    struct ps_congeries_info info[60];
    char name[40];
    (void)unused;
    MUST(!ps_congeries_named(container, "none") && errno == ENOENT);
    for (int i = 0; i < 48; i++) {
        snprintf(name, sizeof name, "number %d", i);
        MUST(ps_congeries_make(container, name, &(struct ps_congeries_wish){1, 0}) != NULL);
        MUST(!ps_congeries_make(container, name, NULL) && errno == EEXIST);
    }
    MUST(!ps_congeries_make(container, "one more", NULL) && errno == ENOSPC);
    MUST(ps_congeries_make(container, NULL, NULL) != NULL);
    MUST(ps_congeries_list(container, info, 60) == 48 && !strcmp(info[47].name, "number 47"));
    MUST(ps_arena_free(ps_congeries_named(container, "number 3")) == 0);
    MUST(!ps_congeries_named(container, "number 3") && errno == ENOENT);
    MUST(ps_congeries_list(container, info, 60) == 47);
    MUST(!ps_congeries_make(container, "", NULL) && errno == EINVAL);
    memset(name, 'x', sizeof name);
    MUST(!ps_congeries_make(container, name, NULL) && errno == ENAMETOOLONG);
    MUST(!ps_congeries_make(container, NULL, &(struct ps_congeries_wish){3, 0}) && errno == EINVAL);
    MUST(!ps_congeries_make(container, NULL, &(struct ps_congeries_wish){128, 0}) &&
         errno == EINVAL);
    MUST(!ps_congeries_make(container, NULL, &(struct ps_congeries_wish){1, 101}) &&
         errno == EINVAL);
    ps_congeries *g = ps_congeries_named(container, "number 4");
    for (int i = 0; i < 96; i++) {
        snprintf(name, sizeof name, "struct type_%d", i);
        MUST(ps_congeries_rule(container, name, g) == 0);
    }
    MUST(ps_congeries_rule(container, "struct more", g) == -ENOSPC);
    MUST(ps_arena_of(ps_alloc_as(container, 20, NULL, "struct type_7")) == g);
    MUST(ps_congeries_rule(container, "struct type_7", NULL) == 0);
    MUST(ps_arena_of(ps_alloc_as(container, 20, NULL, "struct type_7")) == NULL);
    MUST(ps_arena_of(ps_alloc_as(container, 20, NULL, "struct type_8")) == g);
    MUST(ps_arena_free(g) == 0);                /* its rules go with it */
    MUST(ps_arena_of(ps_alloc_as(container, 20, NULL, "struct type_8")) == NULL);
    g = ps_congeries_named(container, "number 6");
    for (int i = 0; i < 96; i++) {              /* ... and their places are free */
        snprintf(name, sizeof name, "struct type_%d", i);
        MUST(ps_congeries_rule(container, name, g) == 0);
    }
    MUST(ps_arena_free(g) == 0);
    void *object = ps_alloc(container, 100, NULL);
    MUST(ps_congeries_grow(object, 1) == -EINVAL && ps_congeries_lock(object, 0) == -EINVAL);
    MUST(ps_congeries_release(object) == -EINVAL && ps_congeries_count(object, info) == -EINVAL);
    MUST(ps_congeries_collect(object, NULL, 0) == -EINVAL);
    MUST(!ps_congeries_each(object, NULL, NULL) && errno == EINVAL);
    MUST(ps_congeries_rule(container, "struct t", object) == -EINVAL);
    return 0;
}

static int rules_later(void *unused)
{
    ps_congeries *g = ps_congeries_named(container, "number 5");
    (void)unused;
    MUST(g && ps_congeries_rule(container, "struct later", g) == 0);
    MUST(ps_arena_of(ps_alloc_as(container, 20, NULL, "struct later")) == g);
    return 0;
}

static void names_and_rules_are_kept(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(names_and_rules, NULL), 0);
    ps_close(container);
    container = ps_open("box", PS_WRITE, NULL);
    assert_int_equal(ps_transaction(rules_later, NULL), 0);
    all_right();
    assert_null(ps_congeries_named(container, "number 5"));
    assert_int_equal(errno, EPERM);
    assert_int_equal(ps_congeries_grow((ps_congeries *)(uintptr_t)16, 1), -EPERM);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_work_equals_a_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_store_undoes_and_harms_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_whole_and_aligned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_at_once_waste_little, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_full_pages_have_room_for_what_is_near, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(collection_follows_pointers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_that_comes_back_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_and_rules_are_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
