/*
 * pstore_item_kills.c - a program that locks items dies at each step of each call.
 *
 * Aim     wherever a program is when it ends, asking for an item, a key or the container, touching,
 *         waiting, giving back, committing: its transaction is there as a whole or not at all, and
 *         all that it had or wanted can be locked by others at once; no view, copy or version is
 *         left.
 * Method  as pstore_kills.c: a child makes the calls and is killed by its n-th trace event. This
 *         process holds an item that the child waits for now and then, in a thread that takes it
 *         and ends. The clock chooses each fifth event; the long tier takes all.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "katydid/trace.h"
#include "pstore_test.h"

enum { STATUS_WRONG = 2, STATUS_END = 9, EVENTS_MAX = 3000, LOOKS_MAX = 1000000, WORDS = 16,
       START = 1000, KEY = 7, EVERY = 5 };
struct array { uint64_t word[WORDS]; int64_t sum; };
struct root { struct array *of[2]; };
static ps_container *c;
static struct array *at[2];

static int find(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root->of[0]) {
        if (!ps_write(root)) return -errno;
        for (int i = 0; i < 2; i++) {
            root->of[i] = ps_new(c, struct array, NULL);
            for (int w = 0; w < WORDS && root->of[i]; w++) root->of[i]->word[w] = START;
        }
    }
    for (int i = 0; i < 2; i++) at[i] = root->of[i];
    return at[1] ? 0 : -errno;
}

static int open_it(void)
{
    c = ps_open("item-kills", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_locking(c, PS_LOCK_ITEMS) : -errno;
    return e ? e : ps_transaction(find, NULL);
}

/* ---- the one that dies ---- */

/* Something goes from word to word, and is counted in each array. */
static int move(void *number)
{
    unsigned n = *(unsigned *)number;
    if (!ps_read(&at[0]->word[15]) || ps_release(&at[0]->word[15])) return -errno;
    int e = ps_key(c, KEY, PS_S);
    if (!e) e = ps_key(c, KEY + n, PS_X);
    for (int i = 0; i < 2 && !e; i++) {
        if (!ps_access(&at[i]->word[n], 8, PS_U)) return -errno;
        uint64_t *from = ps_write(&at[i]->word[n]), *to = ps_write(&at[1 - i]->word[n + 1]);
        if (!from || !to) return -errno;
        *from -= 5;
        *to += 5;
        e = ps_add(&at[i]->sum, 1);
    }
    return e;
}
static int move_and_fail(void *number)
{
    int e = move(number);
    return e ? e : 17;
}
static int move_locked(void *number)
{
    int e = ps_lock(c, PS_LOCK_SHARED);
    e = e ? e : ps_lock(c, 0);
    return e ? e : move(number);
}

/* 0: whole. */
static int look(void *unused)
{
    uint64_t sum = 0;
    (void)unused;
    for (int i = 0; i < 2; i++)
        for (int w = 0; w < WORDS; w++) sum += *ps_read(&at[i]->word[w]);
    return sum != 2 * WORDS * START || *ps_read(&at[0]->sum) != *ps_read(&at[1]->sum);
}

#define CALL(call, wanted)                             \
    do {                                               \
        if ((call) != (wanted))                        \
            return STATUS_WRONG + __LINE__ % 100 + 10; \
    } while (0)

static int client(const char *event)
{
    unsigned n = 3;
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    CALL(open_it(), 0);
    CALL(die_at_event(atol(event)), 0);
    CALL(ps_transaction(move, &n), 0);
    CALL(ps_transaction(move_and_fail, &n), 17);
    CALL(ps_transaction(look, NULL), 0);
    CALL(ps_transaction_opt(look, NULL, &snapshot), 0);
    CALL(ps_transaction(move_locked, &n), 0);
    CALL(ps_transaction(move, &n), 0);
    return STATUS_END;
}

/* ---- who looks at what it left ---- */

static _Atomic int over;
static _Atomic long turns;

/* Others use an item of the child's all the time, and the counters. */
static int touch_some(void *unused)
{
    (void)unused;
    uint64_t *w = ps_write(&at[0]->word[3]);
    if (!w) return -errno;
    *w += 0;
    sched_yield();
    return ps_add(&at[0]->sum, 0);
}
static void *neighbour(void *unused)
{
    long bad = 0;
    (void)unused;
    for (; !over; turns++) {
        bad += ps_transaction(touch_some, NULL) != 0;
        pause_ms(1);
    }
    return (void *)bad;
}

/* All that the dead one had is free: by items and keys, then by the container. */
static int take_all(void *unused)
{
    (void)unused;
    int e = 0;
    for (int i = 0; i < 2 && !e; i++)
        for (int w = 0; w < WORDS && !e; w++)
            if (!ps_write(&at[i]->word[w])) e = -errno;
    for (unsigned k = 0; k < WORDS && !e; k++) e = ps_key(c, KEY + k, PS_X);
    return e ? e : ps_lock(c, 0);
}

static long views(void) { return kd_call3(KD_VIEW_LIST, 0, 0, 0); }

static int is_whole(long views_before)
{
    struct ps_options soon = {.timeout_ms = 20000};
    for (int i = 0; views() != views_before && i < LOOKS_MAX; i++) sched_yield();
    int e = ps_transaction_opt(take_all, NULL, &soon);
    e = e ? e : ps_transaction(look, NULL);
    e = e ? e : (int)kd_call3(KD_CHECK, 0, 0, 0);
    return e ? e : views() != views_before ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    pthread_t thread;
    void *bad = NULL;
    char event[24];
    tap_plan(5);
    int e = open_it(), status = 0;
    is(e, 0, "a container in item mode");
    pthread_create(&thread, NULL, neighbour, NULL);
    while (!turns) sched_yield();
    is(child_run(argv[0], "0", NULL), STATUS_END, "a program makes every call");
    kd_call3(KD_TRACE, KD_TRACE_START, 0, 0);
    long before = views(), every = tap_long() ? 1 : EVERY, lives = 0;
    long n = 1 + (tap_long() ? 0 : (long)(time(NULL) % EVERY));
    for (; !e && status < STATUS_WRONG && n < EVENTS_MAX; n += every, lives++) {
        snprintf(event, sizeof event, "%ld", n);
        status = child_run(argv[0], event, NULL);
        e = is_whole(before);
        if (e) printf("# event %ld: %d\n", n, e);
    }
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    over = 1;
    pthread_join(thread, &bad);
    is(e, 0, "after each death all is whole, and free");
    tap_ok(status == STATUS_END && lives > 20, "%ld deaths, until it comes to its end alive (%d)",
           lives, status);
    is((long)bad, 0, "nobody beside was disturbed");
    return tap_end();
}
