/*
 * page.c - where pages lie, and home writes. A page has one home for as long as its extent is used,
 * and is overwritten in place.
 */
#include "internal.h"

/* page_tell tells what the leaf of its extent, or none (NULL), says of a page. */
static void page_tell(struct store *store, uint64_t page, struct leaf_disk *leaf,
                      struct store_page *out)
{
    uint32_t slot = (uint32_t)(page % store->extent_pages);
    *out = (struct store_page){.claimed = leaf && le16_get(leaf->claimed) >> slot & 1};
    if (!leaf || !(le32_get(leaf->mask) >> slot & 1))
        return;
    uint64_t extent = le64_get(leaf->physical);
    out->present = true;
    out->dirty = store->extents[extent].dirty >> slot & 1;
    out->offset_bytes = extent_offset(store, extent) + (uint64_t)slot * STORE_PAGE_BYTES;
    out->lsn = le64_get(leaf_lsn(store, leaf)[slot]);
    out->crc = out->dirty ? 0 : le32_get(leaf_crc(leaf)[slot]);
    if (out->dirty)
        logged_find(store, le64_get(leaf->object), page, &out->log_offset_bytes, &out->log_crc);
}

int store_pages_find(struct store *store, uint64_t object, uint64_t page, uint32_t count,
                     struct store_page *out)
{
    struct leaf_disk *leaf = NULL;
    for (uint32_t i = 0; i < count; i++, page++) {
        if (i == 0 || page % store->extent_pages == 0)
            leaf = hash_find(store, object, page / store->extent_pages, NULL);
        if (i == 0 && !leaf && !directory_get(store, object, NULL))
            return -ENOENT;
        page_tell(store, page, leaf, &out[i]);
    }
    return 0;
}

int store_page_find(struct store *store, uint64_t object, uint64_t page, struct store_page *out)
{
    return store_pages_find(store, object, page, 1, out);
}

int store_page_read(struct store *store, uint64_t object, uint64_t page, void *bytes)
{
    struct store_page found;
    int error = store_page_find(store, object, page, &found);
    if (error)
        return error;
    if (!found.present) {
        memset(bytes, 0, STORE_PAGE_BYTES);
        return 0;
    }
    uint64_t number = (found.offset_bytes - store->super.data_start) / STORE_PAGE_BYTES;
    const uint8_t *image = image_bytes(store, number);
    if (image) {
        memcpy(bytes, image, STORE_PAGE_BYTES);
        return 0;
    }
    if (found.dirty && !found.log_offset_bytes)
        return -EBUSY;
    return found.dirty ? block_read(&store->io, found.log_offset_bytes, bytes, found.log_crc)
                       : block_read(&store->io, found.offset_bytes, bytes, found.crc);
}

int store_page_home(struct store *store, uint64_t object, uint64_t page, uint64_t *offset_bytes)
{
    struct store_page found;
    int error = fence_get(store);
    if (!error && (store_page_find(store, object, page, &found) || !found.present))
        error = -ENOENT;
    if (!error)
        *offset_bytes = found.offset_bytes;
    return error;
}

int store_page_cleaned(struct store *store, uint64_t object, uint64_t page, store_lsn_t lsn,
                       uint32_t crc)
{
    uint32_t slot = (uint32_t)(page % store->extent_pages), at;
    struct leaf_disk *leaf = hash_find(store, object, page / store->extent_pages, &at);
    int error = fence_get(store) ?:
                !leaf || !(le32_get(leaf->mask) >> slot & 1)    ? -ENOENT :
                le64_get(leaf_lsn(store, leaf)[slot]) != lsn    ? -ESTALE : 0;
    if (error)
        return error;
    if (store->pages[at].dirty != 3)
        meta_touch(store, at);          /* else a copy that is still to be made may have the CRC */
    leaf_crc(leaf)[slot] = le32_of(crc);
    page_dirty_set(store, leaf, slot, false);
    logged_forget(store, object, page);
    return 0;
}

/* held_until tells whether a commit holds `page`. As far as *next (not included) it is the same for
 * all. `top`: plan_top. */
static bool held_until(const struct store *store, uint64_t object, uint64_t page, uint64_t top,
                       uint64_t *next)
{
    uint32_t n = store->extent_pages, slot = (uint32_t)(page % n);
    *next = UINT64_MAX;
    if (page / n >= top && !store->doubts.prepared)
        return false;
    uint32_t bits = plan_extent_held(store, object, page / n) >> slot;
    bool held = bits & 1;
    if (!held && store->doubts.prepared) {    /* page by page (TP4) */
        *next = page + 1;
        return doubt_claims(store, NULL, object, page, 1, next) ||
               store_page_prepared(store, object, page);
    }
    uint32_t other = held ? ~bits : bits;
    *next = page + (other ? MIN((uint32_t)__builtin_ctz(other), n - slot) : n - slot);
    return held;
}

int store_pages_unused(struct store *store, uint64_t object, uint64_t from, uint64_t count,
                       store_skip_fn *skip, void *context, uint64_t *first)
{
    const struct container_disk *container = directory_get(store, object, NULL);
    if (!container)
        return -ENOENT;
    uint64_t pages = container_pages(container), start = from, page = from;
    if (!count || count > pages)
        return count ? -ENOSPC : -EINVAL;
    uint64_t top = plan_top(store, object);
    while (page < pages) {
        uint64_t next = page + 1, end;
        if (skip && skip(context, object, page, &next)) {
            page = start = next > page ? next : page + 1;
            continue;
        }
        if (held_until(store, object, page, top, &end)) {
            page = start = end;
            continue;
        }
        page = MIN(skip ? MIN(next, end) : end, start + count);
        if (page - start == count && page <= pages) {
            *first = start;
            return 0;
        }
    }
    return -ENOSPC;
}

void store_stats(const struct store *store, struct store_stats *out)
{
    const struct superblock *super = &store->super;
    *out = store->counters;
    out->disk_bytes = super->disk_bytes;
    out->log_bytes = super->log_bytes;
    out->log_used_bytes = super->log_bytes - store_log_free(store);
    out->extent_bytes = super->extent_bytes;
    out->extents = super->extents;
    out->free_extents = store->space.free;
    out->claimed_extents = store->space.claimed;
    out->freed_extents = store->space.freed;
    out->pages_present = store->kept.pages_present;
    out->pages_dirty = store->space.dirty;
    out->containers = store->kept.containers;
    out->names = store->kept.names;
    out->generation = super->generation;
    out->epoch = store->log.epoch;
    out->zone = super->zone;
    out->end_lsn = store->log.end;
    out->redo_lsn = store->log.redo;
    out->older_redo_lsn = store->log.keep;
    out->chains = chains_count(store, &out->chain_pages);
    out->logged_pages = store->logged_pages;
    out->prepared = store->doubts.prepared;
    out->decisions = store->doubts.kept;
    holds_tell(store, out);
    memcpy(out->uuid, super->uuid, 16);
}
