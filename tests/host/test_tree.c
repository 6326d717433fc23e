/*
 * test_tree.c - the B+-tree (libpstore/structures) on volatile memory, against a sorted array.
 *
 * Method: each round draws an operation, does it to the tree and to the array, and compares the
 * results; ps_tree_check() walks every invariant. All nodes lie in one arena, so that an abort is a
 * copy of the arena from before the transaction. The n-th allocation fails for each n. A failure
 * prints the seed: TREE_SEED=N repeats it.
 */
#include "structures/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct number { uint32_t n; };
struct record { uint64_t id; uint32_t twice; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
static int backwards(const struct number *a, const struct number *b)
{
    return by_number(b, a);
}
PS_TREE_OF(small, struct number, struct record, by_number, 256);
PS_TREE_OF(large, struct number, struct record, by_number, PS_NODE_BYTES);
PS_STRING_TREE_OF(word, struct record, 512);
PS_STRING_TREE(wide, struct record);

/* ---- the arena: nodes, and which are free ---- */

enum { ARENA_NODES = 2400, RECORDS_MAX = 6000 };
static struct {
    struct ps_tree head;
    unsigned used, free_count, fail_in, calls;      /* fail_in: this one fails; 0: none */
    uint16_t free[ARENA_NODES];
    _Alignas(16) uint8_t nodes[1 << 20];
} arena, before;

static void *arena_take(void *arg, size_t bytes, const void *near)
{
    (void)near;
    arena.calls++;
    if (arena.fail_in && --arena.fail_in == 0) {
        arena.fail_in = 0;
        errno = ENOSPC;
        return NULL;
    }
    unsigned i = arena.free_count ? arena.free[--arena.free_count] : arena.used++;
    assert_true((i + 1) * bytes <= sizeof arena.nodes && i < ARENA_NODES && arg == &arena);
    return memset(arena.nodes + i * bytes, 0, bytes);
}

static void arena_give(void *arg, void *p)
{
    size_t bytes = arena.head.head.node_bytes, i = (size_t)((uint8_t *)p - arena.nodes) / bytes;
    assert_true(arg == &arena && arena.nodes + i * bytes == p);
    memset(p, 0xa5, bytes);
    arena.free[arena.free_count++] = (uint16_t)i;
}

static const struct ps_memory memory = {.take = arena_take, .give = arena_give, .arg = &arena};

/* ---- the model ---- */

struct entry { _Alignas(16) char key[64]; uint64_t id; };
static struct model { unsigned count; struct entry entries[RECORDS_MAX]; } model, model_before;
static const struct ps_type *type;
static struct ps_instance instance;
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static int model_order(const char *a, const char *b)
{
    int (*compare)(const void *, const void *) =
        instance.compare ? instance.compare : type->compare;
    int c = compare ? compare(a, b) : strcmp(a, b);
    return instance.flags & PS_DESCENDING ? -c : c;
}

static unsigned model_search(const char *key, int upper)
{
    unsigned low = 0, high = model.count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int c = model_order(key, model.entries[middle].key);
        if (c > 0 || (upper && c == 0)) low = middle + 1; else high = middle;
    }
    return low;
}

static void model_insert(unsigned i, const char *key, uint64_t id)
{
    memmove(&model.entries[i + 1], &model.entries[i],
            (model.count++ - i) * sizeof model.entries[0]);
    memcpy(model.entries[i].key, key, sizeof model.entries[i].key);
    model.entries[i].id = id;
}

static void model_remove(unsigned i)
{
    memmove(&model.entries[i], &model.entries[i + 1],
            (--model.count - i) * sizeof model.entries[0]);
}

/* Words with long prefixes in common, and short ones. */
static void key_draw(char *key)
{
    static const char *stems[] = {"", "a", "inter", "international", "internationalisation", "zz"};
    memset(key, 0, 64);
    uint32_t n = draw(3000);
    if (type->key_bytes)
        memcpy(key, &n, sizeof n);
    else
        snprintf(key, 32, "%s%x", stems[n % 6], n * 2654435761u % (n % 3 ? 500 : 100000));
}

static struct ps_tree_access access_open(void)
{
    struct ps_tree_access a;
    ps_access_open(&a.base, &instance, type, PS_CHANGE);
    assert_int_equal(a.base.error, 0);
    return a;
}

static void sound(void)
{
    struct ps_tree_access a = access_open();
    struct ps_tree_stats stats;
    const char *why;
    if (ps_tree_check(&a, &stats, &why) != 0)
        fail_msg("%s: %s", type->name, why);
    assert_int_equal(stats.records, model.count);
    assert_int_equal(stats.leaves + stats.branches + stats.spare, arena.used - arena.free_count);
}

/* ---- operations ---- */

static int insert(struct ps_tree_access *a, int replace)
{
    _Alignas(16) char key[64];
    static uint64_t id;
    key_draw(key);
    struct record record = {++id, (uint32_t)(id * 2)};
    unsigned i = model_search(key, 1), first = model_search(key, 0);
    int there = first < i, result = ps_tree_insert(a, key, &record, replace);
    if (result == -ENOSPC)
        return result;
    assert_int_equal(result, there && !replace && !(instance.flags & PS_DUPLICATES) ? -EEXIST : 0);
    if (result == 0 && there && replace)
        model.entries[first].id = id;
    else if (result == 0)
        model_insert(i, key, id);
    return result;
}

static void take_away(struct ps_tree_access *a)
{
    _Alignas(16) char key[64];
    key_draw(key);
    if (draw(3) && model.count)
        memcpy(key, model.entries[draw(model.count)].key, sizeof key);
    unsigned i = model_search(key, 0);
    int there = i < model.count && model_order(key, model.entries[i].key) == 0;
    assert_int_equal(ps_tree_remove(a, key), there ? 0 : -ENOENT);
    if (there)
        model_remove(i);
}

static void look_up(struct ps_tree_access *a)
{
    _Alignas(16) char key[64];
    key_draw(key);
    unsigned i = model_search(key, 0);
    int there = i < model.count && model_order(key, model.entries[i].key) == 0;
    struct record *record = ps_tree_find(a, key, PS_LOOK);
    assert_true((record != NULL) == there);
    if (there)
        assert_true(record->id == model.entries[i].id &&
                    record->twice == (uint32_t)(record->id * 2));
}

static int odd(const void *key, const void *record, void *arg)
{
    (void)key;
    return (((const struct record *)record)->id & 1) == *(const unsigned *)arg;
}

/* A range, in either direction, filtered now and then; some of what comes is dropped on the way. */
static void go_through(int drop)
{
    _Alignas(16) char from[64], to[64];
    struct ps_tree_range r;
    unsigned want = draw(2), all = draw(2), how = draw(2) ? PS_DOWN : PS_UP,
             below = draw(2) ? PS_BELOW : 0;
    key_draw(from);
    key_draw(to);
    int low_end = draw(8) == 0, high_end = draw(8) == 0;
    ps_access_open(&r.access.base, &instance, type, PS_CHANGE);
    ps_tree_range(&r, low_end ? NULL : from, high_end ? NULL : to, (int)(how | below));
    if (!all) {
        r.filter = odd;
        r.arg = &want;
    }
    unsigned begin = low_end ? 0 : model_search(from, 0),
             end = high_end ? model.count : model_search(to, !below);
    unsigned at = how == PS_UP ? begin : end;
    while (how == PS_UP ? at < end : at > begin) {
        unsigned i = how == PS_UP ? at++ : --at;
        if (!all && (model.entries[i].id & 1) != want)
            continue;
        const struct record *record = ps_tree_next(&r);
        assert_non_null(record);
        assert_int_equal(record->id, model.entries[i].id);
        assert_int_equal(model_order((const char *)r.key, model.entries[i].key), 0);
        if (drop && draw(4) == 0) {
            assert_int_equal(ps_tree_drop(&r), 0);
            assert_int_equal(ps_tree_drop(&r), -EINVAL);
            model_remove(i);
            if (how == PS_UP)
                at--, end--;
        /* another access object changes the tree: its place is kept */
        } else if (drop && draw(6) == 0) {
            struct ps_tree_access other = access_open();
            _Alignas(16) char far[64];
            key_draw(far);
            unsigned j = model_search(far, 0);
            if (j < model.count && j != i && model_order(far, model.entries[j].key) == 0 &&
                model_order(far, model.entries[i].key) != 0) {
                assert_int_equal(ps_tree_remove(&other, far), 0);
                model_remove(j);
                if (how == PS_UP) at -= j < at, end -= j < end;
                else begin -= j < begin, at -= j < at;
            }
        }
    }
    errno = 1;
    assert_null(ps_tree_next(&r));
    assert_int_equal(errno, 0);
    assert_null(ps_tree_next(&r));
}

/* A phase in which the tree mostly grows, and one in which it mostly shrinks, by turns. */
static void operation(struct ps_tree_access *a, unsigned round)
{
    unsigned growing = round / 3000 % 2 == 0, what = draw(100);
    if (what < (growing ? 55u : 25u) && model.count < RECORDS_MAX - 1)
        insert(a, draw(4) == 0 && !(instance.flags & PS_DUPLICATES));
    else if (what < 80)
        take_away(a);
    else if (what < 98)
        look_up(a);
    else
        go_through(draw(2) == 0);
}

static void begin(const struct ps_type *t, int flags, size_t initial)
{
    memset(&arena, 0, sizeof arena);
    model.count = 0;
    type = t;
    instance = (struct ps_instance){
        .head = &arena.head.head, .memory = memory, .flags = flags, .name = "random",
        .initial = initial
    };
    seed = getenv("TREE_SEED") ? (uint32_t)atoi(getenv("TREE_SEED")) : 1;
}

/* Everything but the memory before them is what was before the transaction. */
static void undo(void)
{
    memcpy(&arena, &before, sizeof arena);
    memcpy(&model, &model_before, sizeof model);
}

static void rounds(const struct ps_type *t, int flags, int compare_too, unsigned count)
{
    begin(t, flags, 2000);
    if (compare_too) {
        instance.compare = (int (*)(const void *, const void *))(void (*)(void))backwards;
        instance.compare_name = "backwards";
    }
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    for (unsigned round = 0; round < count;) {
        memcpy(&before, &arena, sizeof arena);
        memcpy(&model_before, &model, sizeof model);
        struct ps_tree_access a = access_open();
        for (unsigned n = 1 + draw(400); n-- > 0; round++)
            operation(&a, round);
        if (draw(4) == 0)
            undo();
        sound();
    }
    assert_int_equal(ps_tree_tear_down(&instance, type), 0);
    assert_int_equal(arena.used, arena.free_count);
}

static void numbers_ascending(void **s) { (void)s; rounds(&small_type_, 0, 0, 100000); }
static void numbers_descending_twice(void **s)
{
    (void)s;
    rounds(&small_type_, PS_DESCENDING | PS_DUPLICATES, 0, 100000);
}
static void numbers_in_an_order_of_the_instance(void **s)
{
    (void)s;
    rounds(&small_type_, 0, 1, 30000);
}
static void nodes_of_a_page(void **s) { (void)s; rounds(&large_type_, PS_DUPLICATES, 0, 100000); }
static void strings_with_prefixes(void **s) { (void)s; rounds(&word_type_, 0, 0, 100000); }
static void strings_descending(void **s) { (void)s; rounds(&word_type_, PS_DESCENDING, 0, 50000); }
static void strings_twice_in_nodes_of_a_page(void **s)
{
    (void)s;
    rounds(&wide_type_, PS_DUPLICATES, 0, 100000);
}

/* The n-th allocation of an insertion fails: the tree is as it was, and the next one works. */
static void no_allocation(const struct ps_type *t)
{
    begin(t, 0, 0);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    unsigned failed = 0;
    for (unsigned round = 0; round < 20000 && model.count < 2000; round++) {
        memcpy(&before, &arena, sizeof arena);
        struct ps_tree_access a = access_open();
        arena.fail_in = 1 + round % 4;
        if (insert(&a, 0) == -ENOSPC) {
            failed++;
            sound();
            assert_memory_equal(&arena.head, &before.head, sizeof arena.head);
            for (unsigned i = 0; i < model.count; i += 1 + draw(20))
                assert_non_null(ps_tree_find(&a, model.entries[i].key, PS_LOOK));
        }
        arena.fail_in = 0;
        if (round % 64 == 0)
            sound();
    }
    assert_in_range(failed, 50, 20000);
}
static void an_allocation_fails(void **s)
{
    (void)s;
    no_allocation(&small_type_);
    no_allocation(&word_type_);
}

static void set_up_fails_at_each_allocation(void **s)
{
    (void)s;
    for (unsigned n = 1; n <= 8; n++) {
        begin(&small_type_, 0, 2048);
        arena.fail_in = n;
        assert_int_equal(ps_tree_set_up(&instance, type), -ENOSPC);
        assert_int_equal(arena.used, arena.free_count);
        assert_int_equal(ps_tree_set_up(&instance, type), 0);
    }
}

/* ---- bulk load ---- */

static void load_fills(void **s)
{
    (void)s;
    for (unsigned fill = 50; fill <= 100; fill += 10) {
        begin(&large_type_, 0, 0);
        assert_int_equal(ps_tree_set_up(&instance, type), 0);
        struct ps_tree_load l;
        ps_access_open(&l.access.base, &instance, type, PS_CHANGE);
        ps_tree_load(&l, fill);
        char key[64] = {0};
        for (uint32_t n = 0; n < RECORDS_MAX; n++) {
            struct record record = {n, 2 * n};
            memcpy(key, &n, sizeof n);
            assert_int_equal(ps_tree_add(&l, key, &record), 0);
            assert_int_equal(ps_tree_add(&l, key, &record), -EINVAL);
            model_insert(n, key, n);
        }
        struct ps_tree_stats stats;
        assert_int_equal(ps_tree_check(&l.access, &stats, NULL), 0);
        assert_in_range(stats.fill, fill - 4, fill);
        sound();
        seed = fill;
        for (unsigned round = 3000; round < 6000; round++)
            operation(&l.access, round);
        struct ps_tree_load again;
        ps_access_open(&again.access.base, &instance, type, PS_CHANGE);
        ps_tree_load(&again, 70);
        assert_int_equal(ps_tree_add(&again, key, key), -ENOTEMPTY);
    }
}

/* Runs of neighbours leave, some records between them stay: small leaves meet where branches
 * join. */
static void neighbours_leave(void **s)
{
    (void)s;
    for (unsigned turn = 0; turn < 60; turn++) {
        begin(&small_type_, 0, 0);
        assert_int_equal(ps_tree_set_up(&instance, type), 0);
        struct ps_tree_load l;
        ps_access_open(&l.access.base, &instance, type, PS_CHANGE);
        ps_tree_load(&l, 50 + turn % 51);
        _Alignas(16) char key[64] = {0};
        for (uint32_t n = 0; n < 1200; n++) {
            memcpy(key, &n, sizeof n);
            assert_int_equal(ps_tree_add(&l, key, &(struct record){n, 2 * n}), 0);
            model_insert(n, key, n);
        }
        seed = turn;
        while (model.count > 10) {
            unsigned first = draw(model.count), stay = 2 + draw(8);
            for (unsigned i = first, k = 0; k < 60 && i < model.count; k++) {
                if (k % stay == 0) {
                    i++;
                    continue;
                }
                assert_int_equal(ps_tree_remove(&l.access, model.entries[i].key), 0);
                model_remove(i);
                sound();
            }
        }
    }
}

/* ---- what is refused ---- */

static void open_is(int wanted, const struct ps_type *t)
{
    struct ps_tree_access a;
    ps_access_open(&a.base, &instance, t, PS_CHANGE);
    assert_int_equal(a.base.error, wanted);
    assert_int_equal(ps_tree_insert(&a, "aaaa", "0123456789abcdef", 0), wanted);
}

static void another_type_is_refused(void **s)
{
    (void)s;
    begin(&small_type_, 0, 0);
    open_is(-ENODATA, type);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    assert_int_equal(ps_tree_set_up(&instance, type), -EEXIST);
    open_is(-EPROTOTYPE, &large_type_);
    open_is(-EPROTOTYPE, &word_type_);
    struct ps_type other = small_type_;
    other.compare_name = "by_something";
    open_is(-EPROTOTYPE, &other);
    other = small_type_;
    other.name = "struct number struct memo";
    open_is(-EPROTOTYPE, &other);
    instance.flags = PS_DESCENDING;
    open_is(-EPROTOTYPE, type);
    instance.flags = 0;
    open_is(0, type);
    struct ps_tree_access a;
    ps_access_open(&a.base, &instance, type, PS_LOOK);
    assert_int_equal(ps_tree_remove(&a, "aaaa"), -EACCES);
    assert_null(ps_tree_find(&a, "aaaa", PS_CHANGE));
}

/* An instance without .memory looks, but has nothing to take a node from. */
static void memory_that_was_forgotten_is_an_error(void **s)
{
    (void)s;
    struct ps_tree_access a;
    begin(&small_type_, 0, 0);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    open_is(0, type);
    struct ps_memory memory = instance.memory;
    instance.memory = (struct ps_memory){0};
    open_is(-EINVAL, type);
    assert_int_equal(ps_tree_tear_down(&instance, type), -EINVAL);
    ps_access_open(&a.base, &instance, type, PS_LOOK);
    assert_non_null(ps_tree_find(&a, "aaaa", PS_LOOK));
    instance.memory = memory;
}

static void a_long_string_is_refused(void **s)
{
    (void)s;
    _Alignas(16) char key[64];
    begin(&word_type_, 0, 0);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    struct ps_tree_access a = access_open();
    struct record record = {0, 0};
    memset(key, 'x', sizeof key);
    key[33] = 0;
    assert_int_equal(ps_tree_insert(&a, key, &record, 0), -EOVERFLOW);
    key[32] = 0;
    assert_int_equal(ps_tree_insert(&a, key, &record, 0), 0);
    assert_non_null(ps_tree_find(&a, key, PS_LOOK));
}

/* Each kind of damage to a node is found. */
static void check_finds_damage(void **s)
{
    (void)s;
    for (unsigned byte = 0; byte < 24 + 16; byte++) {
        begin(&small_type_, 0, 0);
        assert_int_equal(ps_tree_set_up(&instance, type), 0);
        struct ps_tree_access a = access_open();
        while (model.count < 7)
            insert(&a, 0);
        arena.nodes[byte] ^= 0x41;
        int field_used = byte < 10 || (byte >= 24 && byte < 24 + 14);
        assert_int_equal(ps_tree_check(&a, NULL, NULL), field_used ? -EUCLEAN : 0);
    }
    begin(&small_type_, 0, 0);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    struct ps_tree_access a = access_open();
    while (model.count < 7)
        insert(&a, 0);
    uint16_t *slots = (uint16_t *)(void *)(arena.nodes + 24), first = slots[0];
    slots[0] = slots[1];
    slots[1] = first;
    const char *why = NULL;
    assert_int_equal(ps_tree_check(&a, NULL, &why), -EUCLEAN);
    assert_string_equal(why, "the keys of a node are not in order");
}

static void into(void *arg, const char *text)
{
    strncat(arg, text, 200000 - strlen(arg) - 1);
}

static void a_picture_shows_each_node(void **s)
{
    (void)s;
    static char svg[200000];
    begin(&large_type_, 0, 0);
    assert_int_equal(ps_tree_set_up(&instance, type), 0);
    struct ps_tree_access a = access_open();
    while (model.count < 1000)
        insert(&a, 0);
    struct ps_tree_stats stats;
    ps_tree_check(&a, &stats, NULL);
    assert_int_equal(ps_tree_draw(&a, (struct ps_sink){into, svg}), 0);
    unsigned texts = 0;
    for (const char *at = svg; (at = strstr(at, "<text")); at++)
        texts++;
    assert_int_equal(texts, 1 + stats.leaves + stats.branches);
    assert_non_null(strstr(svg, "</svg>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_ascending),
        cmocka_unit_test(numbers_descending_twice),
        cmocka_unit_test(numbers_in_an_order_of_the_instance),
        cmocka_unit_test(nodes_of_a_page),
        cmocka_unit_test(strings_with_prefixes),
        cmocka_unit_test(strings_descending),
        cmocka_unit_test(strings_twice_in_nodes_of_a_page),
        cmocka_unit_test(an_allocation_fails),
        cmocka_unit_test(set_up_fails_at_each_allocation),
        cmocka_unit_test(load_fills),
        cmocka_unit_test(neighbours_leave),
        cmocka_unit_test(another_type_is_refused),
        cmocka_unit_test(memory_that_was_forgotten_is_an_error),
        cmocka_unit_test(a_long_string_is_refused),
        cmocka_unit_test(check_finds_damage),
        cmocka_unit_test(a_picture_shows_each_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
