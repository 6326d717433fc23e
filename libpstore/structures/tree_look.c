/* tree_look.c - the B+-tree looked at: every invariant, statistics, a picture. */
#include "tree_private.h"

#include <errno.h>
#include <string.h>

/* ---- every invariant ---- */

struct walk {
    const struct ps_tree_access *a;
    struct ps_tree_stats *stats;
    uint64_t leaf_bytes;
    const char *why;
};

static int wrong(struct walk *w, const char *why)
{
    w->why = why;
    return -EUCLEAN;
}

static int check_node(struct walk *w, const struct ps_node *n, unsigned level, struct bytes low,
                      struct bytes high);

static int check_children(struct walk *w, const struct ps_node *n, struct bytes low,
                          struct bytes high)
{
    _Alignas(16) uint8_t copy[2][KEY_COPY];
    for (unsigned i = 0; i <= n->count; i++) {
        struct bytes end = i < n->count ? node_key(&w->a->base, n, i, copy[i % 2]) : high;
        int error = check_node(w, node_child(n, i), n->level - 1u, low, end);
        if (error)
            return error;
        low = end;
        if (i == 0 || (n->level == 1 && !w->a->base.type->key_bytes))
            continue; /* string leaves shrink and grow with their prefix */
        const struct ps_node *left = node_child(n, i - 1), *right = node_child(n, i);
        _Alignas(16) uint8_t between[KEY_COPY];
        if (node_is_small(&w->a->base, left) && node_is_small(&w->a->base, right) &&
            node_join_fits(&w->a->base, left, right, node_key(&w->a->base, n, i - 1, between)))
            return wrong(w, "two small neighbours would fit one node");
    }
    return 0;
}

static int check_node(struct walk *w, const struct ps_node *n, unsigned level, struct bytes low,
                      struct bytes high)
{
    n = structure_at(&w->a->base, level, (void *)(uintptr_t)n);
    if (!n || (uintptr_t)n % 16 != 0 || n->level != level)
        return wrong(w, "a node is not of the level below its parent");
    if (level == 0 && n->count == 0 && tree_of(w->a)->height > 1)
        return wrong(w, "a leaf is empty");
    if (level > 0 && n->prefix > 0)
        return wrong(w, "a branch has a prefix");
    const char *why =
        node_check(&w->a->base, n, low, high, (w->a->base.head->flags & PS_DUPLICATES) != 0);
    if (why)
        return wrong(w, why);
    if (level > 0) {
        w->stats->branches++;
        return check_children(w, n, low, high);
    }
    w->stats->leaves++;
    w->stats->records += n->count;
    w->leaf_bytes += node_used(n);
    w->stats->prefix_bytes += (uint64_t)n->prefix * n->count;
    return 0;
}

int ps_tree_check(const struct ps_tree_access *a, struct ps_tree_stats *stats, const char **why)
{
    struct ps_tree_stats own = { 0 };
    struct walk w = { .a = a,
                      .stats = &own,
                      .why = structure_unset };
    int error = a->base.error;
    if (error == 0 && (tree_of(a)->height == 0 || tree_of(a)->height > PS_TREE_LEVELS ||
                       a->base.head->node_bytes != a->base.type->node_bytes))
        error = wrong(&w, "the head is spoilt");
    if (error == 0)
        error = check_node(&w, tree_of(a)->root, tree_of(a)->height - 1u, (struct bytes){ 0 },
                           (struct bytes){ 0 });
    if (error == 0 && tree_of(a)->height > 1 && tree_of(a)->root->count == 0)
        error = wrong(&w, "the root has one child");
    for (const struct ps_node *n = error ? NULL : tree_of(a)->spare; n; n = n->first)
        own.spare++;
    own.height = error ? 0 : tree_of(a)->height;
    if (own.leaves)
        own.fill = (uint32_t)(w.leaf_bytes * 100 / own.leaves /
                              (a->base.head->node_bytes - sizeof(struct ps_node)));
    if (stats)
        *stats = own;
    if (why)
        *why = error ? w.why : NULL;
    return error;
}

/* ---- a picture ---- */

enum { SHOWN = 64, BOX = 40, GAP = 6, ROW = 70 };

static void draw_node(const struct ps_tree_access *a, struct ps_sink sink, const struct ps_node *n,
                      unsigned x, unsigned y, unsigned parent_x)
{
    unsigned full = node_used(n) * BOX / (a->base.head->node_bytes - (unsigned)sizeof *n);
    if (n != tree_of(a)->root)
        structure_say(sink, "<path d='M%u %u L%u %u' stroke='#888'/>\n", parent_x + BOX / 2,
                      y - ROW + 24, x + BOX / 2, y);
    structure_say(sink, "<rect x='%u' y='%u' width='%u' height='24' fill='#9bd'/>\n", x, y, full);
    structure_say(sink, "<rect x='%u' y='%u' width='%d' height='24' fill='none' stroke='black'/>\n",
                  x, y, BOX);
    structure_say(sink, "<text x='%u' y='%u' font-size='11' text-anchor='middle'>%u</text>\n",
                  x + BOX / 2, y + 16, n->count);
}

/* The children of these nodes, at most SHOWN, and which parent each has. */
static unsigned below(const struct ps_node **nodes, unsigned count, unsigned *parents)
{
    const struct ps_node *found[SHOWN];
    unsigned children = 0;
    for (unsigned p = 0; p < count; p++)
        for (unsigned i = 0; i <= nodes[p]->count && children < SHOWN; i++) {
            parents[children] = p;
            found[children++] = node_child(nodes[p], i);
        }
    memcpy(nodes, found, children * sizeof *nodes);
    return children;
}

int ps_tree_draw(const struct ps_tree_access *a, struct ps_sink sink)
{
    if (a->base.error)
        return a->base.error;
    const struct ps_node *nodes[SHOWN] = { tree_of(a)->root };
    unsigned parents[SHOWN] = { 0 }, count = 1, y = 30;
    structure_say(sink,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "font-family='sans-serif'>\n",
                  SHOWN * (BOX + GAP) + GAP, tree_of(a)->height * ROW + 30);
    structure_say(
        sink,
        "<text x='6' y='18' font-size='13'>%s, entries in each node, blue: bytes in use</text>\n",
        a->base.type->name);
    for (unsigned level = tree_of(a)->height; level-- > 0; y += ROW) {
        for (unsigned i = 0; i < count; i++)
            draw_node(a, sink, nodes[i], GAP + i * (BOX + GAP), y, GAP + parents[i] * (BOX + GAP));
        if (level > 0)
            count = below(nodes, count, parents);
    }
    structure_say(sink, "</svg>\n");
    return 0;
}
