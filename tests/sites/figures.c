/*
 * figures.c - what transactions on pages of another site cost (user/sites/figures.md).
 *
 *     figures NAME WORD ...   each word in turn; the container's name may be SITE:NAME
 *
 *     make        makes the pages; all: reads them once
 *     pages       windows: a miss, a read, an upgrade, a commit, a callback of idle pages
 *     commit      the window of a commit alone
 *     both=N      as site N of two: commits in a half of its own, alone (0) and at the same time as
 *                 the other one; then transactions of eight reads and two stores, drawn as
 *                 sites-figures.py draws them
 *     serve       at the home: says what it has spent, until another site says `end`
 *     ready       waits until the home serves; quiet: says no phases, another site does
 */
#include "figures.h"

enum { PAGES = 1536, MISSES = 256, READS = 64, COMMITS = 200, STOLEN = 128, HALF = 64,
       APART = 400, ROW = 920, ROWS = 512, /* pages behind each other: windows, halves, ... */
       ROUNDS = 8 };
struct page { uint64_t word[KD_PAGE_BYTES / 8]; };
struct root { struct page *pages; };

static struct root *root(void) { return ps_root(c); }

/* By a load first it would be two callbacks, of the right to write and of the page. */
static int steal(void *number)
{
    struct page *p = root()->pages;
    for (uint64_t i = 0; i < *(uint64_t *)number; i++) p[i].word[1] = i;
    return -ECANCELED;
}

static int make(void *unused)
{
    struct root *r = root();
    (void)unused;
    r->pages = ps_alloc(c, (PAGES + 2 * ROUNDS) * sizeof *r->pages, NULL);
    return r->pages && phase() ? 0 : -errno;
}

/* ---- transactions on pages ---- */

struct range { uint64_t from, count; };

static int pages_read(void *arg)
{
    const struct range *r = arg;
    const struct page *p = root()->pages;
    uint64_t sum = 0;
    for (uint64_t i = r->from; i < r->from + r->count; i++) sum += p[i].word[1];
    sink = sum;
    return 0;
}

/* Each other page, so none brings the next one with it. */
static int pages_apart(void *arg)
{
    const struct range *r = arg;
    const struct page *p = root()->pages;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < r->count; i++) sum += p[r->from + 2 * i].word[1];
    sink = sum;
    return 0;
}

static int pages_store(void *arg)
{
    const struct range *r = arg;
    struct page *p = root()->pages;
    for (uint64_t i = r->from; i < r->from + r->count; i++) p[i].word[1]++;
    return -ECANCELED;
}

static int page_commit(void *at)
{
    root()->pages[*(uint64_t *)at].word[2]++;
    return 0;
}

static int nothing(void *unused) { return unused ? -1 : 0; }

/* The home stores to pages that this site has and does not use. */
static void called_back(void)
{
    struct spent from = so_far(), now = from;
    mark(STOLEN);
    while (now.said[3] - from.said[3] < STOLEN) {
        pause_ms(20);
        now = so_far();
    }
    print("callback", phase_now, STOLEN, &from);
    mark(0);
}

static void commits(void)
{
    uint64_t at = MISSES;
    need(ps_transaction(page_commit, &at), "commit");
    window("commit", COMMITS, COMMITS, page_commit, &at);
}

static void pages(void)
{
    struct range all = {0, MISSES}, some = {0, READS}, apart = {APART, MISSES}, row = {ROW, ROWS};
    need(ps_transaction(nothing, NULL), "begin");
    window("nothing", 1, 0, nothing, NULL);
    window("miss", MISSES, 1, pages_apart, &apart);
    window("row", ROWS, 1, pages_read, &row);
    need(ps_transaction(pages_read, &all), "read");
    need(ps_transaction(pages_read, &some), "read");
    window("read", COMMITS, COMMITS, pages_read, &some);
    window("upgrade", MISSES, 1, pages_store, &all);
    commits();
    if (is_remote) called_back();
}

/* ---- several sites ---- */

/* Two pages of each round, which no other round needs: that it may begin, and that it is done. */
struct round { uint64_t done, number; };

static uint64_t *round_page(const struct round *r)
{
    return root()->pages[PAGES + 2 * r->number + r->done].word;
}

static int round_set(void *round)
{
    *round_page(round) = 1;
    return 0;
}

static int round_see(void *round) { return *round_page(round) == 0; }

static void round_await(uint64_t done, uint64_t number)
{
    struct round r = {done, number};
    int later;
    while ((later = ps_transaction(round_see, &r)) > 0) pause_ms(10);
    need(later, "round");
}

static void round_say(uint64_t done, uint64_t number)
{
    struct round r = {done, number};
    need(ps_transaction(round_set, &r), "round");
}

/* Commits of one page each, in turn of this half's, which this site has all to write. */
static void half_warm(uint64_t number)
{
    struct range mine = {MISSES + 1 + number * HALF, HALF};
    need(ps_transaction(pages_store, &mine) == -ECANCELED ? 0 : -EIO, "half");
}

static void half(uint64_t number)
{
    for (uint64_t i = 0; i < COMMITS; i++) {
        uint64_t at = MISSES + 1 + number * HALF + i % HALF;
        need(ps_transaction(page_commit, &at), "half");
    }
}

/* Transactions of eight reads and two stores: of 64 pages, of which each of two sites has a half
 * that it mostly (local: in percent) uses. */
enum { MIX_PAGES = 64, MIX_READS = 8, MIX_STORES = 2, MIX = 100 };
static uint64_t mix_local;

struct mix { uint64_t reads, stores; }; /* bits of pages; in their order, so nobody deadlocks */
_Static_assert(MIX_PAGES == 64, "a bit each");

static int mixed(void *arg)
{
    const struct mix *m = arg;
    struct page *p = root()->pages;
    uint64_t sum = 0;
    for (int i = 0; i < MIX_PAGES; i++) {
        if (m->stores >> i & 1) p[i].word[3] = sum; /* by a load first it would be two GETs */
        else if (m->reads >> i & 1) sum += p[i].word[3];
    }
    sink = sum;
    return 0;
}

static void mix(uint64_t number)
{
    uint64_t seed = 100 + number;
    for (int i = 0; i < MIX; i++) {
        struct mix m = {0};
        for (int k = 0; k < MIX_READS + MIX_STORES; k++) {
            uint64_t whose = draw(&seed, 100) < mix_local ? number : draw(&seed, 2);
            uint64_t at = whose * (MIX_PAGES / 2) + draw(&seed, MIX_PAGES / 2);
            *(k < MIX_READS ? &m.reads : &m.stores) |= 1ull << at;
        }
        need(ps_transaction(mixed, &m), "mix");
    }
}

/* The work of site `number`, at the same time as that of the other one: 0 says when. What one says
 * to the other takes a page that is not used again, so it calls nothing back of the work's. */
static void together(const char *what, void (*work)(uint64_t), uint64_t number, uint64_t times)
{
    static uint64_t rounds;
    rounds++;
    if (number == 0) {
        mark(0);
        round_say(0, rounds);
    } else {
        round_await(0, rounds);
    }
    pause_ms(300); /* so what that calls back is not counted */
    struct spent from = so_far();
    work(number);
    print(what, phase_now, times, &from);
    if (number == 0) {
        round_await(1, rounds);
        mark(0);
    } else {
        round_say(1, rounds);
    }
}

static void both(uint64_t number)
{
    half_warm(number);
    together("warm", half_warm, number, HALF); /* what came in a row of the other one's goes back */
    if (number == 0) {
        mark(0);
        struct spent from = so_far();
        half(0);
        print("one", phase_now, COMMITS, &from);
        mark(0);
    }
    together("both", half, number, COMMITS);
    for (int local = 100; local >= 0; local -= 50) {
        mix_local = (uint64_t)local;
        char row[32];
        snprintf(row, sizeof row, "mix-%llu", (unsigned long long)mix_local);
        together(row, mix, number, MIX);
    }
}

/* ---- words ---- */

static void word(const char *w, uint64_t n)
{
    struct range everything = {0, PAGES};
    if (!c) opens(PS_LAYOUT(struct root, 1), strcmp(w, "make") ? 0 : PS_CREATE);
    if (common(w, steal)) return;
    if (!strcmp(w, "make")) need(ps_transaction(make, NULL), w);
    else if (!strcmp(w, "all")) need(ps_transaction(pages_read, &everything), w);
    else if (!strcmp(w, "pages")) pages();
    else if (!strcmp(w, "commit")) commits();
    else if (!strncmp(w, "both", 4)) both(n);
    else need(-EINVAL, w);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    usage(argc, argv, argc > 2, "usage: figures [SITE:]NAME WORD ...\n");
    name = argv[1];
    is_remote = strchr(name, ':') != NULL;
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        word(argv[i], value ? strtoull(value + 1, NULL, 10) : 0);
    }
    return 0;
}
