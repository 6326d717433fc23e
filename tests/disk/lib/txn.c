/*
 * txn.c - what one transaction of a world does, chosen by a seed or on request (world.h).
 */
#include "world_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint64_t page_number(const struct world *world, uint32_t page)
{
    return (uint64_t)page * (world->options.stride ? world->options.stride : 1);
}

/* Does the page need a full image, for its chunk's redo point or that of all? */
static bool page_old(const struct world *world, const struct model_container *c, uint32_t page)
{
    uint64_t below = store_chunk_full_below(world->store, c->object, page_number(world, page));
    return c->pages[page].home || c->pages[page].lsn < below;
}

static int random_container(const struct model *model, uint64_t *random)
{
    uint32_t first = (uint32_t)random_below(random, WORLD_CONTAINERS);
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++)
        if (model->containers[(first + i) % WORLD_CONTAINERS].object)
            return (int)((first + i) % WORLD_CONTAINERS);
    return -1;
}

/* The cells [cell, cell + count) as runs, each of the whole cell or of 64 bytes. */
static uint32_t runs_make(enum store_encoder encoder, const uint8_t *bytes, uint32_t cell,
                          uint32_t count, struct diff_run *runs, uint8_t *data)
{
    uint32_t unit = encoder == STORE_ENCODER_RANGES ? 64 : 512, n = 0;
    for (uint32_t at = cell * 512; at < (cell + count) * 512; at += unit)
        runs[n++] = (struct diff_run){ (uint16_t)at, (uint16_t)unit };
    memcpy(data, bytes + cell * 512, count * 512);
    return n;
}

static bool full_wanted(const struct world *world, const struct model_container *c, uint32_t page,
                        uint64_t *random)
{
    enum store_encoder encoder = c->encoder;
    const struct model_page *p = &c->pages[page];
    bool chosen = random_below(random, 3) == 0;
    return world->options.full_only || encoder == STORE_ENCODER_FULL ||
           (encoder >= STORE_ENCODER_ADAPTIVE && chosen) ||
           (p->present && (page_old(world, c, page) ||
                           (p->group == world->group && !world->options.newest)));
}

/* The record that was added last, in the form of its container; before: the page's cells. */
static int reformed(struct store_group *group, const struct model_container *c,
                    const uint64_t before[WORLD_CELLS])
{
    uint8_t bytes[STORE_PAGE_BYTES];
    page_fill(before, bytes);
    int r = c->encoder == STORE_ENCODER_OPERATIONS   ? store_txn_operate(group, bytes)
            : c->encoder == STORE_ENCODER_COMPRESSED ? store_txn_pack(group)
                                                     : 0;
    return r < 0 ? r : 0;
}

static int page_change(struct world *world, struct store_group *group, struct model_container *c,
                       uint32_t page, uint64_t *random)
{
    struct model_page *p = &c->pages[page];
    uint8_t bytes[STORE_PAGE_BYTES], data[1024];
    struct diff_run runs[16];
    uint64_t before[WORLD_CELLS];
    uint32_t changed = 1 + (uint32_t)random_below(random, 2);
    bool full = full_wanted(world, c, page, random);
    uint64_t base = !p->present ? 0 : world->options.newest ? STORE_BASE_NEWEST : p->lsn;
    if (!p->present)
        memset(p->cells, 0, sizeof p->cells);
    uint32_t cell = (uint32_t)random_below(random, WORLD_CELLS - 1);
    memcpy(before, p->cells, sizeof before);
    bool shift = c->encoder == STORE_ENCODER_OPERATIONS && random_below(random, 2);
    for (uint32_t i = 0; i < changed; i++) {    /* the next one is the cell, shifted by a word */
        uint64_t next = cell_next(p->cells[cell + i]);
        p->cells[cell + i] = shift && next ? next : random_next(random) | 1;
    }
    page_fill(p->cells, bytes);
    c->used = p->present = true;
    p->claimed = p->home = false;
    p->group = world->group;
    p->lsn = PENDING + world->model.commits;    /* the csn is known when the group is sealed */
    if (model_unlogged(c))
        return store_txn_written(group, c->object, page_number(world, page));
    if (full)
        return store_txn_page(group, c->object, page_number(world, page), bytes) ?:
               reformed(group, c, before);
    uint32_t count = runs_make(c->encoder, bytes, cell, changed, runs, data);
    return txn_diff(group, c->object, page_number(world, page), base, runs, count, data) ?:
           reformed(group, c, before);
}

static int op_run(struct store_group *group, struct store_op op, struct store_op *out)
{
    int error = store_txn_op(group, &op);
    *out = op;
    return error;
}

static int txn_create(struct world *world, struct store_group *group, uint64_t *random)
{
    struct model *model = &world->model;
    char name[STORE_NAME_BYTES];
    struct store_op op;
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        struct model_container *c = &model->containers[i];
        if (c->object)
            continue;
        memset(c, 0, sizeof *c);
        c->name = (uint32_t)(model->commits * 8 + i);
        c->flags = (uint32_t)random_below(random, 16);
        c->segments = 1;
        c->encoder = world->options.encoder;
        if (world->options.forms && random_below(random, 3))
            c->encoder = STORE_ENCODER_COMPRESSED + random_below(random, 2);
        c->locking = c->flags / 8;      /* a random bit, and two more */
        c->protection = c->flags / 4;
        c->durability = world->options.forms ? c->flags % 4 : 0;
        name_make(c->name, name);
        int error = op_run(group, (struct store_op){ .type = STORE_OP_CREATE, .name = name,
                                                     .flags = c->flags,
                                                     .encoder = c->encoder,
                                                     .locking = c->locking,
                                                     .protection = c->protection,
                                                     .durability = c->durability }, &op);
        c->object = op.object;
        if (!error && op.object <= world->last_object)
            world->wrong = "an id of a container was given twice";
        return error;
    }
    return 0;
}

/* Another one; with pages one of the same kind, in the log or not. */
static enum store_durability durability_next(const struct model_container *c)
{
    uint32_t next = (c->durability + 1u) % STORE_DURABILITY_LOST;
    return c->used ? c->durability ^ 1u : next;
}

static int txn_directory(struct store_group *group, struct model *model,
                         struct model_container *c, enum world_want want, uint64_t *random)
{
    static const uint32_t choice[] = { [WANT_DELETE] = 0, [WANT_RENAME] = 1, [WANT_GROW] = 2,
                                       [WANT_LAYOUT] = 3, [WANT_ENCODER] = 4,
                                       [WANT_NAME_UNSET] = 5, [WANT_NAME_SET] = 6 };
    char text[STORE_NAME_BYTES];
    struct store_op op = { .object = c->object, .name = text };
    struct store_layout layout;
    uint32_t n = (uint32_t)random_below(random, WORLD_NAMES);
    uint64_t what = random_below(random, 8);
    snprintf(text, sizeof text, "name-%u", n);
    switch (want ? choice[want] : what) {
    case 0:
        op.type = STORE_OP_DELETE;
        memset(c, 0, sizeof *c);
        break;
    case 1:
        op.type = STORE_OP_RENAME;
        c->name = (uint32_t)(model->commits * 8 + 7);
        name_make(c->name, text);
        break;
    case 2:
        if (c->segments == 3)
            return 0;
        op.type = STORE_OP_GROW;
        c->segments++;
        break;
    case 3:
        op.type = STORE_OP_LAYOUT;
        c->layout = random_next(random) | 1;
        c->rootless = false;
        layout_make(c->layout, &layout, &op.address);
        op.layout = &layout;
        break;
    case 4:
        if (n == 0) {
            op.type = STORE_OP_LOCKING;
            op.locking = c->locking = !c->locking;
            break;
        }
        if (n == 1) {
            op.type = STORE_OP_PROTECTION;
            op.protection = c->protection = (c->protection + 1) % STORE_PROTECTION_COUNT;
            break;
        }
        if (model->forms && c->flags & 1) {
            op.type = STORE_OP_DURABILITY;
            op.durability = c->durability = durability_next(c);
            break;
        }
        op.type = STORE_OP_ENCODER;
        op.encoder = c->encoder = (c->encoder + 1 + n) % (model->forms ? STORE_ENCODER_COUNT : 4);
        break;
    case 5:
        if (c->names[n]) {
            op.type = STORE_OP_NAME_UNSET;
            c->names[n] = 0;
            break;
        }
        /* fall through */
    default:
        op.type = STORE_OP_NAME_SET;
        c->names[n] = random_next(random) | 1;
        op.address = c->names[n];
        op.bytes = c->names[n] >> 5;
    }
    return store_txn_op(group, &op);
}

static int txn_free(const struct world *world, struct store_group *group,
                    struct model_container *c, uint64_t *random)
{
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
    uint32_t count = 1 + (uint32_t)random_below(random, WORLD_PAGES - page);
    struct store_op op = { .type = STORE_OP_PAGE_FREE,
                           .object = c->object,
                           .page = page_number(world, page),
                           .count = page_number(world, count) };
    for (uint32_t p = page; p < page + count; p++)
        memset(&c->pages[p], 0, sizeof c->pages[p]);
    return store_txn_op(group, &op);
}

/* Pages become the container's without a write, in one operation or, far apart, in one each. */
static int txn_claim(const struct world *world, struct store_group *group,
                     struct model_container *c, uint64_t *random)
{
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
    uint32_t end = page + 1 + (uint32_t)random_below(random, WORLD_PAGES - page),
             count = end - page;
    int error = 0;
    if (page_number(world, 1) > 1) {
        end = end - page > 3 ? page + 3 : end;
        count = 1;
    }
    c->used = true;
    for (uint32_t p = page; p < end; p++)
        c->pages[p].claimed = !c->pages[p].present;
    for (; page < end && !error; page += count) {
        struct store_op op = { .type = STORE_OP_PAGE_CLAIM, .object = c->object,
                               .page = page_number(world, page), .count = count };
        error = store_txn_op(group, &op);
    }
    return error;
}

static int txn_pages(struct world *world, struct store_group *group, struct model_container *c,
                     uint64_t *random)
{
    uint32_t count = 1 + (uint32_t)random_below(random, 3), first = 0;
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
    while (world->want == WANT_SAME_PAGE && first < WORLD_PAGES && !c->pages[first].present)
        first++;
    if (world->want == WANT_SAME_PAGE)
        page = first % WORLD_PAGES;
    if (world->want == WANT_PAGES)
        count = 3;
    else if (world->want || world->options.full_only)
        count = 1;
    for (uint32_t i = 0; i < count; i++)
        if (page + i < WORLD_PAGES) {
            int error = page_change(world, group, c, page + i, random);
            if (error)
                return error;
        }
    return 0;
}

/* An extent with a page that is present, so that extents_watch sees it, gets another place. */
static int txn_move(struct world *world, struct store_group *group, struct model_container *c,
                    uint64_t *random)
{
    static uint8_t bytes[STORE_EXTENT_PAGES_MAX][STORE_PAGE_BYTES];
    const void *images[STORE_EXTENT_PAGES_MAX] = { NULL };
    uint64_t n = world->options.extent_bytes / STORE_PAGE_BYTES;
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES), tries = WORLD_PAGES;
    while (tries-- && !c->pages[page].present)
        page = (page + 1) % WORLD_PAGES;
    if (!c->pages[page].present || model_unlogged(c))
        return txn_pages(world, group, c, random);
    uint64_t first = page_number(world, page) / n * n;
    for (uint32_t p = 0; p < WORLD_PAGES; p++) {
        uint64_t number = page_number(world, p);
        if (!c->pages[p].present || number < first || number >= first + n)
            continue;
        page_fill(c->pages[p].cells, bytes[number - first]);
        images[number - first] = bytes[number - first];
        c->pages[p].group = world->group;
        c->pages[p].lsn = PENDING + world->model.commits;
    }
    return store_txn_move(group, c->object, first, images);
}

static int txn_any(struct world *world, struct store_group *group, uint64_t *random)
{
    int at = random_container(&world->model, random);
    uint64_t what = random_below(random, 100);
    bool locked = (world->chain.chain && (uint32_t)at == world->chain.container) ||
                  (at >= 0 && model_doubted(&world->model, (uint32_t)at));
    if (at < 0 || locked || (what < 8 && !world->options.full_only))
        return txn_create(world, group, random);
    struct model_container *c = &world->model.containers[at];
    if (world->options.move_odds && random_below(random, world->options.move_odds) == 0)
        return txn_move(world, group, c, random);
    if (world->options.full_only || what < 72)
        return txn_pages(world, group, c, random);
    if (what < 77)
        return txn_claim(world, group, c, random);
    return what < 83 ? txn_free(world, group, c, random)
                     : txn_directory(group, &world->model, c, WANT_ANY, random);
}

int txn_make(struct world *world, struct store_group *group, uint64_t *random)
{
    int at;
    if (world->want == WANT_ANY)
        return txn_any(world, group, random);
    if (world->want == WANT_CREATE || (at = random_container(&world->model, random)) < 0)
        return txn_create(world, group, random);
    struct model_container *c = &world->model.containers[at];
    if (world->want <= WANT_PAGES)
        return txn_pages(world, group, c, random);
    if (world->want == WANT_CLAIM)
        return txn_claim(world, group, c, random);
    if (world->want == WANT_MOVE)
        return txn_move(world, group, c, random);
    if (world->want == WANT_FREE)
        return txn_free(world, group, c, random);
    return txn_directory(group, &world->model, c, world->want, random);
}

/* ---- transactions that come to nothing */

/* Two containers of one name are refused; two of different names get different addresses. */
static int twins_ask(struct store_group *group)
{
    struct store_op one = { .type = STORE_OP_CREATE, .name = "twin" }, two = one, three = one;
    two.name = "sister";
    int error = store_txn_op(group, &one);
    if (!error)
        error = store_txn_op(group, &two);
    if (error)
        return error == -ENOSPC || error == -ENOBUFS || error == -E2BIG ? 0 : error;
    if (one.address == two.address || one.object == two.object)
        return -EUCLEAN;
    error = store_txn_op(group, &three);
    return error == -EEXIST || error == -ENOBUFS || error == -E2BIG ? 0 : -EUCLEAN;
}

/* What is prepared is nobody else's, whatever is wanted of it (TP4). */
static int answer_check(const struct world *world, const struct model_container *c, uint32_t page,
                        int error, int wanted)
{
    if (error == -ENOBUFS || error == -E2BIG || error == -ENOSPC)
        return 0;
    if (store_page_prepared(world->store, c->object, page_number(world, page)))
        return error == -EBUSY || (error && error == wanted) ? 0 : -EUCLEAN;
    return error == wanted ? 0 : -EUCLEAN;
}

/* A difference from the newest version, whichever that is, is refused if that is gone, older than
 * the newest checkpoint, or in no log. */
static int newest_ask(const struct world *world, struct store_group *group,
                      const struct model_container *c, uint32_t page, bool freed)
{
    struct diff_run run = { 0, 8 };
    bool old = freed || page_old(world, c, page);
    int error = txn_diff(group, c->object, page_number(world, page), STORE_BASE_NEWEST, &run, 1,
                         "changed!");
    return answer_check(world, c, page, error, old ? -ESTALE : 0);
}

/* A difference against a version that is not the newest is refused; against zeros it is taken only
 * once the page is free. */
static int base_ask(struct world *world, struct store_group *group, struct model_container *c,
                    uint32_t page, bool freed)
{
    struct diff_run run = { 0, 8 };
    uint64_t number = page_number(world, page);
    struct store_op op = { .type = STORE_OP_PAGE_FREE, .object = c->object, .page = number,
                           .count = 1 };
    int error = freed ? store_txn_op(group, &op) : 0;
    if (!error && world->options.newest)
        return newest_ask(world, group, c, page, freed);
    if (!error)
        error = txn_diff(group, c->object, number,
                               freed ? 0 : c->pages[page].lsn + (1ull << 40), &run, 1, "changed!");
    return answer_check(world, c, page, error, freed ? 0 : -ESTALE);
}

/* A page that somebody has, if only by a group that is not applied yet, is not called unused. */
static int unused_ask(const struct world *world, const struct model_container *c)
{
    uint64_t first;
    for (uint32_t p = 0; p < WORLD_PAGES; p++)
        if ((c->pages[p].present || c->pages[p].claimed) &&
            store_pages_unused(world->store, c->object, page_number(world, p), 1, NULL, NULL,
                               &first) == 0 && first == page_number(world, p))
            return -EUCLEAN;
    return 0;
}

/* What must be refused, or must be taken, whatever the group holds. */
static int refusal_ask(struct world *world, struct store_group *group, struct model_container *c,
                       uint64_t *random)
{
    char name[STORE_NAME_BYTES];
    bool freed = random_below(random, 2);
    for (uint32_t p = 0; p < WORLD_PAGES && random_below(random, 3); p++)
        if (c->pages[p].present)
            return base_ask(world, group, c, p, freed);
    if (freed)
        return twins_ask(group);
    name_make(c->name, name);
    struct store_op op = { .type = STORE_OP_CREATE, .name = name };
    int error = store_txn_op(group, &op);
    return error == -EEXIST || error == -ENOBUFS || error == -E2BIG ? 0 : -EUCLEAN;
}

int txn_doomed(struct world *world, struct store_group *group, uint64_t *random)
{
    struct model_container *c;
    int at = random_container(&world->model, random);
    if (at < 0)
        return 0;
    c = &world->model.containers[at];
    if (unused_ask(world, c))
        return -EUCLEAN;
    if (random_below(random, 2))
        return refusal_ask(world, group, c, random);
    if (world->want == WANT_SAME_PAGE)
        txn_pages(world, group, c, random);
    else
        txn_any(world, group, random);
    return 0;
}
