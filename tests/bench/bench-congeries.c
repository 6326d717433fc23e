/*
 * bench-congeries.c - congeries and containers in all combinations: what a traversal reads after
 * random growth (Henskens and Ashton, sections 4 to 6: the table that was left to a later paper).
 *
 *     bench-congeries grow           makes all placements: in each the same objects come and go in
 *                                    the same random order, and only their places differ
 *     bench-congeries walk N HOW     goes through one placement, in a process and a memory that
 *                                    know nothing of it: a row of each traversal.
 *                                    HOW alone: pages come one by one; grouped: as the system
 *                                    likes; log: the log, not assemblies
 *
 * 32 assemblies have parts, each with a connection and an entry in a log. A traversal goes through
 * an assembly, its parts and connections, or through the whole log. What it must find is worked out
 * beside it in volatile memory.
 */
#include <congeries.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure.h"

enum { ASSEMBLIES = 32, STEPS = 24, OPERATIONS = 500, WALKED = 4, CONTAINERS = ASSEMBLIES };
struct connection { struct connection *next; uint64_t length; char type[32]; };
struct part { struct part *next; struct connection *to; uint64_t x, y; char type[16]; };
struct entry { struct entry *next; uint64_t time; char text[80]; };
struct assembly { struct part *parts; struct entry *log; };
struct root { struct assembly assembly[ASSEMBLIES]; ps_congeries *congeries[ASSEMBLIES][3]; };

/* containers: how many share the assemblies; kind: what has a congeries in each of them; block: its
 * pages. */
enum kind { NONE, NEAR, BY_TYPE, BY_ASSEMBLY, BY_BOTH };
static const struct placement {
    const char *name;
    int containers;
    enum kind kind;
    unsigned block;
} placements[] = {
    {"one container, creation order", 1, NONE, 0},
    {"one container, creation order with hints (near)", 1, NEAR, 0},
    {"one container, a congeries for each type", 1, BY_TYPE, 4},
    {"one container, a congeries for each assembly", 1, BY_ASSEMBLY, 4},
    {"... blocks of 1 page", 1, BY_ASSEMBLY, 1},
    {"... blocks of 16 pages", 1, BY_ASSEMBLY, 16},
    {"one container, one for each assembly and type", 1, BY_BOTH, 4},
    {"4 containers of 8 assemblies, creation order", 4, NONE, 0},
    {"4 containers of 8 congeries, for assemblies", 4, BY_ASSEMBLY, 4},
    {"4 containers of 3 congeries, for types", 4, BY_TYPE, 4},
    {"32 containers, no congeries", 32, NONE, 0},
    {"32 containers of one congeries", 32, BY_ASSEMBLY, 4},
    {"32 containers of 3 congeries, for types", 32, BY_BOTH, 4},
};
enum { PLACEMENTS = sizeof placements / sizeof placements[0] };

static const struct placement *p;
static ps_container *c[CONTAINERS];

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "bench-congeries: %s, %s: %s\n", p->name, what, ps_strerror(error));
    exit(1);
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

static ps_container *container_of(int assembly)
{
    return c[assembly * p->containers / ASSEMBLIES];
}

/* ---- growth ---- */

static ps_congeries **place_of(struct root *root, int assembly, int type)
{
    int first = assembly * p->containers / ASSEMBLIES * (ASSEMBLIES / p->containers);
    switch (p->kind) {
    case BY_TYPE: return &root->congeries[first][type];
    case BY_ASSEMBLY: return &root->congeries[assembly][0];
    case BY_BOTH: return &root->congeries[assembly][type];
    default: return NULL;
    }
}

static void *object_make(struct root *root, int assembly, int type, size_t bytes, const void *near)
{
    static const char *const names[] = {"struct part", "struct connection", "struct entry"};
    ps_congeries **place = place_of(root, assembly, type);
    struct ps_congeries_wish wish = {.block_pages = p->block};
    if (!place)
        return ps_alloc_as(container_of(assembly), bytes, p->kind == NEAR ? near : NULL,
                           names[type]);
    if (!*place && !(*place = ps_congeries_make(container_of(assembly), NULL, &wish)))
        return NULL;
    return ps_alloc_in(*place, bytes, NULL, names[type]);
}

static int add(struct root *root, int i, uint64_t value)
{
    struct assembly *a = &root->assembly[i];
    struct part *part = object_make(root, i, 0, sizeof *part, a->parts);
    struct connection *to = part ? object_make(root, i, 1, sizeof *to, part) : NULL;
    struct entry *e = to ? object_make(root, i, 2, sizeof *e, a->log) : NULL;
    if (!e)
        return -errno;
    *to = (struct connection){.length = value * 3, .type = "a connection"};
    *part = (struct part){a->parts, to, value, value * 7, "a part"};
    *e = (struct entry){a->log, value * 11, "a part was added"};
    a->parts = part;
    a->log = e;
    return 0;
}

static int take(struct assembly *a)
{
    struct part *part = a->parts;
    a->parts = part->next;
    int error = ps_free(part->to);
    return error ? error : ps_free(part);
}

/* What an operation is, the same for all placements: 1 in 8 takes the newest part away. */
static int operation(uint32_t *seed, int *assembly, uint64_t *value)
{
    *assembly = (int)draw(seed, ASSEMBLIES);
    *value = draw(seed, 100000);
    return draw(seed, 8) != 0;
}

static int step(void *seed)
{
    struct root *root = ps_root(c[0]);
    uint32_t drawn = *(uint32_t *)seed;
    int i, error = 0;
    uint64_t value;
    for (int n = 0; n < OPERATIONS && error == 0; n++)
        if (operation(&drawn, &i, &value) || !root->assembly[i].parts)
            error = add(root, i, value);
        else
            error = take(&root->assembly[i]);
    return error;
}

/* ---- what traversals must find ---- */

static uint64_t expected[ASSEMBLIES], expected_log;

static void expect(void)
{
    static uint64_t parts[ASSEMBLIES][STEPS * OPERATIONS / 8], count[ASSEMBLIES];
    uint64_t value;
    int i;
    for (uint32_t n = 1; n <= STEPS; n++) {
        uint32_t seed = n;
        for (int k = 0; k < OPERATIONS; k++)
            if (operation(&seed, &i, &value) || !count[i]) {
                parts[i][count[i]++] = value;
                expected_log += value * 11;
            } else {
                count[i]--;
            }
    }
    for (i = 0; i < ASSEMBLIES; i++)
        while (count[i])
            expected[i] += 11 * parts[i][--count[i]];
}

/* ---- traversals ---- */

struct walk { int assembly; uint64_t sum, pages, blocks; };

static int walk_assembly(void *arg)
{
    struct walk *w = arg;
    w->sum = 0;
    const struct root *root = ps_root(c[0]);
    for (const struct part *part = root->assembly[w->assembly].parts; part; part = part->next)
        w->sum += part->x + part->y + part->to->length;
    return 0;
}

static int walk_log(void *arg)
{
    struct walk *w = arg;
    const struct root *root = ps_root(c[0]);
    w->sum = 0;
    for (int i = 0; i < ASSEMBLIES; i++)
        for (const struct entry *e = root->assembly[i].log; e; e = e->next)
            w->sum += e->time;
    return 0;
}

static int touched(void *arg)
{
    static struct ps_touched all[256];
    struct walk *w = arg;
    int entries = ps_touched(all, 256);
    w->pages = w->blocks = 0;
    for (int i = 0; i < entries && i < 256; i++) {
        w->pages += all[i].pages;
        w->blocks += all[i].blocks;
    }
    return entries < 0 ? entries : 0;
}

static void containers_open(int number, int flags)
{
    char name[32];
    p = &placements[number];
    for (int i = 0; i < p->containers; i++) {
        snprintf(name, sizeof name, "placement %d, %d", number, i);
        if (flags & PS_CREATE)
            ps_delete(name);
        c[i] = ps_open(name, flags | PS_WRITE, i ? NULL : PS_LAYOUT(struct root, 1));
        if (!c[i])
            fail(name, errno);
    }
}

static void grow(int number)
{
    containers_open(number, PS_CREATE);
    for (uint32_t seed = 1; seed <= STEPS; seed++) {
        int error = ps_transaction(step, &seed);
        if (error)
            fail("growth", error);
    }
    for (int i = 0; i < p->containers; i++)
        ps_close(c[i]);
}

/* A traversal, then all that was touched so far; *disk rises by the reads that were waited for. */
static void measure(int (*traversal)(void *), struct walk *w, uint64_t wanted, uint64_t *disk)
{
    struct ps_stats before, after;
    ps_stats(&before);
    int error = ps_transaction(traversal, w);
    ps_stats(&after);
    *disk += after.pages_read - before.pages_read;
    if (error == 0)
        error = ps_transaction(touched, w);
    if (error || w->sum != wanted)
        fail("a traversal", error ? error : -EUCLEAN);
}

static void row(const char *what, const char *unit, double value)
{
    printf("%s: %s\t%s\t%.1f\t-\n", p->name, what, unit, value);
}

/* The whole log alone, in pages that come alone. */
static void walk_log_alone(int number)
{
    struct walk w = {0};
    uint64_t disk = 0;
    containers_open(number, 0);
    for (int i = 0; i < p->containers; i++)
        ps_policy(c[i], PS_GROUP, 1);
    expect();
    measure(walk_log, &w, expected_log, &disk);
    row("the log", "pages touched", (double)w.pages);
}

static void walk(int number, int alone)
{
    struct walk w = {0};
    uint64_t disk = 0;
    containers_open(number, 0);
    for (int i = 0; i < p->containers; i++)
        ps_policy(c[i], PS_GROUP, alone);
    expect();
    for (int i = 0; i < WALKED; i++) {
        w.assembly = i * 9 + 2;
        measure(walk_assembly, &w, expected[w.assembly], &disk);
    }
    if (alone) {
        row("an assembly", "pages touched", (double)w.pages / WALKED);
        row("an assembly", "blocks touched", (double)w.blocks / WALKED);
    }
    row(alone ? "an assembly, pages alone" : "an assembly, pages as they come",
        "reads of the disk", (double)disk / WALKED);
}

int main(int argc, char **argv)
{
    int grows = argc == 2 && strcmp(argv[1], "grow") == 0;
    usage(argc, argv, grows || (argc == 4 && (unsigned)atoi(argv[2]) < PLACEMENTS),
          "usage: bench-congeries grow, or bench-congeries walk NUMBER alone|grouped|log\n"
          "Pages and reads of traversals, by placement; `make bench ONLY=congeries`.\n");
    if (grows)
        for (int i = 0; i < PLACEMENTS; i++)
            grow(i);
    else
        strcmp(argv[3], "log") ? walk(atoi(argv[2]), strcmp(argv[3], "alone") == 0)
                               : walk_log_alone(atoi(argv[2]));
    return 0;
}
