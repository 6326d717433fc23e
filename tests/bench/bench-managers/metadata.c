/*
 * metadata.c - where a manager may keep its own tables: in memory of its own, which stays, or in an
 * object that it maps and serves itself, like those of its clients (what Cricket looked at, and
 * gave up for the pager's cost). Both are touched by the manager.
 */
#include <pthread.h>

#include "bench.h"

enum { PAGES = 256 };
static const char name[] = "bench-metadata";
static char contents[KD_PAGE_BYTES];

static void page(struct km_request *r) { km_supply(r, contents, 1); }

static void *serve(void *unused)
{
    (void)km_serve(1);
    return unused;
}

/* A word of each page, all there. */
static double words_cost(const volatile char *pages)
{
    uint64_t sum = 0, cost = counter_cost(), t = counter();
    for (unsigned i = 0; i < PAGES; i++)
        sum += (uint64_t)pages[(size_t)i * KD_PAGE_BYTES];
    t = counter() - t;
    return (double)(t - cost + sum * 0) / PAGES;
}

static void tables_run(void)
{
    static const struct km_ops ops = {.page = page};
    struct km_object *object;
    pthread_t thread;
    volatile char *own = malloc((PAGES + 2) * KD_PAGE_BYTES), *mapped;
    int e = km_create(name, PAGES, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (!e)
        e = km_advise(object, 0, PAGES, KM_RANDOM);
    if (!e)
        e = km_attach(object);
    if (!e)
        e = -pthread_create(&thread, NULL, serve, NULL);
    if (e || !own)
        fail(name, e);
    mapped = km_address(object);
    own += KD_PAGE_BYTES - (uintptr_t)own % KD_PAGE_BYTES;
    row("a manager's tables, first touch of a page: memory of its own", "instructions",
        touch_all(own, PAGES, 1), "-");
    row("a manager's tables, first touch of a page: an object that it serves itself",
        "instructions", touch_all(mapped, PAGES, 0), "-");
    int gone = km_advise(object, 0, PAGES, KM_EVICT);
    if (gone != PAGES)
        fail("pages that go", gone);
    row("and when the page had left memory", "instructions", touch_all(mapped, PAGES, 0), "-");
    row("a manager's tables, a word of a page that is there: memory of its own", "instructions",
        words_cost(own), "-");
    row("a manager's tables, a word of a page that is there: an object that it serves itself",
        "instructions", words_cost(mapped), "-");
}

/* ---- those of the store ---- */

enum { COMMITS = 200 };
struct root { char *object; };
static ps_container *c;

static int object_anew(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    if (root->object)
        ps_free(root->object);
    root->object = ps_alloc(c, 3 * KD_PAGE_BYTES, NULL);
    return root->object ? 0 : -errno;
}

/* A commit that changes the metadata: pages are freed, others taken. */
static double commit_cost(void)
{
    c = ps_open("bench-metadata", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(object_anew, NULL) : -errno;
    uint64_t t = busy();
    for (int i = 0; i < COMMITS && !e; i++)
        e = ps_transaction(object_anew, NULL);
    t = busy() - t;
    if (e)
        fail("a commit", e);
    return (double)t / COMMITS;
}

/* Which of the two the store has was said when it was booted. */
static void run(void)
{
    char line[2048] = {0};
    kd_call3(KD_KERNEL_COMMAND_LINE, (long)line, sizeof line - 1, 0);
    int is_mapped = strstr(line, "store.metadata=mapped") != NULL;
    row(is_mapped ? "a commit that changes the store's metadata: in an object that it serves itself"
                  : "a commit that changes the store's metadata: in memory of its own",
        "instructions", commit_cost(), "-");
    if (!is_mapped)
        tables_run();
}

const struct part metadata_part = {"metadata", run, NULL};
