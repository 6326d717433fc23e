/* rtree.c - the R*-tree changed: where a box goes, what a full leaf does, what a removal leaves. */
#include <errno.h>
#include <string.h>

#include "rtree_private.h"

enum { CANDIDATES = 32, ENTRY_MAX = PS_NODE_MAX / 64 };     /* the last: of an entry, in doubles */

__thread uint64_t rtree_changes;

struct step { struct ps_rtree_node *node; unsigned at; };

/* ---- set up, tear down ---- */

static void subtree_give(const struct ps_rtree_access *a, struct ps_rtree_node *n)
{
    for (unsigned i = 0; n->level > 0 && i < n->count; i++)
        subtree_give(a, entry_child(a, n, i));
    structure_give(&a->base, n);
}

int ps_rtree_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_rtree_access a;
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    rtree_of(&a)->root = structure_take(&a.base);
    return structure_end(&a.base, i, rtree_of(&a)->root ? 0 : -errno);
}

int ps_rtree_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_rtree_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    subtree_give(&a, rtree_of(&a)->root);
    structure_clear(&a.base);
    rtree_changes++;
    return 0;
}

/* ---- entries ---- */

static void entry_put(const struct ps_rtree_access *a, struct ps_rtree_node *n, const double *entry)
{
    structure_changes(&a->base, n);
    memcpy(entry_box(a, n, n->count++), entry, entry_size(a, n->level) * sizeof *entry);
}

static void entry_erase(const struct ps_rtree_access *a, struct ps_rtree_node *n, unsigned i)
{
    unsigned size = entry_size(a, n->level);
    structure_changes(&a->base, n);
    memmove(entry_box(a, n, i), entry_box(a, n, i + 1), (--n->count - i) * size * sizeof(double));
}

/* Makes the box of child i what the child needs: 1 if it was another one. */
static int child_fit(const struct ps_rtree_access *a, struct ps_rtree_node *n, unsigned i)
{
    box_space box;
    size_t bytes = a->base.type->key_bytes;
    node_box(a, entry_child(a, n, i), box);
    if (memcmp(entry_box(a, n, i), box, bytes) == 0)
        return 0;
    structure_changes(&a->base, n);
    memcpy(entry_box(a, n, i), box, bytes);
    return 1;
}

/* Boxes above a leaf that has changed; none is written that is right. */
static void path_fit(const struct ps_rtree_access *a, const struct step *path)
{
    for (unsigned level = 1; level <= rtree_of(a)->root->level; level++)
        if (!child_fit(a, path[level].node, path[level].at))
            break;
}

/* ---- where a box goes ---- */

/* The children of a branch whose area would grow least, at most CANDIDATES, the best first. */
static unsigned candidates(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                           const double *box, unsigned *best)
{
    unsigned d = dimensions(a), count = 0;
    double growth[CANDIDATES + 1], area[CANDIDATES + 1];
    for (unsigned i = 0; i < n->count; i++) {
        box_space grown;
        memcpy(grown, entry_box(a, n, i), 2 * d * sizeof *box);
        double before = box_area(d, grown);
        box_join(d, grown, box);
        double by = box_area(d, grown) - before;
        unsigned k = count;
        for (; k > 0 && (by < growth[k - 1] || (by == growth[k - 1] && before < area[k - 1])); k--)
            growth[k] = growth[k - 1], area[k] = area[k - 1], best[k] = best[k - 1];
        growth[k] = by, area[k] = before, best[k] = i;
        count += count < CANDIDATES;
    }
    return count;
}

/* By how much child i would lie over its neighbours more than it does, if it took in the box. */
static double overlap_growth(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                             unsigned i, const double *box)
{
    unsigned d = dimensions(a);
    box_space grown;
    double sum = 0;
    memcpy(grown, entry_box(a, n, i), 2 * d * sizeof *box);
    box_join(d, grown, box);
    for (unsigned k = 0; k < n->count; k++)
        if (k != i)
            sum += box_overlap(d, grown, entry_box(a, n, k)) -
                   box_overlap(d, entry_box(a, n, i), entry_box(a, n, k));
    return sum;
}

static unsigned child_choose(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                             const double *box)
{
    unsigned best[CANDIDATES + 1] = {0}, count = candidates(a, n, box, best), choice = 0;
    if (n->level > 1 || box_holds(dimensions(a), entry_box(a, n, best[0]), box))
        return best[0];
    double least = overlap_growth(a, n, best[0], box);
    for (unsigned i = 1; i < count && least > 0; i++) {
        double growth = overlap_growth(a, n, best[i], box);
        if (growth < least)
            least = growth, choice = i;
    }
    return best[choice];
}

/* The way to the leaf that suits a box best; path[0] is the leaf. */
static void path_choose(const struct ps_rtree_access *a, const double *box, struct step *path)
{
    struct ps_rtree_node *n = rtree_of(a)->root;
    for (; n->level > 0; n = entry_child(a, n, path[n->level].at)) {
        path[n->level].node = n;
        path[n->level].at = child_choose(a, n, box);
    }
    path[0].node = n;
    structure_claim(&a->base, n, &n->claim);
}

/* ---- a full leaf ---- */

/* The entry whose centre is farthest from that of the box. */
static unsigned farthest(const struct ps_rtree_access *a, const struct ps_rtree_node *n,
                         const double *box)
{
    unsigned d = dimensions(a), far = 0;
    double most = -1;
    for (unsigned i = 0; i < n->count; i++) {
        const double *b = entry_box(a, n, i);
        double sum = 0;
        for (unsigned k = 0; k < d; k++) {
            double apart = b[k] + b[d + k] - box[k] - box[d + k];
            sum += apart * apart;
        }
        if (sum > most)
            most = sum, far = i;
    }
    return far;
}

/* What lies farthest out in a full leaf is inserted anew, if it suits another leaf better that has
 * room: up to three tenths of the records. So boxes stay small, and the leaf may not have to split.
 * (The R*-tree's inventors let these insertions split other leaves; here no memory is needed.) */
static void leaf_relieve(const struct ps_rtree_access *a, const struct step *path)
{
    struct ps_rtree_node *leaf = path[0].node;
    struct step other[PS_RTREE_LEVELS];
    unsigned size = entry_size(a, 0);
    for (unsigned left = leaf->count * 3 / 10; left > 0; left--) {
        box_space box;
        double entry[ENTRY_MAX];
        node_box(a, leaf, box);
        unsigned i = farthest(a, leaf, box);
        memcpy(entry, entry_box(a, leaf, i), size * sizeof *entry);
        path_choose(a, entry, other);
        if (other[0].node == leaf || other[0].node->count == rtree_room(a, 0))
            return;
        entry_put(a, other[0].node, entry);
        path_fit(a, other);
        entry_erase(a, leaf, i);
        path_fit(a, path);
    }
}

/* Nodes for the splits of a full leaf and of the full branches above it, and for a new root. */
static int splits_prepare(const struct ps_rtree_access *a, const struct step *path,
                          struct ps_rtree_node **nodes)
{
    unsigned top = rtree_of(a)->root->level, level = 0;
    while (level <= top && path[level].node->count == rtree_room(a, level))
        level++;
    if (level > top && top + 1 == PS_RTREE_LEVELS)
        return -EFBIG;
    return structure_take_all(&a->base, (void **)nodes, level + (level > top));
}

static void child_entry(const struct ps_rtree_access *a, struct ps_rtree_node *child, double *entry)
{
    node_box(a, child, entry);
    memcpy(entry + 2 * dimensions(a), &child, sizeof child);
}

/* Puts an entry into the leaf of a path, which splits if it is full, as may the branches above. */
static void path_put(const struct ps_rtree_access *a, const struct step *path, const double *entry,
                     struct ps_rtree_node **nodes)
{
    double up[2 * PS_DIMENSIONS_MAX + 1];
    unsigned top = rtree_of(a)->root->level, level = 0;
    for (; level <= top && path[level].node->count == rtree_room(a, level); level++) {
        struct ps_rtree_node *right = *nodes++;
        rtree_split(a, path[level].node, entry, right);
        child_entry(a, right, up);
        entry = up;
        if (level < top)
            child_fit(a, path[level + 1].node, path[level + 1].at);
    }
    if (level <= top) {
        entry_put(a, path[level].node, entry);
        while (level++ < top)
            child_fit(a, path[level].node, path[level].at);
        return;
    }
    double left[2 * PS_DIMENSIONS_MAX + 1];
    struct ps_rtree_node *root = *nodes;
    root->level = level;
    child_entry(a, rtree_of(a)->root, left);
    entry_put(a, root, left);
    entry_put(a, root, entry);
    structure_heads(&a->base);
    rtree_of(a)->root = root;
}

static int box_is_bad(const struct ps_rtree_access *a, const double *box)
{
    for (unsigned i = 0, d = dimensions(a); i < d; i++)
        if (!(box[i] <= box[d + i]) || !(box[d + i] - box[i] < __builtin_inf()))
            return 1;
    return 0;
}

int ps_rtree_insert(struct ps_rtree_access *a, const void *box, const void *record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || box_is_bad(a, box))
        return error ? error : -EINVAL;
    struct step path[PS_RTREE_LEVELS];
    struct ps_rtree_node *nodes[PS_RTREE_LEVELS + 1];
    double entry[ENTRY_MAX] = {0};
    memcpy(entry, box, a->base.type->key_bytes);
    memcpy(entry + 2 * dimensions(a), record, a->base.type->record_bytes);
    rtree_changes++;
    path_choose(a, entry, path);
    if (path[0].node->count == rtree_room(a, 0))
        leaf_relieve(a, path);
    error = splits_prepare(a, path, nodes);
    if (error)
        return error;
    path_put(a, path, entry, nodes);
    return 0;
}

/* ---- removal: of what a generator has come to ---- */

/* A child that lost entries and is small gives the others to one before it, whose entries the
 * generator has passed, too. */
static void child_merge(struct ps_rtree_range *r, unsigned level)
{
    const struct ps_rtree_access *a = &r->access;
    struct ps_rtree_node *parent = r->path[level].node;
    unsigned i = r->path[level].at, most = rtree_room(a, level - 1), at = 0;
    struct ps_rtree_node *child = entry_child(a, parent, i), *to = NULL;
    if (child->count >= most / 3)
        return;
    for (unsigned k = 0; k < i; k++)
        if (entry_child(a, parent, k)->count + child->count <= most * 3 / 4)
            to = entry_child(a, parent, at = k);
    if (!to)
        return;
    for (unsigned k = 0; k < child->count; k++)
        entry_put(a, to, entry_box(a, child, k));
    child_fit(a, parent, at);
    entry_erase(a, parent, i);
    structure_give(&a->base, child);
    r->path[level].at--;
}

void rtree_leave(struct ps_rtree_range *r, unsigned level)
{
    if (!r->path[level - 1].dropped)
        return;
    r->path[level].dropped = 1;
    child_merge(r, level);
}

void rtree_lower(const struct ps_rtree_access *a)
{
    struct ps_rtree_node *root = rtree_of(a)->root;
    for (; root->level > 0 && root->count == 1; root = rtree_of(a)->root) {
        structure_heads(&a->base);
        rtree_of(a)->root = entry_child(a, root, 0);
        structure_give(&a->base, root);
    }
}

int ps_rtree_drop(struct ps_rtree_range *r)
{
    const struct ps_rtree_access *a = &r->access;
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error || r->state != RANGE_AT || r->seen != rtree_changes)
        return error ? error : -EINVAL;
    unsigned top = rtree_of(a)->root->level, level = 0;
    structure_claim(&a->base, r->path[0].node, &r->path[0].node->claim);
    for (;; level++) {          /* a node that is empty then goes, too */
        struct ps_rtree_node *n = r->path[level].node;
        entry_erase(a, n, r->path[level].at--);
        r->path[level].dropped = 1;
        if (n->count > 0 || level == top)
            break;
        structure_give(&a->base, n);
    }
    r->level = level;
    r->state = RANGE_DROPPED;
    if (r->path[level].node->count == 0) {      /* no record is left: the root is a leaf */
        r->path[level].node->level = 0;
        r->state = RANGE_END;
    }
    while (r->state == RANGE_DROPPED && level++ < top)
        child_fit(a, r->path[level].node, r->path[level].at);
    r->seen = ++rtree_changes;
    return 0;
}
