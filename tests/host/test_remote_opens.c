/*
 * test_remote_opens.c - what is open at a home for a site (user/sites/remote_store.c).
 *
 * Aim     a container that a program of the site has open is open at its home (RS1); when nobody
 *         has it, it is closed there, once; also when no request more can be asked at the moment.
 *         A part of a snapshot ends if who asked for it hears no answer.
 * Method  programs open, close and die in random steps, between two queues: requests, which the
 *         home carries out in order, and its answers. So any of them cross.
 */
#define KATYDID_CALL_H                  /* the kernel is here */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/abi.h"

static long kd_call3(long number, long a, long b, long c);
#include "user/sites/remote_store.c"
#include <cmocka.h>

enum { PROGRAMS = 4, QUEUE = 128, STEPS = 4000, THE_ONE = 7, OTHER = 1 << 30 };
#define BASE wire_zone_base(remote.zone)

struct remote remote = {.zone = WIRE_ZONE_SMALL};
static unsigned run;
#include "any.h"

static struct { enum { NONE, ASKS, HAS } is; uint64_t process, token; } program[PROGRAMS];
static struct { struct site_message m[QUEUE]; unsigned first, count; } to_home, to_site;
static bool open_at_home;
static unsigned objects, closed, crossed, full;
static uint64_t last;                   /* of processes, and tokens */

#define PUSH(q, x) ((q).m[((q).first + (q).count++) % QUEUE] = (x))

static long kd_call3(long number, long a, long b, long c)
{
    (void)c;
    switch (number) {
    case KD_OBJECT_CREATE: objects++; return 3;
    case KD_OBJECT_DESTROY: objects--; return 0;
    case KD_SPACE_ATTACH:
        for (int i = 0; i < PROGRAMS; i++)
            if (program[i].process == (uint64_t)a) return 0;
        return -ESRCH;
    case KD_PORT_REPLY:
        if (a == OTHER) return full += ((const struct kd_message *)b)->status == -EAGAIN, 0;
        for (int i = 0; i < PROGRAMS; i++) {
            if (program[i].is != ASKS || program[i].token != (uint64_t)a) continue;
            int status = ((const struct kd_message *)b)->status;
            assert_true(!status || status == -EAGAIN);
            program[i].is = status ? NONE : HAS;
            return 0;
        }
        return -ESRCH;
    default: return 0;
    }
}

void remote_lock(void) {}
void remote_unlock(void) {}
_Noreturn void remote_ends(const char *why) { fail_msg("%s", why); abort(); }
void remote_send(const struct site_message *m)
{
    assert_true(to_home.count < QUEUE);
    PUSH(to_home, *m);
}

/* ---- what is not opened or closed ---- */

void pages_closed(const struct container *c) { assert_int_equal(c->id, THE_ONE); }
int watch_asked(struct kd_message *m) { (void)m; return 0; }
void watch_told(uint64_t number) { (void)number; }
void watches_end(uint64_t process) { (void)process; }
int split_asked(const struct kd_message *m) { (void)m; return 0; }
int split_opened(uint64_t process, uint64_t number) { (void)process, (void)number; return 0; }
void split_close(uint64_t number) { (void)number; }
void split_client_gone(uint64_t process) { (void)process; }
void splits_end(void) {}
void parts_named(int error, const uint64_t word[2]) { (void)error, (void)word; }
int snapshot_asked(const struct kd_message *m) { (void)m; return 0; }
static struct { unsigned begun, there; uint64_t dropped; } parts;
int snapshot_part(struct kd_message *m)
{
    if (m->kind == REMOTE_SNAP) m->word[0] = ++parts.begun;
    parts.there += m->kind == REMOTE_SNAP;
    if (m->kind != REMOTE_DROP) return 0;
    parts.dropped = m->word[0];
    parts.there--;
    return 0;
}
void snapshots_counted(uint64_t word[SITE_WORDS]) { (void)word; }

/* ---- the home, and the programs ---- */

static void home_step(void)
{
    static const struct wire_opened opened = {.container = THE_ONE};
    const struct site_message m = to_home.m[to_home.first];
    struct site_message told = {.kind = SITE_TOLD, .answer_to = m.number};
    to_home.first = (to_home.first + 1) % QUEUE;
    to_home.count--;
    if (m.request == STORE_OPEN) {
        open_at_home = true;
        told.data = &opened;
        told.bytes = sizeof opened;
        told.count = 1;
        told.segment[0] = (struct site_segment){THE_ONE, BASE, 16};
    } else if (m.request == STORE_CLOSE) {
        assert_int_equal(m.word[0], THE_ONE);
        assert_true(open_at_home);
        open_at_home = false;
        closed++;
    }
    PUSH(to_site, told);
}

static void site_step(void)
{
    const struct site_message told = to_site.m[to_site.first];
    to_site.first = (to_site.first + 1) % QUEUE;
    to_site.count--;
    store_told(&told);
}

static void opens(int i)
{
    struct wire_open open = {.flags = 1 << 2};
    program[i].is = ASKS;
    program[i].process = ++last;
    program[i].token = ++last;
    store_asked(&(struct kd_message){.kind = STORE_OPEN, .token = program[i].token,
                                     .process = program[i].process, .buffer = &open,
                                     .buffer_bytes = sizeof open, .handle = -1});
}

static void asks_much(void)
{
    for (int i = 0; i < REQUESTS_MAX; i++)
        store_asked(&(struct kd_message){.kind = STORE_FLUSH, .token = OTHER, .handle = -1});
}

/* It closes, or it dies, at any time, and then another one comes. */
static void ends(int i)
{
    uint64_t process = program[i].process;
    bool closes = program[i].is == HAS && any(2);
    for (int k = 0; k < PROGRAMS; k++) crossed += program[k].is == ASKS;
    program[i].is = NONE;
    if (closes)
        store_asked(&(struct kd_message){.kind = STORE_CLOSE, .process = process, .handle = -1,
                                         .word = {THE_ONE}});
    program[i].process = 0;
    store_client_gone(process);
}

static void step(bool begins)
{
    int i = (int)any(PROGRAMS);
    unsigned speed = 1 + (unsigned)(run % 4), what = any(2 * speed + 1);
    if (begins && !any(300)) asks_much();
    if (what < speed) {
        if (to_home.count) home_step();
    } else if (what < 2 * speed) {
        if (to_site.count) site_step();
    } else if (program[i].is == NONE && begins) {
        opens(i);
    } else if (program[i].is != NONE && !(begins && any(4))) {
        ends(i);
    }
    for (i = 0; i < PROGRAMS; i++) assert_true(program[i].is != HAS || open_at_home);
}

static void it_is_open_at_home_while_somebody_has_it(void **state)
{
    (void)state;
    for (run = 1; run <= 100; run++) {
        seed = run;
        for (int i = 0; i < STEPS; i++) step(i / 40 % 2);
        for (int i = 0; i < STEPS; i++) step(false);
        assert_true(!to_home.count && !to_site.count && !open_at_home && !objects);
        for (int i = 0; i < CONTAINERS_MAX; i++) assert_int_equal(remote.containers[i].id, 0);
        for (int i = 0; i < OPENINGS_MAX; i++) assert_int_equal(remote.openings[i].times, 0);
    }
    print_message("# closed %u times; %u ends while another one opened; %u requests too many\n",
                  closed, crossed, full);
    assert_true(closed > 2000 && crossed > 2000 && full > 1000);
}

/* Who leads a snapshot, and has the part's name, ends it; nobody else would. */
static void a_part_whose_name_nobody_hears_ends(void **state)
{
    (void)state;
    struct kd_message m = {.kind = REMOTE_SNAP, .process = 1, .handle = -1};
    program[0].is = ASKS;
    m.token = program[0].token = ++last;
    store_asked(&m);
    assert_true(program[0].is == HAS && parts.begun == 1 && parts.there == 1);
    m.token = ++last;                   /* its time is up */
    store_asked(&m);
    assert_true(parts.begun == 2 && parts.there == 1 && parts.dropped == 2);
    program[0].is = NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_whose_name_nobody_hears_ends),
        cmocka_unit_test(it_is_open_at_home_while_somebody_has_it),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
