/*
 * fire_volatile.c - under fire: a store whose containers are in memory alone.
 *
 * Aim     volatile: whoever dies at whichever step, stands still or lies, a transaction is there as
 *         a whole or not at all; after the manager's death there is an empty store; also in memory
 *         that is short or ends. A container that a process has not open is not its to ask about.
 * Method  fire.h, with the program as it is.
 */
#include "fire.h"

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "volatile", .name = "volatile", .argv = {"volatile", "volatile", "2"},
         .how = FIRE_COMMITS, .is_store = true, .pages = 4},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
