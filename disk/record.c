/*
 * record.c - applies the records of one group to the metadata.
 *
 * A commit and recovery run this same code on the same bytes, so what a restart builds is what
 * the running store had. In recovery (store->replay.on) pages are rebuilt too: a full image or a
 * difference against zeros starts an image, other differences change it (image.c).
 *
 * Invariants
 *   RC1  A record is applied only with its transaction's commit record, whose LSN is the csn.
 *   RC2  The bytes may be hostile: each field is checked before use; -EUCLEAN, never a crash.
 */
#include "internal.h"

int record_next(struct record_walk *walk, const struct record_disk **record)
{
    if (!walk->left)
        return 0;
    if (walk->end - walk->at < sizeof(struct record_disk))
        return -EUCLEAN;
    const struct record_disk *r = (const void *)(walk->bytes + walk->at);
    uint32_t length = le32_get(r->length), data = le32_get(r->data_bytes);
    if (length % 8 || length < sizeof *r || length > walk->end - walk->at ||
        data > length - sizeof *r || length - sizeof *r - data >= 8)
        return -EUCLEAN;
    walk->at += length;
    walk->left--;
    *record = r;
    return 1;
}

bool record_page_valid(const struct record_disk *record)
{
    const uint8_t *data = (const uint8_t *)(record + 1);
    uint32_t bytes = le32_get(record->data_bytes);
    switch (le16_get(record->type)) {
    case RECORD_PAGE_FULL: return bytes == STORE_PAGE_BYTES;
    case RECORD_PAGE_LOGGED: return !bytes;
    case RECORD_PAGE_DIFF: return !runs_check(data, bytes);
    case RECORD_PAGE_OP: return !operations_check(data, bytes);
    default: return false;
    }
}

void record_page(const struct record_disk *record, uint8_t *page)
{
    const uint8_t *runs = (const uint8_t *)(record + 1);
    uint32_t bytes = le32_get(record->data_bytes);
    if (le16_get(record->type) == RECORD_PAGE_FULL) {
        memcpy(page, runs, STORE_PAGE_BYTES);
        return;
    }
    if (!le64_get(record->base))
        memset(page, 0, STORE_PAGE_BYTES);
    if (le16_get(record->type) == RECORD_PAGE_OP) {
        operations_apply(runs, bytes, page);
        return;
    }
    while (bytes) {
        uint32_t offset = runs[0] | runs[1] << 8, length = runs[2] | runs[3] << 8;
        memcpy(page + offset, runs + 4, length);
        runs += 4 + length;
        bytes -= 4 + length;
    }
}

bool store_txn_pages(const struct store_group *group, size_t *cursor, struct store_txn_pages *out)
{
    if (*cursor < group->txn_used)
        *cursor = group->txn_used;
    if (!group->in_txn || *cursor >= group->used)
        return false;
    const struct record_disk *record = (const void *)(group->buffer + *cursor);
    *cursor += le32_get(record->length);
    enum record_type type = le16_get(record->type);
    bool run = type == RECORD_PAGE_FREE || type == RECORD_PAGE_CLAIM || type == RECORD_PAGE_HOME;
    uint64_t count = run ? le64_get(record->base) : record_writes(type);
    *out = (struct store_txn_pages){ .object = le64_get(record->object),
                                     .page = le64_get(record->page), .count = count,
                                     .freed = type == RECORD_PAGE_FREE };
    return true;
}

/* ---- pages */

bool page_record_valid(const struct container_disk *container, const struct record_disk *record)
{
    return le64_get(record->page) < container_pages(container) &&
           (record_packed(record) ||    /* a commit's */
            record_page_valid(record));
}

/* leaf_make makes a leaf of an extent that lies at `physical`. */
static __attribute__((noinline)) int leaf_make(struct store *store, uint64_t object,
                                               uint64_t index, uint64_t physical, uint64_t csn,
                                               uint32_t slot, struct leaf_disk **leaf, uint32_t *at)
{
    int error = extent_use(store, physical, slot, index);
    if (error)
        return error;
    *leaf = hash_insert(store, object, index, at);
    if (!*leaf)
        return -EUCLEAN;
    (*leaf)->physical = le64_of(physical);
    (*leaf)->born = le64_of(csn);
    store->use[slot].leaves++;
    store->use[slot].top = MAX(store->use[slot].top, index + 1);
    return 0;
}

/* leaf_is_at checks that *leaf is of an extent at `physical`; if *leaf is NULL, it is made. */
static inline int leaf_is_at(struct store *store, uint64_t object, uint64_t index,
                             uint64_t physical, uint64_t csn, uint32_t slot,
                             struct leaf_disk **leaf, uint32_t *at)
{
    if (!*leaf)
        return leaf_make(store, object, index, physical, csn, slot, leaf, at);
    return le64_get((*leaf)->physical) == physical ? 0 : -EUCLEAN;
}

/* replay_reserve gets memory for what recovery applies, as no plan has set any aside. */
static int replay_reserve(struct store *store)
{
    return store->replay.on ? meta_reserve(store, 4) : 0;
}

/* claimed_set sets which pages of the leaf are claimed, and counts them for its container. */
static void claimed_set(struct store *store, uint32_t slot, struct leaf_disk *leaf,
                        uint32_t claimed)
{
    uint32_t before = le16_get(leaf->claimed);
    assert(!(claimed & le32_get(leaf->mask)));                                  /* HS4 */
    if (claimed == before)              /* mostly; counting bits takes a call */
        return;
    leaf->claimed = le16_of((uint16_t)claimed);
    store->use[slot].claimed += (uint64_t)__builtin_popcount(claimed);
    store->use[slot].claimed -= (uint64_t)__builtin_popcount(before);
}

/* version_enter gives the page a new version, which is not at home; meta_touch was called. */
static inline __attribute__((always_inline)) void version_enter(struct store *store, uint32_t slot,
                                                                struct leaf_disk *leaf,
                                                                uint32_t page, uint64_t csn)
{
    uint32_t mask = le32_get(leaf->mask), bit = 1u << page;
    if (!(mask & bit)) {
        store->kept.pages_present++;
        store->use[slot].pages++;
        leaf->mask = le32_of(mask | bit);
        claimed_set(store, slot, leaf, le16_get(leaf->claimed) & ~bit);         /* HS4 */
    }
    leaf_crc(leaf)[page] = le32_of(0);
    store->extents[le64_get(leaf->physical)].bulk &= (uint16_t)~bit;
    page_dirty_set(store, leaf, page, true);
    leaf_lsn(store, leaf)[page] = le64_of(csn);
    if (store->logged_pages)
        logged_forget(store, le64_get(leaf->object),
                      le64_get(leaf->index) * store->extent_pages + page);
}

/* page_write gives the page of a record a new version. In a commit the record was looked at when it
 * was added, and its bytes are not. */
static inline __attribute__((always_inline)) int
page_write(struct store *store, const struct record_disk *record, uint32_t slot, uint64_t csn,
           const bool replay)
{
    uint64_t object = le64_get(record->object), number = le64_get(record->page);
    uint64_t index = number / store->extent_pages;
    uint32_t page = (uint32_t)(number % store->extent_pages), at;
    struct leaf_disk *leaf = hash_find(store, object, index, &at);
    bool there = leaf && le32_get(leaf->mask) >> page & 1;      /* as mostly: no slot is asked */
    if (replay ? !page_record_valid(directory_slot(store, slot), record)
               : !there && !directory_get(store, object, &slot))
        return -EUCLEAN;
    int error =
        leaf_is_at(store, object, index, le64_get(record->physical), csn, slot, &leaf, &at) ?:
        replay ? image_write(store, record, leaf, page, csn) : 0;
    if (error)
        return error;
    meta_touch(store, at);
    version_enter(store, slot, leaf, page, csn);
    if (le16_get(record->type) == RECORD_PAGE_LOGGED)
        logged_enter(store, object, number, le64_get(record->base));
    return 0;
}

/* page_replay unpacks and applies a page's record, whose bytes were sound before packing. */
static __attribute__((noinline)) int
page_replay(struct store *store, const struct record_disk *record, uint32_t slot, uint64_t csn)
{
    struct unpacked unpacked;
    record = record_unpack(record, &unpacked);                                  /* PK1 */
    return record ? page_write(store, record, slot, csn, true) : -EUCLEAN;
}

static uint32_t bits_between(uint32_t from, uint32_t to)
{
    return (uint32_t)((1ull << to) - (1ull << from));
}

/* extent_claimed makes pages of one extent claimed, but for those that are present; or, if the
 * record says that they were written, gives them a new version. */
static void extent_claimed(struct store *store, const struct record_disk *record,
                           struct leaf_disk *leaf, uint32_t from, uint32_t to, uint32_t slot,
                           uint64_t csn)
{
    bool written = le16_get(record->flags) & RECORD_WRITTEN;
    if (!written)
        claimed_set(store, slot, leaf,
                    le16_get(leaf->claimed) | (bits_between(from, to) & ~le32_get(leaf->mask)));
    for (uint32_t p = from; written && p < to; p++)
        version_enter(store, slot, leaf, p, csn);
}

/* page_forget forgets a page that is gone or unknown; its leaf's mask is the caller's to change. */
static void page_forget(struct store *store, struct leaf_disk *leaf, uint32_t page, uint32_t slot)
{
    page_dirty_set(store, leaf, page, false);
    leaf_crc(leaf)[page] = le32_of(0);
    leaf_lsn(store, leaf)[page] = le64_of(0);
    logged_forget(store, le64_get(leaf->object),
                  le64_get(leaf->index) * store->extent_pages + page);
    store->extents[le64_get(leaf->physical)].bulk &= (uint16_t)~(1u << page);
    image_drop(store, le64_get(leaf->physical), page);
    store->kept.pages_present--;
    store->use[slot].pages--;
}

/* extent_move makes a page's leaf name another extent from now on. */
static int extent_move(struct store *store, const struct record_disk *record, uint32_t slot,
                       uint64_t csn)
{
    uint64_t object = le64_get(record->object), page = le64_get(record->page);
    uint64_t index = page / store->extent_pages, physical = le64_get(record->physical);
    uint32_t at;
    struct leaf_disk *leaf = hash_find(store, object, index, &at);
    if (!leaf || page % store->extent_pages || le32_get(record->data_bytes))
        return -EUCLEAN;
    int error = extent_use(store, physical, slot, index);
    if (error)
        return error;
    uint32_t mask = le32_get(leaf->mask);
    meta_touch(store, at);
    for (uint32_t p = 0; mask >> p; p++)
        if (mask >> p & 1)
            page_forget(store, leaf, p, slot);
    leaf->mask = le32_of(0);
    claimed_set(store, slot, leaf, le16_get(leaf->claimed) | mask);
    extent_free(store, le64_get(leaf->physical));
    leaf->physical = le64_of(physical);
    leaf->born = le64_of(csn);
    return 0;
}

/* extent_home enters pages of one extent that are home (BH1); their transaction made their leaf. */
static int extent_home(struct store *store, const le32 *crc, struct leaf_disk *leaf, uint32_t from,
                       uint32_t to, uint32_t slot, uint64_t csn)
{
    uint32_t bits = bits_between(from, to), count = to - from;
    uint64_t physical = le64_get(leaf->physical);
    if (le64_get(leaf->born) != csn || le32_get(leaf->mask) & bits)
        return -EUCLEAN;
    leaf->mask = le32_of(le32_get(leaf->mask) | bits);
    claimed_set(store, slot, leaf, le16_get(leaf->claimed) & ~bits);
    for (uint32_t p = 0; p < count; p++) {
        leaf_crc(leaf)[from + p] = crc[p];
        leaf_lsn(store, leaf)[from + p] = le64_of(csn);
    }
    store->extents[physical].bulk |= (uint16_t)bits;
    store->kept.pages_present += count;
    store->use[slot].pages += count;
    store->log.bulk = csn;
    if (store->replay.rolling)
        return roll_load(store, csn, extent_offset(store, physical) + from * BLOCK_BYTES, crc,
                         count);
    return 0;
}

/* pages_run applies a record of pages of successive extents: PAGE_CLAIM or, `home`, PAGE_HOME. */
static int pages_run(struct store *store, const struct record_disk *record, uint32_t slot,
                     uint64_t csn, bool home)
{
    const struct container_disk *container = directory_slot(store, slot);
    uint64_t page = le64_get(record->page), count = le64_get(record->base), n = store->extent_pages;
    uint64_t pages = container_pages(container), physical = le64_get(record->physical);
    const le32 *crc = (const le32 *)(record + 1);
    uint64_t object = le64_get(record->object), first = page;
    int error = 0;
    if (!count || page > pages || count > pages - page ||
        le32_get(record->data_bytes) != (home ? count * sizeof *crc : 0) ||
        (le16_get(record->flags) & RECORD_WRITTEN && !home && !container_unlogged(container)))
        return -EUCLEAN;
    for (uint64_t end = page + count, next; page < end && !error; page = next, physical++) {
        uint32_t from = (uint32_t)(page % n), to, at;
        next = MIN(end, page - from + n);
        to = from + (uint32_t)(next - page);
        struct leaf_disk *leaf = hash_find(store, object, page / n, &at);
        error = replay_reserve(store) ?:
                leaf_is_at(store, object, page / n, physical, csn, slot, &leaf, &at);
        if (error)
            break;
        meta_touch(store, at);
        if (home)
            error = extent_home(store, crc + (page - first), leaf, from, to, slot, csn);
        else
            extent_claimed(store, record, leaf, from, to, slot, csn);
    }
    return error;
}

/* leaf_free frees pages [from, to) of one extent, and the extent with its last page. */
static void leaf_free(struct store *store, uint64_t object, uint64_t index, uint32_t from,
                      uint32_t to, uint32_t slot)
{
    uint32_t at;
    struct leaf_disk *leaf = hash_find(store, object, index, &at);
    if (!leaf)
        return;
    uint64_t physical = le64_get(leaf->physical);
    uint32_t mask = le32_get(leaf->mask);
    meta_touch(store, at);
    for (uint32_t page = from; page < to; page++) {
        if (!(mask >> page & 1))
            continue;
        mask &= ~(1u << page);
        page_forget(store, leaf, page, slot);
    }
    leaf->mask = le32_of(mask);
    claimed_set(store, slot, leaf, le16_get(leaf->claimed) & ~bits_between(from, to));
    if (!mask && !le16_get(leaf->claimed)) {
        extent_free(store, physical);
        hash_remove(store, object, index);
        store->use[slot].leaves--;
    }
}

/* range_free frees pages [from, end) of a container. The walk ends with its last leaf; a free of
 * what is free already is no walk, for a log may hold a great many of these. */
void range_free(struct store *store, uint64_t object, uint32_t slot, uint64_t from, uint64_t end)
{
    uint32_t n = store->extent_pages;
    struct container_use *use = &store->use[slot];
    bool all_behind = end >= use->top * n;
    if (all_behind)
        end = use->top * n;
    if (from >= end)
        return;
    bool by_extent = (end - from) / n > store->space.top;   /* the shorter walk of the two */
    uint64_t i = by_extent ? 0 : from / n;
    uint64_t last = by_extent ? store->space.top : (end + n - 1) / n;
    for (; i < last && use->leaves; i++) {
        const struct extent *e = &store->extents[by_extent ? i : 0];
        if (by_extent && (e->state != EXTENT_USED || e->slot != slot))
            continue;
        uint64_t first = (by_extent ? (uint64_t)e->index : i) * n;
        if (first + n > from && first < end)
            leaf_free(store, object, first / n, first < from ? (uint32_t)(from - first) : 0,
                      end - first < n ? (uint32_t)(end - first) : n, slot);
    }
    if (all_behind)
        use->top = (from + n - 1) / n;
}

static int pages_free(struct store *store, const struct record_disk *record, uint32_t slot)
{
    uint64_t from = le64_get(record->page), count = le64_get(record->base);
    uint64_t pages = container_pages(directory_slot(store, slot));
    if (from > pages || count > pages - from)
        return -EUCLEAN;
    range_free(store, le64_get(record->object), slot, from, from + count);
    return 0;
}

/* ---- one record */

/* payload_bytes has the number of bytes behind a record of a type; 0: the record says so itself. */
static const uint32_t payload_bytes[RECORD_TYPES] = {
    [RECORD_PAGE_FULL] = STORE_PAGE_BYTES,
    [RECORD_CREATE] = CREATE_BYTES,
    [RECORD_RENAME] = STORE_NAME_BYTES,
    [RECORD_GROW] = sizeof(struct segment_disk),
    [RECORD_LAYOUT] = sizeof(struct layout_disk),
    [RECORD_NAME_SET] = sizeof(struct name_value_disk),
    [RECORD_NAME_UNSET] = STORE_NAME_BYTES,
};

static __attribute__((noinline)) int
record_apply(struct store *store, const struct record_disk *record, uint64_t csn)
{
    uint64_t object = le64_get(record->object);
    uint32_t type = le16_get(record->type), slot;
    const void *data = record + 1;
    if (type >= RECORD_TYPES ||
        (payload_bytes[type] && payload_bytes[type] != le32_get(record->data_bytes) &&
         !record_packed(record)) ||
        (type != RECORD_CREATE && !directory_get(store, object, &slot)))
        return -EUCLEAN;
    if (store->replay.on && type != RECORD_CREATE && record_passed(store, type, slot)) {
        store->replay.passed = true;
        return 0;
    }
    switch (type) {
    case RECORD_PAGE_FULL:
    case RECORD_PAGE_DIFF:
    case RECORD_PAGE_OP:
    case RECORD_PAGE_LOGGED: return page_replay(store, record, slot, csn);
    case RECORD_PAGE_CLAIM:
    case RECORD_PAGE_HOME: return pages_run(store, record, slot, csn, type == RECORD_PAGE_HOME);
    case RECORD_PAGE_FREE: return pages_free(store, record, slot);
    case RECORD_MOVE: return extent_move(store, record, slot, csn);
    case RECORD_CREATE: return directory_create(store, object, data, csn);
    case RECORD_DELETE:
        range_free(store, object, slot, 0, container_pages(directory_slot(store, slot)));
        directory_delete(store, slot);
        return 0;
    case RECORD_RENAME: return directory_rename(store, slot, data);
    case RECORD_GROW: return directory_grow(store, slot, data);
    case RECORD_LAYOUT: return directory_layout(store, slot, data);
    case RECORD_NAME_SET: return directory_name_set(store, object, data);
    case RECORD_NAME_UNSET: return directory_name_unset(store, object, data);
    case RECORD_ENCODER:
    case RECORD_LOCKING:
    case RECORD_PROTECTION: return directory_choice(store, slot, type, le64_get(record->page));
    case RECORD_DURABILITY: return durability_apply(store, record, slot);
    default: return -EUCLEAN;
    }
}

/* record_doubt_alone: the record is about a transaction of several stores, and in none itself. */
static bool record_doubt_alone(const struct record_disk *record)
{
    uint64_t what = le64_get(record->page);
    return le16_get(record->type) == RECORD_PREPARED ||
           (le16_get(record->type) == RECORD_DECIDED && what != DECIDED_COMMIT &&
            what != DECIDED_KEPT);
}

struct record_walk group_walk(const uint8_t *group)
{
    const struct group_disk *header = (const void *)group;
    size_t end = sizeof *header + (size_t)le32_get(header->payload_bytes);
    size_t bytes = group_bytes(group);
    return (struct record_walk){ .bytes = group, .at = sizeof *header,
                                 .end = end < bytes ? end : bytes,
                                 .left = le32_get(header->records) };
}

/* commit_check checks a commit record and its chain, which may be none. */
static int commit_check(struct store *store, const struct record_disk *commit, uint32_t records)
{
    uint32_t bytes = le32_get(commit->data_bytes);
    if (le64_get(commit->page) != records || (bytes && bytes != sizeof(struct chain_disk)))
        return -EUCLEAN;
    return bytes && store->replay.on ? chain_verify(store, (const void *)(commit + 1)) : 0;
}

/* commit_find counts the records before the transaction's commit record, which *record is then,
 * with `walk` behind it. 0; -EUCLEAN: there is none. In a commit they are as they were added. */
static int commit_find(const struct store *store, struct record_walk *walk,
                       const struct record_disk **record, uint32_t *records)
{
    int more = 1;
    if (store->replay.on) {
        while ((more = record_next(walk, record)) > 0 && le16_get((*record)->type) != RECORD_COMMIT)
            ++*records;
        return more < 0 ? more : more == 0 ? -EUCLEAN : 0;
    }
    for (const uint8_t *at = walk->bytes + walk->at, *end = walk->bytes + walk->end; at < end;) {
        const struct record_disk *r = (const void *)at;
        at += MAX(le32_get(r->length), sizeof *r);      /* a broken one ends this, too */
        if (le16_get(r->type) == RECORD_COMMIT) {
            *record = r;
            walk->at = (size_t)(at - walk->bytes);
            walk->left -= *records + 1;
            return 0;
        }
        ++*records;
    }
    return -EUCLEAN;
}

int records_visit(struct store *store, const uint8_t *group, uint64_t lsn, record_visit *visit,
                  void *context)
{
    struct record_walk walk = group_walk(group), ahead = walk;
    const struct record_disk *record;
    int more, error = 0;
    while (!error && (more = record_next(&ahead, &record)) > 0) {
        if (le16_get(record->type) != RECORD_COMMIT)
            continue;
        uint64_t csn = lsn + (uint64_t)((const uint8_t *)record - group);
        while (!error && walk.at < ahead.at && record_next(&walk, &record) > 0)
            error = visit(store, context, record, csn);
    }
    return error ? error : more;
}

/* transaction_apply applies the transaction at `walk`. It finds the commit record first (RC1). */
static int transaction_apply(struct store *store, const uint8_t *group, uint64_t lsn,
                             struct record_walk *walk)
{
    struct record_walk ahead = *walk;
    const struct record_disk *record;
    uint32_t records = 0;
    int error = commit_find(store, &ahead, &record, &records) ?:
                commit_check(store, record, records);
    uint64_t csn = error ? 0 : lsn + (uint64_t)((const uint8_t *)record - group);
    if (!error && roll_stops(store, record, csn))
        return -ECANCELED;
    const uint8_t *at = walk->bytes + walk->at;     /* the look ahead met them, one by one */
    for (; records && !error; records--, at += le32_get(record->length)) {
        record = (const void *)at;
        uint32_t type = le16_get(record->type);
        if (!store->replay.on && record_writes(type))
            error = page_write(store, record, NO_SLOT, csn, false);
        else
            error = replay_reserve(store) ?:
                    type == RECORD_DECIDED ? doubt_apply(store, record, group, lsn, 0)
                                           : record_apply(store, record, csn);
    }
    *walk = error ? *walk : ahead;
    return error;
}

/* records_apply applies a whole group; *txns is increased by its transactions. */
int records_apply(struct store *store, const uint8_t *group, uint64_t lsn, uint64_t *txns)
{
    struct record_walk walk = group_walk(group), before = walk;
    const struct record_disk *record;
    int error = 0;
    for (; walk.left && !error; before = walk) {
        if (record_next(&walk, &record) < 0)
            return -EUCLEAN;
        uint32_t type = le16_get(record->type);
        if (type == RECORD_NOOP)
            continue;
        if (type == RECORD_SPILL) {
            error = store->replay.on ? spill_note(store, record, group, lsn) : 0;
            continue;
        }
        if (record_doubt_alone(record)) {
            error = doubt_apply(store, record, group, lsn, 0);
            continue;
        }
        walk = before;
        error = transaction_apply(store, group, lsn, &walk);
        if (!error)
            ++*txns;
        if (error == -ECANCELED)
            return 0;
    }
    return error ? error : walk.at == walk.end ? 0 : -EUCLEAN;
}
