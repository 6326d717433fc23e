/*
 * index-cut.c - the load of index-cut.sh: two indexes that the store manager keeps, and objects
 * that they lead to, changed step by step until the power goes.
 *
 *     index-cut SEED STEPS    each step is a transaction; what it does follows from the seed and
 *                             its number. `ack N` is printed when the commit of step N has
 *                             returned.
 *     index-cut check SEED    computes from the seed what the steps that the root has counted must
 *                             have left, and compares it with both indexes and what they lead to.
 */
#include <index.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 900, EACH = 40 };
struct object { uint64_t number, step; };
struct root { uint64_t step; };

static ps_container *box;
static ps_index *numbers, *words;
static uint32_t random_state;
static uint64_t model[KEYS];            /* the step that put the key there; 0: none */

struct work { uint32_t seed; uint64_t step; int abort; };

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

/* The step grows the indexes for a while, then shrinks them; what: 1 puts key n, 0 removes it. */
static uint32_t step_begin(const struct work *w)
{
    random_state = w->seed * 2654435761u + (uint32_t)w->step * 40503u;
    return 1 + draw(EACH);
}
static int step_draw(const struct work *w, uint32_t *n)
{
    *n = draw(KEYS);
    return draw(10) < (w->step / 25 % 2 ? 2u : 9u);
}

static const char *word_of(uint32_t n, char *word)
{
    sprintf(word, "%s/%u", n % 3 ? "a-rather-long-prefix" : "short", n * 7919 % 100003);
    return word;
}

static struct object *object_of(uint64_t key)
{
    uint64_t value;
    return ps_index_find(numbers, &key, &value) ? NULL : (struct object *)(uintptr_t)value;
}

static int put(uint64_t key, const char *word, uint64_t step)
{
    struct object *o = object_of(key);
    int error = 0;
    if (!o) {
        if (!(o = ps_new(box, struct object, NULL)))
            return -1;
        o->number = key;
        error = ps_index_insert(numbers, &key, (uintptr_t)o);
        if (error == 0)
            error = ps_index_insert(words, word, (uintptr_t)o);
    }
    o->step = step;
    return error;
}

static int drop(uint64_t key, const char *word)
{
    struct object *o = object_of(key);
    int error = o ? ps_index_remove(numbers, &key) : 0;
    if (o && error == 0)
        error = ps_index_remove(words, word);
    return error ? error : o ? ps_free(o) : 0;
}

static int step(void *arg)
{
    const struct work *w = arg;
    struct root *root = ps_root(box);
    char word[48];
    uint32_t n;
    int error = 0;
    for (uint32_t left = step_begin(w); left > 0 && error == 0; left--) {
        int puts = step_draw(w, &n);
        error = puts ? put(n, word_of(n, word), w->step) : drop(n, word_of(n, word));
    }
    root->step = w->step;
    return error ? error : w->abort ? 77 : 0;
}

/* What the first steps left, without any index. */
static uint64_t replay(uint32_t seed, uint64_t steps)
{
    uint64_t keys = 0;
    struct work w = {.seed = seed};
    for (w.step = 1; w.step <= steps; w.step++)
        for (uint32_t left = step_begin(&w), n; left > 0; left--) {
            int puts = step_draw(&w, &n);
            model[n] = puts ? w.step : 0;
        }
    for (uint32_t n = 0; n < KEYS; n++)
        keys += model[n] != 0;
    return keys;
}

static int wrong(uint32_t n)
{
    char word[48];
    uint64_t value = 0, other = 0, key = n;
    int first = ps_index_find(numbers, &key, &value);
    int second = ps_index_find(words, word_of(n, word), &other);
    const struct object *o = (const struct object *)(uintptr_t)value;
    if (!model[n])
        return first == 0 || second == 0;
    return first || second || value != other || o->number != n || o->step != model[n];
}

static int check(void *arg)
{
    const struct work *w = arg;
    const struct root *root = ps_root(box);
    struct ps_tree_stats first = {0}, second = {0};
    const char *why = "";
    int error = root ? ps_index_check(numbers, &first, &why) : -1;
    if (error == 0)
        error = ps_index_check(words, &second, &why);
    if (error)
        return printf("%s\n", why), error;
    uint64_t keys = replay(w->seed, root->step);
    int bad = first.records != keys || second.records != keys;
    for (uint32_t n = 0; n < KEYS; n++)
        bad += wrong(n);
    printf("step %lu: %s, %lu keys, heights %u %u\n", root->step, bad ? "DIFFERENT" : "equal", keys,
           first.height, second.height);
    return bad ? -1 : 0;
}

static int root_make(void *unused)
{
    (void)unused;
    return ps_root(box) ? 0 : -1;
}

int main(int argc, char **argv)
{
    const struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    setvbuf(stdout, NULL, _IOLBF, 0);
    box = ps_open("index-cut", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    numbers = ps_index_open("index-cut.numbers", PS_NUMBERS, PS_CREATE | PS_WRITE);
    words = ps_index_open("index-cut.words", PS_STRINGS, PS_CREATE | PS_WRITE);
    if (argc != 3 || !box || !numbers || !words || ps_transaction(root_make, NULL))
        return 2;
    struct work w = {.seed = (uint32_t)atoi(argv[2])};
    if (strcmp(argv[1], "check") == 0)
        return ps_transaction_opt(check, &w, &snapshot) != 0;
    w.seed = (uint32_t)atoi(argv[1]);
    for (w.step = 1; w.step <= (uint64_t)atoi(argv[2]); w.step++) {
        w.abort = w.step % 5 == 0;
        if (w.abort && ps_transaction(step, &w) != 77)
            return 1;
        w.abort = 0;
        if (ps_transaction(step, &w) != 0)
            return 1;
        printf("ack %lu\n", w.step);
    }
    return 0;
}
