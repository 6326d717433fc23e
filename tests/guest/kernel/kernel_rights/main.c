/*
 * kernel_rights - one short test for each rule of the transactions' protocol that a load would find
 * broken by chance only.
 *
 * Aim     HELD rights, old versions, snapshots' PTEs, tickets, deadlocks, wakes, commits under way,
 *         credits, destroyed objects. tests/system/kernel-bugs.py breaks each rule on purpose.
 * Method  own_manager.h. A second thread goes to a marked place in a transaction, and the first one
 *         looks what it may do then. Waits have time limits: too long a wait is an answer.
 */
#include "rights.h"

/* The right was used before the last look of the clock, so a TLB has it. */
static void used_is_in_a_tlb(void)
{
    other_start(reads_24, KD_SERIALISABLE);
    other_reaches(9);
    kd_call4(KD_OBJECT_ADVISE, object, 24, 1, KD_ADVISE_DONT_NEED);
    tap_ok(try_write(24, LONG_MS) == 0 && other_ends() == 0,
           "what the clock has seen used is shot down");
}

static void ends_meanwhile(void)
{
    int bad = 0;
    for (int i = 0; i < 20 && !bad; i++) {
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
    tap_ok(aborted == 1 && other.result == -EIO && value(26) == before,
           "who is doomed does not commit (%d, %d)", aborted, other.result);
    other_ends();
}

static _Atomic int writer_at, writer_result;
static pthread_mutex_t writer_go = PTHREAD_MUTEX_INITIALIZER;
static int writes_2_and_sleeps(void *arg)
{
    write_page((void *)2);
    writer_at = 1;
    pthread_mutex_lock(&writer_go);
    return arg != NULL;
}
static void *writer_main(void *arg)
{
    writer_result = run(writes_2_and_sleeps, arg, KD_SERIALISABLE, 0);
    return NULL;
}

/* The snapshot's thread has its view loaded, on the other CPU, and has mapped an old version. All
 * others sleep. */
static void destroyed(void)
{
    pthread_t writer;
    pthread_mutex_lock(&writer_go);
    pthread_create(&writer, NULL, writer_main, NULL);
    while (!writer_at) usleep(1000);
    other_start(reads_5_then_6, KD_SNAPSHOT);
    other_reaches(1);
    int e = try_write(5, LONG_MS);
    other_runs();
    tap_ok(e == 0 && kd_call3(KD_OBJECT_DESTROY, object, 0, 0) == 0,
           "an object is destroyed under a transaction and a snapshot with an old version");
    pthread_mutex_unlock(&writer_go);
    pthread_join(writer, NULL);
    other.go = 2;
    other_reaches(9);
    tap_ok(writer_result == -EOWNERDEAD && other.result == -EOWNERDEAD && check() == 0,
           "which end (%d, %d)", writer_result, other.result);
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

/* The wait for a page that is not there loads the first view's table; the second view is entered
 * with that. */
static void entered(void)
{
    int first = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0),
        second = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    long e = begin_in(first, KD_SERIALISABLE);
    *word_of(62, 0) = 77;
    if (!e) e = begin_in(second, KD_SNAPSHOT);
    int seen = read_page((void *)62);
    tap_ok(e == 0 && seen == 0,
           "a thread that enters its other view sees no copy of the first (%ld, %d)", e, seen);
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
           "a thread that waits for its own suspended view is the victim (%ld, %d, %ld)",
           e, reason, c);
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
