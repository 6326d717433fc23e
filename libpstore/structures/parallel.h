/*
 * parallel.h - queries that all disks of a segment answer at once (uDatabase, section 6.1).
 *
 *   struct ps_administrator *a = ps_administrator_make(&s, PS_SPREAD_TREE(calls, &i), NULL);
 *   PS_PARALLEL_TREE(calls);                               a line beside PS_TREE(calls, ...)
 *   PS_ACCESS(calls_query, q, a, &from, &to, 0);           a generator, from <= key <= to
 *   for (const struct call *c; (c = calls_query_next(&q));) ... calls_query_key(&q) is its key
 *
 * A query's traverser finds the leaves in the branches and tells the leaf retrieval administrator;
 * one retriever for each part copies a leaf's records into a buffer of the query, from which the
 * generator hands them out, while others are filled. So records come in NO order. All of them are
 * of one state of the store, that of the query's beginning. Leaves that will be wanted are read
 * ahead while all buffers are full. Who asks for one record gains nothing: there is one leaf to
 * read (use calls_find on PS_SEGMENT_HEAD).
 *
 * An administrator with a name serves other processes, too, through memory that they share (kit.h):
 * they have neither container nor disk open, and see copies of records only.
 *
 * Results: int is 0 or -errno, pointers are NULL with errno. Chapter: parallel.md.
 */
#ifndef PS_PARALLEL_H
#define PS_PARALLEL_H

#include "spread.h"

struct ps_administrator;        /* volatile, good for all threads of its process */

enum {
    PS_QUERIES_MAX = 16,        /* that are open at once */
    PS_QUERY_BYTES = 32 << 10,  /* of a query's buffers, unless it says otherwise */
    PS_QUERY_BYTES_MAX = 1 << 20,
    PS_WORKERS_MAX = 32,
};
/* Zeros are good. */
struct ps_administrator_wish {
    const char *name;           /* for other processes; NULL: this one's threads only */
    unsigned workers;           /* threads; 0: two for each part and one. With fewer than parts as
                                 * many disks work at once as there are threads */
    unsigned ahead;             /* leaves of a query in each part that may be read before there is a
                                 * buffer for them; 0: 4 */
    int no_ahead;               /* 1: none */
};

/* Serves queries of a structure that was spread (ps_segment_open first), with threads of its own,
 * until it is closed. s and the containers stay open as long, and it is not spread meanwhile. */
struct ps_administrator *ps_administrator_make(const struct ps_segment *s,
                                               struct ps_spread_what what,
                                               const struct ps_administrator_wish *wish);
/* ps_administrator_open opens the administrator of another process, for queries; -ENOENT, and the
 * errors of ps_area_open. */
struct ps_administrator *ps_administrator_open(const char *name);
/* No query of this process is open any more. Of its maker: ends it for all; queries of others end
 * with -ENOTCONN. */
int ps_administrator_close(struct ps_administrator *a);

struct ps_administrator_stats {
    uint64_t queries, buffers;                      /* so far: begun; filled */
    uint64_t retrieved[PS_PARTS_MAX];               /* leaves, by part; again: no buffer had room */
    uint64_t ahead[PS_PARTS_MAX];                   /* leaves that were read before their turn */
    uint32_t open, leaves_most;     /* queries now; leaves that waited in one query, at most */
};
int ps_administrator_stats(struct ps_administrator *a, struct ps_administrator_stats *out);

/* ---- what the lines below are made of ---- */

struct ps_parallel {
    struct ps_administrator *a;
    int error, ended;
    uint32_t slot, generation;      /* the administrator's names for it */
    struct ps_pool *pool;
    uint32_t buffers, buffer_bytes, taken;
    uint32_t buffer;                /* that is read, plus 1 */
    const char *next, *end;         /* in it */
    const void *key;                /* of the record that came last */
    size_t bytes;                   /* ... the record's */
};
/* from, to: a key or NULL: no bound. how: of a box. bytes: 0: PS_QUERY_BYTES. */
void ps_parallel_begin(struct ps_parallel *q, struct ps_administrator *a,
                       const struct ps_type *type, const void *from, const void *to, int how,
                       size_t bytes);
const void *ps_parallel_next(struct ps_parallel *q);
void ps_parallel_end(struct ps_parallel *q);

/*
 * What the lines make, for NAME, key K, record R of the line PS_TREE... or PS_RTREE...:
 * PS_ACCESS(NAME_query, q, administrator, const K *from, const K *to, size_t bytes) (or of boxes:
 * administrator, const struct NAME_box *, PS_INTERSECT..., bytes): bytes: of its buffers, 0: 32
 * KiB, at most PS_QUERY_BYTES_MAX
 *   const R *NAME_query_next(&q)      the next record, a copy, good until the next call; NULL with
 *                                  errno 0: that was all; or with an error: EPROTOTYPE: another
 *                                  structure; EMFILE: PS_QUERIES_MAX are open; EMSGSIZE: a buffer
 *                                  would hold no record; ESTALE: too many changes for one state;
 *                                  ENOTCONN
 *   const K *NAME_query_key(&q)         its key (or box)
 *   size_t NAME_query_bytes(&q)         its bytes
 */
#define PS_PARALLEL_(NAME, KEY)                                                                   \
    struct NAME##_query {                                                                         \
        struct ps_parallel query;                                                                 \
    };                                                                                            \
    PS_FUNCTION_ void NAME##_query_close(struct NAME##_query *q)                                  \
    {                                                                                             \
        ps_parallel_end(&q->query);                                                               \
    }                                                                                             \
    PS_FUNCTION_ const NAME##_r *NAME##_query_next(struct NAME##_query *q)                        \
    {                                                                                             \
        return ps_parallel_next(&q->query);                                                       \
    }                                                                                             \
    PS_FUNCTION_ const KEY *NAME##_query_key(const struct NAME##_query *q)                        \
    {                                                                                             \
        return q->query.key;                                                                      \
    }                                                                                             \
    PS_FUNCTION_ size_t NAME##_query_bytes(const struct NAME##_query *q)                          \
    {                                                                                             \
        return q->query.bytes;                                                                    \
    }                                                                                             \
    _Static_assert(_Alignof(KEY) <= 8 && _Alignof(NAME##_r) <= 8, "copies lie at multiples of 8")
#define PS_PARALLEL_TREE(NAME)                                                                    \
    PS_PARALLEL_(NAME, NAME##_k);                                                                 \
    PS_FUNCTION_ struct NAME##_query NAME##_query_open(struct ps_administrator *a,                \
                                                       const NAME##_k *from,                      \
                                                       const NAME##_k *to, size_t bytes)          \
    {                                                                                             \
        struct NAME##_query q;                                                                    \
        ps_parallel_begin(&q.query, a, &NAME##_type_, from, to, 0, bytes);                        \
        return q;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_PARALLEL_RTREE(NAME)                                                                   \
    PS_PARALLEL_(NAME, struct NAME##_box);                                                        \
    PS_FUNCTION_ struct NAME##_query NAME##_query_open(struct ps_administrator *a,                \
                                                       const struct NAME##_box *box,              \
                                                       enum ps_query how, size_t bytes)           \
    {                                                                                             \
        struct NAME##_query q;                                                                    \
        ps_parallel_begin(&q.query, a, &NAME##_type_, box, NULL, (int)how, bytes);                \
        return q;                                                                                 \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")

#endif
