/*
 * test_parallel.c - structures spread over parts (spread.h), and queries that all parts answer at
 * once (parallel.h), in volatile memory.
 *
 * Aim     what a generator hands out is what the structure's own range has, each record once,
 *         whatever the number of parts and workers, the rule, the size of buffers, and however many
 *         generators one thread has open; one that ends early leaves nothing behind.
 * Method  a tree of strings with duplicates and records of any size, a tree of numbers, and an
 *         R*-tree are filled in random order and spread. Sums of what came are compared with sums
 *         over the structure as it was built. PARALLEL_SEED=N repeats a run. In containers:
 *         tests/guest/pstore/pstore_parallel.c.
 * Waits: for questions that were lost, 10 ms each.
 */
#include "structures/parallel.h"
#include "structures/parallel_private.h"
#include "structures/spread_private.h"

static int ask_or_lose(ps_area *a, void *message, size_t bytes, int timeout_ms);
#define ps_ask ask_or_lose      /* of the workers */
#include "libpstore/structures/parallel_work.c"
#undef ps_ask

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct key { uint32_t n; };
struct value { uint64_t a, b; };
static int by_number(const struct key *a, const struct key *b)
{
    return a->n < b->n ? -1 : a->n > b->n;
}
PS_TREE_OF(numbers, struct key, struct value, by_number, 1024);
PS_PARALLEL_TREE(numbers);
PS_STRING_TREE_BYTES_OF(words, char, 1024);
PS_PARALLEL_TREE(words);
PS_RTREE_OF(boxes, struct value, 2, 1024);
PS_PARALLEL_RTREE(boxes);

enum { RECORDS = 12000, QUERIES = 60, GUARD_S = 100, SLEEPS_S = 400 };
static uint32_t seed;

/* A worker's question: each `lose`th is lost on its way, or its answer is, as where the kernel has
 * no memory for it. 0: none. */
static uint32_t lose, asked;
static int ask_or_lose(ps_area *a, void *message, size_t bytes, int timeout_ms)
{
    uint32_t n = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
    char kept[PS_MESSAGE_MAX];
    if (!lose || n % lose)
        return ps_ask(a, message, bytes, timeout_ms);
    if (n / lose % 2)
        return -ENOMEM;
    memcpy(kept, message, bytes);
    int result = ps_ask(a, message, bytes, timeout_ms);
    memcpy(message, kept, bytes);
    return result ? result : -ENOMEM;
}

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A set of records as a number: their order does not matter, how often each comes does. */
struct sum { uint64_t count, hash; };
static void sum_add(struct sum *s, const void *key, size_t key_bytes, const void *record,
                    size_t bytes)
{
    uint64_t hash = structure_hash(structure_hash(0, key, key_bytes), record, bytes);
    s->count++;
    s->hash += mix(hash);
}
static void assert_same(struct sum came, struct sum wanted)
{
    assert_int_equal(came.count, wanted.count);
    assert_true(came.hash == wanted.hash);
}

/* ---- three structures ---- */

static struct ps_builder builder;
static struct numbers_head numbers_kept;
static struct words_head words_kept;
static struct boxes_head boxes_kept;
static struct numbers numbers;
static struct words words;
static struct boxes boxes;

static void numbers_fill(int in_order)
{
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct key key = {in_order ? i : i * 7919u % RECORDS};
        assert_int_equal(numbers_insert(&a, &key, &(struct value){key.n, i}), 0);
    }
}

static struct boxes_box box_somewhere(double size)
{
    double x = draw(1000), y = draw(1000);
    return (struct boxes_box){{x, y}, {x + draw((uint32_t)size), y + draw((uint32_t)size)}};
}

static int set_up(void **state)
{
    (void)state;
    const char *text = getenv("PARALLEL_SEED");
    seed = text ? (uint32_t)atoi(text) : 1;
    numbers = (struct numbers){.head = &numbers_kept, .memory = ps_building(&builder)};
    words = (struct words){.head = &words_kept, .memory = ps_building(&builder),
                           .flags = PS_DUPLICATES};
    boxes = (struct boxes){.head = &boxes_kept, .memory = ps_building(&builder)};
    assert_int_equal(numbers_set_up(&numbers), 0);
    assert_int_equal(words_set_up(&words), 0);
    assert_int_equal(boxes_set_up(&boxes), 0);
    numbers_fill(0);
    PS_ACCESS(words_keyed, w, &words, PS_CHANGE);
    PS_ACCESS(boxes_boxes, b, &boxes, PS_CHANGE);
    for (uint32_t i = 0; i < RECORDS / 2; i++) {
        char key[16], record[160];
        snprintf(key, sizeof key, "k%05u", draw(4000));
        memset(record, 'a' + (int)(i % 26), sizeof record);
        assert_int_equal(words_insert(&w, key, record, draw(128)), 0);
        struct boxes_box box = box_somewhere(20);
        assert_int_equal(boxes_insert(&b, &box, &(struct value){i, mix(i)}), 0);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    numbers_tear_down(&numbers);
    words_tear_down(&words);
    boxes_tear_down(&boxes);
    return 0;
}

/* ---- what a range has; what a generator hands out ---- */

static struct sum numbers_have(const struct numbers *in, uint32_t from, uint32_t to)
{
    struct sum s = {0};
    PS_ACCESS(numbers_range, r, in, &(struct key){from}, &(struct key){to}, PS_UP, PS_LOOK);
    for (const struct value *v; (v = numbers_next(&r));)
        sum_add(&s, numbers_key(&r), sizeof(struct key), v, sizeof *v);
    return s;
}

static struct sum numbers_come(struct ps_administrator *a, uint32_t from, uint32_t to, size_t bytes)
{
    struct sum s = {0};
    PS_ACCESS(numbers_query, q, a, &(struct key){from}, &(struct key){to}, bytes);
    for (const struct value *v; (v = numbers_query_next(&q));) {
        assert_int_equal(numbers_query_bytes(&q), sizeof *v);
        sum_add(&s, numbers_query_key(&q), sizeof(struct key), v, sizeof *v);
    }
    assert_int_equal(errno, 0);
    return s;
}

static struct sum words_have(const struct words *in, const char *from, const char *to)
{
    struct sum s = {0};
    PS_ACCESS(words_range, r, in, from, to, PS_UP, PS_LOOK);
    for (const char *v; (v = words_next(&r));)
        sum_add(&s, words_key(&r), strlen(words_key(&r)), v, words_bytes(&r));
    return s;
}

static struct sum words_come(struct ps_administrator *a, const char *from, const char *to,
                             size_t bytes)
{
    struct sum s = {0};
    PS_ACCESS(words_query, q, a, from, to, bytes);
    for (const char *v; (v = words_query_next(&q));)
        sum_add(&s, words_query_key(&q), strlen(words_query_key(&q)), v, words_query_bytes(&q));
    assert_int_equal(errno, 0);
    return s;
}

static struct sum boxes_have(const struct boxes *in, const struct boxes_box *box, enum ps_query how)
{
    struct sum s = {0};
    PS_ACCESS(boxes_range, r, in, box, how, PS_LOOK);
    for (const struct value *v; (v = boxes_next(&r));)
        sum_add(&s, boxes_where(&r), sizeof *box, v, sizeof *v);
    return s;
}

static struct sum boxes_come(struct ps_administrator *a, const struct boxes_box *box,
                             enum ps_query how, size_t bytes)
{
    struct sum s = {0};
    PS_ACCESS(boxes_query, q, a, box, how, bytes);
    for (const struct value *v; (v = boxes_query_next(&q));)
        sum_add(&s, boxes_query_key(&q), sizeof *box, v, sizeof *v);
    assert_int_equal(errno, 0);
    return s;
}

/* ---- the tests ---- */

static struct ps_segment *spread(struct ps_spread_what what, unsigned parts, enum ps_placement rule)
{
    static struct ps_segment s;
    s = (struct ps_segment){.name = "test", .parts = parts};
    assert_int_equal(ps_spread(&s, what, rule), 0);
    return &s;
}

static void what_was_spread_is_the_same_structure(void **state)
{
    (void)state;
    for (unsigned parts = 1; parts <= 4; parts++) {
        struct ps_segment *s = spread(PS_SPREAD_TREE(numbers, &numbers), parts, PS_LARSON_SEEGER);
        struct numbers moved = {.head = PS_SEGMENT_HEAD(s), .memory = ps_segment_memory(s)};
        assert_same(numbers_have(&moved, 0, RECORDS), numbers_have(&numbers, 0, RECORDS));
        PS_ACCESS(numbers_keyed, a, &moved, PS_CHANGE);
        struct ps_tree_stats stats;
        const char *why = NULL;
        assert_int_equal(ps_tree_check(&a.access, &stats, &why), 0);
        int refused = 0; /* a leaf takes changes as long as it needs no other */
        assert_int_equal(numbers_remove(&a, &(struct key){17}), 0);
        assert_int_equal(numbers_insert(&a, &(struct key){17}, &(struct value){1, 2}), 0);
        for (uint32_t i = 0; i < 200 && !refused; i++)
            refused = numbers_insert(&a, &(struct key){RECORDS + i}, &(struct value){1, 2});
        assert_int_equal(refused, -EXDEV);
        assert_int_equal(ps_tree_check(&a.access, &stats, &why), 0);
        assert_int_equal(ps_segment_clear(s), 0);
    }
}

static void queries_run(struct ps_spread_what what, unsigned parts, unsigned workers, size_t bytes)
{
    struct ps_segment *s = spread(what, parts, draw(2) ? PS_ROUND_ROBIN : PS_LARSON_SEEGER);
    struct ps_administrator_wish wish = {.workers = workers, .no_ahead = (int)draw(2)};
    struct ps_administrator *a = ps_administrator_make(s, what, &wish);
    assert_non_null(a);
    for (int i = 0; i < QUERIES; i++) {
        uint32_t from = draw(RECORDS), to = from + draw(i % 2 ? 100 : RECORDS);
        char low[16], high[16];
        snprintf(low, sizeof low, "k%05u", from / 3);
        snprintf(high, sizeof high, "k%05u", to / 3);
        struct boxes_box box = box_somewhere(i % 2 ? 30 : 500);
        enum ps_query how = (enum ps_query)draw(3);
        if (what.type == &numbers_type_)
            assert_same(numbers_come(a, from, to, bytes), numbers_have(&numbers, from, to));
        else if (what.type == &words_type_)
            assert_same(words_come(a, i ? low : NULL, i > 1 ? high : NULL, bytes),
                        words_have(&words, i ? low : NULL, i > 1 ? high : NULL));
        else
            assert_same(boxes_come(a, i ? &box : NULL, how, bytes),
                        boxes_have(&boxes, i ? &box : NULL, how));
    }
    struct ps_administrator_stats stats;
    assert_int_equal(ps_administrator_stats(a, &stats), 0);
    assert_int_equal(stats.queries, QUERIES);
    assert_int_equal(stats.open, 0);
    assert_true(stats.leaves_most <= 512);
    for (unsigned p = 0; p < parts; p++)
        assert_true(stats.retrieved[p] > 0);
    assert_int_equal(ps_administrator_close(a), 0);
    assert_int_equal(ps_segment_clear(s), 0);
}

static void each_record_comes_once(void **state)
{
    (void)state;
    for (unsigned parts = 1; parts <= 4; parts++)
        for (unsigned workers = 0; workers < 3; workers++) {
            size_t bytes = workers == 2 ? 1024 * parts : 0;
            queries_run(PS_SPREAD_TREE(numbers, &numbers), parts, workers, bytes);
            queries_run(PS_SPREAD_TREE(words, &words), parts, workers, bytes);
            queries_run(PS_SPREAD_RTREE(boxes, &boxes), parts, workers, bytes);
        }
}

/* Whatever is lost between workers and the task: no query waits for ever, no record comes twice. */
static void lost_questions_and_answers(void **state)
{
    alarm(SLEEPS_S); /* it sleeps a little behind each that is lost */
    (void)state;
    lose = 11;
    for (unsigned workers = 0; workers < 3; workers++) {
        queries_run(PS_SPREAD_TREE(numbers, &numbers), 3, workers, 0);
        queries_run(PS_SPREAD_TREE(words, &words), 2, workers, 0);
    }
    lose = 0;
}

/* One thread goes through several generators in turn; some it leaves early. */
static void many_generators(void **state)
{
    (void)state;
    enum { OPEN = 8 };
    struct ps_segment *s = spread(PS_SPREAD_TREE(numbers, &numbers), 3, PS_ROUND_ROBIN);
    struct ps_administrator_wish wish = {.workers = 2};
    struct ps_administrator *a = ps_administrator_make(s, PS_SPREAD_TREE(numbers, &numbers), &wish);
    const struct key low = {0}, high = {RECORDS};
    struct ps_administrator_stats stats;
    for (int round = 0; round < 4; round++) {
        struct numbers_query q[OPEN];
        struct sum sums[OPEN] = {{0}};
        int left = OPEN;
        for (int i = 0; i < OPEN; i++)
            q[i] = numbers_query_open(a, &low, &high, i % 2 ? 0 : 4096);
        for (uint64_t step = 0; left > 0; step++) {
            int i = (int)(step % OPEN);
            const struct value *v = q[i].query.pool ? numbers_query_next(&q[i]) : NULL;
            if (v) {
                sum_add(&sums[i], numbers_query_key(&q[i]), sizeof(struct key), v, sizeof *v);
            } else if (q[i].query.pool) {
                assert_same(sums[i], numbers_have(&numbers, 0, RECORDS));
            }
            if (q[i].query.pool && (!v || (i < 3 && sums[i].count > 50u * (unsigned)i))) {
                numbers_query_close(&q[i]);
                left--;
            }
        }
    }
    struct numbers_query q[PS_QUERIES_MAX + 1];
    for (int i = 0; i <= PS_QUERIES_MAX; i++)
        q[i] = numbers_query_open(a, &low, &high, 0);
    assert_null(numbers_query_next(&q[PS_QUERIES_MAX]));
    assert_int_equal(errno, EMFILE);
    for (int i = 0; i <= PS_QUERIES_MAX; i++)
        numbers_query_close(&q[i]);
    while (ps_administrator_stats(a, &stats) == 0 && stats.open > 0)
        continue; /* workers that had a leaf of these come back */
    PS_ACCESS(numbers_query, tiny, a, &low, &high, 64);
    assert_true(!numbers_query_next(&tiny) && errno == EMSGSIZE);
    PS_ACCESS(numbers_query, huge, a, &low, &high, PS_QUERY_BYTES_MAX + 1);
    assert_true(!numbers_query_next(&huge) && errno == EMSGSIZE);
    PS_ACCESS(words_query, other, a, NULL, NULL, 0);
    assert_true(!words_query_next(&other) && errno == EPROTOTYPE);
    assert_same(numbers_come(a, 5, 5, 0), numbers_have(&numbers, 5, 5));
    assert_same(numbers_come(a, 9, 5, 0), numbers_have(&numbers, 9, 5));
    ps_administrator_close(a);
    ps_segment_clear(s);
}

/* ---- where leaves go ---- */

/* How many of `window` neighbours the fullest part has, in the mean. */
static double imbalance(const uint8_t *part, unsigned leaves, unsigned window)
{
    uint64_t most = 0;
    for (unsigned i = 0; i + window <= leaves; i++) {
        unsigned count[PS_PARTS_MAX] = {0}, fullest = 0;
        for (unsigned j = i; j < i + window; j++)
            if (++count[part[j]] > fullest)
                fullest = count[part[j]];
        most += fullest;
    }
    return (double)most / (leaves - window + 1);
}

static void neighbours_are_in_other_parts(void **state)
{
    enum { LEAVES = 3000, WINDOW = 12 };
    static unsigned order[LEAVES];
    static uint8_t part[LEAVES];
    (void)state;
    for (unsigned parts = 2; parts <= PS_PARTS_MAX; parts++) {
        double best = (WINDOW + parts - 1) / parts, random[2];
        for (unsigned i = 0; i < LEAVES; i++)
            order[i] = i;
        for (int rule = 0; rule < 2; rule++) {
            assert_int_equal(spread_place(order, LEAVES, parts, (enum ps_placement)rule, part), 0);
            assert_true(imbalance(part, LEAVES, WINDOW) <= best);
        }
        for (unsigned i = LEAVES - 1; i > 0; i--) {
            unsigned j = draw(i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (int rule = 0; rule < 2; rule++) {
            unsigned load[PS_PARTS_MAX] = {0};
            assert_int_equal(spread_place(order, LEAVES, parts, (enum ps_placement)rule, part), 0);
            random[rule] = imbalance(part, LEAVES, WINDOW);
            for (unsigned i = 0; i < LEAVES; i++)
                load[part[i]]++;
            for (unsigned p = 0; p < parts; p++)
                assert_in_range(load[p], LEAVES / parts - LEAVES / 50,
                                LEAVES / parts + LEAVES / 50);
        }
        print_message("%u parts, %d neighbours, made in random order: the fullest part has %.2f by "
                      "round robin, %.2f by Larson and Seeger, %.0f at best\n",
                      parts, WINDOW, random[PS_ROUND_ROBIN], random[PS_LARSON_SEEGER], best);
        assert_true(random[PS_LARSON_SEEGER] < 0.92 * random[PS_ROUND_ROBIN]);
    }
}

static void errors(void **state)
{
    (void)state;
    struct ps_segment s = {.name = "test", .parts = 2}, none = {.name = "test", .parts = 0};
    struct numbers_head kept = {0};
    struct numbers heap = {.head = &kept, .memory = ps_volatile()};
    assert_int_equal(ps_segment_open(&s), -ENODATA);
    assert_int_equal(ps_spread(&s, PS_SPREAD_TREE(numbers, &heap), PS_ROUND_ROBIN), -ENODATA);
    assert_int_equal(numbers_set_up(&heap), 0);
    assert_int_equal(ps_spread(&s, PS_SPREAD_TREE(numbers, &heap), PS_ROUND_ROBIN), -EINVAL);
    assert_int_equal(ps_spread(&none, PS_SPREAD_TREE(numbers, &numbers), PS_ROUND_ROBIN), -EINVAL);
    assert_null(ps_administrator_make(&s, PS_SPREAD_TREE(numbers, &numbers), NULL));
    assert_int_equal(errno, ENODATA);
    assert_int_equal(ps_spread(&s, PS_SPREAD_TREE(numbers, &numbers), PS_ROUND_ROBIN), 0);
    assert_null(ps_administrator_make(&s, PS_SPREAD_TREE(words, &words), NULL));
    assert_int_equal(errno, EPROTOTYPE);
    assert_int_equal(ps_segment_part(&s, &kept), -ENOENT);
    assert_int_equal(ps_spread(&s, PS_SPREAD_TREE(words, &words), PS_ROUND_ROBIN), 0); /* anew */
    struct words moved = {.head = PS_SEGMENT_HEAD(&s), .memory = ps_segment_memory(&s),
                          .flags = PS_DUPLICATES};
    assert_same(words_have(&moved, NULL, NULL), words_have(&words, NULL, NULL));
    assert_int_equal(ps_segment_clear(&s), 0);
    numbers_tear_down(&heap);
}

/* A generator that nobody serves waits for ever. */
static int guard(void **state)
{
    (void)state;
    alarm(GUARD_S);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_spread_is_the_same_structure, guard),
        cmocka_unit_test_setup(each_record_comes_once, guard),
        cmocka_unit_test_setup(lost_questions_and_answers, guard),
        cmocka_unit_test_setup(many_generators, guard),
        cmocka_unit_test_setup(neighbours_are_in_other_parts, guard),
        cmocka_unit_test_setup(errors, guard),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
