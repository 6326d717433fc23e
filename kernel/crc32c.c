/*
 * crc32c.c - checksums of pages on their way to and from a disk.
 *
 * Two ways: the CPU's instruction, a word at a time, and sixteen tables of which each looks up one
 * byte of two words ("slicing by 16"). Real CPUs have the instruction and are quick with it; an
 * emulator computes it bit by bit and is quicker with the tables. So both are tried at the start.
 */
#include "crc32c.h"
#include "words.h"

#include "arch.h"

#define POLYNOMIAL_REVERSED 0x82f63b78u

typedef uint64_t __attribute__((may_alias, aligned(1))) word_t;

enum { SLICES = 16 };

static uint32_t table[SLICES][256];
static uint32_t by_tables(uint32_t crc, const word_t *p, size_t words);
static uint32_t (*chosen)(uint32_t crc, const word_t *p, size_t words) = by_tables;

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
    for (; words > 1; words -= 2, p += 2)
        crc = slice8(p[0] ^ crc, table + 8) ^ slice8(p[1], table);
    return words > 0 ? slice8(p[0] ^ crc, table) : crc;
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

/* The quickest of a few rounds over the tables, which are as good as any page. */
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
    uint64_t instruction_cycles, table_cycles;
    uint32_t a, b;

    make_tables();
    if (!arch_has_crc32c())
        return;
    instruction_cycles = cycles_of(by_instruction, &a);
    table_cycles = cycles_of(by_tables, &b);
    assert(a == b);
    if (instruction_cycles < table_cycles)
        chosen = by_instruction;
    printk("crc32c: by %s (16 KiB: instruction %llu cycles, tables %llu)",
           chosen == by_instruction ? "instruction" : "tables",
           (unsigned long long)instruction_cycles, (unsigned long long)table_cycles);
}
