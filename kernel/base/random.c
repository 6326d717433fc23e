/*
 * random.c - bytes that look random: for the stack guard, getrandom(), new programs' stacks, and
 * the ids of transactions over several stores (store/parts.c: BP6).
 */
#include "arch.h"
#include "base/panic.h"

static uint64_t random_state; /* atomic: no two CPUs get the same, and nothing mixed in is lost */
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
        uint64_t x, was = __atomic_load_n(&random_state, __ATOMIC_RELAXED);
        do
            x = mixed((was ^ in[i]) + 0x9e3779b97f4a7c15ull);
        while (!__atomic_compare_exchange_n(&random_state, &was, x ^ x >> 31, false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    } /* far from where another word leads: no part of what one gives is theirs, too */
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
    uint64_t state = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            state = __atomic_add_fetch(
                &random_state, 0x9e3779b97f4a7c15ull ^ (random_seeded ? 0 : arch_cycles() << 20),
                __ATOMIC_RELAXED);
        out[i] = (uint8_t)(mixed(state + i) >> 31);
    }
}
