/*
 * spare_rig.c - see spare_rig.h.
 */
#include "spare_rig.h"

#include "crew.h"
#include "internal.h"
#include "life.h"

struct power sides[2];
struct world worlds[2], *world;
uint32_t home;
struct store_spare *spare;
uint64_t random_seed;
bool cut_off, paused, marks_copy;

static uint64_t sent_lsn;               /* groups before it are at the copy */
static uint32_t sent_crc;

uint64_t below(uint64_t limit) { return random_below(&random_seed, limit); }
struct device *copy_device(void) { return &sides[!home].device; }

/* ---- groups on their way */

static void copy_marked(void)
{
    if (marks_copy)
        device_mark(copy_device(), world->acked, world->submitted);
}

/* The group of the home's log at `lsn`, if it is the one that follows. */
static bool group_send(uint64_t lsn)
{
    const struct superblock *super = &world->store->super;
    const uint8_t *group = sides[home].device.image + super->log_start + lsn % super->log_bytes;
    const struct group_disk *header = (const void *)group;
    struct store_mark mark;
    store_lsn_t have;
    if (le64_get(header->magic) != GROUP_MAGIC || le64_get(header->lsn) != lsn ||
        le32_get(header->prev_crc) != sent_crc ||
        le32_get(header->epoch) != world->store->log.epoch)
        return false;
    size_t bytes = group_bytes(group);
    store_mark_tell(world->store, &mark);
    int error = store_spare_take(spare, group, bytes, &mark);
    copy_marked();
    if (error)
        crew_fail("the group at %llu is not taken (error %d)", (unsigned long long)lsn, error);
    require(store_spare_write(spare) == 0);
    require(store_spare_taken(spare, &have) == 0 && have == lsn + bytes);
    crew_add(TAKEN, 1);
    sent_lsn = have;
    sent_crc = le32_get(header->crc);
    if (!paused && below(2))
        require(store_spare_apply(spare, (uint32_t)below(3) * 8192) >= 0);
    return true;
}

static void groups_send(void)
{
    uint64_t ring = world->store ? world->store->super.log_bytes : 1;
    while (world->store && spare && !cut_off && sent_lsn < world->store->log.end &&
           (group_send(sent_lsn) || group_send((sent_lsn + ring - 1) / ring * ring)))
        ;
}

/* ---- joining */

void home_is(uint32_t side)
{
    home = side;
    sides[home].device.written = groups_send;
    sides[!home].device.written = NULL;
}

struct store_open_options options_of(void)
{
    return (struct store_open_options){ .flags = STORE_COPIED,
                                        .group_bytes = world->options.group_bytes,
                                        .image_pages = 3 + (uint32_t)below(3) };
}

/* All that it lacks, in groups that the home reads back. 0, or -ESTALE: not by the log. */
static int feed(struct store_feed *feed, struct store_spare *to)
{
    const void *group;
    size_t bytes;
    struct store_mark mark;
    int found;
    while ((found = store_feed_next(world->store, feed, &group, &bytes)) > 0) {
        store_lsn_t have;
        store_mark_tell(world->store, &mark);
        int error = store_spare_take(to, group, bytes, &mark);
        if (error == -ENOSPC)
            return -ESTALE;
        require(error == 0);
        require(store_spare_write(to) == 0 && store_spare_taken(to, &have) == 0);
        if (below(2))
            require(store_spare_apply(to, 16384) >= 0);
    }
    return found;
}

int feed_begin(struct store_feed *f, const struct store_epochs *copy, store_lsn_t end)
{
    int error = store_feed_begin(world->store, f, copy, end);
    if (error)
        return error;
    require(store_feed_is(world->store, f, copy, end));
    while ((error = store_feed_seek(world->store, f, 1 + below(4) * BLOCK_BYTES)) > 0)
        ;
    return error;
}

int join(void)
{
    struct store_spare_state state;
    struct store_epochs theirs, ours;
    struct store_feed f;
    struct store_mark mark;
    struct store_report report;
    struct store_open_options options = options_of();
    struct disk_io io = device_io(copy_device());
    struct store_spare *to;
    int error = store_spare_open(&io, &test_memory, &options, &to, &report);
    if (error == -ESTALE)
        return error;
    if (error)
        crew_fail("the copy is not opened: %s (error %d)", report.message, error);
    store_spare_tell(to, &state, &theirs);
    error = feed_begin(&f, &theirs, state.end_lsn);
    store_epochs_tell(world->store, &ours);
    store_mark_tell(world->store, &mark);
    crew_add(CUT, !error && f.lsn < state.end_lsn);
    error = error ?: store_spare_join(to, f.lsn, f.prev_crc, &ours,
                                      MIN(f.lsn, world->store->log.durable), &mark) ?:
                     feed(&f, to);
    store_feed_end(world->store, &f);
    if (error) {
        require(error == -ESTALE || error == -EBUSY);
        store_spare_abandon(to);
        return -ESTALE;
    }
    spare = to;
    sent_lsn = world->store->log.applied;
    sent_crc = world->store->log.applied_crc;
    crew_add(JOINS, 1);
    return 0;
}

void copy_all(void)
{
    memcpy(copy_device()->image, sides[home].device.image, sides[home].device.bytes);
    crew_add(COPIES, 1);
}

uint64_t commit_of(struct store *store, uint64_t acked, const char *whose)
{
    uint32_t stride = world->options.stride ? world->options.stride : 1;
    uint64_t digest, k = acked;
    require(store_digest_wide(store, stride, &digest) == 0);
    while (k <= world->submitted && world->digests[k] != digest)
        k++;
    if (k > world->submitted)
        crew_fail("%s has no state from the %lluth commit on", whose, (unsigned long long)acked);
    return k;
}

/* ---- one life, cut at every event of the copy's disk */

void pair_begin(uint64_t seed)
{
    seed = seed % 4 == 1 ? LIFE_FORMS + seed : seed % 4 == 2 ? LIFE_DOUBTS + seed
           : seed % 4 == 3 ? LIFE_CHUNKS | (seed % 8 == 3 ? LIFE_DOUBTS + seed : seed) : seed;
    struct world_options options = life_options(seed);
    options.bulk = false;
    options.hold_odds = options.chunks ? 0 : options.hold_odds;
    random_seed = seed * 7 + 1;
    spare = NULL;
    world = &worlds[0];
    for (int i = 0; i < 2; i++)
        device_open(&sides[i].device, options.disk_bytes);
    require(world_format(world, &sides[0].device, seed, &options) == 0);
    home_is(0);
    memcpy(sides[1].device.image, sides[0].device.image, options.disk_bytes);
}

void pair_end(void)
{
    if (spare)
        store_spare_abandon(spare);
    if (world->store)
        world_abandon(world);
    spare = NULL;
    for (int i = 0; i < 2; i++)
        device_close(&sides[i].device);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
}

void work(uint32_t steps)
{
    for (uint32_t i = 0; i < steps && world->model.commits + 8 < WORLD_COMMITS; i++) {
        int error = world_step(world);
        copy_marked();
        if (error && error != -ENOSPC && error != -ENODATA)
            crew_fail("the home refuses work: %s (error %d)", world->wrong ? world->wrong : "-",
                      error);
        if (spare && !paused && below(4) == 0)
            require(store_spare_apply(spare, 0) >= 0);
    }
}
