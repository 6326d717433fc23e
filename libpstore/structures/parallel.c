/* parallel.c - an administrator is made and ends; generators. */
#include "parallel_private.h"

#include <errno.h>
#include <pstore.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* ---- administrators ---- */

static size_t found_max(const struct ps_access *a)
{
    const struct ps_type *t = a->type;
    size_t key = t->key_bytes                         ? t->key_bytes
                 : a->head->node_bytes / 16 < PS_KEY_MAX ? a->head->node_bytes / 16 + 1
                                                         : PS_KEY_MAX + 1;
    size_t record = t->variable ? PS_RECORD_MAX_(a->head->node_bytes, t->key_bytes)
                                : t->record_bytes;
    return sizeof(struct spread_found) + spread_padded(key) + spread_padded(record);
}

struct copying { struct ps_administrator *a; const struct ps_head *head; };
static int head_copy(void *arg)
{
    const struct copying *c = arg;
    memcpy(c->a->head, c->head, sizeof c->a->head);
    return 0;
}

/* The head's copy, of any thread; whether the structure is the one that the caller means. */
static int structure_know(struct ps_administrator *a)
{
    struct copying c = {a, a->segment->head};
    if (!c.head)
        return error_told(ERROR_SPREAD, -ENODATA);
    int error = segment_read(a->segment, 0, head_copy, &c);
    struct ps_instance instance = a->what.instance;
    instance.head = (struct ps_head *)(void *)a->head;
    ps_access_open(&a->access, &instance, a->what.type, PS_LOOK);
    a->found_max = error ? 0 : a->access.error ? 0 : found_max(&a->access);
    return error ? error : a->access.error;
}

static void threads_end(struct ps_administrator *a, unsigned count)
{
    uint32_t say = SAY_END;
    ps_ask(a->area, &say, sizeof say, -1);
    for (unsigned i = 0; i < count; i++)
        pthread_join(a->threads[i], NULL);
}

/* A fault brings a leaf and no neighbours: the next leaf that is wanted is another one. Of a
 * container that is open for reading only, what touches suggest is as good. */
static void leaves_alone(const struct ps_administrator *a)
{
    unsigned pages = 1;
    while (pages * PAGE < a->access.head->node_bytes)
        pages *= 2;
    for (unsigned p = 0; p < a->segment->parts && a->segment->part[p]; p++)
        ps_policy(a->segment->part[p], PS_GROUP, pages);
}

static int administrator_begin(struct ps_administrator *a, const char *name)
{
    const struct ps_task task = {administrator_serve, administrator_gone, a};
    int error = structure_know(a);
    if (error)
        return error;
    leaves_alone(a);
    a->area = name ? ps_area_make(name, UNITS * UNIT_BYTES, &task)
                   : ps_area_private(UNITS * UNIT_BYTES, &task);
    if (!a->area)
        return -errno;
    for (unsigned i = 0; i < a->workers && !error; i++)
        if ((error = -pthread_create(&a->threads[i], NULL, administrator_work, a)))
            threads_end(a, i);
    if (error)
        ps_area_close(a->area);
    return error;
}

struct ps_administrator *ps_administrator_make(const struct ps_segment *s,
                                               struct ps_spread_what what,
                                               const struct ps_administrator_wish *wish)
{
    const struct ps_administrator_wish none = {0}, *w = wish ? wish : &none;
    struct ps_administrator *a = w->workers > PS_WORKERS_MAX ? NULL : calloc(1, sizeof *a);
    if (!a) {
        errno = w->workers > PS_WORKERS_MAX ? EINVAL : ENOMEM;
        return error_told_by(ERROR_PARALLEL, NULL);
    }
    a->segment = s;
    a->what = what;
    a->workers = w->workers ? w->workers : 2 * s->parts + 1;
    a->ahead = w->no_ahead ? 0 : w->ahead ? w->ahead : 4;
    int error = administrator_begin(a, w->name);
    if (!error)
        return a;
    free(a);
    return structure_none(error);
}

struct ps_administrator *ps_administrator_open(const char *name)
{
    struct ps_administrator *a = calloc(1, sizeof *a);
    struct say_hello hello = {.say = SAY_HELLO};
    if (!a)
        return structure_none(-ENOMEM);
    a->area = ps_area_open(name);
    if (!a->area) {
        free(a);
        return NULL;
    }
    int error = ps_ask(a->area, &hello, sizeof hello, -1);
    if (error) {
        ps_area_close(a->area);
        free(a);
        return structure_none(error);
    }
    struct ps_head *head = (struct ps_head *)(void *)a->head;
    *head = (struct ps_head){.fingerprint = hello.fingerprint, .node_bytes = hello.node_bytes,
                             .flags = (uint16_t)hello.flags};
    a->what.instance.flags = (int)hello.flags;
    return a;
}

int ps_administrator_close(struct ps_administrator *a)
{
    if (a->segment)
        threads_end(a, a->workers);
    int error = ps_area_close(a->area);
    free(a);
    return error;
}

int ps_administrator_stats(struct ps_administrator *a, struct ps_administrator_stats *out)
{
    struct say_stats s = {.say = SAY_STATS};
    int error = ps_ask(a->area, &s, sizeof s, -1);
    *out = s.stats;
    return error;
}

/* ---- generators ---- */

static int16_t bound_copy(const struct ps_type *type, const void *key, uint8_t *to)
{
    size_t bytes = key ? type->key_bytes ? type->key_bytes : strlen(key) : 0;
    if (bytes > PS_KEY_MAX)
        return -2;
    if (key)
        memcpy(to, key, bytes);
    return key ? (int16_t)bytes : -1;
}

void ps_parallel_begin(struct ps_parallel *q, struct ps_administrator *a,
                       const struct ps_type *type, const void *from, const void *to, int how,
                       size_t bytes)
{
    struct say_query s = {.say = SAY_QUERY, .bytes = bytes, .query = {.how = how}};
    struct ps_instance instance = a->what.instance;
    struct ps_access same;
    instance.head = (struct ps_head *)(void *)a->head;
    ps_access_open(&same, &instance, type, PS_LOOK);
    *q = (struct ps_parallel){.a = a, .error = same.error};
    s.query.from_bytes = bound_copy(type, from, s.query.from);
    s.query.to_bytes = bound_copy(type, to, s.query.to);
    if (!q->error)
        q->error = s.query.from_bytes < -1 || s.query.to_bytes < -1
                       ? -EOVERFLOW
                       : ps_ask(a->area, &s, sizeof s, -1);
    if (q->error)
        return;
    q->slot = s.slot;
    q->generation = s.generation;
    q->buffers = s.buffers;
    q->buffer_bytes = s.buffer_bytes;
    q->pool = (struct ps_pool *)(void *)((char *)ps_area_memory(a->area) + s.pool);
}

static int say(const struct ps_parallel *q, uint32_t what)
{
    struct say_slot s = {what, q->slot, q->generation};
    return ps_ask(q->a->area, &s, sizeof s, -1);
}

/* The buffer that was read goes back; the administrator is told if it waits for one. */
static void buffer_back(struct ps_parallel *q)
{
    struct ps_pool *p = q->pool;
    p->empty_ring[p->given % q->buffers] = q->buffer - 1;
    q->buffer = 0;
    __atomic_fetch_add(&p->given, 1, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&p->starved, 0, __ATOMIC_SEQ_CST))
        say(q, SAY_EMPTY);
}

/* The next full one; 0: that was all, or an error. */
static int buffer_next(struct ps_parallel *q)
{
    struct ps_pool *p = q->pool;
    if (q->buffer)
        buffer_back(q);
    q->error = ps_semaphore_take(q->a->area, &p->full, -1);
    const uint32_t at = q->taken % q->buffers;
    if (!q->error && p->ended && q->taken == p->put) {
        q->ended = 1;
        q->error = p->error;
    }
    if (q->error || q->ended)
        return 0;
    q->taken++;
    q->buffer = p->full_ring[at].buffer + 1;
    q->next = p->memory + (size_t)(q->buffer - 1) * q->buffer_bytes;
    q->end = q->next + p->full_ring[at].bytes;
    return 1;
}

const void *ps_parallel_next(struct ps_parallel *q)
{
    if (q->error || q->ended || (q->next == q->end && !buffer_next(q)))
        return structure_none(error_told(ERROR_PARALLEL, q->error));
    const struct spread_found *found = (const struct spread_found *)(const void *)q->next;
    q->key = found + 1;
    q->bytes = found->record_bytes;
    q->next += found->bytes;
    return (const char *)(found + 1) + spread_padded(found->key_bytes);
}

void ps_parallel_end(struct ps_parallel *q)
{
    if (q->pool)
        say(q, SAY_CLOSE);
    q->pool = NULL;
    q->ended = 1;
}
