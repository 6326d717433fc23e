/* queue.h - pages in queues, each page in one at most: arrays of neighbours, by number. */
#ifndef REPLACEMENT_QUEUE_H
#define REPLACEMENT_QUEUE_H

#include <errno.h>
#include <stdlib.h>

enum { QUEUES = 4, NO_QUEUE = 255 };
struct queues {                          /* the heads stand behind the pages */
    unsigned pages, length[QUEUES], *next, *before;
    unsigned char *in;
};

/* Makes them empty, for so many pages, in place of those that were there. */
static inline int queues_start(struct queues *q, unsigned pages)
{
    q->next = realloc(q->next, (pages + QUEUES) * sizeof *q->next);
    q->before = realloc(q->before, (pages + QUEUES) * sizeof *q->before);
    q->in = realloc(q->in, pages);
    if (!q->next || !q->before || !q->in)
        return -ENOMEM;
    q->pages = pages;
    for (unsigned page = 0; page < pages; page++)
        q->in[page] = NO_QUEUE;
    for (unsigned which = 0; which < QUEUES; which++) {
        q->next[pages + which] = q->before[pages + which] = pages + which;
        q->length[which] = 0;
    }
    return 0;
}

static inline unsigned queue_first(const struct queues *q, unsigned which)
{
    return q->next[q->pages + which];
}

static inline void queue_remove(struct queues *q, unsigned page)
{
    if (q->in[page] == NO_QUEUE)
        return;
    q->next[q->before[page]] = q->next[page];
    q->before[q->next[page]] = q->before[page];
    q->length[q->in[page]]--;
    q->in[page] = NO_QUEUE;
}

/* Puts a page at the end of a queue, from wherever it was. */
static inline void queue_append(struct queues *q, unsigned which, unsigned page)
{
    unsigned head = q->pages + which;
    queue_remove(q, page);
    q->before[page] = q->before[head];
    q->next[page] = head;
    q->next[q->before[head]] = page;
    q->before[head] = page;
    q->in[page] = (unsigned char)which;
    q->length[which]++;
}

static inline unsigned queue_take(struct queues *q, unsigned which)
{
    unsigned page = queue_first(q, which);
    queue_remove(q, page);
    return page;
}

#endif
