/*
 * fire_kept.c - under fire: managers that the store starts, with their containers.
 *
 * Aim     packed, branch, congeries: whoever dies at whichever step, stands still or lies, a
 *         transaction is there as a whole or not at all, after the manager's death, too; also in
 *         memory that is short or ends.
 * Method  fire.h, with the programs as they are.
 */
#include <errno.h>

#include "fire.h"
#include "pstore.h"
#include "user/managers/congeries.h"

struct root { uint64_t word[512]; };
static ps_container *original;

static int packed_make(void)
{
    const char *how[] = {"1", NULL};
    return ps_manager("notes", "/bin/packed", how);
}

static int root_make(void *unused)
{
    (void)unused;
    return ps_root(original) ? 0 : -errno;
}

/* Clients use pages that the original does not. */
static int branch_make(void)
{
    const char *how[] = {"original", "1", "1", NULL};
    original = ps_open("original", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = original ? ps_transaction(root_make, NULL) : -errno;
    if (!e) e = ps_close(original);
    return e ? e : ps_manager("trial", "/bin/branch", how);
}

static int congeries_make(void) { return ps_manager("parts", "/bin/congeries", NULL); }

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "packed", .name = "notes", .how = FIRE_COMMITS, .keeps = true, .pages = 200,
         .prepare = packed_make},
        {.program = "branch", .name = "trial", .how = FIRE_COMMITS, .keeps = true, .first = 100,
         .pages = 100, .prepare = branch_make},
        {.program = "congeries", .name = "parts", .how = FIRE_COMMITS, .keeps = true, .pages = 4,
         .prepare = congeries_make, .message_bytes = sizeof(struct congeries_call)},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
