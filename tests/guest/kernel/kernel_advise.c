/*
 * kernel_advise.c - what a manager says about its pages, and the high-water mark.
 *
 * Aim     KD_OBJECT_ADVISE decides which pages go first and last, how many a fault asks for and how
 *         many go together; pinned pages stay; KD_OBJECT_INFO tells what is in memory. While too
 *         much is dirty, writes wait, and reads and commits do not.
 * Method  own_manager.h with less memory than the object has pages; counters, no clocks.
 */
#include <sys/mman.h>

enum { PAGES = 8192, HERE = 5000, FIRST = 4000, PINNED = 16, PINS_AT = HERE - 100, LEAF = 64,
       DIRTY_STEP = 512 };
#define HOME_PAGES 4
#include "own_manager.h"

static long advise(uint64_t page, uint64_t count, int advice)
{
    return kd_call4(KD_OBJECT_ADVISE, object, (long)page, (long)count, advice);
}

static long supply(uint64_t page, uint64_t count)
{
    struct kd_supply s = {
        .object = object, .source = KD_SUPPLY_ZERO, .rights = 3, .page = page, .count = count
    };
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* Pages of the range with that bit. */
static long with(uint64_t page, uint64_t count, uint8_t bit)
{
    static uint8_t bits[PAGES];
    long n = 0;
    if (kd_call4(KD_OBJECT_INFO, object, (long)page, (long)count, (long)bits)) return -1;
    for (uint64_t i = 0; i < count; i++) n += (bits[i] & bit) != 0;
    return n;
}

static long here(uint64_t page, uint64_t count) { return with(page, count, KD_PAGE_RESIDENT); }

/* Uses memory, as much as there is, until so many pages more have been evicted. */
static void press(uint64_t evictions)
{
    enum { PIECE = 64 << 10, MOST = 512 };
    static char *pieces[MOST];
    uint64_t before = system_info().evictions;
    int n = 0;
    while (n < MOST && system_info().evictions - before < evictions) {
        pieces[n] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[n] == MAP_FAILED) break;
        memset(pieces[n++], 1, PIECE);
    }
    while (n) munmap(pieces[--n], PIECE);
}

/* ---- which go first ---- */

static void order(void)
{
    tap_ok(supply(0, HERE) == 0 && here(0, PAGES) == HERE, "%d pages are in memory, and no other",
           HERE);
    tap_ok(advise(FIRST, PAGES - FIRST, KD_ADVISE_DONT_NEED) == HERE - FIRST,
           "what is not needed any more is known");
    press(200);
    long gone = HERE - here(0, PAGES), of_them = HERE - FIRST - here(FIRST, HERE - FIRST);
    printf("# %ld gone, %ld of them of the last %d\n", gone, of_them, HERE - FIRST);
    tap_ok(gone >= 100 && gone < HERE - FIRST && gone == of_them, "these go first, and no other");
    tap_ok(advise(0, LEAF, KD_ADVISE_WILL_NEED) == LEAF &&
               advise(HERE, 8, KD_ADVISE_WILL_NEED) == 0,
           "what will be needed is known; of it, what is in memory");
    press(900);
    printf("# %ld left, %ld of the first %d\n", here(0, PAGES), here(0, LEAF), LEAF);
    tap_ok(here(0, LEAF) == LEAF && here(LEAF, FIRST - LEAF) < FIRST - LEAF,
           "these outlive pages that came after them");
    tap_ok(advise(0, 8, KD_ADVISE_FREED + 1) == -EINVAL && advise(PAGES, 1, 0) == -EINVAL &&
               advise(0, KD_MEMORY_LEAST - 1, KD_ADVISE_MEMORY) == -EINVAL,
           "no other advice, and no limit below the least");
}

static void pins(void)
{
    tap_ok(supply(0, HERE) == 0 && kd_call4(KD_OBJECT_PIN, object, PINS_AT, PINNED, 1) == PINNED &&
               with(0, PAGES, KD_PAGE_PINNED) == PINNED, "%d pages are pinned", PINNED);
    tap_ok(advise(0, PAGES, KD_ADVISE_DONT_NEED) == HERE - PINNED, "advice does not unpin");
    press(900); /* the pages advised last go first */
    tap_ok(here(PINS_AT, PINNED) == PINNED && here(FIRST, HERE - FIRST) < 500,
           "they stay when those around them go");
    tap_ok(kd_call4(KD_OBJECT_PIN, object, 0, PAGES, 0) == PINNED, "and are let go");
}

/* ---- a policy of the manager's own: what was used, and what goes at once ---- */

enum { OWN_AT = 1024, OWN = 2 * LEAF };

/* Pages of the range that were used since the last time. */
static long used(uint64_t page, uint64_t count)
{
    static uint8_t bits[PAGES];
    long n = 0;
    if (kd_call6(KD_OBJECT_INFO, object, (long)page, (long)count, (long)bits, KD_INFO_USES, 0))
        return -1;
    for (uint64_t i = 0; i < count; i++) n += (bits[i] & KD_PAGE_USED) != 0;
    return n;
}

/* Here nothing but the call itself flushes what the TLB keeps of a right. */
static int uses(void *out)
{
    long *seen = out;
    for (int i = 0; i < 3; i++) {
        for (unsigned page = OWN_AT; page < OWN_AT + 10; page++) (void)*word_of(page, 0);
        seen[i] = used(OWN_AT, OWN);
    }
    seen[3] = used(OWN_AT, OWN);
    return 0;
}

static int goes_at_once(void *out)
{
    long *seen = out;
    uint64_t requests = system_info().page_requests;
    (void)*word_of(OWN_AT, 0);
    *word_of(OWN_AT + 1, 0) = 5;
    seen[0] = advise(OWN_AT, 3, KD_ADVISE_EVICT); /* the second is a copy's base */
    (void)*word_of(OWN_AT, 0);
    seen[1] = (long)(system_info().page_requests - requests);
    seen[2] = (long)*word_of(OWN_AT + 1, 0);
    return 0;
}

static void own_policy(void)
{
    long seen[4] = {0};
    advise(0, 1, KD_ADVISE_RANDOM);
    supply(OWN_AT, OWN);
    tap_ok(run(uses, seen, KD_SERIALISABLE, 0) == 0 && seen[0] == 10 && seen[1] == 10 &&
               seen[2] == 10 && seen[3] == 0,
           "each use since the last time is told once (%ld, %ld, %ld)", seen[1], seen[2], seen[3]);
    tap_ok(advise(OWN_AT + 5, OWN - 6, KD_ADVISE_EVICT) == OWN - 6 && here(OWN_AT, OWN) == 6,
           "pages go at once");
    kd_call4(KD_OBJECT_PIN, object, OWN_AT + 3, 1, 1);
    is(run(goes_at_once, seen, KD_SERIALISABLE, 0), 0, "a transaction loses none of its rights");
    tap_ok(seen[0] == 2 && seen[1] == 1 && seen[2] == 5 && with(OWN_AT, 4, KD_PAGE_DIRTY) == 1,
           "what is to go leaves a transaction's copy its base (%ld, %ld)", seen[0], seen[1]);
    advise(0, PAGES, KD_ADVISE_EVICT);
    is(here(0, PAGES), 2, "of all pages a dirty one stays and a pinned one");
    kd_call4(KD_OBJECT_PIN, object, OWN_AT + 3, 1, 0);
    kd_call3(KD_OBJECT_CLEANED, object, OWN_AT + 1, (long)KD_CSN_ANY);
    is(advise(0, PAGES, KD_ADVISE_EVICT), 2, "until it is clean, and until it is let go");
    tap_ok(advise(0, 64, KD_ADVISE_MEMORY) == 0 && supply(0, HERE) == 0 && here(0, PAGES) <= 64,
           "a manager limits its object");
    advise(0, PAGES, KD_ADVISE_MEMORY);
}

/* ---- what goes together (EV6) ---- */

enum { TOGETHER = 8, TOUCHED = 2048 };

static int read_one_of_each(void *unused)
{
    (void)unused;
    for (unsigned i = HERE - TOUCHED + 3; i < HERE; i += TOGETHER) (void)*word_of(i, 0);
    return 0;
}

static long in_part(void)
{
    long parts = 0;
    for (unsigned i = 0; i < HERE; i += TOGETHER) parts += here(i, TOGETHER) % TOGETHER != 0;
    return parts;
}

static void together(void)
{
    tap_ok(advise(0, 1, KD_ADVISE_SEQUENTIAL) == 0 && supply(0, HERE) == 0 &&
               run(read_one_of_each, NULL, KD_SERIALISABLE, 0) == 0,
           "one page of each eight is used");
    press(900);
    printf("# %ld left, %ld of the last %d, %ld eights in part\n", here(0, PAGES),
           here(HERE - TOUCHED, TOUCHED), TOUCHED, in_part());
    tap_ok(here(0, PAGES) < HERE && in_part() == 0, "eight go together, or stay");
    tap_ok(advise(0, 1, KD_ADVISE_NORMAL) == 0, "and one by one again");
}

/* ---- how many a fault asks for ---- */

static int read_some(void *from)
{
    for (unsigned i = 0; i < 2 * LEAF; i++) (void)*word_of((unsigned)(uintptr_t)from + i, 0);
    return 0;
}

static int read_far(void *from)
{
    for (unsigned i = 0; i < 8; i++) (void)*word_of((unsigned)(uintptr_t)from + 7 * LEAF * i, 0);
    return 0;
}

static void patterns(void)
{
    struct kd_view_stats a, b;
    tap_ok(advise(0, 1, KD_ADVISE_RANDOM) == 0 && supply(5120, 2 * LEAF) == 0, "random, it says");
    uint64_t alone = asked_alone;
    kd_call3(KD_VIEW_STATS, (long)&a, 0, 0);
    run(read_some, (void *)5120, KD_SERIALISABLE, 0);
    kd_call3(KD_VIEW_STATS, (long)&b, 0, 0);
    tap_ok(b.read_faults - a.read_faults == 2 * LEAF,
           "each fault maps its page only, also in order");
    run(read_some, (void *)6144, KD_SERIALISABLE, 0);
    tap_ok(asked_alone - alone == 2 * LEAF, "and asks for it alone");
    tap_ok(advise(0, 1, KD_ADVISE_SEQUENTIAL) == 0 && supply(5120 + 4 * LEAF, 2 * LEAF) == 0,
           "sequential, it says");
    kd_call3(KD_VIEW_STATS, (long)&a, 0, 0);
    run(read_some, (void *)(5120 + 4 * LEAF), KD_SERIALISABLE, 0);
    kd_call3(KD_VIEW_STATS, (long)&b, 0, 0);
    tap_ok(b.read_faults - a.read_faults == 2,
           "a fault maps all that lies together, from the first on");
    asked_most = 0;
    run(read_far, (void *)4096, KD_SERIALISABLE, 0);
    tap_ok(asked_most == LEAF, "and asks for so much (%d)", (int)asked_most);
    tap_ok(advise(0, 1, KD_ADVISE_NORMAL) == 0, "as touches suggest");
}

/* ---- the high-water mark ---- */

static int write_step(void *from)
{
    for (unsigned i = 0; i < DIRTY_STEP; i++) *word_of((unsigned)(uintptr_t)from + i, 1) = 7;
    return 0;
}

static uint64_t write_waits(uintptr_t from)
{
    uint64_t before = system_info().write_waits;
    int e = run(write_step, (void *)from, KD_SERIALISABLE, 0);
    if (e) printf("# pages from %d: %d\n", (int)from, e);
    return system_info().write_waits - before;
}

static int read_all(void *pages)
{
    for (uintptr_t i = 0; i < (uintptr_t)pages; i++)
        if (*word_of((unsigned)i, 1) != 7) return 1;
    return 0;
}

static void high_water(void)
{
    uint64_t mark = system_info().memory_bytes / KD_PAGE_BYTES / 2, waits;
    uintptr_t dirty = 0, below = 0;
    while (dirty + DIRTY_STEP <= mark) {
        below += write_waits(dirty);
        dirty += DIRTY_STEP;
    }
    tap_ok(below == 0 && with(0, PAGES, KD_PAGE_DIRTY) == (long)dirty,
           "no write waits while less than half is dirty");
    write_waits(dirty); /* nobody cleans: this goes over it */
    dirty += DIRTY_STEP;
    waits = write_waits(0);
    tap_ok(waits > 0, "over it they do, and succeed (%d waits)", (int)waits);
    waits = system_info().write_waits;
    view_anew(); /* so that each page is a fault */
    tap_ok(run(read_all, (void *)dirty, KD_SERIALISABLE, 0) == 0 &&
               run(read_all, (void *)dirty, KD_SNAPSHOT, 0) == 0 &&
               system_info().write_waits == waits,
           "reads never do, nor commits that wrote nothing");
    for (uint64_t i = 0; i < dirty; i++)
        kd_call3(KD_OBJECT_CLEANED, object, (long)i, (long)KD_CSN_ANY);
    tap_ok(write_waits(0) == 0, "nor writes, when pages are clean again");
}

int main(void)
{
    tap_plan(34);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES}),
           "a manager");
    order();
    pins();
    own_policy();
    together();
    patterns();
    tap_ok(kd_call4(KD_OBJECT_RECALL, object, 0, PAGES, 0) >= 0 &&
               advise(0, PAGES, KD_ADVISE_DONT_NEED) >= 0,
           "all may go");
    press(~0ull);
    high_water();
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
