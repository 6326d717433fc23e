/*
 * windows.c - touches by a window, in a transaction that has not touched the pages before and in
 * one that has their rights, beside touches at the container's own addresses.
 */
#include "bench.h"

enum { PAGES = 1024, FEW = 64 };
static const char object_name[] = "bench-windows", away_name[] = "bench-windows-away";
static char contents[KD_PAGE_BYTES * 8];

/* What is asked for comes, up to 8 pages; how often we were asked, `call` says. */
static uint64_t asked;
static void page(struct km_request *r)
{
    asked++;
    km_supply(r, contents, r->count < 8 ? r->count : 8);
}
static void call(struct km_object *o, void *message, int bytes)
{
    (void)o;
    if (bytes == sizeof asked)
        memcpy(message, &asked, sizeof asked);
}

static int serve(int unused)
{
    static const struct km_ops zeros = {0}, away = {.page = page, .call = call};
    struct km_object *object, *other;
    (void)unused;
    int e = km_create(object_name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &zeros, NULL,
                      &object);
    if (!e)
        e = km_create(away_name, 2 * PAGES, KM_READ | KM_TRANSACTIONAL, &away, NULL, &other);
    for (uint64_t i = 0; !e && i < PAGES; i++)
        e = km_push(object, i, 1, contents);
    if (!e)
        e = km_credit(object, 4 * PAGES) < 0 ? -ENOMEM : 0;
    return e ? e : km_serve(1);
}

/* The mean cost of a page, loaded in order. */
static double scan(volatile char *pages)
{
    uint64_t t = counter();
    for (unsigned i = 0; i < PAGES; i++)
        (void)pages[(size_t)i * KD_PAGE_BYTES];
    return (double)(counter() - t) / PAGES;
}

static double in_new_view(double measure(volatile char *), volatile char *pages,
                          volatile char *before)
{
    int view = view_new();
    txn_begin();
    if (before)
        (void)scan(before);
    double cost = measure(pages);
    txn_undo();
    view_end(view);
    return cost;
}

static double reads(volatile char *pages) { return touch_all(pages, FEW, 0); }
static double writes(volatile char *pages) { return touch_all(pages, FEW, 1); }

/* How often the manager was asked, a page of a scan of pages that are away. */
static double asked_a_page(volatile char *pages)
{
    uint64_t before = 0, after = 0;
    int e = km_call(object_name, away_name, &before, sizeof before);
    (void)in_new_view(scan, pages, NULL);
    if (!e)
        e = km_call(object_name, away_name, &after, sizeof after);
    if (e)
        fail("a manager's counts", e);
    return (double)(after - before) / PAGES;
}

static void away_rows(void)
{
    volatile char *pages = km_open(object_name, away_name, KM_READ);
    long window = pages ? kd_call4(KD_MAP, (long)pages, PAGES, KD_RIGHT_READ, 0) : -errno;
    if (window < 0)
        fail("a window", window);
    row("requests to the manager, pages away, read by a window one after the other", "a page",
        asked_a_page((volatile char *)window), "0.3");
    row("the same at the first addresses", "a page",
        asked_a_page(pages + (size_t)PAGES * KD_PAGE_BYTES), "0.3");
}

static void run(void)
{
    long pid = server_start(&windows_part, 0, object_name, NULL);
    volatile char *pages = km_open(object_name, object_name, KM_READ | KM_WRITE);
    if (!pages)
        fail("a manager's object", -errno);
    long window = kd_call4(KD_MAP, (long)pages, PAGES, KD_RIGHT_READ | KD_RIGHT_WRITE, 0);
    if (window < 0)
        fail("a window", window);
    volatile char *seen = (volatile char *)window;
    row("first read by a window, page resident (at the first address: 218)", "instructions",
        in_new_view(reads, seen, NULL), "-");
    row("read by a window, with the right from the first address", "instructions",
        in_new_view(reads, seen, pages), "-");
    row("first write by a window, page resident (at the first address: 879)", "instructions",
        in_new_view(writes, seen, NULL), "-");
    row("read by a window, one page after the other", "instructions a page",
        in_new_view(scan, seen, NULL), "-");
    row("the same at the first addresses: in clusters", "instructions a page",
        in_new_view(scan, pages, NULL), "-");
    away_rows();
    server_end(pid);
}

const struct part windows_part = {"windows", run, serve};
