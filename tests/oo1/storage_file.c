/*
 * storage_file.c - files by calls of the system: lseek, read, write.
 *
 * The place of a file's bytes is plain memory, into which each read brings them anew. Nothing is
 * kept on purpose: no byte there is looked at that this operation has not read.
 */
#include "place.h"
#include "storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct storage *opened[PLACES];

struct storage *storage_open(const char *name, uint64_t bytes_max)
{
    struct storage *s = place_next(bytes_max);
    if (!s || (s->descriptor = place_file(name)) < 0)
        return NULL;
    void *place = mmap(s->base, bytes_max, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (place == MAP_FAILED)
        return NULL;
    for (int i = 0; i < PLACES; i++)
        if (!opened[i]) {
            opened[i] = s;
            break;
        }
    return s;
}

int storage_close(struct storage *s)
{
    for (int i = 0; i < PLACES; i++)
        if (opened[i] == s)
            opened[i] = NULL;
    int error = close(s->descriptor) ? -errno : 0;
    return munmap(s->base, s->bytes_max) ? -errno : error;
}

void storage_seek(struct storage *s, uint64_t at)
{
    s->at = at;
    lseek(s->descriptor, (off_t)at, SEEK_SET);
}

void *storage_read(struct storage *s, size_t bytes)
{
    size_t done = 0;
    if (s->at + bytes > s->bytes_max) {
        errno = EFBIG;
        return NULL;
    }
    while (done < bytes) {
        ssize_t n = read(s->descriptor, s->base + s->at + done, bytes - done);
        if (n < 0)
            return NULL;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    memset(s->base + s->at + done, 0, bytes - done);    /* behind the file's end */
    s->at += bytes;
    return s->base + s->at - bytes;
}

int storage_write(struct storage *s, size_t bytes)
{
    size_t done = 0;
    if (s->at + bytes > s->bytes_max)
        return -EFBIG;
    while (done < bytes) {
        ssize_t n = write(s->descriptor, s->base + s->at + done, bytes - done);
        if (n <= 0)
            return n ? -errno : -EIO;
        done += (size_t)n;
    }
    s->at += bytes;
    return 0;
}

/* With OO1_FORGET=1 all that was read is forgotten between operations: if an operation relied on an
 * earlier one's reads, its results would be wrong. */
static void forget(void)
{
    for (int i = 0; i < PLACES && getenv("OO1_FORGET"); i++)
        if (opened[i])
            madvise(opened[i]->base, opened[i]->bytes_max, MADV_DONTNEED);
}

int storage_operation(int (*function)(void *), void *arg, int changes)
{
    forget();
    int error = function(arg);
    for (int i = 0; i < PLACES && changes && error == 0; i++)
        if (opened[i] && fsync(opened[i]->descriptor))
            error = -errno;
    return error;
}

struct storage_costs storage_costs(void)
{
    return (struct storage_costs){.instructions = storage_counter()};
}

int storage_delete(void) { return place_files_delete(); }
