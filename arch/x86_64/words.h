/* words.h - runs of 64-bit words. Needs nothing else of the tree. */
#ifndef ARCH_WORDS_H
#define ARCH_WORDS_H

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

#endif
