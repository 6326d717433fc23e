/*
 * bytes.h - little-endian fields of on-disk structures, and the functions of a C library that a
 * freestanding program must supply.
 *
 * A field is a struct of bytes: it has no alignment, so structures have no padding, and it is
 * never taken for a host integer by mistake.
 */
#ifndef KATYDID_DISK_BYTES_H
#define KATYDID_DISK_BYTES_H

#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int   memcmp(const void *a, const void *b, size_t count);
int   strcmp(const char *a, const char *b);

/* load64 and store64: eight bytes at any place, as this machine has them. */
static inline uint64_t load64(const uint8_t *bytes)
{
    uint64_t value;
    __builtin_memcpy(&value, bytes, 8); /* a load, in a freestanding program, too */
    return value;
}

static inline void store64(uint8_t *bytes, uint64_t value)
{
    __builtin_memcpy(bytes, &value, 8);
}

typedef struct { uint8_t byte[2]; } le16;
typedef struct { uint8_t byte[4]; } le32;
typedef struct { uint8_t byte[8]; } le64;

static inline uint16_t le16_get(le16 v)
{
    return (uint16_t)(v.byte[0] | v.byte[1] << 8);
}

static inline uint32_t le32_get(le32 v)
{
    return (uint32_t)v.byte[0] | (uint32_t)v.byte[1] << 8 | (uint32_t)v.byte[2] << 16 |
           (uint32_t)v.byte[3] << 24;
}

static inline uint64_t le64_get(le64 v)
{
    return (uint64_t)v.byte[0] | (uint64_t)v.byte[1] << 8 | (uint64_t)v.byte[2] << 16 |
           (uint64_t)v.byte[3] << 24 | (uint64_t)v.byte[4] << 32 | (uint64_t)v.byte[5] << 40 |
           (uint64_t)v.byte[6] << 48 | (uint64_t)v.byte[7] << 56;
}

static inline le16 le16_of(uint16_t v)
{
    return (le16){ { (uint8_t)v, (uint8_t)(v >> 8) } };
}

static inline le32 le32_of(uint32_t v)
{
    return (le32){ { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) } };
}

static inline le64 le64_of(uint64_t v)
{
    le64 out; /* made by one store, which no compiler sees in eight bytes one by one */
    store64(out.byte, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap64(v));
    return out;
}

/* NUMBER_ENCODE, _DECODE: for lists of numbers, with their bits, that two structures name alike. */
#define NUMBER_ENCODE(bits, name) out->name = le##bits##_of(in->name);
#define NUMBER_DECODE(bits, name) out->name = le##bits##_get(in->name);

#endif
