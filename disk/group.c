/*
 * group.c - transactions and commit groups.
 *
 *     IDLE --begin--> OPEN --seal--> SEALED --issue--> ISSUED --flush--> DURABLE --apply--> IDLE
 *                      |cancel          \__ write or flush failed __> FAILED ----apply------^
 *
 * Records are written straight into the group's buffer. A transaction that fails is taken off its
 * end again, with its claims. Sealing fixes LSN and CRC; the bytes do not change afterwards.
 *
 * Invariants
 *   LG1  A group is one contiguous write inside the ring; where it does not fit before the end of
 *       the ring it lies at the start, and its LSN skips the rest.
 *   LG2  Group n+1 is durable only after group n: its flush is issued after both are written, and
 *       groups are applied, and so acknowledged, in order, and none behind one that has failed.
 *   LG3  No byte at or after keep_lsn is overwritten.
 *   LG4  All bytes written are defined: padding is zero.
 *   LG5  A difference from a version of its own group has as base the place of that one's commit,
 *       which becomes the LSN when the group is sealed. Those that were taken off are left alone.
 */
#include "internal.h"

#define COMMIT_ROOM (sizeof(struct record_disk) + sizeof(struct chain_disk))

uint64_t log_place(const struct store *store, uint64_t lsn, uint64_t bytes)
{
    uint64_t left = store->super.log_bytes - lsn % store->super.log_bytes;
    return bytes <= left ? lsn : lsn + left;
}

bool log_fits(struct store *store, size_t bytes)
{
    uint64_t end = log_place(store, store->log.end, bytes) + bytes;
    return end - store->log.keep <= store->super.log_bytes && doubts_fit(store, end);   /* LG3 */
}

int log_full(struct store *store)
{
    store->log.short_of = true;
    return -EAGAIN;
}

uint64_t store_log_free(const struct store *store)
{
    uint64_t used = store->log.end - store->log.keep;
    return used < store->super.log_bytes ? store->super.log_bytes - used : 0;
}

store_lsn_t store_full_below(const struct store *store)
{
    return store->log.redo;
}

int store_group_begin(struct store *store, struct store_group **out)
{
    struct store_group *group = &store->groups[store->next_group];
    int error = fence_get(store) ?: group->state != GROUP_IDLE ||
                never(store->groups[!store->next_group].state == GROUP_OPEN) ? -EBUSY : 0;
    if (error)
        return error;
    group->store = store;
    group->state = GROUP_OPEN;
    group->error = 0;
    group_reach(group, group->used);
    group->used = sizeof(struct group_disk);
    group->records = group->txns = group->open_base = 0;
    group->first_tag = group->seen.object = 0;
    group->in_txn = false;
    group->spill.chain = NULL;
    group->commits.time = group->commits.last = 0;
    group->last_at = 0;
    *out = group;
    return 0;
}

/* ---- one transaction */

/* group_reach notes that bytes before `end` may have been written to (tail_zero). */
void group_reach(struct store_group *group, size_t end)
{
    group->zero.from = MAX(group->zero.from, end);
}

int store_txn_begin(struct store_group *group, uint64_t tag)
{
    if (group->state != GROUP_OPEN || group->in_txn)
        return -EINVAL;
    group->in_txn = true;
    group->tag = tag;
    group->commits.id = 0;
    group->txn_error = 0;
    group->txn_used = group->used;
    group->txn_claims = group->claims.count;
    group->txn_ops = group->op_count;
    group->txn_records = group->records;
    group->txn_open_base = group->open_base;
    group->txn_wanted = group->pages_wanted;
    group->txn_leaves = group->leaves_wanted;
    group->txn_next_object = group->store->plan_next_object;
    group->txn_cursor_gib = group->store->plan_cursor_gib;
    group->txn_chain = NULL;
    group->diff.max = 0;
    return 0;
}

void store_txn_id(struct store_group *group, uint64_t id)
{
    group->commits.id = id;
}

void store_group_time(struct store_group *group, uint64_t nanoseconds)
{
    group->commits.time = nanoseconds;
}

int txn_fail(struct store_group *group, int error)
{
    if (group->in_txn && !group->txn_error)
        group->txn_error = error;
    return error;
}

int txn_state(const struct store_group *group)
{
    return group->state != GROUP_OPEN || !group->in_txn ? -EINVAL : group->txn_error;
}

void store_txn_cancel(struct store_group *group)
{
    if (group->state != GROUP_OPEN || !group->in_txn)
        return;
    plan_rewind(group, group->txn_claims, group->txn_ops);
    doubts_cancel(group, group->txn_used);
    group_reach(group, group->used);
    group->used = group->txn_used;
    group->records = group->txn_records;
    group->open_base = group->txn_open_base;
    group->pages_wanted = group->txn_wanted;
    group->leaves_wanted = group->txn_leaves;
    group->store->plan_next_object = group->txn_next_object;
    group->store->plan_cursor_gib = group->txn_cursor_gib;
    group->seen.object = 0;
    group->in_txn = false;
}

/* txn_room tells whether there is room for `bytes` more, and the commit record after them. */
int txn_room(const struct store_group *group, size_t bytes)
{
    size_t need = bytes + COMMIT_ROOM;
    if (need <= group->store->group_bytes - group->used)
        return 0;
    size_t own = group->used - group->txn_used + sizeof(struct group_disk) + need;
    return own > group->store->group_bytes ? -E2BIG : -ENOBUFS;
}

uint32_t record_room(uint32_t data_bytes)
{
    return (uint32_t)sizeof(struct record_disk) + (data_bytes + 7) / 8 * 8;
}

/* record_add adds a record with room for data_bytes behind it. Padding is zeroed. */
inline struct record_disk *record_add(struct store_group *group, enum record_type type,
                                      uint64_t object, uint64_t page, uint32_t data_bytes)
{
    uint32_t length = record_room(data_bytes);
    struct record_disk *record = (void *)(group->buffer + group->used);
    *record = (struct record_disk){ .length = le32_of(length), .type = le16_of(type),
                                    .data_bytes = le32_of(data_bytes), .object = le64_of(object),
                                    .page = le64_of(page) };
    uint32_t padding = length - (uint32_t)sizeof *record - data_bytes;
    if (padding != 4)                       /* as behind a run of words, mostly */
        memset((uint8_t *)(record + 1) + data_bytes, 0, padding);
    else
        *(le32 *)((uint8_t *)(record + 1) + data_bytes) = le32_of(0);
    group->last_at = group->used;
    group->used += length;
    group->records++;
    return record;
}

int store_txn_page(struct store_group *group, uint64_t object, uint64_t page, const void *bytes)
{
    uint64_t physical;
    int error = txn_state(group) ?:
                txn_room(group, record_room(STORE_PAGE_BYTES)) ?:
                plan_page_write(group, object, page, NULL, &physical);
    if (error)
        return txn_fail(group, error);
    struct record_disk *record = record_add(group, RECORD_PAGE_FULL, object, page,
                                            STORE_PAGE_BYTES);
    record->physical = le64_of(physical);
    memcpy(record + 1, bytes, STORE_PAGE_BYTES);
    return 0;
}

int store_txn_move(struct store_group *group, uint64_t object, uint64_t page,
                   const void *const bytes[])
{
    uint32_t n = group->store->extent_pages;
    uint64_t physical;
    int error = txn_state(group) ?:
                page % n || plan_unlogged(group, object) ? -EINVAL :
                txn_room(group, record_room(0)) ?:
                plan_pages_exist(group, object, page, n) ?:
                plan_extent_move(group, object, page / n, &physical);
    if (error)
        return txn_fail(group, error);
    record_add(group, RECORD_MOVE, object, page, 0)->physical = le64_of(physical);
    for (uint32_t i = 0; i < n && !error; i++)
        if (plan_page_present(group->store, object, page + i))
            error = bytes[i] ? store_txn_page(group, object, page + i, bytes[i]) : -EINVAL;
    return error ? txn_fail(group, error) : 0;
}

int store_txn_diff_space(struct store_group *group, uint32_t bytes_max, void **runs)
{
    uint32_t room = record_room(bytes_max);
    int error = txn_state(group) ?:
                bytes_max > 2 * STORE_PAGE_BYTES ? -EINVAL : txn_room(group, room);
    if (error)
        return txn_fail(group, error);
    group->diff.at = group->used;
    group->diff.max = bytes_max;
    group_reach(group, group->used + room);
    *runs = group->buffer + group->used + sizeof(struct record_disk);
    return 0;
}

int store_txn_diff_done(struct store_group *group, uint64_t object, uint64_t page,
                        store_lsn_t base_lsn, uint32_t bytes)
{
    uint64_t physical;
    const uint8_t *runs = group->buffer + group->used + sizeof(struct record_disk);
    int error = txn_state(group) ?:
                group->diff.at != group->used || bytes > group->diff.max ? -EINVAL :
                runs_check(runs, bytes) ?:
                plan_page_write(group, object, page, &base_lsn, &physical);
    if (error)
        return txn_fail(group, error);
    struct record_disk *record = record_add(group, RECORD_PAGE_DIFF, object, page, bytes);
    record->physical = le64_of(physical);
    record->base = le64_of(base_lsn & ~BASE_OPEN);
    if (base_lsn & BASE_OPEN) {         /* until bases_seal, crc is the place of the one before */
        record->crc = le32_of(group->open_base);
        group->open_base = (uint32_t)group->diff.at;
    }
    group->diff.max = 0;
    return 0;
}

/* ---- directory operations */

/* op_encode puts a directory operation's payload into the caller's scratch; returns its size. */
static uint32_t op_encode(const struct store_op *op, const struct planned_op *plan,
                          struct container_disk *scratch)
{
    struct segment_disk segment = { le32_of(plan->first_gib), le32_of(plan->gib) };
    void *to = scratch;
    switch (plan->type) {
    case RECORD_CREATE:
        memset(scratch, 0, sizeof *scratch);
        name_copy(scratch->name, op->name);
        scratch->flags = le32_of(op->flags);
        scratch->encoder = le16_of(op->encoder);
        scratch->locking = le16_of(op->locking);
        scratch->protection = le16_of((uint16_t)op->protection);
        scratch->durability = le16_of(op->durability);
        scratch->segment_count = le32_of(1);
        scratch->segments[0] = segment;
        return CREATE_BYTES;
    case RECORD_GROW:
        *(struct segment_disk *)to = segment;
        return sizeof segment;
    case RECORD_LAYOUT: {
        struct layout_disk *layout = to;
        name_copy(layout->type, op->layout->type);
        layout->version = le32_of(op->layout->version);
        layout->bytes = le32_of(op->layout->bytes);
        layout->root = le64_of(op->address);
        return sizeof *layout;
    }
    case RECORD_NAME_SET: {
        struct name_value_disk *value = to;
        name_copy(value->name, op->name);
        value->address = le64_of(op->address);
        value->bytes = le64_of(op->bytes);
        return sizeof *value;
    }
    case RECORD_RENAME:
    case RECORD_NAME_UNSET:
        name_copy(to, op->name);
        return STORE_NAME_BYTES;
    default:
        return 0;
    }
}

static int op_page_free(struct store_group *group, const struct store_op *op)
{
    int error = plan_page_free(group, op->object, op->page, op->count);
    if (error)
        return error;
    record_add(group, RECORD_PAGE_FREE, op->object, op->page, 0)->base = le64_of(op->count);
    return 0;
}

/* op_page_claim logs a record for each run of pages whose extents follow one another on disk. */
static int op_page_claim(struct store_group *group, const struct store_op *op)
{
    uint64_t n = group->store->extent_pages, page = op->page, end = page + op->count, last = 0,
             physical;
    struct record_disk *record = NULL;
    int error = op->count ? plan_pages_exist(group, op->object, page, op->count) : -EINVAL;
    for (uint64_t next; page < end && !error; page = next) {
        next = MIN(end, (page / n + 1) * n);
        uint32_t bits = (uint32_t)((1ull << (next - page)) - 1) << page % n;
        error = plan_extent_claim(group, op->object, page / n, bits, &physical);
        if (!error && (!record || physical != last + 1)) {
            error = txn_room(group, record_room(0));
            if (error)
                break;
            record = record_add(group, RECORD_PAGE_CLAIM, op->object, page, 0);
            record->physical = le64_of(physical);
        }
        if (!error)
            record->base = le64_of(next - le64_get(record->page));
        last = physical;
    }
    return error;
}

int store_txn_op(struct store_group *group, struct store_op *op)
{
    struct planned_op plan;
    struct container_disk scratch;
    bool pages = op->type == STORE_OP_PAGE_FREE || op->type == STORE_OP_PAGE_CLAIM;
    int error = txn_state(group) ?: txn_room(group, record_room(CREATE_BYTES)) ?:
                op->type == STORE_OP_PAGE_FREE  ? op_page_free(group, op) :
                op->type == STORE_OP_PAGE_CLAIM ? op_page_claim(group, op) :
                                                  plan_op(group, op, &plan);
    if (error || pages)
        return error ? txn_fail(group, error) : 0;
    uint32_t bytes = op_encode(op, &plan, &scratch);
    if (op->type != STORE_OP_NAME_UNSET && data_misleads(&scratch, bytes))      /* LG6 */
        return txn_fail(group, -EINVAL);    /* but an older store's names may go */
    uint64_t page = choice_count(plan.type) ? choice_value(op) : 0;
    memcpy(record_add(group, plan.type, plan.object, page, bytes) + 1, &scratch, bytes);
    return 0;
}

static const struct record_disk *commit_add(struct store_group *group)
{
    const struct store_chain *chain = group->txn_chain;
    bool chained = chain && chain->count;
    struct record_disk *commit = record_add(group, RECORD_COMMIT, group->tag,
                                            group->records - group->txn_records,
                                            chained ? sizeof(struct chain_disk) : 0);
    commit->base = le64_of(group->commits.last);        /* until commits_seal */
    commit->physical = le64_of(group->commits.id);
    if (chained)
        chain_encode(chain, (void *)(commit + 1));
    return commit;
}

int store_txn_end(struct store_group *group, uint32_t *position)
{
    int error = txn_state(group);
    if (group->state != GROUP_OPEN || !group->in_txn)
        return -EINVAL;
    error = error ?: fence_get(group->store) ?: txn_room(group, 0);
    if (!error && !log_fits(group->store, round_block(group->used + COMMIT_ROOM)))
        error = group->txn_records ? -ENOBUFS : log_full(group->store);
    uint32_t at = (uint32_t)group->used;
    if (!error && txn_misleads(group, commit_add(group)))
        error = -EINVAL;                                                        /* LG6 */
    if (error) {
        store_txn_cancel(group);
        return error;
    }
    *position = group->commits.last = at;
    struct store_chain *chain = group->txn_chain;
    if (chain)
        chain->commit_group = group;
    for (uint32_t i = group->txn_claims; i < group->claims.count; i++)
        if (group->claims.entries[i].kind == CLAIM_PAGE ||
            group->claims.entries[i].kind == CLAIM_PAGE_HOME)
            group->claims.entries[i].value = *position;
    if (!group->txns++)
        group->first_tag = group->tag;
    group->in_txn = false;
    return 0;
}

/* ---- the group */

uint32_t store_group_txns(const struct store_group *group)
{
    return group->txns;
}

store_lsn_t store_group_csn(const struct store_group *group, uint32_t position)
{
    return group->lsn + position;
}

static void group_drop(struct store_group *group)
{
    struct store *store = group->store;
    plan_clear(group);
    meta_trim(store, MAX(SPARES_KEPT, plan_spares(store)));     /* the other group's stay (ME2) */
    group->state = GROUP_IDLE;
    if (groups_idle(store)) {
        store->plan_next_object = store->kept.next_object;
        store->plan_cursor_gib = store->kept.cursor_gib;
        store->space.moves = 0;
    }
}

void store_group_cancel(struct store_group *group)
{
    if (group->state == GROUP_OPEN) {
        chains_ended(group, true);
        doubts_cancel(group, 0);
        group_drop(group);
    }
}

uint32_t group_crc(const struct superblock *super, const uint8_t *group, size_t bytes,
                   size_t zeros)
{
    const struct group_disk *header = (const void *)group;
    uint32_t crc = crc_seed(super->uuid, CRC_GROUP, le64_get(header->lsn),
                            le32_get(header->epoch));
    crc = crc32c(crc, group, offsetof(struct group_disk, crc));
    return crc32c_padded(crc, group + sizeof *header, bytes - sizeof *header, zeros);
}

static void header_encode(struct store_group *group)
{
    struct store *store = group->store;
    struct group_disk *header = (void *)group->buffer;
    memset(header, 0, sizeof *header);
    header->magic = le64_of(GROUP_MAGIC);
    header->lsn = le64_of(group->lsn);
    header->durable_lsn = le64_of(store->log.durable);
    header->first_tag = le64_of(group->first_tag);
    memcpy(header->uuid_low.byte, store->super.uuid, 4);
    header->epoch = le32_of(store->log.epoch);
    header->prev_crc = le32_of(store->log.crc);
    header->blocks = le32_of((uint32_t)(group->bytes / BLOCK_BYTES));
    header->records = le32_of(group->records);
    header->payload_bytes = le32_of((uint32_t)(group->used - sizeof *header));
    size_t zeros = group->bytes - group->used;       /* LG4 */
    header->crc = le32_of(group_crc(&store->super, group->buffer, group->bytes, zeros));
}

static void bases_seal(struct store_group *group)                               /* LG5 */
{
    while (group->open_base) {
        struct record_disk *record = (void *)(group->buffer + group->open_base);
        assert(group->open_base < group->used && le64_get(record->base) < group->open_base);
        group->open_base = le32_get(record->crc);
        record->base = le64_of(group->lsn + le64_get(record->base));
        record->crc = le32_of(0);
    }
}

/* commits_seal gives all commits of a group one time: what it acknowledges was asked for before. */
static void commits_seal(struct store_group *group)
{
    while (group->commits.last) {
        struct record_disk *commit = (void *)(group->buffer + group->commits.last);
        group->commits.last = (uint32_t)le64_get(commit->base);
        commit->base = le64_of(group->commits.time);
    }
}

/* tail_zero zeroes what is behind the records and was written to since it was zero (LG4). */
static void tail_zero(struct store_group *group)
{
    size_t used = group->used, bytes = group->bytes;
    group_reach(group, used);
    size_t zero_to = MAX(group->zero.to, group->zero.from);
    memset(group->buffer + used, 0, MIN(group->zero.from, bytes) - used);
    if (zero_to < bytes)
        memset(group->buffer + zero_to, 0, bytes - zero_to);
    group->zero.to = group->zero.from > bytes ? bytes : MAX(zero_to, bytes);
    group->zero.from = used;
}

int store_group_seal(struct store_group *group)
{
    struct store *store = group->store;
    if (group->state != GROUP_OPEN)
        return -EINVAL;
    store_txn_cancel(group);
    if (fence_get(store))
        return fence_get(store);
    if (!group->records) {
        if (!log_fits(store, BLOCK_BYTES))
            return log_full(store);
        record_add(group, RECORD_NOOP, 0, 0, 0);
    }
    group->bytes = round_block(group->used);
    tail_zero(group);
    group->lsn = log_place(store, store->log.end, group->bytes);
    assert(group->lsn % store->super.log_bytes + group->bytes <= store->super.log_bytes);  /* LG1 */
    assert(group->lsn + group->bytes - store->log.keep <= store->super.log_bytes);  /* LG3 */
    bases_seal(group);
    commits_seal(group);
    doubts_sealed(group);
    header_encode(group);
    chains_sealed(group, store->log.crc);
    store->log.end = group->lsn + group->bytes;
    store->log.crc = le32_get(((struct group_disk *)group->buffer)->crc);
    group->state = GROUP_SEALED;
    store->next_group = !store->next_group;
    return 0;
}

static int group_fail(struct store_group *group, int error)
{
    group->error = error;
    group->state = GROUP_FAILED;
    fence_set(group->store, error);
    return error;
}

int store_group_issue(struct store_group *group)
{
    struct store *store = group->store;
    if (group->state != GROUP_SEALED)
        return -EINVAL;
    assert(!TESTING || group->used == group->bytes ||
           bytes_zero(group->buffer + group->used, group->bytes - group->used));  /* LG4 */
    int error = fence_get(store) ?: io_write(&store->io, ring_offset(store, group->lsn),
                                             group->buffer, group->bytes);
    if (error)
        return group_fail(group, error);
    group->state = GROUP_ISSUED;
    return 0;
}

int store_group_write(struct store_group *group)
{
    struct store *store = group->store;
    if (group->state == GROUP_SEALED && store_group_issue(group))
        return group->error;
    if (group->state != GROUP_ISSUED)
        return group->state == GROUP_FAILED ? group->error : -EINVAL;
    int error = store_log_flush(store);
    if (error)
        return group_fail(group, error);
    group->state = GROUP_DURABLE;
    return 0;                           /* the point of commit */
}

int store_group_apply(struct store_group *group)
{
    struct store *store = group->store;
    bool early = group->state == GROUP_ISSUED;      /* the flush comes later */
    if ((group->state != GROUP_DURABLE && group->state != GROUP_FAILED && !early) ||
        group != &store->groups[store->next_apply])
        return -EINVAL;                 /* LG2: in order */
    const struct group_disk *header = (const void *)group->buffer;
    if (group->state != GROUP_FAILED && le32_get(header->prev_crc) != store->log.applied_crc)
        group_fail(group, fence_get(store));    /* LG2: the one before has failed */
    int error = group->error;
    if (group->state != GROUP_FAILED) {
        assert(group->lsn >= store->log.applied);  /* LG2 */
        error = records_apply(store, group->buffer, group->lsn, &store->counters.transactions);
        if (error)
            fence_set(store, error);
        store->log.applied = group->lsn + group->bytes;
        if (!early)
            store->log.durable = store->log.applied;
        store->log.applied_crc = le32_get(header->crc);
        store->counters.groups++;
        store->counters.log_bytes_written += group->bytes;
    }
    chains_ended(group, false);
    store->next_apply = !store->next_apply;
    group_drop(group);
    return error;
}
