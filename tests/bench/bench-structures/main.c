/*
 * main.c - bench-structures: structures in a container and on the C library's heap, by the same
 * object files.
 *
 * Insertions are one transaction, its begin and commit counted; look-ups are the second pass of a
 * transaction, so that all pages are at hand, and begin when what was committed before is at home.
 * Instructions count those of kernel and store manager, too.
 */
#include <pstore.h>
#include <structures/hash.h>
#include <structures/heap.h>
#include <structures/large.h>
#include <structures/queue.h>
#include <structures/rope.h>
#include <structures/rtree.h>
#include <structures/tree.h>
#include <structures/vector.h>

#include "tests/bench/bench-structures/indexes.h"
#include "tests/bench/measure.h"

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
PS_UNIFORM(units, 64);
PS_UNIFORM(nodes, PS_NODE_BYTES - 48);
PS_DYNAMIC(items);
PS_LARGE(film);
struct root {
    struct index_head index, loaded;
    struct word_head words;
    struct hash_head hash;
    struct vector_head vector;
    struct queue_head queue;
    struct rope_head rope;
    struct space_head space;
    struct units_head units;
    struct nodes_head nodes;
    struct items_head items;
    struct film_head film;
    uint64_t node;                      /* that is being filled */
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
static struct units units;
static struct nodes nodes;
static struct items items;
static struct film film;
static struct root *here;

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
    here = root;
    units = (struct units){.head = &root->units, .memory = memory};
    nodes = (struct nodes){.head = &root->nodes, .memory = memory};
    items = (struct items){.head = &root->items, .memory = memory};
    film = (struct film){.head = &root->film, .memory = memory};
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
           rope_set_up(&rope) || space_set_up(&space) || units_set_up(&units) ||
           nodes_set_up(&nodes) || items_set_up(&items) || film_set_up(&film);
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

/* ---- heaps ---- */

static int units_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(units_units, a, &units, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++) {
        int64_t unit = units_take(&a, NULL);
        if (unit < 0)
            return -EINVAL;
        *(struct record *)units_at(&a, (uint64_t)unit) = (struct record){i, i};
    }
    return 0;
}

static int units_look(void *unused)
{
    (void)unused;
    PS_ACCESS(units_units, a, &units, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (!units_at(&a, scattered(i)))
                return -EINVAL;
        spent = counter() - from;
    }
    return 0;
}

/* A node is full: another one. */
static int node_next(void *access, size_t bytes)
{
    struct nodes_units *a = access;
    int64_t node = nodes_take(a, NULL);
    (void)bytes;
    if (node < 0)
        return (int)node;
    ps_variable_make(nodes_at(a, here->node = (uint64_t)node), PS_NODE_BYTES - 48, 8);
    return -EAGAIN;                     /* it is in that one that there is room */
}

/* Allocations of 8 to 40 bytes in nodes of a uniform heap. */
static int variable_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(nodes_units, a, &nodes, PS_CHANGE);
    struct ps_expansion expansion = {node_next, &a};
    if (node_next(&a, 0) != -EAGAIN)
        return -EINVAL;
    struct ps_variable *node = nodes_at(&a, here->node);
    for (uint64_t i = 0; i < RECORDS; i++) {
        int64_t at = ps_variable_take(node, 8 + i % 33, &expansion);
        if (at == -EAGAIN) {
            node = nodes_at(&a, here->node);
            at = ps_variable_take(node, 8 + i % 33, NULL);
        }
        if (at < 0)
            return -EINVAL;
        *(uint64_t *)ps_variable_at(node, (uint64_t)at) = i;
    }
    return 0;
}

static int items_fill(void *unused)
{
    (void)unused;
    PS_ACCESS(items_items, a, &items, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++) {
        int64_t item = items_take(&a, 8 + i % 33);
        if (item < 0)
            return -EINVAL;
        *(uint64_t *)items_at(&a, (uint64_t)item, NULL) = i;
    }
    return 0;
}

static int items_look(void *unused)
{
    (void)unused;
    PS_ACCESS(items_items, a, &items, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (!items_at(&a, scattered(i), NULL))
                return -EINVAL;
        spent = counter() - from;
    }
    return 0;
}

/* Each item becomes larger, in no order: most of them move. */
static int items_grow(void *unused)
{
    (void)unused;
    PS_ACCESS(items_items, a, &items, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (items_resize(&a, scattered(i), 48) < 0)
            return -EINVAL;
    return 0;
}

static int film_fill(void *unused)
{
    (void)unused;
    static const char frame[100];
    PS_ACCESS(film_bytes, a, &film, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS; i++)
        if (film_write(&a, i * sizeof frame, frame, sizeof frame) != sizeof frame)
            return -EINVAL;
    return 0;
}

static int film_look(void *unused)
{
    (void)unused;
    char frame[100];
    PS_ACCESS(film_bytes, a, &film, PS_LOOK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t from = counter();
        for (uint64_t i = 0; i < RECORDS; i++)
            if (film_read(&a, scattered(i) * sizeof frame, frame, sizeof frame) != sizeof frame)
                return -EINVAL;
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
    {"uniform heap: take 64 bytes, one transaction", "-", units_fill, 0, RECORDS},
    {"uniform heap: find, cached", "1.05", units_look, 1, RECORDS},
    {"variable heaps in nodes: take, one transaction", "-", variable_fill, 0, RECORDS},
    {"dynamic heap: take, one transaction", "-", items_fill, 0, RECORDS},
    {"dynamic heap: find, cached", "1.05", items_look, 1, RECORDS},
    {"dynamic heap: grow, one transaction", "-", items_grow, 0, RECORDS},
    {"large object: write 100 bytes, one transaction", "-", film_fill, 0, RECORDS},
    {"large object: read 100 bytes, cached", "1.05", film_look, 1, RECORDS},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static double part(int i, int kept)
{
    if (kept && parts[i].inside)
        need(ps_checkpoint() == 0, "a checkpoint");
    uint64_t from = counter();
    int error = kept ? ps_transaction(parts[i].run, NULL) : parts[i].run(NULL);
    uint64_t all = counter() - from;
    errno = -error;
    need(error == 0, parts[i].name);
    return (double)(parts[i].inside ? spent : all) / parts[i].each;
}

int main(int argc, char **argv)
{
    double on_heap[PARTS];
    usage(argc, argv, argc == 1,
          "usage: bench-structures\nEach structure on the heap and in a container; counts "
          "instructions under `make bench ONLY=structures`.\n");
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
    indexes();
    return 0;
}
