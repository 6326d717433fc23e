/* storage_heap.c - plain volatile memory instead of files: what the same code costs without any
 * storage. A program has to create and use its database in one run. */
#include "storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct storage { char *base; uint64_t at; };
#include "storage_memory.h"

struct storage *storage_open(const char *name, uint64_t bytes_max)
{
    (void)name;
    struct storage *s = malloc(sizeof *s);
    char *base = aligned_alloc(4096, (bytes_max + 4095) / 4096 * 4096);
    if (!s || !base) {
        free(s);
        free(base);
        errno = ENOMEM;
        return NULL;
    }
    *s = (struct storage){memset(base, 0, bytes_max), 0};
    return s;
}

int storage_close(struct storage *s)
{
    free(s->base);
    free(s);
    return 0;
}

int storage_operation(int (*function)(void *), void *arg, int changes)
{
    (void)changes;
    return function(arg);
}

struct storage_costs storage_costs(void)
{
    return (struct storage_costs){.instructions = storage_counter()};
}

int storage_delete(void) { return -ENOENT; }
