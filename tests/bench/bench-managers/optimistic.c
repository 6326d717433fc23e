/*
 * optimistic.c - transactions under two lock policies: the kernel's two-phase locks, and
 * validation at commit by the manager `optimistic`. Eight reads and a store to one of the pages,
 * four threads, another thread's turn after each access; the pages are many (conflicts are rare) or
 * few. Counted are all instructions of a transaction, and how often it was run again.
 */
#include <pthread.h>
#include <sched.h>

#include "bench.h"
#include "user/start.h"

enum { THREADS = 4, READS = 8, ROUNDS = 150, MANY = 240, FEW = 16, SYSTEM_YIELD = 24 };

static volatile uint64_t *words;
static unsigned pages;
static long tries;                      /* atomic */

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}

static int body(void *seed)
{
    uint64_t x = *(uint64_t *)seed, page = 0, sum = 0; /* the same pages when it runs again */
    __atomic_fetch_add(&tries, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READS; i++) {
        page = next(&x) % pages;
        sum += words[page * KD_PAGE_BYTES / 8];
        sched_yield();
    }
    words[page * KD_PAGE_BYTES / 8] = sum + 1;
    return 0;
}

static void *work(void *number)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull * (uint64_t)(uintptr_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        next(&seed);
        int e = ps_transaction(body, &seed);
        if (e)
            fail("a transaction", e);
    }
    return NULL;
}

static void measure(const char *policy, unsigned count)
{
    pthread_t threads[THREADS];
    char name[120];
    uint64_t t;
    pages = count;
    for (int round = 0; round < 2; round++) { /* the first one brings the pages */
        tries = 0;
        t = counter();
        for (uintptr_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, work, (void *)(i + 1));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        t = counter() - t;
    }
    const char *many = count == MANY ? "rare" : "frequent";
    snprintf(name, sizeof name, "%s, conflicts %s: a transaction of eight reads and a write",
             policy, many);
    row(name, "instructions", (double)t / (THREADS * ROUNDS), "-");
    snprintf(name, sizeof name, "%s, conflicts %s: run again", policy, many);
    row(name, "of 1,000", 1000.0 * (double)(tries - THREADS * ROUNDS) / (THREADS * ROUNDS), "-");
}

static void policy_run(const char *policy, const char *how, int strict)
{
    const char *argv[] = {"optimistic", policy, "1", how, NULL};
    long pid = start_program("/bin/optimistic", argv, 0, 1);
    if (pid < 0)
        fail("/bin/optimistic", pid);
    while (!(words = km_open(policy, policy, KM_READ | KM_WRITE)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    (void)ps_strict(strict);
    measure(policy, MANY);
    measure(policy, FEW);
    server_end(pid);
}

static void run(void)
{
    policy_run("locks", "locks", 0);
    policy_run("validated", NULL, 1);
    (void)ps_strict(0);
}

const struct part optimistic_part = {"optimistic", run, NULL};
