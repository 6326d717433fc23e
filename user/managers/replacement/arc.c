/*
 * arc.c - ARC (Megiddo, Modha 2003): pages that were used once and pages that were used again have
 * a list each; how much of memory the first list may fill is learned from pages that come back soon
 * after they went.
 *
 *   ONCE    in memory, used once         ONCE_GONE    went from ONCE lately
 *   AGAIN   in memory, used again        AGAIN_GONE   went from AGAIN lately
 *
 * Each list begins with the page that was used the longest ago.
 */
#include "policy.h"
#include "queue.h"

enum { ONCE, AGAIN, ONCE_GONE, AGAIN_GONE };
static struct queues q;
static unsigned frames, target;          /* how many pages ONCE should have */

static int start(unsigned pages, unsigned frame_count)
{
    frames = frame_count;
    target = 0;
    return queues_start(&q, pages);
}

static unsigned at_least_1(unsigned n) { return n ? n : 1; }

/* A page that comes back shows which list should have been longer. */
static void learn(unsigned coming)
{
    unsigned once = q.length[ONCE_GONE], again = q.length[AGAIN_GONE];
    if (q.in[coming] == ONCE_GONE) {
        unsigned more = at_least_1(again / at_least_1(once));
        target = target + more < frames ? target + more : frames;
    } else if (q.in[coming] == AGAIN_GONE) {
        unsigned fewer = at_least_1(once / at_least_1(again));
        target = target > fewer ? target - fewer : 0;
    }
}

static unsigned replace(unsigned coming)
{
    unsigned once = q.length[ONCE];
    int from_once = once > target || (once && once == target && q.in[coming] == AGAIN_GONE) ||
                    q.length[AGAIN] == 0;
    unsigned page = queue_take(&q, from_once ? ONCE : AGAIN);
    queue_append(&q, from_once ? ONCE_GONE : AGAIN_GONE, page);
    return page;
}

static unsigned victim(unsigned coming)
{
    learn(coming);
    if (q.in[coming] == NO_QUEUE) {
        if (q.length[ONCE] == frames)
            return queue_take(&q, ONCE);
        if (q.length[ONCE] + q.length[ONCE_GONE] >= frames)
            (void)queue_take(&q, ONCE_GONE);
        else if (q.length[AGAIN] + q.length[AGAIN_GONE] + q.length[ONCE] + q.length[ONCE_GONE] >=
                 2 * frames)
            (void)queue_take(&q, AGAIN_GONE);
    }
    return replace(coming);
}

static void came(unsigned page) { queue_append(&q, q.in[page] == NO_QUEUE ? ONCE : AGAIN, page); }
static void used(unsigned page) { queue_append(&q, AGAIN, page); }

const struct policy policy_arc = {"arc", start, victim, came, used};
