/*
 * tables.c - what the kernel keeps for a GiB of a container beside its pages: leaves and page
 * tables.
 *
 * A process manages an object of 1 GiB and reads some of its pages in one transaction: all of them,
 * one in 256 KiB, or 16 that lie together in each MiB. What the system has less of free memory
 * then, and does not hold as pages of objects, went to leaves (once the pages are here) and to page
 * tables (once they are touched). --memory 1400 holds it all.
 */
#include "bench.h"

enum { GIB_PAGES = 1 << 18, SUPPLIED_MAX = 64 };
#define PLACE (KD_STORE_END - (64ull << 30))

static const struct shape { const char *name; unsigned together, step; } shapes[] = {
    {"dense: every page", SUPPLIED_MAX, SUPPLIED_MAX},
    {"sparse: one page in 256 KiB", 1, 64},
    {"grouped: 16 pages in each MiB", 16, 256},
};

/* Free bytes, pages of objects counted as free. */
static int64_t unused(void)
{
    struct kd_system_info s = system_now();
    return (int64_t)(s.free_bytes + s.resident_pages * KD_PAGE_BYTES);
}

static int object_make(int port)
{
    struct kd_object_create c = { .port = port, .commit_port = port, .pages = GIB_PAGES,
                                  .base = PLACE, .flags = KD_OBJECT_TRANSACTIONAL,
                                  .name = "tables" };
    long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    long e = object < 0 ? object
                        : kd_call3(KD_SPACE_ATTACH, kd_call3(39, 0, 0, 0), object, KD_RIGHT_READ);
    if (e)
        fail("the object", e);
    return (int)object;
}

static void supply(int object, const struct shape *s)
{
    for (uint64_t page = 0; page < GIB_PAGES; page += s->step) {
        struct kd_supply k = { .object = object, .source = KD_SUPPLY_ZERO, .rights = KD_READ,
                               .page = page, .count = s->together };
        long e = kd_call3(KD_OBJECT_SUPPLY, (long)&k, 0, 0);
        if (e)
            fail("supplying pages", e);
    }
}

static uint64_t read_all(const struct shape *s)
{
    uint64_t pages = 0;
    for (uint64_t page = 0; page < GIB_PAGES; page += s->step)
        for (unsigned i = 0; i < s->together; i++, pages++)
            (void)((volatile char *)PLACE)[(page + i) * KD_PAGE_BYTES];
    return pages;
}

static void say(const char *what, const struct shape *s, int64_t bytes)
{
    char name[128];
    snprintf(name, sizeof name, "%s, %s", s->name, what);
    row(name, "MiB a GiB", (double)bytes / (1 << 20), "-");
}

static void measure(int port, const struct shape *s)
{
    int64_t before = unused();
    int object = object_make(port);
    view_new();
    txn_begin(0);
    supply(object, s);
    int64_t here = unused();
    uint64_t pages = read_all(s), resident = system_now().resident_pages;
    int64_t touched = unused();
    if (resident < pages)
        fail("pages went while they were counted", ENOMEM);
    say("leaves", s, before - here);
    say("page tables of one view", s, here - touched);
}

int tables_main(unsigned number)
{
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (port < 0 || number >= sizeof shapes / sizeof *shapes)
        return 1;
    measure((int)port, &shapes[number]);
    return 0;
}

/* Each shape in a process of its own, so that the end of the one before gives back all that it
 * had. */
void group_tables(void)
{
    static const char *const numbers[] = {"0", "1", "2"};
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (self_wait(self_start("--tables", numbers[i])))
            fail("a shape", ECHILD);
}
