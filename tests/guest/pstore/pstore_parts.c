/*
 * pstore_parts.c - transactions that change containers of two stores, while everything that takes
 * part is killed.
 *
 * Aim     both stores have all of a transaction or nothing of it: after an abort, a deadlock, a
 *         death of either manager at each step of its vote, its decision and what follows, and of
 *         the client; no snapshot sees it in one store only; what was answered is there.
 * Method  a counter in each store; transactions raise both to one number, now the one first, then
 *         the other, so that each store votes and decides in turn. pstore_parts.opts has the
 *         managers die step by step, in one life after the other; then both are killed by chance.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pstore_test.h"
#include "store_client.h"

struct root { long number, written; };
enum { STEPS = 70, KILLS = 3, CLIENTS = 16, PAIRS = 60 };

static ps_container *box[2];
static atomic_int stop, halves, snapshots, differ, lost, unknown, undone, done;

static bool open_both(void)
{
    static const char *const store[] = {"store", "store2"}, *const name[] = {"left", "right"};
    for (int i = 0; i < 2; i++)
        box[i] = ps_connect(store[i]) == 0
                     ? ps_open(name[i], PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1)) : NULL;
    return box[0] && box[1];
}

/* The one of the store that is written last decides. */
static int raise_both(void *to)
{
    long number = (long)to;
    for (int i = 0; i < 2; i++) {
        struct root *r = ps_root(box[(number + i) % 2]);
        if (!r)
            return -errno;
        r->number = number;
    }
    return 0;
}

static int read_both(void *out)
{
    for (int i = 0; i < 2; i++) {
        const struct root *r = ps_root(box[i]);
        if (!r)
            return -errno;
        ((long *)out)[i] = r->number;
    }
    return 0;
}

static bool is_away(int result)
{
    return result == -ENOTCONN || result == -EOWNERDEAD || result == -ECANCELED;
}

static const struct ps_options patient = {.timeout_ms = 60000}; /* what nobody ends is given up */

/* What is there, once both managers are; the number, or -1: the two differ. */
static long look(void)
{
    long seen[2] = {-1, -2};
    int result = -1;
    for (int i = 0; i < 30000; i++) {
        if (!is_away(result = ps_transaction_opt(read_both, seen, &patient)))
            break;
        pause_ms(2);
    }
    if (result < 0 || seen[0] != seen[1])
        printf("# look: %d, %ld and %ld\n", result, seen[0], seen[1]);
    return result == 0 && seen[0] == seen[1] ? seen[0] : -1;
}

/* One transaction, and what is there then. */
static void step(long number)
{
    long before = look();
    int result = ps_transaction_opt(raise_both, (void *)number, &patient);
    long after = look();
    differ += before < 0 || (after != before && after != number);
    lost += (result == 0 && after != number) || result == -ETIMEDOUT;
    lost += result == -ECANCELED && after != before;
    undone += result == -ECANCELED;
    unknown += result == -EOWNERDEAD || result == -EIO;
    done += result == 0;
}

/* ---- snapshots beside them ---- */

static void *snapshots_main(void *unused)
{
    const struct ps_options how = {.isolation = PS_SNAPSHOT};
    (void)unused;
    while (!stop) {
        long seen[2] = {0, 0};
        if (ps_transaction_opt(read_both, seen, &how) != 0) {
            pause_ms(1);
            continue;
        }
        snapshots++;
        halves += seen[0] != seen[1];
    }
    return NULL;
}

/* ---- each of two threads begins with its own store ---- */

static long pairs_of[2];
static int both_from(void *which)
{
    int first = (int)(long)which;
    struct root *a = ps_root(box[first]);
    a->written++;
    sched_yield();
    struct root *b = ps_root(box[!first]);
    b->written++;
    return 0;
}

static void *pairs_main(void *which)
{
    for (int i = 0; i < PAIRS; i++)
        pairs_of[(long)which] += ps_transaction(both_from, which) == 0;
    return NULL;
}

static int read_written(void *out)
{
    for (int i = 0; i < 2; i++)
        ((long *)out)[i] = ((struct root *)ps_root(box[i]))->written;
    return 0;
}

static void pairs(void)
{
    pthread_t thread[2];
    long seen[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, pairs_main, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    is(pairs_of[0] + pairs_of[1], 2 * PAIRS, "two threads, each with its own store first, all end");
    ps_transaction(read_written, seen);
    tap_ok(seen[0] == 2 * PAIRS && seen[1] == 2 * PAIRS, "and each counts in both stores");
}

/* ---- kills ---- */

/* The process of a manager: the older one is that of "store", for the other one is started
 * behind it; after deaths either is. */
static int manager(int which)
{
    static struct kd_process_info list[64];
    long n = kd_call3(KD_PROCESS_LIST, (long)list, 64, 0);
    int pid = -1;
    for (long i = 0; i < n && i < 64; i++)
        if (strcmp(list[i].name, "store") == 0 && list[i].parent == 1 && which-- == 0)
            pid = list[i].pid;
    return pid;
}

static void *kills_main(void *unused)
{
    (void)unused;
    for (int i = 0; i < KILLS; i++) {
        pause_ms(20 + 7 * i % 40);
        int pid = manager(i % 2);
        if (pid > 0)
            kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        pause_ms(150);
    }
    stop = 1;
    return NULL;
}

static void clients(void)
{
    long last = look();
    int wrong = 0;
    for (int i = 0; i < CLIENTS; i++) {
        int pid = fork();
        if (pid == 0) {
            if (!open_both())
                _exit(1);
            for (long n = 1000000 + i * 10000;; n++)
                if (ps_transaction(raise_both, (void *)n) == 0) child_begun();
        }
        (void)child_has_begun(pid);
        pause_ms(3 + 13 * i % 50);
        kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        waitpid(pid, NULL, 0);
        long now = look();
        wrong += now < 0;
        last = now;
    }
    tap_ok(wrong == 0 && last > 1000000, "clients are killed: both or none (%d wrong, %ld)", wrong,
           last);
}

int main(void)
{
    pthread_t reader, killer;
    tap_plan(11);
    if (!tap_ok(open_both(), "containers of both stores are open"))
        return 1;
    is(ps_transaction(raise_both, (void *)1), 0, "one transaction changes both");
    is(look(), 1, "they say the same");
    pthread_create(&reader, NULL, snapshots_main, NULL);
    for (long i = 2; i < STEPS && !differ; i++)
        step(i);
    tap_ok(differ == 0 && lost == 0,
           "managers die at their steps: both or none, and nothing answered is lost (%d, %d)",
           differ, lost);
    if (differ || lost)
        return tap_end(); /* somebody may wait for ever */
    tap_ok(done > 0 && undone > 0, "%d were done, %d undone, %d are not known", done, undone,
           unknown);
    pthread_create(&killer, NULL, kills_main, NULL);
    for (long i = STEPS; !stop && !differ; i++)
        step(i);
    pthread_join(killer, NULL);
    pthread_join(reader, NULL);
    tap_ok(differ == 0 && lost == 0, "managers are killed by chance: the same (%d, %d)", differ,
           lost);
    tap_ok(halves == 0 && snapshots > 0, "no snapshot of %d saw half of one (%d)", snapshots,
           halves);
    pairs();
    clients();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
