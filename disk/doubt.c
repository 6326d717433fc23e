/*
 * doubt.c - the table of what is in doubt: what PREPARED and DECIDED records do to it, in a commit
 * and in a recovery, and who asks it. The rules are those of prepared.c.
 */
#include "internal.h"

static const struct store_txn_id *id_of(const struct record_disk *record)
{
    return (const void *)(record + 1);          /* the id is the first field of both */
}

struct doubt *doubt_find(const struct store *store, const struct store_txn_id *id)
{
    struct doubt *d = store->doubts.first;
    while (d && memcmp(&d->id, id, sizeof *id) != 0)
        d = d->next;
    return d;
}

uint32_t doubts_count(const struct store *store, uint32_t *sum)
{
    uint32_t count = 0, all = 0;
    for (const struct doubt *d = store->doubts.first; d; d = d->next)
        if (d->lsn) {
            all += crc32c(!d->prepared, &d->id, sizeof d->id);
            count++;
        }
    if (sum)
        *sum = count ? all | 1 : 0;
    return count;
}

/* ---- begin and end of one */

int doubt_new(struct store *store, const struct store_txn_id *id, bool prepared, uint64_t pages,
              uint32_t room, struct doubt **out)
{
    uint64_t blocks = doubt_blocks(pages, room);
    struct doubt **end = &store->doubts.first;
    if (prepared ? store->doubts.prepared >= STORE_PREPARED_MAX
                 : store->doubts.kept >= STORE_DECISIONS_MAX)
        return -EAGAIN;
    if (!store->replay.on &&
        (store->doubts.blocks + blocks) * BLOCK_BYTES > store->super.log_bytes / 8)
        return -EAGAIN;                                                         /* TP2 */
    while (*end)
        end = &(*end)->next;
    struct doubt *d = *out = *end = store_alloc(store, sizeof *d + room);
    if (!d)
        return -ENOMEM;
    d->id = *id;
    d->number = store->doubts.serial++;
    d->prepared = prepared;
    d->room = room;
    d->blocks = blocks;
    store->doubts.blocks += blocks;
    store->doubts.prepared += prepared;
    store->doubts.kept += !prepared;
    return 0;
}

void doubt_promise(struct store *store, const struct doubt *d, bool again)
{
    store->doubts.extents += again ? d->extents : -d->extents;
    store->doubts.names += again ? d->names : -d->names;
}

struct store_hold *hold_of(struct doubt *d)
{
    return d->prepared ? &d->chain->hold : &d->hold;
}

static void hold_stays(struct store *store, struct doubt *d)
{
    struct store_hold *hold = hold_of(d);
    if (!hold->lsn)
        hold_enter(store, hold, d->lsn, d->prev_crc);
    hold->stays = true;                                                         /* TP2 */
}

void doubt_end(struct store *store, struct doubt *d)
{
    struct doubt **at = &store->doubts.first;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    store->doubts.prepared -= d->prepared;
    store->doubts.kept -= !d->prepared;
    store->doubts.blocks -= d->blocks;
    store_hold_end(store, &d->hold);
    store_release(store, d->claims, d->claim_room * sizeof *d->claims);
    store_release(store, d, sizeof *d + d->room);
}

void doubts_drop(struct store *store)
{
    while (store->doubts.first)
        doubt_end(store, store->doubts.first);
}

/* ---- what is promised (TP3) */

uint64_t doubt_extents(const struct store *store, const struct store_chain *chain)
{
    uint64_t wanted = 0, n = store->extent_pages;
    for (const struct spill_node *node = chain->ends.after; node != &chain->ends;
         node = node->after) {
        uint64_t first = node->page / n * n;
        bool counted = false;
        for (uint64_t page = first; page < first + n && !counted; page++)
            counted = node_find(store, chain, node->object, page) &&
                      (page < node->page || plan_page_present(store, node->object, page));
        wanted += !counted;
    }
    return wanted;
}

/* claim_extents counts the extents of claimed pages in which the chain has no image. Others may
 * free what lies in them now, so each counts. */
static uint64_t claim_extents(const struct store *store, const struct store_chain *chain,
                              const struct doubt_claim *claim)
{
    uint64_t wanted = 0, n = store->extent_pages, last = (claim->first + claim->count - 1) / n;
    for (uint64_t extent = claim->first / n; extent <= last; extent++) {
        uint64_t page = extent * n;
        while (page < (extent + 1) * n && !node_find(store, chain, claim->object, page))
            page++;
        wanted += page == (extent + 1) * n;
    }
    return wanted;
}

static bool claim_less(const void *a, const void *b)
{
    const struct doubt_claim *x = a, *y = b;
    return x->object != y->object ? x->object < y->object : x->first < y->first;
}

/* claims_join makes sorted claims disjoint. */
static void claims_join(struct doubt *d)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->claim_count; i++) {
        const struct doubt_claim c = d->claims[i];
        struct doubt_claim *last = kept ? &d->claims[kept - 1] : NULL;
        if (last && last->object == c.object && c.first <= last->first + last->count)
            last->count = MAX(last->count, c.first + c.count - last->first);
        else
            d->claims[kept++] = c;
    }
    d->claim_count = kept;
}

int store_doubt_claims(struct store *store, const struct store_txn_id *id,
                       const struct store_op *ops, uint32_t count)
{
    struct doubt *d = doubt_find(store, id);
    uint32_t claims = 0;
    uint64_t wanted = 0;
    if (!d || !d->prepared || d->claims)
        return -ENOENT;
    for (uint32_t i = 0; i < count; i++)
        claims += ops[i].type == STORE_OP_PAGE_CLAIM;
    if (!claims)
        return 0;
    d->claims = store_alloc(store, claims * sizeof *d->claims);
    if (!d->claims)
        return -ENOMEM;
    d->claim_room = claims;
    for (uint32_t i = 0; i < count; i++)
        if (ops[i].type == STORE_OP_PAGE_CLAIM && ops[i].count)
            d->claims[d->claim_count++] = (struct doubt_claim){ops[i].object, ops[i].page,
                                                               ops[i].count};
    array_sort(d->claims, d->claim_count, sizeof *d->claims, claim_less);
    claims_join(d);
    for (uint32_t i = 0; i < d->claim_count; i++)
        wanted += claim_extents(store, d->chain, &d->claims[i]);
    d->extents += wanted;
    store->doubts.extents += wanted;
    return store->space.free < store->doubts.extents ? -ENOSPC : 0;
}

uint64_t doubt_names_free(const struct store *store)
{
    uint64_t set = (uint64_t)store->kept.names + store->groups[0].names_set +
                   store->groups[1].names_set,
             most = store->super.names_pages_max * NAMES_PER_PAGE;
    return set < most ? most - set : 0;
}

/* ---- what a record does: a commit and recovery alike */

/* doubt_met enters one in recovery. If it was written again, it takes the place of what it was. */
static int doubt_met(struct store *store, const struct record_disk *record, bool prepared,
                     struct doubt **out)
{
    struct doubt *before = doubt_find(store, id_of(record));
    if (before && before->prepared != prepared)
        return -EUCLEAN;
    if (before)
        doubt_end(store, before);
    int error = doubt_new(store, id_of(record), prepared, prepared ? le64_get(record->page) : 0,
                          le32_get(record->length), out);
    return error == -EAGAIN ? -EUCLEAN : error;
}

/* prepared_check checks a record that recovery meets. 1: it is passed over, for its chain begins
 * before the scan: at the redo LSN it was over, or written again, else its hold had kept that. */
static int prepared_check(const struct store *store, const struct record_disk *record,
                          uint64_t lsn, uint64_t redo)
{
    uint64_t pages = le64_get(record->page), bytes = le32_get(record->data_bytes),
             table = sizeof(struct prepared_page_disk);
    bool valid = bytes >= sizeof(struct prepared_disk) &&
                 pages <= (bytes - sizeof(struct prepared_disk)) / table &&
                 le64_get(prepared_of(record)->chain.chain) == le64_get(record->base);
    uint64_t head = valid ? le64_get(prepared_of(record)->chain.head_lsn) : 0;
    if (head && lsn < redo && head < store->replay.from)
        return 1;
    return valid ? chain_stands(store, &prepared_of(record)->chain, lsn) : -EUCLEAN;
}

/* record_keep notes that what a record is about is prepared, or kept, from now on, or once more. */
static int record_keep(struct store *store, const struct record_disk *record, bool prepared,
                       const uint8_t *group, uint64_t lsn, uint64_t redo)
{
    struct doubt *d = doubt_find(store, id_of(record));
    int error = store->replay.on && prepared ? prepared_check(store, record, lsn, redo) : 0;
    if (!error && store->replay.on)
        error = doubt_met(store, record, prepared, &d);
    if (error)
        return error < 0 ? error : 0;
    memcpy(d->record, record, le32_get(record->length));
    d->lsn = lsn;
    d->prev_crc = le32_get(((const struct group_disk *)group)->prev_crc);
    d->group = NULL;
    if (store->replay.on)
        return 0;
    if (d->fresh) {
        store_chain_end(d->chain);
        d->chain = d->fresh;
        d->chain->prepared = true;
        d->fresh = NULL;
    }
    store_hold_end(store, &d->hold);
    d->hold.lsn = 0;
    hold_stays(store, d);
    return 0;
}

/* ended_apply ends one: its chain is nobody's, but its commit's group, if any, needs the images. */
static void ended_apply(struct store *store, struct doubt *d)
{
    if (d->prepared && !store->replay.on) {
        if (!d->committing)
            doubt_promise(store, d, false);
        d->chain->prepared = false;
        if (d->fresh)
            store_chain_end(d->fresh);
        if (d->chain->commit_group)
            d->chain->orphan = true;
        else
            store_chain_end(d->chain);
    }
    doubt_end(store, d);
}

static int decided_apply(struct store *store, const struct record_disk *record,
                         const uint8_t *group, uint64_t lsn, uint64_t redo)
{
    uint64_t what = le64_get(record->page), count = le64_get(record->base);
    struct doubt *d = doubt_find(store, id_of(record));
    if (count > STORE_PARTICIPANTS_MAX || what >= DECIDED_COUNT ||
        le32_get(record->data_bytes) != sizeof(struct decided_disk) +
                                        count * sizeof(struct participant_disk))
        return -EUCLEAN;
    if (what == DECIDED_KEPT || what == DECIDED_AGAIN)
        return record_keep(store, record, false, group, lsn, redo);
    if (d && d->lsn && d->prepared != (what == DECIDED_FORGET))
        ended_apply(store, d);
    else if (lsn >= redo)               /* if before, it may have begun before the scan */
        return -EUCLEAN;
    return 0;
}

int doubt_apply(struct store *store, const struct record_disk *record, const uint8_t *group,
                uint64_t lsn, uint64_t redo)
{
    if (le32_get(record->data_bytes) < sizeof(struct store_txn_id))
        return -EUCLEAN;
    return le16_get(record->type) == RECORD_PREPARED
               ? record_keep(store, record, true, group, lsn, redo)
               : decided_apply(store, record, group, lsn, redo);
}

/* ---- the end of a recovery */

/* image_restore adds an image, which must be there, and of a page that can be. Of a container that
 * has lost what it had (UL1) there is nothing to be committed. */
static int image_restore(struct store *store, struct doubt *d, const struct prepared_page_disk *p)
{
    uint64_t object = le64_get(p->object), page = le64_get(p->page), lsn = le64_get(p->lsn);
    const struct container_disk *container = directory_get(store, object, NULL);
    if (!container || page >= container_pages(container) || lsn % BLOCK_BYTES ||
        lsn < store->replay.from || lsn >= store->log.end ||
        node_find(store, d->chain, object, page) ||
        store_page_prepared(store, object, page))
        return -EUCLEAN;
    if (container_unlogged(container))
        return 0;
    return block_read(&store->io, ring_offset(store, lsn), meta_block(store), le32_get(p->crc)) ?:
           chain_node_add(d->chain, object, page, lsn, le32_get(p->crc));
}

static int prepared_restore(struct store *store, struct doubt *d)
{
    uint64_t pages = le64_get(d->record->page);
    int error = store_chain_begin(store, 0, &d->chain);
    if (error)
        return error;
    chain_restore(d->chain, le64_get(d->record->base));
    if (pages > store->super.log_bytes / BLOCK_BYTES)
        return -EUCLEAN;
    for (uint64_t i = 0; i < pages && !error; i++)
        error = image_restore(store, d, prepared_page_at(d->record, i));
    if (error)
        return error;
    d->chain->prepared = true;
    hold_stays(store, d);
    d->extents = doubt_extents(store, d->chain);
    d->names = le32_get(prepared_of(d->record)->names);
    doubt_promise(store, d, true);
    return 0;
}

int doubts_restore(struct store *store)
{
    int error = 0;
    for (struct doubt *d = store->doubts.first; d && !error; d = d->next)
        if (d->prepared)
            error = prepared_restore(store, d);
        else
            hold_stays(store, d);
    return error;
}

/* ---- what others may not do (TP4) */

bool doubt_claims(const struct store *store, const struct store_group *group, uint64_t object,
                  uint64_t page, uint64_t count, uint64_t *end)
{
    for (const struct doubt *d = store->doubts.first; d; d = d->next) {
        uint32_t low = 0, high = d->claim_count;
        while (low < high) {            /* the first that ends behind `page` */
            uint32_t middle = (low + high) / 2;
            const struct doubt_claim *c = &d->claims[middle];
            if (c->object < object || (c->object == object && c->first + c->count <= page))
                low = middle + 1;
            else
                high = middle;
        }
        const struct doubt_claim *c = &d->claims[low];
        if (low == d->claim_count || c->object != object ||
            (group && doubt_commits(group, d->chain)))
            continue;
        if (c->first <= page || c->first - page < count) {
            *end = c->first + c->count;
            return true;
        }
    }
    return false;
}

bool doubt_has_page(const struct store *store, const struct store_group *group, uint64_t object,
                    uint64_t page)
{
    const struct spill_node *node = NULL;
    uint64_t end;
    if (store->doubts.prepared)
        node = node_first(store, object, page);
    for (; node; node = node->next)
        if (node->object == object && node->page == page && node->chain && node->chain->prepared &&
            !(group && doubt_commits(group, node->chain)))
            return true;
    return doubt_claims(store, group, object, page, 1, &end);
}

bool store_page_prepared(const struct store *store, uint64_t object, uint64_t page)
{
    return doubt_has_page(store, NULL, object, page);
}

bool doubt_has_range(const struct store_group *group, uint64_t object, uint64_t page,
                     uint64_t count)
{
    const struct store *store = group->store;
    uint64_t end;
    if (!store->doubts.prepared)
        return false;
    for (const struct store_chain *chain = store->chains; chain; chain = chain->next) {
        if (!chain->prepared || doubt_commits(group, chain))
            continue;
        for (const struct spill_node *node = chain->ends.after; node != &chain->ends;
             node = node->after)
            if (node->object == object && node->page >= page && node->page - page < count)
                return true;
    }
    return doubt_claims(store, group, object, page, count, &end);
}

/* ---- seeing them */

static void doubt_tell(const struct doubt *d, struct store_doubt *out)
{
    const struct record_disk *record = d->record;
    *out = (struct store_doubt){ .id = d->id, .prepared = d->prepared };
    out->data = record;
    if (!out->prepared) {
        out->data = (const struct decided_disk *)(record + 1) + 1;
        out->participants = (uint32_t)le64_get(record->base);
        return;
    }
    memcpy(out->coordinator, prepared_of(record)->coordinator, sizeof out->coordinator);
    out->pages = d->chain->count;
    out->data = prepared_page_at(record, le64_get(record->page));
    out->bytes = prepared_extra(record);
}

int store_doubt_next(const struct store *store, uint64_t *cursor, struct store_doubt *out)
{
    const struct doubt *d = store->doubts.first;
    while (d && (d->number < *cursor || !d->lsn))
        d = d->next;
    if (!d)
        return -ENOENT;
    *cursor = d->number + 1;
    doubt_tell(d, out);
    return 0;
}

int store_doubt_find(const struct store *store, const struct store_txn_id *id,
                     struct store_doubt *out)
{
    const struct doubt *d = doubt_find(store, id);
    if (!d || !d->lsn)
        return -ENOENT;
    doubt_tell(d, out);
    return 0;
}

struct store_participant store_doubt_participant(const struct store_doubt *doubt, uint32_t i)
{
    const struct participant_disk *p = (const struct participant_disk *)doubt->data + i;
    struct store_participant out = { .number = le64_get(p->number) };
    memcpy(out.store, p->store, sizeof out.store);
    return out;
}

bool store_doubt_page(const struct store *store, const struct store_doubt *doubt, uint64_t *cursor,
                      struct store_doubt_page *out)
{
    const struct doubt *d = doubt_find(store, &doubt->id);
    for (; d && d->chain && *cursor < le64_get(d->record->page);) {
        const struct prepared_page_disk *p = prepared_page_at(d->record, (*cursor)++);
        *out = (struct store_doubt_page){ .object = le64_get(p->object), .page = le64_get(p->page),
            .offset_bytes = ring_offset(store, le64_get(p->lsn)), .crc = le32_get(p->crc) };
        if (node_find(store, d->chain, out->object, out->page))
            return true;
    }
    return false;
}

