/*
 * fire_memory.c - under fire: managers whose pages are memory.
 *
 * Aim     zeros, changed, compressed: whoever dies at whichever step, stands still or lies, the
 *         next client finds what was acknowledged, or, after the manager's death, an object as new;
 *         memory that is short or ends loses nothing else.
 * Method  fire.h, with the programs as they are.
 */
#include "fire.h"
#include "manager.h"
#include "user/managers/compressed.h"

static uint64_t square(uint64_t i) { return i * i; }

/* The pages that were stored to are packed, and leave memory. */
static int pack(void)
{
    struct compressed_call c = {.what = COMPRESSED_OUT, .page = 0, .count = 16};
    int e = km_call("compressed", "compressed", &c, sizeof c);
    return e < 0 ? e : c.result < 0 ? (int)c.result : 0;
}

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "zeros", .name = "zeros", .argv = {"zeros"}, .how = FIRE_PLAIN, .pages = 4096},
        {.program = "changed", .name = "changed", .argv = {"changed"}, .how = FIRE_PLAIN,
         .pages = 4096, .initial = square},
        {.program = "compressed", .name = "compressed", .argv = {"compressed", "16", "4"},
         .how = FIRE_PLAIN, .pages = 4000, .after = pack,
         .message_bytes = sizeof(struct compressed_call)},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
