/*
 * hash.h - an extendible hash: records by key, in no order, found by two reads at most.
 *
 *   PS_HASH(people, struct key, struct person, by_number, number_hash)
 *   PS_STRING_HASH(words, struct word)                     keys are strings
 *
 * makes `struct people_head` (for a root object), `struct people` (an instance) and the access
 * objects people_keyed and people_range. by_number is a function as for a tree, number_hash is
 * uint64_t (const struct key *); its bits are mixed once more.
 *
 * What locks what. The first bits of a key's hash lead through the directory, an array of pointers,
 * to a bucket, which is one node. A look-up reads the head, a page of the directory and the bucket;
 * a change writes the bucket. Only if a bucket splits, which it does once in dozens of insertions,
 * or joins its neighbour, a page of the directory is written; and the head only if the directory
 * doubles, a few times in its life. The directory does not double for keys whose hashes hardly
 * differ: their bucket gets further nodes. It never becomes smaller. Nothing is counted.
 */
#ifndef PS_HASH_H
#define PS_HASH_H

#include "structure.h"

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_hash {
    struct ps_head head;
    struct ps_node **directory;                         /* of 2^depth buckets */
    uint64_t depth;
    uint64_t reserved[8];
};
struct ps_hash_access { struct ps_access base; };

/* A generator. Changes meanwhile are allowed, by other access objects too: what is there from its
 * beginning to its end comes once. */
struct ps_hash_range {
    struct ps_hash_access access;
    uint64_t from, last;                                /* hashes whose records it goes through */
    int state;
    uint32_t key_length;
    int (*filter)(const void *key, const void *record, void *arg);
    void *arg;
    _Alignas(16) uint8_t key[PS_KEY_MAX + 1];           /* of the record that came last */
};
struct ps_hash_stats {
    uint64_t records, buckets, overflow;                /* overflow: further nodes of buckets */
    uint32_t depth, fill;       /* fill: of all nodes, percent of their bytes */
};

int ps_hash_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_hash_tear_down(const struct ps_instance *i, const struct ps_type *type);
void *ps_hash_find(struct ps_hash_access *a, const void *key, enum ps_mode mode);
int ps_hash_insert(struct ps_hash_access *a, const void *key, const void *record, int replace);
int ps_hash_remove(struct ps_hash_access *a, const void *key);
void ps_hash_range(struct ps_hash_range *r);
void *ps_hash_next(struct ps_hash_range *r);
int ps_hash_drop(struct ps_hash_range *r);
/* Walks all of it: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_hash_check(const struct ps_hash_access *a, struct ps_hash_stats *stats, const char **why);
/* A picture: buckets by their share of the hashes, at most 256 of them, with how full they are. */
int ps_hash_draw(const struct ps_hash_access *a, struct ps_sink sink);

/*
 * What the line makes, for NAME, key K, record R: set_up, tear_down, and of PS_ACCESS(NAME_keyed,
 * a, &instance, mode) find, change, insert, put and remove, all as of a tree (tree.h); a key is
 * there once.
 * PS_ACCESS(NAME_range, r, &instance, mode): all records, in no order; filter, next, key and drop
 * as of a tree.
 */
#define PS_HASH_COMMON_(NAME, K, R)                                                               \
    typedef K NAME##_k;                                                                           \
    typedef R NAME##_r;                                                                           \
    PS_HEAD_(NAME, ps_hash);                                                                      \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_hash);                                                                      \
    PS_CLASS_(NAME, keyed, ps_hash);                                                              \
    PS_KEYED_(NAME, ps_hash);                                                                     \
    PS_KEYED_PUT_(NAME, ps_hash);                                                                 \
    PS_RANGE_(NAME, ps_hash, const NAME##_r);                                                     \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i, enum ps_mode mode)   \
    {                                                                                             \
        struct NAME##_range r;                                                                    \
        NAME##_range_on_(&r, i, mode);                                                            \
        ps_hash_range(&r.range);                                                                  \
        return r;                                                                                 \
    }                                                                                             \
    PS_KEYED_RANGE_(NAME, ps_hash)

#define PS_HASH_OF(NAME, K, R, compare_, hash_, N)                                                \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(compare_)),                          \
                                                int (*)(const K *, const K *)),                   \
                   #compare_ " is not int (const " #K " *, const " #K " *)");                     \
    _Static_assert(                                                                               \
        __builtin_types_compatible_p(__typeof__(&(hash_)), uint64_t (*)(const K *)),              \
        #hash_ " is not uint64_t (const " #K " *)");                                              \
    _Static_assert(sizeof(K) <= PS_KEY_MAX && sizeof(K) + sizeof(R) + 32 <= (N) / 4,              \
                   "at least four keys with their records fit a node");                           \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = "hash",                                                                      \
        .name = #K " " #R,                                                                        \
        .compare_name = #compare_ " " #hash_,                                                     \
        .compare = (int (*)(const void *, const void *))(void (*)(void))(compare_),               \
        .hash = (uint64_t (*)(const void *))(void (*)(void))(hash_),                              \
        .head_bytes = sizeof(struct ps_hash),                                                     \
        .node_bytes = (N),                                                                        \
        .key_bytes = sizeof(K),                                                                   \
        .key_align = _Alignof(K),                                                                 \
        .record_bytes = sizeof(R),                                                                \
        .record_align = _Alignof(R)};                                                             \
    PS_HASH_COMMON_(NAME, K, R)
#define PS_HASH(NAME, K, R, compare_, hash_)                                                      \
    PS_HASH_OF(NAME, K, R, compare_, hash_, PS_NODE_BYTES)

#define PS_STRING_HASH_OF(NAME, R, N)                                                             \
    _Static_assert(sizeof(R) + (N) / 16 + 32 <= (N) / 4, "at least four records fit a node");     \
    static const struct ps_type NAME##_type_ = {.structure = "hash",                              \
                                                .name = "string " #R,                             \
                                                .compare_name = "bytes",                          \
                                                .head_bytes = sizeof(struct ps_hash),             \
                                                .node_bytes = (N),                                \
                                                .key_align = 1,                                   \
                                                .record_bytes = sizeof(R),                        \
                                                .record_align = _Alignof(R)};                     \
    PS_HASH_COMMON_(NAME, char, R)
#define PS_STRING_HASH(NAME, R) PS_STRING_HASH_OF(NAME, R, PS_NODE_BYTES)

#endif
