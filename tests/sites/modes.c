/*
 * modes.c - what one transaction costs by the place of its functions and the mode of coherence
 * (user/sites/modes.md).
 *
 *     modes NAME WORD ...   each word in turn; the container's name may be SITE:NAME
 *
 *     split       the server of its functions and operations
 *     make        makes the pages, at home
 *     here        windows of each configuration, on one machine
 *     far         the same from another site, and by ownership and by updates
 *     seen        windows of a reader of what the home changes, by ownership and by updates
 *     serve, ready, end    as in figures.c
 *
 * The transaction reads READS pages, and stores to STORES of others: by loads and stores, as an
 * operation, or by functions.
 */
#include <split.h>

#include "figures.h"

enum { PAGES = 32, READS = 4, STORES = 2, TIMES = 100, CHANGES = 20, CHANGED = 4, NONE = 1000 };
struct page { struct page *next; int64_t number; char rest[3900]; };
struct root { struct page *page[PAGES]; };
#define LAYOUT PS_LAYOUT(struct root, 1)

static const char *const configurations[][2] = {
    {"local", "local"},
    {"mix", "mix"},
    {"log-there", "read=client lock=client log=server commit=server abort=server allocate=server"},
    {"log-here", "read=server lock=server log=client commit=server abort=server allocate=server"},
    {"server", "server"}};

/* ---- the transaction: as an operation ---- */

struct work { int64_t from, sum; };

static int operation_work(ps_container *of, void *arg)
{
    struct work *w = arg;
    struct root *r = ps_root(of);
    if (!r) return -errno;
    for (int i = 0; i < READS; i++) w->sum += r->page[(w->from + i) % PAGES]->number;
    for (int i = 0; i < STORES; i++) r->page[(w->from + READS + i) % PAGES]->number++;
    return 0;
}

static int operation_look(ps_container *of, void *arg)
{
    struct work *w = arg;
    const struct root *r = ps_root(of);
    if (!r) return -errno;
    for (int i = 0; i < CHANGED; i++) w->sum += r->page[i]->number;
    return 0;
}

static const struct ps_operation operations[] = {
    {"work", operation_work, sizeof(struct work)}, {"look", operation_look, sizeof(struct work)},
    {0}};

/* ---- ... and by functions ---- */

static int work(ps_split *s, void *arg)
{
    struct work *w = arg;
    struct root *r = ps_split_root(s);
    struct page *page;
    int64_t number;
    int error = r ? 0 : -errno;
    for (int i = 0; !error && i < READS + STORES; i++) {
        size_t at = (size_t)(w->from + i) % PAGES * sizeof page;
        error = ps_split_read(s, r, at, &page, sizeof page);
        if (!error) error = ps_split_read(s, page, 8, &number, sizeof number);
        if (!error && i < READS) w->sum += number;
        number++;
        if (!error && i >= READS) error = ps_split_write(s, page, 8, &number, sizeof number);
    }
    return error;
}

/* ---- windows ---- */

static ps_split *split_open(int flags, const char *configuration)
{
    ps_split *s;
    char of[64];
    const char *colon = strchr(name, ':');
    snprintf(of, sizeof of, "%.*sparts", (int)(colon ? colon + 1 - name : 0), name);
    while (!(s = ps_split_open(of, PS_WRITE | flags, LAYOUT, configuration, operations))) {
        need(errno == ENOENT || errno == EACCES || errno == ENOTCONN ? 0 : -errno, configuration);
        pause_ms(20);
    }
    return s;
}

static void times(ps_split *s, int count, int whole)
{
    for (int i = 0; i < count; i++) {
        struct work w = {.from = i};
        need(whole ? ps_split_run(s, "work", &w, sizeof w) : ps_split_transaction(s, work, &w),
             "work");
    }
}

static void one(ps_split *s, const char *what, const char *how, int whole)
{
    char label[64];
    struct ps_split_counts before, after;
    snprintf(label, sizeof label, "%s-%s", how, what);
    times(s, TIMES, whole);             /* warm */
    ps_split_counts(s, &before);
    mark(0);
    struct spent from = so_far();
    times(s, TIMES, whole);
    print(label, phase_now, TIMES, &from);
    mark(0);
    ps_split_counts(s, &after);
    printf("calls %s %llu\n", label, (unsigned long long)(after.calls - before.calls));
}

static void each(void)
{
    for (unsigned i = 0; i < sizeof configurations / sizeof *configurations; i++) {
        ps_split *s = split_open(0, configurations[i][1]);
        one(s, configurations[i][0], "functions", 0);
        if (i == 0 || i == 4) one(s, configurations[i][0], "operation", 1);
        ps_split_close(s);
    }
}

/* The home changes pages, CHANGES times; this site looks until it has seen each change. */
static void seen(const char *what, int flags, uint64_t steals)
{
    ps_split *s = split_open(flags, "local");
    struct work last = {0}, now;
    need(ps_split_run(s, "look", &last, sizeof last), "look");
    struct spent from = so_far();
    for (int i = 0; i < CHANGES; i++) {
        mark(steals);
        do {
            pause_ms(20);
            now = (struct work){0};
            need(ps_split_run(s, "look", &now, sizeof now), "look");
        } while (steals != NONE && now.sum < last.sum + CHANGED);
        last = now;
    }
    print(what, 0, CHANGES, &from);
    ps_split_close(s);
}

/* ---- the home's part ---- */

static ps_container *parts;

static int change(void *number)
{
    struct root *r = ps_root(parts);
    for (uint64_t i = 0; i < *(uint64_t *)number % NONE; i++) r->page[i]->number++;
    return 0;
}

static int make(void *unused)
{
    struct root *r = ps_root(parts);
    (void)unused;
    for (int i = 0; r && i < PAGES; i++)
        if (!r->page[i] && !(r->page[i] = ps_new(parts, struct page, NULL))) return -errno;
    return r ? 0 : -errno;
}

static void parts_open(void)
{
    while (!(parts = ps_open("parts", PS_CREATE | PS_WRITE, LAYOUT))) pause_ms(20);
    need(ps_transaction(make, NULL), "make");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3) return 2;
    name = argv[1];
    is_remote = strchr(name, ':') != NULL;
    if (!strcmp(argv[2], "split"))
        need(ps_split_serve("parts", PS_CREATE | PS_WRITE, LAYOUT, operations), "split");
    opens(NULL, is_remote ? 0 : PS_CREATE);
    if (!is_remote) parts_open();
    for (int i = 2; i < argc; i++) {
        const char *w = argv[i];
        if (!strcmp(w, "make")) continue;               /* that is done */
        if (!strcmp(w, "here") || !strcmp(w, "far")) each();
        else if (!strcmp(w, "seen")) {
            seen("nothing-seen", 0, NONE);
            seen("ownership-seen", 0, CHANGED);
            seen("updates-seen", PS_UPDATES, CHANGED);
        } else if (!common(w, change)) return 2;
    }
    return 0;
}
