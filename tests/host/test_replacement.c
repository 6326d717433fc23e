/*
 * test_replacement.c - the replacement policies of user/managers/replacement.
 *
 * Aim     each policy sends out the page that its definition says, at each miss of random traces
 *         and of Cricket's and OO1's; none ever beats the least possible number of misses; LRU-2
 *         and ARC keep what is used often while a scan passes, where LRU and FIFO lose it.
 * Method  the definitions once more, on plain arrays that are searched from end to end.
 *         `test_replacement curves` prints what make bench draws: pattern, policy, frames, ratio.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/bench/bench-managers/patterns.h"

enum { MOST = 2048 };

/* ---- the definitions ---- */

struct line { unsigned page[2 * MOST], count; };  /* the oldest first */

static int find(const struct line *l, unsigned page)
{
    for (unsigned i = 0; i < l->count; i++)
        if (l->page[i] == page)
            return (int)i;
    return -1;
}

static unsigned take_at(struct line *l, int i)
{
    unsigned page = l->page[i];
    memmove(&l->page[i], &l->page[i + 1], (--l->count - (unsigned)i) * sizeof page);
    return page;
}

static void put(struct line *l, unsigned page) { l->page[l->count++] = page; }

static struct line line, lines[4];
static unsigned used_bits[MOST], hand, when[MOST][2], now, size;
static double target;

static void model_start(unsigned frames)
{
    memset(lines, 0, sizeof lines);
    memset(used_bits, 0, sizeof used_bits);
    memset(when, 0, sizeof when);
    line.count = hand = now = 0;
    target = 0;
    size = frames;
}

static unsigned fifo_victim(unsigned coming) { return (void)coming, take_at(&line, 0); }
static void fifo_came(unsigned page) { put(&line, page); }
static void nothing(unsigned page) { (void)page; }

/* A ring of frames and a hand: a page comes into the frame of the one that went. */
static unsigned clock_victim(unsigned coming)
{
    (void)coming;
    for (; used_bits[line.page[hand]]; hand = (hand + 1) % size)
        used_bits[line.page[hand]] = 0;
    return line.page[hand];
}
static void clock_came(unsigned page)
{
    if (line.count < size) {
        put(&line, page);
        return;
    }
    line.page[hand] = page;
    hand = (hand + 1) % size;
}
static void clock_used(unsigned page) { used_bits[page] = 1; }

static void lru2_used(unsigned page)
{
    when[page][1] = when[page][0];
    when[page][0] = ++now;
}
static unsigned lru2_victim(unsigned coming)
{
    int worst = 0;
    (void)coming;
    for (int i = 0; i < (int)line.count; i++) {
        const unsigned *a = when[line.page[i]], *b = when[line.page[worst]];
        if (a[1] < b[1] || (a[1] == b[1] && a[0] < b[0]))
            worst = i;
    }
    return take_at(&line, worst);
}
static void lru2_came(unsigned page)
{
    lru2_used(page);
    put(&line, page);
}

/* The paper's Figure 4: lines are its four lists. */
enum { ONCE, AGAIN, ONCE_GONE, AGAIN_GONE };
static unsigned arc_replace(unsigned page)
{
    unsigned once = lines[ONCE].count;
    int back = find(&lines[AGAIN_GONE], page) >= 0;
    int first = once && ((back && once == (unsigned)target) || once > target);
    first |= lines[AGAIN].count == 0;
    unsigned gone = take_at(&lines[first ? ONCE : AGAIN], 0);
    put(&lines[first ? ONCE_GONE : AGAIN_GONE], gone);
    return gone;
}
static unsigned arc_victim(unsigned page)
{
    unsigned b1 = lines[ONCE_GONE].count, b2 = lines[AGAIN_GONE].count, l1 = lines[ONCE].count + b1;
    if (find(&lines[ONCE_GONE], page) >= 0) {
        unsigned more = b1 >= b2 ? 1 : b2 / b1;
        target = target + more < size ? target + more : size;
    } else if (find(&lines[AGAIN_GONE], page) >= 0) {
        unsigned fewer = b2 >= b1 ? 1 : b1 / b2;
        target = target > fewer ? target - fewer : 0;
    } else if (l1 == size) {
        if (lines[ONCE].count == size)
            return take_at(&lines[ONCE], 0);
        take_at(&lines[ONCE_GONE], 0);
    } else if (l1 + lines[AGAIN].count + b2 >= size && l1 + lines[AGAIN].count + b2 == 2 * size) {
        take_at(&lines[AGAIN_GONE], 0);
    }
    return arc_replace(page);
}
static void arc_came(unsigned page)
{
    int again = 0;
    for (int i = ONCE_GONE; i <= AGAIN_GONE; i++)
        if (find(&lines[i], page) >= 0) {
            take_at(&lines[i], find(&lines[i], page));
            again = 1;
        }
    put(&lines[again ? AGAIN : ONCE], page);
}
static void arc_used(unsigned page)
{
    int i = find(&lines[ONCE], page) >= 0 ? ONCE : AGAIN;
    take_at(&lines[i], find(&lines[i], page));
    put(&lines[AGAIN], page);
}

static const struct policy models[] = {
    {"fifo", NULL, fifo_victim, fifo_came, nothing},
    {"clock", NULL, clock_victim, clock_came, clock_used},
    {"lru2", NULL, lru2_victim, lru2_came, lru2_used},
    {"arc", NULL, arc_victim, arc_came, arc_used},
};

/* ---- policies beside them ---- */

static void compare(const struct policy *p, const struct policy *model, const struct trace *t,
                    unsigned frames)
{
    static char here[MOST];
    unsigned in_memory = 0;
    memset(here, 0, sizeof here);
    assert_int_equal(p->start(t->pages, frames), 0);
    model_start(frames);
    for (unsigned i = 0; i < t->count; i++) {
        unsigned page = t->page[i];
        if (here[page]) {
            p->used(page);
            model->used(page);
            continue;
        }
        if (in_memory == frames) {
            unsigned goes = p->victim(page), should = model->victim(page);
            if (goes != should || !here[goes])
                fail_msg("%s, %u frames, touch %u: page %u goes for %u, not %u", p->name, frames, i,
                         goes, page, should);
            here[goes] = 0;
        } else {
            in_memory++;
        }
        p->came(page);
        model->came(page);
        here[page] = 1;
    }
}

static void compare_all(const struct trace *t, unsigned frames)
{
    for (unsigned i = 0; policies()[i]; i++) {
        assert_string_equal(policies()[i]->name, models[i].name);
        compare(policies()[i], &models[i], t, frames);
        assert_true(misses_by(policies()[i], t, frames) >= misses_least(t, frames));
    }
    assert_true(misses_lru(t, frames) >= misses_least(t, frames));
}

static void random_traces(void **unused)
{
    enum { LENGTH = 3000 };
    static uint16_t pages[LENGTH];
    (void)unused;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct trace t = {.pages = 4 + seed * 2, .count = LENGTH, .page = pages};
        srand(seed);
        for (unsigned i = 0; i < LENGTH; i++) /* skewed: the lower half of the lower half ... */
            pages[i] = (uint16_t)((unsigned)rand() % (1 + (unsigned)rand() % t.pages));
        compare_all(&t, 1);
        compare_all(&t, 1 + (unsigned)rand() % t.pages);
        compare_all(&t, t.pages);
    }
}

static void patterns(void **unused)
{
    (void)unused;
    for (unsigned which = 0; which < PATTERNS; which++) {
        struct trace t = trace_make(which);
        assert_true(t.pages <= MOST);
        compare_all(&t, t.pages / 4);
        free(t.page);
    }
}

/* Ten pages in use, and a scan that passes: who remembers two uses keeps the ten. */
static void scans(void **unused)
{
    enum { HOT = 10, ROUNDS = 200, SCANNED = 12, FRAMES = 16 };
    static uint16_t pages[ROUNDS * (2 * HOT + SCANNED)];
    struct trace t = {.pages = 2000, .page = pages};
    unsigned next = 0;
    (void)unused;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 2 * HOT; i++)
            pages[t.count++] = (uint16_t)(i % HOT);
        for (unsigned i = 0; i < SCANNED; i++)
            pages[t.count++] = (uint16_t)(HOT + next++ % 1900);
    }
    unsigned cold = HOT + ROUNDS * SCANNED;
    assert_int_equal(misses_by(&policy_lru2, &t, FRAMES), cold);
    assert_int_equal(misses_by(&policy_arc, &t, FRAMES), cold);
    assert_true(misses_lru(&t, FRAMES) > cold + ROUNDS * 4);
    assert_true(misses_by(&policy_fifo, &t, FRAMES) > cold + ROUNDS * 4);
}

/* ---- curves ---- */

static void curve_point(const struct trace *t, const char *policy, unsigned frames, unsigned missed)
{
    printf("%s\t%s\t%u\t%.4f\n", t->name, policy, frames, 1 - (double)missed / t->count);
}

static int curves(void)
{
    for (unsigned which = 0; which < PATTERNS; which++) {
        struct trace t = trace_make(which);
        for (unsigned tenth = 1; tenth <= 9; tenth++) {
            unsigned frames = t.pages * tenth / 10;
            curve_point(&t, "least", frames, misses_least(&t, frames));
            curve_point(&t, "lru", frames, misses_lru(&t, frames));
            for (const struct policy *const *p = policies(); *p; p++)
                curve_point(&t, (*p)->name, frames, misses_by(*p, &t, frames));
        }
        free(t.page);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traces),
        cmocka_unit_test(patterns),
        cmocka_unit_test(scans),
    };
    if (argc == 2 && strcmp(argv[1], "curves") == 0)
        return curves();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
