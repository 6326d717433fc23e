/*
 * test_history.c - the history checker finds each anomaly, and nothing in good histories.
 *
 * Method: histories as text, in the order of events. "1wx=5" is transaction 1 storing 5 into x,
 * "1rx=5" loading it, "1lx=5" with a lock that is given back, "1+x=4" adds; "1b" begins (the first
 * event does, too), "1S" as a snapshot, "1D" dirty; "1c" commits, "1a" undoes. Items x, y, z are 0
 * before. "!x=5": x is 5 afterwards, whatever was committed. Then random histories: made by one
 * transaction after the other, and the same with one read changed.
 */
#include "../history/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TXNS = 10, ITEMS = 3, EVENTS = 64 };

static uint64_t number_after(const char *at)
{
    const char *equals = strchr(at, '=');
    return equals ? strtoull(equals + 1, NULL, 10) : 0;
}

struct world {
    struct history_txn txns[TXNS];
    struct history_access accesses[TXNS * EVENTS];
    uint64_t before[ITEMS], after[ITEMS], now, csn;
};

static void commit(struct world *w, struct history_txn *x)
{
    x->committed = 1;
    x->ended = ++w->now;
    for (uint32_t i = x->first; i < x->first + x->count; i++)
        if (w->accesses[i].what == HISTORY_WRITE || w->accesses[i].what == HISTORY_ADD) {
            uint64_t *item = &w->after[w->accesses[i].item];
            *item = w->accesses[i].value + (w->accesses[i].what == HISTORY_ADD ? *item : 0);
            x->csn = w->csn + 1;
        }
    w->csn += x->csn != 0;
}

static void event(struct world *w, const char *text)
{
    static const char events[] = "rw+l"; /* enum history_what */
    uint32_t item = text[0] == '!' ? (uint32_t)(text[1] - 'x') : (uint32_t)(text[2] - 'x');
    if (text[0] == '!') {
        w->after[item] = number_after(text);
        return;
    }
    struct history_txn *x = &w->txns[text[0] - '0'];
    if (!x->began) {
        x->began = ++w->now;
        x->snapshot = w->csn;
    }
    switch (text[1]) {
    case 'S': x->level = HISTORY_SNAPSHOT; break;
    case 'D': x->level = HISTORY_DIRTY_READ; break;
    case 'a': x->ended = ++w->now; break;
    case 'c': commit(w, x); break;
    case 'b': break;
    default:
        w->accesses[x->first + x->count++] = (struct history_access){
            item, (uint32_t)(strchr(events, text[1]) - events), number_after(text)};
    }
}

static enum history_kind verdict_of(const char *text)
{
    static struct history_verdict verdict;
    struct world w = {.now = 0};
    char copy[512], *next = NULL;
    for (uint32_t t = 0; t < TXNS; t++)
        w.txns[t].first = t * EVENTS;
    strncpy(copy, text, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *word = strtok_r(copy, " ", &next); word; word = strtok_r(NULL, " ", &next))
        event(&w, word);
    struct history h = {w.txns, w.accesses, w.before, w.after, TXNS, TXNS * EVENTS, ITEMS};
    history_check(&h, &verdict);
    return verdict.kind;
}

struct named { const char *text; enum history_kind kind; };

static void expect(const struct named *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum history_kind kind = verdict_of(list[i].text);
        if (kind != list[i].kind)
            fail_msg("'%s': %s instead of %s", list[i].text, history_kind_name(kind),
                     history_kind_name(list[i].kind));
    }
}
#define EXPECT(list) expect(list, sizeof(list) / sizeof(list)[0])

static void good_histories_are_good(void **state)
{
    static const struct named good[] = {
        {"", HISTORY_GOOD},
        {"1wx=1 1wy=2 1c 2rx=1 2wx=3 2c 3ry=2 3rx=3 3c", HISTORY_GOOD},
        {"1rx=0 2ry=0 1wz=1 1c 2c 3rz=1 3c", HISTORY_GOOD},          /* side by side */
        {"1wx=1 2S 2rx=0 1c 2ry=0 2c 3S 3rx=1 3c", HISTORY_GOOD},  /* a snapshot beside a writer */
        {"1wx=1 1rx=1 1wx=2 1rx=2 1c 2rx=2 2c", HISTORY_GOOD},       /* own writes */
        {"1wx=1 1a 2rx=0 2wx=2 2c", HISTORY_GOOD},  /* undone, and seen by nobody */
        {"1D 1rx=0 2wx=1 2wy=2 2c 1ry=2 1rx=0 1c", HISTORY_GOOD},    /* dirty reads may be torn */
        {"1rx=0 2rx=0 1wy=1 1c 2c", HISTORY_GOOD},
        {"1+x=1 2+x=2 1+x=4 2c 1c 3rx=7 3c", HISTORY_GOOD},          /* additions commute */
        {"1+x=1 1rx=1 1+x=4 1rx=5 2+x=2 2a 1c 3S 3rx=5 3c", HISTORY_GOOD},
        {"1+x=1 1wy=9 1c 2rx=1 2ry=9 2c", HISTORY_GOOD},
        {"1+x=1 2S 1c 2rx=0 2ry=0 2c", HISTORY_GOOD},
        {"1lx=0 2wx=1 2wy=2 2c 1ry=2 1c", HISTORY_GOOD},             /* x was given back */
    };
    (void)state;
    EXPECT(good);
}

/* Each published anomaly as a history, by the names of Adya, Berenson and others, and Bailis. */
static void anomalies_are_found(void **state)
{
    static const struct named bad[] = {
        /* G0: versions are ordered by csn, so what two wrote in two orders is the last of nobody */
        {"1wx=1 2wx=2 2wy=3 1wy=4 1c 2c !y=4", HISTORY_LAST_STATE},
        {"1wx=1 2wx=2 2wy=3 1wy=4 1c 2c 3rx=2 3ry=4 3c !y=4", HISTORY_G_SINGLE},
        {"1wx=1 2rx=1 1a 2c", HISTORY_G1A},
        {"1wx=1 2rx=1 1wx=2 1c 2c", HISTORY_G1B},
        {"1wx=1 2wy=2 1ry=2 2rx=1 1c 2c", HISTORY_G1C},
        /* OTV: 3 sees what 2 wrote to y, but of x what 2 has written over */
        {"1wx=1 1wy=2 1c 2wx=3 2wy=4 2c 3ry=4 3rx=1 3c", HISTORY_G_SINGLE},
        /* PMP: z is what leads to the records: 1 looks twice, 2 adds one between */
        {"1rz=0 2rz=0 2wz=1 2c 1rz=1 1c", HISTORY_G_SINGLE},
        {"1rx=0 2rx=0 1wx=1 1c 2wx=2 2c", HISTORY_LOST_UPDATE},
        {"1rx=0 2rx=0 2ry=0 2wx=1 2wy=2 2c 1ry=2 1c", HISTORY_G_SINGLE},
        {"1rx=0 1ry=0 2rx=0 2ry=0 1wx=1 2wy=2 1c 2c", HISTORY_G2},
        {"1rx=0 2rx=0 3ry=0 1ry=0 2wy=1 3rz=0 3wx=2 3c 2c 1c", HISTORY_G2},
        /* a victim must not see it either */
        {"1rx=0 2wx=1 2wy=2 2c 1ry=2 1a", HISTORY_G_SINGLE},
    };
    (void)state;
    EXPECT(bad);
}

static void wrong_sums_are_found(void **state)
{
    static const struct named bad[] = {
        {"1+x=1 2+x=2 1rx=1 2rx=2 1c 2c", HISTORY_G2},               /* neither saw the other's */
        {"1rx=0 2+x=2 2wy=1 2c 1ry=1 1c", HISTORY_G_SINGLE},
        {"1+x=1 1c 2rx=0 2c", HISTORY_REAL_TIME},                     /* lost, or too old */
        {"1+x=1 2rx=1 1a 2c", HISTORY_G1A},
        {"1+x=1 2rx=1 1+x=2 1c 2c", HISTORY_G1B},
        {"1+x=1 1rx=0 1c", HISTORY_OWN_WRITE},
        {"1+x=1 1c 2rx=9 2c", HISTORY_GARBAGE},
        {"1+x=1 2+x=2 1c 2c !x=2", HISTORY_LAST_STATE},              /* one was lost */
        {"1+x=1 1a !x=1", HISTORY_LAST_STATE},
        {"1+x=1 1c 2+x=1 2c", HISTORY_MALFORMED},                    /* added twice */
        {"1+x=3 1c", HISTORY_MALFORMED},
        {"1+x=1 1c 2wx=8 2c", HISTORY_MALFORMED},
        {"1S 1+x=1 1c", HISTORY_MALFORMED},
        {"1+x=1 2wy=2 3b 1c 2c 3S 3ry=2 3rx=0 3c", HISTORY_SNAPSHOT_TORN},
        {"1+x=1 2S 3S 1c 3rx=0 2rx=1 3c 2c", HISTORY_SNAPSHOT_TORN}, /* one number, two states */
        {"1wx=1 2lx=1 1a 2c", HISTORY_G1A},                           /* not even loosely */
        {"1wx=1 2lx=1 1wx=2 1c 2c", HISTORY_G1B},
        {"1lx=7 1c", HISTORY_GARBAGE},
    };
    (void)state;
    EXPECT(bad);
}

static void what_is_no_anomaly_of_the_books_is_found_too(void **state)
{
    static const struct named bad[] = {
        {"1rx=7 1c", HISTORY_GARBAGE},
        {"1wx=1 1c 2ry=1 2c", HISTORY_GARBAGE},                       /* another item's value */
        {"1wx=1 1rx=0 1c", HISTORY_OWN_WRITE},
        {"1wx=1 1wx=2 1rx=1 1c", HISTORY_OWN_WRITE},
        {"1wx=1 1c 2wx=1 2c", HISTORY_MALFORMED},
        {"1S 1wx=1 1c", HISTORY_MALFORMED},
        {"1wx=1 1c 2rx=0 2c", HISTORY_REAL_TIME},                     /* too old */
        {"1wx=1 1c 2S 2rx=0 2c", HISTORY_SNAPSHOT_TORN},
        {"1wx=1 1wy=2 2S 1c 2rx=0 2ry=2 2c", HISTORY_G_SINGLE},
        {"1wx=1 2wy=2 3S 4S 1c 2c 3rx=1 3ry=0 3c 4rx=0 4ry=2 4c", HISTORY_G2},
        /* 2 without 1: no prefix */
        {"1wx=1 2wy=2 3b 1c 2c 3S 3ry=2 3rx=0 3c", HISTORY_SNAPSHOT_TORN},
        /* one number, two states */
        {"1wx=1 1wy=5 2S 3S 1c 3rx=0 2rx=1 3c 2c", HISTORY_SNAPSHOT_TORN},
        {"1ry=2 2wy=2 1wx=1 1c 2c", HISTORY_CSN_ORDER},
        {"1wx=1 1c !x=0", HISTORY_LAST_STATE},
        {"1wx=1 1a !x=1", HISTORY_LAST_STATE},
        {"1wx=1 2wx=2 1c 2c !x=1", HISTORY_LAST_STATE},
        {"1D 2wx=1 1rx=1 2a 1c", HISTORY_G1A},                        /* not even a dirty reader */
        {"1D 2wx=1 1rx=1 2wx=3 2c 1c", HISTORY_G1B},
    };
    (void)state;
    EXPECT(bad);
}

/* ---- random ones ---- */

enum { RANDOM_TXNS = 60, RANDOM_ITEMS = 8, RANDOM_ACCESSES = 6 };
static uint64_t rng;
static uint32_t draw(uint32_t below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (uint32_t)((rng >> 11) % below);
}

struct random_history {
    struct history_txn txns[RANDOM_TXNS];
    struct history_access accesses[RANDOM_TXNS * RANDOM_ACCESSES];
    uint64_t before[RANDOM_ITEMS], after[RANDOM_ITEMS];
};

/* One after the other; each `after` state is kept as the next one's before. */
static void serial(struct random_history *r)
{
    uint64_t state[RANDOM_ITEMS], csn = 0;
    for (uint32_t i = 0; i < RANDOM_ITEMS; i++)
        r->before[i] = r->after[i] = 1 + i;
    for (uint32_t t = 0; t < RANDOM_TXNS; t++) {
        struct history_txn *x = &r->txns[t];
        *x = (struct history_txn){ .first = t * RANDOM_ACCESSES,
                                   .count = RANDOM_ACCESSES,
                                   .began = 2 * t + 1,
                                   .ended = 2 * t + 2,
                                   .committed = draw(5) != 0,
                                   .snapshot = csn };
        int reads = draw(3) == 0, wrote = 0;
        x->level = reads ? draw(2) : HISTORY_SERIALISABLE;
        memcpy(state, r->after, sizeof state);
        for (uint32_t i = x->first; i < x->first + x->count; i++) {
            struct history_access *a = &r->accesses[i];
            *a = (struct history_access){.item = draw(RANDOM_ITEMS), .what = !reads && draw(2)};
            wrote |= (int)a->what;
            if (a->what)
                state[a->item] = 100 + i;
            a->value = state[a->item];
        }
        if (!x->committed)
            continue;
        memcpy(r->after, state, sizeof state);
        x->csn = wrote ? ++csn : 0;
    }
}

static enum history_kind check_random(const struct random_history *r)
{
    static struct history_verdict v;
    struct history h = {r->txns, r->accesses, r->before, r->after, RANDOM_TXNS,
                        RANDOM_TXNS * RANDOM_ACCESSES, RANDOM_ITEMS};
    history_check(&h, &v);
    return v.kind;
}

/* In a serial history only one value is right for a read: time orders what dependencies do not. */
static void one_wrong_read_is_always_found(void **state)
{
    static struct random_history r;
    uint32_t changed = 0;
    (void)state;
    for (rng = 88172645463325252ull; changed < 2000;) {
        serial(&r);
        uint64_t again = rng;
        assert_int_equal(check_random(&r), HISTORY_GOOD);
        struct history_access *a = &r.accesses[draw(RANDOM_TXNS * RANDOM_ACCESSES)];
        const struct history_access *b = &r.accesses[draw(RANDOM_TXNS * RANDOM_ACCESSES)];
        if (a->what || a->value == b->value || a->item != b->item)
            continue;
        a->value = b->value;
        if (check_random(&r) == HISTORY_GOOD)
            fail_msg("rng %llu: a changed read is not found", (unsigned long long)again);
        changed++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_histories_are_good),
        cmocka_unit_test(anomalies_are_found),
        cmocka_unit_test(wrong_sums_are_found),
        cmocka_unit_test(what_is_no_anomaly_of_the_books_is_found_too),
        cmocka_unit_test(one_wrong_read_is_always_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
