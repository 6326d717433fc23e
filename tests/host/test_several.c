/*
 * test_several.c - snapshots of several homes at the site that leads them
 * (user/sites/remote_several.c).
 *
 * Aim     a point that a program gets is one moment of all homes: each stood still from its own
 *         snapshot until behind that moment, and was told its number (SV8); homes that commit all
 *         the time are to hold, and all are ready at once within the rounds that there are (SV9);
 *         of what is refused, or seen by nobody any more, no part and no handle is left, though a
 *         home hears of it late; a request that is none is refused.
 * Method  the file itself between homes that commit, hold, rest, are away and silent, in random
 *         steps before each call; time passes with calls and sleeps.
 */
#define KATYDID_CALL_H                  /* the kernel is here */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "katydid/abi.h"

static long kd_call3(long number, long a, long b, long c);
static int sleeps(const struct timespec *t);
#define nanosleep(time, left) sleeps(time)
#include "user/sites/remote_several.c"
#undef nanosleep
#include <cmocka.h>

enum { HOMES = 3, PARTS = 64, HANDLES = 16, PROCESS = 7, HOLD_MS = 250, REST_TIMES = 4 };

static struct {
    uint64_t us, numbers, names;
    struct { uint64_t event, moment, held_us, rest_us; bool held, unused, away; unsigned deaf; }
        home[HOMES];                    /* deaf: so many drops are not received */
    struct { uint64_t name, event; int home; bool begun, asked, stood; } part[PARTS];
    struct { bool there; unsigned users; uint64_t at; } handle[HANDLES];
    bool busy, told;                    /* busy: all homes commit all the time */
    struct kd_message reply;
    uint64_t given, again, dropped;
} w;
#include "any.h"

void remote_lock(void) {}
void remote_unlock(void) {}

/* ---- the homes ---- */

static void let_go(int h)
{
    if (!w.home[h].held) return;
    w.home[h].held = false;
    w.home[h].rest_us = w.us + REST_TIMES * (w.us - w.home[h].held_us);
}

static void time_passes(uint64_t us)
{
    w.us += us;
    for (int h = 0; h < HOMES; h++) {
        if (w.home[h].held && w.us - w.home[h].held_us >= HOLD_MS * 1000) let_go(h);
        if (!w.home[h].held && (w.busy || any(20) == 0)) w.home[h].event++;
    }
}

static int sleeps(const struct timespec *t)
{
    for (uint64_t us = (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_nsec / 1000; us > 0;) {
        uint64_t n = us < 1000 ? us : 1000;
        time_passes(n);
        us -= n;
    }
    return 0;
}

static int part_of(uint64_t name)
{
    int i = 0;
    while (i < PARTS && (!name || w.part[i].name != name)) i++;
    return i;
}

static int home_snap(int h, struct kd_message *m)
{
    int i = 0;
    assert_int_equal(m->word[0], PROCESS);
    if (w.home[h].unused) return -EACCES;
    while (w.part[i].name) i++;
    w.part[i].name = m->word[0] = ++w.names;
    w.part[i].home = h;
    w.part[i].begun = w.part[i].asked = false;
    w.part[i].stood = true;
    if (m->word[1] && w.us < w.home[h].rest_us) w.part[i].stood = false;
    if (!m->word[1] || !w.part[i].stood || w.home[h].held) return 0;
    w.home[h].held = true;
    w.home[h].held_us = w.us;
    return 0;
}

static int home_does(int h, struct kd_message *m)
{
    if (m->kind == REMOTE_SNAP) return home_snap(h, m);
    int i = part_of(m->word[0]);
    assert_true(i < PARTS && w.part[i].home == h);
    if (m->kind == REMOTE_DROP) {
        let_go(h);
        w.part[i].name = 0;
        w.dropped++;
    } else if (m->kind == REMOTE_STILL) {
        assert_true(w.part[i].begun);
        assert_int_equal(m->word[1], w.numbers); /* the point's */
        w.part[i].stood = w.home[h].event == w.part[i].event;
        w.part[i].asked = true;
        let_go(h);
    } else {
        assert_int_equal(m->kind, REMOTE_WAIT);
        if (!w.part[i].begun) w.part[i].event = w.home[h].event;
        w.part[i].begun = true;
        return w.part[i].stood ? 0 : -EAGAIN;
    }
    return 0;
}

/* ---- the kernel ---- */

int snapshot_point(uint64_t *at)
{
    int n = 1;
    if (!any(8)) return -ETIMEDOUT;     /* something is in doubt in a store here */
    while (w.handle[n].there) n++;
    assert_true(n < HANDLES);
    for (int h = 0; h < HOMES; h++) w.home[h].moment = w.home[h].event;
    w.handle[n].there = true;
    w.handle[n].at = *at = ++w.numbers;
    return n;
}

static long kd_call3(long number, long a, long b, long c)
{
    struct kd_message *m = (void *)b;
    int h = (int)a - 100;
    switch (number) {
    case KD_NAME_FIND:
        h = *(const char *)a - 'a';
        return h < 0 || h >= HOMES || w.home[h].away ? -ENOENT : 100 + h;
    case KD_PORT_CALL_UNTIL:
        assert_true(c > 0 && m->data_bytes == STORE_NAME_BYTES && !strcmp(m->data, own));
        time_passes(any(w.busy ? 300 : 3000));
        if (m->kind == REMOTE_DROP && w.home[h].deaf && w.home[h].deaf--) return -ETIMEDOUT;
        m->status = home_does(h, m);
        return 0;
    case KD_PORT_REPLY:
        assert_false(w.told);
        w.told = true;
        w.reply = *m;
        if (m->status == 0) w.handle[m->handle].users++;
        return 0;
    case KD_SNAPSHOT_SHARE: return w.handle[a - 1].users > 0;
    case KD_HANDLE_CLOSE:
        if (h >= 0) return 0;
        assert_true(w.handle[a].there);
        w.handle[a].there = false;
        return 0;
    default: fail_msg("call %ld", number); return -ENOSYS;
    }
}

/* ---- programs ---- */

static int asks(const char *others, size_t bytes)
{
    struct kd_message m = {.token = 1, .process = PROCESS, .buffer = (void *)(uintptr_t)others,
                           .buffer_bytes = bytes};
    return several_asked(&m);
}

static void begin_world(uint64_t run)
{
    memset(&w, 0, sizeof w);
    memset(points, 0, sizeof points);
    first_job = job_count = late_count = 0;
    strcpy(own, "a/store");
    w.us = 1000000;
    seed = run;
}

static int leads(void)
{
    static const char others[] = "b/store\0c/store";
    assert_int_equal(asks(others, sizeof others), 1);
    w.told = false;
    begin(&jobs[first_job]);
    first_job = (first_job + 1) % JOBS_MAX;
    job_count--;
    assert_true(w.told);
    return w.reply.status;
}

/* SV8, of the program's point. */
static void one_moment(void)
{
    unsigned there[HOMES] = {0};
    for (int i = 0; i < PARTS; i++) {
        if (!w.part[i].name || !w.part[i].asked) continue;
        there[w.part[i].home]++;
    }
    for (const struct part *p = points[0].part; p < points[0].part + points[0].count; p++) {
        int i = part_of(p->name), h = p->store[0] - 'a';
        assert_true(w.home[h].unused ? !p->name : i < PARTS && w.part[i].asked);
        if (i < PARTS) assert_int_equal(w.part[i].event, w.home[h].moment);
        assert_int_equal(there[h], !w.home[h].unused);
    }
    assert_int_equal(w.handle[w.reply.handle].at, w.numbers);
}

static void nothing_left(void)
{
    assert_int_equal(look(), 0);
    for (int i = 0; i < PARTS; i++) assert_int_equal(w.part[i].name, 0);
    for (int i = 0; i < HANDLES; i++) assert_false(w.handle[i].there);
    for (int h = 0; h < HOMES; h++) assert_false(w.home[h].held);
}

static void ends(void)
{
    if (!w.reply.status) assert_int_equal(look(), 1);
    if (!w.reply.status) w.handle[w.reply.handle].users--;
    nothing_left();
}

static void a_point_is_one_moment(void **state)
{
    uint64_t given = 0, refused_some = 0, tries = 0;
    (void)state;
    for (uint64_t run = 1; run <= 3000; run++) {
        unsigned before = rounds;
        begin_world(run);
        for (int h = 1; h < HOMES; h++) w.home[h].unused = !any(4);
        w.home[1 + any(HOMES - 1)].away = !any(8);
        int status = leads();
        assert_true(status == 0 || status == -EAGAIN);
        if (status == 0) one_moment();
        given += status == 0;
        refused_some += status != 0;
        tries += rounds - before;
        ends();
    }
    print_message("# %lu given, %lu refused, %lu rounds\n", (unsigned long)given,
                  (unsigned long)refused_some, (unsigned long)tries);
    assert_true(given > 1000 && refused_some > 100 && tries > given + given / 4);
}

/* SV9, also when they have held for somebody else a while ago. */
static void homes_that_never_stand_still_hold(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 500; run++) {
        begin_world(run);
        w.busy = true;
        for (int h = 0; h < HOMES; h++)
            w.home[h].rest_us = w.us + any(2) * any(REST_TIMES * HOLD_MS * 1000);
        assert_int_equal(leads(), 0);
        one_moment();
        ends();
    }
}

/* A home that does not hear a drop in time hears it later: of a round, and of a point. */
static void what_is_not_dropped_is_dropped_later(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 200; run++) {
        begin_world(run);
        w.busy = any(2);
        for (int i = 0; i < 2; i++) w.home[any(HOMES)].deaf = 1 + any(4);
        if (leads() == 0) w.handle[w.reply.handle].users--;
        for (int i = 0; i < 50 && look(); i++) {}
        nothing_left();
    }
}

static void what_is_no_request_is_refused(void **state)
{
    char many[HOMES_MAX * 4], full[] = "b/s";
    (void)state;
    begin_world(1);
    assert_int_equal(asks("b/s", 3), -EINVAL);  /* without its end */
    assert_int_equal(asks("bs", 3), -EINVAL);
    assert_int_equal(asks("", 1), -EINVAL);
    for (unsigned i = 0; i < HOMES_MAX; i++) memcpy(many + 4 * i, full, 4);
    assert_int_equal(asks(many, sizeof many), -EINVAL);
    for (int i = 0; i < JOBS_MAX; i++) assert_int_equal(asks(full, 4), 1);
    assert_int_equal(asks(full, 4), -EAGAIN);
}

/* Points that programs keep: so many, and one more is refused. */
static void bounded(void **state)
{
    (void)state;
    begin_world(5);
    for (int i = 0; i < POINTS_MAX; i++) assert_int_equal(leads(), 0);
    assert_int_equal(leads(), -EAGAIN);
    assert_int_equal(look(), POINTS_MAX);
    for (int i = 0; i < HANDLES; i++) w.handle[i].users = 0;
    nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_is_one_moment),
        cmocka_unit_test(homes_that_never_stand_still_hold),
        cmocka_unit_test(what_is_not_dropped_is_dropped_later),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(bounded),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
