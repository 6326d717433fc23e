/* ustar.h - POSIX ustar archives, as init takes them apart. */
#ifndef USER_INIT_USTAR_H
#define USER_INIT_USTAR_H

#include <stdbool.h>
#include <stdint.h>

#define USTAR_BLOCK 512
#define USTAR_PATH_MAX 1024     /* bytes of a path with its NUL */

struct ustar_source {
    /* Reads 512 bytes at an offset. 0 or -errno. */
    int (*read)(struct ustar_source *s, uint64_t offset, uint8_t *block);
    /* Makes a folder, or a file of these bytes of the archive; one that is there makes way. 0 or
     * -errno; -EEXIST: there is a folder, or something else. */
    int (*add)(struct ustar_source *s, const char *path, bool folder, uint64_t offset,
               uint64_t bytes);
    void (*say)(const char *text);  /* what is wrong with the archive, as a line */
    uint64_t bytes;
    const char *folder;             /* where the archive's tree goes; "": to the root */
    const char *name;               /* for messages */
};
void ustar_add(struct ustar_source *s);

#endif
