/* txn.c - transactions, and threads that run them. */
#include "stress.h"

_Thread_local struct actor me;

static void on_abort(long reason) { longjmp(me.env, (int)reason); }

int enter(void)
{
    if (me.view) return 0;
    int v = (int)call(KD_VIEW_CREATE, 0, 0, 0);
    if (v < 0) return v;
    me.view = v + 1;
    me.rng = seed ^ (uint64_t)v * 0x9e3779b97f4a7c15ull ^ (uint64_t)getpid() << 32;
    return (int)call(KD_VIEW_ENTER, v, 0, 0);
}

void leave(void)
{
    if (me.view) call(KD_HANDLE_CLOSE, me.view - 1, 0, 0);
    me.view = 0;
}

long begin(unsigned mode, uint64_t *ticket, unsigned timeout_ms)
{
    struct kd_begin b = { .mode = mode,
                          .ticket = *ticket,
                          .timeout_ms = timeout_ms,
                          .entry = (uint64_t)on_abort,
                          .stack = (uint64_t)(me.stack + sizeof me.stack - 8) };
    long e = call(KD_TXN_BEGIN, (long)&b, 0, 0);
    *ticket = b.ticket;
    return e;
}

long commit(void)
{
    struct kd_commit k = {.port = -1};
    return call(KD_TXN_COMMIT, (long)&k, 0, 0);
}

uint64_t starved;
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

int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    static _Thread_local volatile int tries;
    int e;
    for (tries = 0; (e = once(body, arg, mode, timeout_ms)) == -ENOMEM && tries < 3000; tries++) {
        __atomic_fetch_add(&starved, 1, __ATOMIC_RELAXED);
        nap(10);
    }
    return e;
}

volatile uint64_t *word_of(unsigned object, uint64_t page, unsigned word)
{
    return (volatile uint64_t *)(objects[object].base + page * KD_PAGE_BYTES) + word;
}
volatile uint64_t *account(unsigned object, uint64_t i)
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

int any(unsigned object)
{
    void *arg = (void *)(uintptr_t)object;
    uint64_t dice = (enter(), next(&me.rng) % 16);
    int e = dice < 5 && object == LARGE ? run(read_some, NULL, KD_SERIALISABLE, 0)
            : dice < 10                 ? run(move, arg, KD_SERIALISABLE, 0)
            : dice < 12                 ? run(pair, arg, KD_SERIALISABLE, 0)
            : dice < 13                 ? run(sum, arg, KD_SERIALISABLE, 0)
            : dice < 15 || object != LARGE
                ? run(sum, arg, KD_SNAPSHOT, 0)
                : run(scan, NULL, dice % 2 ? KD_DIRTY_READ : KD_SNAPSHOT, 0);
    return e == 1000 ? 0 : e;
}

_Atomic int stop;
static int working;  /* a worker that finds something wrong ends before it is told to */
uint64_t done_count;
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
int all_work(int n) { return __atomic_load_n(&working, __ATOMIC_SEQ_CST) == n; }

struct job {
    void *(*fn)(void *);
    void *arg, *result;
};
static struct job jobs[POOL];
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
int pool_start(void)
{
    int e = 0;
    for (int i = 0; i < POOL; i++) {
        pthread_t t;
        e |= pthread_create(&t, NULL, pool_thread, &jobs[i]);
    }
    return e;
}
void spawn(int i, void *(*fn)(void *), void *arg)
{
    pthread_mutex_lock(&pool_lock);
    jobs[i].arg = arg;
    jobs[i].fn = fn;
    pthread_cond_broadcast(&pool_changed);
    pthread_mutex_unlock(&pool_lock);
}
int joined(int i)
{
    pthread_mutex_lock(&pool_lock);
    while (jobs[i].fn) pthread_cond_wait(&pool_changed, &pool_lock);
    pthread_mutex_unlock(&pool_lock);
    return (int)(intptr_t)jobs[i].result;
}

int beside(int n, unsigned object, int (*body)(void))
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
