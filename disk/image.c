/*
 * image.c - recovery's pages: built from the log in memory, then written home.
 *
 * The first record of a page after the redo LSN is complete, so no page is needed that is not built
 * here. Images may be limited in number (store_open_options.image_pages). When there are so many,
 * all go home and their memory is free; a page that the log changes further is read back. They are
 * found by a hash of their place on the disk, so what they cost is what the log holds, not what the
 * disk could.
 *
 * Invariants
 *   IG1  A page that the log has written so far has an image, or its extent says `homed`: it went
 *       home from here, and the leaf has its CRC.
 *   IG2  A home page is written only when the log that it comes from is durable. Should recovery
 *       end before it is through, the next one builds the same page again, so a torn one does no
 *       harm.
 *   IG3  Where a PAGE_HOME record of the log lies in wait for a place, nothing older is written:
 *       the only copy of what it names is there. (From the newest checkpoint on no log has older
 *       records of such a place, EX2; from the older one on it may.)
 *   IG4  Of pages that were not home when the checkpoint was saved, all records since a full one
 *       lie in the log behind the LSN where its pages begin (CU3). A record there counts if the
 *       page that was saved lies where it says. (No extent changes hands between that LSN and the
 *       redo LSN, EX2.) Of a page whose first record there is a difference the home is right.
 */
#include "internal.h"

#define HOME_RUN_PAGES 16u

static uint8_t *bytes_of(const struct entry *image) { return (uint8_t *)(uintptr_t)image->value; }

static struct entry *image_find(const struct images *images, uint64_t number)
{
    return table_find(&images->table, number, 0);
}

const uint8_t *image_bytes(const struct store *store, uint64_t number)
{
    const struct entry *image = image_find(&store->replay.images, number);
    return image ? bytes_of(image) : NULL;
}

static void image_release(struct store *store, struct entry *image)
{
    store_release(store, bytes_of(image), STORE_PAGE_BYTES);
    image->value = 0;
}

static void images_clear(struct store *store)
{
    struct table *table = &store->replay.images.table;
    for (uint32_t i = 0; i < table->count; i++)
        image_release(store, &table->entries[i]);
    for (uint32_t i = 0; i < table->room; i++)
        table->entries[i].head = 0;
    table->count = 0;
}

void images_drop(struct store *store)
{
    images_clear(store);
    table_free(store, &store->replay.images.table);
    table_free(store, &store->replay.bulk);
    store->replay.on = false;
}

void image_drop(struct store *store, uint64_t extent, uint32_t page)
{
    struct entry *image = image_find(&store->replay.images, extent * store->extent_pages + page);
    store->extents[extent].homed &= (uint16_t)~(1u << page);
    if (image)
        image_release(store, image);
}

/* ---- places that the log fills again by PAGE_HOME */

static int place_note(struct store *store, uint64_t extent, uint64_t lsn)
{
    struct entry *place = table_find(&store->replay.bulk, extent, 0);
    if (!place)
        return table_add(store, &store->replay.bulk, extent, 0, lsn, 0);
    place->value = lsn;
    return 0;
}

/* place_waits tells whether a record behind this commit says that the extent's bytes are home. */
static bool place_waits(const struct store *store, uint64_t extent, uint64_t csn)
{
    const struct entry *place = table_find(&store->replay.bulk, extent, 0);
    return place && csn < place->value;
}

int images_spare(struct store *store, const uint8_t *group, uint64_t lsn)
{
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    uint64_t n = store->extent_pages;
    int error = 0;
    while (!error && record_next(&walk, &record) > 0) {
        uint64_t page = le64_get(record->page), extent = le64_get(record->physical);
        uint64_t count = le32_get(record->data_bytes) / sizeof(le32);
        if (le16_get(record->type) != RECORD_PAGE_HOME || !count)
            continue;
        uint64_t last = extent + (page % n + count - 1) / n;
        for (; extent <= last && extent < store->super.extents && !error; extent++)
            error = place_note(store, extent, lsn + (uint64_t)((const uint8_t *)record - group));
    }
    return error;
}

/* ---- home: in ascending order */

static bool number_less(const void *a, const void *b)
{
    return ((const struct entry *)a)->object < ((const struct entry *)b)->object;
}

/* run_home writes recovered pages that are neighbours on the disk, and enters their CRCs. */
static int run_home(struct store *store, const struct entry *run, uint32_t count, uint8_t *buffer)
{
    uint32_t n = store->extent_pages;
    assert(store->replay.homes_begun);                                                 /* IG2 */
    for (uint32_t i = 0; i < count; i++) {
        struct extent *extent = &store->extents[run[i].object / n];
        uint32_t page = (uint32_t)(run[i].object % n), at;
        struct leaf_disk *leaf = extent_leaf(store, extent, &at);
        if (never(!leaf))
            return -EUCLEAN;
        meta_touch(store, at);
        memcpy(buffer + (size_t)i * STORE_PAGE_BYTES, bytes_of(&run[i]), STORE_PAGE_BYTES);
        uint32_t crc = crc32c(0, bytes_of(&run[i]), STORE_PAGE_BYTES);
        leaf_crc(leaf)[page] = le32_of(crc);
        page_dirty_set(store, leaf, page, false);
        extent->homed |= (uint16_t)(1u << page);
    }
    return io_write(&store->io, store->super.data_start + run[0].object * STORE_PAGE_BYTES,
                      buffer, (size_t)count * STORE_PAGE_BYTES);
}

/* run_length counts how many of `left` entries are images that follow one another on the disk. */
static uint32_t run_length(const struct entry *run, uint32_t left)
{
    uint32_t count = 0;
    while (count < HOME_RUN_PAGES && count < left && bytes_of(&run[count]) &&
           run[count].object == run[0].object + count)
        count++;
    return count;
}

static int runs_home(struct store *store, uint8_t *buffer)
{
    struct images *images = &store->replay.images;
    struct table *table = &images->table;
    int error = 0;
    /* the table's chains are lost */
    array_sort(table->entries, table->count, sizeof *table->entries, number_less);
    for (uint32_t i = 0, count; i < table->count && !error; i += count ? count : 1) {
        const struct entry *run = &table->entries[i];
        count = run_length(run, table->count - i);
        if (count)
            error = run_home(store, run, count, buffer);
        images->written += count;
    }
    images_clear(store);
    return error;
}

int images_home(struct store *store)
{
    uint8_t *buffer = store_alloc(store, HOME_RUN_PAGES * STORE_PAGE_BYTES);
    int error = buffer ? runs_home(store, buffer) : -ENOMEM;
    store_release(store, buffer, HOME_RUN_PAGES * STORE_PAGE_BYTES);
    return error;
}

/* ---- from the log */

/* image_new gets memory for one more image. Beyond the limit the others go home first (IG2). */
static int image_new(struct store *store, uint64_t number, struct entry **out)
{
    struct images *images = &store->replay.images;
    struct table *table = &images->table;
    struct entry *image = image_find(images, number);       /* if found: of a freed page */
    if (!image) {
        bool many = images->limit && table->count >= images->limit;
        int error = (many ? homes_begin(store) ?: images_home(store) : 0) ?:
                    table_add(store, table, number, 0, 0, 0);
        if (error)
            return error;
        image = &table->entries[table->count - 1];
    }
    image->value = (uintptr_t)store->memory.alloc(store->memory.context, STORE_PAGE_BYTES);
    *out = image;
    return image->value ? 0 : -ENOMEM;
}

/* record_changes tells whether what the record makes depends on the version before. */
static bool record_changes(const struct record_disk *record)
{
    uint32_t type = le16_get(record->type);
    return type != RECORD_PAGE_FULL && type != RECORD_PAGE_LOGGED && le64_get(record->base);
}

static int image_change(struct store *store, const struct record_disk *record,
                        struct leaf_disk *leaf, uint32_t page, uint64_t lsn)
{
    uint64_t extent = le64_get(leaf->physical), number = extent * store->extent_pages + page;
    bool change = record_changes(record);
    struct entry *image = image_find(&store->replay.images, number);
    bool here = image && image->value, homed = store->extents[extent].homed >> page & 1;
    int error = 0;
    if (place_waits(store, extent, lsn))                                        /* IG3 */
        return 0;
    if (change && !here && !homed)
        return -EUCLEAN;                /* the first record after a redo LSN must be complete */
    if (!here)
        error = image_new(store, number, &image);
    if (!error && !here && change) {
        error = block_read(&store->io, store->super.data_start + number * STORE_PAGE_BYTES,
                           bytes_of(image), le32_get(leaf_crc(leaf)[page]));
        error = error == -EUCLEAN ? -EIO : error;       /* the page was there a moment ago */
    }
    if (error)
        return error;
    if (le16_get(record->type) == RECORD_PAGE_LOGGED)
        return logged_read(store, record, lsn, bytes_of(image));
    record_page(record, bytes_of(image));
    return 0;
}

int image_write(struct store *store, const struct record_disk *record,
                struct leaf_disk *leaf, uint32_t page, uint64_t lsn)
{
    if (record_changes(record) &&
        le64_get(record->base) != le64_get(leaf_lsn(store, leaf)[page]) &&
        !place_waits(store, le64_get(leaf->physical), lsn))
        return -EUCLEAN;
    return image_change(store, record, leaf, page, lsn);
}

/* ---- before the redo LSN */

/* record_before applies one record of a page. The leaf tells which version it is in the end. */
static int record_before(struct store *store, void *none, const struct record_disk *record,
                         uint64_t csn)
{
    uint64_t object = le64_get(record->object), page = le64_get(record->page), number;
    uint32_t n = store->extent_pages, p = (uint32_t)(page % n), slot;
    struct unpacked unpacked;
    (void)none;
    if (!record_writes(le16_get(record->type)))
        return 0;
    struct leaf_disk *leaf = hash_find(store, object, page / n, NULL);
    if (!leaf || le64_get(leaf->physical) != le64_get(record->physical) ||
        !(le32_get(leaf->mask) >> p & 1) || csn > le64_get(leaf_lsn(store, leaf)[p]))
        return 0;                                                               /* IG4 */
    const struct container_disk *container = directory_get(store, object, &slot);
    if (never(!container) || !page_record_valid(container, record))
        return -EUCLEAN;
    record = record_unpack(record, &unpacked);
    if (!record || !record_page_valid(record))
        return -EUCLEAN;
    number = le64_get(leaf->physical) * n + p;
    bool homed = store->extents[le64_get(leaf->physical)].homed >> p & 1;
    if (record_changes(record) && !image_bytes(store, number) && !homed)
        return 0;                                                               /* IG4 */
    int error = image_change(store, record, leaf, p, csn);
    if (!error)
        page_dirty_set(store, leaf, p, true);
    return error;
}

int images_before(struct store *store, const uint8_t *group, uint64_t lsn)
{
    return records_visit(store, group, lsn, record_before, NULL);
}
