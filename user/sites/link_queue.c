/* link_queue.c - frames that wait, in order. */
#include "link_peer.h"

#include <stdlib.h>

struct waiting *waiting_new(uint32_t bytes)
{
    struct waiting *w = malloc(sizeof(*w) + bytes);
    if (w)
        *w = (struct waiting){.bytes = bytes};
    return w;
}

void queue_begin(struct queue *q) { *q = (struct queue){.last = &q->first}; }

void queue_add(struct queue *q, struct waiting *w)
{
    w->next = NULL;
    *q->last = w;
    q->last = &w->next;
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
