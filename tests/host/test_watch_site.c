/*
 * test_watch_site.c - programs of a site that sleep until pages of a home change
 * (user/sites/remote_watch.c).
 *
 * Aim     each watch has a number of its own at the home, whichever program and key it is of; who
 *         may not read a page does not watch it; a watch ends with its wait, or with its program,
 *         also at the home, and a late answer to an earlier wait ends no later watch; what the home
 *         cannot be told has not happened; there are so many and no more.
 * Method  the file itself; the home is what it was told.
 */
#define KATYDID_CALL_H                  /* no kernel is needed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/abi.h"

#include "user/sites/remote_watch.c"
#include <cmocka.h>

#define BASE 0x200000000000ull
enum { PROGRAM = 7, OTHER = 8, STRANGER = 9 };
struct remote remote;
static struct kd_message said;          /* to the home, last */
static unsigned count;
static bool full;

int store_pass(const struct kd_message *m)
{
    if (full) return -EAGAIN;
    said = *m;
    count++;
    remote.number++;
    return 1;
}
struct container *container_at(uint64_t address, struct segment **segment)
{
    *segment = remote.containers[0].segment;
    return address - BASE < 16 * KD_PAGE_BYTES ? remote.containers : NULL;
}
struct opening *opening_of(uint64_t process, const struct container *c)
{
    return c == remote.containers && process != STRANGER ? remote.openings : NULL;
}

static int watch(uint64_t process, uint64_t key, bool more, uint64_t address)
{
    struct kd_message m = {.kind = STORE_WATCH, .process = process, .word = {key, more},
                           .buffer = &address, .buffer_bytes = address ? sizeof address : 0};
    return watch_asked(&m);
}

static int wait_for(uint64_t process, uint64_t key)
{
    struct kd_message m = {.kind = STORE_WAIT, .process = process, .word = {key}};
    return watch_asked(&m);
}

static void clean(void **state)
{
    (void)state;
    memset(watches, 0, sizeof watches);
    memset(&remote, 0, sizeof remote);
    full = false;
    count = 0;
}

static void numbers(void **state)
{
    clean(state);
    assert_int_equal(watch(PROGRAM, 5, false, BASE), 1);
    uint64_t first = said.word[0];
    assert_int_equal(watch(OTHER, 5, false, BASE), 1);
    uint64_t second = said.word[0];
    assert_true(first && second && first != second);
    assert_int_equal(watch(PROGRAM, 5, true, BASE + KD_PAGE_BYTES), 1);
    assert_true(said.word[0] == first && said.word[1] == 1 && said.kind == STORE_WATCH);
    assert_int_equal(wait_for(OTHER, 5), 1);
    assert_true(said.word[0] == second && said.kind == STORE_WAIT);
    assert_int_equal(wait_for(OTHER, 5), -ENOENT); /* it waits already */
    assert_int_equal(wait_for(PROGRAM, 6), -ENOENT);
    assert_int_equal(watch(PROGRAM, 6, false, 0), 0); /* no watch any more: there was none */
}

static void rights(void **state)
{
    clean(state);
    assert_int_equal(watch(STRANGER, 1, false, BASE), -EACCES);
    assert_int_equal(watch(PROGRAM, 1, false, BASE + 16 * KD_PAGE_BYTES), -EACCES);
    assert_int_equal(count, 0);
    uint64_t address = BASE;
    struct kd_message m = {.kind = STORE_WATCH, .process = PROGRAM, .word = {1}, .buffer = &address,
                           .buffer_bytes = 7};
    assert_int_equal(watch_asked(&m), -EINVAL);
}

static void ends(void **state)
{
    clean(state);
    assert_int_equal(watch(PROGRAM, 1, false, BASE), 1);
    assert_int_equal(wait_for(PROGRAM, 1), 1);
    uint64_t earlier = remote.number;
    assert_int_equal(watch(PROGRAM, 1, false, BASE), 1); /* its time was up: another one */
    watch_told(earlier);
    assert_int_equal(wait_for(PROGRAM, 1), 1);
    watch_told(remote.number);
    assert_int_equal(wait_for(PROGRAM, 1), -ENOENT);
    assert_int_equal(watch(PROGRAM, 2, false, BASE), 1);
    uint64_t number = said.word[0];
    assert_int_equal(watch(OTHER, 2, false, BASE), 1);
    count = 0;
    watches_end(PROGRAM);
    assert_true(count == 1 && said.kind == STORE_WATCH && said.word[0] == number &&
                said.word[1] == 0 && said.buffer_bytes == 0);
    assert_int_equal(wait_for(PROGRAM, 2), -ENOENT);
    assert_int_equal(wait_for(OTHER, 2), 1);
}

/* What the home was not told is as it was: whoever waits there is woken by the next try. */
static void what_cannot_be_said_has_not_happened(void **state)
{
    clean(state);
    assert_int_equal(watch(PROGRAM, 1, false, BASE), 1);
    uint64_t number = said.word[0];
    assert_int_equal(wait_for(PROGRAM, 1), 1);
    full = true;
    assert_int_equal(watch(PROGRAM, 1, false, 0), -EAGAIN);
    assert_int_equal(watch(OTHER, 1, false, BASE), -EAGAIN);
    full = false;
    count = 0;
    assert_int_equal(watch(PROGRAM, 1, false, 0), 1);
    assert_true(count == 1 && said.word[0] == number && said.buffer_bytes == 0);
    assert_int_equal(watch(PROGRAM, 1, false, 0), 0);
    assert_int_equal(watch(OTHER, 1, false, 0), 0);     /* it has none */
}

static void bounded(void **state)
{
    clean(state);
    for (uint64_t i = 0; i < WATCHES_MAX; i++)
        assert_int_equal(watch(PROGRAM, i, false, BASE), 1);
    assert_int_equal(watch(OTHER, 0, false, BASE), -EDQUOT);
    full = true; /* too many requests wait for the home: nothing of it stays */
    watches_end(PROGRAM);
    full = false;
    for (uint64_t i = 0; i < WATCHES_MAX; i++)
        assert_int_equal(watch(OTHER, i, false, BASE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(rights),
        cmocka_unit_test(ends),
        cmocka_unit_test(what_cannot_be_said_has_not_happened),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
