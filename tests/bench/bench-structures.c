/*
 * bench-structures.c - the structures in a container and, by the same object files, on the heap of
 * the C library.
 *
 * Insertions are one transaction, its begin and commit counted; look-ups are the second pass of a
 * transaction, so that all pages are at hand. Instructions count those of kernel and store manager,
 * too.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <structures/hash.h>
#include <structures/queue.h>
#include <structures/rope.h>
#include <structures/rtree.h>
#include <structures/tree.h>
#include <structures/vector.h>

enum { RECORDS = 100000, BOXES = 20000 };
struct number { uint64_t n; };
struct record { uint64_t value, more; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE(index, struct number, struct record, by_number);
static uint64_t number_hash(const struct number *key) { return key->n; }
PS_STRING_TREE(word, struct record);
PS_HASH(hash, struct number, struct record, by_number, number_hash);
PS_VECTOR(vector, struct record);
PS_QUEUE(queue, struct record);
PS_ROPE(rope);
PS_RTREE(space, struct record, 2);
struct root {
    struct index_head index, loaded;
    struct word_head words;
    struct hash_head hash;
    struct vector_head vector;
    struct queue_head queue;
    struct rope_head rope;
    struct space_head space;
};

static ps_container *box;
static struct root volatile_root;
static struct index numbers, loaded;
static struct word words;
static struct hash hash;
static struct vector vector;
static struct queue queue;
static struct rope rope;
static struct space space;

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
    fprintf(stderr, "bench-structures: %s: %s\n", what, ps_strerror(errno));
    exit(1);
}

/* Each number below RECORDS once, in no order. */
static uint64_t scattered(uint64_t i) { return i * 61543 % RECORDS; }

static void place(struct root *root, struct ps_memory memory)
{
    numbers = (struct index){.head = &root->index, .memory = memory};
    loaded = (struct index){.head = &root->loaded, .memory = memory};
    words = (struct word){.head = &root->words, .memory = memory};
    hash = (struct hash){.head = &root->hash, .memory = memory};
    vector = (struct vector){.head = &root->vector, .memory = memory};
    queue = (struct queue){.head = &root->queue, .memory = memory};
    rope = (struct rope){.head = &root->rope, .memory = memory};
    space = (struct space){.head = &root->space, .memory = memory};
}

static int all_set_up(void)
{
    return index_set_up(&numbers) || index_set_up(&loaded) || word_set_up(&words) ||
           hash_set_up(&hash) || vector_set_up(&vector) || queue_set_up(&queue) ||
           rope_set_up(&rope) || space_set_up(&space);
}

static int set_up(void *unused)
{
    (void)unused;
    place(ps_root(box), ps_in(box));
    return all_set_up();
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

static int hash_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (hash_insert(&h, &(struct number){scattered(i)}, &(struct record){i, i}))
            return -EINVAL;
    return 0;
}

static int hash_look(void *unused)
{
    (void)unused;
    PS_ACCESS(hash_keyed, h, &hash, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (!hash_find(&h, &(struct number){scattered(i)}))
                return -EINVAL;
        spent = counter() - from;
    }
    return 0;
}

static int vector_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(vector_items, v, &vector, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (vector_append(&v, &(struct record){i, i}))
            return -EINVAL;
    return 0;
}

static int vector_look(void *unused)
{
    (void)unused;
    PS_ACCESS(vector_items, v, &vector, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (!vector_get(&v, scattered(i)))
                return -EINVAL;
        spent = counter() - from;
    }
    return 0;
}

static int queue_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(queue_ends, q, &queue, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (queue_push(&q, &(struct record){i, i}))
            return -EINVAL;
    return 0;
}

static int queue_empty(void *unused)
{
    (void)unused;
    PS_ACCESS(queue_ends, q, &queue, PS_CHANGE);
    struct record record;
    for (uint64_t i = 0; i < RECORDS; i++)
        if (queue_pop(&q, &record) || record.value != i)
            return -EINVAL;
    return 0;
}

/* Words, each at some place of the text that is there. */
static int rope_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(rope_text, r, &rope, PS_CHANGE);
    for (uint64_t i = 0; i < BOXES; i++)
        if (rope_insert(&r, scattered(i) * 10 % (i * 10 + 1), "some words", 10))
            return -EINVAL;
    return 0;
}

/* Small boxes all over a square. */
static struct space_box box_of(uint64_t i)
{
    double x = (double)(i * 7919 % 10007), y = (double)(i * 104729 % 10009);
    return (struct space_box){{x, y}, {x + 9, y + 9}};
}

static int space_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(space_boxes, s, &space, PS_CHANGE);
    for (uint64_t i = 0; i < BOXES; i++) {
        struct space_box box = box_of(i);
        if (space_insert(&s, &box, &(struct record){i, i}))
            return -EINVAL;
    }
    return 0;
}

static int space_look(void *unused)
{
    (void)unused;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < BOXES; i++) {
            struct space_box box = box_of(i);
            PS_ACCESS(space_range, r, &space, &box, PS_ENCLOSE, PS_LOOK);
            if (!space_next(&r))
                return -EINVAL;
        }
        spent = counter() - from;
    }
    return 0;
}

static const struct { const char *name, *reach; int (*run)(void *); int inside, each; } parts[] = {
    {"tree: insert, one transaction", "1.5", insert, 0, RECORDS},
    {"tree: insert strings, one transaction", "1.5", insert_words, 0, RECORDS},
    {"tree: bulk load, 90 %", "-", load, 0, RECORDS},
    {"tree: look-up, cached", "1.05", look_up, 1, RECORDS},
    {"tree: range, cached", "1.05", go_through, 1, RECORDS},
    {"hash: insert, one transaction", "1.5", hash_fill, 0, RECORDS},
    {"hash: look-up, cached", "1.05", hash_look, 1, RECORDS},
    {"vector: append, one transaction", "-", vector_fill, 0, RECORDS},
    {"vector: look-up, cached", "1.05", vector_look, 1, RECORDS},
    {"queue: push, one transaction", "-", queue_fill, 0, RECORDS},
    {"queue: pop, one transaction", "-", queue_empty, 0, RECORDS},
    {"rope: insert 10 bytes, one transaction", "1.5", rope_fill, 0, BOXES},
    {"R*-tree: insert, one transaction", "1.5", space_fill, 0, BOXES},
    {"R*-tree: find a box, cached", "1.05", space_look, 1, BOXES},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static double part(int i, int kept)
{
    uint64_t from = counter();
    int error = kept ? ps_transaction(parts[i].run, NULL) : parts[i].run(NULL);
    uint64_t all = counter() - from;
    errno = -error;
    need(error == 0, parts[i].name);
    return (double)(parts[i].inside ? spent : all) / parts[i].each;
}

int main(void)
{
    double on_heap[PARTS];
    box = ps_open("bench-structures", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    need(box != NULL, "the container");
    place(&volatile_root, ps_volatile());
    need(!all_set_up(), "set-up");
    for (int i = 0; i < PARTS; i++)
        on_heap[i] = part(i, 0);
    need(ps_transaction(set_up, NULL) == 0, "set-up in the container");
    for (int i = 0; i < PARTS; i++) {
        double kept = part(i, 1);
        printf("%s, on the heap\tinstructions\t%.0f\t-\n", parts[i].name, on_heap[i]);
        printf("%s, in a container\tinstructions\t%.0f\t-\n", parts[i].name, kept);
        printf("%s, container over heap\tratio\t%.3f\t%s\n", parts[i].name, kept / on_heap[i],
               parts[i].reach);
    }
    return 0;
}
