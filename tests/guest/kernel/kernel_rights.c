/*
 * kernel_rights.c - one short test for each rule of the transactions' protocol that a load would find
 * broken by chance only.
 *
 * Aim     HELD rights, old versions, snapshots' PTEs, tickets, deadlocks, wakes, commits under way,
 *         credits, destroyed objects. tests/system/kernel-bugs.py breaks each rule on purpose.
 * Method  own_manager.h. A second thread goes to a marked place in a transaction, and the first one
 *         looks what it may do then. Waits have time limits: too long a wait is an answer.
 */
#define HOME_PAGES 64
enum { SCAN_PAGES = 1024, SCANS = 10, PAGES = HOME_PAGES + SCANS * SCAN_PAGES, SHORT_MS = 60, LONG_MS = 20000 };

struct kd_message;
static _Bool hears_of_credits(struct kd_message *m);
#include "own_manager.h"

static volatile long credits_low;       /* how often the manager was told that somebody waits for one */
static bool hears_of_credits(struct kd_message *m)
{
    credits_low += m->kind == (uint32_t)KD_MSG_CREDIT_LOW;
    return false;
}

/* ---- a second thread, at a place in a transaction ---- */

static struct {
    pthread_t thread;
    int (*body)(void *);
    unsigned mode;
    volatile int at, go;            /* where it is; how far it may go */
    volatile int result;
} other;

/* The second thread waits here in user mode, without a system call. */
static void stop_at(int place)
{
    other.at = place;
    while (other.go < place) {
    }
}

static void *other_main(void *arg)
{
    (void)arg;
    other.result = run(other.body, NULL, other.mode, 0);
    stop_at(9); /* still in its view */
    return NULL;
}

static void other_start(int (*body)(void *), unsigned mode)
{
    other.body = body;
    other.mode = mode;
    other.at = other.go = 0;
    other.result = 99;
    pthread_create(&other.thread, NULL, other_main, NULL);
}

static void other_reaches(int place)
{
    while (other.at < place)
        kd_call3(24, 0, 0, 0); /* sched_yield */
}

static int other_ends(void)
{
    other.go = 9;
    pthread_join(other.thread, NULL);
    return other.result;
}

/* ---- bodies ---- */

static int read_page(void *page) { return (int)*word_of((unsigned)(uintptr_t)page, 0); }
static int write_page(void *page) { *word_of((unsigned)(uintptr_t)page, 0) += 1; return 0; }
static int try_write(unsigned page, unsigned ms)
{
    return run(write_page, (void *)(uintptr_t)page, KD_SERIALISABLE, ms);
}
static int value(unsigned page) { return run(read_page, (void *)(uintptr_t)page, KD_SERIALISABLE, LONG_MS); }

static int reads_1(void *arg)
{
    (void)arg;
    int first = read_page((void *)1);
    stop_at(1);
    return read_page((void *)1) - first;
}
static int reads_1_by_hint(void *arg)
{
    read_page((void *)1);
    stop_at(1);
    kd_call3(KD_TXN_HINT, (long)word_of(1, 0), 1, KD_HINT_PREFETCH); /* no load of its own */
    stop_at(2);
    return (int)(uintptr_t)arg;
}
static volatile int delay; /* between a place and what comes then: it is to meet the first thread's fault */
static void wait_a_little(void)
{
    for (volatile int i = 0; i < delay; i++) {
    }
}
static int reads_24(void *arg) { (void)arg; return read_page((void *)24) & 0; }
static int reads_25_and_ends(void *arg)
{
    (void)arg;
    read_page((void *)25);
    stop_at(1);
    wait_a_little();
    return 0;
}
static int reads_32_then_33(void *arg)
{
    (void)arg;
    read_page((void *)32);
    stop_at(1);
    wait_a_little();
    return read_page((void *)33) & 0;
}
static int reads_30(void *arg) { (void)arg; return read_page((void *)30) & 0; }
static int upgrades_30(void *arg)
{
    (void)arg;
    read_page((void *)30);
    stop_at(1);
    return write_page((void *)30);
}
static int upgrades_30_second(void *arg)
{
    (void)arg;
    read_page((void *)30);
    other.go = 1;
    usleep(20000);
    return write_page((void *)30);
}
static int writes_2(void *arg)
{
    (void)arg;
    write_page((void *)2);
    stop_at(1);
    return 0;
}
static int writes_26(void *arg)
{
    (void)arg;
    write_page((void *)26);
    stop_at(1);
    return 0;
}
static int writes_22(void *arg)
{
    (void)arg;
    write_page((void *)22);
    stop_at(1);
    return 0;
}
static int writes_23_then_22(void *arg) /* 23 first: the fault of 22 is a fast one */
{
    write_page((void *)23);
    word_of(22, 0)[1] = 1;
    return write_page(arg);
}
static int reads_3_writes_4(void *arg)
{
    (void)arg;
    read_page((void *)3);
    write_page((void *)4);
    return 0;
}
static int reads_5_then_6(void *arg)
{
    (void)arg;
    int first = read_page((void *)5);
    stop_at(1);
    int sixth = read_page((void *)6);
    stop_at(2);
    return first * 100 + sixth;
}
static int crosses(void *arg)
{
    write_page((void *)7);
    if (!arg)
        stop_at(1);
    write_page((void *)8);
    return 0;
}
static int crosses_back(void *arg)
{
    (void)arg;
    write_page((void *)8);
    other.go = 1;
    usleep(20000);
    write_page((void *)7);
    return 0;
}

/* Looks at so many pages that page 1 goes out; others are in the transaction of nobody. */
static int scan(void *from)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SCAN_PAGES; i++)
        sum += *word_of((unsigned)(uintptr_t)from + i, 0);
    return sum != 0;
}

/* ---- tests ---- */

static int goes_out(unsigned page)
{
    for (int rounds = 0; page_resident(page) && rounds < 30; rounds++) {
        kd_call4(KD_OBJECT_ADVISE, object, page, 1, KD_ADVISE_DONT_NEED); /* the next one to go */
        run(scan, (void *)(uintptr_t)(HOME_PAGES + rounds % SCANS * SCAN_PAGES), KD_SERIALISABLE, 0);
    }
    return !page_resident(page);
}

static void held_over_eviction(void)
{
    other_start(reads_1, KD_SERIALISABLE);
    other_reaches(1);
    tap_ok(goes_out(1), "a page that a transaction read goes out");
    tap_ok(try_write(1, SHORT_MS) == -ETIMEDOUT, "and its right is held: nobody writes it");
    tap_ok(other_ends() == 0 && try_write(1, LONG_MS) == 0, "until its end");
    kd_call4(KD_OBJECT_CLEANED, object, 1, KD_CSN_ANY, 0);
    other_start(reads_1_by_hint, KD_SERIALISABLE);
    other_reaches(1);
    int out = goes_out(1);
    other.go = 1;
    other_reaches(2);
    tap_ok(out && try_write(1, SHORT_MS) == -ETIMEDOUT, "also when it has come back");
    other_ends();
}

/* Of two that write what both read one is a victim; then the page is taken exclusively by who reads it. */
static void unused_right_to_write(void)
{
    other_start(upgrades_30, KD_SERIALISABLE);
    other_reaches(1);
    int e = run(upgrades_30_second, NULL, KD_SERIALISABLE, LONG_MS) | other_ends();
    other_start(reads_30, KD_SERIALISABLE);
    other_reaches(9);
    kd_call4(KD_OBJECT_CLEANED, object, 30, KD_CSN_ANY, 0);
    tap_ok(e == 0 && goes_out(30), "a right to write that an idle view never used keeps no page in memory (%d)", e);
    other_ends();
}

/* The manager has received a COMMIT, and keeps it. */
static void until_held(void)
{
    while (!held_commits) usleep(1000);
}

static void waits_end(void)
{
    other_start(writes_2, KD_SERIALISABLE);
    other_reaches(1);
    tap_ok(try_write(2, SHORT_MS) == -ETIMEDOUT, "a page that is written waits for its writer");
    hold_commits = 1;
    other.go = 1;
    until_held();
    tap_ok(try_write(2, SHORT_MS) == -ETIMEDOUT, "also while it commits");
    hold_commits = 0;
    tap_ok(try_write(2, LONG_MS) == 0, "and who waits is woken by its end");
    other_ends();
    tap_ok(value(2) == 2, "both stores are there");
}

/* A write fault copies the page before it locks anything, then finds another writer, and waits. What it
 * copied is old when it is woken. */
static volatile int copied_result;
static void *copier_main(void *arg)
{
    copied_result = run(writes_23_then_22, arg, KD_SERIALISABLE, LONG_MS);
    return NULL;
}

static void copied_anew(void)
{
    pthread_t t;
    int before = value(22);
    other_start(writes_22, KD_SERIALISABLE);
    other_reaches(1);
    pthread_create(&t, NULL, copier_main, (void *)22);
    usleep(30000);
    other_ends();
    pthread_join(t, NULL);
    tap_ok(copied_result == 0 && value(22) == before + 2, "what a writer waited for is in its copy (%d, %d)",
           copied_result, value(22) - before);
}

static volatile int woken_result;
static void *waiter_main(void *arg)
{
    woken_result = try_write((unsigned)(uintptr_t)arg, LONG_MS);
    return NULL;
}

/* It sleeps before the end begins. */
static void woken_by_end(void)
{
    pthread_t t;
    other_start(reads_1, KD_SERIALISABLE);
    other_reaches(1);
    pthread_create(&t, NULL, waiter_main, (void *)1);
    usleep(30000);
    other_ends();
    pthread_join(t, NULL);
    tap_ok(woken_result == 0, "a waiter that sleeps is woken (%d)", woken_result);
}

static int write_and_give_up(void *arg) { return write_page((void *)3), arg ? 2 : 1; } /* commits are not answered */
static void committing_is_active(void)
{
    hold_commits = 1;
    other_start(reads_3_writes_4, KD_SERIALISABLE);
    until_held();
    tap_ok(try_write(3, SHORT_MS) == -ETIMEDOUT, "what a committing transaction read is not written");
    tap_ok(goes_out(3) && run(write_and_give_up, NULL, KD_SERIALISABLE, SHORT_MS) == -ETIMEDOUT,
           "also when it has gone out");
    hold_commits = 0;
    tap_ok(other_ends() == 0 && try_write(3, LONG_MS) == 0, "until its end");
}

static void snapshots(void)
{
    try_write(5, LONG_MS), try_write(6, LONG_MS);
    other_start(reads_5_then_6, KD_SNAPSHOT);
    other_reaches(1);
    tap_ok(try_write(5, LONG_MS) == 0 && try_write(6, LONG_MS) == 0, "nobody waits for a snapshot");
    other.go = 1;
    other_reaches(2);
    tap_ok(check() == 0, "kcheck is clean");
    other.go = 2;
    other_reaches(9);
    tap_ok(other.result == 101, "a snapshot finds old versions of pages it did not touch before (%d)", other.result);
    tap_ok(try_write(5, LONG_MS) == 0, "its versions go while its thread runs on");
    other_ends();
    tap_ok(run(reads_5_then_6, (other.go = 9, NULL), KD_SNAPSHOT, 0) == 302 && try_write(5, LONG_MS) == 0 &&
               run(read_page, (void *)5, KD_SNAPSHOT, 0) == 4 && value(5) == 4,
           "the next snapshot of a view, and a transaction behind it, see what is new");
}

static int share(void *arg) { *(long *)arg = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0); return 0; }
static long shared(void)
{
    long handle = -1;
    return run(share, &handle, KD_SNAPSHOT, 0) ? -1 : handle;
}
static int seen_from(long handle, unsigned page)
{
    return run_like(read_page, (void *)(uintptr_t)page,
                    &(struct kd_begin){.mode = KD_SNAPSHOT, .snapshot = (int32_t)handle + 1});
}
static unsigned long versions(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.versions;
}
static int reads_13(void *arg)
{
    (void)arg;
    int first = read_page((void *)13);
    stop_at(1);
    return first * 100 + read_page((void *)13);
}

/* A commit point needs one version of page 13, another one the next. */
static void old_versions(void)
{
    int was = value(13);
    long first = shared(), second = try_write(13, LONG_MS) == 0 ? shared() : -1;
    int wrote = try_write(13, LONG_MS);
    tap_ok(wrote == 0 && versions() == 2 && seen_from(first, 13) == was && seen_from(second, 13) == was + 1,
           "two commit points keep a version each");
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    tap_ok(versions() == 1 && check() == 0, "and one version goes with the one that needs it (%lu)", versions());
    kd_call4(KD_OBJECT_CLEANED, object, 13, KD_CSN_ANY, 0);
    tap_ok(goes_out(13) && value(13) == was + 2 && seen_from(first, 13) == was,
           "a page goes out and comes back, its old version stays");
    kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
    other_start(reads_13, KD_SNAPSHOT);
    other_reaches(1);
    tap_ok(goes_out(13) && check() == 0, "a page that a snapshot has mapped goes out");
    other_ends();
    tap_ok(other.result == (was + 2) * 101 && versions() == 0, "and the snapshot sees it again (%d)", other.result);
}

static void tickets(void)
{
    tap_ok(run(write_page, (void *)9, KD_SERIALISABLE, 0) == 0, "a view");
    struct kd_begin b = mine->begin;
    b.ticket = 0;
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    uint64_t first = b.ticket;
    kd_call3(KD_TXN_ABORT, EDEADLK, 0, 0);
    e |= kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    tap_ok(e == 0 && first && b.ticket == first, "a retry keeps its ticket");
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
}

static void deadlock(void)
{
    other_start(crosses, KD_SERIALISABLE);
    other_reaches(1);
    int e = run(crosses_back, NULL, KD_SERIALISABLE, LONG_MS);
    tap_ok(e == 0 && other_ends() == 0, "two that cross both end (%d, %d)", e, other.result);
}

/* Pages 20 and 21 are always equal. */
static volatile int pairs_over, pairs_wrong;
static int write_pair(void *arg) { (void)arg; write_page((void *)20); write_page((void *)21); return 0; }
static int read_pair(void *arg)
{
    int a = read_page((void *)20);
    for (volatile int i = 0; i < 20000; i++) {
    }
    return a != read_page((void *)21) ? *(int *)arg : 0;
}
static void *pairs_main(void *arg)
{
    int wrong = 7;
    (void)arg;
    for (int i = 0; !pairs_over; i++) {
        if (i % 2) /* it may see a commit of which one page is there */
            run(read_page, (void *)20, KD_DIRTY_READ, 0);
        pairs_wrong += run(read_pair, &wrong, KD_SNAPSHOT, 0) != 0;
    }
    return NULL;
}
/* What a transaction has seen, a snapshot that begins later sees. */
static volatile int order_wrong;
static void *order_main(void *arg)
{
    while (!pairs_over) {
        int now = value(20), later = run(read_page, (void *)20, KD_SNAPSHOT, 0);
        order_wrong += later < now;
    }
    return arg;
}
static void published_at_once(void)
{
    pthread_t t, t2;
    pthread_create(&t, NULL, pairs_main, NULL);
    pthread_create(&t2, NULL, order_main, NULL);
    for (int i = 0; i < 40; i++)
        run(write_pair, NULL, KD_SERIALISABLE, 0);
    pairs_over = 1;
    pthread_join(t, NULL);
    pthread_join(t2, NULL);
    tap_ok(pairs_wrong == 0, "a snapshot sees all of a commit or nothing (%d)", pairs_wrong);
    tap_ok(order_wrong == 0, "and what others have seen before it (%d)", order_wrong);
}

static int write_three(void *arg)
{
    write_page((void *)10), write_page((void *)11);
    return write_page((void *)12) | (arg != NULL);
}
static int write_with_a_grant(void *arg)
{
    read_page((void *)14);
    kd_call3(KD_CREDIT_GRANT, commit_port, 1, 0);
    return write_page((void *)14) | (arg != NULL);
}
static void credits(void)
{
    long before = kd_call3(KD_CREDIT_GRANT, commit_port, 4, 0);
    struct kd_begin b = mine->begin;
    b.ticket = 0;
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    write_page((void *)10), write_page((void *)11);
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
    long after = kd_call3(KD_CREDIT_GRANT, commit_port, 1, 0);
    tap_ok(e == 0 && before == 4 && after == 5, "an abort returns its credits (%ld of %ld)", after, before + 1);
    run(write_three, NULL, KD_SERIALISABLE, 0);
    long left = kd_call3(KD_CREDIT_GRANT, commit_port, 1, 0);
    tap_ok(left == after - 3 + 1, "a commit spends them (%ld)", left);
    run(write_three, NULL, KD_SERIALISABLE, 0);
    for (int i = 0; i < 10 && !e; i++) {
        pthread_t t;
        woken_result = 99;
        long told = credits_low;
        pthread_create(&t, NULL, waiter_main, (void *)13);
        while (credits_low == told) usleep(1000); /* it waits */
        e |= run(write_with_a_grant, NULL, KD_SERIALISABLE, SHORT_MS) != -ETIMEDOUT;
        pthread_join(t, NULL);
        e |= woken_result;
    }
    tap_ok(e == 0, "who waits for a credit has the next one");
    kd_call3(KD_CREDIT_GRANT, commit_port, 1000, 0);
}

/* ---- between a look and what is done then ---- */

/* The right was used before the last look of the clock, so a TLB has it. */
static void used_is_in_a_tlb(void)
{
    other_start(reads_24, KD_SERIALISABLE);
    other_reaches(9);
    kd_call4(KD_OBJECT_ADVISE, object, 24, 1, KD_ADVISE_DONT_NEED);
    tap_ok(try_write(24, LONG_MS) == 0 && other_ends() == 0, "what the clock has seen used is shot down");
}

static void ends_meanwhile(void)
{
    int bad = 0;
    for (int i = 0; i < 20; i++) {
        delay = i * 500;
        other_start(reads_25_and_ends, KD_SERIALISABLE);
        other_reaches(1);
        other.go = 1;
        bad += try_write(25, LONG_MS) != 0;
        other_ends();
    }
    tap_ok(bad == 0, "who finds a reader that ends then is woken (%d)", bad);
}

/* Neighbours of a page that is read are mapped; they may be taken until they are used. */
static void used_meanwhile(void)
{
    int bad = 0;
    kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_CLUSTER, 8);
    for (int i = 0; i < 20; i++) {
        delay = i * 500;
        try_write(33, LONG_MS);
        other_start(reads_32_then_33, KD_SERIALISABLE);
        other_reaches(1);
        other.go = 1;
        bad += try_write(33, LONG_MS) != 0;
        other_ends();
    }
    kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_CLUSTER, 0);
    tap_ok(bad == 0, "a right that comes into use is not taken (%d)", bad);
}

/* Its manager aborts it between its last touch and its commit. */
static void doomed_late(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    int before = value(26), aborted = 0;
    other_start(writes_26, KD_SERIALISABLE);
    other_reaches(1);
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].copies) aborted += kd_call3(KD_VIEW_ABORT, (long)list[i].view, EIO, 0) == 0;
    other.go = 1;
    other_reaches(9);
    tap_ok(aborted == 1 && other.result == -EIO && value(26) == before, "who is doomed does not commit (%d, %d)",
           aborted, other.result);
    other_ends();
}

static void destroyed(void)
{
    other_start(writes_2, KD_SERIALISABLE);
    other_reaches(1);
    tap_ok(kd_call3(KD_OBJECT_DESTROY, object, 0, 0) == 0, "an object is destroyed under a transaction");
    other.go = 1;
    other_reaches(9);
    tap_ok(other.result == -EOWNERDEAD && check() == 0, "which ends (%d)", other.result);
    other_ends();
}

/* ---- one thread with two views ---- */

static jmp_buf suspended_env;
static char suspended_stack[8192] __attribute__((aligned(16)));
static void on_victim(long reason) { longjmp(suspended_env, (int)reason); }

static long begin_in(int view, unsigned mode)
{
    struct kd_begin b = {.mode = mode, .timeout_ms = LONG_MS, .entry = (uint64_t)on_victim,
                         .stack = (uint64_t)(suspended_stack + sizeof suspended_stack - 8)};
    long e = kd_call3(KD_VIEW_ENTER, view, 0, 0);
    return e ? e : kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
}

/* The wait for a page that is not there loads the first view's table; the second view is entered with that. */
static void entered(void)
{
    int first = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0), second = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    long e = begin_in(first, KD_SERIALISABLE);
    *word_of(62, 0) = 77;
    if (!e) e = begin_in(second, KD_SNAPSHOT);
    int seen = read_page((void *)62);
    tap_ok(e == 0 && seen == 0, "a thread that enters its other view sees no copy of the first (%ld, %d)", e, seen);
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
    kd_call3(KD_VIEW_ENTER, first, 0, 0);
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
}

/* The one that runs waits for the one that is suspended, which is the younger, but cannot act. */
static void suspended(void)
{
    static volatile int first, second;
    struct kd_commit k = {.port = -1};
    first = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    second = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    long e = begin_in(first, KD_SERIALISABLE);
    if (!e) e = begin_in(second, KD_SERIALISABLE);
    int reason = setjmp(suspended_env);
    if (!reason && !e) {
        *word_of(3, 5) += 1;
        kd_call3(KD_VIEW_ENTER, first, 0, 0);
        *word_of(3, 5) += 1;
    }
    kd_call3(KD_VIEW_ENTER, second, 0, 0);
    long c = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    tap_ok(e == 0 && reason == EDEADLK && c == 0,
           "a thread that waits for its own suspended view is the victim (%ld, %d, %ld)", e, reason, c);
    kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    mine = NULL; /* another view was entered */
}

int main(void)
{
    tap_plan(43);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES,
                                              .messages = hears_of_credits}),
           "an object is created and attached");
    entered();
    held_over_eviction();
    tap_ok(check() == 0, "kcheck is clean");
    waits_end();
    copied_anew();
    woken_by_end();
    committing_is_active();
    snapshots();
    old_versions();
    tickets();
    suspended();
    deadlock();
    published_at_once();
    used_is_in_a_tlb();
    ends_meanwhile();
    used_meanwhile();
    doomed_late();
    credits();
    unused_right_to_write();
    tap_ok(check() == 0, "kcheck is clean");
    destroyed();
    return tap_end();
}
