/* scenarios.c - scenarios of the model (tests/model/item_scenarios.h) that the other parts do not
 * play, each under its name there: snapshots, evictions, locks of the container. */
#include "kernel_items.h"

enum { PAGE = 80 };                     /* the first; each has two of its own */
static struct context a, b, snap;
static uint64_t p;                      /* of this scenario */

static void next_pages(void) { p = p ? p + 2 : PAGE; }

static bool lock_all(void) { return kd_call3(KD_TXN_LOCK, (long)base, KD_LOCK_NOW, 0) == 0; }

/* A transaction that stores a word: it has committed. */
static bool stored(uint64_t page, unsigned i, uint64_t value)
{
    bool good = begin(&a, KD_SERIALISABLE) == 0;
    put(page, i, value);
    return good && commit(&a) == 0;
}
/* The same, and another word, and one behind that, are stored to and not declared. */
static bool stored_astray(uint64_t page, unsigned i, uint64_t value, unsigned stray)
{
    bool good = begin(&a, KD_SERIALISABLE) == 0;
    put(page, i, value);
    *word_of(page, stray) = *word_of(page, stray + 1) = 666;
    return good && commit(&a) == 0;
}
/* The first under a lock of the container, both pages. */
static bool stored_alone(uint64_t value)
{
    bool good = begin(&a, KD_SERIALISABLE) == 0 && lock_all();
    *word_of(p, 0) = value;
    *word_of(p + 1, 0) = value;
    return good && commit(&a) == 0;
}

/* The page is home, and leaves memory. */
static bool goes_out(uint64_t page)
{
    kd_call3(KD_OBJECT_CLEANED, object, (long)page, (long)KD_CSN_ANY);
    return kd_call4(KD_OBJECT_ADVISE, object, (long)page, 1, KD_ADVISE_EVICT) == 1 &&
           !page_resident(page);
}

static bool snapshot_begins(void) { return begin(&snap, KD_SNAPSHOT) == 0; }
static bool snapshot_sees(uint64_t page, unsigned i, uint64_t value)
{
    in_view(&snap);
    return *word_of(page, i) == value;
}

static void tell(bool good, const char *what)
{
    tap_ok(good && check() == 0, "%s", what);
    next_pages();
}

static void of_snapshots(void)
{
    bool good = stored(p, 0, 1) && snapshot_begins() && snapshot_sees(p, 0, 1) &&
                commit(&snap) == 0 && stored(p, 0, 2);
    good = good && begin(&snap, KD_SERIALISABLE) == 0 && *word_of(p, 0) == 2;
    put(p, 1, 3);
    good = good && *word_of(p, 0) == 2 && commit(&snap) == 0 && seen(p, 1) == 3;
    tell(good, "snapthen: a snapshot, then a transaction, of one view");

    good = stored(p, 0, 1) && snapshot_begins() && snapshot_sees(p, 0, 1) && stored(p, 0, 2) &&
           stored(p, 1, 2) && goes_out(p);
    good = good && snapshot_sees(p, 0, 1) && *word_of(p, 1) == 0 && commit(&snap) == 0;
    tell(good && seen(p, 0) == 2, "evict2: a page goes out, whose old version a snapshot sees");

    good = stored(p, 0, 1) && snapshot_begins() && stored_astray(p, 0, 2, 1) && stored(p, 1, 3);
    good = good && snapshot_sees(p, 1, 0) && *word_of(p, 0) == 1 && *word_of(p, 2) == 0 &&
           commit(&snap) == 0;
    tell(good && seen(p, 0) == 2 && seen(p, 1) == 3,
         "stray4: a stray store, and the next version has gone when a snapshot looks");

    good = stored(p, 0, 1) && snapshot_begins() && stored_astray(p, 0, 2, 1) && goes_out(p);
    good = good && snapshot_sees(p, 1, 0) && *word_of(p, 0) == 1 && commit(&snap) == 0;
    tell(good && seen(p, 0) == 2, "strayev: a stray store, and the page goes out");

    good = stored(p, 0, 1) && snapshot_begins() && snapshot_sees(p, 0, 1) && commit(&snap) == 0 &&
           goes_out(p) && stored(p, 0, 2);
    good = good && snapshot_begins() && snapshot_sees(p, 0, 2) && commit(&snap) == 0;
    tell(good, "evictidle: an eviction between two snapshots");
}

static void of_locks(void)
{
    bool good = stored(p, 0, 1) && snapshot_begins() && snapshot_sees(p, 0, 1);
    good = good && stored_alone(2) && stored(p, 1, 3) && snapshot_sees(p, 0, 1) &&
           *word_of(p, 1) == 0 && *word_of(p + 1, 0) == 0 && commit(&snap) == 0;
    tell(good && seen(p, 0) == 2 && seen(p, 1) == 3 && at_home(p, 0) == 2,
         "locksnap: a container lock, items, a snapshot");

    good = stored(p, 0, 1) && snapshot_begins() && snapshot_sees(p, 0, 1) && commit(&snap) == 0;
    good = good && stored_alone(2) && snapshot_begins() && snapshot_sees(p, 0, 2) &&
           *word_of(p + 1, 0) == 2 && commit(&snap) == 0;
    tell(good, "lockidle: a container lock between two snapshots");

    good = stored(p, 0, 1) && goes_out(p) && stored_alone(2) && goes_out(p) && seen(p, 0) == 2;
    good = good && stored(p, 1, 3) && stored_alone(4);
    tell(good && seen(p, 0) == 4 && seen(p, 1) == 3, "lockev: a container lock and an eviction");

    good = begin(&a, KD_SERIALISABLE) == 0;
    put(p, 0, 1);                       /* an item copy, and two that are none */
    *word_of(p, 1) = 666;
    good = good && lock_all();
    *word_of(p + 1, 0) = 2;
    *word_of(p, 2) = 3;
    good = good && check() == 0 && commit(&a) == 0 && seen(p, 0) == 1 && seen(p + 1, 0) == 2 &&
           seen(p, 2) == 3 && at_home(p + 1, 0) == 2;
    tell(good, "locklate: items first, then the container");

    good = begin(&b, KD_SERIALISABLE) == 0 && *word_of(p, 0) == 0;  /* its entry stays, idle */
    good = good && commit(&b) == 0 && stored_alone(1) && begin(&b, KD_SERIALISABLE) == 0;
    good = good && *word_of(p, 0) == 1;
    put(p, 1, 5);
    good = good && commit(&b) == 0 && stored_alone(2) && stored(p, 2, 6);
    tell(good && seen(p, 0) == 2 && seen(p, 1) == 5 && seen(p, 2) == 6,
         "lock3: container locks between items of one page");

    good = begin(&a, KD_SERIALISABLE) == 0 && lock_all();
    *word_of(p, 0) = 9;
    undo(&a);
    tell(good && seen(p, 0) == 0 && stored(p, 0, 1) && seen(p, 0) == 1,
         "lockkill: who has locked it is undone");
}

static void view_gone(struct context *c)
{
    in_view(c);
    view_anew();
    c->view = 0;
}

void scenarios(void)
{
    next_pages();
    of_snapshots();
    of_locks();
    view_gone(&a);
    view_gone(&b);
    view_gone(&snap);                   /* others need many */
}
