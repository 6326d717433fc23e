/* pages.c - two transactions at one page, step by step. */
#include <signal.h>

#include "kernel_items.h"

static struct context a, b, c, reader;

static void two_words(void)
{
    bool good = begin(&a, KD_SERIALISABLE) == 0;
    put(1, 0, 10);
    good = good && begin(&b, KD_SERIALISABLE) == 0;
    put(1, 1, 20);
    put(1, 511, 21);
    tap_ok(good, "two transactions store to one page");
    is(check(), 0, "kcheck with two copies of a page");
    is(commit(&a), 0, "the first commits");
    is((long)at_home(1, 0), 10, "its word was told");
    is((long)at_home(1, 1), 0, "and no other one");
    in_view(&b);
    tap_ok(*word_of(1, 0) == 10 && *word_of(1, 1) == 20, "the second sees it beside its own");
    is(commit(&b), 0, "the second commits");
    tap_ok(seen(1, 0) == 10 && seen(1, 1) == 20 && seen(1, 511) == 21, "both are there");
    tap_ok(at_home(1, 0) == 10 && at_home(1, 1) == 20, "and both home");
}

/* So many words, that far apart, and a stray store between them, beside another one's copy or
 * alone: what is told is what was declared, however the kernel writes it (few_diff, runs_out). */
static bool told_is_declared(unsigned count, unsigned gap, bool beside, uint64_t value)
{
    bool good = begin(&a, KD_SERIALISABLE) == 0;
    if (beside) {
        good = good && begin(&b, KD_SERIALISABLE) == 0;
        put(4, 511, value);
        in_view(&a);
    }
    for (unsigned i = 0; i < count; i++)
        put(4, i * gap, value + i);
    *word_of(4, count * gap + 1) = 666;
    good = good && commit(&a) == 0 && (!beside || commit(&b) == 0);
    for (unsigned i = 0; i < count; i++)
        good = good && seen(4, i * gap) == value + i && at_home(4, i * gap) == value + i;
    return good && seen(4, count * gap + 1) != 666 && at_home(4, count * gap + 1) != 666 &&
           (!beside || (seen(4, 511) == value && at_home(4, 511) == value));
}

static void few_and_many(void)
{
    static const unsigned counts[] = {1, 2, 31, 32, 33, 34, 64};
    uint64_t value = 1000;
    unsigned wrong = 0;
    for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++)
        for (unsigned gap = 1; gap <= 7; gap++, value += 1000)
            wrong += !told_is_declared(counts[k], gap, gap % 2, value);
    is(wrong, 0, "few words or many, close or apart: what was declared is told and published");
}

static struct kd_view_stats stats(void)
{
    struct kd_view_stats s;
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s;
}
static uint64_t faults(void) { return stats().read_faults; }

/* What was declared and is as it was is no change: nothing of it goes to a log. */
static void unchanged(void)
{
    uint64_t logged = stats().pages_logged;
    bool good = begin(&a, KD_SERIALISABLE) == 0;
    put(1, 0, 10);
    put(1, 300, 0);
    good = good && commit(&a) == 0;
    is(good ? (long)(stats().pages_logged - logged) : -1, 0, "what did not change is not told");
}

/* A reader's entry stays, whoever commits: it takes no fault. */
static void reader_keeps_its_page(void)
{
    bool good = begin(&reader, KD_SERIALISABLE) == 0 && *word_of(1, 0) == 10;
    good = good && begin(&a, KD_SERIALISABLE) == 0;
    put(1, 2, 30);
    good = good && commit(&a) == 0;
    in_view(&reader);
    uint64_t before = faults();
    good = good && *word_of(1, 2) == 30;
    tap_ok(good && faults() == before, "who reads the page sees the next version without a fault");
    is(commit(&reader), 0, "and ends");
}

static void abort_alone(void)
{
    begin(&a, KD_SERIALISABLE);
    put(2, 0, 1);
    begin(&b, KD_SERIALISABLE);
    put(2, 1, 2);
    undo(&a);
    is(check(), 0, "kcheck after one of two was undone");
    tap_ok(commit(&b) == 0 && seen(2, 0) == 0 && seen(2, 1) == 2, "the other one stands");
}

/* One snapshot has both pages mapped, one none, when two transactions commit. */
static void snapshots(void)
{
    begin(&a, KD_SERIALISABLE);
    put(3, 0, 1);
    put(4, 0, 1);
    bool good = commit(&a) == 0 && begin(&reader, KD_SNAPSHOT) == 0;
    good = good && *word_of(3, 0) == 1 && *word_of(4, 0) == 1;
    good = good && begin(&c, KD_SNAPSHOT) == 0;
    for (uint64_t i = 2; i < 5; i++) {
        begin(&a, KD_SERIALISABLE);
        begin(&b, KD_SERIALISABLE);
        put(3, 0, i);
        in_view(&a);
        put(4, 0, i);
        put(3, 1, i);
        good = good && commit(&b) == 0 && commit(&a) == 0;
    }
    in_view(&reader);
    tap_ok(good && *word_of(3, 0) == 1 && *word_of(3, 1) == 0 && *word_of(4, 0) == 1,
           "a snapshot that had the pages sees its moment");
    in_view(&c);
    tap_ok(*word_of(3, 0) == 1 && *word_of(4, 0) == 1, "and one that had not, too");
    is(check(), 0, "kcheck with old versions");
    tap_ok(commit(&c) == 0 && commit(&reader) == 0 && begin(&reader, KD_SNAPSHOT) == 0,
           "they end, and another begins in the view of the first");
    tap_ok(*word_of(3, 0) == 4 && *word_of(3, 1) == 4 && *word_of(4, 0) == 4,
           "which sees the last version");
    commit(&reader);
}

static void additions(void)
{
    begin(&a, KD_SERIALISABLE);
    add(5, 0, 5);
    begin(&b, KD_SERIALISABLE);
    add(5, 0, 7);
    begin(&c, KD_SERIALISABLE);
    add(5, 0, -(uint64_t)1);
    bool good = commit(&b) == 0 && commit(&a) == 0;
    in_view(&c);
    tap_ok(good && *word_of(5, 0) == 11, "additions to one word add up, also in a third copy");
    tap_ok(commit(&c) == 0 && seen(5, 0) == 11 && at_home(5, 0) == 11, "and at home");
}

static void halves_of_a_word(void)
{
    begin(&a, KD_SERIALISABLE);
    ((volatile uint32_t *)word_of(5, 4))[0] = 0xfffffff0;
    declare(word_of(5, 4), 4);
    begin(&b, KD_SERIALISABLE);
    ((volatile uint32_t *)word_of(5, 4))[1] = 7;
    declare((char *)word_of(5, 4) + 4, 4);
    bool good = commit(&a) == 0 && commit(&b) == 0;
    tap_ok(good && seen(5, 4) == 0x7fffffff0 && at_home(5, 4) == 0x7fffffff0,
           "two items in one word");
}

/* A stray store meets another one's word: it is undone, and the other's word stands; the version
 * that a snapshot sees has neither. */
static void undeclared(void)
{
    begin(&reader, KD_SNAPSHOT);
    begin(&a, KD_SERIALISABLE);
    put(6, 0, 1);
    *word_of(6, 1) = 666;
    begin(&b, KD_SERIALISABLE);
    put(6, 1, 2);
    bool good = commit(&b) == 0 && begin(&c, KD_SNAPSHOT) == 0 && commit(&a) == 0;
    tap_ok(good && seen(6, 0) == 1 && seen(6, 1) == 2, "a store that was not declared is undone");
    in_view(&reader);
    good = *word_of(6, 1) == 0;
    commit(&reader);
    in_view(&c);
    tap_ok(good && *word_of(6, 1) == 2, "and no snapshot sees it, of before or between");
    commit(&c);
    begin(&a, KD_SERIALISABLE);
    for (unsigned i = 0; i < 64; i++)
        put(6, 100 + 2 * i, 7);
    *word_of(6, 101) = *word_of(6, 500) = 666;
    tap_ok(commit(&a) == 0 && seen(6, 226) == 7 && seen(6, 101) == 0 && seen(6, 500) == 0,
           "so are those beside many that were declared");
    begin(&a, KD_SERIALISABLE | KD_STRICT);
    put(6, 0, 3);
    *word_of(6, 3) = 666;
    is(commit(&a), -EIO, "with KD_STRICT the commit is refused");
    tap_ok(seen(6, 0) == 1 && seen(6, 3) == 0, "and nothing of it is seen");
    begin(&a, KD_SERIALISABLE);
    *word_of(6, 0) = 4;
    *word_of(HOME_PAGES - 1, 1) = 5;
    is(declare((void *)KD_STORE_BASE, KD_STORE_END - KD_STORE_BASE), 0,
       "a range as large as the store costs what the transaction has");
    tap_ok(commit(&a) == 0 && seen(6, 0) == 4 && seen(HOME_PAGES - 1, 1) == 5,
           "and declares all of that");
}

static long evicted(uint64_t page)
{
    return kd_call4(KD_OBJECT_ADVISE, object, (long)page, 1, KD_ADVISE_EVICT);
}

static void eviction(void)
{
    begin(&a, KD_SERIALISABLE);
    put(7, 0, 1);
    begin(&b, KD_SERIALISABLE);
    bool good = *word_of(7, 1) == 0;
    good = good && evicted(7) == 0 && page_resident(7);
    uint64_t before = faults();
    good = good && *word_of(7, 1) == 0 && faults() == before;
    tap_ok(good, "a page with a copy stays in memory, and its reader keeps it");
    good = commit(&a) == 0 && evicted(7) == 0 && page_resident(7);
    tap_ok(good, "and while it is not home");
    good = kd_call3(KD_OBJECT_CLEANED, object, 7, KD_CSN_ANY) == 0 && evicted(7) == 1;
    tap_ok(good && !page_resident(7), "then it goes");
    in_view(&b);
    tap_ok(*word_of(7, 0) == 1 && commit(&b) == 0, "and comes back to its reader");
    is(check(), 0, "kcheck");
}

/* Its frame, which came as zeros, is none of zeros any more (EV11). */
static void zeros_stored_to(void)
{
    begin(&a, KD_SERIALISABLE);
    put(HOME_PAGES, 0, 1);
    is(commit(&a) | check(), 0, "kcheck with a page that was supplied as zeros and stored to");
    kd_call3(KD_OBJECT_CLEANED, object, HOME_PAGES, KD_CSN_ANY);
}

/* One thread has all of them: who would wait for the others waits for itself. */
static void too_many_copies(void)
{
    enum { MOST = 16 };
    static struct context many[MOST + 1];
    volatile bool good = true; /* across setjmp */
    for (unsigned i = 0; i < MOST; i++) {
        good = good && begin(&many[i], KD_SERIALISABLE) == 0;
        put(8, i, i + 1);
    }
    is(check(), 0, "kcheck with sixteen copies");
    good = good && begin(&many[MOST], KD_SERIALISABLE) == 0;
    int reason = setjmp(many[MOST].env);
    if (!reason)
        put(8, 100, 1);
    is(reason, EDEADLK, "the seventeenth waits");
    for (unsigned i = 0; i < MOST; i++)
        good = good && commit(&many[i]) == 0;
    for (unsigned i = 0; i < MOST; i++)
        good = good && seen(8, i) == i + 1;
    tap_ok(good, "sixteen transactions of one page commit");
    good = begin(&many[MOST], KD_SERIALISABLE) == 0;
    put(8, 100, 1);
    tap_ok(good && commit(&many[MOST]) == 0 && seen(8, 100) == 1, "and then another one");
}

/* Where one of sixteen owners runs, nobody is undone, though another one waits for the seventeenth:
 * the edge from it is said by their manager. When it has its copy, and its manager says that it
 * waits for two of them, then it waits for both. */
static _Atomic int tries, granted, go_on;
static int one_more(void *unused)
{
    tries++;
    put(10, 100, 1);
    for (granted = 1; !go_on;)
        pause_ms(1);
    return unused != NULL;
}
static void *seventeenth(void *unused)
{
    return run(one_more, NULL, KD_SERIALISABLE, 0) ? mine : unused;
}
static long waits_for(long view, long one, long other)
{
    uint64_t on[2] = {0, 0};
    on[one / 64] |= 1ull << one % 64;
    on[other / 64] |= 1ull << other % 64;
    return kd_call3(KD_VIEW_WAIT, view, (long)on, 0);
}

/* The number of the view of this transaction; 0: of the one that waits for others. -1: none. */
static long view_of(uint64_t ticket)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (ticket ? list[i].ticket == ticket : list[i].waits[0] | list[i].waits[1])
            return (long)list[i].view;
    return -1;
}

static void one_of_them_runs(void)
{
    enum { MOST = 16 };
    static struct context many[MOST];
    pthread_t t;
    bool good = true;
    for (unsigned i = 0; i < MOST; i++) {
        good = good && begin(&many[i], KD_SERIALISABLE) == 0;
        put(10, i, i + 1);
    }
    pthread_create(&t, NULL, seventeenth, NULL);
    while (view_of(0) < 0)
        pause_ms(1);
    void *failed;
    long who = view_of(0), first = view_of(many[0].begin.ticket);
    good = good && waits_for(first, who, who) == 0;
    tap_ok(good && commit(&many[MOST - 1]) == 0, "one of sixteen commits");
    while (!granted)
        pause_ms(1);
    is(tries, 1, "the seventeenth goes on, though another one waits for that");
    in_view(&many[1]);
    is(waits_for(who, first, view_of(many[1].begin.ticket)), -EDEADLK,
       "its manager has it wait for that one and one that runs: a deadlock");
    go_on = 1;
    pthread_join(t, &failed);
    tap_ok(!failed && tries == 2, "it is done again");
    for (unsigned i = 0; i < MOST - 1; i++)
        good = good && commit(&many[i]) == 0;
    tap_ok(good && seen(10, 100) == 1 && seen(10, 0) == 1, "and all of them");
}

static long lock(unsigned how) { return kd_call3(KD_TXN_LOCK, (long)base, how | KD_LOCK_NOW, 0); }

static void container_locks(void)
{
    begin(&a, KD_SERIALISABLE);
    bool good = *word_of(9, 0) == 0;
    begin(&b, KD_SERIALISABLE);
    is(lock(0), -EBUSY, "an exclusive lock of the container waits for who has read");
    is(lock(KD_LOCK_SHARED), 0, "a shared one does not");
    undo(&b);
    in_view(&a);
    put(9, 0, 1);
    begin(&b, KD_SERIALISABLE);
    is(lock(KD_LOCK_SHARED), -EBUSY, "it waits for who has stored");
    good = good && commit(&a) == 0;
    in_view(&b);
    is(lock(0), 0, "nobody is left");
    *word_of(9, 0) = 2;
    *word_of(9, 300) = 3;
    is(check(), 0, "kcheck with the container locked");
    tap_ok(good && commit(&b) == 0 && seen(9, 0) == 2 && at_home(9, 300) == 3,
           "who has locked it declares nothing");
}

/* Starts a child that has the object. */
static int child_of(const char *what)
{
    int pid = child_start(self, "child", what);
    long e = kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    return e ? (int)e : pid;
}

static void death_of_a_writer(void)
{
    int pid = child_of("idle");
    begin(&a, KD_SERIALISABLE);
    put(GREEDY_PAGE - 1, 0, 1);
    bool good = child_has_begun(pid);
    is(check(), 0, "kcheck with a copy of another process");
    kill(pid, SIGKILL);
    child_wait(pid);
    is(check(), 0, "kcheck after its death");
    good = good && commit(&a) == 0 && seen(GREEDY_PAGE - 1, 0) == 1;
    tap_ok(good && seen(GREEDY_PAGE - 1, 1) == 0, "the other transaction goes on");
}

/* Copies do not spill: a program that wants more of them than there is memory for is the one that
 * ends, and who has few goes on. */
void memory_at_its_end(void)
{
    begin(&a, KD_SERIALISABLE);
    put(GREEDY_PAGE, 0, 1);
    int pid = child_of("greedy");
    tap_ok(pid > 0 && child_wait(pid) > 128, "a program without end of copies is ended");
    is(check(), 0, "kcheck");
    tap_ok(commit(&a) == 0 && seen(GREEDY_PAGE, 0) == 1 && seen(GREEDY_PAGE, 1) == 0,
           "another one at a page of it commits");
    is((long)seen(HOME_PAGES, 1), 0, "and there is room");
}

void pages_of_two(void)
{
    two_words();
    unchanged();
    few_and_many();
    reader_keeps_its_page();
    abort_alone();
    snapshots();
    additions();
    halves_of_a_word();
    undeclared();
    eviction();
    zeros_stored_to();
    too_many_copies();
    one_of_them_runs();
    container_locks();
    death_of_a_writer();
}
