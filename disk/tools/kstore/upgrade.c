/*
 * upgrade.c - kstore upgrade: a store of an older format becomes one of today's, in place.
 */
#include "kstore.h"
#include "tools/lib/tools.h"

#include <errno.h>
#include <fcntl.h>

#include "format.h"

struct upgrade {
    struct common common;
    bool yes;
};

static const struct argp_option options[] = {
    { "yes", 'y', NULL, 0, "do not ask", 0 },
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct upgrade *wish = state->input;
    if (key != 'y')
        return common_parse(key, value, state);
    wish->yes = true;
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE...",
    "Makes a store of an older format one of "
    "today's, in place.\vIt asks before, for an older Katydid cannot read the store afterwards: "
    "copy "
    "the image first. A power cut meanwhile leaves the old store or the new one.",
    NULL, NULL, NULL };

static bool agreed(uint32_t version)
{
    char answer[8] = "";
    printf("the store is of format %u. In format %u no older Katydid can read it: copy it first.\n"
           "Go on? [y/N] ", version, FORMAT_VERSION);
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int upgrade(struct image *image, bool yes)
{
    struct disk_io io = image_disk_io(image);
    const struct store_open_options look = { .flags = STORE_READ_ONLY };
    struct store_report report;
    struct store *store;
    int error = store_open(&io, &host_memory, &look, &store, &report);
    if (!error) {
        printf("of format %u already: there is nothing to do\n", report.version);
        return store_close(store) ? CANNOT : SOUND;
    }
    uint32_t version = report.version;
    if (error == -EOPNOTSUPP && !store_upgradable(version)) {
        fprintf(stderr,
                "kstore: %s: of format %u, from which no way leads to format %u: upgrade it "
                "with a Katydid between the two\n",
                image->path, version, FORMAT_VERSION);
        return NO_STORE;
    }
    if (error == -EOPNOTSUPP && !yes && !agreed(version)) {
        printf("nothing was changed\n");
        return WRONG_USE;
    }
    if (error == -EOPNOTSUPP)
        error = store_upgrade(&io, &host_memory, &report);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", image->path,
                report.message ? report.message : error_text(error));
        return error_status(error);
    }
    printf("upgraded from format %u to %u\n", version, FORMAT_VERSION);
    return SOUND;
}

int upgrade_main(int count, char **words)
{
    struct upgrade wish = { .common.wanted = 1 };
    struct image image;
    command_parse(&argp, count, words, &wish);
    int status = image_open(&image, wish.common.files[0], O_RDWR);
    if (!status)
        status = upgrade(&image, wish.yes);
    image_close(&image);
    return status;
}
