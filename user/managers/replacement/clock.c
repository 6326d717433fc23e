/* clock.c - the page goes that came first, but one that was used stays for another round. */
#include "policy.h"
#include "queue.h"

static struct queues q;
static unsigned char *was_used;

static int start(unsigned pages, unsigned frames)
{
    (void)frames;
    free(was_used);
    was_used = calloc(pages, 1);
    if (!was_used)
        return -ENOMEM;
    return queues_start(&q, pages);
}

static unsigned victim(unsigned coming)
{
    (void)coming;
    unsigned page = queue_take(&q, 0);
    for (; was_used[page]; page = queue_take(&q, 0)) {
        was_used[page] = 0;
        queue_append(&q, 0, page);
    }
    return page;
}

static void came(unsigned page)
{
    was_used[page] = 0;
    queue_append(&q, 0, page);
}

static void used(unsigned page) { was_used[page] = 1; }

const struct policy policy_clock = {"clock", start, victim, came, used};
