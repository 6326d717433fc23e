/* load.c - many transactions at the same pages at once, beside snapshots and kcheck.
 *
 * Each client has words of its own in each page, between which it moves amounts; all add to one
 * word of each page. So the sum of a client's words is 0 in each serial order, and what was added
 * is what was committed. */
#include "kernel_items.h"

enum { CLIENTS = 4, FIRST = 60, SPAN = 6, OWN = 8, COUNTER = 500 };

static _Atomic long added[SPAN], wrong, looks;
static _Atomic int over;

struct step { unsigned client, seed; uint64_t page; };

static unsigned rnd(unsigned *seed) { return (*seed = *seed * 1103515245 + 12345) >> 12; }
static unsigned word_no(unsigned client, unsigned i) { return client + CLIENTS * i; }

static int move(void *arg)
{
    struct step *s = arg;
    uint64_t amount = rnd(&s->seed) % 1000;
    uint64_t from = FIRST + rnd(&s->seed) % SPAN, to = FIRST + rnd(&s->seed) % SPAN;
    unsigned i = word_no(s->client, rnd(&s->seed) % OWN);
    unsigned k = word_no(s->client, rnd(&s->seed) % OWN);
    s->page = FIRST + rnd(&s->seed) % SPAN;
    put(from, i, *word_of(from, i) - amount);
    put(to, k, *word_of(to, k) + amount);
    add(s->page, COUNTER, 1);
    *word_of(to, 300 + s->client) = amount; /* not declared */
    return rnd(&s->seed) % 8 == 0 ? 42 : 0;
}

static void *client(void *arg)
{
    struct step s = {(unsigned)(uintptr_t)arg >> 16, (unsigned)(uintptr_t)arg, 0};
    for (long rounds = (uintptr_t)arg & 0xffff; rounds-- > 0;) {
        int e = run(move, &s, KD_SERIALISABLE, 0);
        if (!e)
            __atomic_fetch_add(&added[s.page - FIRST], 1, __ATOMIC_SEQ_CST);
        else if (e != 42)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Whose words do not add up to 0, or what was undeclared is there. */
static long sums_wrong(void)
{
    long bad = 0;
    for (unsigned who = 0; who < CLIENTS; who++) {
        uint64_t sum = 0;
        for (uint64_t page = FIRST; page < FIRST + SPAN; page++) {
            for (unsigned i = 0; i < OWN; i++)
                sum += *word_of(page, word_no(who, i));
            bad += *word_of(page, 300 + who) != 0;
        }
        bad += sum != 0;
    }
    return bad;
}

static int look(void *arg)
{
    long bad = sums_wrong() + sums_wrong();
    __atomic_fetch_add((volatile long *)arg, bad, __ATOMIC_SEQ_CST);
    return 0;
}

static void *looker(void *arg)
{
    while (!over) {
        if (run(look, (void *)&wrong, KD_SNAPSHOT, 0))
            __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        if (check())
            __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        looks++;
    }
    return arg;
}

void many_writers(long rounds)
{
    pthread_t threads[CLIENTS], snapshots;
    bool good = true, home_good = true;
    pthread_create(&snapshots, NULL, looker, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, client, (void *)(i << 16 | (uintptr_t)rounds));
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    over = 1;
    pthread_join(snapshots, NULL);
    tap_ok(wrong == 0, "%d clients, %ld transactions each: all commit, %ld snapshots see sums of 0",
           CLIENTS, rounds, looks);
    for (unsigned i = 0; i < SPAN; i++) {
        good = good && (long)seen(FIRST + i, COUNTER) == added[i];
        home_good = home_good && (long)at_home(FIRST + i, COUNTER) == added[i];
    }
    tap_ok(good, "the counters say how many committed");
    tap_ok(home_good, "and so do they at home");
    is(check(), 0, "kcheck at the end");
}

/* ---- a snapshot that looks at a page all the time, while another CPU publishes it ---- */

enum { ELSEWHERE = 70, ELSEWHERE_ROUNDS = 40, ASTRAY = 103, ASTRAY_PAGES = 24 };
static _Atomic int maps, published;
static int (*watches)(void *changed);

static void *watcher(void *changed)
{
    if (run(watches, changed, KD_SNAPSHOT, 0))
        *(long *)changed = 1;
    return NULL;
}

/* Does each snapshot that watches so see its moment alone, while a transaction does that? */
static bool one_moment(int (*watch)(void *changed), int (*body)(void *))
{
    long changed = 0, failed = 0;
    watches = watch;
    for (int i = 0; i < ELSEWHERE_ROUNDS; i++) {
        pthread_t thread;
        maps = published = 0;
        pthread_create(&thread, NULL, watcher, &changed);
        while (!maps)
            pause_ms(1);
        failed |= run(body, NULL, KD_SERIALISABLE, 0);
        published = 1;
        pthread_join(thread, NULL);
    }
    return changed == 0 && failed == 0;
}

/* It makes no call: only a shootdown takes the page out of its CPU's TLB. */
static int stares(void *changed)
{
    volatile uint64_t *word = word_of(ELSEWHERE, 0);
    uint64_t first = *word;
    maps = 1;
    while (!published)
        *(long *)changed |= *word != first;
    *(long *)changed |= *word != first;
    return 0;
}

static int bump(void *unused)
{
    (void)unused;
    add(ELSEWHERE, 0, 1);
    return 0;
}

void snapshot_elsewhere(void)
{
    tap_ok(one_moment(stares, bump),
           "a snapshot on another CPU, which makes no call, sees its moment of a page always");
}

/* ---- one that looks at many pages while they are published, one after the other ---- */

/* A page that is taken from it faults, and shows the version before, though the publication is not
 * over: with nothing in it of the stray store (VS4). */
static int roams(void *changed)
{
    for (unsigned last = 0; last < 2; last += published != 0)
        for (uint64_t i = 0; i < ASTRAY_PAGES; i++) {
            *(long *)changed |= *word_of(ASTRAY + i, 7) != 0;
            maps = i == ASTRAY_PAGES - 1 ? 1 : maps;
        }
    return 0;
}

static int strays(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < ASTRAY_PAGES; i++) {
        add(ASTRAY + i, 0, 1);
        *word_of(ASTRAY + i, 7) = 666;
    }
    return 0;
}

void snapshot_amid(void)
{
    tap_ok(one_moment(roams, strays),
           "nor does one that looks amid publications see what was not declared");
    is(check(), 0, "kcheck behind it");
}
