/*
 * cached.c - transactions over pages that are at hand cost what plain memory costs; writing takes a
 * fault for each page and no message; and what it costs others to take such rights away.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "bench.h"

enum { PAGES = OBJECT_PAGES, WORDS = KD_PAGE_BYTES / 8 };

static volatile uint64_t sink;

/* Instructions to read all words of so many pages. */
static uint64_t read_whole(const volatile uint64_t *words)
{
    uint64_t sum = 0, t = counter();
    for (size_t i = 0; i < (size_t)PAGES * WORDS; i++)
        sum += words[i];
    sink = sum;
    return counter() - t;
}

static void reads(void)
{
    uint64_t *plain = mmap(NULL, (size_t)PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(plain, 1, (size_t)PAGES * KD_PAGE_BYTES);
    uint64_t plain_cost = ~0ull, begin, cost;
    for (int i = 0; i < 3; i++)
        plain_cost = least(plain_cost, read_whole(plain));
    volatile char *pages = manager_object(KD_OBJECT_TRANSACTIONAL, MANAGER_RESIDENT, 0, 0);
    int view = view_new();
    txn_begin(KD_SERIALISABLE);
    (void)touch(pages, PAGES, 1, 0);
    txn_end();
    struct kd_view_stats before = stats_now();
    begin = counter();
    txn_begin(KD_SERIALISABLE);
    (void)read_whole((volatile uint64_t *)pages);
    txn_end();
    cost = counter() - begin;
    struct kd_view_stats after = stats_now();
    row("begin and end of an empty transaction, the kernel's calls, 1,280 pages mapped",
        "instructions", begin_cost(KD_SERIALISABLE, 1), "400");
    view_end(view);
    row("read transaction over 1,280 cached pages, whole pages read: faults", "faults",
        (double)(after.read_faults - before.read_faults + after.write_faults - before.write_faults),
        "0");
    row("read transaction over 1,280 cached pages, whole pages read, with begin and end",
        "times plain memory", (double)cost / (double)plain_cost, "1.02");
}

static void updates(void)
{
    volatile char *pages = manager_object(KD_OBJECT_TRANSACTIONAL, MANAGER_RESIDENT, 0, 0);
    int view = view_new();
    for (int i = 0; i < 2; i++) { /* all is cached, and each page was once written */
        txn_begin(KD_SERIALISABLE);
        (void)touch(pages, PAGES, 1, i);
        txn_end();
    }
    (void)manager_heard();
    struct kd_view_stats before = stats_now();
    txn_begin(KD_SERIALISABLE);
    uint64_t cost = touch(pages, PAGES, 1, 1);
    struct kd_view_stats after = stats_now();
    struct heard heard = manager_heard();
    txn_end();
    struct heard at_commit = manager_heard();
    view_end(view);
    row("update transaction over 1,280 cached pages: write faults", "faults",
        (double)(after.write_faults - before.write_faults), "1280");
    row("update transaction over 1,280 cached pages: other faults, and waits", "events",
        (double)(after.read_faults - before.read_faults + after.lock_waits - before.lock_waits),
        "0");
    row("update transaction over 1,280 cached pages: messages until the commit", "messages",
        (double)(heard.pages + heard.locks + heard.commits + heard.conflicts + heard.others), "0");
    row("update transaction over 1,280 cached pages: messages of the commit", "messages",
        (double)(at_commit.pages + at_commit.locks + at_commit.commits + at_commit.conflicts +
                 at_commit.others), "1");
    row("update transaction over 1,280 cached pages: a page's write", "instructions",
        (double)cost / PAGES, "-");
}

/* ---- rights that others hold ---- */

enum holder_step { HOLDS = 1, MAY_END, HAS_ENDED };
static struct { volatile char *pages; int active; volatile int step; } holder;

static void step_wait(int step)
{
    while (holder.step < step)
        sched_yield();
}

/* Reads 64 pages in a transaction; ends it at once, or when somebody waits for it. */
static void *holder_main(void *unused)
{
    (void)unused;
    int view = view_new();
    txn_begin(KD_SERIALISABLE);
    (void)touch(holder.pages, 64, 1, 0);
    if (!holder.active)
        txn_end();
    holder.step = HOLDS;
    step_wait(MAY_END);
    if (holder.active)
        txn_end();
    view_end(view);
    return NULL;
}

/* Lets the holder end when another view stands in a queue. */
static void *watcher_main(void *unused)
{
    static struct kd_view_info views[KD_VIEW_MAX];
    (void)unused;
    for (int waits = 0; !waits; sched_yield()) {
        long n = kd_call3(KD_VIEW_LIST, (long)views, KD_VIEW_MAX, 0);
        for (long i = 0; i < n; i++)
            waits |= views[i].waits[0] || views[i].waits[1];
    }
    holder.step = MAY_END;
    return NULL;
}

static struct heard write_against_holder(int active, uint64_t *cost)
{
    pthread_t thread, watcher;
    holder.pages =
        manager_object(KD_OBJECT_TRANSACTIONAL | KD_OBJECT_NOTICES, MANAGER_RESIDENT, 0, 0);
    holder.active = active;
    holder.step = 0;
    pthread_create(&thread, NULL, holder_main, NULL);
    step_wait(HOLDS);
    if (active)
        pthread_create(&watcher, NULL, watcher_main, NULL);
    int view = view_new();
    (void)manager_heard();
    txn_begin(KD_SERIALISABLE);
    *cost = touch(holder.pages, active ? 1 : 64, 1, 1);
    struct heard heard = manager_heard();
    txn_end();
    view_end(view);
    holder.step = MAY_END;
    pthread_join(thread, NULL);
    if (active)
        pthread_join(watcher, NULL);
    return heard;
}

static uint64_t write_alone(void)
{
    volatile char *pages = manager_object(KD_OBJECT_TRANSACTIONAL, MANAGER_RESIDENT, 0, 0);
    int view = view_new();
    txn_begin(KD_SERIALISABLE);
    uint64_t cost = touch(pages, 64, 1, 1);
    txn_end();
    view_end(view);
    return cost;
}

static void callbacks(void)
{
    uint64_t idle_cost, active_cost, alone = write_alone();
    struct heard idle = write_against_holder(0, &idle_cost),
                 active = write_against_holder(1, &active_cost);
    row("callback from an idle holder: messages", "messages",
        (double)(idle.pages + idle.locks + idle.commits + idle.conflicts + idle.others), "0");
    row("callback from an idle holder: beyond a first write", "instructions",
        ((double)idle_cost - (double)alone) / 64, "-");
    row("callback from an active holder: notices", "notices", (double)active.conflicts, "1");
    row("callback from an active holder: other messages", "messages",
        (double)(active.pages + active.locks + active.commits + active.others), "0");
}

void group_cached(void)
{
    manager_start();
    reads();
    updates();
    callbacks();
    manager_stop();
}
