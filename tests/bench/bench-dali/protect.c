/*
 * protect.c - what protection costs: the same updates in a container without and with it, there
 * each in brackets (ps_write, ps_release). The three kinds beside each other, where items are
 * locked and where pages are.
 *
 * For -icount, one CPU and store.audit_kib=0: idle rounds of the auditor are no part of an update.
 */
#include "bench.h"

enum { COMMITS = 100, WARM = 3 };

static const struct { int protection; const char *name, *reach; } kinds[] = {
    {PS_PROTECT_NONE, "unprotected", NULL},
    {PS_PROTECT_GUARD, "guard", "2.5"},
    {PS_PROTECT_CODEWORDS, "codewords", "1.1"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* apart: all over the table, else side by side */
struct updates { unsigned count, apart, brackets; };

static int update(void *arg)
{
    const struct updates *u = arg;
    uint64_t key = key_draw() % ((TUPLES - 100) * 1000003ull) / 1000003 * 1000003;
    for (unsigned i = 0; i < u->count; i++) {
        struct tuple *t = ps_write(tuple_of(u->apart ? key_draw() : key + i * 1000003ull));
        if (!t)
            return -errno;
        t->value++;
        if (u->brackets)
            (void)ps_release(t);
        (void)ps_release(t);
    }
    return 0;
}

static double cost_of(struct updates u)
{
    uint64_t t = 0;
    tuples_settle();
    for (int i = 0; i < WARM + COMMITS; i++) {
        if (i == WARM)
            t = busy();
        int e = ps_transaction(update, &u);
        if (e)
            fail("an update", e);
    }
    return (double)(busy() - t) / COMMITS / u.count;
}

static void kinds_beside(const char *mode)
{
    static const struct updates what[] = {{1, 1, 0}, {10, 1, 0}, {100, 1, 0},
                                          {10, 0, 0}, {100, 0, 0}};
    double none[sizeof what / sizeof *what];
    for (unsigned k = 0; k < KINDS; k++) {
        tuples_protect(kinds[k].protection);
        tuples_touch();
        for (unsigned i = 0; i < sizeof what / sizeof *what; i++) {
            char text[120];
            int brackets = kinds[k].protection == PS_PROTECT_GUARD;
            double is = cost_of((struct updates){what[i].count, what[i].apart, brackets});
            const char *where = what[i].apart ? "" : ", side by side";
            snprintf(text, sizeof text, "%s, %s: an update, %u in a transaction%s", mode,
                     kinds[k].name, what[i].count, where);
            row(text, "instructions", is, "-");
            if (kinds[k].reach) {
                snprintf(text, sizeof text, "%s, %s: the same, of unprotected", mode,
                         kinds[k].name);
                row(text, "times", is / none[i], kinds[k].reach);
            } else {
                none[i] = is;
            }
        }
    }
    tuples_protect(PS_PROTECT_NONE);
}

void group_protection(void)
{
    kinds_beside("items");
    int e = ps_locking(tuples_container(), PS_LOCK_PAGES);
    if (e)
        fail("ps_locking", e);
    kinds_beside("pages");
}
