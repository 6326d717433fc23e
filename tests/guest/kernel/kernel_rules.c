/*
 * kernel_rules.c - who waits for whom, and who is the victim: one short test for each rule of page
 * queues, of the search for deadlocks and of container locks that a load would find broken by
 * chance only.
 *
 * Aim     each order of events that a rule was made for. tests/system/kernel-bugs.py breaks each
 *         rule.
 * Method  own_manager.h. Threads run transactions that are written as words, "r40.w41": read page
 *         40, stop, write page 41. The test lets them go on one after the other, and sees in
 *         KD_VIEW_LIST that they sleep. Each has a time limit; who is aborted as a victim is
 *         counted.
 */
enum { PAGES = 256, LONG_MS = 20000, SHORT_MS = 60, ROUNDS = 20 };
#include "own_manager.h"

static void yield(void) { kd_call3(24, 0, 0, 0); }

/* ---- actors ---- */

/* r, w: reads, writes a page; .: stops; in a retry only, !: stops, u: waits until another one has
 * ended, but not for ever. */
struct actor {
    struct kd_begin how;
    const char *steps;
    unsigned page;                  /* added to each page number */
    const struct actor *until;      /* of u */
    volatile int at, go, tid, over; /* stops it came to, stops it may leave */
    volatile int ending;            /* it has done all, and commits next */
    int result;
    long aborts;
    pthread_t thread;
};

static int act(void *arg)
{
    struct actor *a = arg;
    int stops = 0;
    for (const char *s = a->steps; *s;) {
        char what = *s++, *end;
        unsigned page = a->page + (unsigned)strtoul(s, &end, 10);
        s = end;
        if (what == 'r') (void)*word_of(page, 0);
        if (what == 'w') *word_of(page, 1) = page;
        if (what == 'u' && mine->aborts)
            for (int i = 0; i < 2000 && !a->until->over; i++) yield();
        if (what == '.' || (what == '!' && mine->aborts))
            for (a->at = ++stops; a->go < stops;) yield();
    }
    a->ending = 1;
    return 0;
}

static void *actor_main(void *arg)
{
    struct actor *a = arg;
    a->tid = (int)kd_call3(186, 0, 0, 0); /* gettid */
    a->result = run_like(act, a, &a->how);
    a->aborts = mine->aborts;
    a->over = 1;
    return NULL;
}

static void enters(struct actor *a, const char *steps, unsigned ms)
{
    a->steps = steps;
    a->how.timeout_ms = ms;
    pthread_create(&a->thread, NULL, actor_main, a);
    for (int stops = strchr(steps, '.') != NULL; a->at < stops && !a->over;) yield();
}

static struct kd_view_info view_of(const struct actor *a)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (a->tid && list[i].tid == a->tid) return list[i];
    return (struct kd_view_info){0};
}

/* It stands in a queue, or waits for somebody. */
static void until_sleeps(const struct actor *a)
{
    for (int i = 0; i < 20000 && !a->over; i++) {
        struct kd_view_info v = view_of(a);
        if (v.page || v.container || v.waits[0] | v.waits[1]) return;
        yield();
    }
}

static void goes(struct actor *a) { a->go++; }
static void goes_and_sleeps(struct actor *a)
{
    goes(a);
    until_sleeps(a);
}
static void enters_and_sleeps(struct actor *a, const char *steps, unsigned ms)
{
    enters(a, steps, ms);
    until_sleeps(a);
}

static long aborts;                 /* of all that have ended since the test began */
static int ends(struct actor *a)
{
    a->go = 99;
    pthread_join(a->thread, NULL);
    aborts += a->aborts;
    return a->result;
}

/* The other CPU has something to do: who is woken comes a little later. */
static _Atomic int spin_over;
static void *spins(void *arg)
{
    while (!spin_over) {
    }
    return arg;
}
static pthread_t spinner(void)
{
    pthread_t t;
    spin_over = 0;
    pthread_create(&t, NULL, spins, NULL);
    return t;
}
static void spinner_ends(pthread_t t)
{
    spin_over = 1;
    pthread_join(t, NULL);
}

/* ---- queues ---- */

static void upgraders_go_first(void)
{
    struct actor reads = {0}, writes = {0};
    aborts = 0;
    enters(&reads, "r40.w40", LONG_MS);
    enters_and_sleeps(&writes, "w40", LONG_MS);
    int e = ends(&reads) | ends(&writes);
    tap_ok(!e && !aborts, "who has read a page writes it before those who wait for it (%d, %ld)", e,
           aborts);
}

/* Two that read the page and then write it: from then on it is taken exclusively by who reads
 * it. */
static void writers_need_no_queue(void)
{
    struct actor a = {0}, b = {0}, has = {0}, waits = {0};
    aborts = 0;
    enters(&a, "r41.w41", LONG_MS);
    enters(&b, "r41.w41", LONG_MS);
    goes_and_sleeps(&a);
    int e = ends(&b) | ends(&a);
    long victims = aborts;
    enters(&has, "r41.w41", LONG_MS);
    enters_and_sleeps(&waits, "w41", LONG_MS);
    e |= ends(&has) | ends(&waits);
    tap_ok(!e && victims == 1 && aborts == 1,
           "of two that write what both read one is a victim; who then may write stands in no "
           "queue (%d, %ld, %ld)",
           e, victims, aborts);
}

static void the_next_is_woken(void)
{
    struct actor holds = {0}, gives_up = {0}, next = {0};
    enters(&holds, "r42.", 2 * LONG_MS);
    enters_and_sleeps(&gives_up, "w42", SHORT_MS);
    enters_and_sleeps(&next, "r42", LONG_MS);
    int up = ends(&gives_up), e = ends(&next) | ends(&holds);
    tap_ok(up == -ETIMEDOUT && !e, "who gives up wakes the next one (%d, %d)", up, e);
}

/* holds -> behind (its page) -> before (the place) -> holds. */
static void places_are_edges(void)
{
    struct actor holds = {0}, before = {0}, behind = {0};
    enters(&holds, "r43.r44", LONG_MS);
    enters(&behind, "w44.r43", LONG_MS);
    enters_and_sleeps(&before, "w43", LONG_MS);
    goes_and_sleeps(&behind);
    goes_and_sleeps(&holds);
    int e = ends(&holds) | ends(&before) | ends(&behind);
    tap_ok(!e, "a deadlock through a place in a queue is found (%d)", e);
}

/* The upgrader comes to the front when `behind` sleeps, with an edge to `gives_up` only. Then that
 * one leaves. Without another look `behind` would wait for nobody, and the deadlock would be
 * none. */
static void the_last_edge_goes(void)
{
    struct actor holds = {0}, upgrades = {0}, gives_up = {0}, behind = {0};
    enters(&holds, "r45.r46", LONG_MS);
    enters(&upgrades, "r45.w45", LONG_MS);
    enters(&behind, "w46.r45", LONG_MS);
    enters_and_sleeps(&gives_up, "w45", 4 * SHORT_MS);
    goes_and_sleeps(&behind);
    goes_and_sleeps(&upgrades);
    int up = ends(&gives_up);
    goes_and_sleeps(&holds);
    int e = ends(&holds) | ends(&upgrades) | ends(&behind);
    tap_ok(up == -ETIMEDOUT && !e,
           "who loses its last edge looks again: deadlock behind an upgrader (%d, %d)", up, e);
}

/* ---- victims ---- */

static void retries_are_exclusive(void)
{
    struct actor first = {0}, victim = {0}, later = {0};
    aborts = 0;
    enters(&first, "r47.w47", LONG_MS);
    enters(&victim, "r47.!w47", LONG_MS);
    goes_and_sleeps(&first);
    goes(&victim);
    int e = ends(&first);
    while (victim.at < 2 && !victim.over) yield(); /* its retry has the page */
    enters_and_sleeps(&later, "r47w47", LONG_MS);
    e |= ends(&victim) | ends(&later);
    tap_ok(!e && aborts == 1, "a retry takes what it waited for exclusively (%d, %ld)", e, aborts);
}

/* A victim is in its retry before the one that waits for it looks. */
static void victims_keep_nothing(void)
{
    int e = 0;
    aborts = 0;
    pthread_t t = spinner();
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct actor first = {.page = 100 + i}, victim = {.page = 100 + i, .until = &first};
        enters(&first, "r0.w0", LONG_MS);
        enters(&victim, "r0.uw0", LONG_MS);
        goes_and_sleeps(&first);
        goes(&victim);
        e |= ends(&victim) | ends(&first);
    }
    spinner_ends(t);
    tap_ok(!e && aborts == ROUNDS, "a victim leaves its rights behind (%d, %ld)", e, aborts);
}

static void the_lighter_is_the_victim(void)
{
    for (int cross = 0; cross < 2; cross++) {
        struct actor light = {0}, heavy = {.how = {.weight = 5}};
        enters(&light, cross ? "w49.w50" : "r48.w48", LONG_MS);
        enters(&heavy, cross ? "w50.w49" : "r48.w48", LONG_MS);
        goes_and_sleeps(&light);
        int e = ends(&heavy) | ends(&light);
        tap_ok(!e && light.aborts == 1 && !heavy.aborts,
               "of two that %s the lighter one is the victim (%d, %ld, %ld)",
               cross ? "cross" : "write what both read", e, light.aborts, heavy.aborts);
    }
}

static int reads_and_ends_the_first(void *arg)
{
    (void)*word_of(51, 0);
    if (!mine->aborts) { /* not in a retry */
        goes_and_sleeps(arg);
        kd_call3(KD_VIEW_ABORT, (long)view_of(arg).view, EIO, 0);
    }
    *word_of(51, 1) = 1; /* the first one sleeps still, doomed */
    return 0;
}

static void doomed_ones_do_not_count(void)
{
    struct actor first = {0};
    view_anew();
    enters(&first, "r51.w51", LONG_MS);
    pthread_t t = spinner();
    int e = run(reads_and_ends_the_first, &first, KD_SERIALISABLE, LONG_MS), f = ends(&first);
    long again = mine->aborts;
    spinner_ends(t);
    tap_ok(!e && f == -EIO && !again, "an upgrader that is doomed is in nobody's way (%d, %d, %ld)",
           e, f, again);
}

static int write_page(void *page)
{
    *word_of((unsigned)(uintptr_t)page, 1) = 1;
    return 0;
}
static int write_until_it_waits(void *arg)
{
    write_page((void *)52);
    goes_and_sleeps(arg);
    return 0;
}

/* Its waiter is woken and has not looked yet when it waits for it in its turn. */
static void ends_take_edges(void)
{
    int e = 0;
    aborts = 0;
    pthread_t t = spinner();
    view_anew();
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct actor waits = {0};
        enters(&waits, "w53.w52", LONG_MS);
        e |= run(write_until_it_waits, &waits, KD_SERIALISABLE, LONG_MS);
        e |= run(write_page, (void *)53, KD_SERIALISABLE, LONG_MS) | ends(&waits);
    }
    aborts += mine->aborts;
    spinner_ends(t);
    tap_ok(!e && !aborts, "nobody waits for a transaction that has ended (%d, %ld)", e, aborts);
}

/* ---- containers ---- */

static struct kd_begin exclusive(void)
{
    return (struct kd_begin){ .mode = KD_CONTAINER_LOCK, .locked = base };
}

static void shut_out_of_the_queue(void)
{
    struct actor has = {0}, waits = {0}, locks = {.how = exclusive()};
    aborts = 0;
    enters(&has, "w54.", LONG_MS);
    enters_and_sleeps(&waits, "w54", LONG_MS);
    enters_and_sleeps(&locks, "w54", LONG_MS);
    int e = ends(&has) | ends(&locks) | ends(&waits);
    tap_ok(!e && !aborts, "who is shut out of a container is in no page's queue (%d, %ld)", e,
           aborts);
}

static int read_page(void *page) { return (int)(*word_of((unsigned)(uintptr_t)page, 0) & 0); }
static _Atomic int over;

/* reads_for_ever() faults again and again, and `has_read` counts it. While `locked` is set, another
 * transaction has the container exclusively: nobody can have read then, and not ended yet. */
static _Atomic int locked, read_while_locked;
static _Atomic long has_read;
static int read_and_look(void *page)
{
    read_page(page);
    has_read++;
    read_while_locked += locked;
    return 0;
}
static void *reads_for_ever(void *arg)
{
    struct actor *a = arg;
    a->tid = (int)kd_call3(186, 0, 0, 0); /* gettid */
    while (!over) {
        view_anew();
        run(read_and_look, (void *)60, KD_SERIALISABLE, 0);
    }
    return NULL;
}

/* The lock is held until the reader stands before it, or has read, which it must not. */
static int locked_until_shut_out(void *arg)
{
    locked = 1;
    while (!view_of(arg).container && !read_while_locked) yield();
    int bad = read_while_locked || check();
    locked = 0;
    return bad;
}

static void locked_is_locked(void)
{
    pthread_t t;
    struct kd_begin how = exclusive();
    struct actor reader = {0};
    int bad = over = 0;
    pthread_create(&t, NULL, reads_for_ever, &reader);
    for (int i = 0; i < 5 * ROUNDS && !bad; i++) {
        long before = has_read;
        while (has_read == before) yield(); /* the container is open when it faults next */
        for (int j = 0; j < i % 8; j++) yield();
        bad = run_like(locked_until_shut_out, &reader, &how);
    }
    over = 1;
    pthread_join(t, NULL);
    tap_ok(!bad, "who faults while a container is locked gets no right in it (%d)", bad);
}

/* One has read the page, and is in its view, on the other CPU; another one writes it during the
 * walk. */
static _Atomic int lap, laps_read, laps_written;
static void *reads_each_lap(void *arg)
{
    for (int i = 1; !over; i++) {
        while (lap < i && !over) {
        }
        run(read_page, arg, KD_SERIALISABLE, 0);
        laps_read = i;
    }
    return NULL;
}
static _Atomic int writes_go;
static void *writes_each_lap(void *arg)
{
    for (int i = 1; !over; i++) {
        while (writes_go < i && !over) yield();
        run(write_page, arg, KD_SERIALISABLE, 0);
        laps_written = i;
    }
    return NULL;
}
static int nothing(void *arg) { return (void)arg, 0; }

static void walks_leave_no_entry(void)
{
    pthread_t t[2];
    struct kd_begin how = exclusive();
    int e = over = 0;
    pthread_create(&t[0], NULL, reads_each_lap, (void *)61);
    pthread_create(&t[1], NULL, writes_each_lap, (void *)61);
    for (int i = 1; i <= ROUNDS; i++) {
        lap = i;
        while (laps_read < i) yield();
        writes_go = i;
        e |= run_like(nothing, NULL, &how);
        while (laps_written < i) yield();
    }
    over = 1;
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    tap_ok(!e, "a walk leaves no entry of a right that it took in a TLB (%d)", e);
}

/* ---- ends ---- */

static int count_up(void *page)
{
    ++*word_of((unsigned)(uintptr_t)page, 2);
    return 0;
}

/* A dirty read keeps no version alive: the page is published again and again while one faults on
 * it, so the version that it is about to map goes. Two frames take turns as the newest version, so
 * every other round shows it. */
static void published_under_a_fault(void)
{
    long bad = 0;
    int e = run(count_up, (void *)70, KD_SERIALISABLE, LONG_MS);
    for (int i = 0; i < ROUNDS && !e && !bad; i++) {
        struct actor sees = {.how = {.mode = KD_DIRTY_READ}};
        enters(&sees, ".r70.", LONG_MS);
        goes(&sees);
        while (sees.at < 2 && !sees.over && !e)
            e = run(count_up, (void *)70, KD_SERIALISABLE, LONG_MS);
        bad = check();
        e |= ends(&sees);
    }
    tap_ok(!e && !bad,
           "a page is published under a dirty read's fault: it maps none that went (%d, %ld)", e,
           bad);
}

/* The version that a dirty read is about to map goes with its object. */
static void destroyed_under_a_fault(void)
{
    struct actor sees = {.how = {.mode = KD_DIRTY_READ}};
    enters(&sees, ".r70.", LONG_MS);
    goes(&sees);
    int e = (int)kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    int seen = ends(&sees);
    tap_ok(!e && seen == -EOWNERDEAD, "an object is destroyed under a dirty read's fault (%d, %d)",
           e, seen);
}

static uint64_t versions(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.versions;
}

/* Two snapshots end at once. The younger one is keeper of a version that the older one needs, too,
 * which ends first. */
static void ends_leave_no_version(void)
{
    uint64_t before = versions(), kept = 0;
    int e = run(count_up, (void *)90, KD_SERIALISABLE, LONG_MS);
    for (int i = 0; i < ROUNDS && !e; i++) {
        struct actor old = {.how = {.mode = KD_SNAPSHOT}}, young = old;
        enters(&old, "r90.", LONG_MS);
        enters(&young, "r90.", LONG_MS);
        e |= run(count_up, (void *)90, KD_SERIALISABLE, LONG_MS);
        kept += versions() - before;
        goes(&old);
        while (!old.ending) yield(); /* it is first, but not by much */
        e |= ends(&young) | ends(&old);
    }
    uint64_t left = versions() - before;
    tap_ok(!e && kept == ROUNDS && !left && !check(),
           "two snapshots end at once: no version stays (%d, %lu, %lu)", e, (unsigned long)kept,
           (unsigned long)left);
}

int main(void)
{
    tap_plan(19);
    tap_ok(start_manager((struct own_manager){.pages = PAGES}),
           "an object is created and attached");
    upgraders_go_first();
    writers_need_no_queue();
    the_next_is_woken();
    places_are_edges();
    the_last_edge_goes();
    retries_are_exclusive();
    victims_keep_nothing();
    the_lighter_is_the_victim();
    doomed_ones_do_not_count();
    ends_take_edges();
    shut_out_of_the_queue();
    locked_is_locked();
    walks_leave_no_entry();
    ends_leave_no_version();
    published_under_a_fault();
    tap_ok(check() == 0, "kcheck is clean");
    destroyed_under_a_fault();
    return tap_end();
}
