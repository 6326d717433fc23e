/* tree-cut.c - the load of tree-cut.sh: two B+-trees, changed step by step until the power goes
 * (steps.h). */
enum { KEYS = 1500, EACH = 40, GROWS = 8 };
#include "steps.h"
#include <structures/tree.h>

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
    return step_end(w, error);
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
    return steps_run(argv, step, check, NULL);
}
