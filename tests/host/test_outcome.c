/*
 * test_outcome.c - the rings in which a home notes the commits of a site (user/sites/agent_ring.c).
 *
 * Aim     who asks in the next session hears what became of his commit, whatever was committed
 *         before; who asks later hears that, or that it is unknown, and nothing that is wrong.
 * Method  sessions of a site with many views, each with one COMMIT at most; threads take them in
 *         order, note and answer them. Answers come in order, up to the end of the session, where
 *         all that is not answered is in doubt. Some ask at once, others after some more sessions.
 *         Each session begins with what lies in the store, which it hears in any order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/agent_ring.c"

enum { THREADS = 4, DOUBTS = 4096 };
static struct ring rings[THREADS];
static struct note { uint64_t number, place; } store[THREADS * RING_ENTRIES];
static struct doubt { uint64_t session, number; bool committed; } doubt[DOUBTS];
static unsigned doubts;
#include "any.h"
static uint64_t session, number;

/* Asks for all in doubt, or for some; those that have heard ask no more. */
static unsigned ask(bool at_once)
{
    unsigned unknown = 0, left = 0;
    for (unsigned i = 0; i < doubts; i++) {
        struct doubt d = doubt[i];
        if (!at_once && any(3)) {
            doubt[left++] = d;
            continue;
        }
        enum wire_outcome is = ring_find(rings, THREADS, d.session, d.number);
        if (at_once || is != WIRE_IN_DOUBT)
            assert_int_equal(is, d.committed ? WIRE_COMMITTED : WIRE_UNDONE);
        unknown += is == WIRE_IN_DOUBT;
    }
    doubts = left;
    return unknown;
}

static void rings_load(void)
{
    enum { ALL = THREADS * RING_ENTRIES, STEP = 7 };    /* prime to each other */
    memset(rings, 0, sizeof rings);
    for (unsigned i = 0, at = any(ALL); i < ALL; i++, at = (at + STEP) % ALL)
        if (store[at].place)
            ring_load(&rings[at / RING_ENTRIES], at % RING_ENTRIES, store[at].number,
                      store[at].place);
}

static void note(unsigned thread, uint64_t of)
{
    struct ring *r = &rings[thread];
    store[thread * RING_ENTRIES + r->next] = (struct note){of, ring_place(r, session)};
    ring_note(r, session, of);
}

/* A session: `views` programs commit, until so many are done. One thread may be slow. */
static void session_run(unsigned views, unsigned commits)
{
    uint64_t waits[KD_VIEW_MAX], noted[KD_VIEW_MAX];
    unsigned waiting = 0, unanswered = 0, slow = any(2 * THREADS);
    session++;
    rings_load();
    for (unsigned done = 0; done < commits || waiting + unanswered < views;) {
        if (waiting + unanswered < views) {
            waits[waiting++] = ++number;
            continue;
        }
        if (unanswered && (any(2) || !waiting)) {
            done++;
            memmove(noted, noted + 1, --unanswered * sizeof *noted);
            continue;
        }
        unsigned thread = any(THREADS);
        if (thread == slow && any(50)) continue;
        noted[unanswered++] = waits[0];
        note(thread, waits[0]);
        memmove(waits, waits + 1, --waiting * sizeof *waits);
    }
    for (unsigned i = 0; i < waiting + unanswered && doubts < DOUBTS; i++)
        doubt[doubts++] = i < waiting ? (struct doubt){session, waits[i], false}
                                      : (struct doubt){session, noted[i - waiting], true};
}

static void the_next_session_knows(void **state)
{
    (void)state;
    for (unsigned run = 1; run <= 100; run++) {
        seed = run;
        memset(store, 0, sizeof store);
        doubts = 0;
        for (int i = 0; i < 10; i++) {
            session_run(1 + any(KD_VIEW_MAX), any(4) ? any(3000) : 0);
            assert_int_equal(ask(true), 0);
        }
    }
}

static void a_later_one_tells_no_lies(void **state)
{
    unsigned unknown = 0, all = 0;
    (void)state;
    for (unsigned run = 1; run <= 100; run++) {
        seed = run;
        memset(store, 0, sizeof store);
        doubts = 0;
        for (int i = 0; i < 20; i++) {
            session_run(1 + any(KD_VIEW_MAX), any(2) ? any(1500) : 0);
            unsigned before = doubts;
            unknown += ask(false);
            all += before - doubts;
        }
    }
    assert_true(all > 50000 && unknown > 0 && unknown < all / 2);
    print_message("# of %u that asked later %u heard that it is unknown\n", all, unknown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_session_knows),
        cmocka_unit_test(a_later_one_tells_no_lies),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
