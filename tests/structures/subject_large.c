/* subject_large.c - a large object, beside an array of bytes: the first half together, the second
 * one far out and in pieces. */
#include <structures/large.h>

#include "subject.h"

enum { BYTES = 60000, PIECE = 500, STEP = 50, LONGEST = 9000 };
PS_LARGE(film);
static struct kept {
    struct film_head head;
    uint64_t size;
    uint8_t byte[BYTES];
} *kept;
static struct film film = {.name = "film"};

static uint64_t position(uint32_t i)
{
    return i < BYTES / 2 ? i : ((uint64_t)1 << 40) + i + i / PIECE * (uint64_t)50000;
}

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    film.head = &kept->head;
    film.memory = memory;
}
static int set_up(void) { return film_set_up(&film); }
static int tear_down(void) { return film_tear_down(&film); }

/* A range that lies together. */
static uint32_t range_draw(uint32_t *count)
{
    uint32_t i = draw(BYTES), left = i < BYTES / 2 ? BYTES / 2 - i : PIECE - i % PIECE;
    *count = 1 + draw(draw(3) ? 200 : LONGEST);
    if (*count > left)
        *count = left;
    return i;
}

static int write_some(struct film_bytes *a, uint32_t i, uint32_t count)
{
    uint8_t bytes[LONGEST];
    memset(bytes, 1 + (int)draw(255), count);
    int64_t written = film_write(a, position(i), bytes, count);
    if (written < 0)
        return (int)written;
    memcpy(kept->byte + i, bytes, (size_t)written);
    if (position(i) + (uint64_t)written > kept->size)
        kept->size = position(i) + (uint64_t)written;
    return 0;
}

static int operation(int growing)
{
    PS_ACCESS(film_bytes, a, &film, PS_CHANGE);
    uint32_t count, i = range_draw(&count), what = draw(100);
    if (what < (growing ? 85u : 30u))
        return write_some(&a, i, count);
    if (what < (growing ? 90u : 80u)) {
        if (growing && count > 100)
            count = 100;                        /* no block goes */
        SAME(film_punch(&a, position(i), count) == 0);
        memset(kept->byte + i, 0, count);
    } else if (what >= 98 && !growing) {
        SAME(film_truncate(&a, position(i)) == 0);
        memset(kept->byte + i, 0, BYTES - i);
        kept->size = position(i);
    } else {
        uint8_t bytes[LONGEST];
        uint64_t at = position(i), there = at < kept->size ? kept->size - at : 0;
        int64_t got = film_read(&a, at, bytes, count);
        SAME(got == (int64_t)(there < count ? there : count));
        SAME(got < 0 || memcmp(bytes, kept->byte + i, (size_t)got) == 0);
    }
    return 0;
}

static void compare(void)
{
    PS_ACCESS(film_bytes, a, &film, PS_LOOK);
    struct ps_large_stats stats;
    uint64_t least = 0;
    SAME(ps_large_check(&a.access, &stats, NULL) == 0);
    SAME(film_size(&a) == (int64_t)kept->size && stats.bytes == kept->size);
    for (uint32_t i = 0; i < BYTES; i += STEP) {
        uint8_t bytes[STEP];
        int64_t got = film_read(&a, position(i), bytes, STEP);
        SAME(got >= 0 && memcmp(bytes, kept->byte + i, (size_t)got) == 0);
        for (int64_t k = got < 0 ? 0 : got; k < STEP; k++)
            SAME(kept->byte[i + k] == 0);
        least += kept->byte[i] != 0;
    }
    SAME(stats.blocks <= BYTES / 2 / PIECE * 2 + BYTES / 2 / PS_NODE_BYTES + 2);
    SAME(least == 0 || stats.blocks > 0);
    SAME(film_write(&a, 0, "x", 1) == -EACCES && film_punch(&a, 0, 1) == -EACCES);
}

const struct subject subject_large = {"large object", sizeof(struct kept), place,   set_up,
                                      tear_down,      operation,           compare,
                                      offsetof(struct kept, size)};
