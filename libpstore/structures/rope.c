/* rope.c - a rope: a tree of pieces of text, found by counts of bytes and of lines. */
#include "rope.h"

#include <errno.h>
#include <string.h>

#include "structure_private.h"

enum { LEVELS = 16 };

/* Text, or part of it: its bytes and the ends of lines in them. */
struct extent { uint64_t bytes, lines; };
struct child { struct ps_rope_node *node; struct extent extent; };

/* A leaf (level 0) holds count bytes of text, a branch count children. */
struct ps_rope_node {
    uint32_t level, count;
    uint32_t claim, unused;     /* claim: 0, and written before the others are read */
    union {
        char text[1];
        struct child child[1];
    } u;
};
enum { HEADER = offsetof(struct ps_rope_node, u) };

static struct ps_rope *rope_of(const struct ps_rope_access *a)
{
    return (struct ps_rope *)(void *)a->base.head;
}

/* Bytes that fit a leaf, or children that fit a branch. */
static uint32_t room(const struct ps_rope_access *a, uint32_t level)
{
    uint32_t bytes = a->base.type->node_bytes - HEADER;
    return level ? bytes / (uint32_t)sizeof(struct child) : bytes;
}

static char *text_of(const struct ps_rope_node *n)
{
    return (char *)(uintptr_t)n + HEADER;
}

static struct child *children_of(const struct ps_rope_node *n)
{
    return (struct child *)(void *)text_of(n);
}

static uint64_t lines_in(const char *text, size_t length)
{
    uint64_t lines = 0;
    for (const char *end = text + length; (text = memchr(text, '\n', (size_t)(end - text))); text++)
        lines++;
    return lines;
}

static struct extent extent_of(const struct ps_rope_node *n)
{
    struct extent sum = {n->count, 0};
    if (n->level == 0) {
        sum.lines = lines_in(text_of(n), n->count);
        return sum;
    }
    sum.bytes = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        sum.bytes += children_of(n)[i].extent.bytes;
        sum.lines += children_of(n)[i].extent.lines;
    }
    return sum;
}

/* Notes anew what is below child i. */
static void measure(struct ps_rope_node *n, uint32_t i)
{
    children_of(n)[i].extent = extent_of(children_of(n)[i].node);
}

/* The child that holds the byte *at, which becomes its position in the child; the last one holds
 * the end. */
static uint32_t child_at(const struct ps_rope_node *n, uint64_t *at)
{
    uint32_t i = 0;
    for (; i + 1 < n->count && *at >= children_of(n)[i].extent.bytes; i++)
        *at -= children_of(n)[i].extent.bytes;
    return i;
}

/* ---- set up, tear down ---- */

static void subtree_give(const struct ps_rope_access *a, struct ps_rope_node *n)
{
    for (uint32_t i = 0; n->level > 0 && i < n->count; i++)
        subtree_give(a, children_of(n)[i].node);
    structure_give(&a->base, n);
}

int ps_rope_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_rope_access a;
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    rope_of(&a)->root = structure_take(&a.base);
    return structure_end(&a.base, i, rope_of(&a)->root ? 0 : -errno);
}

int ps_rope_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_rope_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    subtree_give(&a, rope_of(&a)->root);
    structure_clear(&a.base);
    return 0;
}

/* ---- look-ups ---- */

int64_t ps_rope_length(const struct ps_rope_access *a)
{
    return a->base.error ? a->base.error : (int64_t)extent_of(rope_of(a)->root).bytes;
}

int64_t ps_rope_line(const struct ps_rope_access *a, uint64_t line)
{
    uint64_t at = 0;
    if (a->base.error || line == 0)
        return a->base.error;
    const struct ps_rope_node *n = rope_of(a)->root;
    if (line > extent_of(n).lines)
        return -ENOENT;
    while (n->level > 0) {
        const struct child *c = children_of(n);
        for (; line > c->extent.lines; c++) {
            line -= c->extent.lines;
            at += c->extent.bytes;
        }
        n = c->node;
    }
    const char *text = text_of(n), *end = text;
    while (line-- > 0)
        end = (const char *)memchr(end, '\n', n->count - (size_t)(end - text)) + 1;
    return (int64_t)at + (end - text);
}

const struct ps_piece *ps_rope_next(struct ps_rope_range *r)
{
    const struct ps_rope_access *a = &r->access;
    if (a->base.error)
        return structure_none(a->base.error);
    uint64_t length = (uint64_t)ps_rope_length(a), at = r->at;
    uint64_t end = r->end < length ? r->end : length;
    if (at >= end)
        return structure_none(0);
    const struct ps_rope_node *n = rope_of(a)->root;
    while (n->level > 0)
        n = children_of(n)[child_at(n, &at)].node;
    r->piece = (struct ps_piece){text_of(n) + at, n->count - at};
    if (r->piece.length > end - r->at)
        r->piece.length = end - r->at;
    r->at += r->piece.length;
    return &r->piece;
}

/* ---- insertion ---- */

/* How many nodes an insertion needs: for the leaf, the full branches above it, and a new root. */
static unsigned splits(const struct ps_rope_access *a, uint64_t at, size_t length)
{
    const struct ps_rope_node *n = rope_of(a)->root;
    unsigned full = 0, height = n->level;
    for (; n->level > 0; n = children_of(n)[child_at(n, &at)].node)
        full = n->count == room(a, n->level) ? full + 1 : 0;
    return n->count + length <= room(a, 0) ? 0 : 1 + full + (full == height);
}

/* A full leaf: half of its text and of what comes goes to `right`; at its end, all that comes. */
static void leaf_split(struct ps_rope_node *n, uint64_t at, const char *text, size_t length,
                       struct ps_rope_node *right)
{
    char all[PS_NODE_MAX * 3 / 2];
    size_t count = n->count + length, half = at == n->count ? n->count : count / 2;
    memcpy(all, text_of(n), at);
    memcpy(all + at, text, length);
    memcpy(all + at + length, text_of(n) + at, n->count - at);
    memcpy(text_of(n), all, half);
    memcpy(text_of(right), all + half, count - half);
    n->count = (uint32_t)half;
    right->count = (uint32_t)(count - half);
}

static void child_put(struct ps_rope_node *n, uint32_t i, struct ps_rope_node *child)
{
    struct child *c = children_of(n);
    memmove(&c[i + 1], &c[i], (n->count++ - i) * sizeof *c);
    c[i].node = child;
    measure(n, i);
}

static void children_append(struct ps_rope_node *n, const struct ps_rope_node *from, uint32_t first)
{
    memcpy(children_of(n) + n->count, children_of(from) + first,
           (from->count - first) * sizeof(struct child));
    n->count += from->count - first;
}

/* Puts a child into a branch, which may have to split: then its right part, of a spare node. */
static struct ps_rope_node *branch_put(const struct ps_rope_access *a, struct ps_rope_node *n,
                                       uint32_t i, struct ps_rope_node *child,
                                       struct ps_rope_node ***spare)
{
    if (n->count < room(a, n->level)) {
        child_put(n, i, child);
        return NULL;
    }
    struct ps_rope_node *right = *(*spare)++;
    uint32_t half = i == n->count ? i - 1 : n->count / 2;
    right->level = n->level;
    children_append(right, n, half);
    n->count = half;
    if (i > half)
        child_put(right, i - half, child);
    else
        child_put(n, i, child);
    return right;
}

/* Inserts below a node, which may have to split: then its right part. */
static struct ps_rope_node *insert_below(const struct ps_rope_access *a, struct ps_rope_node *n,
                                         uint64_t at, const char *text, size_t length,
                                         struct ps_rope_node ***spare)
{
    struct ps_rope_node *right = NULL;
    structure_changes(&a->base, n);
    if (n->level > 0) {
        uint32_t i = child_at(n, &at);
        struct ps_rope_node *child = children_of(n)[i].node;
        right = insert_below(a, child, at, text, length, spare);
        measure(n, i);
        return right ? branch_put(a, n, i + 1, right, spare) : NULL;
    }
    if (n->count + length > room(a, 0)) {
        right = *(*spare)++;
        leaf_split(n, at, text, length, right);
        return right;
    }
    memmove(text_of(n) + at + length, text_of(n) + at, n->count - at);
    memcpy(text_of(n) + at, text, length);
    n->count += (uint32_t)length;
    return NULL;
}

/* Inserts at most half a leaf. */
static int piece_insert(struct ps_rope_access *a, uint64_t at, const char *text, size_t length)
{
    struct ps_rope_node *nodes[LEVELS + 2], **spare = nodes, *root = rope_of(a)->root;
    unsigned need = root->level < LEVELS ? splits(a, at, length) : LEVELS + 2;
    if (need > LEVELS + 1)
        return -EFBIG;
    int error = structure_take_all(&a->base, (void **)nodes, need);
    if (error)
        return error;
    struct ps_rope_node *right = insert_below(a, root, at, text, length, &spare);
    if (right) {
        struct ps_rope_node *top = *spare;
        top->level = root->level + 1;
        child_put(top, 0, root);
        child_put(top, 1, right);
        structure_heads(&a->base);
        rope_of(a)->root = top;
    }
    return 0;
}

int ps_rope_insert(struct ps_rope_access *a, uint64_t at, const char *text, size_t length)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    structure_claim(&a->base, rope_of(a)->root, &rope_of(a)->root->claim);
    if (at > (uint64_t)ps_rope_length(a))
        return -EINVAL;
    size_t done = 0;
    while (error == 0 && done < length) {
        size_t piece = length - done < room(a, 0) / 2 ? length - done : room(a, 0) / 2;
        error = piece_insert(a, at + done, text + done, piece);
        done += error ? 0 : piece;
    }
    if (error)                  /* what came already leaves, which needs no memory */
        ps_rope_remove(a, at, done);
    return error;
}

/* ---- removal ---- */

/* Makes one of children i and i + 1 if both fit one node and one of them is small. */
static int children_join(const struct ps_rope_access *a, struct ps_rope_node *n, uint32_t i)
{
    struct child *c = children_of(n);
    struct ps_rope_node *left = c[i].node, *right = c[i + 1].node;
    uint32_t most = room(a, left->level);
    if (left->count + right->count > most * 3 / 4 ||
        (left->count > most / 3 && right->count > most / 3))
        return 0;
    structure_changes(&a->base, left);
    if (left->level > 0) {
        children_append(left, right, 0);
    } else {
        memcpy(text_of(left) + left->count, text_of(right), right->count);
        left->count += right->count;
    }
    structure_give(&a->base, right);
    memmove(&c[i + 1], &c[i + 2], (--n->count - i - 1) * sizeof *c);
    measure(n, i);
    return 1;
}

/* Removes text below a branch or leaf, which keeps some. */
static void remove_below(const struct ps_rope_access *a, struct ps_rope_node *n, uint64_t at,
                         uint64_t length)
{
    structure_changes(&a->base, n);
    if (n->level == 0) {
        memmove(text_of(n) + at, text_of(n) + at + length, n->count - at - length);
        n->count -= (uint32_t)length;
        return;
    }
    struct child *c = children_of(n);
    uint32_t first = child_at(n, &at), i = first;
    while (length > 0) {
        uint64_t here = c[i].extent.bytes - at < length ? c[i].extent.bytes - at : length;
        length -= here;
        if (here == c[i].extent.bytes) {
            subtree_give(a, c[i].node);
            memmove(&c[i], &c[i + 1], (--n->count - i) * sizeof *c);
        } else {
            remove_below(a, c[i].node, at, here);
            measure(n, i++);
        }
        at = 0;
    }
    for (i = first > 0 ? first - 1 : 0; i + 1 < n->count && i <= first + 1;)
        i += !children_join(a, n, i);
}

int ps_rope_remove(struct ps_rope_access *a, uint64_t at, uint64_t length)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_rope_node *root = rope_of(a)->root;
    structure_claim(&a->base, root, &root->claim);
    uint64_t all = (uint64_t)ps_rope_length(a);
    if (at > all || length > all - at)
        return -EINVAL;
    if (length == all && root->level > 0) {     /* nothing is left: the root becomes a leaf */
        for (uint32_t i = 0; i < root->count; i++)
            subtree_give(a, children_of(root)[i].node);
        root->level = root->count = 0;
        return 0;
    }
    remove_below(a, root, at, length);
    while (root->level > 0 && root->count == 1) {
        structure_heads(&a->base);
        rope_of(a)->root = children_of(root)->node;
        structure_give(&a->base, root);
        root = rope_of(a)->root;
    }
    return 0;
}

/* ---- every invariant ---- */

static const char *check_below(const struct ps_rope_access *a, const struct ps_rope_node *n,
                               struct ps_rope_stats *stats)
{
    const char *why = NULL;
    if (n->count > room(a, n->level))
        return "a node holds more than fits it";
    stats->leaves += n->level == 0;
    stats->branches += n->level > 0;
    for (uint32_t i = 0; !why && n->level > 0 && i < n->count; i++) {
        const struct child *c = &children_of(n)[i];
        if (!c->node || (uintptr_t)c->node % 16 != 0 || c->node->level != n->level - 1)
            return "a node is not of the level below its parent";
        if (c->node->count == 0)
            return "a node is empty";
        struct extent extent = extent_of(c->node);
        if (extent.bytes != c->extent.bytes || extent.lines != c->extent.lines)
            return "a branch does not have the bytes and lines that it counts";
        why = check_below(a, c->node, stats);
    }
    return why;
}

static const char *check(const struct ps_rope_access *a, struct ps_rope_stats *stats)
{
    const struct ps_rope_node *root = rope_of(a)->root;
    if (!root || root->level > LEVELS || (root->level > 0 && root->count < 2))
        return "the head or the root is spoilt";
    struct extent all = extent_of(root);
    stats->bytes = all.bytes;
    stats->lines = all.lines;
    stats->height = root->level + 1;
    const char *why = check_below(a, root, stats);
    stats->fill = why ? 0 : (uint32_t)(all.bytes * 100 / stats->leaves / room(a, 0));
    return why;
}

int ps_rope_check(const struct ps_rope_access *a, struct ps_rope_stats *stats, const char **why)
{
    struct ps_rope_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
