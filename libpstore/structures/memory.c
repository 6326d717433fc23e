/* memory.c - where the nodes of structures come from: a container. */
#include "structure.h"

#include <errno.h>
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

/* container_stores announces a store. Memory that is not persistent needs no announcement, nor does
 * a store that is wrong in any case. */
static void container_stores(void *arg, const void *p, size_t bytes)
{
    (void)arg;
    if (!ps_access(p, bytes, PS_X) && errno != EINVAL && errno != EPERM)
        ps_abort(errno);
}

struct ps_memory ps_in(ps_container *c)
{
    return (struct ps_memory){.take = container_take, .give = container_give, .arg = c,
                              .stores = c && ps_declares(c) ? container_stores : NULL};
}

static void *arena_take(void *arena, size_t bytes, const void *near)
{
    return ps_alloc_in(arena, bytes, near, NULL);
}

struct ps_memory ps_in_arena(struct ps_arena *arena)
{
    const ps_container *c = ps_container_of(arena);
    return (struct ps_memory){.take = arena_take, .give = container_give, .arg = arena,
                              .stores = c && ps_declares(c) ? container_stores : NULL};
}
