/* rtree_look.c - the R*-tree looked at: what meets a box, what is near a point, a check, a
 * picture. */
#include <errno.h>
#include <string.h>

#include "rtree_private.h"

/* ---- ranges ---- */

void ps_rtree_range(struct ps_rtree_range *r, const void *box, enum ps_query query)
{
    r->query = query;
    r->all = !box;
    r->state = RANGE_NEW;
    r->filter = NULL;
    if (r->access.base.error == 0 && ((unsigned)query > PS_ENCLOSE))
        r->access.base.error = -EINVAL;
    if (box && r->access.base.error == 0)
        memcpy(r->want, box, r->access.base.type->key_bytes);
}

int rtree_wanted(const struct ps_rtree_access *a, const double *want, enum ps_query query,
                 const double *box, int is_record)
{
    unsigned d = dimensions(a);
    if (!want)
        return 1;
    if (query == PS_ENCLOSE)
        return box_holds(d, box, want);
    return query == PS_CONTAIN && is_record ? box_holds(d, want, box) : box_meets(d, want, box);
}

static int is_wanted(const struct ps_rtree_range *r, const double *box, int is_record)
{
    return rtree_wanted(&r->access, r->all ? NULL : r->want, r->query, box, is_record);
}

static void enter(struct ps_rtree_range *r, struct ps_rtree_node *n, unsigned level)
{
    n = structure_at(&r->access.base, level, n);
    r->level = n->level;
    r->path[n->level].node = n;
    r->path[n->level].at = UINT32_MAX;          /* before the first */
    r->path[n->level].dropped = 0;
}

/* All was gone through. */
static void *range_end(struct ps_rtree_range *r)
{
    if (r->path[r->level].dropped)
        rtree_lower(&r->access);
    r->state = RANGE_END;
    return structure_none(0);
}

static void *record_at(struct ps_rtree_range *r, const struct ps_rtree_node *n, unsigned i)
{
    void *record = entry_record(&r->access, n, i);
    memcpy(r->box, entry_box(&r->access, n, i), r->access.base.type->key_bytes);
    r->state = RANGE_AT;
    return !r->filter || r->filter(r->box, record, r->arg) ? record : NULL;
}

void *ps_rtree_next(struct ps_rtree_range *r)
{
    const struct ps_rtree_access *a = &r->access;
    if (a->base.error || r->state == RANGE_END)
        return structure_none(a->base.error);
    if (r->state != RANGE_NEW && r->seen != rtree_changes)
        return structure_none(-EAGAIN);
    r->seen = rtree_changes;
    if (r->state == RANGE_NEW) {
        enter(r, rtree_of(a)->root, PS_RTREE_LEVELS - 1);
        r->top = r->level;
    }
    for (;;) {
        const struct ps_rtree_node *n = r->path[r->level].node;
        uint32_t i = ++r->path[r->level].at;
        if (i >= n->count && r->level == r->top)
            return range_end(r);
        if (i >= n->count) {
            rtree_leave(r, ++r->level);
        } else if (is_wanted(r, entry_box(a, n, i), n->level == 0)) {
            void *record = n->level ? NULL : record_at(r, n, i);
            if (record)
                return record;
            if (n->level)
                enter(r, entry_child(a, n, i), n->level - 1);
        }
    }
}

const void *ps_rtree_box(const struct ps_rtree_range *r)
{
    return r->box;
}

/* ---- nearest ---- */

struct nearest { double squared; void *record; };

void ps_rtree_near(struct ps_rtree_near *n, const double *point)
{
    n->squared = -1;
    n->last = NULL;
    memcpy(n->point, point, dimensions(&n->access) * sizeof *point);
}

/* The squares of the least and the greatest distance from the point to places in a box. */
static double least_to(const struct ps_rtree_near *n, const double *box)
{
    double sum = 0;
    for (unsigned i = 0, d = dimensions(&n->access); i < d; i++) {
        double by = n->point[i] < box[i]       ? box[i] - n->point[i]
                    : n->point[i] > box[d + i] ? n->point[i] - box[d + i]
                                               : 0;
        sum += by * by;
    }
    return sum;
}

static double most_to(const struct ps_rtree_near *n, const double *box)
{
    double sum = 0;
    for (unsigned i = 0, d = dimensions(&n->access); i < d; i++) {
        double low = n->point[i] - box[i], high = box[d + i] - n->point[i];
        double by = low > high ? low : high;
        sum += by * by;
    }
    return sum;
}

/* Records in the order of their distance; of the same distance, of their addresses. */
static int is_before(double squared, const void *record, double other, const void *than)
{
    return squared < other || (squared == other && (uintptr_t)record < (uintptr_t)than);
}

/* The first record below a node behind the last that came, if it is before the best so far. */
static void near_below(const struct ps_rtree_near *n, const struct ps_rtree_node *node,
                       struct nearest *best)
{
    const struct ps_rtree_access *a = &n->access;
    unsigned first = 0;
    for (unsigned i = 1; node->level > 0 && i < node->count; i++)
        if (least_to(n, entry_box(a, node, i)) < least_to(n, entry_box(a, node, first)))
            first = i;
    for (unsigned k = 0; k < node->count; k++) {        /* the nearest child comes first */
        unsigned i = k == 0 ? first : k == first ? 0 : k;
        const double *box = entry_box(a, node, i);
        double squared = least_to(n, box);
        if (best->record && squared > best->squared)
            continue;
        if (node->level > 0) {
            if (most_to(n, box) >= n->squared)
                near_below(n, entry_child(a, node, i), best);
            continue;
        }
        void *record = entry_record(a, node, i);
        if (is_before(n->squared, n->last, squared, record) &&
            (!best->record || is_before(squared, record, best->squared, best->record)))
            *best = (struct nearest){squared, record};
    }
}

void *ps_rtree_nearest(struct ps_rtree_near *n)
{
    struct nearest best = {0, NULL};
    if (n->access.base.error)
        return structure_none(n->access.base.error);
    near_below(n, rtree_of(&n->access)->root, &best);
    if (!best.record)
        return structure_none(0);
    n->squared = best.squared;
    n->last = best.record;
    return best.record;
}

/* ---- every invariant ---- */

static const char *check_below(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                               struct ps_rtree_stats *stats)
{
    const char *why = NULL;
    box_space box;
    if (n->count > rtree_room(a, n->level))
        return "a node holds more than fits it";
    stats->leaves += n->level == 0;
    stats->branches += n->level > 0;
    stats->records += n->level == 0 ? n->count : 0;
    for (unsigned i = 0; !why && n->level > 0 && i < n->count; i++) {
        const struct ps_rtree_node *child = entry_child(a, n, i);
        if (!child || (uintptr_t)child % 16 != 0 || child->level != n->level - 1)
            return "a node is not of the level below its parent";
        if (child->count == 0)
            return "a node is empty";
        node_box(a, child, box);
        if (memcmp(box, entry_box(a, n, i), a->base.type->key_bytes) != 0)
            return "a box is not the least that holds what is below it";
        why = check_below(a, child, stats);
    }
    return why;
}

static const char *check(const struct ps_rtree_access *a, struct ps_rtree_stats *stats)
{
    const struct ps_rtree_node *root = rtree_of(a)->root;
    if (!root || root->level >= PS_RTREE_LEVELS || (root->level > 0 && root->count == 0))
        return "the head or the root is spoilt";
    stats->height = root->level + 1;
    const char *why = check_below(a, root, stats);
    if (!why)
        stats->fill = (uint32_t)(stats->records * 100 / stats->leaves / rtree_room(a, 0));
    return why;
}

int ps_rtree_check(const struct ps_rtree_access *a, struct ps_rtree_stats *stats,
                   const char **why)
{
    struct ps_rtree_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}

/* ---- a picture ---- */

enum { SIDE = 800, SHOWN = 4096 };
struct picture { const struct ps_rtree_access *a; struct ps_sink sink; box_space all; int shown; };

/* Where a number of the first or second axis lies in the picture. */
static double scaled(const struct picture *p, unsigned axis, double number)
{
    unsigned d = dimensions(p->a);
    double span = p->all[d + axis] - p->all[axis];
    return span > 0 ? (number - p->all[axis]) * SIDE / span : 0;
}

static void draw_below(struct picture *p, const struct ps_rtree_node *n)
{
    static const char *const colours[] = {"#9bd", "#c60", "#093", "#60c"};
    unsigned d = dimensions(p->a);
    for (unsigned i = 0; i < n->count && p->shown < SHOWN; i++, p->shown++) {
        const double *box = entry_box(p->a, n, i);
        double x = scaled(p, 0, box[0]), y = scaled(p, 1, box[1]);
        structure_say(p->sink, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='none' "
                               "stroke='%s'/>\n", x, y, scaled(p, 0, box[d]) - x + 1,
                      scaled(p, 1, box[d + 1]) - y + 1, colours[n->level % 4]);
        if (n->level > 0)
            draw_below(p, entry_child(p->a, n, i));
    }
}

int ps_rtree_draw(const struct ps_rtree_access *a, struct ps_sink sink)
{
    struct picture p = {.a = a, .sink = sink};
    if (a->base.error || dimensions(a) < 2)
        return a->base.error ? a->base.error : -EINVAL;
    structure_say(sink, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d'>\n",
                  SIDE + 2, SIDE + 2);
    if (rtree_of(a)->root->count > 0) {
        node_box(a, rtree_of(a)->root, p.all);
        draw_below(&p, rtree_of(a)->root);
    }
    structure_say(sink, "</svg>\n");
    return 0;
}
