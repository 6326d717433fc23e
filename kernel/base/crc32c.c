/*
 * crc32c.c - checksums of pages on their way to and from a disk.
 *
 * Two ways: the CPU's instruction, a word at a time; and sums, with tables for what is left. Real CPUs
 * have the instruction and are quick with it; an emulator computes it bit by bit, and is quicker with
 * the sums. So both are tried at the start.
 *
 * Sums: y^209 = y^144 + y^54 + y^39 + y^14 + 1 modulo the polynomial, where y = x^8. So a byte may be
 * taken out of a message if it is added (xor) to those 65, 155, 170, 195 and 209 places behind.
 */
#include "base/crc32c.h"
#include "base/kernel.h"
#include "words.h"

#include "arch.h"

#define POLYNOMIAL_REVERSED 0x82f63b78u

typedef uint64_t __attribute__((may_alias, aligned(1))) word_t;

enum { SLICES = 8, BACK_WORDS = 27 /* 209 bytes */, CHUNK_WORDS = 128 };

static uint32_t table[SLICES][256];
static uint32_t by_sums(uint32_t crc, const word_t *p, size_t words);
static uint32_t (*chosen)(uint32_t crc, const word_t *p, size_t words) = by_sums;

static uint32_t by_instruction(uint32_t crc, const word_t *p, size_t words)
{
    uint64_t wide = crc;
    while (words-- > 0)
        wide = arch_crc32c_word(wide, *p++);
    return (uint32_t)wide;
}

static inline uint32_t slice8(uint64_t w, const uint32_t (*t)[256])
{
    return t[7][w & 255] ^ t[6][w >> 8 & 255] ^ t[5][w >> 16 & 255] ^ t[4][w >> 24 & 255] ^
           t[3][w >> 32 & 255] ^ t[2][w >> 40 & 255] ^ t[1][w >> 48 & 255] ^ t[0][w >> 56];
}

static uint32_t by_tables(uint32_t crc, const word_t *p, size_t words)
{
    for (; words > 0; words--)
        crc = slice8(*p++ ^ crc, table);
    return crc;
}

static inline word_t behind(const word_t *at, size_t bytes)
{
    return *(const word_t *)((const char *)at - bytes);
}

static inline word_t sum(const word_t *at)
{
    return behind(at, 65) ^ behind(at, 155) ^ behind(at, 170) ^ behind(at, 195) ^ behind(at, 209);
}

/* The alignment keeps the loop within one page: an emulator goes from one page to the next slowly. */
static uint32_t __attribute__((noinline, aligned(1024)))
by_sums(uint32_t crc, const word_t *p, size_t words)
{
    _Alignas(2048) word_t window[BACK_WORDS + CHUNK_WORDS] = {0}; /* slow where pages meet */
    word_t *at = window + BACK_WORDS, rest[BACK_WORDS];
    if (words <= BACK_WORDS)
        return by_tables(crc, p, words);
    while (words > BACK_WORDS) {
        size_t n = MIN(words - BACK_WORDS, CHUNK_WORDS);
        for (size_t i = 0; i < n; i++, crc = 0)
            at[i] = p[i] ^ sum(at + i) ^ crc;
        arch_copy_words(window, window + n, BACK_WORDS);
        p += n;
        words -= n;
    }
    arch_fill_words(at, 0, BACK_WORDS); /* these are taken as they are */
    for (size_t i = 0; i < BACK_WORDS; i++)
        rest[i] = p[i] ^ sum(at + i);
    return by_tables(0, rest, BACK_WORDS);
}

uint32_t crc32c(const void *p, size_t bytes)
{
    return ~chosen(~0u, p, bytes / sizeof(uint64_t));
}

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REVERSED : 0);
        table[0][i] = crc;
    }
    for (unsigned n = 1; n < SLICES; n++)
        for (uint32_t i = 0; i < 256; i++)
            table[n][i] = table[n - 1][i] >> 8 ^ table[0][table[n - 1][i] & 255];
}

/* The quickest of a few rounds over the tables, which are as good as two pages. */
static uint64_t cycles_of(uint32_t (*way)(uint32_t, const word_t *, size_t), uint32_t *crc)
{
    uint64_t best = UINT64_MAX;
    for (unsigned round = 0; round < 4; round++) {
        uint64_t start = arch_cycles();
        *crc = way(~0u, (const word_t *)table, sizeof table / sizeof(word_t));
        best = MIN(best, arch_cycles() - start);
    }
    return best;
}

void crc32c_init(void)
{
    uint32_t a, b;
    make_tables();
    if (!arch_has_crc32c())
        return;
    uint64_t instruction_cycles = cycles_of(by_instruction, &a);
    uint64_t sums_cycles = cycles_of(by_sums, &b);
    assert(a == b);
    const char *choice = kernel_option("crc");
    if (choice ? *choice == 'i' : instruction_cycles < sums_cycles)
        chosen = by_instruction;
    printk("crc32c: by %s (8 KiB: instruction %lu cycles, sums %lu)",
           chosen == by_instruction ? "instruction" : "sums",
           instruction_cycles, sums_cycles);
}
