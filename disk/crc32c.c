/*
 * crc32c.c - CRC-32C by the SSE4.2 instruction, by sliced tables, or by sums and tables.
 *
 * Which is fastest depends on the machine: on hardware the instruction. QEMU emulates that bit by
 * bit (40 us a page), and each load costs it a look-up of its own: the tables take 18 loads for 16
 * bytes (5.2 us), the sums 14 loads and stores and hardly anything else (3.6 us). crc32c_choose()
 * measures once; without a clock it takes the instruction where there is one, so that instruction
 * counts repeat from run to run.
 */
#include "crc32c.h"
#include "bytes.h"

#define SLICES 16
#define POLYNOMIAL 0x82f63b78u          /* Castagnoli, bits reversed */

typedef uint32_t crc_routine(uint32_t state, const uint8_t *bytes, size_t count);

#define LANE 680u  /* a third of what is taken at once: 4096 bytes are six and two words */
#define STEP 64u                        /* for zeros that are no whole lane */

static uint32_t table[SLICES][256];
static uint32_t carried[4][256], stepped[4][256];   /* a byte of a CRC, over LANE, STEP zeros */
static bool table_ready;

static void carry_fill(uint32_t (*to)[256], uint32_t zeros)
{
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit, low = 1u << bit % 8;
        for (uint32_t i = 0; i < zeros; i++)
            crc = crc >> 8 ^ table[0][crc & 255];
        for (uint32_t i = 0; i < low; i++)
            to[bit / 8][low + i] = to[bit / 8][i] ^ crc;
    }
}

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
    carry_fill(carried, LANE);
    carry_fill(stepped, STEP);
    table_ready = true;
}

/* carry moves a CRC of 32 bits over as many zeros as `by` was filled for. */
static inline uint64_t carry(uint64_t crc, const uint32_t (*by)[256])
{
    return by[0][crc & 255] ^ by[1][crc >> 8 & 255] ^ by[2][crc >> 16 & 255] ^ by[3][crc >> 24];
}

/* slice8 takes 8 bytes by 8 tables. Written out: a loop takes three times the instructions. */
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

/*
 * crc_by_sums: y^209 = y^144 + y^54 + y^39 + y^14 + 1 modulo the polynomial; y = x^8. So a byte may
 * be taken out of a message if it is added (xor) to the bytes 65, 155, 170, 195 and 209 places
 * behind; no others have so near a last place. What is left in the end is a message of BACK bytes.
 */
#define BACK 216u                       /* the furthest place, in whole words */
#define CHUNK 1024u
#define SUMS_FROM 900u                  /* bytes: fewer take the tables less than the sums' ends */

/* No loop may lie in two pages: an emulator goes from one to the other slowly. */
#define IN_ONE_PAGE __attribute__((noinline, aligned(1024)))

static inline uint64_t sum_before(const uint8_t *at)
{
    return load64(at - 65) ^ load64(at - 155) ^ load64(at - 170) ^ load64(at - 195) ^
           load64(at - 209);
}

static IN_ONE_PAGE uint32_t crc_by_sums(uint32_t state, const uint8_t *bytes, size_t count)
{
    _Alignas(2048) uint8_t window[BACK + CHUNK];    /* an emulator is slow where pages meet */
    uint8_t *at = window + BACK;
    if (count < SUMS_FROM)
        return crc_by_table(state, bytes, count);
    memset(window, 0, BACK);
    while (count >= BACK + 32) {
        size_t part = count - BACK < CHUNK ? (count - BACK) & ~(size_t)31 : CHUNK;
        for (size_t i = 0; i < part; i += 32) {
            store64(at + i, load64(bytes + i) ^ sum_before(at + i) ^ state);
            store64(at + i + 8, load64(bytes + i + 8) ^ sum_before(at + i + 8));
            store64(at + i + 16, load64(bytes + i + 16) ^ sum_before(at + i + 16));
            store64(at + i + 24, load64(bytes + i + 24) ^ sum_before(at + i + 24));
            state = 0;
        }
        memmove(window, window + part, BACK);
        bytes += part;
        count -= part;
    }
    uint8_t *rest = at + BACK;
    memset(at, 0, BACK);                /* the last bytes are taken as they are */
    for (size_t i = 0; i < BACK; i += 8)
        store64(rest + i, load64(bytes + i) ^ sum_before(at + i) ^ (i ? 0 : state));
    return crc_by_table(crc_by_table(0, rest, BACK), bytes + BACK, count - BACK);
}

#if defined(__x86_64__)
static bool instruction_present(void)
{
    uint32_t a = 1, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 20 & 1;
}

/* crc_by_instruction has three lanes, joined by what is carried: the instruction takes three
 * cycles, and one may begin in each. */
static uint32_t crc_by_instruction(uint32_t state, const uint8_t *bytes, size_t count)
{
    uint64_t crc = state;
    if (count >= 3 * LANE && !table_ready)
        table_fill();
    for (; count >= 3 * LANE; count -= 3 * LANE, bytes += 2 * LANE) {
        uint64_t second = 0, third = 0;
        for (const uint8_t *end = bytes + LANE; bytes < end; bytes += 8)
            __asm__("crc32q (%3), %0\n\tcrc32q %c4(%3), %1\n\tcrc32q 2*%c4(%3), %2"
                    : "+&r"(crc), "+&r"(second), "+&r"(third)
                    : "r"(bytes), "i"(LANE), "m"(*(const uint8_t(*)[2 * LANE + 8])bytes));
        crc = carry(carry(crc, carried) ^ second, carried) ^ third;
    }
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

static struct variant { const char *name; crc_routine *routine; uint64_t cost; } variants[] = {
    { .name = "instruction", .routine = crc_by_instruction },
    { .name = "table", .routine = crc_by_table },
    { .name = "sums", .routine = crc_by_sums },
};
#define VARIANTS (sizeof variants / sizeof variants[0])
static const struct variant *chosen;

/* time_of takes the quickest of some rounds over pages of noise: the tables themselves. (Zeros
 * would look up the same few entries always; and an emulator may be slow with one page because of
 * where another lies.) */
static uint64_t time_of(crc_routine *routine, const struct disk_clock *clock, uint32_t *crc)
{
    uint64_t best = UINT64_MAX;
    *crc = 0;
    for (int round = 0; round < 8; round++) {
        const uint8_t *page = (const uint8_t *)table + round % 4 * 4096;
        uint64_t start = clock->microseconds(clock->context);
        for (int i = 0; i < 4; i++)
            *crc = routine(*crc, page, 4096);
        uint64_t spent = clock->microseconds(clock->context) - start;
        best = spent < best ? spent : best;
    }
    return best;
}

void crc32c_choose(const struct disk_clock *clock)
{
    struct variant *v = &variants[instruction_present() ? 0 : 1];
    uint64_t best = UINT64_MAX;
    uint32_t right = 0, crc;
    table_fill();                       /* outside the measurement */
    chosen = v;
    if (clock)
        time_of(crc_by_table, clock, &right);
    for (; clock && v < variants + VARIANTS; v++) {
        v->cost = time_of(v->routine, clock, &crc);
        if (v->cost < best && crc == right) {
            best = v->cost;
            chosen = v;
        }
    }
}

static const struct variant *variant_of(const char *name)
{
    for (size_t i = instruction_present() ? 0 : 1; i < VARIANTS; i++)
        if (!strcmp(name, variants[i].name))
            return &variants[i];
    return NULL;
}

bool crc32c_fix(const char *name)
{
    const struct variant *v = variant_of(name);
    chosen = v ? v : chosen;
    return v;
}

uint64_t crc32c_cost(const char *name)
{
    const struct variant *v = variant_of(name);
    return v ? v->cost : 0;
}

const char *crc32c_chosen(void)
{
    return chosen->name;
}

uint32_t crc32c(uint32_t seed, const void *bytes, size_t count)
{
    if (!chosen)
        crc32c_choose(NULL);
    return ~chosen->routine(~seed, bytes, count);
}

/* crc32c_padded reads no bytes known to be zero: whole lanes, then steps, then 16 at a time, move
 * the CRC alone. */
uint32_t crc32c_padded(uint32_t seed, const void *bytes, size_t count, size_t zeros)
{
    uint32_t state = ~crc32c(seed, bytes, count - zeros);
    if (!table_ready)
        table_fill();
    for (; zeros >= LANE; zeros -= LANE)
        state = (uint32_t)carry(state, carried);
    for (; zeros >= STEP; zeros -= STEP)
        state = (uint32_t)carry(state, stepped);
    for (; zeros >= SLICES; zeros -= SLICES)
        state = table[15][state & 255] ^ table[14][state >> 8 & 255] ^
                table[13][state >> 16 & 255] ^ table[12][state >> 24];
    for (; zeros; zeros--)
        state = state >> 8 ^ table[0][state & 255];
    return ~state;
}
