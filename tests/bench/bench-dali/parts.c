/*
 * parts.c - what an update costs, and where that goes.
 *
 * For -icount and one CPU; `bench-dali parts` with scripts/run --stretch 0,,COUNTS: behind each
 * getppid a section of counts ends, of which tests/bench/parts.py makes rows of the kernel's
 * sources. The sections: what came before; nothing; 1,000 updates, 10 in a transaction; 1,000, 100
 * in a transaction.
 */
#include <unistd.h>

#include "bench.h"

enum { UPDATES = 1000, WORDS = KD_PAGE_BYTES / 8 };

/* The mean of UPDATES of them. */
static double of_many(unsigned each)
{
    struct work w = {each, 1};
    uint64_t t = busy();
    for (unsigned i = 0; i < UPDATES; i += each) {
        int e = ps_transaction(operations, &w);
        if (e)
            fail("an update", e);
    }
    return (double)(busy() - t) / UPDATES;
}

static uint64_t pages_logged(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.pages_logged;
}

static void part(unsigned each)
{
    char name[120];
    uint64_t pages = pages_logged();
    double all = of_many(each);
    getppid();
    double page = (double)(pages_logged() - pages) / UPDATES;
    snprintf(name, sizeof name, "an update, %u in a transaction, all of it", each);
    row(name, "instructions", all, "-");
    snprintf(name, sizeof name, "an update, %u in a transaction, pages that it changes", each);
    row(name, "pages", page, "-");
    snprintf(name, sizeof name,
             "an update, %u in a transaction, the floor: words of copies", each);
    row(name, "instructions", page * WORDS, "-");
}

void group_parts(void)
{
    tuples_load(1000, 1);
    tuples_touch();
    tuples_settle();
    getppid();
    getppid();
    part(10);
    part(100);
}
