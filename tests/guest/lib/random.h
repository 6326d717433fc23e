/* random.h - numbers at random that a seed gives again, for the tests of histories. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* The next number after *x, which is not 0 (xorshift). */
static inline uint64_t next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}

/* A seed made of two numbers; never 0. */
static inline uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t x =
        (a + 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull ^ (b + 1) * 0xc4ceb9fe1a85ec53ull;
    return (x ^ x >> 29) | 1;
}

#endif
