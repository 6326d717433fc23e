/*
 * patterns.c - traces of Cricket's and OO1's operations, and exact simulations on them.
 *
 * Cricket: the tree of its Table 4 (16,105 nodes, 12 to a page, fan-out 11), searched twice; the
 * scan of its Table 3 (1,280 pages), four times.
 * OO1: its small database in the order in which it is made: pages of parts, of connections, and of
 * two indexes (by a part's id; by a connection's `from`). Lookups of random parts; traversals of
 * seven hops; lookups with a scan of all parts and connections now and then.
 */
#include "patterns.h"

#include <stdlib.h>
#include <string.h>

#include "tests/oo1/workload.h"

static void touch(struct trace *t, unsigned page)
{
    if (t->count && t->page[t->count - 1] == page)
        return;
    if (t->count == t->room) {
        t->room = t->room * 2 + 1024;
        t->page = realloc(t->page, t->room * sizeof *t->page);
        if (!t->page)
            abort();
    }
    t->page[t->count++] = (uint16_t)page;
    t->pages = page >= t->pages ? page + 1 : t->pages;
}

/* ---- Cricket ---- */

enum { FAN_OUT = 11, DEPTH = 4, NODES_A_PAGE = 12, SCANNED = 1280 };

/* Nodes lie in the order of the search. */
static void search(struct trace *t, int depth, unsigned *next)
{
    unsigned page = (*next)++ / NODES_A_PAGE;
    touch(t, page);
    for (int i = 0; i < FAN_OUT && depth; i++) {
        search(t, depth - 1, next);
        touch(t, page); /* for the next child */
    }
}

static void tree(struct trace *t)
{
    for (unsigned pass = 0, next; pass < 2; pass++) {
        next = 0;
        search(t, DEPTH, &next);
    }
}

static void scan(struct trace *t)
{
    for (unsigned i = 0; i < 4 * SCANNED; i++)
        touch(t, i % SCANNED);
}

/* ---- OO1 ---- */

enum { PARTS = 20000, PARTS_A_PAGE = 93, CONNECTIONS_A_PAGE = 113, KEYS_A_PAGE = 250,
       PART_PAGES = PARTS / PARTS_A_PAGE + 1,
       CONNECTION_PAGES = PARTS * LINKS / CONNECTIONS_A_PAGE + 1,
       ID_PAGES = PARTS / KEYS_A_PAGE + 1, ID_ROOT = PART_PAGES + CONNECTION_PAGES,
       FROM_ROOT = ID_ROOT + 1 + ID_PAGES };
static int32_t ends[PARTS][LINKS];

static void connect(struct draws *d)
{
    for (int32_t part = 0; part < PARTS; part++)
        for (int i = 0; i < LINKS; i++)
            ends[part][i] = draw_end(d, part + 1, PARTS) - 1;
}

static void lookup(struct trace *t, unsigned part)
{
    touch(t, ID_ROOT);
    touch(t, ID_ROOT + 1 + part / KEYS_A_PAGE);
    touch(t, part / PARTS_A_PAGE);
}

static void traverse(struct trace *t, unsigned part, int hops)
{
    lookup(t, part);
    if (!hops)
        return;
    touch(t, FROM_ROOT);
    for (unsigned i = 0; i < LINKS; i++) {
        unsigned connection = part * LINKS + i;
        touch(t, FROM_ROOT + 1 + connection / KEYS_A_PAGE);
        touch(t, PART_PAGES + connection / CONNECTIONS_A_PAGE);
        traverse(t, (unsigned)ends[part][i], hops - 1);
    }
}

static void lookups(struct trace *t, struct draws *d, unsigned count)
{
    while (count--)
        lookup(t, draw(d, PARTS));
}

static void lookups_and_scans(struct trace *t, struct draws *d)
{
    for (int round = 0; round < 4; round++) {
        lookups(t, d, LOOKUPS);
        for (unsigned page = 0; page < ID_ROOT; page++)
            touch(t, page);
    }
}

struct trace trace_make(unsigned pattern)
{
    static const char *const names[PATTERNS] = {
        "Cricket's tree, twice", "Cricket's scan, 4 times", "OO1 lookups", "OO1 traversals",
        "OO1 lookups and scans"};
    struct trace t = {.name = names[pattern]};
    struct draws d = draws_of(1);
    connect(&d);
    if (pattern == 0)
        tree(&t);
    else if (pattern == 1)
        scan(&t);
    else if (pattern == 2)
        lookups(&t, &d, 4 * LOOKUPS);
    else if (pattern == 4)
        lookups_and_scans(&t, &d);
    for (int i = 0; i < 2 && pattern == 3; i++)
        traverse(&t, draw(&d, PARTS), HOPS);
    return t;
}

/* ---- exact simulations ---- */

unsigned misses_by(const struct policy *p, const struct trace *t, unsigned frames)
{
    unsigned missed = 0, in_memory = 0;
    char *here = calloc(t->pages, 1);
    if (!here || p->start(t->pages, frames))
        abort();
    for (unsigned i = 0; i < t->count; i++) {
        unsigned page = t->page[i];
        if (here[page]) {
            p->used(page);
            continue;
        }
        missed++;
        if (in_memory == frames)
            here[p->victim(page)] = 0;
        else
            in_memory++;
        p->came(page);
        here[page] = 1;
    }
    free(here);
    return missed;
}

/* Which page goes is decided by a number for each page in memory: the one with the largest. */
static unsigned misses(const struct trace *t, unsigned frames, const unsigned *next)
{
    enum { AWAY = -1 };
    unsigned missed = 0, in_memory = 0;
    long *goes = malloc(t->pages * sizeof *goes);
    if (!goes)
        abort();
    for (unsigned page = 0; page < t->pages; page++)
        goes[page] = AWAY;
    for (unsigned i = 0; i < t->count; i++) {
        if (goes[t->page[i]] == AWAY) {
            unsigned victim = 0;
            missed++;
            for (unsigned page = 0; page < t->pages && in_memory == frames; page++)
                victim = goes[page] > goes[victim] ? page : victim;
            if (in_memory == frames)
                goes[victim] = AWAY;
            else
                in_memory++;
        }
        goes[t->page[i]] = next ? (long)next[i] : (long)(t->count - i);
    }
    free(goes);
    return missed;
}

unsigned misses_lru(const struct trace *t, unsigned frames) { return misses(t, frames, NULL); }

unsigned misses_least(const struct trace *t, unsigned frames)
{
    unsigned *next = malloc(t->count * sizeof *next), *last = malloc(t->pages * sizeof *last);
    if (!next || !last)
        abort();
    for (unsigned page = 0; page < t->pages; page++)
        last[page] = t->count;
    for (unsigned i = t->count; i-- > 0;) {
        next[i] = last[t->page[i]];
        last[t->page[i]] = i;
    }
    unsigned missed = misses(t, frames, next);
    free(next);
    free(last);
    return missed;
}
