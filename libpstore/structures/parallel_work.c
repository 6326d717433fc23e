/* parallel_work.c - the threads of an administrator: traversers, retrievers, readers ahead. */
#include "parallel_private.h"

#include <errno.h>
#include <pstore.h>
#include <string.h>
#include <time.h>

struct worker {
    struct ps_administrator *a;
    struct say_work w;
    const struct query *copied;         /* of which query and node `copy` is */
    const void *copied_from;
    uint32_t copied_generation;
    _Alignas(16) char copy[PS_NODE_MAX];
};

/* ---- traversers ---- */

/* 1: there is no room for another leaf; -errno. Leaves are not touched. */
static int leaf_found(struct say_work *w, void *leaf)
{
    if (w->skip > 0)
        w->skip--;
    else if (w->count == w->room)
        return 1;
    else
        w->leaves[w->count++] = leaf;
    return 0;
}

static int branch_traverse(struct worker *k, void *branch, unsigned level)
{
    const struct ps_spread_kind *kind = k->a->what.kind;
    const struct ps_access *access = &k->a->access;
    const struct spread_query *q = &k->w.query->what;
    int result = kind->level(branch) == level ? 0 : -EUCLEAN;
    for (unsigned i = 0; result == 0; i++) {
        i = kind->wanted(access, q, branch, i);
        if (i == (unsigned)SPREAD_END)
            break;
        void *child = *kind->child(access, branch, i);
        result = level == 1 ? leaf_found(&k->w, child) : branch_traverse(k, child, level - 1);
    }
    return result;
}

/* In a snapshot. It is the query's: the first traverser shares it with all who work for the query
 * later. */
static int traverse(void *worker)
{
    struct worker *k = worker;
    struct ps_administrator *a = k->a;
    void *root = *a->what.kind->root(a->segment->head);
    const unsigned level = a->what.kind->level(root);
    const uint64_t skip = k->w.skip;
    k->w.count = 0;
    int result = level == 0 ? leaf_found(&k->w, root) : branch_traverse(k, root, level);
    k->w.skip = skip;
    if (result < 0)
        return result;
    k->w.more = result == 1;
    if (a->segment->part[0] && !k->w.query->snapshot) {
        int snapshot = ps_snapshot_share();
        if (snapshot < 0)
            return snapshot;
        k->w.query->snapshot = snapshot;
    }
    return 0;
}

/* ---- retrievers ---- */

static int leaf_copy(void *worker)
{
    struct worker *k = worker;
    memcpy(k->copy, k->w.leaf, k->a->access.head->node_bytes);
    return 0;
}

/* The leaf's records go to a buffer, from the one on that did not fit before. The transaction is
 * over when they do: it ends before a generator is told. */
static int retrieve(struct worker *k)
{
    struct say_work *w = &k->w;
    struct query *q = w->query;
    if (k->copied != q || k->copied_from != w->leaf || k->copied_generation != q->generation) {
        k->copied = NULL;
        int error = segment_read(k->a->segment, q->snapshot, leaf_copy, k);
        if (error)
            return error;
        k->copied = q;
        k->copied_from = w->leaf;
        k->copied_generation = q->generation;
    }
    if (k->a->what.kind->level(k->copy) != 0)
        return -EUCLEAN;
    char *buffer = q->pool->memory + (size_t)w->buffer * q->buffer_bytes;
    struct spread_batch to = {buffer, buffer + q->buffer_bytes};
    w->record = k->a->what.kind->extract(&k->a->access, &q->what, k->copy, w->record, &to);
    w->filled = (uint32_t)(to.to - buffer);
    return 0;
}

/* ---- */

static void work_do(struct worker *k)
{
    struct say_work *w = &k->w;
    w->error = 0;
    if (w->work == WORK_TRAVERSE)
        w->error = segment_read(k->a->segment, w->query->snapshot, traverse, k);
    else if (w->work == WORK_RETRIEVE)
        w->error = retrieve(k);
    else if (k->a->segment->part[0])
        ps_advise(w->leaf, k->a->access.head->node_bytes, PS_WILL_NEED);
    if (w->error)
        w->count = w->filled = w->more = 0;
}

void *administrator_work(void *administrator)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    struct worker k = {.a = administrator};
    int result;
    k.w.say = SAY_WORK;
    k.w.worker = __atomic_fetch_add(&k.a->begun, 1, __ATOMIC_SEQ_CST);
    while ((result = ps_ask(k.a->area, &k.w, sizeof k.w, -1)) == 0 || result == -ENOMEM)
        if (result == 0)
            work_do(&k);
        else
            nanosleep(&moment, NULL); /* the question or its answer was lost (LR6) */
    return NULL;
}
