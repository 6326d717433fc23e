/* rtree_split.c - boxes, and how a full node of the R*-tree is cut into two. */
#include <string.h>

#include "rtree_private.h"

/* ---- boxes ---- */

void box_join(unsigned d, double *box, const double *more)
{
    for (unsigned i = 0; i < d; i++) {
        box[i] = more[i] < box[i] ? more[i] : box[i];
        box[d + i] = more[d + i] > box[d + i] ? more[d + i] : box[d + i];
    }
}

double box_area(unsigned d, const double *box)
{
    double area = 1;
    for (unsigned i = 0; i < d; i++)
        area *= box[d + i] - box[i];
    return area;
}

double box_margin(unsigned d, const double *box)
{
    double sum = 0;
    for (unsigned i = 0; i < d; i++)
        sum += box[d + i] - box[i];
    return sum;
}

/* The area that two boxes share. */
double box_overlap(unsigned d, const double *a, const double *b)
{
    double area = 1;
    for (unsigned i = 0; i < d; i++) {
        double low = a[i] > b[i] ? a[i] : b[i];
        double high = a[d + i] < b[d + i] ? a[d + i] : b[d + i];
        if (high <= low)
            return 0;
        area *= high - low;
    }
    return area;
}

int box_holds(unsigned d, const double *outer, const double *inner)
{
    for (unsigned i = 0; i < d; i++)
        if (inner[i] < outer[i] || inner[d + i] > outer[d + i])
            return 0;
    return 1;
}

int box_meets(unsigned d, const double *a, const double *b)
{
    for (unsigned i = 0; i < d; i++)
        if (a[i] > b[d + i] || b[i] > a[d + i])
            return 0;
    return 1;
}

void node_box(const struct ps_rtree_access *a, const struct ps_rtree_node *n, double *box)
{
    unsigned d = dimensions(a);
    memcpy(box, entry_box(a, n, 0), 2 * d * sizeof *box);
    for (unsigned i = 1; i < n->count; i++)
        box_join(d, box, entry_box(a, n, i));
}

/* ---- the cut ---- */

/* Entries of a node and one more, in the order in which they are cut; of each cut k the boxes of
 * the first k entries and of the others. */
struct cut {
    unsigned d, size, count, least;             /* least: entries that a part has at least */
    double entries[PS_NODE_MAX / 8 + 2 * PS_DIMENSIONS_MAX + PS_NODE_MAX / 64];
    uint16_t order[PS_NODE_MAX / 16];
    double head[PS_NODE_MAX / 8 + 2 * PS_DIMENSIONS_MAX];
    double tail[PS_NODE_MAX / 8 + 2 * PS_DIMENSIONS_MAX];
};

/* What one order of the entries is worth: margins of all its cuts; the best of these. */
struct worth { double margin, overlap, area; unsigned at; };

static const double *nth(const struct cut *c, unsigned i)
{
    return c->entries + c->order[i] * c->size;
}

/* Sorts by one number of the boxes: the low or the high end of an axis. */
static void sort(struct cut *c, unsigned number)
{
    for (unsigned i = 0; i < c->count; i++) {
        uint16_t entry = (uint16_t)i;
        double key = c->entries[i * c->size + number];
        unsigned k = i;
        for (; k > 0 && nth(c, k - 1)[number] > key; k--)
            c->order[k] = c->order[k - 1];
        c->order[k] = entry;
    }
}

static struct worth weigh(struct cut *c, unsigned number)
{
    unsigned two = 2 * c->d;
    struct worth w = {0, 0, 0, 0};
    sort(c, number);
    memcpy(c->head, nth(c, 0), two * sizeof(double));
    memcpy(c->tail + (c->count - 1) * two, nth(c, c->count - 1), two * sizeof(double));
    for (unsigned i = 1; i < c->count; i++) {
        double *head = c->head + i * two, *tail = c->tail + (c->count - 1 - i) * two;
        memcpy(head, head - two, two * sizeof(double));
        memcpy(tail, tail + two, two * sizeof(double));
        box_join(c->d, head, nth(c, i));
        box_join(c->d, tail, nth(c, c->count - 1 - i));
    }
    for (unsigned k = c->least; k <= c->count - c->least; k++) {
        const double *head = c->head + (k - 1) * two, *tail = c->tail + k * two;
        double overlap = box_overlap(c->d, head, tail);
        double area = box_area(c->d, head) + box_area(c->d, tail);
        w.margin += box_margin(c->d, head) + box_margin(c->d, tail);
        if (w.at == 0 || overlap < w.overlap || (overlap == w.overlap && area < w.area))
            w = (struct worth){w.margin, overlap, area, k};
    }
    return w;
}

/* The axis whose cuts have the least margins, and on it the cut with the least overlap. */
static unsigned best_cut(struct cut *c)
{
    double least = 0;
    unsigned number = 0;
    struct worth best = {0};
    for (unsigned axis = 0; axis < c->d; axis++) {
        struct worth low = weigh(c, axis), high = weigh(c, c->d + axis);
        if (axis > 0 && low.margin + high.margin >= least)
            continue;
        int by_high = high.overlap < low.overlap ||
                      (high.overlap == low.overlap && high.area < low.area);
        least = low.margin + high.margin;
        best = by_high ? high : low;
        number = by_high ? c->d + axis : axis;
    }
    sort(c, number);
    return best.at;
}

void rtree_split(const struct ps_rtree_access *a, struct ps_rtree_node *n, const double *more,
                 struct ps_rtree_node *right)
{
    struct cut c;
    c.d = dimensions(a);
    c.size = entry_size(a, n->level);
    c.count = n->count + 1;
    c.least = c.count * 2 / 5;
    memcpy(c.entries, n->entries, n->count * c.size * sizeof(double));
    memcpy(c.entries + n->count * c.size, more, c.size * sizeof(double));
    structure_changes(&a->base, n);
    n->count = best_cut(&c);
    right->level = n->level;
    right->count = c.count - n->count;
    for (unsigned i = 0; i < c.count; i++) {
        double *to = i < n->count ? entry_box(a, n, i) : entry_box(a, right, i - n->count);
        memcpy(to, nth(&c, i), c.size * sizeof(double));
    }
}
