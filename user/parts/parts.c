/*
 * parts.c - calls by key: which part, which process, and what is open here (parts.h).
 *
 * A process has at most PARTS_OPEN parts open at a time, and closes the one that was used longest
 * ago: it can reach all, with addresses for a few.
 */
#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct wire { uint32_t part, operation; uint64_t bytes; uint8_t message[]; };

unsigned parts_of(const struct parts *p, uint64_t key)
{
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
    return (unsigned)((key >> 32) * p->parts >> 32);
}

/* ---- here ---- */

static ps_container *part_open(struct parts *p, unsigned part)
{
    char name[PARTS_NAME_BYTES];
    unsigned i = 0;
    while (i < p->open_count && p->open[i].part != part) i++;
    ps_container *c = i < p->open_count ? p->open[i].c : NULL;
    if (!c) {
        const char *place = p->place ? p->place(part) : "";
        snprintf(name, sizeof name, "%s%s.%u", place, p->name, part);
        c = ps_open(name, *place ? PS_WRITE : PS_CREATE | PS_WRITE, NULL);
        if (!c) return NULL;
        p->opened++;
        if (p->open_count == PARTS_OPEN)
            (void)ps_close(p->open[--p->open_count].c);
        i = p->open_count++;
    }
    memmove(&p->open[1], &p->open[0], i * sizeof p->open[0]);
    p->open[0].part = part;
    p->open[0].c = c;
    return c;
}

struct run { parts_operation *operation; ps_container *c; void *message, *before; size_t bytes; };

/* It may run again: with the message as it came. */
static int run(void *arg)
{
    struct run *r = arg;
    memcpy(r->message, r->before, r->bytes);
    return r->operation(r->c, r->message);
}

static int call_here(struct parts *p, unsigned part, unsigned operation, void *message,
                     size_t bytes)
{
    uint8_t before[PARTS_MESSAGE_MAX];
    if (part >= p->parts || operation >= p->operation_count) return -EINVAL;
    if (bytes > sizeof before) return -EMSGSIZE;
    struct run r = {p->operations[operation], part_open(p, part), message, before, bytes};
    if (!r.c) return -errno;
    memcpy(before, message, bytes);
    return ps_transaction(run, &r);
}

/* ---- in another process ---- */

static struct ps_area *server_of(struct parts *p, unsigned s)
{
    char name[PARTS_NAME_BYTES];
    snprintf(name, sizeof name, "%s.server%u", p->name, s);
    if (!p->server[s]) p->server[s] = ps_area_open(name);
    return p->server[s];
}

static int call_there(struct parts *p, unsigned part, unsigned operation, void *message,
                      size_t bytes)
{
    _Alignas(struct wire) uint8_t all[PS_MESSAGE_MAX];
    struct wire *w = (struct wire *)all;
    unsigned s = part % p->servers;
    if (bytes > PARTS_MESSAGE_MAX) return -EMSGSIZE;
    struct ps_area *a = server_of(p, s);
    if (!a) return -errno;
    *w = (struct wire){part, operation, bytes};
    memcpy(w->message, message, bytes);
    int error = ps_ask(a, all, sizeof *w + bytes, -1);
    if (error == -ENOTCONN) {
        ps_area_close(a);
        p->server[s] = NULL;
    }
    if (!error) memcpy(message, w->message, bytes);
    return error;
}

static int call(struct parts *p, unsigned part, unsigned operation, void *message, size_t bytes)
{
    return p->servers ? call_there(p, part, operation, message, bytes)
                      : call_here(p, part, operation, message, bytes);
}

int parts_call(struct parts *p, uint64_t key, unsigned operation, void *message, size_t bytes)
{
    return call(p, parts_of(p, key), operation, message, bytes);
}

int parts_each(struct parts *p, unsigned operation, void *message, size_t bytes)
{
    int error = 0;
    for (unsigned part = 0; !error && part < p->parts; part++)
        error = call(p, part, operation, message, bytes);
    return error;
}

/* ---- the process that has them ---- */

struct serving { struct parts *p; unsigned s; };

static int serve(void *arg, struct ps_request *r)
{
    const struct serving *v = arg;
    struct wire *w = r->message;
    if (r->bytes < sizeof *w || w->bytes != r->bytes - sizeof *w) return -EINVAL;
    if (w->part >= v->p->parts || w->part % v->p->servers != v->s) return -EINVAL;
    return call_here(v->p, w->part, w->operation, w->message, w->bytes);
}

int parts_serve(struct parts *p, unsigned s)
{
    static struct serving v;
    char name[PARTS_NAME_BYTES];
    if (s >= p->servers || p->servers > PARTS_SERVERS_MAX || p->parts > PARTS_MAX) return -EINVAL;
    if (v.p) return -EEXIST;
    v = (struct serving){p, s};
    snprintf(name, sizeof name, "%s.server%u", p->name, s);
    return ps_area_make(name, 1, &(struct ps_task){.serve = serve, .arg = &v}) ? 0 : -errno;
}
