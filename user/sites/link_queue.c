/*
 * link_queue.c - frames that wait, in order, and their memory.
 *
 * A frame of a page lives for a moment, and there are thousands of them in a second: some pieces of
 * one size are kept for the next ones, or each would be asked of the kernel and zeroed by it.
 */
#include "link_peer.h"

#include <stddef.h>
#include <stdlib.h>

/* A few fields; a page. From `least` bytes on, so what waits takes little more than it counts. */
enum { KEPT_MOST = 16, NEXT = offsetof(struct waiting, next) };
static struct kept { uint32_t least, bytes; unsigned count; struct waiting *first; }
    kept[] = {{FRAME_HEADER, 192, 0, NULL}, {2304, 4608, 0, NULL}};

static struct kept *kept_for(uint32_t bytes)
{
    for (struct kept *k = kept; k < kept + sizeof(kept) / sizeof(*kept); k++)
        if (bytes >= k->least && bytes <= k->bytes)
            return k;
    return NULL;
}

struct waiting *waiting_new(uint32_t bytes)
{
    struct kept *k = kept_for(bytes);
    struct waiting *w = k ? k->first : NULL;
    if (w) {
        k->first = w->next;
        k->count--;
    } else {
        w = malloc(sizeof(*w) + (k ? k->bytes : bytes));
    }
    if (w)
        *w = (struct waiting){.bytes = bytes};
    return w;
}

void waiting_free(struct waiting *w)
{
    struct kept *k = w ? kept_for(w->bytes) : NULL;
    if (!k || k->count == KEPT_MOST) {
        free(w);
        return;
    }
    w->next = k->first;
    k->first = w;
    k->count++;
}

void queue_begin(struct queue *q) { *q = (struct queue){.last = &q->first}; }

void queue_add(struct queue *q, struct waiting *w)
{
    struct waiting **at = q->last;
    if (q->first && w->place < ((struct waiting *)((char *)at - NEXT))->place)
        for (at = &q->first; (*at)->place <= w->place;) at = &(*at)->next;
    w->next = *at;
    *at = w;
    if (!w->next) q->last = &w->next;
    q->bytes += w->bytes;
}

struct waiting *queue_take(struct queue *q)
{
    struct waiting *w = q->first;
    if (!w)
        return NULL;
    q->first = w->next;
    if (!w->next)
        q->last = &q->first;
    q->bytes -= w->bytes;
    return w;
}
