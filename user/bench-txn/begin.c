/*
 * begin.c - what begin and end cost, alone and while eight writers run; and that a snapshot's reads
 * take no lock and wait for nobody.
 *
 * The writers are eight threads of another process, each with a transaction after the other, each in
 * pages of its own. They never read a page, so while they run every shared right that the kernel
 * counts would be one of the snapshots here.
 */
#include <pthread.h>
#include <sched.h>

#include "bench.h"

enum { WRITERS = 8, PAGES_EACH = 4, ROUNDS = 200, WARM = 20 };
struct root { volatile uint64_t *pages; };
static ps_container *c;
static volatile uint64_t *pages;

static volatile uint64_t *word_of(unsigned writer, unsigned i)
{
    return pages + (writer * PAGES_EACH + i) * (KD_PAGE_BYTES / 8);
}

static int pages_find(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    if (!r->pages)
        r->pages = ps_alloc(c, (WRITERS * PAGES_EACH + 1) * KD_PAGE_BYTES, NULL);
    pages = (volatile uint64_t *)(((uintptr_t)r->pages + KD_PAGE_BYTES - 1) & ~(uintptr_t)(KD_PAGE_BYTES - 1));
    return r->pages ? 0 : -errno;
}

static void container_open(void)
{
    c = ps_open("bench-begin", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(pages_find, NULL) : -errno;
    if (e)
        fail("the container", e);
}

struct work { unsigned writer; uint64_t round; };
static int write_own(void *arg)
{
    const struct work *w = arg;
    for (unsigned i = 0; i < PAGES_EACH; i++)
        *word_of(w->writer, i) = w->round;
    return 0;
}

static void *writer_main(void *arg)
{
    struct work w = {.writer = (unsigned)(uintptr_t)arg};
    for (w.round = 1;; w.round++)
        if (ps_transaction(write_own, &w))
            fail("writing", EIO);
    return NULL;
}

int writers_main(void)
{
    pthread_t thread;
    container_open();
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&thread, NULL, writer_main, (void *)i);
    pthread_join(thread, NULL);
    return 1;
}

/* The bare calls, the least of many. */
double begin_cost(unsigned mode, int end)
{
    uint64_t cost = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        struct kd_begin b = txn_how(mode);
        struct kd_commit k = {.port = -1};
        uint64_t t = counter();
        long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
        uint64_t t2 = end ? 0 : counter();
        e = e ? e : kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
        t2 = end ? counter() : t2;
        if (e)
            fail("begin", e);
        cost = least(cost, t2 - t);
    }
    return (double)(cost - counter_cost());
}

/* All words of one snapshot; false: some writer's are of two transactions. */
static int consistent(uint64_t *sum)
{
    int same = 1;
    for (unsigned w = 0; w < WRITERS; w++)
        for (unsigned i = 0; i < PAGES_EACH; i++) {
            same &= *word_of(w, i) == *word_of(w, 0);
            *sum += *word_of(w, i);
        }
    return same;
}

static void beside_writers(void)
{
    uint64_t begin[ROUNDS], running = 0, torn = 0, first = 0, last = 0, cost = counter_cost();
    container_open();
    int view = view_new(); /* from here on this thread does without libpstore's */
    long pid = self_start("--writers", NULL);
    for (uint64_t sum = 0; sum < WRITERS * PAGES_EACH * WARM; txn_end()) { /* until they are at work */
        sched_yield();
        txn_begin(KD_SNAPSHOT);
        sum = 0;
        (void)consistent(&sum);
    }
    struct kd_system_info before = system_now();
    struct kd_view_stats own = stats_now();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter(), sum = 0;
        txn_begin(KD_SNAPSHOT);
        begin[i] = counter() - t - cost;
        torn += !consistent(&sum);
        txn_end();
        first = i ? first : sum;
        running += sum != last;
        last = sum;
        sched_yield();
    }
    struct kd_system_info after = system_now();
    struct kd_view_stats now = stats_now();
    self_end(pid);
    view_end(view);
    printf("# eight writers: %llu commits while %d snapshots were begun, %llu of which saw new ones\n",
           (unsigned long long)(after.publishes - before.publishes), ROUNDS, (unsigned long long)running);
    row("begin of a snapshot while 8 writers run", "instructions", (double)median(begin, ROUNDS), "2000");
    row("reads of a snapshot while 8 writers run: waits, and messages", "events",
        (double)(now.lock_waits - own.lock_waits + now.manager_calls - own.manager_calls), "0");
    row("reads of a snapshot while 8 writers run: rights taken", "rights",
        (double)(after.grants_shared - before.grants_shared), "0");
    row("reads of a snapshot while 8 writers run: seen half of a transaction", "snapshots", (double)torn, "0");
    ps_close(c);
    ps_delete("bench-begin");
}

static int nothing(void *unused) { return (void)unused, 0; }
static uint64_t library_cost;
static void *library_main(void *unused) /* a thread that has no view but libpstore's */
{
    library_cost = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter();
        int e = ps_transaction(nothing, NULL);
        t = counter() - t;
        if (e)
            fail("an empty transaction", e);
        library_cost = least(library_cost, t);
    }
    return unused;
}

void group_begin(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, library_main, NULL);
    pthread_join(thread, NULL);
    row("empty transaction, by ps_transaction", "instructions", (double)(library_cost - counter_cost()), "-");
    int view = view_new();
    row("begin and end of an empty transaction, the kernel's calls", "instructions",
        begin_cost(KD_SERIALISABLE, 1), "400");
    row("begin of a snapshot", "instructions", begin_cost(KD_SNAPSHOT, 0), "2000");
    view_end(view);
    beside_writers();
}
