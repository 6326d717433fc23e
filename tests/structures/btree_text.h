/*
 * btree_text.h - the B+-tree of btree.h, behind a storage: struct btree_node, NODE, entry,
 * entry_bytes, entry_make, entry_erase, node_take and node_give and what else is declared before
 * this text is included. KIND is what it makes.
 *
 * An entry of a leaf is its key's length (two bytes), the key, the record; one of a branch is a
 * child and the least key that may be in it. A node that is full is laid anew if it has holes
 * enough, else it splits, and the path is looked for again: so a split at one level never has to
 * go on at another one.
 */
static struct btree_node *child_of(const struct btree_node *n, unsigned i)
{
    struct btree_node *child = n->first;
    if (i > 0)
        memcpy(&child, entry(n, i - 1), sizeof child);
    return child;
}

static inline struct btree_bytes key_of(const struct btree_node *n, unsigned i)
{
    const uint8_t *e = entry(n, i);
    if (n->level > 0)
        return (struct btree_bytes){e + sizeof n, entry_bytes(n, i) - (unsigned)sizeof n};
    return (struct btree_bytes){e + 2, *(const uint16_t *)(const void *)e};
}

static inline int order(struct btree_bytes a, struct btree_bytes b)
{
    int c = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);
    return c != 0 ? c : (a.length > b.length) - (a.length < b.length);
}

/* The first slot of a leaf with a key >= this one; of a branch the child that has it. */
static unsigned search(const struct btree_node *n, struct btree_bytes key)
{
    unsigned low = 0, high = n->count;
    const int least = n->level == 0;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (order(key, key_of(n, middle)) >= least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- a node is full ---- */

/* Slots first..end of another node come behind those of this one, which has room for them. */
static void node_append(struct btree *t, struct btree_node *n, const struct btree_node *from,
                        unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        memcpy(entry_make(t, n, n->count, entry_bytes(from, i)), entry(from, i),
               entry_bytes(from, i));
}

/* The slot at which a node is cut: half of its bytes lie before it. */
static unsigned middle_of(const struct btree_node *n)
{
    unsigned i = 0, bytes = 0, half = node_used(n) / 2;
    while (bytes < half && i + 2 < n->count)
        bytes += entry_cost(entry_bytes(n, i++));
    return i > 0 ? i : 1;
}

/* What parts the slots before `middle` from those behind: of a leaf as short as can be. */
static struct btree_bytes separator(const struct btree_node *n, unsigned middle, uint8_t *copy)
{
    struct btree_bytes key = key_of(n, middle);
    if (n->level == 0) {
        struct btree_bytes before = key_of(n, middle - 1);
        unsigned same = 0;
        while (same < before.length && before.at[same] == key.at[same])
            same++;
        key.length = same + 1;
    }
    memcpy(copy, key.at, key.length);
    return (struct btree_bytes){copy, key.length};
}

/* The cut itself, when the parent has its entry. */
static void node_cut(struct btree *t, struct btree_node *n, struct btree_node *right,
                     unsigned middle)
{
    _Alignas(8) uint8_t bytes[NODE];
    const struct btree_node *copy = memcpy(bytes, n, NODE);
    const unsigned branch = n->level > 0;
    node_empty(right, n->level);
    right->first = branch ? child_of(copy, middle + 1) : NULL;
    node_append(t, right, copy, middle + branch, copy->count);
    node_empty(n, copy->level);
    node_append(t, n, copy, 0, middle);
}

static int split(struct btree *t, unsigned level)
{
    struct btree_node *n = t->path[level].node, *right = node_take(t), *top = NULL;
    const int grows = level + 1 == t->head->height;
    uint8_t copy[BTREE_KEY_MAX];
    if (!right || (grows && !(top = node_take(t)))) {
        if (right)
            node_give(t, right);
        return -ENOSPC;
    }
    if (grows) {
        node_empty(top, level + 1);
        top->first = n;
        t->path[level + 1].node = t->head->root = top;
        t->path[level + 1].at = 0;
        t->head->height++;
        t->head->count++;
    }
    const unsigned middle = middle_of(n);
    struct btree_bytes key = separator(n, middle, copy);
    uint8_t *e = entry_make(t, t->path[level + 1].node, t->path[level + 1].at,
                            (unsigned)sizeof right + key.length);
    if (!e) {                           /* the parent comes first */
        node_give(t, right);
        return t->error;
    }
    memcpy(e, &right, sizeof right);
    memcpy(e + sizeof right, key.at, key.length);
    t->head->count++;
    node_cut(t, n, right, middle);
    return -EAGAIN;
}

/* The node of the path at that level has no room for so many bytes in a row. */
static int full(struct btree *t, unsigned level, unsigned bytes)
{
    _Alignas(8) uint8_t copy[NODE];
    struct btree_node *n = t->path[level].node;
    if (node_used(n) + entry_cost(bytes) > node_room())
        return split(t, level);
    memcpy(copy, n, NODE);
    node_empty(n, n->level);
    node_append(t, n, (const struct btree_node *)(const void *)copy, 0,
                ((const struct btree_node *)(const void *)copy)->count);
    return -EAGAIN;
}

/* ---- what a program calls ---- */

static void tree_open(struct btree *t, struct btree_head *head, struct ps_memory memory)
{
    t->head = head;
    t->memory = memory;
    t->error = 0;
    storage_open(t);
}

static int tree_set_up(struct btree_head *head, struct ps_memory memory)
{
    struct btree t;
    int error = head->root ? -EEXIST : storage_set_up(head, memory);
    if (error)
        return error;
    tree_open(&t, head, memory);
    head->root = node_take(&t);
    if (!head->root) {
        memset(head, 0, sizeof *head);
        return -ENOSPC;
    }
    head->root->first = NULL;
    node_empty(head->root, 0);
    head->height = head->count = 1;
    return 0;
}

static void tree_tear_down(struct btree *t)
{
    storage_tear_down(t);
    memset(t->head, 0, sizeof *t->head);
}

static int tree_find(struct btree *t, struct btree_bytes key)
{
    struct btree_node *n = t->head->root;
    unsigned at = search(n, key);
    for (unsigned level = n->level; level > 0; level--) {
        t->path[level].node = n;
        t->path[level].at = at;
        n = child_of(n, at);
        at = search(n, key);
    }
    t->path[0].node = n;
    t->path[0].at = at;
    return at < n->count && order(key, key_of(n, at)) == 0;
}

static int tree_insert(struct btree *t, struct btree_bytes key, struct btree_bytes record)
{
    uint8_t *e;
    do {
        if (tree_find(t, key))
            return -EEXIST;
        e = entry_make(t, t->path[0].node, t->path[0].at, 2 + key.length + record.length);
    } while (!e && t->error == -EAGAIN);
    if (!e)
        return t->error;
    *(uint16_t *)(void *)e = (uint16_t)key.length;
    memcpy(e + 2, key.at, key.length);
    memcpy(e + 2 + key.length, record.at, record.length);
    return 0;
}

static int tree_remove(struct btree *t, struct btree_bytes key)
{
    if (!tree_find(t, key))
        return -ENOENT;
    entry_erase(t->path[0].node, t->path[0].at);
    return 0;
}

/* From the end of a leaf to the beginning of the next one; 0: there is none. */
static int leaf_next(struct btree *t)
{
    unsigned level = 1;
    while (level < t->head->height && t->path[level].at >= t->path[level].node->count)
        level++;
    if (level >= t->head->height)
        return 0;
    t->path[level].at++;
    for (; level > 0; level--) {
        t->path[level - 1].node = child_of(t->path[level].node, t->path[level].at);
        t->path[level - 1].at = 0;
    }
    return 1;
}

static int tree_next(struct btree *t, struct btree_bytes *key, struct btree_bytes *record)
{
    while (t->path[0].at >= t->path[0].node->count)
        if (!leaf_next(t))
            return 0;
    const struct btree_node *n = t->path[0].node;
    const unsigned at = t->path[0].at++;
    *key = key_of(n, at);
    *record = (struct btree_bytes){key->at + key->length, entry_bytes(n, at) - 2 - key->length};
    return 1;
}

/* ---- check ---- */

/* All keys are low <= key < high; no bytes: no bound. */
static const char *check(struct btree *t, struct btree_node *n, unsigned level,
                         struct btree_bytes low, struct btree_bytes high, uint64_t *nodes)
{
    const char *why = n->level != level ? "a node is not of its level" : node_wrong(n);
    for (unsigned i = 0; !why && i < n->count; i++) {
        struct btree_bytes key = key_of(n, i);
        if ((low.at && order(key, low) < 0) || (high.at && order(key, high) >= 0) ||
            (i > 0 && order(key_of(n, i - 1), key) >= 0))
            why = "keys are not in order";
    }
    for (unsigned i = 0; !why && level > 0 && i <= n->count; i++)
        why = check(t, child_of(n, i), level - 1, i ? key_of(n, i - 1) : low,
                    i < n->count ? key_of(n, i) : high, nodes);
    ++*nodes;
    return why;
}

static const char *tree_check(struct btree *t)
{
    const struct btree_bytes none = {NULL, 0};
    uint64_t nodes = 0;
    const char *why = check(t, t->head->root, (unsigned)t->head->height - 1, none, none, &nodes);
    return why                      ? why
           : nodes != t->head->count ? "the head does not count its nodes right"
                                    : storage_wrong(t, nodes);
}

const struct btree_kind KIND = {KIND_NAME,   tree_set_up, tree_tear_down, tree_open, tree_insert,
                                tree_remove, tree_find,   tree_next,      tree_check};
