/*
 * link_key.c - a key that sites share, and check values made with it: SipHash-2-4 (Aumasson and
 * Bernstein 2012), 64 bits of any bytes. It shows that who says HELLO has the key, and no more:
 * what follows is neither hidden nor signed, so over a network that others write to there has to
 * be TLS below (sites.md).
 */
#include "link_peer.h"

#include <string.h>

static uint64_t turned(uint64_t x, int n) { return x << n | x >> (64 - n); }

static void rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = turned(v[1], 13) ^ v[0], v[3] = turned(v[3], 16) ^ v[2];
        v[0] = turned(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = turned(v[1], 17) ^ v[2], v[3] = turned(v[3], 21) ^ v[0];
        v[2] = turned(v[2], 32);
    }
}

static void word(uint64_t v[4], uint64_t m)
{
    v[3] ^= m;
    rounds(v, 2);
    v[0] ^= m;
}

uint64_t key_check(const uint64_t key[2], const void *bytes, size_t count)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    const uint8_t *at = bytes;
    uint64_t m = 0;
    for (size_t left = count; left >= 8; left -= 8, at += 8) {
        memcpy(&m, at, 8);
        word(v, m);
    }
    m = 0;
    memcpy(&m, at, count % 8);
    word(v, m | (uint64_t)count << 56);
    v[2] ^= 255;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void key_make(uint64_t key[2], const char *text)
{
    static const uint64_t first[2] = {1, 1}, second[2] = {2, 2};
    key[0] = key_check(first, text, strlen(text));
    key[1] = key_check(second, text, strlen(text));
}
