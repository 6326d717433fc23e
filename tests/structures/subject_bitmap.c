/* subject_bitmap.c - the bitmap, beside an array of bytes; bits lie in runs and far apart. */
#include <structures/bitmap.h>

#include "subject.h"

enum { BITS = 8000 };
PS_BITMAP_OF(taken, 256);
static struct kept {
    struct taken_head head;
    uint8_t set[BITS];
} *kept;
static struct taken taken = {.name = "taken"};

/* The last quarter of the numbers lies far out. */
static uint64_t number_of(uint32_t i)
{
    return i < BITS * 3 / 4 ? i : ((uint64_t)1 << 40) + (uint64_t)i * 5000;
}

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    taken.head = &kept->head;
    taken.memory = memory;
}
static int set_up(void) { return taken_set_up(&taken); }
static int tear_down(void) { return taken_tear_down(&taken); }

static int operation(int growing)
{
    PS_ACCESS(taken_bits, a, &taken, PS_CHANGE);
    uint32_t i = draw(BITS);
    SAME(taken_test(&a, number_of(i)) == kept->set[i]);
    if (draw(8) == 0) {                         /* the way in which bits are allocated */
        int64_t first = taken_first_clear(&a, i % (BITS / 2));
        uint32_t want = i % (BITS / 2);
        while (want < BITS * 3 / 4 && kept->set[want])
            want++;
        SAME(first == want);
        i = want;
    }
    int on = draw(10) < (growing ? 7u : 3u);
    int was = on ? taken_set(&a, number_of(i)) : taken_clear(&a, number_of(i));
    if (was < 0)
        return was;
    SAME(was == kept->set[i]);
    kept->set[i] = (uint8_t)on;
    return 0;
}

static void compare(void)
{
    PS_ACCESS(taken_bits, a, &taken, PS_LOOK);
    uint32_t from = draw(BITS);
    PS_ACCESS(taken_range, r, &taken, number_of(from), number_of(BITS - 1), PS_LOOK);
    struct ps_bitmap_stats stats;
    uint64_t set = 0;
    SAME(ps_bitmap_check(&a.access, &stats, NULL) == 0);
    for (uint32_t i = 0; i < BITS; i++)
        set += kept->set[i];
    SAME(stats.set == set);
    for (uint32_t i = from; i < BITS - 1; i++)
        if (kept->set[i]) {
            const uint64_t *next = taken_next(&r);
            SAME(next && *next == number_of(i));
        }
    SAME(!taken_next(&r) && errno == 0);
}

const struct subject subject_bitmap = {"bitmap", sizeof(struct kept), place,   set_up,
                                       tear_down, operation,          compare,
                                       offsetof(struct kept, set)};
