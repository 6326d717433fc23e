/* waits.c - helpers wait: who is a deadlock's victim, and how long a client waits for them. */
#include "parts.h"

static _Atomic int step, arrived;
static void until(_Atomic int *x, int n)
{
    while (*x < n) sched_yield();
}

/* Does so many views wait for others? */
static void until_waiting(long n)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    for (long waiting = 0; waiting < n; sched_yield()) {
        long all = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
        waiting = 0;
        for (long i = 0; i < all; i++) waiting += (list[i].waits[0] | list[i].waits[1]) != 0;
    }
}

struct job { pthread_t thread; struct change c; _Atomic int result; };
static void *job_main(void *arg)
{
    struct job *j = arg;
    j->result = run(write_both, &j->c, KD_SERIALISABLE, 0);
    view_anew();
    return NULL;
}
static void job_start(struct job *j, uint64_t base, uint64_t page, uint64_t value)
{
    j->c = (struct change){base, page, value, 0};
    pthread_create(&j->thread, NULL, job_main, j);
}
static int job_end(struct job *j)
{
    pthread_join(j->thread, NULL);
    return j->result;
}

/* Reads what the helper of another transaction will write, then what that one has written. */
static _Atomic long tries;
static int read_across(void *arg)
{
    uint64_t sum = *word_of(6, 0);
    if (tries++ == 0) {
        step = 1;
        until_waiting(1);
    }
    sum += *word_at(upper.base, 6, 3);
    *(uint64_t *)arg = sum;
    return 0;
}
static void *reader_main(void *sum)
{
    int e = run(read_across, sum, KD_SERIALISABLE, 0);
    view_anew();
    return (void *)(long)e;
}

static void reader(void)
{
    pthread_t t;
    struct job j;
    uint64_t sum = 0;
    void *e;
    commit_both(upper.base, 6, 1, 0);
    tries = step = 0;
    pthread_create(&t, NULL, reader_main, &sum);
    until(&step, 1);
    long commits = upper.commits;
    job_start(&j, upper.base, 6, 2);
    int committed = job_end(&j);
    pthread_join(t, &e);
    tap_ok(committed == 0 && upper.commits == commits + 1 && tries == 2 && !e,
           "a reader of both layers is the victim, not the commit (%d, %ld)", committed, tries);
    tap_ok(is_now(upper.base, 6, 2, 7), "and all is well");
}

/* Reads the pages of both helpers, the first time when both have written: pages that no thread of
 * the manager has a right to from before, or one that waits here would keep out the other. */
enum { A_PAGE = 26, B_PAGE };
static int meets(struct stacked *s, uint64_t view)
{
    (void)view;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    until(&arrived, 2);
    return (int)((*word_at(s->below, A_PAGE, 0) + *word_at(s->below, B_PAGE, 0)) & 0);
}

static void packed(void)
{
    struct job a, b;
    uint64_t deadlocks = system_info().deadlocks;
    long commits = upper.commits;
    arrived = 0;
    upper.beside = meets;
    job_start(&a, upper.base, A_PAGE, 3);
    job_start(&b, upper.base, B_PAGE, 4);
    int one = job_end(&a), two = job_end(&b);
    upper.beside = NULL;
    tap_ok(one == 0 && two == 0 && system_info().deadlocks > deadlocks &&
               upper.commits == commits + 2,
           "helpers that wait for each other: one begins anew, its client hears nothing (%d, %d)",
           one, two);
    tap_ok(is_now(upper.base, A_PAGE, 3, 7) && is_now(upper.base, B_PAGE, 4, 7), "and all is well");
}

/* Reads what the helper of another will write, and asks the same manager, which has one thread. */
static int write_behind(void *arg)
{
    (void)arg;
    (void)*word_at(single.below, 1, 0);
    *word_at(single.base, 2, 3) = 22;
    if (tries++ == 0) {
        step = 1;
        until_waiting(1);
    }
    return 0;
}

static void *behind_main(void *unused)
{
    (void)unused;
    int e = run(write_behind, NULL, KD_SERIALISABLE, 0);
    view_anew();
    return (void *)(long)e;
}

static void thread(void)
{
    struct job j;
    tries = step = 0;
    commit_both(single.base, 1, 10, 0);
    commit_both(single.base, 2, 20, 0);
    pthread_t t;
    pthread_create(&t, NULL, behind_main, NULL);
    until(&step, 1);
    job_start(&j, single.base, 1, 11);
    void *e;
    pthread_join(t, &e);
    int other = job_end(&j);
    tap_ok(!e && other == 0, "a commit waits for a thread that waits for its locks (%ld, %d)",
           (long)e, other);
    tap_ok(is_now(single.base, 1, 11, 7) && is_now(single.base, 2, 22, 7), "and all is well");
}

void part_deadlocks(void)
{
    reader();
    packed();
    thread();
}

/* ---- a manager that stalls, or lies ---- */

static _Atomic int stalled, go_on;
static int stalls(struct stacked *s, uint64_t view)
{
    (void)s, (void)view;
    stalled = 1;
    until(&go_on, 1);
    return 0;
}

/* It gives up by itself, long after any limit: who then commits has waited without one. */
static int stalls_long(struct stacked *s, uint64_t view)
{
    enum { LATE_MS = 20000, STEP_MS = 50 }; /* in steps so long that their sum is about that */
    (void)s, (void)view;
    stalled = 1;
    for (int ms = 0; !go_on && ms < LATE_MS; ms += STEP_MS) pause_ms(STEP_MS);
    return 0;
}

/* The limit of the process: from the last store on, as no page is to be late by it. */
static unsigned answer_ms;
static void limit_answer(uint64_t ms)
{
    uint64_t both[2] = {ms, ~0ull};
    kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_ANSWER, (long)both, 0); /* prlimit64 */
}
static int write_limited(void *change)
{
    int e = write_both(change);
    limit_answer(answer_ms);
    return e;
}

static void stalls_by_process(void)
{
    struct change c = {upper.base, 2, 1, 1};
    int e = 0;
    stalled = go_on = 0;
    upper.beside = stalls_long;
    for (answer_ms = 100; !stalled; answer_ms *= 2) /* long enough to get that far */
        e = run(write_limited, &c, KD_SERIALISABLE, 0);
    limit_answer(~0ull);
    upper.beside = NULL;
    tap_ok(e == -ETIMEDOUT && is_now(upper.base, 2, 79, 7),
           "or that of its process, how long it waits for managers (%d)", e);
    upper.outcome = 0;
    go_on = 1;
    while (!upper.outcome) sched_yield();
    tap_ok(upper.outcome < 0 && is_now(upper.base, 2, 79, 7), "and the helper comes too late");
}

void part_stalls(void)
{
    upper.beside = stalls;
    struct change c = {upper.base, 2, 1, 1};
    int e = -ETIMEDOUT;
    for (unsigned ms = 20; e == -ETIMEDOUT && !stalled; ms *= 2) /* long enough to get that far */
        e = run(write_both, &c, KD_SERIALISABLE, ms);
    upper.beside = NULL;
    tap_ok(e == -ETIMEDOUT && stalled && is_now(upper.base, 2, 79, 7),
           "a manager stalls: its client's time limit takes the commit back (%d)", e);
    upper.outcome = 0;
    go_on = 1;
    while (!upper.outcome) sched_yield();
    tap_ok(upper.outcome < 0 && is_now(upper.base, 2, 79, 7), "and its helper comes too late (%ld)",
           upper.outcome);
    stalls_by_process();
    upper.blind = true;
    e = commit_both(upper.base, 2, 1, 8);
    upper.blind = false;
    tap_ok(e == 0 && is_now(upper.base, 2, 79, 8),
           "a manager that looks at no changes harms its own container alone (%d)", e);
}
