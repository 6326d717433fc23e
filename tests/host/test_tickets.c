/*
 * test_tickets.c - how old a site's transactions are at a home (user/sites/pages.h: RG3).
 *
 * Aim     who is older at the client is not younger at the home; a transaction keeps its age over
 *         all its GETs; however many there are, and in whichever order they come, two at once too.
 * Method  GETs of transactions that begin, repeat and end at random. What they are given is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/sites/pages.c"
#include <cmocka.h>

enum { LIVE = 40, STEPS = 4000, RUNS = 40 };
#include "any.h"
static uint64_t last_theirs, last_ours;
static struct { uint64_t theirs, ours; } live[LIVE];   /* ours: 0: it has not asked yet */

static void in_order(void)
{
    for (int a = 0; a < LIVE; a++)
        for (int b = 0; b < LIVE; b++)
            if (live[a].ours && live[b].ours && live[a].theirs < live[b].theirs)
                assert_true(live[a].ours <= live[b].ours);
}

static void asks(struct site_tickets *t, int i)
{
    uint64_t ours = tickets_ours(t, live[i].theirs);
    if (!ours) {
        tickets_note(t, live[i].theirs, ++last_ours);
        ours = tickets_ours(t, live[i].theirs);
        assert_true(ours); /* what was noted is known */
    }
    if (live[i].ours && !t->first) assert_int_equal(ours, live[i].ours);
    assert_true(ours >= live[i].ours); /* of so many that it was forgotten it is the oldest */
    live[i].ours = ours;
}

/* Two threads begin transactions at once, and note them in the other order. */
static void ask_crosswise(struct site_tickets *t, int i, int k)
{
    if (tickets_ours(t, live[i].theirs) || tickets_ours(t, live[k].theirs)) return;
    uint64_t first = ++last_ours, second = ++last_ours;
    tickets_note(t, live[i].theirs, second);
    tickets_note(t, live[k].theirs, first);
    asks(t, i);
    asks(t, k);
}

static void tickets(void **state)
{
    (void)state;
    for (unsigned run = 1; run <= RUNS; run++) {
        struct site_tickets t = {0};
        seed = run;
        last_theirs = last_ours = 0;
        memset(live, 0, sizeof live);
        for (unsigned n = 0; n < STEPS; n++) {
            int i = (int)any(LIVE), k = (int)any(LIVE);
            bool ends = !live[i].theirs || !any(4);
            if (ends) live[i].ours = 0;
            if (ends) live[i].theirs = ++last_theirs;
            if (!live[k].theirs) live[k].theirs = ++last_theirs;
            if (any(3) == 0 && i != k && !live[i].ours && !live[k].ours)
                ask_crosswise(&t, i, k);
            else
                asks(&t, i);
            for (int j = 0; t.first && j < LIVE; j++)
                if (live[j].ours) asks(&t, j);
            in_order();
            assert_true(t.count <= SITE_TICKETS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tickets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
