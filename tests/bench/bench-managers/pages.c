/*
 * pages.c - a page that a manager supplies, and a first touch that it decides, by a manager that is
 * written with manager.h: what the switches, the messages and the library cost together.
 */
#include "bench.h"

enum { PAGES = 64 };
static const char object_name[] = "bench-pages", asked_name[] = "bench-pages-asked";

static char contents[KD_PAGE_BYTES];
static void page(struct km_request *r) { km_supply(r, contents, 1); }

static int serve(int unused)
{
    static const struct km_ops supplies = {.page = page}, decides = {0};
    struct km_object *object, *asked;
    (void)unused;
    int e = km_create(asked_name, PAGES + 1, KM_WRITE | KM_TRANSACTIONAL | KM_ASK, &decides, NULL,
                      &asked);
    for (uint64_t i = 0; !e && i < PAGES; i++)
        e = km_push(asked, i, 1, contents);
    if (!e)
        e = km_create(object_name, PAGES + 1, KM_WRITE, &supplies, NULL, &object);
    return e ? e : km_serve(1);
}

static void run(void)
{
    long pid = server_start(&pages_part, 0, asked_name, NULL);
    volatile char *asked = km_open(asked_name, asked_name, KM_READ);
    volatile char *supplied = km_open(asked_name, object_name, KM_READ);
    if (!asked || !supplied)
        fail("a manager's object", -errno);
    int view = view_new();
    (void)supplied[PAGES * KD_PAGE_BYTES]; /* page tables */
    row("page by a manager (Linux, userfaultfd: 13030)", "instructions",
        touch_all(supplied, PAGES, 0), "3000");
    txn_begin();
    (void)asked[PAGES * KD_PAGE_BYTES];
    row("ask: a first touch that the manager decides (Linux, SIGSEGV and mprotect: 9217)",
        "instructions", touch_all(asked, PAGES, 0), "2000");
    txn_undo();
    view_end(view);
    server_end(pid);
}

const struct part pages_part = {"pages", run, serve};
