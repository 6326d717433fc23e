/*
 * chunks.c - checkpoints of a world by chunks (world.h).
 */
#include "world_parts.h"

#include <errno.h>

/* Containers have chunks of different sizes, some of less than an extent. */
static uint64_t chunk_size(void *context, uint64_t object)
{
    const struct world *world = context;
    uint32_t stride = world->options.stride ? world->options.stride : 1;
    return object % 3 * stride * 5;
}

int world_sweep(struct world *world, uint64_t *random)
{
    uint64_t page, lsn;
    uint32_t limit = 1 + (uint32_t)random_below(random, 4);
    int error = 0;
    while (limit-- && !error) {
        if (!world->in_chunk) {
            error = store_chunk_begin(world->store, chunk_size, world, &world->chunk);
            world->in_chunk = !error;
        } else {
            error = store_chunk_next(world->store, &world->chunk, &page, &lsn);
            if (error == -ENOENT)
                error = world->in_chunk = false;
            else if (!error)
                error = world_clean_one(world, world->chunk.object, page, lsn);
        }
        error = error == -EAGAIN ? 0 : error;
    }
    if (error != -ENOENT || random_below(random, 3))
        return error == -ENOENT ? 0 : error;
    world->chunks++;
    return world_checkpoint_begin(world);
}

int world_checkpoint_due(struct world *world, uint64_t *random)
{
    if (!world->options.chunks || random_below(random, 6) == 0)
        return world_checkpoint_begin(world);
    int error = store_sweep_begin(world->store);
    world->sweeping = !error;
    world->in_chunk = false;
    return error;
}
