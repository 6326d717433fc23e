/*
 * test_splits.c - clients at a site of servers at a home (user/sites/remote_split.c).
 *
 * Aim     a program speaks for its own clients alone; each client that the home has begun is known
 *         here, or the home is told that it ends: also if there is no place for it, or its process
 *         has ended.
 * Method  the file itself, with random openings, calls, closes and deaths, against a list of what
 *         is open.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "katydid/abi.h"
#include "user/sites/remote_split.c"
#include <cmocka.h>

enum { NUMBERS = 2000, PROCESSES = 5 };
static uint64_t owner[NUMBERS + 1];     /* of a number that is open; 0: it is not */
static bool ended[NUMBERS + 1];         /* the home was told so */
static uint64_t last, seed = 1;

static uint64_t any(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static bool full;                       /* no request is free */

bool store_tell(uint32_t request, uint64_t word)
{
    assert_int_equal(request, SPLIT_CLOSE);
    assert_true(word && word <= last && !ended[word]);
    ended[word] = !full;
    return !full;
}

static int open_count(void)
{
    int n = 0;
    for (uint64_t i = 1; i <= last; i++) n += owner[i] != 0;
    return n;
}

/* How many clients the home has: it has no place for more than it may have here, and one. */
static int at_home(void)
{
    int n = 0;
    for (uint64_t i = 1; i <= last; i++) n += !ended[i];
    return n;
}

/* When requests are free again the home is told of all that have ended. */
static void all_end(void)
{
    full = false;
    splits_end();
    for (uint64_t n = 1; n <= last; n++) assert_int_equal(ended[n], owner[n] == 0);
}

static void opens(uint64_t process)
{
    int before = open_count(), error = split_opened(process, ++last);
    assert_int_equal(error, before == SPLITS_MAX ? -EMFILE : 0);
    assert_int_equal(ended[last], error != 0 && !full);
    owner[last] = error ? 0 : process;
}

static int says(uint32_t kind, uint64_t number, uint64_t process, uint64_t bytes)
{
    return split_asked(&(struct kd_message){.kind = kind, .word = {number}, .process = process,
                                            .buffer_bytes = bytes});
}

/* Nobody waits for its answer any more. */
static void in_vain(void)
{
    opens(1);
    assert_int_equal(owner[last], 1);
    split_close(last);
    assert_true(ended[last]);
    assert_int_equal(says(SPLIT_CALL, last, 1, 0), -EACCES);
    owner[last] = 0;
}

static void walk(void **state)
{
    (void)state;
    in_vain();
    for (int i = 0; i < 100000; i++) {
        uint64_t process = 1 + any(PROCESSES), number = last - any(last < 40 ? last : 40);
        bool mine = number && owner[number] == process;
        uint64_t which = any(20);
        if (!any(10)) full = any(2);
        if (!any(10)) all_end();
        if (which < 2 && last < NUMBERS && at_home() <= SPLITS_MAX) {
            opens(process);
        } else if (which == 2) {
            assert_int_equal(says(SPLIT_CLOSE, number, process, 0), mine ? 0 : -EACCES);
            if (mine) owner[number] = 0;
            if (mine) assert_int_equal(ended[number], !full);
        } else if (which == 3 && !any(8)) {
            split_client_gone(process);
            for (uint64_t n = 1; n <= last; n++)
                if (owner[n] == process) {
                    assert_int_equal(ended[n], !full);
                    owner[n] = 0;
                }
        } else {
            uint64_t bytes = any(2) ? SPLIT_DATA_MAX : SPLIT_DATA_MAX + 1;
            assert_int_equal(says(SPLIT_CALL, number, process, bytes),
                             !mine ? -EACCES : bytes > SPLIT_DATA_MAX ? -E2BIG : 0);
        }
        for (uint64_t n = 1; n <= last; n++) assert_false(owner[n] && ended[n]);
    }
    all_end();
    assert_int_equal(says(SPLIT_OPEN, 0, 1, 0), -EINVAL);
    assert_int_equal(says(SPLIT_CALL, 0, 1, 0), -EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
