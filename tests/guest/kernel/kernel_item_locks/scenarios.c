/*
 * scenarios.c - the scenarios of tests/model/item_locks.cpp, again and again.
 *
 * A program is pairs of letters: s0 takes mode S at item 0, r0 leaves item 0; u, x, a, i, j are U,
 * X, ADD, IS, IX. Each thread that has got a mode says so, and looks at the others: who goes on in
 * a transaction in which another one saw a conflict has lost its isolation.
 */
#include "locks.h"

enum { THREADS = 3, TXNS = 3 };
static const char letters[] = "suxaij";

static const struct scenario {
    const char *name, *program[THREADS][TXNS];
    bool calm;                          /* nobody may be undone */
} all[] = {
    {"x", {{"x0", "x0"}, {"x0", "x0"}}, true},
    {"sx", {{"s0", "s0"}, {"x0"}, {"s0"}}, true},
    {"cross", {{"x0x1"}, {"x1x0"}}, false},
    {"cross3", {{"x0x1"}, {"x1x0"}, {"s0"}}, false},
    {"ring", {{"x0x1"}, {"x1s0"}, {"s0x1"}}, false},
    {"upgrade", {{"s0x0"}, {"s0x0"}}, false},
    {"upgrade3", {{"s0x0"}, {"x0"}, {"s0"}}, true},
    {"add", {{"a0"}, {"a0"}, {"s0", "a0"}}, true},
    {"early", {{"x0r0x1"}, {"x0"}, {"s0"}}, true},
    {"early2", {{"x0r0x1"}, {"x1x0"}}, false},
    {"share", {{"x0x2r0x1"}, {"x2"}}, true},
    {"share2", {{"s0s2r2"}, {"x0"}, {"x2"}}, true},
    {"again", {{"s0s0r0x1"}, {"x0"}}, true},
    {"whole", {{"j0x1"}, {"s0"}, {"i0s1"}}, true},
    {"six", {{"s0j0x1"}, {"i0s1"}, {"j0"}}, true},
    {"queue3", {{"x0"}, {"s0"}, {"s0", "x0"}}, true},
    {"stream", {{"x0", "x0", "x0"}, {"x0"}}, true},
    {"stream3", {{"s0", "s0"}, {"s0", "s0"}, {"x0"}}, true},
    {"update", {{"u0x0"}, {"u0x0"}, {"s0"}}, true},
    {"mixed", {{"s0a1"}, {"a0s1"}, {"x0"}}, false},
};

/* What a thread says: its transaction's number, and the modes that it has at each item. */
static volatile struct said {
    uint64_t epoch, suspect;
    uint32_t modes[ITEMS];
} said[THREADS];
static _Atomic long isolation, undone, failed;
static const struct scenario *now;
static pthread_barrier_t starts;
static long rounds_of;

struct step { int thread, txn, tries; unsigned seed; };

/* Some time, or none: another order of steps each time. */
static void linger(struct step *s)
{
    s->seed = s->seed * 1103515245 + 12345;
    if (s->seed >> 28 == 0)
        sched_yield();
    for (volatile unsigned i = s->seed >> 24 & 63; i; i--)
        ;
}

/* Thread t has a mode at an item: who else has one that conflicts? */
static void say(int t, int item, uint32_t mode)
{
    said[t].modes[item] |= 1u << mode;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int u = 0; u < THREADS; u++) {
        uint64_t epoch = said[u].epoch;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (u != t && said[u].modes[item] & kd_item_against(mode, table.own) &&
            said[u].epoch == epoch)
            said[u].suspect = epoch;
    }
}

static void say_nothing(int t)
{
    for (int i = 0; i < ITEMS; i++)
        said[t].modes[i] = 0;
    said[t].epoch++;
}

static int body(void *arg)
{
    struct step *s = arg;
    items_over();                       /* of a try that was undone */
    say_nothing(s->thread);
    undone += s->tries++ > 0;
    for (const char *p = now->program[s->thread][s->txn]; *p; p += 2) {
        int item = p[1] - '0';
        const char *mode = strchr(letters, *p);
        linger(s);
        if (!mode) {
            said[s->thread].modes[item] = 0;
            item_leave(names[item]);
        } else if (item_lock(names[item], (unsigned)(mode - letters))) {
            failed++;
        } else {
            say(s->thread, item, (uint32_t)(mode - letters));
        }
        linger(s);
        if (said[s->thread].suspect == said[s->thread].epoch)
            isolation++;
    }
    say_nothing(s->thread);
    return 0;
}

static void *runs(void *arg)
{
    struct step s = {(int)(long)arg, 0, 0, (unsigned)(long)arg + 7};
    static __thread struct context c;
    in_view(&c);
    table_map(base);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        pthread_barrier_wait(&starts);
        for (long n = 0; n < rounds_of; n++) {
            pthread_barrier_wait(&starts);
            for (s.txn = 0; s.txn < TXNS && now->program[s.thread][s.txn]; s.txn++) {
                s.tries = 0;
                failed += run(body, &s, KD_SERIALISABLE, 8000) != 0;
                items_over();
            }
        }
        pthread_barrier_wait(&starts);
    }
    return NULL;
}

void scenarios(long rounds)
{
    pthread_t threads[THREADS];
    rounds_of = rounds;
    pthread_barrier_init(&starts, NULL, THREADS + 1);
    for (long t = 0; t < THREADS; t++) {
        said[t].epoch = 1;
        pthread_create(&threads[t], NULL, runs, (void *)t);
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        now = &all[i];
        isolation = undone = failed = 0;
        pthread_barrier_wait(&starts);
        for (long n = 0; n < rounds; n++)
            pthread_barrier_wait(&starts);
        pthread_barrier_wait(&starts);
        tap_ok(!isolation && !failed && !(all[i].calm && undone) && all_bits() == 0,
               "%s: %ld rounds, %ld undone", all[i].name, rounds, undone);
        if (isolation || failed)
            printf("# %ld saw another in their way, %ld failed\n", isolation, failed);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    is(check(), 0, "kcheck is clean");
}
