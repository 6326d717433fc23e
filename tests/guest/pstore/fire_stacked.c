/*
 * fire_stacked.c - under fire: managers that stand on the store and are found by a name.
 *
 * Aim     stacked, sealed: whoever dies at whichever step, stands still or lies, a transaction is
 *         there as a whole or not at all, after the manager's death, too; also in memory that is
 *         short or ends.
 * Method  fire.h, with the programs as they are.
 */
#include "fire.h"

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "stacked", .name = "book", .argv = {"stacked", "book"}, .how = FIRE_COMMITS,
         .keeps = true, .pages = 200},
        {.program = "sealed", .name = "vault", .argv = {"sealed", "vault", "key"},
         .how = FIRE_COMMITS, .keeps = true, .pages = 200},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
