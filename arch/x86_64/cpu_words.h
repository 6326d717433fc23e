/*
 * cpu_words.h - the words of this CPU's struct cpu that the hottest paths use, one instruction
 * each.
 *
 * Needs no other header but asm.h, so that kernel/base/lock.h can be inline.
 */
#ifndef ARCH_CPU_WORDS_H
#define ARCH_CPU_WORDS_H

#include <stdint.h>

#include "asm.h"

/* Ranks of the locks held: bit r for rank r. */
static inline uint32_t cpu_locks_held(void)
{
    uint32_t v;
    __asm__ volatile("movl %%gs:%c1, %0" : "=r"(v) : "i"(CPU_LOCKS_HELD));
    return v;
}
static inline uint32_t cpu_locks_from(uint32_t bit) /* whether one has this rank or one above it */
{
    __asm__ goto("cmpl %0, %%gs:%c1; jae %l2" ::"ri"(bit), "i"(CPU_LOCKS_HELD) : : yes);
    return 0;
yes: __attribute__((cold));
    return 1;
}
static inline void cpu_toggle_locks_held(uint32_t bits)
{
    __asm__ volatile("xorl %0, %%gs:%c1" ::"r"(bits), "i"(CPU_LOCKS_HELD) : "cc");
}
/* The mark that this CPU writes into a lock that it holds: its number + 1. */
static inline uint32_t cpu_mark(void)
{
    uint32_t v;
    __asm__ volatile("movl %%gs:%c1, %0" : "=r"(v) : "i"(CPU_MARK));
    return v;
}

#endif
