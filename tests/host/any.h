/*
 * any.h - numbers by chance, for host programs: those of a seed are the same each time.
 */
#ifndef ANY_H
#define ANY_H

#include <stdint.h>

static uint64_t seed = 1;

static inline unsigned any(unsigned below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % below;
}

#endif
