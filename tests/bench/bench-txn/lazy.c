/*
 * lazy.c - a lazy commit beside a strict one: instructions of all processes and the kernel, and
 * flushes.
 */
#include "bench.h"

enum { COMMITS = 50, BATCH = 2000, MINUTE_MS = 60000 };
struct root { uint64_t value; };
static ps_container *box;

static int change(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    root->value++;
    return 0;
}

/* The least of so many commits; each begins when nothing else is left to do. */
static uint64_t commits(const struct ps_options *how, unsigned count, double *flushes)
{
    struct ps_stats before, after;
    uint64_t cost = ~0ull;
    ps_stats(&before);
    for (unsigned i = 0; i < count; i++) {
        uint64_t t = counter() - system_now().idle_cycles;
        int e = ps_transaction_opt(change, NULL, how);
        if (e)
            fail("commit", e);
        cost = least(cost, counter() - system_now().idle_cycles - t);
    }
    ps_stats(&after);
    *flushes = (double)(after.flushes - before.flushes);
    return cost;
}

void group_lazy(void)
{
    static const struct ps_options strict, lazy = {.lazy = 1, .lazy_ms = MINUTE_MS};
    double flushes;
    box = ps_open("bench-lazy", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        fail("opening the container", errno);
    (void)commits(&strict, 3, &flushes);
    uint64_t cost = commits(&strict, COMMITS, &flushes);
    row("strict commit of one changed page, all processes and the kernel", "instructions",
        (double)cost, "25000");
    row("strict commit of one changed page: flushes", "flushes", flushes / COMMITS, "1");
    row("lazy commit of one changed page, all processes and the kernel", "instructions",
        (double)commits(&lazy, COMMITS, &flushes), "25000");
    (void)commits(&lazy, BATCH, &flushes);
    row("2,000 lazy commits: flushes", "flushes", flushes, "8");
    int e = ps_flush();
    if (e)
        fail("flush", e);
}
