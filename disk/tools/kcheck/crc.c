/*
 * crc.c - CRC-32C by eight tables, and the seed of a kind of block.
 */
#include "view.h"

#include <string.h>

#define CASTAGNOLI 0x1edc6f41u          /* x^32 is left out; bit 31 is x^31 */

static uint32_t tables[8][256];
static bool tables_made;

static uint32_t bits_reversed(uint32_t word)
{
    uint32_t out = 0;
    for (int bit = 0; bit < 32; bit++)
        out |= (word >> bit & 1) << (31 - bit);
    return out;
}

static void tables_make(void)
{
    uint32_t divisor = bits_reversed(CASTAGNOLI);
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = rest & 1 ? rest >> 1 ^ divisor : rest >> 1;
        tables[0][byte] = rest;
    }
    for (int t = 1; t < 8; t++)         /* a byte that t zero bytes follow */
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t rest = tables[t - 1][byte];
            tables[t][byte] = rest >> 8 ^ tables[0][rest & 255];
        }
    tables_made = true;
}

uint32_t kcheck_crc(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *p = bytes;
    if (!tables_made)
        tables_make();
    crc = ~crc;
    for (; count >= 8; count -= 8, p += 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = tables[7][crc & 255] ^ tables[6][crc >> 8 & 255] ^ tables[5][crc >> 16 & 255] ^
              tables[4][crc >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    for (; count; count--)
        crc = crc >> 8 ^ tables[0][(crc ^ *p++) & 255];
    return ~crc;
}

uint32_t kview_seed(const uint8_t uuid[16], uint32_t kind, uint64_t address, uint32_t epoch)
{
    uint8_t seed[32];
    memcpy(seed, uuid, 16);
    for (int i = 0; i < 4; i++) {
        seed[16 + i] = (uint8_t)(kind >> 8 * i);
        seed[20 + i] = (uint8_t)(epoch >> 8 * i);
    }
    for (int i = 0; i < 8; i++)
        seed[24 + i] = (uint8_t)(address >> 8 * i);
    return kcheck_crc(0, seed, sizeof seed);
}
