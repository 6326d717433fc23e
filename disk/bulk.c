/*
 * bulk.c - pages of a running transaction that go home before its commit, and into no log.
 *
 * Free space is on no disk (space.c), so an extent that a chain has claimed is, for every recovery,
 * free until the commit record names it: what is written there before means nothing, and costs
 * nothing when the transaction ends otherwise. The commit has a PAGE_HOME record for each run of
 * such pages: where they are and a CRC of each. Replay enters those and reads nothing.
 *
 * Invariants
 *   BH1  A page goes home before its commit only into an extent that was free (EX2), and that no
 *        other transaction can reach: it is the chain's, not of a group's claims. So nothing that a
 *        power cut could bring back is overwritten.
 *   BH2  All these homes are on stable storage before a group that names them is written.
 *   BH3  If another transaction has pages in the same extent of the container by the time of the
 *        commit, in an extent of its own, the commit is refused.
 *   BH4  The next record of such a page is a full image, however new the page is: recovery has
 *        nothing that a difference could be applied to, for the home may be torn by then.
 *   BH5  Recovery writes no older version over such a page, from whichever checkpoint it begins
 *        (IG3).
 */
#include "internal.h"

static struct entry *home_find(const struct store_chain *chain, uint64_t object, uint64_t page)
{
    return table_find(&chain->homes, object, page / chain->store->extent_pages);
}

static uint32_t *crc_of(const struct store_chain *chain, const struct entry *home, uint64_t page)
{
    uint32_t n = chain->store->extent_pages;
    return &chain->home_crcs[(size_t)(home - chain->homes.entries) * n + page % n];
}

static int home_add(struct store_chain *chain, uint64_t object, uint64_t index)
{
    struct store *store = chain->store;
    const struct entry *last = chain->homes.entries + chain->homes.count;
    uint64_t near = chain->homes.count ? last[-1].value + 1 : UINT64_MAX;
    int error = array_grow(store, &chain->home_crcs, chain->homes.count, &chain->home_crc_room,
                           store->extent_pages * sizeof *chain->home_crcs);
    uint64_t physical = error ? 0 : extent_claim(store, near);
    if (error || physical == UINT64_MAX)
        return error ?: -ENOSPC;
    error = table_add(store, &chain->homes, object, index, physical, 0);
    if (error)
        extent_unclaim(store, physical);
    else
        store->extents[physical].bulk = 1;      /* it is a chain's */
    return error;
}

uint64_t bulk_record_bytes(const struct store_chain *chain)
{
    uint32_t n = chain->store->extent_pages;
    return chain->homes.count * (sizeof(struct record_disk) + (n * sizeof(le32) + 7) / 8 * 8);
}

int store_bulk_page(struct store_chain *chain, uint64_t object, uint64_t page,
                    uint64_t *offset_bytes)
{
    struct store *store = chain->store;
    uint64_t index = page / store->extent_pages;
    const struct container_disk *container = directory_get(store, object, NULL);
    bool valid = !chain->commit_group && !chain->done && container &&
                 page < container_pages(container);
    int error = fence_get(store) ?: !valid ? -EINVAL :
        !plan_extent_fresh(store, object, index) || container_unlogged(container) ? -ENOENT :
        chain_too_long(chain, 1) ? -E2BIG :
        !home_find(chain, object, page) ? home_add(chain, object, index) : 0;
    if (error)
        return error;
    *offset_bytes = extent_offset(store, home_find(chain, object, page)->value) +
                    page % store->extent_pages * STORE_PAGE_BYTES;
    return 0;
}

void store_bulk_written(struct store_chain *chain, uint64_t object, uint64_t page, uint32_t crc)
{
    store_spill_drop(chain, object, page);      /* an older image, wherever it is */
    struct entry *home = home_find(chain, object, page);
    assert(home);
    home->kind |= 1u << page % chain->store->extent_pages;
    *crc_of(chain, home, page) = crc;
    chain->home_pages++;
    chain->home_unflushed = true;
}

int store_bulk_flush(struct store_chain *chain)
{
    struct store *store = chain->store;
    int error = fence_get(store);
    if (error || !chain->home_unflushed)
        return error;
    error = io_flush(&store->io);
    if (error)
        return fence_set(store, error);
    chain->home_unflushed = false;
    return 0;
}

/* bulk_drop drops a page that is in memory again; its place stays the chain's. */
void bulk_drop(struct store_chain *chain, uint64_t object, uint64_t page)
{
    struct entry *home = home_find(chain, object, page);
    uint32_t bit = 1u << page % chain->store->extent_pages;
    if (!home || !(home->kind & bit))
        return;
    home->kind &= ~bit;
    chain->home_pages--;
}

int bulk_find(const struct store_chain *chain, uint64_t object, uint64_t page,
              uint64_t *offset_bytes, uint32_t *crc)
{
    const struct entry *home = home_find(chain, object, page);
    uint32_t at = (uint32_t)(page % chain->store->extent_pages);
    if (!home || !(home->kind >> at & 1))
        return -ENOENT;
    *offset_bytes = extent_offset(chain->store, home->value) + (uint64_t)at * STORE_PAGE_BYTES;
    *crc = *crc_of(chain, home, page);
    return 0;
}

/* bulk_end gives up the chain's places; those of a commit that was applied are the container's. */
void bulk_end(struct store_chain *chain)
{
    struct store *store = chain->store;
    for (uint32_t i = 0; i < chain->homes.count; i++) {
        uint64_t physical = chain->homes.entries[i].value;
        if (store->extents[physical].state != EXTENT_CLAIMED)
            continue;
        store->extents[physical].bulk = 0;
        extent_unclaim(store, physical);
    }
    table_free(store, &chain->homes);
    store_release(store, chain->home_crcs,
                  chain->home_crc_room * store->extent_pages * sizeof *chain->home_crcs);
    chain->home_crcs = NULL;
    chain->home_crc_room = 0;
    chain->home_pages = 0;
}

/* ---- commit */

/* page_log logs one page more, in the record before if that ends where this one lies. */
static int page_log(struct store_group *group, uint64_t object, uint64_t page, uint64_t physical,
                    uint32_t crc)
{
    struct record_disk *r = run_last(group, RECORD_PAGE_HOME, object, page, physical);
    int error = txn_room(group, r ? 8 : sizeof *r + 8);
    if (error)
        return error;
    if (!r) {
        r = record_add(group, RECORD_PAGE_HOME, object, page, 0);
        r->physical = le64_of(physical);
    }
    le32 *crcs = (le32 *)(r + 1);
    uint64_t count = le64_get(r->base);
    if (!(count % 2)) {                         /* a record is a multiple of 8 bytes */
        group->used += 8;
        crcs[count + 1] = le32_of(0);
    }
    crcs[count++] = le32_of(crc);
    r->base = le64_of(count);
    r->data_bytes = le32_of((uint32_t)(count * sizeof(le32)));
    r->length = le32_of((uint32_t)(group->buffer + group->used - (uint8_t *)r));
    return 0;
}

int bulk_pages_log(struct store_group *group, const struct store_chain *chain)
{
    uint32_t n = chain->store->extent_pages;
    int error = chain->home_pages && chain->home_unflushed ? -EINVAL : 0;       /* BH2 */
    for (uint32_t i = 0; i < chain->homes.count && !error; i++) {
        const struct entry *home = &chain->homes.entries[i];
        if (home->kind)
            error = plan_extent_home(group, home->object, home->key, home->value, home->kind);
        for (uint32_t p = 0; p < n && !error; p++)
            if (home->kind >> p & 1)
                error = page_log(group, home->object, home->key * n + p, home->value,
                                 *crc_of(chain, home, p));
    }
    return error;
}
