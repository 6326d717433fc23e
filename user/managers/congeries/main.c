/*
 * main.c - congeries: a class of container. Its manager keeps it as congeries, named regions of
 * blocks, and does their five operations, each by the policy of the congeries (managers.md).
 *
 *     store manager parts congeries     from now on "parts" is such a container
 *
 * The pages lie in the container NAME.blocks of the store, as does what is said of blocks. A
 * client's commit stores its pages there in a helper (km_below), so both are one commit. An
 * operation is a transaction of this process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager.h"
#include "pstore.h"
#include "space.h"

enum { PAGES = BLOCKS * (BLOCK_BYTES / KM_PAGE_BYTES), RUNS_BYTES = 16384 };

static ps_container *below;
static struct km_object *object;
static char *data;                      /* of the root: it does not change */

/* ---- pages and commits ---- */

/* In a snapshot of the store. */
static void page(struct km_request *r)
{
    if (r->page >= PAGES)
        km_fail(r, ENOSPC);
    else if (km_supply(r, data + r->page * KM_PAGE_BYTES, 1) == -ENOMEM)
        km_fail(r, ENOMEM);
}

/* In a transaction of the store's that becomes part of the client's. */
static int commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[RUNS_BYTES];
    space_commit();
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0) return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n)) {
            uint64_t at = r->page * KM_PAGE_BYTES + r->offset;
            memcpy(data + at, r->data, r->bytes);
            space_stored(view, at, r->bytes);
        }
    }
    return 0;
}

static void outcome(struct km_object *o, uint64_t view, int error, uint64_t csn)
{
    (void)o, (void)csn;
    space_outcome(view, error);
}

/* ---- operations ---- */

static int operate(void *call) { return space_call(call); }

static void call(struct km_object *o, void *message, int bytes)
{
    struct congeries_call *c = message;
    (void)o;
    if (bytes != sizeof *c) return;
    if (c->what == CONGERIES_PID) {
        c->error = 0;
        c->count = (uint32_t)getpid();
    } else {
        c->error = ps_transaction(operate, c);
    }
}

/* ---- start ---- */

static int set_up(void *unused)
{
    struct root *root = ps_root(below);
    (void)unused;
    if (root && !root->data) root->data = ps_alloc(below, (PAGES + 1) * KM_PAGE_BYTES, NULL);
    if (!root || !root->data) return -errno;
    data = (char *)(((uintptr_t)root->data + KM_PAGE_BYTES - 1) & ~(uintptr_t)(KM_PAGE_BYTES - 1));
    space_begin(root, data, km_address(object));
    return 0;
}

static int start(void)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .outcome = outcome,
                                      .call = call};
    char name[KM_NAME_MAX + 8];
    if (!km_container_name()) return -ENOTCONN;
    snprintf(name, sizeof name, "%s.blocks", km_container_name());
    below = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = below ? km_below("store") : -errno; /* first: what died before is over then */
    if (!error)
        error = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    if (!error) error = ps_transaction(set_up, NULL);
    return error ? error : km_serve(2);
}

int main(void)
{
    int error = start();
    fprintf(stderr, "congeries: %s\n", error == -ENOTCONN ? "`store manager NAME congeries` makes "
                                       "it the manager of a container" : ps_strerror(error));
    return 1;
}
