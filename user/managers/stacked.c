/*
 * stacked.c - a container whose pages lie in another container: a manager on a manager.
 *
 *     stacked NAME &                  serves NAME, 1 MiB; its pages lie in the container NAME.below
 *     store manager NAME stacked C    from now on this program serves NAME; its pages lie in the
 *                                     container C, which has a manager of its own
 *
 * Step 4 of libpstore/managers.md. The pages are kept as they are, so this is all that a manager
 * needs for transactions and for persistence: the store below has the log, the locks, recovery. A
 * client's transaction on NAME and on containers of the store is one commit, also if what lies
 * below is kept by a manager that stands on the store itself.
 */
#include <stdio.h>
#include <string.h>

#include "manager.h"
#include "pstore.h"

enum { PAGES = 256 };
struct home { char page[PAGES][KM_PAGE_BYTES]; };

static ps_container *below;
static char (*home)[KM_PAGE_BYTES];

/* In a snapshot of what lies below: it waits for nobody. */
static void page(struct km_request *r)
{
    char bytes[KM_PAGE_BYTES];
    memcpy(bytes, home[r->page], sizeof bytes);
    km_answer(r, bytes, 1, 0);
}

/* In a transaction on what lies below that becomes a part of the client's. */
static int store(const struct km_run *r, void *unused)
{
    (void)unused;
    memcpy(home[r->page] + r->offset, r->data, r->bytes);
    return 0;
}
static int commit(struct km_object *o, uint64_t view) { return km_diff_each(o, view, store, NULL); }

static const struct km_ops ops = {.page = page, .commit = commit};
enum { HOW = KM_READ | KM_WRITE | KM_TRANSACTIONAL };

static int find_home(void *unused)
{
    (void)unused;
    struct home *root = ps_root(below);
    if (root) home = root->page;
    return root ? 0 : -errno;
}

static int serve_named(const char *name)
{
    struct km_object *object;
    int error = km_below_own(name, "below", PS_LAYOUT(struct home, 1), &below);
    if (!error) error = ps_transaction(find_home, NULL);
    return error ? error : km_create(name, PAGES, HOW, &ops, NULL, &object);
}

/* As the manager that the store keeps with a container. */
static int serve_kept(const char *kept_in)
{
    struct km_object *object;
    below = ps_open(kept_in, PS_WRITE, NULL);
    int error = below ? km_below_container(below) : -errno;
    home = below ? ps_address(below) : NULL;
    return error ? error : km_container(HOW, &ops, NULL, &object);
}

int main(int argc, char **argv)
{
    int error = argc != 2             ? -EINVAL
                : km_container_name() ? serve_kept(argv[1]) : serve_named(argv[1]);
    if (!error) error = km_commits(4); /* `commit` changes nothing but what lies below */
    if (!error) error = km_serve(2);
    fprintf(stderr, "stacked NAME &: cannot serve: %s\n", ps_strerror(error));
    return 1;
}
