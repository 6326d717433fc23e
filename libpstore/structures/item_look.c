/* item_look.c - indexes on items gone through: generators; a check. */
#include "item_private.h"

#include <string.h>

/* ---- the generators ---- */

enum { BEGIN, WITHIN, AT_END };

void ps_items_range(struct ps_items_range *r, const void *from, const void *to, int how)
{
    r->leaf = NULL;
    r->how = how;
    r->state = BEGIN;
    r->at = 0;
    r->from = from;
    r->last = to;
    r->filter = NULL;
    if (r->access.base.error == 0 && how & ~PS_BELOW)
        r->access.base.error = -EINVAL;
}

static int is_beyond(const struct ps_items_range *r, const void *key)
{
    int order = r->last ? r->access.base.compare(key, r->last) : -1;
    return order > 0 || (order == 0 && r->how & PS_BELOW);
}

/* The next entry of the tree; NULL: none, or an error. */
static struct entry *tree_next(struct ps_items_range *r, int *error)
{
    struct ps_items_access *a = &r->access;
    const int from = r->state == BEGIN;
    const void *key = from ? r->from : r->key;
    unsigned at;
    if (!r->leaf || items_covers(a, r->leaf, key, 0) != 0)
        r->leaf = items_leaf(a, key, 0, PS_IS);
    uint64_t tag = r->leaf ? items_gap(a, &r->leaf, key, from, &at, PS_S) : 0;
    if (!tag)
        *error = -errno;
    if (!tag || tag == END_TAG || is_beyond(r, key_at(a, r->leaf, at)))
        return NULL;
    memcpy(r->key, key_at(a, r->leaf, at), a->base.type->key_bytes);
    return entry_at(a, r->leaf, at);
}

/* The same of the hash, bucket by bucket; where the next one begins is in r->key meanwhile. */
static struct entry *hash_next(struct ps_items_range *r, int *error)
{
    struct ps_items_access *a = &r->access;
    uint64_t hash = 0;
    for (;;) {
        if (!r->leaf && !(r->leaf = items_leaf(a, NULL, hash, PS_S))) {
            *error = -errno;
            return NULL;
        }
        while (r->at < entries_max(a))
            if (tag_at(a, r->leaf, r->at++)) {
                memcpy(r->key, key_at(a, r->leaf, r->at - 1), a->base.type->key_bytes);
                return entry_at(a, r->leaf, r->at - 1);
            }
        hash = r->leaf->depth ? (r->leaf->hash | UINT64_MAX >> r->leaf->depth) + 1 : 0;
        if (hash == 0)
            return NULL;
        r->leaf = NULL;
        r->at = 0;
    }
}

void *ps_items_next(struct ps_items_range *r)
{
    struct ps_items_access *a = &r->access;
    int error = a->base.error;
    while (error == 0 && r->state != AT_END) {
        struct entry *e = is_hash(a) ? hash_next(r, &error) : tree_next(r, &error);
        if (!e)
            break;
        r->state = WITHIN;
        if (!r->filter || r->filter(r->key, e->record, r->arg))
            return e->record;
    }
    r->state = AT_END;
    return structure_none(error);
}

int ps_items_drop(struct ps_items_range *r)
{
    int error = structure_refuses(&r->access.base, PS_CHANGE);
    return error ? error : r->state != WITHIN ? -EINVAL : ps_items_remove(&r->access, r->key);
}

/* ---- every invariant ---- */

struct walk {
    const struct ps_items_access *a;
    struct ps_items_stats *stats;
    const struct ps_items_node *last;   /* leaf of the tree */
};

/* The first entries are in order, free ones too; no key is there twice, and tags are theirs. */
static const char *check_entries(struct walk *w, const struct ps_items_node *n)
{
    const struct ps_items_access *a = w->a;
    if (n->count > entries_max(a) || (is_hash(a) && n->count))
        return "a leaf's count is spoilt";
    for (unsigned i = 0; i < entries_max(a); i++) {
        const void *key = key_at(a, n, i);
        uint64_t tag = tag_at(a, n, i);
        if (i > 0 && i < n->count && a->base.compare(key_at(a, n, i - 1), key) >= 0)
            return "entries are not in order";
        if (!tag)
            continue;
        if (tag != items_tag(a, key))
            return "a tag is not its key's";
        if (items_covers(a, n, key, tag) != 0)
            return "a key is in the wrong leaf";
        for (unsigned k = 0; k < i; k++)
            if (tag_at(a, n, k) == tag && a->base.compare(key_at(a, n, k), key) == 0)
                return "a key is there twice";
        w->stats->records++;
    }
    w->stats->leaves++;
    return NULL;
}

/* Leaves of the tree are a chain without gaps, each within what its parent says. */
static const char *check_leaf(struct walk *w, const struct ps_items_node *n, const void *low,
                              const void *high)
{
    const unsigned bytes = w->a->base.type->key_bytes;
    if (!is_hash(w->a)) {
        if (n->bounds != ((low ? LOW : 0) | (high ? HIGH : 0)) ||
            (low && memcmp(low, low_of(n), bytes)) ||
            (high && memcmp(high, high_of(w->a, n), bytes)))
            return "a leaf's bounds are not those of its parent";
        if ((w->last && w->last->next != n) || (!high && n->next))
            return "the chain of leaves leads elsewhere";
        w->last = n;
    }
    return check_entries(w, n);
}

static const char *check_node(struct walk *w, const struct ps_items_node *n, const void *low,
                              const void *high, unsigned depth);

static const char *check_children(struct walk *w, const struct ps_items_node *n, const void *low,
                                  const void *high, unsigned depth)
{
    const struct ps_items_access *a = w->a;
    const char *why = NULL;
    if (n->count < 2 || n->count > children_max(a))
        return "a branch's count is spoilt";
    for (unsigned i = 0; !why && i < n->count; i++) {
        const struct child *c = child_at(a, n, i);
        const void *least = i ? c->key : low;
        const void *end = i + 1u < n->count ? child_at(a, n, i + 1)->key : high;
        if (least && end && a->base.compare(least, end) >= 0)
            return "the keys of a branch are not in order";
        if (is_sealed(a, c->node) && c->node->level != n->level - 1)
            return "a node is not of the level below its parent";
        why = check_node(w, c->node, least, end, depth + 1);
    }
    return why;
}

/* Each bucket has its share of children, side by side. */
static const char *check_fan(struct walk *w, const struct ps_items_node *n, unsigned depth)
{
    const char *why = NULL;
    for (unsigned i = 0, share; !why && i < FAN; i += share) {
        const struct ps_items_node *c = fan_of(n)[i];
        share = 1;
        if (!is_sealed(w->a, c))
            return "a child is no node";
        if (c->level == 0 && (c->depth <= n->depth || c->depth > n->depth + FAN_BITS))
            return "a bucket's depth is spoilt";
        if (c->level == 0)
            share = FAN >> (c->depth - n->depth);
        if (c->level == 0 && (c->hash << n->depth >> (64 - FAN_BITS)) != i)
            return "a bucket does not begin where the one before it ends";
        if (c->level > 0 && c->depth != n->depth + FAN_BITS)
            return "a branch's depth is spoilt";
        for (unsigned k = 1; k < share; k++)
            if (fan_of(n)[i + k] != c)
                return "a hash leads to another bucket";
        why = check_node(w, c, NULL, NULL, depth + 1);
    }
    return why;
}

static const char *check_node(struct walk *w, const struct ps_items_node *n, const void *low,
                              const void *high, unsigned depth)
{
    if (!is_sealed(w->a, n) || (uintptr_t)n % 16 != 0)
        return "a child is no node";
    if (depth >= PS_TREE_LEVELS)
        return "a branch leads back to itself";
    if (depth + 1 > w->stats->height)
        w->stats->height = depth + 1;
    if (n->level == 0)
        return check_leaf(w, n, low, high);
    w->stats->branches++;
    return is_hash(w->a) ? check_fan(w, n, depth) : check_children(w, n, low, high, depth);
}

int ps_items_check(const struct ps_items_access *a, struct ps_items_stats *stats, const char **why)
{
    struct ps_items_stats own = {0};
    struct walk w = {.a = a, .stats = &own};
    const char *what = a->base.error ? structure_unset
                                     : check_node(&w, items_of(a)->root, NULL, NULL, 0);
    if (own.leaves)
        own.fill = (uint32_t)(own.records * 100 / (own.leaves * entries_max(a)));
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
