/*
 * pstore_tree.c - the B+-tree of libpstore/structures in a container.
 *
 * Aim     the tree equals a model after each commit and each abort, also when two processes change
 *         it at once, and when the store is full in the middle of an insertion.
 * Method  one transaction is up to 300 operations; a quarter of them is aborted, and the model with
 *         it. Two processes insert and remove keys of their own, odd and even, in the same leaves;
 *         what each must have left follows from its seed. At the end a third tree grows until the
 *         store refuses.
 */
#include <structures/tree.h>
#include <stdlib.h>

#include "pstore_test.h"

enum { KEYS = 4000, OPERATIONS = 100000, ROUNDS = 120 };
struct number { uint32_t n; };
struct record { uint64_t id; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE_OF(small, struct number, struct record, by_number, 512);
PS_TREE(big, struct number, struct record, by_number);
PS_STRING_TREE(word, struct record);
struct root { struct small_head small; struct big_head big, shared; struct word_head words; };

static ps_container *box;
static struct small small = {.name = "small", .initial = 4096};
static struct big big = {.name = "big", .flags = PS_DESCENDING}, shared = {.name = "shared"};
static struct word words = {.name = "words"};
static uint64_t model[KEYS], before[KEYS];      /* the record of each key, 0: none */
static uint32_t seed = 7;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static int set_up(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    small.head = &root->small;
    big.head = &root->big;
    shared.head = &root->shared;
    words.head = &root->words;
    small.memory = big.memory = shared.memory = words.memory = ps_in(box);
    int error = small_set_up(&small);
    if (error == 0) error = big_set_up(&big);
    if (error == 0) error = big_set_up(&shared);
    if (error == 0) error = word_set_up(&words);
    return error == -EEXIST ? 0 : error;
}

static void box_open(void)
{
    box = ps_open("trees", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box || ps_transaction(set_up, NULL) != 0)
        exit(9);
}

/* ---- one process: both trees against the model ---- */

static int wrong;

static void one(struct small_keyed *a, struct big_keyed *b)
{
    struct number key = {draw(KEYS)};
    struct record record = {1 + draw(1000000)};
    uint64_t *is = &model[key.n];
    const struct record *found = small_find(a, &key), *other = big_find(b, &key);
    wrong += *is ? !found || !other || found->id != *is || other->id != *is : found || other;
    switch (draw(3)) {
    case 0:
        wrong += small_insert(a, &key, &record) != (*is ? -EEXIST : 0);
        wrong += big_insert(b, &key, &record) != (*is ? -EEXIST : 0);
        *is = *is ? *is : record.id;
        break;
    case 1:
        wrong += small_put(a, &key, &record) != 0 || big_put(b, &key, &record) != 0;
        *is = record.id;
        break;
    default:
        wrong += small_remove(a, &key) != (*is ? 0 : -ENOENT) ||
                 big_remove(b, &key) != (*is ? 0 : -ENOENT);
        *is = 0;
    }
}

static int some(void *arg)
{
    PS_ACCESS(small_keyed, a, &small, PS_CHANGE);
    PS_ACCESS(big_keyed, b, &big, PS_CHANGE);
    for (unsigned n = 0; n < *(unsigned *)arg; n++)
        one(&a, &b);
    return draw(4) == 0 ? -ECANCELED : 0;
}

/* Both are sound and hold what the model holds: one ascends, the other descends. */
static int compare(void *unused)
{
    (void)unused;
    PS_ACCESS(small_range, a, &small, NULL, NULL, PS_UP, PS_LOOK);
    PS_ACCESS(big_range, b, &big, NULL, NULL, PS_DOWN, PS_LOOK);
    struct ps_tree_stats stats;
    const char *why = NULL;
    int bad = ps_tree_check(&a.range.access, &stats, &why) ||
              ps_tree_check(&b.range.access, &stats, &why);
    for (uint32_t n = 0; n < KEYS; n++) {
        if (!model[n]) continue;
        const struct record *up = small_next(&a), *down = big_next(&b);
        bad += !up || !down || up->id != model[n] || down->id != model[n] ||
               small_key(&a)->n != n || big_key(&b)->n != n;
    }
    if (bad || why)
        printf("# %d differences; %s\n", bad, why ? why : "sound");
    return bad || small_next(&a) || big_next(&b);
}

static int random_operations(void)
{
    int bad = 0;
    unsigned all = tap_long() ? OPERATIONS : OPERATIONS / 4;
    for (unsigned done = 0, count; done < all; done += count) {
        count = 1 + draw(300);
        memcpy(before, model, sizeof model);
        int error = ps_transaction(some, &count);
        if (error) memcpy(model, before, sizeof model);
        bad += error != 0 && error != -ECANCELED;
        if (draw(16) == 0) bad += ps_transaction(compare, NULL) != 0;
    }
    return bad + wrong + (ps_transaction(compare, NULL) != 0);
}

/* ---- two processes ---- */

enum { MINE = 600 };
struct work { uint32_t me, round, abort; };

/* Round r of process `me` inserts keys of its own, and removes some of the round before. */
static uint32_t keys_of(uint32_t round, uint32_t i) { return (round * 37 + i * 101) % MINE; }
static int share(void *arg)
{
    const struct work *w = arg;
    PS_ACCESS(big_keyed, a, &shared, PS_CHANGE);
    for (uint32_t i = 0; i < 12; i++) {
        struct number in = { keys_of(w->round, i) * 2 + w->me },
                      out = { keys_of(w->round - 1, i) * 2 + w->me };
        struct record record = {w->round};
        int error = i % 3 == 0 && w->round > 1 ? big_remove(&a, &out) : 0;
        if (error && error != -ENOENT) return error;
        error = big_put(&a, &in, &record);
        if (error) return error;
    }
    return w->abort ? -ECANCELED : 0;
}

static uint32_t rounds(void) { return tap_long() ? ROUNDS : ROUNDS / 2; }
static int work(uint32_t me)
{
    for (uint32_t round = 1; round <= rounds(); round++) {
        struct work w = {me, round, 1};
        if (round % 4 == 0 && ps_transaction(share, &w) != -ECANCELED) return 1;
        w.abort = 0;
        if (ps_transaction(share, &w) != 0) return 2;
    }
    return 0;
}

static int both_are_there(void *unused)
{
    (void)unused;
    static uint32_t want[MINE];
    uint32_t expected = 0, bad = 0;
    memset(want, 0, sizeof want);
    for (uint32_t round = 1; round <= rounds(); round++)
        for (uint32_t i = 0; i < 12; i++) {
            if (i % 3 == 0 && round > 1) want[keys_of(round - 1, i)] = 0;
            want[keys_of(round, i)] = round;
        }
    PS_ACCESS(big_keyed, a, &shared, PS_LOOK);
    struct ps_tree_stats stats;
    for (uint32_t n = 0; n < 2 * MINE; n++) {
        const struct record *r = big_find(&a, &(struct number){n});
        expected += want[n / 2] != 0;
        bad += want[n / 2] ? !r || r->id != want[n / 2] : r != NULL;
    }
    return ps_tree_check(&a.access, &stats, NULL) || bad || stats.records != expected;
}

/* ---- a full store ---- */

struct grow { uint32_t first, done; int error; };
static int grow(void *arg)
{
    struct grow *g = arg;
    PS_ACCESS(word_keyed, a, &words, PS_CHANGE);
    for (g->done = 0; g->done < 8000; g->done++) {
        char key[200];
        snprintf(key, sizeof key, "%0150u", g->first + g->done);
        g->error = word_insert(&a, key, &(struct record){g->first + g->done});
        if (g->error) return g->error;
    }
    return 0;
}
static int count_words(void *arg)
{
    PS_ACCESS(word_keyed, a, &words, PS_LOOK);
    struct ps_tree_stats stats;
    int error = ps_tree_check(&a.access, &stats, NULL);
    *(uint64_t *)arg = stats.records;
    return error;
}
static int drop_words(void *unused)
{
    (void)unused;
    PS_ACCESS(word_range, r, &words, NULL, NULL, PS_DOWN, PS_CHANGE);
    for (int n = 0; n < 4000 && word_next(&r); n++)
        if (word_drop(&r))
            return -EUCLEAN;
    return 0;
}
static int clear_words(void *unused)
{
    (void)unused;
    int error = word_tear_down(&words);
    return error ? error : word_set_up(&words);
}

static void full_store(void)
{
    struct grow g = {0};
    uint64_t records = 0;
    int error = 0;
    while (error == 0 && g.first < 4000000) {
        error = ps_transaction(grow, &g);
        if (error == 0) g.first += g.done;
    }
    is(error, -ENOSPC, "a tree grows until the store is full");
    is(ps_transaction(count_words, &records), 0, "then it is sound");
    is((long)records, (long)g.first, "and holds what was committed");
    error = 0;
    for (uint32_t n = 0; n < g.first && error == 0; n += 4000)
        error = ps_transaction(drop_words, NULL);
    is(error, 0, "all can be removed, in transactions that the log holds");
    is(ps_transaction(count_words, &records) || records, 0, "none is left, and it is sound");
    is(ps_transaction(clear_words, NULL), 0, "it can be torn down");
    g.first = 0;
    is(ps_transaction(grow, &g), 0, "and grows anew in its place");
}

static int use_the_wrong_type(void *unused)
{
    (void)unused;
    struct big wrong_order = shared;
    wrong_order.flags = PS_DESCENDING;
    PS_ACCESS(big_keyed, a, &wrong_order, PS_LOOK);
    return big_find(&a, &(struct number){0}) ? 0 : -errno;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    box_open();
    if (argc == 3)
        return work((uint32_t)atoi(argv[2]));
    tap_plan(13);
    is(random_operations(), 0, "random operations, with aborts, are those of the model");
    int first = child_start(argv[0], "work", "0"), second = child_start(argv[0], "work", "1");
    is(child_wait(first), 0, "one process commits");
    is(child_wait(second), 0, "so does one beside it, in the same leaves");
    is(ps_transaction(both_are_there, NULL), 0, "what both committed is there, and nothing else");
    is(ps_transaction(use_the_wrong_type, NULL), -EPROTOTYPE, "another order is refused");
    tap_ok(strstr(ps_strerror(EPROTOTYPE), "set up with another key") != NULL,
           "and ps_strerror says why");
    full_store();
    return tap_end();
}
