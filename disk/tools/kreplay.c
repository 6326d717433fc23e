/*
 * kreplay.c - what would recovery make of this image? Answers without changing it.
 *
 *     kreplay [--pages PREFIX] FILE
 *
 * Reads the image into memory, opens it there as the store manager would, prints the directory and
 * a digest of every page, opens it once more, and says whether both times agree. For images cut
 * out of a recorded write log. Exit status: 0 good, 1 damaged or not repeatable, 2 wrong use or
 * cannot read, 4 blank or not a store.
 *
 * Output, one item a line:  report ...  container ID NAME PAGES DIGEST LIMIT  name ID NAME ADDRESS
 * verdict. LIMIT is how many pages it may have. With --pages also, for each page of the containers
 * whose names begin with PREFIX:  page ID ADDRESS and 8,192 hexadecimal digits.
 */
#include "errno_numbers.h"
#include "tools/lib/tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image {
    unsigned char *bytes;
    uint64_t size, writes, flushes;
};

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    memcpy(buffer, ((struct image *)context)->bytes + offset, bytes);
    return 0;
}

static int image_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct image *image = context;
    memcpy(image->bytes + offset, buffer, bytes);
    image->writes++;
    return 0;
}

static int image_flush(void *context)
{
    ((struct image *)context)->flushes++;
    return 0;
}

static void *memory_alloc(void *context, size_t bytes) { (void)context; return malloc(bytes); }
static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context, (void)bytes;
    free(memory);
}

static int image_load(struct image *image, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        return -errno;
    image->size = (uint64_t)ftell(file) / STORE_PAGE_BYTES * STORE_PAGE_BYTES;
    rewind(file);
    image->bytes = malloc(image->size + 1);
    int error = image->bytes && fread(image->bytes, 1, image->size, file) == image->size ? 0 : -EIO;
    fclose(file);
    return error;
}

static const char *pages_of;    /* containers whose names begin so: pages are printed; or NULL */

static uint64_t address_of(const struct store_container *c, uint64_t page)
{
    uint32_t segment = 0;
    for (; page >= c->segments[segment].pages; segment++)
        page -= c->segments[segment].pages;
    return c->segments[segment].address + page * STORE_PAGE_BYTES;
}

static void page_print(uint64_t object, uint64_t address, const unsigned char *page)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * STORE_PAGE_BYTES + 1];
    for (uint32_t i = 0; i < STORE_PAGE_BYTES; i++) {
        text[2 * i] = digits[page[i] >> 4];
        text[2 * i + 1] = digits[page[i] & 15];
    }
    text[sizeof text - 1] = 0;
    printf("page %llu %#llx %s\n", (unsigned long long)object, (unsigned long long)address, text);
}

/* One container: its pages' digest; adds to *sum, counts unreadable pages. */
static void container_replay(struct store *store, const struct store_container *c, bool print,
                             uint32_t *sum, uint64_t *bad)
{
    struct store_name name;
    unsigned char page[STORE_PAGE_BYTES];
    uint32_t cursor = 0, digest = 0;
    uint64_t seen = 0;
    for (uint64_t p = 0; p < c->pages && seen < c->pages_present; p++) {
        struct store_page found;
        if (store_page_find(store, c->object, p, &found) || !found.present)
            continue;
        seen++;
        if (store_page_read(store, c->object, p, page))
            ++*bad;
        else if (print && pages_of && !strncmp(pages_of, c->name, strlen(pages_of)))
            page_print(c->object, address_of(c, p), page);
        digest = crc32c(digest, &p, sizeof p);
        digest = crc32c(digest, page, sizeof page);
    }
    *sum = crc32c(*sum, c->name, strlen(c->name));
    *sum = crc32c(*sum, &digest, sizeof digest);
    if (print)
        printf("container %llu %s %llu %08x %llu\n", (unsigned long long)c->object, c->name,
               (unsigned long long)c->pages_present, digest, (unsigned long long)c->pages);
    while (store_name_next(store, c->object, &cursor, &name) == 0) {
        *sum = crc32c(*sum, &name.address, sizeof name.address);
        if (print)
            printf("name %llu %s %#llx\n", (unsigned long long)c->object, name.name,
                   (unsigned long long)name.address);
    }
}

static int replay(struct image *image, bool print, uint32_t *sum)
{
    struct disk_io io = { .context = image, .bytes = image->size, .read = image_read,
                            .write = image_write, .flush = image_flush };
    struct disk_memory memory = { NULL, memory_alloc, memory_free, NULL };
    struct store_container c = { .object = 0 };
    struct store_report report;
    struct store *store;
    const char *why = NULL;
    uint64_t bad = 0;
    int error = store_open(&io, &memory, NULL, &store, &report);
    if (error) {
        printf("verdict %s\n", report.message);
        return error;
    }
    if (print)
        printf("report groups %llu transactions %llu pages %llu end %llu torn %d clean %d\n",
               (unsigned long long)report.groups, (unsigned long long)report.transactions,
               (unsigned long long)report.pages, (unsigned long long)report.end_lsn,
               report.torn_tail, report.was_clean);
    *sum = 0;
    while (store_container_next(store, c.object, &c) == 0)
        container_replay(store, &c, print, sum, &bad);
    error = store_check(store, &why);
    store_abandon(store);
    if (error)
        printf("verdict %s\n", why);
    else if (bad)
        printf("verdict %llu pages do not match their CRC\n", (unsigned long long)bad);
    return error ? error : bad ? -EUCLEAN : 0;
}

int main(int count, char **words)
{
    struct image image = { NULL, 0, 0, 0 };
    uint32_t first = 0, second = 0;
    if (count == 4 && !strcmp(words[1], "--pages"))
        pages_of = words[2];
    else if (count != 2 || words[1][0] == '-') {
        fputs("usage: kreplay [--pages PREFIX] FILE\n", count == 2 ? stdout : stderr);
        return count == 2 && !strcmp(words[1], "--help") ? 0 : 2;
    }
    const char *path = words[count - 1];
    int error = image_load(&image, path);
    if (error) {
        fprintf(stderr, "kreplay: %s: %s\n", path, strerror(-error));
        return 2;
    }
    error = replay(&image, true, &first);
    if (!error)
        error = replay(&image, false, &second);
    free(image.bytes);
    if (error)
        return error == -ENODATA || error == -EMEDIUMTYPE || error == -EPROTONOSUPPORT ||
                       error == -EOPNOTSUPP ? 4 : 1;
    if (first != second) {
        printf("verdict recovering twice gives two states\n");
        return 1;
    }
    printf("verdict good %08x\n", first);
    return 0;
}
