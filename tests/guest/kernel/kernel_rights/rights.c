/* rights.c - rights over evictions, snapshots, commits and deaths. */
#include "rights.h"

static int goes_out(unsigned page)
{
    for (int rounds = 0; page_resident(page) && rounds < 30; rounds++) {
        kd_call4(KD_OBJECT_ADVISE, object, page, 1, KD_ADVISE_DONT_NEED); /* the next one to go */
        run(scan, (void *)(uintptr_t)(HOME_PAGES + rounds % SCANS * SCAN_PAGES), KD_SERIALISABLE,
            0);
    }
    return !page_resident(page);
}

void held_over_eviction(void)
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

void unused_right_to_write(void)
{
    other_start(upgrades_30, KD_SERIALISABLE);
    other_reaches(1);
    int e = run(upgrades_30_second, NULL, KD_SERIALISABLE, LONG_MS) | other_ends();
    other_start(reads_30, KD_SERIALISABLE);
    other_reaches(9);
    kd_call4(KD_OBJECT_CLEANED, object, 30, KD_CSN_ANY, 0);
    tap_ok(e == 0 && goes_out(30),
           "a right to write that an idle view never used keeps no page in memory (%d)", e);
    other_ends();
}

/* The manager has received a COMMIT, and keeps it. */
static void until_held(void)
{
    while (!held_commits) usleep(1000);
}

void waits_end(void)
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

/* A write fault copies the page before it locks anything, then finds another writer, and waits.
 * What it copied is old when it is woken. */
static _Atomic int copied_result;
static void *copier_main(void *arg)
{
    copied_result = run(writes_23_then_22, arg, KD_SERIALISABLE, LONG_MS);
    return NULL;
}

void copied_anew(void)
{
    pthread_t t;
    int before = value(22);
    other_start(writes_22, KD_SERIALISABLE);
    other_reaches(1);
    pthread_create(&t, NULL, copier_main, (void *)22);
    usleep(30000);
    other_ends();
    pthread_join(t, NULL);
    tap_ok(copied_result == 0 && value(22) == before + 2,
           "what a writer waited for is in its copy (%d, %d)", copied_result, value(22) - before);
}

static _Atomic int woken_result;
static void *waiter_main(void *arg)
{
    woken_result = try_write((unsigned)(uintptr_t)arg, LONG_MS);
    return NULL;
}

void woken_by_end(void)
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

/* commits are not answered */
static int write_and_give_up(void *arg) { return write_page((void *)3), arg ? 2 : 1; }
void committing_is_active(void)
{
    hold_commits = 1;
    other_start(reads_3_writes_4, KD_SERIALISABLE);
    until_held();
    tap_ok(try_write(3, SHORT_MS) == -ETIMEDOUT,
           "what a committing transaction read is not written");
    tap_ok(goes_out(3) && run(write_and_give_up, NULL, KD_SERIALISABLE, SHORT_MS) == -ETIMEDOUT,
           "also when it has gone out");
    hold_commits = 0;
    tap_ok(other_ends() == 0 && try_write(3, LONG_MS) == 0, "until its end");
}

void snapshots(void)
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
    tap_ok(other.result == 101,
           "a snapshot finds old versions of pages it did not touch before (%d)", other.result);
    tap_ok(try_write(5, LONG_MS) == 0, "its versions go while its thread runs on");
    other_ends();
    other.go = 9;
    tap_ok(run(reads_5_then_6, NULL, KD_SNAPSHOT, 0) == 302 &&
               try_write(5, LONG_MS) == 0 && run(read_page, (void *)5, KD_SNAPSHOT, 0) == 4 &&
               value(5) == 4,
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

void old_versions(void)
{
    int was = value(13);
    long first = shared(), second = try_write(13, LONG_MS) == 0 ? shared() : -1;
    int wrote = try_write(13, LONG_MS);
    tap_ok(wrote == 0 && versions() == 2 && seen_from(first, 13) == was &&
               seen_from(second, 13) == was + 1,
           "two commit points keep a version each");
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    tap_ok(versions() == 1 && check() == 0, "and one version goes with the one that needs it (%lu)",
           versions());
    kd_call4(KD_OBJECT_CLEANED, object, 13, KD_CSN_ANY, 0);
    tap_ok(goes_out(13) && value(13) == was + 2 && seen_from(first, 13) == was,
           "a page goes out and comes back, its old version stays");
    kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
    other_start(reads_13, KD_SNAPSHOT);
    other_reaches(1);
    tap_ok(goes_out(13) && check() == 0, "a page that a snapshot has mapped goes out");
    other_ends();
    tap_ok(other.result == (was + 2) * 101 && versions() == 0,
           "and the snapshot sees it again (%d)", other.result);
}

void tickets(void)
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

void deadlock(void)
{
    other_start(crosses, KD_SERIALISABLE);
    other_reaches(1);
    int e = run(crosses_back, NULL, KD_SERIALISABLE, LONG_MS);
    tap_ok(e == 0 && other_ends() == 0, "two that cross both end (%d, %d)", e, other.result);
}

/* Pages 20 and 21 are always equal. */
static _Atomic int pairs_over, pairs_wrong, pairs_read;
static int write_pair(void *arg)
{
    (void)arg;
    write_page((void *)20);
    write_page((void *)21);
    return 0;
}
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
        pairs_read++;
    }
    return NULL;
}
/* What a transaction has seen, a snapshot that begins later sees. */
static _Atomic int order_wrong;
static void *order_main(void *arg)
{
    while (!pairs_over) {
        int now = value(20), later = run(read_page, (void *)20, KD_SNAPSHOT, 0);
        order_wrong += later < now;
    }
    return arg;
}
void published_at_once(void)
{
    pthread_t t, t2;
    pthread_create(&t, NULL, pairs_main, NULL);
    pthread_create(&t2, NULL, order_main, NULL);
    for (int i = 0; i < 40 || pairs_read < 16; i++) /* some of these meet a publication */
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
void credits(void)
{
    long before = kd_call3(KD_CREDIT_GRANT, commit_port, 4, 0);
    struct kd_begin b = mine->begin;
    b.ticket = 0;
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    write_page((void *)10), write_page((void *)11);
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
    long after = kd_call3(KD_CREDIT_GRANT, commit_port, 1, 0);
    tap_ok(e == 0 && before == 4 && after == 5, "an abort returns its credits (%ld of %ld)", after,
           before + 1);
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
