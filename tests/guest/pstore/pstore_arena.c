/*
 * pstore_arena.c - arenas: objects that share pages among themselves and with nothing else.
 *
 * Aim     no page holds objects of two arenas, or of one and of none, whatever hint is given, also
 *         when processes one after the other fill them; room is found again; an arena goes as a
 *         whole; and what it is for: writers that meet in no page do not wait for each other.
 * Method  the page of each object is noted under its arena. For the last, 16 processes add to
 *         values that a tree leads to, once with nodes and values mixed, once with an arena for
 *         each; deadlocks are counted.
 */
#include "pstore_test.h"

enum { ARENAS = 3, OBJECTS = 400, WRITERS = 16, ROUNDS = 50, VALUES = 3000 };
struct entry { char *at; uint32_t bytes, arena; };
struct node { long key; struct node *left, *right; long *value; };
struct root { uint32_t seed, count; ps_arena *arena[ARENAS]; struct entry entry[OBJECTS]; };
struct tree { uint32_t seed; ps_arena *nodes, *values; struct node *top; };

static ps_container *c;

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

/* ---- pages ---- */

static int make(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    for (int i = 0; root && i < ARENAS; i++)
        if (!root->arena[i] && !(root->arena[i] = ps_arena_make(c)))
            return -errno;
    return root ? 0 : -errno;
}

/* Arena ARENAS is none. */
static int fill(void *count)
{
    struct root *root = ps_root(c);
    for (int i = *(int *)count; i > 0 && root->count < OBJECTS; i--) {
        struct entry *e = &root->entry[root->count];
        const void *near = root->count && draw(&root->seed, 2)
                               ? root->entry[draw(&root->seed, root->count)].at
                               : NULL;
        e->arena = draw(&root->seed, ARENAS + 1);
        e->bytes = 16 + draw(&root->seed, draw(&root->seed, 20) ? 500 : 12000);
        e->at = e->arena < ARENAS
                    ? ps_alloc_in(root->arena[e->arena], e->bytes, near, "struct part")
                    : ps_alloc(c, e->bytes, near);
        if (!e->at)
            return -errno;
        memset(e->at, (int)e->arena + 1, e->bytes);
        root->count++;
    }
    return 0;
}

/* Some are freed or get another size. */
static int change(void *count)
{
    struct root *root = ps_root(c);
    for (int i = *(int *)count; i > 0 && root->count > 0; i--) {
        struct entry *e = &root->entry[draw(&root->seed, root->count)];
        if (draw(&root->seed, 2)) {
            if (ps_free(e->at) != 0)
                return -EINVAL;
            *e = root->entry[--root->count];
        } else {
            e->bytes = 16 + draw(&root->seed, 700);
            if (!(e->at = ps_realloc(e->at, e->bytes)))
                return -errno;
            memset(e->at, (int)e->arena + 1, e->bytes);
        }
    }
    return 0;
}

static int fill_and_fail(void *count)
{
    int result = fill(count);
    return result ? result : change(count) ? 1 : 77;
}

/* 0: each object says its arena, and no two of different arenas touch one page. */
static int apart(void *unused)
{
    const struct root *root = ps_root(c);
    (void)unused;
    for (uint32_t i = 0; i < root->count; i++) {
        const struct entry *a = &root->entry[i];
        if (ps_arena_of(a->at) != (a->arena < ARENAS ? root->arena[a->arena] : NULL))
            return 1;
        for (uint32_t b = 0; b < a->bytes; b++)
            if (a->at[b] != (char)(a->arena + 1))
                return 2;
        for (uint32_t k = 0; k < i; k++) {
            const struct entry *b = &root->entry[k];
            uint64_t a0 = (uint64_t)a->at >> 12, a1 = (uint64_t)(a->at + a->bytes - 1) >> 12;
            uint64_t b0 = (uint64_t)b->at >> 12, b1 = (uint64_t)(b->at + b->bytes - 1) >> 12;
            if (a->arena != b->arena && a0 <= b1 && b0 <= a1)
                return 3;
        }
    }
    return 0;
}

static int free_arena(void *number)
{
    struct root *root = ps_root(c);
    uint32_t n = (uint32_t)*(int *)number, kept = 0;
    int result = ps_arena_free(root->arena[n]);
    for (uint32_t i = 0; i < root->count; i++)
        if (root->entry[i].arena != n)
            root->entry[kept++] = root->entry[i];
    root->count = kept;
    return result;
}

static int free_twice(void *number)
{
    struct root *root = ps_root(c);
    ps_arena *arena = root->arena[*(int *)number];
    void *own = ps_alloc(c, 64, NULL);
    return ps_arena_free(arena) == -EINVAL && !ps_alloc_in(arena, 8, NULL, NULL) &&
                   errno == EINVAL && !ps_alloc_in(own, 8, NULL, NULL) && ps_free(arena) == -EINVAL
               ? ps_free(own)
               : 1;
}

static uint64_t pages_used(void)
{
    struct ps_info info[32];
    int count = ps_list(info, 32);
    for (int i = 0; i < count && i < 32; i++)
        if (strcmp(info[i].name, "arena") == 0)
            return info[i].pages_used;
    return 0;
}

static int work(void *unused)
{
    int some = 30, few = 12, result = 0;
    (void)unused;
    for (int i = 0; i < 3 && result == 0; i++) {
        result = ps_transaction(fill, &some);
        if (result == 0)
            result = ps_transaction(change, &few);
        if (result == 0 && ps_transaction(fill_and_fail, &few) != 77)
            result = 1;
    }
    return result ? result : ps_transaction(apart, NULL);
}

static int one_more(void *number)
{
    struct root *root = ps_root(c);
    return ps_alloc_in(root->arena[*(int *)number], 100, NULL, NULL) ? 0 : -errno;
}

static void pages(const char *self)
{
    int bad = 0;
    is(ps_transaction(make, NULL), 0, "three arenas are made");
    uint64_t before = pages_used();
    for (int i = 0; i < 4 && !bad; i++)
        bad = work(NULL) | child_run(self, "work", NULL);
    is(bad, 0, "processes fill, change and undo; no page is of two arenas");
    uint64_t full = pages_used();
    for (int i = 0; i < 10; i++)
        bad |= child_run(self, "one", NULL);
    tap_ok(bad == 0 && pages_used() <= full + 2,
           "processes find the room that others left: %lu, %lu", (unsigned long)full,
           (unsigned long)pages_used());
    is(ps_transaction(apart, NULL), 0, "and mix nothing");
    for (int i = 0; i < ARENAS; i++)
        bad |= ps_transaction(free_arena, &i);
    is(bad, 0, "arenas are freed as a whole");
    is(ps_transaction(apart, NULL), 0, "what is in none stays");
    uint64_t after = pages_used();
    tap_ok(after < full - 30, "their pages come back: %lu, full %lu, after %lu",
           (unsigned long)before, (unsigned long)full, (unsigned long)after);
    is(ps_transaction(free_twice, &(int){0}), 0, "what is no arena, or none any more, is refused");
}

/* ---- writers ---- */

static long *value_make(struct tree *t)
{
    return t->values ? ps_new_in(t->values, long, NULL) : ps_new(c, long, t->top);
}

static int grow(void *apart_)
{
    struct tree *t = ps_named(c, *(int *)apart_ ? "apart" : "mixed", sizeof *t);
    if (*(int *)apart_ && (!(t->nodes = ps_arena_make(c)) || !(t->values = ps_arena_make(c))))
        return -errno;
    for (int i = 0; i < VALUES; i++) {
        struct node **link = &t->top, *last = t->top;
        long key = draw(&t->seed, 1u << 30);
        for (; *link; link = key < (*link)->key ? &(*link)->left : &(*link)->right)
            last = *link;
        struct node *n =
            t->nodes ? ps_new_in(t->nodes, struct node, last) : ps_new(c, struct node, last);
        if (!n || !(n->value = value_make(t)))
            return -errno;
        n->key = key;
        *link = n;
    }
    return 0;
}

struct addition { const char *name; long key; };

/* A writer looks a value up, and adds to it. */
static int add(void *arg)
{
    const struct addition *a = arg;
    const struct tree *t = ps_named(c, a->name, 0);
    if (!t)
        return -errno;
    const struct node *n = t->top, *next;
    while ((next = a->key < n->key ? n->left : n->right))
        n = next;
    ++*n->value;
    return 0;
}

static int writer(const char *name, uint32_t seed)
{
    struct ps_stats stats;
    struct addition a = {.name = name};
    int result = 0;
    for (int i = 0; i < ROUNDS && result == 0; i++) {
        a.key = draw(&seed, 1u << 30);
        result = ps_transaction(add, &a);
    }
    ps_stats(&stats);
    return result ? 255 : stats.deadlocks > 200 ? 200 : (int)stats.deadlocks;
}

static int writers(const char *self, const char *name)
{
    int pid[WRITERS], deadlocks = 0, bad = 0;
    char seed[8];
    for (int i = 0; i < WRITERS; i++) {
        snprintf(seed, sizeof seed, "%d", i + 1);
        pid[i] = child_start(self, name, seed);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = child_wait(pid[i]);
        bad |= status < 0 || status == 255;
        deadlocks += status;
    }
    return bad ? -1 : deadlocks;
}

static int sum(void *name)
{
    long all = 0;
    for (const struct node *n = NULL; (n = ps_each(c, "struct node", n)) != NULL;)
        all += *n->value;
    (void)name;
    return all == 2L * WRITERS * ROUNDS ? 0 : 1;
}

static void meeting(const char *self)
{
    is(ps_transaction(grow, &(int){0}), 0, "a tree, its nodes and values mixed");
    is(ps_transaction(grow, &(int){1}), 0, "a tree with an arena for nodes and one for values");
    int mixed = writers(self, "mixed"), apart_ = writers(self, "apart");
    printf("# %d processes, %d commits: %d deadlocks when nodes and values are mixed, %d when they "
           "are apart\n",
           WRITERS, WRITERS * ROUNDS, mixed, apart_);
    tap_ok(mixed >= 0 && apart_ >= 0, "all writers come to their end, in both");
    is(ps_transaction(sum, NULL), 0, "and nothing is lost");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        c = ps_open("arena", PS_WRITE, PS_LAYOUT(struct root, 1));
        return !c                             ? 250
               : strcmp(argv[1], "work") == 0 ? work(NULL)
               : strcmp(argv[1], "one") == 0  ? ps_transaction(one_more, &(int){1})
                                              : writer(argv[1], (uint32_t)atoi(argv[2]) * 7919u);
    }
    tap_plan(13);
    ps_delete("arena");
    c = ps_open("arena", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c != NULL, 1, "a container is created");
    pages(argv[0]);
    meeting(argv[0]);
    return tap_end();
}
