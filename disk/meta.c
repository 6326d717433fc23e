/*
 * meta.c - metadata pages: in memory while the store is open, loaded from one of two areas.
 *
 * A page has the same bytes in memory and on disk. Its number is its place in both areas.
 *
 * Invariants
 *   ME1  A page that differs from what area a holds has dirty bit a; meta_dirty[a] counts them.
 *   ME2  Applying a committed record never needs memory that is not at hand (meta_reserve) nor a
 *       page number that is not there (area_pages_for gives the bound), so it cannot fail.
 */
#include "internal.h"

#define PART_BYTES ((PART_PAGES + 1) * (size_t)BLOCK_BYTES)

uint64_t area_map_bytes(uint32_t area_pages)
{
    return round_block((uint64_t)area_pages * sizeof(struct map_entry_disk));
}

/* area_bytes is the size of an area: of the map, and of the pages behind it. */
uint64_t area_bytes(uint32_t area_pages)
{
    return area_map_bytes(area_pages) + (uint64_t)area_pages * BLOCK_BYTES;
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

/* area_pages_for tells how many pages an area needs so that the hash never runs out: L leaves in
 * B buckets of c fill at most L/c + B pages, and splitting at three quarters keeps B below
 * L/(0.75c) + 1. */
uint32_t area_pages_for(uint64_t extents, uint32_t extent_bytes, uint32_t directory, uint32_t names)
{
    uint64_t c = (BLOCK_BYTES - sizeof(struct bucket_disk)) / leaf_bytes_for(extent_bytes);
    uint64_t pages = 1 + directory + names + extents / c + extents * 4 / (3 * c) + 3;
    return pages > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)pages;
}

int meta_setup(struct store *store)
{
    store->part = store->memory.alloc(store->memory.context, PART_BYTES);
    store->numbers.free = store->super.area_pages;
    store->numbers.fresh = 1;
    return store->part ? 0 : -ENOMEM;
}

static void spare_put(struct store *store, uint8_t *page)
{
    memcpy(page, &store->spares.first, sizeof store->spares.first);
    store->spares.first = page;
    store->spares.count++;
}

static uint8_t *spare_take(struct store *store)
{
    uint8_t *page = store->spares.first;
    memcpy(&store->spares.first, page, sizeof store->spares.first);
    store->spares.count--;
    return page;
}

void meta_trim(struct store *store, uint32_t kept)
{
    while (store->spares.count > kept)
        store_release(store, spare_take(store), BLOCK_BYTES);
}

void meta_forget(struct store *store)
{
    for (uint32_t i = 0; store->pages && i < store->super.area_pages; i++)
        store_release(store, store->pages[i].bytes, BLOCK_BYTES);
    memset(store->meta_dirty, 0, sizeof store->meta_dirty);
    store->numbers.free = store->super.area_pages;
    store->numbers.first = 0;
    store->numbers.fresh = 1;
    store->numbers.limit = store->directory_count = store->names_count = 0;
    store->numbers.container = 0;
}

void meta_teardown(struct store *store)
{
    meta_forget(store);
    store_release(store, store->part, PART_BYTES);
    meta_trim(store, 0);
}

int meta_reserve(struct store *store, uint32_t pages)
{
    pages = MIN(pages, store->numbers.free);    /* there are no more numbers to use them for */
    while (store->spares.count < pages) {
        uint8_t *page = store->memory.alloc(store->memory.context, BLOCK_BYTES);
        if (!page)
            return -ENOMEM;
        spare_put(store, page);
    }
    return 0;
}

/* number_take takes a page number that is not in use; 0: there is none. */
static uint32_t number_take(struct store *store)
{
    uint32_t number = store->numbers.first;
    if (number)
        store->numbers.first = store->pages[number].index;
    else if (store->numbers.fresh < store->super.area_pages)
        number = store->numbers.fresh++;
    return number;
}

uint32_t meta_page_new(struct store *store, enum meta_kind kind, uint32_t index)
{
    uint32_t page = kind == META_HEADER ? 0 : number_take(store);
    if ((!page && kind != META_HEADER) || !store->spares.count)
        return 0;
    assert(store->numbers.free && store->spares.first);                                  /* ME2 */
    uint8_t *bytes = spare_take(store);
    memset(bytes, 0, BLOCK_BYTES);
    struct meta_page *meta = &store->pages[page];
    checkpoint_freeze(store, page);
    *meta = (struct meta_page){ .bytes = bytes, .index = index, .kind = (uint8_t)kind,
                                .kept = meta->kept, .serial = meta->serial };
    meta_dirty_set(store, page, 3);
    store->numbers.free--;
    store->numbers.limit = MAX(store->numbers.limit, page + 1);
    return page;
}

void meta_page_drop(struct store *store, uint32_t page)
{
    struct meta_page *meta = &store->pages[page];
    uint8_t *bytes = meta->bytes;
    meta_touch(store, page);
    meta_dirty_set(store, page, 0);
    *meta = (struct meta_page){ .index = store->numbers.first, .kept = meta->kept,
                                .serial = meta->serial };
    store->numbers.first = page;
    for (uint32_t i = 0; i < PART_PAGES && !store->pages[store->numbers.limit - 1].bytes; i++)
        store->numbers.limit--;
    spare_put(store, bytes);
    store->numbers.free++;
}

void meta_dirty_set(struct store *store, uint32_t page, uint8_t areas)
{
    struct meta_page *meta = &store->pages[page];
    assert(meta->bytes || !areas);                                              /* ME1 */
    if (meta->dirty == areas)
        return;
    for (uint32_t a = 0; a < 2; a++)
        store->meta_dirty[a] += (areas >> a & 1u) - (meta->dirty >> a & 1u);
    meta->dirty = areas;
}

/* HEADER_NUMBERS lists the store's counters that page 0 has. */
#define HEADER_NUMBERS(number) \
    number(64, next_object) number(32, cursor_gib) number(32, hash_level) number(32, hash_split) \
    number(32, containers) number(32, names) number(32, doubts) number(64, leaves) \
    number(64, pages_present) number(32, doubts_sum)

/* meta_header_encode puts the counters into page 0, when a checkpoint begins. */
void meta_header_encode(struct store *store, uint64_t redo_lsn)
{
    struct meta_header_disk *out = (struct meta_header_disk *)store->pages[0].bytes;
    const struct header_kept *in = &store->kept;
    store->kept.doubts = doubts_count(store, &store->kept.doubts_sum);          /* TP5 */
    meta_touch(store, 0);
    out->magic = le64_of(META_MAGIC);
    out->redo_lsn = le64_of(redo_lsn);
    HEADER_NUMBERS(NUMBER_ENCODE)
}

static int header_decode(struct store *store, uint64_t redo_lsn)
{
    const struct meta_header_disk *in = (void *)store->pages[0].bytes;
    struct header_kept *out = &store->kept;
    if (store->pages[0].kind != META_HEADER || le64_get(in->magic) != META_MAGIC ||
        le64_get(in->redo_lsn) != redo_lsn)
        return -EUCLEAN;
    HEADER_NUMBERS(NUMBER_DECODE)
    if (out->next_object == 0 || out->next_object >> 62 || out->hash_level > 30 ||
        out->hash_split >= 1u << out->hash_level || out->cursor_gib > zone_gib(store) ||
        hash_buckets(store) >= store->super.area_pages)
        return -EUCLEAN;
    return 0;
}

static int list_place(uint32_t *list, uint32_t *count, uint32_t max, uint32_t index, uint32_t page)
{
    if (index >= max || list[index])
        return -EUCLEAN;
    list[index] = page;
    ++*count;
    return 0;
}

/* page_place puts one page of the map into the list that its kind keeps; buckets: chains_link. */
static int page_place(struct store *store, uint32_t page, const struct map_entry_disk *entry)
{
    struct meta_page *meta = &store->pages[page];
    uint32_t index = le32_get(entry->index);
    meta->kind = (uint8_t)le16_get(entry->kind);
    meta->index = index;
    switch (le16_get(entry->kind)) {
    case META_HEADER:
        return page == 0 ? 0 : -EUCLEAN;
    case META_DIRECTORY:
        return list_place(store->directory, &store->directory_count,
                          store->super.directory_pages_max, index, page);
    case META_NAMES:
        return list_place(store->names_list, &store->names_count, store->super.names_pages_max,
                          index, page);
    case META_BUCKET:
        meta->place = le16_get(entry->chain);
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

/* chains_link makes each bucket's pages a chain, in the order of their places: 0, 1, 2 ... */
static int chains_link(struct store *store, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct meta_page *meta = &store->pages[i];
        if (meta->kind != META_BUCKET)
            continue;
        if (meta->index >= hash_buckets(store))
            return -EUCLEAN;
        uint32_t *at = &store->heads[meta->index];
        while (*at && store->pages[*at].place < meta->place)    /* chains are short */
            at = &store->pages[*at].next;
        meta->next = *at;
        *at = i;
    }
    for (uint32_t bucket = 0; bucket < hash_buckets(store); bucket++) {
        uint32_t at = store->heads[bucket], place = 0;
        for (; at && store->pages[at].place == place; place++)
            at = store->pages[at].next;
        if (at || !place)
            return -EUCLEAN;
    }
    return 0;
}

/* verified_read reads what lies at `offset`. Bytes that arrive with a wrong CRC are read once more:
 * a transfer may have spoiled them. */
static int verified_read(const struct store *store, uint64_t offset, void *buffer, size_t bytes,
                         uint32_t seed, uint32_t crc)
{
    for (int i = 0; i < 2; i++) {
        int error = io_read(&store->io, offset, buffer, bytes);
        if (error || crc32c(seed, buffer, bytes) == crc)
            return error;
    }
    return -EUCLEAN;
}

/* page_load takes a page from `bytes`, or from the disk where those could not be read with their
 * neighbours (NULL), or are spoiled. */
static int page_load(struct store *store, uint32_t area, uint32_t page, const uint8_t *bytes)
{
    const struct map_entry_disk *entry = &store->map[page];
    uint32_t crc = le32_get(entry->crc);
    struct meta_page *meta = &store->pages[page];
    meta->bytes = store->memory.alloc(store->memory.context, BLOCK_BYTES);
    if (!meta->bytes)
        return -ENOMEM;
    store->numbers.free--;
    int error = 0;
    if (bytes && meta_crc(&store->super, page, bytes) == crc)
        memcpy(meta->bytes, bytes, BLOCK_BYTES);
    else
        error = verified_read(store, area_page_offset(&store->super, area, page), meta->bytes,
                              BLOCK_BYTES, crc_seed(store->super.uuid, CRC_META, page, 0), crc);
    if (error)
        return error;
    upgrade_page(store->super.format, le16_get(entry->kind), meta->bytes);
    uint8_t other = (uint8_t)(1u << !area);
    meta_dirty_set(store, page, store->super.format < FORMAT_VERSION ? 3 : other);      /* ME1 */
    return page_place(store, page, entry);
}

/* pages_load reads all pages that the map names, neighbours in one request. */
static int pages_load(struct store *store, uint32_t area, uint32_t count)
{
    int error = 0;
    for (uint32_t i = 0, n; i < count && !error; i += n ? n : 1) {
        for (n = 0; n < PART_PAGES && i + n < count && le16_get(store->map[i + n].kind); n++)
            ;
        uint64_t offset = area_page_offset(&store->super, area, i);
        const uint8_t *part = store->part;
        if (n && store->io.read(store->io.context, offset, store->part, (size_t)n * BLOCK_BYTES))
            part = NULL;                        /* pages are read one by one, then */
        for (uint32_t k = 0; k < n && !error; k++)
            error = page_load(store, area, i + k, part ? part + (size_t)k * BLOCK_BYTES : NULL);
    }
    return error;
}

static void numbers_free(struct store *store, uint32_t count)
{
    store->numbers.limit = store->numbers.fresh = count;
    for (uint32_t i = count; i-- > 1;)
        if (!store->pages[i].bytes) {
            store->pages[i].index = store->numbers.first;
            store->numbers.first = i;
        }
}

/* other_compare spares the other area what it holds: pages of which its map names the same version.
 * What a checkpoint that was cut off has written there since is known as well: it had changed after
 * the redo LSN, so the log changes it again (CP8; or see meta_differs). */
static void other_compare(struct store *store, uint32_t other)
{
    const struct checkpoint_info *info = &store->super.checkpoints[other];
    bool named = info->redo_lsn && info->pages <= store->super.area_pages;
    uint64_t left = named ? area_map_bytes(info->pages) : 0;
    uint64_t offset = store->super.area_start[other];
    uint32_t crc = map_seed(&store->super, other);
    uint32_t number = 0;
    for (size_t bytes; left; left -= bytes, offset += bytes) {
        bytes = (size_t)MIN(left, PART_BYTES);
        if (io_read(&store->io, offset, store->part, bytes))
            break;
        crc = crc32c(crc, store->part, bytes);
        const struct map_entry_disk *theirs = (const void *)store->part;
        for (size_t i = 0; i < bytes / sizeof *theirs && number < info->pages; i++, number++)
            if (store->pages[number].bytes && le32_get(theirs[i].saved) &&
                le32_get(theirs[i].saved) == le32_get(store->map[number].saved) &&
                le32_get(theirs[i].crc) == le32_get(store->map[number].crc))
                meta_dirty_set(store, number, 0);
    }
    if (left || crc != info->root_crc)          /* the map cannot be believed */
        for (uint32_t i = 0; i < store->numbers.limit; i++)
            meta_dirty_set(store, i, store->pages[i].bytes ? (uint8_t)(1u << other) : 0);
}

void meta_differs(struct store *store)
{
    for (uint32_t i = 0; i < store->numbers.limit; i++)
        if (store->pages[i].bytes)
            meta_dirty_set(store, i, 3);
}

/* meta_load loads and checks the metadata of one area, into new tables. */
int meta_load(struct store *store, uint32_t area)
{
    const struct checkpoint_info *info = &store->super.checkpoints[area];
    if (!info->redo_lsn || info->pages < 1 || info->pages > store->super.area_pages)
        return -EUCLEAN;
    uint64_t map_bytes = area_map_bytes(info->pages);
    int error = verified_read(store, store->super.area_start[area], store->map, map_bytes,
                              map_seed(&store->super, area), info->root_crc) ?:
                pages_load(store, area, info->pages) ?:
                header_decode(store, info->redo_lsn);
    if (!error && (!list_dense(store->directory, store->directory_count) ||
                   !list_dense(store->names_list, store->names_count)))
        error = -EUCLEAN;
    if (error)
        return error;
    numbers_free(store, info->pages);
    if (area == store->super.checkpoint_index && store->super.format == FORMAT_VERSION)
        other_compare(store, !area);
    return chains_link(store, info->pages);
}
