/*
 * create.c - kstore create: an empty store in a file.
 */
#include "kstore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct create {
    struct common common;
    uint64_t mib, log_kib, extent_kib, unit_kib, zone;
    bool uuid_given;
    uint8_t uuid[16];
};

static const struct argp_option options[] = {
    { "size", 's', "MIB", 0, "size of each image in MiB, or as 64M, 1G (default: as it is)", 0 },
    { "log", 'l', "KIB", 0,
      "size of the log in KiB, or as 8M (default: an eighth, 32 MiB at most)", 0 },
    { "extent", 'e', "KIB", 0, "4, 8, 16, 32 or 64 (default 16)", 0 },
    { "unit", 'n', "KIB", 0,
      "so much lies on one of several disks before the next's turn (default: an extent)", 0 },
    { "zone", 'z', "N", 0,
      "which addresses its containers get: 8 TiB, 0 to 7 (default 0); 4 TiB, 16 to 31", 0 },
    { "uuid", 'u', "HEX", 0, "32 hexadecimal digits (default: random)", 0 },
    COMMON_FORCE("whatever is there"), COMMON_QUIET,
    { 0 },
};

static bool uuid_parse(const char *text, uint8_t uuid[16])
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        uuid[i] = (uint8_t)byte;
    }
    return true;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct create *create = state->input;
    uint64_t *number = key == 's' ? &create->mib : key == 'l' ? &create->log_kib
                     : key == 'e' ? &create->extent_kib : key == 'n' ? &create->unit_kib
                     : key == 'z' ? &create->zone : NULL;
    if (number) {
        if (!number_parse(value, key == 's' ? 20 : key == 'z' ? 0 : 10, number))
            argp_error(state, "%s is no number", value);
        if (key == 'e' && (*number < 4 || *number > 64 || (*number & (*number - 1))))
            argp_error(state, "--extent %s: extents have 4, 8, 16, 32 or 64 KiB", value);
        if (key == 'z' && (*number >= STORE_ZONE_MAX || !store_zone_valid((uint32_t)*number)))
            argp_error(state, "--zone %s: a number from 0 to 7, or 16 to 31", value);
        return 0;
    }
    if (key != 'u')
        return common_parse(key, value, state);
    create->uuid_given = uuid_parse(value, create->uuid);
    if (!create->uuid_given)
        argp_error(state, "a uuid is 32 hexadecimal digits");
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE...",
    "Makes an empty store in a file or disk; or over several, "
    "2 to 4, of which all are needed from then on."
    "\vAn image that is not empty is left alone, unless --force is given.", NULL, NULL, NULL };

/* Is there something that --force should be needed for? */
static bool occupied(struct image_file *file)
{
    uint8_t block[BLOCK_BYTES];
    struct disk_io io = file_disk_io(file);
    for (uint64_t at = 0; at < 4 * BLOCK_BYTES && at + BLOCK_BYTES <= io.bytes; at += BLOCK_BYTES) {
        if (io.read(io.context, at, block, sizeof block))
            return true;
        for (uint32_t i = 0; i < sizeof block; i++)
            if (block[i])
                return true;
    }
    return false;
}

static int size_set(struct image_file *file, const struct create *wish)
{
    if (!wish->common.force && occupied(file)) {
        fprintf(stderr, "kstore: %s is not empty; --force overwrites it\n", file->path);
        return CANNOT;
    }
    /* nothing of an earlier store, which may have had this uuid, is left in the log */
    if (wish->mib && (ftruncate(file->descriptor, 0) ||
                      ftruncate(file->descriptor, (off_t)(wish->mib << 20)))) {
        fprintf(stderr, "kstore: %s: %s\n", file->path, strerror(errno));
        return CANNOT;
    }
    file->bytes = wish->mib ? wish->mib << 20 : file->bytes;
    return SOUND;
}

static int create(struct image *image, const struct create *wish)
{
    struct store_options format = { .log_bytes = wish->log_kib << 10,
                                    .extent_bytes = (uint32_t)(wish->extent_kib << 10),
                                    .zone = (uint32_t)wish->zone };
    struct disk_io disks[SPAN_DISKS_MAX];
    memcpy(format.uuid, wish->uuid, 16);
    for (uint32_t i = 0; i < image->count; i++) {
        int status = size_set(&image->file[i], wish);
        if (status)
            return status;
        disks[i] = file_disk_io(&image->file[i]);
    }
    int error = span_format(disks, image->count, &host_memory, &format, wish->unit_kib << 10,
                            &image->span);
    if (error)
        fprintf(stderr, "kstore: %s: cannot create a store: %s\n", image->path,
                error == -EINVAL   ? "the log has 16 KiB at least, and half of the image at most"
                : error == -ENOSPC ? "the image is too small; give a larger --size"
                                   : strerror(-error));
    return error ? CANNOT : SOUND;
}

int create_main(int count, char **words)
{
    struct create wish = { .common.wanted = 1 };
    struct image image = { .count = 0 };
    char *names[SPAN_DISKS_MAX + 1] = { NULL };
    bool there[SPAN_DISKS_MAX];
    int status = SOUND;
    command_parse(&argp, count, words, &wish);
    if (!wish.uuid_given && !uuid_random(wish.uuid)) {
        fprintf(stderr, "kstore: no random numbers for a uuid; give one\n");
        return CANNOT;
    }
    image.path = wish.common.files[0];
    if (!wish.common.images)
        names[0] = strdup(image.path);
    else if (!paths_split(image.path, names)) {
        fprintf(stderr, "kstore: a store has %u disks at most\n", SPAN_DISKS_MAX);
        return WRONG_USE;
    }
    for (uint32_t i = 0; names[i] && !status; i++) {
        there[i] = access(names[i], F_OK) == 0;
        status = image_add(&image, names[i], O_RDWR | O_CREAT);
    }
    if (!status)
        status = create(&image, &wish);
    for (uint32_t i = 0; i < image.count && status; i++)
        if (!there[i])                  /* nothing is left of what could not be made */
            unlink(names[i]);
    image_close(&image);
    return status;
}
