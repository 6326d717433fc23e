/* memory.c - where the nodes of structures come from: a container. */
#include "structure.h"

#include <pstore.h>

static void *container_take(void *c, size_t bytes, const void *near)
{
    return ps_alloc(c, bytes, near);
}

static void container_give(void *c, void *p)
{
    (void)c;
    ps_free(p);
}

struct ps_memory ps_in(ps_container *c)
{
    return (struct ps_memory){.take = container_take, .give = container_give, .arg = c};
}
