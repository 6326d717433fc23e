/*
 * pstore_replace.c - a container of twice the memory, in small transactions.
 *
 * Aim     every page keeps what was stored; pages that are used again and again stay, however many
 *         others pass by once; so does a snapshot's state, while what it sees is changed and
 *         evicted.
 * Method  word w of page p tells p and how often it was written. A round reads some hot pages and
 *         more of those that come once; requests to the manager are counted apart for both. In the
 *         order of first use each hot page would have to go in each lap.
 */
#include "pstore_test.h"

enum { PAGES = 16384 /* 64 MiB */, PAGES_TEST = 9216, HOT = 256, PIECE = 64,
       LAPS = 2, WORDS = KD_PAGE_BYTES / 8 };
struct root { uint64_t *pages; };
static ps_container *c;
static volatile uint64_t *pages;
static uint64_t count = PAGES;

static volatile uint64_t *word(uint64_t page) { return pages + page * WORDS + page % WORDS; }

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root->pages) root->pages = ps_alloc(c, (size_t)(count + 1) * KD_PAGE_BYTES, NULL);
    pages = (void *)(((uint64_t)root->pages + KD_PAGE_BYTES - 1) & ~(uint64_t)(KD_PAGE_BYTES - 1));
    return root->pages ? 0 : -errno;
}

struct piece { uint64_t first, step, round; };
static int store(void *arg)
{
    struct piece *p = arg;
    for (uint64_t i = p->first; i < p->first + PIECE; i++) *word(i) = i << 8 | p->round;
    return 0;
}
static int look(void *arg)
{
    struct piece *p = arg;
    for (uint64_t i = p->first; i < p->first + PIECE; i++)
        if (*word(i) != (i << 8 | p->round)) return -EPROTO;
    return 0;
}

static uint64_t requests(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.pages_read;
}
static int all(int (*body)(void *), uint64_t first, uint64_t end, uint64_t round)
{
    int e = 0;
    for (struct piece p = {.first = first, .round = round}; !e && p.first < end; p.first += PIECE)
        e = ps_transaction(body, &p);
    return e;
}

/* Laps over all that is not hot; after each piece, all that is. */
static void hot_and_cold(void)
{
    uint64_t hot = 0, cold = 0, looks = 0;
    int e = 0;
    for (int lap = 0; lap < LAPS; lap++)
        for (struct piece p = {.first = HOT, .round = 1}; !e && p.first < count; p.first += PIECE) {
            uint64_t before = requests();
            e = ps_transaction(look, &p);
            uint64_t between = requests();
            e = e ? e : all(look, 0, HOT, 1);
            cold += between - before;
            hot += lap ? requests() - between : 0;
            looks += lap ? HOT : 0;
        }
    is(e, 0, "each page has what was stored");
    tap_ok(cold > count / 64, "those that pass by were away (%lu requests)", (long)cold);
    tap_ok(hot < looks / 1000, "those in use were not (%lu requests for %lu looks)", (long)hot,
           (long)looks);
}

static int snapshot_look(void *arg)
{
    uint64_t *bad = arg;
    int e = 0;
    for (struct piece p = { .first = 0, .round = 1 }; !e && p.first < HOT; p.first += PIECE)
        e = look(&p);
    *bad = e != 0;
    return 0;
}

int main(void)
{
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    uint64_t bad = 1, before;
    tap_plan(12);
    if (!tap_long()) count = PAGES_TEST;
    ps_delete("replace");
    c = ps_open("replace", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "a container");
    tap_ok(system_info().memory_bytes * 3 / 2 < count * KD_PAGE_BYTES,
           "of much more than memory there is");
    before = system_info().evictions;
    is(all(store, 0, count, 1), 0, "all of it is stored to, in small transactions");
    tap_ok(system_info().evictions - before > count / 2, "most of it has left memory");
    hot_and_cold();

    is(ps_begin(&snapshot), 0, "a snapshot begins");
    snapshot_look(&bad);
    ps_tx *tx = ps_suspend();
    is(bad ? -1 : all(store, 0, HOT, 2) | all(look, HOT, count, 1), 0,
       "what it has seen is changed, and memory used again");
    is(ps_resume(tx), 0, "it goes on");
    snapshot_look(&bad);
    is(ps_commit() || bad, 0, "and sees what it saw");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
