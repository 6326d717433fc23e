/*
 * relations.c - WAKASHI's selections and parts (user/sites/figures.md): in a container here, or of
 * another site.
 *
 *     relations NAME WORD ...     each word in turn; the container's name may be SITE:NAME
 *
 *     make=N      relations of up to N tuples, and parts; all: reads everything once
 *     scans=N     selections without an index in each relation, N times: the first one is cold
 *     select      selections by an index, cold and warm; by each kind of reference
 *     parts       look-ups and traversals, by each kind of reference
 *     serve, ready, quiet, end    as figures.c has them
 */
#include "figures.h"

enum { SIZES = 9, PARTS = 20000, LINKS = 3, LOOKUPS = 1000, DEPTH = 7, SMALL_IDS = PARTS / 2 };
static const uint64_t sizes[SIZES] = {10000,  25000,  50000,  75000, 100000,
                                      125000, 150000, 175000, 200000};

/* The Wisconsin relation's: its first numbers are a permutation, and the place. */
struct tuple { int32_t unique1, unique2, more[11]; char text[3][52]; };
_Static_assert(sizeof(struct tuple) == 208, "WAKASHI's tuple");
/* Of the binary tree over tuples: it leads to one by pointer, by offset and by number. */
struct node { struct node *left, *right; struct tuple *tuple; uint32_t key, offset; };
struct relation { struct tuple *tuples; struct node *nodes, *top; uint64_t count; };
/* A part names three others by their offsets, which are their ids; or by pointers. */
struct by_offset { uint32_t id, link[LINKS]; int32_t x, y, build; };
struct by_pointer { struct by_pointer *link[LINKS]; int32_t x; } __attribute__((packed));
_Static_assert(sizeof(struct by_offset) == 28 && sizeof(struct by_pointer) == 28, "WAKASHI's part");
struct entry { struct entry *left, *right; void *at; uint64_t id; };
/* Small ids lie in an array, others in a binary tree. */
struct table { void *array[SMALL_IDS]; struct entry *top; };
struct root {
    struct relation relation[SIZES];
    struct by_offset *offsets;
    struct by_pointer *pointers;
    struct table *parts, *tuples;
    uint64_t sizes;
};

static struct root *root(void) { return ps_root(c); }

static struct node *tree(struct relation *r, uint64_t from, uint64_t to)
{
    if (from == to) return NULL;
    uint64_t at = (from + to) / 2;
    struct node *n = &r->nodes[at];
    n->tuple = &r->tuples[at];
    n->key = (uint32_t)at;
    n->offset = (uint32_t)(at * sizeof(struct tuple));
    n->left = tree(r, from, at);
    n->right = tree(r, at + 1, to);
    return n;
}

static int make_relation(void *at)
{
    struct relation *r = &root()->relation[*(int *)at];
    uint64_t n = r->count = sizes[*(int *)at];
    r->tuples = ps_alloc(c, n * sizeof *r->tuples, NULL);
    r->nodes = ps_alloc(c, n * sizeof *r->nodes, NULL);
    if (!r->tuples || !r->nodes) return -errno;
    for (uint64_t i = 0; i < n; i++)
        r->tuples[i] = (struct tuple){.unique1 = (int32_t)(i * 7919 % n), .unique2 = (int32_t)i};
    r->top = tree(r, 0, n);
    return 0;
}

static struct entry *entries(struct entry *all, uint64_t from, uint64_t to)
{
    if (from == to) return NULL;
    uint64_t at = (from + to) / 2;
    struct entry *left = entries(all, from, at);
    struct entry *right = entries(all, at + 1, to);
    all[at].left = left;
    all[at].right = right;
    return &all[at];
}

/* Of things that lie one behind the other; the tree's are those from SMALL_IDS on. */
static struct table *make_table(void *first, size_t bytes, uint64_t count)
{
    struct table *t = ps_alloc(c, sizeof *t, NULL);
    struct entry *all = ps_alloc(c, count * sizeof *all, NULL);
    if (!t || !all) return NULL;
    for (uint64_t i = 0; i < count; i++) all[i].id = i;
    for (uint64_t i = 0; i < count; i++) all[i].at = (char *)first + i * bytes;
    for (uint64_t i = 0; i < SMALL_IDS && i < count; i++) t->array[i] = all[i].at;
    t->top = entries(all, SMALL_IDS, count);
    return t;
}

static int make_parts(void *unused)
{
    struct root *r = root();
    uint64_t seed = 1;
    (void)unused;
    r->offsets = ps_alloc(c, PARTS * sizeof *r->offsets, NULL);
    r->pointers = ps_alloc(c, PARTS * sizeof *r->pointers, NULL);
    if (!r->offsets || !r->pointers) return -errno;
    for (uint32_t i = 0; i < PARTS; i++) {
        r->offsets[i].id = i * 28;
        r->offsets[i].x = r->pointers[i].x = (int32_t)i;
        for (int k = 0; k < LINKS; k++) {
            uint64_t to = (i + PARTS - 100 + draw(&seed, 200)) % PARTS;
            r->offsets[i].link[k] = (uint32_t)to * 28;
            r->pointers[i].link[k] = &r->pointers[to];
        }
    }
    r->parts = make_table(r->offsets, sizeof *r->offsets, PARTS);
    r->tuples = make_table(r->relation[1].tuples, sizeof(struct tuple), sizes[1]);
    return r->parts && r->tuples ? 0 : -errno;
}

static int make_first(void *number)
{
    root()->sizes = *(uint64_t *)number;
    return phase() ? 0 : -errno;
}

static void make(uint64_t most)
{
    uint64_t number = 0;
    while (number < SIZES && sizes[number] <= most) number++;
    need(ps_transaction(make_first, &number), "make");
    for (int i = 0; i < (int)number; i++) need(ps_bulk(c, make_relation, &i), "relation");
    need(ps_bulk(c, make_parts, NULL), "parts");
}

/* ---- selections: a tenth of the tuples ---- */

struct selection { int at, kind; uint64_t found; };

static int scan(void *arg)
{
    struct selection *s = arg;
    const struct relation *r = &root()->relation[s->at];
    int32_t below = (int32_t)(r->count / 10);
    s->found = 0;
    for (uint64_t i = 0; i < r->count; i++) s->found += r->tuples[i].unique1 < below;
    return 0;
}

static void *look_up(const struct table *t, uint64_t id)
{
    if (id < SMALL_IDS) return t->array[id];
    const struct entry *e = t->top;
    while (e->id != id) e = id < e->id ? e->left : e->right;
    return e->at;
}

#define SELECT(NAME, TUPLE)                                                                        \
    static uint64_t NAME(const struct relation *r, const struct table *t, const struct node *n,    \
                         uint32_t from, uint32_t to)                                               \
    {                                                                                              \
        uint64_t found = 0;                                                                        \
        (void)r, (void)t;                                                                          \
        for (; n; n = n->right) {                                                                  \
            if (n->key > from) found += NAME(r, t, n->left, from, to);                             \
            if (n->key >= to) break;                                                               \
            if (n->key >= from) found += (TUPLE)->unique2 == (int32_t)n->key;                      \
        }                                                                                          \
        return found;                                                                              \
    }
SELECT(select_pointer, n->tuple)
SELECT(select_offset, (const struct tuple *)((const char *)r->tuples + n->offset))
SELECT(select_table, (const struct tuple *)look_up(t, n->key))

/* How a node of the index leads to its tuple; two kinds of numbers, small ones and others. */
enum kind { POINTER, OFFSET, ARRAY, TREE, KINDS };
static const char *const kinds[KINDS] = {"pointer", "offset", "array", "tree"};

static int by_index(void *arg)
{
    struct selection *s = arg;
    const struct relation *r = &root()->relation[s->at];
    const struct table *t = root()->tuples;
    uint32_t tenth = (uint32_t)(r->count / 10), from = s->kind == TREE ? 8 * tenth : tenth;
    uint32_t to = from + tenth;
    s->found = s->kind == POINTER  ? select_pointer(r, t, r->top, from, to)
               : s->kind == OFFSET ? select_offset(r, t, r->top, from, to)
                                   : select_table(r, t, r->top, from, to);
    return 0;
}

static void selection(const char *what, int at, enum kind kind, int (*fn)(void *), uint64_t times)
{
    char row[64];
    struct selection s = {.at = at, .kind = kind};
    snprintf(row, sizeof row, "%s.%llu", what, (unsigned long long)sizes[at]);
    window(row, times, times, fn, &s);
    need(s.found == sizes[at] / 10 ? 0 : -EUCLEAN, row);
}

static int relations(void *number)
{
    *(uint64_t *)number = root()->sizes;
    return 0;
}

static void scans(int times)
{
    uint64_t number;
    need(ps_transaction(relations, &number), "relations");
    for (int i = 0; i < (int)number; i++) {
        selection("scan-cold", i, POINTER, scan, 1);
        for (int k = 1; k < times; k++) selection("scan-warm", i, POINTER, scan, 1);
    }
}

static void selects(void)
{
    uint64_t number;
    need(ps_transaction(relations, &number), "relations");
    for (int i = 0; i < (int)number; i++) {
        selection("index-cold", i, POINTER, by_index, 1);
        selection("index-warm", i, POINTER, by_index, 1);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        char row[32];
        snprintf(row, sizeof row, "select-%s", kinds[kind]);
        selection("select-unmeasured", 1, (enum kind)kind, by_index, 1);
        selection(row, 1, (enum kind)kind, by_index, 20);
    }
}

/* ---- parts ---- */

struct parts { enum kind kind; uint64_t seed, sum; };

static const struct by_offset *part_by(const struct root *r, enum kind kind, uint32_t offset)
{
    if (kind == OFFSET) return (const void *)((const char *)r->offsets + offset);
    return look_up(r->parts, offset / sizeof(struct by_offset));
}

#define FOLLOW(NAME, KIND)                                                                         \
    static uint64_t NAME(const struct root *r, uint32_t id, int depth)                             \
    {                                                                                              \
        const struct by_offset *p = part_by(r, KIND, id);                                          \
        uint64_t sum = (uint64_t)p->x;                                                             \
        for (int k = 0; depth > 0 && k < LINKS; k++) sum += NAME(r, p->link[k], depth - 1);        \
        return sum;                                                                                \
    }
FOLLOW(follow_offset, OFFSET)
FOLLOW(follow_table, ARRAY)

static uint64_t follow_pointers(const struct by_pointer *p, int depth)
{
    uint64_t sum = (uint64_t)p->x;
    for (int k = 0; depth > 0 && k < LINKS; k++) sum += follow_pointers(p->link[k], depth - 1);
    return sum;
}

/* Small ids are the first half, as the table has them. */
static uint64_t part_draw(struct parts *a)
{
    return draw(&a->seed, PARTS / 2 - 2000) + (a->kind == TREE ? SMALL_IDS + 1000 : 1000);
}

static int lookups(void *arg)
{
    struct parts *a = arg;
    const struct root *r = root();
    for (int i = 0; i < LOOKUPS; i++) {
        uint64_t n = part_draw(a);
        a->sum += a->kind == POINTER ? (uint64_t)r->pointers[n].x
                                     : (uint64_t)part_by(r, a->kind, (uint32_t)n * 28)->x;
    }
    return 0;
}

static int traversal(void *arg)
{
    struct parts *a = arg;
    const struct root *r = root();
    uint64_t n = part_draw(a);
    a->sum += a->kind == POINTER  ? follow_pointers(&r->pointers[n], DEPTH)
              : a->kind == OFFSET ? follow_offset(r, (uint32_t)n * 28, DEPTH)
                                  : follow_table(r, (uint32_t)n * 28, DEPTH);
    return 0;
}

static void parts(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct parts a = {.kind = (enum kind)kind, .seed = 7};
        char row[32];
        snprintf(row, sizeof row, "lookup-cold.%s", kinds[kind]);
        window(row, LOOKUPS, 1, lookups, &a);
        snprintf(row, sizeof row, "traversal-cold.%s", kinds[kind]);
        window(row, 1, 1, traversal, &a);
        for (int i = 0; i < 50; i++) need(ps_transaction(lookups, &a), "look-up");
        for (int i = 0; i < 50; i++) need(ps_transaction(traversal, &a), "traversal");
        snprintf(row, sizeof row, "lookup-warm.%s", kinds[kind]);
        window(row, 20 * LOOKUPS, 20, lookups, &a);
        snprintf(row, sizeof row, "traversal-warm.%s", kinds[kind]);
        window(row, 20, 20, traversal, &a);
    }
}

/* ---- words ---- */

static int all(void *unused)
{
    const struct root *r = root();
    uint64_t sum = 0;
    (void)unused;
    for (uint64_t i = 0; i < r->sizes; i++)
        for (uint64_t k = 0; k < r->relation[i].count; k++)
            sum += (uint64_t)r->relation[i].tuples[k].unique2 + r->relation[i].nodes[k].key;
    for (int i = 0; i < PARTS; i++)
        sum += r->offsets[i].id + (uint64_t)r->pointers[i].x +
               (uint64_t)look_up(r->parts, (uint64_t)i);
    sink = sum;
    return 0;
}

static void word(const char *w, uint64_t n)
{
    if (!c) opens(PS_LAYOUT(struct root, 1), strncmp(w, "make", 4) ? 0 : PS_CREATE);
    if (common(w, NULL)) return;
    if (!strncmp(w, "make", 4)) make(n);
    else if (!strcmp(w, "all")) need(ps_transaction(all, NULL), w);
    else if (!strncmp(w, "scans", 5)) scans((int)n);
    else if (!strcmp(w, "select")) selects();
    else if (!strcmp(w, "parts")) parts();
    else need(-EINVAL, w);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    usage(argc, argv, argc > 2, "usage: relations [SITE:]NAME WORD ...\n");
    name = argv[1];
    is_remote = strchr(name, ':') != NULL;
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        word(argv[i], value ? strtoull(value + 1, NULL, 10) : 0);
    }
    return 0;
}
