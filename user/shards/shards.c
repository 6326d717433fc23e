/*
 * shards.c - calls by key: which shard, which process, and what is open here (shards.h).
 *
 * A process has at most SHARDS_OPEN shards open at a time, and closes the one that was used longest
 * ago: it can reach all, with addresses for a few.
 */
#include "shards.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct wire { uint32_t shard, operation; uint64_t bytes; uint8_t message[]; };

unsigned shards_of(const struct shards *p, uint64_t key)
{
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
    return (unsigned)((key >> 32) * p->shards >> 32);
}

/* ---- here ---- */

static ps_container *shard_open(struct shards *p, unsigned shard)
{
    char name[SHARDS_NAME_BYTES];
    unsigned i = 0;
    while (i < p->open_count && p->open[i].shard != shard) i++;
    ps_container *c = i < p->open_count ? p->open[i].c : NULL;
    if (!c) {
        const char *place = p->place ? p->place(shard) : "";
        snprintf(name, sizeof name, "%s%s.%u", place, p->name, shard);
        c = ps_open(name, *place ? PS_WRITE : PS_CREATE | PS_WRITE, NULL);
        if (!c) return NULL;
        p->opened++;
        if (p->open_count == SHARDS_OPEN)
            (void)ps_close(p->open[--p->open_count].c);
        i = p->open_count++;
    }
    memmove(&p->open[1], &p->open[0], i * sizeof p->open[0]);
    p->open[0].shard = shard;
    p->open[0].c = c;
    return c;
}

struct run { shards_operation *operation; ps_container *c; void *message, *before; size_t bytes; };

/* It may run again: with the message as it came. */
static int run(void *arg)
{
    struct run *r = arg;
    memcpy(r->message, r->before, r->bytes);
    return r->operation(r->c, r->message);
}

static int call_here(struct shards *p, unsigned shard, unsigned operation, void *message,
                     size_t bytes)
{
    uint8_t before[SHARDS_MESSAGE_MAX];
    if (shard >= p->shards || operation >= p->operation_count) return -EINVAL;
    if (bytes > sizeof before) return -EMSGSIZE;
    struct run r = {p->operations[operation], shard_open(p, shard), message, before, bytes};
    if (!r.c) return -errno;
    memcpy(before, message, bytes);
    return ps_transaction(run, &r);
}

/* ---- in another process ---- */

static struct ps_area *server_of(struct shards *p, unsigned s)
{
    char name[SHARDS_NAME_BYTES];
    snprintf(name, sizeof name, "%s.server%u", p->name, s);
    if (!p->server[s]) p->server[s] = ps_area_open(name);
    return p->server[s];
}

static int call_there(struct shards *p, unsigned shard, unsigned operation, void *message,
                      size_t bytes)
{
    _Alignas(struct wire) uint8_t all[PS_MESSAGE_MAX];
    struct wire *w = (struct wire *)all;
    unsigned s = shard % p->servers;
    if (bytes > SHARDS_MESSAGE_MAX) return -EMSGSIZE;
    struct ps_area *a = server_of(p, s);
    if (!a) return -errno;
    *w = (struct wire){shard, operation, bytes};
    memcpy(w->message, message, bytes);
    int error = ps_ask(a, all, sizeof *w + bytes, -1);
    if (error == -ENOTCONN) {
        ps_area_close(a);
        p->server[s] = NULL;
    }
    if (!error) memcpy(message, w->message, bytes);
    return error;
}

static bool possible(const struct shards *p)
{
    return p->shards && p->shards <= SHARDS_MAX && p->servers <= SHARDS_SERVERS_MAX;
}

static int call(struct shards *p, unsigned shard, unsigned operation, void *message, size_t bytes)
{
    if (!possible(p)) return -EINVAL;
    return p->servers ? call_there(p, shard, operation, message, bytes)
                      : call_here(p, shard, operation, message, bytes);
}

int shards_call(struct shards *p, uint64_t key, unsigned operation, void *message, size_t bytes)
{
    return call(p, shards_of(p, key), operation, message, bytes);
}

int shards_each(struct shards *p, unsigned operation, void *message, size_t bytes)
{
    int error = possible(p) ? 0 : -EINVAL;
    for (unsigned shard = 0; !error && shard < p->shards; shard++)
        error = call(p, shard, operation, message, bytes);
    return error;
}

/* ---- the process that has them ---- */

struct serving { struct shards *p; unsigned s; };

static int serve(void *arg, struct ps_request *r)
{
    const struct serving *v = arg;
    struct wire *w = r->message;
    if (r->bytes < sizeof *w || w->bytes != r->bytes - sizeof *w) return -EINVAL;
    if (w->shard >= v->p->shards || w->shard % v->p->servers != v->s) return -EINVAL;
    return call_here(v->p, w->shard, w->operation, w->message, w->bytes);
}

int shards_serve(struct shards *p, unsigned s)
{
    static struct serving v;
    char name[SHARDS_NAME_BYTES];
    if (!possible(p) || s >= p->servers) return -EINVAL;
    if (v.p) return -EEXIST;
    v = (struct serving){p, s};
    snprintf(name, sizeof name, "%s.server%u", p->name, s);
    if (ps_area_make(name, 1, &(struct ps_task){.serve = serve, .arg = &v})) return 0;
    v.p = NULL;
    return -errno;
}
