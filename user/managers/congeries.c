/*
 * congeries.c - a class of container: its manager keeps it as congeries, named regions of blocks,
 * and does their five operations, each by the policy of the congeries (managers.md).
 *
 *     store manager parts congeries     from now on "parts" is such a container
 *
 * The pages lie in the container NAME.blocks of the store, as does what is said of blocks. A
 * client's commit stores its pages there in a helper (km_below), so both are one commit. An
 * operation is a transaction of this process. Nothing is remembered between two of them.
 *
 * CG1  A block is one congeries's, or free. An object is a unit that begins one and those behind it
 *      that are MORE, in one block. Units are counted through all blocks.
 * CG2  An object that no commit has stored to is YOUNG, and no garbage: who added it may be about
 *      to link it. The commit that stores to it first makes it OLD; one that is undone leaves it
 *      YOUNG. With this process ends who knows of it, so all are OLD when it starts.
 * CG3  Collecting looks at what is committed. An object that no committed pointer leads to is in
 *      nobody's hands but of those whom CG2 protects, and stays so. A commit's links are there when
 *      its objects are OLD, since both are one transaction with the locks of the store.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "congeries.h"
#include "manager.h"
#include "pstore.h"

enum { PAGES = BLOCKS * (BLOCK_BYTES / KM_PAGE_BYTES), APPEND_BY = 8 };
enum { FREE, MORE, DROPPED, OLD, YOUNG }; /* a unit; from DROPPED on it begins an object */

static ps_container *below;
static struct congeries_root *root;
static uint64_t base;                   /* where clients see block 0 */

/* ---- policies ---- */

/* What each of the five operations does. */
static const struct policy {
    uint32_t expand_by;
    int append;                         /* behind a block's objects; else where there is room */
    int drop_frees;                     /* else it is left to the next collection */
    int collect_first;                  /* before it expands; else only when it is told to */
    int release_at_once;                /* empty blocks; else only when it is told to */
} policies[CONGERIES_POLICIES] = {
    [CONGERIES_PLAIN] = {1, 0, 1, 0, 0},
    [CONGERIES_TIGHT] = {1, 0, 1, 1, 1},
    [CONGERIES_LOG] = {APPEND_BY, 1, 0, 0, 0},
};
static const struct policy *policy_of(uint32_t g) { return &policies[root->congeries[g].policy]; }

/* ---- blocks and their objects; in a transaction ---- */

static bool is_object(uint64_t u) { return root->unit[u] >= DROPPED; }
static bool is_of(uint32_t u, uint32_t g) { return root->owner[u / UNITS] == g; }

static uint32_t object_end(uint32_t u)
{
    while (++u < ALL && root->unit[u] == MORE) {}
    return u;
}
static void object_free(uint32_t u) { memset(root->unit + u, FREE, object_end(u) - u); }

/* Room for an object, by the policy: its first unit, or 0. */
static uint32_t place(uint32_t g, uint32_t units)
{
    for (uint32_t at = 1; at < BLOCKS; at++) {
        uint32_t u = at * UNITS, end = u + UNITS, n = 0;
        if (root->owner[at] != g) continue;
        if (policy_of(g)->append)
            for (u = end; u > at * UNITS && root->unit[u - 1] == FREE;) u--;
        while (u < end && n < units) n = root->unit[u++] == FREE ? n + 1 : 0;
        if (n == units) return u - units;
    }
    return 0;
}

/* So many empty blocks at most become another congeries's; how many did. Free ones are of 0. */
static uint32_t blocks_pass(uint32_t from, uint32_t to, uint32_t most)
{
    uint32_t passed = 0;
    for (uint32_t at = 1; at < BLOCKS && passed < most; at++) {
        const uint8_t *unit = root->unit + at * UNITS;
        if (root->owner[at] != from || unit[0] || memcmp(unit, unit + 1, UNITS - 1)) continue;
        root->owner[at] = (uint8_t)to;
        passed++;
    }
    return passed;
}

/* ---- collecting ---- */

static uint8_t marked[ALL];
static uint32_t to_scan[ALL], to_scan_count;

/* The object that has this unit, if there is one, stays, and what it leads to. */
static void mark(uint32_t u)
{
    while (root->unit[u] == MORE) u--;
    if (is_object(u) && !marked[u]) to_scan[to_scan_count++] = u;
    marked[u] = 1;
}

/* CG3. Roots are the client's and all objects of other congeries. */
static uint32_t collect(uint32_t g)
{
    uint32_t freed = 0;
    memset(marked, 0, sizeof marked);
    to_scan_count = 0;
    for (uint32_t u = 0; u < ALL; u++)
        if (root->unit[u] == YOUNG || (is_object(u) && !is_of(u, g))) mark(u);
    while (to_scan_count > 0)
        for (uint32_t u = to_scan[--to_scan_count], end = object_end(u); u < end; u++)
            for (int i = 0; i < UNIT_BYTES / 8; i++) {
                uint64_t to = (root->word[u][i] - base) / UNIT_BYTES;
                if (to < ALL) mark((uint32_t)to);
            }
    for (uint32_t u = 0; u < ALL; u++)
        if (is_object(u) && is_of(u, g) && !marked[u]) {
            object_free(u);
            freed++;
        }
    return freed;
}

/* ---- calls ---- */

static int make(struct congeries_call *c)
{
    uint32_t g = 1;
    c->name[sizeof c->name - 1] = 0;
    if (!c->name[0] || c->policy >= CONGERIES_POLICIES) return -EINVAL;
    for (const char *n; g < CONGERIES_MAX && *(n = root->congeries[g].name); g++)
        if (strcmp(n, c->name) == 0) break;
    if (g == CONGERIES_MAX) return -ENOSPC;
    memcpy(root->congeries[g].name, c->name, sizeof c->name);
    root->congeries[g].policy = c->policy;
    c->congeries = g;
    return 0;
}

static int add(struct congeries_call *c)
{
    uint32_t g = c->congeries, units = (uint32_t)((c->bytes + UNIT_BYTES - 1) / UNIT_BYTES), u;
    const struct policy *p = policy_of(g);
    if (c->bytes == 0 || c->bytes > BLOCK_BYTES) return -EINVAL;
    if (!(u = place(g, units)) && p->collect_first && collect(g)) u = place(g, units);
    if (!u && blocks_pass(0, g, p->expand_by)) u = place(g, units);
    if (!u) return -ENOSPC;
    memset(root->unit + u, MORE, units);
    root->unit[u] = YOUNG;
    c->address = base + (uint64_t)u * UNIT_BYTES;
    return 0;
}

static int drop(uint64_t offset)
{
    uint64_t u = offset / UNIT_BYTES;
    if (u < UNITS || u >= ALL || offset % UNIT_BYTES || !is_object(u)) return -EINVAL;
    uint32_t g = root->owner[u / UNITS];
    root->unit[u] = DROPPED;
    if (policy_of(g)->drop_frees) object_free((uint32_t)u);
    if (policy_of(g)->release_at_once) (void)blocks_pass(g, 0, BLOCKS);
    return 0;
}

static int count(struct congeries_call *c)
{
    c->blocks = c->objects = 0;
    for (uint32_t u = UNITS; u < ALL; u++) {
        c->objects += is_of(u, c->congeries) && is_object(u);
        c->blocks += is_of(u, c->congeries) && u % UNITS == 0;
    }
    return 0;
}

static int operate(void *call)
{
    struct congeries_call *c = call;
    uint32_t g = c->congeries;
    if (c->what == CONGERIES_MAKE) return make(c);
    if (c->what == CONGERIES_DROP) return drop(c->address - base);
    if (g == 0 || g >= CONGERIES_MAX || !root->congeries[g].name[0]) return -EINVAL;
    switch (c->what) {
    case CONGERIES_EXPAND: return c->count = blocks_pass(0, g, c->count), 0;
    case CONGERIES_ADD: return add(c);
    case CONGERIES_COLLECT: return c->count = collect(g), 0;
    case CONGERIES_RELEASE: return c->count = blocks_pass(g, 0, BLOCKS), 0;
    case CONGERIES_COUNT: return count(c);
    default: return -EINVAL;
    }
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct congeries_call *c = message;
    (void)o;
    if (bytes == sizeof *c) c->error = ps_transaction(operate, c);
}

/* ---- pages and commits ---- */

/* In a snapshot of the store. */
static void page(struct km_request *r)
{
    km_answer(r, (char *)root->word + r->page * KM_PAGE_BYTES, 1, r->page < PAGES ? 0 : ENOSPC);
}

/* In a transaction of the store's that becomes part of the client's. Objects are OLD now (CG2). */
static int stored(const struct km_run *r, void *unused)
{
    uint64_t at = r->page * KM_PAGE_BYTES + r->offset, end = at + r->bytes, u = at / UNIT_BYTES;
    (void)unused;
    memcpy((char *)root->word + at, r->data, r->bytes);
    while (root->unit[u] == MORE) u--;
    for (; u * UNIT_BYTES < end; u++)
        if (root->unit[u] == YOUNG) root->unit[u] = OLD;
    return 0;
}
static int commit(struct km_object *o, uint64_t view)
{
    return km_diff_each(o, view, stored, NULL);
}

/* ---- start ---- */

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(below);
    if (!root) return -errno;
    for (uint32_t u = 0; u < ALL; u++)
        if (u < UNITS || root->unit[u] == YOUNG) root->unit[u] = OLD;
    return 0;
}

static int start(void)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .call = call};
    struct km_object *object;
    int error = km_below_own(km_container_name(), "blocks", PS_LAYOUT(struct congeries_root, 2),
                             &below);
    if (!error) error = ps_transaction(set_up, NULL);
    if (!error) error = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    if (error) return error;
    base = (uint64_t)(uintptr_t)km_address(object);
    return km_serve(2);
}

int main(void)
{
    int error = start();
    fprintf(stderr, "congeries: %s\n", error == -ENOTCONN ? "`store manager NAME congeries` makes "
                                       "it the manager of a container" : ps_strerror(error));
    return 1;
}
