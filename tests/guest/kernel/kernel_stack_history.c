/*
 * kernel_stack_history.c - histories of random transactions through two stacked managers.
 *
 * Aim     isolation over stacked commits: whatever six threads do to pages of a manager that stands
 *         on another one, to pages of that one, and to pages of the base below both, some serial
 *         order shows the same, in real time and in the order of commits (tests/history/check.h);
 *         snapshots see a prefix of it. That holds while transactions are aborted by their clients
 *         and by the base, at any moment, and while the upper manager dies and another one begins.
 * Method  a base and managers over it in this process. Each history is checked from the values that
 *         its transactions have read and stored; in each third the upper manager dies.
 *             kernel_stack_history SEED COUNT    chooses the same programs again
 */
#include "stacked_manager.h"
#include "../../history/check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PAGES = 64, Q_PAGE = 56, Q_PAGES = 2,   /* of the base; clients write Q themselves */
    LOWER_AT = 16, LOWER_PAGES = 32,    /* of the lower manager; where the base keeps them */
    OWN_PAGE = 4, OWN_PAGES = 2,        /* of those, what clients write themselves */
    UPPER_AT = 16, UPPER_PAGES = 4,     /* of the upper one; where the lower keeps them */
    WORDS = 2, STEP = 256, ITEMS = (UPPER_PAGES + OWN_PAGES + Q_PAGES) * WORDS,
    WORKERS = 6, TXNS = 3, ATTEMPTS = 24, ACCESSES = 240, COMMIT_THREADS = 2,
    HISTORIES = 60, HISTORIES_LONG = 600,
};

static struct stacked lower = {.key = 0x5555555555555555};
static struct stacked *volatile upper;
static uint64_t stamps, seed;

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}
static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t x =
        (a + 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull ^ (b + 1) * 0xc4ceb9fe1a85ec53ull;
    return (x ^ x >> 29) | 1;
}

/* Where an item lies; the upper manager's pages are others when it has died. */
static volatile uint64_t *item_at(uint64_t top, uint64_t item)
{
    uint64_t page = item / WORDS, word = item % WORDS * STEP;
    if (page < UPPER_PAGES) return word_at(top, page, (unsigned)word);
    page -= UPPER_PAGES;
    if (page < OWN_PAGES) return word_at(lower.base, OWN_PAGE + page, (unsigned)word);
    return word_of(Q_PAGE + page - OWN_PAGES, (unsigned)word);
}

/* ---- a worker ---- */

static struct record {
    struct history_txn txns[ATTEMPTS];
    struct history_access accesses[ACCESSES];
    uint32_t txn_count, access_count;
} records[WORKERS];

static __thread struct {
    struct context c;
    struct record *record;
    struct history_txn *txn;
    uint64_t rng, ticket, value;
    uint32_t number;
} me;

static uint64_t draw(uint64_t below) { return next(&me.rng) % below; }
static uint64_t stamp(void) { return __atomic_add_fetch(&stamps, 1, __ATOMIC_SEQ_CST); }

static void access_one(uint64_t top, uint64_t item, int write)
{
    struct history_access *a = &me.record->accesses[me.record->access_count];
    a->item = (uint32_t)item;
    a->write = (uint32_t)write;
    a->value = write ? ++me.value : *item_at(top, item);
    me.record->access_count++;
    me.txn->count++;
    if (write) *item_at(top, item) = a->value; /* noted first: it may be undone in the store */
}

struct plan { unsigned mode, level; int writes, undo; };
static struct plan plan_draw(void)
{
    uint64_t dice = draw(12);
    return dice < 8    ? (struct plan){KD_SERIALISABLE, HISTORY_SERIALISABLE, 1, 0}
           : dice < 9  ? (struct plan){KD_SERIALISABLE, HISTORY_SERIALISABLE, 0, 0}
           : dice < 11 ? (struct plan){KD_SNAPSHOT, HISTORY_SNAPSHOT, 0, 0}
                       : (struct plan){KD_SERIALISABLE, HISTORY_SERIALISABLE, 1, 1};
}

static int ended(int reason)
{
    me.txn->ended = stamp();
    return reason;
}

/* One attempt: 0, or why it was undone. */
static int attempt(uint64_t its_seed)
{
    struct record *r = me.record;
    me.rng = its_seed;
    struct plan p = plan_draw();
    me.txn = &r->txns[r->txn_count++];
    *me.txn = (struct history_txn){.level = p.level, .worker = me.number,
                                   .first = r->access_count, .began = stamp()};
    uint64_t top = upper->base;
    int reason = setjmp(me.c.env);
    if (reason) return ended(reason);
    long e = txn_open(&me.c, (struct kd_begin){.mode = p.mode, .ticket = me.ticket});
    if (e) return ended((int)-e);
    me.ticket = me.c.begin.ticket;
    me.txn->snapshot = me.c.begin.csn;
    for (uint64_t n = 1 + draw(5); n > 0; n--) {
        uint64_t item = draw(ITEMS), write = p.writes && draw(2);
        if (!write || draw(2)) access_one(top, item, 0);
        if (write) access_one(top, item, 1);
        if (draw(4) == 0) sched_yield();
    }
    if (p.undo) {
        kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0);
        return ended(EPERM);
    }
    struct kd_commit k = {.port = -1};
    e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    me.txn->csn = e ? 0 : k.csn;
    me.txn->committed = e == 0;
    return ended((int)-e);
}

/* Why an attempt may be undone that does not want it: a deadlock; the base, or a death; the upper
 * manager is no more, or could not read below; a snapshot is older than the upper manager. */
static bool is_usual(int reason)
{
    return reason == EDEADLK || reason == ECANCELED || reason == EOWNERDEAD || reason == EIO ||
           reason == ESTALE;
}

static volatile int wrong;
static void worker_history(uint64_t history)
{
    struct record *r = me.record;
    r->txn_count = r->access_count = 0;
    me.value = (history + 1) << 20 | (uint64_t)me.number << 12;
    uint64_t its_seed = mixed(seed ^ history << 8, me.number);
    for (unsigned i = 0; i < TXNS; i++) {
        int reason;
        me.ticket = 0;
        do {
            if (r->txn_count == ATTEMPTS || r->access_count + 16 > ACCESSES) return;
            reason = attempt(mixed(its_seed, i));
        } while (is_usual(reason));
        if (reason && reason != EPERM) wrong = reason;
    }
}

static pthread_barrier_t begins, ends;
static volatile uint64_t history_now;   /* 0: they end */
static volatile int running;
static void *worker(void *number)
{
    me.number = (uint32_t)(uintptr_t)number;
    me.record = &records[me.number];
    for (;;) {
        pthread_barrier_wait(&begins);
        if (!history_now) return NULL;
        worker_history(history_now);
        __atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
        pthread_barrier_wait(&ends);
    }
}

/* ---- what happens beside them ---- */

static long aborts, deaths;

static bool upper_begin(void)
{
    struct stacked *s = calloc(1, sizeof *s); /* threads of one that has died may look at theirs */
    s->key = 0x0f0f0f0f0f0f0f0f;
    s->below = lower.base + UPPER_AT * KD_PAGE_BYTES;
    long e = stacked_start(s, &lower.port, 1, UPPER_PAGES, COMMIT_THREADS);
    if (!e) upper = s;
    return !e;
}

/* Until all workers have done: the base aborts some transaction now and then; the upper manager
 * dies once. */
static bool disturb(uint64_t history)
{
    uint64_t rng = mixed(seed, history), until = stamps + next(&rng) % 30;
    bool dies = history % 3 == 0, good = true;
    while (running) {
        sched_yield();
        if (stamps < until) continue;
        until = stamps + 2 + next(&rng) % 12;
        if (dies) {
            kd_call3(KD_HANDLE_CLOSE, upper->commit_port, 0, 0);
            kd_call3(KD_HANDLE_CLOSE, upper->port, 0, 0);
            good &= upper_begin();
            deaths++;
            dies = false;
        } else {
            long view = (long)(next(&rng) % (2 * WORKERS));
            aborts += kd_call3(KD_VIEW_ABORT, view, ECANCELED, 0) == 0;
        }
    }
    return good;
}

/* ---- histories ---- */

static int look(void *values)
{
    for (unsigned i = 0; i < ITEMS; i++) ((uint64_t *)values)[i] = *item_at(upper->base, i);
    return 0;
}

static struct { uint64_t txns, committed; } sum;
static struct history history_join(const uint64_t *before, const uint64_t *after)
{
    static struct history_txn txns[WORKERS * ATTEMPTS];
    static struct history_access accesses[WORKERS * ACCESSES];
    struct history h = {txns, accesses, before, after, 0, 0, ITEMS};
    for (int i = 0; i < WORKERS; i++) {
        const struct record *r = &records[i];
        memcpy(&accesses[h.access_count], r->accesses, r->access_count * sizeof accesses[0]);
        for (uint32_t t = 0; t < r->txn_count; t++) {
            txns[h.txn_count] = r->txns[t];
            txns[h.txn_count++].first += h.access_count;
            sum.committed += r->txns[t].committed;
        }
        h.access_count += r->access_count;
    }
    sum.txns += h.txn_count;
    return h;
}

static bool history_run(uint64_t number)
{
    static uint64_t before[ITEMS], after[ITEMS];
    static struct history_verdict verdict;
    int e = run(look, before, KD_SERIALISABLE, 0);
    view_anew();
    history_now = number;
    running = WORKERS;
    pthread_barrier_wait(&begins);
    bool good = disturb(number);
    pthread_barrier_wait(&ends);
    e = e ? e : run(look, after, KD_SERIALISABLE, 0);
    view_anew();
    struct history h = history_join(before, after);
    history_check(&h, &verdict);
    long checked = check();
    good &= !e && !wrong && !checked && verdict.kind == HISTORY_GOOD;
    if (!good)
        printf("# history %lu of seed %lu: look %d, a worker %d, kcheck %ld\n%s", number, seed, e,
               wrong, checked, verdict.kind == HISTORY_GOOD ? "" : verdict.text);
    return good;
}

static bool begin(void)
{
    pthread_t t;
    bool good = start_manager((struct own_manager){.pages = PAGES});
    lower.below = base + LOWER_AT * KD_PAGE_BYTES;
    good = good && !stacked_start(&lower, &port, 1, LOWER_PAGES, COMMIT_THREADS) && upper_begin();
    pthread_barrier_init(&begins, NULL, WORKERS + 1);
    pthread_barrier_init(&ends, NULL, WORKERS + 1);
    for (uintptr_t i = 0; good && i < WORKERS; i++)
        good = !pthread_create(&t, NULL, worker, (void *)i);
    return good;
}

int main(int argc, char **argv)
{
    struct timespec now;
    const char *tier = getenv("TEST_TIER");
    uint64_t count = tier && !strcmp(tier, "long") ? HISTORIES_LONG : HISTORIES, good = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0)
                    : mixed((uint64_t)now.tv_nsec, (uint64_t)now.tv_sec) >> 32;
    if (argc > 2) count = strtoull(argv[2], NULL, 0);
    tap_plan(3);
    if (!tap_ok(begin(), "a base, a manager, and one over that; seed %lu", seed)) return tap_end();
    while (good < count && history_run(good + 1)) good++;
    tap_ok(good == count, "%lu of %lu histories through two stacked managers are serialisable",
           good, count);
    printf("# %lu attempts, %lu committed; %ld aborted by the base, %ld deaths, %lu deadlocks\n",
           sum.txns, sum.committed, aborts, deaths, system_info().deadlocks);
    tap_ok(sum.committed > good * 4 && (good < 20 || (aborts > 0 && deaths > 0)),
           "which had commits, aborts and deaths");
    return tap_end();
}
