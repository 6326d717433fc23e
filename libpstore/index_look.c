/*
 * index_look.c - looks at the pages of an index, which the store manager writes meanwhile.
 *
 * The manager's tree is read by the code that all trees have (ps_memory.fix): each node is copied
 * as it is met, and counts only if no publication came between (index_format.h); else the look
 * begins anew. The copies stay, with the view, until the next publication.
 */
#include "index_private.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

int index_kind_of(const ps_container *c)
{
    return c->root_bytes ? index_kind(c->root_type) : -1;
}

/* ---- the pages ---- */

static const volatile struct index_head *head_of(const ps_container *c)
{
    return (const volatile struct index_head *)(uintptr_t)c->base;
}

static uint64_t head_stamp(const struct look *l)
{
    __asm__ volatile("" : : : "memory"); /* loads stay in their order on this machine */
    return head_of(l->container)->stamp;
}

static uint64_t end_stamp(const struct look *l)
{
    const uintptr_t at = l->container->base + INDEX_END * KD_PAGE_BYTES;
    return ((const volatile struct index_end *)at)->stamp;
}

uint64_t pages_of(const ps_container *c)
{
    return INDEX_PAGES((c->segment[0].end - c->segment[0].base) / KD_PAGE_BYTES);
}

/* node_none makes a node without entries: the look that gets it is repeated, or fails. */
static void *node_none(struct look *l, unsigned level)
{
    struct ps_node *n = (struct ps_node *)(void *)l->copy[level];
    l->node[level] = NULL;
    memset(n, 0, sizeof *n);
    n->level = (uint16_t)level;
    n->heap = INDEX_NODE_BYTES;
    return n;
}

/* node_fits checks its level, and that slots and prefix lie within it. A slot may lead anywhere
 * behind the copy (struct looks), a key be of any length: what it is used for looks at that. */
static int node_fits(const struct look *l, const struct ps_node *n, unsigned level)
{
    return n->level == level && n->heap <= INDEX_NODE_BYTES &&
           sizeof *n + n->count * sizeof n->slot[0] <= n->heap &&
           n->prefix <= (l->kind == PS_NUMBERS ? 0 : INDEX_KEY_MAX);
}

/* node_fix copies a node, unless that was done since the last publication. */
static void *node_fix(void *look, unsigned level, void *node)
{
    struct look *l = look;
    uint64_t offset = (uintptr_t)node - l->container->base;
    if (level >= LEVELS) {              /* of a look that fails; the tree has so many at most */
        l->spoilt = 1;
        return node_none(l, LEVELS - 1);
    }
    if (l->node[level] == node && node)
        return l->copy[level];
    if (l->torn || offset % KD_PAGE_BYTES || offset / KD_PAGE_BYTES >= pages_of(l->container)) {
        l->spoilt |= !l->torn;
        return node_none(l, level);
    }
    l->node[level] = NULL;
    memcpy(l->copy[level], node, INDEX_NODE_BYTES);
    l->torn = head_stamp(l) != l->stamp;
    if (!l->torn && !node_fits(l, (const void *)l->copy[level], level))
        l->spoilt = 1;
    if (l->torn || l->spoilt)
        return node_none(l, level);
    l->node[level] = node;
    return l->copy[level];
}

/* look_anew takes the head as it is between two publications, with no node copied yet. */
static void look_anew(struct look *l, uint64_t stamp)
{
    const struct index_head *head = (const void *)(uintptr_t)l->container->base;
    struct ps_instance i = { .head = &l->tree.head,
                             .memory = {.fix = node_fix, .arg = l} };
    l->stamp = 0;
    l->placed = 0;
    memset(l->node, 0, sizeof l->node);
    l->tree = head->tree;
    if (head_stamp(l) != stamp)
        return;
    ps_access_open(&l->access.base, &i, &index_types[l->kind], PS_LOOK);
    if (l->access.base.error == 0 && (l->tree.height > LEVELS || l->tree.height == 0 ||
                                      l->tree.head.node_bytes != INDEX_NODE_BYTES))
        l->access.base.error = -EUCLEAN;
    if (l->access.base.error == -ENODATA)
        l->access.base.error = -EUCLEAN; /* it was written once */
    l->stamp = stamp;
}

enum { TURNS_MOST = 200000 };           /* of others, while a publication is under way */

/* look_begin begins a look. A publication that is under way is waited for; it depends on nobody. 0,
 * -ENODATA: the index was never written; -EUCLEAN, -EPROTOTYPE: its pages are not those of an
 * index. */
static int look_begin(struct look *l)
{
    uint64_t stamp;
    l->torn = l->spoilt = 0;
    for (unsigned turns = 0;;) {
        stamp = end_stamp(l);
        if (stamp != head_stamp(l)) {
            if (turns++ == TURNS_MOST || tx_active()->options.isolation == PS_SNAPSHOT)
                return -EUCLEAN; /* of a snapshot there is none under way */
            sched_yield();
            continue;
        }
        if (stamp == 0)
            return (void)(l->stamp = 0), -ENODATA;
        if (l->stamp == stamp && l->generation == l->container->generation)
            return l->access.base.error;
        l->generation = l->container->generation;
        look_anew(l, stamp);
    }
}

/* look_end ends a look: 0: it found what it wanted, or nothing; 1: begin anew; -EUCLEAN. */
static int look_end(const struct look *l)
{
    return l->torn ? 1 : l->spoilt ? -EUCLEAN : 0;
}

int look_holds(const struct look *l)
{
    return head_stamp(l) == l->stamp;
}

/* ---- keys ---- */

struct bytes key_of(const struct look *l, const void *key)
{
    return (struct bytes){key, l->kind == PS_NUMBERS
                                   ? (unsigned)sizeof(uint64_t)
                                   : (unsigned)strnlen(key, INDEX_KEY_MAX + 1)};
}

int key_order(const struct look *l, struct bytes a, struct bytes b)
{
    if (l->kind == PS_NUMBERS)
        return index_by_number(a.at, b.at);
    int c = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);
    return c ? c : (a.length > b.length) - (a.length < b.length);
}

/* ---- what is committed ---- */

int committed_find(struct look *l, const void *key, uint64_t *value)
{
    for (;;) {
        int error = look_begin(l);
        if (error != 0)
            return error == -ENODATA ? 0 : error;
        l->placed = 0;
        const uint64_t *record = ps_tree_find(&l->access, key, PS_LOOK);
        int again = look_end(l);
        if (again < 0)
            return again;
        if (again == 0) {
            if (record)
                *value = *record;
            return record != NULL;
        }
    }
}

/* place_find goes there in the copies: is anything there? */
static int place_find(struct look *l, struct bytes key, enum where where)
{
    struct ps_tree_access *a = &l->access;
    int back = where == BELOW_OR_AT || where == BELOW || where == LAST;
    int here = l->placed && (where == ABOVE || where == BELOW) &&
               node_compare(&a->base, key, a->path[0].node, a->path[0].at) == 0;
    l->placed = 0;
    if (here)                           /* one step on, mostly */
        a->path[0].at += !back;
    else if (where == FIRST || where == LAST)
        tree_edge(a, back);
    else
        tree_descend(a, key, where == ABOVE || where == BELOW_OR_AT, 0);
    if (l->torn || l->spoilt)
        return 0;
    if (!back)
        return a->path[0].at < a->path[0].node->count || tree_step(a, 0);
    if (a->path[0].at == 0 && !tree_step(a, 1))
        return 0;
    a->path[0].at--;
    return 1;
}

/* key_copy copies the key at the path's place: 1; 0: it is too long. */
static int key_copy(const struct look *l, struct key *found)
{
    const struct ps_node *n = l->access.path[0].node;
    const unsigned at = l->access.path[0].at;
    if (n->prefix + node_suffix(&l->access.base, n, at).length > INDEX_KEY_MAX)
        return 0;
    struct bytes there = node_key(&l->access.base, n, at, found->at);
    if (there.at != found->at)
        memcpy(found->at, there.at, there.length);
    found->length = there.length;
    return 1;
}

/* is_where tells whether it is on that side of the key looked for: who goes on from it ends. */
static int is_where(const struct look *l, struct bytes found, struct bytes key, enum where where)
{
    int order = where == FIRST || where == LAST ? 0 : key_order(l, found, key);
    switch (where) {
    case AT_OR_ABOVE: return order >= 0;
    case ABOVE: return order > 0;
    case BELOW_OR_AT: return order <= 0;
    case BELOW: return order < 0;
    default: return 1;
    }
}

int committed_near(struct look *l, struct bytes key, enum where where, struct key *found,
                   uint64_t *value)
{
    for (;;) {
        int error = look_begin(l);
        if (error != 0)
            return error == -ENODATA ? 0 : error;
        int is = place_find(l, key, where), again = look_end(l);
        if (again < 0)
            return again;
        if (again)
            continue;
        if (!is)
            return 0;
        if (l->access.path[0].at >= l->access.path[0].node->count || !key_copy(l, found) ||
            !is_where(l, key_bytes(found), key, where))
            return -EUCLEAN;
        l->placed = 1;
        *value = *(const uint64_t *)node_record(&l->access.base, l->access.path[0].node,
                                                l->access.path[0].at);
        return 1;
    }
}

/* ---- every invariant ---- */

struct check { ps_container *c; struct ps_tree_stats *stats; const char **why; };

/* node_there returns the node itself: it is read where it lies. NULL: that is not in the index. */
static void *node_there(void *container, unsigned level, void *node)
{
    const ps_container *c = container;
    uint64_t offset = (uintptr_t)node - c->base;
    (void)level;
    return offset % KD_PAGE_BYTES || offset / KD_PAGE_BYTES >= pages_of(c) ? NULL : node;
}

/* check runs in a snapshot, where pages stay as they are. */
static int check(void *arg)
{
    struct check *k = arg;
    struct index_head *head = (struct index_head *)(uintptr_t)k->c->base;
    struct ps_instance i = { .head = &head->tree.head,
                             .memory = {.fix = node_there, .arg = k->c} };
    struct ps_tree_access a;
    const uintptr_t end = k->c->base + INDEX_END * KD_PAGE_BYTES;
    if (((const struct index_end *)end)->stamp != head->stamp) {
        if (k->why)
            *k->why = "head and end are not of one time";
        return -EUCLEAN;
    }
    if (head->stamp == 0)
        return 0;
    if (head->tree.spare) {
        if (k->why)
            *k->why = "the head is spoilt";
        return -EUCLEAN;
    }
    ps_access_open(&a.base, &i, &index_types[index_kind_of(k->c)], PS_LOOK);
    int r = ps_tree_check(&a, k->stats, k->why);
    return r == -ENODATA ? -EUCLEAN : r;
}

static int check_run(void *arg)
{
    return error_told_if(ERROR_INDEX, check(arg));
}

int ps_index_check(ps_index *x, struct ps_tree_stats *stats, const char **why)
{
    struct ps_tree_stats none;
    struct check k = {x, stats ? stats : &none, why};
    struct ps_tx *tx = tx_active();
    memset(k.stats, 0, sizeof *k.stats);
    if (why)
        *why = NULL;
    if (!container_is_open(x) || index_kind_of(x) < 0)
        return error_told(ERROR_INDEX, -EINVAL);
    if (!tx)
        return ps_transaction_opt(check_run, &k,
                                  &(struct ps_options){.isolation = PS_SNAPSHOT});
    return tx->options.isolation == PS_SNAPSHOT ? check_run(&k) : error_told(ERROR_INDEX, -EINVAL);
}
