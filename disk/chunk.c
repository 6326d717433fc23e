/*
 * chunk.c - checkpoints by chunks: runs of pages with redo points of their own.
 *
 * A checkpoint as such asks for a full image of every page that commits after it, at once, and
 * waits until all that are older are home. By chunks, a sweep over the extents gives one chunk
 * after the other its redo point; its older pages go home before the next one has its turn. When
 * all had theirs, metadata may be saved as of any moment: what is not home then is in the log, from
 * the sweep's beginning on. A chunk is made of whole extents, for these hold the redo points.
 *
 * Invariants
 *   CU1  No record of a page that is a difference has a base from before its chunk's redo point. So
 *       the records that lead to a page's newest version, back to a full one, are all newer than
 *       the newest redo point at or before that version.
 *   CU2  A chunk gets its redo point between two groups: nothing that is logged is half done in it.
 *   CU3  When a sweep is through, every dirty page is at least as new as its chunk's redo point,
 *       and that is at least as new as the sweep. So with CU1 the log from the sweep's beginning on
 *       has all that leads to what is not home; and with what chains and holds needed then, all
 *       images that are named there.
 *   CU4  No call looks at more extents than step_pages allows, and a chunk's.
 */
#include "internal.h"

#define VISITS 64u              /* extents for each metadata page of a step */

int store_sweep_begin(struct store *store)
{
    struct sweep *s = &store->sweep;
    uint64_t lsn = store->log.applied;
    uint32_t crc = store->log.applied_crc;
    int error = fence_get(store) ?: store->checkpoint.running || s->old ? -EBUSY : 0;
    if (error)
        return error;
    *s = (struct sweep){ .on = true, .newest = s->newest,
                         .from = { .pages_lsn = lsn, .pages_crc = crc,
                                   .scan_lsn = lsn, .scan_crc = crc } };
    holds_oldest(store, &s->from);
    return 0;
}

/* extent_turn makes the extent's pages need full images from now on; dirty ones are old. */
static void extent_turn(struct store *store, struct extent *e)
{
    e->redo = store->sweep.newest = store->log.applied;                         /* CU2 */
    store->sweep.old += (uint64_t)__builtin_popcount(e->dirty);
}

static void chunk_turn(struct store *store, const struct store_chunk *chunk)
{
    uint32_t n = store->extent_pages;
    for (uint64_t i = chunk->page / n; i < (chunk->page + chunk->count) / n; i++) {
        struct leaf_disk *leaf = hash_find(store, chunk->object, i, NULL);
        if (leaf)
            extent_turn(store, &store->extents[le64_get(leaf->physical)]);
    }
}

/* chunk_of returns the chunk of an extent: whole extents, at least one. */
static struct store_chunk chunk_of(const struct store *store, const struct extent *e,
                                   uint64_t object, uint64_t size)
{
    uint64_t n = store->extent_pages, page = e->index * n;
    size = size > STORE_CHUNK_MAX ? STORE_CHUNK_MAX : size < n ? n : size / n * n;
    page -= page % size;
    return (struct store_chunk){ .object = object, .page = page, .count = size, .cursor = page };
}

int store_chunk_begin(struct store *store, store_chunk_fn *size, void *context,
                      struct store_chunk *chunk)
{
    struct sweep *s = &store->sweep;
    int error = fence_get(store) ?: !s->on ? -EINVAL :
                s->old || !groups_idle(store) ? -EBUSY : 0;                     /* CU2 */
    if (error)
        return error;
    for (uint32_t visits = store->step_pages * VISITS; s->cursor < store->space.top; s->cursor++) {
        struct extent *e = &store->extents[s->cursor];
        if (!visits--)
            return -EAGAIN;                                                     /* CU4 */
        if (e->state != EXTENT_USED || (e->dirty && e->redo >= s->from.pages_lsn))
            continue;                   /* the extent had its turn with its chunk */
        if (!e->dirty) {
            extent_turn(store, e);
            continue;
        }
        uint64_t object = le64_get(directory_slot(store, e->slot)->object);
        *chunk = chunk_of(store, e, object, size ? size(context, object) : 0);
        chunk_turn(store, chunk);
        return 0;
    }
    s->done = true;
    return -ENOENT;
}

int store_chunk_next(struct store *store, struct store_chunk *chunk, uint64_t *page,
                     store_lsn_t *lsn)
{
    uint32_t n = store->extent_pages;
    uint64_t end = chunk->page + chunk->count;
    for (; store->sweep.old && chunk->cursor < end; chunk->cursor++) {
        uint32_t p = (uint32_t)(chunk->cursor % n);
        struct leaf_disk *leaf = hash_find(store, chunk->object, chunk->cursor / n, NULL);
        const struct extent *e = leaf ? &store->extents[le64_get(leaf->physical)] : NULL;
        if (!leaf || !(e->dirty >> p & 1) || le64_get(leaf_lsn(store, leaf)[p]) >= e->redo)
            continue;
        *page = chunk->cursor++;
        *lsn = le64_get(leaf_lsn(store, leaf)[p]);
        return 0;
    }
    chunk->cursor = chunk->page;
    return store->sweep.old ? -EAGAIN : -ENOENT;
}

/* sweep_end ends a sweep, as a checkpoint begins. True: that is one by chunks, from *info. */
bool sweep_end(struct store *store, struct checkpoint_info *info)
{
    struct sweep *s = &store->sweep;
    bool done = s->on && s->done && !s->old;                                    /* CU3 */
    s->on = s->done = false;
    if (done)
        *info = s->from;
    return done;
}

store_lsn_t store_full_newest(const struct store *store)
{
    return MAX(store->log.redo, store->sweep.newest);
}

store_lsn_t store_chunk_full_below(const struct store *store, uint64_t object, uint64_t page)
{
    struct leaf_disk *leaf = hash_find(store, object, page / store->extent_pages, NULL);
    return leaf ? extent_redo(store, &store->extents[le64_get(leaf->physical)]) : store->log.redo;
}
