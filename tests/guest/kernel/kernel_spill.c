/*
 * kernel_spill.c - private copies that go to their manager's log and come back, without a store.
 *
 * Aim     every copy that the kernel counts as spilled was told; it is found again, published and
 *         aborted; credits and records agree; a manager that lost what it committed, or that does
 *         not receive, costs its clients an error and no more. Who asked for a page whose copy is
 *         published meanwhile does not wait for the manager, who finds the page in memory. A
 *         manager that refuses what it was told hears all of it again; one that loses an object
 *         between two KD_TXN_DIFF is still told every other page. A copy that comes back while its
 *         base is evicted is not lost.
 * Method  own_manager.h, with a manager that keeps spilled pages in memory and grants few credits,
 *         so that a transaction spills after so many copies, whatever the memory.
 */
#include <stdio.h>
#include <sys/resource.h>

enum { PAGES = 512, CREDITS = 96, LARGE = 400, LOST = 7, LATE = PAGES - 120, DIVIDED = 10,
       PRESSED = 100, RECORD_BYTES = 128 };

#include "own_manager.h"
#include "pstore_test.h"

static uint8_t spilled[PAGES][KD_PAGE_BYTES];
static bool in_log[PAGES];
static _Atomic long told_pages, counted_pages, brought_pages;
/* so often page LOST is supplied as it was: no client is to wait for all */
static _Atomic int lose;
/* -1: the next SPILL is told while the container is detached; 1: now */
static _Atomic int detach, told_bad;
static _Atomic uint64_t last_token[KD_VIEW_MAX];
static _Atomic int refuse, refused;    /* SPILLs that are refused after they were told */
/* the next commit: the second object ends between two KD_TXN_DIFF */
static _Atomic int divide, divide_told;
static int second;
static _Atomic int late, late_away, late_asked, late_hold; /* page LATE: see test_late */

static void *detacher(void *unused)
{
    (void)unused;
    while (detach <= 0) {}
    kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    detach = 0;
    return NULL;
}

/* Takes half of the copies; so many credits are free again. */
static void take_copies(struct kd_message *m)
{
    static uint8_t buffer[64 * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .flags = KD_DIFF_SPILL,
                        .buffer = buffer, .buffer_bytes = sizeof buffer};
    detach = detach < 0;
    if (refuse) d.buffer_bytes /= 2;
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    if (refuse) {
        refuse--;
        refused += kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EAGAIN) == 0;
        return;
    }
    for (uint64_t at = 0; !e && at < d.buffer_bytes;) {
        const struct kd_run *r = (const void *)(buffer + at);
        memcpy(spilled[r->page], r + 1, KD_PAGE_BYTES);
        in_log[r->page] = true;
        at += sizeof *r + KD_PAGE_BYTES;
    }
    while (detach > 0) usleep(100);
    told_bad |= e || d.buffer_bytes != d.pages * (KD_PAGE_BYTES + sizeof(struct kd_run));
    told_pages += e ? 0 : (long)d.pages;
    long n = kd_call4(KD_TXN_SPILLED, (long)m->word[0], (long)m->token, e ? 0 : (long)d.pages, 1);
    if (n < 0) return; /* detached: the client is gone already */
    counted_pages += n;
    kd_call3(KD_CREDIT_GRANT, commit_port, n, 0);
}

/* A page for each call. */
static void diff_divided(const struct kd_message *m)
{
    static uint8_t buffer[KD_PAGE_BYTES + 64];
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    divide = 0;
    for (int i = 0; d.cursor != ~0ull; i++) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        if (kd_call3(KD_TXN_DIFF, (long)&d, 0, 0)) break;
        divide_told += d.pages != 0 && ((struct kd_run *)buffer)->cookie == 7;
        if (i == DIVIDED / 2) kd_call3(KD_OBJECT_DESTROY, second, 0, 0);
    }
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    if (kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0)) divide_told = -1;
}

/* The manager is so slow that it finds the page in memory: it has nothing to supply. */
static bool comes_late(const struct kd_message *m)
{
    if (!late || m->word[1] != LATE) return false;
    long before = commits_seen;
    late_asked = 1;
    while (late && commits_seen == before) usleep(1000);
    return true;
}

static bool serve_spill(struct kd_message *m)
{
    if (m->token) last_token[m->word[0]] = m->token;
    if (m->kind == (uint32_t)KD_MSG_SPILL) {
        take_copies(m);
    } else if (m->kind == (uint32_t)KD_MSG_UNSPILL) {
        brought_pages++;
        in_log[m->word[2]] = false;
        kd_call3(KD_TXN_UNSPILL, (long)m->word[0], (long)m->token, (long)spilled[m->word[2]]);
    } else if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW) {
        kd_call3(KD_CREDIT_GRANT, commit_port, 0, 0); /* there are no more */
    } else if (m->kind == (uint32_t)KD_MSG_VIEW_GONE) {
        memset(in_log, 0, sizeof in_log);
    } else if (m->kind == (uint32_t)KD_MSG_COMMIT) {
        for (unsigned i = 0; i < PAGES; i++)
            if (in_log[i] && !(lose && i == LOST)) memcpy(home[i], spilled[i], KD_PAGE_BYTES);
        memset(in_log, 0, sizeof in_log);
        /* those that the commit spends */
        kd_call3(KD_CREDIT_GRANT, commit_port, (long)m->word[1], 0);
        if (divide) diff_divided(m);
        return divide_told != 0;
    } else if (m->kind == (uint32_t)KD_MSG_PAGE) {
        if (comes_late(m)) return true;
        bool old = lose && m->word[1] == LOST;
        lose -= old;
        struct kd_supply s = { .object = object, .source = KD_SUPPLY_MEMORY,
                               .rights = KD_READ | KD_WRITE, .page = m->word[1], .count = 1,
                               .memory = home[m->word[1]], .csn = old ? 0 : next_csn };
        kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    } else {
        return false;
    }
    return true;
}

struct range { unsigned from, count; uint64_t value; };

static uint64_t window;                 /* of the object, or 0: stores go to its own addresses */
static volatile uint64_t *word_to(unsigned page)
{
    volatile uint64_t *word = word_of(page, page % 512);
    return window ? (uint64_t *)((uint64_t)word - base + window) : word;
}

static int write_range(void *arg)
{
    const struct range *r = arg;
    for (unsigned p = r->from; p < r->from + r->count; p++) *word_to(p) = r->value + p;
    return 0;
}
static uint64_t used_spilled;           /* memory of this process, while it had spilled copies */
static int write_and_leave(void *arg)
{
    write_range(arg);
    used_spilled = process_self().used[KD_LIMIT_MEMORY];
    return 17;
}
static int check_range(void *arg)
{
    const struct range *r = arg;
    int bad = 0;
    for (unsigned p = r->from; p < r->from + r->count; p++)
        bad += *word_of(p, p % 512) != (r->value ? r->value + p : 0);
    return bad;
}
static int write_twice(void *arg)
{
    struct range *r = arg, second = {r->from, r->count, r->value * 2};
    write_range(r);
    return check_range(r) ? 1 : write_range(&second);
}
static int do_range(int (*body)(void *), unsigned from, unsigned count, uint64_t value)
{
    return run(body, &(struct range){from, count, value}, KD_SERIALISABLE, 0);
}

static void test_spill(void)
{
    is(do_range(write_range, 0, LARGE, 1000), 0, "a transaction of four times its credits commits");
    tap_ok(counted_pages > LARGE / 2 && counted_pages == told_pages,
           "copies count as spilled if they were told (%ld, %ld)", counted_pages, told_pages);
    is(do_range(check_range, 0, LARGE, 1000), 0, "every page is there");
    is(check(), 0, "kcheck");
    is(do_range(write_and_leave, 0, LARGE, 5000), 17, "another one aborts");
    tap_ok(used_spilled >= process_self().used[KD_LIMIT_MEMORY] + RECORD_BYTES * LARGE / 2,
           "what the kernel keeps of each spilled copy was charged, and came back");
    is(do_range(check_range, 0, LARGE, 1000), 0, "without a trace");
    is(do_range(write_twice, 0, LARGE, 2000), 0, "one reads and changes again what it spilled");
    tap_ok(brought_pages > 0, "it was brought back (%ld)", brought_pages);
    is(do_range(check_range, 0, LARGE, 4000), 0, "its last words count");
    is(check(), 0, "kcheck");
}

/* A process whose memory is at its limit spills no more. */
static void test_limit(void)
{
    struct rlimit was, most;
    getrlimit(RLIMIT_RSS, &was);
    most = (struct rlimit){process_self().used[KD_LIMIT_MEMORY] + 2 * KD_PAGE_BYTES, was.rlim_max};
    int low = setrlimit(RLIMIT_RSS, &most), e = do_range(write_range, 0, LARGE, 8000);
    uint64_t used = process_self().used[KD_LIMIT_MEMORY];
    setrlimit(RLIMIT_RSS, &was);
    tap_ok(!low && e < 0 && used <= most.rlim_cur, "at its limit a process spills no more: %d", e);
    is(do_range(write_range, 0, LARGE, 4000), 0, "and does again");
}

/* It stores by a window, and loads what it stored at the container's own addresses. */
static void test_window(void)
{
    window = (uint64_t)kd_call3(KD_MAP, (long)base, PAGES, KD_RIGHT_READ | KD_RIGHT_WRITE);
    long brought = brought_pages;
    is(do_range(write_twice, 0, LARGE, 3000), 0, "by a window as well");
    is(kd_call3(KD_UNMAP, (long)window, 0, 0), 0, "which ends");
    window = 0;
    tap_ok(brought_pages > brought && do_range(check_range, 0, LARGE, 6000) == 0 && !check(),
           "and its words count");
}

/* Asked again, the manager is told other copies first; none of the first counts as spilled with
 * them. */
static void test_refused(void)
{
    long counted = counted_pages, told = told_pages;
    refuse = 2;
    is(do_range(write_range, 0, LARGE, 7000), 0,
       "a manager refuses what it was told, and takes it when asked again");
    tap_ok(refused == 2 && counted_pages - counted == told_pages - told,
           "what it refused does not count (%ld, %ld)", counted_pages - counted, told_pages - told);
    is(do_range(check_range, 0, LARGE, 7000), 0, "every page is there");
    is(check(), 0, "kcheck");
}

/* Pages of another object first. */
static int write_both(void *arg)
{
    uint64_t first = *(uint64_t *)arg;
    for (unsigned i = 0; i < DIVIDED; i++)
        *(volatile uint64_t *)(first + i * KD_PAGE_BYTES) = i + 1;
    return write_range(&(struct range){0, DIVIDED, 100});
}
static void test_divided(void)
{
    struct kd_object_create c = { .port = port,
                                  .commit_port = commit_port,
                                  .cookie = 8,
                                  .name = "second",
                                  .flags = KD_OBJECT_TRANSACTIONAL,
                                  .pages = DIVIDED,
                                  .base = KD_STORE_BASE + (1ull << 30) };
    second = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    kd_call3(KD_SPACE_ATTACH, getpid(), second, KD_RIGHT_READ | KD_RIGHT_WRITE);
    for (unsigned i = 0; i < DIVIDED; i++)
        kd_call3(KD_OBJECT_SUPPLY,
                 (long)&(struct kd_supply){ .object = second, .source = KD_SUPPLY_ZERO, .page = i,
                                            .rights = KD_READ | KD_WRITE,
                                            .count = 1 },
                 0, 0);
    divide = 1;
    int e = run(write_both, &c.base, KD_SERIALISABLE, 0);
    tap_ok(e == 0 && divide_told == DIVIDED,
           "an object ends while a commit is told: all others' pages are told (%d, %d)", e,
           divide_told);
    divide_told = 0;
    is(do_range(check_range, 0, DIVIDED, 100), 0, "and published");
    is(check(), 0, "kcheck");
}

/* Bases are evicted while their copies come back from the log. */
static _Atomic int press_stop;
static _Atomic long pressed; /* pages that others had supplied, by 64 */
static void *press(void *unused)
{
    enum { MOST = 1 << 16 };
    struct kd_object_create c = { .port = port,
                                  .commit_port = port,
                                  .base = KD_STORE_BASE + (1ull << 40),
                                  .pages = MOST,
                                  .name = "others" };
    int others = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {
        .object = others, .source = KD_SUPPLY_ZERO, .rights = KD_READ, .count = 64
    };
    for (; !press_stop; s.page = (s.page + s.count) % MOST)
        if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0) pressed++;
    kd_call3(KD_OBJECT_DESTROY, others, 0, 0);
    return unused;
}
static int write_at_random(void *arg)
{
    static uint64_t seed = 1, expected[LARGE];
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < 3000; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        unsigned p = (unsigned)(seed >> 33) % LARGE;
        if (*word_of(p, 500) != expected[p]) ++*(long *)arg;
        *word_of(p, 500) = ++expected[p];
    }
    return 17;
}
static void test_evicted(void)
{
    pthread_t thread;
    long lost = 0, brought = brought_pages;
    int bad = 0;
    /* they may go */
    for (unsigned i = 0; i < LARGE; i++) kd_call3(KD_OBJECT_CLEANED, object, i, KD_CSN_ANY);
    pthread_create(&thread, NULL, press, NULL);
    for (int i = 0; (i < 6 || (pressed <= PRESSED && i < 100)) && !lost && !bad; i++)
        bad += run(write_at_random, &lost, KD_SERIALISABLE, 0) != 17;
    press_stop = 1;
    pthread_join(thread, NULL);
    tap_ok(!bad && !lost && brought_pages > brought && pressed > PRESSED,
           "bases are evicted while copies come back: nothing is lost (%ld of %ld, %ld)",
           lost, brought_pages - brought, pressed);
    is(check(), 0, "kcheck");
}

/* The page was spilled and committed, and the manager has an older one. */
static void test_lost(void)
{
    lose = 1000;
    is(do_range(write_range, 0, LARGE, 6000), 0, "a manager loses a page that it takes");
    is(do_range(check_range, LOST, 1, 6000), -EIO,
       "who touches it hears so, and does not wait for ever");
    is(do_range(check_range, LOST, 1, 6000), -EIO, "each time");
    is(do_range(check_range, LOST + 1, LARGE - LOST - 1, 6000), 0, "other pages are served");
    memcpy(home[LOST], spilled[LOST], KD_PAGE_BYTES);
    lose = 0;
    is(do_range(check_range, LOST, 1, 6000), 0, "the page itself, too, when it is found");
}

static void *writer(void *arg) { return (void *)(long)run(write_range, arg, KD_SERIALISABLE, 0); }

/* A transaction of just so many pages, some of which come back. */
static void test_most(void)
{
    struct range r = {0, LARGE, 3000};
    is(run_like(write_twice, &r, &(struct kd_begin){.pages_max = LARGE}), 0,
       "what is brought back does not count as one more page");
    is(do_range(check_range, 0, LARGE, 6000), 0, "all is there");
}

/* Other pages come until LATE has gone. */
static void press_late(void)
{
    enum { MOST = 16384 };
    struct kd_object_create c = { .port = port,
                                  .commit_port = port,
                                  .base = KD_STORE_BASE + (1ull << 40),
                                  .pages = MOST,
                                  .name = "others" };
    int others = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {
        .object = others, .source = KD_SUPPLY_ZERO, .rights = KD_READ, .count = 1
    };
    uint8_t bits = KD_PAGE_RESIDENT;
    kd_call3(KD_OBJECT_CLEANED, object, LATE, KD_CSN_ANY);
    kd_call4(KD_OBJECT_ADVISE, object, LATE, 1, KD_ADVISE_DONT_NEED);
    for (; bits & KD_PAGE_RESIDENT && s.page < MOST; s.page++) {
        kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
        kd_call4(KD_OBJECT_INFO, object, LATE, 1, (long)&bits);
    }
    if (bits & KD_PAGE_RESIDENT) printf("# page %d stays\n", LATE);
    kd_call3(KD_OBJECT_DESTROY, others, 0, 0);
}

/* Its copy of LATE is in memory again, and the base is not, when another transaction asks for the
 * page. */
static int write_late(void *arg)
{
    write_range(arg);
    press_late();
    write_range(&(struct range){LATE, 1, ((struct range *)arg)->value});
    late_away = 1;
    while (!late_asked || late_hold) usleep(1000);
    return 0;
}
static void *late_writer(void *arg)
{
    return (void *)(long)run(write_late, arg, KD_SERIALISABLE, 0);
}

static int read_late(unsigned mode, unsigned limit_ms, uint64_t value)
{
    struct range all = {LATE, PAGES - LATE - 2, value}, one = {LATE, 1, value};
    pthread_t thread;
    void *result = (void *)1;
    late = 1;
    late_away = late_asked = 0;
    pthread_create(&thread, NULL, late_writer, &all);
    while (!late_away) usleep(1000);
    int e = run(check_range, &one, mode, limit_ms);
    late_hold = 0;
    late_asked = 1;
    pthread_join(thread, &result);
    late = 0;
    return result ? (int)(long)result : e;
}

static void test_late(void)
{
    enum { LONG_MS = 20000 };
    is(read_late(KD_SNAPSHOT, LONG_MS, 300), -ESTALE,
       "a commit ends the wait of a snapshot that asked for its page");
    is(read_late(KD_SERIALISABLE, LONG_MS, 400), 0, "and that of a transaction, which sees it");
    late_hold = 1;
    is(read_late(KD_SNAPSHOT, 20, 500), -ETIMEDOUT, "one asks, and does not wait for it");
    press_late();
    is(run(check_range, &(struct range){ LATE, 1, 500 }, KD_SERIALISABLE, LONG_MS), 0,
       "the next one asks again");
    is(check(), 0, "kcheck");
}

/* The client loses the container in the midst of a SPILL. */
static void test_detach(void)
{
    int bad = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        detach = -1;
        pthread_create(&thread, NULL, detacher, NULL);
        bad += do_range(write_range, 0, LARGE, 9000) != -EACCES;
        pthread_join(thread, NULL);
        bad += kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE) != 0;
    }
    tap_ok(!bad && !told_bad,
           "detached while copies are told: it ends, and all were told whole (%d, %d)", bad,
           told_bad);
    is(check(), 0, "kcheck");
}

static _Atomic int guess_stop, guess_good, taken_back;
/* A manager that works on what it has not received. */
static void *guesser(void *unused)
{
    static uint8_t buffer[64 * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    while (!guess_stop)
        for (unsigned v = 0; v < 8; v++) {
            struct kd_diff d = {.view = v, .token = last_token[v] + taken_back + 1,
                                .buffer = buffer, .buffer_bytes = sizeof buffer};
            guess_good += kd_call3(KD_TXN_DIFF, (long)&d, 0, 0) != -ESRCH;
        }
    return unused;
}

/* The manager has received one commit, answers nothing, and does not receive the next. */
static void test_silent(void)
{
    struct range first = {PAGES - 1, 1, 7000}, second = {PAGES - 2, 1, 7000};
    pthread_t thread;
    void *result = (void *)1;
    hold_commits = 1;
    pthread_create(&thread, NULL, writer, &first);
    while (!held_commits) usleep(1000);
    is(run(write_range, &second, KD_SERIALISABLE, 60), -ETIMEDOUT,
       "a commit not received is taken back");
    pthread_t guesses;
    int bad = 0;
    taken_back = 1;
    pthread_create(&guesses, NULL, guesser, NULL);
    for (int i = 0; i < 20; i++) {
        bad += run(write_range, &(struct range){0, 60, 8000}, KD_SERIALISABLE, 20) != -ETIMEDOUT;
        taken_back++;
    }
    guess_stop = 1;
    pthread_join(guesses, NULL);
    tap_ok(!bad && !guess_good, "nor can its manager work on it by a guess (%d, %d)", bad,
           guess_good);
    hold_commits = 0;
    pthread_join(thread, &result);
    is((long)result, 0, "the one that was received is answered");
    is(do_range(check_range, PAGES - 1, 1, 7000) + do_range(check_range, PAGES - 2, 1, 0), 0,
       "and it alone was done");
}

int main(void)
{
    tap_plan(1 + 11 + 2 + 2 + 4 + 3 + 2 + 5 + 5 + 4 + 2 + 3 + 1);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .flags = KD_OBJECT_SPILLS,
                                              .messages = serve_spill}),
           "a manager that takes copies");
    kd_call3(KD_CREDIT_GRANT, commit_port, CREDITS, 0);
    kd_call3(KD_CREDIT_GRANT, commit_port, 0, 0);
    test_spill();
    test_most();
    test_refused();
    test_divided();
    test_late();
    test_lost();
    test_silent();
    test_detach();
    test_evicted();
    test_window();
    test_limit();
    is(check(), 0, "kcheck");
    return tap_end();
}
