/* item_index.c - indexes on items: a tree and a hash that are looked up and changed key by key, by
 * several at once. The rules are in item_private.h. */
#include "item_private.h"

#include <string.h>

enum { TRIES = 1000 };

/* ---- set up ---- */

int ps_items_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_items_access a;
    if (!i->head || !i->memory.arg || ps_container_of(i->head) != i->memory.arg)
        return -EINVAL;
    if (!ps_access(i->head, sizeof(struct ps_items), PS_X))
        return -errno;
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    items_of(&a)->born = (uintptr_t)i->head;
    items_of(&a)->root = items_node(&a, 0);
    return structure_end(&a.base, i, items_of(&a)->root ? 0 : -errno);
}

/* ---- names ---- */

uint64_t items_tag(const struct ps_items_access *a, const void *key)
{
    uint64_t hash = a->base.type->hash(key);
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return (hash ^ hash >> 33) | 1;
}

int items_name(const struct ps_items_access *a, uint64_t tag, int mode)
{
    return ps_key(items_container(a), tag + items_of(a)->born * 0x9e3779b97f4a7c15u, mode);
}

/* ---- the way down ---- */

int items_covers(const struct ps_items_access *a, const struct ps_items_node *n, const void *key,
                 uint64_t tag)
{
    if (is_hash(a))
        return n->depth && (tag ^ n->hash) >> (64 - n->depth) ? 1 : 0;
    if (n->bounds & LOW && (!key || a->base.compare(key, low_of(n)) < 0))
        return -1;
    return n->bounds & HIGH && key && a->base.compare(key, high_of(a, n)) >= 0;
}

/* The last child whose least key is not above this one. */
static unsigned child_of(const struct ps_items_access *a, const struct ps_items_node *n,
                         const void *key)
{
    unsigned low = 1, count = n->count;
    count = key && count ? (count > children_max(a) ? children_max(a) : count) - 1 : 0;
    while (count > 0) {
        unsigned half = count / 2;
        if (a->base.compare(key, child_at(a, n, low + half)->key) >= 0) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low - 1;
}

struct ps_items_node *items_descend(const struct ps_items_access *a, const void *key, uint64_t tag,
                                    struct way *way)
{
    struct ps_items_node *n = __atomic_load_n(&items_of(a)->root, __ATOMIC_ACQUIRE);
    way->depth = 0;
    while (is_sealed(a, n) && n->level > 0 && way->depth < PS_TREE_LEVELS) {
        unsigned at = is_hash(a) ? (unsigned)(tag << n->depth >> (64 - FAN_BITS))
                                 : child_of(a, n, key);
        way->node[way->depth] = n;
        way->at[way->depth++] = at;
        n = __atomic_load_n(is_hash(a) ? &fan_of(n)[at] : &child_at(a, n, at)->node,
                            __ATOMIC_ACQUIRE);
    }
    return is_sealed(a, n) && n->level == 0 ? n : NULL;
}

/* NX3: what was seen was half published, and is whole when who splits has ended. */
static int split_wait(const struct ps_items_access *a)
{
    struct ps_items_node *const *root = &items_of(a)->root;
    return ps_access(root, sizeof *root, PS_S) ? ps_release(root) : -errno;
}

struct ps_items_node *items_leaf(const struct ps_items_access *a, const void *key, uint64_t tag,
                                 int mode)
{
    struct way way;
    for (int tries = 0; tries < TRIES; tries++) {
        struct ps_items_node *n = items_descend(a, key, tag, &way);
        for (int where = 1; n && where > 0; n = where > 0 ? n->next : n) {
            if (!ps_access(n, 1, mode))
                return NULL;
            where = is_sealed(a, n) && n->level == 0 ? items_covers(a, n, key, tag) : -1;
            if (where == 0)
                return n;
        }
        int error = split_wait(a);
        if (error)
            return structure_none(error);
    }
    return structure_none(-EUCLEAN);
}

/* ---- entries ---- */

/* The first of the entries in order whose key is not below this one (behind: is above). */
static unsigned in_order(const struct ps_items_access *a, const struct ps_items_node *n,
                         const void *key, int behind)
{
    unsigned low = 0, count = key ? n->count : 0;
    while (count > 0) {
        unsigned half = count / 2;
        if (a->base.compare(key, key_at(a, n, low + half)) >= !behind) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* Where the search for a key begins among the entries in no order. */
static unsigned home_of(const struct ps_items_access *a, const struct ps_items_node *n,
                        uint64_t tag)
{
    unsigned count = entries_max(a) - n->count;
    return n->count + ((unsigned)(tag >> 16 & 0xffff) * count >> 16);
}

/* The first entry with this tag and key of those from first to end, -1: none. */
static int entry_seek(const struct ps_items_access *a, const struct ps_items_node *n,
                      unsigned first, unsigned end, const void *key, uint64_t tag)
{
    const unsigned bytes = entry_bytes(a), key_at = 8 + a->base.shape[0].key_at;
    const uint8_t *e = (const uint8_t *)entry_at(a, n, first);
    for (unsigned i = first; i < end; i++, e += bytes)
        if (__builtin_expect(*(const volatile uint64_t *)(const void *)e == tag, 0) &&
            a->base.compare(key, e + key_at) == 0)
            return (int)i;
    return -1;
}

/* The entry of the key, -1: none. */
static int entry_find(const struct ps_items_access *a, const struct ps_items_node *n,
                      const void *key, uint64_t tag)
{
    const unsigned home = home_of(a, n, tag);
    unsigned i = n->count ? in_order(a, n, key, 0) : 0;
    if (i < n->count && tag_at(a, n, i) == tag && a->base.compare(key, key_at(a, n, i)) == 0)
        return (int)i;
    int found = entry_seek(a, n, home, entries_max(a), key, tag);
    return found >= 0 ? found : entry_seek(a, n, n->count, home, key, tag);
}

/* The least key behind this one in the leaf, -1: none. What is just being published may be missed,
 * or seen in a wrong place. */
static int entry_behind(const struct ps_items_access *a, const struct ps_items_node *n,
                        const void *key, int from)
{
    const unsigned bytes = entry_bytes(a), end = entries_max(a), at = 8 + a->base.shape[0].key_at;
    int (*const compare)(const void *, const void *) = a->base.compare;
    unsigned i = in_order(a, n, key, !from);
    while (i < n->count && !tag_at(a, n, i))
        i++;
    const uint8_t *e = (const uint8_t *)entry_at(a, n, n->count);
    const uint8_t *best = i < n->count ? key_at(a, n, i) : NULL;
    int found = best ? (int)i : -1;
    for (i = n->count; i < end; i++, e += bytes)
        if (*(const volatile uint64_t *)(const void *)e && (!best || compare(e + at, best) < 0) &&
            (!key || compare(e + at, key) >= !from)) {
            best = e + at;
            found = (int)i;
        }
    return found;
}

/* The same in this leaf and those behind it, which are locked. */
static uint64_t seek(const struct ps_items_access *a, struct ps_items_node **leaf, const void *key,
                     int from, unsigned *at)
{
    struct ps_items_node *n = *leaf;
    for (;;) {
        int i = entry_behind(a, n, key, from);
        uint64_t tag = i < 0 ? 0 : tag_at(a, n, (unsigned)i);
        if (tag) {
            *leaf = n;
            *at = (unsigned)i;
            return tag;
        }
        if (i < 0 && !n->next)
            return END_TAG;
        if (i < 0)
            n = n->next;
        if (i < 0 && !ps_access(n, 1, PS_IS))
            return 0;
    }
}

/* NX5: who looks again and finds the same has the gap. */
uint64_t items_gap(const struct ps_items_access *a, struct ps_items_node **leaf, const void *key,
                   int from, unsigned *at, int mode)
{
    struct ps_items_node *first = *leaf;
    for (;;) {
        uint64_t tag = seek(a, leaf, key, from, at);
        int error = tag ? items_name(a, tag, mode) : -errno;
        if (error) {
            errno = -error;
            return 0;
        }
        *leaf = first;
        if (seek(a, leaf, key, from, at) == tag)
            return tag;
        *leaf = first;
    }
}

/* A free entry for a key, with X at it; -1: none, or -errno. One that is taken meanwhile, or by
 * somebody who has not committed, is not waited for. */
static int entry_claim(const struct ps_items_access *a, struct ps_items_node *n, uint64_t tag,
                       int *error)
{
    const unsigned end = entries_max(a), count = end - n->count;
    unsigned i = home_of(a, n, tag);
    *error = 0;
    for (unsigned left = count; left > 0; left--, i = i + 1 < end ? i + 1 : n->count) {
        if (tag_at(a, n, i))
            continue;
        if (ps_access(entry_at(a, n, i), entry_bytes(a), PS_X | PS_NOW)) {
            if (!tag_at(a, n, i))
                return (int)i;
        } else if (errno != EBUSY) {
            *error = -errno;
            break;
        }
    }
    return -1;
}

/* ---- what programs call ---- */

/* The record, for a change declared. */
static void *record_of(const struct ps_items_access *a, struct ps_items_node *n, int i,
                       enum ps_mode mode)
{
    uint8_t *record = entry_at(a, n, (unsigned)i)->record;
    return mode == PS_LOOK ? record : ps_access(record, a->base.type->record_bytes, PS_X);
}

void *ps_items_find(struct ps_items_access *a, const void *key, enum ps_mode mode)
{
    int error = structure_refuses(&a->base, mode);
    uint64_t tag = error ? 0 : items_tag(a, key);
    error = error ? error : items_name(a, tag, mode == PS_LOOK ? PS_S : PS_X);
    if (error)
        return structure_none(error);
    struct ps_items_node *n = items_leaf(a, key, tag, mode == PS_LOOK ? PS_IS : PS_IX);
    int i = n ? entry_find(a, n, key, tag) : -1;
    return !n ? NULL : i < 0 ? structure_none(-ENOENT) : record_of(a, n, i, mode);
}

static int entry_fill(const struct ps_items_access *a, struct ps_items_node *n, unsigned i,
                      const void *key, const void *record, uint64_t tag)
{
    memcpy(entry_at(a, n, i)->record, record, a->base.type->record_bytes);
    memcpy(key_at(a, n, i), key, a->base.type->key_bytes);
    entry_at(a, n, i)->tag = tag;
    return 0;
}

int ps_items_insert(struct ps_items_access *a, const void *key, const void *record, int replace)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    uint64_t tag = error ? 0 : items_tag(a, key);
    error = error ? error : items_name(a, tag, PS_X);
    while (error == 0) {
        struct ps_items_node *n = items_leaf(a, key, tag, PS_IX), *behind = n;
        unsigned at;
        int i = n ? entry_find(a, n, key, tag) : -1;
        if (i >= 0 && !replace)
            return -EEXIST;
        if (i >= 0) {
            void *old = record_of(a, n, i, PS_CHANGE);
            return old ? memcpy(old, record, a->base.type->record_bytes), 0 : -errno;
        }
        if (!n || (!is_hash(a) && !items_gap(a, &behind, key, 0, &at, PS_X)))
            return -errno;
        i = entry_claim(a, n, tag, &error);
        if (i >= 0)
            return entry_fill(a, n, (unsigned)i, key, record, tag);
        error = error ? error : items_grow(a, n, key, tag);
    }
    return error;
}

int ps_items_remove(struct ps_items_access *a, const void *key)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    uint64_t tag = error ? 0 : items_tag(a, key);
    error = error ? error : items_name(a, tag, PS_X);
    if (error)
        return error;
    struct ps_items_node *n = items_leaf(a, key, tag, PS_IX);
    int i = n ? entry_find(a, n, key, tag) : -1;
    if (!n || i < 0)
        return n ? -ENOENT : -errno;
    uint64_t *place = &entry_at(a, n, (unsigned)i)->tag;
    if (!ps_access(place, sizeof *place, PS_X))
        return -errno;
    *place = 0;
    return 0;
}
