/* item_split.c - indexes on items: nodes come and go, leaves split. A split is a transaction of its
 * own with X at the leaf and then at the root; and part of the one that runs where that has the
 * container, or its pages, to itself. */
#include "item_private.h"

#include <string.h>

/* ---- nodes come and go ---- */

struct ps_items_node *items_node(const struct ps_items_access *a, unsigned level)
{
    struct ps_items_node *n = structure_take(&a->base);
    if (n) {
        n->level = (uint16_t)level;
        *seal_of(n) = seal_for(a, n);
    }
    return n;
}

static void node_give(const struct ps_items_access *a, struct ps_items_node *n)
{
    *seal_of(n) = 0;
    structure_give(&a->base, n);
}

static void below_give(const struct ps_items_access *a, struct ps_items_node *n)
{
    for (unsigned i = 0; n->level > 0 && i < n->count; i++)
        if (!is_hash(a))
            below_give(a, child_at(a, n, i)->node);
        else if (i == 0 || fan_of(n)[i] != fan_of(n)[i - 1])
            below_give(a, fan_of(n)[i]);
    node_give(a, n);
}

int ps_items_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_items_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    int error = a.base.error ? a.base.error : ps_lock(items_container(&a), 0);
    if (error)
        return error;
    below_give(&a, items_of(&a)->root);
    structure_clear(&a.base);
    return 0;
}

/* ---- a leaf of the tree ---- */

/* The numbers of its entries, in the order of their keys; how many. */
static unsigned entries_sort(const struct ps_items_access *a, const struct ps_items_node *n,
                             uint16_t *order)
{
    unsigned used = 0, end = entries_max(a);
    for (unsigned i = 0; i < end; i++) {
        unsigned at = used;
        if (!tag_at(a, n, i))
            continue;
        while (at > 0 && a->base.compare(key_at(a, n, i), key_at(a, n, order[at - 1])) < 0)
            order[at] = order[at - 1], at--;
        order[at] = (uint16_t)i;
        used++;
    }
    return used;
}

/* These entries, in order, and no others. */
static void leaf_fill(const struct ps_items_access *a, struct ps_items_node *n,
                      const struct ps_items_node *from, const uint16_t *order, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        memcpy(entry_at(a, n, i), entry_at(a, from, order[i]), entry_bytes(a));
    for (unsigned i = count; i < entries_max(a); i++)
        entry_at(a, n, i)->tag = 0;
    n->count = (uint16_t)count;
}

/* ---- branches of the tree ---- */

/* Takes the nodes that a split needs, and the branches that it changes: how many nodes, -errno. */
static int nodes_prepare(const struct ps_items_access *a, const struct way *way,
                         struct ps_items_node **nodes)
{
    unsigned count = 1, level = way->depth;
    int full = 1;
    for (; level > 0 && full; level--) {
        struct ps_items_node *n = way->node[level - 1];
        if (!ps_access(n, PS_NODE_BYTES, PS_X))
            return -errno;
        full = n->count == children_max(a);
        count += (unsigned)full;
    }
    count += (unsigned)full;
    if (full && way->depth + 1 >= PS_TREE_LEVELS)
        return -EFBIG;
    int error = structure_take_all(&a->base, (void **)nodes, count);
    for (unsigned i = 0; error == 0 && i < count; i++) {
        nodes[i]->level = (uint16_t)i;
        *seal_of(nodes[i]) = seal_for(a, nodes[i]);
    }
    return error;
}

static void child_put(const struct ps_items_access *a, struct ps_items_node *n, unsigned at,
                      const void *key, struct ps_items_node *child)
{
    struct child *c = child_at(a, n, at);
    memmove(child_at(a, n, at + 1), c, (n->count - at) * (8 + key_words(a)));
    c->node = child;
    memcpy(c->key, key, a->base.type->key_bytes);
    n->count++;
}

/* Tells the levels above of a new leaf, with keys from this one on. */
static void child_rise(const struct ps_items_access *a, const struct way *way,
                       struct ps_items_node **nodes, const void *key)
{
    _Alignas(8) uint8_t up[PS_KEY_MAX];
    const unsigned bytes = a->base.type->key_bytes, max = children_max(a);
    struct ps_items_node *added = *nodes++;
    memcpy(up, key, bytes);
    for (unsigned level = way->depth; level > 0; level--) {
        struct ps_items_node *n = way->node[level - 1], *right;
        unsigned at = way->at[level - 1] + 1, half = at == max ? max - 1 : max / 2;
        if (n->count < max) {
            child_put(a, n, at, up, added);
            return;
        }
        right = *nodes++;
        memcpy(child_at(a, right, 0), child_at(a, n, half), (max - half) * (8 + key_words(a)));
        right->count = (uint16_t)(max - half);
        n->count = (uint16_t)half;
        child_put(a, at > half ? right : n, at > half ? at - half : at, up, added);
        memcpy(up, child_at(a, right, 0)->key, bytes);
        added = right;
    }
    struct ps_items_node *root = *nodes;
    child_at(a, root, 0)->node = items_of(a)->root;
    root->count = 1;
    child_put(a, root, 1, up, added);
    items_of(a)->root = root;
}

/* The leaf is put in order, if that makes room. Else keys go to a new one: half of them; or, if the
 * leaf has room or would be full again, those from the key on that is to come. */
static int tree_split(const struct ps_items_access *a, struct ps_items_node *leaf, const void *key,
                      const struct way *way, int room)
{
    uint64_t bytes[PS_NODE_BYTES / 8];
    uint16_t order[DATA_BYTES / 16];
    struct ps_items_node *nodes[PS_TREE_LEVELS + 1], *old = (struct ps_items_node *)bytes;
    memcpy(bytes, leaf, PS_NODE_BYTES);
    unsigned used = entries_sort(a, old, order), below = 0, half = used / 2;
    if (!room && used * 4 < entries_max(a) * 3) {
        leaf_fill(a, leaf, old, order, used);
        return 0;
    }
    while (below < used && a->base.compare(key_at(a, old, order[below]), key) < 0)
        below++;
    if (old->bounds & LOW && a->base.compare(low_of(old), key) == 0)
        room = below = 0;
    const void *first = room || below == used ? key : key_at(a, old, order[half]);
    half = first == key ? below : half;
    if (used == 0 && first != key)
        return 0;
    int error = nodes_prepare(a, way, nodes);
    if (error)
        return error;
    struct ps_items_node *right = nodes[0];
    leaf_fill(a, right, old, order + half, used - half);
    right->bounds = LOW | (old->bounds & HIGH);
    memcpy(low_of(right), first, a->base.type->key_bytes);
    memcpy(high_of(a, right), high_of(a, old), a->base.type->key_bytes);
    right->next = old->next;
    leaf_fill(a, leaf, old, order, half);
    memcpy(high_of(a, leaf), first, a->base.type->key_bytes);
    leaf->bounds |= HIGH;
    leaf->next = right;
    child_rise(a, way, nodes, first);
    return 0;
}

/* ---- a bucket of the hash ---- */

/* A node between the bucket and what led to it, which is one child only. */
static int fan_make(const struct ps_items_access *a, struct ps_items_node **link,
                    struct ps_items_node *bucket)
{
    struct ps_items_node *n = items_node(a, 1);
    if (!n || !ps_access(link, sizeof *link, PS_X))
        return -errno;
    n->depth = bucket->depth;
    n->count = FAN;
    for (unsigned i = 0; i < FAN; i++)
        fan_of(n)[i] = bucket;
    *link = n;
    return 0;
}

/* The keys whose next bit is 1 go to a bucket of their own. */
static int hash_split(const struct ps_items_access *a, struct ps_items_node *bucket, uint64_t tag,
                      const struct way *way)
{
    struct ps_items_node *n = way->depth ? way->node[way->depth - 1] : NULL;
    const unsigned depth = bucket->depth;
    if (depth == 63)
        return -EOVERFLOW;
    if (!n || depth - n->depth == FAN_BITS) {
        struct ps_items_node **link = n ? &fan_of(n)[way->at[way->depth - 1]] : &items_of(a)->root;
        int error = fan_make(a, link, bucket);
        if (error)
            return error;
        n = *link;
    }
    struct ps_items_node *right = items_node(a, 0);
    if (!right || !ps_access(n, PS_NODE_BYTES, PS_X))
        return -errno;
    right->hash = bucket->hash | 1ull << (63 - depth);
    right->depth = bucket->depth = (uint16_t)(depth + 1);
    right->next = bucket->next;
    bucket->next = right;
    for (unsigned i = 0; i < entries_max(a); i++)
        if ((tag = tag_at(a, bucket, i)) >> (63 - depth) & 1 && tag) {
            memcpy(entry_at(a, right, i), entry_at(a, bucket, i), entry_bytes(a));
            entry_at(a, bucket, i)->tag = 0;
        }
    unsigned first = (unsigned)(right->hash << n->depth >> (64 - FAN_BITS));
    unsigned share = (unsigned)FAN >> (depth + 1 - n->depth);
    for (unsigned i = 0; i < share; i++)
        fan_of(n)[first + i] = right;
    return 0;
}

/* ---- both ---- */

static int has_room(const struct ps_items_access *a, const struct ps_items_node *n)
{
    for (unsigned i = n->count; i < entries_max(a); i++)
        if (!tag_at(a, n, i))
            return 1;
    return 0;
}

/* `seen`: how the leaf was when it was found to be full; others may have split it meanwhile. If
 * not, it may have room all the same: what filled it was of transactions that are undone. */
static int leaf_split(const struct ps_items_access *a, struct ps_items_node *leaf,
                      const struct ps_items_node *seen, const void *key, uint64_t tag)
{
    struct way way;
    if (!ps_access(leaf, PS_NODE_BYTES, PS_X) || !ps_access(&items_of(a)->root, 8, PS_X))
        return -errno;
    int same = items_descend(a, key, tag, &way) == leaf && memcmp(leaf, seen, sizeof *seen) == 0;
    return !same      ? 0
           : is_hash(a) ? hash_split(a, leaf, tag, &way)
                        : tree_split(a, leaf, key, &way, has_room(a, leaf));
}

/* What is to be split by the next transaction of this thread. */
static __thread struct {
    struct ps_items_access a;
    struct ps_items_node *leaf, seen;
    uint64_t tag;
    _Alignas(16) uint8_t key[PS_KEY_MAX];
} wanted;

static int wanted_split(void *unused)
{
    (void)unused;
    return leaf_split(&wanted.a, wanted.leaf, &wanted.seen, wanted.key, wanted.tag);
}

int items_grow(const struct ps_items_access *a, struct ps_items_node *leaf, const void *key,
               uint64_t tag)
{
    wanted.a = *a;
    wanted.leaf = leaf;
    wanted.seen = *leaf;
    wanted.tag = tag;
    memcpy(wanted.key, key, a->base.type->key_bytes);
    int error = ps_apart(items_container(a), wanted_split, NULL);
    return error ? error : leaf_split(a, leaf, &wanted.seen, key, tag);
}
