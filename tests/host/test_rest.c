/*
 * test_rest.c - who is silent delays others little (user/sites/rest.h).
 *
 * Aim     a peer that answers is asked each time; one that is silent, always or now and then, takes
 *         a thirtieth of the asker's time, and a fifth if it comes anew each time; one that was
 *         silent once and comes anew is asked within a second.
 * Method  an hour of an asker who asks one peer after the other, with a clock of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "user/sites/rest.h"
#include <cmocka.h>

enum { HOUR_MS = 3600000, SILENCE_MS = 2000, EACH_MS = 100 };

/* How many milliseconds of an hour it has waited; *asked: how often it has asked. `every`: each
 * so-many-th question has no answer, 0: all have; anew: it has another port each time. */
static unsigned hour(unsigned every, bool anew, unsigned *asked)
{
    struct rest r = {0};
    uint64_t now_us = 5, owner = 7;
    unsigned waited = 0;
    *asked = 0;
    while (now_us < HOUR_MS * 1000ull) {
        if (rest_over(&r, owner, now_us)) {
            ++*asked;
            if (every && *asked % every == 0) {
                now_us += SILENCE_MS * 1000;
                waited += SILENCE_MS;
                rest_begin(&r, owner, now_us);
                owner += anew;
            }
        }
        now_us += EACH_MS * 1000;
    }
    return waited;
}

static void who_answers_is_asked(void **state)
{
    unsigned asked;
    (void)state;
    assert_int_equal(hour(0, false, &asked), 0);
    assert_int_equal(asked, HOUR_MS / EACH_MS);
}

static void who_is_silent_delays_little(void **state)
{
    unsigned asked, always = hour(1, false, &asked), at_times = hour(2, false, &asked);
    unsigned anew = hour(1, true, &asked);
    (void)state;
    print_message("# of an hour: silent always %u s, at times %u s, anew each time %u s\n",
                  always / 1000, at_times / 1000, anew / 1000);
    assert_true(always < HOUR_MS / 25 && at_times < HOUR_MS / 25 && anew < HOUR_MS / 4);
    assert_true(always > 0 && anew > always);
}

static void who_comes_anew_is_asked_soon(void **state)
{
    struct rest r = {0};
    (void)state;
    rest_begin(&r, 7, 1000000);
    assert_false(rest_over(&r, 7, 4900000));
    assert_true(rest_over(&r, 8, 1600000) && rest_over(&r, 7, 5000000));
    for (int i = 0; i < 9; i++) rest_begin(&r, 7, 5000000);
    assert_true(!rest_over(&r, 7, 68000000) && rest_over(&r, 7, 69000000));
    rest_begin(&r, 7, 5000000 + REST_FORGET_MS * 1000ull);      /* that is long ago */
    assert_int_equal(r.ms, REST_FIRST_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_answers_is_asked),
        cmocka_unit_test(who_is_silent_delays_little),
        cmocka_unit_test(who_comes_anew_is_asked_soon),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
