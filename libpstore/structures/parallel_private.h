/* parallel_private.h - the leaf retrieval administrator: what its task, its workers and the
 * generators share. */
#ifndef PS_PARALLEL_PRIVATE_H
#define PS_PARALLEL_PRIVATE_H

#include "kit.h"
#include "parallel.h"
#include "spread_private.h"

#include <pthread.h>

/* ---- in the area: a query's buffers ---- */

enum { POOL_BUFFERS_MAX = 2 * PS_PARTS_MAX };
/* The area: pools, each of some units that follow each other. */
enum { UNIT_BYTES = 4096, UNITS = 512 };
/* Two rings of buffers. Full ones are put by the administrator's task, as often as `full` lets the
 * generator take them; empty ones are given back by the generator and collected by the task. The
 * generator's process may store anything here: the task reads `given` and the ring of empty ones,
 * and believes neither. */
struct ps_pool {
    struct ps_semaphore full;           /* full buffers, and one at the end */
    uint32_t given;
    uint32_t starved;                   /* the administrator waits for an empty one: tell it */
    uint32_t put;                       /* full buffers in all, when it has ended */
    int32_t ended, error;               /* error: 0 or -errno */
    struct { uint32_t buffer, bytes; } full_ring[POOL_BUFFERS_MAX];
    uint32_t empty_ring[POOL_BUFFERS_MAX];
    _Alignas(16) char memory[];
};
static inline size_t pool_bytes(uint32_t buffers, uint32_t bytes)
{
    return sizeof(struct ps_pool) + (size_t)buffers * bytes;
}

/* ---- what is said to the task ---- */

enum { SAY_HELLO, SAY_QUERY, SAY_EMPTY, SAY_CLOSE, SAY_STATS, SAY_WORK, SAY_END };
enum { LEAVES_AT_ONCE = 192, LEAVES_MAX = 512 };

struct say_hello { uint32_t say, node_bytes; uint64_t fingerprint; uint32_t flags; };
struct say_query {
    uint32_t say, slot, generation, buffers, buffer_bytes;
    uint64_t bytes, pool;               /* pool: its offset in the area */
    struct spread_query query;
};
struct say_slot { uint32_t say, slot, generation; };
struct say_stats { uint32_t say; struct ps_administrator_stats stats; };

/* A worker says what it did, and hears what to do. `number` is of the work that it was given last:
 * where an answer is lost, as there was no memory for it, the task hears the one before (LR6). */
enum { WORK_NONE, WORK_TRAVERSE, WORK_RETRIEVE, WORK_AHEAD };
struct say_work {
    uint32_t say, work, slot, part;
    int32_t error;
    uint32_t worker, number;
    /* retrieve: the leaf, by its number in the query, and the record to begin with; then: to go on
     * with, or SPREAD_END; the buffer, and how much is in it */
    uint32_t leaf_number, record, buffer, filled;
    uint32_t count, more;               /* traverse: leaves found; there are others */
    uint64_t skip;                      /* ... that were found before */
    uint32_t room;
    void *leaf;
    struct query *query;
    void *leaves[LEAVES_AT_ONCE];
};

/* ---- the administrator ---- */

enum { LEAF_FREE, LEAF_WAITS, LEAF_BUSY };
struct leaf_job {
    void *leaf;
    uint32_t record;
    uint8_t state, part, ahead;         /* ahead: it was read, or is being read, before its turn */
};

struct query {
    int open, closing, ended, error;    /* closing: the generator is gone */
    uint32_t generation;
    uint64_t client;
    struct spread_query what;
    int snapshot;
    enum { TRAVERSE_WAITS, TRAVERSE_BUSY, TRAVERSE_DONE } traverse;
    uint64_t leaves_found;
    unsigned working;                   /* workers that do something for it */
    unsigned leaf_count;                /* not FREE */
    struct leaf_job leaves[LEAVES_MAX];
    struct ps_pool *pool;
    unsigned unit, units;               /* where it lies */
    uint32_t buffers, buffer_bytes;
    uint32_t put, collected;            /* so far */
    uint32_t empty, out;                /* sets: empty ones, those that were given out */
};

struct ps_administrator {
    ps_area *area;
    const struct ps_segment *segment;   /* NULL: another process's */
    struct ps_spread_what what;
    struct ps_access access;            /* its head is a copy, for all threads */
    _Alignas(16) uint8_t head[PS_SPREAD_HEAD];
    unsigned workers, ahead;
    uint32_t begun;                     /* workers; atomic */
    size_t found_max;                   /* bytes of a record as it is handed out */
    pthread_t threads[PS_WORKERS_MAX];
    /* the task's alone */
    struct query queries[PS_QUERIES_MAX];
    uint8_t unit_used[UNITS];
    unsigned first;                     /* query that is looked at first, next time */
    struct { int retrieves, reads_ahead; } busy[PS_PARTS_MAX];
    struct { uint64_t token; uint32_t worker; } idle[PS_WORKERS_MAX];   /* who waits */
    unsigned idle_count;
    struct say_work given[PS_WORKERS_MAX];
    int ending;
    struct ps_administrator_stats stats;
};

int administrator_serve(void *administrator, struct ps_request *r);
void administrator_gone(void *administrator, uint64_t client);
void *administrator_work(void *administrator);

#endif
