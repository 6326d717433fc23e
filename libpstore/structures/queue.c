/* queue.c - a queue: nodes of records in a list; one end grows, the other one shrinks. */
#include "queue.h"

#include <errno.h>
#include <string.h>

#include "structure_private.h"

struct ps_queue_node {
    struct ps_queue_node *next;
    uint64_t count;             /* of records that came */
    uint8_t records[];
};

static struct ps_queue *queue_of(const struct ps_queue_access *a)
{
    return (struct ps_queue *)(void *)a->base.head;
}

static uint64_t per_node(const struct ps_queue_access *a)
{
    return (a->base.type->node_bytes - sizeof(struct ps_queue_node)) / a->base.type->record_bytes;
}

static void *record_in(const struct ps_queue_access *a, const struct ps_queue_node *n, uint64_t i)
{
    return (uint8_t *)(uintptr_t)n->records + i * a->base.type->record_bytes;
}

int ps_queue_set_up(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_queue_access a;
    void *part[3];              /* as large as nodes: so each has a page of its own */
    int error = structure_begin(&a.base, i, type);
    if (error)
        return error;
    error = structure_take_all(&a.base, part, 3);
    if (error)
        return structure_end(&a.base, i, error);
    struct ps_queue *q = queue_of(&a);
    q->front = part[0];
    q->back = part[1];
    q->front->node = q->back->node = part[2];
    return structure_end(&a.base, i, 0);
}

int ps_queue_tear_down(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_queue_access a;
    ps_access_open(&a.base, i, type, PS_CHANGE);
    if (a.base.error)
        return a.base.error;
    struct ps_queue *q = queue_of(&a);
    for (struct ps_queue_node *n = q->front->node, *next; n; n = next) {
        next = n->next;
        structure_give(&a.base, n);
    }
    structure_give(&a.base, q->front);
    structure_give(&a.base, q->back);
    structure_clear(&a.base);
    return 0;
}

int ps_queue_push(struct ps_queue_access *a, const void *record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_queue_end *back = queue_of(a)->back;
    structure_claim(&a->base, back, &back->claim);
    struct ps_queue_node *n = back->node;
    structure_changes(&a->base, n);
    if (n->count == per_node(a)) {
        n = structure_take(&a->base);
        if (!n)
            return -errno;
        back->node->next = n;
        back->node = n;
    }
    memcpy(record_in(a, n, n->count++), record, a->base.type->record_bytes);
    return 0;
}

void *ps_queue_first(const struct ps_queue_access *a)
{
    if (a->base.error)
        return structure_none(a->base.error);
    const struct ps_queue_end *front = queue_of(a)->front;
    const struct ps_queue_node *n = front->node;
    if (front->left < n->count)
        return record_in(a, n, front->left);
    if (n->next)                /* the node behind a full one is never empty */
        return record_in(a, n->next, 0);
    return structure_none(-ENOENT);
}

int ps_queue_pop(struct ps_queue_access *a, void *record)
{
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    struct ps_queue_end *front = queue_of(a)->front;
    structure_claim(&a->base, front, &front->claim);
    const void *first = ps_queue_first(a);
    if (!first)
        return -ENOENT;
    memcpy(record, first, a->base.type->record_bytes);
    struct ps_queue_node *n = front->node;
    if (front->left == n->count) {              /* all of it left: the record is in the next one */
        front->node = n->next;
        front->left = 0;
        structure_give(&a->base, n);
    }
    front->left++;
    return 0;
}

void *ps_queue_next(struct ps_queue_range *r)
{
    const struct ps_queue_access *a = &r->access;
    if (a->base.error)
        return structure_none(a->base.error);
    if (!r->node) {
        r->node = queue_of(a)->front->node;
        r->at = queue_of(a)->front->left;
    }
    if (r->at == r->node->count && r->node->next) {
        r->node = r->node->next;
        r->at = 0;
    }
    return r->at < r->node->count ? record_in(a, r->node, r->at++) : structure_none(0);
}

static const char *check(const struct ps_queue_access *a, struct ps_queue_stats *stats)
{
    const struct ps_queue *q = queue_of(a);
    if (!q->front || !q->back || !q->front->node || !q->back->node)
        return "the head is spoilt";
    const struct ps_queue_node *n = q->front->node, *last = n;
    if (q->front->left > n->count)
        return "more records left a node than came";
    for (; n; last = n, n = n->next) {
        if (n->count > per_node(a) || (n->next && (n->count < per_node(a) || n->next->count == 0)))
            return "a node before the last is not full, or the last is empty";
        stats->records += n->count;
        stats->nodes++;
    }
    stats->records -= q->front->left;
    return last == q->back->node ? NULL : "the back is not at the last node";
}

int ps_queue_check(const struct ps_queue_access *a, struct ps_queue_stats *stats,
                   const char **why)
{
    struct ps_queue_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}
