/*
 * pstore_freed.c - a snapshot that is older than the free of a large object.
 *
 * Aim     it sees the object as it was, or ends with ESTALE; it never sees the zeros that its pages
 *         are since.
 * Method  the container has memory for 16 pages; the snapshot is shared, so that others' pages can
 *         be read in between.
 */
#include "pstore_test.h"

enum { PAGES = 100, STEP = 4096 };

struct root { char *large, *other; };
static ps_container *c;

static long *number(char *of, int i) { return (long *)(of + (size_t)i * STEP); }

static int make(void *unused)
{
    struct root *root = ps_root(c);
    root->large = ps_alloc(c, (size_t)PAGES * STEP, NULL);
    for (int i = 0; root->large && i < PAGES; i++) *number(root->large, i) = 7;
    return root->large && !unused ? 0 : -errno;
}
static int share(void *out)
{
    struct root *root = ps_root(c);
    *(int *)out = ps_snapshot_share();
    return root->large ? 0 : -EIO;
}
static int give_back(void *unused)
{
    struct root *root = ps_root(c);
    int e = ps_free(root->large);
    root->large = unused;
    return e;
}
static int store_other(void *unused)
{
    struct root *root = ps_root(c);
    root->other = ps_alloc(c, (size_t)PAGES * STEP, NULL);
    for (int i = 0; root->other && i < PAGES; i++) *number(root->other, i) = 8;
    return root->other && !unused ? 0 : -errno;
}
static int wrong(void *count)
{
    struct root *root = ps_root(c);
    *(long *)count = 0;
    for (int i = 0; root->large && i < PAGES; i++) *(long *)count += *number(root->large, i) != 7;
    return root->large ? 0 : -ENOENT;
}

int main(void)
{
    int snapshot = 0;
    long count = -1;
    tap_plan(4);
    c = ps_open("freed", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || ps_transaction(make, NULL) || ps_policy(c, PS_MEMORY, 16)) return 1;
    is(ps_transaction_opt(share, &snapshot, &(struct ps_options){.isolation = PS_SNAPSHOT}), 0,
       "a snapshot that is shared");
    is(ps_transaction(give_back, NULL), 0, "the object that it sees is freed");
    is(ps_transaction(store_other, NULL), 0, "and leaves memory");
    int e = ps_transaction_opt(wrong, &count, &(struct ps_options){
                                   .isolation = PS_SNAPSHOT, .snapshot = snapshot});
    tap_ok(e == -ESTALE || count == 0, "the snapshot sees no zeros (%d: %ld pages)", e, count);
    return tap_end();
}
