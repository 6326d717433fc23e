/*
 * files.c - the boot module and the import disk become files.
 *
 * The kernel shows each as one file, an archive, and makes files of those parts that init names
 * (KD_FILE_PART): no bytes are copied, and only headers are read here.
 */
#include "files.h"
#include "ustar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

struct archive { struct ustar_source source; int fd; }; /* source first: add() and block_read() */

static int block_read(struct ustar_source *s, uint64_t offset, uint8_t *block)
{
    ssize_t n = pread(((struct archive *)s)->fd, block, USTAR_BLOCK, (off_t)offset);
    return n == USTAR_BLOCK ? 0 : n < 0 ? -errno : -EIO;
}

static int add(struct ustar_source *s, const char *path, bool folder, uint64_t offset,
               uint64_t bytes)
{
    int whole = folder ? -1 : ((struct archive *)s)->fd;
    return syscall(KD_FILE_PART, path, whole, offset, bytes) < 0 ? -errno : 0;
}

static void say(const char *text) { syscall(KD_KERNEL_LOG, text, strlen(text)); }

static void archive_add(const char *path, const char *folder, const char *name)
{
    struct archive a = {
        .source = {.read = block_read, .add = add, .say = say, .folder = folder, .name = name},
        .fd = open(path, O_RDONLY),
    };
    struct stat status;
    if (a.fd < 0 || fstat(a.fd, &status) < 0)
        return; /* no import disk */
    if (*folder)
        syscall(KD_FILE_PART, folder, -1, 0, 0);
    a.source.bytes = (uint64_t)status.st_size;
    ustar_add(&a.source);
    close(a.fd);
}

void files_make(void)
{
    archive_add("/dev/initrd", "", "initrd");
    archive_add("/dev/import", "/import", "import disk");
}
