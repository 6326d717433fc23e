/* subject_vector.c - the vector, beside an array. */
#include <structures/vector.h>

#include "subject.h"

enum { RECORDS = 5000 };
struct point { uint64_t x, y, z; };
PS_VECTOR_OF(points, struct point, 256);
static struct kept {
    struct points_head head;
    uint32_t count, x[RECORDS];
} *kept;
static struct points points = {.name = "points"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    points.head = &kept->head;
    points.memory = memory;
}
static int set_up(void) { return points_set_up(&points); }
static int tear_down(void) { return points_tear_down(&points); }

static int append(struct points_items *a)
{
    struct point p = {1 + draw(1000000), 7, 0};
    int error = kept->count < RECORDS ? points_append(a, &p) : 0;
    if (error == 0 && kept->count < RECORDS)
        kept->x[kept->count++] = (uint32_t)p.x;
    return error;
}

static int resize(struct points_items *a, int growing)
{
    uint32_t to = growing ? kept->count + draw(200) : kept->count - draw(kept->count / 8 + 1);
    to = to < RECORDS ? to : RECORDS;
    int error = points_resize(a, to);
    for (uint32_t i = kept->count; error == 0 && i < to; i++)
        kept->x[i] = 0;
    if (error == 0)
        kept->count = to;
    return error;
}

static int change(struct points_items *a)
{
    uint32_t i = draw(kept->count + 2);
    errno = 0;
    struct point *p = points_change(a, i);
    if (!p && errno != ENOENT)
        return -errno;
    SAME((p != NULL) == (i < kept->count));
    if (p) {
        SAME(p->x == kept->x[i]);
        p->x = kept->x[i] = draw(1000000);
    }
    return 0;
}

static int operation(int growing)
{
    PS_ACCESS(points_items, a, &points, PS_CHANGE);
    switch (draw(40)) {
    case 0: return resize(&a, 1);
    case 1: return growing ? 0 : resize(&a, 0);
    default: return draw(3) && growing ? append(&a) : change(&a);
    }
}

static void compare(void)
{
    PS_ACCESS(points_items, a, &points, PS_LOOK);
    PS_ACCESS(points_range, r, &points, 0, UINT64_MAX, PS_LOOK);
    struct ps_vector_stats stats;
    SAME(ps_vector_check(&a.access, &stats, NULL) == 0);
    SAME(points_count(&a) == kept->count && stats.records == kept->count);
    SAME(!points_get(&a, kept->count) && errno == ENOENT);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct point *p = points_get(&a, i), *next = points_next(&r);
        SAME(p && next && p->x == kept->x[i] && next->x == p->x && points_number(&r) == i);
    }
    SAME(!points_next(&r) && errno == 0);
}

const struct subject subject_vector = {"vector", sizeof(struct kept), place,   set_up,
                                       tear_down, operation,          compare,
                                       offsetof(struct kept, count)};
