/* spread_kinds.c - what the B+-tree and the R*-tree say of their nodes, so that they can be spread
 * over parts and read in parallel. */
#include "node.h"
#include "rtree_private.h"
#include "spread_private.h"

#include <string.h>

int spread_put(struct spread_batch *b, const void *key, size_t key_bytes, const void *record,
               size_t record_bytes)
{
    const size_t key_room = spread_padded(key_bytes);
    const size_t bytes = sizeof(struct spread_found) + key_room + spread_padded(record_bytes);
    if ((size_t)(b->end - b->to) < bytes)
        return 0;
    struct spread_found *found = (struct spread_found *)(void *)b->to;
    *found = (struct spread_found){(uint32_t)bytes, (uint16_t)key_bytes, (uint16_t)record_bytes};
    memcpy(found + 1, key, key_bytes);
    memcpy((char *)(found + 1) + key_room, record, record_bytes);
    b->to += bytes;
    return 1;
}

/* ---- the B+-tree ---- */

static unsigned tree_level(const void *node) { return ((const struct ps_node *)node)->level; }

static unsigned tree_children(const struct ps_access *a, const void *branch)
{
    (void)a;
    return ((const struct ps_node *)branch)->count + 1u;
}

static void **tree_child(const struct ps_access *a, void *branch, unsigned i)
{
    struct ps_node *n = branch;
    return i == 0 ? (void **)&n->first : node_record(a, n, i - 1);
}

static void **tree_root(struct ps_head *head)
{
    return (void **)&((struct ps_tree *)(void *)head)->root;
}

static void tree_bare(struct ps_head *head)
{
    ((struct ps_tree *)(void *)head)->spare = NULL;
}

static struct bytes lower(const struct spread_query *q)
{
    return (struct bytes){q->from, (unsigned)q->from_bytes};
}
static struct bytes upper(const struct spread_query *q)
{
    return (struct bytes){q->to, (unsigned)q->to_bytes};
}

static unsigned tree_wanted(const struct ps_access *a, const struct spread_query *q,
                            const void *branch, unsigned i)
{
    const struct ps_node *n = branch;
    if (i == 0 && q->from_bytes >= 0)
        i = node_search(a, n, lower(q), 0);
    if (i > n->count || (i > 0 && q->to_bytes >= 0 && node_compare(a, upper(q), n, i - 1) < 0))
        return (unsigned)SPREAD_END;
    return i;
}

static unsigned tree_extract(const struct ps_access *a, const struct spread_query *q,
                             const void *leaf, unsigned i, struct spread_batch *to)
{
    const struct ps_node *n = leaf;
    _Alignas(16) uint8_t copy[KEY_COPY];
    if (i == 0 && q->from_bytes >= 0)
        i = node_search(a, n, lower(q), 0);
    for (; i < n->count; i++) {
        if (q->to_bytes >= 0 && node_compare(a, upper(q), n, i) < 0)
            break;
        struct bytes key = node_key(a, n, i, copy);         /* a string with its NUL */
        unsigned bytes = a->type->variable ? node_record_bytes(a, n, i) : a->type->record_bytes;
        if (!spread_put(to, key.at, key.length + !a->type->key_bytes, node_record(a, n, i), bytes))
            return i;
    }
    return (unsigned)SPREAD_END;
}

const struct ps_spread_kind ps_spread_tree = {
    tree_level, tree_children, tree_child, tree_root, tree_bare, tree_wanted, tree_extract};

/* ---- the R*-tree ---- */

static unsigned boxes_level(const void *node)
{
    return ((const struct ps_rtree_node *)node)->level;
}

static unsigned boxes_children(const struct ps_access *a, const void *branch)
{
    (void)a;
    return ((const struct ps_rtree_node *)branch)->count;
}

static const struct ps_rtree_access *boxes_of(const struct ps_access *a)
{
    return (const struct ps_rtree_access *)(const void *)a;
}

static void **boxes_child(const struct ps_access *a, void *branch, unsigned i)
{
    return entry_record(boxes_of(a), branch, i);
}

static void **boxes_root(struct ps_head *head)
{
    return (void **)&((struct ps_rtree *)(void *)head)->root;
}

static unsigned boxes_wanted(const struct ps_access *a, const struct spread_query *q,
                             const void *node, unsigned i)
{
    const struct ps_rtree_node *n = node;
    _Alignas(16) double want[2 * PS_DIMENSIONS_MAX];
    memcpy(want, q->from, sizeof want);
    while (i < n->count &&
           !rtree_wanted(boxes_of(a), q->from_bytes < 0 ? NULL : want, (enum ps_query)q->how,
                         entry_box(boxes_of(a), n, i), n->level == 0))
        i++;
    return i < n->count ? i : (unsigned)SPREAD_END;
}

static unsigned boxes_extract(const struct ps_access *a, const struct spread_query *q,
                              const void *leaf, unsigned i, struct spread_batch *to)
{
    const struct ps_rtree_node *n = leaf;
    while ((i = boxes_wanted(a, q, n, i)) != (unsigned)SPREAD_END) {
        if (!spread_put(to, entry_box(boxes_of(a), n, i), a->type->key_bytes,
                        entry_record(boxes_of(a), n, i), a->type->record_bytes))
            return i;
        i++;
    }
    return i;
}

const struct ps_spread_kind ps_spread_rtree = {
    boxes_level, boxes_children, boxes_child, boxes_root, NULL, boxes_wanted, boxes_extract};
