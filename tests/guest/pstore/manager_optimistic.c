/*
 * manager_optimistic.c - /bin/optimistic: transactions without read locks, validated at commit.
 *
 * Aim     what the manager lets through is serialisable: thousands of random transactions, each
 *         history checked (tests/history/check.h). Without the validation the same programs are
 *         not, and the checker finds it; with the kernel's locks they are. A reader makes no writer
 *         wait; who read what is no longer there is sent back, and let through when it runs again.
 * Method  one manager for each of the three policies. Four threads run the programs, between two
 *         barriers for each history. Of attempts that did not commit only the stores count: what
 *         they read may be of two times, that is what validation is for.
 */
#include <sched.h>

#include "manager.h"
#include "own_manager.h"
#include "user/managers/optimistic.h"
#include "user/start.h"
#include "../../history/check.h"

enum { WORKERS = 4, TXNS = 4, PAGES = 6, WORDS = 3, STEP = 128, /* words that are used */
       ATTEMPTS = 64, ACCESSES = 800, HISTORIES = 120, HISTORIES_TEST = 60, ITEMS = PAGES * WORDS };
static const struct kd_commit plain = {.port = -1};

/* ---- programs ---- */

static volatile uint64_t *at;            /* the object's pages */
static uint64_t history, stamps;
static _Atomic int over;
static pthread_barrier_t go, done;

struct worker {
    struct context context;
    uint64_t rng, value;
    uint32_t txn_count, access_count, number;
    int bad;
    struct history_txn txns[ATTEMPTS];
    struct history_access accesses[ACCESSES];
};
static struct worker workers[WORKERS];

static volatile uint64_t *item(uint64_t page, uint64_t word)
{
    return at + page * KD_PAGE_BYTES / 8 + word * STEP;
}
static uint64_t draw(struct worker *w, uint64_t below)
{
    w->rng ^= w->rng << 13, w->rng ^= w->rng >> 7, w->rng ^= w->rng << 17;
    return (w->rng >> 11) % below;
}
static uint64_t stamp(void) { return __atomic_add_fetch(&stamps, 1, __ATOMIC_SEQ_CST); }

/* Noted before it is done, as it may be undone in the midst of a store. */
static void access_one(struct worker *w, uint64_t page, uint64_t word, uint32_t write)
{
    struct history_access *a = &w->accesses[w->access_count];
    *a = (struct history_access){(uint32_t)(page * WORDS + word), write, write ? ++w->value : 0};
    if (write) {
        w->access_count++;
        *item(page, word) = a->value;
    } else {
        a->value = *item(page, word);
        w->access_count++;
    }
    if (draw(w, 2)) sched_yield();
}

static void program(struct worker *w, int writes)
{
    for (uint64_t n = 1 + draw(w, 5); n > 0; n--) {
        uint64_t page = draw(w, PAGES), word = draw(w, WORDS);
        uint32_t write = writes && draw(w, 3) == 0;
        if (!write || draw(w, 2)) access_one(w, page, word, 0);
        if (write || (writes && n == 1)) access_one(w, page, word, 1);
    }
}

/* What an attempt that is undone read is no part of the history. */
static void undone(struct worker *w, struct history_txn *t)
{
    uint32_t kept = t->first;
    for (uint32_t i = t->first; i < w->access_count; i++)
        if (w->accesses[i].what) w->accesses[kept++] = w->accesses[i];
    w->access_count = kept;
}

static int attempt(struct worker *w)
{
    struct history_txn *volatile t = &w->txns[w->txn_count++];
    struct kd_commit k = plain;
    volatile int reads = draw(w, 5) == 0;
    *t = (struct history_txn){.level = reads ? HISTORY_SNAPSHOT : HISTORY_SERIALISABLE,
                              .worker = w->number, .first = w->access_count, .began = stamp()};
    volatile long e = txn_open(&w->context, (struct kd_begin){
        .mode = reads ? KD_SNAPSHOT : KD_SERIALISABLE | KD_STRICT});
    if (e) return (int)-e;
    int reason = setjmp(w->context.env);
    if (!reason) {
        t->snapshot = w->context.begin.csn;
        program(w, !reads);
        e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
        reason = (int)-e;
    }
    t->committed = reason == 0;
    t->csn = reason ? 0 : k.csn;
    t->ended = stamp();
    if (reason) undone(w, t);
    t->count = w->access_count - t->first;
    return reason;
}

static void worker_history(struct worker *w)
{
    w->txn_count = w->access_count = 0;
    w->value = (history + 1) << 32 | (uint64_t)w->number << 24;
    for (int i = 0; i < TXNS && !w->bad; i++) {
        int reason = EDEADLK;
        while (reason == EDEADLK && w->txn_count < ATTEMPTS && w->access_count + 16 < ACCESSES)
            reason = attempt(w);
        w->bad = reason && reason != EDEADLK ? reason : 0;
    }
}

static void *work(void *worker)
{
    for (;;) {
        pthread_barrier_wait(&go);
        if (over) return NULL;
        worker_history(worker);
        pthread_barrier_wait(&done);
    }
}

/* ---- histories ---- */

static int state_read(void *to)
{
    for (unsigned i = 0; i < ITEMS; i++) ((uint64_t *)to)[i] = *item(i / WORDS, i % WORDS);
    return 0;
}

static uint64_t committed, attempts;
static struct history_verdict verdict;
static int history_run(void)
{
    static struct history_txn txns[WORKERS * ATTEMPTS];
    static struct history_access accesses[WORKERS * ACCESSES];
    static uint64_t before[ITEMS], after[ITEMS];
    struct history h = {txns, accesses, before, after, 0, 0, ITEMS};
    int bad = run(state_read, before, KD_SNAPSHOT, 0);
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&done);
    bad |= run(state_read, after, KD_SNAPSHOT, 0);
    for (struct worker *w = workers; w < workers + WORKERS; w++) {
        for (uint32_t i = 0; i < w->txn_count; i++) {
            txns[h.txn_count] = w->txns[i];
            committed += w->txns[i].committed;
            txns[h.txn_count++].first += h.access_count;
        }
        memcpy(accesses + h.access_count, w->accesses, w->access_count * sizeof *accesses);
        h.access_count += w->access_count;
        bad |= w->bad;
    }
    attempts += h.txn_count;
    history++;
    if (bad) printf("# a transaction ended with %d\n", bad);
    history_check(&h, &verdict);
    return bad ? -1 : (int)verdict.kind;
}

/* So many histories, or up to the first that is bad: its kind. */
static int histories(int count)
{
    int kind = HISTORY_GOOD;
    committed = attempts = 0;
    for (int i = 0; i < count && kind == HISTORY_GOOD; i++) kind = history_run();
    printf("# %d transactions committed in %d attempts\n", (int)committed, (int)attempts);
    return kind;
}

/* ---- two transactions, step by step ---- */

static struct context one, other;
static long begin(struct context *c)
{
    return txn_open(c, (struct kd_begin){.mode = KD_SERIALISABLE | KD_STRICT});
}
static long commit(struct context *c)
{
    struct kd_commit k = plain;
    in_view(c);
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
}

/* Each reads one page and writes another, which the other one reads, or the same for both: what the
 * second commit says. A store that had to wait for this very thread ends with EDEADLK. */
static long crossed(uint64_t first, uint64_t second)
{
    volatile long e = begin(&one);
    (void)*item(first, 0);
    e = e ? e : begin(&other);
    (void)*item(second, 0);
    in_view(&one);
    int reason = setjmp(one.env);
    if (reason) { /* locked: the other's end lets nothing through any more */
        in_view(&other);
        kd_call3(KD_TXN_ABORT, 0, 0, 0);
        return -1000 - reason;
    }
    *item(second, 0) += 1;
    e = e ? e : commit(&one);
    if (e) return e - 2000;
    in_view(&other);
    reason = setjmp(other.env);
    if (reason) return -3000 - reason;
    *item(first, 0) += 1;
    return commit(&other);
}

static int alone(void)
{
    volatile long e = begin(&other);
    if (e || setjmp(other.env)) return -1;
    (void)*item(1, 0);
    *item(2, 0) += 1;
    return (int)commit(&other);
}

/* Starts the manager; its pages. */
static int manager_open(const char *name, const char *how)
{
    const char *argv[] = {"optimistic", name, "1", how, NULL};
    void *pages = NULL;
    if (start_program("/bin/optimistic", argv, 0, 1) < 0) return 0;
    for (int i = 0; i < 30000 && !pages; i++)
        if (!(pages = km_open(name, name, KM_READ | KM_WRITE))) pause_ms(1);
    return (at = pages) != NULL;
}

static struct optimistic_counts counts_of(const char *name)
{
    struct optimistic_counts c = {0};
    (void)km_call(name, name, &c, sizeof c);
    return c;
}

static void validated(void)
{
    tap_ok(manager_open("checked", NULL), "a manager that validates");
    is(crossed(1, 2), -EDEADLK, "of two that wrote what the other read the second is sent back");
    is(alone(), 0, "and let through when it runs again");
    is(crossed(3, 3), -EDEADLK, "no update is lost");
    int kind = histories(tap_long() ? HISTORIES : HISTORIES_TEST);
    if (kind != HISTORY_GOOD) printf("%s", verdict.text);
    struct optimistic_counts c = counts_of("checked");
    printf("# %d reads noted, %d commits, %d sent back\n", (int)c.reads, (int)c.commits,
           (int)c.refused);
    tap_ok(kind == HISTORY_GOOD && c.refused > 10, "its histories are serialisable");
}

int main(void)
{
    tap_plan(12);
    pthread_barrier_init(&go, NULL, WORKERS + 1);
    pthread_barrier_init(&done, NULL, WORKERS + 1);
    pthread_t threads[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        workers[i].rng = 88172645463325252ull + 977 * i;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    validated();
    is(check(), 0, "kcheck");
    tap_ok(manager_open("unchecked", "committed"), "the same without validation");
    is(crossed(1, 2), 0, "lets both through");
    int kind = histories(tap_long() ? HISTORIES : HISTORIES_TEST);
    tap_ok(kind == HISTORY_LOST_UPDATE || kind == HISTORY_G_SINGLE || kind == HISTORY_G2 ||
               kind == HISTORY_CSN_ORDER,
           "which the checker finds: %s", kind < 0 ? "?" : history_kind_name(kind));
    tap_ok(manager_open("locks", "locks"), "the same with the kernel's locks");
    is(crossed(1, 2), -1000 - EDEADLK, "where one waits for the other");
    is(histories(tap_long() ? HISTORIES : HISTORIES_TEST), HISTORY_GOOD,
       "its histories are serialisable");
    over = 1;
    pthread_barrier_wait(&go);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    return tap_end();
}
