/* stack_history.c - histories over stacked managers (stack_history.h). */
#include "stack_history.h"
#include "../../history/check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS = HISTORY_WORKERS, TXNS = 3, ATTEMPTS = 24, ACCESSES = 240, ITEMS_MAX = 64 };

static struct stack_history how;
static uint64_t stamps;
struct history_sum history_sum;

uint64_t history_next(uint64_t *x)
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

uint64_t history_seed(const char *given)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return given ? strtoull(given, NULL, 0)
                 : mixed((uint64_t)now.tv_nsec, (uint64_t)now.tv_sec) >> 32;
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

static uint64_t draw(uint64_t below) { return history_next(&me.rng) % below; }
static uint64_t stamp(void) { return __atomic_add_fetch(&stamps, 1, __ATOMIC_SEQ_CST); }

static void access_one(uint64_t top, uint64_t item, int write)
{
    struct history_access *a = &me.record->accesses[me.record->access_count];
    a->item = (uint32_t)item;
    a->what = write ? HISTORY_WRITE : HISTORY_READ;
    a->value = write ? ++me.value : *how.item_at(top, item);
    me.record->access_count++;
    me.txn->count++;
    if (write) *how.item_at(top, item) = a->value; /* noted first: it may be undone in the store */
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
    uint64_t top = how.top();
    int reason = setjmp(me.c.env);
    if (reason) return ended(reason);
    long e = txn_open(&me.c, (struct kd_begin){.mode = p.mode, .ticket = me.ticket});
    if (e) return ended((int)-e);
    me.ticket = me.c.begin.ticket;
    me.txn->snapshot = me.c.begin.csn;
    for (uint64_t n = 1 + draw(5); n > 0; n--) {
        uint64_t item = draw(how.items), write = p.writes && draw(2);
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

static _Atomic int wrong;
static void worker_history(uint64_t history)
{
    struct record *r = me.record;
    r->txn_count = r->access_count = 0;
    me.value = (history + 1) << 20 | (uint64_t)me.number << 12;
    uint64_t its_seed = mixed(how.seed ^ history << 8, me.number);
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
static _Atomic uint64_t history_now;   /* 0: they end */
static _Atomic int running;
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

/* ---- histories ---- */

/* What happens beside them, until all workers have done. */
static bool disturb(uint64_t history)
{
    uint64_t rng = mixed(how.seed, history), until = stamps + history_next(&rng) % 30;
    bool first = true, good = true;
    while (running) {
        sched_yield();
        if (stamps < until) continue;
        until = stamps + 2 + history_next(&rng) % 12;
        good &= how.disturb(history, first, &rng);
        first = false;
    }
    return good;
}

static int look(void *values)
{
    for (unsigned i = 0; i < how.items; i++) ((uint64_t *)values)[i] = *how.item_at(how.top(), i);
    return 0;
}

/* Of the state between two histories: a manager may still be dying. */
static int look_now(uint64_t *values)
{
    int e = run(look, values, KD_SERIALISABLE, 0);
    for (int i = 0; e && is_usual(-e) && i < 100; i++) e = run(look, values, KD_SERIALISABLE, 0);
    view_anew();
    return e;
}

static struct history history_join(const uint64_t *before, const uint64_t *after)
{
    static struct history_txn txns[WORKERS * ATTEMPTS];
    static struct history_access accesses[WORKERS * ACCESSES];
    struct history h = {txns, accesses, before, after, 0, 0, (uint32_t)how.items};
    for (int i = 0; i < WORKERS; i++) {
        const struct record *r = &records[i];
        memcpy(&accesses[h.access_count], r->accesses, r->access_count * sizeof accesses[0]);
        for (uint32_t t = 0; t < r->txn_count; t++) {
            txns[h.txn_count] = r->txns[t];
            txns[h.txn_count++].first += h.access_count;
            history_sum.committed += r->txns[t].committed;
        }
        h.access_count += r->access_count;
    }
    history_sum.txns += h.txn_count;
    return h;
}

static bool history_run(uint64_t number)
{
    static uint64_t before[ITEMS_MAX], after[ITEMS_MAX];
    static struct history_verdict verdict;
    int e = look_now(before);
    history_now = number;
    running = WORKERS;
    pthread_barrier_wait(&begins);
    bool good = disturb(number);
    pthread_barrier_wait(&ends);
    e = e ? e : look_now(after);
    struct history h = history_join(before, after);
    history_check(&h, &verdict);
    long checked = check();
    good &= !e && !wrong && !checked && verdict.kind == HISTORY_GOOD;
    if (!good)
        printf("# history %lu of seed %lu: look %d, a worker %d, kcheck %ld\n%s", number, how.seed,
               e, wrong, checked, verdict.kind == HISTORY_GOOD ? "" : verdict.text);
    return good;
}

bool histories_begin(const struct stack_history *h)
{
    pthread_t t;
    bool good = h->items <= ITEMS_MAX;
    how = *h;
    pthread_barrier_init(&begins, NULL, WORKERS + 1);
    pthread_barrier_init(&ends, NULL, WORKERS + 1);
    for (uintptr_t i = 0; good && i < WORKERS; i++)
        good = !pthread_create(&t, NULL, worker, (void *)i);
    return good;
}

uint64_t histories_run(uint64_t count)
{
    uint64_t good = 0;
    while (good < count && history_run(good + 1)) good++;
    return good;
}
