/*
 * prepared.c - transactions of several stores by two-phase commit: what is prepared here and waits
 * for its coordinator's word, and what was decided here and may still be asked for.
 *
 * The images of one that is prepared are those of a chain (chain.c). Its PREPARED record lists
 * them; the transaction that commits it names them like any chain's, and has a DECIDED record. Both
 * kinds of doubts are in the log only. As long as one lives it has a hold that stays on its oldest
 * group, and is written again before half of the log is behind that.
 *
 * Invariants
 *   TP1  What is prepared stays so until a DECIDED record of its id is applied, and what is kept
 *        until it is forgotten, over any number of starts.
 *   TP2  keep_lsn is at or below each image and each record of a doubt. All together take an
 *        eighth of the log at most: they are written again once in a quarter, and it goes on. Twice
 *        their room is left to nobody else for that: a group that would take it is refused, and
 *        what is older is due. So is what keeps old epochs in their table (SB5).
 *   TP3  The commit of what is prepared is not refused for want of space: free extents and names
 *        for it are promised, and nobody else gets them. Nor for want of room in a group.
 *   TP4  Nobody else writes or frees its pages, those too that it claims and has not written, is
 *        told that they are unused, or deletes a container that has one of them.
 *   TP5  A checkpoint says how many doubts there were at its redo LSN, and the sum of which. A
 *        recovery that has met others in the log before that refuses: a vote is not forgotten
 *        because a group is lost.
 */
#include "internal.h"

#define RENEW_PART 4u                   /* written again when the log is so many parts of it on */

/* ---- records outside of transactions */

static int alone_room(struct store_group *group, uint32_t data_bytes)
{
    size_t used = group->used + record_room(data_bytes);
    int error = fence_get(group->store);
    if (error || group->state != GROUP_OPEN || group->in_txn)
        return error ?: -EINVAL;
    if (used > group->store->group_bytes)
        return group->records ? -ENOBUFS : -E2BIG;
    if (!log_fits(group->store, round_block(used)))
        return group->records ? -ENOBUFS : log_full(group->store);
    return 0;
}

static void record_of(struct doubt *d, struct store_group *group, struct record_disk *record)
{
    d->group = group;
    d->at = (size_t)((uint8_t *)record - group->buffer);
}

static struct record_disk *decided_add(struct doubt *d, struct store_group *group,
                                       enum decided what, uint32_t participants)
{
    uint32_t bytes = (uint32_t)(sizeof d->id + participants * sizeof(struct participant_disk));
    struct record_disk *record = record_add(group, RECORD_DECIDED, 0, what, bytes);
    record->base = le64_of(participants);
    memcpy(record + 1, &d->id, sizeof d->id);
    record_of(d, group, record);
    return record;
}

/* ---- prepare */

/* too_large tells if a chain's commit may not fit a group, whatever is in it (TP3). */
static bool too_large(const struct store *store, const struct store_chain *chain, uint32_t bytes)
{
    uint64_t pages = chain->count, group = store->group_bytes;
    if (bytes > group)
        return true;
    uint32_t record = record_room(prepared_bytes(pages, bytes));
    return doubt_blocks(pages, record) * BLOCK_BYTES > store->super.log_bytes / 8 ||  /* TP2 */
           record > group - BLOCK_BYTES ||
           pages * sizeof(struct record_disk) + 4ull * bytes > group - BLOCK_BYTES;
}

static int prepare_check(struct store_group *group, const struct store_chain *chain,
                         const struct store_prepare *what)
{
    struct store *store = group->store;
    if (chain->prepared || chain->commit_group || chain->done ||
        data_misleads(&what->id, sizeof what->id) || data_misleads(what->data, what->bytes) ||
        data_misleads(what->coordinator, sizeof what->coordinator))             /* LG6 */
        return -EINVAL;
    if (chain->home_pages)
        return -EOPNOTSUPP;
    if (chain->hold.expired || too_large(store, chain, what->bytes))
        return -E2BIG;
    if (doubt_find(store, &what->id))
        return -EEXIST;
    return alone_room(group, prepared_bytes(chain->count, what->bytes));
}

/* prepared_add adds a PREPARED record of the chain; sealing the group makes its table of pages. */
static void prepared_add(struct doubt *d, struct store_group *group,
                         const struct store_chain *chain)
{
    const struct record_disk *from = d->record;
    uint32_t extra = prepared_extra(from), bytes = prepared_bytes(chain->count, extra);
    struct record_disk *record = record_add(group, RECORD_PREPARED, 0, chain->count, bytes);
    struct prepared_disk *p = (void *)(record + 1);
    memset(p + 1, 0, bytes - sizeof *p);
    *p = *prepared_of(from);
    chain_encode(chain, &p->chain);
    record->base = le64_of(chain->number);
    memcpy((uint8_t *)p + bytes - extra, prepared_page_at(from, le64_get(from->page)), extra);
    record_of(d, group, record);
}

int store_prepare(struct store_group *group, struct store_chain *chain,
                  const struct store_prepare *what)
{
    struct store *store = group->store;
    struct doubt *d;
    int error = prepare_check(group, chain, what);
    if (error)
        return error;
    uint64_t extents = doubt_extents(store, chain);
    uint32_t bytes = prepared_bytes(chain->count, what->bytes);
    if (store->space.free < store->doubts.extents + extents ||
        doubt_names_free(store) < store->doubts.names + (uint64_t)what->names)
        return -ENOSPC;                                                         /* TP3 */
    error = doubt_new(store, &what->id, true, chain->count, record_room(bytes), &d);
    if (error)
        return error;
    d->chain = chain;
    error = alone_room(group, bytes);           /* room for what the doubt needs, too */
    if (error) {
        doubt_end(store, d);
        return error;
    }
    d->extents = extents;
    d->names = what->names;
    chain->prepared = true;
    doubt_promise(store, d, true);
    struct prepared_disk *p = (void *)(d->record + 1);
    d->record->page = le64_of(chain->count);
    d->record->data_bytes = le32_of(bytes);
    memcpy(p->id, &what->id, sizeof p->id);
    memcpy(p->coordinator, what->coordinator, sizeof p->coordinator);
    p->names = le32_of(what->names);
    if (what->bytes)
        memcpy((uint8_t *)p + bytes - what->bytes, what->data, what->bytes);
    prepared_add(d, group, chain);
    return 0;
}

void doubts_sealed(struct store_group *group)
{
    for (const struct doubt *d = group->store->doubts.first; d; d = d->next) {
        struct record_disk *record = (void *)(group->buffer + d->at);
        if (d->group != group || le16_get(record->type) != RECORD_PREPARED)
            continue;
        const struct store_chain *chain = d->fresh ?: d->chain;
        struct prepared_page_disk *page = (void *)((struct prepared_disk *)(record + 1) + 1);
        for (const struct spill_node *node = chain->ends.after; node != &chain->ends;
             node = node->after, page++) {
            page->object = le64_of(node->object);
            page->page = le64_of(node->page);
            page->lsn = le64_of(node->lsn + (node->group == group ? group->lsn : 0));
            page->crc = le32_of(node->crc);
        }
    }
}

void doubts_cancel(struct store_group *group, size_t from)
{
    struct store *store = group->store;
    for (struct doubt *d = store->doubts.first, *next; d; d = next) {
        next = d->next;
        if (d->group != group || d->at < from)
            continue;
        d->group = NULL;
        if (d->committing)
            doubt_promise(store, d, true);
        d->committing = false;
        if (d->lsn)
            continue;
        if (d->prepared) {
            doubt_promise(store, d, false);
            d->chain->prepared = false;         /* the caller's again */
        }
        doubt_end(store, d);
    }
}

/* ---- decide */

bool doubt_commits(const struct store_group *group, const struct store_chain *chain)
{
    const struct doubt *d = group->store->doubts.first;
    while (d && d->chain != chain)
        d = d->next;
    return d && d->committing && d->group == group && d->at >= group->txn_used;
}

/* doubt_free tells whether a record about the doubt may be added: 0, or why not. */
static int doubt_free(const struct doubt *d, bool prepared)
{
    return !d ? -ENOENT : d->group || !d->lsn ? -EBUSY
               : d->prepared == prepared ? 0 : prepared ? -EEXIST : -ENOENT;
}

static int decided_begin(struct store_group *group, const struct store_txn_id *id, uint32_t count,
                         struct doubt **out)
{
    uint32_t bytes = (uint32_t)(sizeof *id + count * sizeof(struct participant_disk));
    bool first = group->records == group->txn_records;
    int error = count > STORE_PARTICIPANTS_MAX || !first ? -EINVAL
                                                         : txn_room(group, record_room(bytes));
    *out = doubt_find(group->store, id);
    if (!error && *out)
        error = doubt_free(*out, true);
    else if (!error)
        error = doubt_new(group->store, id, false, 0, record_room(bytes), out);
    return error;
}

int store_txn_decided(struct store_group *group, const struct store_txn_id *id,
                      const struct store_participant *participants, uint32_t count)
{
    struct doubt *d;
    int error = txn_state(group) ?: decided_begin(group, id, count, &d);
    if (error)
        return txn_fail(group, error);
    struct record_disk *record = decided_add(d, group, d->prepared ? DECIDED_COMMIT : DECIDED_KEPT,
                                             count);
    struct participant_disk *to = (void *)((struct decided_disk *)(record + 1) + 1);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to[i].store, participants[i].store, sizeof to[i].store);
        to[i].number = le64_of(participants[i].number);
    }
    if (data_misleads(record + 1, le32_get(record->data_bytes)))
        return txn_fail(group, -EINVAL);                                        /* LG6 */
    if (!d->prepared)
        return 0;
    doubt_promise(group->store, d, false);                                            /* TP3 */
    d->committing = true;
    return store_txn_chain(group, d->chain);
}

static int decided_alone(struct store_group *group, const struct store_txn_id *id,
                         enum decided what)
{
    struct doubt *d = doubt_find(group->store, id);
    int error = alone_room(group, sizeof *id) ?: doubt_free(d, what == DECIDED_UNDO);
    if (error)
        return error == -EEXIST ? -ENOENT : error;
    decided_add(d, group, what, 0);
    return 0;
}

int store_undo(struct store_group *group, const struct store_txn_id *id)
{
    return decided_alone(group, id, DECIDED_UNDO);
}

int store_forget(struct store_group *group, const struct store_txn_id *id)
{
    return decided_alone(group, id, DECIDED_FORGET);
}

/* ---- written again */

bool doubts_fit(struct store *store, uint64_t end)
{
    bool fit = true;
    if (store->doubts.renewing)
        return true;
    end += 2 * store->doubts.blocks * BLOCK_BYTES;
    for (struct doubt *d = store->doubts.first; d && fit; d = d->next) {
        uint64_t lsn = hold_of(d)->lsn;
        fit = !lsn || end - lsn <= store->super.log_bytes;
    }
    if (!fit)
        store->doubts.anew_lsn = store->log.end;
    return fit;
}

/* doubt_due finds the doubt with the oldest hold of those that are due, or NULL. One that is being
 * written again goes on. */
static struct doubt *doubt_due(const struct store *store)
{
    struct doubt *oldest = NULL;
    const struct superblock *super = &store->super;
    uint64_t part = super->log_bytes / RENEW_PART, anew = store->doubts.anew_lsn;
    if (super->epoch_count > EPOCH_MAX / 2)                                     /* SB5 */
        anew = MAX(anew, super->epochs[super->epoch_count - 1].first_lsn);
    for (struct doubt *d = store->doubts.first; d; d = d->next) {
        if (!d->lsn || d->group)
            continue;
        uint64_t lsn = hold_of(d)->lsn;
        bool due = store->log.end - lsn > part || lsn < anew || d->fresh;
        if (due && (!oldest || lsn < hold_of(oldest)->lsn))
            oldest = d;
    }
    return oldest;
}

bool store_doubts_due(const struct store *store)
{
    return doubt_due(store) != NULL;
}

static int decision_renew(struct doubt *d, struct store_group *group)
{
    uint32_t count = (uint32_t)le64_get(d->record->base), bytes = le32_get(d->record->data_bytes);
    int error = alone_room(group, bytes);
    if (!error)
        memcpy(decided_add(d, group, DECIDED_AGAIN, count) + 1, d->record + 1, bytes);
    return error;
}

static int image_renew(struct doubt *d, struct store_group *group, const struct spill_node *node,
                       uint8_t *block)
{
    struct store *store = group->store;
    if (node_find(store, d->fresh, node->object, node->page))
        return 0;
    return block_read(&store->io, ring_offset(store, node->lsn), block, node->crc) ?:
           store_spill_page(group, d->fresh, node->object, node->page, block);
}

static int prepared_renew(struct doubt *d, struct store_group *group)
{
    struct store *store = group->store;
    uint8_t *block = store->memory.alloc(store->memory.context, BLOCK_BYTES);
    int error = !block ? -ENOMEM : d->fresh ? 0 : store_chain_begin(store, 0, &d->fresh);
    if (!error)
        d->fresh->hold.stays = true;
    for (const struct spill_node *node = d->chain->ends.after; node != &d->chain->ends && !error;
         node = node->after)
        error = image_renew(d, group, node, block);
    store_release(store, block, BLOCK_BYTES);
    error = error ?: alone_room(group, prepared_bytes(d->fresh->count, prepared_extra(d->record)));
    if (!error)
        prepared_add(d, group, d->fresh);
    return error;
}

int store_doubts_renew(struct store_group *group)
{
    struct store *store = group->store;
    struct doubt *d;
    int error = 0;
    while (!error && (d = doubt_due(store))) {
        store->doubts.renewing = true;
        error = d->prepared ? prepared_renew(d, group) : decision_renew(d, group);
        store->doubts.renewing = false;
    }
    return error == -ENOBUFS ? 1 : error;
}
