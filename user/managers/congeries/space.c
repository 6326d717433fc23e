/*
 * space.c - blocks and their objects, and the five operations with their policies (managers.md).
 *
 * CG1  A block is one congeries's, or free. An object begins at a unit whose `start` bit is set,
 *      and has the units from there whose `used` bits are set up to the next start.
 * CG2  An object that no commit has stored to is young, and no garbage: who added it may be about
 *      to link it. It is old when a commit that stored to it is known to have succeeded; one that
 *      is undone leaves it young. With this process ends who knows of it, so it has forgotten them
 *      when it starts.
 * CG3  Collecting looks at what is committed. An object that no committed pointer leads to is in
 *      nobody's hands but of those whom CG2 protects, and stays so.
 * CG4  No collection runs while a commit's links come to be there, and its objects become old
 *      later: commits read `collections` before all, a collection writes it.
 *
 * All of it runs in a transaction, one at a time.
 */
#include <errno.h>
#include <string.h>

#include "space.h"

enum { APPEND_BY = 8 };

static struct root *root;
static const char *data;                /* what the blocks hold, as it is committed */
static char *base;                      /* where clients see block 0 */
static uint16_t young[BLOCKS][UNITS];   /* of each unit of a young object: its first unit, + 1 */
/* of an object's first unit: the view whose commit stores to it, + 1; of two the first */
static uint8_t storing[BLOCKS][UNITS];
static uint8_t stores[256];             /* that view has some */
static uint64_t marked[BLOCKS][WORDS];
static uint32_t to_scan[BLOCKS * UNITS], to_scan_count;

static int bit(const uint64_t *bits, unsigned i) { return bits[i / 64] >> i % 64 & 1; }
static void put(uint64_t *bits, unsigned i, int on)
{
    bits[i / 64] = on ? bits[i / 64] | 1ull << i % 64 : bits[i / 64] & ~(1ull << i % 64);
}

/* ---- objects of a block ---- */

static unsigned object_units(const struct block *b, unsigned first)
{
    unsigned n = 1;
    while (first + n < UNITS && bit(b->used, first + n) && !bit(b->start, first + n)) n++;
    return n;
}

static void object_free(uint32_t at, unsigned first)
{
    struct block *b = &root->block[at];
    unsigned units = object_units(b, first);
    for (unsigned u = first; u < first + units; u++) {
        put(b->used, u, 0);
        young[at][u] = 0;
    }
    storing[at][first] = 0;
    put(b->start, first, 0);
    put(b->dropped, first, 0);
}

static int block_empty(const struct block *b)
{
    uint64_t any = 0;
    for (int i = 0; i < WORDS; i++) any |= b->used[i];
    return any == 0;
}

/* Room for so many units from `from` on: the first of them, or -1. */
static int room_find(const struct block *b, unsigned from, unsigned units)
{
    for (unsigned u = from, n = 0; u < UNITS; u++)
        if ((n = bit(b->used, u) ? 0 : n + 1) == units) return (int)(u + 1 - units);
    return -1;
}

static void object_make(uint32_t at, unsigned first, unsigned units)
{
    struct block *b = &root->block[at];
    for (unsigned u = first; u < first + units; u++) {
        put(b->used, u, 1);
        young[at][u] = (uint16_t)(first + 1);
    }
    put(b->start, first, 1);
}

/* ---- policies ---- */

/* What each of the five operations does. `place` finds room for an object, *first of the block that
 * it returns, or 0. */
struct policy {
    char name[8];
    uint32_t expand_by;
    uint32_t (*place)(uint32_t g, unsigned units, unsigned *first);
    int drop_frees;                     /* else it is left to the next collection */
    int collect_first;                  /* before it expands; else only when it is told to */
    int release_at_once;                /* an empty block; else only when it is told to */
};

static uint32_t place_first(uint32_t g, unsigned units, unsigned *first)
{
    for (uint32_t at = 1; at < BLOCKS; at++) {
        int u = root->block[at].congeries == g ? room_find(&root->block[at], 0, units) : -1;
        if (u < 0) continue;
        *first = (unsigned)u;
        return at;
    }
    return 0;
}

/* Behind all that is there: blocks are filled in the order of their numbers. */
static uint32_t place_last(uint32_t g, unsigned units, unsigned *first)
{
    struct congeries *c = &root->congeries[g];
    for (uint32_t at = c->newest ? c->newest : 1; at < BLOCKS; at++) {
        struct block *b = &root->block[at];
        unsigned end = UNITS;
        if (b->congeries != g) continue;
        while (end > 0 && !bit(b->used, end - 1)) end--;
        if (UNITS - end < units) continue;
        c->newest = at;
        *first = end;
        return at;
    }
    return 0;
}

static const struct policy policies[] = {
    {"plain", 1, place_first, 1, 0, 0},
    {"tight", 1, place_first, 1, 1, 1},
    {"log", APPEND_BY, place_last, 0, 0, 0},
};
enum { POLICIES = sizeof policies / sizeof *policies };
static const struct policy *policy_of(uint32_t g) { return &policies[root->congeries[g].policy]; }

/* ---- the five operations ---- */

static uint32_t expand(uint32_t g, uint32_t count)
{
    uint32_t added = 0;
    for (uint32_t at = 1; at < BLOCKS && added < count; at++)
        if (root->block[at].congeries == 0) {
            root->block[at].congeries = g;
            added++;
        }
    return added;
}

static uint32_t release(uint32_t g)
{
    uint32_t released = 0;
    for (uint32_t at = 1; at < BLOCKS; at++)
        if (root->block[at].congeries == g && block_empty(&root->block[at])) {
            root->block[at].congeries = 0;
            released++;
        }
    root->congeries[g].newest = 0;
    return released;
}

static void mark(uint64_t word)
{
    uint64_t offset = word - (uint64_t)(uintptr_t)base;
    if (offset >= (uint64_t)BLOCKS * BLOCK_BYTES) return;
    uint32_t at = (uint32_t)(offset / BLOCK_BYTES);
    unsigned u = offset % BLOCK_BYTES / UNIT_BYTES;
    if (!bit(root->block[at].used, u)) return;
    while (!bit(root->block[at].start, u)) u--;
    if (bit(marked[at], u)) return;
    put(marked[at], u, 1);
    to_scan[to_scan_count++] = at * UNITS + u;
}

static void object_scan(uint32_t at, unsigned first)
{
    const char *from = data + (uint64_t)at * BLOCK_BYTES + first * UNIT_BYTES;
    uint64_t word, bytes = object_units(&root->block[at], first) * UNIT_BYTES;
    for (uint64_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, from + i, sizeof word);
        mark(word);
    }
}

/* Visits the objects of g, or those of all others. */
static uint32_t objects_each(uint32_t g, int others, uint32_t (*visit)(uint32_t at, unsigned first))
{
    uint32_t sum = 0;
    for (uint32_t at = 0; at < BLOCKS; at++)
        for (unsigned u = 0; (root->block[at].congeries == g) != others && u < UNITS; u++)
            if (bit(root->block[at].start, u)) sum += visit(at, u);
    return sum;
}

static uint32_t visit_root(uint32_t at, unsigned first)
{
    mark((uint64_t)(uintptr_t)base + (uint64_t)at * BLOCK_BYTES + first * UNIT_BYTES);
    return 0;
}
static uint32_t visit_young(uint32_t at, unsigned first)
{
    return young[at][first] && !bit(root->block[at].dropped, first) ? visit_root(at, first) : 0;
}
static uint32_t visit_dead(uint32_t at, unsigned first)
{
    if (bit(marked[at], first)) return 0;
    object_free(at, first);
    return 1;
}

/* CG3. Roots are block 0 and all objects of other congeries. */
static uint32_t collect(uint32_t g)
{
    root->collections++;
    memset(marked, 0, sizeof marked);
    to_scan_count = 0;
    objects_each(g, 1, visit_root);
    objects_each(g, 0, visit_young);
    while (to_scan_count > 0) {
        uint32_t next = to_scan[--to_scan_count];
        object_scan(next / UNITS, next % UNITS);
    }
    return objects_each(g, 0, visit_dead);
}

static int add(struct congeries_call *c)
{
    uint32_t g = c->congeries, at;
    unsigned units = (unsigned)((c->bytes + UNIT_BYTES - 1) / UNIT_BYTES), first = 0;
    const struct policy *p = policy_of(g);
    if (c->bytes == 0 || c->bytes > BLOCK_BYTES) return -EINVAL;
    if (!(at = p->place(g, units, &first)) && p->collect_first && collect(g))
        at = p->place(g, units, &first);
    if (!at && expand(g, p->expand_by)) at = p->place(g, units, &first);
    if (!at) return -ENOSPC;
    object_make(at, first, units);
    c->address = (uint64_t)(uintptr_t)base + (uint64_t)at * BLOCK_BYTES + first * UNIT_BYTES;
    return 0;
}

static int drop(uint64_t address)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)base;
    uint32_t at = (uint32_t)(offset / BLOCK_BYTES);
    unsigned first = offset % BLOCK_BYTES / UNIT_BYTES;
    if (offset < BLOCK_BYTES || offset >= (uint64_t)BLOCKS * BLOCK_BYTES ||
        offset % UNIT_BYTES || !bit(root->block[at].start, first))
        return -EINVAL;
    struct block *b = &root->block[at];
    const struct policy *p = policy_of(b->congeries);
    if (p->drop_frees)
        object_free(at, first);
    else
        put(b->dropped, first, 1);
    if (p->release_at_once && block_empty(b)) b->congeries = 0;
    return 0;
}

/* ---- what main.c calls ---- */

static uint32_t congeries_named(const char *name)
{
    uint32_t g = 1;
    while (g < CONGERIES_MAX && strcmp(root->congeries[g].name, name) != 0) g++;
    return g < CONGERIES_MAX ? g : 0;
}

static int make(struct congeries_call *c)
{
    uint32_t policy = 0, g;
    c->name[sizeof c->name - 1] = c->policy[sizeof c->policy - 1] = 0;
    while (policy < POLICIES && strcmp(policies[policy].name, c->policy) != 0) policy++;
    if (!c->name[0] || policy == POLICIES) return -EINVAL;
    if (!(g = congeries_named(c->name)) && !(g = congeries_named(""))) return -ENOSPC;
    memcpy(root->congeries[g].name, c->name, sizeof c->name);
    root->congeries[g].policy = policy;
    c->congeries = g;
    return 0;
}

static uint64_t counted;                /* bytes */
static uint32_t visit_count(uint32_t at, unsigned first)
{
    counted += object_units(&root->block[at], first) * UNIT_BYTES;
    return 1;
}

static int count(struct congeries_call *c)
{
    c->blocks = 0;
    counted = 0;
    for (uint32_t at = 1; at < BLOCKS; at++)
        c->blocks += root->block[at].congeries == c->congeries;
    c->objects = objects_each(c->congeries, 0, visit_count);
    c->bytes = counted;
    return 0;
}

int space_call(struct congeries_call *c)
{
    uint32_t g = c->congeries;
    if (c->what == CONGERIES_MAKE) return make(c);
    if (c->what == CONGERIES_DROP) return drop(c->address);
    if (g == 0 || g >= CONGERIES_MAX || !root->congeries[g].name[0]) return -EINVAL;
    switch (c->what) {
    case CONGERIES_EXPAND: return c->count = expand(g, c->count), 0;
    case CONGERIES_ADD: return add(c);
    case CONGERIES_COLLECT: return c->count = collect(g), 0;
    case CONGERIES_RELEASE: return c->count = release(g), 0;
    case CONGERIES_COUNT: return count(c);
    default: return -EINVAL;
    }
}

void space_begin(struct root *the_root, const char *the_data, char *address)
{
    root = the_root;
    data = the_data;
    base = address;
    memset(root->block[0].used, 0xff, sizeof root->block[0].used); /* the client's root */
    put(root->block[0].start, 0, 1);
}

void space_commit(void) { (void)*(volatile uint64_t *)&root->collections; }

void space_stored(uint64_t view, uint64_t offset, uint64_t bytes)
{
    uint64_t end = (offset + bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    for (uint64_t unit = offset / UNIT_BYTES; unit < end; unit++) {
        unsigned first = young[unit / UNITS][unit % UNITS];
        uint8_t *by = first ? &storing[unit / UNITS][first - 1] : NULL;
        if (by && !*by) *by = (uint8_t)(view + 1);
        stores[view % 256] |= by != NULL;
    }
}

void space_outcome(uint64_t view, int error)
{
    for (unsigned at = 0; stores[view % 256] && at < BLOCKS; at++)
        for (unsigned first = 0; first < UNITS; first++) {
            if (storing[at][first] != view + 1) continue;
            storing[at][first] = 0;
            for (unsigned u = first; !error && u < UNITS && young[at][u] == first + 1; u++)
                young[at][u] = 0;
        }
    stores[view % 256] = 0;
}
