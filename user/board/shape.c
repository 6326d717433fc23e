/* shape.c - how far two pieces of copper are from each other. */
#include "board.h"

#include <math.h>

struct places_box box_of(const struct copper *c, double margin) {
    double by = c->half + c->round + margin;
    return (struct places_box){
        {fmin(c->end[0].x, c->end[1].x) - by, fmin(c->end[0].y, c->end[1].y) - by},
        {fmax(c->end[0].x, c->end[1].x) + by, fmax(c->end[0].y, c->end[1].y) + by}};
}

int corners(const struct copper *c, double corner[4][2]) {
    double x = c->end[1].x - c->end[0].x, y = c->end[1].y - c->end[0].y, length = hypot(x, y);
    int count = length == 0 ? 1 : c->half == 0 ? 2 : 4;
    double across[2] = {0, 0};
    if (count == 4)
        across[0] = -y / length * c->half, across[1] = x / length * c->half;
    for (int i = 0; i < count; i++) {
        const struct at *end = &c->end[count == 4 ? i / 2 : i];
        double side = i == 1 || i == 2 ? -1 : 1;        /* the way round a rectangle */
        corner[i][0] = end->x + side * across[0];
        corner[i][1] = end->y + side * across[1];
    }
    return count;
}

/* Of which side of the line a-b is p: positive, negative, or 0 on it. */
static double side(const double *a, const double *b, const double *p) {
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
}

static double to_line(const double *p, const double *a, const double *b) {
    double x = b[0] - a[0], y = b[1] - a[1], square = x * x + y * y;
    double t = square > 0 ? ((p[0] - a[0]) * x + (p[1] - a[1]) * y) / square : 0;
    t = fmax(0, fmin(1, t));
    return hypot(a[0] + t * x - p[0], a[1] + t * y - p[1]);
}

static double between_lines(const double *a, const double *b, const double *c, const double *d) {
    if (side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0)
        return 0;
    return fmin(fmin(to_line(a, c, d), to_line(b, c, d)), fmin(to_line(c, a, b), to_line(d, a, b)));
}

static int inside(const double *p, double corner[4][2], int count) {
    int left = 0;
    for (int i = 0; i < count; i++)
        left += side(corner[i], corner[(i + 1) % count], p) > 0;
    return count == 4 && (left == 0 || left == 4);
}

double gap(const struct copper *a, const struct copper *b) {
    double p[4][2], q[4][2], least = INFINITY;
    int m = corners(a, p), n = corners(b, q);
    for (int i = 0; i < m; i++)
        for (int k = 0; k < n; k++)
            least = fmin(least, between_lines(p[i], p[(i + 1) % m], q[k], q[(k + 1) % n]));
    if (inside(p[0], q, n) || inside(q[0], p, m))
        least = 0;
    return least - a->round - b->round;
}
