/*
 * log.c - writes that a seed makes: the same on every machine, byte for byte.
 *
 *   log FIRST COUNT      one line for each seed: CRC of all writes in order, and of the image
 *
 * Built for the host and for the guest (tests/system/same-log.sh compares). A difference would be
 * padding that was never set, a pointer or the time on the disk, or a routine that differs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "shape.h"
#include "world.h"

static struct world world;

static int life(struct device *device, uint64_t seed, const struct world_options *shape)
{
    struct store_report report;
    int error = world_format(&world, device, seed, shape);
    for (int round = 0; round < 2 && !error; round++) {
        error = world_open(&world, &report);
        for (int i = 0; i < 6 && !error; i++)
            error = world_step(&world);
        if (!error && round == 0)
            world_abandon(&world);
    }
    return error ? error : world_close(&world);
}

static void line_print(uint64_t seed)
{
    struct world_options shape = shape_of(seed);
    struct device device;
    uint32_t writes = 0, crc = 0;
    device_open(&device, shape.disk_bytes);
    device_record(&device, true);
    world.store = NULL;
    int error = life(&device, seed, &shape);
    if (world.store)
        world_abandon(&world);
    for (uint32_t i = 0; i < device.event_count; i++) {
        const struct event *e = &device.events[i];
        if (e->kind != WRITE_ISSUE)
            continue;
        crc = crc32c(crc ^ (uint32_t)e->offset, e->data, e->bytes);
        writes++;
    }
    printf("seed %llu: error %d, %u writes, %08x, image %08x, %llu commits\n",
           (unsigned long long)seed, error, writes, crc, crc32c(0, device.image, device.bytes),
           (unsigned long long)world.acked);
    device_close(&device);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 50;
    for (uint64_t seed = first; seed < first + count; seed++)
        line_print(seed);
    return 0;
}
