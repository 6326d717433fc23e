/*
 * begin.c - what begin and end cost, alone and while eight writers run; and that a snapshot's reads
 * take no lock and wait for nobody.
 *
 * The writers are eight threads of another process, each with a transaction after the other, each
 * in pages of its own. They never read a page, so while they run every shared right that the kernel
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
    pages = (volatile uint64_t *)(((uintptr_t)r->pages + KD_PAGE_BYTES - 1) &
                                  ~(uintptr_t)(KD_PAGE_BYTES - 1));
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

/* Of one that is open already, so that nothing is attached: the request and the look-ups. */
static double open_cost(const char *path)
{
    uint64_t cost = ~0ull;
    ps_container *first = ps_open(path, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    for (int i = 0; first && i < ROUNDS; i++) {
        uint64_t t = counter();
        ps_container *again = ps_open(path, PS_WRITE, PS_LAYOUT(struct root, 1));
        uint64_t t2 = counter();
        if (again != first)
            fail("opening by a path", EINVAL);
        ps_close(again);
        cost = least(cost, t2 - t);
    }
    if (!first || ps_close(first) || ps_delete(path))
        fail(path, errno);
    return (double)(cost - counter_cost());
}

static void open_rows(void)
{
    if (ps_directory_create("bench-a") || ps_directory_create("bench-a/bench-b"))
        fail("directories", EEXIST);
    double name = open_cost("bench-name"), path = open_cost("bench-a/bench-b/bench-name");
    if (ps_delete("bench-a/bench-b") || ps_delete("bench-a"))
        fail("directories", EBUSY);
    row("ps_open of a name", "instructions", name, "-");
    row("ps_open of a path of three parts", "instructions", path, "-");
    row("the same, by that of a name", "ratio", path / name, "1.3");
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

/* Until something was published that no snapshot here has seen. */
static void publication_wait(void)
{
    static uint64_t seen;
    while (system_now().publishes == seen)
        sched_yield();
    seen = system_now().publishes;
}

static void beside_writers(void)
{
    uint64_t begin[ROUNDS], running = 0, torn = 0, last = 0, most = 0, cost = counter_cost();
    container_open();
    int view = view_new(); /* from here on this thread does without libpstore's */
    long pid = self_start("--writers", NULL);
    /* until they are at work */
    for (uint64_t sum = 0; sum < WRITERS * PAGES_EACH * WARM; txn_end()) {
        sched_yield();
        txn_begin(KD_SNAPSHOT);
        sum = 0;
        (void)consistent(&sum);
    }
    struct kd_system_info before = system_now();
    struct kd_view_stats own = stats_now();
    for (int i = 0; i < ROUNDS; i++) {
        publication_wait();
        uint64_t t = counter(), sum = 0;
        txn_begin(KD_SNAPSHOT);
        begin[i] = counter() - t - cost;
        most = most_of(most, begin[i]);
        torn += !consistent(&sum);
        txn_end();
        running += sum != last;
        last = sum;
    }
    struct kd_system_info after = system_now();
    struct kd_view_stats now = stats_now();
    self_end(pid);
    view_end(view);
    printf("# eight writers: %llu commits while %d snapshots were begun, %llu of which saw new "
           "ones\n",
           (unsigned long long)(after.publishes - before.publishes), ROUNDS,
           (unsigned long long)running);
    row("begin of a snapshot while 8 writers run: median", "instructions",
        (double)median(begin, ROUNDS), "2000");
    row("begin of a snapshot while 8 writers run: most", "instructions", (double)most, "2000");
    row("reads of a snapshot while 8 writers run: waits, and messages", "events",
        (double)(now.lock_waits - own.lock_waits + now.manager_calls - own.manager_calls), "0");
    row("reads of a snapshot while 8 writers run: rights taken", "rights",
        (double)(after.grants_shared - before.grants_shared), "0");
    row("reads of a snapshot while 8 writers run: seen half of a transaction", "snapshots",
        (double)torn, "0");
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

/* ---- with 1,280 pages mapped ---- */

/* In a view: a transaction that touches all. */
static void touch_all(int view, unsigned mode, volatile char *all, int write)
{
    kd_call3(KD_VIEW_ENTER, view, 0, 0);
    txn_begin(mode);
    (void)touch(all, OBJECT_PAGES, 1, write);
    txn_end();
}

/* A begin in the view that is entered; instructions. */
static uint64_t begin_once(struct kd_begin b)
{
    uint64_t t = counter();
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    t = counter() - t;
    if (e)
        fail("begin", e);
    txn_end();
    return t - counter_cost();
}

static void begin_row(const char *what, uint64_t begun)
{
    char name[128];
    snprintf(name, sizeof name, "begin %s, most", what);
    row(name, "instructions", (double)begun, "2000");
}

static void beside_pages(void)
{
    enum { TIMES = 8 };
    manager_start();
    volatile char *all = manager_object(KD_OBJECT_TRANSACTIONAL, MANAGER_RESIDENT, 0, 0);
    int reader = view_new(), writer = view_new();
    uint64_t same = 0, changed = 0, dirty = 0, older = 0, other = 0;
    for (int i = 0; i < TIMES; i++) {
        touch_all(reader, KD_SNAPSHOT, all, 0);
        same = most_of(same, begin_once(txn_how(KD_SNAPSHOT)));
        touch_all(writer, KD_SERIALISABLE, all, 1);
        kd_call3(KD_VIEW_ENTER, reader, 0, 0);
        changed = most_of(changed, begin_once(txn_how(KD_SNAPSHOT)));
        touch_all(reader, KD_DIRTY_READ, all, 0);
        dirty = most_of(dirty, begin_once(txn_how(KD_SNAPSHOT)));
        txn_begin(KD_SNAPSHOT);
        struct kd_begin b = txn_how(KD_SNAPSHOT);
        b.snapshot = (int32_t)kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0) + 1;
        txn_end();
        touch_all(writer, KD_SERIALISABLE, all, 1);
        touch_all(reader, KD_SNAPSHOT, all, 0);
        older = most_of(older, begin_once(b));
        kd_call3(KD_HANDLE_CLOSE, b.snapshot - 1, 0, 0);
        touch_all(reader, KD_SNAPSHOT, all, 0);
        other = most_of(other, begin_once(txn_how(KD_SERIALISABLE)));
    }
    view_end(writer);
    view_end(reader);
    manager_stop();
    begin_row("of a snapshot, 1,280 pages mapped", same);
    begin_row("of a snapshot, 1,280 pages mapped and published since", changed);
    begin_row("of a snapshot after a dirty read of 1,280 pages", dirty);
    begin_row("of an older snapshot, 1,280 pages mapped", older);
    begin_row("of a transaction after a snapshot, 1,280 pages mapped", other);
}

void group_begin(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, library_main, NULL);
    pthread_join(thread, NULL);
    open_rows();
    row("empty transaction, by ps_transaction", "instructions",
        (double)(library_cost - counter_cost()), "-");
    int view = view_new();
    row("begin and end of an empty transaction, the kernel's calls", "instructions",
        begin_cost(KD_SERIALISABLE, 1), "400");
    row("begin of a snapshot", "instructions", begin_cost(KD_SNAPSHOT, 0), "2000");
    view_end(view);
    beside_pages();
    beside_writers();
}
