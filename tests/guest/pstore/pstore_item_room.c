/*
 * pstore_item_room.c - items where room is short: spilling, eviction and snapshots together, memory
 * at its end; and ps_retry over items.
 *
 * Aim     in a container that has few pages in memory, transactions of items beside one that
 *         changes more than fits, and spills under a lock of the container, lose nothing, and
 *         snapshots see whole transactions; one that locks the container changes more than memory
 *         holds; who sleeps in ps_retry is woken by a change of an item's page, by who had
 *         locked the container, and if the page went out meanwhile.
 * Method  word AMOUNT of each page is moved between pages, word ROUND counts in all of them at
 *         once. The kernel says what it evicted and spilled.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "pstore_test.h"

enum { PAGES = 5600, SOME = 200, BIG = 180, IN_MEMORY = 100, MOVERS = 2, MOVES = 30, BIGS = 2,
       AMOUNT = 8, ROUND = 16, FLAG = 24, START = 100 };
static ps_container *box;
static uint64_t (*page)[512];

static int make(void *unused)
{
    (void)unused;
    uint64_t *root = ps_root(box);
    if (!ps_write(root)) return -errno;
    *root = (uint64_t)ps_alloc(box, (size_t)(PAGES + 1) * 4096, NULL);
    page = (void *)((*root + 4095) & ~4095ull);
    for (int i = 0; i < SOME && *root; i++) page[i][AMOUNT] = START;
    return *root ? 0 : -errno;
}

/* ---- together ---- */

struct mover { uint64_t seed; };
static uint64_t draw(uint64_t *x, uint64_t below)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return (*x >> 11) % below;
}

static int move(void *arg)
{
    struct mover *m = arg;
    uint64_t i = draw(&m->seed, SOME), k = draw(&m->seed, SOME);
    uint64_t *from = ps_write(&page[i][AMOUNT]), *to = ps_write(&page[k][AMOUNT]);
    if (!from || !to) return -errno;
    --*from;
    ++*to;
    return 0;
}
static void *mover(void *number)
{
    struct mover m = {(uint64_t)(uintptr_t)number * 7919 + 17};
    long bad = 0;
    for (int i = 0; i < MOVES; i++) bad += ps_transaction(move, &m) != 0;
    return (void *)bad;
}

/* Whole pages, so that they fit into no group. */
static _Atomic int big_runs;
static int big(void *unused)
{
    (void)unused;
    big_runs++;
    for (int i = 0; i < BIG; i++) {
        uint64_t *w = ps_access(&page[i][ROUND], 8 * (512 - ROUND), PS_X);
        if (!w) return -errno;
        for (int k = 0; k < 512 - ROUND; k += 8) w[k]++;
    }
    return 0;
}

static _Atomic int over, torn, good;
static int compare(void *unused)
{
    (void)unused;
    uint64_t sum = 0;
    for (int i = 0; i < SOME; i++) {
        sum += page[i][AMOUNT];
        torn += i < BIG && (page[i][ROUND] != page[0][ROUND] || page[i][504] != page[0][ROUND]);
    }
    torn += sum != SOME * START;
    return 0;
}
static void *snapshot_reader(void *unused)
{
    struct ps_options how = {.isolation = PS_SNAPSHOT};
    long bad = 0;
    while (!over) {
        int e = ps_transaction_opt(compare, unused, &how);
        pause_ms(5);
        bad += e && e != -ESTALE && e != -ENOMEM; /* copies may have all the room */
        good += !e;
    }
    return (void *)bad;
}

static int look_round(void *round) { return *(uint64_t *)round = page[BIG - 1][ROUND], 0; }

static void together(void)
{
    pthread_t thread[MOVERS + 1];
    struct kd_system_info before = system_info();
    void *result;
    long bad = ps_policy(box, PS_MEMORY, IN_MEMORY);
    uint64_t round = 0;
    for (uintptr_t i = 0; i < MOVERS; i++) pthread_create(&thread[i], NULL, mover, (void *)i);
    pthread_create(&thread[MOVERS], NULL, snapshot_reader, NULL);
    for (int i = 0; i < BIGS; i++) bad += ps_transaction(big, NULL) != 0;
    for (int i = 0; i < MOVERS; i++) pthread_join(thread[i], &result), bad += (long)result;
    while (!good) sched_yield();
    over = 1;
    pthread_join(thread[MOVERS], &result);
    bad += (long)result + ps_policy(box, PS_MEMORY, 0);
    struct kd_system_info after = system_info();
    is(bad, 0, "items beside what is too large for them, and snapshots, in little memory");
    is(torn, 0, "each snapshot saw whole transactions");
    ps_transaction(compare, NULL);
    ps_transaction(look_round, &round);
    tap_ok(torn == 0 && round == BIGS, "and nothing is lost (%lu)", round);
    tap_ok(big_runs > BIGS && after.evictions > before.evictions + SOME &&
               after.spills > before.spills,
           "%d runs of %d, %lu evictions, %lu spilled, %d snapshots", big_runs, BIGS,
           after.evictions - before.evictions, after.spills - before.spills, good);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
}

/* ---- more than memory ---- */

static int fill(void *unused)
{
    (void)unused;
    int e = ps_lock(box, 0);
    if (e) return e;
    for (int i = 0; i < PAGES; i++) {
        uint64_t *w = ps_write(&page[i][FLAG]);
        if (!w) return -errno;
        *w = (uint64_t)i;
    }
    return 0;
}
static int filled(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAGES; i++)
        if (page[i][FLAG] != (uint64_t)i) return 1;
    return 0;
}
static void more_than_memory(void)
{
    is(ps_transaction(fill, NULL), 0, "more pages than memory holds");
    is(ps_transaction(filled, NULL), 0, "are changed by who locks the container");
    is(ps_transaction(compare, NULL) + torn, 0, "and nothing else");
}

/* ---- who sleeps until an item changes ---- */

static sem_t sleeps;
static _Atomic int looks;
static void told(void *unused)
{
    (void)unused;
    sem_post(&sleeps);
}
/* The value that it waits for, of word FLAG of page 0. */
static int wait_for(void *value)
{
    looks++;
    uint64_t now = *ps_read(&page[0][FLAG]);
    if (now == *(uint64_t *)value) return 0;
    ps_on_abort(told, NULL);
    ps_retry();
}
static void *sleeper(void *value) { return (void *)(long)ps_transaction(wait_for, value); }

struct change { unsigned word; uint64_t value; int locked; };
static int change(void *arg)
{
    const struct change *how = arg;
    if (how->locked) {
        int e = ps_lock(box, 0);
        page[0][how->word] = how->value;
        return e;
    }
    uint64_t *w = ps_write(&page[0][how->word]);
    if (w) *w = how->value;
    return w ? 0 : -errno;
}

/* It is told of each change of the page, and has what it waits for behind the last one. */
static void retried(const struct change *first, const struct change *last, int goes_out,
                    const char *what)
{
    pthread_t thread;
    void *result;
    uint64_t value = last->value;
    struct change copy = *last;
    int e = 0;
    looks = 0;
    pthread_create(&thread, NULL, sleeper, &value);
    sem_wait(&sleeps);
    if (first) {
        copy = *first;
        e = ps_transaction(change, &copy);
        sem_wait(&sleeps);              /* once more */
        copy = *last;
    }
    if (goes_out) e |= ps_advise(page[0], 4096, PS_DONT_NEED) < 0;
    e |= ps_transaction(change, &copy);
    pthread_join(thread, &result);
    tap_ok(!e && !result && looks >= 2 + (first != NULL), "%s: %d looks (%d, %ld)", what, looks, e,
           (long)result);
}

static void retries(void)
{
    sem_init(&sleeps, 0, 0);
    retried(NULL, &(struct change){FLAG, 50, 0}, 0, "retry: one waits until another has written");
    retried(&(struct change){FLAG + 1, 7, 0}, &(struct change){FLAG, 51, 0}, 0,
            "retrymid: for the second of two");
    retried(NULL, &(struct change){FLAG, 52, 1}, 0, "retrylock: for who has the container");
    retried(NULL, &(struct change){FLAG, 53, 0}, 1, "retryev: and the page goes out");
}

int main(void)
{
    tap_plan(14);
    box = ps_open("item-room", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    is(box ? ps_locking(box, PS_LOCK_ITEMS) : -errno, 0, "a container in item mode");
    is(ps_transaction(make, NULL), 0, "of many pages");
    together();
    retries();
    more_than_memory();
    return tap_end();
}
