/* memory.c - eviction, snapshots, waits and credits under load. */
#include "stress.h"

int many_evictions(void)
{
    uint64_t enough = system_info().evictions + PAGES / (tap_long() ? 4 : 12);
    while (system_info().evictions < enough && all_work(3)) nap(20);
    return 0;
}

/* Reads all accounts, then more pages than memory holds, then the accounts again: nobody changed
 * them. */
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
int held(void) { return run(read_twice, NULL, KD_SERIALISABLE, 0); }

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
int snapshots(void)
{
    int e = 0;
    int times = tap_long() ? 6 : 2;
    for (int i = 0; i < times && !e; i++)
        e = run(look_long, (void *)(uintptr_t)150, KD_SNAPSHOT, 0);
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
int look_too_long(void *arg)
{
    uint64_t before = 0;
    for (uint64_t p = 0; p < 2048; p += 256) before += *word_of(LARGE, p, 1);
    spawn(SPARE, stamper, NULL);
    *(int *)arg = joined(SPARE);
    for (uint64_t p = 0; p < 2048; p += 256) before -= *word_of(LARGE, p, 1);
    return before ? STATUS_WRONG : 0;
}

/* ---- waits ---- */

_Atomic int ring_views, ring_met;
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
int ring(void)
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

int two_views(void)
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

int write_n(void *arg)
{
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) *word_of(LENT, 100 + i, 1) += 1;
    return 0;
}
enum { MOVES = 1500 };
int credits(void)
{
    uint64_t enough = done_count + (tap_long() ? MOVES : MOVES / 6);
    while (__atomic_load_n(&done_count, __ATOMIC_RELAXED) < enough && all_work(4)) nap(5);
    return 0;
}
