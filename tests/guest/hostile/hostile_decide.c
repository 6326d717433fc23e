/*
 * hostile_decide.c - bad words to STORE_DECIDE, by who decides about a container and who does not.
 *
 * Aim     an error for whoever sends them; pages of others, and their transactions, are as they
 *         were. Who decides and is flooded, silent, killed, or says wrong things harms nobody but
 *         those that wait for it, and those not beyond its end.
 * Method  each word with values of all kinds, bare (store_client.h). Other processes are this
 *         program: one decides and dies, one changes counters meanwhile.
 */
#include <pthread.h>
#include <sched.h>

#include "decide.h"
#include "hostile.h"
#include "store_client.h"

enum { THREADS = 6, ROUNDS = 30, DEATHS = 4, RANDOM = 3000, CHANGES = 40 };
struct root { uint64_t count; };
static ps_container *c, *other_c;
static struct wire_opened mine, other, only_read;
static uint64_t *counter, *other_counter;

static const uint64_t all = ~0ull;

/* Word 0 to 5; the status. */
static long decide(uint64_t id, uint64_t what, uint64_t w2, uint64_t w3, uint64_t w4, uint64_t w5)
{
    struct kd_message m = {.kind = STORE_DECIDE, .handle = -1, .word = {id, what, w2, w3, w4, w5}};
    long r = kd_call3(KD_PORT_CALL, client_port, (long)&m, 0);
    return r ? r : m.status;
}

static int refused_with(long r, long wanted, const char *what)
{
    int good = wanted ? r == wanted : is_errno(r);
    if (!good) printf("# %s: %ld\n", what, r);
    return good;
}
#define REFUSED(wanted, ...) good &= refused_with(decide(__VA_ARGS__), wanted, #__VA_ARGS__)

static int find(void *unused)
{
    (void)unused;
    counter = &((struct root *)ps_root(c))->count;
    other_counter = &((struct root *)ps_root(other_c))->count;
    return 0;
}
static int add(void *word) { return ++*(volatile uint64_t *)word, 0; }
static int read_count(void *out) { return *(uint64_t *)out = *counter + *other_counter, 0; }

static int containers_open(void)
{
    c = ps_open("decided", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    other_c = ps_open("others", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c && other_c ? ps_transaction(find, NULL) : -errno;
    return e ? e : client_connect();
}

/* Makes two containers: this process opens the first one to read, the second not at all. */
static int maker(void)
{
    ps_container *a = ps_open("only-read", PS_CREATE | PS_WRITE, NULL);
    ps_container *b = ps_open("unopened", PS_CREATE | PS_WRITE, NULL);
    return !a || !b;
}

static int another_opens(const char *self)
{
    int status = child_run(self, "maker", NULL);
    return status ? -status : (int)client_open("only-read", 0, NULL, 0, 0, &only_read);
}

/* ---- words ---- */

static void not_deciding(void)
{
    int good = 1;
    for (uint64_t what = 3; what < 40; what++) /* -EPERM before anything is looked at */
        REFUSED(-EPERM, mine.container, what, all, all, all, all);
    REFUSED(-EPERM, mine.container, all, 0, 0, 0, 0);
    for (uint64_t what = 0; what < 40; what++) {
        REFUSED(-ENOENT, all, what, 0, 0, 0, 0);
        REFUSED(-ENOENT, 0, what, 0, 0, 0, 0);
    }
    tap_ok(good, "who does not decide, and containers that are none");
}

static void not_allowed(void)
{
    int good = 1;
    for (uint64_t what = 0; what < 8; what++) {
        REFUSED(-EACCES, only_read.container, what, mine.base, 1, KD_READ, 0);
        REFUSED(-EACCES, only_read.container + 1, what, mine.base, 1, KD_READ, 0);
    }
    tap_ok(good, "one that is open for reading only, one that is not open");
}

static void deciding(void)
{
    const uint64_t m = mine.container, at = mine.base, big = 1ull << 63;
    int good = 1;
    for (uint64_t pages = 0, i = 0; i < 5; pages = (uint64_t[]){all, big, 1ull << 52, mine.pages +
         (1ull << 20), 0}[i++])
        for (uint64_t what = WIRE_DECIDE_GRANT; what <= WIRE_DECIDE_RECALL; what += 2)
            REFUSED(-EINVAL, m, what, at, pages, KD_READ, 0);
    static const uint64_t nowhere[] = {0, 1, ~0ull, 1ull << 63, 0x1000};
    for (unsigned i = 0; i < 5; i++)
        for (uint64_t what = WIRE_DECIDE_GRANT; what <= WIRE_DECIDE_RECALL; what++)
            REFUSED(-EINVAL, m, what, nowhere[i], 1, KD_READ, 1);
    for (uint64_t what = WIRE_DECIDE_GRANT; what <= WIRE_DECIDE_RECALL; what++)
        REFUSED(-EINVAL, m, what, other.base, 1, KD_READ, 1); /* another container's */
    static const uint64_t rights[] = {0, KD_WRITE, 4, 8, ~0ull, 1ull << 32 | KD_READ};
    for (unsigned i = 0; i < 6; i++) REFUSED(-EINVAL, m, WIRE_DECIDE_GRANT, at, 1, rights[i], 0);
    for (unsigned i = 1; i < 6; i++)
        if (rights[i] != KD_RECALL_DROP)
            REFUSED(-EINVAL, m, WIRE_DECIDE_RECALL, at, 1, rights[i], 0);
    static const uint64_t numbers[] = {1, 2, 0x7fffffff, 1ull << 32, ~0ull};
    for (unsigned i = 0; i < 5; i++) {
        REFUSED(0, m, WIRE_DECIDE_GRANT, at, 1, KD_READ, numbers[i]);
        REFUSED(0, m, WIRE_DECIDE_GRANT, at, mine.pages, KD_READ, numbers[i]);
        REFUSED(-ESRCH, m, WIRE_DECIDE_FAIL, at, 1, EIO, numbers[i]);
        REFUSED(0, m, WIRE_DECIDE_FAIL, at, 1, numbers[i] << 12, numbers[i]);
    }
    REFUSED(-EINVAL, m, WIRE_DECIDE_FAIL, at, 1, EIO, 0);
    REFUSED(-ESRCH, m, WIRE_DECIDE_FAIL, at, 1, EAGAIN, 7);
    for (uint64_t view = 0; view < 256; view += 5)
        REFUSED(0, m, WIRE_DECIDE_WAITS, view, all, all, 0);
    REFUSED(0, m, WIRE_DECIDE_WAITS, all, 0, 0, 0);
    const uint64_t beyond = 1ull << 32; /* a number of 64 bits is no other of 32 */
    for (uint64_t what = 0; what < 9; what++) REFUSED(-EINVAL, m, beyond | what, at, 1, KD_READ, 0);
    for (uint64_t what = 9; what < 16; what++) REFUSED(-EINVAL, m, what, at, 1, KD_READ, 0);
    tap_ok(good, "who decides says what is no page, no right, no question, no view");
}

/* A transaction that asks nothing of whoever decides here: that it waits, perhaps for itself, is a
 * lie, for which it would be ended. */
static void others_wait(void)
{
    int good = 1, e = ps_begin(NULL);
    if (!e) e = add(other_counter);
    ps_tx *tx = ps_suspend();
    for (uint64_t view = 0; view < KD_VIEW_MAX; view++)
        REFUSED(-ESRCH, mine.container, WIRE_DECIDE_WAITS, view, all, all, 0);
    ps_resume(tx);
    e = e ? e : ps_commit();
    tap_ok(good && e == 0, "nor of others' transactions, which go on (%d)", e);
}

/* ---- many at once ---- */

static _Atomic long ended[THREADS];
static void *waits_next(void *i)
{
    ended[(uintptr_t)i] = decide(mine.container, WIRE_DECIDE_NEXT, 0, 0, 0, 0);
    return NULL;
}

static void many(void)
{
    pthread_t t[THREADS];
    long interrupted = 0, cancelled = 0;
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, waits_next, (void *)i);
    while (interrupted < THREADS - 1) { /* all but the one that came last */
        interrupted = 0;
        for (unsigned i = 0; i < THREADS; i++) interrupted += ended[i] == -EINTR;
        sched_yield();
    }
    long r = decide(mine.container, WIRE_DECIDE_KERNEL, 0, 0, 0, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        cancelled += ended[i] == -ECANCELED;
    }
    tap_ok(r == 0 && cancelled == 1, "of threads that wait the last one does, to the end (%ld)",
           cancelled);
}

static uint64_t seed = 88172645463325252ull;
static uint64_t dice(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed >> 11;
}

static uint64_t any_word(void)
{
    const uint64_t some[] = {0, 1, 2, 3, ~0ull, mine.base, other.base, mine.pages, 64, 1ull << 63,
                             mine.base + KD_PAGE_BYTES * 3, dice()};
    return some[dice() % (sizeof some / sizeof some[0])];
}

/* It never waits for the next question: nobody would end that. */
static void at_random(void)
{
    long results[2] = {0};
    for (int i = 0; i < RANDOM; i++) {
        uint64_t what = dice() % 12;
        if (what == WIRE_DECIDE_NEXT || what == WIRE_DECIDE_STORE) continue;
        long r = decide(dice() % 8 ? mine.container : any_word(), what, any_word(), any_word(),
                        any_word(), any_word());
        results[r >= 0]++;
    }
    long r = decide(mine.container, WIRE_DECIDE_KERNEL, 0, 0, 0, 0);
    tap_ok(r == 0 && results[0] && results[1], "words at random: %ld refused, %ld not", results[0],
           results[1]);
}

/* ---- it dies, while others want its pages ---- */

/* Decides, says nonsense, and waits to be killed: it answers nobody. */
static int silent(void)
{
    if (containers_open() || client_open("decided", PS_WRITE, NULL, 0, 0, &mine)) return 1;
    while (decide(mine.container, WIRE_DECIDE_CALLER, 0, 0, 0, 0) == -EBUSY) sched_yield();
    for (;;) decide(mine.container, WIRE_DECIDE_NEXT, 0, 0, 0, 0);
}

static _Atomic long changed;
static void *changes(void *word)
{
    for (int i = 0; i < CHANGES; i++) {
        int e = ps_transaction_opt(add, word, &(struct ps_options){.apart = i % 4});
        if (e) return (void *)(long)e;
        __atomic_fetch_add(&changed, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void dies(const char *self)
{
    pthread_t t[2];
    void *bad = NULL;
    uint64_t before = 0, sum = 0;
    int e = ps_transaction(read_count, &before);
    pthread_create(&t[0], NULL, changes, counter);
    pthread_create(&t[1], NULL, changes, other_counter);
    for (int i = 0; i < DEATHS; i++) {
        int pid = child_start(self, "silent", NULL);
        while (decide(mine.container, WIRE_DECIDE_STORE, 0, 0, 0, 0) != -EBUSY) sched_yield();
        kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        child_wait(pid);
    }
    while (decide(mine.container, WIRE_DECIDE_KERNEL, 0, 0, 0, 0)) sched_yield();
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(t[i], &result);
        bad = result ? result : bad;
    }
    e = e ? e : ps_transaction(read_count, &sum);
    tap_ok(!e && !bad && sum == before + 2 * CHANGES,
           "who decides dies %d times: no transaction is lost (%d, %ld)", DEATHS, e, (long)bad);
}

/* Two programs and two threads want to decide, all the time. */
static void *wants(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) decide(mine.container, (uint64_t)i % 2, 0, 0, 0, 0);
    return unused;
}

static void quarrel(void)
{
    pthread_t t[THREADS];
    uint64_t before = 0, sum = 0;
    int e = ps_transaction(read_count, &before);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, i ? wants : changes, counter);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    long r = decide(mine.container, WIRE_DECIDE_KERNEL, 0, 0, 0, 0);
    e = e ? e : ps_transaction(read_count, &sum);
    tap_ok(!e && r == 0 && sum == before + CHANGES, "many decide at a time (%d)", e);
}

int main(int argc, char **argv)
{
    if (argc > 1) return strcmp(argv[1], "maker") ? silent() : maker();
    tap_plan(11);
    int e = containers_open();
    e = e ? e : (int)client_open("decided", PS_WRITE, NULL, 0, 0, &mine);
    e = e ? e : (int)client_open("others", 0, NULL, 0, 0, &other);
    e = e ? e : another_opens(argv[0]);
    is(e, 0, "containers");
    not_deciding();
    not_allowed();
    is((int)decide(mine.container, WIRE_DECIDE_CALLER, 0, 0, 0, 0), 0, "this program decides");
    deciding();
    others_wait();
    many();
    at_random();
    dies(argv[0]);
    quarrel();
    is((int)kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
