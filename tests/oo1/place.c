/* place.c - places for files in volatile memory: trees are full of pointers, so a file has to come
 * to the same address each time. */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE_BASE 0x1000000000ull
#define PLACE_BYTES 0x100000000ull      /* from one to the next */
#define PREFIX "oo1."

static struct storage places[PLACES];
static unsigned used;

static const char *folder(void)
{
    const char *named = getenv("OO1_DIR");
    return named ? named : "/tmp";
}

struct storage *place_next(uint64_t bytes_max)
{
    if (used == PLACES || bytes_max > PLACE_BYTES) {
        errno = used == PLACES ? EMFILE : EFBIG;
        return NULL;
    }
    struct storage *s = &places[used];
    *s = (struct storage){.base = (char *)(uintptr_t)(PLACE_BASE + used * PLACE_BYTES),
                          .bytes_max = bytes_max, .descriptor = -1};
    used++;
    return s;
}

int place_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/" PREFIX "%s", folder(), name);
    return open(path, O_RDWR | O_CREAT, 0600);
}

int place_files_delete(void)
{
    char path[512];
    int error = -ENOENT;
    DIR *d = opendir(folder());
    if (!d)
        return -errno;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0) {
            snprintf(path, sizeof path, "%s/%s", folder(), e->d_name);
            error = unlink(path) ? -errno : 0;
        }
    closedir(d);
    return error;
}
