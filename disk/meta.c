/*
 * meta.c - metadata pages: in memory while the store is open, loaded from one of two areas.
 *
 * A page has the same bytes in memory and on disk. Its number is its place in both areas.
 *
 * Invariants
 *   M1  A page that differs from what area a holds has dirty bit a; meta_dirty[a] counts them.
 *   M2  Applying a committed record never needs memory that is not at hand (meta_reserve) nor a
 *       page number that is not there (area_pages_for gives the bound), so it cannot fail.
 */
#include "internal.h"

uint64_t area_map_bytes(uint32_t area_pages)
{
    uint64_t bytes = (uint64_t)area_pages * sizeof(struct map_entry_disk);
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

uint64_t area_page_offset(const struct superblock *super, uint32_t area, uint32_t page)
{
    return super->area_start[area] + area_map_bytes(super->area_pages) +
           (uint64_t)page * BLOCK_BYTES;
}

uint32_t leaf_bytes_for(uint32_t extent_bytes)
{
    return (uint32_t)sizeof(struct leaf_disk) + 12 * (extent_bytes / BLOCK_BYTES);
}

/*
 * How many pages an area needs so that the hash never runs out: L leaves in B buckets of c fill
 * at most L/c + B pages, and splitting at three quarters keeps B below L/(0.75c) + 1.
 */
uint32_t area_pages_for(uint64_t extents, uint32_t extent_bytes, uint32_t directory, uint32_t names)
{
    uint64_t c = (BLOCK_BYTES - sizeof(struct bucket_disk)) / leaf_bytes_for(extent_bytes);
    uint64_t pages = 1 + directory + names + extents / c + extents * 4 / (3 * c) + 3;
    return pages > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)pages;
}

/* Tables of a size that the superblock fixes. */
int meta_setup(struct store *store)
{
    uint32_t n = store->super.area_pages;
    store->pages = store_alloc(store, n * sizeof *store->pages);
    store->page_crcs = store_alloc(store, n * sizeof *store->page_crcs);
    store->heads = store_alloc(store, n * sizeof *store->heads);
    store->directory = store_alloc(store, n * sizeof *store->directory);
    store->names_list = store_alloc(store, n * sizeof *store->names_list);
    store->use = store_alloc(store, store->super.directory_pages_max * CONTAINERS_PER_PAGE *
                                    sizeof *store->use);
    if (!store->pages || !store->page_crcs || !store->heads || !store->directory ||
        !store->names_list || !store->use)
        return -ENOMEM;
    store->free_pages = n;
    return 0;
}

/* Forgets all pages; the tables stay. */
static void pages_drop(struct store *store)
{
    uint32_t n = store->super.area_pages;
    for (uint32_t i = 0; store->pages && i < n; i++)
        store_release(store, store->pages[i].bytes, BLOCK_BYTES);
    if (store->pages)
        memset(store->pages, 0, n * sizeof *store->pages);
    memset(store->meta_dirty, 0, sizeof store->meta_dirty);
    store->free_pages = n;
    store->page_limit = store->directory_count = store->names_count = 0;
}

void meta_teardown(struct store *store)
{
    uint32_t n = store->super.area_pages;
    pages_drop(store);
    store_release(store, store->pages, n * sizeof *store->pages);
    store_release(store, store->page_crcs, n * sizeof *store->page_crcs);
    store_release(store, store->heads, n * sizeof *store->heads);
    store_release(store, store->directory, n * sizeof *store->directory);
    store_release(store, store->names_list, n * sizeof *store->names_list);
    store_release(store, store->use, store->super.directory_pages_max * CONTAINERS_PER_PAGE *
                  sizeof *store->use);
    while (store->spare_count) {
        uint8_t *page = store->spare;
        memcpy(&store->spare, page, sizeof store->spare);
        store->spare_count--;
        store_release(store, page, BLOCK_BYTES);
    }
}

int meta_reserve(struct store *store, uint32_t pages)
{
    if (pages > store->free_pages)      /* there are no more numbers than that to use them for */
        pages = store->free_pages;
    while (store->spare_count < pages) {
        uint8_t *page = store->memory.alloc(store->memory.context, BLOCK_BYTES);
        if (!page)
            return -ENOMEM;
        memcpy(page, &store->spare, sizeof store->spare);
        store->spare = page;
        store->spare_count++;
    }
    return 0;
}

/* Gives back what a large group had reserved. */
void meta_trim(struct store *store)
{
    while (store->spare_count > 64) {
        uint8_t *page = store->spare;
        memcpy(&store->spare, page, sizeof store->spare);
        store->spare_count--;
        store_release(store, page, BLOCK_BYTES);
    }
}

uint32_t meta_page_new(struct store *store, enum meta_kind kind, uint32_t index)
{
    uint32_t page = kind == META_HEADER ? 0 : 1;
    while (page < store->super.area_pages && store->pages[page].bytes)
        page++;
    if (page == store->super.area_pages || !store->spare_count)
        return 0;
    uint8_t *bytes = store->spare;
    memcpy(&store->spare, bytes, sizeof store->spare);
    store->spare_count--;
    if (!BUG(BUG_META_OLD))
        memset(bytes, 0, BLOCK_BYTES);
    store->pages[page] = (struct meta_page){ .bytes = bytes, .index = index,
                                             .kind = (uint16_t)kind,
                                             .serial = store->checkpoint_serial };
    meta_dirty_set(store, page, 3);
    store->free_pages--;
    if (page >= store->page_limit)
        store->page_limit = page + 1;
    return page;
}

void meta_page_drop(struct store *store, uint32_t page)
{
    uint8_t *bytes = store->pages[page].bytes;
    meta_touch(store, page);
    meta_dirty_set(store, page, 0);
    memset(&store->pages[page], 0, sizeof store->pages[page]);
    while (store->page_limit && !store->pages[store->page_limit - 1].bytes)
        store->page_limit--;
    memcpy(bytes, &store->spare, sizeof store->spare);
    store->spare = bytes;
    store->spare_count++;
    store->free_pages++;
}

void meta_dirty_set(struct store *store, uint32_t page, uint8_t areas)
{
    struct meta_page *meta = &store->pages[page];
    for (uint32_t a = 0; a < 2; a++)
        store->meta_dirty[a] += (areas >> a & 1u) - (meta->dirty >> a & 1u);
    meta->dirty = areas;
}

/* A checkpoint that still needs the page as it is gets its copy. */
void meta_touch(struct store *store, uint32_t page)
{
    if (!BUG(BUG_NO_FREEZE))
        checkpoint_freeze(store, page);
    meta_dirty_set(store, page, 3);
}

/* Page 0 from the counters; done when a checkpoint begins. */
void meta_header_encode(struct store *store, uint64_t redo_lsn)
{
    struct meta_header_disk *header = (struct meta_header_disk *)store->pages[0].bytes;
    meta_touch(store, 0);
    header->magic = le64_of(META_MAGIC);
    header->redo_lsn = le64_of(redo_lsn);
    header->next_object = le64_of(store->next_object);
    header->cursor_gib = le32_of(store->cursor_gib);
    header->hash_level = le32_of(store->hash_level);
    header->hash_split = le32_of(store->hash_split);
    header->containers = le32_of(store->containers);
    header->names = le32_of(store->names);
    header->leaves = le64_of(store->leaves);
    header->pages_present = le64_of(store->pages_present);
}

static int header_decode(struct store *store, uint64_t redo_lsn)
{
    const struct meta_header_disk *header = (void *)store->pages[0].bytes;
    if (le64_get(header->magic) != META_MAGIC || le64_get(header->redo_lsn) != redo_lsn)
        return -EUCLEAN;
    store->next_object = le64_get(header->next_object);
    store->cursor_gib = le32_get(header->cursor_gib);
    store->hash_level = le32_get(header->hash_level);
    store->hash_split = le32_get(header->hash_split);
    store->containers = le32_get(header->containers);
    store->names = le32_get(header->names);
    store->leaves = le64_get(header->leaves);
    store->pages_present = le64_get(header->pages_present);
    if (store->next_object == 0 || store->next_object >> 62 || store->hash_level > 30 ||
        store->hash_split >= 1u << store->hash_level ||
        store->cursor_gib > STORE_ZONE_BYTES / STORE_SEGMENT_UNIT ||
        hash_buckets(store) >= store->super.area_pages)
        return -EUCLEAN;
    return 0;
}

/* Places one page of the map into the list that its kind keeps. `chain` of a bucket page is held
 * in `next` until chains_link. */
static int page_place(struct store *store, uint32_t page, const struct map_entry_disk *entry)
{
    struct meta_page *meta = &store->pages[page];
    uint32_t index = le32_get(entry->index);
    meta->kind = le16_get(entry->kind);
    meta->index = index;
    switch (meta->kind) {
    case META_HEADER:
        return page == 0 ? 0 : -EUCLEAN;
    case META_DIRECTORY:
        if (index >= store->super.directory_pages_max || store->directory[index])
            return -EUCLEAN;
        store->directory[index] = page;
        store->directory_count++;
        return 0;
    case META_NAMES:
        if (index >= store->super.names_pages_max || store->names_list[index])
            return -EUCLEAN;
        store->names_list[index] = page;
        store->names_count++;
        return 0;
    case META_BUCKET:
        meta->next = meta->place = le16_get(entry->chain);
        return index < store->super.area_pages ? 0 : -EUCLEAN;
    default:
        return -EUCLEAN;
    }
}

static bool list_dense(const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!list[i])
            return false;
    return true;
}

/* Links each bucket's pages by their place in the chain; every bucket has places 0, 1, 2 ... The heads
 * and `by_place` (a word for each bucket) are zero: a large table costs what is used of it. */
static int chains_link(struct store *store, uint32_t count, uint32_t *by_place)
{
    uint32_t pages = 0;
    for (uint32_t i = 1; i < count; i++)
        pages += store->pages[i].bytes && store->pages[i].kind == META_BUCKET;
    /* Chains are short: pass k hangs the pages of place k below those of place k - 1. */
    for (uint32_t place = 0, linked = 0; linked < pages; place++) {
        uint32_t before = linked;
        for (uint32_t i = 1; i < count; i++) {
            struct meta_page *meta = &store->pages[i];
            if (!meta->bytes || meta->kind != META_BUCKET || meta->next != place ||
                meta->dirty & 4)
                continue;
            if (meta->index >= hash_buckets(store))
                return -EUCLEAN;
            uint32_t above = by_place[meta->index];
            if (place ? !above || store->pages[above].place + 1u != place : above)
                return -EUCLEAN;
            if (!place)
                store->heads[meta->index] = i;
            else
                store->pages[above].next = i;
            by_place[meta->index] = i;
            meta->dirty |= 4;                   /* linked */
            linked++;
        }
        if (linked == before)
            return -EUCLEAN;
    }
    for (uint32_t i = 1; i < count; i++)
        if (store->pages[i].kind == META_BUCKET) {
            store->pages[i].dirty &= 3;
            if (by_place[store->pages[i].index] == i)
                store->pages[i].next = 0;       /* the last of its chain */
        }
    for (uint32_t i = 0; i < hash_buckets(store); i++)
        if (!store->heads[i])
            return -EUCLEAN;
    return 0;
}

/* What lies at `offset`. Bytes that arrive with a wrong CRC are read once more: a transfer may have
 * spoiled them. */
static int verified_read(const struct store *store, uint64_t offset, void *buffer, size_t bytes,
                         uint32_t seed, uint32_t crc)
{
    for (int i = 0; i < 2; i++) {
        int error = store_read(store, offset, buffer, bytes);
        if (error || crc32c(seed, buffer, bytes) == crc || BUG(BUG_META_CRC))
            return error;
    }
    return -EUCLEAN;
}

static int page_load(struct store *store, uint32_t area, uint32_t page,
                     const struct map_entry_disk *entry)
{
    uint8_t *bytes = store->memory.alloc(store->memory.context, BLOCK_BYTES);
    if (!bytes)
        return -ENOMEM;
    store->pages[page].bytes = bytes;
    store->free_pages--;
    int error = verified_read(store, area_page_offset(&store->super, area, page), bytes, BLOCK_BYTES,
                              crc_seed(store->super.uuid, CRC_META, page, 0), le32_get(entry->crc));
    if (error)
        return error;
    store->page_crcs[page] = le32_get(entry->crc);
    meta_dirty_set(store, page, BUG(BUG_OTHER_AREA) ? 0 : (uint8_t)(1u << !area));  /* M1 */
    return page_place(store, page, entry);
}

/* Loads and checks the metadata of one area; whatever was loaded before is dropped. */
int meta_load(struct store *store, uint32_t area)
{
    const struct checkpoint_info *info = &store->super.checkpoints[area];
    uint64_t map_bytes = area_map_bytes(info->pages);
    if (!info->redo_lsn || info->pages < 1 || info->pages > store->super.area_pages)
        return -EUCLEAN;
    if (store->loaded) {
        pages_drop(store);
        memset(store->heads, 0, store->super.area_pages * sizeof *store->heads);
        memset(store->directory, 0, store->super.area_pages * sizeof *store->directory);
        memset(store->names_list, 0, store->super.area_pages * sizeof *store->names_list);
    }
    store->loaded = true;
    struct map_entry_disk *map = store_alloc(store, map_bytes);
    int error = map ? 0 : -ENOMEM;
    if (!error)
        error = verified_read(store, store->super.area_start[area], map, map_bytes,
                              crc_seed(store->super.uuid, CRC_MAP, info->redo_lsn, 0), info->root_crc);
    for (uint32_t i = 0; i < info->pages && !error; i++)
        if (le16_get(map[i].kind) != META_FREE)
            error = page_load(store, area, i, &map[i]);
    store->page_limit = info->pages;
    if (!error && (!store->pages[0].bytes || store->pages[0].kind != META_HEADER))
        error = -EUCLEAN;
    if (!error)
        error = header_decode(store, info->redo_lsn);
    if (!error && (!list_dense(store->directory, store->directory_count) ||
                   !list_dense(store->names_list, store->names_count)))
        error = -EUCLEAN;
    store_release(store, map, map_bytes);
    if (error)
        return error;
    size_t buckets_bytes = hash_buckets(store) * sizeof(uint32_t);
    uint32_t *by_place = store_alloc(store, buckets_bytes);
    error = by_place ? chains_link(store, info->pages, by_place) : -ENOMEM;
    store_release(store, by_place, buckets_bytes);
    return error;
}
