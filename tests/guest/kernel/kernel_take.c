/*
 * kernel_take.c - pages that a holder takes without a transaction (KD_TXN_TAKE, holders.md).
 *
 * Aim     what nobody keeps from the holder it has at once, with its contents, and keeps as if a
 *         worker had taken it; what somebody uses, waits for or calls back it has not, and nobody
 *         is waited for, woken or told.
 * Method  own_manager.h. The main thread is home and site; others wait, and notices tell when.
 */
enum { PAGES = 128, LONG_MS = 20000 };
#include "own_manager.h"
#include <sched.h>

enum { RW = KD_READ | KD_WRITE };
static int site_port, held_view;
static uint64_t holder_number;
static uint8_t got[8 * KD_PAGE_BYTES];

static void *number(unsigned page) { return (void *)(uintptr_t)page; }
static unsigned page_of(void *p) { return (unsigned)(uintptr_t)p; }
static int reads(void *page) { return (int)(*word_of(page_of(page), 0) & 0); }
static int stores(void *page) { ++*word_of(page_of(page), 0); return 0; }
static int exclusive(void *page)
{
    return (int)-kd_call3(KD_TXN_HINT, (long)word_of(page_of(page), 0), 8, KD_HINT_EXCLUSIVE);
}
static int ours(int (*body)(void *), unsigned page) { return run(body, number(page), 0, LONG_MS); }
static long takes(unsigned page, unsigned count, int access)
{
    return kd_call6(KD_TXN_TAKE, held_view, (long)word_of(page, 0), count, access, (long)got, 0);
}
static long releases(unsigned page, unsigned count)
{
    return kd_call4(KD_TXN_RELEASE, held_view, (long)word_of(page, 0), count, 0);
}
static uint64_t got_word(unsigned i) { return *(uint64_t *)(got + i * KD_PAGE_BYTES); }

static void holds(void)
{
    static char stack[64];
    held_view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    struct kd_begin b = {.mode = KD_HOLDER, .port = site_port + 1, .entry = (uint64_t)holds,
                         .stack = (uint64_t)stack};
    kd_call3(KD_VIEW_ENTER, held_view, 0, 0);
    tap_ok(kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0) == 0, "a holder");
    kd_call3(KD_VIEW_ENTER, mine ? mine->view : -1, 0, 0);
    holder_number = b.view;
}

/* The holder's next notice is about this page, and wants so much. */
static bool told_of(unsigned page, uint64_t access)
{
    struct kd_message m = {0};
    while (kd_call3(KD_PORT_RECEIVE, site_port, (long)&m, LONG_MS) == 0)
        if (m.word[0] == holder_number && m.word[1] == (uint64_t)word_of(page, 0) &&
            m.word[3] == access)
            return true;
    return false;
}
static bool told_nothing(void)
{
    return kd_call3(KD_PORT_RECEIVE, site_port, (long)&(struct kd_message){0}, 0) == -EAGAIN;
}

static struct waiter { int (*body)(void *); unsigned page; pthread_t thread; } waiter;
static _Atomic int waited;
static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    waited = ours(w->body, w->page);
    return NULL;
}
static void waits(int (*body)(void *), unsigned page)
{
    waiter = (struct waiter){.body = body, .page = page};
    waited = 1;
    pthread_create(&waiter.thread, NULL, waiter_main, &waiter);
}
static bool ends_well(void)
{
    pthread_join(waiter.thread, NULL);
    return waited == 0;
}

static struct kd_view_info list[KD_VIEW_MAX];
static bool queued(unsigned page)
{
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (list[i].page == (uint64_t)word_of(page, 0))
            return true;
    return false;
}

/* ---- what is free ---- */

static void is_free(void)
{
    ours(stores, 1);
    tap_ok(takes(1, 1, KD_READ) == 1 && got_word(0) == 1 && told_nothing(),
           "a page that nobody uses is taken, with what was committed last");
    tap_ok(ours(reads, 1) == 0 && told_nothing(), "others read it on");
    waits(stores, 1);
    tap_ok(told_of(1, KD_WRITE) && waited == 1, "who stores to it waits, and the holder is told");
    releases(1, 1);
    tap_ok(ends_well(), "until it is given up");
    ours(stores, 2);
    tap_ok(takes(2, 1, RW) == 1 && got_word(0) == 1, "exclusively: from who has it and is idle");
    waits(reads, 2);
    tap_ok(told_of(2, KD_READ) && waited == 1, "then who reads it waits, too");
    releases(2, 1);
    ends_well();
    ours(reads, 3);
    tap_ok(takes(3, 1, KD_READ) == 1 && takes(3, 1, RW) == 1 && takes(3, 1, KD_READ) == 1,
           "what it reads it may take exclusively, and what it has it has");
    waits(reads, 3);
    tap_ok(told_of(3, KD_READ), "it is exclusive still");
    releases(3, 1);
    ends_well();
    ours(exclusive, 7);
    tap_ok(takes(7, 1, KD_READ) == 1 && run(exclusive, number(7), 0, 50) == -ETIMEDOUT &&
               told_of(7, KD_WRITE), "who had it to write is idle, and has it to read");
    ours(stores, 4);
    ours(stores, 5);
    ours(reads, 6);
    memset(got, 0xff, sizeof got);
    tap_ok(takes(4, 3, KD_READ) == 3 && got_word(0) == 1 && got_word(1) == 1 && got_word(2) == 0,
           "three in a row, with their contents");
    tap_ok(kd_call6(KD_TXN_TAKE, held_view, (long)word_of(4, 0), 1, RW, 0, 0) == 1,
           "or without, where they are not wanted");
    releases(0, PAGES);
}

/* ---- what is not ---- */

static void is_used(void)
{
    struct context c = {0}, *main_view = mine;
    for (unsigned page = 10; page < 14; page++)
        ours(reads, page);
    txn_open(&c, (struct kd_begin){0});
    stores(number(12));
    reads(number(13));
    in_view(main_view);
    tap_ok(takes(12, 1, KD_READ) == 0 && takes(12, 1, RW) == 0, "not what another stores to");
    tap_ok(takes(13, 1, RW) == 0 && takes(13, 1, KD_READ) == 1,
           "not exclusively what another reads");
    tap_ok(takes(10, 4, KD_READ) == 2, "of a row what comes before it");
    tap_ok(!queued(12) && told_nothing(), "and nobody waits, or is told");
    in_view(&c);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
    releases(0, PAGES);
}

static void is_waited_for(void)
{
    struct kd_begin heir = {.mode = KD_HEIR, .heir = held_view + 1, .timeout_ms = LONG_MS};
    ours(reads, 20);
    takes(20, 1, KD_READ);
    waits(stores, 20);
    while (!queued(20))
        sched_yield();
    tap_ok(takes(20, 1, RW) == 0, "not more, of a page that another stands in the queue of");
    releases(20, 1);
    ends_well();
    ours(reads, 21);
    takes(21, 1, RW);
    tap_ok(run_like(stores, number(21), &heir) == 0 && takes(21, 1, RW) == 1 && got_word(0) == 1,
           "what a worker has stored to is the holder's when that has ended");
    releases(21, 1);
    run_like(reads, number(22), &heir);
    releases(22, 1);
    run_like(reads, number(22), &heir);
    waits(stores, 22);
    tap_ok(told_of(22, KD_WRITE), "a worker has no right of the one before it");
    releases(22, 1);
    ends_well();
}

static void is_called_back(void)
{
    struct context c = {0}, *main_view = mine;
    ours(reads, 30);
    txn_open(&c, (struct kd_begin){0});
    reads(number(30));
    in_view(main_view);
    kd_call6(KD_OBJECT_RECALL, object, 30, 1, 0, 0, 0);
    tap_ok(takes(30, 1, KD_READ) == 0, "not what its manager calls back");
    in_view(&c);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
    kd_call6(KD_OBJECT_RECALL, object, 30, 1, 0, 0, 0);
    tap_ok(takes(30, 1, KD_READ) == 0, "nor what it has called back");
    kd_call6(KD_OBJECT_GRANT, object, 30, 1, RW, 0, 0);
    tap_ok(takes(30, 1, KD_READ) == 1, "until it grants that again");
    releases(30, 1);
    ours(stores, 31);
    kd_call3(KD_OBJECT_CLEANED, object, 31, (long)KD_CSN_ANY);
    kd_call4(KD_OBJECT_ADVISE, object, 31, 1, KD_ADVISE_EVICT);
    tap_ok(!page_resident(31) && takes(31, 1, KD_READ) == 0, "nor what is not in memory");
}

static void is_wrong(void)
{
    int view = mine->view;
    ours(reads, 40);
    tap_ok(kd_call6(KD_TXN_TAKE, view, (long)word_of(40, 0), 1, KD_READ, 0, 0) == 0,
           "a view that holds nothing gets nothing");
    tap_ok(kd_call6(KD_TXN_TAKE, site_port, (long)word_of(40, 0), 1, KD_READ, 0, 0) == -EBADF &&
               takes(PAGES - 1, 2, KD_READ) == -EINVAL && takes(40, 0, KD_READ) == -EINVAL &&
               takes(40, 1, KD_WRITE) == -EINVAL && takes(40, 1, 8 | KD_READ) == -EINVAL &&
               takes(0, KD_TAKE_MAX + 1, KD_READ) == -EINVAL &&
               kd_call6(KD_TXN_TAKE, held_view, (long)word_of(40, 1), 1, KD_READ, 0, 0) ==
                   -EINVAL &&
               kd_call6(KD_TXN_TAKE, held_view, 4096, 1, KD_READ, 0, 0) == -ENOENT,
           "wrong handles, pages and addresses are refused");
    tap_ok(kd_call6(KD_TXN_TAKE, held_view, (long)word_of(40, 0), 1, KD_READ, 4096, 0) == -EFAULT,
           "and memory that is not the caller's");
    is(check(), 0, "kcheck is clean");
    kd_call3(KD_HANDLE_CLOSE, held_view, 0, 0);
    tap_ok(takes(40, 1, KD_READ) == -EBADF && ours(stores, 40) == 0,
           "a holder that is over has nothing, and takes nothing");
}

/* A worker declares three places of a page, and stores there. */
static int declares(void *page)
{
    static const unsigned at[] = {0, 100, KD_PAGE_BYTES / 8 - 1};
    int e = 0;
    for (unsigned i = 0; i < sizeof at / sizeof at[0] && !e; i++) {
        volatile uint64_t *word = word_of(page_of(page), at[i]);
        e = (int)-kd_call3(KD_TXN_HINT, (long)word, 8, KD_HINT_WRITE);
        if (!e)
            ++*word;
    }
    return e;
}

static void is_declared(void)
{
    const struct kd_begin worker = {.mode = KD_HEIR, .heir = held_view + 1};
    const uint64_t *at_home = (const uint64_t *)home[50];
    tap_ok(run_like(declares, number(50), &worker) == 0 && at_home[0] == 1 && at_home[100] == 1 &&
               at_home[KD_PAGE_BYTES / 8 - 1] == 1 && at_home[1] == 0,
           "what a worker declares, and changes, is told");
    tap_ok(run_like(stores, number(50), &worker) == 0 && at_home[0] == 2 && releases(50, 1) == 0,
           "who declares nothing of a page is told whole");
}

int main(void)
{
    tap_plan(31);
    tap_ok(start_manager((struct own_manager){.pages = PAGES}), "a manager");
    site_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    ours(reads, 0);
    holds();
    is_free();
    is_used();
    is_waited_for();
    is_called_back();
    is_declared();
    is_wrong();
    return tap_end();
}
