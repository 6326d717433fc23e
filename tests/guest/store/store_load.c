/*
 * store_load.c - the store manager under load: more data than memory, a full log, two processes.
 *
 * Aim     cleaning, eviction and reading back with checksums; checkpoints and credits while
 *         transactions run; transactions that are too big; group commit; a client that dies.
 * Method  every word of every page says where it stands and which round wrote it. Run with little
 *         memory (store_load.opts), so that most pages go home and come back.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "store_client.h"

enum { LOAD_PAGES = 16384, LOAD_TEST = 8192, PER_TXN = 512, TOO_BIG = 6000,
       THREADS = 4, ROUNDS = 200 };

static struct wire_opened box;
static uint64_t (*pages)[512];
static int memory_retries;
static uint32_t load_pages = LOAD_PAGES; /* more than memory holds */

static int child(void)
{
    struct wire_opened o;
    if (client_connect() < 0 || client_open("other", PS_WRITE, NULL, 0, 0, &o)) return 1;
    if (!client_lease(o.container, 64, NULL)) return 2;
    _exit(3); /* with the container open and pages leased */
}

static void test_client_dies(const char *self)
{
    const char *argv[] = {self, "child", NULL};
    struct kd_process_create c = {.path = self, .argv = argv, .fds = {-1, -1, -1}};
    int status = 0;
    struct wire_opened o;
    client_open("other", PS_CREATE | PS_WRITE, NULL, 0, 0, &o);
    char *mine = client_lease(o.container, 64, NULL);
    client_call(STORE_UNLEASE, (uint64_t)mine, 64, 0, NULL, 0, NULL, 0);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    kd_call3(KD_PROCESS_WAIT, c.pid, (long)&status, 0);
    tap_ok(handle >= 0 && status == 3, "another process opens the container and dies (%ld, %d)",
           handle, status);
    char *again = NULL;
    for (int i = 0; i < 10000 && again != mine; i++) {
        if (again) client_call(STORE_UNLEASE, (uint64_t)again, 64, 0, NULL, 0, NULL, 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        again = client_lease(o.container, 64, NULL);
    }
    tap_ok(mine && again == mine, "its leases end");
    tap_ok(client_name(STORE_DELETE, 0, "other") == 0, "and so does its hold on the container");
}

static uint64_t word_of(uint64_t page, uint64_t word, uint64_t round)
{
    return (page << 32 | word << 16 | round) * 0x9e3779b97f4a7c15ull;
}

struct range { uint64_t from, count, round; };

static long write_range(void *arg)
{
    const struct range *r = arg;
    for (uint64_t p = r->from; p < r->from + r->count; p++)
        for (uint64_t w = 0; w < 512; w += 64) pages[p][w] = word_of(p, w, r->round);
    return 0;
}
static long check_range(void *arg)
{
    const struct range *r = arg;
    for (uint64_t p = r->from; p < r->from + r->count; p++)
        for (uint64_t w = 0; w < 512; w++)
            if (pages[p][w] != (w % 64 ? 0 : word_of(p, w, r->round))) {
                printf("# page %llu word %llu is wrong\n", (unsigned long long)p,
                       (unsigned long long)w);
                return -EBADMSG;
            }
    return 0;
}

/* Touches all parts of the range once, so that the kernel's tables for it are there. */
static long touch_leaves(void *arg)
{
    volatile uint64_t word;
    for (uint64_t p = 0; p < load_pages; p += 64) word = pages[p][0];
    (void)word;
    (void)arg;
    return 0;
}

/* A transaction that ran out of memory for a moment is run again: others may have given some
 * back. */
static long for_all(long (*fn)(void *), uint64_t round, uint64_t step)
{
    long r = 0;
    for (uint64_t p = 0; r == 0 && p < load_pages; p += step)
        for (int tries = 0; tries < 3000; tries++) {
            r = client_run(fn, &(struct range){p, step, round});
            if (r != -ENOMEM) break;
            memory_retries++;
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    return r;
}

static void test_more_than_memory(void)
{
    pages = client_lease(box.container, load_pages, NULL);
    if (!tap_ok(pages != NULL, "a lease of %u pages", load_pages)) exit(1);
    long r = client_run(touch_leaves, NULL);
    if (r == 0) r = for_all(write_range, 1, PER_TXN);
    tap_ok(r == 0, "%u MiB are written (%ld)", load_pages / 256, r);
    struct wire_stats s = client_stats();
    tap_ok(s.checkpoints > 0 && s.home_writes > 0, "checkpoints ran (%llu, %llu pages home)",
           (unsigned long long)s.checkpoints, (unsigned long long)s.home_writes);
    r = for_all(check_range, 1, PER_TXN);
    tap_ok(r == 0, "and read back (%ld)", r);
    tap_ok(client_stats().pages_read > 1000, "many of them from the disk");
    r = for_all(write_range, 2, PER_TXN);
    if (r == 0) r = for_all(check_range, 2, PER_TXN);
    tap_ok(r == 0, "once more, over the old contents (%ld)", r);
}

static void test_too_big(void)
{
    struct range all = {0, TOO_BIG, 3};
    long r = client_run(write_range, &all);
    tap_ok(r == -E2BIG, "a transaction that half of the log cannot hold (%ld)", r);
    r = client_run(check_range, &(struct range){0, PER_TXN, 2});
    tap_ok(r == 0, "changed nothing (%ld)", r);
    r = client_run(write_range, &(struct range){0, PER_TXN, 2});
    tap_ok(r == 0, "and the next one commits (%ld)", r);
}

/* ---- several clients ---- */

static long increment(void *arg)
{
    volatile uint64_t *word = arg;
    ++*word;
    return 0;
}
static int rounds(void) { return tap_long() ? ROUNDS : ROUNDS / 2; }
static void *own_page(void *word)
{
    long r = 0;
    for (int i = 0; r == 0 && i < rounds(); i++) r = client_run(increment, word);
    return (void *)r;
}
static uint64_t sum_wanted, sum;
static long sum_read(void *arg)
{
    (void)arg;
    sum = 0;
    for (int i = 0; i < THREADS; i++) sum += pages[i * 8][1];
    return 0;
}

static void test_threads(void)
{
    pthread_t thread[THREADS];
    void *result;
    /* so that none comes for want of log meanwhile (store_load.opts: nor by the clock) */
    long bad = client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
    struct wire_stats before = client_stats();
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, own_page, &pages[i * 8][1]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        bad += result != NULL;
    }
    struct wire_stats after = client_stats();
    sum_wanted = (uint64_t)(THREADS * rounds());
    client_run(sum_read, NULL);
    tap_ok(!bad && sum == sum_wanted, "%d threads commit %d times each", THREADS, rounds());
    uint64_t commits = after.commits - before.commits, groups = after.groups - before.groups;
    tap_ok(commits == sum_wanted && groups < commits, "in %llu groups for %llu commits",
           (unsigned long long)groups, (unsigned long long)commits);
    /* an empty group may be in the air at each of both looks */
    int64_t flushes = (int64_t)(after.flushes - before.flushes - groups),
            writes = (int64_t)(after.log_writes - before.log_writes - groups);
    tap_ok(flushes >= -1 && flushes <= 1 && writes >= -1 && writes <= 1,
           "one write and one flush per group (%+ld, %+ld)", (long)writes, (long)flushes);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, own_page, &pages[0][1]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        bad += result != NULL;
    }
    sum_wanted *= 2;
    client_run(sum_read, NULL);
    tap_ok(!bad && sum == sum_wanted, "and all on one word (%llu of %llu)", (unsigned long long)sum,
           (unsigned long long)sum_wanted);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0) return child();
    tap_plan(18);
    if (!tap_long()) load_pages = LOAD_TEST;
    if (client_connect() < 0 || client_open("box", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    test_client_dies("/bin/store_load");
    test_more_than_memory();
    test_too_big();
    test_threads();
    tap_ok(client_name(STORE_DELETE, 0, "box") == 0, "delete");
    printf("# %d transactions were run again for want of memory\n", memory_retries);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
