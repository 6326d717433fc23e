/*
 * kernel_recall.c - rights of pages: given for all or for one touch, called back, given up.
 *
 * Aim     a right that was called back is in no view: idle ones lose it at once, who uses the page
 *         goes on to its end and is counted, newcomers ask; the last end is told; who was just
 *         given a right has its first use before any recall; who gives nothing back is aborted, or
 *         detached. KD_TXN_RELEASE, KD_HINT_EXCLUSIVE.
 * Method  own_manager.h. Its thread answers as `answer` says, and counts; the test calls back.
 */
enum { PAGES = 64, LONG_MS = 20000, KEPT_MAX = 8 };
#include "own_manager.h"
#include <sched.h>

enum { RW = KD_READ | KD_WRITE };

/* How a question is answered: for its touch; for all; for all, and called back at once; kept. */
static volatile enum { ONE, ALL, ALL_AND_BACK, KEEP } answer;
static _Atomic long asked, asked_write, told, back_used;
static struct kd_message kept[KEPT_MAX];
static _Atomic int kept_count;

static long grant(const struct kd_message *m, long rights, bool all)
{
    return kd_call6(KD_OBJECT_GRANT, object, (long)m->word[1], 1, rights,
                    all ? 0 : (long)m->word[6], 0);
}
static long recall_users(long page, long count, long to, uint64_t users[2])
{
    return kd_call6(KD_OBJECT_RECALL, object, page, count, to, (long)users, 0);
}
static long recall(long page, long to) { return recall_users(page, 1, to, NULL); }

static bool hears(struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_RECALLED)
        told += m->word[0] == 7;
    if (m->kind != (uint32_t)KD_MSG_PAGE || !(m->word[3] & KD_PAGE_HERE))
        return m->kind == (uint32_t)KD_MSG_RECALLED;
    long wanted = m->word[3] & KD_WRITE ? RW : KD_READ;
    asked_write += wanted == RW;
    asked++;
    int how = answer; /* who is granted this may set the next one before the manager goes on */
    if (how == KEEP)
        kept[kept_count++ % KEPT_MAX] = *m;
    else
        grant(m, wanted, how != ONE);
    if (how == ALL_AND_BACK)
        back_used = recall((long)m->word[1], 0);
    return true;
}

static void *number(unsigned page) { return (void *)(uintptr_t)page; }
static unsigned page_of(void *p) { return (unsigned)(uintptr_t)p; }
static int reads(void *page) { return (int)(*word_of(page_of(page), 0) & 0); }
static int writes(void *page) { return (int)(++*word_of(page_of(page), 0) & 0); }
static int stores(void *page) { *word_of(page_of(page), 1) = 5; return 0; } /* no load */
static uint8_t bits_of(unsigned page)
{
    uint8_t bits = 0;
    kd_call4(KD_OBJECT_INFO, object, page, 1, (long)&bits);
    return bits;
}

/* How often was it asked? */
static long asks(int (*body)(void *), unsigned page)
{
    long before = asked;
    int e = run(body, number(page), KD_SERIALISABLE, LONG_MS);
    return e ? e : asked - before;
}

static void idle_rights(void)
{
    answer = ALL;
    tap_ok(asks(reads, 1) == 1 && asks(reads, 1) == 0, "a right for all is asked for once");
    tap_ok(recall(1, 0) == 0 && bits_of(1) & KD_PAGE_CLOSED, "an idle view's right goes at once");
    tap_ok(asks(reads, 1) == 1, "then it is asked for again");
    tap_ok(asks(writes, 1) == 1 && asked_write == 1, "a right to read is none to write");
    tap_ok(recall(1, KD_READ) == 0 && asks(reads, 1) == 0, "called back to read: it may be read");
    tap_ok(asks(writes, 1) == 1, "and a store asks");
    tap_ok(recall(1, KD_RECALL_DROP) == 0 && page_resident(1), "a dirty page stays in memory");
    kd_call3(KD_OBJECT_CLEANED, object, 1, (long)KD_CSN_ANY);
    tap_ok(recall(1, KD_RECALL_DROP) == 0 && !page_resident(1), "a clean one leaves it");
    tap_ok(asks(reads, 1) == 1 && *home[1] == 2, "and comes back with what was committed");
}

/* ---- pages in somebody's hands ---- */

static struct hand {
    int (*body)(void *), (*next)(void *);
    unsigned page, then;         /* then: another touch of the page; 0: none; 1: load, 2: store */
    _Atomic int at, go, result, view;
} hand;
static int holds(void *arg)
{
    (void)arg;
    hand.body(number(hand.page));
    hand.at = 1;
    while (!hand.go)
        sched_yield();
    return hand.then == 2 ? writes(number(hand.page)) : hand.then ? reads(number(hand.page)) : 0;
}
static void *holder(void *arg)
{
    hand.result = run(holds, NULL, KD_SERIALISABLE, 0);
    return arg;
}
static pthread_t hold(int (*body)(void *), unsigned page, unsigned then)
{
    pthread_t t;
    hand = (struct hand){.body = body, .page = page, .then = then};
    pthread_create(&t, NULL, holder, NULL);
    while (!hand.at)
        sched_yield();
    return t;
}
static void let_go(pthread_t t)
{
    hand.go = 1;
    pthread_join(t, NULL);
}
static bool told_is(long n)
{
    while (told < n)
        sched_yield();
    return told == n;
}

static struct toucher { int (*body)(void *); unsigned page; volatile int result; } toucher;
static void *touch_main(void *arg)
{
    toucher.result = run(toucher.body, number(toucher.page), KD_SERIALISABLE, LONG_MS);
    return arg;
}
static pthread_t touch(int (*body)(void *), unsigned page)
{
    pthread_t t;
    toucher = (struct toucher){body, page, 1};
    pthread_create(&t, NULL, touch_main, NULL);
    return t;
}

/* Two pages are called back, each with a user of its own: who wants the one waits for its user
 * alone. The question behind tells that the manager has heard all before. */
static _Atomic long told_first;
static int holds_another(void *page)
{
    reads(page);
    pthread_t t = hold(reads, 14, 0);
    told_first = told;
    recall_users(14, 2, 0, NULL);
    let_go(t);
    int e = reads(number(16));
    told_first = told - told_first;
    return e;
}
static void users_apart(void)
{
    long before = told;
    answer = ALL;
    int e = run(holds_another, number(15), KD_SERIALISABLE, LONG_MS);
    tap_ok(e == 0 && told_first == 1, "a user's end is told, though another page's goes on (%ld)",
           told_first);
    tap_ok(told_is(before + 2) && recall_users(14, 2, 0, NULL) == 0, "and then all of it is back");
}

static void used_rights(void)
{
    uint64_t users[2] = {0};
    long told_before = told;
    answer = ALL;
    asks(writes, 2);
    pthread_t t = hold(reads, 2, 2), other;
    tap_ok(recall_users(2, 1, 0, users) == 1 && __builtin_popcountll(users[0] | users[1]) == 1,
           "who uses the page is counted");
    tap_ok(bits_of(2) & KD_PAGE_RECALLED, "and the page waits for its end");
    answer = KEEP;
    other = touch(reads, 2);
    while (!kept_count)
        sched_yield();
    long before = asked;
    let_go(t);
    tap_ok(hand.result == 0 && asked == before, "the user stores on without asking");
    tap_ok(told_is(told_before + 1) && recall(2, 0) == 0,
           "its end is told, and then the right is back");
    tap_ok(!(bits_of(2) & KD_PAGE_RECALLED) && toucher.result == 1,
           "a newcomer has asked, and waits");
    grant(&kept[0], KD_READ, false);
    pthread_join(other, NULL);
    tap_ok(toucher.result == 0, "until it gets a right");
}

static void *holder_twice(void *arg)
{
    holder(NULL);
    long before = asked;
    int e = run(hand.next, number(hand.page), KD_SERIALISABLE, LONG_MS);
    hand.result = hand.result ? hand.result : e ? e : (int)(asked - before);
    return arg;
}

static int exclusive(void *page), reads_then_exclusive(void *page);

static void next_transaction(int (*body)(void *), int (*next)(void *), unsigned page, long to)
{
    pthread_t t;
    answer = ALL;
    hand = (struct hand){.body = body, .next = next, .page = page};
    pthread_create(&t, NULL, holder_twice, NULL);
    while (!hand.at)
        sched_yield();
    long before = told;
    tap_ok(recall(page, to) == 1, "a page is in use");
    let_go(t);
    tap_ok(hand.result == 1 && told_is(before + 1), "its user's next transaction asks: %d",
           hand.result);
}

static void to_read(void)
{
    answer = ALL;
    pthread_t t = hold(writes, 3, 2);
    tap_ok(recall(3, KD_READ) == 1, "called back to read: who stored is counted");
    long before = told;
    let_go(t);
    tap_ok(hand.result == 0 && told_is(before + 1) && recall(3, KD_READ) == 0 &&
               asks(reads, 3) == 0,
           "and stores on, to its end; who only reads does not ask then");
    t = hold(reads, 3, 0);
    tap_ok(recall(3, KD_READ) == 0, "who has read is not counted");
    let_go(t);
    long writes_before = asked_write;
    tap_ok(asks(writes, 3) == 1 && asked_write == writes_before + 1,
           "a store asks for its own right");
}

/* A thread has a page, and its right was called back in the same answer that gave it. */
static pthread_t hold_called_back(int (*body)(void *), unsigned page)
{
    back_used = -1;
    pthread_t t = hold(body, page, 0);
    while (back_used < 0)
        sched_yield();
    return t;
}

static void first_use(void)
{
    answer = ALL_AND_BACK;
    for (unsigned i = 0; i < 4; i++) {
        long before = told, before_asked = asked;
        pthread_t t = hold_called_back(i % 2 ? stores : reads, 4 + i);
        tap_ok(back_used == 1 && asked == before_asked + 1,
               "who was given a right %s has its touch before a recall", i % 2 ? "to store" : "");
        let_go(t);
        tap_ok(told_is(before + 1) && recall(4 + i, 0) == 0, "and its end is told");
    }
}

static int of_three(void *page)
{
    for (unsigned i = 0; i < 3; i++)
        (void)*word_of(page_of(page) + i, 0);
    return 0;
}

/* Many pages in one call, some used, some idle; and by many views. */
static void ranges(void)
{
    answer = ALL;
    asks(of_three, 8);
    pthread_t t = hold(reads, 9, 0);
    tap_ok(recall_users(0, PAGES, 0, NULL) == 1, "of a range the pages in use are counted");
    long before = asked;
    let_go(t);
    tap_ok(recall_users(0, PAGES, 0, NULL) == 0, "then there is none");
    tap_ok(asks(of_three, 8) == 3 && asked == before + 3, "and all of it is closed");
    kd_call6(KD_OBJECT_GRANT, object, 0, PAGES, RW, 0, 0);
    tap_ok(asks(of_three, 8) == 0 && recall_users(0, PAGES, KD_READ, NULL) == 0,
           "a range is given in one call");
}

/* ---- rights given up, and taken exclusively ---- */

static _Atomic int released, wrote;
static _Atomic uint64_t seen;
static int reads_and_releases(void *page)
{
    int e = 0;
    seen = *word_of(page_of(page), 0);
    hand.at = 1;
    while (!hand.go)
        sched_yield();
    released = (int)kd_call4(KD_TXN_RELEASE, mine->view, (long)word_of(page_of(page), 0), 1, 0);
    uint64_t before = seen;
    while (!wrote) {} /* on its CPU, with its TLB */
    seen = *word_of(page_of(page), 0);
    return e || seen != before + 1 ? EIO : 0;
}
static int writes_and_tells(void *page) { return writes(page); }
static void *writer(void *page)
{
    int e = run(writes_and_tells, page, KD_SERIALISABLE, LONG_MS);
    wrote = e ? e : 1;
    return NULL;
}
static void *releaser(void *page)
{
    hand.result = run(reads_and_releases, page, KD_SERIALISABLE, LONG_MS);
    return NULL;
}
static int exclusive(void *page)
{
    long e = kd_call3(KD_TXN_HINT, (long)word_of(page_of(page), 0), 8, KD_HINT_EXCLUSIVE);
    return e ? (int)-e : reads(page);
}
static int reads_then_exclusive(void *page) { return reads(page) + exclusive(page); }
static int stores_and_releases(void *page)
{
    writes(page);
    return kd_call4(KD_TXN_RELEASE, mine->view, (long)word_of(page_of(page), 0), 1, 0) == 1
               ? 0 : EIO;
}

static void given_up(void)
{
    pthread_t r, w;
    answer = ALL;
    asks(writes, 20);
    hand = (struct hand){.page = 20};
    pthread_create(&r, NULL, releaser, number(20));
    while (!hand.at)
        sched_yield();
    pthread_create(&w, NULL, writer, number(20));
    hand.go = 1;
    pthread_join(w, NULL);
    pthread_join(r, NULL);
    tap_ok(wrote == 1 && released == 0 && hand.result == 0,
           "who gives its right up lets a writer go on before its own end, and sees what it wrote");
    tap_ok(run(stores_and_releases, number(20), KD_SERIALISABLE, LONG_MS) == 0,
           "what it has stored to it keeps");
    long view = mine->view;
    tap_ok(kd_call4(KD_TXN_RELEASE, view, (long)base, PAGES + 1, 0) == -EINVAL &&
               kd_call4(KD_TXN_RELEASE, view, (long)base, 1, 2) == -EINVAL &&
               kd_call4(KD_TXN_RELEASE, view, 4096, 1, 0) == -ENOENT &&
               kd_call4(KD_TXN_RELEASE, object, (long)base, 1, 0) == -EBADF,
           "nonsense is refused");
}

static void exclusively(void)
{
    answer = ALL;
    asks(writes, 21);
    long logged = pages_logged;
    tap_ok(run(exclusive, number(21), KD_SERIALISABLE, LONG_MS) == 0 && pages_logged == logged,
           "an exclusive right is no copy");
    pthread_t t = hold(exclusive, 21, 0);
    tap_ok(run(reads, number(21), KD_SERIALISABLE, 50) == -ETIMEDOUT, "it keeps readers out");
    tap_ok(recall(21, KD_READ) == 1, "and is in use, called back to read");
    let_go(t);
    tap_ok(hand.result == 0 && recall(21, KD_READ) == 0, "until its end");
    long before = asked_write;
    tap_ok(asks(exclusive, 21) == 1 && asked_write == before + 1, "it asks for the right to write");
    t = hold(reads_then_exclusive, 21, 2);
    let_go(t);
    tap_ok(hand.result == 0, "a right to read becomes an exclusive one, and stores");
}

static struct kd_view_info list[KD_VIEW_MAX];
static bool somebody_waits(void)
{
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].pid == getpid() && list[i].waits[0] | list[i].waits[1])
            return true;
    return false;
}
static int waits_then_exclusive(void *page)
{
    reads(page);
    hand.at = 1;
    while (!somebody_waits())
        sched_yield();
    return exclusive(page);
}

static void *storer(void *page)
{
    wrote = run(stores, page, KD_SERIALISABLE, LONG_MS) == 0; /* no load: it is no upgrader */
    return NULL;
}

static void upgraded(void)
{
    struct kd_view_stats before, after;
    answer = ALL;
    asks(writes, 22);
    kd_call3(KD_VIEW_STATS, (long)&before, 0, 0);
    hand.at = 0;
    pthread_t t = touch(waits_then_exclusive, 22), w;
    while (!hand.at)
        sched_yield();
    pthread_create(&w, NULL, storer, number(22));
    pthread_join(t, NULL);
    pthread_join(w, NULL);
    kd_call3(KD_VIEW_STATS, (long)&after, 0, 0);
    tap_ok(toucher.result == 0 && wrote == 1 && after.deadlocks == before.deadlocks,
           "who has read a page takes it exclusively before a writer that waits");
}

/* ---- beside commits, eviction and death ---- */

static void committing(void)
{
    long before = told;
    answer = ALL;
    hold_commits = 1;
    pthread_t t = touch(writes, 13);
    while (!held_commits)
        sched_yield();
    tap_ok(recall(13, 0) == 1, "what is being committed is in use");
    hold_commits = 0;
    pthread_join(t, NULL);
    tap_ok(toucher.result == 0 && told_is(before + 1) && recall(13, 0) == 0, "until it is");
}

static void evicted(void)
{
    answer = ALL;
    asks(reads, 30);
    pthread_t t = hold(reads, 30, 1);
    kd_call4(KD_OBJECT_ADVISE, object, 30, 1, KD_ADVISE_EVICT);
    tap_ok(!page_resident(30) && recall(30, 0) == 1, "a right to a page that is away counts");
    long before = told;
    let_go(t);
    tap_ok(hand.result == 0 && told_is(before + 1) && recall(30, 0) == 0,
           "it is used again, and ends");
}

static void aborted(void)
{
    long before = told;
    answer = ALL;
    pthread_t t = hold(writes, 31, 1);
    tap_ok(recall(31, 0) == 1, "a page with a copy is in use");
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].copies)
            kd_call3(KD_VIEW_ABORT, (long)list[i].view, EIO, 0);
    recall(31, KD_RECALL_DROP);
    let_go(t);
    tap_ok(hand.result && told_is(before + 1) && recall(31, 0) == 0, "an abort is an end");
}

/* Who does not give back: it computes, and touches nothing. */
static void stalled(void)
{
    uint64_t users[2] = {0};
    long before = told;
    answer = ALL;
    pthread_t t = hold(reads, 32, 1);
    recall_users(32, 1, 0, users);
    int view = users[0] ? __builtin_ctzll(users[0]) : 64 + __builtin_ctzll(users[1]);
    tap_ok(kd_call3(KD_VIEW_ABORT, view, ETIMEDOUT, 0) == 0 && recall(32, 0) == 1,
           "who is aborted, and touches nothing, has its right still");
    let_go(t);
    tap_ok(hand.result == -ETIMEDOUT && told_is(before + 1) && recall(32, 0) == 0,
           "to its next touch, which is told");
    t = hold(reads, 33, 1);
    tap_ok(recall(33, 0) == 1 && kd_call3(KD_SPACE_DETACH, getpid(), object, 0) == 0 &&
               recall(33, 0) == 0,
           "who loses the object has no right any more");
    kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    let_go(t);
    tap_ok(hand.result == -EACCES && told_is(before + 2), "and its transaction is undone");
}

/* ---- a wait that the manager tells of who stands in the page's queue ---- */

enum { QUEUED = 44, ELSE = 46 };
static _Atomic int upgrader_at, upgrader_go;
static _Atomic long upgraded_to;
static int reads_then_writes(void *unused)
{
    reads(number(QUEUED));
    for (upgrader_at = 1; !upgrader_go;)
        sched_yield();
    writes(number(QUEUED));
    return unused ? 0 : writes(number(ELSE));
}
static void *upgrader_main(void *arg)
{
    upgraded_to = run(reads_then_writes, NULL, KD_SERIALISABLE, LONG_MS);
    return arg;
}
static int writes_then_stores(void *page) { return writes(number(ELSE)) + stores(page); }

/* The view that stands in the page's queue, another one than that; -1: none. */
static long queued_view(unsigned page, long but)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].page == (uint64_t)word_of(page, 0) && (long)list[i].view != but)
            return (long)list[i].view;
    return -1;
}

/* Two read; one waits in the queue to store, is woken by the recall, and asks. One of the two comes
 * before it in the queue, and goes on when the other one ends: the manager says that it is waited
 * for. Then it wants what the one that asks has. */
static void told_in_a_queue(void)
{
    pthread_t u, w, h;
    uint64_t on[2] = {0}, before = system_info().deadlocks;
    answer = ALL;
    asks(writes, QUEUED);
    asks(writes, ELSE);
    h = hold(reads, QUEUED, 0);
    pthread_create(&u, NULL, upgrader_main, NULL);
    while (!upgrader_at)
        sched_yield();
    w = touch(writes_then_stores, QUEUED);
    long asks_now, before_it;
    while ((asks_now = queued_view(QUEUED, -1)) < 0)
        sched_yield();
    answer = KEEP;
    kept_count = 0;
    recall(QUEUED, 0);
    while (!kept_count)
        sched_yield();
    answer = ALL;
    upgrader_go = 1;
    while ((before_it = queued_view(QUEUED, asks_now)) < 0)
        sched_yield();
    on[before_it / 64] = 1ull << before_it % 64;
    is(kd_call3(KD_VIEW_WAIT, asks_now, (long)on, 0), 0, "who asks waits for another one");
    let_go(h);
    pthread_join(u, NULL);
    pthread_join(w, NULL);
    tap_ok(upgraded_to == 0 && toucher.result == 0 && system_info().deadlocks > before,
           "that one leaves the page's queue, and a deadlock with it is found (%ld, %d, %lu)",
           upgraded_to, toucher.result, system_info().deadlocks - before);
}

static void destroyed(void)
{
    answer = KEEP;
    kept_count = 0;
    pthread_t t = touch(reads, 40);
    while (!kept_count)
        sched_yield();
    recall_users(0, PAGES, 0, NULL);
    long e = kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    pthread_join(t, NULL);
    tap_ok(e == 0 && toucher.result == -EOWNERDEAD && check() == 0, "it dies with a question open");
}

int main(void)
{
    tap_plan(68);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .closed = true, .messages = hears}),
           "a manager that gives no rights");
    idle_rights();
    users_apart();
    used_rights();
    next_transaction(reads, reads, 12, 0);
    next_transaction(writes, writes, 32, KD_READ);
    next_transaction(stores, stores, 33, KD_READ);
    next_transaction(exclusive, exclusive, 34, KD_READ);
    next_transaction(exclusive, reads_then_exclusive, 35, KD_READ);
    to_read();
    first_use();
    ranges();
    given_up();
    exclusively();
    upgraded();
    committing();
    evicted();
    aborted();
    stalled();
    told_in_a_queue();
    tap_ok(recall_users(0, PAGES + 1, 0, NULL) == -EINVAL && recall(0, 2) == -EINVAL &&
               recall(0, 8) == -EINVAL && check() == 0 &&
               kd_call6(KD_OBJECT_RECALL, object, 0, 1, 0, 8, 0) == -EFAULT,
           "nonsense is refused; kcheck is clean");
    destroyed();
    return tap_end();
}
