/*
 * kernel_unlocked.c - pages that carry no locks (KD_OBJECT_UNLOCKED).
 *
 * Aim     a reader makes no writer wait and waits for none, not even in its own transaction, and
 *         sees what is published at once; a snapshot sees its own time; two writers of one page
 *         wait for each other; nobody locks the whole object; and a publication reaches all
 *         tables page by page in the order of the first writes, which is what lets a reader find
 *         out that pages of two times met.
 * Method  own_manager.h. Each look of two threads reads the last page and then the first one: if
 *         they tell of one publication, what lies between them is of that one, unless the first
 *         has moved on meanwhile. `kernel_unlocked N`: so many commits (300).
 */
#include "own_manager.h"

enum { PAGES = 70, FIRST = 3, LAST = 66, MANY = 300 };
static struct context reader, writer, other;
static const struct kd_commit plain = {.port = -1};

static void put(uint64_t page, uint64_t value) { *word_of(page, 5) = value; }
static uint64_t get(uint64_t page) { return *word_of(page, 5); }

static long commit(struct context *c)
{
    struct kd_commit k = plain;
    in_view(c);
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
}

static long begin(struct context *c, unsigned mode, unsigned timeout_ms)
{
    return txn_open(c, (struct kd_begin){.mode = mode, .timeout_ms = timeout_ms});
}

/* This thread has readers, too: it would wait for itself, and hears EDEADLK. */
static int write_first(uint64_t value, unsigned timeout_ms)
{
    long e = begin(&writer, KD_SERIALISABLE, timeout_ms);
    int reason = setjmp(writer.env);
    if (e || reason)
        return e ? (int)e : -reason;
    put(FIRST, value);
    return (int)commit(&writer);
}

/* ---- one reader, one writer ---- */

static void neither_waits(void)
{
    bool good = write_first(7, 0) == 0 && begin(&reader, KD_SERIALISABLE, 0) == 0;
    good = good && get(FIRST) == 7;
    is(write_first(8, 500), 0, "a page that somebody reads is written");
    in_view(&reader);
    tap_ok(good && get(FIRST) == 8, "and the reader sees the new version in the same transaction");
    is(check(), 0, "kcheck");
    good = begin(&writer, KD_SERIALISABLE, 0) == 0;
    put(FIRST, 9);
    good = good && begin(&other, KD_SERIALISABLE, 500) == 0 && !setjmp(other.env);
    tap_ok(good && get(FIRST) == 8, "a page that somebody writes is read, as it was");
    is(check(), 0, "kcheck with a copy and a reader");
    good = commit(&writer) == 0;
    in_view(&other);
    tap_ok(good && get(FIRST) == 9 && commit(&other) == 0 && commit(&reader) == 0,
           "and as it is when the writer commits");
}

static void a_snapshot_stays(void)
{
    bool good = write_first(20, 0) == 0 && begin(&reader, KD_SNAPSHOT, 0) == 0 && get(FIRST) == 20;
    good = good && begin(&other, KD_SERIALISABLE, 0) == 0 && get(FIRST) == 20;
    good = good && write_first(21, 0) == 0;
    in_view(&reader);
    tap_ok(good && get(FIRST) == 20, "a snapshot sees the version of its time");
    in_view(&other);
    tap_ok(get(FIRST) == 21, "beside it, a reader without one does not");
    is(check(), 0, "kcheck with an old version");
    tap_ok(commit(&other) == 0 && commit(&reader) == 0, "both end");
}

/* One thread has both views: who would wait for the other one waits for itself. */
static void writers_wait(void)
{
    bool good = begin(&writer, KD_SERIALISABLE, 0) == 0;
    put(FIRST, 30);
    good = good && begin(&other, KD_SERIALISABLE, 0) == 0;
    int reason = setjmp(other.env);
    if (!reason)
        put(FIRST, 31);
    is(reason, EDEADLK, "two writers of one page: one waits for the other");
    tap_ok(good && commit(&writer) == 0, "which commits");
}

static void nobody_locks_it(void)
{
    bool good = begin(&reader, KD_SERIALISABLE, 0) == 0;
    is(kd_call3(KD_TXN_LOCK, (long)base, KD_LOCK_SHARED, 0), -EINVAL, "no shared lock of it");
    is(kd_call3(KD_TXN_LOCK, (long)base, 0, 0), -EINVAL, "nor an exclusive one");
    tap_ok(good && commit(&reader) == 0, "the transaction goes on");
    struct kd_object_create o = { .port = port, .commit_port = commit_port, .pages = 1,
                                  .flags = KD_OBJECT_UNLOCKED, .name = "none" };
    is(kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0), -EINVAL,
       "an object without transactions has no use");
}

/* ---- many ---- */

static _Atomic int over;
static _Atomic long looks, torn;

/* One look; whether it saw pages of one time, as far as it can tell. */
static bool look(void)
{
    uint64_t last = get(LAST), first = get(FIRST), between[3];
    if (first != last)
        return false;
    between[0] = get(FIRST + 1);
    between[1] = get(40);
    between[2] = get(LAST - 1);
    if (get(FIRST) != last)
        return false;
    for (int i = 0; i < 3; i++)
        torn += between[i] != last;
    return true;
}

static int look_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 40 && !over; i++)
        looks += look();
    return 0;
}

static void *looks_run(void *unused)
{
    static __thread struct context c;
    (void)unused;
    in_view(&c);
    while (!over)
        run(look_often, NULL, KD_SERIALISABLE, 0);
    return NULL;
}

static int write_all(void *value)
{
    put(FIRST, *(uint64_t *)value);
    put(40, *(uint64_t *)value);
    put(LAST - 1, *(uint64_t *)value);
    put(FIRST + 1, *(uint64_t *)value);
    put(LAST, *(uint64_t *)value);
    return 0;
}

static void the_order_holds(long commits)
{
    pthread_t threads[2];
    int bad = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, looks_run, NULL);
    in_view(&writer);
    for (long i = 0; i < commits || looks < commits; i++) {
        uint64_t value = 1000 + (uint64_t)i;
        bad += run(write_all, &value, KD_SERIALISABLE, 0) != 0;
    }
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is(bad, 0, "commits beside readers");
    tap_ok(torn == 0, "%ld looks, none met two times", looks);
}

int main(int argc, char **argv)
{
    tap_plan(19);
    struct own_manager how = {.pages = PAGES, .flags = KD_OBJECT_UNLOCKED};
    tap_ok(start_manager(how), "a manager of pages without locks");
    neither_waits();
    a_snapshot_stays();
    writers_wait();
    nobody_locks_it();
    the_order_holds(argc > 1 ? atol(argv[1]) : MANY);
    return tap_end();
}
