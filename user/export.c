/*
 * export.c - writes what lies under /export to the block device "export", as a ustar archive.
 *
 * The host makes the disk, larger than will be needed and full of zeros, and unpacks the archive
 * when the machine is off. Without such a disk there is nothing to do.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "pstore.h"

#define BLOCK 512u
#define BUFFER_BYTES (256u << 10)
#define PATH_BYTES 1024

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "on-disk size");

static char buffer[BUFFER_BYTES] __attribute__((aligned(4096)));
static size_t buffered;
static uint64_t written, disk_bytes;
static int disk;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "export: %s: %s\n", what, why);
    exit(1);
}

static void flush(void)
{
    if (written + buffered > disk_bytes)
        fail("the disk", "it is too small for what is in /export");
    if (buffered && syscall(KD_BLOCK_WRITE, disk, written, buffer, buffered) < 0)
        fail("the disk", strerror(errno));
    written += buffered;
    buffered = 0;
}

/* Room for that many bytes, at most a block; zeroed. */
static char *room(void)
{
    if (buffered == BUFFER_BYTES)
        flush();
    char *at = buffer + buffered;
    memset(at, 0, BLOCK);
    buffered += BLOCK;
    return at;
}

/* Long names are split at a slash. 0, or -1: it cannot be told in this format. */
static int name_set(struct header *h, const char *path)
{
    size_t n = strlen(path);
    if (n <= sizeof(h->name)) {
        memcpy(h->name, path, n);
        return 0;
    }
    for (size_t i = n - sizeof(h->name) - 1; i < n && i <= sizeof(h->prefix); i++)
        if (path[i] == '/') {
            memcpy(h->prefix, path, i);
            memcpy(h->name, path + i + 1, n - i - 1);
            return 0;
        }
    return -1;
}

static void header_write(const char *path, const struct stat *s, uint64_t bytes)
{
    struct header h = {.type = S_ISDIR(s->st_mode) ? '5' : '0'};
    unsigned sum = 0;
    if (name_set(&h, path))
        fail(path, "its name is too long for a ustar archive");
    snprintf(h.mode, sizeof(h.mode), "%07o", S_ISDIR(s->st_mode) ? 0755 : 0644);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)bytes);
    memcpy(h.mtime, "00000000000", 12);
    memcpy(h.magic, "ustar", 6);
    memcpy(h.version, "00", 2);
    memset(h.checksum, ' ', sizeof(h.checksum));
    for (size_t i = 0; i < sizeof(h); i++)
        sum += ((unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
    memcpy(room(), &h, sizeof(h));
}

static void file_write(const char *path, const struct stat *s)
{
    uint64_t left = (uint64_t)s->st_size;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fail(path, strerror(errno));
    header_write(path, s, left);
    while (left) {
        size_t part = left < BLOCK ? left : BLOCK, got = 0;
        char *at = room();
        while (got < part) {
            ssize_t n = read(fd, at + got, part - got);
            if (n <= 0)
                fail(path, n ? strerror(errno) : "it became shorter");
            got += (size_t)n;
        }
        left -= part;
    }
    close(fd);
}

/* All of a folder; the path's buffer is extended and cut again. */
static void folder_write(char *path)
{
    size_t n = strlen(path);
    DIR *d = opendir(path);
    struct dirent *e;
    if (!d)
        fail(path, strerror(errno));
    while ((e = readdir(d))) {
        struct stat s;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const char *slash = strcmp(path, ".") ? "/" : "";
        int length = snprintf(path + n, PATH_BYTES - n, "%s%s", slash, e->d_name);
        if (length < 0 || (size_t)length >= PATH_BYTES - n)
            fail(e->d_name, "its path is too long");
        char *name = strcmp(slash, "") ? path : path + n; /* no "." in front */
        if (stat(name, &s))
            fail(name, strerror(errno));
        if (S_ISDIR(s.st_mode)) {
            header_write(name, &s, 0);
            char below[PATH_BYTES];
            strcpy(below, name);
            folder_write(below);
        } else {
            file_write(name, &s);
        }
        path[n] = 0;
    }
    closedir(d);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        fputs("use: export   writes what lies under /export to the host's --export; the end of a "
              "run does it, too\n",
              stderr);
        return 2;
    }
    struct kd_block_info info;
    char path[PATH_BYTES] = ".";
    disk = (int)syscall(KD_BLOCK_OPEN, "export", &info);
    if (disk < 0) {
        if (errno == ENODEV)
            return 0;
        fail("the disk", errno == EPERM ? ps_strerror(ps_lacks(KD_RIGHT_DISKS)) : strerror(errno));
    }
    disk_bytes = info.bytes;
    if (chdir("/export"))
        fail("/export", strerror(errno));
    folder_write(path);
    room();
    room(); /* two blocks of zeros end an archive */
    flush();
    if (syscall(KD_BLOCK_FLUSH, disk) < 0)
        fail("the disk", strerror(errno));
    return 0;
}
