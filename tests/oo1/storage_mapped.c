/*
 * storage_mapped.c - mapped files: what a read would bring is there.
 *
 * The mapping is shared, so stores reach the file, at some time. Katydid has no shared writable
 * mappings of files: there the mapping is private, and pages that changed are written at the close.
 */
#include "place.h"
#include "storage.h"
#include "storage_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };
static struct storage *opened[PLACES];

static int map(struct storage *s, int kind)
{
    void *p = mmap(s->base, s->bytes_max, PROT_READ | PROT_WRITE, kind | MAP_FIXED_NOREPLACE,
                   s->descriptor, 0);
    return p == MAP_FAILED ? -errno : 0;
}

struct storage *storage_open(const char *name, uint64_t bytes_max)
{
    struct storage *s = place_next(bytes_max);
    if (!s || (s->descriptor = place_file(name)) < 0 ||
        ftruncate(s->descriptor, (off_t)bytes_max))
        return NULL;
    int error = map(s, MAP_SHARED);
    s->is_copy = error == -EACCES || error == -ENODEV;
    if (s->is_copy)
        error = map(s, MAP_PRIVATE);
    for (int i = 0; i < PLACES && error == 0; i++)
        if (!opened[i]) {
            opened[i] = s;
            return s;
        }
    errno = -error;
    return NULL;
}

/* Pages of a private mapping that differ from the file. */
static int write_back(struct storage *s)
{
    char old[PAGE];
    for (uint64_t at = 0; at < s->bytes_max; at += PAGE) {
        if (pread(s->descriptor, old, PAGE, (off_t)at) != PAGE)
            return -EIO;
        if (memcmp(old, s->base + at, PAGE) != 0 &&
            pwrite(s->descriptor, s->base + at, PAGE, (off_t)at) != PAGE)
            return -EIO;
    }
    return 0;
}

int storage_close(struct storage *s)
{
    int error = s->is_copy ? write_back(s) : 0;
    for (int i = 0; i < PLACES; i++)
        if (opened[i] == s)
            opened[i] = NULL;
    if (munmap(s->base, s->bytes_max) || close(s->descriptor))
        error = -errno;
    return error;
}

int storage_operation(int (*function)(void *), void *arg, int changes)
{
    int error = function(arg);
    for (int i = 0; i < PLACES && changes && error == 0; i++)
        if (opened[i] && !opened[i]->is_copy && msync(opened[i]->base, opened[i]->bytes_max,
                                                      MS_SYNC))
            error = -errno;
    return error;
}

struct storage_costs storage_costs(void)
{
    return (struct storage_costs){.instructions = storage_counter()};
}

int storage_delete(void) { return place_files_delete(); }
