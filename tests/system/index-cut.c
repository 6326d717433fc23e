/* index-cut.c - the load of index-cut.sh: two indexes that the store manager keeps, and objects
 * that they lead to, changed step by step until the power goes (steps.h). */
enum { KEYS = 900, EACH = 40, GROWS = 9 };
#include "steps.h"
#include <index.h>

struct object { uint64_t number, step; };
struct root { uint64_t step; };

static ps_container *box;
static ps_index *numbers, *words;

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
    return step_end(w, error);
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
    return steps_run(argv, step, check, &snapshot);
}
