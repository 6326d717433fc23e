/*
 * kernel_locks.c - locks of whole containers, and that nobody starves.
 *
 * Aim     what a shared and an exclusive lock admit; draining; FIFO; deadlocks through them;
 *         escalation; readers and writers of one page both get through.
 * Method  own_manager.h. One thread holds, others try with a time limit; then a storm of threads
 *         that lock, read and write at random and keep a sum.
 */
enum { PAGES = 256, STORM_THREADS = 6, STORM_ROUNDS = 150, STREAMS = 5, WRITES = 40,
       SURE_MS = 20000 };
#include "own_manager.h"

static struct kd_begin exclusive(unsigned timeout_ms)
{
    return (struct kd_begin){.mode = KD_CONTAINER_LOCK, .locked = base, .timeout_ms = timeout_ms};
}
static struct kd_begin shared(unsigned timeout_ms)
{
    struct kd_begin b = exclusive(timeout_ms);
    b.mode |= KD_LOCKED_SHARED;
    return b;
}

static long lock_now(unsigned how)
{
    return kd_call3(KD_TXN_LOCK, (long)base, how | KD_LOCK_NOW, 0);
}
static void yield(void) { kd_call3(24, 0, 0, 0); }

static _Atomic int step;
static void until(int n)
{
    while (step < n)
        yield();
}

static int nothing(void *arg) { (void)arg; return 0; }
static int read_page(void *arg) { return (int)(*word_of((unsigned)(uintptr_t)arg, 0) & 0); }
static int write_page(void *arg)
{
    *word_of((unsigned)(uintptr_t)arg, 0) += 1;
    return 0;
}

/* ---- a holder in a thread of its own ---- */

struct holder {
    struct kd_begin how;
    int (*body)(void *);
    int result;
    long aborts;
    pthread_t thread;
};
static int hold_until_2(void *arg)
{
    (void)arg;
    step = 1;
    until(2);
    return 0;
}
static int touch_and_hold(void *arg)
{
    *word_of(200, 0) = 1;
    (void)*word_of(201, 0);
    hold_until_2(arg);
    (void)*word_of(90, 0); /* new pages while it is drained: it may go on */
    *word_of(91, 0) = 1;
    return 0;
}
static void *holder_main(void *arg)
{
    struct holder *h = arg;
    h->result = run_like(h->body, NULL, &h->how);
    h->aborts = mine->aborts;
    return NULL;
}
static struct holder h;
static void hold(struct kd_begin how, int (*body)(void *))
{
    h = (struct holder){.how = how, .body = body, .result = -1};
    step = 0;
    pthread_create(&h.thread, NULL, holder_main, &h);
    until(1);
}
static int hold_ends(void)
{
    step = 2;
    pthread_join(h.thread, NULL);
    return h.result;
}

static void what_is_admitted(void)
{
    struct kd_begin x = exclusive(30), s = shared(30);
    hold(exclusive(0), hold_until_2);
    tap_ok(run(read_page, (void *)3, KD_SERIALISABLE, 30) == -ETIMEDOUT, "exclusive: nobody reads");
    tap_ok(run(write_page, (void *)3, KD_SERIALISABLE, 30) == -ETIMEDOUT, "nobody writes");
    tap_ok(run_like(nothing, NULL, &s) == -ETIMEDOUT && run_like(nothing, NULL, &x) == -ETIMEDOUT,
           "nobody locks");
    tap_ok(run(read_page, (void *)3, KD_SNAPSHOT, SURE_MS) == 0, "a snapshot reads");
    tap_ok(hold_ends() == 0, "the holder commits");
    tap_ok(run(write_page, (void *)3, KD_SERIALISABLE, SURE_MS) == 0, "and the container is free");

    hold(shared(0), hold_until_2);
    tap_ok(run(read_page, (void *)3, KD_SERIALISABLE, SURE_MS) == 0, "shared: others read");
    s = shared(SURE_MS);
    tap_ok(run_like(nothing, NULL, &s) == 0, "and lock it shared");
    tap_ok(run(write_page, (void *)3, KD_SERIALISABLE, 30) == -ETIMEDOUT, "nobody writes");
    tap_ok(run_like(nothing, NULL, &x) == -ETIMEDOUT, "nobody locks it exclusively");
    tap_ok(hold_ends() == 0 && run(write_page, (void *)3, KD_SERIALISABLE, SURE_MS) == 0,
           "then it is free");
}

static int try_both(void *arg)
{
    (void)arg;
    if (lock_now(0) != -EBUSY) /* pages that a running transaction has used */
        return 1;
    return lock_now(KD_LOCK_SHARED) == -EBUSY ? 0 : 2;
}
static int lock_twice(void *arg)
{
    (void)arg;
    long a = lock_now(KD_LOCK_SHARED), b = lock_now(KD_LOCK_SHARED), c = lock_now(0),
         d = lock_now(0);
    *word_of(7, 0) = 1;
    return a || b || c || d || kd_call3(KD_TXN_LOCK, 4096, 0, 0) != -ENOENT ||
           kd_call3(KD_TXN_LOCK, (long)base, 64, 0) != -EINVAL;
}

static void draining(void)
{
    hold((struct kd_begin){0}, touch_and_hold);
    tap_ok(run(try_both, NULL, KD_SERIALISABLE, 0) == 0,
           "not without waiting while pages are in use");
    pthread_t t;
    struct holder locker = {.how = exclusive(0), .body = nothing, .result = -1};
    pthread_create(&t, NULL, holder_main, &locker);
    for (int i = 0; i < 20; i++)
        yield();
    int early = locker.result;
    tap_ok(hold_ends() == 0, "a transaction that is waited for gets new pages, and commits");
    pthread_join(t, NULL);
    tap_ok(early == -1 && locker.result == 0, "the lock comes after it");
    tap_ok(h.aborts + locker.aborts == 0, "and neither is a victim");
    tap_ok(run(lock_twice, NULL, KD_SERIALISABLE, 0) == 0,
           "locks in a transaction; shared becomes exclusive");
    tap_ok(run(write_page, (void *)7, KD_SERIALISABLE, SURE_MS) == 0,
           "all of it ends with the transaction");
}

/* ---- who waits for whom ---- */

/* So many views stand in the container's queue; or with `waiting`, wait for anybody. */
static void until_waiting(int wanted, bool waiting)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    for (int found = 0; found < wanted; yield()) {
        long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
        found = 0;
        for (long i = 0; i < n; i++)
            found += waiting ? (list[i].waits[0] | list[i].waits[1]) != 0 : list[i].container != 0;
    }
}

static int shared_now(void *arg) { (void)arg; return (int)lock_now(KD_LOCK_SHARED); }
static _Atomic int second_at, second_go;
static int second_holds(void *arg)
{
    (void)arg;
    *word_of(210, 0) = 1;
    second_at = 1;
    while (!second_go)
        yield();
    return 0;
}
/* It has a right that it used, and locks at its begin. */
static void *reader_then_locker(void *arg)
{
    run(read_page, (void *)3, KD_SERIALISABLE, 0);
    return holder_main(arg);
}

/* A view without rights; during the lock's first walk it may be let in. */
static int newcomer(unsigned page)
{
    int e = 0;
    for (unsigned i = 0; i < 300 && e != -ETIMEDOUT; i++) {
        view_anew();
        e = run(read_page, (void *)(uintptr_t)page, KD_SERIALISABLE, 30);
    }
    return e;
}

static void who_waits(void)
{
    pthread_t t, t2;
    struct holder locker = {.how = exclusive(0), .body = nothing, .result = -1};
    struct holder second = {.body = second_holds, .result = -1};
    hold(shared(0), hold_until_2);
    pthread_create(&t, NULL, holder_main, &locker);
    until_waiting(1, false);
    tap_ok(run(shared_now, NULL, KD_SERIALISABLE, 0) == -EBUSY, "a lock waits for its turn");
    hold_ends();
    pthread_join(t, NULL);

    hold((struct kd_begin){0}, touch_and_hold);
    pthread_create(&t2, NULL, holder_main, &second);
    while (!second_at)
        yield();
    locker.result = -1;
    pthread_create(&t, NULL, holder_main, &locker);
    until_waiting(1, true);
    tap_ok(newcomer(100) == -ETIMEDOUT, "while a container is drained nobody new gets in");
    tap_ok(hold_ends() == 0, "one of two that it waits for ends");
    second_go = 1;
    pthread_join(t, NULL);
    pthread_join(t2, NULL);
    tap_ok(second.result == 0 && locker.result == 0 && second.aborts + locker.aborts == 0,
           "then the other, then it");
}

/* Who waits for its first lock has used nothing in its transaction: what it kept from earlier ones
 * goes. */
static void untouched(void)
{
    pthread_t t[2];
    struct holder first = {.how = exclusive(0), .body = nothing, .result = -1}, reader = first;
    hold(shared(0), hold_until_2);
    pthread_create(&t[0], NULL, holder_main, &first);
    until_waiting(1, false);
    pthread_create(&t[1], NULL, reader_then_locker, &reader);
    until_waiting(2, false);
    hold_ends();
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    tap_ok(first.result == 0 && reader.result == 0 && first.aborts + reader.aborts == 0,
           "rights of who waits for its first lock are in nobody's way (%ld)",
           first.aborts + reader.aborts);
}

/* Whoever waits for its first lock has written nothing, not even its own struct kd_begin in a
 * container. */
static int put_begin(void *arg)
{
    struct kd_begin *inside = arg, how = exclusive(0);
    *inside = how;
    inside->entry = inside->stack = (uint64_t)arg; /* nobody aborts it */
    return 0;
}
static void begin_in_a_container(void)
{
    struct kd_begin *inside = (void *)word_of(3, 0);
    run(put_begin, inside, KD_SERIALISABLE, 0);
    long e = kd_call3(KD_TXN_BEGIN, (long)inside, 0, 0), running = kd_call3(KD_TXN_ABORT, 1, 0, 0);
    tap_ok(e == -EFAULT && running == -ENOENT,
           "no transaction begins with its struct in a container (%ld, %ld)", e, running);
}

/* The one that was waited for begins again, while another one is still waited for. */
static _Atomic int again_result;
static int reads_and_holds(void *arg)
{
    (void)*word_of(150, 0);
    return hold_until_2(arg);
}
static void *twice(void *arg)
{
    (void)arg;
    run(reads_and_holds, NULL, KD_SERIALISABLE, 0);
    again_result = run(read_page, (void *)151, KD_SERIALISABLE, 30);
    return NULL;
}
static void ends_are_ends(void)
{
    pthread_t t, t2, t3;
    struct holder locker = {.how = exclusive(0), .body = nothing, .result = -1};
    struct holder second = {.body = second_holds, .result = -1};
    second_at = second_go = step = 0;
    pthread_create(&t2, NULL, holder_main, &second);
    while (!second_at)
        yield();
    pthread_create(&t3, NULL, twice, NULL);
    until(1);
    pthread_create(&t, NULL, holder_main, &locker);
    until_waiting(1, true);
    (void)newcomer(160); /* until the first walk is over */
    step = 2;
    pthread_join(t3, NULL);
    tap_ok(again_result == -ETIMEDOUT, "whose transaction ended is new (%d)", again_result);
    second_go = 1;
    pthread_join(t, NULL);
    pthread_join(t2, NULL);
}

/* ---- beside the walks of others ---- */

static _Atomic int walks_over;
static void *walker(void *arg)
{
    struct kd_begin how = shared(0);
    while (!walks_over)
        run_like(nothing, arg, &how);
    return NULL;
}
static int pages_at_random(void *arg)
{
    static unsigned seed;
    unsigned page = __atomic_add_fetch(&seed, 97, __ATOMIC_RELAXED) % 64; /* of the first leaf */
    if (page % 2)
        (void)*word_of(page, 0);
    else
        *word_of(page, 3) = page;
    (void)arg;
    return 0;
}
static void *toucher(void *arg)
{
    while (!walks_over)
        for (volatile int i = run(pages_at_random, arg, KD_SERIALISABLE, 0); i < 20000; i++) {
        } /* most of the time it is idle */
    return NULL;
}
static int checks(void *arg) { (void)arg; return check() != 0; }

static void beside_walks(void)
{
    pthread_t t[1];
    int wrote = 0, bad = 0;
    hold(shared(0), hold_until_2);
    walks_over = 0;
    pthread_create(&t[0], NULL, walker, NULL);
    for (int i = 0; i < 60; i++)
        wrote += run(write_page, (void *)33, KD_SERIALISABLE, 2) == 0;
    walks_over = 1;
    pthread_join(t[0], NULL);
    tap_ok(wrote == 0 && hold_ends() == 0,
           "who has it shared is safe from writers while others lock it, too (%d)", wrote);
    walks_over = 0;
    pthread_create(&t[0], NULL, toucher, NULL);
    struct kd_begin how = exclusive(0);
    for (int i = 0; i < 25; i++)
        bad += run_like(checks, NULL, &how) != 0;
    walks_over = 1;
    pthread_join(t[0], NULL);
    tap_ok(bad == 0, "nobody has a right in a container that is locked (%d)", bad);
}

/* ---- two that lock shared and then want to write: one is a victim, both get through ---- */

static int shared_then_write(void *arg)
{
    (void)arg;
    if (kd_call3(KD_TXN_LOCK, (long)base, KD_LOCK_SHARED, 0))
        return 1;
    for (int i = 0; i < 10; i++)
        yield();
    *word_of(30, 0) += 1;
    return 0;
}
static void *upgrader(void *arg)
{
    for (int i = 0; i < 50; i++)
        *(int *)arg |= run(shared_then_write, NULL, KD_SERIALISABLE, 0);
    return NULL;
}
static int is_100(void *arg) { (void)arg; return *word_of(30, 0) == 100 ? 0 : 1; }

static void upgrades(void)
{
    pthread_t t[2];
    int bad[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, upgrader, &bad[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    tap_ok(!bad[0] && !bad[1] && run(is_100, NULL, KD_SERIALISABLE, 0) == 0,
           "shared locks that become writers: victims run again, no increment is lost");
}

/* ---- escalation ---- */

static uint64_t escalations(void) { return system_info().escalations; }
static int jump_over(void *arg)
{
    for (unsigned i = 0; i < PAGES; i++)
        (void)*word_of(i * 67 % PAGES, 1);
    *(uint64_t *)arg = escalations();
    return 0;
}

static void escalation(void)
{
    uint64_t before = escalations(), within = 0;
    kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_ESCALATE, 16);
    view_anew();
    int e = run(jump_over, &within, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && within == before + 1, "after 16 faults a transaction has the container");
    hold((struct kd_begin){0}, touch_and_hold);
    before = escalations();
    view_anew();
    e = run(jump_over, &within, KD_SERIALISABLE, 30);
    tap_ok((e == 0 || e == -ETIMEDOUT) && escalations() == before,
           "not while another one writes in it, and it is not waited for");
    hold_ends();
    kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_ESCALATE, 0);
}

/* ---- a leaf that is walked in portions, as many views have rights in it ---- */

enum { CROWD = 12, CROWD_PAGES = 64 };
static pthread_barrier_t crowd;
static int read_leaf(void *unused)
{
    for (unsigned i = 0; i < CROWD_PAGES; i++)
        (void)*word_of(i, 0);
    return unused != NULL;
}
static void *one_of_crowd(void *unused)
{
    run(read_leaf, NULL, KD_SERIALISABLE, 0);
    pthread_barrier_wait(&crowd);
    pthread_barrier_wait(&crowd);
    return unused;
}
static int check_locked(void *unused) { return unused || check(); }

static void portions(void)
{
    pthread_t t[CROWD];
    struct kd_begin x = exclusive(0);
    pthread_barrier_init(&crowd, NULL, CROWD + 1);
    for (int i = 0; i < CROWD; i++)
        pthread_create(&t[i], NULL, one_of_crowd, NULL);
    pthread_barrier_wait(&crowd);
    tap_ok(run_like(check_locked, NULL, &x) == 0,
           "a lock takes the rights of %d views to all pages of a leaf", CROWD);
    pthread_barrier_wait(&crowd);
    for (int i = 0; i < CROWD; i++)
        pthread_join(t[i], NULL);
}

/* ---- a storm ---- */

static int add_one(void *arg)
{
    unsigned r = *(unsigned *)arg;
    if (r % 7 == 0 && kd_call3(KD_TXN_LOCK, (long)base, r % 2 ? KD_LOCK_SHARED : 0, 0))
        return 1;
    volatile uint64_t *from = word_of(32 + r % 24, 0), *to = word_of(32 + r / 24 % 24, 0);
    uint64_t f = *from, t = *to;
    if (r % 11 == 0 && kd_call3(KD_TXN_LOCK, (long)base, 0, 0))
        return 2;
    if (from != to)
        *from = f - 1, *to = t + 1;
    return 0;
}
static int sum_is_zero(void *arg)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < 24; i++)
        sum += *word_of(32 + i, 0);
    *(uint64_t *)arg = sum;
    return 0;
}
static _Atomic int storm_bad;
static void *storm_thread(void *arg)
{
    unsigned r = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < STORM_ROUNDS; i++) {
        uint64_t sum = 0;
        r = r * 1103515245 + 12345;
        unsigned choice = r >> 8;
        struct kd_begin how = i % 9 == 0   ? exclusive(0)
                              : i % 5 == 0 ? shared(0)
                                           : (struct kd_begin){ 0 };
        int e = i % 5 == 0 ? run_like(sum_is_zero, &sum, &how) : run_like(add_one, &choice, &how);
        if (e || sum)
            storm_bad = e ? e : 1000;
    }
    return NULL;
}

static void storm(void)
{
    pthread_t t[STORM_THREADS];
    for (uintptr_t i = 0; i < STORM_THREADS; i++)
        pthread_create(&t[i], NULL, storm_thread, (void *)(i + 1));
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(t[i], NULL);
    uint64_t sum = 1;
    int e = run(sum_is_zero, &sum, KD_SERIALISABLE, 0);
    tap_ok(storm_bad == 0 && e == 0 && sum == 0,
           "%d threads lock, read and write: every reader sees the sum (%d)",
           STORM_THREADS, storm_bad);
    tap_ok(check() == 0, "kcheck is clean");
}

/* ---- nobody starves ---- */

static _Atomic int stream_ends;
static _Atomic long reads_done, locks_done;
static int read_a_while(void *arg)
{
    (void)*word_of((unsigned)(uintptr_t)arg, 0);
    for (int i = 0; i < 3; i++)
        yield();
    return 0;
}
static void *read_stream(void *arg)
{
    while (!stream_ends)
        if (run(read_a_while, arg, KD_SERIALISABLE, 0) == 0)
            __atomic_fetch_add(&reads_done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
static void *lock_stream(void *arg)
{
    struct kd_begin how = exclusive(0);
    (void)arg;
    while (!stream_ends)
        if (run_like(nothing, NULL, &how) == 0)
            __atomic_fetch_add(&locks_done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
static void *write_stream(void *arg)
{
    while (!stream_ends)
        run(write_page, arg, KD_SERIALISABLE, 0);
    return NULL;
}

static void streams(void *(*stream)(void *), int n, int (*body)(void *), const char *what)
{
    pthread_t t[STREAMS];
    int bad = 0;
    stream_ends = 0;
    for (int i = 0; i < n; i++)
        pthread_create(&t[i], NULL, stream, (void *)60);
    for (int i = 0; i < WRITES; i++)
        bad |= run(body, (void *)60, KD_SERIALISABLE, SURE_MS);
    stream_ends = 1;
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    tap_ok(bad == 0, "%s (%d)", what, bad);
}

/* A long transaction against many short ones that write what it read: with a new ticket for each
 * retry it would always be the youngest. */
static int long_one(void *arg)
{
    for (unsigned i = 60; i < 64; i++) {
        *word_of(i, 1) += 1;
        for (int k = 0; k < 5; k++)
            yield();
    }
    (void)arg;
    return 0;
}
static int backwards(void *arg)
{
    for (unsigned i = 64; i-- > 60;)
        *word_of(i, 2) += 1;
    (void)arg;
    return 0;
}
static void *short_stream(void *arg)
{
    while (!stream_ends)
        run(backwards, arg, KD_SERIALISABLE, 0);
    return NULL;
}

int main(void)
{
    tap_plan(39);
    tap_ok(start_manager((struct own_manager){.pages = PAGES}),
           "an object is created and attached");
    what_is_admitted();
    draining();
    who_waits();
    untouched();
    begin_in_a_container();
    ends_are_ends();
    beside_walks();
    upgrades();
    escalation();
    portions();
    storm();
    streams(read_stream, STREAMS, write_page, "a writer gets through a stream of readers");
    streams(write_stream, STREAMS, read_page, "a reader gets through a stream of writers");
    streams(lock_stream, STREAMS, write_page, "a page fault gets through a stream of locks");
    long before = mine->aborts;
    streams(short_stream, STREAMS, long_one,
            "a long transaction keeps its ticket and gets through short ones");
    tap_ok(mine->aborts - before < WRITES * 20, "after %ld retries in %d transactions",
           mine->aborts - before, WRITES);
    tap_ok(check() == 0, "kcheck is clean");
    return tap_end();
}
