/*
 * test_unlogged.c - containers that differ in durability: durable, lazy, volatile, to be rebuilt.
 *
 * Method: random lives (life.h) in which each container has one of them, cut everywhere; and single
 * cases: what an orderly end keeps, what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "crew.h"
#include "life.h"
#include "stage.h"

#define STEPS 40u

enum { STATES, SECOND };

/* ---- lives */

static void life_survives(uint64_t seed)
{
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 2,
                                         .third_odds = 200, .second_steps = 3, .random_subsets = 3,
                                         .rot_flips = 8, .states_max = crew_long() ? 12000 : 3000,
                                         .second_odds = seed % 2 ? 40 : 200, .sector_bytes = 512 };
    struct enumerate_result result = { .states = 0 };
    crew_at("life", seed);
    life_run(LIFE_FORMS + seed, STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
}

/* Aim (UL1, UL2): what is logged survives every crash state, and nothing else is ever there. */
static void lives_of_each_durability_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(24);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_of_each_durability_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
