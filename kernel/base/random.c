/*
 * random.c - bytes that look random: for the stack guard, getrandom(), new programs' stacks, and
 * the ids of transactions over several stores (store/parts.c: BP6).
 */
#include "arch.h"
#include "base/panic.h"

static uint64_t random_state; /* lost updates between CPUs do no harm */
static bool random_seeded;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    return (x ^ x >> 27) * 0x94d049bb133111ebull;
}

void random_mix(const void *from, size_t bytes)
{
    const uint8_t *in = from;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t x = mixed((random_state ^ in[i]) + 0x9e3779b97f4a7c15ull);
        random_state = x ^ x >> 31; /* far from where another word leads: no part is theirs, too */
    }
}

void random_init(void)
{
    const char *seed = kernel_option("seed");
    random_seeded = seed;
    if (seed)
        random_mix(seed, strlen(seed));
    random_bytes(&__stack_chk_guard, sizeof __stack_chk_guard);
}

void random_bytes(void *to, size_t bytes)
{
    uint8_t *out = to;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            random_state += 0x9e3779b97f4a7c15ull ^ (random_seeded ? 0 : arch_cycles() << 20);
        out[i] = (uint8_t)(mixed(random_state + i) >> 31);
    }
}
