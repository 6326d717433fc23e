/*
 * pstore_beside.c - structures in a container: who must not wait for whom.
 *
 * Aim     what the headers say of locks: two transactions that change different places of one
 *         structure go on beside each other.
 * Method  one thread has both. The first makes its change and is suspended; the second makes its
 *         own and commits; then the first one commits. If the second had to wait for the first,
 *         nobody would let it go on: -EDEADLK. That is what the second of two who push gets, so the
 *         test can fail. Strict, so that rights end with the transaction that took them. All
 *         structures are larger than a node.
 */
#include <structures/bitmap.h>
#include <structures/hash.h>
#include <structures/queue.h>
#include <structures/rtree.h>
#include <structures/tree.h>
#include <structures/vector.h>

#include "pstore_test.h"

enum { RECORDS = 3000 };
struct number { uint32_t n; };
struct record { uint64_t id, more; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
static uint64_t number_hash(const struct number *key) { return key->n; }
PS_TREE(tree, struct number, struct record, by_number);
PS_HASH(hash, struct number, struct record, by_number, number_hash);
PS_VECTOR(vector, struct record);
PS_QUEUE(queue, struct record);
PS_BITMAP(bits);
PS_RTREE(space, struct record, 2);
struct root {
    struct tree_head tree;
    struct hash_head hash;
    struct vector_head vector;
    struct queue_head queue;
    struct bits_head bits;
    struct space_head space;
};

static ps_container *box;
static struct tree tree;
static struct hash hash;
static struct vector vector;
static struct queue queue;
static struct bits bits;
static struct space space;

static int set_up(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    tree = (struct tree){.head = &root->tree, .memory = ps_in(box)};
    hash = (struct hash){.head = &root->hash, .memory = ps_in(box)};
    vector = (struct vector){.head = &root->vector, .memory = ps_in(box)};
    queue = (struct queue){.head = &root->queue, .memory = ps_in(box)};
    bits = (struct bits){.head = &root->bits, .memory = ps_in(box)};
    space = (struct space){.head = &root->space, .memory = ps_in(box)};
    return tree_set_up(&tree) || hash_set_up(&hash) || vector_set_up(&vector) ||
           queue_set_up(&queue) || bits_set_up(&bits) || space_set_up(&space);
}

static int fill(void *unused)
{
    (void)unused;
    PS_ACCESS(tree_keyed, t, &tree, PS_CHANGE);
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    PS_ACCESS(vector_items, v, &vector, PS_CHANGE);
    PS_ACCESS(queue_ends, q, &queue, PS_CHANGE);
    PS_ACCESS(space_boxes, s, &space, PS_CHANGE);
    int error = 0;
    for (uint32_t n = 0; n < RECORDS; n++) {
        struct number key = {n};
        struct record record = {n, n};
        struct space_box at = {{n % 60, n / 60}, {n % 60, n / 60}};
        error |= tree_insert(&t, &key, &record) | hash_insert(&h, &key, &record) |
                 vector_append(&v, &record) | queue_push(&q, &record) |
                 space_insert(&s, &at, &record);
    }
    PS_ACCESS(bits_bits, b, &bits, PS_CHANGE);
    return error | bits_set(&b, 1) | bits_set(&b, 1000001);
}

/* ---- changes, at places far from each other ---- */

static int tree_at(uint32_t n)
{
    PS_ACCESS(tree_keyed, t, &tree, PS_CHANGE);
    return tree_remove(&t, &(struct number){n});
}
static int tree_first(void *unused) { (void)unused; return tree_at(10); }
static int tree_last(void *unused) { (void)unused; return tree_at(RECORDS - 10); }

static int hash_at(uint32_t n)
{
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    return hash_put(&h, &(struct number){n}, &(struct record){n, 0});
}
static int hash_first(void *unused) { (void)unused; return hash_at(10); }
static int hash_last(void *unused) { (void)unused; return hash_at(RECORDS - 10); }

static int vector_at(uint32_t n)
{
    PS_ACCESS(vector_items, v, &vector, PS_CHANGE);
    struct record *record = vector_change(&v, n);
    return record ? (record->more = 0, 0) : -errno;
}
static int vector_first(void *unused) { (void)unused; return vector_at(10); }
static int vector_last(void *unused) { (void)unused; return vector_at(RECORDS - 10); }

static int push(void *unused)
{
    (void)unused;
    PS_ACCESS(queue_ends, q, &queue, PS_CHANGE);
    return queue_push(&q, &(struct record){1, 2});
}
static int pop(void *unused)
{
    (void)unused;
    PS_ACCESS(queue_ends, q, &queue, PS_CHANGE);
    struct record record;
    return queue_pop(&q, &record);
}

static int bit_at(uint64_t n)
{
    PS_ACCESS(bits_bits, b, &bits, PS_CHANGE);
    return bits_set(&b, n);
}
static int bit_first(void *unused) { (void)unused; return bit_at(10); }
static int bit_last(void *unused) { (void)unused; return bit_at(1000010); }

static int space_at(double x, double y)
{
    PS_ACCESS(space_boxes, s, &space, PS_CHANGE);
    return space_insert(&s, &(struct space_box){{x, y}, {x, y}}, &(struct record){1, 2});
}
static int space_first(void *unused) { (void)unused; return space_at(5, 5); }
static int space_last(void *unused) { (void)unused; return space_at(55, 45); }

/* The second change while the first one is made and not committed. */
static int beside(int (*first)(void *), int (*second)(void *))
{
    struct ps_options options = {.retries = 1};
    int error = ps_begin(NULL);
    if (error || (error = first(NULL)))
        return error;
    ps_tx *there = ps_suspend();
    int result = ps_transaction_opt(second, NULL, &options);
    error = ps_resume(there);
    return error || (error = ps_commit()) ? error : result;
}

int main(void)
{
    box = ps_open("beside", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    ps_strict(1);
    tap_plan(10);
    is(box ? ps_transaction(set_up, NULL) : -errno, 0, "structures are set up");
    is(ps_transaction(fill, NULL), 0, "and filled");
    is(beside(push, pop), 0, "one pops while another one pushes");
    is(beside(pop, push), 0, "and the other way round");
    is(beside(push, push), -EDEADLK, "two who push wait for each other");
    is(beside(tree_first, tree_last), 0, "a tree: different leaves are changed");
    is(beside(hash_first, hash_last), 0, "a hash: different buckets");
    is(beside(vector_first, vector_last), 0, "a vector: different blocks");
    is(beside(bit_first, bit_last), 0, "a bitmap: different blocks");
    is(beside(space_first, space_last), 0, "an R*-tree: different leaves");
    return tap_end();
}
