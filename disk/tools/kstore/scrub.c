/*
 * scrub.c - kstore scrub: reads every copy of what a store holds, and repairs in place what has
 * another one.
 *
 * mend.c does that, by the rounds of a running store's scrub; the command says what was found.
 */
#include "kstore.h"
#include "mend.h"

#include <errno.h>
#include <fcntl.h>

struct scrub {
    struct image image;
    uint64_t read, repaired, lost;
};

static const struct argp_option options[] = { COMMON_QUIET, { 0 } };

static const struct argp argp = { options, common_parse, "IMAGE...",
    "Reads every page, superblock and metadata "
    "area of a store, and repairs in place what has another copy."
    "\vStatus 0: all is sound now. 1: the lines that begin with `lost` say what has no other copy; "
    "`kstore salvage` "
    "makes a new store without it.", NULL, NULL, NULL };

static void heard(void *context, struct store *store, const struct store_scrub *piece, int verdict)
{
    static const char *const kinds[] = { "superblocks", "metadata", "metadata", "log", "pages" };
    static const char *const parts[][3] = { { "superblock slot A", "superblock slot B",
                                              "the signpost" },
                                            { "metadata area 0", "metadata area 1" },
                                            { "metadata area 0", "metadata area 1" },
                                            { "the log", "the log" } };
    struct scrub *s = context;
    struct store_container c;
    s->read = piece->blocks;
    progress_show(NULL, kinds[piece->kind], piece->offset, s->image.bytes);
    if (!verdict)
        return;
    progress_end();
    s->lost += verdict == -ENODATA;
    s->repaired += verdict != -ENODATA;
    printf("%s: ", verdict == -ENODATA ? "lost" : "rotten, but has another copy");
    if (piece->kind != STORE_SCRUB_PAGE)
        printf("%s: ", parts[piece->kind][piece->part]);
    else if (store_container_get(store, piece->object, &c) == 0)
        printf("%.63s (container %llu), page %llu: ", c.name, (unsigned long long)piece->object,
               (unsigned long long)piece->page);
    printf("%s\n", piece->unreadable >> piece->bad & 1 ? "it cannot be read"
                                                       : "its bytes do not match their CRC");
}

int scrub_main(int count, char **words)
{
    struct common wish = { .wanted = 1 };
    struct scrub s = { .read = 0 };
    struct store_report report;
    command_parse(&argp, count, words, &wish);
    int status = image_open(&s.image, wish.files[0], O_RDWR);
    uint32_t labels = 0;
    int error = status ? 0 : span_mend(&s.image.span, &labels);
    if (labels)
        printf("rotten, but has another copy: %u of the disks' labels\n", labels);
    s.repaired = labels;
    struct disk_io io = image_disk_io(&s.image);
    if (!status && !error)
        error = mend_store(&io, &host_memory, heard, &s, &report);
    progress_end();
    image_close(&s.image);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", s.image.path, error_text(error));
        return error_status(error);
    }
    if (!status)
        printf("%llu blocks read, %llu repairs, %llu lost\n", (unsigned long long)s.read,
               (unsigned long long)s.repaired, (unsigned long long)s.lost);
    return status ? status : s.lost ? DAMAGED : SOUND;
}
