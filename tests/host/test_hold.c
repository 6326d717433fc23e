/*
 * test_hold.c - commits that stand still for a moment (user/store/hold.c).
 *
 * Aim     from the first 0 that a holder is told until its end says 0, nothing is published; plain
 *         commits go on in the order in which they came, each once, those that were put aside and
 *         those that come behind them; commits with a part elsewhere are refused, and told so;
 *         commits have four fifths of the time, however many want to hold; memory for what is put
 *         aside has a bound.
 * Method  the file itself between a committer, voters and a clock of random steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/store/hold.c"

enum { VOTERS = 3, COMMITS = 4096, QUEUE = 64 };
static struct {
    uint64_t us, token, last;           /* last: the plain commit that went on last */
    struct { uint64_t token; unsigned part, op; } queue[QUEUE];
    unsigned queued, prepared, group, aside_most;
    bool flying;
    struct { uint64_t number; bool told; } holder[VOTERS];
    uint64_t published, put_aside, refused, told, stood, broken, held_us;
    bool over[COMMITS];
} w;
struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER};
#include "any.h"

static uint64_t clock_us(void *unused) { return (void)unused, w.us; }
const struct disk_clock disk_clock = {.microseconds = clock_us};
bool group_flying(void) { return w.flying; }
bool may_vote(uint64_t process) { return process == 7; }
void vote_told(const struct store_txn_id *id, int status)
{
    (void)id;
    assert_int_equal(status, -EDEADLK);
    w.told++;
}
int store_doubt_next(const struct store *s, uint64_t *cursor, struct store_doubt *d)
{
    (void)s;
    if (*cursor >= w.prepared) return -ENOENT;
    *d = (struct store_doubt){.prepared = true};
    ++*cursor;
    return 0;
}

static void ends(uint64_t token)
{
    assert_true(token < COMMITS && !w.over[token]);
    w.over[token] = true;
}

long kd_system(long number, long a, long b, long c, long d)
{
    (void)a, (void)d;
    if (number == KD_PORT_NOTIFY) return 0;
    assert_int_equal(number, KD_TXN_REFUSE);
    assert_true(c == EDEADLK || c == EALREADY);
    ends((uint64_t)b);
    w.refused++;
    return 0;
}
long kd_system5(long n, long a, long b, long c, long d, long e)
{
    return (void)e, kd_system(n, a, b, c, d);
}

/* ---- the committer ---- */

static void publishes(void)
{
    for (int i = 0; i < VOTERS; i++) { /* none of them would hear now that nothing was */
        if (!w.holder[i].told) continue;
        assert_false(hold.on && hold.number == w.holder[i].number &&
                     w.us - hold.since_us < HOLD_US);
        w.holder[i].told = false;
    }
    w.published++;
}

static uint8_t batch[4096];
static void receives(void)
{
    struct kd_message m = {.buffer = batch};
    if (!w.group) (void)hold_idle(any(2) ? -1 : 5);
    bool aside = hold_next(&m);
    if (aside) {
        w.put_aside++;
    } else if (w.queued) {
        struct wire_op op = {.kind = (uint16_t)w.queue[0].op, .op_bytes = sizeof op};
        m = (struct kd_message){.buffer = batch, .token = w.queue[0].token, .process = 7,
                                .data_bytes = sizeof batch,
                                .word = {0, 1, 0, (uint64_t)w.queue[0].part << KD_PART_SHIFT}};
        memcpy(batch, &op, sizeof op);
        memmove(w.queue, w.queue + 1, --w.queued * sizeof w.queue[0]);
    } else {
        return;
    }
    if (!aside && hold_takes(&m)) return;
    const struct wire_op *op = m.buffer;
    unsigned part = (unsigned)(m.word[3] >> KD_PART_SHIFT);
    if (part == KD_PART_ALL && op->kind == 0) {
        assert_true(m.token > w.last); /* in their order */
        w.last = m.token;
    } else {
        assert_false(aside);
    }
    if (part == KD_PART_VOTE || op->kind == WIRE_VOTE) {
        ends(m.token);
        w.prepared++;
        return;
    }
    ends(m.token);
    w.group++;
}

static void lands(void)
{
    if (w.flying) {
        publishes();
        w.flying = false;
    } else if (w.group) {
        w.group = 0;
        w.flying = true;
    }
}

/* ---- what happens ---- */

static void holder(unsigned i)
{
    uint64_t number = 0;
    if (w.holder[i].number && w.holder[i].told && any(3) == 0) {
        uint64_t now = hold.on ? hold.number : 0;
        int r = hold_end(i, w.holder[i].number);
        assert_true(r || now == w.holder[i].number);
        w.stood += r == 0;
        w.broken += r != 0;
        assert_true(r == 0 || r == -ESTALE);
        w.holder[i].number = 0;
        w.holder[i].told = false;
        return;
    }
    int r = hold_begin(i, &number);
    if (w.holder[i].number && w.holder[i].told && number != w.holder[i].number)
        w.holder[i].told = false;
    if (number) w.holder[i].number = number;
    if (r == 0) {
        assert_true(!w.group && !w.flying && !w.prepared);
        w.holder[i].told = true;
    }
}

/* One whose pages were shown meanwhile must not hear that nothing was. */
static void holder_late(unsigned i)
{
    uint64_t number = w.holder[i].number ? w.holder[i].number - any(2) : 0;
    if (!number || (w.holder[i].told && number == w.holder[i].number)) return;
    bool same = hold.on && hold.number == number;
    int r = hold_end(i, number);
    assert_true(r == -ESTALE || same);
    if (number == w.holder[i].number) w.holder[i].number = 0;
}

static void step(void)
{
    bool on = hold.on;
    uint64_t before = w.us;
    switch (any(8)) {
    case 0: case 1: receives(); break;
    case 2: lands(); break;
    case 3: holder(any(VOTERS)); break;
    case 4:
        if (w.queued == QUEUE || w.token + 1 >= COMMITS) break;
        w.queue[w.queued].token = ++w.token;
        w.queue[w.queued].part = any(4) ? KD_PART_ALL : any(2) ? KD_PART_VOTE : KD_PART_DECIDE;
        w.queue[w.queued].op = any(4) ? 0 : any(2) ? WIRE_VOTE : WIRE_DECISION;
        if (w.queue[w.queued].part != KD_PART_ALL) w.queue[w.queued].op = 0;
        w.queued++;
        break;
    case 5:
        if (w.prepared && any(2)) w.prepared--, publishes();
        break;
    case 6: w.us += any(20) ? any(2000) : any(300000); break;
    case 7: if (!any(10)) holder_late(any(VOTERS)); break;
    }
    uint64_t spent = w.us - before, left = on ? HOLD_US - (before - hold.since_us) : 0;
    if (on) w.held_us += spent < left ? spent : left;
}

static void begin_world(uint64_t run)
{
    memset(&w, 0, sizeof w);
    memset(&hold, 0, sizeof hold);
    w.us = 1000000;
    seed = run;
}

static void end_world(void)
{
    w.us += 10 * HOLD_US;
    hold_look();
    w.prepared = 0;
    while (w.queued || first || w.group || w.flying) {
        receives();
        lands();
    }
    for (uint64_t t = 1; t <= w.token; t++) assert_true(w.over[t]); /* each has ended */
    assert_true(aside_bytes == 0 && !first && last == &first);
}

static void random_steps(void **state)
{
    uint64_t sums[6] = {0};
    (void)state;
    for (uint64_t run = 1; run <= 3000; run++) {
        begin_world(run);
        for (int i = 0; i < 1000; i++) step();
        end_world();
        const uint64_t of[] = {w.published, w.put_aside, w.refused, w.stood, w.broken, w.told};
        for (int i = 0; i < 6; i++) sums[i] += of[i];
    }
    print_message("%lu published, %lu put aside, %lu refused, %lu stood, %lu did not, %lu told\n",
                  (unsigned long)sums[0], (unsigned long)sums[1], (unsigned long)sums[2],
                  (unsigned long)sums[3], (unsigned long)sums[4], (unsigned long)sums[5]);
    for (int i = 0; i < 6; i++) assert_true(sums[i] > 300);
}

/* Voters that hold whenever they may, and never end it: commits have four fifths of the time. */
static void rests(void **state)
{
    uint64_t number, held = 0, all = 0;
    (void)state;
    begin_world(1);
    for (int i = 0; i < 20000; i++) {
        (void)hold_begin((unsigned)i % VOTERS, &number);
        held += hold.on ? 1000 : 0;
        all += 1000;
        w.us += 1000;
    }
    print_message("held %lu of %lu ms\n", (unsigned long)held / 1000, (unsigned long)all / 1000);
    assert_true(held > all / 8 && held <= all / 5 + HOLD_US);
    end_world();
}

/* What does not fit is refused, and runs again. */
static void bounded(void **state)
{
    uint64_t number;
    (void)state;
    begin_world(1);
    (void)hold_begin(0, &number);
    while (w.token + 1 < COMMITS) {
        w.queue[w.queued++].token = ++w.token;
        w.queue[0].part = KD_PART_ALL;
        w.queue[0].op = 0;
        receives();
    }
    assert_true(aside_bytes <= ASIDE_BYTES && aside_bytes > ASIDE_BYTES / 2);
    assert_true(w.refused > 1000 && w.refused + ASIDE_BYTES / sizeof batch + 1 >= w.token);
    end_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps),
        cmocka_unit_test(rests),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
