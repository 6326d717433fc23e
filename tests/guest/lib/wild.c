/* wild.c - asks the host for wild writes (scripts/runwild.py). */
#include "wild.h"

#include "system.h"

static struct wild_box {                /* scripts/runwild.py knows the places */
    volatile uint64_t magic[2], request, done, i, v, j, w, word, mask, found, rest[501];
} box __attribute__((aligned(4096)));
_Static_assert(sizeof box == 4096, "nothing else lies in its page");

long wild_write(struct wild_page p, unsigned word, uint64_t bits)
{
    volatile uint64_t hidden = 0x5a5a5a5a5a5a5a5a;      /* so that no file of the program has it */
    box.i = p.i;
    box.v = p.v;
    box.j = p.j;
    box.w = p.w;
    box.word = word;
    box.mask = bits;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    box.request++;
    box.magic[0] = 0x57494c44424f5831 ^ hidden;
    box.magic[1] = 0x6d656d6f72792121 ^ hidden;
    while (box.done != box.request) pause_ms(1);
    return (long)box.found;
}
