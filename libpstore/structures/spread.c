/*
 * spread.c - a structure that was built in volatile memory goes to the parts of a segment.
 *
 * Invariants
 *   SD1  Part 0's `current` names a build whose leaves lie, whole, in the areas of all parts with
 *        this number; its head and branches point to them and to nothing else.
 *   SD2  The other build of each part is in nobody's way: what is left of it is freed before it is
 *        made anew.
 *
 * A build's leaves are committed part by part, since a transaction writes one store. The commit
 * that counts is part 0's last.
 */
#include "spread_private.h"

#include <errno.h>
#include <pstore.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BATCH_BYTES = 256 << 10 };

/* ---- nodes that know when they were made ---- */

enum { NUMBER_BYTES = 16 };     /* before each node: its number */

static void *building_take(void *arg, size_t bytes, const void *near)
{
    struct ps_builder *b = arg;
    (void)near;
    char *p = aligned_alloc(16, (bytes + NUMBER_BYTES + 15) / 16 * 16);
    if (!p) {
        errno = ENOMEM;
        return NULL;
    }
    memset(p, 0, bytes + NUMBER_BYTES);
    *(uint64_t *)(void *)p = b->nodes++;
    return p + NUMBER_BYTES;
}

static void building_give(void *arg, void *p)
{
    (void)arg;
    free((char *)p - NUMBER_BYTES);
}

struct ps_memory ps_building(struct ps_builder *b)
{
    return (struct ps_memory){.take = building_take, .give = building_give, .arg = b};
}

/* ---- parts ---- */

static int is_volatile(const struct ps_segment *s) { return !s->part[0]; }

int segment_write(const struct ps_segment *s, int (*fn)(void *), void *arg)
{
    return is_volatile(s) ? fn(arg) : ps_transaction(fn, arg);
}

int segment_read(const struct ps_segment *s, int snapshot, int (*fn)(void *), void *arg)
{
    struct ps_options options = {.isolation = PS_SNAPSHOT, .snapshot = snapshot};
    return is_volatile(s) ? fn(arg) : ps_transaction_opt(fn, arg, &options);
}

/* An error whose reason is the segment. */
static int told(int error)
{
    return error_told(ERROR_SPREAD, error);
}

static int segment_bad(const struct ps_segment *s)
{
    if (!s->name || !s->name[0] || strlen(s->name) > 63 || s->parts < 1 || s->parts > PS_PARTS_MAX)
        return told(-EINVAL);
    for (unsigned p = 0; p < s->parts; p++)
        if ((s->part[p] == NULL) != is_volatile(s))
            return told(-EINVAL);
    return ps_active() ? told(-EBUSY) : 0;
}

struct place { const struct ps_segment *s; unsigned part; struct ps_part *kept; };

/* The object of a part: found, or made. */
static int part_find(void *arg)
{
    struct place *at = arg;
    at->kept = is_volatile(at->s) ? calloc(1, sizeof *at->kept)
                                  : ps_named(at->s->part[at->part], at->s->name, sizeof *at->kept);
    if (!at->kept)
        return errno == ENOENT || errno == EROFS ? told(-ENODATA) : -errno;
    if (at->kept->parts == 0)
        return 0;
    int right = at->kept->parts == at->s->parts && at->kept->number == at->part;
    return right ? 0 : told(-EUCLEAN);
}

static int parts_find(struct ps_segment *s, int to_write)
{
    int error = segment_bad(s);
    for (unsigned p = 0; p < s->parts && !error; p++) {
        struct place at = {s, p, NULL};
        if (s->kept[p])
            continue;
        error = to_write ? segment_write(s, part_find, &at) : segment_read(s, 0, part_find, &at);
        s->kept[p] = at.kept;
    }
    return error;
}

static size_t stride_of(const struct ps_head *head)
{
    return (head->node_bytes + PAGE - 1) / PAGE * PAGE;
}

static char *first_leaf(char *area, size_t stride)
{
    return (char *)(((uintptr_t)area + stride - 1) / stride * stride);
}

/* What the handle knows of the current build. */
static int current_note(void *arg)
{
    struct ps_segment *s = arg;
    const uint64_t current = s->kept[0]->current, which = current % 2;
    if (current == 0)
        return told(-ENODATA);
    struct ps_head *head = (struct ps_head *)(void *)s->kept[0]->of[which].head;
    const size_t stride = stride_of(head);
    for (unsigned p = 0; p < s->parts; p++) {
        const struct ps_part *k = s->kept[p];
        if (k->parts != s->parts || k->number != p || k->of[which].build != current)
            return told(-EUCLEAN);
        s->leaves[p].from = first_leaf(k->of[which].area, stride);
        s->leaves[p].to = s->leaves[p].from + k->of[which].leaves * stride;
    }
    s->head = head;
    return 0;
}

int ps_segment_open(struct ps_segment *s)
{
    int error = parts_find(s, 0);
    return error ? error : segment_read(s, 0, current_note, s);
}

int ps_segment_part(const struct ps_segment *s, const void *leaf)
{
    for (unsigned p = 0; p < s->parts; p++)
        if ((const char *)leaf >= s->leaves[p].from && (const char *)leaf < s->leaves[p].to)
            return (int)p;
    return told(-ENOENT);
}

/* Nothing is taken from a segment: a transaction would have to write two stores. */
static void *segment_take(void *arg, size_t bytes, const void *near)
{
    (void)arg;
    (void)bytes;
    (void)near;
    errno = EXDEV;
    return error_told_by(ERROR_SPREAD, NULL);
}

static void segment_give(void *arg, void *p)
{
    (void)arg;
    (void)p; /* a leaf that became empty: its place stays as it is until the next build */
}

struct ps_memory ps_segment_memory(struct ps_segment *s)
{
    return (struct ps_memory){.take = segment_take, .give = segment_give, .arg = s};
}

/* ---- a build ---- */

struct build {
    struct ps_segment *s;
    const struct ps_spread_kind *kind;
    struct ps_access access;
    uint64_t number;
    size_t stride;
    void **leaves;                      /* in the order of keys */
    uint64_t *made;
    uint8_t *part;
    unsigned leaf_count, leaf_room, branch_count;
    unsigned *order;                    /* leaves as they were made */
    char **moved;                       /* where each leaf lies now */
    char *branch;                       /* where the next one goes */
    unsigned next_leaf;
    unsigned at, step;                  /* the part that is written, and how many leaves at once */
    unsigned from, reached;             /* in `order`: of the batch */
};

static int leaves_grow(struct build *b)
{
    const unsigned room = b->leaf_room ? 2 * b->leaf_room : 256;
    void **leaves = realloc(b->leaves, room * sizeof *leaves);
    if (!leaves)
        return -ENOMEM;
    b->leaves = leaves;
    uint64_t *made = realloc(b->made, room * sizeof *made);
    if (!made)
        return -ENOMEM;
    b->made = made;
    b->leaf_room = room;
    return 0;
}

static int leaf_note(struct build *b, void *leaf)
{
    int error = b->leaf_count == b->leaf_room ? leaves_grow(b) : 0;
    if (error)
        return error;
    b->leaves[b->leaf_count] = leaf;
    b->made[b->leaf_count++] = *(const uint64_t *)(const void *)((char *)leaf - NUMBER_BYTES);
    return 0;
}

static int nodes_note(struct build *b, void *node)
{
    if (b->kind->level(node) == 0)
        return leaf_note(b, node);
    int error = 0;
    b->branch_count++;
    for (unsigned i = 0, n = b->kind->children(&b->access, node); i < n && !error; i++)
        error = nodes_note(b, *b->kind->child(&b->access, node, i));
    return error;
}

static char **area_of(const struct build *b, unsigned part)
{
    return &b->s->kept[part]->of[b->number % 2].area;
}

/* Memory for `count` nodes, the first of them at a multiple of a node's pages; NULL with errno. */
static void *area_make(const struct build *b, unsigned part, uint64_t count)
{
    const size_t bytes = (count + 1) * b->stride;
    if (!is_volatile(b->s))
        return ps_alloc(b->s->part[part], bytes, NULL);
    void *p = aligned_alloc(PAGE, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

static void area_free(const struct ps_segment *s, char **area)
{
    if (*area && is_volatile(s))
        free(*area);
    else if (*area)
        ps_free(*area);
    *area = NULL;
}

static void build_forget(const struct ps_segment *s, unsigned part, uint64_t which)
{
    area_free(s, &s->kept[part]->of[which].area);
    area_free(s, &s->kept[part]->of[which].branches);
    memset(&s->kept[part]->of[which], 0, sizeof s->kept[part]->of[which]);
}

/* SD2; then room for this part's leaves. */
static int part_begin(void *arg)
{
    struct build *b = arg;
    struct ps_part *k = b->s->kept[b->at];
    uint64_t leaves = 0;
    for (unsigned i = 0; i < b->leaf_count; i++)
        leaves += b->part[i] == b->at;
    build_forget(b->s, b->at, b->number % 2);
    k->parts = b->s->parts;
    k->number = b->at;
    k->of[b->number % 2].build = b->number;
    k->of[b->number % 2].leaves = leaves;
    *area_of(b, b->at) = area_make(b, b->at, leaves);
    return *area_of(b, b->at) ? 0 : -errno;
}

/* part_batch copies some leaves of the part, in the order in which they were made, as a file would
 * have grown. */
static int part_batch(void *arg)
{
    struct build *b = arg;
    unsigned left = b->step;
    for (b->reached = b->from; b->reached < b->leaf_count && left > 0; b->reached++) {
        unsigned leaf = b->order[b->reached];
        if (b->part[leaf] != b->at)
            continue;
        memcpy(b->moved[leaf], b->leaves[leaf], b->access.head->node_bytes);
        left--;
    }
    return 0;
}

static const uint64_t *made_of; /* for qsort */
static int made_earlier(const void *a, const void *b)
{
    uint64_t left = made_of[*(const unsigned *)a], right = made_of[*(const unsigned *)b];
    return left < right ? -1 : left > right;
}

static int leaves_sort(struct build *b)
{
    b->part = calloc(1, b->leaf_count);
    b->moved = calloc(b->leaf_count, sizeof *b->moved);
    b->order = calloc(b->leaf_count, sizeof *b->order);
    if (!b->part || !b->moved || !b->order)
        return -ENOMEM;
    for (unsigned i = 0; i < b->leaf_count; i++)
        b->order[i] = i;
    made_of = b->made;
    qsort(b->order, b->leaf_count, sizeof *b->order, made_earlier);
    return 0;
}

/* Where each leaf will lie; all areas are there. */
static int leaves_move(void *arg)
{
    struct build *b = arg;
    unsigned next[PS_PARTS_MAX] = {0};
    for (unsigned i = 0; i < b->leaf_count; i++) {
        unsigned leaf = b->order[i], part = b->part[leaf];
        b->moved[leaf] = first_leaf(*area_of(b, part), b->stride) + next[part]++ * b->stride;
    }
    return 0;
}

/* Copies a branch and what is below it; returns where it, or the leaf, lies now. */
static void *branch_move(struct build *b, void *node)
{
    if (b->kind->level(node) == 0)
        return b->moved[b->next_leaf++];
    char *to = b->branch;
    b->branch += b->stride;
    memcpy(to, node, b->access.head->node_bytes);
    for (unsigned i = 0, n = b->kind->children(&b->access, node); i < n; i++)
        *b->kind->child(&b->access, to, i) = branch_move(b, *b->kind->child(&b->access, node, i));
    return to;
}

/* The commit that counts: branches, head, and the number of the build. */
static int build_publish(void *arg)
{
    struct build *b = arg;
    struct ps_part *k = b->s->kept[0];
    struct ps_head *head = (struct ps_head *)(void *)k->of[b->number % 2].head;
    area_free(b->s, &k->of[b->number % 2].branches);
    char *area = k->of[b->number % 2].branches = area_make(b, 0, b->branch_count);
    if (!area)
        return -errno;
    b->branch = first_leaf(area, b->stride);
    b->next_leaf = 0;
    memcpy(head, b->access.head, b->access.type->head_bytes);
    if (b->kind->bare)
        b->kind->bare(head);
    void **root = b->kind->root(head);
    *root = branch_move(b, *root);
    k->current = b->number; /* SD1 */
    return 0;
}

static int part_forget(void *arg)
{
    const struct build *b = arg;
    build_forget(b->s, b->at, (b->number + 1) % 2);
    return 0;
}

static int part_write(struct build *b)
{
    int error = 0;
    for (b->from = 0; b->from < b->leaf_count && !error; b->from = b->reached)
        error = segment_write(b->s, part_batch, b);
    return error;
}

static int current_read(void *arg)
{
    struct build *b = arg;
    b->number = b->s->kept[0]->current + 1;
    return 0;
}

static int build_run(struct build *b)
{
    int error = segment_read(b->s, 0, current_read, b);
    for (b->at = 0; b->at < b->s->parts && !error; b->at++)
        error = segment_write(b->s, part_begin, b);
    if (!error)
        error = segment_read(b->s, 0, leaves_move, b);
    for (b->at = 0; b->at < b->s->parts && !error; b->at++)
        error = part_write(b);
    if (!error)
        error = segment_write(b->s, build_publish, b);
    if (!error)
        error = segment_read(b->s, 0, current_note, b->s);
    for (b->at = 0; b->at < b->s->parts && !error; b->at++)
        error = segment_write(b->s, part_forget, b);
    return error;
}

int ps_spread(struct ps_segment *s, struct ps_spread_what built, enum ps_placement rule)
{
    struct build b = {.s = s, .kind = built.kind};
    int error = parts_find(s, 1);
    if (error)
        return error;
    ps_access_open(&b.access, &built.instance, built.type, PS_LOOK);
    if (b.access.error || built.instance.memory.take != building_take)
        return told(b.access.error ? b.access.error : -EINVAL);
    b.stride = stride_of(b.access.head);
    b.step = BATCH_BYTES / (unsigned)b.stride;
    error = nodes_note(&b, *built.kind->root(b.access.head));
    if (!error)
        error = leaves_sort(&b);
    if (!error)
        error = spread_place(b.order, b.leaf_count, s->parts, rule, b.part);
    if (!error)
        error = build_run(&b);
    free(b.leaves);
    free(b.made);
    free(b.part);
    free(b.order);
    free(b.moved);
    return error;
}

/* ---- the end ---- */

static int part_clear(void *arg)
{
    const struct place *at = arg;
    build_forget(at->s, at->part, 0);
    build_forget(at->s, at->part, 1);
    memset(at->kept, 0, sizeof *at->kept);
    return 0;
}

/* Part 0 first: what is not there any more is not looked for. */
int ps_segment_clear(struct ps_segment *s)
{
    int error = parts_find(s, 1);
    for (unsigned p = 0; p < s->parts && !error; p++) {
        struct place at = {s, p, s->kept[p]};
        error = segment_write(s, part_clear, &at);
        if (!error && is_volatile(s)) {
            free(s->kept[p]);
            s->kept[p] = NULL;
        }
    }
    if (!error)
        s->head = NULL;
    return error;
}
