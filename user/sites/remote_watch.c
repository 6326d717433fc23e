/*
 * remote_watch.c - programs here that sleep until pages of the home change which they have read, or
 * its names (ps_retry).
 *
 * The home's store has the watch, in the agent's name (user/store/watch.c): all commits end there,
 * those of this site, too. A program names its pages while its transaction has them, so they are
 * this site's; who changes one of them has to call it first. A number of ours stands for the
 * program's own; with its end the watch ends, or with the session, and then it looks again.
 */
#include <errno.h>
#include <string.h>

#include "katydid/call.h"
#include "remote.h"

enum { WATCHES_MAX = 32 };              /* as many as a store has of one client */

/* Its number at the home is its place + 1. wait: of the request that waits; 0: none. */
static struct watch { uint64_t process, key, wait; } watches[WATCHES_MAX]; /* process 0: free */

static struct watch *watch_of(uint64_t process, uint64_t key)
{
    for (struct watch *w = watches; w < watches + WATCHES_MAX; w++)
        if (w->process == process && (!process || w->key == key)) return w;
    return NULL;
}

static int may_read(const struct kd_message *m)
{
    const uint64_t *address = m->buffer;
    struct segment *s;
    if (m->buffer_bytes % sizeof *address) return -EINVAL;
    for (uint64_t i = 0; i < m->buffer_bytes / sizeof *address; i++) {
        const struct container *c = container_at(address[i], &s);
        if (!c || !opening_of(m->process, c)) return -EACCES;
    }
    return 0;
}

int watch_asked(struct kd_message *m)
{
    struct watch *w = watch_of(m->process, m->word[0]);
    bool none = m->kind == STORE_WATCH && !m->buffer_bytes && m->word[1] != 1;
    int error = m->kind == STORE_WATCH ? may_read(m) : w && !w->wait ? 0 : -ENOENT;
    if (error || (none && !w)) return error;
    if (!w && !(w = watch_of(0, 0))) return -EDQUOT;
    const struct watch before = *w;
    *w = (struct watch){.process = none ? 0 : m->process, .key = m->word[0]};
    m->word[0] = (uint64_t)(w - watches) + 1;
    int passed = store_pass(m);
    if (passed < 0) *w = before;        /* the home has not heard of it: the caller says it again */
    else if (m->kind == STORE_WAIT) w->wait = remote.number;
    return passed;
}

void watch_told(uint64_t number)
{
    for (struct watch *w = watches; w < watches + WATCHES_MAX; w++)
        if (w->process && w->wait == number) *w = (struct watch){0};
}

void watches_end(uint64_t process)
{
    for (struct watch *w = watches; w < watches + WATCHES_MAX; w++) {
        if (w->process != process) continue;
        struct kd_message none = {.kind = STORE_WATCH,
                                  .word = {(uint64_t)(w - watches) + 1}};
        *w = (struct watch){0};
        (void)store_pass(&none); /* if it cannot be said, the next one in its place says it */
    }
}
