/*
 * pstore_limits.c - a process's limits, as transactions meet them.
 *
 * Aim     without a view left a transaction does not begin, and does when one is given back; more
 *         private copies than may be in memory go into the log, and commit; pages of containers are
 *         not the process's memory, so its limit stops malloc and no load; pages_max ends who
 *         stores to more; in each case nothing is lost, and nobody else notices.
 * Method  a child for each, which lowers its own limit; this process looks at what they left.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGES = 1024, FEW = 16, COPIES = 100, MANY = 512, SUSPENDED = 8, WORDS = KD_PAGE_BYTES / 8,
       SPARE = 256 << 10 };
struct root { uint64_t *pages; };
static ps_container *c;
static volatile uint64_t *pages;

static int find(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root->pages) root->pages = ps_alloc(c, (size_t)PAGES * KD_PAGE_BYTES, NULL);
    pages = root->pages;
    return root->pages ? 0 : -errno;
}

struct some { uint64_t first, count, value; };
static int store(void *arg)
{
    const struct some *s = arg;
    for (uint64_t i = s->first; i < s->first + s->count; i++) pages[i * WORDS] = s->value;
    return 0;
}
static int look(void *arg)
{
    const struct some *s = arg;
    for (uint64_t i = s->first; i < s->first + s->count; i++)
        if (pages[i * WORDS] != s->value) return -EPROTO;
    return 0;
}

/* This process's, from now on. */
static int limit(enum kd_limit which, uint64_t most)
{
    uint64_t both[2] = {most, most};
    return (int)kd_call4(302, 0, KD_RLIMIT + (long)which, (long)both, 0); /* prlimit64 */
}
static uint64_t spills(void) { return system_info().spills; }

/* ---- children: 0, or the line that is wrong ---- */

#define EXPECT(condition) do { if (!(condition)) return __LINE__ % 256; } while (0)

static int views(void)
{
    ps_tx *tx[SUSPENDED];
    int n = 0, e = 0;
    EXPECT(limit(KD_LIMIT_VIEWS, process_self().used[KD_LIMIT_VIEWS] + 3) == 0);
    for (; n < SUSPENDED && (e = ps_begin(NULL)) == 0; n++) {
        pages[(size_t)n * WORDS] = 7;
        tx[n] = ps_suspend();
    }
    EXPECT(e == -ENFILE && n >= 3 && n < SUSPENDED);
    EXPECT(ps_transaction(look, &(struct some){0, 0, 0}) == -ENFILE);
    EXPECT(ps_resume(tx[0]) == 0 && ps_commit() == 0);
    EXPECT(ps_transaction(look, &(struct some){0, 1, 7}) == 0);
    for (int i = 1; i < n; i++) EXPECT(ps_resume(tx[i]) == 0 && ps_rollback() == 0);
    return 0;
}

static int copies(void)
{
    uint64_t before = spills();
    EXPECT(limit(KD_LIMIT_COPIES, COPIES) == 0);
    EXPECT(ps_transaction(store, &(struct some){0, MANY, 8}) == 0);
    EXPECT(spills() - before >= MANY - 2 * COPIES);
    EXPECT(ps_transaction(look, &(struct some){0, MANY, 8}) == 0);
    EXPECT(ps_transaction(store, &(struct some){0, FEW / 2, 9}) == 0);
    return 0;
}

static int memory(void)
{
    EXPECT(limit(KD_LIMIT_MEMORY, process_self().used[KD_LIMIT_MEMORY] + SPARE) == 0);
    EXPECT(malloc(4 * SPARE) == NULL && errno == ENOMEM);
    EXPECT(ps_transaction(look, &(struct some){FEW, MANY - FEW, 8}) == 0);
    EXPECT(ps_transaction(store, &(struct some){0, PAGES, 10}) == 0); /* 4 MiB */
    return 0;
}

static int pages_max(void)
{
    struct ps_options few = {.pages_max = FEW};
    EXPECT(ps_transaction_opt(store, &(struct some){0, FEW + 1, 11}, &few) == -E2BIG);
    EXPECT(ps_transaction(look, &(struct some){0, PAGES, 10}) == 0);
    EXPECT(ps_transaction_opt(store, &(struct some){0, FEW, 11}, &few) == 0);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
    struct some left;
    const char *what;
} all[] = {
    { "views", views, { 0, 1, 7 }, "no view left: no begin, until one is given back" },
    { "copies",
      copies,
      { FEW / 2, MANY - FEW / 2, 8 },
      "more copies than may be in memory: they commit by the log" },
    { "memory", memory, { 0, PAGES, 10 }, "no memory left: containers go on" },
    { "pages_max", pages_max, { 0, FEW, 11 }, "more pages than pages_max: undone" },
};

int main(int argc, char **argv)
{
    enum { COUNT = sizeof all / sizeof *all };
    c = ps_open("limits", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(find, NULL) : -errno;
    for (int i = 0; argc > 1 && i < COUNT; i++)
        if (strcmp(argv[1], all[i].name) == 0) return e ? 1 : all[i].run();
    tap_plan(2 * COUNT + 2);
    is(e, 0, "a container");
    for (int i = 0; i < COUNT; i++) {
        is(child_run(argv[0], all[i].name, NULL), 0, all[i].what);
        is(ps_transaction(look, (void *)&all[i].left), 0, "and what it did is there");
    }
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
