/*
 * tree-cut.c - the load of tree-cut.sh: two B+-trees, changed step by step until the power goes.
 *
 *     tree-cut SEED STEPS     each step is a transaction; what it does follows from the seed and
 *                             its number. `ack N` is printed when the commit of step N has
 *                             returned.
 *     tree-cut check SEED     computes from the seed what the steps that the root has counted must
 *                             have left, and compares it with both trees, record by record.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/tree.h>

enum { KEYS = 1500, EACH = 40 };
struct number { uint32_t n; };
struct record { uint64_t step; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE_OF(numbers, struct number, struct record, by_number, 256);
PS_STRING_TREE_OF(words, struct record, 512);
struct root { uint64_t step; struct numbers_head numbers; struct words_head words; };

static ps_container *box;
static uint32_t random_state;
static uint64_t model[KEYS];            /* the step that put the record there; 0: none */

struct work { uint32_t seed; uint64_t step; int abort; };

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

/* The step grows the trees for a while, then shrinks them; what: 1 puts key n, 0 removes it. */
static uint32_t step_begin(const struct work *w)
{
    random_state = w->seed * 2654435761u + (uint32_t)w->step * 40503u;
    return 1 + draw(EACH);
}
static int step_draw(const struct work *w, uint32_t *n)
{
    *n = draw(KEYS);
    return draw(10) < (w->step / 25 % 2 ? 2u : 8u);
}

static char *word_of(uint32_t n, char *word)
{
    sprintf(word, "%s/%u", n % 3 ? "a-rather-long-prefix" : "short", n * 7919 % 100003);
    return word;
}

static int place(struct root *root, struct numbers *numbers, struct words *words)
{
    *numbers = (struct numbers){.head = &root->numbers, .memory = ps_in(box)};
    *words = (struct words){.head = &root->words, .memory = ps_in(box), .flags = PS_DESCENDING};
    int error = numbers_set_up(numbers);
    if (error == 0)
        error = words_set_up(words);
    return error == -EEXIST ? 0 : error;
}

static int step(void *arg)
{
    const struct work *w = arg;
    struct root *root = ps_root(box);
    struct numbers numbers;
    struct words words;
    char word[48];
    uint32_t n;
    int error = place(root, &numbers, &words);
    if (error)
        return error;
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    PS_ACCESS(words_keyed, b, &words, PS_CHANGE);
    for (uint32_t left = step_begin(w); left > 0 && error == 0; left--) {
        struct record record = {w->step};
        if (step_draw(w, &n)) {
            error = numbers_put(&a, &(struct number){n}, &record);
            if (error == 0)
                error = words_put(&b, word_of(n, word), &record);
        } else {
            int gone = numbers_remove(&a, &(struct number){n});
            error = gone != words_remove(&b, word_of(n, word)) ? -EUCLEAN
                    : gone == -ENOENT                          ? 0
                                                               : gone;
        }
    }
    root->step = w->step;
    return error ? error : w->abort ? -ECANCELED : 0;
}

/* What the first steps left, without any tree. */
static uint64_t replay(uint32_t seed, uint64_t steps)
{
    uint64_t records = 0;
    struct work w = {.seed = seed};
    for (w.step = 1; w.step <= steps; w.step++)
        for (uint32_t left = step_begin(&w), n; left > 0; left--) {
            int put = step_draw(&w, &n);
            model[n] = put ? w.step : 0;
        }
    for (uint32_t n = 0; n < KEYS; n++)
        records += model[n] != 0;
    return records;
}

static int check(void *arg)
{
    const struct work *w = arg;
    struct root *root = ps_root(box);
    struct numbers numbers;
    struct words words;
    struct ps_tree_stats first, second;
    const char *why = "";
    char word[48];
    int error = root ? place(root, &numbers, &words) : -errno;
    if (error)
        return error;
    uint64_t records = replay(w->seed, root->step);
    PS_ACCESS(numbers_keyed, a, &numbers, PS_LOOK);
    PS_ACCESS(words_keyed, b, &words, PS_LOOK);
    error = ps_tree_check(&a.access, &first, &why);
    if (error == 0)
        error = ps_tree_check(&b.access, &second, &why);
    if (error)
        return printf("%s\n", why), error;
    int bad = first.records != records || second.records != records;
    for (uint32_t n = 0; n < KEYS; n++) {
        const struct record *x = numbers_find(&a, &(struct number){ n }),
                            *y = words_find(&b, word_of(n, word));
        bad += model[n] ? !x || !y || x->step != model[n] || y->step != model[n] : x || y;
    }
    printf("step %lu: %s, %lu records, heights %u %u\n", root->step, bad ? "DIFFERENT" : "equal",
           records, first.height, second.height);
    return bad ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    box = ps_open("tree-cut", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (argc != 3 || !box)
        return 2;
    struct work w = {.seed = (uint32_t)atoi(argv[2])};
    if (strcmp(argv[1], "check") == 0)
        return ps_transaction(check, &w) != 0;
    w.seed = (uint32_t)atoi(argv[1]);
    for (w.step = 1; w.step <= (uint64_t)atoi(argv[2]); w.step++) {
        w.abort = w.step % 5 == 0;
        if (w.abort && ps_transaction(step, &w) != -ECANCELED)
            return 1;
        w.abort = 0;
        if (ps_transaction(step, &w) != 0)
            return 1;
        printf("ack %lu\n", w.step);
    }
    return 0;
}
