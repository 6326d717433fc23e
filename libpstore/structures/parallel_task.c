/*
 * parallel_task.c - the leaf retrieval administrator: a server task (kit.h) that gives leaves to
 * retrievers.
 *
 * Everything in struct query and the administrator's other members is touched by this task alone,
 * but for what a worker was given: its query's `what` and buffer stay until the worker is back.
 * A generator's process can write to the pool (parallel_private.h), and no rule here relies on
 * that.
 *
 * Invariants
 *   LR1  One retriever works in a part at a time, and one thread reads ahead there.
 *   LR2  A leaf is given to a retriever together with an empty buffer of its query. So no retriever
 *        ever waits for a generator, however many of these a thread has open.
 *   LR3  A buffer is in one place: in `empty`, at a worker, in the ring of full ones, at the
 *        generator, or in the ring of empty ones.
 *   LR4  A query ends, once, when its traverser has come to the end (or failed), no leaf is left
 *        and nobody works for it.
 *   LR5  A query's memory is freed when its generator is gone and nobody works for it.
 *   LR6  What a worker was given is kept until it says what became of it, and that counts once: a
 *        worker that has not heard its answer, for want of memory, asks again.
 */
#include "parallel_private.h"

#include <errno.h>
#include <pstore.h>
#include <string.h>

/* ---- buffers ---- */

/* Takes back what the generator has given; whatever it wrote, a buffer is taken once (LR3). */
static void buffers_collect(struct query *q)
{
    uint32_t given = __atomic_load_n(&q->pool->given, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < q->buffers && q->collected != given; i++) {
        uint32_t buffer = q->pool->empty_ring[q->collected++ % q->buffers];
        if (buffer < q->buffers)
            q->empty |= q->out & 1u << buffer;
    }
    q->out &= ~q->empty;
}

/* An empty buffer, or -1: and the generator will say when there is one. */
static int buffer_take(struct query *q)
{
    if (!q->empty)
        buffers_collect(q);
    if (!q->empty) {
        __atomic_store_n(&q->pool->starved, 1, __ATOMIC_SEQ_CST);
        buffers_collect(q);
    }
    if (!q->empty)
        return -1;
    int buffer = __builtin_ctz(q->empty);
    q->empty &= ~(1u << buffer);
    q->out |= 1u << buffer;
    return buffer;
}

static void buffer_put(struct ps_administrator *a, struct query *q, uint32_t buffer, uint32_t bytes)
{
    const uint32_t at = q->put++ % q->buffers;
    q->pool->full_ring[at].buffer = buffer;
    q->pool->full_ring[at].bytes = bytes;
    a->stats.buffers++;
    ps_semaphore_give(a->area, &q->pool->full, 1);
}

/* Memory for a pool: the first units that are free; -ENOSPC. */
static int units_take(struct ps_administrator *a, unsigned count)
{
    for (unsigned first = 0, i = 0; i < UNITS; i++) {
        if (a->unit_used[i])
            first = i + 1;
        else if (i + 1 - first == count) {
            memset(&a->unit_used[first], 1, count);
            return (int)first;
        }
    }
    return -ENOSPC;
}

/* ---- the life of a query ---- */

static void query_free(struct ps_administrator *a, struct query *q)
{
    if (q->snapshot)
        ps_snapshot_drop(q->snapshot);
    memset(&a->unit_used[q->unit], 0, q->units);
    uint32_t generation = q->generation + 1;
    memset(q, 0, sizeof *q);
    q->generation = generation;
    a->stats.open--;
}

static void leaves_drop(struct query *q)
{
    for (unsigned i = 0; i < LEAVES_MAX; i++)
        if (q->leaves[i].state == LEAF_WAITS) {
            q->leaves[i].state = LEAF_FREE;
            q->leaf_count--;
        }
}

/* LR4, LR5 */
static void query_settle(struct ps_administrator *a, struct query *q)
{
    if (q->error || q->closing) {
        leaves_drop(q);
        if (q->traverse == TRAVERSE_WAITS)
            q->traverse = TRAVERSE_DONE;
    }
    if (q->working || q->leaf_count || q->traverse != TRAVERSE_DONE)
        return;
    if (!q->ended && !q->closing) {
        q->ended = 1;
        q->pool->error = q->error;
        q->pool->put = q->put;
        q->pool->ended = 1;
        ps_semaphore_give(a->area, &q->pool->full, 1);
    }
    if (q->closing)
        query_free(a, q);
}

static struct query *query_of(struct ps_administrator *a, const struct ps_request *r)
{
    const struct say_slot *s = r->message;
    struct query *q = s->slot < PS_QUERIES_MAX ? &a->queries[s->slot] : NULL;
    return q && q->open && !q->closing && q->generation == s->generation && q->client == r->client
               ? q
               : NULL;
}

static int query_is_bad(const struct ps_administrator *a, const struct spread_query *q)
{
    const int max = a->what.type->key_bytes ? (int)a->what.type->key_bytes : PS_KEY_MAX;
    return q->from_bytes < -1 || q->from_bytes > max || q->to_bytes < -1 || q->to_bytes > max ||
           (a->what.type->key_bytes && q->from_bytes >= 0 && q->from_bytes != max) ||
           (a->what.type->key_bytes && q->to_bytes >= 0 && q->to_bytes != max) || q->how < 0 ||
           q->how > PS_ENCLOSE;
}

static int pool_make(struct ps_administrator *a, struct query *q, struct say_query *s)
{
    s->buffers = 2 * a->segment->parts;
    s->buffer_bytes = (uint32_t)((s->bytes ? s->bytes : PS_QUERY_BYTES) / s->buffers / 16 * 16);
    if (s->bytes > PS_QUERY_BYTES_MAX || s->buffer_bytes < a->found_max)
        return -EMSGSIZE;
    const unsigned units = (unsigned)((pool_bytes(s->buffers, s->buffer_bytes) + UNIT_BYTES - 1) /
                                      UNIT_BYTES);
    int unit = units_take(a, units);
    if (unit < 0)
        return unit;
    s->pool = (uint64_t)unit * UNIT_BYTES;
    q->unit = (unsigned)unit;
    q->units = units;
    q->pool = (struct ps_pool *)(void *)((char *)ps_area_memory(a->area) + s->pool);
    memset(q->pool, 0, sizeof *q->pool);
    q->buffers = s->buffers;
    q->buffer_bytes = s->buffer_bytes;
    q->empty = (1u << s->buffers) - 1;
    return 0;
}

static int query_begin(struct ps_administrator *a, struct ps_request *r)
{
    struct say_query *s = r->message;
    uint32_t slot = 0;
    while (slot < PS_QUERIES_MAX && a->queries[slot].open)
        slot++;
    if (slot == PS_QUERIES_MAX)
        return -EMFILE;
    struct query *q = &a->queries[slot];
    int error = query_is_bad(a, &s->query) ? -EINVAL : pool_make(a, q, s);
    if (error)
        return error;
    q->open = 1;
    q->client = r->client;
    q->what = s->query;
    s->slot = slot;
    s->generation = q->generation;
    a->stats.open++;
    a->stats.queries++;
    return 0;
}

/* ---- what is to be done next ---- */

static struct leaf_job *leaf_waiting(struct query *q, unsigned part, int ahead)
{
    for (unsigned i = 0; i < LEAVES_MAX; i++)
        if (q->leaves[i].state == LEAF_WAITS && q->leaves[i].part == part &&
            !(ahead && q->leaves[i].ahead))
            return &q->leaves[i];
    return NULL;
}

static unsigned leaves_ahead(const struct query *q, unsigned part)
{
    unsigned n = 0;
    for (unsigned i = 0; i < LEAVES_MAX; i++)
        n += q->leaves[i].state == LEAF_WAITS && q->leaves[i].part == part && q->leaves[i].ahead;
    return n;
}

static int find_retrieve(struct ps_administrator *a, struct query *q, struct say_work *w)
{
    for (unsigned part = 0; part < a->segment->parts; part++) {
        struct leaf_job *leaf = a->busy[part].retrieves ? NULL : leaf_waiting(q, part, 0);
        int buffer = leaf ? buffer_take(q) : -1;
        if (buffer < 0)
            continue;
        a->busy[part].retrieves = 1; /* LR1, LR2 */
        leaf->state = LEAF_BUSY;
        w->work = WORK_RETRIEVE;
        w->part = part;
        w->leaf = leaf->leaf;
        w->leaf_number = (uint32_t)(leaf - q->leaves);
        w->record = leaf->record;
        w->buffer = (uint32_t)buffer;
        return 1;
    }
    return 0;
}

static int find_traverse(struct ps_administrator *a, struct query *q, struct say_work *w)
{
    (void)a;
    if (q->traverse != TRAVERSE_WAITS || q->leaf_count > LEAVES_MAX - LEAVES_AT_ONCE)
        return 0;
    q->traverse = TRAVERSE_BUSY;
    w->work = WORK_TRAVERSE;
    w->skip = q->leaves_found;
    w->room = LEAVES_AT_ONCE;
    return 1;
}

static int find_ahead(struct ps_administrator *a, struct query *q, struct say_work *w)
{
    for (unsigned part = 0; part < a->segment->parts; part++) {
        if (a->busy[part].reads_ahead || leaves_ahead(q, part) >= a->ahead)
            continue;
        struct leaf_job *leaf = leaf_waiting(q, part, 1);
        if (!leaf)
            continue;
        a->busy[part].reads_ahead = 1;
        leaf->ahead = 1;
        w->work = WORK_AHEAD;
        w->part = part;
        w->leaf = leaf->leaf;
        return 1;
    }
    return 0;
}

/* Something for a worker, for each query in turn; 0: there is nothing. */
static int work_find(struct ps_administrator *a, struct say_work *w)
{
    static int (*const find[])(struct ps_administrator *, struct query *, struct say_work *) = {
        find_retrieve, find_traverse, find_ahead};
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned i = 0; i < PS_QUERIES_MAX; i++) {
            struct query *q = &a->queries[(a->first + i) % PS_QUERIES_MAX];
            if (!q->open || q->closing || q->error || !find[kind](a, q, w))
                continue;
            a->first = (a->first + i + 1) % PS_QUERIES_MAX;
            q->working++;
            w->slot = (uint32_t)(q - a->queries);
            w->query = q;
            return 1;
        }
    return 0;
}

/* Finds work for this worker, and keeps it as given (LR6); NULL: there is none. */
static const struct say_work *work_for(struct ps_administrator *a, uint32_t worker)
{
    struct say_work *given = &a->given[worker], w = {.say = SAY_WORK, .worker = worker,
                                                     .number = given->number + 1};
    if (!work_find(a, &w))
        return NULL;
    *given = w;
    return given;
}

/* Gives work to those who wait for it. Who cannot be told asks again. */
static void work_give(struct ps_administrator *a)
{
    const struct say_work *w;
    while (a->idle_count > 0 && (w = work_for(a, a->idle[a->idle_count - 1].worker)))
        ps_answer(a->area, a->idle[--a->idle_count].token, 0, w, sizeof *w);
}

/* ---- what a worker has done ---- */

static void leaves_add(struct ps_administrator *a, struct query *q, const struct say_work *w)
{
    for (unsigned i = 0, at = 0; i < w->count; i++, at++) {
        int part = ps_segment_part(a->segment, w->leaves[i]);
        if (part < 0) {
            q->error = -EUCLEAN;
            break;
        }
        while (q->leaves[at].state != LEAF_FREE)
            at++;
        q->leaves[at] = (struct leaf_job){w->leaves[i], 0, LEAF_WAITS, (uint8_t)part, 0};
        q->leaf_count++;
    }
    q->leaves_found += w->count;
    q->traverse = w->more ? TRAVERSE_WAITS : TRAVERSE_DONE;
    if (q->leaf_count > a->stats.leaves_most)
        a->stats.leaves_most = q->leaf_count;
}

static void leaf_done(struct ps_administrator *a, struct query *q, const struct say_work *w)
{
    struct leaf_job *leaf = &q->leaves[w->leaf_number];
    a->busy[w->part].retrieves = 0;
    a->stats.retrieved[w->part]++;
    if (w->filled && !q->closing) {
        buffer_put(a, q, w->buffer, w->filled);
    } else {
        q->empty |= 1u << w->buffer;
        q->out &= ~(1u << w->buffer);
    }
    leaf->record = w->record;
    leaf->ahead = 1; /* it is in memory */
    leaf->state = w->record == (uint32_t)SPREAD_END || w->error ? LEAF_FREE : LEAF_WAITS;
    q->leaf_count -= leaf->state == LEAF_FREE;
}

static void work_done(struct ps_administrator *a, const struct say_work *w)
{
    struct query *q = &a->queries[w->slot];
    if (w->work == WORK_NONE)
        return;
    q->working--;
    if (w->work == WORK_TRAVERSE)
        leaves_add(a, q, w);
    else if (w->work == WORK_RETRIEVE)
        leaf_done(a, q, w);
    else {
        a->busy[w->part].reads_ahead = 0;
        a->stats.ahead[w->part]++;
    }
    if (w->work == WORK_TRAVERSE && w->error)
        q->traverse = TRAVERSE_DONE;
    if (w->error && !q->error)
        q->error = w->error;
    query_settle(a, q);
}

/* ---- what is said ---- */

static int worker_says(struct ps_administrator *a, struct ps_request *r)
{
    struct say_work *w = r->message;
    if (r->client != 1 || r->bytes != sizeof *w || w->worker >= PS_WORKERS_MAX)
        return -EPERM; /* a thread of another process */
    const uint32_t worker = w->worker;
    const struct say_work *next = &a->given[worker];
    if (w->number == next->number) { /* else it says again what counts already */
        work_done(a, w);
        next = a->ending ? NULL : work_for(a, worker);
    }
    if (a->ending)
        return -ECANCELED;
    work_give(a);
    if (next) {
        *w = *next;
        return 0;
    }
    a->idle[a->idle_count].token = r->token;
    a->idle[a->idle_count++].worker = worker;
    return PS_LATER;
}

static int hello(struct ps_administrator *a, struct ps_request *r)
{
    struct say_hello *s = r->message;
    s->node_bytes = a->access.head->node_bytes;
    s->fingerprint = a->access.head->fingerprint;
    s->flags = a->access.head->flags;
    return 0;
}

static int end(struct ps_administrator *a, const struct ps_request *r)
{
    if (r->client != 1)
        return -EPERM;
    a->ending = 1;
    while (a->idle_count > 0)
        ps_answer(a->area, a->idle[--a->idle_count].token, -ECANCELED, NULL, 0);
    return 0;
}

static int generator_says(struct ps_administrator *a, struct ps_request *r)
{
    struct query *q = r->bytes == sizeof(struct say_slot) ? query_of(a, r) : NULL;
    if (!q)
        return -ENOENT;
    if (((struct say_slot *)r->message)->say == SAY_CLOSE) {
        q->closing = 1;
        query_settle(a, q);
    }
    work_give(a); /* it has an empty buffer, or made room for others */
    return 0;
}

int administrator_serve(void *administrator, struct ps_request *r)
{
    struct ps_administrator *a = administrator;
    int error = r->bytes < sizeof(uint32_t) ? -EBADMSG : 0;
    switch (error ? SAY_END + 1 : *(uint32_t *)r->message) {
    case SAY_WORK: return worker_says(a, r);
    case SAY_HELLO: return r->bytes == sizeof(struct say_hello) ? hello(a, r) : -EBADMSG;
    case SAY_QUERY:
        error = r->bytes == sizeof(struct say_query) ? query_begin(a, r) : -EBADMSG;
        work_give(a);
        return error;
    case SAY_EMPTY:
    case SAY_CLOSE: return generator_says(a, r);
    case SAY_STATS:
        if (r->bytes != sizeof(struct say_stats))
            return -EBADMSG;
        ((struct say_stats *)r->message)->stats = a->stats;
        return 0;
    case SAY_END: return end(a, r);
    default: return -EBADMSG;
    }
}

void administrator_gone(void *administrator, uint64_t client)
{
    struct ps_administrator *a = administrator;
    for (unsigned i = 0; i < PS_QUERIES_MAX; i++)
        if (a->queries[i].open && !a->queries[i].closing && a->queries[i].client == client) {
            a->queries[i].closing = 1;
            query_settle(a, &a->queries[i]);
        }
    work_give(a);
}
