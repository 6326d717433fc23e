/*
 * tree.h - a B+-tree: records in the order of their keys.
 *
 *   PS_TREE(phone, struct key, struct record, by_name)     keys of one size, ordered by a function
 *   PS_STRING_TREE(word, struct record)                    keys are strings, ordered by bytes
 *   PS_TREE_BYTES(letters, struct key, struct letter, by_date), PS_STRING_TREE_BYTES(note, char)
 *                                                          the same, records of variable size
 *
 * One such line makes the types `struct phone_head` (for a root object), `struct phone` (an
 * instance) and the access objects phone_keyed, phone_range and phone_load, with the functions
 * listed at the end.
 *
 * What locks what. A load locks the node's page for reading, a store for writing, until the
 * transaction ends. A look-up reads the head and one node of each level. A change writes one leaf,
 * and nothing else unless the leaf splits or merges: then its neighbour and parent, too, and the
 * head if the root is another one. No counter and no link between leaves is kept, which all would
 * have to write. A change stores to its leaf before it reads it, so two changes of one leaf wait
 * for each other instead of dying. A node fills a page but for 16 bytes, so records that are
 * allocated beside the tree do not share its pages, but for those of 16 bytes or fewer.
 */
#ifndef PS_TREE_H
#define PS_TREE_H

#include "structure.h"

enum { PS_TREE_LEVELS = 20 };
/* Bytes that a record of variable size may have: a quarter of a node, less the longest key. */
#define PS_RECORD_MAX_(node_bytes, key_bytes)                                                     \
    ((unsigned)((node_bytes) / 4 - 64 - ((key_bytes) ? (key_bytes) : (node_bytes) / 16)))

/* The head: kept, 128 bytes, in a root object or any other object. Zeros until it is set up. */
struct ps_tree {
    struct ps_head head;
    struct ps_node *root, *spare;
    uint32_t height, unused;
    uint64_t reserved[7];
};

struct ps_tree_access {
    struct ps_access base;
    struct { struct ps_node *node; unsigned at; } path[PS_TREE_LEVELS];
};

enum { PS_UP, PS_DOWN = 1, PS_BELOW = 4 };

/* A generator. Changes of the tree meanwhile are allowed, by other access objects too. */
struct ps_tree_range {
    struct ps_tree_access access;
    int how, state;  /* state: before the first, within, at the end */
    uint32_t equals, key_length;                        /* records of this key that were passed */
    uint64_t seen;
    int (*filter)(const void *key, const void *record, void *arg);
    void *arg;
    const void *last;  /* the bound in its direction, of last_length bytes */
    uint32_t last_length;
    _Alignas(16) uint8_t key[PS_KEY_MAX + 1];           /* where it is */
};

struct ps_tree_load { struct ps_tree_access access; };

struct ps_tree_stats {
    uint64_t records, leaves, branches, spare;          /* nodes */
    uint32_t height, fill;  /* fill: of the leaves, percent of their bytes */
    uint64_t prefix_bytes;  /* of keys that are not stored, thanks to prefixes */
};

int ps_tree_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_tree_tear_down(const struct ps_instance *i, const struct ps_type *type);
void *ps_tree_find(struct ps_tree_access *a, const void *key, enum ps_mode mode);
int ps_tree_insert(struct ps_tree_access *a, const void *key, const void *record, int replace);
int ps_tree_insert_bytes(struct ps_tree_access *a, const void *key, const void *record,
                         size_t length, int replace);
/* Of the record that was found, or came, last. */
size_t ps_tree_bytes(const struct ps_tree_access *a);
int ps_tree_remove(struct ps_tree_access *a, const void *key);
void ps_tree_range(struct ps_tree_range *r, const void *from, const void *to, int how);
void *ps_tree_next(struct ps_tree_range *r);
int ps_tree_drop(struct ps_tree_range *r);
void ps_tree_load(struct ps_tree_load *l, unsigned fill);
int ps_tree_add(struct ps_tree_load *l, const void *key, const void *record);
int ps_tree_add_bytes(struct ps_tree_load *l, const void *key, const void *record, size_t length);
/* Walks the whole tree, of any access object: 0, or -EUCLEAN and in *why what is wrong (a
 * constant). */
int ps_tree_check(const struct ps_tree_access *a, struct ps_tree_stats *stats, const char **why);
/* A picture: levels from the root down, at most 64 nodes of each, with how full they are. */
int ps_tree_draw(const struct ps_tree_access *a, struct ps_sink sink);

/*
 * What the line makes, for NAME, key K, record R:
 *   int NAME_set_up(const struct NAME *i)          once, before all else; -EEXIST: it is set up
 *   int NAME_tear_down(const struct NAME *i)       frees all nodes; the head is zeros then
 *
 * PS_ACCESS(NAME_keyed, a, &instance, PS_LOOK or PS_CHANGE):
 *   const R *NAME_find(&a, const K *key)           the first record of that key; NULL with ENOENT
 *   R *NAME_change(&a, const K *key)               the same, to write to
 *   int NAME_insert(&a, const K *, const R *)      copies both; -EEXIST if the key is there, unless
 *                                                  PS_DUPLICATES: then behind those of that key
 *   int NAME_put(&a, const K *, const R *)         the same, but replaces the first record of that
 *                                                  key. -EOVERFLOW from both: a string too long
 *   int NAME_remove(&a, const K *key)              the first record of that key; -ENOENT
 * A pointer to a record is good until the next change of the tree. Keys and records that are passed
 * do not lie in the tree themselves.
 *
 * PS_ACCESS(NAME_range, r, &instance, from, to, how, PS_LOOK or PS_CHANGE): from <= key <= to in
 * the tree's order, NULL: no bound; neither is copied. how: PS_UP, or PS_DOWN (from `to` on),
 * | PS_BELOW (without `to`).
 *   void NAME_filter(&r, int (*)(const K *, const R *, void *arg), void *arg)
 *                                                  only those for which it is not 0
 *   const R *NAME_next(&r)                         NULL with errno 0 at the end, or with an error
 *   const K *NAME_key(&r)                          of the record that came last
 *   int NAME_drop(&r)                              removes that record; -EINVAL: none came
 *
 * PS_ACCESS(NAME_load, l, &instance, percent): into an empty tree (-ENOTEMPTY), in order, nodes
 * filled to 50 to 100 percent.
 *   int NAME_add(&l, const K *, const R *)         -EINVAL: not behind the last; the tree is sound
 *                                                  after each
 */
#define PS_TREE_COMMON_(NAME, K, R)                                                               \
    typedef K NAME##_k;                                                                           \
    typedef R NAME##_r;                                                                           \
    PS_HEAD_(NAME, ps_tree);                                                                      \
    struct NAME {                                                                                 \
        struct NAME##_head *head;                                                                 \
        struct ps_memory memory;                                                                  \
        const char *name;                                                                         \
        int (*compare)(const NAME##_k *, const NAME##_k *);                                       \
        const char *compare_name;                                                                 \
        int flags;                                                                                \
        size_t initial;                                                                           \
    };                                                                                            \
    struct NAME##_load {                                                                          \
        struct ps_tree_load load;                                                                 \
    };                                                                                            \
    PS_FUNCTION_ struct ps_instance NAME##_instance_(const struct NAME *i)                        \
    {                                                                                             \
        return (struct ps_instance){                                                              \
            i->head ? &i->head->kept.head : NULL,                                                 \
            i->memory,                                                                            \
            i->name,                                                                              \
            (int (*)(const void *, const void *))(void (*)(void))i->compare,                      \
            i->compare_name,                                                                      \
            i->flags,                                                                             \
            i->initial};                                                                          \
    }                                                                                             \
    PS_LIFE_(NAME, ps_tree);                                                                      \
    PS_CLASS_(NAME, keyed, ps_tree);                                                              \
    PS_KEYED_(NAME, ps_tree);                                                                     \
    PS_RANGE_(NAME, ps_tree, const NAME##_r);                                                     \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i,                      \
                                                            const NAME##_k *from,                 \
                                                            const NAME##_k *to, int how,          \
                                                            enum ps_mode mode)                    \
    {                                                                                             \
        struct NAME##_range r;                                                                    \
        NAME##_range_on_(&r, i, mode);                                                            \
        ps_tree_range(&r.range, from, to, how);                                                   \
        return r;                                                                                 \
    }                                                                                             \
    PS_KEYED_RANGE_(NAME, ps_tree);                                                               \
    PS_FUNCTION_ struct NAME##_load NAME##_load_open(const struct NAME *i, unsigned percent)      \
    {                                                                                             \
        struct NAME##_load l;                                                                     \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        ps_access_open(&l.load.access.base, &instance, &NAME##_type_, PS_CHANGE);                 \
        ps_tree_load(&l.load, percent);                                                           \
        return l;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_load_close(struct NAME##_load *l)                                    \
    {                                                                                             \
        l->load.access.base.head = NULL;                                                          \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")

/*
 * Of records of variable size: `struct letter { int day; char text[]; }`, say. NAME_insert,
 * NAME_put and NAME_add have the record's bytes as last argument, 0 to NAME_record_max (about a
 * quarter of a node; -EOVERFLOW); a put may change them.
 *   size_t NAME_found(&a)                          bytes of the record that find or change returned
 *   size_t NAME_bytes(&r)                          ... of what NAME_next returned; both until the
 *                                                  next change
 */
#define PS_TREE_FIXED_(NAME)                                                                      \
    PS_KEYED_PUT_(NAME, ps_tree);                                                                 \
    PS_FUNCTION_ int NAME##_add(struct NAME##_load *l, const NAME##_k *key,                       \
                                     const NAME##_r *record)                                      \
    {                                                                                             \
        return ps_tree_add(&l->load, key, record);                                                \
    }                                                                                             \
    _Static_assert(1, "")
#define PS_TREE_VARIABLE_(NAME)                                                                   \
    PS_FUNCTION_ int NAME##_insert(struct NAME##_keyed *a, const NAME##_k *key,                   \
                                   const NAME##_r *record, size_t bytes)                          \
    {                                                                                             \
        return ps_tree_insert_bytes(&a->access, key, record, bytes, 0);                           \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_put(struct NAME##_keyed *a, const NAME##_k *key,                      \
                                const NAME##_r *record, size_t bytes)                             \
    {                                                                                             \
        return ps_tree_insert_bytes(&a->access, key, record, bytes, 1);                           \
    }                                                                                             \
    PS_FUNCTION_ size_t NAME##_found(const struct NAME##_keyed *a)                                \
    {                                                                                             \
        return ps_tree_bytes(&a->access);                                                         \
    }                                                                                             \
    PS_FUNCTION_ size_t NAME##_bytes(const struct NAME##_range *r)                                \
    {                                                                                             \
        return ps_tree_bytes(&r->range.access);                                                   \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_add(struct NAME##_load *l, const NAME##_k *key,                       \
                                const NAME##_r *record, size_t bytes)                             \
    {                                                                                             \
        return ps_tree_add_bytes(&l->load, key, record, bytes);                                   \
    }                                                                                             \
    _Static_assert(1, "")

/* With nodes of N bytes: PS_NODE_MIN to PS_NODE_MAX, a multiple of 16. */
#define PS_TREE_OF(NAME, K, R, compare_, N)                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(compare_)),                          \
                                                int (*)(const K *, const K *)),                   \
                   #compare_ " is not int (const " #K " *, const " #K " *)");                     \
    _Static_assert(sizeof(K) <= PS_KEY_MAX && sizeof(K) + sizeof(R) + 32 <= (N) / 4,              \
                   "at least four keys with their records fit a node");                           \
    PS_SEARCH_(NAME, K, compare_);                                                                \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = "tree 2",                                                                    \
        .name = #K " " #R,                                                                        \
        .compare_name = #compare_,                                                                \
        .compare = (int (*)(const void *, const void *))(void (*)(void))(compare_),               \
        .search = NAME##_search_,                                                                 \
        .head_bytes = sizeof(struct ps_tree),                                                     \
        .node_bytes = (N),                                                                        \
        .flags = PS_DESCENDING | PS_DUPLICATES,                                                   \
        .key_bytes = sizeof(K),                                                                   \
        .key_align = _Alignof(K),                                                                 \
        .record_bytes = sizeof(R),                                                                \
        .record_align = _Alignof(R)};                                                             \
    PS_TREE_COMMON_(NAME, K, R);                                                                  \
    PS_TREE_FIXED_(NAME)
#define PS_TREE(NAME, K, R, compare_) PS_TREE_OF(NAME, K, R, compare_, PS_NODE_BYTES)

#define PS_STRING_TREE_OF(NAME, R, N)                                                             \
    _Static_assert(sizeof(R) + (N) / 16 + 32 <= (N) / 4, "at least four records fit a node");     \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = "tree 2",                                                                    \
        .name = "string " #R,                                                                     \
        .compare_name = "bytes",                                                                  \
        .head_bytes = sizeof(struct ps_tree),                                                     \
        .node_bytes = (N),                                                                        \
        .flags = PS_DESCENDING | PS_DUPLICATES,                                                   \
        .key_align = 1,                                                                           \
        .record_bytes = sizeof(R),                                                                \
        .record_align = _Alignof(R)};                                                             \
    PS_TREE_COMMON_(NAME, char, R);                                                               \
    PS_TREE_FIXED_(NAME)
#define PS_STRING_TREE(NAME, R) PS_STRING_TREE_OF(NAME, R, PS_NODE_BYTES)

/* Records of variable size: R is what one begins with. Nodes of N bytes, 1,024 at least. */
#define PS_TREE_BYTES_OF(NAME, K, R, compare_, N)                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(compare_)),                          \
                                                int (*)(const K *, const K *)),                   \
                   #compare_ " is not int (const " #K " *, const " #K " *)");                     \
    _Static_assert(sizeof(K) <= PS_KEY_MAX && (N) >= 1024 && sizeof(K) + 256 <= (N) / 4,          \
                   "at least four keys with their records fit a node");                           \
    PS_SEARCH_(NAME, K, compare_);                                                                \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = "tree of bytes",                                                             \
        .name = #K " " #R,                                                                        \
        .compare_name = #compare_,                                                                \
        .compare = (int (*)(const void *, const void *))(void (*)(void))(compare_),               \
        .search = NAME##_search_,                                                                 \
        .head_bytes = sizeof(struct ps_tree),                                                     \
        .node_bytes = (N),                                                                        \
        .flags = PS_DESCENDING | PS_DUPLICATES,                                                   \
        .key_bytes = sizeof(K),                                                                   \
        .key_align = _Alignof(K),                                                                 \
        .record_bytes = sizeof(uint16_t),                                                         \
        .record_align = _Alignof(R) > 2 ? _Alignof(R) : 2,                                        \
        .variable = 1};                                                                           \
    enum { NAME##_record_max = PS_RECORD_MAX_(N, sizeof(K)) };                                    \
    PS_TREE_COMMON_(NAME, K, R);                                                                  \
    PS_TREE_VARIABLE_(NAME)
#define PS_TREE_BYTES(NAME, K, R, compare_) PS_TREE_BYTES_OF(NAME, K, R, compare_, PS_NODE_BYTES)

#define PS_STRING_TREE_BYTES_OF(NAME, R, N)                                                       \
    _Static_assert((N) >= 1024, "at least four keys with their records fit a node");              \
    static const struct ps_type NAME##_type_ = {                                                  \
        .structure = "tree of bytes",                                                             \
        .name = "string " #R,                                                                     \
        .compare_name = "bytes",                                                                  \
        .head_bytes = sizeof(struct ps_tree),                                                     \
        .node_bytes = (N),                                                                        \
        .flags = PS_DESCENDING | PS_DUPLICATES,                                                   \
        .key_align = 1,                                                                           \
        .record_bytes = sizeof(uint16_t),                                                         \
        .record_align = _Alignof(R) > 2 ? _Alignof(R) : 2,                                        \
        .variable = 1};                                                                           \
    enum { NAME##_record_max = PS_RECORD_MAX_(N, 0) };                                            \
    PS_TREE_COMMON_(NAME, char, R);                                                               \
    PS_TREE_VARIABLE_(NAME)
#define PS_STRING_TREE_BYTES(NAME, R) PS_STRING_TREE_BYTES_OF(NAME, R, PS_NODE_BYTES)

#endif
