/*
 * enumerate.c - see enumerate.h.
 */
#include "enumerate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "opinion.h"

#define PENDING_MAX 512u
#define STABLE_MAX  64u
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
    struct { uint64_t offset; size_t bytes; } stable[STABLE_MAX];   /* the last flushed writes */
    uint64_t stable_count;
    uint64_t proven;            /* acknowledged when a group was sealed that is durable now: its
                                 * durable_lsn proves them; one rotten bit may take the others */
    int error;                  /* what opening the last state gave */
    struct store_report report;
    uint64_t containers, pages, names;  /* that it held */
    const char *method;         /* what kind of state is being made */
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

static uint32_t sector_bytes(const struct walk *walk)
{
    return walk->options->sector_bytes ? walk->options->sector_bytes : SECTOR_BYTES;
}

static void crash_apply(struct walk *walk, const struct crash *crash)
{
    struct device *device = walk->device;
    uint32_t sector = sector_bytes(walk);
    for (uint32_t i = 0; i < walk->pending_count; i++) {
        const struct event *write = &walk->events[walk->pending[i]];
        if (!is_kept(crash, i))
            continue;
        undo_save(device, write->offset, write->bytes);
        if (crash->torn != i) {
            memcpy(device->image + write->offset, write->data, write->bytes);
            continue;
        }
        for (uint32_t s = 0; s < write->bytes / sector; s++) {
            uint8_t *to = device->image + write->offset + s * sector;
            if (crash->sectors >> (s % 64) & 1)
                memcpy(to, write->data + s * sector, sector);
            if (crash->garbled && s == crash->garbled_sector)
                for (uint32_t b = 0; b < sector; b++)
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
    result->method = walk->depth ? "second crash" : walk->method;
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

static void crash_again(struct walk *outer, uint64_t k, uint32_t state_mark);

static uint32_t stride_of(const struct walk *walk)
{
    return walk->world->options.stride ? walk->world->options.stride : 1;
}

/* The store is being made: a blank disk is allowed. One sector of garbage on a disk that was blank
 * may pass for something foreign. */
static bool before_format(const struct walk *walk, int error, bool garbled)
{
    bool foreign = garbled && !walk->options->before && error == -EMEDIUMTYPE;
    return !walk->formatted && (error == -ENODATA || foreign);
}

/* After a power cut nothing is left that was in no log (UL1, UL3). */
static int kept_check(struct store *store, bool same)
{
    struct store_container c = { .object = 0 };
    while (store_container_next(store, c.object, &c) == 0) {
        bool is_volatile = c.durability == STORE_DURABILITY_VOLATILE;
        bool rebuilt = c.durability > STORE_DURABILITY_VOLATILE && !same;
        bool any = c.pages_present || c.pages_claimed || c.durability == STORE_DURABILITY_REBUILD;
        if ((is_volatile || rebuilt) && any)
            return -EUCLEAN;
    }
    return 0;
}

/* Recovers the state that is on the device now. *k: the commit that it is. False: none (blank). */
static bool state_check(struct walk *walk, bool garbled, uint64_t *k, struct store **out)
{
    struct store_open_options options = { .group_bytes = walk->world->options.group_bytes,
                                          .step_pages = walk->world->options.step_pages,
        .image_pages = walk->world->options.group_bytes / STORE_PAGE_BYTES % 3 };
    struct disk_io io;
    struct span_report span;
    struct store *store;
    uint64_t digest;
    const char *why;
    int error = device_start(walk->device, &io, &span);
    walk->report.message = span.message;
    if (!error)
        error = store_open(&io, &test_memory, &options, &store, &walk->report);
    walk->error = error;
    if (before_format(walk, error, garbled))
        return false;
    if (error) {
        fail(walk, walk->report.message, error);
        return false;
    }
    error = store_check(store, &why);
    bool same = !walk->report.groups && !walk->report.older_checkpoint;
    if (!error && (error = kept_check(store, same)))
        why = "pages that are in no log are there after a power cut";
    if (error)
        fail(walk, why, error);
    else if ((error = store_digest_wide(store, stride_of(walk), &digest)))
        fail(walk, "a page cannot be read", error);
    else if (!walk->formatted && walk->options->before && digest == walk->options->before_digest) {
        store_abandon(store);
        return false;
    } else if (!commit_find(walk, digest, k))
        fail(walk, "the state is no commit that it may be", 0);
    if (walk->result->failed) {
        store_abandon(store);
        return false;
    }
    walk->containers = store->kept.containers;
    walk->names = store->kept.names;
    walk->pages = store->kept.pages_present;
    *out = store;
    return true;
}

/* ---- the second opinion (opinion.h) */

/* Must say of a state, as the power cut left it, what recovery made of it; and that the older
 * checkpoint has its log, if nothing has rotted (CP3). */
static void opinions_compare(struct walk *walk, const struct kcheck_result *own, const char *said,
                             bool known)
{
    const struct store_report *report = &walk->report;
    walk->result->kcheck_states++;
    bool rotten = walk->options->copy_rotten || own->slot_bad[0] || own->slot_bad[1];
    if (own->error != walk->error ||
        (!own->error && (own->verdict != KCHECK_SOUND || (said[0] && !rotten))))
        fail(walk, said[0] ? said : "kcheck says something else than the store", own->error);
    else if (known && (own->end_lsn != report->end_lsn || own->groups != report->groups ||
                       own->containers != walk->containers || own->names != walk->names ||
                       own->pages != walk->pages))
        fail(walk, "kcheck counts otherwise than the store", 0);
}

/* Recovered again, nothing but superblock slots may be written, and the state is the same (ST7). */
static void recover_again(struct walk *walk, uint64_t k)
{
    struct device *device = walk->device;
    struct store *store;
    uint64_t again;
    uint32_t mark = device->undo_count;
    if (!state_check(walk, false, &again, &store))
        return;
    uint64_t slot_a = device_place(device, 0);
    uint64_t slot_b = device_place(device, store->super.slot_b_offset);
    store_abandon(store);
    if (again != k)
        fail(walk, "recovering twice gives another state (ST7)", 0);
    bool other_area = walk->options->copy_rotten && walk->report.older_checkpoint;
    for (uint32_t i = mark; i < device->undo_count && !other_area; i++)
        if (device->undos[i].offset != slot_a && device->undos[i].offset != slot_b)
            fail(walk, "recovering twice writes more than superblocks (ST7)", 0);
    walk->result->again_states++;
}

/* While no write is under way, one bit of what a flush covered flips. Then the store says
 * that it is damaged, or a page does, or the state is a commit that may be. Only groups that no
 * durable group was sealed after may pass for a torn tail: the last, or the last two if the second
 * was sealed before the first was acknowledged. */
static void rot_run(struct walk *walk)
{
    struct store_open_options options = { .group_bytes = walk->world->options.group_bytes,
                                          .step_pages = walk->world->options.step_pages,
        .image_pages = walk->world->options.group_bytes / STORE_PAGE_BYTES % 3 };
    struct disk_io io;
    struct span_report span;
    uint32_t n = (uint32_t)(walk->stable_count < STABLE_MAX ? walk->stable_count : STABLE_MAX);
    struct store_report report;
    struct store *store;
    uint64_t digest, k, acked = walk->acked;
    if (!n || !walk->formatted)
        return;
    uint32_t at = (uint32_t)random_below(&walk->random, n);
    uint64_t byte = 0;
    for (int i = 0; i < 8 && (!byte || !walk->device->image[byte]); i++)
        byte = walk->stable[at].offset + random_below(&walk->random, walk->stable[at].bytes);
    undo_save(walk->device, byte / 4096 * 4096, 4096);
    walk->device->image[byte] ^= (uint8_t)(1u << random_below(&walk->random, 8));
    walk->result->rotten_states++;
    if (device_start(walk->device, &io, &span) ||
        store_open(&io, &test_memory, &options, &store, &report))
        return;
    int error = store_digest_wide(store, stride_of(walk), &digest);
    store_abandon(store);
    walk->acked = walk->proven;
    if (!error && !commit_find(walk, digest, &k)) {
        walk->method = "rot";
        fail(walk, "a flipped bit was not noticed", (int)(byte / 4096));
    }
    walk->acked = acked;
}

static bool enough(const struct walk *walk)
{
    return walk->result->failed || walk->result->states >= walk->options->states_max;
}

/* Is this state cut off again, inside its recovery or in the work after it? */
static bool again_wanted(struct walk *walk, const struct crash *crash)
{
    uint32_t odds = walk->options->second_odds;
    if (walk->depth >= walk->options->depth || !odds || !walk->formatted)
        return false;
    if (walk->depth)
        odds = walk->options->third_odds;
    else if (crash->out_of_order && odds > 4)
        odds = 4;
    return odds && random_below(&walk->random, odds) == 0;
}

static void state_look(struct walk *walk)
{
    const struct enumerate_options *options = walk->options;
    if (!options->look || !walk->formatted || random_below(&walk->random, options->look_odds))
        return;
    uint32_t mark = walk->device->undo_count;
    const char *wrong = options->look(walk->world, walk->device, walk->acked, walk->submitted,
                                      random_next(&walk->random));
    undo_to(walk->device, mark);
    if (wrong)
        fail(walk, wrong, 0);
}

static void state_run(struct walk *walk, const struct crash *crash)
{
    struct store *store;
    uint64_t k;
    if (enough(walk))
        return;
    walk->result->states++;
    walk->result->second_states += walk->depth > 0;
    walk->result->third_states += walk->depth > 1;
    uint32_t before = walk->device->undo_count;
    crash_apply(walk, crash);
    uint32_t state_mark = walk->device->undo_count;
    state_look(walk);
    if (walk->options->look_only) {
        undo_to(walk->device, before);
        return;
    }
    char said[OPINION_BYTES];
    struct kcheck_result own;
    bool ask = walk->result->states % 16 == 8;
    if (ask)
        opinion_ask(walk->device, &own, said);
    bool again = again_wanted(walk, crash);
    bool known = state_check(walk, crash->garbled, &k, &store);
    if (ask && !walk->result->failed)
        opinions_compare(walk, &own, said, known);
    if (known) {
        store_abandon(store);
        if (walk->result->states % 16 == 0)
            recover_again(walk, k);
        if (again && !walk->result->failed) {
            undo_to(walk->device, state_mark);
            crash_again(walk, k, state_mark);
        }
        for (uint32_t i = 0; i < walk->options->rot_flips && !walk->pending_count &&
                             !walk->depth && !walk->result->failed; i++) {
            undo_to(walk->device, state_mark);
            rot_run(walk);
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

static void label_as(struct walk *walk, const char *method, const char *kind, uint32_t a,
                     uint64_t b)
{
    walk->method = method;
    label(walk, kind, a, b);
}

static struct crash crash_all(const struct walk *walk, bool kept)
{
    struct crash crash = { .torn = NO_WRITE };
    for (uint32_t i = 0; i < walk->pending_count; i++)
        keep(&crash, i, kept);
    return crash;
}

/* Every subset of a few pending writes. */
static void subsets_all(struct walk *walk)
{
    struct crash crash = crash_all(walk, false);
    for (uint64_t set = 0; set < 1ull << walk->pending_count; set++) {
        crash.kept[0] = set;
        crash.out_of_order = set == 2;
        label_as(walk, set == (1ull << walk->pending_count) - 1 ? "prefix" : "subset", "subset",
                 (uint32_t)set, 0);
        state_run(walk, &crash);
    }
}

/* Of many: none, all, all but one, one only, all up to one, and some at random. */
static void subsets_some(struct walk *walk)
{
    uint32_t n = walk->pending_count;
    struct crash crash = crash_all(walk, true);
    label_as(walk, "prefix", "all", n, 0);
    state_run(walk, &crash);
    crash = crash_all(walk, false);
    label_as(walk, "subset", "none", 0, 0);
    state_run(walk, &crash);
    for (uint32_t i = 0; i < n; i++) {
        crash = crash_all(walk, true);
        keep(&crash, i, false);
        label_as(walk, "subset", "without", i, 0);
        state_run(walk, &crash);
        crash = crash_all(walk, false);
        keep(&crash, i, true);
        label_as(walk, "subset", "only", i, 0);
        state_run(walk, &crash);
        for (uint32_t j = 0; j < n; j++)
            keep(&crash, j, j <= i);
        label_as(walk, "subset", "up to", i, 0);
        if (i && i + 1 < n)
            state_run(walk, &crash);
    }
    for (uint32_t r = 0; r < walk->options->random_subsets; r++) {
        for (uint32_t i = 0; i < n; i++)
            keep(&crash, i, random_below(&walk->random, 2));
        label_as(walk, "subset", "random subset", r, 0);
        state_run(walk, &crash);
    }
}

static void subsets_run(struct walk *walk)
{
    if (walk->pending_count <= (walk->options->exhaustive ? 5 : 2))
        subsets_all(walk);
    else
        subsets_some(walk);
}

/* Pending write i torn in these ways, beside what `crash` keeps. */
static void tears_run(struct walk *walk, struct crash *crash, uint32_t i, uint32_t sectors)
{
    uint32_t cut = 1 + (uint32_t)random_below(&walk->random, sectors - 1);
    uint64_t masks[4] = { (1ull << (cut % 64)) - 1, ~((1ull << (cut % 64)) - 1),
                          random_next(&walk->random), ~1ull };
    for (uint32_t m = 0; m < 4; m++) {
        crash->sectors = masks[m];
        label_as(walk, "torn", "torn", i, masks[m]);
        state_run(walk, crash);
    }
}

/* Cut before every sector, from either side; every sector alone lost, or alone written. */
static void tears_all(struct walk *walk, struct crash *crash, uint32_t i, uint32_t sectors)
{
    for (uint32_t s = 0; s < sectors && s < 64; s++) {
        uint64_t below = (1ull << s) - 1, one = 1ull << s;
        uint64_t masks[4] = { below, ~below, ~one, one };
        for (uint32_t m = 0; m < 4; m++) {
            if (s == 0 && m < 2)
                continue;
            crash->sectors = masks[m];
            label_as(walk, "torn", "torn", i, masks[m]);
            state_run(walk, crash);
        }
    }
}

static void garbled_run(struct walk *walk, struct crash *crash, uint32_t i, uint32_t sectors)
{
    crash->sectors = random_below(&walk->random, 2) ? ~0ull : 1;
    crash->garbled = true;
    crash->garbled_sector = random_below(&walk->random, 2)
                                ? (uint32_t)random_below(&walk->random, sectors) : 0;
    label_as(walk, "garbled", "garbled", i, crash->garbled_sector);
    state_run(walk, crash);
    crash->garbled = false;
}

/* One pending write torn, the others kept or not. */
static void torn_run(struct walk *walk, uint32_t i, bool others)
{
    uint32_t sectors = (uint32_t)(walk->events[walk->pending[i]].bytes / sector_bytes(walk));
    struct crash crash = crash_all(walk, others);
    keep(&crash, i, true);
    crash.torn = i;
    if (sectors > 1 && walk->options->exhaustive)
        tears_all(walk, &crash, i, sectors);
    else if (sectors > 1)
        tears_run(walk, &crash, i, sectors);
    if (walk->options->garble)
        garbled_run(walk, &crash, i, sectors);
}

static void point_run(struct walk *walk)
{
    if (walk->at < walk->options->from_event && walk->depth == 0)
        return;
    walk->result->points++;
    subsets_run(walk);
    for (uint32_t i = 0; walk->options->tear && i < walk->pending_count && !enough(walk); i++) {
        torn_run(walk, i, true);
        if (walk->pending_count > 1 && random_below(&walk->random, 2))
            torn_run(walk, i, false);
    }
}

/* ---- the walk along a record */

/* A flush issued at event `issued` has completed: what had completed there before is durable. */
static void flush_done(struct walk *walk, uint32_t issued)
{
    const struct event *flush = &walk->events[issued];
    uint32_t left = 0;
    for (uint32_t i = 0; i < walk->pending_count; i++) {
        const struct event *write = &walk->events[walk->pending[i]];
        bool durable = false;
        bool there = !flush->bytes || write->offset - flush->offset < flush->bytes;
        for (uint32_t e = walk->pending[i]; there && e < issued && !durable; e++)
            durable = walk->events[e].kind == WRITE_COMPLETE &&
                      walk->events[e].write == walk->pending[i];
        if (!durable) {
            walk->pending[left++] = walk->pending[i];
            continue;
        }
        walk->stable[walk->stable_count % STABLE_MAX].offset = write->offset;
        walk->stable[walk->stable_count++ % STABLE_MAX].bytes = write->bytes;
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
            walk->proven = event->proven;
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
static void crash_again(struct walk *outer, uint64_t k, uint32_t state_mark)
{
    static struct world worlds[ENUMERATE_DEPTH_MAX];
    struct world *again = &worlds[outer->depth];
    struct device *device = outer->device;
    uint64_t found;
    struct store *store;
    device_record(device, true);
    if (!state_check(outer, false, &found, &store) || found != k) {
        fail(outer, "recovery is not repeatable", 0);
        return;
    }
    world_resume(again, outer->world, k, store, device);
    device_mark(device, k, k);
    uint32_t steps = (uint32_t)random_below(&outer->random, outer->options->second_steps + 1);
    int error = 0;
    for (uint32_t i = 0; i < steps && !error && again->model.commits + 8 < WORLD_COMMITS; i++)
        error = world_step(again);
    world_abandon(again);
    if (error && error != -ENODATA && error != -ENOSPC)
        fail(outer, again->wrong ? again->wrong : "work after recovery", error);
    device->recording = false;
    undo_to(device, state_mark);
    struct walk inner = { .world = again, .events = device->events, .count = device->event_count,
                          .device = device, .options = outer->options, .result = outer->result,
                          .random = random_next(&outer->random), .depth = outer->depth + 1,
                          .formatted = true, .acked = k, .submitted = k, .proven = k };
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
