/*
 * verified.c - a read-only container over a file or a disk, whose pages are checked on their way in
 * (managers.md).
 *
 *     verified make FILE MANIFEST     writes the manifest: a CRC-32C for each page
 *     verified FILE MANIFEST &        serves the object "verified": pages that are what it says
 *     verified FILE &                 the same without checks
 *     verified                        what was checked, and which pages are rotten
 *
 * A page that is not what the manifest says is no page: who touches it gets EIO, as from a disk
 * that cannot read it. It is read again at each touch, so a file that was mended is right from then
 * on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "disk/crc32c.h"
#include "manager.h"
#include "source.h"
#include "verified.h"

#define MAGIC "KDCRCS01"
enum { AT_ONCE = 16, THREADS = 4 };

/* A manifest: this, then a CRC for each page, as the machine has them. */
struct head { char magic[8]; uint64_t pages; uint32_t sums_crc, reserved; };

static struct source source;
static uint32_t *sums;                  /* NULL: nothing is checked */
static uint8_t *rotten;                 /* of each page: what it was when last read */
static struct verified_counts counts;   /* atomic, each by itself */

/* ---- manifests ---- */

static int manifest_make(const char *name)
{
    static uint8_t page[KD_PAGE_BYTES];
    struct head head = {.magic = MAGIC, .pages = source.pages};
    int error = 0;
    sums = calloc(source.pages, sizeof *sums);
    for (uint64_t i = 0; sums && i < source.pages && !error; i++) {
        error = source_read(&source, i, page);
        sums[i] = crc32c(0, page, sizeof page);
    }
    if (!sums || error) return sums ? error : -ENOMEM;
    head.sums_crc = crc32c(0, sums, source.pages * sizeof *sums);
    FILE *to = fopen(name, "wb");
    if (!to) return -errno;
    int good = fwrite(&head, sizeof head, 1, to) == 1 &&
               fwrite(sums, sizeof *sums, source.pages, to) == source.pages;
    return fclose(to) == 0 && good ? 0 : -EIO;
}

/* -EINVAL: no manifest, or a damaged one; -ERANGE: of something that is longer or shorter. */
static int manifest_read(const char *name)
{
    struct head head;
    FILE *from = fopen(name, "rb");
    if (!from) return -errno;
    int is = fread(&head, sizeof head, 1, from) == 1 && !memcmp(head.magic, MAGIC, 8) &&
             head.reserved == 0;
    int error = !is ? -EINVAL : head.pages != source.pages ? -ERANGE : 0;
    sums = error ? NULL : malloc(source.pages * sizeof *sums);
    if (!error && !sums) error = -ENOMEM;
    if (!error && (fread(sums, sizeof *sums, source.pages, from) != source.pages ||
                   crc32c(0, sums, source.pages * sizeof *sums) != head.sums_crc))
        error = -EINVAL;
    fclose(from);
    return error;
}

/* ---- pages ---- */

static void add(uint64_t *count, uint64_t n) { __atomic_fetch_add(count, n, __ATOMIC_RELAXED); }

/* Says it once, until the page is right again. */
static void rotten_note(uint64_t page, uint32_t crc)
{
    if (__atomic_exchange_n(&rotten[page], 1, __ATOMIC_RELAXED)) return;
    add(&counts.rotten, 1);
    fprintf(stderr, "verified: page %llu is rotten: its CRC is %08x, the manifest has %08x\n",
            (unsigned long long)page, crc, sums[page]);
}

static int page_read(uint64_t page, uint8_t *to)
{
    int error = source_read(&source, page, to);
    uint32_t crc = error || !sums ? 0 : crc32c(0, to, KD_PAGE_BYTES);
    add(&counts.unreadable, error != 0);
    if (error || !sums) return error;
    add(&counts.checked, 1);
    if (crc == sums[page]) {
        add(&counts.rotten, -(uint64_t)__atomic_exchange_n(&rotten[page], 0, __ATOMIC_RELAXED));
        return 0;
    }
    rotten_note(page, crc);
    return -EIO;
}

/* The first page is waited for; of the others those come along that lie before a bad one. */
static void page(struct km_request *r)
{
    uint8_t bytes[AT_ONCE][KD_PAGE_BYTES];
    uint64_t count = r->count < AT_ONCE ? r->count : AT_ONCE, have = 0;
    int error = 0;
    while (have < count && !error) {
        error = page_read(r->page + have, bytes[have]);
        have += !error;
    }
    km_answer(r, bytes, have, have ? 0 : error);
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct verified_counts *out = message;
    (void)o;
    if (bytes != sizeof *out) return;
    uint64_t from = out->first_rotten;
    *out = counts;
    while (from < source.pages && !rotten[from]) from++;
    out->first_rotten = from;
    out->pages = source.pages;
}

/* ---- the program ---- */

static int serve(const char *manifest)
{
    static const struct km_ops ops = {.page = page, .call = call};
    struct km_object *object;
    int error = manifest ? manifest_read(manifest) : 0;
    rotten = error ? NULL : calloc(source.pages, 1);
    if (!error && !rotten) error = -ENOMEM;
    if (!error) error = km_create("verified", source.pages, KM_READ, &ops, NULL, &object);
    return error ? error : km_serve(THREADS);
}

static int show(void)
{
    struct verified_counts c = {0};
    int error = km_call("verified", "verified", &c, sizeof c);
    if (error) return error;
    printf("%llu pages, %llu reads checked, %llu failed, %llu pages rotten\n",
           (unsigned long long)c.pages, (unsigned long long)c.checked,
           (unsigned long long)c.unreadable, (unsigned long long)c.rotten);
    while (!error && c.first_rotten < c.pages) {
        printf("page %llu is rotten\n", (unsigned long long)c.first_rotten++);
        error = km_call("verified", "verified", &c, sizeof c);
    }
    return error;
}

int main(int argc, char **argv)
{
    int make = argc == 4 && strcmp(argv[1], "make") == 0, error;
    if ((argc > 3 && !make) || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: verified [make] FILE-OR-DISK [MANIFEST]\n"
                        "Without arguments: what was checked so far.\n");
        return 2;
    }
    const char *from = argv[1 + make];
    error = argc == 1 ? show() : source_open(&source, from);
    if (!error && make) error = manifest_make(argv[3]);
    if (!error && argc > 1 && !make) error = serve(argv[2]);
    if (error)
        fprintf(stderr, "verified: %s: %s\n", argc > 1 ? from : "nothing is served",
                error == -ERANGE   ? "the manifest is of another size"
                : error == -EINVAL ? "that is no manifest, or a damaged one"
                                   : ps_strerror(error));
    return error != 0;
}
