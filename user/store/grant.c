/*
 * grant.c - the table of grants: found by serial and by container, each below the one of which it
 * was made.
 *
 * Places in an array name grants, so that it may move when it grows. Whoever adds has reserved room
 * before his commit: what is durable is never refused for want of memory.
 *
 * Lock: that of the disk library, held by the caller of the module.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_LEAST = 64, ROOM_LEAST = 64 };

static uint32_t head_of(const struct directory *d, uint64_t number)
{
    return (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 32) & (d->heads - 1);
}

uint32_t grant_find(const struct directory *d, uint64_t serial)
{
    uint32_t at = d->heads ? d->by_serial[head_of(d, serial)] : 0;
    while (at && d->grants[at].serial != serial) at = d->grants[at].serial_next;
    return at;
}

uint32_t grant_of(const struct directory *d, uint64_t container, uint32_t after)
{
    uint32_t at = after ? d->grants[after].container_next
                : d->heads ? d->by_container[head_of(d, container)] : 0;
    while (at && d->grants[at].container != container) at = d->grants[at].container_next;
    return at;
}

static void chains_enter(struct directory *d, uint32_t at)
{
    struct grant *g = &d->grants[at];
    uint32_t *head = &d->by_serial[head_of(d, g->serial)];
    g->serial_next = *head;
    *head = at;
    head = &d->by_container[head_of(d, g->container)];
    g->container_next = *head;
    *head = at;
}

static void chains_leave(struct directory *d, uint32_t at)
{
    const struct grant *g = &d->grants[at];
    uint32_t *link = &d->by_serial[head_of(d, g->serial)];
    while (*link != at) link = &d->grants[*link].serial_next;
    *link = g->serial_next;
    link = &d->by_container[head_of(d, g->container)];
    while (*link != at) link = &d->grants[*link].container_next;
    *link = g->container_next;
}

/* heads_make makes as many heads as places, at least. */
static int heads_make(struct directory *d, uint32_t room)
{
    uint32_t heads = HEADS_LEAST;
    while (heads < room) heads *= 2;
    if (heads == d->heads) return 0;
    uint32_t *lists = calloc(2 * (size_t)heads, sizeof(*lists));
    if (!lists) return -ENOMEM;
    free(d->by_serial);
    d->by_serial = lists;
    d->by_container = lists + heads;
    d->heads = heads;
    for (uint32_t i = 1; i < d->top; i++)
        if (d->grants[i].flags & GRANT_USED) chains_enter(d, i);
    return 0;
}

int grants_reserve(struct directory *d, uint32_t more)
{
    uint32_t top = d->top ? d->top : 1, left = d->room ? d->room - top : 0;
    uint32_t room = d->room ? d->room : ROOM_LEAST;
    for (uint32_t at = d->free; at && left < more; at = d->grants[at].serial_next) left++;
    if (left >= more) return 0;
    while (room - top < more) {
        if (room > UINT32_MAX / 2) return -ENOMEM;
        room *= 2;
    }
    struct grant *grants = realloc(d->grants, room * sizeof(*grants));
    if (!grants) return -ENOMEM;
    d->grants = grants;
    d->top = top;
    int r = heads_make(d, room);
    if (r == 0) d->room = room;
    return r;
}

void grant_hang(struct directory *d, uint32_t grant, uint32_t parent)
{
    struct grant *g = &d->grants[grant], *p = &d->grants[parent];
    g->parent = parent;
    g->depth = (uint8_t)(p->depth + 1);
    g->next = p->child;
    if (g->next) d->grants[g->next].before = grant;
    p->child = grant;
}

uint32_t grant_add(struct directory *d, uint64_t serial, uint64_t container, uint32_t parent,
                   uint32_t rights)
{
    uint32_t at = d->free;
    if (at)
        d->free = d->grants[at].serial_next;
    else
        at = d->top++;
    d->grants[at] = (struct grant){ .serial = serial, .container = container, .rights = rights,
                                    .flags = GRANT_USED };
    if (directory_is(d, container)) d->grants[at].flags |= GRANT_DIRECTORY;
    chains_enter(d, at);
    if (parent) grant_hang(d, at, parent);
    d->links += !(serial & DIRECTORY_FIRST);
    return at;
}

uint32_t grant_first(struct directory *d, uint64_t container)
{
    uint32_t at = grant_find(d, DIRECTORY_FIRST | container);
    return at ? at : grant_add(d, DIRECTORY_FIRST | container, container, 0, DIRECTORY_ALL);
}

static void grant_free(struct directory *d, uint32_t at)
{
    struct grant *g = &d->grants[at];
    d->links -= !(g->serial & DIRECTORY_FIRST);
    chains_leave(d, at);
    *g = (struct grant){ .serial_next = d->free };
    d->free = at;
}

void grant_end(struct directory *d, uint32_t at)
{
    const struct grant *g = &d->grants[at];
    if (g->next) d->grants[g->next].before = g->before;
    if (g->before)
        d->grants[g->before].next = g->next;
    else if (g->parent)
        d->grants[g->parent].child = g->next;
    grant_free(d, at);
}

/* grants_end ends whole trees, as each lies in one container (DG1). */
void grants_end(struct directory *d, uint64_t container)
{
    uint32_t at;
    while ((at = grant_of(d, container, 0))) grant_free(d, at);
}

uint32_t grant_deepest(const struct directory *d, uint32_t at)
{
    while (d->grants[at].child) at = d->grants[at].child;
    return at;
}

uint32_t grant_behind(const struct directory *d, uint32_t at, uint32_t top)
{
    const struct grant *g = &d->grants[at];
    if (at == top) return 0;
    return g->next ? grant_deepest(d, g->next) : g->parent;
}

void grant_entry(struct directory *d, uint32_t at, uint64_t directory, uint32_t slot)
{
    struct grant *g = &d->grants[at];
    g->directory = directory;
    g->slot = slot;
    g->flags |= GRANT_ENTRY;
}
