/*
 * world_prepared.c - the world's transactions of several stores: prepared, decided, written again.
 *
 * A prepare, its commit, its undo, a decision that is kept and its end each count as a commit of
 * the world: the model's digest has what is in doubt. So a crash state may hold no vote that was
 * not given, and must hold each that was acknowledged and not decided.
 */
#include "world_parts.h"

#include <errno.h>
#include <string.h>

static struct store_txn_id id_of(uint64_t number)
{
    struct store_txn_id id = { { 1 } };
    memcpy(id.bytes + 8, &number, sizeof number);
    return id;
}

bool model_doubted(const struct model *model, uint32_t container)
{
    bool doubted = false;
    for (const struct model_doubt *d = model->doubts; d < model->doubts + WORLD_DOUBTS; d++)
        doubted |= d->id && !d->kept && d->container == container;
    return doubted;
}

/* The group is sealed: what it does is one more commit of the model. */
static int group_end(struct world *world, struct store_group *group, uint64_t csn)
{
    uint64_t k = ++world->model.commits;
    for (uint32_t i = 0; i < WORLD_CONTAINERS * WORLD_PAGES; i++) {
        struct model_page *page =
            &world->model.containers[i / WORLD_PAGES].pages[i % WORLD_PAGES];
        if (page->lsn >= PENDING)
            page->lsn = csn;
    }
    world->history[k] = world->model;
    world->digests[k] = model_digest(&world->model);
    world->times[k] = world->group * WORLD_GROUP_TIME;
    world->csns[k] = csn;
    world->submitted = k;
    device_mark(world->device, world->acked, world->submitted);
    uint64_t proven = world->acked;
    int error = store_group_write(group);
    if (!error) {
        world->acked = k;
        world->device->proven = proven;
        device_mark(world->device, world->acked, world->submitted);
    }
    int applied = store_group_apply(group);
    return error ? error : applied;
}

/* Both sealed and told, or neither. */
static int group_seal_end(struct world *world, struct store_group *group, int error,
                          const struct model *before, uint32_t position)
{
    if (!error) {
        store_group_time(group, ++world->group * WORLD_GROUP_TIME);
        error = store_group_seal(group);
    }
    if (!error)
        return group_end(world, group, store_group_csn(group, position));
    store_group_cancel(group);
    world->model = *before;
    return error;
}

/* Spills `count` pages of a doubt that is made; into a group of their own, or the PREPARED
 * record's. */
static int pages_spill(struct world *world, struct store_group *group, struct store_chain *chain,
                       struct model_doubt *d, uint32_t count, uint64_t *random)
{
    uint64_t object = world->model.containers[d->container].object;
    int error = 0;
    while (count-- && !error) {
        uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
        uint8_t bytes[STORE_PAGE_BYTES];
        for (uint32_t i = 0; i < WORLD_CELLS; i++)
            d->cells[page][i] = random_next(random) | 1;
        page_fill(d->cells[page], bytes);
        error = store_spill_page(group, chain, object, page, bytes);
        d->pages |= !error ? 1u << page : 0;
    }
    return error;
}

static bool is_refusal(int error)
{
    return error == -EAGAIN || error == -ENOBUFS || error == -ENOSPC || error == -E2BIG;
}

static int spill_first(struct world *world, struct store_chain *chain, struct model_doubt *d,
                       uint64_t *random)
{
    struct store_group *group;
    int error = store_group_begin(world->store, &group);
    if (error)
        return error;
    error = pages_spill(world, group, chain, d, 1 + (uint32_t)random_below(random, 2), random);
    if (error) {
        store_group_cancel(group);
        return error;
    }
    error = store_group_seal(group) ?: store_group_issue(group);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

static int doubt_prepare(struct world *world, struct model_doubt *d, uint64_t *random)
{
    struct model before = world->model;
    struct store_chain *chain;
    struct store_group *group;
    uint32_t at = (uint32_t)random_below(random, WORLD_CONTAINERS);
    const struct model_container *c = &world->model.containers[at];
    if (!c->object || model_unlogged(c) || model_doubted(&world->model, at) ||
        (world->chain.chain && world->chain.container == at))
        return 0;
    int error = store_chain_begin(world->store, 9, &chain);
    if (error)
        return error;
    *d = (struct model_doubt){ .id = world->model.commits + 1, .container = at,
                               .value = random_next(random) | 1 };
    if (random_below(random, 2))
        error = spill_first(world, chain, d, random);
    if (!error && world->options.chain_odds && !world->chain.commit) {
        world_chain_end(world);                 /* another hold begins behind this one */
        error = world_chain_step(world, random);
    }
    if (!error)
        error = store_group_begin(world->store, &group);
    if (error) {
        store_chain_end(chain);
        world->model = before;
        return is_refusal(error) ? 0 : error;
    }
    struct store_prepare what = { .id = id_of(d->id), .coordinator = { 7 }, .data = &d->value,
                                  .bytes = sizeof d->value, .names = 1 };
    error = pages_spill(world, group, chain, d, (uint32_t)random_below(random, 3), random) ?:
            store_prepare(group, chain, &what);
    error = group_seal_end(world, group, error, &before, 0);
    if (error && world->store && is_refusal(error)) {
        store_chain_end(chain);
        return 0;
    }
    return error;
}

/* What the transaction does once it may: its pages, and a name made of the data that it keeps. */
static int doubt_operations(struct world *world, struct store_group *group, struct model_doubt *d)
{
    struct model_container *c = &world->model.containers[d->container];
    struct store_op op = { .type = STORE_OP_NAME_SET, .object = c->object, .name = "name-0" };
    struct store_doubt told;
    struct store_txn_id id = id_of(d->id);
    uint64_t value;
    int error = store_doubt_find(world->store, &id, &told);
    if (error || told.bytes != sizeof value)
        return error ? error : -EUCLEAN;
    memcpy(&value, told.data, sizeof value);
    op.address = value;
    op.bytes = value >> 5;
    error = store_txn_decided(group, &id, NULL, 0) ?: store_txn_op(group, &op);
    c->names[0] = d->value;
    for (uint32_t page = 0; page < WORLD_PAGES; page++) {
        struct model_page *p = &c->pages[page];
        if (!(d->pages >> page & 1))
            continue;
        c->used = p->present = true;
        p->claimed = p->home = false;
        p->group = world->group;
        p->lsn = PENDING;
        memcpy(p->cells, d->cells[page], sizeof p->cells);
    }
    d->id = 0;
    return error;
}

static int doubt_commit(struct world *world, struct model_doubt *d)
{
    struct model before = world->model;
    struct store_group *group;
    uint32_t position = 0;
    int error = store_group_begin(world->store, &group);
    if (error)
        return error;
    store_txn_begin(group, world->model.commits);
    error = doubt_operations(world, group, d);
    int end = store_txn_end(group, &position);
    error = group_seal_end(world, group, error ? error : end, &before, position);
    if (error == -ENOSPC || error == -E2BIG || error == -ENOBUFS)
        world->wrong = "the commit of what was prepared is refused for want of space (TP3)";
    return error;
}

/* A decision that others may ask for, in a transaction that does nothing else here. */
static int decision_keep(struct world *world, struct model_doubt *d)
{
    struct model before = world->model;
    struct store_participant to = { .store = { 3 }, .number = 5 };
    struct store_group *group;
    uint32_t position = 0;
    int error = store_group_begin(world->store, &group);
    if (error)
        return error;
    *d = (struct model_doubt){ .id = world->model.commits + 1, .kept = true };
    struct store_txn_id id = id_of(d->id);
    store_txn_begin(group, world->model.commits);
    error = store_txn_decided(group, &id, &to, 1);
    int end = store_txn_end(group, &position);
    return group_seal_end(world, group, error ? error : end, &before, position);
}

/* Undone, or forgotten. */
static int doubt_drop(struct world *world, struct model_doubt *d)
{
    struct model before = world->model;
    struct store_txn_id id = id_of(d->id);
    struct store_group *group;
    int error = store_group_begin(world->store, &group);
    if (error)
        return error;
    error = d->kept ? store_forget(group, &id) : store_undo(group, &id);
    d->id = 0;
    return group_seal_end(world, group, error, &before, 0);
}

static int doubts_renew(struct world *world)
{
    struct store_group *group;
    int more = 1;
    while (more == 1 && store_doubts_due(world->store)) {
        int error = store_group_begin(world->store, &group);
        if (error)
            return error;
        more = store_doubts_renew(group);
        error = more < 0 ? more : store_group_seal(group);
        if (error) {
            store_group_cancel(group);
            return error;
        }
        error = store_group_write(group);
        if (!error)
            world_prove(world);
        int applied = store_group_apply(group);
        if (error || applied)
            return error ? error : applied;
    }
    return 0;
}

/* The log is full. What somebody else holds for good nobody but he gives up. */
static int make_room(struct world *world, bool hold)
{
    int error = hold && world->holds && world->hold.stays ? world_hold_step(world, true) : 0;
    return error ? error : world_checkpoint(world);
}

int world_doubts_renew(struct world *world)
{
    int error = doubts_renew(world);
    for (int i = 0; error == -EAGAIN && i < 4; i++)
        error = make_room(world, i > 0) ?: doubts_renew(world);
    return error;
}

static int change_step(struct world *world, uint64_t *random, struct model_doubt *d)
{
    uint64_t what = *random % 4;
    if (!d->id)
        return what ? doubt_prepare(world, d, random) : decision_keep(world, d);
    return d->kept || !what ? doubt_drop(world, d) : doubt_commit(world, d);
}

/* What is in doubt is as the model says, and its pages are nobody's. */
static int doubts_watch(struct world *world)
{
    struct store_stats stats;
    uint32_t prepared = 0, kept = 0;
    store_stats(world->store, &stats);
    for (uint32_t i = 0; i < WORLD_DOUBTS; i++) {
        const struct model_doubt *d = &world->model.doubts[i];
        uint64_t object = world->model.containers[d->container].object, first;
        prepared += d->id && !d->kept;
        kept += d->id && d->kept;
        for (uint32_t p = 0; d->id && !d->kept && p < WORLD_PAGES; p++)
            if (d->pages >> p & 1 && (!store_page_prepared(world->store, object, p) ||
                (!store_pages_unused(world->store, object, p, 1, NULL, NULL, &first) &&
                 first == p)))
                world->wrong = "a page that is prepared is called nobody's (TP4)";
    }
    if (stats.prepared != prepared || stats.decisions != kept)
        world->wrong = "more or less is in doubt than the model says";
    return world->wrong ? -EUCLEAN : 0;
}

int world_doubts_step(struct world *world, uint64_t *random)
{
    int error = world_doubts_renew(world);
    struct model_doubt *d = &world->model.doubts[random_below(random, WORLD_DOUBTS)];
    if (!error && world->model.commits + 8 < WORLD_COMMITS &&
        random_below(random, world->options.doubt_odds) == 0) {
        error = change_step(world, random, d);
        for (int i = 0; error == -EAGAIN && i < WORLD_TRIES; i++)
            error = make_room(world, i > 0) ?: doubts_renew(world) ?:
                    change_step(world, random, d);
    }
    if (error == -EAGAIN && !d->id)             /* too much is in doubt for one more */
        error = 0;
    return error ? error : doubts_watch(world);
}

/* Of what is in doubt, for a digest. */
uint64_t doubt_digest(uint64_t id, bool kept, uint64_t pages)
{
    return (id * 2 + kept + 11) * 0x9e3779b97f4a7c15ull + pages;
}

uint64_t doubts_digest(struct store *store)
{
    struct store_doubt d;
    uint64_t cursor = 0;
    uint64_t sum = 0;
    while (store_doubt_next(store, &cursor, &d) == 0) {
        struct store_doubt_page page;
        uint64_t at = 0, pages = 0, id;
        memcpy(&id, d.id.bytes + 8, sizeof id);
        while (store_doubt_page(store, &d, &at, &page))
            pages += (page.object * 131 + page.page + 1) * (page.crc + 1ull);
        sum += doubt_digest(id, !d.prepared, pages);
    }
    return sum;
}

uint64_t model_doubts_digest(const struct model *model)
{
    uint64_t sum = 0;
    uint8_t bytes[STORE_PAGE_BYTES];
    for (uint32_t i = 0; i < WORLD_DOUBTS; i++) {
        const struct model_doubt *d = &model->doubts[i];
        uint64_t object = model->containers[d->container].object, pages = 0;
        for (uint32_t p = 0; d->id && p < WORLD_PAGES; p++) {
            if (!(d->pages >> p & 1))
                continue;
            page_fill(d->cells[p], bytes);
            pages += (object * 131 + p + 1) * (crc32c(0, bytes, sizeof bytes) + 1ull);
        }
        sum += d->id ? doubt_digest(d->id, d->kept, pages) : 0;
    }
    return sum;
}
