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

static void *arena_take(void *arena, size_t bytes, const void *near)
{
    return ps_alloc_in(arena, bytes, near, NULL);
}

struct ps_memory ps_in_arena(struct ps_arena *arena)
{
    return (struct ps_memory){.take = arena_take, .give = container_give, .arg = arena};
}
