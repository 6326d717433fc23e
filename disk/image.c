/*
 * image.c - recovery's pages: built from the log in memory, then written home.
 *
 * The first record of a page after the redo LSN is complete, so no page is needed that is not built
 * here. Images may be limited in number (store_open_options.image_pages). When there are so many, all
 * go home and their memory is free; a page that the log changes further is read back.
 *
 * Invariants
 *   M1  An image is NULL (the log has nothing of the page), bytes, or HOME: then the leaf has their CRC.
 *   M2  A home page is written only when the log that it comes from is durable. Should recovery end
 *       before it is through, the next one builds the same page again, so a torn one does no harm.
 */
#include "internal.h"

#define HOME_RUN_PAGES 16u

static uint8_t home;
#define HOME (&home)

static uint8_t **image_place(struct store *store, uint64_t extent, uint32_t page)
{
    return &store->images[extent * store->extent_pages + page];
}

static uint64_t images_total(const struct store *store)
{
    return store->super.extents * store->extent_pages;
}

int images_setup(struct store *store)
{
    store->images = store_alloc(store, images_total(store) * sizeof *store->images);
    return store->images ? 0 : -ENOMEM;
}

static void image_release(struct store *store, uint8_t **image, uint8_t *instead)
{
    if (*image && *image != HOME) {
        store_release(store, *image, STORE_PAGE_BYTES);
        store->images_held--;
    }
    *image = instead;
}

void images_drop(struct store *store)
{
    for (uint64_t i = 0; store->images && store->images_held; i++)
        image_release(store, &store->images[i], NULL);
    store_release(store, store->images, images_total(store) * sizeof *store->images);
    store->images = NULL;
}

void image_drop(struct store *store, uint64_t extent, uint32_t page)
{
    if (store->images && !BUG(BUG_IMAGE_KEPT))
        image_release(store, image_place(store, extent, page), NULL);
}

/* ---- home */

static int disk_write_nothing(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    (void)context, (void)offset, (void)buffer, (void)bytes;
    return 0;
}

/* Writes the run of recovered pages that begins at number, and enters their CRCs. */
static int run_home(struct store *store, uint64_t number, uint32_t count, uint8_t *buffer)
{
    uint32_t n = store->extent_pages;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t extent = (number + i) / n;
        uint32_t page = (uint32_t)((number + i) % n), at;
        struct leaf_disk *leaf = hash_find(store, store->extents[extent].object,
                                           store->extents[extent].index, &at);
        uint8_t *image = store->images[number + i];
        if (never(!leaf))
            return -EUCLEAN;
        meta_touch(store, at);
        memcpy(buffer + (size_t)i * STORE_PAGE_BYTES, image, STORE_PAGE_BYTES);
        leaf_crc(leaf)[page] = le32_of(BUG(BUG_RECOVERY_CRC) ? 0
                                                            : crc32c(0, image, STORE_PAGE_BYTES));
        page_dirty_set(store, leaf, page, false);
    }
    if (BUG(BUG_HOME_SHORT) && count > 1)
        count--;
    return store->io.write(store->io.context, store->super.data_start + number * STORE_PAGE_BYTES,
                           buffer, (size_t)count * STORE_PAGE_BYTES);
}

static uint64_t run_length(const struct store *store, uint64_t number)
{
    uint64_t total = images_total(store), count = 0;
    while (count < HOME_RUN_PAGES && number + count < total && store->images[number + count] &&
           store->images[number + count] != HOME)
        count++;
    return count;
}

static int runs_home(struct store *store, uint8_t *buffer)
{
    int error = 0;
    for (uint64_t i = 0, count; store->images_held && !error; i += count) {
        if (never(i >= images_total(store)))
            return -EUCLEAN;
        count = run_length(store, i);
        if (!count) {
            count = 1;
            continue;
        }
        if (BUG(BUG_CHECKPOINT_SKIP) && bug_home_looks_new(store, i, buffer)) {
            struct disk_io io = store->io;      /* the CRC is entered, the page is left alone */
            store->io.write = disk_write_nothing;
            count = 1;
            error = run_home(store, i, 1, buffer);
            store->io = io;
        } else {
            error = run_home(store, i, (uint32_t)count, buffer);
        }
        for (uint64_t k = 0; k < count; k++)
            image_release(store, &store->images[i + k], HOME);
        store->images_written += count;
    }
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

/* Memory for one more image; beyond the limit the others go home first (M2). */
static int image_new(struct store *store, uint8_t **image)
{
    int error = 0;
    if (store->images_max && store->images_held >= store->images_max) {
        error = homes_begin(store);
        if (!error)
            error = images_home(store);
    }
    if (error)
        return error;
    uint8_t *bytes = store->memory.alloc(store->memory.context, STORE_PAGE_BYTES);
    if (!bytes)
        return -ENOMEM;
    store->images_held++;
    *image = bytes;
    return 0;
}

/* The image at home, once more. */
static int image_back(struct store *store, uint64_t number, uint32_t crc, uint8_t *image)
{
    int error = store_read(store, store->super.data_start + number * STORE_PAGE_BYTES, image,
                           STORE_PAGE_BYTES);
    return error ? error : crc32c(0, image, STORE_PAGE_BYTES) == crc ? 0 : -EIO;
}

int image_write(struct store *store, const struct record_disk *record,
                struct leaf_disk *leaf, uint32_t page, uint64_t lsn)
{
    const uint8_t *data = (const uint8_t *)(record + 1);
    uint64_t extent = le64_get(leaf->physical), base = le64_get(record->base);
    uint8_t **image = image_place(store, extent, page);
    uint32_t type = le16_get(record->type);
    bool full = type == RECORD_PAGE_FULL, logged = type == RECORD_PAGE_LOGGED;
    bool change = !full && !logged && base;
    int error = 0;
    if (change && (!*image || base != le64_get(leaf_lsn(store, leaf)[page])))
        return -EUCLEAN;                /* the first record after a redo LSN must be complete */
    bool back = change && *image == HOME;
    if (!*image || *image == HOME)
        error = image_new(store, image);
    if (!error && back)
        error = image_back(store, extent * store->extent_pages + page,
                           le32_get(leaf_crc(leaf)[page]), *image);
    if (error)
        return error;
    if (logged)
        return logged_read(store, record, lsn, *image);
    if (full)
        memcpy(*image, data, STORE_PAGE_BYTES);
    else {
        if (!base && !BUG(BUG_ZERO_BASE))
            memset(*image, 0, STORE_PAGE_BYTES);
        runs_apply(*image, data, le32_get(record->data_bytes));
    }
    return 0;
}
