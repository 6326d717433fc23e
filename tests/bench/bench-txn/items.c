/*
 * items.c - what locks of items cost that nobody stands in the way of: a lock and its share of the
 * transaction's end, without a call; look-ups of tuples of 16 bytes, an item each.
 */
#include "bench.h"

enum { TUPLES = 1000, ROUNDS = 50, FEW = 100, MORE = 200 };
struct tuple { uint64_t key, value; };
struct root { struct tuple *tuple; int64_t sums[TUPLES]; };
static ps_container *c;
static struct root *root;
static uint64_t found;

static int make(void *unused)
{
    (void)unused;
    root = ps_root(c);
    if (!ps_write(root))
        return -errno;
    if (!root->tuple)
        root->tuple = ps_alloc(c, TUPLES * sizeof *root->tuple, NULL);
    return root->tuple ? 0 : -errno;
}

struct work { int count, mode; };
static int take(void *arg)
{
    const struct work *w = arg;
    for (int i = 0; i < w->count; i++)
        if (w->mode == PS_ADD ? ps_add(&root->sums[i], 1) != 0
                              : !ps_access(&root->tuple[i], sizeof *root->tuple, w->mode))
            return -errno;
    return 1;                           /* undone: nothing is declared, nothing logged */
}

static uint64_t cost_of(int (*fn)(void *), struct work w)
{
    uint64_t cost = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter();
        int e = ps_transaction(fn, &w);
        t = counter() - t;
        if (e < 0)
            fail("items", e);
        cost = least(cost, t);
    }
    return cost - counter_cost();
}

static void lock_row(const char *name, int mode)
{
    uint64_t few = cost_of(take, (struct work){FEW, mode});
    uint64_t more = cost_of(take, (struct work){MORE, mode});
    row(name, "instructions", (double)(more - few) / (MORE - FEW), "100");
}

static int look_up(void *arg)
{
    const struct work *w = arg;
    for (int i = 0; i < w->count; i++)
        found += ps_read(&root->tuple[i * 7 % TUPLES])->value;
    return 0;
}

static void lookup_row(int count, const char *name, const char *reach)
{
    uint64_t cost = cost_of(look_up, (struct work){count, PS_S});
    row(name, "instructions", (double)cost / count, reach);
}

void group_items(void)
{
    c = ps_open("bench-items", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_locking(c, PS_LOCK_ITEMS) : -errno;
    e = e ? e : ps_transaction(make, NULL);
    if (e)
        fail("the container", e);
    lock_row("an item locked to read, and unlocked", PS_S);
    lock_row("an item locked to write and declared, and unlocked", PS_X);
    lock_row("an item locked to add, added to, and unlocked", PS_ADD);
    lookup_row(1, "a look-up, 1 in a transaction", "900");
    lookup_row(25, "a look-up, 25 in a transaction", "200");
    lookup_row(100, "a look-up, 100 in a transaction", "150");
    ps_close(c);
    ps_delete("bench-items");
}
