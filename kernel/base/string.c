/*
 * string.c - memory and strings.
 *
 * Owns      memcpy and its kin, which the compiler also calls by itself; whole pages.
 * Not here  user memory: copy_from_user and the rest are arch's.
 *
 * Memory moves by 64-bit words; what is left over at the end is one more word that overlaps the
 * last one. Blocks under eight bytes go byte by byte.
 */
#include "base/kernel.h"
#include "words.h"

/* Words at any address, which may alias anything. */
typedef uint64_t __attribute__((may_alias, aligned(1))) word_t;
#define WORD_BYTES sizeof(uint64_t)

/* GCC must not turn these loops into calls of the functions that they are. */
#define NO_LIBRARY_CALLS __attribute__((optimize("no-tree-loop-distribute-patterns")))

NO_LIBRARY_CALLS void *memcpy(void *to, const void *from, size_t n)
{
    char *t = to;
    const char *f = from;
    if (n >= WORD_BYTES) {
        word_t last = *(const word_t *)(f + n - WORD_BYTES);
        arch_copy_words(t, f, n / WORD_BYTES);
        *(word_t *)(t + n - WORD_BYTES) = last;
    } else {
        while (n-- > 0)
            *t++ = *f++;
    }
    return to;
}

NO_LIBRARY_CALLS static void copy_descending(char *to, const char *from, size_t n)
{
    for (; n >= WORD_BYTES; n -= WORD_BYTES)
        *(word_t *)(to + n - WORD_BYTES) = *(const word_t *)(from + n - WORD_BYTES);
    while (n > 0) {
        n--;
        to[n] = from[n];
    }
}

/* Ascending words are right if the destination lies below; memcpy reads its last word before it
 * writes any, so that word is right too. */
void *memmove(void *to, const void *from, size_t n)
{
    if ((uintptr_t)to - (uintptr_t)from >= n)
        return memcpy(to, from, n);
    copy_descending(to, from, n);
    return to;
}

NO_LIBRARY_CALLS void *memset(void *p, int c, size_t n)
{
    char *t = p;
    uint64_t word = 0x0101010101010101ull * (uint8_t)c;
    if (n >= WORD_BYTES) {
        arch_fill_words(t, word, n / WORD_BYTES);
        *(word_t *)(t + n - WORD_BYTES) = word;
    } else {
        while (n-- > 0)
            *t++ = (char)c;
    }
    return p;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    size_t i = 0;
    while (n - i >= WORD_BYTES && *(const word_t *)(x + i) == *(const word_t *)(y + i))
        i += WORD_BYTES;
    for (; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

void page_zero(void *page) { arch_fill_words(page, 0, PAGE_BYTES / WORD_BYTES); }

NO_LIBRARY_CALLS size_t strnlen(const char *s, size_t n)
{
    size_t length = 0;
    while (length < n && s[length] != 0)
        length++;
    return length;
}

size_t strlen(const char *s) { return strnlen(s, SIZE_MAX); }

int strncmp(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] || a[i] == 0)
            return (uint8_t)a[i] - (uint8_t)b[i];
    return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

/* Copies what fits with a NUL; returns the length of `from`. */
size_t strlcpy(char *to, const char *from, size_t n)
{
    size_t length = strlen(from);
    if (n > 0) {
        size_t kept = MIN(length, n - 1);
        memcpy(to, from, kept);
        to[kept] = 0;
    }
    return length;
}
