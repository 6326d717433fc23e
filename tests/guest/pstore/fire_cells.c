/*
 * fire_cells.c - under fire: a heap that is collected while it is used.
 *
 * Aim     collected, with and without a thread that scans ahead: whoever dies at whichever step,
 *         stands still or lies, the next client has a heap that works; also in memory that is short
 *         or ends. Cells that lead to where nobody was given any keep nothing from being collected.
 * Method  fire.h, with the program as it is.
 */
#include "fire.h"
#include "user/managers/collected.h"

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "collected", .name = "lisp", .argv = {"collected", "lisp", "1"},
         .how = FIRE_CELLS, .pages = 300, .message_bytes = sizeof(struct collected_call)},
        {.program = "collected", .name = "lazy", .argv = {"collected", "lazy", "1", "lazy"},
         .how = FIRE_CELLS, .pages = 300, .message_bytes = sizeof(struct collected_call)},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
