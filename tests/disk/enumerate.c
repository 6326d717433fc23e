/*
 * enumerate.c - see enumerate.h.
 */
#include "enumerate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 512u
#define NO_WRITE    UINT32_MAX

struct walk {
    const struct world *world;
    const struct event *events;
    uint32_t count, at;
    struct device *device;
    const struct enumerate_options *options;
    struct enumerate_result *result;
    uint64_t random;
    uint32_t depth;
    bool     formatted;
    uint64_t acked, submitted;
    uint32_t pending[PENDING_MAX], pending_count;
    char     label[96];
};

/* What of the pending writes reached the disk. */
struct crash {
    uint64_t kept[PENDING_MAX / 64];
    uint32_t torn;              /* place in pending[], or NO_WRITE */
    uint64_t sectors;           /* kept sectors of the torn write, modulo 64 */
    bool     garbled;
    uint32_t garbled_sector;
    bool     out_of_order;      /* a late write without those before: what work after may revive */
};

static bool is_kept(const struct crash *crash, uint32_t i)
{
    return crash->kept[i / 64] >> (i % 64) & 1;
}

static void keep(struct crash *crash, uint32_t i, bool kept)
{
    uint64_t bit = 1ull << (i % 64);
    crash->kept[i / 64] = kept ? crash->kept[i / 64] | bit : crash->kept[i / 64] & ~bit;
}

static void crash_apply(struct walk *walk, const struct crash *crash)
{
    struct device *device = walk->device;
    for (uint32_t i = 0; i < walk->pending_count; i++) {
        const struct event *write = &walk->events[walk->pending[i]];
        if (!is_kept(crash, i))
            continue;
        undo_save(device, write->offset, write->bytes);
        if (crash->torn != i) {
            memcpy(device->image + write->offset, write->data, write->bytes);
            continue;
        }
        for (uint32_t s = 0; s < write->bytes / SECTOR_BYTES; s++) {
            uint8_t *to = device->image + write->offset + s * SECTOR_BYTES;
            if (crash->sectors >> (s % 64) & 1)
                memcpy(to, write->data + s * SECTOR_BYTES, SECTOR_BYTES);
            if (crash->garbled && s == crash->garbled_sector)
                for (uint32_t b = 0; b < SECTOR_BYTES; b++)
                    to[b] ^= (uint8_t)(0x5a + 7 * b);
        }
    }
}

static void fail(struct walk *walk, const char *what, int error)
{
    struct enumerate_result *result = walk->result;
    if (result->failed)
        return;
    result->failed = true;
    snprintf(result->text, sizeof result->text,
             "depth %u event %u/%u %s: %s (error %d), acked %llu submitted %llu", walk->depth,
             walk->at, walk->count, walk->label, what, error, (unsigned long long)walk->acked,
             (unsigned long long)walk->submitted);
}

/* Which commit is this? */
static bool commit_find(const struct walk *walk, uint64_t digest, uint64_t *k)
{
    for (*k = walk->acked; *k <= walk->submitted; ++*k)
        if (walk->world->digests[*k] == digest)
            return true;
    return false;
}

static void second_crash(struct walk *outer, uint64_t k, uint32_t state_mark);

/* Recovers the state that is on the device now. *k: the commit that it is. False: none (blank). */
static bool state_check(struct walk *walk, bool garbled, uint64_t *k, struct store **out)
{
    struct store_open_options options = { .group_bytes = walk->world->options.group_bytes };
    struct disk_io io = device_io(walk->device);
    struct store_report report;
    struct store *store;
    uint64_t digest;
    const char *why;
    int error = store_open(&io, &test_memory, &options, &store, &report);
    if (error && !walk->formatted &&
        (error == -ENODATA || (garbled && (error == -EUCLEAN || error == -EMEDIUMTYPE))))
        return false;
    if (error) {
        fail(walk, report.message, error);
        return false;
    }
    error = store_check(store, &why);
    if (error)
        fail(walk, why, error);
    else if ((error = store_digest(store, &digest)))
        fail(walk, "a page cannot be read", error);
    else if (!commit_find(walk, digest, k))
        fail(walk, "the state is no commit that it may be", 0);
    if (walk->result->failed) {
        store_abandon(store);
        return false;
    }
    *out = store;
    return true;
}

static bool enough(const struct walk *walk)
{
    return walk->result->failed || walk->result->states >= walk->options->states_max;
}

static void state_run(struct walk *walk, const struct crash *crash)
{
    struct store *store;
    uint64_t k;
    if (enough(walk))
        return;
    walk->result->states++;
    walk->result->second_states += walk->depth > 0;
    uint32_t before = walk->device->undo_count;
    crash_apply(walk, crash);
    uint32_t state_mark = walk->device->undo_count;
    uint32_t odds = crash->out_of_order && walk->options->second_odds ? 4
                                                                      : walk->options->second_odds;
    bool second = walk->depth == 0 && odds && random_below(&walk->random, odds) == 0;
    if (state_check(walk, crash->garbled, &k, &store)) {
        store_abandon(store);
        if (second && walk->formatted) {
            undo_to(walk->device, state_mark);
            second_crash(walk, k, state_mark);
        }
    }
    undo_to(walk->device, before);
}

/* ---- the states of one point */

static void label(struct walk *walk, const char *kind, uint32_t a, uint64_t b)
{
    snprintf(walk->label, sizeof walk->label, "%s %u of %u pending, sectors %llx", kind, a,
             walk->pending_count, (unsigned long long)b);
}

static struct crash crash_all(const struct walk *walk, bool kept)
{
    struct crash crash = { .torn = NO_WRITE };
    for (uint32_t i = 0; i < walk->pending_count; i++)
        keep(&crash, i, kept);
    return crash;
}

static void subsets_run(struct walk *walk)
{
    uint32_t n = walk->pending_count;
    struct crash crash = crash_all(walk, false);
    label(walk, "none", 0, 0);
    state_run(walk, &crash);
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        crash = crash_all(walk, true);
        keep(&crash, i, false);
        label(walk, "without", i, 0);
        if (n > 1)
            state_run(walk, &crash);
        crash = crash_all(walk, false);
        keep(&crash, i, true);
        crash.out_of_order = n == 2 && i == 1;
        label(walk, "only", i, 0);
        state_run(walk, &crash);
    }
    for (uint32_t r = 0; r < walk->options->random_subsets && n > 2; r++) {
        for (uint32_t i = 0; i < n; i++)
            keep(&crash, i, random_below(&walk->random, 2));
        label(walk, "random subset", r, 0);
        state_run(walk, &crash);
    }
    crash = crash_all(walk, true);
    label(walk, "all", n, 0);
    if (n > 1)
        state_run(walk, &crash);
}

/* One pending write torn, the others kept or not. */
static void torn_run(struct walk *walk, uint32_t i, bool others)
{
    uint32_t sectors = (uint32_t)(walk->events[walk->pending[i]].bytes / SECTOR_BYTES);
    uint32_t cut = 1 + (uint32_t)random_below(&walk->random, sectors - 1);
    uint64_t low = (1ull << (cut % 64)) - 1;
    uint64_t masks[4] = { low, ~low, random_next(&walk->random), ~1ull };
    struct crash crash = crash_all(walk, others);
    keep(&crash, i, true);
    crash.torn = i;
    for (uint32_t m = 0; m < 4; m++) {
        crash.sectors = masks[m];
        label(walk, others ? "all but torn" : "only torn", i, masks[m]);
        state_run(walk, &crash);
    }
    if (walk->options->garble) {
        crash.sectors = random_below(&walk->random, 2) ? ~0ull : low;
        crash.garbled = true;
        crash.garbled_sector = random_below(&walk->random, 2)
                                   ? (uint32_t)random_below(&walk->random, sectors) : 0;
        label(walk, "garbled", i, crash.garbled_sector);
        state_run(walk, &crash);
    }
}

static void point_run(struct walk *walk)
{
    walk->result->points++;
    subsets_run(walk);
    for (uint32_t i = 0; walk->options->tear && i < walk->pending_count && !enough(walk); i++) {
        torn_run(walk, i, true);
        if (walk->pending_count > 1 && random_below(&walk->random, 2))
            torn_run(walk, i, false);
    }
}

/* ---- the walk along a record */

/* A flush issued at event `issued` has completed: what had completed before is durable. */
static void flush_done(struct walk *walk, uint32_t issued)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < walk->pending_count; i++) {
        const struct event *write = &walk->events[walk->pending[i]];
        bool durable = false;
        for (uint32_t e = walk->pending[i]; e < issued && !durable; e++)
            durable = walk->events[e].kind == WRITE_COMPLETE &&
                      walk->events[e].write == walk->pending[i];
        if (!durable) {
            walk->pending[left++] = walk->pending[i];
            continue;
        }
        if (walk->depth)
            undo_save(walk->device, write->offset, write->bytes);
        memcpy(walk->device->image + write->offset, write->data, write->bytes);
    }
    walk->pending_count = left;
}

static void walk_run(struct walk *walk)
{
    point_run(walk);
    for (walk->at = 0; walk->at < walk->count && !enough(walk); walk->at++) {
        const struct event *event = &walk->events[walk->at];
        switch (event->kind) {
        case WRITE_ISSUE:
            if (walk->pending_count == PENDING_MAX) {
                fail(walk, "too many pending writes for the enumerator", 0);
                return;
            }
            walk->pending[walk->pending_count++] = walk->at;
            point_run(walk);
            break;
        case FLUSH_COMPLETE:
            flush_done(walk, event->write);
            point_run(walk);
            break;
        case MARK:
            walk->formatted = true;
            walk->acked = event->acked;
            walk->submitted = event->submitted;
            if (walk->pending_count)
                point_run(walk);
            break;
        default:
            break;
        }
    }
}

static void events_free(struct event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(events[i].data);
    free(events);
}

/* The state on the device recovers to commit k: do that under record, work on, and cut again. */
static void second_crash(struct walk *outer, uint64_t k, uint32_t state_mark)
{
    static struct world again;
    struct device *device = outer->device;
    uint64_t found;
    struct store *store;
    device_record(device, true);
    if (!state_check(outer, false, &found, &store) || found != k) {
        fail(outer, "recovery is not repeatable", 0);
        return;
    }
    world_resume(&again, outer->world, k, store, device);
    device_mark(device, k, k);
    uint32_t steps = (uint32_t)random_below(&outer->random, outer->options->second_steps + 1);
    int error = 0;
    for (uint32_t i = 0; i < steps && !error && again.model.commits + 8 < WORLD_COMMITS; i++)
        error = world_step(&again);
    world_abandon(&again);
    if (error && error != -ENODATA && error != -ENOSPC)
        fail(outer, "work after recovery", error);
    device->recording = false;
    undo_to(device, state_mark);
    struct walk inner = { .world = &again, .events = device->events, .count = device->event_count,
                          .device = device, .options = outer->options, .result = outer->result,
                          .random = random_next(&outer->random), .depth = 1, .formatted = true,
                          .acked = k, .submitted = k };
    struct event *events = device->events;
    device->events = NULL;
    device->event_count = device->event_room = 0;
    walk_run(&inner);
    events_free(events, inner.count);
}

void enumerate(const struct world *world, const struct event *events, uint32_t count,
               struct device *base, const struct enumerate_options *options, uint64_t seed,
               struct enumerate_result *result)
{
    struct walk walk = { .world = world, .events = events, .count = count, .device = base,
                         .options = options, .result = result, .random = seed };
    undo_begin(base);
    walk_run(&walk);
}
