/* subject_rtree.c - the R*-tree, beside an array of boxes. */
#include <structures/rtree.h>

#include "subject.h"

enum { RECORDS = 2500, SIDE = 1000 };
struct shop { uint32_t id, more; };
PS_RTREE_OF(shops, struct shop, 2, 512);
struct box { uint16_t low[2], high[2]; };               /* high[0] 0: none */
static struct kept {
    struct shops_head head;
    uint32_t count;
    struct box boxes[RECORDS];
} *kept;
static struct shops shops = {.name = "shops"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    shops.head = &kept->head;
    shops.memory = memory;
}
static int set_up(void) { return shops_set_up(&shops); }
static int tear_down(void) { return shops_tear_down(&shops); }

static struct box box_draw(unsigned size)
{
    struct box b;
    for (int i = 0; i < 2; i++) {
        b.low[i] = (uint16_t)(1 + draw(SIDE));
        b.high[i] = (uint16_t)(b.low[i] + draw(size));
    }
    return b;
}

static struct shops_box box_of(const struct box *b)
{
    return (struct shops_box){{b->low[0], b->low[1]}, {b->high[0], b->high[1]}};
}

static int insert(struct shops_boxes *a)
{
    uint32_t id = draw(RECORDS);
    while (kept->boxes[id].high[0] && kept->count < RECORDS)
        id = (id + 1) % RECORDS;
    if (kept->boxes[id].high[0])
        return 0;
    struct box b = box_draw(draw(10) ? 12 : 1);
    struct shops_box box = box_of(&b), bad = {{2, 2}, {3, 1}};
    SAME(shops_insert(a, &bad, &(struct shop){id, 0}) == -EINVAL);
    int error = shops_insert(a, &box, &(struct shop){id, 2 * id});
    if (error)
        return error;
    kept->boxes[id] = b;
    kept->count++;
    return 0;
}

/* The question that the tree answers, put to two boxes. */
static int is_wanted(const struct box *b, const struct box *q, enum ps_query how)
{
    int wanted = 1;
    for (int i = 0; i < 2; i++) {
        if (how == PS_INTERSECT)
            wanted &= b->low[i] <= q->high[i] && q->low[i] <= b->high[i];
        else if (how == PS_CONTAIN)
            wanted &= b->low[i] >= q->low[i] && b->high[i] <= q->high[i];
        else
            wanted &= q->low[i] >= b->low[i] && q->high[i] <= b->high[i];
    }
    return wanted;
}

static int odd(const struct shops_box *box, const struct shop *shop, void *unused)
{
    (void)box, (void)unused;
    return shop->id & 1;
}

/* A query; of what comes some is dropped. Sometimes the generator is left early. */
static void ask(const struct box *q, enum ps_query how, unsigned drop)
{
    static uint8_t seen[RECORDS];
    struct shops_box query = q ? box_of(q) : (struct shops_box){{0}, {0}};
    int filtered = draw(4) == 0, early = draw(8) == 0;
    memset(seen, 0, sizeof seen);
    PS_ACCESS(shops_range, r, &shops, q ? &query : NULL, how, drop ? PS_CHANGE : PS_LOOK);
    if (filtered)
        shops_filter(&r, odd, NULL);
    for (const struct shop *shop; (shop = shops_next(&r));) {
        uint32_t id = shop->id;
        SAME(id < RECORDS && shop->more == 2 * id && !seen[id] && (!filtered || id % 2));
        struct shops_box box = box_of(&kept->boxes[id]);
        SAME(kept->boxes[id].high[0] && (!q || is_wanted(&kept->boxes[id], q, how)));
        SAME(memcmp(shops_where(&r), &box, sizeof box) == 0);
        seen[id] = 1;
        if (draw(100) < drop) {
            SAME(shops_drop(&r) == 0 && shops_drop(&r) == -EINVAL);
            kept->boxes[id].high[0] = 0;
            kept->count--;
        }
        if (early && draw(20) == 0)
            return;
    }
    SAME(errno == 0);
    for (uint32_t id = 0; id < RECORDS; id += 1 + (unsigned)filtered) {
        const struct box *b = &kept->boxes[filtered ? id | 1 : id];
        SAME(seen[b - kept->boxes] || !b->high[0] || (q && !is_wanted(b, q, how)));
    }
}

static double squared(const struct box *b, const double *point)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        double by = point[i] < b->low[i]    ? b->low[i] - point[i]
                    : point[i] > b->high[i] ? point[i] - b->high[i]
                                            : 0;
        sum += by * by;
    }
    return sum;
}

/* The nearest, as many as come first, or all. */
static void near(uint32_t most)
{
    static uint8_t seen[RECORDS];
    double point[2] = {draw(SIDE), draw(SIDE)}, last = 0;
    memset(seen, 0, sizeof seen);
    uint32_t came = 0;
    PS_ACCESS(shops_near, n, &shops, point, PS_LOOK);
    for (const struct shop *shop; came < most && (shop = shops_nearest(&n)); came++) {
        SAME(shop->id < RECORDS && !seen[shop->id] && kept->boxes[shop->id].high[0]);
        SAME(shops_squared(&n) == squared(&kept->boxes[shop->id], point));
        SAME(shops_squared(&n) >= last);
        last = shops_squared(&n);
        seen[shop->id] = 1;
    }
    SAME(came == (most < kept->count ? most : kept->count));
    for (uint32_t id = 0; id < RECORDS; id++)
        SAME(seen[id] || !kept->boxes[id].high[0] || squared(&kept->boxes[id], point) >= last);
}

static int operation(int growing)
{
    PS_ACCESS(shops_boxes, a, &shops, PS_CHANGE);
    struct box q = box_draw(draw(4) ? 30 : 1);
    unsigned what = draw(100);
    if (what < (growing ? 85u : 30u))
        return insert(&a);
    if (what < 97)
        ask(&q, (enum ps_query)draw(3), growing ? 10 : 80);
    else if (what < 99)
        near(10);
    else if (!growing)
        ask(draw(4) ? &q : NULL, PS_INTERSECT, draw(5) ? 50 : 100);
    return 0;
}

static void compare(void)
{
    PS_ACCESS(shops_boxes, a, &shops, PS_LOOK);
    struct ps_rtree_stats stats;
    SAME(ps_rtree_check(&a.access, &stats, NULL) == 0);
    SAME(stats.records == kept->count && stats.height < 8);
    ask(NULL, PS_INTERSECT, 0);
    near(30);
}

const struct subject subject_rtree = {"rtree", sizeof(struct kept), place,   set_up,
                                      tear_down, operation,         compare,
                                      offsetof(struct kept, count)};
