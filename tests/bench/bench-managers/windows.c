/*
 * windows.c - touches by a window, in a transaction that has not touched the pages before and in
 * one that has their rights, beside touches at the container's own addresses.
 */
#include "bench.h"

enum { PAGES = 1024, FEW = 64 };
static const char object_name[] = "bench-windows";

static int serve(int unused)
{
    static const struct km_ops zeros = {0};
    static char contents[KD_PAGE_BYTES];
    struct km_object *object;
    (void)unused;
    int e = km_create(object_name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &zeros, NULL,
                      &object);
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
    server_end(pid);
}

const struct part windows_part = {"windows", run, serve};
