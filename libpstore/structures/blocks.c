/* blocks.c - numbered blocks in a tree: the digits of a block's number lead to it from the root. */
#include "blocks.h"

#include <errno.h>

#include "structure_private.h"

enum { LEVELS = 9 };

/* A node above the blocks; count: children that are there. */
struct branch {
    uint64_t count;
    void *child[];
};

static unsigned fanout(const struct ps_access *a)
{
    return (unsigned)((a->type->node_bytes - sizeof(struct branch)) / sizeof(void *));
}

/* How many blocks a node of that height may have below it. */
static uint64_t reach(const struct ps_access *a, uint64_t height)
{
    uint64_t blocks = 1;
    while (height-- > 1)
        blocks *= fanout(a);
    return blocks;
}

static unsigned digit(const struct ps_access *a, uint64_t number, uint64_t height)
{
    return (unsigned)(number / reach(a, height - 1) % fanout(a));
}

void *blocks_find(const struct ps_access *a, const struct ps_blocks *b, uint64_t number)
{
    void *n = b->root;
    uint64_t unit = reach(a, b->height);
    if (b->height == 0 || number >= unit)
        return NULL;
    for (uint64_t level = b->height; n && level > 1; level--) {
        unit /= fanout(a);
        n = ((struct branch *)n)->child[number / unit];
        number %= unit;
    }
    return n;
}

/* How many nodes are missing on the way to a block, in a tree of the height that it needs. */
static unsigned missing(const struct ps_access *a, const struct ps_blocks *b, uint64_t number,
                        uint64_t height)
{
    if (!b->root)
        return (unsigned)height;
    if (height > b->height)                     /* roots, and a new way down from the highest */
        return (unsigned)(2 * height - b->height - 1);
    const void *n = b->root;
    uint64_t level = height;
    while (n && level > 1)
        n = ((const struct branch *)n)->child[digit(a, number, level--)];
    return n ? 0 : (unsigned)level;
}

/* New roots, until the tree has that height. */
static void raise(const struct ps_access *a, struct ps_blocks *b, uint64_t height, void ***nodes)
{
    structure_heads(a);
    for (; b->root && b->height < height; b->height++) {
        struct branch *top = *(*nodes)++;
        top->child[0] = b->root;
        top->count = 1;
        b->root = top;
    }
    b->height = height;
}

void *blocks_make(const struct ps_access *a, struct ps_blocks *b, uint64_t number)
{
    void *taken[2 * LEVELS], **nodes = taken;
    uint64_t height = b->height ? b->height : 1;
    while (height <= LEVELS && number >= reach(a, height))
        height++;
    int error = -EFBIG;
    if (height <= LEVELS)
        error = structure_take_all(a, taken, missing(a, b, number, height));
    if (error)
        return structure_none(error);
    if (height > b->height)
        raise(a, b, height, &nodes);
    struct branch *above = NULL;
    void **link = &b->root;
    for (uint64_t level = height;; level--) {
        if (!*link) {
            if (above)
                structure_changes(a, above);
            else
                structure_heads(a);
            *link = *nodes++;
            if (above)
                above->count++;
        }
        if (level == 1)
            return *link;
        above = *link;
        link = &above->child[digit(a, number, level)];
    }
}

/* A root with nothing but its first child is one level too many. */
static void lower(const struct ps_access *a, struct ps_blocks *b)
{
    while (b->height > 1) {
        struct branch *top = b->root;
        if (top->count > 1 || !top->child[0])
            return;
        structure_heads(a);
        b->root = top->child[0];
        b->height--;
        structure_give(a, top);
    }
}

void blocks_give(const struct ps_access *a, struct ps_blocks *b, uint64_t number)
{
    struct branch *path[LEVELS + 1];
    void *n = b->root;
    for (uint64_t level = b->height; level > 1; level--) {
        path[level] = n;
        n = path[level]->child[digit(a, number, level)];
    }
    uint64_t level = 1;
    do {
        structure_give(a, n);
        if (++level > b->height) {
            structure_heads(a);
            *b = (struct ps_blocks){0};
            return;
        }
        n = path[level];
        structure_changes(a, n);
        path[level]->child[digit(a, number, level)] = NULL;
    } while (--path[level]->count == 0);
    lower(a, b);
}

static void *next_below(const struct ps_access *a, void *n, uint64_t height, uint64_t first,
                        uint64_t *number)
{
    if (height == 1) {
        *number = first;
        return n;
    }
    uint64_t unit = reach(a, height - 1);
    for (uint64_t i = *number > first ? (*number - first) / unit : 0; i < fanout(a); i++) {
        void *child = ((struct branch *)n)->child[i];
        if (child)
            child = next_below(a, child, height - 1, first + i * unit, number);
        if (child)
            return child;
    }
    return NULL;
}

void *blocks_next(const struct ps_access *a, const struct ps_blocks *b, uint64_t *number)
{
    if (b->height == 0 || *number >= reach(a, b->height))
        return NULL;
    return next_below(a, b->root, b->height, 0, number);
}

static void give_below(const struct ps_access *a, void *n, uint64_t height)
{
    for (unsigned i = 0; n && height > 1 && i < fanout(a); i++)
        give_below(a, ((struct branch *)n)->child[i], height - 1);
    if (n)
        structure_give(a, n);
}

void blocks_clear(const struct ps_access *a, struct ps_blocks *b)
{
    give_below(a, b->root, b->height);
    structure_heads(a);
    *b = (struct ps_blocks){0};
}

int blocks_tear_down(const struct ps_instance *i, const struct ps_type *type, size_t offset)
{
    struct ps_access a;
    ps_access_open(&a, i, type, PS_CHANGE);
    if (a.error)
        return a.error;
    blocks_clear(&a, (struct ps_blocks *)(void *)((char *)a.head + offset));
    structure_clear(&a);
    return 0;
}

static const char *check_below(const struct ps_access *a, const void *n, uint64_t height,
                               uint64_t *branches)
{
    const struct branch *branch = n;
    uint64_t count = 0;
    const char *why = (uintptr_t)n % 16 ? "a node is not aligned" : NULL;
    for (unsigned i = 0; !why && height > 1 && i < fanout(a); i++)
        if (branch->child[i]) {
            count++;
            why = check_below(a, branch->child[i], height - 1, branches);
        }
    *branches += height > 1;
    return why || height == 1                    ? why
           : count == 0 || count != branch->count ? "a branch does not have the children it counts"
                                                  : NULL;
}

const char *blocks_check(const struct ps_access *a, const struct ps_blocks *b, uint64_t *branches)
{
    *branches = 0;
    if (b->height > LEVELS || !b->root != !b->height)
        return "the head is spoilt";
    if (!b->root)
        return NULL;
    const struct branch *top = b->root;
    const char *why = check_below(a, top, b->height, branches);
    if (!why && b->height > 1 && top->count == 1 && top->child[0])
        why = "the root has nothing but its first child";
    return why;
}
