/*
 * chain.c - transactions larger than memory: pages that are in the log before their commit.
 *
 * An image is a node, found by page. While its chain runs it belongs to the chain; the commit
 * record's application hands it to the store, which forgets it when the page has gone home, is
 * written again, or is freed.
 *
 *     store_spill_page --seal--> has an LSN --apply--> readable --commit applied--> committed
 *
 * Invariants
 *   CH1  A running chain has at most one node per page; a page has at most one committed node.
 *   CH2  A committed node's page is dirty, and the image is its newest version.
 *   CH3  keep_lsn is at or below the image of every node that is readable or committed: a
 *       checkpoint scans from the head of the oldest running chain, and waits for the pages of
 *       committed ones.
 *   CH4  Handing a chain to the store allocates nothing.
 *   CH5  A chain whose hold has expired (hold.c) is dropped: it takes no more pages, and its
 *       transaction must be aborted.
 */
#include "internal.h"

#define SPILL_HEADS_MAX 65536u

static struct spill_node **head_of(const struct store *store, uint64_t object, uint64_t page)
{
    return &store->spill_heads[key_hash(object, page) & (store->spill_head_count - 1)];
}

/* node_first returns the first node in the page's place of the hash table, or NULL. */
struct spill_node *node_first(const struct store *store, uint64_t object, uint64_t page)
{
    return store->spill_heads ? *head_of(store, object, page) : NULL;
}

struct spill_node *node_find(const struct store *store, const struct store_chain *chain,
                             uint64_t object, uint64_t page)
{
    struct spill_node *node = node_first(store, object, page);
    while (node && (node->chain != chain || node->page != page || node->object != object))
        node = node->next;
    return node;
}

/* node_tell tells where a node's image can be read. */
static void node_tell(const struct store *store, const struct spill_node *node,
                      uint64_t *offset_bytes, uint32_t *crc)
{
    assert(node->lsn >= store->log.keep);                                       /* CH3 */
    *offset_bytes = ring_offset(store, node->lsn);
    *crc = node->crc;
}

/* node_unlink takes a node out of its chain's list. */
static void node_unlink(struct spill_node *node)
{
    node->before->after = node->after;
    node->after->before = node->before;
    node->chain->count--;
}

static void node_free(struct store *store, struct spill_node *node)
{
    struct spill_node **at = head_of(store, node->object, node->page);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    if (node->chain)
        node_unlink(node);
    else
        store->logged_pages--;
    assert(store->logged_pages != UINT64_MAX);                                  /* CH1 */
    store_release(store, node, sizeof *node);
}

/* ---- begin and end */

static int heads_setup(struct store *store)
{
    uint32_t count = 64;
    if (store->spill_heads)
        return 0;
    while (count < SPILL_HEADS_MAX && count < store->super.log_bytes / BLOCK_BYTES / 4)
        count *= 2;
    store->spill_head_count = count;
    store->spill_heads = store_alloc(store, count * sizeof *store->spill_heads);
    return store->spill_heads ? 0 : -ENOMEM;
}

int store_chain_begin(struct store *store, uint64_t tag, struct store_chain **out)
{
    int error = fence_get(store) ?: heads_setup(store);
    struct store_chain *chain = error ? NULL : store_alloc(store, sizeof *chain);
    if (!chain)
        return error ?: -ENOMEM;
    chain->store = store;
    chain->ends.before = chain->ends.after = &chain->ends;
    chain->tag = tag;
    chain->number = (uint64_t)store->log.epoch << 32 | ++store->chain_serial;
    chain->crc = (uint32_t)chain->number;
    chain->next = store->chains;
    store->chains = chain;
    *out = chain;
    return 0;
}

void store_chain_end(struct store_chain *chain)
{
    struct store *store = chain->store;
    struct store_chain **at = &store->chains;
    while (chain->count)
        node_free(store, chain->ends.after);
    bulk_end(chain);
    while (*at != chain)
        at = &(*at)->next;
    *at = chain->next;
    store_hold_end(store, &chain->hold);
    for (int i = 0; i < 2; i++)
        if (store->groups[i].spill.chain == chain)
            store->groups[i].spill.chain = NULL;
    store_release(store, chain, sizeof *chain);
}

/* chains_drop frees all chains and nodes, when the store is abandoned. */
void chains_drop(struct store *store)
{
    while (store->chains)
        store_chain_end(store->chains);
    for (uint32_t i = 0; store->spill_heads && i < store->spill_head_count; i++)
        while (store->spill_heads[i])
            node_free(store, store->spill_heads[i]);
    store_release(store, store->spill_heads, store->spill_head_count * sizeof *store->spill_heads);
}

/* ---- SPILL records */

static uint8_t group_bit(const struct store_group *group)
{
    return group == &group->store->groups[0] ? 1 : 2;
}

/* table_end tells where the table of a SPILL record that begins at `used` ends, with a block. */
static size_t table_end(size_t used)
{
    return round_block(used + sizeof(struct record_disk) + sizeof(struct spill_disk));
}

/* spill_continues tells whether the group's last record may take one more image of this chain. */
static bool spill_continues(const struct store_group *group, const struct store_chain *chain)
{
    const struct record_disk *record = (const void *)(group->buffer + group->spill.at);
    size_t table = table_end(group->spill.at) - group->spill.at - sizeof *record;
    return group->spill.chain == chain && group->used == group->spill.at +
           le32_get(record->length) && le64_get(record->page) < table / sizeof(struct spill_disk);
}

/* chain_too_long tells if the commit's group lacks room for a record per page and a block more. */
bool chain_too_long(const struct store_chain *chain, uint32_t more)
{
    return (chain->count + more) * sizeof(struct record_disk) + bulk_record_bytes(chain) >
           chain->store->group_bytes - BLOCK_BYTES;
}

static int spill_room(struct store_group *group, const struct store_chain *chain, bool again)
{
    struct store *store = group->store;
    if (chain_too_long(chain, !again))
        return -E2BIG;
    size_t used = spill_continues(group, chain) ? group->used : table_end(group->used);
    if (used + STORE_PAGE_BYTES > store->group_bytes)
        return -ENOBUFS;
    if ((!chain->hold.stays &&
         hold_too_old(store, &chain->hold, store->log.end + used + STORE_PAGE_BYTES)) ||
        chain->hold.expired)
        return -E2BIG;
    if (!log_fits(store, used + STORE_PAGE_BYTES))
        return group->records ? -ENOBUFS : log_full(store);
    return 0;
}

/* spill_add enters an image in a SPILL record, where room was checked; returns where it goes. */
static size_t spill_add(struct store_group *group, struct store_chain *chain, uint64_t object,
                        uint64_t page, uint32_t crc)
{
    struct record_disk *record = (void *)(group->buffer + group->spill.at);
    if (!spill_continues(group, chain)) {
        group->spill.at = group->used;
        group->spill.chain = chain;
        uint32_t table = (uint32_t)(table_end(group->used) - group->used - sizeof *record);
        record = record_add(group, RECORD_SPILL, 0, 0, table);
        memset(record + 1, 0, table);
        record->base = le64_of(chain->number);
    }
    uint64_t count = le64_get(record->page);
    ((struct spill_disk *)(record + 1))[count] = (struct spill_disk){
        .object = le64_of(object), .page = le64_of(page), .crc = le32_of(crc) };
    record->page = le64_of(count + 1);
    record->length = le32_of(le32_get(record->length) + STORE_PAGE_BYTES);
    record->data_bytes = le32_of(le32_get(record->data_bytes) + STORE_PAGE_BYTES);
    size_t at = group->used;
    group->used += STORE_PAGE_BYTES;
    return at;
}

static void node_add(struct store_chain *chain, struct spill_node *node)
{
    struct spill_node **head = head_of(chain->store, node->object, node->page);
    assert(!node_find(chain->store, chain, node->object, node->page));          /* CH1 */
    node->next = *head;
    *head = node;
    node->chain = chain;
    node->before = chain->ends.before;
    node->after = &chain->ends;
    node->before->after = node->after->before = node;
    chain->count++;
}

int chain_node_add(struct store_chain *chain, uint64_t object, uint64_t page, uint64_t lsn,
                   uint32_t crc)
{
    struct spill_node *node = store_alloc(chain->store, sizeof *node);
    if (!node)
        return -ENOMEM;
    *node = (struct spill_node){ .object = object, .page = page, .lsn = lsn, .crc = crc };
    node_add(chain, node);
    return 0;
}

int store_spill_page(struct store_group *group, struct store_chain *chain, uint64_t object,
                     uint64_t page, const void *bytes)
{
    struct store *store = group->store;
    bool wrong = group->state != GROUP_OPEN || group->in_txn || chain->commit_group ||
                 chain->prepared;
    int error = fence_get(store) ?:
                wrong || passes_for_group(store, bytes) ? -EINVAL :                     /* LG6 */
                plan_pages_exist(group, object, page, 1) ?:
                spill_room(group, chain, node_find(store, chain, object, page) != NULL);
    struct spill_node *node = error ? NULL : store_alloc(store, sizeof *node);
    if (!node)
        return error ?: -ENOMEM;
    store_spill_drop(chain, object, page);
    uint32_t crc = crc32c(0, bytes, STORE_PAGE_BYTES);
    uint64_t at = spill_add(group, chain, object, page, crc);
    memcpy(group->buffer + at, bytes, STORE_PAGE_BYTES);
    *node = (struct spill_node){ .object = object, .page = page, .group = group, .lsn = at,
                                 .crc = crc };
    node_add(chain, node);
    chain->spilled_in |= group_bit(group);
    return 0;
}

void store_spill_drop(struct store_chain *chain, uint64_t object, uint64_t page)
{
    struct spill_node *node = node_find(chain->store, chain, object, page);
    if (node)
        node_free(chain->store, node);
    bulk_drop(chain, object, page);
}

uint64_t store_chain_pages(const struct store_chain *chain)
{
    return chain->count + chain->home_pages;
}

int store_spill_find(struct store *store, struct store_chain *chain, uint64_t object,
                     uint64_t page, uint64_t *offset_bytes, uint32_t *crc)
{
    const struct spill_node *node = node_find(store, chain, object, page);
    if (chain->hold.expired)
        return -E2BIG;
    if (!node)
        return bulk_find(chain, object, page, offset_bytes, crc);
    if (node->group)
        return -EBUSY;
    node_tell(store, node, offset_bytes, crc);
    return 0;
}

/* ---- what becomes of a group with SPILL records */

void chains_sealed(struct store_group *group, uint32_t prev_crc)
{
    const struct group_disk *header = (const void *)group->buffer;
    for (struct store_chain *chain = group->store->chains; chain; chain = chain->next) {
        if (!(chain->spilled_in & group_bit(group)))
            continue;
        for (struct spill_node *node = chain->ends.before; node->group; node = node->before)
            if (node->group == group)
                node->lsn += group->lsn;
        if (!chain->groups++)
            hold_enter(group->store, &chain->hold, group->lsn, prev_crc);
        chain->crc = crc32c(chain->crc, header->crc.byte, sizeof header->crc);
    }
}

/* chains_ended ends a group that is applied, has failed, or was cancelled (its images are lost). */
void chains_ended(struct store_group *group, bool cancelled)
{
    struct store *store = group->store;
    for (struct store_chain *chain = store->chains, *next; chain; chain = next) {
        next = chain->next;
        if (chain->commit_group == group) {
            chain->commit_group = NULL;
            chain->done = !cancelled;
            if (chain->done)
                store_hold_end(store, &chain->hold);
            if (chain->orphan) {
                store_chain_end(chain);
                continue;
            }
        }
        if (!(chain->spilled_in & group_bit(group)))
            continue;
        chain->spilled_in &= (uint8_t)~group_bit(group);
        for (struct spill_node *node = chain->ends.before, *before; node->group; node = before) {
            before = node->before;
            if (node->group == group && cancelled)
                node_free(store, node);
            else if (node->group == group)
                node->group = NULL;
        }
    }
    group->spill.chain = NULL;
}

/* ---- commit */

static int chain_page_log(struct store_group *group, const struct spill_node *node)
{
    uint64_t physical;
    int error = txn_room(group, sizeof(struct record_disk)) ?:
                plan_page_write(group, node->object, node->page, NULL, &physical);
    if (error)
        return error;
    struct record_disk *record = record_add(group, RECORD_PAGE_LOGGED, node->object, node->page, 0);
    record->physical = le64_of(physical);
    record->base = le64_of(node->lsn);
    record->crc = le32_of(node->crc);
    return 0;
}

int store_txn_chain(struct store_group *group, struct store_chain *chain)
{
    bool wrong = group->txn_chain || chain->commit_group || chain->done ||
                 (chain->prepared && !doubt_commits(group, chain));
    int error = txn_state(group) ?: wrong ? -EINVAL : 0;
    if (!error && !store_chain_pages(chain))
        return 0;                       /* all pages are back in memory: no chain is needed */
    error = error ?:
            chain->hold.expired                   ? -E2BIG :
            chain->spilled_in & group_bit(group)  ? -ENOBUFS :
            bulk_pages_log(group, chain);       /* first: they have their extents already */
    for (const struct spill_node *node = chain->ends.after; node != &chain->ends && !error;
         node = node->after)
        error = chain_page_log(group, node);
    if (error)
        return txn_fail(group, error);
    group->txn_chain = chain;
    return 0;
}

void chain_encode(const struct store_chain *chain, struct chain_disk *out)
{
    out->chain = le64_of(chain->number);
    out->head_lsn = le64_of(chain->hold.lsn);
    out->groups = le32_of(chain->groups);
    out->crc = le32_of(chain->crc);
}

/* logged_enter, when a commit is applied, makes the image at `lsn` the page's newest version. In
 * recovery there are no nodes. */
void logged_enter(struct store *store, uint64_t object, uint64_t page, uint64_t lsn)
{
    struct spill_node *node = node_first(store, object, page);
    while (node && node->lsn != lsn)
        node = node->next;
    if (!node)
        return;
    assert(node->object == object && node->page == page && node->chain);        /* CH1 */
    assert(!node_find(store, NULL, object, page));                              /* CH1 */
    node_unlink(node);
    node->chain = NULL;
    store->logged_pages++;
}

/* logged_forget frees the image of a page that went home, was written again, or freed. */
void logged_forget(struct store *store, uint64_t object, uint64_t page)
{
    struct spill_node *node = node_find(store, NULL, object, page);
    if (node)
        node_free(store, node);
}

bool logged_find(const struct store *store, uint64_t object, uint64_t page, uint64_t *offset_bytes,
                 uint32_t *crc)
{
    const struct spill_node *node = node_find(store, NULL, object, page);
    if (node)
        node_tell(store, node, offset_bytes, crc);
    return node != NULL;
}

uint64_t chains_count(const struct store *store, uint64_t *pages)
{
    uint64_t count = 0;
    *pages = 0;
    for (const struct store_chain *chain = store->chains; chain; chain = chain->next, count++)
        *pages += store_chain_pages(chain);
    return count;
}
