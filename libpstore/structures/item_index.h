/*
 * item_index.h - a B+-tree and a hash that several programs change at once, key by key, in a
 * container that locks items (ps_locking).
 *
 *   PS_ITEM_TREE(phone, struct key, struct record, by_number, number_hash)     in order
 *   PS_ITEM_HASH(phone, struct key, struct record, by_number, number_hash)     in no order
 *
 * Types, access objects and functions are those of a tree (tree.h) or a hash (hash.h): `phone_head`
 * for a root object, `phone` with .memory = ps_in(c), set_up, tear_down; of phone_keyed find,
 * change, insert, put and remove; of phone_range filter, next, key and drop. A key is there once.
 * by_number is the order (of the hash: whether keys are equal); keys that are equal have one hash.
 *
 * What locks what, until the transaction's end. A look-up locks its key (S), there or not, and the
 * leaf (IS); a change its key (X), the leaf (IX), and the bytes that it stores. So two that change
 * different keys of one leaf do not wait for each other. An insertion into the tree also locks the
 * next key (X), as a range locks each key that comes and the first one behind its end (S): nobody
 * inserts into a range that was gone through. A range of the hash locks its buckets (S). A range
 * goes up only.
 *
 * A full leaf is split by a transaction of its own, which is committed first, and the insertion's
 * is run again (ps_apart): output in its function may come twice. Nothing is joined: leaves without
 * records stay until tear_down, or until keys come back. In a container of pages all of it works,
 * and pages are locked. The rules: structures.md, "Indexes on items".
 */
#ifndef PS_ITEM_INDEX_H
#define PS_ITEM_INDEX_H

#include "structure.h"
#include "tree.h"

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_items_node;
struct ps_items {
    struct ps_head head;
    struct ps_items_node *root;
    uint64_t born;              /* where the head lay then: in seals of nodes, and names of keys */
    uint64_t reserved[8];
};
struct ps_items_access { struct ps_access base; };

/* A generator. What its transaction inserts meanwhile may come or not; in a container of pages, or
 * a locked one, what the hash has in a bucket that splits so may come twice. */
struct ps_items_range {
    struct ps_items_access access;
    struct ps_items_node *leaf;         /* where it is; NULL: nowhere yet */
    int how, state;
    unsigned at;                        /* of the hash: the next entry of the bucket */
    const void *from, *last;
    int (*filter)(const void *key, const void *record, void *arg);
    void *arg;
    _Alignas(16) uint8_t key[PS_KEY_MAX + 1];
};
struct ps_items_stats { uint64_t records, leaves, branches; uint32_t height, fill; };

int ps_items_set_up(const struct ps_instance *i, const struct ps_type *type);
/* Locks the container as a whole. */
int ps_items_tear_down(const struct ps_instance *i, const struct ps_type *type);
void *ps_items_find(struct ps_items_access *a, const void *key, enum ps_mode mode);
int ps_items_insert(struct ps_items_access *a, const void *key, const void *record, int replace);
int ps_items_remove(struct ps_items_access *a, const void *key);
void ps_items_range(struct ps_items_range *r, const void *from, const void *to, int how);
void *ps_items_next(struct ps_items_range *r);
int ps_items_drop(struct ps_items_range *r);
/* Walks all of it, in a snapshot or while nobody changes it: 0, or -EUCLEAN and in *why what is
 * wrong (a constant). */
int ps_items_check(const struct ps_items_access *a, struct ps_items_stats *stats, const char **why);

#define PS_ITEM_COMMON_(NAME, K, R, compare_, hash_, ordered_, structure_)                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(compare_)),                          \
                                                int (*)(const K *, const K *)),                   \
                   #compare_ " is not int (const " #K " *, const " #K " *)");                     \
    _Static_assert(                                                                               \
        __builtin_types_compatible_p(__typeof__(&(hash_)), uint64_t (*)(const K *)),              \
        #hash_ " is not uint64_t (const " #K " *)");                                              \
    _Static_assert(sizeof(K) <= PS_KEY_MAX && 10 * sizeof(K) + 8 * (sizeof(R) + 24) < 4000,       \
                   "at least eight keys with their records fit a node");                          \
    _Static_assert(_Alignof(K) <= 8 && _Alignof(R) <= 8, "words of 8 bytes at most");             \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = (structure_),                                                                \
        .name = #K " " #R,                                                                        \
        .compare_name = #compare_ " " #hash_,                                                     \
        .compare = (int (*)(const void *, const void *))(void (*)(void))(compare_),               \
        .hash = (uint64_t (*)(const void *))(void (*)(void))(hash_),                              \
        .head_bytes = sizeof(struct ps_items),                                                    \
        .node_bytes = PS_NODE_BYTES,                                                              \
        .key_bytes = sizeof(K),                                                                   \
        .key_align = _Alignof(K),                                                                 \
        .record_bytes = sizeof(R),                                                                \
        .record_align = _Alignof(R),                                                              \
        .ordered = (ordered_)};                                                                   \
    typedef K NAME##_k;                                                                           \
    typedef R NAME##_r;                                                                           \
    PS_HEAD_(NAME, ps_items);                                                                     \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_items);                                                                     \
    PS_CLASS_(NAME, keyed, ps_items);                                                             \
    PS_KEYED_(NAME, ps_items);                                                                    \
    PS_KEYED_PUT_(NAME, ps_items);                                                                \
    PS_RANGE_(NAME, ps_items, const NAME##_r);                                                    \
    PS_KEYED_RANGE_(NAME, ps_items)

/* PS_ACCESS(NAME_range, r, &instance, from, to, how, mode): from <= key <= to, NULL: no bound,
 * neither is copied; how: PS_UP, or PS_BELOW (without `to`). */
#define PS_ITEM_TREE(NAME, K, R, compare_, hash_)                                                 \
    PS_ITEM_COMMON_(NAME, K, R, compare_, hash_, 1, "tree on items");                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i,                      \
                                                       const NAME##_k *from, const NAME##_k *to,  \
                                                       int how, enum ps_mode mode)                \
    {                                                                                             \
        struct NAME##_range r;                                                                    \
        NAME##_range_on_(&r, i, mode);                                                            \
        ps_items_range(&r.range, from, to, how);                                                  \
        return r;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "")

/* PS_ACCESS(NAME_range, r, &instance, mode): all records. */
#define PS_ITEM_HASH(NAME, K, R, compare_, hash_)                                                 \
    PS_ITEM_COMMON_(NAME, K, R, compare_, hash_, 0, "hash on items");                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i, enum ps_mode mode)   \
    {                                                                                             \
        struct NAME##_range r;                                                                    \
        NAME##_range_on_(&r, i, mode);                                                            \
        ps_items_range(&r.range, NULL, NULL, PS_UP);                                              \
        return r;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "")

#endif
