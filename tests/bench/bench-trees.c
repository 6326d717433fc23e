/*
 * bench-trees.c - the B+-tree in a container and, by the same object file, on the heap of the C
 * library.
 *
 * Insertions are one transaction, its begin and commit counted; look-ups are the second pass of a
 * transaction, so that all pages are at hand. Instructions count those of kernel and store manager,
 * too.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <structures/tree.h>

enum { RECORDS = 100000 };
struct number { uint64_t n; };
struct record { uint64_t value, more; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE(index, struct number, struct record, by_number);
PS_STRING_TREE(word, struct record);
struct root { struct index_head index, loaded; struct word_head words; };

static ps_container *box;
static struct root volatile_root;
static struct index numbers, loaded;
static struct word words;

static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static void need(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench-trees: %s: %s\n", what, ps_strerror(errno));
    exit(1);
}

/* Each number below RECORDS once, in no order. */
static uint64_t scattered(uint64_t i) { return i * 61543 % RECORDS; }

static void place(struct root *root, struct ps_memory memory)
{
    numbers = (struct index){.head = &root->index, .memory = memory};
    loaded = (struct index){.head = &root->loaded, .memory = memory};
    words = (struct word){.head = &root->words, .memory = memory};
}

static int set_up(void *unused)
{
    (void)unused;
    place(ps_root(box), ps_in(box));
    return index_set_up(&numbers) || index_set_up(&loaded) || word_set_up(&words);
}

static int insert(void *unused)
{
    (void)unused;
    PS_ACCESS(index_keyed, a, &numbers, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (index_insert(&a, &(struct number){scattered(i)}, &(struct record){i, i}))
            return -EINVAL;
    return 0;
}

static int insert_words(void *unused)
{
    (void)unused;
    PS_ACCESS(word_keyed, a, &words, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++) {
        char key[32];
        snprintf(key, sizeof key, "record-%08lu", scattered(i));
        if (word_insert(&a, key, &(struct record){i, i}))
            return -EINVAL;
    }
    return 0;
}

static int load(void *unused)
{
    (void)unused;
    PS_ACCESS(index_load, l, &loaded, 90);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (index_add(&l, &(struct number){i}, &(struct record){i, i}))
            return -EINVAL;
    return 0;
}

/* Two passes; the instructions of the second one. */
static uint64_t spent;
static int look_up(void *unused)
{
    (void)unused;
    PS_ACCESS(index_keyed, a, &numbers, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (!index_find(&a, &(struct number){scattered(i)}))
                return -EINVAL;
        spent = counter() - from;
    }
    return 0;
}

static int go_through(void *unused)
{
    (void)unused;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter(), n = 0;
        PS_ACCESS(index_range, r, &numbers, NULL, NULL, PS_UP, PS_LOOK);
        while (index_next(&r))
            n++;
        spent = counter() - from;
        if (n != RECORDS)
            return -EINVAL;
    }
    return 0;
}

static const struct { const char *name, *reach; int (*run)(void *); int inside; } parts[] = {
    {"insert, one transaction", "1.5", insert, 0},
    {"insert strings, one transaction", "1.5", insert_words, 0},
    {"bulk load, 90 %", "-", load, 0},
    {"look-up, cached", "1.05", look_up, 1},
    {"range, cached", "1.05", go_through, 1},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static double part(int i, int kept)
{
    uint64_t from = counter();
    int error = kept ? ps_transaction(parts[i].run, NULL) : parts[i].run(NULL);
    uint64_t all = counter() - from;
    errno = -error;
    need(error == 0, parts[i].name);
    return (double)(parts[i].inside ? spent : all) / RECORDS;
}

int main(void)
{
    double on_heap[PARTS];
    box = ps_open("bench-trees", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    need(box != NULL, "the container");
    place(&volatile_root, ps_volatile());
    need(!index_set_up(&numbers) && !index_set_up(&loaded) && !word_set_up(&words), "set-up");
    for (int i = 0; i < PARTS; i++)
        on_heap[i] = part(i, 0);
    need(ps_transaction(set_up, NULL) == 0, "set-up in the container");
    for (int i = 0; i < PARTS; i++) {
        double kept = part(i, 1);
        printf("tree: %s, on the heap\tinstructions\t%.0f\t-\n", parts[i].name, on_heap[i]);
        printf("tree: %s, in a container\tinstructions\t%.0f\t-\n", parts[i].name, kept);
        printf("tree: %s, container over heap\tratio\t%.3f\t%s\n", parts[i].name, kept / on_heap[i],
               parts[i].reach);
    }
    return 0;
}
