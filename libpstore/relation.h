/*
 * relation.h - relations: tuples that are items (item_layer.h), found by a key, selected, changed.
 *
 *   struct call { uint32_t number, minutes; char to[16]; };
 *   PS_RELATION(call, struct call, number)
 *
 * The line is the schema: it makes `struct call_relation` (an instance, volatile) and functions
 * that take these types and no others. What the compiler cannot see the index's fingerprint closes:
 * a relation that was made with another tuple or key is -EPROTOTYPE.
 *
 * A key is there once; it is compared and hashed by its bytes, so text in it is filled with zeros.
 * It has an index, a hash (structures/hash.h) in a container that locks pages.
 *
 * What locks what. find: IS at the relation, S at the tuple; change: IX and X; insert, delete: IX,
 * X, and pages of the index; select: S at the relation, so nobody inserts, deletes or changes what
 * a selection might have found; update: X at it. All of it to the transaction's end. A partition
 * has one relation of a tuple type. An error of insert or delete: give the transaction up, but for
 * -EEXIST and -ENOENT. Functions of the tuple's type (struct ps_item_type) are called: triggers,
 * views.
 */
#ifndef PS_RELATION_H
#define PS_RELATION_H

#include <item_layer.h>
#include <structures/hash.h>

/* A ps_schema is what the line makes once. */
struct ps_schema {
    struct ps_type index;       /* its key is the tuple's, its record an identifier */
    const char *type;
    uint32_t bytes, key_at, key_bytes;
};
struct ps_relation {
    const struct ps_schema *schema;
    ps_part *tuples;
    struct ps_hash_access index;
};
/* A selection is a relation's tuples for which `where` is not 0. NULL: all. In no order. */
struct ps_selection {
    const struct ps_relation *of;
    int (*where)(const void *tuple, void *arg);
    void *arg;
    ps_item_id at;
    int mode;
};

/* ps_relation_open, in a transaction, makes the relation if need be and `index` is open to write.
 * If that transaction is undone, so is the instance. */
int ps_relation_open(struct ps_relation *r, const struct ps_schema *schema, ps_part *tuples,
                     ps_container *index);
int ps_relation_insert(const struct ps_relation *r, const void *tuple);
void *ps_relation_find(const struct ps_relation *r, const void *key, int mode);
int ps_relation_delete(const struct ps_relation *r, const void *key);
ps_item_id ps_relation_id(const struct ps_relation *r, const void *key);
void *ps_selection_next(struct ps_selection *s);
/* ps_relation_check checks that tuples and entries lead to each other: how many; -EUCLEAN. */
int64_t ps_relation_check(const struct ps_relation *r);
uint64_t ps_bytes_hash(const void *bytes, size_t count);

/*
 * What the line makes, for NAME, tuple T, its member KEY; in a transaction:
 *   int NAME_open(struct NAME_relation *r, ps_part *tuples, ps_container *index)
 *   int NAME_insert(&r, const T *)             copies it; -EEXIST
 *   const T *NAME_find(&r, const key *)        NULL with errno ENOENT
 *   T *NAME_change(&r, const key *)            the same, to write to; not to its key
 *   int NAME_delete(&r, const key *)           -ENOENT
 *   ps_item_id NAME_id(&r, const key *)        0 with errno
 *   struct NAME_selection NAME_select(&r, int (*where)(const T *, void *arg), void *arg)
 *   struct NAME_selection NAME_update(&r, ...) the same, of tuples that are then written to
 *   T *NAME_next(&s)                           NULL with errno 0 at the end, or with an error
 *   int NAME_drop(&s)                          deletes the tuple that came last
 */
#define PS_RELATION(NAME, T, KEY)                                                                 \
    typedef __typeof__(((T *)0)->KEY) NAME##_key_;                                                \
    PS_FUNCTION_ int NAME##_compare_(const void *a, const void *b)                                \
    {                                                                                             \
        return __builtin_memcmp(a, b, sizeof(NAME##_key_));                                       \
    }                                                                                             \
    PS_FUNCTION_ uint64_t NAME##_hash_(const void *key)                                           \
    {                                                                                             \
        return ps_bytes_hash(key, sizeof(NAME##_key_));                                           \
    }                                                                                             \
    static const struct ps_schema NAME##_schema_ = {                                              \
        .index = {.structure = "hash",                                                            \
                  .name = #NAME " " #T " " #KEY,                                                  \
                  .compare_name = "bytes of a key",                                               \
                  .compare = NAME##_compare_,                                                     \
                  .hash = NAME##_hash_,                                                           \
                  .head_bytes = sizeof(struct ps_hash),                                           \
                  .node_bytes = PS_NODE_BYTES,                                                    \
                  .key_bytes = sizeof(NAME##_key_),                                               \
                  .key_align = _Alignof(NAME##_key_),                                             \
                  .record_bytes = sizeof(ps_item_id),                                             \
                  .record_align = _Alignof(ps_item_id)},                                          \
        .type = #T,                                                                               \
        .bytes = sizeof(T),                                                                       \
        .key_at = offsetof(T, KEY),                                                               \
        .key_bytes = sizeof(NAME##_key_)};                                                        \
    struct NAME##_relation { struct ps_relation all; };                                           \
    struct NAME##_selection { struct ps_selection all; };                                         \
    PS_FUNCTION_ int NAME##_open(struct NAME##_relation *r, ps_part *tuples, ps_container *index) \
    {                                                                                             \
        return ps_relation_open(&r->all, &NAME##_schema_, tuples, index);                         \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_insert(const struct NAME##_relation *r, const T *tuple)               \
    {                                                                                             \
        return ps_relation_insert(&r->all, tuple);                                                \
    }                                                                                             \
    PS_FUNCTION_ const T *NAME##_find(const struct NAME##_relation *r, const NAME##_key_ *key)    \
    {                                                                                             \
        return ps_relation_find(&r->all, key, PS_S);                                              \
    }                                                                                             \
    PS_FUNCTION_ T *NAME##_change(const struct NAME##_relation *r, const NAME##_key_ *key)        \
    {                                                                                             \
        return ps_relation_find(&r->all, key, PS_X);                                              \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_delete(const struct NAME##_relation *r, const NAME##_key_ *key)       \
    {                                                                                             \
        return ps_relation_delete(&r->all, key);                                                  \
    }                                                                                             \
    PS_FUNCTION_ ps_item_id NAME##_id(const struct NAME##_relation *r, const NAME##_key_ *key)    \
    {                                                                                             \
        return ps_relation_id(&r->all, key);                                                      \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_selection NAME##_select(                                           \
        const struct NAME##_relation *r, int (*where)(const T *, void *), void *arg)              \
    {                                                                                             \
        return (struct NAME##_selection){                                                         \
            {&r->all, (int (*)(const void *, void *))(void (*)(void))where, arg, 0, PS_S}};       \
    }                                                                                             \
    PS_FUNCTION_ struct NAME##_selection NAME##_update(                                           \
        const struct NAME##_relation *r, int (*where)(const T *, void *), void *arg)              \
    {                                                                                             \
        return (struct NAME##_selection){                                                         \
            {&r->all, (int (*)(const void *, void *))(void (*)(void))where, arg, 0, PS_X}};       \
    }                                                                                             \
    PS_FUNCTION_ T *NAME##_next(struct NAME##_selection *s)                                       \
    {                                                                                             \
        return ps_selection_next(&s->all);                                                        \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_drop(struct NAME##_selection *s)                                      \
    {                                                                                             \
        const T *tuple = s->all.at ? ps_begin_access(s->all.at, PS_X) : NULL;                     \
        NAME##_key_ key;                                                                          \
        if (!tuple)                                                                               \
            return -EINVAL;                                                                       \
        __builtin_memcpy(&key, &tuple->KEY, sizeof key);                                          \
        return ps_relation_delete(s->all.of, &key);                                               \
    }                                                                                             \
    _Static_assert(sizeof(NAME##_key_) <= PS_KEY_MAX, "a semicolon behind the line is allowed")

#endif
