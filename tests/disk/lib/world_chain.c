/*
 * world_chain.c - the world's long transaction: it spills pages while others commit, takes some
 * back into memory, and ends in a commit or is dropped. Its container is left alone by the others.
 */
#include "world_parts.h"

#include <errno.h>
#include <string.h>

void world_chain_end(struct world *world)
{
    if (world->chain.chain)
        store_chain_end(world->chain.chain);
    memset(&world->chain, 0, sizeof world->chain);
}

/* Reads of images are tried three times, as the store does with its own. */
static int image_read(struct world *world, uint64_t offset, uint8_t *bytes)
{
    struct disk_io io = device_io(world->device);
    int error = -EIO;
    for (int i = 0; i < 3 && error; i++)
        error = io.read(io.context, offset, bytes, STORE_PAGE_BYTES);
    return error;
}

/* Spills up to `count` pages in one group, which is written and perhaps flushed. */
static int spill_some(struct world *world, uint32_t count, uint64_t *random)
{
    struct world_chain *c = &world->chain;
    struct store_group *group;
    uint64_t object = world->model.containers[c->container].object;
    int error = store_group_begin(world->store, &group), refused = 0;
    if (error)
        return error;
    while (count-- && !refused) {
        uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
        uint64_t cells[WORLD_CELLS];
        uint8_t bytes[STORE_PAGE_BYTES];
        for (uint32_t i = 0; i < WORLD_CELLS; i++)
            cells[i] = random_next(random) | 1;
        page_fill(cells, bytes);
        refused = store_spill_page(group, c->chain, object, page, bytes);
        if (refused)
            break;
        memcpy(c->cells[page], cells, sizeof cells);
        c->spilled |= 1u << page;
        c->home &= ~(1u << page);
        c->memory &= ~(1u << page);
    }
    error = store_group_seal(group);
    if (error) {                                /* an empty one, and the log is full */
        store_group_cancel(group);
        return error == -EAGAIN ? 0 : error;
    }
    bool flushed = random_below(random, 3) == 0;
    error = flushed ? store_group_write(group) : store_group_issue(group);
    if (!error && flushed)
        world_prove(world);
    int applied = store_group_apply(group);
    if (refused == -E2BIG)
        world_chain_end(world);
    return error ? error : applied;
}

/* Fresh pages go home, some at a time. One whose extent is not fresh stays for the log. */
static int home_some(struct world *world, uint32_t count, uint64_t *random)
{
    struct world_chain *c = &world->chain;
    struct disk_io io = device_io(world->device);
    uint64_t object = world->model.containers[c->container].object, offset;
    int error = 0;
    while (count-- && !error) {
        uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
        uint64_t cells[WORLD_CELLS];
        uint8_t bytes[STORE_PAGE_BYTES];
        for (uint32_t i = 0; i < WORLD_CELLS; i++)
            cells[i] = random_next(random) | 1;
        page_fill(cells, bytes);
        error = store_bulk_page(c->chain, object, page, &offset);
        if (error == -ENOSPC || error == -E2BIG) {
            world_chain_end(world);
            return 0;
        }
        if (error == -ENOENT) {
            error = 0;
            continue;
        }
        if (!error)
            error = io.write(io.context, offset, bytes, sizeof bytes);
        if (error)
            return error;
        store_bulk_written(c->chain, object, page, crc32c(0, bytes, sizeof bytes));
        memcpy(c->cells[page], cells, sizeof cells);
        c->spilled |= 1u << page;
        c->home |= 1u << page;
        c->memory &= ~(1u << page);
    }
    return 0;
}

static int some_leave(struct world *world, uint32_t count, uint64_t *random)
{
    bool home = world->options.bulk && random_below(random, 4);
    return home ? home_some(world, 6 * count, random) : spill_some(world, count, random);
}

/* One page comes back into memory; its image must be what was spilled. */
static int take_back(struct world *world, uint64_t *random)
{
    struct world_chain *c = &world->chain;
    uint64_t object = world->model.containers[c->container].object, offset;
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES), crc;
    uint8_t bytes[STORE_PAGE_BYTES], wanted[STORE_PAGE_BYTES];
    if (!(c->spilled >> page & 1))
        return 0;
    int error = store_spill_find(world->store, c->chain, object, page, &offset, &crc);
    if (error == -E2BIG) {
        world_chain_end(world);
        return 0;
    }
    if (!error)
        error = image_read(world, offset, bytes);
    page_fill(c->cells[page], wanted);
    if (!error && (memcmp(bytes, wanted, sizeof bytes) || crc != crc32c(0, bytes, sizeof bytes)))
        error = -EUCLEAN;
    store_spill_drop(c->chain, object, page);
    c->spilled &= ~(1u << page);
    c->home &= ~(1u << page);
    c->memory |= 1u << page;
    return error;
}

int world_chain_step(struct world *world, uint64_t *random)
{
    struct world_chain *c = &world->chain;
    if (!c->chain) {
        c->container = (uint32_t)random_below(random, WORLD_CONTAINERS);
        if (!world->model.containers[c->container].object ||
            model_doubted(&world->model, c->container))
            return 0;
        int error = store_chain_begin(world->store, 7, &c->chain);
        return error ? error : some_leave(world, 2, random);
    }
    switch (random_below(random, 6)) {
    case 0:
        world_chain_end(world);
        return 0;
    case 1:
        return take_back(world, random);
    case 2:
    case 3:
        return some_leave(world, 1 + (uint32_t)random_below(random, 2), random);
    default: {                                  /* the next transaction is this one */
        int error = world->options.bulk ? home_some(world, 4, random) : 0;
        c->commit = c->chain != NULL;
        return error;
    }
    }
}

/* The transaction that ends the chain; the model is changed as if it succeeds. */
int world_chain_txn(struct world *world, struct store_group *group)
{
    struct world_chain *c = &world->chain;
    struct model_container *container = &world->model.containers[c->container];
    int error = store_bulk_flush(c->chain) ?: store_txn_chain(group, c->chain);
    for (uint32_t page = 0; page < WORLD_PAGES && !error; page++) {
        struct model_page *p = &container->pages[page];
        uint8_t bytes[STORE_PAGE_BYTES];
        if (!((c->spilled | c->memory) >> page & 1))
            continue;
        container->used = p->present = true;
        p->claimed = false;
        p->home = c->home >> page & 1;
        p->group = world->group;
        p->lsn = PENDING + world->model.commits;
        memcpy(p->cells, c->cells[page], sizeof p->cells);
        page_fill(p->cells, bytes);
        if (c->memory >> page & 1)
            error = store_txn_page(group, container->object, page, bytes);
    }
    return error;
}

/* A page that is only in the log: what goes home is read from there. */
int world_logged_read(struct world *world, uint64_t object, uint64_t page, uint64_t lsn,
                      uint8_t *bytes)
{
    struct store_page found;
    uint8_t logged[STORE_PAGE_BYTES];
    int error = store_page_find(world->store, object, page, &found);
    if (error || !found.log_offset_bytes || found.lsn != lsn)
        return error;
    error = image_read(world, found.log_offset_bytes, logged);
    if (!error && (crc32c(0, logged, sizeof logged) != found.log_crc ||
                   memcmp(bytes, logged, sizeof logged)))
        error = -EUCLEAN;
    return error;
}
