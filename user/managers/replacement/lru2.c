/*
 * lru2.c - LRU-2 (O'Neil, O'Neil, Weikum 1993): the page goes whose last use but one is the longest
 * ago; of those that have none, the one whose last use is.
 *
 * What a page's uses were is kept when it goes. Uses that the manager tells at once count as one,
 * as the paper has it for those that belong together.
 */
#include "policy.h"
#include "queue.h"

struct uses { unsigned long last, before; }; /* when, 0: never */
static struct queues q;
static struct uses *uses;
static unsigned long now;

static int start(unsigned pages, unsigned frames)
{
    (void)frames;
    free(uses);
    uses = calloc(pages, sizeof *uses);
    if (!uses)
        return -ENOMEM;
    now = 0;
    return queues_start(&q, pages);
}

static int goes_before(const struct uses *a, const struct uses *b)
{
    return a->before != b->before ? a->before < b->before : a->last < b->last;
}

static unsigned victim(unsigned coming)
{
    (void)coming;
    unsigned first = queue_first(&q, 0);
    for (unsigned page = first; page < q.pages; page = q.next[page])
        if (goes_before(&uses[page], &uses[first]))
            first = page;
    queue_remove(&q, first);
    return first;
}

static void used(unsigned page) { uses[page] = (struct uses){++now, uses[page].last}; }

static void came(unsigned page)
{
    used(page);
    queue_append(&q, 0, page);
}

const struct policy policy_lru2 = {"lru2", start, victim, came, used};
