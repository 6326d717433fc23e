/* hash.c - the extendible hash: looked up, changed; buckets split and join, the directory doubles.
 * A bucket is a node of node.c; if it is full and must not split, further ones hang on it. */
#include <errno.h>
#include <string.h>

#include "hash_private.h"

enum { DEPTH_MAX = 26 };        /* the directory is an object of at most half a GiB */

/* ---- from a key to its bucket ---- */

uint64_t hash_make(const struct ps_hash_access *a, struct bytes key)
{
    uint64_t hash = a->base.type->hash ? a->base.type->hash(key.at)
                                       : structure_hash(0, key.at, key.length);
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 33;
}

uint64_t hash_high(uint64_t hash, unsigned depth)
{
    return depth < 64 ? hash | UINT64_MAX >> depth : hash;
}

uint64_t hash_low(uint64_t hash, unsigned depth)
{
    return hash_high(hash, depth) ^ (depth < 64 ? UINT64_MAX >> depth : 0);
}

static uint64_t index_of(const struct ps_hash_access *a, uint64_t hash)
{
    uint64_t depth = hash_of(a)->depth;
    return depth ? hash >> (64 - depth) : 0;
}

struct ps_node *hash_bucket(const struct ps_hash_access *a, uint64_t hash)
{
    return hash_of(a)->directory[index_of(a, hash)];
}

/* Lets all hashes from low to high lead to that bucket. */
static void directory_set(struct ps_hash_access *a, uint64_t low, uint64_t high, struct ps_node *n)
{
    struct ps_node **directory = hash_of(a)->directory;
    const uint64_t first = index_of(a, low), last = index_of(a, high);
    structure_stores(&a->base, &directory[first], (last - first + 1) * sizeof *directory);
    for (uint64_t i = first; i <= last; i++)
        directory[i] = n;
}

/* ---- set up, tear down ---- */

static struct ps_node **directory_take(const struct ps_hash_access *a, uint64_t depth)
{
    return structure_take_near(&a->base, sizeof(struct ps_node *) << depth, NULL);
}

int ps_hash_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_hash_access a;
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    struct ps_node *n = structure_take(&a.base), **directory = n ? directory_take(&a, 0) : NULL;
    if (!directory) {
        error = -errno;
        if (n)
            structure_give(&a.base, n);
        return structure_end(&a.base, i, error);
    }
    node_init(&a.base, n, 0);
    directory[0] = n;
    hash_of(&a)->directory = directory;
    return structure_end(&a.base, i, 0);
}

static void chain_give(const struct ps_hash_access *a, struct ps_node *n)
{
    for (struct ps_node *next; n; n = next) {
        next = n->first;
        structure_give(&a->base, n);
    }
}

int ps_hash_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_hash_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    for (uint64_t hash = 0, high;; hash = high + 1) {
        struct ps_node *n = hash_bucket(&a, hash);
        high = hash_high(hash, n->depth);
        chain_give(&a, n);
        if (high == UINT64_MAX)
            break;
    }
    structure_give(&a.base, hash_of(&a)->directory);
    structure_clear(&a.base);
    return 0;
}

/* ---- look-up ---- */

struct place { struct ps_node *node; unsigned at; };

/* Where the key is; node NULL: nowhere. */
static struct place place_find(struct ps_hash_access *a, struct bytes key, uint64_t hash)
{
    for (struct ps_node *n = hash_bucket(a, hash); n; n = n->first) {
        unsigned i = node_search(&a->base, n, key, 0);
        if (i < n->count && node_compare(&a->base, key, n, i) == 0)
            return (struct place){n, i};
    }
    return (struct place){NULL, 0};
}

/* The node is about to change, perhaps a further one of the bucket that has been claimed. */
static void further_changes(const struct ps_hash_access *a, const struct ps_node *n, uint64_t hash)
{
    if (n != hash_bucket(a, hash))
        structure_changes(&a->base, n);
}

void *ps_hash_find(struct ps_hash_access *a, const void *key, enum ps_mode mode)
{
    int error = structure_refuses(&a->base, mode);
    if (error)
        return structure_none(error);
    struct bytes probe = node_probe(&a->base, key);
    uint64_t hash = hash_make(a, probe);
    if (mode == PS_CHANGE)
        node_claim(&a->base, hash_bucket(a, hash));
    struct place p = place_find(a, probe, hash);
    if (mode == PS_CHANGE && p.node)
        further_changes(a, p.node, hash);
    return p.node ? node_record(&a->base, p.node, p.at) : structure_none(-ENOENT);
}

/* ---- buckets grow ---- */

static void entry_put(struct ps_hash_access *a, struct ps_node *n, struct bytes key,
                      const void *record)
{
    unsigned i = node_search(&a->base, n, key, 0);
    memcpy(node_place(&a->base, n, i, key, 0), record, a->base.type->record_bytes);
}

/* Moves the entries with hashes from low on to another node, which has room. */
static void entries_move(struct ps_hash_access *a, struct ps_node *from, struct ps_node *to,
                         uint64_t low)
{
    _Alignas(16) uint8_t copy[KEY_COPY];
    structure_changes(&a->base, from);
    structure_changes(&a->base, to);
    for (unsigned i = 0; i < from->count;) {
        struct bytes key = node_key(&a->base, from, i, copy);
        if (hash_make(a, key) < low) {
            i++;
            continue;
        }
        entry_put(a, to, key, node_record(&a->base, from, i));
        node_erase(&a->base, from, i);
    }
}

/* Takes the nodes without entries out of a bucket, but for its first node. */
static void chain_tidy(struct ps_hash_access *a, struct ps_node *bucket)
{
    for (struct ps_node *before = bucket; before->first;) {
        struct ps_node *n = before->first;
        if (n->count > 0) {
            before = n;
            continue;
        }
        structure_changes(&a->base, before);
        before->first = n->first;
        structure_give(&a->base, n);
    }
}

/* The upper half of a bucket's hashes goes to a bucket of its own, with as many nodes. */
static int bucket_split(struct ps_hash_access *a, struct ps_node *bucket, uint64_t hash)
{
    unsigned depth = bucket->depth;
    struct ps_node *right = NULL, *old = bucket, *n;
    for (; old; old = old->first) {
        n = structure_take(&a->base);
        if (!n) {
            int error = -errno;
            chain_give(a, right);
            return error;
        }
        node_init(&a->base, n, 0);
        n->first = right;
        right = n;
    }
    uint64_t high = hash_high(hash, depth), low = hash_low(high, depth + 1);
    for (old = bucket, n = right; old; old = old->first, n = n->first)
        entries_move(a, old, n, low);
    bucket->depth = right->depth = (uint16_t)(depth + 1);
    chain_tidy(a, bucket);
    chain_tidy(a, right);
    directory_set(a, low, high, right);
    return 0;
}

/* A directory is worth doubling if a fourth of its pairs are two buckets; 32 of them are looked
 * at. */
static int directory_is_dense(const struct ps_hash_access *a)
{
    struct ps_node **directory = hash_of(a)->directory;
    uint64_t pairs = ((uint64_t)1 << hash_of(a)->depth) / 2, differ = 0;
    uint64_t step = pairs > 32 ? pairs / 32 : 1, seen = 0;
    for (uint64_t i = 0; i < pairs; i += step, seen++)
        differ += directory[2 * i] != directory[2 * i + 1];
    return differ * 4 >= seen;
}

static int directory_double(struct ps_hash_access *a)
{
    struct ps_hash *h = hash_of(a);
    struct ps_node **directory = directory_take(a, h->depth + 1);
    if (!directory)
        return -errno;
    for (uint64_t i = 0; i < (uint64_t)1 << h->depth; i++)
        directory[2 * i] = directory[2 * i + 1] = h->directory[i];
    structure_give(&a->base, h->directory);
    structure_heads(&a->base);
    h->directory = directory;
    h->depth++;
    return 0;
}

/* A bucket is full: it splits, or gets another node. */
static int bucket_grow(struct ps_hash_access *a, uint64_t hash)
{
    struct ps_node *bucket = hash_bucket(a, hash);
    if (bucket->depth == hash_of(a)->depth && bucket->depth < DEPTH_MAX && directory_is_dense(a)) {
        int error = directory_double(a);
        if (error)
            return error;
    }
    if (bucket->depth < hash_of(a)->depth)
        return bucket_split(a, bucket, hash);
    struct ps_node *n = structure_take(&a->base);
    if (!n)
        return -errno;
    node_init(&a->base, n, 0);
    n->first = bucket->first;
    bucket->first = n;
    return 0;
}

/* ---- changes ---- */

int ps_hash_insert(struct ps_hash_access *a, const void *key, const void *record, int replace)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct bytes probe = node_probe(&a->base, key);
    if (probe.length > node_key_max(&a->base))
        return -EOVERFLOW;
    uint64_t hash = hash_make(a, probe);
    node_claim(&a->base, hash_bucket(a, hash));
    struct place p = place_find(a, probe, hash);
    if (p.node && replace)
        further_changes(a, p.node, hash);
    if (p.node && replace)
        memcpy(node_record(&a->base, p.node, p.at), record, a->base.type->record_bytes);
    if (p.node)
        return replace ? 0 : -EEXIST;
    for (;;) {
        struct ps_node *n = hash_bucket(a, hash);
        while (n && !node_has_room(&a->base, n, probe, 0))
            n = n->first;
        if (n) {
            further_changes(a, n, hash);
            entry_put(a, n, probe, record);
            return 0;
        }
        error = bucket_grow(a, hash);
        if (error)
            return error;
    }
}

static int is_sparse(const struct ps_hash_access *a, const struct ps_node *n)
{
    return !n->first && node_used(n) < a->base.head->node_bytes / 4;
}

/* A bucket and the one that it once split from become one again if both are nearly empty. */
static void bucket_join(struct ps_hash_access *a, uint64_t hash)
{
    struct ps_node *n = hash_bucket(a, hash);
    while (n->depth > 0 && is_sparse(a, n)) {
        unsigned depth = n->depth;
        uint64_t low = hash_low(hash, depth - 1u), high = hash_high(hash, depth - 1u);
        struct ps_node *left = hash_bucket(a, low), *right = hash_bucket(a, high);
        if (left->depth != right->depth || !is_sparse(a, left) || !is_sparse(a, right))
            return;
        entries_move(a, right, left, 0);
        left->depth = (uint16_t)(depth - 1u);
        directory_set(a, low, high, left);
        structure_give(&a->base, right);
        n = left;
    }
}

int ps_hash_remove(struct ps_hash_access *a, const void *key)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct bytes probe = node_probe(&a->base, key);
    uint64_t hash = hash_make(a, probe);
    struct ps_node *bucket = hash_bucket(a, hash);
    node_claim(&a->base, bucket);
    struct place p = place_find(a, probe, hash);
    if (!p.node)
        return -ENOENT;
    further_changes(a, p.node, hash);
    node_erase(&a->base, p.node, p.at);
    if (p.node->count == 0)
        chain_tidy(a, bucket);
    bucket_join(a, hash);
    return 0;
}
