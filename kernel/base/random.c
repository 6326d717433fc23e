/*
 * random.c - bytes that look random: for the stack guard, getrandom() and new programs' stacks.
 */
#include "arch.h"
#include "base/panic.h"

static uint64_t random_state; /* lost updates between CPUs do no harm */
static bool random_seeded;

void random_init(void)
{
    const char *seed = kernel_option("seed");
    random_seeded = seed;
    for (; seed && *seed; seed++)
        random_state = (random_state ^ (uint8_t)*seed) * 0x9e3779b97f4a7c15ull;
    random_bytes(&__stack_chk_guard, sizeof __stack_chk_guard);
}

void random_bytes(void *to, size_t bytes)
{
    uint8_t *out = to;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            random_state += 0x9e3779b97f4a7c15ull ^ (random_seeded ? 0 : arch_cycles() << 20);
        uint64_t x = random_state + i;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 27) * 0x94d049bb133111ebull;
        out[i] = (uint8_t)(x >> 31);
    }
}
