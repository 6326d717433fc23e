/* volatile.c - where the nodes of structures come from: the heap of the C library. */
#include "structure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *heap_take(void *arg, size_t bytes, const void *near)
{
    (void)arg;
    (void)near;
    void *p = aligned_alloc(16, (bytes + 15) / 16 * 16);
    if (!p)
        errno = ENOMEM;
    return p ? memset(p, 0, bytes) : NULL;
}

static void heap_give(void *arg, void *p)
{
    (void)arg;
    free(p);
}

struct ps_memory ps_volatile(void)
{
    return (struct ps_memory){.take = heap_take, .give = heap_give};
}
