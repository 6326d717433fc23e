/*
 * fire_commits.c - under fire: managers with transactions that stand on nothing.
 *
 * Aim     optimistic, clone, behind: whoever dies at whichever step, stands still or lies, a
 *         transaction is there as a whole or not at all, and what behind had said to be durable
 *         after its death, too; also in memory that is short or ends.
 * Method  fire.h, with the programs as they are.
 */
#include <errno.h>

#include "fire.h"
#include "manager.h"
#include "pstore.h"
#include "user/managers/behind.h"
#include "user/managers/clone.h"
#include "user/managers/optimistic.h"

struct root { uint64_t word[512]; };
static ps_container *original;

static int root_make(void *unused)
{
    (void)unused;
    return ps_root(original) ? 0 : -errno;
}

/* What is cloned has one page; clients use others, which are zero. */
static int original_make(void)
{
    original = ps_open("original", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = original ? ps_transaction(root_make, NULL) : -errno;
    return e ? e : ps_close(original);
}

/* All that is committed is durable. */
static int flush(void)
{
    struct behind_counts c = {.flush = 1};
    return km_call("box", "box", &c, sizeof c);
}

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "optimistic", .name = "field", .argv = {"optimistic", "field", "1"},
         .how = FIRE_COMMITS, .strict = true, .pages = 200,
         .message_bytes = sizeof(struct optimistic_counts)},
        {.program = "clone", .name = "trial", .argv = {"clone", "original", "trial", "1"},
         .how = FIRE_COMMITS, .first = 100, .pages = 100, .prepare = original_make,
         .message_bytes = sizeof(struct clone_info)},
        {.program = "behind", .name = "box", .argv = {"behind", "box", "1"}, .how = FIRE_COMMITS,
         .keeps = true, .pages = 200, .after = flush,
         .message_bytes = sizeof(struct behind_counts)},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
