/* workload.c - OO1's random parts and connections. */
#include "workload.h"

#include <string.h>

static uint64_t sum, calls;

struct draws draws_of(uint64_t seed)
{
    struct draws d = {seed * 0x9e3779b97f4a7c15u + 1};
    for (int i = 0; i < 4; i++)
        draw(&d, 2);
    return d;
}

uint32_t draw(struct draws *d, uint32_t below)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((d->state >> 32) * below >> 32);
}

void draw_type(struct draws *d, char type[TYPE_BYTES])
{
    memcpy(type, "part-type0", TYPE_BYTES);
    type[TYPE_BYTES - 1] = (char)('0' + draw(d, TYPES));
}

struct part_values draw_part(struct draws *d)
{
    struct part_values p = {.x = (int32_t)draw(d, RANGE), .y = (int32_t)draw(d, RANGE)};
    p.build = BUILD_FIRST + (int32_t)draw(d, BUILD_DAYS);
    draw_type(d, p.type);
    return p;
}

/* The nearest parts are a window around the part, which the ends of all parts move. */
static int32_t zone(int32_t from, int32_t count, int32_t *size)
{
    *size = count * ZONE_PERCENT / 100;
    if (*size < LINKS + 1)
        *size = LINKS + 1 < count ? LINKS + 1 : count;
    int32_t low = from - *size / 2, last = count - *size + 1;
    return low < 1 ? 1 : low > last ? last : low;
}

int is_near(int32_t from, int32_t to, int32_t count)
{
    int32_t size, low = zone(from, count, &size);
    return to >= low && to < low + size;
}

int32_t draw_end(struct draws *d, int32_t from, int32_t count)
{
    int32_t to, size, low = zone(from, count, &size);
    do {
        int near = draw(d, 100) < NEAR_PERCENT;
        to = near ? low + (int32_t)draw(d, (uint32_t)size) : 1 + (int32_t)draw(d, (uint32_t)count);
    } while (to == from);
    return to;
}

__attribute__((noinline)) void procedure(int32_t x, int32_t y, const char type[TYPE_BYTES])
{
    sum = (sum << 7 | sum >> 57) ^ ((uint64_t)(uint32_t)x << 32 | (uint32_t)y) ^
          (uint64_t)type[TYPE_BYTES - 1];
    calls++;
}

uint64_t procedure_sum(void)
{
    uint64_t was = sum;
    sum = 0;
    return was;
}

uint64_t procedure_calls(void)
{
    uint64_t was = calls;
    calls = 0;
    return was;
}
