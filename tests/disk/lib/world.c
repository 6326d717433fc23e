/*
 * world.c - see world.h.
 */
#include "world_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the space's rules, seen from outside */

/* Enters what every page's extent is now: one that was freed may be used again only after a
 * checkpoint that began later is durable (ST22). True if that holds. */
static bool extents_watch(struct world *world)
{
    uint32_t n = world->options.extent_bytes / STORE_PAGE_BYTES;
    uint32_t stride = world->options.stride ? world->options.stride : 1;
    static bool used[WORLD_EXTENTS];
    bool good = true;
    memset(used, 0, sizeof used);
    for (uint32_t i = 0; i < WORLD_CONTAINERS * WORLD_PAGES; i++) {
        const struct model_container *c = &world->model.containers[i / WORLD_PAGES];
        uint64_t page = (uint64_t)(i % WORLD_PAGES) * stride, e;
        struct store_page found;
        for (uint64_t x = 0; c->object && c->pages[i % WORLD_PAGES].claimed && x < WORLD_EXTENTS;
             x++)
            used[x] |= world->extents[x].object == c->object && world->extents[x].index == page / n;
        if (!c->object || !c->pages[i % WORLD_PAGES].present ||
            store_page_find(world->store, c->object, page, &found) || !found.present)
            continue;
        e = found.offset_bytes / STORE_PAGE_BYTES - page % n;
        if (e >= WORLD_EXTENTS)
            continue;
        bool same = world->extents[e].object == c->object && world->extents[e].index == page / n;
        if (!same && world->extents[e].freed > world->durable)
            good = false;
        used[e] = true;
        for (uint32_t x = 0; x < WORLD_EXTENTS; x++)    /* it was here before it was moved */
            if (x != e && world->extents[x].object == c->object &&
                world->extents[x].index == page / n) {
                world->extents[x].object = 0;
                world->extents[x].freed = world->begun + 1;
            }
        world->extents[e].object = c->object;
        world->extents[e].index = page / n;
    }
    for (uint32_t e = 0; e < WORLD_EXTENTS; e++)
        if (world->extents[e].object && !used[e]) {
            world->extents[e].object = 0;
            world->extents[e].freed = world->begun + 1;
        }
    return good;
}

/* Between two groups: nothing is claimed, and the store's own check holds. */
static int world_watch(struct world *world)
{
    struct store_stats stats;
    if (!world->options.watch)
        return 0;
    if (store_check(world->store, &world->wrong))
        return -EUCLEAN;
    store_stats(world->store, &stats);
    if (stats.claimed_extents && !world->chain.chain)
        world->wrong = "an extent is claimed although no group is open";
    if (!extents_watch(world))
        world->wrong = "a freed extent was used again before its free was checkpointed (ST22)";
    return world->wrong ? -EUCLEAN : 0;
}

/* After a checkpoint: what was freed before it began is free now. */
static int freed_watch(struct world *world)
{
    struct store_stats stats;
    store_stats(world->store, &stats);
    if (world->options.watch && world->begun_commits == world->model.commits &&
        stats.freed_extents)
        world->wrong = "a freed extent is not free after a checkpoint";
    return world->wrong ? -EUCLEAN : 0;
}

/* ---- groups */

struct built {
    struct store_group *group;
    uint64_t first, last;               /* commits in it */
    uint64_t proven;                    /* acknowledged when it was sealed */
    uint32_t positions[4];
    bool     chain;                     /* the long transaction is one of them */
};

/* Sometimes a transaction goes before that is cancelled: it must leave no trace. */
static int doomed_run(struct world *world, struct store_group *group)
{
    uint64_t random = world->seed * 77 + world->attempts * 5;
    if (random_below(&random, 3))
        return 0;
    struct model before = world->model;
    store_txn_begin(group, UINT64_MAX);
    int error = txn_doomed(world, group, &random);
    store_txn_cancel(group);
    world->model = before;
    return error;
}

/* One transaction into the group; true if accepted. *error: what to do about it. */
static bool txn_run(struct world *world, struct built *built, int *error)
{
    struct model before = world->model;
    if (world->options.doomed && doomed_run(world, built->group)) {
        world->wrong = "a transaction was taken that must be refused, or a page of somebody's "
                       "called unused";
        *error = -EUCLEAN;
        return false;
    }
    uint64_t random = world->seed * 1000003 + world->model.commits * 7919 + 1;
    uint32_t position;
    store_txn_begin(built->group, world->model.commits);
    bool chain = world->chain.commit;
    if (chain)
        world_chain_txn(world, built->group);
    else
        txn_make(world, built->group, &random);
    *error = store_txn_end(built->group, &position);
    built->chain |= chain && !*error;
    world->chain.commit = chain && (*error == -EAGAIN || *error == -ENOBUFS);
    if (chain && *error && !world->chain.commit)
        world_chain_end(world);
    if (*error) {
        world->model = before;
        return false;
    }
    world->model.commits++;
    built->positions[built->last++ - built->first] = position;
    return true;
}

/* Gives the pages of a sealed group their csn, and notes each commit's state. */
static void group_note(struct world *world, const struct built *built, const struct model *after)
{
    for (uint64_t k = built->first; k < built->last; k++) {
        struct model *model = &world->history[k + 1];
        *model = after[k - built->first];
        for (uint32_t i = 0; i < WORLD_CONTAINERS * WORLD_PAGES; i++) {
            struct model_page *page = &model->containers[i / WORLD_PAGES].pages[i % WORLD_PAGES];
            if (page->lsn >= PENDING)
                page->lsn = store_group_csn(built->group,
                                            built->positions[page->lsn - PENDING - built->first]);
        }
        world->digests[k + 1] = model_digest(model);
        world->times[k + 1] = world->group * WORLD_GROUP_TIME;
        world->csns[k + 1] = store_group_csn(built->group, built->positions[k - built->first]);
    }
    world->model = world->history[built->last];
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++)
        if (world->model.containers[i].object > world->last_object)
            world->last_object = world->model.containers[i].object;
}

static int group_build(struct world *world, struct built *built, uint32_t txns)
{
    struct model after[4];
    int error = store_group_begin(world->store, &built->group);
    if (error)
        return error;
    world->group++;
    world->attempts++;
    built->first = built->last = world->model.commits;
    built->chain = false;
    int refused = 0;
    for (uint32_t i = 0; i < txns && world->model.commits < WORLD_COMMITS; i++) {
        if (!txn_run(world, built, &refused))
            break;
        after[built->last - 1 - built->first] = world->model;
    }
    if (built->first == built->last) {
        store_group_cancel(built->group);
        return refused ? refused : -ENODATA;
    }
    built->proven = world->acked;
    store_group_time(built->group, world->group * WORLD_GROUP_TIME);
    error = store_group_seal(built->group);
    if (!error)
        group_note(world, built, after);
    return error;
}

static int group_finish(struct world *world, struct built *built)
{
    int error = store_group_write(built->group);
    if (!error) {
        world->acked = built->last;
        world->device->proven = built->proven;
        device_mark(world->device, world->acked, world->submitted);
    }
    int applied = store_group_apply(built->group);
    if (built->chain)
        world_chain_end(world);
    return error ? error : applied;
}

static void issue_in_flush(void *context)
{
    int ignored = store_group_issue(context);   /* store_group_write will say so again */
    (void)ignored;
}

int world_commit(struct world *world, uint32_t txns, bool ahead)
{
    struct built one, two;
    int error = group_build(world, &one, txns);
    if (error)
        return error;
    world->submitted = one.last;
    ahead = ahead && group_build(world, &two, 1) == 0;
    if (ahead) {
        world->submitted = two.last;
        world->device->in_flush = issue_in_flush;
        world->device->in_flush_context = two.group;
    }
    device_mark(world->device, world->acked, world->submitted);
    error = group_finish(world, &one);
    world->device->in_flush = NULL;
    if (ahead) {
        int second = group_finish(world, &two);
        error = error ? error : second;
    }
    return error ? error : world_watch(world);
}

static int groups_commit(struct world *world, uint64_t *random)
{
    uint32_t txns = world->options.full_only ? 1 : 1 + (uint32_t)random_below(random, 3);
    bool ahead = world->options.ahead && random_below(random, 2);
    return world_commit(world, txns, ahead);
}

/* ---- cleaning and checkpoints */

int world_clean_one(struct world *world, uint64_t object, uint64_t page, uint64_t lsn)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t offset;
    uint32_t stride = world->options.stride ? world->options.stride : 1;
    struct disk_io io = device_io(world->device);
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        const struct model_container *c = &world->model.containers[i];
        if (c->object != object)
            continue;
        page_fill(c->pages[page / stride].cells, bytes);
        int error = world_logged_read(world, object, page, lsn, bytes);
        if (!error)
            error = store_page_home(world->store, object, page, &offset);
        if (!error)
            error = io.write(io.context, offset, bytes, sizeof bytes);
        if (!error)
            error = store_page_cleaned(world->store, object, page, lsn,
                                       crc32c(0, bytes, sizeof bytes));
        return error;
    }
    return -EUCLEAN;
}

/* Cleans up to `limit` pages that the running checkpoint waits for; seals and ends it when done. */
static int checkpoint_work(struct world *world, uint32_t limit)
{
    uint64_t object, page, lsn;
    bool to_end = limit == UINT32_MAX;
    int error = 0;
    while (limit-- && !error) {
        error = store_checkpoint_next(world->store, &object, &page, &lsn);
        if (!error)
            error = world_clean_one(world, object, page, lsn);
        else if (error == -EAGAIN)
            error = 0;
    }
    if (error && error != -ENOENT)
        return error;
    bool all = error == -ENOENT;
    while ((error = store_checkpoint_seal(world->store)) == -EAGAIN) {
        error = store_checkpoint_write(world->store);
        if (error || !to_end)
            return error;
    }
    if (error == -EBUSY && !all)        /* it must refuse until all are home */
        return 0;
    if (!error)
        error = store_checkpoint_write(world->store);
    if (!error)
        error = store_checkpoint_apply(world->store);
    world->checkpointing = false;
    if (error)
        return error;
    world->durable = world->begun;
    return freed_watch(world);
}

int world_checkpoint_begin(struct world *world)
{
    int error = store_checkpoint_begin(world->store);
    world->sweeping = false;
    world->checkpointing = !error;
    world->begun += !error;
    world->begun_commits = world->model.commits;
    return error;
}

int world_checkpoint_some(struct world *world, uint32_t pages)
{
    return world->checkpointing ? checkpoint_work(world, pages) : 0;
}

int world_checkpoint(struct world *world)
{
    int error = 0;
    if (!world->checkpointing)
        error = world_checkpoint_begin(world);
    return error ? error : checkpoint_work(world, UINT32_MAX);
}

int world_clean(struct world *world, uint32_t limit)
{
    uint64_t cursor = 0, object, page, lsn;
    int error = 0;
    while (limit-- && !error) {
        error = store_dirty_next(world->store, &cursor, &object, &page, &lsn);
        if (!error)
            error = world_clean_one(world, object, page, lsn);
    }
    return error == -ENOENT ? 0 : error;
}

/* A version is written home while a newer one commits: the old clean must not count. */
static int clean_late(struct world *world, uint64_t *random)
{
    uint64_t cursor = 0, object, page, lsn;
    if (store_dirty_next(world->store, &cursor, &object, &page, &lsn))
        return 0;
    struct model old = world->model;
    int error = groups_commit(world, random);
    if (error)
        return error == -ENOSPC || error == -EAGAIN || error == -ENODATA || error == -E2BIG ? 0
                                                                                            : error;
    struct model now = world->model;
    struct store_page found;
    if (store_page_find(world->store, object, page, &found) || !found.present)
        return 0;
    world->model = old;
    error = world_clean_one(world, object, page, lsn);
    world->model = now;
    return error == -ESTALE ? 0 : error;
}

void world_prove(struct world *world)
{
    world->device->proven = world->acked;
    device_mark(world->device, world->acked, world->submitted);
}

/* The no-op group that the store manager writes when idle. */
int world_idle(struct world *world)
{
    struct store_group *group;
    int error = store_group_begin(world->store, &group);
    if (error)
        return error;
    error = store_group_seal(group);
    if (error) {
        store_group_cancel(group);
        return error == -EAGAIN ? 0 : error;
    }
    error = store_group_write(group);
    if (!error)
        world_prove(world);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

/* It may stand through whole checkpoints. Its log must be there as long as it has not expired. */
int world_hold_step(struct world *world, bool move)
{
    struct store_stats stats;
    store_stats(world->store, &stats);
    if (world->holds && !world->hold.expired && world->hold.lsn < stats.older_redo_lsn)
        world->wrong = "log that is held was given up";
    if (world->holds && world->hold.stays && world->hold.expired)
        world->wrong = "a hold that stays has expired";
    int error = 0;
    if (world->holds && move && !world->hold.expired) {
        error = store_hold_move(world->store, &world->hold);
    } else if (world->holds) {
        store_hold_end(world->store, &world->hold);
        world->holds = false;
    } else {
        error = store_hold_begin(world->store, &world->hold, "a test", world->seed % 2);
        world->holds = !error;
    }
    return world->wrong ? -EUCLEAN : error == -EBUSY ? 0 : error;
}

int world_step(struct world *world)
{
    uint64_t random = world->seed * 31 + world->model.commits * 17 + world->group * 101 + 5;
    int error = world_doubts_renew(world);
    error = error ? error : groups_commit(world, &random);
    for (int i = 0; error == -EAGAIN && i < WORLD_TRIES; i++) {
        world->log_full++;
        if (i && world->holds && world->hold.stays)     /* nobody else makes room */
            error = world_hold_step(world, world->model.commits % 2);
        error = error && error != -EAGAIN ? error : world_checkpoint(world);
        if (!error)
            error = world_doubts_renew(world);
        if (!error)
            error = groups_commit(world, &random);
    }
    if (error == -ENOSPC || error == -E2BIG) {
        world->refused++;
        error = world->refused > 50 ? -ENOSPC : world_checkpoint(world);
        world->seed++;                  /* other choices for this transaction */
    }
    if (error)
        return error;
    if (random_below(&random, 6) == 0)
        error = clean_late(world, &random);
    if (!error && random_below(&random, world->options.chunks ? 9 : 3) == 0)
        error = world_clean(world, 1 + (uint32_t)random_below(&random, 4));
    if (!error && random_below(&random, 8) == 0)
        error = world_idle(world);
    if (!error && world->checkpointing)
        error = checkpoint_work(world, 1 + (uint32_t)random_below(&random, 3));
    else if (!error && world->sweeping)
        error = world_sweep(world, &random);
    else if (!error && (random_below(&random, world->options.checkpoint_odds) == 0 ||
                        store_should_checkpoint(world->store) == 2))
        error = world_checkpoint_due(world, &random);
    if (!error && world->options.chain_odds &&
        random_below(&random, world->options.chain_odds) == 0)
        error = world_chain_step(world, &random);
    if (!error && world->options.doubt_odds)
        error = world_doubts_step(world, &random);
    if (!error && world->options.hold_odds && random_below(&random, world->options.hold_odds) == 0)
        error = world_hold_step(world, random_below(&random, 2));
    return error;
}

/* ---- beginning and end */

int world_format(struct world *world, struct device *device, uint64_t seed,
                 const struct world_options *options)
{
    memset(world, 0, sizeof *world);
    world->device = device;
    device->proven = 0;
    world->seed = seed;
    world->options = *options;
    world->model.forms = options->forms;
    struct store_options format = { .log_bytes = options->log_bytes,
                                    .extent_bytes = options->extent_bytes };
    memcpy(format.uuid, &seed, sizeof seed);
    format.uuid[15] = 1;
    world->digests[0] = model_digest(&world->model);
    return device_format(device, &format, options->unit_bytes);
}

int world_open(struct world *world, struct store_report *report)
{
    struct store_open_options options = { .group_bytes = world->options.group_bytes,
                                          .step_pages = world->options.step_pages,
        .image_pages = world->options.group_bytes / STORE_PAGE_BYTES % 3 };
    struct span_report span;
    struct disk_io io;
    world->checkpointing = world->holds = world->sweeping = false;
    memset(&world->chain, 0, sizeof world->chain);
    world->begun = world->durable = 0;
    memset(world->extents, 0, sizeof world->extents);
    world->store = NULL;
    int error = device_start(world->device, &io, &span);
    report->message = span.message;
    error = error ? error : store_open(&io, &test_memory, &options, &world->store, report);
    if (!error)
        world_lose(world);
    return error;
}

void world_lose(struct world *world)
{
    struct store_container found;
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        struct model_container *c = &world->model.containers[i];
        struct store_name name;
        uint32_t cursor = 0;
        if (!c->object || !model_unlogged(c) ||
            store_container_get(world->store, c->object, &found))
            continue;                   /* what it has then is all that it had */
        if (!found.pages_present && !found.pages_claimed)
            memset(c->pages, 0, sizeof c->pages);
        if (store_name_next(world->store, c->object, &cursor, &name))
            memset(c->names, 0, sizeof c->names);
        c->rootless |= !found.root;
    }
}

int world_kill(struct world *world)
{
    struct store_report report;
    struct built one;
    int error = group_build(world, &one, 1);
    if (error)
        return error;
    world->submitted = one.last;
    device_mark(world->device, world->acked, world->submitted);
    error = store_group_issue(one.group);
    world_abandon(world);
    error = error ? error : world_open(world, &report);
    if (error)
        return error;
    world->acked = world->submitted;
    world_prove(world);
    return 0;
}

int world_close(struct world *world)
{
    world_chain_end(world);
    if (world->holds)
        store_hold_end(world->store, &world->hold);
    world->holds = false;
    int error = world->checkpointing ? checkpoint_work(world, UINT32_MAX) : 0;
    struct store_stats stats;
    store_stats(world->store, &stats);
    if (!error && stats.pages_dirty && store_close(world->store) != -EBUSY) {
        world->wrong = "a store closed over dirty pages";
        world->store = NULL;
        return -EUCLEAN;
    }
    if (!error)
        error = world_clean(world, UINT32_MAX);
    if (error)
        store_abandon(world->store);
    else
        error = store_close(world->store);
    world->store = NULL;
    return error;
}

void world_abandon(struct world *world)
{
    store_abandon(world->store);
    world->store = NULL;
}

int world_resume(struct world *to, const struct world *from, uint64_t k, struct store *store,
                 struct device *device)
{
    to->device = device;
    to->store = store;
    to->options = from->options;
    to->seed = from->seed;
    to->model = from->history[k];
    to->acked = to->submitted = device->proven = k;
    to->group = from->group + 1;
    to->checkpointing = to->holds = to->sweeping = false;
    memset(&to->chain, 0, sizeof to->chain);
    to->refused = to->attempts = 0;
    to->last_object = 0;
    to->want = WANT_ANY;
    to->wrong = NULL;
    to->begun = to->durable = 0;
    memset(to->extents, 0, sizeof to->extents);
    memcpy(to->digests, from->digests, (k + 1) * sizeof to->digests[0]);
    memcpy(to->history, from->history, (k + 1) * sizeof to->history[0]);
    world_lose(to);
    return 0;
}
