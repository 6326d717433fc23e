/*
 * item-index-cut.c - the load of item-index-cut.sh: processes that insert into and remove from one
 * tree and one hash on items at the same time, keys side by side, until the power goes.
 *
 *     item-index-cut STEPS     WRITERS processes, STEPS transactions each; `ack` behind each
 *     item-index-cut check     both indexes are sound, and have what the steps counted left
 *
 * Each fifth transaction is undone first; the splits of its leaves stay.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/item_index.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 3, KEYS = 400, EACH = 12 };            /* keys of each writer */
struct number { uint32_t n; };
struct record { uint64_t step; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
static uint64_t number_hash(const struct number *key) { return key->n; }
PS_ITEM_TREE(tree, struct number, struct record, by_number, number_hash);
PS_ITEM_HASH(hash, struct number, struct record, by_number, number_hash);
struct root { struct tree_head tree; struct hash_head hash; uint64_t step[WRITERS]; };
static ps_container *box;
static struct tree tree;
static struct hash hash;

static int set_up(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    tree = (struct tree){.head = &r->tree, .memory = ps_in(box)};
    hash = (struct hash){.head = &r->hash, .memory = ps_in(box)};
    int error = tree_set_up(&tree);
    error = error ? error : hash_set_up(&hash);
    return error == -EEXIST ? 0 : error;
}

static uint32_t state;
static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state * below >> 32);
}

struct work { unsigned writer; uint64_t step; int abort; };
static void step_begin(unsigned writer, uint64_t step)
{
    state = writer * 2654435761u + (uint32_t)step * 40503u;
}
/* The next change: 1 puts the key, 0 removes it. */
static int step_draw(unsigned writer, uint32_t *n)
{
    *n = draw(KEYS) * WRITERS + writer;
    return draw(10) < 8;
}

static int step(void *arg)
{
    const struct work *w = arg;
    struct root *r = ps_root(box);
    uint64_t *count = ps_write(&r->step[w->writer]);
    struct record record = {w->step};
    int error = count ? 0 : -errno;
    if (count) *count = w->step;
    PS_ACCESS(tree_keyed, t, &tree, PS_CHANGE);
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    step_begin(w->writer, w->step);
    for (int i = 0; i < EACH && !error; i++) {
        struct number key;
        int puts = step_draw(w->writer, &key.n);
        error = puts ? tree_put(&t, &key, &record) : tree_remove(&t, &key);
        error = error && error != -ENOENT ? error
                : puts                    ? hash_put(&h, &key, &record)
                                          : hash_remove(&h, &key);
        error = error == -ENOENT ? 0 : error;
    }
    return error ? error : w->abort ? -ECANCELED : 0;
}

static int work(unsigned writer, uint64_t steps)
{
    struct work w = {.writer = writer};
    for (w.step = 1; w.step <= steps; w.step++) {
        w.abort = w.step % 5 == 0;
        if (w.abort && ps_transaction(step, &w) != -ECANCELED)
            return 1;
        w.abort = 0;
        if (ps_transaction(step, &w) != 0 || write(1, "ack\n", 4) != 4)
            return 1;
    }
    return 0;
}

static uint64_t model[KEYS * WRITERS];
static int check(void *unused)
{
    (void)unused;
    const struct root *r = ps_root(box);
    const char *why = NULL;
    uint64_t sum = 0, keys = 0, wrong = 0;
    struct ps_items_stats trees = {0}, hashes = {0};
    PS_ACCESS(tree_keyed, t, &tree, PS_LOOK);
    PS_ACCESS(hash_keyed, h, &hash, PS_LOOK);
    PS_ACCESS(tree_range, range, &tree, NULL, NULL, PS_UP, PS_LOOK);
    for (unsigned n = 0; n < WRITERS; sum += r->step[n++])
        for (uint64_t s = 1; s <= r->step[n]; s++) {
            step_begin(n, s);
            for (int i = 0; i < EACH; i++) {
                uint32_t key;
                int puts = step_draw(n, &key);
                model[key] = puts ? s : 0;
            }
        }
    for (uint32_t n = 0; n < KEYS * WRITERS; n++) {
        const struct record *record = hash_find(&h, &(struct number){n});
        keys += model[n] != 0;
        wrong += (record ? record->step : 0) != model[n];
        if (!model[n]) continue;
        record = tree_next(&range);
        wrong += !record || tree_key(&range)->n != n || record->step != model[n];
    }
    wrong += tree_next(&range) != NULL;
    if (ps_items_check(&t.access, &trees, &why) || ps_items_check(&h.access, &hashes, &why))
        printf("%s\n", why), wrong++;
    wrong += trees.records != keys || hashes.records != keys;
    printf("step %lu: %s, %lu leaves and %lu\n", sum, wrong ? "DIFFERENT" : "equal", trees.leaves,
           hashes.leaves);
    return wrong ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    int bad = 0, status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    box = ps_open("item-index-cut", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (argc != 2 || !box || ps_locking(box, PS_LOCK_ITEMS) || ps_transaction(set_up, NULL))
        return 2;
    if (strcmp(argv[1], "check") == 0)
        return ps_transaction(check, NULL) != 0;
    for (unsigned n = 0; n < WRITERS; n++)
        if (fork() == 0)
            _exit(work(n, (uint64_t)atoi(argv[1])));
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
