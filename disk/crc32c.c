/*
 * crc32c.c - CRC-32C by the SSE4.2 instruction or by sliced tables.
 *
 * Which is faster depends on the machine: on hardware the instruction, under QEMU's emulation the
 * table. crc32c_choose() decides once; without a clock it takes the instruction where there is
 * one, so that instruction counts repeat from run to run.
 */
#include "bytes.h"
#include "store.h"

#define SLICES 16
#define POLYNOMIAL 0x82f63b78u          /* Castagnoli, bits reversed */

typedef uint32_t crc_routine(uint32_t state, const uint8_t *bytes, size_t count);

static uint32_t table[SLICES][256];
static bool table_ready;

static void table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][i] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int i = 0; i < 256; i++)
            table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 255];
    table_ready = true;
}

static inline uint64_t load64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, 8);
    return value;
}

/* Eight bytes by eight tables. Written out: as a loop it takes three times the instructions. */
static inline uint32_t slice8(uint64_t word, const uint32_t (*t)[256])
{
    return t[7][word & 255] ^ t[6][word >> 8 & 255] ^ t[5][word >> 16 & 255] ^
           t[4][word >> 24 & 255] ^ t[3][word >> 32 & 255] ^ t[2][word >> 40 & 255] ^
           t[1][word >> 48 & 255] ^ t[0][word >> 56];
}

static uint32_t crc_by_table(uint32_t state, const uint8_t *bytes, size_t count)
{
    if (!table_ready)
        table_fill();
    for (; count >= 16; count -= 16, bytes += 16)
        state = slice8(load64(bytes) ^ state, table + 8) ^ slice8(load64(bytes + 8), table);
    for (; count; count--)
        state = state >> 8 ^ table[0][(state ^ *bytes++) & 255];
    return state;
}

#if defined(__x86_64__)
static bool instruction_present(void)
{
    uint32_t a = 1, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 20 & 1;
}

#define STEP(n) "crc32q " #n "*8(%1), %0\n\t"
static uint32_t crc_by_instruction(uint32_t state, const uint8_t *bytes, size_t count)
{
    uint64_t crc = state;
    for (; count >= 128; count -= 128, bytes += 128)
        __asm__(STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
                STEP(8) STEP(9) STEP(10) STEP(11) STEP(12) STEP(13) STEP(14) STEP(15)
                : "+r"(crc) : "r"(bytes), "m"(*(const uint8_t(*)[128])bytes));
    for (; count >= 8; count -= 8, bytes += 8)
        __asm__("crc32q %1, %0" : "+r"(crc) : "rm"(load64(bytes)));
    for (; count; count--, bytes++)
        __asm__("crc32b %1, %k0" : "+r"(crc) : "rm"(*bytes));
    return (uint32_t)crc;
}
#else
#define instruction_present() false
#define crc_by_instruction    crc_by_table
#endif

static crc_routine *chosen;

static uint64_t time_of(crc_routine *routine, const struct disk_clock *clock)
{
    static uint8_t sample[4096];
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 3; round++) {
        uint64_t start = clock->microseconds(clock->context);
        for (int i = 0; i < 16; i++)
            sample[0] ^= (uint8_t)routine(0, sample, sizeof sample);
        uint64_t spent = clock->microseconds(clock->context) - start;
        best = spent < best ? spent : best;
    }
    return best;
}

void crc32c_choose(const struct disk_clock *clock)
{
    chosen = instruction_present() ? crc_by_instruction : crc_by_table;
    if (clock && chosen != crc_by_table) {
        crc_by_table(0, NULL, 0);       /* fill the table outside the measurement */
        if (time_of(crc_by_table, clock) < time_of(crc_by_instruction, clock))
            chosen = crc_by_table;
    }
}

bool crc32c_fix(const char *name)
{
    bool table = name[0] == 't';
    if (!table && !instruction_present())
        return false;
    chosen = table ? crc_by_table : crc_by_instruction;
    return true;
}

const char *crc32c_chosen(void)
{
    return chosen == crc_by_table ? "table" : "instruction";
}

uint32_t crc32c(uint32_t seed, const void *bytes, size_t count)
{
    if (!chosen)
        crc32c_choose(NULL);
    return ~chosen(~seed, bytes, count);
}
