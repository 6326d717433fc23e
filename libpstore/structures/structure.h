/*
 * structure.h - what all ready-made structures share: memory, access objects, types that are
 * checked.
 *
 * A structure has three parts. Its *head* lies in the root object and holds what is kept. Its
 * *instance* is volatile and says where the head is, in which memory, in which order: with it a
 * structure can only be set up and torn down. Data is reached through *access objects*, of which
 * any number are open at once; each is closed where its block ends. The code of a structure takes
 * no lock, writes no log and does no input or output; loads and stores do that. So one object file
 * works on containers and on any other memory.
 *
 * Errors are -errno, or NULL with errno. -ENODATA: the structure was never set up; -EPROTOTYPE: it
 * was set up with another key, record, order, flags or node size. Both come from each call on the
 * access object, as does -EACCES from a change through PS_LOOK. -ENOSPC and -ENOMEM of an
 * insertion: the structure is as it was.
 *
 * From here on a pointer of a wrong type is an error of the compiler, not a warning.
 */
#ifndef PS_STRUCTURE_H
#define PS_STRUCTURE_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"

/* Where nodes come from. `take` gives zeroed bytes, 16-byte aligned, in pages of their own as far
 * as they are a page (near: a node that will be used together with them, or NULL), or NULL with
 * errno. */
struct ps_memory {
    void *(*take)(void *arg, size_t bytes, const void *near);
    void (*give)(void *arg, void *p);
    void *arg;
    /* NULL where nodes lie in memory, at their addresses. Else who looks asks where a node is just
     * now, by the number of its place on his way; what he asked for at that place before may go.
     * Keyed and range of the tree, range of the R*-tree and walk of the graph do; all else works
     * on memory only. */
    void *(*fix)(void *arg, unsigned place, void *node);
    /* NULL where a store needs no word before it. Else it is told what is stored to next: whole
     * nodes, and heads. */
    void (*stores)(void *arg, const void *p, size_t bytes);
};
struct ps_container;
struct ps_arena;
struct ps_memory ps_in(struct ps_container *c);         /* ps_alloc and ps_free */
struct ps_memory ps_in_arena(struct ps_arena *arena);   /* ps_alloc_in: also a congeries */
struct ps_memory ps_volatile(void);                     /* the heap of the C library */

/* PS_ACCESS opens an access object until the block ends: PS_ACCESS(phone_keyed, a, &by_name,
 * PS_CHANGE); */
#define PS_ACCESS(kind, variable, ...)                                                            \
    __attribute__((cleanup(kind##_close))) struct kind variable = kind##_open(__VA_ARGS__)
enum ps_mode { PS_LOOK, PS_CHANGE };                    /* a change through PS_LOOK is -EACCES */

/* The order of an instance, if it is not its type's: a function and its name, which is kept and
 * checked. */
#define PS_ORDER(function) .compare = (function), .compare_name = #function

/* Draws: `write` gets pieces of an SVG, one after another. */
struct ps_sink {
    void (*write)(void *arg, const char *text);
    void *arg;
};

/* ---- what the structures are made of: a program sees it through its typed functions ---- */

enum {
    /* of a node, unless said otherwise: the largest object within one page */
    PS_NODE_BYTES = 4048, PS_NODE_MIN = 256, PS_NODE_MAX = 20480,
    PS_KEY_MAX = 512,           /* bytes; of a string also at most a 16th of a node */
};

/* The first member of every head: kept. Zeros until the structure is set up. */
struct ps_head {
    uint64_t fingerprint;
    uint32_t node_bytes;
    uint16_t flags, unused;
    char name[32];
};

#define PS_FUNCTION_ __attribute__((unused)) static inline

/* The first of `count` slots, each of which says how far behind `keys` a key lies, whose key is >=
 * (or PS_UPPER: >) this one; PS_AT_END: probably behind all, which is looked at first. */
typedef unsigned ps_search(const void *keys, const uint16_t *slots, unsigned count, const void *key,
                           int how);
enum { PS_UPPER = 1, PS_AT_END = 2 };
/* The search of one key type, with its order in the loop: a call for each step would cost more than
 * all else. */
#define PS_SEARCH_STEPS_(K, compare_, is_after)                                                   \
    for (; count > 0; half = count / 2) {                                                         \
        if (compare_((const K *)key,                                                              \
                     (const K *)(const void *)((const char *)keys + low[half])) is_after 0) {     \
            low += half + 1;                                                                      \
            count -= half + 1;                                                                    \
        } else {                                                                                  \
            count = half;                                                                         \
        }                                                                                         \
    }
#define PS_SEARCH_(NAME, K, compare_)                                                             \
    PS_FUNCTION_ unsigned NAME##_search_(const void *keys, const uint16_t *slots, unsigned count, \
                                         const void *key, int how)                                \
    {                                                                                             \
        const uint16_t *low = slots;                                                              \
        unsigned half = how & PS_AT_END ? count - 1 : count / 2;                                  \
        if (how & PS_UPPER)                                                                       \
            PS_SEARCH_STEPS_(K, compare_, >=)                                                     \
        else                                                                                      \
            PS_SEARCH_STEPS_(K, compare_, >)                                                      \
        return (unsigned)(low - slots);                                                           \
    }                                                                                             \
    _Static_assert(1, "")

/* What the program's line knows of its types. */
struct ps_type {
    const char *structure, *name, *compare_name;
    int (*compare)(const void *, const void *);
    uint64_t (*hash)(const void *);
    ps_search *search;                                  /* by that order, or NULL */
    uint32_t head_bytes, node_bytes, flags;             /* flags: those that an instance may have */
    uint32_t key_bytes, key_align;                      /* key_bytes 0: strings */
    uint32_t record_bytes, record_align;                /* variable: of a record's length */
    uint32_t variable;                                  /* records are of any size */
    uint32_t ordered;                                   /* of an index on items: the tree */
};

/* The instance; that of a program has the same members, with the program's types. */
struct ps_instance {
    struct ps_head *head;
    struct ps_memory memory;
    const char *name;                                   /* at most 31 bytes; NULL: none */
    int (*compare)(const void *, const void *);         /* NULL: the type's; see PS_ORDER */
    const char *compare_name;
    int flags;
    size_t initial;  /* bytes of nodes that lie ready from the start */
};

/* The first member of every access object. */
struct ps_access {
    struct ps_head *head;
    const struct ps_type *type;
    struct ps_memory memory;
    int (*compare)(const void *, const void *);
    ps_search *search;                                  /* NULL: by `compare`, or descending */
    int error, mode, descending, fill;                  /* fill: percent; 100 unless it is a load */
    /* of entries in slotted nodes: of leaves, of branches */
    struct { uint32_t key_at, entry_bytes, align; } shape[2];
};

enum { PS_DESCENDING = 1, PS_DUPLICATES = 2 };          /* flags; kept */

void ps_access_open(struct ps_access *a, const struct ps_instance *i, const struct ps_type *type,
                    enum ps_mode mode);

/* The head; the instance, of a structure that has no order; both ends of its life. */
#define PS_HEAD_(NAME, STRUCTURE)                                                                 \
    struct NAME##_head {                                                                          \
        struct STRUCTURE kept;                                                                    \
    }
#define PS_INSTANCE_(NAME)                                                                        \
    struct NAME {                                                                                 \
        struct NAME##_head *head;                                                                 \
        struct ps_memory memory;                                                                  \
        const char *name;                                                                         \
    };                                                                                            \
    PS_FUNCTION_ struct ps_instance NAME##_instance_(const struct NAME *i)                        \
    {                                                                                             \
        return (struct ps_instance){.head = i->head ? &i->head->kept.head : NULL,                 \
                                    .memory = i->memory,                                          \
                                    .name = i->name};                                             \
    }                                                                                             \
    _Static_assert(1, "")
#define PS_LIFE_(NAME, STRUCTURE)                                                                 \
    PS_FUNCTION_ int NAME##_set_up(const struct NAME *i)                                          \
    {                                                                                             \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        return STRUCTURE##_set_up(&instance, &NAME##_type_);                                      \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_tear_down(const struct NAME *i)                                       \
    {                                                                                             \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        return STRUCTURE##_tear_down(&instance, &NAME##_type_);                                   \
    }                                                                                             \
    _Static_assert(1, "")
/* A class of access objects that is opened by an instance and a mode. */
#define PS_CLASS_(NAME, CLASS, STRUCTURE)                                                         \
    struct NAME##_##CLASS {                                                                       \
        struct STRUCTURE##_access access;                                                         \
    };                                                                                            \
    PS_FUNCTION_ struct NAME##_##CLASS NAME##_##CLASS##_open(const struct NAME *i,                \
                                                             enum ps_mode mode)                   \
    {                                                                                             \
        struct NAME##_##CLASS a;                                                                  \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        ps_access_open(&a.access.base, &instance, &NAME##_type_, mode);                           \
        return a;                                                                                 \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_##CLASS##_close(struct NAME##_##CLASS *a)                            \
    {                                                                                             \
        a->access.base.head = NULL;                                                               \
    }                                                                                             \
    _Static_assert(1, "")
/* A class of access objects that generates ITEMs; the structure adds how one is opened. */
#define PS_RANGE_(NAME, STRUCTURE, ITEM)                                                          \
    struct NAME##_range {                                                                         \
        struct STRUCTURE##_range range;                                                           \
    };                                                                                            \
    PS_FUNCTION_ void NAME##_range_on_(struct NAME##_range *r, const struct NAME *i,              \
                                       enum ps_mode mode)                                         \
    {                                                                                             \
        struct ps_instance instance = NAME##_instance_(i);                                        \
        ps_access_open(&r->range.access.base, &instance, &NAME##_type_, mode);                    \
    }                                                                                             \
    PS_FUNCTION_ void NAME##_range_close(struct NAME##_range *r)                                  \
    {                                                                                             \
        r->range.access.base.head = NULL;                                                         \
    }                                                                                             \
    PS_FUNCTION_ ITEM *NAME##_next(struct NAME##_range *r)                                        \
    {                                                                                             \
        return STRUCTURE##_next(&r->range);                                                       \
    }                                                                                             \
    _Static_assert(1, "")
/* ... of what has numbers: from <= number < end, the first in the member FIRST. */
#define PS_SPAN_(NAME, STRUCTURE, ITEM, FIRST)                                                    \
    PS_RANGE_(NAME, STRUCTURE, ITEM);                                                             \
    PS_FUNCTION_ struct NAME##_range NAME##_range_open(const struct NAME *i, uint64_t from,       \
                                                       uint64_t end, enum ps_mode mode)           \
    {                                                                                             \
        struct NAME##_range r = {.range = {.FIRST = from, .end = end}};                           \
        NAME##_range_on_(&r, i, mode);                                                            \
        return r;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "")
/* What keyed access objects do, with records of one size, and generators over keys. */
#define PS_KEYED_PUT_(NAME, STRUCTURE)                                                            \
    PS_FUNCTION_ int NAME##_insert(struct NAME##_keyed *a, const NAME##_k *key,                   \
                                        const NAME##_r *record)                                   \
    {                                                                                             \
        return STRUCTURE##_insert(&a->access, key, record, 0);                                    \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_put(struct NAME##_keyed *a, const NAME##_k *key,                      \
                                     const NAME##_r *record)                                      \
    {                                                                                             \
        return STRUCTURE##_insert(&a->access, key, record, 1);                                    \
    }                                                                                             \
    _Static_assert(1, "")
#define PS_KEYED_(NAME, STRUCTURE)                                                                \
    PS_FUNCTION_ const NAME##_r *NAME##_find(struct NAME##_keyed *a, const NAME##_k *key)         \
    {                                                                                             \
        return STRUCTURE##_find(&a->access, key, PS_LOOK);                                        \
    }                                                                                             \
    PS_FUNCTION_ NAME##_r *NAME##_change(struct NAME##_keyed *a, const NAME##_k *key)             \
    {                                                                                             \
        return STRUCTURE##_find(&a->access, key, PS_CHANGE);                                      \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_remove(struct NAME##_keyed *a, const NAME##_k *key)                   \
    {                                                                                             \
        return STRUCTURE##_remove(&a->access, key);                                               \
    }                                                                                             \
    _Static_assert(1, "")
#define PS_KEYED_RANGE_(NAME, STRUCTURE)                                                          \
    PS_FUNCTION_ void NAME##_filter(struct NAME##_range *r,                                       \
                                         int (*filter)(const NAME##_k *, const NAME##_r *,        \
                                                       void *),                                   \
                                         void *arg)                                               \
    {                                                                                             \
        r->range.filter = (int (*)(const void *, const void *, void *))(void (*)(void))filter;    \
        r->range.arg = arg;                                                                       \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_k *NAME##_key(const struct NAME##_range *r)                         \
    {                                                                                             \
        return (const NAME##_k *)(const void *)r->range.key;                                      \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_drop(struct NAME##_range *r)                                          \
    {                                                                                             \
        return STRUCTURE##_drop(&r->range);                                                       \
    }                                                                                             \
    _Static_assert(1, "")

#endif
