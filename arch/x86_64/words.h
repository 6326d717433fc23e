/* words.h - runs of 64-bit words, and the CRC instruction. Needs nothing else of the tree. */
#ifndef ARCH_WORDS_H
#define ARCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ascending addresses, any alignment. The byte forms of these instructions are never used: an
 * emulator runs them byte by byte. */
static inline void arch_copy_words(void *to, const void *from, size_t words)
{
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

static inline void arch_fill_words(void *to, uint64_t word, size_t words)
{
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(word) : "memory");
}

/* CRC-32C of one more word, without the inversions at both ends; only if the CPU has it. */
static inline uint64_t arch_crc32c_word(uint64_t crc, uint64_t word)
{
    __asm__("crc32q %1, %0" : "+r"(crc) : "r"(word));
    return crc;
}

static inline bool arch_has_crc32c(void)
{
    uint32_t a = 1, b, c = 0, d;

    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (c >> 20 & 1) != 0;
}

#endif
