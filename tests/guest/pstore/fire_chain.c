/*
 * fire_chain.c - under fire: a kept manager that stands on another kept one, over the store.
 *
 * Aim     whoever of the two, or their client, dies at whichever step, stands still or lies: one
 *         transaction is there as a whole or not at all, and the next open begins again all that
 *         died; also in memory that is short or ends.
 * Method  fire.h: stacked over packed, first the upper one under fire, then the lower one.
 */
#include <errno.h>

#include "fire.h"
#include "pstore.h"

static int chain_make(const char *upper, const char *lower)
{
    const char *mib[] = {"2", NULL}, *on[] = {lower, NULL};
    int e = ps_manager(lower, "/bin/packed", mib);
    return e ? e : ps_manager(upper, "/bin/stacked", on);
}

static int first_make(void) { return chain_make("upper", "lower"); }
static int second_make(void) { return chain_make("above", "below"); }

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "stacked", .name = "upper", .how = FIRE_COMMITS, .keeps = true, .pages = 200,
         .prepare = first_make, .beside = 2},
        {.program = "packed", .name = "above", .how = FIRE_COMMITS, .keeps = true, .pages = 200,
         .prepare = second_make, .beside = 2},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
