/*
 * kept.c - a container that a program serves which the store starts (ps_manager): a page of its, a
 * commit through one such manager and through two, and the way from a death to the next answer.
 *
 * Number 0 has pages in its memory, 1 in a container of the store, and 2 in the container of 1:
 * each as it is, so that what is counted is the way alone.
 */
#include "bench.h"

enum { PAGES = 64, ROUNDS = 200, LIVES = 3, RUNS_BYTES = 8192, LEVELS = 3 };
static const char home_name[] = "bench-kept.home";
struct home { uint8_t page[PAGES + 1][KD_PAGE_BYTES]; };
static uint8_t (*home)[KD_PAGE_BYTES];
static ps_container *below;

static const char *name_of(int level)
{
    static const char *const names[LEVELS] = {"bench-kept.0", "bench-kept.1", "bench-kept.2"};
    return names[level];
}

/* ---- the manager ---- */

static void page(struct km_request *r)
{
    if (r->page > PAGES || km_supply(r, home[r->page], 1))
        km_fail(r, ENOMEM);
}

static int commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[RUNS_BYTES];
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0)
            return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n))
            memcpy(home[r->page] + r->offset, r->data, r->bytes);
    }
    return 0;
}

static void call(struct km_object *o, void *message, int bytes)
{
    (void)o, (void)message, (void)bytes;
    exit(1);
}

static int home_find(void *unused)
{
    struct home *root = ps_root(below);
    (void)unused;
    home = root ? root->page : NULL;
    return root ? 0 : -errno;
}

static int home_open(int level)
{
    static uint8_t own[PAGES + 1][KD_PAGE_BYTES];
    home = own;
    if (level == 0)
        return 0;
    below = level == 1 ? ps_open(home_name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct home, 1))
                       : ps_open(name_of(1), PS_WRITE, NULL);
    int e = !below ? -errno : level == 1 ? km_below(NULL) : km_below_container(below);
    if (!e && level == 1)
        return ps_transaction(home_find, NULL);
    home = below ? ps_address(below) : NULL;
    return e;
}

static int serve(int level)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .call = call};
    struct km_object *object;
    int e = level < LEVELS ? home_open(level) : -EINVAL;
    if (!e)
        e = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    return e ? e : km_serve(1);
}

/* ---- the client ---- */

static ps_container *opened[LEVELS];
static double cost;

static int open_level(int level)
{
    opened[level] = ps_open(name_of(level), PS_WRITE, NULL);
    return opened[level] ? 0 : -errno;
}

/* What `does` costs all processes; it does not fail. */
static double counted(int (*does)(int), int level)
{
    uint64_t t = busy();
    int e = does(level);
    if (e)
        fail(name_of(level), e);
    return (double)(busy() - t);
}

static int set(int level)
{
    char number[] = {(char)('0' + level), 0};
    const char *argv[] = {"--serve", "kept", number, NULL};
    return ps_manager(name_of(level), "/bin/bench-managers", argv);
}

static int count(void *page)
{
    ++*(volatile uint64_t *)page;
    return 0;
}

static void *last_page(void *pages) { return (char *)pages + (size_t)PAGES * KD_PAGE_BYTES; }

/* The least of many transactions that change one page; *flushes: the mean. */
static double commits(void *word, double *flushes)
{
    struct ps_stats before, after;
    double least = 1e18;
    for (int i = -2; i < ROUNDS; i++) {
        if (i == 0)
            ps_stats(&before);
        uint64_t t = busy();
        int e = ps_transaction(count, word);
        if (e)
            fail("a commit", e);
        double now = (double)(busy() - t);
        least = i >= 0 && now < least ? now : least;
    }
    ps_stats(&after);
    *flushes = (double)(after.flushes - before.flushes) / ROUNDS;
    return least;
}

static int find_plain(void *out)
{
    struct home *root = ps_root(below);
    *(void **)out = root ? root->page[0] : NULL;
    return root ? 0 : -errno;
}

static void commit_rows(void)
{
    double flushes, least, by;
    void *plain;
    below = ps_open("bench-kept.plain", PS_CREATE | PS_WRITE, PS_LAYOUT(struct home, 1));
    if (!below || ps_transaction(find_plain, &plain))
        fail("a container", -errno);
    least = commits(plain, &flushes);
    by = commits(last_page(ps_address(opened[1])), &flushes);
    row("transaction of one changed page by a kept manager on the store", "instructions", by, "-");
    row("the same: of one of the store's own", "times", by / least, "1.5");
    row("the same: flushes", "flushes", flushes, "1");
    by = commits(last_page(ps_address(opened[2])), &flushes);
    row("the same by two kept managers, one on the other", "instructions", by, "-");
    row("the same: of one of the store's own", "times", by / least, "-");
    row("the same: flushes", "flushes", flushes, "1");
}

static int touch(void *pages)
{
    volatile char *at = last_page(pages);
    (void)*at; /* page tables */
    cost = touch_all(pages, PAGES, 0);
    return 0;
}

static double first_touches(void *pages)
{
    int e = ps_transaction(touch, pages);
    if (e)
        fail("first touches", e);
    return cost;
}

/* What lies below is in memory already: only the page that is asked for comes. */
static void page_rows(void)
{
    static const char *const what[] = {"its memory", "a container of the store",
                                       "a container of such a manager"};
    char text[128];
    void *pages;
    below = ps_open(home_name, 0, NULL);
    if (!below || ps_transaction(find_plain, &pages))
        fail(home_name, -errno);
    (void)first_touches(pages);
    for (int level = 0; level < LEVELS; level++) {
        snprintf(text, sizeof text, "page by a kept manager from %s", what[level]);
        row(text, "instructions", first_touches(ps_address(opened[level])),
            level == 0 ? "3000" : "-");
    }
    int view = view_new();
    txn_begin();
    (void)touch(ps_address(opened[0]));
    row("the same page in memory, by another view", "instructions", cost, "-");
    txn_undo();
    view_end(view);
}

static int lives(int level)
{
    int e = -EOWNERDEAD;
    for (int i = 0; i < 4 && (e == -EOWNERDEAD || e == -ECANCELED); i++)
        e = ps_transaction(count, last_page(ps_address(opened[level])));
    return e;
}

/* The least of some times that the manager of `dies` ends, until that of `level` has committed. */
static double restart(int dies, int level)
{
    double least = 1e18;
    for (int i = 0; i < LIVES; i++) {
        char word[8] = {0};
        (void)km_call_beside(opened[dies], name_of(dies), word, sizeof word);
        double now = counted(lives, level);
        least = now < least ? now : least;
    }
    return least;
}

static void run(void)
{
    for (int level = 0; level < LEVELS; level++) {
        int e = set(level);
        if (e)
            fail(name_of(level), e);
        double starts = counted(open_level, level);
        if (level == 0)
            row("open of a container whose manager is started for that", "instructions", starts,
                "-");
        if (level == 0)
            row("the same, of one whose manager runs", "instructions", counted(open_level, level),
                "-");
    }
    commit_rows();
    row("commit of one page behind the death of its kept manager: it is started again",
        "instructions", restart(1, 1), "-");
    row("the same of two, one on the other, of which the lower has died", "instructions",
        restart(1, 2), "-");
    page_rows();
}

const struct part kept_part = {"kept", run, serve};
