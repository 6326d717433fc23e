/* tree.c - the B+-tree: set up and torn down, looked up, changed, loaded. Its nodes:
 * tree_node.c. */
#include "tree_private.h"

#include <errno.h>
#include <string.h>

__thread uint64_t tree_changes;

uint64_t ps_fingerprint(uint64_t before, const void *bytes, size_t length)
{
    uint64_t hash = before ? before : 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t fingerprint(const struct ps_tree_instance *i, const struct ps_tree_type *type)
{
    const char *order = i->compare_name ? i->compare_name : type->compare_name;
    uint32_t sizes[] = { 1, type->key_bytes, type->record_bytes, type->node_bytes,
                         (uint32_t)i->flags };
    uint64_t hash = ps_fingerprint(0, type->name, strlen(type->name) + 1);
    return ps_fingerprint(ps_fingerprint(hash, order, strlen(order) + 1), sizes, sizeof sizes);
}

unsigned tree_key_max(const struct ps_tree_access *a)
{
    unsigned strings = a->tree->node_bytes / 16;
    return a->type->key_bytes ? a->type->key_bytes : strings < PS_KEY_MAX ? strings : PS_KEY_MAX;
}

struct bytes tree_probe(const struct ps_tree_access *a, const void *key)
{
    return (struct bytes){ key, a->type->key_bytes ? a->type->key_bytes
                                                   : (unsigned)strnlen(key, PS_NODE_MAX) };
}

/* ---- nodes come and go ---- */

static struct ps_node *node_take(struct ps_tree_access *a, const void *near)
{
    struct ps_node *n = a->tree->spare;
    if (!n)
        return a->memory.take(a->memory.arg, a->tree->node_bytes, near);
    a->tree->spare = n->first;
    return n;
}

static void node_give(struct ps_tree_access *a, struct ps_node *n)
{
    a->memory.give(a->memory.arg, n);
}

/* ---- set up, tear down, open ---- */

static void shapes_make(struct ps_tree_access *a)
{
    const struct ps_tree_type *t = a->type;
    unsigned key_align = t->key_bytes ? t->key_align : 2;
    for (int branch = 0; branch < 2; branch++) {
        unsigned payload = branch ? sizeof(void *) : t->record_bytes;
        unsigned align = branch ? _Alignof(void *) : t->record_align;
        align = align > key_align ? align : key_align;
        a->shape[branch].align = align;
        a->shape[branch].key_at = (payload + key_align - 1) & ~(key_align - 1);
        a->shape[branch].entry_bytes =
            t->key_bytes ? (a->shape[branch].key_at + t->key_bytes + align - 1) & ~(align - 1) : 0;
    }
}

static void access_make(struct ps_tree_access *a, const struct ps_tree_instance *i,
                        const struct ps_tree_type *type, enum ps_mode mode)
{
    a->tree = i->head;
    a->type = type;
    a->memory = i->memory;
    a->compare = i->compare ? i->compare : type->compare;
    a->error = i->head ? 0 : -EINVAL;
    a->mode = mode;
    a->fill = 100;
    a->descending = (i->flags & PS_DESCENDING) != 0;
    shapes_make(a);
}

void ps_tree_open(struct ps_tree_access *a, const struct ps_tree_instance *i,
                  const struct ps_tree_type *type, enum ps_mode mode)
{
    access_make(a, i, type, mode);
    if (a->error == 0 && (i->head->fingerprint == 0 || !i->head->root))
        a->error = -ENOENT;
    else if (a->error == 0 && i->head->fingerprint != fingerprint(i, type))
        a->error = -EPROTOTYPE;
}

static int instance_bad(const struct ps_tree_instance *i, const struct ps_tree_type *type)
{
    if (!i->head || (i->name && strlen(i->name) >= sizeof i->head->name) ||
        (i->flags & ~(PS_DESCENDING | PS_DUPLICATES)) || (i->compare && !i->compare_name) ||
        type->node_bytes < PS_NODE_MIN || type->node_bytes > PS_NODE_MAX ||
        type->node_bytes % 16 != 0)
        return -EINVAL;
    return i->head->fingerprint != 0 ? -EEXIST : 0;
}

static void spare_give(struct ps_tree_access *a)
{
    while (a->tree->spare) {
        struct ps_node *n = a->tree->spare;
        a->tree->spare = n->first;
        node_give(a, n);
    }
}

/* The root, and as many spare nodes as the initial size asks for. */
static int nodes_begin(struct ps_tree_access *a, size_t initial)
{
    struct ps_node *root = a->memory.take(a->memory.arg, a->tree->node_bytes, a->tree), *n = root;
    const size_t node_bytes = a->tree->node_bytes;
    for (size_t bytes = node_bytes; n && bytes + node_bytes <= initial; bytes += node_bytes) {
        n = a->memory.take(a->memory.arg, a->tree->node_bytes, n);
        if (n) {
            n->first = a->tree->spare;
            a->tree->spare = n;
        }
    }
    if (n) {
        node_init(a, root, 0);
        a->tree->root = root;
        return 0;
    }
    int error = errno;
    spare_give(a);
    if (root)
        node_give(a, root);
    return -error;
}

int ps_tree_set_up(const struct ps_tree_instance *i, const struct ps_tree_type *type)
{
    struct ps_tree_access a;
    int error = instance_bad(i, type);
    if (error)
        return error;
    access_make(&a, i, type, PS_CHANGE);
    *i->head = (struct ps_tree){.node_bytes = type->node_bytes, .flags = (uint16_t)i->flags};
    error = nodes_begin(&a, i->initial);
    if (error) {
        *i->head = (struct ps_tree){0};
        return error;
    }
    if (i->name)
        strcpy(i->head->name, i->name);
    i->head->height = 1;
    i->head->fingerprint = fingerprint(i, type);
    tree_changes++;
    return 0;
}

static void subtree_give(struct ps_tree_access *a, struct ps_node *n)
{
    for (unsigned i = 0; n->level > 0 && i <= n->count; i++)
        subtree_give(a, node_child(n, i));
    node_give(a, n);
}

int ps_tree_tear_down(const struct ps_tree_instance *i, const struct ps_tree_type *type)
{
    struct ps_tree_access a;
    ps_tree_open(&a, i, type, PS_CHANGE);
    if (a.error)
        return a.error;
    subtree_give(&a, a.tree->root);
    spare_give(&a);
    *a.tree = (struct ps_tree){0};
    tree_changes++;
    return 0;
}

/* ---- the way down ---- */

/* Writes to a leaf what it holds: a change of it comes, and its right is taken at once, before two
 * look at it. */
static void leaf_claim(struct ps_node *n)
{
    *(volatile uint16_t *)&n->level = 0;
}

void tree_descend(struct ps_tree_access *a, struct bytes key, int upper, int to_change)
{
    struct ps_node *n = a->tree->root;
    for (unsigned level = a->tree->height; level-- > 0;) {
        if (level == 0 && to_change)
            leaf_claim(n);
        a->path[level].node = n;
        a->path[level].at = node_search(a, n, key, upper);
        if (level > 0)
            n = node_child(n, a->path[level].at);
    }
}

/* Goes down from a level to the first or last slot below it; last: behind it. */
static void edge_below(struct ps_tree_access *a, unsigned level, int last)
{
    for (; level > 0; level--) {
        struct ps_node *n = node_child(a->path[level].node, a->path[level].at);
        a->path[level - 1].node = n;
        a->path[level - 1].at = last ? n->count : 0;
    }
}

void tree_edge(struct ps_tree_access *a, int last)
{
    unsigned top = a->tree->height - 1u;
    a->path[top].node = a->tree->root;
    a->path[top].at = last ? a->tree->root->count : 0;
    edge_below(a, top, last);
}

/* To the first slot of the next leaf, or behind the last of the one before; 0: there is none. */
int tree_step(struct ps_tree_access *a, int back)
{
    for (unsigned level = 1; level < a->tree->height; level++) {
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
    int upper = (a->tree->flags & PS_DUPLICATES) == 0;
    tree_descend(a, key, upper, to_change);
    if (upper)
        return a->path[0].at > 0 && node_compare(a, key, a->path[0].node, --a->path[0].at) == 0;
    if (a->path[0].at == a->path[0].node->count && !tree_step(a, 0))
        return 0;
    return node_compare(a, key, a->path[0].node, a->path[0].at) == 0;
}

void *ps_tree_find(struct ps_tree_access *a, const void *key, enum ps_mode mode)
{
    int error = a->error ? a->error : (int)mode > a->mode ? -EACCES : 0;
    if (error == 0 && key_find(a, tree_probe(a, key), mode == PS_CHANGE))
        return node_payload(a->path[0].node, a->path[0].at);
    errno = error ? -error : ENOENT;
    return NULL;
}

/* ---- insertion ---- */

/* What parts two leaves: the shortest string that is not before the right one's first key, or that
 * key. */
static struct bytes separator(struct ps_tree_access *a, struct bytes last, struct bytes first)
{
    if (!a->type->key_bytes && !a->descending) {
        unsigned common = node_common(last, first);
        if (common < first.length)
            first.length = common + 1;
    }
    return first;
}

/* Where to cut a node so that each part gets half of the bytes. */
static unsigned middle(const struct ps_node *n, const struct ps_tree_access *a)
{
    if (a->type->key_bytes)
        return n->count / 2u;
    unsigned sum = 0, half = node_used(n) / 2, i = 0;
    while (i + 1 < n->count && sum < half)
        sum += 2 + node_entry_bytes(a, n->level, node_suffix(a, n, i++).length);
    return i;
}

static int at_the_end(const struct ps_tree_access *a)
{
    for (unsigned level = 0; level < a->tree->height; level++)
        if (a->path[level].at != a->path[level].node->count)
            return 0;
    return 1;
}

/* The leaf's upper part goes to `right`, the new entry to one of the two; its separator is put into
 * copy. */
static struct bytes leaf_split(struct ps_tree_access *a, struct ps_node *right, struct bytes key,
                               const void *record, int end, uint8_t *copy)
{
    _Alignas(16) uint8_t old_bytes[PS_NODE_MAX];
    _Alignas(16) uint8_t last[KEY_COPY];
    struct ps_node *left = a->path[0].node, *old = (struct ps_node *)(void *)old_bytes;
    unsigned i = a->path[0].at, half = middle(left, a);
    memcpy(old, left, a->tree->node_bytes);
    if (end || node_common(key, node_key(a, left, 0, last)) < left->prefix)
        half = i;                               /* the new entry gets a leaf of its own */
    int to_right = i > half || (i == half && i > 0);
    node_init(a, left, 0);
    node_init(a, right, 0);
    node_fill(a, left, old, 0, half);
    node_fill(a, right, old, half, old->count);
    struct ps_node *to = to_right ? right : left;
    memcpy(node_place(a, to, to_right ? i - half : i, key), record, a->type->record_bytes);
    struct bytes first = node_key(a, right, 0, copy);
    return separator(a, node_key(a, left, left->count - 1u, last), first);
}

/* The same of a branch, which gets a separator and its child; the one in the middle moves up. */
static struct bytes branch_split(struct ps_tree_access *a, unsigned level, struct ps_node *right,
                                 struct bytes key, struct ps_node *child, int end, uint8_t *copy)
{
    _Alignas(16) uint8_t old_bytes[PS_NODE_MAX];
    struct ps_node *left = a->path[level].node, *old = (struct ps_node *)(void *)old_bytes;
    unsigned i = a->path[level].at, half = end ? left->count - 1u : middle(left, a);
    memcpy(old, left, a->tree->node_bytes);
    node_init(a, left, level);
    node_init(a, right, level);
    left->first = old->first;
    node_append(a, left, old, 0, half);
    node_append(a, right, old, half + (i != half), old->count);
    struct bytes up = key;
    if (i != half)
        up = node_key(a, old, half, copy);
    right->first = i != half ? node_child(old, half + 1) : child;
    if (i < half)
        *(struct ps_node **)node_place(a, left, i, key) = child;
    if (i > half)
        *(struct ps_node **)node_place(a, right, i - half - 1, key) = child;
    return up;
}

/* Nodes for all splits of the path, before one begins: how many, or -errno and none is taken. */
static int splits_prepare(struct ps_tree_access *a, struct ps_node **nodes)
{
    static const uint8_t longest[PS_KEY_MAX];
    unsigned count = 1, taken = 0, level = 1;
    while (level < a->tree->height &&
           !node_has_room(a, a->path[level].node, (struct bytes){longest, tree_key_max(a)}))
        level++, count++;
    count += level == a->tree->height;
    if (level >= PS_TREE_LEVELS)
        return -EFBIG;
    while (taken < count && (nodes[taken] = node_take(a, NULL)))
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
    node_init(a, root, a->tree->height);
    root->first = a->tree->root;
    *(struct ps_node **)node_place(a, root, 0, key) = right;
    a->tree->root = root;
    a->tree->height++;
}

/* Tells the levels above of a new right neighbour. The nodes that are left over then go back. */
static void split_rise(struct ps_tree_access *a, struct bytes key, struct ps_node *right,
                       struct ps_node **nodes, int count, int end, uint8_t copies[2][KEY_COPY])
{
    unsigned level = 1;
    int used = 1;
    for (; level < a->tree->height && !node_has_room(a, a->path[level].node, key); level++) {
        struct ps_node *added = nodes[used++];
        key = branch_split(a, level, added, key, right, end, copies[key.at == copies[0]]);
        right = added;
    }
    if (level == a->tree->height)
        root_grow(a, nodes[used++], key, right);
    else
        *(struct ps_node **)node_place(a, a->path[level].node, a->path[level].at, key) = right;
    while (used < count)
        node_give(a, nodes[used++]);
}

/* Inserts at the path's place. */
int tree_put_here(struct ps_tree_access *a, struct bytes key, const void *record)
{
    struct ps_node *nodes[PS_TREE_LEVELS + 1], *leaf = a->path[0].node;
    _Alignas(16) uint8_t copies[2][KEY_COPY];
    if (node_has_room(a, leaf, key)) {
        memcpy(node_place(a, leaf, a->path[0].at, key), record, a->type->record_bytes);
        tree_changes++;
        return 0;
    }
    int end = at_the_end(a), count = splits_prepare(a, nodes);
    if (count < 0)
        return count;
    key = leaf_split(a, nodes[0], key, record, end, copies[0]);
    split_rise(a, key, nodes[0], nodes, count, end, copies);
    tree_changes++;
    return 0;
}

static int change_refused(const struct ps_tree_access *a, struct bytes key)
{
    return a->error                       ? a->error
           : a->mode != PS_CHANGE         ? -EACCES
           : key.length > tree_key_max(a) ? -EOVERFLOW
                                          : 0;
}

int ps_tree_insert(struct ps_tree_access *a, const void *key, const void *record, int replace)
{
    struct bytes probe = tree_probe(a, key);
    int error = change_refused(a, probe), duplicates = !error && (a->tree->flags & PS_DUPLICATES);
    if (error)
        return error;
    if (replace) {
        void *old = ps_tree_find(a, key, PS_CHANGE);
        if (old) {
            memcpy(old, record, a->type->record_bytes);
            return 0;
        }
    }
    tree_descend(a, probe, 1, 1);
    unsigned i = a->path[0].at;
    if (!duplicates && i > 0 && node_compare(a, probe, a->path[0].node, i - 1) == 0)
        return -EEXIST;
    return tree_put_here(a, probe, record);
}

/* ---- removal ---- */

/* The child leaves its parent, with the key before it, or the one behind it if it is the first. */
static void child_erase(struct ps_tree_access *a, struct ps_node *parent, unsigned i)
{
    if (i == 0 && parent->count > 0)
        parent->first = node_child(parent, 1);
    node_erase(a, parent, i == 0 ? 0 : i - 1);
}

/* Makes one of children i and i + 1 if that is worth it (one is small; `both`: both are) and
 * possible. What meets at the seam of two branches may be small, too. */
static int children_join(struct ps_tree_access *a, struct ps_node *parent, unsigned i, int both)
{
    if (i >= parent->count)
        return 0;
    _Alignas(16) uint8_t copy[KEY_COPY];
    struct ps_node *left = node_child(parent, i), *right = node_child(parent, i + 1);
    struct bytes between = node_key(a, parent, i, copy);
    int small = node_is_small(a, left) + node_is_small(a, right);
    if (small < 1 + both || !node_join_fits(a, left, right, between))
        return 0;
    unsigned seam = left->count;
    node_join(a, left, right, between);
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
    for (unsigned level = 1; level < a->tree->height; level++) {
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
        } else if (!node_is_small(a, a->path[level - 1].node)) {
            break;
        } else if (i > 0 && children_join(a, parent, i - 1, 0)) {
            children_join(a, parent, i - 1, 1);
        } else {
            children_join(a, parent, i, 0);
        }
    }
    if (empty && a->tree->height > 1) {         /* no record is left: the old root becomes a leaf */
        node_init(a, a->tree->root, 0);
        a->tree->height = 1;
    }
    while (a->tree->root->level > 0 && a->tree->root->count == 0) {
        struct ps_node *old = a->tree->root;
        a->tree->root = old->first;
        a->tree->height--;
        node_give(a, old);
    }
}

/* Removes the record at the path's place. */
void tree_erase_here(struct ps_tree_access *a)
{
    node_erase(a, a->path[0].node, a->path[0].at);
    if (a->path[0].node->count == 0 || node_is_small(a, a->path[0].node))
        path_tidy(a);
    tree_changes++;
}

int ps_tree_remove(struct ps_tree_access *a, const void *key)
{
    struct bytes probe = tree_probe(a, key);
    int error = change_refused(a, (struct bytes){0});
    if (error)
        return error;
    if (!key_find(a, probe, 1))
        return -ENOENT;
    tree_erase_here(a);
    return 0;
}

/* ---- bulk load ---- */

void ps_tree_load(struct ps_tree_load *l, unsigned fill)
{
    struct ps_tree_access *a = &l->access;
    if (a->error == 0 && (fill < 50 || fill > 100))
        a->error = -EINVAL;
    if (a->error == 0 && (a->tree->height > 1 || a->tree->root->count > 0))
        a->error = -ENOTEMPTY;
    a->fill = fill;
}

int ps_tree_add(struct ps_tree_load *l, const void *key, const void *record)
{
    struct ps_tree_access *a = &l->access;
    struct bytes probe = tree_probe(a, key);
    int error = change_refused(a, probe);
    if (error)
        return error;
    tree_edge(a, 1);
    struct ps_node *leaf = a->path[0].node;
    int order = leaf->count ? node_compare(a, probe, leaf, leaf->count - 1u) : 1;
    if (order < 0 || (order == 0 && !(a->tree->flags & PS_DUPLICATES)))
        return -EINVAL;
    return tree_put_here(a, probe, record);
}
