/*
 * life.c - see life.h.
 */
#include "life.h"
#include "shape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct world_options life_options(uint64_t seed)
{
    static const uint32_t log_kib[] = { 16, 24, 32, 64, 128 };
    bool chunks = seed & LIFE_CHUNKS;
    seed &= ~LIFE_CHUNKS;
    bool forms = seed >= LIFE_FORMS;
    seed %= LIFE_FORMS;
    uint64_t random = seed;
    struct world_options o = {
        .log_bytes = log_kib[random_below(&random, 5)] * 1024,
        .extent_bytes = 4096u << random_below(&random, 5),
        .ahead = random_below(&random, 2),
        .full_only = random_below(&random, 4) == 0,
        .checkpoint_odds = 2 + (uint32_t)random_below(&random, 8),
        .encoder = (enum store_encoder)random_below(&random, 4),
        .doomed = seed % 3 == 1,
        .watch = true,
    };
    if (seed >= LIFE_DOUBTS) {
        o.doubt_odds = 1 + seed % 2;
        o.log_bytes = (128u << seed % 3) * 1024;
        o.restless = seed % 4 == 2;
        o.doubt_odds = o.restless ? 5 : o.doubt_odds;
    } else if (seed >= LIFE_BULK) {
        o.bulk = true;
        o.chain_odds = 1;
        o.extent_bytes = 4096u << seed % 3;
    }
    o.disk_bytes = o.log_bytes + 768 * 1024 + random_below(&random, 4) * 65536;
    if (seed % 4 == 3 && !o.bulk && !o.doubt_odds) {     /* every page in an extent of its own */
        o.stride = 3 * o.extent_bytes / STORE_PAGE_BYTES;
        o.disk_bytes += 64 * (uint64_t)o.extent_bytes;
    }
    if (seed % 3 == 0 && !o.stride && !o.bulk)
        o.chain_odds = 2;
    o.unit_bytes = (uint64_t)o.extent_bytes << seed / 3 % 3;
    o.step_pages = seed % 4 == 1;           /* commits between the steps of a checkpoint */
    if (seed % 8 == 4)                  /* hardly any room: extents are used again and again */
        o.disk_bytes = shape_least_disk(&o) + 12 * (uint64_t)o.extent_bytes;
    if (seed % 5 == 2)                  /* groups of two blocks: most of the log is headers */
        o.group_bytes = 3 * STORE_PAGE_BYTES;
    o.newest = seed % 4 == 2;
    if (seed % 4 == 1)                  /* extents get other places */
        o.move_odds = 6;
    if (seed % 7 == 3)                  /* somebody holds the log now and then */
        o.hold_odds = 4;
    o.forms = forms;
    o.chunks = chunks;
    if (chunks && o.log_bytes < 65536) {    /* room for a sweep, and what commits beside it */
        o.disk_bytes += 65536 - o.log_bytes;
        o.log_bytes = 65536;
    }
    return o;
}

bool life_before(uint64_t seed)
{
    return seed % 6 == 5;
}

static bool only_full(int error)
{
    return error == -ENOSPC || error == -ENODATA;
}

static int life_work(struct world *world, uint32_t steps)
{
    struct store_report report;
    int error = world_open(world, &report);
    if (error)
        world->wrong = report.message;
    for (uint32_t i = 0; i < steps && !error && world->model.commits + 8 < WORLD_COMMITS; i++) {
        error = world_step(world);
        uint32_t every = world->options.restless ? 1 : 16;
        if (!error && i % every == every * 11 / 16) {   /* closed, or only stopped; opened again */
            if (i % (2 * every) == every * 11 / 16)
                error = world_close(world);
            else
                world_abandon(world);
            if (!error)
                error = world_open(world, &report);
        }
    }
    if (!error && world_checkpoint(world) == 0)
        error = world_close(world);
    if (world->store)
        world_abandon(world);
    return only_full(error) ? 0 : error;
}

int life_record(struct world *world, struct device *device, uint64_t seed, uint32_t steps)
{
    struct world_options options = life_options(seed);
    device_record(device, true);
    int error = world_format(world, device, seed, &options);
    device_mark(device, 0, 0);
    if (!error)
        error = life_work(world, steps);
    device->recording = false;
    return error;
}

/* The store that the disk held before: another uuid, the same sizes, a short life; or one commit
 * and no checkpoint, so that nothing stands in for its first area. */
static int earlier_life(struct world *world, struct device *device, uint64_t seed, uint64_t *digest)
{
    struct world_options options = life_options(seed);
    struct store_report report;
    bool fresh = seed % 12 == 5;
    int error = world_format(world, device, seed + 100000, &options);
    if (!error && !fresh)
        error = life_work(world, 6);
    if (!error && fresh)
        error = world_open(world, &report);
    if (!error && fresh) {
        error = world_commit(world, 1, false);
        world_abandon(world);
    }
    *digest = world->digests[world->model.commits];
    return error;
}

static void recorded(struct world *world, struct device *device, struct device *base, int error,
                     uint64_t seed, const struct enumerate_options *options,
                     struct enumerate_result *result)
{
    if (error) {
        result->failed = true;
        result->method = "work";
        snprintf(result->text, sizeof result->text, "commit %llu of the workload: %s (error %d)",
                 (unsigned long long)world->model.commits, world->wrong ? world->wrong : "refused",
                 error);
    } else
        enumerate(world, device->events, device->event_count, base, options, seed, result);
    device_close(device);
    device_close(base);
}

void life_run(uint64_t seed, uint32_t steps, const struct enumerate_options *options,
              struct enumerate_result *result)
{
    static struct world world;
    struct device device, base;
    struct world_options shape = life_options(seed);
    struct enumerate_options mine = *options;
    int error = 0;
    device_open(&device, shape.disk_bytes);
    device_open(&base, shape.disk_bytes);
    if (life_before(seed)) {
        error = earlier_life(&world, &device, seed, &mine.before_digest);
        mine.before = true;
        memcpy(base.image, device.image, device.bytes);
    }
    if (!error)
        error = life_record(&world, &device, seed, steps);
    recorded(&world, &device, &base, error, seed, &mine, result);
}

uint32_t life_disks(uint64_t seed, uint64_t bytes[SPAN_DISKS_MAX])
{
    uint64_t random = seed * 31, count = 2 + seed % (SPAN_DISKS_MAX - 1);
    struct world_options shape = life_options(seed);
    uint64_t each = seed % 8 == 4 ? (12 / count + 2) * shape.extent_bytes : 196608;
    each = (each + shape.unit_bytes - 1) / shape.unit_bytes * shape.unit_bytes; /* none is lost */
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = each + 8192 + random_below(&random, 4) * 4096;
    bytes[0] += shape.disk_bytes + 65536;
    return (uint32_t)count;
}

void life_run_disks(uint64_t seed, uint32_t steps, const struct enumerate_options *options,
                    struct enumerate_result *result)
{
    static struct world world;
    struct device device, base;
    uint64_t bytes[SPAN_DISKS_MAX];
    uint32_t count = life_disks(seed, bytes);
    device_open_disks(&device, bytes, count);
    device_open_disks(&base, bytes, count);
    int error = life_record(&world, &device, seed, steps);
    recorded(&world, &device, &base, error, seed, options, result);
}
