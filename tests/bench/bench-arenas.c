/*
 * bench-arenas.c - 16 writers in one tree: what it costs that hot fields share pages with nodes.
 *
 * Each writer looks a key up and stores once: to the key's value, or to a counter of look-ups.
 * What differs is the place of what it stores to. Plain allocation puts values on the pages of
 * nodes. The writers are threads, each
 * with a view, and begin together. Nothing is changed but by their one store, so each deadlock is
 * of two that had read the page to which the other one stored.
 */
#include <errno.h>
#include <pstore.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/measure.h"

enum { WRITERS = 16, ROUNDS = 50, NODES = 3000 };
enum place {
    IN_NODE, WITH_NODES, VALUES_APART, VALUES_TOUCHED, COUNTER_AT_TOP, COUNTER_APART, COUNTER_EACH,
    PLACES
};
struct node { long key, count; struct node *left, *right; long *value; };
struct tree { struct node *top; long looked_up; };
struct slot { long n; };
struct root {
    struct tree tree;
    ps_arena *nodes, *values;
    struct slot *counter[WRITERS];
};

static const char *const names[PLACES] = {
    "values in the nodes",
    "values on the pages of nodes",
    "values in an arena of their own",
    "values in an arena of their own, ps_touch before the store",
    "a counter beside the tree's top",
    "a counter in an arena of its own",
    "a counter for each writer, in arenas of their own",
};
static ps_container *c;
static enum place place;
static pthread_barrier_t start;

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "bench-arenas: %s: %s\n", what, ps_strerror(error));
    exit(1);
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 2;
}

/* ---- the tree ---- */

static long *value_make(struct root *r, struct node *n)
{
    switch (place) {
    case WITH_NODES: return ps_new(c, long, n);
    case VALUES_APART:
    case VALUES_TOUCHED: return ps_new_in(r->values, long, NULL);
    default: return &n->count;
    }
}

/* Behind its parent, as a program without arenas would; or in the arena of nodes. */
static struct node *node_make(struct root *r, struct node *parent)
{
    bool mixed = place == IN_NODE || place == WITH_NODES || place == COUNTER_AT_TOP;
    struct node *n = mixed ? ps_new(c, struct node, parent)
                           : ps_new_in(r->nodes, struct node, parent);
    if (n && !(n->value = value_make(r, n)))
        return NULL;
    return n;
}

static int counters_make(struct root *r)
{
    for (int i = 0; i < WRITERS; i++) {
        ps_arena *own = place == COUNTER_EACH || i == 0 ? ps_arena_make(c) : NULL;
        r->counter[i] = own ? ps_new_in(own, struct slot, NULL) : r->counter[0];
        if (!r->counter[i])
            return -errno;
    }
    return 0;
}

static int grow(void *unused)
{
    struct root *r = ps_root(c);
    uint32_t seed = 1;
    (void)unused;
    if (!r || !(r->nodes = ps_arena_make(c)) || !(r->values = ps_arena_make(c)))
        return -errno;
    for (int i = 0; i < NODES; i++) {
        struct node **link = &r->tree.top, *last = NULL;
        long key = draw(&seed);
        for (; *link; link = key < (*link)->key ? &(*link)->left : &(*link)->right)
            last = *link;
        struct node *n = node_make(r, last);
        if (!n)
            return -errno;
        n->key = key;
        *link = n;
    }
    return counters_make(r);
}

/* ---- the writers ---- */

struct work { unsigned writer; long key; };

static int look_up_and_store(void *arg)
{
    const struct work *w = arg;
    struct root *r = ps_root(c);
    const struct node *n = r->tree.top, *next;
    while ((next = w->key < n->key ? n->left : n->right))
        n = next;
    switch (place) {
    case COUNTER_AT_TOP: ++r->tree.looked_up; break;
    case COUNTER_APART:
    case COUNTER_EACH: ++r->counter[w->writer]->n; break;
    case VALUES_TOUCHED: ps_touch(n->value, sizeof *n->value); ++*n->value; break;
    default: ++*n->value;
    }
    return 0;
}

static void *writer(void *arg)
{
    struct work w = {.writer = (unsigned)(uintptr_t)arg};
    uint32_t seed = (w.writer + 1) * 7919;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        w.key = draw(&seed);
        int e = ps_transaction(look_up_and_store, &w);
        if (e)
            fail("a writer", e);
    }
    return NULL;
}

/* All stores are there, whatever was run again. */
static int count(void *sum)
{
    struct root *r = ps_root(c);
    *(long *)sum = r->tree.looked_up;
    for (int i = 0; i < WRITERS; i++)
        if (i == 0 || r->counter[i] != r->counter[0])
            *(long *)sum += r->counter[i]->n;
    for (struct node *n = NULL; (n = ps_each(c, "struct node", n)) != NULL;)
        *(long *)sum += *n->value;
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void container_make(void)
{
    ps_delete("bench-arenas");
    c = ps_open("bench-arenas", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(grow, NULL) : -errno;
    if (e)
        fail("the tree", e);
}

static void run(void)
{
    pthread_t thread[WRITERS];
    struct ps_stats before, after;
    long sum = 0;
    container_make();
    ps_stats(&before);
    pthread_barrier_init(&start, NULL, WRITERS + 1);
    for (uintptr_t i = 0; i < WRITERS; i++)
        if (pthread_create(&thread[i], NULL, writer, (void *)i))
            fail("threads", -EAGAIN);
    double from = seconds();
    pthread_barrier_wait(&start);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
    double took = seconds() - from;
    ps_stats(&after);
    int e = ps_transaction(count, &sum);
    if (e || sum != WRITERS * ROUNDS)
        fail("the sum", e ? e : -EUCLEAN);
    printf("16 writers, %s\tdeadlocks in 800 commits\t%lu\t%s\n", names[place],
           (unsigned long)(after.deadlocks - before.deadlocks),
           place == VALUES_TOUCHED || place == COUNTER_EACH ? "0" : "-");
    printf("16 writers, %s: rate\tcommits a second\t%.0f\t-\n", names[place], sum / took);
    ps_close(c);
}

int main(int argc, char **argv)
{
    usage(argc, argv, argc == 1,
          "usage: bench-arenas\nDeadlocks and commits of 16 writers, by what shares pages.\n");
    for (place = 0; place < PLACES; place++)
        run();
    ps_delete("bench-arenas");
    return 0;
}
