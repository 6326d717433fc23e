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
 */
#include "internal.h"

#define HOME_RUN_PAGES 16u

/* There are as many heads as there is room for images, a power of two. */
static uint32_t *head_of(const struct images *images, uint64_t number)
{
    return &images->entries[key_hash(number, 0) & (images->room - 1)].head;
}

static struct image *image_find(const struct images *images, uint64_t number)
{
    uint32_t at = images->count ? *head_of(images, number) : 0;
    while (at && images->entries[at - 1].number != number)
        at = images->entries[at - 1].next;
    return at ? &images->entries[at - 1] : NULL;
}

const uint8_t *image_bytes(const struct store *store, uint64_t number)
{
    const struct image *image = image_find(&store->images, number);
    return image ? image->bytes : NULL;
}

static void image_link(struct images *images, uint32_t i)
{
    uint32_t *head = head_of(images, images->entries[i].number);
    images->entries[i].next = *head;
    *head = i + 1;
}

/* Room for one more. The heads grow along. */
static int images_grow(struct store *store)
{
    struct images *images = &store->images;
    uint32_t room = images->room;
    int error = array_grow(store, &images->entries, images->count, &images->room,
                           sizeof *images->entries);
    if (images->room == room)
        return error;
    for (uint32_t i = 0; i < images->room; i++)
        images->entries[i].head = 0;
    for (uint32_t i = 0; i < images->count; i++)
        image_link(images, i);
    return 0;
}

static void image_release(struct store *store, struct image *image)
{
    store_release(store, image->bytes, STORE_PAGE_BYTES);
    image->bytes = NULL;
}

static void images_clear(struct store *store)
{
    struct images *images = &store->images;
    for (uint32_t i = 0; i < images->count; i++)
        image_release(store, &images->entries[i]);
    for (uint32_t i = 0; i < images->room; i++)
        images->entries[i].head = 0;
    images->count = 0;
}

void images_drop(struct store *store)
{
    images_clear(store);
    store_release(store, store->images.entries, store->images.room * sizeof *store->images.entries);
    store->images.entries = NULL;
    store->images.room = 0;
    store->replaying = false;
}

void image_drop(struct store *store, uint64_t extent, uint32_t page)
{
    struct image *image = image_find(&store->images, extent * store->extent_pages + page);
    store->extents[extent].homed &= (uint16_t)~(1u << page);
    if (image)
        image_release(store, image);
}

/* ---- home: in ascending order */

static bool number_less(const void *a, const void *b)
{
    return ((const struct image *)a)->number < ((const struct image *)b)->number;
}

/* Writes recovered pages that follow one another on the disk, and enters their CRCs. */
static int run_home(struct store *store, const struct image *run, uint32_t count, uint8_t *buffer)
{
    uint32_t n = store->extent_pages;
    assert(store->homes_begun);                                                 /* IG2 */
    for (uint32_t i = 0; i < count; i++) {
        struct extent *extent = &store->extents[run[i].number / n];
        uint32_t page = (uint32_t)(run[i].number % n), at;
        struct leaf_disk *leaf = hash_find(store, extent->object, extent->index, &at);
        if (never(!leaf))
            return -EUCLEAN;
        meta_touch(store, at);
        memcpy(buffer + (size_t)i * STORE_PAGE_BYTES, run[i].bytes, STORE_PAGE_BYTES);
        uint32_t crc = crc32c(0, run[i].bytes, STORE_PAGE_BYTES);
        leaf_crc(leaf)[page] = le32_of(crc);
        page_dirty_set(store, leaf, page, false);
        extent->homed |= (uint16_t)(1u << page);
    }
    return store->io.write(store->io.context,
                           store->super.data_start + run[0].number * STORE_PAGE_BYTES, buffer,
                           (size_t)count * STORE_PAGE_BYTES);
}

/* How many of `left` entries are images that follow one another on the disk. */
static uint32_t run_length(const struct image *run, uint32_t left)
{
    uint32_t count = 0;
    while (count < HOME_RUN_PAGES && count < left && run[count].bytes &&
           run[count].number == run[0].number + count)
        count++;
    return count;
}

static int runs_home(struct store *store, uint8_t *buffer)
{
    struct images *images = &store->images;
    int error = 0;
    /* its chains are lost */
    array_sort(images->entries, images->count, sizeof *images->entries, number_less);
    for (uint32_t i = 0, count; i < images->count && !error; i += count ? count : 1) {
        const struct image *run = &images->entries[i];
        count = run_length(run, images->count - i);
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

/* Memory for one more image. Beyond the limit the others go home first (IG2). */
static int image_new(struct store *store, uint64_t number, struct image **out)
{
    struct images *images = &store->images;
    struct image *image = image_find(images, number);       /* of a page that was freed */
    if (!image) {
        int error = 0;
        if (images->limit && images->count >= images->limit) {
            error = homes_begin(store);
            if (!error)
                error = images_home(store);
        }
        if (!error)
            error = images_grow(store);
        if (error)
            return error;
        image = &images->entries[images->count];
        *image = (struct image){ .number = number, .head = image->head };
        image_link(images, images->count++);
    }
    image->bytes = store->memory.alloc(store->memory.context, STORE_PAGE_BYTES);
    *out = image;
    return image->bytes ? 0 : -ENOMEM;
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
    uint64_t extent = le64_get(leaf->physical), number = extent * store->extent_pages + page;
    uint64_t base = le64_get(record->base);
    uint32_t type = le16_get(record->type);
    bool full = type == RECORD_PAGE_FULL, logged = type == RECORD_PAGE_LOGGED;
    bool change = !full && !logged && base;
    struct image *image = image_find(&store->images, number);
    bool here = image && image->bytes, homed = store->extents[extent].homed >> page & 1;
    int error = 0;
    if (change && ((!here && !homed) ||
                   base != le64_get(leaf_lsn(store, leaf)[page])))
        return -EUCLEAN;                /* the first record after a redo LSN must be complete */
    if (!here)
        error = image_new(store, number, &image);
    if (!error && !here && change)
        error = image_back(store, number, le32_get(leaf_crc(leaf)[page]), image->bytes);
    if (error)
        return error;
    if (logged)
        return logged_read(store, record, lsn, image->bytes);
    record_page(record, image->bytes);
    return 0;
}
