/* tree.c - the B+-tree: set up and torn down, looked up, changed, loaded. Its nodes:
 * tree_node.c. */
#include "tree_private.h"

#include <errno.h>
#include <string.h>

__thread uint64_t tree_changes;

/* ---- nodes come and go ---- */

static struct ps_node *node_take(struct ps_tree_access *a)
{
    struct ps_node *n = tree_of(a)->spare;
    if (!n)
        return structure_take(&a->base);
    structure_heads(&a->base);
    structure_changes(&a->base, n);
    tree_of(a)->spare = n->first;
    return n;
}

static void node_give(struct ps_tree_access *a, struct ps_node *n)
{
    structure_give(&a->base, n);
}

/* ---- set up, tear down ---- */

static void spare_give(struct ps_tree_access *a)
{
    while (tree_of(a)->spare) {
        struct ps_node *n = tree_of(a)->spare;
        structure_heads(&a->base);
        tree_of(a)->spare = n->first;
        node_give(a, n);
    }
}

/* The root, and as many spare nodes as the initial size asks for. */
static int nodes_begin(struct ps_tree_access *a, size_t initial)
{
    struct ps_tree *tree = tree_of(a);
    struct ps_node *n = tree->root = structure_take(&a->base);
    const size_t node_bytes = a->base.head->node_bytes;
    for (size_t bytes = node_bytes; n && bytes + node_bytes <= initial; bytes += node_bytes) {
        n = structure_take(&a->base);
        if (n) {
            n->first = tree->spare;
            tree->spare = n;
        }
    }
    if (n) {
        node_init(&a->base, tree->root, 0);
        return 0;
    }
    int error = errno;
    spare_give(a);
    if (tree->root)
        node_give(a, tree->root);
    return -error;
}

int ps_tree_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_tree_access a;
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    tree_of(&a)->height = 1;
    tree_changes++;
    return structure_end(&a.base, i, nodes_begin(&a, i->initial));
}

static void subtree_give(struct ps_tree_access *a, struct ps_node *n)
{
    for (unsigned i = 0; n->level > 0 && i <= n->count; i++)
        subtree_give(a, node_child(n, i));
    node_give(a, n);
}

int ps_tree_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_tree_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    subtree_give(&a, tree_of(&a)->root);
    spare_give(&a);
    structure_clear(&a.base);
    tree_changes++;
    return 0;
}

/* ---- the way down ---- */

/* Comes to a node of that level. */
static struct ps_node *path_enter(struct ps_tree_access *a, unsigned level, struct ps_node *n)
{
    return a->path[level].node = structure_at(&a->base, level, n);
}

void tree_descend(struct ps_tree_access *a, struct bytes key, int upper, int to_change)
{
    struct ps_node *n = tree_of(a)->root;
    const int how = (upper ? NODE_UPPER : 0) | (to_change ? NODE_AT_END : 0);
    for (unsigned level = tree_of(a)->height; level-- > 0;) {
        if (level == 0 && to_change)
            node_claim(&a->base, n);
        n = path_enter(a, level, n);
        a->path[level].at = node_search(&a->base, n, key, how);
        if (level > 0)
            n = node_child(n, a->path[level].at);
    }
}

/* Goes down from a level to the first or last slot below it; last: behind it. */
static void edge_below(struct ps_tree_access *a, unsigned level, int last)
{
    for (; level > 0; level--) {
        struct ps_node *n = node_child(a->path[level].node, a->path[level].at);
        n = path_enter(a, level - 1, n);
        a->path[level - 1].at = last ? n->count : 0;
    }
}

void tree_edge(struct ps_tree_access *a, int last)
{
    unsigned top = tree_of(a)->height - 1u;
    const struct ps_node *root = path_enter(a, top, tree_of(a)->root);
    a->path[top].at = last ? root->count : 0;
    edge_below(a, top, last);
}

/* To the first slot of the next leaf, or behind the last of the one before; 0: there is none. */
int tree_step(struct ps_tree_access *a, int back)
{
    for (unsigned level = 1; level < tree_of(a)->height; level++) {
        if (a->path[level].at == (back ? 0 : a->path[level].node->count))
            continue;
        a->path[level].at += back ? -1u : 1u;
        edge_below(a, level, back);
        return 1;
    }
    return 0;
}

/* The first slot of this key: 1 if it is there. */
static int key_find(struct ps_tree_access *a, struct bytes key, int to_change)
{
    int upper = (a->base.head->flags & PS_DUPLICATES) == 0;
    tree_descend(a, key, upper, to_change);
    if (upper)
        return a->path[0].at > 0 &&
               node_compare(&a->base, key, a->path[0].node, --a->path[0].at) == 0;
    if (a->path[0].at == a->path[0].node->count && !tree_step(a, 0))
        return 0;
    if (node_compare(&a->base, key, a->path[0].node, a->path[0].at) != 0)
        return 0;
    if (to_change)              /* it may be the next leaf */
        structure_changes(&a->base, a->path[0].node);
    return 1;
}

void *ps_tree_find(struct ps_tree_access *a, const void *key, enum ps_mode mode)
{
    int error = structure_refuses(&a->base, mode);
    if (error == 0 && key_find(a, node_probe(&a->base, key), mode == PS_CHANGE))
        return node_record(&a->base, a->path[0].node, a->path[0].at);
    return structure_none(error ? error : -ENOENT);
}

size_t ps_tree_bytes(const struct ps_tree_access *a)
{
    return a->base.type->variable ? node_record_bytes(&a->base, a->path[0].node, a->path[0].at)
                                  : a->base.type->record_bytes;
}

/* ---- insertion ---- */

/* separator returns the string that parts two leaves: the shortest string that is not before the
 * right one's first key, or that key. */
static struct bytes separator(struct ps_tree_access *a, struct bytes last, struct bytes first)
{
    if (!a->base.type->key_bytes && !a->base.descending) {
        unsigned common = node_common(last, first);
        if (common < first.length)
            first.length = common + 1;
    }
    return first;
}

/* Where to cut a node so that each part gets half of the bytes. */
static unsigned middle(const struct ps_node *n, const struct ps_tree_access *a)
{
    if (a->base.type->key_bytes && !a->base.type->variable)
        return n->count / 2u;
    unsigned sum = 0, half = node_used(n) / 2, i = 0;
    while (i + 1 < n->count && sum < half)
        sum += 2 + node_entry_bytes(&a->base, n->level, node_suffix(&a->base, n, i).length,
                                    node_record_bytes(&a->base, n, i)), i++;
    return i;
}

static int at_the_end(const struct ps_tree_access *a)
{
    for (unsigned level = 0; level < tree_of(a)->height; level++)
        if (a->path[level].at != a->path[level].node->count)
            return 0;
    return 1;
}

/* Bytes of a record as its node has to know them: 0 if all are of one size. */
static unsigned varying(const struct ps_tree_access *a, struct bytes record)
{
    return a->base.type->variable ? record.length : 0;
}

static void record_put(struct ps_tree_access *a, struct ps_node *leaf, unsigned i, struct bytes key,
                       struct bytes record)
{
    memcpy(node_place(&a->base, leaf, i, key, varying(a, record)), record.at, record.length);
}

/* The leaf's upper part goes to `right`, the new entry to one of the two; its separator is put into
 * copy. */
static struct bytes leaf_split(struct ps_tree_access *a, struct ps_node *right, struct bytes key,
                               struct bytes record, int end, uint8_t *copy)
{
    _Alignas(16) uint8_t old_bytes[PS_NODE_MAX];
    _Alignas(16) uint8_t last[KEY_COPY];
    struct ps_node *left = a->path[0].node, *old = (struct ps_node *)(void *)old_bytes;
    unsigned i = a->path[0].at, half = middle(left, a);
    memcpy(old, left, a->base.head->node_bytes);
    if (end || node_common(key, node_key(&a->base, left, 0, last)) < left->prefix)
        half = i; /* the new entry gets a leaf of its own */
    int to_right = i > half || (i == half && i > 0);
    node_init(&a->base, left, 0);
    node_init(&a->base, right, 0);
    node_fill(&a->base, left, old, 0, half);
    node_fill(&a->base, right, old, half, old->count);
    struct ps_node *to = to_right ? right : left;
    record_put(a, to, to_right ? i - half : i, key, record);
    struct bytes first = node_key(&a->base, right, 0, copy);
    return separator(a, node_key(&a->base, left, left->count - 1u, last), first);
}

/* The same of a branch, which gets a separator and its child; the one in the middle moves up. */
static struct bytes branch_split(struct ps_tree_access *a, unsigned level, struct ps_node *right,
                                 struct bytes key, struct ps_node *child, int end, uint8_t *copy)
{
    _Alignas(16) uint8_t old_bytes[PS_NODE_MAX];
    struct ps_node *left = a->path[level].node, *old = (struct ps_node *)(void *)old_bytes;
    unsigned i = a->path[level].at, half = end ? left->count - 1u : middle(left, a);
    structure_changes(&a->base, left);
    memcpy(old, left, a->base.head->node_bytes);
    node_init(&a->base, left, level);
    node_init(&a->base, right, level);
    left->first = old->first;
    node_append(&a->base, left, old, 0, half);
    node_append(&a->base, right, old, half + (i != half), old->count);
    struct bytes up = key;
    if (i != half)
        up = node_key(&a->base, old, half, copy);
    right->first = i != half ? node_child(old, half + 1) : child;
    if (i < half)
        *(struct ps_node **)node_place(&a->base, left, i, key, 0) = child;
    if (i > half)
        *(struct ps_node **)node_place(&a->base, right, i - half - 1, key, 0) = child;
    return up;
}

/* Nodes for all splits of the path, before one begins: how many, or -errno and none is taken. */
static int splits_prepare(struct ps_tree_access *a, struct ps_node **nodes)
{
    static const uint8_t longest[PS_KEY_MAX];
    unsigned count = 1, taken = 0, level = 1;
    while (level < tree_of(a)->height &&
           !node_has_room(&a->base, a->path[level].node,
                          (struct bytes){ longest, node_key_max(&a->base) }, 0))
        level++, count++;
    count += level == tree_of(a)->height;
    if (level >= PS_TREE_LEVELS)
        return -EFBIG;
    while (taken < count && (nodes[taken] = node_take(a)))
        taken++;
    if (taken == count)
        return (int)count;
    int error = errno;
    while (taken > 0)
        node_give(a, nodes[--taken]);
    return -error;
}

/* The root was split: a new one above both. */
static void root_grow(struct ps_tree_access *a, struct ps_node *root, struct bytes key,
                      struct ps_node *right)
{
    structure_heads(&a->base);
    node_init(&a->base, root, tree_of(a)->height);
    root->first = tree_of(a)->root;
    *(struct ps_node **)node_place(&a->base, root, 0, key, 0) = right;
    tree_of(a)->root = root;
    tree_of(a)->height++;
}

static void child_place(struct ps_tree_access *a, unsigned level, struct bytes key,
                        struct ps_node *child)
{
    struct ps_node *n = a->path[level].node;
    structure_changes(&a->base, n);
    *(struct ps_node **)node_place(&a->base, n, a->path[level].at, key, 0) = child;
}

/* Tells the levels above of a new right neighbour. The nodes that are left over then go back. */
static void split_rise(struct ps_tree_access *a, struct bytes key, struct ps_node *right,
                       struct ps_node **nodes, int count, int end, uint8_t copies[2][KEY_COPY])
{
    unsigned level = 1;
    int used = 1;
    for (; level < tree_of(a)->height && !node_has_room(&a->base, a->path[level].node, key, 0);
         level++) {
        struct ps_node *added = nodes[used++];
        key = branch_split(a, level, added, key, right, end, copies[key.at == copies[0]]);
        right = added;
    }
    if (level == tree_of(a)->height)
        root_grow(a, nodes[used++], key, right);
    else
        child_place(a, level, key, right);
    while (used < count)
        node_give(a, nodes[used++]);
}

/* The leaf of the path splits and takes the record in; `instead`: in the place of the one there. */
static int leaf_overflow(struct ps_tree_access *a, struct bytes key, struct bytes record,
                         int instead)
{
    struct ps_node *nodes[PS_TREE_LEVELS + 1], *leaf = a->path[0].node;
    _Alignas(16) uint8_t copies[2][KEY_COPY];
    int end = at_the_end(a), count = splits_prepare(a, nodes);
    if (count < 0)
        return count;
    if (instead)
        node_erase(&a->base, leaf, a->path[0].at);
    key = leaf_split(a, nodes[0], key, record, end, copies[0]);
    split_rise(a, key, nodes[0], nodes, count, end, copies);
    tree_changes++;
    return 0;
}

/* Are all entries of one size? */
static int is_fixed(const struct ps_tree_access *a)
{
    return a->base.shape[0].entry_bytes && !a->base.type->variable;
}

/* Inserts at the path's place. */
static inline int put_here(struct ps_tree_access *a, struct bytes key, struct bytes record)
{
    struct ps_node *leaf = a->path[0].node;
    const unsigned at = a->path[0].at;
    const int fixed = is_fixed(a);
    int done = fixed && node_insert_fixed(&a->base, leaf, at, key.at, record.at);
    if (!done && (fixed || !node_has_room(&a->base, leaf, key, varying(a, record))))
        return leaf_overflow(a, key, record, 0);
    if (!done)
        record_put(a, leaf, at, key, record);
    tree_changes++;
    return 0;
}

/* ---- removal ---- */

/* The child leaves its parent, with the key before it, or the one behind it if it is the first. */
static void child_erase(struct ps_tree_access *a, struct ps_node *parent, unsigned i)
{
    structure_changes(&a->base, parent);
    if (i == 0 && parent->count > 0)
        parent->first = node_child(parent, 1);
    node_erase(&a->base, parent, i == 0 ? 0 : i - 1);
}

/* Makes one of children i and i + 1 if that is worth it (one is small; `both`: both are) and
 * possible. What meets at the seam of two branches may be small, too. */
static int children_join(struct ps_tree_access *a, struct ps_node *parent, unsigned i, int both)
{
    if (i >= parent->count)
        return 0;
    _Alignas(16) uint8_t copy[KEY_COPY];
    struct ps_node *left = node_child(parent, i), *right = node_child(parent, i + 1);
    struct bytes between = node_key(&a->base, parent, i, copy);
    int small = node_is_small(&a->base, left) + node_is_small(&a->base, right);
    if (small < 1 + both || !node_join_fits(&a->base, left, right, between))
        return 0;
    unsigned seam = left->count;
    structure_changes(&a->base, left);
    node_join(&a->base, left, right, between);
    child_erase(a, parent, i + 1);
    node_give(a, (struct ps_node *)right);
    if (left->level > 0)
        children_join(a, left, seam, 1);
    return 1;
}

/* A leaf without records, and a branch without children, are taken out; a small node joins a
 * neighbour. */
static void path_tidy(struct ps_tree_access *a)
{
    int empty = a->path[0].node->count == 0;
    for (unsigned level = 1; level < tree_of(a)->height; level++) {
        struct ps_node *parent = a->path[level].node;
        unsigned i = a->path[level].at;
        if (empty) {
            node_give(a, a->path[level - 1].node);
            empty = parent->count == 0;
            if (empty)
                continue;
            child_erase(a, parent, i);
            if (i > 0)
                children_join(a, parent, i - 1, 1);
        } else if (!node_is_small(&a->base, a->path[level - 1].node)) {
            break;
        } else if (i > 0 && children_join(a, parent, i - 1, 0)) {
            children_join(a, parent, i - 1, 1);
        } else {
            children_join(a, parent, i, 0);
        }
    }
    if (empty && tree_of(a)->height > 1) { /* no record is left: the old root becomes a leaf */
        structure_heads(&a->base);
        structure_changes(&a->base, tree_of(a)->root);
        node_init(&a->base, tree_of(a)->root, 0);
        tree_of(a)->height = 1;
    }
    while (tree_of(a)->root->level > 0 && tree_of(a)->root->count == 0) {
        struct ps_node *old = tree_of(a)->root;
        structure_heads(&a->base);
        tree_of(a)->root = old->first;
        tree_of(a)->height--;
        node_give(a, old);
    }
}

/* Removes the record at the path's place. */
void tree_erase_here(struct ps_tree_access *a)
{
    node_erase(&a->base, a->path[0].node, a->path[0].at);
    if (a->path[0].node->count == 0 || node_is_small(&a->base, a->path[0].node))
        path_tidy(a);
    tree_changes++;
}

int ps_tree_remove(struct ps_tree_access *a, const void *key)
{
    struct bytes probe = node_probe(&a->base, key);
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    if (!key_find(a, probe, 1))
        return -ENOENT;
    tree_erase_here(a);
    return 0;
}

/* ---- records are put ---- */

/* A quarter of a node holds the longest key with the longest record. */
static unsigned record_max(const struct ps_tree_access *a)
{
    return a->base.type->variable
               ? PS_RECORD_MAX_(a->base.head->node_bytes, a->base.type->key_bytes)
               : a->base.type->record_bytes;
}

static int too_long(const struct ps_tree_access *a, struct bytes key, struct bytes record)
{
    return key.length > node_key_max(&a->base) || record.length > record_max(a);
}

static inline int change_refused(const struct ps_tree_access *a, struct bytes key,
                                 struct bytes record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    return error ? error : !is_fixed(a) && too_long(a, key, record) ? -EOVERFLOW : 0;
}

/* What lies at the path's place becomes another record, of another size perhaps. */
static int replace_here(struct ps_tree_access *a, struct bytes key, struct bytes record)
{
    struct ps_node *leaf = a->path[0].node;
    unsigned i = a->path[0].at;
    if (ps_tree_bytes(a) == record.length) {
        memcpy(node_record(&a->base, leaf, i), record.at, record.length);
        return 0;
    }
    if (!node_has_room_for(&a->base, leaf, i, record.length))
        return leaf_overflow(a, key, record, 1);
    memcpy(node_resize(&a->base, leaf, i, key, record.length), record.at, record.length);
    if (node_is_small(&a->base, leaf))
        path_tidy(a);
    tree_changes++;
    return 0;
}

int ps_tree_insert_bytes(struct ps_tree_access *a, const void *key, const void *bytes,
                         size_t length, int replace)
{
    struct bytes probe = node_probe(&a->base, key);
    struct bytes record = { bytes, length < PS_NODE_MAX ? (unsigned)length : PS_NODE_MAX };
    int error = change_refused(a, probe, record),
        duplicates = !error && (a->base.head->flags & PS_DUPLICATES);
    if (error)
        return error;
    if (replace && key_find(a, probe, 1))
        return replace_here(a, probe, record);
    tree_descend(a, probe, 1, 1);
    unsigned i = a->path[0].at;
    if (!duplicates && i > 0 && node_compare(&a->base, probe, a->path[0].node, i - 1) == 0)
        return -EEXIST;
    return put_here(a, probe, record);
}

int ps_tree_insert(struct ps_tree_access *a, const void *key, const void *record, int replace)
{
    return ps_tree_insert_bytes(a, key, record, a->base.type->record_bytes, replace);
}

/* ---- bulk load ---- */

void ps_tree_load(struct ps_tree_load *l, unsigned fill)
{
    struct ps_tree_access *a = &l->access;
    if (a->base.error == 0 && (fill < 50 || fill > 100))
        a->base.error = -EINVAL;
    if (a->base.error == 0 && (tree_of(a)->height > 1 || tree_of(a)->root->count > 0))
        a->base.error = -ENOTEMPTY;
    a->base.fill = fill;
}

int ps_tree_add_bytes(struct ps_tree_load *l, const void *key, const void *bytes, size_t length)
{
    struct ps_tree_access *a = &l->access;
    struct bytes probe = node_probe(&a->base, key);
    struct bytes record = { bytes, length < PS_NODE_MAX ? (unsigned)length : PS_NODE_MAX };
    int error = change_refused(a, probe, record);
    if (error)
        return error;
    tree_edge(a, 1);
    struct ps_node *leaf = a->path[0].node;
    structure_changes(&a->base, leaf);
    int order = leaf->count ? node_compare(&a->base, probe, leaf, leaf->count - 1u) : 1;
    if (order < 0 || (order == 0 && !(a->base.head->flags & PS_DUPLICATES)))
        return -EINVAL;
    return put_here(a, probe, record);
}

int ps_tree_add(struct ps_tree_load *l, const void *key, const void *record)
{
    return ps_tree_add_bytes(l, key, record, l->access.base.type->record_bytes);
}
