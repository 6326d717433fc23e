/*
 * grow.c - kstore grow: a store takes more of its disk; an image file becomes as large as it needs.
 */
#include "kstore.h"
#include "tools/lib/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct grow {
    struct common common;
    uint64_t bytes;
};

static const struct argp_option options[] = {
    COMMON_QUIET,
    { "size", 's', "SIZE", OPTION_HIDDEN, NULL, 0 }, /* as create has it */
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct grow *grow = state->input;
    if (key == ARGP_KEY_ARG && grow->common.count == 1 && !size_parse(value, &grow->bytes))
        argp_error(state, "%s is no size", value);
    if (key == 's')
        argp_error(state, "the size stands behind the image: kstore grow IMAGE %s%s", value,
                   value[strspn(value, "0123456789")] ? "" : "M"); /* create's are MiB */
    return common_parse(key, value, state);
}

static const struct argp argp = { options, parse, "IMAGE SIZE",
    "Makes a store SIZE large: a number "
    "of bytes, or with K, M, G or T behind it. An image file is enlarged if it is smaller. Nothing "
    "is ever made smaller, and a store in use is left alone.", NULL, NULL, NULL };

/* An image file as large as the store is to be; a device must be that large already. */
static int image_enlarge(struct image *image, uint64_t bytes)
{
    struct stat status;
    if (image->bytes >= bytes)
        return SOUND;
    if (fstat(image->file[0].descriptor, &status) || !S_ISREG(status.st_mode) ||
        image_resize(image, bytes)) {
        fprintf(stderr, "kstore: %s: it cannot be made %llu bytes large\n", image->path,
                (unsigned long long)bytes);
        return CANNOT;
    }
    return SOUND;
}

/* Only a store that opens is grown, and nothing is touched otherwise. */
static int size_now(struct image *image, uint64_t *bytes)
{
    struct kview view;
    struct kcheck_options how = { .context = stderr, .report = finding_print,
                                  .progress = progress_show };
    struct kcheck_io io = image_kcheck_io(image);
    int error = kview_open(&view, &io, &how, false);
    int status = error ? error_status(error) : view.result.damages ? DAMAGED : SOUND;
    *bytes = view.super.disk_bytes;
    kview_close(&view);
    if (status)
        fprintf(stderr, "kstore: %s: %s\n", image->path, error_text(error ? error : -EUCLEAN));
    return status;
}

static int grow(struct image *image, uint64_t bytes)
{
    struct store_report report;
    uint64_t before;
    char from[32], to[32];
    int status = size_now(image, &before);
    if (status)
        return status;
    if (bytes < before) {
        fprintf(stderr, "kstore: %s: the store is %s large; a store is never made smaller\n",
                image->path, size_text(before, from));
        return WRONG_USE;
    }
    status = image_enlarge(image, bytes);
    if (status)
        return status;
    struct disk_io io = image_disk_io(image);
    int error = store_grow(&io, &host_memory, bytes, &report);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", image->path, error == -ENOSPC
                    ? "the metadata of a store of that size does not fit into the new space; grow "
                      "it by more" : report.message ? report.message : error_text(error));
        return error_status(error);
    }
    printf("grown from %s to %s\n", size_text(before, from), size_text(bytes, to));
    return SOUND;
}

int grow_main(int count, char **words)
{
    struct grow wish = { .common.wanted = 2 };
    struct image image;
    command_parse(&argp, count, words, &wish);
    int status = image_open(&image, wish.common.files[0], O_RDWR);
    if (!status && image.count > 1) {
        fprintf(stderr, "kstore: %s: a store over several disks does not grow; `kstore backup` "
                        "copies it to one disk, which does\n", image.path);
        status = WRONG_USE;
    }
    if (!status)
        status = grow(&image, wish.bytes / BLOCK_BYTES * BLOCK_BYTES);
    image_close(&image);
    return status;
}
