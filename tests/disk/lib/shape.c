/*
 * shape.c - see shape.h.
 */
#include "shape.h"

#include <stdlib.h>

struct world_options shape_of(uint64_t seed)
{
    static const uint32_t extents[] = { 4096, 8192, 16384, 16384, 32768, 65536 };
    static const uint32_t logs[] = { 6, 8, 8, 12, 16, 16, 24, 32 };
    static const uint32_t groups[] = { 2, 3, 4, 6, 1024, 1024 };
    uint64_t random = seed * 0x9e3779b97f4a7c15ull + 77;
    struct world_options shape = {
        .extent_bytes = extents[random_below(&random, 6)],
        .log_bytes = logs[random_below(&random, 8)] * 4096ull,
        .group_bytes = groups[random_below(&random, 6)] * 4096ull,
        .ahead = random_below(&random, 2),
        .encoder = (enum store_encoder)(seed % 4),
        .checkpoint_odds = 1 + (uint32_t)random_below(&random, 6),
        .chain_odds = seed % 4 == 0 ? 3 : 0,
    };
    shape.disk_bytes = shape_least_disk(&shape) +
                       (4 + random_below(&random, 40)) * (uint64_t)shape.extent_bytes;
    return shape;
}

uint64_t shape_least_disk(const struct world_options *shape)
{
    struct device device;
    struct store_options options = { .uuid = { 1 }, .log_bytes = shape->log_bytes,
                                     .extent_bytes = shape->extent_bytes };
    uint64_t bytes = 64 * 1024;
    for (;; bytes += shape->extent_bytes) {
        device_open(&device, bytes);
        struct disk_io io = device_io(&device);
        int error = store_format(&io, &test_memory, &options);
        device_close(&device);
        if (!error)
            return bytes;
    }
}
