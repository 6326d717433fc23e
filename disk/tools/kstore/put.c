/*
 * put.c - kstore put: a container whose pages are a file's bytes.
 */
#include "salvage.h"

#include <fcntl.h>
#include <string.h>

struct put {
    struct common common;
    bool cut;
};

static const struct argp_option options[] = {
    { "cut", 'c', NULL, 0, "end as in a power cut: the log is full, nothing is closed", 0 },
    COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct put *put = state->input;
    if (key == 'c')
        put->cut = true;
    return key == 'c' ? 0 : common_parse(key, value, state);
}

static const struct argp argp = { options, parse, "IMAGE NAME FILE",
    "Makes a container called NAME "
    "whose pages hold FILE's bytes; its last page ends in zeros.", NULL, NULL, NULL };

static int file_put(struct copy *copy, const char *name, FILE *file)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    struct store_op op = { .type = STORE_OP_CREATE, .name = name };
    int error = copy_op(copy, &op);
    uint64_t most = STORE_SEGMENT_UNIT / STORE_PAGE_BYTES, page = 0;
    for (size_t got = sizeof bytes; !error && got == sizeof bytes; page++) {
        memset(bytes, 0, sizeof bytes);
        got = fread(bytes, 1, sizeof bytes, file);
        if (got && page == most) {
            struct store_op grow = { .type = STORE_OP_GROW, .object = op.object };
            error = copy_op(copy, &grow);
            most *= 2;
        }
        if (got && !error)
            error = copy_page(copy, op.object, page, bytes);
    }
    return error ? error : ferror(file) ? -EIO : 0;
}

static int put(struct image *image, const struct put *wish, FILE *file)
{
    struct copy copy = { .to_image = image };
    int error = copy_begin(&copy);
    if (!error) {
        error = file_put(&copy, wish->common.files[1], file);
        int end = copy_end(&copy, !wish->cut, error);
        error = error ? error : end;
    }
    if (error)
        fprintf(stderr, "kstore: %s: %s\n", image->path, error == -EEXIST
                    ? "there is such a container already" : error_text(error));
    else
        printf("put %llu pages into %s\n", (unsigned long long)copy.pages, wish->common.files[1]);
    return error_status(error);
}

int put_main(int count, char **words)
{
    struct put wish = { .common.wanted = 3 };
    struct image image;
    command_parse(&argp, count, words, &wish);
    FILE *file = fopen(wish.common.files[2], "rb");
    if (!file) {
        perror(wish.common.files[2]);
        return CANNOT;
    }
    int status = image_open(&image, wish.common.files[0], O_RDWR);
    if (!status)
        status = put(&image, &wish, file);
    image_close(&image);
    fclose(file);
    return status;
}
