/*
 * kernel_holder.c - holders of rights for another site, and transactions that work for them.
 *
 * Aim     what a worker is given its holder keeps, also behind an abort; who wants it waits and is
 *         told of, in its turn, until it is released; workers take what their holder has before
 *         queues, recalls and locks of the container; a holder is in no deadlock; its end, that of
 *         its thread or process, and rights taken by force let everybody go on.
 * Method  own_manager.h. The main thread is home and site; others wait, and the notices tell when.
 */
enum { PAGES = 128, LONG_MS = 20000, WAITERS = 4 };
#include "own_manager.h"
#include <sched.h>
enum { RW = KD_READ | KD_WRITE };
static int site_port;
static _Atomic long recalled, asked;
static struct kd_begin heir;            /* how a worker of the holder begins */
static int held_view;                   /* the holder's handle */
static uint64_t holder_number;

static bool hears(struct kd_message *m)
{
    recalled += m->kind == (uint32_t)KD_MSG_RECALLED;
    asked += m->kind == (uint32_t)KD_MSG_PAGE && m->word[3] & KD_PAGE_HERE;
    return m->kind == (uint32_t)KD_MSG_RECALLED;
}

static void *number(unsigned page) { return (void *)(uintptr_t)page; }
static unsigned page_of(void *p) { return (unsigned)(uintptr_t)p; }
static int reads(void *page) { return (int)(*word_of(page_of(page), 0) & 0); }
static int stores(void *page) { ++*word_of(page_of(page), 0); return 0; }
static int reads_two(void *page) { return reads(page) + reads(number(page_of(page) + 1)); }
static int sets(void *page) { return (int)(*word_of(page_of(page), 1) = 0); } /* no load */
static int hints(void *page, int how)
{
    return (int)-kd_call3(KD_TXN_HINT, (long)word_of(page_of(page), 0), 8, how);
}
static int exclusive(void *page) { return hints(page, KD_HINT_EXCLUSIVE); }
static int reads_now(void *page) { return hints(page, KD_HINT_PREFETCH | KD_HINT_NOW); }
static int stores_and_fails(void *page) { return stores(page) ? 0 : EIO; }
static int ours(int (*body)(void *), unsigned page) { return run(body, number(page), 0, LONG_MS); }
static int works(int (*body)(void *), unsigned page) { return run_like(body, number(page), &heir); }
static long releases(unsigned page, unsigned count, int to)
{
    return kd_call4(KD_TXN_RELEASE, held_view, (long)word_of(page, 0), count, to);
}

/* ---- the holder ---- */

/* A new holder of the calling thread; its handle, and its number in *number. */
static int holder_new(int its_port, uint64_t *its_number, uint64_t *ticket)
{
    static char stack[64];
    int view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    struct kd_begin b = {.mode = KD_HOLDER, .port = its_port + 1, .entry = (uint64_t)holder_new,
                         .stack = (uint64_t)stack};
    kd_call3(KD_VIEW_ENTER, view, 0, 0);
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    kd_call3(KD_VIEW_ENTER, mine ? mine->view : -1, 0, 0);
    *its_number = b.view;
    *ticket = b.ticket;
    return e ? (int)e : view;
}

static uint64_t holder_ticket;
static void holds_anew(void)
{
    if (held_view > 0)
        kd_call3(KD_HANDLE_CLOSE, held_view, 0, 0);
    held_view = holder_new(site_port, &holder_number, &holder_ticket);
    heir = (struct kd_begin){.mode = KD_HEIR, .heir = held_view + 1, .timeout_ms = LONG_MS};
}

static struct kd_message notice;
/* The next notice of the holder's is about this page, and wants so much. */
static bool told_of(unsigned page, unsigned pages, uint64_t access)
{
    for (;;) { /* it may be told more than once of one that waits */
        notice = (struct kd_message){0};
        if (kd_call3(KD_PORT_RECEIVE, site_port, (long)&notice, LONG_MS) ||
            notice.kind != (uint32_t)KD_MSG_WANTED || notice.word[0] != holder_number ||
            notice.word[7])
            return false;
        if (notice.word[1] == (uint64_t)word_of(page, 0) && notice.word[2] == pages &&
            notice.word[3] == access)
            return true;
    }
}
static bool told_nothing(void)
{
    return kd_call3(KD_PORT_RECEIVE, site_port, (long)&(struct kd_message){0}, 0) == -EAGAIN;
}
static void hear_all(void)
{
    while (!told_nothing())
        continue;
}

/* ---- others, who wait ---- */

static struct waiter {
    int (*body)(void *);
    unsigned page;
    struct kd_begin like;
    _Atomic int result, order;
    pthread_t thread;
} waiters[WAITERS];
static _Atomic int orders;
static int in_order(void *arg)
{
    struct waiter *w = arg;
    int e = w->body(number(w->page));
    w->order = __atomic_add_fetch(&orders, 1, __ATOMIC_SEQ_CST);
    return e;
}
static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    w->result = run_like(in_order, w, &w->like);
    return NULL;
}
static struct waiter *waits_like(unsigned i, int (*body)(void *), unsigned page,
                                 struct kd_begin like)
{
    waiters[i] = (struct waiter){.body = body, .page = page, .like = like, .result = 1};
    pthread_create(&waiters[i].thread, NULL, waiter_main, &waiters[i]);
    return &waiters[i];
}
static struct waiter *waits(unsigned i, int (*body)(void *), unsigned page)
{
    return waits_like(i, body, page, (struct kd_begin){.timeout_ms = LONG_MS});
}
static bool ends_well(struct waiter *w)
{
    pthread_join(w->thread, NULL);
    return w->result == 0;
}
static struct kd_view_info list[KD_VIEW_MAX];
/* How many views stand in the page's queue. */
static int queued(unsigned page)
{
    int queued = 0;
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        queued += list[i].page == (uint64_t)word_of(page, 0);
    return queued;
}
static void queue_of(unsigned page, int n)
{
    while (queued(page) != n)
        sched_yield();
}

/* ---- rights that stay ---- */

static void kept(void)
{
    tap_ok(works(reads, 1) == 0 && ours(reads, 1) == 0 && told_nothing(),
           "what a worker has read others may read");
    struct waiter *w = waits(0, stores, 1);
    tap_ok(told_of(1, 1, KD_WRITE) && notice.word[6] == 0 && w->result == 1,
           "who stores waits for the holder, which is told");
    uint64_t who = notice.word[4];
    tap_ok(queued(1) == 1 && who < KD_VIEW_MAX && notice.word[5] > holder_ticket,
           "of which view it is, and its ticket");
    tap_ok(releases(1, 1, 0) == 0 && ends_well(w), "until the holder gives it up");
    tap_ok(works(stores, 2) == 0 && ours(reads, 3) == 0, "a worker stores, and ends");
    w = waits(0, reads, 2);
    tap_ok(told_of(2, 1, KD_READ) && releases(2, 1, KD_READ) == 0 && ends_well(w),
           "its holder has the page exclusively, and lowers that");
    w = waits(0, stores, 2);
    tap_ok(told_of(2, 1, KD_WRITE) && releases(2, 1, 0) == 0 && ends_well(w), "and gives it up");
    tap_ok(works(exclusive, 4) == 0 && (w = waits(0, reads, 4)) && told_of(4, 1, KD_READ) &&
               releases(4, 1, 0) == 0 && ends_well(w),
           "the same by KD_HINT_EXCLUSIVE");
    tap_ok(works(stores_and_fails, 5) == EIO && (w = waits(0, reads, 5)) &&
               told_of(5, 1, KD_READ) && releases(5, 1, 0) == 0 && ends_well(w) &&
               *(uint64_t *)home[5] == 0,
           "an abort leaves the holder what it was given");
}

static void taken_back(void)
{
    works(stores, 6);
    struct waiter *w = waits(0, stores, 6);
    bool told = told_of(6, 1, KD_READ);
    tap_ok(told && works(stores, 6) == 0 && works(reads, 6) == 0 && w->result == 1,
           "a worker takes from its holder before a queue");
    tap_ok(works(stores_and_fails, 6) == EIO && w->result == 1 && queued(6) == 1,
           "what it took so goes back when it is undone");
    tap_ok(releases(6, 1, 0) == 0 && ends_well(w) && *(uint64_t *)home[6] == 3,
           "and who waits sees what was committed");
}

static void only_touched(void)
{
    for (unsigned page = 16; page < 20; page++)
        ours(reads, page);
    works(reads, 16);
    hear_all();
    tap_ok(ours(stores, 17) == 0 && told_nothing(), "neighbours are not given");
    works(reads_two, 18);
    struct waiter *w = waits(0, stores, 19);
    tap_ok(told_of(19, 1, KD_WRITE) && releases(18, 2, 0) == 0 && ends_well(w),
           "all that it touches is");
    ours(reads, 20);
    works(reads, 20); /* this view has the right already */
    w = waits(0, stores, 20);
    tap_ok(told_of(20, 1, KD_WRITE) && releases(20, 1, 0) == 0 && ends_well(w),
           "nor is one that the view had before left out");
    works(reads, 21);
    releases(21, 1, 0);
    tap_ok((w = waits(0, stores, 21)) && ends_well(w), "a worker's rights end with it");
}

static _Atomic int at, go;
static int reads_and_stays(void *page)
{
    int e = reads(page);
    for (at = 1; !go;)
        sched_yield();
    return e;
}
static struct waiter *stays(unsigned i, unsigned page, struct kd_begin like)
{
    at = go = 0;
    struct waiter *w = waits_like(i, reads_and_stays, page, like);
    while (!at)
        sched_yield();
    return w;
}

static void in_turn(void)
{
    works(reads, 7);
    orders = 0;
    struct waiter *a = waits(0, stores, 7);
    bool told = told_of(7, 1, KD_WRITE);
    struct waiter *b = waits_like(1, sets, 7, heir), *c;
    queue_of(7, 2);
    c = waits(2, reads, 7);
    queue_of(7, 3);
    tap_ok(told && a->result == 1 && b->result == 1, "a worker that wants more waits as others");
    releases(7, 1, 0);
    tap_ok(ends_well(a) && told_of(7, 1, KD_READ) && releases(7, 1, 0) == 0 && ends_well(b) &&
               ends_well(c) && a->order < b->order && b->order < c->order &&
               *(uint64_t *)home[7] == 1,
           "in the order in which they came");
    struct waiter *w = stays(0, 8, heir);
    tap_ok(releases(8, 1, 0) == 1, "what a worker has is not released");
    go = 1;
    tap_ok(ends_well(w) && releases(8, 1, 0) == 0, "until it ends");
}

static void many(void)
{
    struct kd_message m = {0};
    struct waiter *a = NULL, *b = NULL;
    bool given = true;
    /* A view stands in its queue a moment before its holder is told: each may be told alone. */
    for (int tries = 0; tries < 50 && given && !m.word[6]; tries++) {
        given = !a || (releases(0, PAGES, 0) == 0 && ends_well(a) && ends_well(b));
        hear_all();
        works(reads_two, 30);
        a = waits(0, stores, 30);
        queue_of(30, 1);
        b = waits(1, stores, 31);
        queue_of(31, 1);
        kd_call3(KD_PORT_RECEIVE, site_port, (long)&m, LONG_MS);
    }
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0), listed = 0;
    for (long i = 0; i < n; i++)
        listed += list[i].waits[holder_number / 64] >> holder_number % 64 & 1 &&
                  list[i].want == 1;
    tap_ok(m.word[6] && listed == 2 && told_nothing(), "one notice stands for all, who are listed");
    tap_ok(given && releases(0, PAGES, 0) == 0 && ends_well(a) && ends_well(b),
           "and all is given up at once");
}

/* ---- deadlocks, locks, recalls ---- */

static int reads_then_stores(void *page)
{
    int e = reads(number(page_of(page) + 1));
    at = 1;
    return e + stores(page);
}
static void *releases_soon(void *page)
{
    queue_of(page_of(page) + 1, 1);
    releases(page_of(page), 1, 0);
    return NULL;
}
/* The holder's own thread waits for one that waits for the holder. */
static void in_no_deadlock(void)
{
    pthread_t t;
    works(reads, 40);
    at = 0;
    uint64_t before = system_info().deadlocks;
    struct waiter *w = waits(0, reads_then_stores, 40);
    tap_ok(told_of(40, 1, KD_WRITE), "one waits for the holder");
    pthread_create(&t, NULL, releases_soon, number(40));
    int e = ours(stores, 41);
    tap_ok(e == 0 && ends_well(w) && system_info().deadlocks == before,
           "whose thread waits for that one, which is no deadlock");
    pthread_join(t, NULL);
    is(kd_call3(KD_VIEW_WAIT, (long)holder_number, (long)(uint64_t[2]){1}, 0), -ESRCH,
       "a manager does not make it wait either");
}

static int locks(void *page)
{
    return (int)-kd_call3(KD_TXN_LOCK, (long)word_of(page_of(page), 0), 0, 0);
}
static void locked(void)
{
    works(stores, 50);
    works(reads, 51);
    struct waiter *w = waits(0, locks, 0);
    tap_ok(told_of(0, PAGES, KD_WRITE) && w->result == 1,
           "a lock of the container wants all that the holder has");
    long n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0), listed = 0;
    for (long i = 0; i < n; i++)
        listed += list[i].view == notice.word[4] && list[i].container == base && !list[i].page;
    is(listed, 1, "which is listed, too");
    struct waiter *late = waits_like(1, reads, 52, heir);
    tap_ok(works(stores, 50) == 0 && w->result == 1, "its workers store on to what it has");
    tap_ok(late->result == 1, "and wait with what it has not");
    releases(0, PAGES, 0);
    tap_ok(ends_well(w) && ends_well(late), "until it has given up all");
    tap_ok(works(locks, 0) == EINVAL, "a worker locks no container");
}

static void called_back(void)
{
    uint64_t users[2] = {0};
    works(stores, 60);
    long before = recalled;
    tap_ok(kd_call6(KD_OBJECT_RECALL, object, 60, 1, 0, (long)users, 0) == 1 &&
               users[holder_number / 64] == 1ull << holder_number % 64,
           "a page that is called back has the holder for a user");
    tap_ok(told_of(60, 1, KD_WRITE) && notice.word[4] == holder_number, "which is told");
    works(reads, 64);
    kd_call6(KD_OBJECT_RECALL, object, 60, 1, KD_READ, 0, 0);
    kd_call6(KD_OBJECT_RECALL, object, 64, 1, 0, 0, 0);
    tap_ok(told_of(60, 5, KD_WRITE) && told_nothing(), "of two that it has not heard at once");
    tap_ok(works(stores, 60) == 0 && recalled == before && !asked, "its workers use it on");
    releases(60, 1, 0);
    for (int i = 0; recalled == before && i < LONG_MS; i++)
        pause_ms(1);
    tap_ok(recalled > before && kd_call6(KD_OBJECT_RECALL, object, 60, 1, 0, 0, 0) == 0,
           "that it was released is told");
    kd_call6(KD_OBJECT_GRANT, object, 60, 1, RW, 0, 0);
    works(stores, 61);
    kd_call3(KD_OBJECT_CLEANED, object, 61, (long)KD_CSN_ANY);
    kd_call4(KD_OBJECT_ADVISE, object, 61, 1, KD_ADVISE_EVICT);
    tap_ok(!page_resident(61), "a page leaves memory, though it is the holder's alone");
    struct waiter *w = waits(0, reads, 61);
    tap_ok(told_of(61, 1, KD_READ) && releases(61, 1, 0) == 0 && ends_well(w),
           "and the holder has it still");
}

static void now(void)
{
    struct waiter *w = waits(0, stores, 70);
    ends_well(w);
    tap_ok(works(reads_now, 70) == 0, "a free page is taken at once");
    struct context c = {0}, *main_view = mine;
    txn_open(&c, (struct kd_begin){0});
    stores(number(71));
    in_view(main_view);
    hear_all();
    tap_ok(works(reads_now, 71) == EBUSY && queued(71) == 0 && told_nothing(),
           "one that another stores to is not waited for");
    in_view(&c);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
    releases(0, PAGES, 0);
}

/* ---- ends ---- */

static void closed(void)
{
    works(stores, 80);
    struct waiter *w = waits(0, reads, 80);
    bool told = told_of(80, 1, KD_READ);
    struct waiter *stayer = stays(1, 81, heir);
    holds_anew(); /* closes the one before */
    tap_ok(told && ends_well(w), "the holder's end lets others go on");
    go = 1;
    tap_ok(ends_well(stayer), "its worker ends with what it has");
}

static int reads_both(void *page)
{
    return reads_and_stays(page) + reads(number(page_of(page) + 1));
}
static void orphaned(void)
{
    at = go = 0;
    struct waiter *w = waits_like(0, reads_both, 82, heir);
    while (!at)
        sched_yield();
    holds_anew();
    go = 1;
    pthread_join(w->thread, NULL);
    tap_ok(w->result == -EOWNERDEAD, "but gets no more");
}

static uint64_t thread_holder;
static _Atomic int thread_view;
static void *holder_main(void *arg)
{
    uint64_t ticket;
    thread_view = holder_new(site_port, &thread_holder, &ticket);
    while (!go)
        sched_yield();
    return arg;
}
static void thread_gone(void)
{
    pthread_t t;
    uint64_t number_before = holder_number;
    thread_view = go = 0;
    pthread_create(&t, NULL, holder_main, NULL);
    while (!thread_view)
        sched_yield();
    struct kd_begin other = {.mode = KD_HEIR, .heir = thread_view + 1, .timeout_ms = LONG_MS};
    run_like(stores, number(84), &other);
    holder_number = thread_holder;
    struct waiter *w = waits(0, reads, 84);
    tap_ok(told_of(84, 1, KD_READ) && kd_call3(KD_HANDLE_CLOSE, thread_view, 0, 0) == -EPERM,
           "another thread does not close a holder");
    go = 1;
    tap_ok(ends_well(w) && pthread_join(t, NULL) == 0, "that thread's end does");
    holder_number = number_before;
}

static int child(void)
{
    struct kd_space_info info;
    base = KD_STORE_BASE;
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0))
        sched_yield(); /* its parent attaches it now */
    site_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    holds_anew();
    if (works(stores, 86) || works(reads, 87))
        return 3;
    struct waiter *w = waits_like(0, stores, 88, heir); /* its parent has stored to it */
    queue_of(88, 1);
    long view = -1, n = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        view = list[i].page == (uint64_t)word_of(88, 0) ? (long)list[i].view : view;
    long e = kd_call3(KD_VIEW_ABORT, view, ECANCELED, 0);
    pthread_join(w->thread, NULL);
    if (e || w->result != -ECANCELED || kd_call3(KD_VIEW_ABORT, 0, EIO, 0) != -EPERM)
        return 4;
    child_begun();
    for (;;)
        pause_ms(1000);
}

static void process_gone(const char *self)
{
    struct context c = {0}, *main_view = mine;
    txn_open(&c, (struct kd_begin){0});
    stores(number(88));
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    int pid = child_start(self, "agent", NULL);
    kd_call3(KD_SPACE_ATTACH, pid, object, RW);
    bool begun = child_has_begun(pid);
    in_view(&c);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    tap_ok(begun, "a process cancels a wait of its own worker");
    struct waiter *a = waits(0, reads, 86), *b = waits(1, stores, 87);
    queue_of(86, 1);
    queue_of(87, 1);
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    tap_ok(ends_well(a) && ends_well(b), "the death of its process is a holder's end");
    child_wait(pid);
}

static bool doomed_for(int reason)
{
    struct kd_message m = {0};
    long e = kd_call3(KD_PORT_RECEIVE, site_port, (long)&m, LONG_MS);
    while (e == 0 && !m.word[7])
        e = kd_call3(KD_PORT_RECEIVE, site_port, (long)&m, LONG_MS);
    return e == 0 && m.kind == (uint32_t)KD_MSG_WANTED && m.word[0] == holder_number &&
           m.word[7] == (uint64_t)reason && works(reads, 90) == -EOWNERDEAD;
}
static void by_force(void)
{
    works(stores, 91);
    tap_ok(kd_call3(KD_VIEW_ABORT, (long)holder_number, EIO, 0) == 0 && doomed_for(EIO),
           "a manager dooms a holder: it is told, and nobody's heir any more");
    struct waiter *w = waits(0, reads, 91);
    queue_of(91, 1);
    tap_ok(w->result == 1, "but keeps what it has");
    holds_anew();
    tap_ok(ends_well(w), "until it is closed");
    works(stores, 92);
    kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    kd_call3(KD_SPACE_ATTACH, getpid(), object, RW);
    tap_ok(doomed_for(EACCES) && ours(stores, 92) == 0, "so does a process that loses the object");
    holds_anew();
    tap_ok(works(stores, 92) == 0, "the next one holds as the first");
}

/* ---- nonsense ---- */

static int reads_at(void *at) { return *(volatile int *)at & 0; }
static void of_items(void)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8,
                                 .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS, .pages = 16,
                                 .base = base + 0x40000000, .name = "items"};
    int items = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    kd_call3(KD_SPACE_ATTACH, getpid(), items, RW);
    is(run_like(reads_at, (void *)c.base, &heir), -EOPNOTSUPP, "items have no holder");
    works(reads, 3);
    is(run_like(reads_at, (void *)c.base, &heir), -EOPNOTSUPP, "nor have they behind another page");
    kd_call3(KD_OBJECT_DESTROY, items, 0, 0);
}

static long begins(struct kd_begin how)
{
    struct context c = {0}, *main_view = mine;
    long e = txn_open(&c, how);
    if (!e)
        kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
    return e;
}
static void tickets(void)
{
    struct context c = {0}, *main_view = mine;
    txn_open(&c, heir);
    uint64_t ticket = c.begin.ticket;
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    in_view(main_view);
    kd_call3(KD_HANDLE_CLOSE, c.view, 0, 0);
    struct kd_begin again = heir, early = heir, late = heir;
    again.ticket = ticket;
    early.ticket = holder_ticket - 1;
    late.ticket = ticket + 1000000;
    tap_ok(ticket > holder_ticket && begins(again) == 0 && begins(early) == -EINVAL &&
               begins(late) == -EINVAL,
           "a worker has a ticket of its holder's time");
}
static void nonsense(void)
{
    int entered = (int)kd_call3(KD_VIEW_ENTER, held_view, 0, 0);
    is(entered, -EBUSY, "nobody enters a holder");
    tap_ok(begins((struct kd_begin){.mode = KD_HOLDER}) == -EBADF &&
               begins((struct kd_begin){.mode = KD_HOLDER, .port = object + 1}) == -EBADF &&
               begins((struct kd_begin){.mode = KD_HOLDER | KD_SNAPSHOT}) == -EINVAL &&
               begins((struct kd_begin){.mode = KD_HOLDER | KD_HEIR}) == -EINVAL &&
               begins((struct kd_begin){.mode = KD_HEIR | KD_CONTAINER_LOCK}) == -EINVAL &&
               begins((struct kd_begin){.mode = KD_HEIR}) == -EBADF &&
               begins((struct kd_begin){.mode = KD_HEIR, .heir = site_port + 1}) == -EBADF &&
               begins((struct kd_begin){.mode = KD_HEIR, .heir = mine->view + 1}) == -EINVAL &&
               begins((struct kd_begin){.heir = held_view + 1}) == -EINVAL,
           "wrong begins are refused");
    is(check(), 0, "kcheck is clean");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child();
    tap_plan(60);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .messages = hears}), "a manager");
    site_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    ours(reads, 0);
    holds_anew();
    tap_ok(held_view > 0 && holder_number < KD_VIEW_MAX, "a holder");
    kept();
    taken_back();
    only_touched();
    in_turn();
    many();
    in_no_deadlock();
    locked();
    called_back();
    now();
    closed();
    orphaned();
    thread_gone();
    process_gone(argv[0]);
    by_force();
    of_items();
    tickets();
    nonsense();
    return tap_end();
}
