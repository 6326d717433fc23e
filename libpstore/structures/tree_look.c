/* tree_look.c - the B+-tree looked at: every invariant, statistics, a picture. */
#include "tree_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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

/* Entries lie between the slots and the prefix, none over another, and their bytes are what the
 * header says. */
static int check_room(struct walk *w, const struct ps_node *n)
{
    uint8_t taken[PS_NODE_MAX / 2] = {0};
    unsigned sum = (n->prefix + w->a->shape[0].align - 1) & ~(w->a->shape[0].align - 1);
    unsigned end = w->a->tree->node_bytes - sum;
    if (sum > w->a->tree->node_bytes || n->heap > end || sizeof *n + n->count * 2u > n->heap)
        return wrong(w, "slots, entries and prefix of a node overlap");
    for (unsigned i = 0; i < n->count; i++) {
        unsigned at = n->slot[i], align = w->a->shape[n->level > 0].align;
        if (at < n->heap || at >= end || at % align != 0)
            return wrong(w, "a slot leads outside the entries of its node");
        unsigned bytes = node_entry_bytes(w->a, n->level, node_suffix(w->a, n, i).length);
        if (bytes > end - at || memchr(taken + at / 2, 1, bytes / 2))
            return wrong(w, "two entries of a node overlap");
        memset(taken + at / 2, 1, bytes / 2);
        sum += bytes;
    }
    return sum == n->live ? 0 : wrong(w, "a node's bytes in use are not the sum of its entries");
}

/* low <= key < high, keys ascend; equal ones only among duplicates. */
static int check_order(struct walk *w, const struct ps_node *n, struct bytes low, struct bytes high)
{
    _Alignas(16) uint8_t key[KEY_COPY];
    int equals = (w->a->tree->flags & PS_DUPLICATES) != 0;
    for (unsigned i = 0; i < n->count; i++) {
        if (node_suffix(w->a, n, i).length + n->prefix > tree_key_max(w->a))
            return wrong(w, "a key is too long");
        struct bytes k = node_key(w->a, n, i, key);
        if ((low.at && node_order(w->a, low, k) > 0) ||
            (high.at && node_order(w->a, k, high) >= equals))
            return wrong(w, "a key lies outside what its parent says");
        if (i + 1u < n->count && node_compare(w->a, k, n, i + 1) >= equals)
            return wrong(w, "the keys of a node are not in order");
    }
    return 0;
}

static int check_node(struct walk *w, const struct ps_node *n, unsigned level, struct bytes low,
                      struct bytes high);

static int check_children(struct walk *w, const struct ps_node *n, struct bytes low,
                          struct bytes high)
{
    _Alignas(16) uint8_t copy[2][KEY_COPY];
    for (unsigned i = 0; i <= n->count; i++) {
        struct bytes end = i < n->count ? node_key(w->a, n, i, copy[i % 2]) : high;
        int error = check_node(w, node_child(n, i), n->level - 1u, low, end);
        if (error)
            return error;
        low = end;
        if (i == 0 || (n->level == 1 && !w->a->type->key_bytes))
            continue;  /* string leaves shrink and grow with their prefix */
        const struct ps_node *left = node_child(n, i - 1), *right = node_child(n, i);
        _Alignas(16) uint8_t between[KEY_COPY];
        if (node_is_small(w->a, left) && node_is_small(w->a, right) &&
            node_join_fits(w->a, left, right, node_key(w->a, n, i - 1, between)))
            return wrong(w, "two small neighbours would fit one node");
    }
    return 0;
}

static int check_node(struct walk *w, const struct ps_node *n, unsigned level, struct bytes low,
                      struct bytes high)
{
    if (!n || (uintptr_t)n % 16 != 0 || n->level != level)
        return wrong(w, "a node is not of the level below its parent");
    if (level == 0 && n->count == 0 && w->a->tree->height > 1)
        return wrong(w, "a leaf is empty");
    if (level > 0 && n->prefix > 0)
        return wrong(w, "a branch has a prefix");
    int error = check_room(w, n);
    if (error == 0)
        error = check_order(w, n, low, high);
    if (error)
        return error;
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
    struct ps_tree_stats own = {0};
    struct walk w = {.a = a, .stats = &own, .why = "the tree cannot be opened"};
    int error = a->error;
    if (error == 0 && (a->tree->height == 0 || a->tree->height > PS_TREE_LEVELS ||
                       a->tree->node_bytes != a->type->node_bytes))
        error = wrong(&w, "the head is spoilt");
    if (error == 0)
        error = check_node(&w, a->tree->root, a->tree->height - 1u, (struct bytes){ 0 },
                           (struct bytes){ 0 });
    for (const struct ps_node *n = error ? NULL : a->tree->spare; n; n = n->first)
        own.spare++;
    own.height = error ? 0 : a->tree->height;
    if (own.leaves)
        own.fill = (uint32_t)(w.leaf_bytes * 100 / own.leaves /
                              (a->tree->node_bytes - sizeof(struct ps_node)));
    if (stats)
        *stats = own;
    if (why)
        *why = error ? w.why : NULL;
    return error;
}

/* ---- a picture ---- */

enum { SHOWN = 64, BOX = 40, GAP = 6, ROW = 70 };

__attribute__((format(printf, 2, 3))) static void say(struct ps_sink sink, const char *format, ...)
{
    char text[256];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    sink.write(sink.arg, text);
}

static void draw_node(const struct ps_tree_access *a, struct ps_sink sink, const struct ps_node *n,
                      unsigned x, unsigned y, unsigned parent_x)
{
    unsigned full = node_used(n) * BOX / (a->tree->node_bytes - (unsigned)sizeof *n);
    if (n != a->tree->root)
        say(sink, "<path d='M%u %u L%u %u' stroke='#888'/>\n", parent_x + BOX / 2, y - ROW + 24,
            x + BOX / 2, y);
    say(sink, "<rect x='%u' y='%u' width='%u' height='24' fill='#9bd'/>\n", x, y, full);
    say(sink, "<rect x='%u' y='%u' width='%d' height='24' fill='none' stroke='black'/>\n", x, y,
        BOX);
    say(sink, "<text x='%u' y='%u' font-size='11' text-anchor='middle'>%u</text>\n", x + BOX / 2,
        y + 16, n->count);
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
    if (a->error)
        return a->error;
    const struct ps_node *nodes[SHOWN] = {a->tree->root};
    unsigned parents[SHOWN] = {0}, count = 1, y = 30;
    say(sink,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
        "font-family='sans-serif'>\n",
        SHOWN * (BOX + GAP) + GAP, a->tree->height * ROW + 30);
    say(sink,
        "<text x='6' y='18' font-size='13'>%s, entries in each node, blue: bytes in use</text>\n",
        a->type->name);
    for (unsigned level = a->tree->height; level-- > 0; y += ROW) {
        for (unsigned i = 0; i < count; i++)
            draw_node(a, sink, nodes[i], GAP + i * (BOX + GAP), y, GAP + parents[i] * (BOX + GAP));
        if (level > 0)
            count = below(nodes, count, parents);
    }
    say(sink, "</svg>\n");
    return 0;
}
