/*
 * pstore_lazy.c - transactions that are answered before they are durable.
 *
 * Aim     a batch of lazy commits costs a handful of flushes; each is seen at once by other
 *         processes; ps_flush, a strict commit and the time that it may take make all of them
 *         durable; when the manager dies, the first so many are there, each as a whole, and none
 *         that was flushed is missing.
 * Method  flushes are counted by the store, and those of its idle groups taken off. A commit
 *         numbers a place in one object, and counts in another, on pages of their own; the manager
 *         is killed while one goes on.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"
#include "store_client.h"

enum { BATCH = 2000, HANDFUL = 8, KILLS = 4, MINUTE_MS = 60000, ROOM = 4000 };
struct root { uint64_t *count, *places; };
static ps_container *c;

static const struct ps_options patient = { .lazy = 1, .lazy_ms = MINUTE_MS };
static const struct ps_options hasty = { .lazy = 1, .lazy_ms = 1 };
static const struct ps_options usual = { .lazy = 1 };

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->count = ps_alloc(c, 8 * KD_PAGE_BYTES, NULL);
    root->places = ps_alloc(c, ROOM * sizeof *root->places, NULL);
    return root->count && root->places ? 0 : -errno;
}

static int add(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    uint64_t n = *root->count;
    root->places[n % ROOM] = n + 1;
    *root->count = n + 1;
    return 0;
}

/* How many there are; -EUCLEAN: they are not the first so many, each as a whole. */
static int look(void *out)
{
    const struct root *root = ps_root(c);
    uint64_t n = *root->count;
    for (uint64_t i = 0; i < ROOM; i++) {
        uint64_t lap = n / ROOM * ROOM, wanted = 0; /* the last number that came to this place */
        if (i < n % ROOM) wanted = lap + i + 1;
        else if (lap) wanted = lap - ROOM + i + 1;
        if (root->places[i] != wanted) return -EUCLEAN;
    }
    *(uint64_t *)out = n;
    return 0;
}

static uint64_t count_now(void)
{
    uint64_t n = 0;
    int error = ps_transaction(look, &n);
    return error ? (uint64_t)error : n;
}

static uint64_t flushes(void) { return (uint64_t)client_flushes("store"); }

/* ---- batches ---- */

static void batch(const struct ps_options *how, const char *what)
{
    uint64_t before = flushes(), n = count_now();
    int bad = 0;
    for (int i = 0; i < BATCH; i++) bad += ps_transaction_opt(add, NULL, how) != 0;
    uint64_t took = flushes() - before;
    printf("# %s: %d commits, %llu flushes\n", what, BATCH, (unsigned long long)took);
    tap_ok(bad == 0 && count_now() == n + BATCH, "%s: all are there at once", what);
    if (how == &patient) tap_ok(took <= HANDFUL, "%s: a handful of flushes", what);
}

static void flushed_when_asked(void)
{
    tap_ok(ps_flush() == 0, "ps_flush");
    uint64_t before = flushes();
    tap_ok(ps_flush() == 0 && flushes() == before, "of nothing it costs no flush");
    int bad = ps_transaction_opt(add, NULL, &patient) | ps_transaction_opt(add, NULL, &patient);
    tap_ok(!bad && flushes() == before, "two lazy commits cost none");
    tap_ok(ps_flush() == 0 && flushes() == before + 1, "ps_flush makes both durable by one");
    ps_transaction_opt(add, NULL, &patient);
    tap_ok(ps_transaction(add, NULL) == 0 && flushes() == before + 2,
           "so does a strict commit behind a lazy one");
    tap_ok(ps_flush() == 0 && flushes() == before + 2, "then nothing is left to flush");
}

/* Nobody asks: the flush comes by itself. */
static void flushed_by_the_clock(const struct ps_options *how, const char *what)
{
    uint64_t before = flushes();
    int error = ps_transaction_opt(add, NULL, how);
    while (flushes() == before) sched_yield();
    uint64_t after = flushes();
    tap_ok(error == 0 && ps_flush() == 0 && flushes() <= after + 1, "%s: flushed by the clock",
           what);
}

/* ---- others ---- */

static void seen_by_others(void)
{
    ps_flush();
    uint64_t n = count_now(), before = flushes();
    int status = -1;
    ps_transaction_opt(add, NULL, &patient);
    pid_t pid = fork();
    if (pid == 0) _exit(count_now() == n + 1 ? 7 : 1);
    waitpid(pid, &status, 0);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 7 && flushes() == before,
           "another process sees it before it is durable");
}

static int flush_within(void *unused)
{
    (void)unused;
    return ps_flush();
}

/* ---- the manager dies ---- */

static _Atomic int killed;

static void *killer_main(void *target)
{
    while (*(volatile uint64_t *)target < 20) sched_yield();
    kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    killed = 1;
    return NULL;
}

static int lives(int round)
{
    static uint64_t done;
    pthread_t killer;
    uint64_t begin = count_now(), flushed = begin;
    done = 0;
    killed = 0;
    if (pthread_create(&killer, NULL, killer_main, &done)) return 0;
    int error = 0;
    for (int i = 0; error == 0 && i < 100 * BATCH; i++) { /* until it is killed */
        error = ps_transaction_opt(add, NULL, i % 7 ? &patient : &usual);
        done += error == 0;
        if (i == 10 + round && ps_flush() == 0) flushed = begin + done;
    }
    pthread_join(killer, NULL);
    uint64_t n = count_now();
    for (int i = 0; i < 100 && (int64_t)n < 0 && (int64_t)n != -EUCLEAN; i++) n = count_now();
    printf("# %llu of %llu are there, %llu were flushed (%d)\n", (unsigned long long)(n - begin),
           (unsigned long long)done, (unsigned long long)(flushed - begin), error);
    return error == -EOWNERDEAD && n >= flushed && n <= begin + done + 1;
}

int main(void)
{
    c = ps_open("lazy", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    tap_plan(14 + KILLS);
    if (!c || ps_transaction(make, NULL)) {
        printf("Bail out! no container\n");
        return 1;
    }
    batch(&patient, "with a minute's time");
    flushed_when_asked();
    batch(&usual, "with the store's time");
    flushed_by_the_clock(&hasty, "a millisecond");
    flushed_by_the_clock(&usual, "the store's time");
    seen_by_others();
    tap_ok(ps_transaction(flush_within, NULL) == -EBUSY, "no ps_flush in a transaction");
    for (int k = 0; k < KILLS; k++)
        tap_ok(lives(k), "death %d: a prefix is there, and all that was flushed", k);
    tap_ok(ps_transaction_opt(add, NULL, &patient) == 0 && ps_flush() == 0, "work goes on");
    return tap_end();
}
