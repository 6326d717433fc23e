/* fifo.c - the page goes that came first, whether it was used or not. */
#include "policy.h"
#include "queue.h"

static struct queues q;

static int start(unsigned pages, unsigned frames) { return (void)frames, queues_start(&q, pages); }
static unsigned victim(unsigned coming) { return (void)coming, queue_take(&q, 0); }
static void came(unsigned page) { queue_append(&q, 0, page); }
static void used(unsigned page) { (void)page; }

const struct policy policy_fifo = {"fifo", start, victim, came, used};
