/*
 * congeries.c - an object of a container whose manager keeps it as congeries: added, linked in a
 * transaction, unlinked, dropped. And the same by the library, in a container of the store.
 */
#include <congeries.h>

#include "bench.h"
#include "user/managers/congeries.h"

enum { ROUNDS = 100, BYTES = 100 };
static const char managed[] = "bench-congeries";
struct root { char *object; };

static ps_container *c;
static struct root *root;
static uint32_t g;
static ps_congeries *library;

static struct congeries_call say(int what, const char *name, uint64_t address)
{
    struct congeries_call m = {.what = what, .congeries = g, .address = address, .bytes = BYTES,
                               .policy = CONGERIES_PLAIN};
    strcpy(m.name, name);
    int e = km_call_beside(c, managed, &m, sizeof m);
    if (e < 0 || m.error)
        fail("a call", e < 0 ? e : m.error);
    return m;
}

static int link_new(void *unused)
{
    (void)unused;
    root->object = (char *)(uintptr_t)say(CONGERIES_ADD, "", 0).address;
    *root->object = 1;
    return 0;
}
static int unlink_it(void *old)
{
    *(char **)old = root->object;
    root->object = NULL;
    return 0;
}
static int library_new(void *unused)
{
    (void)unused;
    root->object = ps_alloc_in(library, BYTES, NULL, NULL);
    if (!root->object)
        return -errno;
    *root->object = 1;
    return 0;
}
static int library_free(void *unused)
{
    (void)unused;
    ps_free(root->object);
    root->object = NULL;
    return 0;
}
static int library_make(void *unused)
{
    (void)unused;
    root = ps_root(c);
    library = ps_congeries_make(c, "things", NULL);
    return root && library ? 0 : -errno;
}

static void done(int e)
{
    if (e)
        fail("a transaction", e);
}

static double managed_cost(void)
{
    uint64_t least = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        char *old = NULL;
        uint64_t t = busy();
        done(ps_transaction(link_new, NULL));
        done(ps_transaction(unlink_it, &old));
        (void)say(CONGERIES_DROP, "", (uintptr_t)old);
        t = busy() - t;
        least = t < least ? t : least;
    }
    return (double)least;
}

static double library_cost(void)
{
    uint64_t least = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = busy();
        done(ps_transaction(library_new, NULL));
        done(ps_transaction(library_free, NULL));
        t = busy() - t;
        least = t < least ? t : least;
    }
    return (double)least;
}

static void run(void)
{
    int e = ps_manager(managed, "/bin/congeries", NULL);
    c = e ? NULL : ps_open(managed, PS_WRITE, NULL);
    if (!c)
        fail(managed, e ? e : -errno);
    root = ps_address(c);
    g = say(CONGERIES_MAKE, "things", 0).congeries;
    row("object of a congeries container: added, linked, unlinked, dropped, by its manager",
        "instructions", managed_cost(), "-");
    ps_close(c);
    c = ps_open("bench-library", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    done(c ? ps_transaction(library_make, NULL) : -errno);
    row("the same with congeries of the library", "instructions", library_cost(), "-");
    ps_close(c);
}

const struct part congeries_part = {"congeries", run, NULL};
