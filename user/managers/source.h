/* source.h - where a manager's pages come from: a file, or a whole disk by its name. */
#ifndef USER_MANAGERS_SOURCE_H
#define USER_MANAGERS_SOURCE_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "katydid/call.h"

struct source { int file, disk; uint64_t bytes, pages; };

/* Opens a file, or with KD_RIGHT_DISKS a disk that nobody else has open. 0 or -errno. */
static inline int source_open(struct source *s, const char *name)
{
    struct stat st;
    struct kd_block_info info;
    s->disk = -1;
    s->file = open(name, O_RDONLY);
    if (s->file >= 0) {
        s->bytes = fstat(s->file, &st) ? 0 : (uint64_t)st.st_size;
    } else {
        s->disk = (int)kd_call3(KD_BLOCK_OPEN, (long)name, (long)&info, 0);
        if (s->disk < 0)
            return s->disk == -ENODEV ? -ENOENT : s->disk;
        s->bytes = info.bytes;
    }
    s->pages = (s->bytes + KD_PAGE_BYTES - 1) / KD_PAGE_BYTES;
    return s->pages ? 0 : -ENODATA;
}

/* Reads one page; behind the end of a file are zeros. 0 or -errno. */
static inline int source_read(const struct source *s, uint64_t page, void *to)
{
    uint64_t at = page * KD_PAGE_BYTES;
    uint64_t bytes = s->bytes - at < KD_PAGE_BYTES ? s->bytes - at : KD_PAGE_BYTES;
    memset((char *)to + bytes, 0, KD_PAGE_BYTES - bytes);
    if (s->file < 0) {
        long e = kd_call4(KD_BLOCK_READ, s->disk, (long)at, (long)to, (long)bytes);
        return e < 0 ? (int)e : 0;
    }
    ssize_t n = pread(s->file, to, bytes, (off_t)at);
    return n < 0 ? -errno : (uint64_t)n < bytes ? -EIO : 0;
}

#endif
