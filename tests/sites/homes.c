/*
 * homes.c - one home for all containers, or each site the home of its own (user/sites/figures.md):
 * the same transactions at each of several sites, by where the containers lie.
 *
 *     homes make NAME             makes a container
 *     homes run INDEX NAME ...    as site INDEX of as many as there are names: NAME number INDEX is
 *                                 its own; all sites begin together, by a page of the first one
 *
 * A transaction reads pages of one container and stores to one of them. Of OWN in 100 it is the
 * site's own, else one of the others. Site 0 adds up what was stored. Prints two windows, of no
 * transactions and of all:
 *
 *     = homes.NAME INDEX, transactions, ns until this site's were done; then, until all were:
 *     instructions, those of link, flushes, messages to homes and from them
 */
#include "figures.h"

enum { SITES_MAX = 8, PAGES = 64, READS = 4, OWN = 90, TIMES = 200 };
struct page { uint64_t word[KD_PAGE_BYTES / 8]; };
struct root { struct page page[PAGES], meeting; };

static int sites, self;
static struct root *parts[SITES_MAX];
static const char *names[SITES_MAX];

static int make(void *unused)
{
    (void)unused;
    return ps_named(c, "pages", sizeof(struct root)) ? 0 : -errno;
}

static int look(void *at)
{
    struct root **r = at;
    *r = ps_named(c, "pages", sizeof(struct root));
    return *r ? 0 : -errno;
}

/* ---- meetings: each site comes, and sleeps until all have ---- */

static uint64_t meetings;

static int come(void *unused)
{
    (void)unused;
    parts[0]->meeting.word[0]++;
    return 0;
}

static int all_came(void *unused)
{
    (void)unused;
    if (parts[0]->meeting.word[0] < meetings * (uint64_t)sites) ps_retry();
    return 0;
}

static void meet(void)
{
    meetings++;
    need(ps_transaction(come, NULL), "come");
    need(ps_transaction(all_came, NULL), "meet");
}

/* ---- the transactions ---- */

struct access { struct root *of; uint64_t page[READS]; };

static int one(void *arg)
{
    const struct access *a = arg;
    uint64_t sum = 0;
    for (int i = 1; i < READS; i++) sum += a->of->page[a->page[i]].word[1];
    a->of->page[a->page[0]].word[1]++;
    sink = sum;
    return 0;
}

static void work(uint64_t times)
{
    uint64_t seed = 100 + (uint64_t)self;
    for (uint64_t i = 0; i < times; i++) {
        bool own = sites == 1 || draw(&seed, 100) < OWN;
        int at = own ? self : (self + 1 + (int)draw(&seed, (uint64_t)sites - 1)) % sites;
        struct access a = {.of = parts[at]};
        for (int k = 0; k < READS; k++) a.page[k] = draw(&seed, PAGES);
        need(ps_transaction(one, &a), "transaction");
    }
}

static int own_all(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAGES; i++) parts[self]->page[i].word[2]++;
    return 0;
}

/* Each transaction has stored once. */
static int all_stored(void *sum)
{
    uint64_t n = 0;
    for (int i = 0; i < sites; i++)
        for (int k = 0; k < PAGES; k++) n += parts[i]->page[k].word[1];
    *(uint64_t *)sum = n;
    return 0;
}

/* Messages of all homes; containers of one have the same name before the colon. */
static uint64_t messages(void)
{
    uint64_t sum = 0, now[SAID];
    for (int i = 0; i < sites; i++) {
        size_t site = strcspn(names[i], ":");
        bool counts = names[i][site] == ':';
        for (int k = 0; k < i && counts; k++) counts = strncmp(names[k], names[i], site + 1) != 0;
        if (!counts) continue;
        name = names[i];
        said(now);
        for (int k = 0; k < 6; k++) sum += now[k];
    }
    return sum;
}

static void measured(const char *what, uint64_t times)
{
    meet();
    struct spent from = so_far();
    uint64_t before = messages();
    work(times);
    uint64_t ns = so_far().ns - from.ns;
    meet();
    struct spent now = so_far();
    printf("= homes.%s %d %llu %llu %llu %llu %llu %llu\n", what, self, (unsigned long long)times,
           (unsigned long long)ns, (unsigned long long)(now.instructions - from.instructions),
           (unsigned long long)(now.link - from.link),
           (unsigned long long)(now.flushes - from.flushes),
           (unsigned long long)(messages() - before));
}

static void run(void)
{
    for (int i = 0; i < sites; i++) {
        name = names[i];
        opens(NULL, 0);
        need(ps_transaction(look, &parts[i]), "pages");
    }
    need(ps_transaction(own_all, NULL), "own");
    measured("nothing", 0);
    measured("all", TIMES);
    if (self == 0) {
        uint64_t stored;
        need(ps_transaction(all_stored, &stored), "sum");
        if (stored == TIMES * (uint64_t)sites) printf("all is there\n");
        else printf("%llu stores are there\n", (unsigned long long)stored);
    }
    meet(); /* whose container it reads stays */
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool makes = argc == 3 && !strcmp(argv[1], "make");
    usage(argc, argv, makes || (argc > 3 && argc - 3 <= SITES_MAX && !strcmp(argv[1], "run")),
          "usage: homes make NAME | run INDEX [SITE:]NAME ...\n");
    name = argv[2];
    if (makes) {
        opens(NULL, PS_CREATE);
        need(ps_transaction(make, NULL), "make");
        return 0;
    }
    self = atoi(argv[2]);
    sites = argc - 3;
    need(self >= 0 && self < sites ? 0 : -EINVAL, "INDEX");
    for (int i = 0; i < sites; i++) names[i] = argv[3 + i];
    run();
    return 0;
}
