/*
 * kernel_stress.c - the kernel's transactions under load, deaths and bad managers.
 *
 * Aim     eviction and HELD rights, snapshots and their versions, credits, deadlocks, managers that
 *         misuse their calls, processes that die at any moment; nothing is left behind.
 * Method  this program is a manager whose pages are computed, but for four words each, and its own
 *         clients; then it starts itself as a manager and as clients, and kills them. Transfers keep
 *         a sum that every reader checks. Work is counted in kills, transactions and evictions, not in
 *         seconds. `kernel_stress SEED` repeats a run's choices.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum {
    PAGES = 20480, FEW = 512,       /* of the large object: more than memory holds; of the others */
    ACCOUNTS = 64, ACCOUNT_STEP = 97,
    KEPT = 4,                       /* words of a page that can be changed: balance, free, pair */
    OBJECTS = 3, LARGE = 0, LENT = 1, ASKED = 2,
    KIND_OPEN = 1, KIND_CREDIT = 2,
    STATUS_KILLED = 77, STATUS_WRONG = 3,
};
static const char *self;
static uint64_t seed;

/* ---- small things ---- */

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}
static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
static void nap(unsigned ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }
static uint64_t computed(uint64_t object, uint64_t page, unsigned word)
{
    return (object + 1) * 0x9e3779b97f4a7c15ull ^ page * 0xff51afd7ed558ccdull ^ word;
}
static long call(long number, long a, long b, long c) { return kd_call3(number, a, b, c); }
static int views_used(void) { return (int)call(KD_VIEW_LIST, 0, 0, 0); }
static long check(void) { return call(KD_CHECK, 0, 0, 0); }

/* ---- the manager ---- */

static struct managed {
    int handle;
    uint64_t base, pages, (*home)[KEPT], *csn;
} objects[OBJECTS];
static uint64_t home_large[PAGES][KEPT], home_few[2][FEW][KEPT], csn_large[PAGES], csn_few[2][FEW];
static int port, commit_port, lent_port;
static uint64_t next_csn = 1;
static volatile int hold_commits, lend = -1, asked_error; /* lend: what each checkpoint grants */
static volatile uint64_t consumed, odd_runs, asks;

static void serve_page(const struct kd_message *m)
{
    static uint64_t page[KD_PAGE_BYTES / 8];
    struct managed *o = &objects[m->word[0]];
    memcpy(page, o->home[m->word[1]], sizeof o->home[0]);
    for (unsigned i = KEPT; i < KD_PAGE_BYTES / 8; i++) page[i] = computed(m->word[0], m->word[1], i);
    struct kd_supply s = {.object = o->handle, .source = KD_SUPPLY_MEMORY, .count = 1,
                          .rights = KD_READ | KD_WRITE, .page = m->word[1],
                          .csn = o->csn[m->word[1]], .memory = page};
    call(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* What is committed is home already, so cleaning is only saying so. */
static void serve_clean(void)
{
    for (int i = 0; i < OBJECTS; i++)
        for (uint64_t p = 0; p < objects[i].pages; p++)
            if (objects[i].csn[p])
                call(KD_OBJECT_CLEANED, objects[i].handle, (long)p, (long)objects[i].csn[p]);
}

static int take_runs(const uint8_t *at, uint64_t bytes, uint64_t csn)
{
    for (const uint8_t *end = at + bytes; at < end;) {
        const struct kd_run *r = (const void *)at;
        struct managed *o = &objects[r->cookie];
        uint64_t n = r->offset + r->bytes;
        odd_runs += n > sizeof o->home[0];
        if (n <= sizeof o->home[0]) memcpy((char *)o->home[r->page] + r->offset, r + 1, r->bytes);
        o->csn[r->page] = csn;
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
    return 0;
}

static void serve_commit(const struct kd_message *m, int which)
{
    static uint8_t buffers[2][1 << 16];
    uint64_t csn = __atomic_fetch_add(&next_csn, 1, __ATOMIC_SEQ_CST), pages = 0;
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    while (hold_commits) nap(1);
    while (d.cursor != ~0ull) {
        d.buffer = buffers[which];
        d.buffer_bytes = sizeof buffers[which];
        if (call(KD_TXN_DIFF, (long)&d, 0, 0)) break;
        take_runs(buffers[which], d.buffer_bytes, csn);
        pages += d.pages;
    }
    struct kd_publish p = {m->word[0], m->token, csn};
    if (d.cursor != ~0ull || call(KD_TXN_PUBLISH, (long)&p, 1, 0))
        call(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
    else if (which && lend > 0) {
        consumed += pages;
        if (consumed >= (uint64_t)lend / 2) { /* a "checkpoint" */
            call(KD_CREDIT_GRANT, lent_port, (long)consumed, 0);
            consumed = 0;
        }
    }
}

static void serve_call(const struct kd_message *m)
{
    struct kd_message reply = {.handle = -1};
    for (int i = 0; m->kind == KIND_OPEN && i < OBJECTS && !reply.status; i++)
        reply.status = (int)call(KD_SPACE_ATTACH, (long)m->process, objects[i].handle,
                                 KD_RIGHT_READ | KD_RIGHT_WRITE);
    for (int i = 0; i < OBJECTS; i++) reply.word[i] = objects[i].base;
    call(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

static void *manager(void *arg)
{
    static uint8_t buffers[3][KD_PAGE_BYTES];
    int which = *(int *)arg, at = which == 0 ? port : which == 1 ? commit_port : lent_port;
    for (;;) {
        struct kd_message m = {.buffer = buffers[which], .buffer_bytes = KD_PAGE_BYTES};
        if (call(KD_PORT_RECEIVE, at, (long)&m, -1)) return NULL;
        switch (m.kind) {
        case (uint32_t)KD_MSG_PAGE: serve_page(&m); break;
        case (uint32_t)KD_MSG_CLEAN: serve_clean(); break;
        case (uint32_t)KD_MSG_COMMIT: serve_commit(&m, which == 2); break;
        case (uint32_t)KD_MSG_CREDIT_LOW:
            call(KD_CREDIT_GRANT, lent_port, (long)consumed, 0); /* 0: there are no more */
            consumed = 0;
            break;
        case (uint32_t)KD_MSG_LOCK:
            asks++;
            kd_call4(KD_LOCK_ANSWER, objects[m.word[0]].handle, (long)m.token, (long)m.word[3],
                     m.word[1] % 8 == 7 ? -asked_error : 0);
            break;
        default:
            if (!(m.kind & KD_MSG_KERNEL)) serve_call(&m);
        }
    }
}

static int start_manager(int attach)
{
    static int which[3] = {0, 1, 2};
    pthread_t t;
    port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    lent_port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    objects[LARGE] = (struct managed){0, KD_STORE_BASE, PAGES, home_large, csn_large};
    for (int i = 0; i < 2; i++)
        objects[1 + i] = (struct managed){0, KD_STORE_BASE + (1ull << 30) * (unsigned)(1 + i), FEW,
                                          home_few[i], csn_few[i]};
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct kd_object_create c = {.port = port, .commit_port = i == LENT ? lent_port : commit_port,
                                     .cookie = i, .base = objects[i].base, .name = "stress",
                                     .pages = objects[i].pages,
                                     .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_NOTICES};
        if (i == ASKED) c.flags |= KD_OBJECT_ASK;
        objects[i].handle = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
        if (objects[i].handle < 0) return 0;
        if (attach && call(KD_SPACE_ATTACH, getpid(), objects[i].handle, 3)) return 0;
    }
    for (int i = 0; i < 3; i++) pthread_create(&t, NULL, manager, &which[i]);
    return 1;
}

/* ---- transactions ---- */

static _Thread_local struct {
    jmp_buf env;
    int view;                       /* + 1 */
    uint64_t rng, arg[4];
    long aborts;
    char stack[8192] __attribute__((aligned(16)));
} me;

static void on_abort(long reason) { longjmp(me.env, (int)reason); }

static int enter(void)
{
    if (me.view) return 0;
    int v = (int)call(KD_VIEW_CREATE, 0, 0, 0);
    if (v < 0) return v;
    me.view = v + 1;
    me.rng = seed ^ (uint64_t)v * 0x9e3779b97f4a7c15ull ^ (uint64_t)getpid() << 32;
    return (int)call(KD_VIEW_ENTER, v, 0, 0);
}

static void leave(void)
{
    if (me.view) call(KD_HANDLE_CLOSE, me.view - 1, 0, 0);
    me.view = 0;
}

static long begin(unsigned mode, uint64_t *ticket, unsigned timeout_ms)
{
    struct kd_begin b = {.mode = mode, .ticket = *ticket, .timeout_ms = timeout_ms,
                         .entry = (uint64_t)on_abort, .stack = (uint64_t)(me.stack + sizeof me.stack - 8)};
    long e = call(KD_TXN_BEGIN, (long)&b, 0, 0);
    *ticket = b.ticket;
    return e;
}

static long commit(void)
{
    struct kd_commit k = {.port = -1};
    return call(KD_TXN_COMMIT, (long)&k, 0, 0);
}

static uint64_t starved;
static int once(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    static _Thread_local uint64_t ticket;
    int e = enter();
    if (e) return e;
    ticket = 0;
    for (;;) {
        int reason = setjmp(me.env);
        if (reason && reason != EDEADLK) return -reason;
        me.aborts += reason != 0;
        if ((e = (int)begin(mode, &ticket, timeout_ms))) return e;
        if ((e = body(arg))) {
            call(KD_TXN_ABORT, e, 0, 0);
            return e;
        }
        if ((e = (int)commit()) != -EDEADLK) return e;
    }
}

/* Memory is full on purpose, so a transaction may find none for a while. */
static int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    static _Thread_local volatile int tries;
    int e;
    for (tries = 0; (e = once(body, arg, mode, timeout_ms)) == -ENOMEM && tries < 3000; tries++) {
        __atomic_fetch_add(&starved, 1, __ATOMIC_RELAXED);
        nap(10);
    }
    return e;
}

static volatile uint64_t *word_of(unsigned object, uint64_t page, unsigned word)
{
    return (volatile uint64_t *)(objects[object].base + page * KD_PAGE_BYTES) + word;
}
static volatile uint64_t *account(unsigned object, uint64_t i)
{
    return word_of(object, i % ACCOUNTS * (object == LARGE ? ACCOUNT_STEP : 1), 0);
}

static int read_some(void *arg)
{
    uint64_t *x = &me.rng, n = 1 + next(x) % 8;
    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t page = next(x) % PAGES;
        unsigned word = KEPT + (unsigned)(next(x) % (512 - KEPT));
        if (*word_of(LARGE, page, word) != computed(LARGE, page, word)) return STATUS_WRONG;
    }
    return 0;
}
static int move(void *arg)
{
    unsigned object = (unsigned)(uintptr_t)arg;
    volatile uint64_t *from = account(object, next(&me.rng)), *to = account(object, next(&me.rng));
    uint64_t f = *from, t = *to;
    if (from == to) return 0;
    *from = f - 1;
    *to = t + 1;
    return 0;
}
/* Words 2 and 3 of a page are equal at any commit point. */
static int pair(void *arg)
{
    unsigned object = (unsigned)(uintptr_t)arg;
    uint64_t page = next(&me.rng) % objects[object].pages;
    volatile uint64_t *w = word_of(object, page, 2);
    uint64_t v = w[0];
    if (w[1] != v) return STATUS_WRONG;
    w[0] = v + 1;
    if (next(&me.rng) % 4 == 0) return 1000; /* half done: an abort */
    w[1] = v + 1;
    return 0;
}
static int sum(void *arg)
{
    unsigned object = (unsigned)(uintptr_t)arg;
    uint64_t s = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++) s += *account(object, i);
    return s ? STATUS_WRONG : 0;
}
static int scan(void *arg)
{
    uint64_t from = next(&me.rng) % (PAGES - 300);
    (void)arg;
    for (uint64_t p = from; p < from + 300; p++)
        if (*word_of(LARGE, p, 9) != computed(LARGE, p, 9)) return STATUS_WRONG;
    return 0;
}

/* One transaction of a random kind; 0, or what it should not have been. */
static int any(unsigned object)
{
    void *arg = (void *)(uintptr_t)object;
    uint64_t dice = (enter(), next(&me.rng) % 16);
    int e = dice < 5 && object == LARGE ? run(read_some, NULL, KD_SERIALISABLE, 0)
            : dice < 10                 ? run(move, arg, KD_SERIALISABLE, 0)
            : dice < 12                 ? run(pair, arg, KD_SERIALISABLE, 0)
            : dice < 13                 ? run(sum, arg, KD_SERIALISABLE, 0)
            : dice < 15 || object != LARGE ? run(sum, arg, KD_SNAPSHOT, 0)
                                           : run(scan, NULL, dice % 2 ? KD_DIRTY_READ : KD_SNAPSHOT, 0);
    return e == 1000 ? 0 : e;
}

static volatile int stop;
static int working;                     /* a worker that finds something wrong ends before it is told to */
static uint64_t done_count;
static void *worker(void *arg)
{
    int bad = 0;
    while (!stop && !bad) {
        bad = any((unsigned)(uintptr_t)arg);
        __atomic_fetch_add(&done_count, 1, __ATOMIC_RELAXED);
    }
    leave();
    __atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
    return (void *)(intptr_t)bad;
}
static int all_work(int n) { return __atomic_load_n(&working, __ATOMIC_SEQ_CST) == n; }

/* Threads that exist before memory is full: later there may be no stack for a new one. */
enum { POOL = 5, SPARE = 4 };
static struct job {
    void *(*fn)(void *);
    void *arg, *result;
} jobs[POOL];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pool_changed = PTHREAD_COND_INITIALIZER;

static void *pool_thread(void *arg)
{
    struct job *j = arg;
    while (j) {
        pthread_mutex_lock(&pool_lock);
        while (!j->fn) pthread_cond_wait(&pool_changed, &pool_lock);
        pthread_mutex_unlock(&pool_lock);
        void *r = j->fn(j->arg);
        pthread_mutex_lock(&pool_lock);
        j->result = r;
        j->fn = NULL;
        pthread_cond_broadcast(&pool_changed);
        pthread_mutex_unlock(&pool_lock);
    }
    return NULL;
}
static int pool_start(void)
{
    int e = 0;
    for (int i = 0; i < POOL; i++) {
        pthread_t t;
        e |= pthread_create(&t, NULL, pool_thread, &jobs[i]);
    }
    return e;
}
static void spawn(int i, void *(*fn)(void *), void *arg)
{
    pthread_mutex_lock(&pool_lock);
    jobs[i].arg = arg;
    jobs[i].fn = fn;
    pthread_cond_broadcast(&pool_changed);
    pthread_mutex_unlock(&pool_lock);
}
static int joined(int i)
{
    pthread_mutex_lock(&pool_lock);
    while (jobs[i].fn) pthread_cond_wait(&pool_changed, &pool_lock);
    pthread_mutex_unlock(&pool_lock);
    return (int)(intptr_t)jobs[i].result;
}

/* Runs n workers, and `body` beside them; the first result that is not 0. */
static int beside(int n, unsigned object, int (*body)(void))
{
    stop = 0;
    working = n;
    for (int i = 0; i < n; i++) spawn(i, worker, (void *)(uintptr_t)object);
    int bad = body();
    stop = 1;
    for (int i = 0; i < n; i++) {
        int r = joined(i);
        bad = bad ? bad : r;
    }
    return bad;
}

/* ---- memory ---- */

/* Until so much has come and gone, however slow this machine is. */
static int many_evictions(void)
{
    uint64_t enough = system_info().evictions + PAGES / 4;
    while (system_info().evictions < enough && all_work(3)) nap(20);
    return 0;
}

/* Reads all accounts, then more pages than memory holds, then the accounts again: nobody changed them. */
static int read_twice(void *arg)
{
    static uint64_t seen[ACCOUNTS];
    (void)arg;
    for (unsigned i = 0; i < ACCOUNTS; i++) seen[i] = *account(LARGE, i);
    for (uint64_t p = 0; p < PAGES; p += 2)
        if (*word_of(LARGE, p, 7) != computed(LARGE, p, 7)) return STATUS_WRONG;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        if (*account(LARGE, i) != seen[i]) return STATUS_WRONG;
    return 0;
}
static int held(void) { return run(read_twice, NULL, KD_SERIALISABLE, 0); }

/* ---- snapshots ---- */

static int look_long(void *arg)
{
    uint64_t seen[ACCOUNTS], total = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++) total += seen[i] = *account(LARGE, i);
    nap((unsigned)(uintptr_t)arg);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        if (*account(LARGE, i) != seen[i]) return STATUS_WRONG;
    return total ? STATUS_WRONG : 0;
}
static int snapshots(void)
{
    int e = 0;
    for (int i = 0; i < 6 && !e; i++) e = run(look_long, (void *)(uintptr_t)150, KD_SNAPSHOT, 0);
    return e;
}

static int stamp(void *arg)
{
    for (uint64_t p = 0; p < 256; p++) *word_of(LARGE, (uintptr_t)arg * 256 + p, 1) += 1;
    return 0;
}
static void *stamper(void *arg)
{
    int e = 0;
    (void)arg;
    for (uintptr_t i = 0; i < 16 && !e; i++) e = run(stamp, (void *)i, KD_SERIALISABLE, 0);
    leave();
    return (void *)(intptr_t)e;
}
static int look_too_long(void *arg)
{
    uint64_t before = 0;
    for (uint64_t p = 0; p < 2048; p += 256) before += *word_of(LARGE, p, 1);
    spawn(SPARE, stamper, NULL);
    *(int *)arg = joined(SPARE);
    for (uint64_t p = 0; p < 2048; p += 256) before -= *word_of(LARGE, p, 1);
    return before ? STATUS_WRONG : 0;
}

/* ---- waits ---- */

enum { RING = 60 };
static volatile int ring_views, ring_met;
static int ring_step(void *arg)
{
    uintptr_t i = (uintptr_t)arg;
    static _Thread_local int met;
    *word_of(LARGE, i, 1) += 1;
    if (!met) __atomic_fetch_add(&ring_met, 1, __ATOMIC_SEQ_CST);
    met = 1;
    while (!ring_views || ring_met < ring_views) nap(2);
    *word_of(LARGE, (i + 1) % (unsigned)ring_views, 1) += 1;
    return 0;
}
static void *ring_thread(void *arg)
{
    int e = run(ring_step, arg, KD_SERIALISABLE, 0);
    leave();
    return (void *)(intptr_t)e;
}
/* Each holds a page and wants its neighbour's. */
static int ring(void)
{
    pthread_t t[RING];
    pthread_attr_t small;
    int bad = 0, n = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    while (n < RING && !pthread_create(&t[n], &small, ring_thread, (void *)(uintptr_t)n)) n++;
    ring_views = n;
    for (int i = 0; i < n; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad |= r != NULL;
    }
    return bad;
}

/* Two views of one thread: the second cannot wait for the first. */
static int two_views(void)
{
    static _Thread_local volatile int step, met;
    uint64_t ticket = 0, other = 0;
    int first = me.view - 1, second = (int)call(KD_VIEW_CREATE, 0, 0, 0);
    if (second < 0 || begin(KD_SERIALISABLE, &ticket, 0)) return 1;
    *word_of(LARGE, 5, 1) += 1;
    call(KD_VIEW_ENTER, second, 0, 0);
    int reason = setjmp(me.env);
    if (reason) met = reason;
    if (begin(KD_SERIALISABLE, &other, 0)) return 2;
    *word_of(LARGE, 6, 1) += 1;
    if (step++ == 0) *word_of(LARGE, 5, 1) += 1;
    if (commit()) return 3;
    call(KD_VIEW_ENTER, first, 0, 0);
    *word_of(LARGE, 7, 1) += 1;
    if (commit()) return 4;
    return call(KD_HANDLE_CLOSE, second, 0, 0) || met != EDEADLK ? 5 : 0;
}

/* ---- credits ---- */

static int write_n(void *arg)
{
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) *word_of(LENT, 100 + i, 1) += 1;
    return 0;
}
enum { MOVES = 1500 };
/* Until so many transactions have shared a few credits. */
static int credits(void)
{
    uint64_t enough = done_count + MOVES;
    while (__atomic_load_n(&done_count, __ATOMIC_RELAXED) < enough && all_work(4)) nap(5);
    return 0;
}

/* ---- calls that a manager should not make ---- */

static int store_one(void *arg) { *word_of(LARGE, (uintptr_t)arg, 1) += 1; return 0; }
static void *publish_it(void *arg) { return (void *)call(KD_TXN_PUBLISH, (long)arg, 1, 0); }

static void *own_server(void *arg)
{
    /* publishes twice at once, one list with a view twice, then one with a forged token */
    int at = *(int *)arg;
    for (int round = 0; round < 200; round++) {
        struct kd_message m = {0};
        if (call(KD_PORT_RECEIVE, at, (long)&m, -1)) return (void *)1;
        struct kd_publish p = {m.word[0], m.token, (uint64_t)round * 2 + 1};
        struct kd_publish twice[2] = {p, p};
        twice[1].csn++;
        struct kd_diff d = {.view = p.view, .token = p.token};
        static uint8_t buffer[16384];
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        call(KD_TXN_DIFF, (long)&d, 0, 0);
        struct kd_publish forged = {p.view, p.token + 1, p.csn};
        if (call(KD_TXN_PUBLISH, (long)&forged, 1, 0) != -ESRCH ||
            call(KD_TXN_PUBLISH, (long)twice, 2, 0) != -ESRCH)
            return (void *)2;
        pthread_t t;
        pthread_create(&t, NULL, publish_it, &p);
        long mine = call(KD_TXN_PUBLISH, (long)&p, 1, 0);
        void *other;
        pthread_join(t, &other);
        if ((mine == 0) == (other == NULL)) return (void *)3;
    }
    return NULL;
}

/* Objects of a second manager in this process, one after the other: destroyed under commits, closed
 * and not destroyed. */
static int bad_manager(void)
{
    static int at, object;
    static const uint64_t base = KD_STORE_BASE + (8ull << 30);
    uint64_t saved = objects[LARGE].base;
    int result = 0;
    at = (int)call(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = at, .commit_port = at, .base = base, .pages = 64,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "bad"};
    object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .count = 64,
                          .rights = KD_READ | KD_WRITE};
    if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
        call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
        return 1;
    pthread_t t;
    void *r;
    pthread_create(&t, NULL, own_server, &at);
    objects[LARGE].base = base;
    for (uintptr_t i = 0; i < 200 && !result; i++) result = run(store_one, (void *)(i % 8), 0, 0);
    pthread_join(t, &r);
    if (r || result) return 10 + (int)(intptr_t)r;
    call(KD_OBJECT_DESTROY, object, 0, 0);
    /* its address answers nothing any more, and the next one's pages are its own */
    object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
    s.object = object;
    if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
        call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
        return 20;
    uint64_t *w = (uint64_t *)base;
    uint64_t ticket = 0;
    if (setjmp(me.env) || begin(KD_SERIALISABLE, &ticket, 0)) return 21;
    result = *(volatile uint64_t *)w != 0;
    call(KD_TXN_ABORT, 0, 0, 0);
    objects[LARGE].base = saved;
    call(KD_HANDLE_CLOSE, object, 0, 0); /* never destroyed: lives until the process ends */
    call(KD_PORT_NOTIFY, at, 1, 0);
    call(KD_HANDLE_CLOSE, at, 0, 0);
    return result ? 22 : check() != 0;
}

static volatile int destroy_ready;
static void *diff_for_ever(void *arg)
{
    static uint8_t buffer[1 << 17];
    int at = *(int *)arg;
    struct kd_message m = {0};
    if (call(KD_PORT_RECEIVE, at, (long)&m, 10000)) return NULL;
    destroy_ready = 1;
    for (int i = 0; i < 3000; i++) {
        struct kd_diff d = {.view = m.word[0], .token = m.token, .buffer = buffer,
                            .buffer_bytes = sizeof buffer, .full_below = ~0ull};
        if (call(KD_TXN_DIFF, (long)&d, 0, 0)) break;
        if (d.pages == 0) break; /* the object is gone */
    }
    call(KD_TXN_REFUSE, (long)m.word[0], (long)m.token, EIO);
    return NULL;
}
static int store_many(void *arg)
{
    for (uint64_t i = 0; i < 24; i++) *word_of(LARGE, i, 1) += 1;
    (void)arg;
    return 0;
}
static void *store_many_thread(void *arg)
{
    int e = run(store_many, arg, KD_SERIALISABLE, 0);
    leave();
    return (void *)(intptr_t)e;
}
/* An object is destroyed while its manager reads a commit's differences. */
static int destroyed_under_diff(void)
{
    static int at;
    uint64_t saved = objects[LARGE].base;
    for (int round = 0; round < 10; round++) {
        at = (int)call(KD_PORT_CREATE, 0, 0, 0);
        struct kd_object_create c = {.port = at, .commit_port = at, .base = KD_STORE_BASE + (9ull << 30),
                                     .pages = 64, .flags = KD_OBJECT_TRANSACTIONAL, .name = "bad"};
        int object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
        struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .count = 64,
                              .rights = KD_READ | KD_WRITE};
        if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
            call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
            return 1;
        objects[LARGE].base = c.base;
        destroy_ready = 0;
        pthread_t server, client;
        void *r;
        pthread_create(&server, NULL, diff_for_ever, &at);
        pthread_create(&client, NULL, store_many_thread, NULL);
        while (!destroy_ready) nap(1);
        nap((unsigned)(next(&seed) % 3));
        if (call(KD_OBJECT_DESTROY, object, 0, 0)) return 2;
        pthread_join(client, &r);
        pthread_join(server, NULL);
        if ((int)(intptr_t)r != -EIO && (int)(intptr_t)r != -EOWNERDEAD) return 3;
        call(KD_HANDLE_CLOSE, at, 0, 0);
    }
    objects[LARGE].base = saved;
    return check() != 0;
}

/* Other ids, tokens, handles and ranges than those it may use; all refused. */
static int nonsense(void)
{
    int bad = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t v = next(&seed) % 140, token = next(&seed) % 100;
        struct kd_publish p = {v, token, 1};
        uint64_t mask[2] = {next(&seed), next(&seed)};
        switch (next(&seed) % 6) {
        case 0: bad |= call(KD_TXN_PUBLISH, (long)&p, 1, 0) == 0; break;
        case 1: bad |= call(KD_TXN_REFUSE, (long)v, (long)token, EIO) == 0; break;
        case 2: bad |= kd_call4(KD_LOCK_ANSWER, objects[ASKED].handle, (long)token, (long)v, 0) == 0; break;
        case 3: bad |= call(KD_OBJECT_CLEANED, (int)v, (long)token, 3) == 0 && v > 20; break;
        case 4: bad |= call(KD_VIEW_WAIT, (long)v, (long)mask, 0) == 0 && v >= KD_VIEW_MAX; break;
        case 5: bad |= kd_call4(KD_OBJECT_FAIL, objects[LARGE].handle, (long)(PAGES + token), 1, EIO) == 0;
        }
    }
    return bad;
}

static int all_views(void)
{
    int own[KD_VIEW_MAX], n = 0, h;
    while (n < KD_VIEW_MAX && (h = (int)call(KD_VIEW_CREATE, 0, 0, 0)) >= 0) own[n++] = h;
    int e = n < KD_VIEW_MAX ? h : 0;
    for (int i = 0; i < n; i++) call(KD_HANDLE_CLOSE, own[i], 0, 0);
    return e == -ENFILE && n > 32 ? 0 : -1;
}

static int ask_ok(void *arg) { return *word_of(ASKED, (uintptr_t)arg, 50) != computed(ASKED, (uintptr_t)arg, 50); }
static int asking(void)
{
    int bad = 0;
    asked_error = EACCES;
    for (uintptr_t p = 0; p < 32; p++) {
        int e = run(ask_ok, (void *)p, KD_SERIALISABLE, 0);
        bad |= e != (p % 8 == 7 ? -EACCES : 0);
    }
    asked_error = 0;
    return bad || asks < 32;
}

/* ---- processes ---- */

static int not_started;
static int start(const char *role, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lu", (unsigned long)number);
    const char *argv[] = {self, role, text, NULL};
    struct kd_process_create c = {.path = self, .argv = argv, .fds = {-1, -1, -1}, .handle_count = 1,
                                  .handles = {KD_SYSTEM_HANDLE}};
    int h = (int)call(KD_PROCESS_CREATE, (long)&c, 0, 0);
    not_started += h < 0; /* memory may be full: one client less, this time */
    if (h >= 0) call(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? h : c.pid;
}
static int status_of(int pid)
{
    int status = -1;
    call(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}

static int manager_main(void)
{
    if (!start_manager(0) || call(KD_NAME_SET, (long)"stress", port, 0)) return 1;
    for (;;) nap(1000);
}

/* Attached, also again after the manager's death. */
static int attach(int *at)
{
    struct kd_message m;
    if (*at >= 0) call(KD_HANDLE_CLOSE, *at, 0, 0);
    for (int i = 0; i < 30000; i++, nap(2)) {
        *at = (int)call(KD_NAME_FIND, (long)"stress", 0, 0);
        if (*at < 0) continue;
        m = (struct kd_message){.kind = KIND_OPEN, .handle = -1};
        if (call(KD_PORT_CALL, *at, (long)&m, 0) == 0) {
            for (int k = 0; k < OBJECTS; k++) objects[k].base = m.word[k];
            return 0;
        }
        call(KD_HANDLE_CLOSE, *at, 0, 0);
    }
    return 1;
}

static int client_at = -1;
static void *client_thread(void *arg)
{
    (void)arg;
    while (!stop && any(LENT) == 0) continue;
    return NULL;
}
static int client_main(void)
{
    pthread_t t;
    objects[LARGE].pages = PAGES;
    objects[LENT].pages = objects[ASKED].pages = FEW;
    if (attach(&client_at)) return 2;
    pthread_create(&t, NULL, client_thread, NULL);
    for (;;) {
        int e = any(next(&me.rng) % 4 ? LENT : LARGE);
        if (e == STATUS_WRONG) return STATUS_WRONG;
        if (e == -EOWNERDEAD && attach(&client_at)) return 2;
        if (e && e != -EOWNERDEAD) return 100 + (-e & 63);
    }
}

enum { CLIENTS = 4, KILLS = 24 };
static int wrong_ends;
static void expect_killed(int pid)
{
    int s = pid < 0 ? STATUS_KILLED : status_of(pid);
    if (s == STATUS_KILLED) return;
    printf("# a client ended with %d\n", s);
    wrong_ends++;
}

static int kills(int manager_too)
{
    int pid[CLIENTS], m = start("manager", 0), bad = 0, restarts = 0;
    for (int i = 0; i < CLIENTS; i++) pid[i] = start("client", next(&seed));
    for (int round = 0; round < KILLS && !bad; round++) {
        nap((unsigned)(next(&seed) % 120));
        unsigned i = (unsigned)(next(&seed) % CLIENTS);
        if (pid[i] > 0) call(KD_PROCESS_KILL, pid[i], STATUS_KILLED, 0);
        if (manager_too && next(&seed) % 4 == 0) {
            call(KD_PROCESS_KILL, m, STATUS_KILLED, 0);
            if (next(&seed) % 2) bad |= check() != 0;
            bad |= status_of(m) != STATUS_KILLED;
            while ((m = start("manager", 0)) < 0) nap(10);
            restarts++;
        }
        expect_killed(pid[i]);
        bad |= check() != 0;
        pid[i] = start("client", next(&seed));
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (pid[i] > 0) call(KD_PROCESS_KILL, pid[i], STATUS_KILLED, 0);
        expect_killed(pid[i]);
    }
    call(KD_PROCESS_KILL, m, STATUS_KILLED, 0);
    status_of(m);
    if (manager_too) printf("# the manager died %d times\n", restarts + 1);
    return bad || wrong_ends;
}

/* Detached or revoked, a client ends; the others go on. */
static int detaches(void)
{
    int bad = 0;
    call(KD_NAME_SET, (long)"stress", port, 0);
    for (int i = 0; i < 12 && !bad; i++) {
        int pid = start("client", next(&seed));
        nap(60 + (unsigned)(next(&seed) % 60));
        if (i % 3 == 2) call(KD_PROCESS_KILL, pid, STATUS_KILLED, 0); /* both at once */
        for (int k = 0; k < OBJECTS; k++) {
            long e = i % 2 || k ? call(KD_SPACE_DETACH, pid, objects[k].handle, 0) : 0;
            bad |= e && e != -ESRCH && e != -ENOENT;
        }
        if (!(i % 2)) call(KD_OBJECT_REVOKE, objects[LARGE].handle, 0, 0);
        if (pid > 0) status_of(pid);
        bad |= check() != 0;
        call(KD_SPACE_ATTACH, getpid(), objects[LARGE].handle, 3); /* revoking was for all */
    }
    return bad;
}

/* ---- all of it ---- */

static int is_empty(const struct kd_system_info *s, uint64_t objects_before, int views_before)
{
    return s->objects == objects_before && s->versions == 0 && s->dirty_pages == 0 && s->resident_pages == 0 &&
           views_used() == views_before;
}

static void killed(void)
{
    int views_at_start = views_used();
    kills(0); /* warm: what is allocated once */
    struct kd_system_info before = system_info();
    wrong_ends = 0;
    int e = kills(0);
    tap_ok(e == 0, "clients that are killed at any moment leave a clean kernel");
    e = kills(1);
    tap_ok(e == 0, "and so do managers; clients come back to the next one");
    struct kd_system_info after = system_info();
    for (int i = 0; i < 1000 && !is_empty(&after, before.objects, views_at_start); i++, after = system_info()) nap(10);
    tap_ok(is_empty(&after, before.objects, views_at_start), "objects, versions, views and pages are gone with them");
    long lost = ((long)before.free_bytes - (long)after.free_bytes) / 4096;
    tap_ok(lost < 64, "and their frames are free again (%ld missing)", lost);
}

static void views_and_credits(void)
{
    int e = ring();
    tap_ok(e == 0 && ring_views == RING, "a ring of %d views is undone (%d)", ring_views, e);
    e = two_views();
    tap_ok(e == 0, "two views of one thread (%d)", e);
    tap_ok(all_views() == 0, "the views of a process have a limit");
    lend = 12;
    call(KD_CREDIT_GRANT, lent_port, lend, 0);
    e = beside(4, LENT, credits);
    tap_ok(e == 0, "twelve credits for four threads (%d; %lu transactions)", e, done_count);
    lend = 0;
    e = run(write_n, (void *)13, KD_SERIALISABLE, 60000);
    tap_ok(e == -E2BIG || e == -ENOSPC, "more than there are: refused (%d)", e);
    lend = 12;
    call(KD_CREDIT_GRANT, lent_port, 64, 0);
    e = run(write_n, (void *)13, KD_SERIALISABLE, 60000);
    tap_ok(e == 0, "and granted (%d)", e);
}

static void managers(void)
{
    tap_ok(asking() == 0, "a manager that is asked for each page");
    int e = beside(2, LARGE, nonsense);
    tap_ok(e == 0, "calls on what is not the manager's are refused (%d)", e);
    e = bad_manager();
    tap_ok(e == 0, "a manager that publishes twice (%d)", e);
    e = destroyed_under_diff();
    tap_ok(e == 0, "an object destroyed under a commit (%d)", e);
    e = detaches();
    tap_ok(e == 0 && check() == 0, "clients that are detached while they run (%d)", e);
}

static void little_memory(void)
{
    struct kd_system_info before = system_info();
    int e = beside(3, LARGE, many_evictions);
    tap_ok(e == 0, "pages come and go under three threads (%d; %lu transactions)", e, done_count);
    struct kd_system_info after = system_info();
    tap_ok(after.evictions > before.evictions + 1000 && odd_runs == 0, "%lu evictions",
           after.evictions - before.evictions);
    tap_ok(check() == 0, "kcheck is clean");
    e = beside(2, LARGE, held);
    tap_ok(e == 0, "rights are held over eviction: a second look sees the same (%d)", e);
    e = beside(3, LARGE, snapshots);
    tap_ok(e == 0, "a snapshot sees one state, however long it looks (%d)", e);
    tap_ok(system_info().versions == 0, "and no old version is left (%lu)", system_info().versions);
    int stamps = -1;
    e = run(look_too_long, &stamps, KD_SNAPSHOT, 0);
    tap_ok(e == -ESTALE && stamps == 0, "a snapshot that needs too much memory ends (%d, %d)", e, stamps);
    tap_ok(system_info().versions == 0 && check() == 0, "with its versions");
}

int main(int argc, char **argv)
{
    self = strchr(argv[0], (int)0x2f) ? argv[0] : "/bin/kernel_stress";
    seed = argc > 2 ? strtoul(argv[2], NULL, 0) : argc > 1 ? strtoul(argv[1], NULL, 0) : now_ms() * 2654435761u;
    seed |= 1;
    if (argc > 2) return strcmp(argv[1], "manager") ? client_main() : manager_main();

    tap_plan(24);
    printf("# seed %lu\n", (unsigned long)seed);
    uint64_t started = now_ms();
    killed();
    tap_ok(start_manager(1) && enter() == 0 && pool_start() == 0, "a manager in this process");
    views_and_credits();
    managers();
    little_memory();
    printf("# %lu ms; for want of memory: %lu retries, %d processes not started\n",
           (unsigned long)(now_ms() - started), starved, not_started);
    return tap_end();
}
