/*
 * world.c - see world.h.
 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING (1ull << 63)

/* ---- contents and digests */

void page_fill(const uint64_t cells[WORLD_CELLS], uint8_t *bytes)
{
    for (uint32_t c = 0; c < WORLD_CELLS; c++) {
        uint64_t x = cells[c];
        for (uint32_t i = 0; i < 512; i += 8) {
            memcpy(bytes + c * 512 + i, &x, 8);
            x = x * 6364136223846793005ull + (cells[c] | 1) * (cells[c] != 0);
        }
    }
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x1234567) * 0xbf58476d1ce4e5b9ull ^
                 (c + 0x89abcdef) * 0x94d049bb133111ebull;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93ull;
    return h ^ h >> 32;
}

static void name_make(uint32_t name, char *out)
{
    snprintf(out, STORE_NAME_BYTES, "container-%u", name);
}

static uint64_t text_digest(const char *text)
{
    return crc32c(1, text, strlen(text));
}

static uint64_t container_digest(uint64_t object, const char *name, uint32_t flags,
                                 uint32_t segments, const char *type, uint64_t version,
                                 uint64_t root)
{
    return mix(object, text_digest(name), flags) + mix(object, segments, text_digest(type)) +
           mix(object, version, root + 77);
}

static void layout_make(uint64_t layout, struct store_layout *out, uint64_t *root)
{
    memset(out, 0, sizeof *out);
    if (layout)
        snprintf(out->type, sizeof out->type, "type-%u", (unsigned)(layout % 97));
    out->version = (uint32_t)(layout >> 8);
    out->bytes = (uint32_t)(layout >> 40);
    *root = layout >> 3;
}

static uint64_t model_digest(const struct model *model)
{
    uint64_t sum = 0;
    uint8_t bytes[STORE_PAGE_BYTES];
    char name[STORE_NAME_BYTES];
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        const struct model_container *c = &model->containers[i];
        struct store_layout layout;
        uint64_t root;
        if (!c->object)
            continue;
        name_make(c->name, name);
        layout_make(c->layout, &layout, &root);
        sum += container_digest(c->object, name, c->flags, c->segments, layout.type,
                                layout.version + ((uint64_t)layout.bytes << 32), root);
        for (uint32_t n = 0; n < WORLD_NAMES; n++) {
            snprintf(name, sizeof name, "name-%u", n);
            if (c->names[n])
                sum += mix(c->object ^ text_digest(name), c->names[n], c->names[n] >> 5);
        }
        for (uint32_t p = 0; p < WORLD_PAGES; p++)
            if (c->pages[p].present) {
                page_fill(c->pages[p].cells, bytes);
                sum += mix(c->object, p, crc32c(0, bytes, sizeof bytes)) + c->pages[p].lsn * 3;
            }
    }
    return sum;
}

int store_digest(struct store *store, uint64_t *digest)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t sum = 0, pages = 0;
    while (store_container_next(store, c.object, &c) == 0) {
        struct store_name name;
        uint32_t cursor = 0;
        sum += container_digest(c.object, c.name, c.flags, c.segment_count, c.layout.type,
                                c.layout.version + ((uint64_t)c.layout.bytes << 32), c.root);
        while (store_name_next(store, c.object, &cursor, &name) == 0)
            sum += mix(c.object ^ text_digest(name.name), name.address, name.bytes);
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            struct store_page page;
            int error = store_page_find(store, c.object, p, &page);
            if (!error && page.present)
                error = store_page_read(store, c.object, p, bytes);
            if (error)
                return error;
            pages += page.present;
            if (page.present)
                sum += mix(c.object, p, crc32c(0, bytes, sizeof bytes)) + page.lsn * 3;
        }
    }
    struct store_stats stats;
    store_stats(store, &stats);
    *digest = sum;
    return pages == stats.pages_present ? 0 : -EUCLEAN;
}

/* ---- transactions */

static int random_container(const struct model *model, uint64_t *random)
{
    uint32_t first = (uint32_t)random_below(random, WORLD_CONTAINERS);
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++)
        if (model->containers[(first + i) % WORLD_CONTAINERS].object)
            return (int)((first + i) % WORLD_CONTAINERS);
    return -1;
}

static int page_change(struct world *world, struct store_group *group, struct model_container *c,
                       uint32_t page, uint64_t *random)
{
    struct model_page *p = &c->pages[page];
    uint8_t bytes[STORE_PAGE_BYTES];
    uint32_t changed = 1 + (uint32_t)random_below(random, 2), count = 0;
    bool full = world->options.full_only || random_below(random, 3) == 0 ||
                (p->present && (p->lsn < store_full_below(world->store) || p->group == world->group));
    struct store_run runs[2];
    uint64_t base = p->present ? p->lsn : 0;
    if (!p->present)
        memset(p->cells, 0, sizeof p->cells);
    uint32_t cell = (uint32_t)random_below(random, WORLD_CELLS - 1);
    uint8_t data[1024];
    for (uint32_t i = 0; i < changed; i++) {
        p->cells[cell + i] = random_next(random) | 1;
        page_fill(p->cells, bytes);
        runs[count] = (struct store_run){ (uint16_t)((cell + i) * 512), 512 };
        memcpy(data + 512 * count++, bytes + (cell + i) * 512, 512);
    }
    p->present = true;
    p->group = world->group;
    p->lsn = PENDING + world->model.commits;    /* the csn is known when the group is sealed */
    if (full)
        return store_txn_page(group, c->object, page, bytes);
    return store_txn_diff(group, c->object, page, base, runs, count, data);
}

static int op_run(struct store_group *group, struct store_op op, struct store_op *out)
{
    int error = store_txn_op(group, &op);
    *out = op;
    return error;
}

static int txn_create(struct store_group *group, struct model *model, uint64_t *random)
{
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
        name_make(c->name, name);
        int error = op_run(group, (struct store_op){ .type = STORE_OP_CREATE, .name = name,
                                                     .flags = c->flags }, &op);
        c->object = op.object;
        return error;
    }
    return 0;
}

static int txn_directory(struct store_group *group, struct model *model,
                         struct model_container *c, uint64_t *random)
{
    char text[STORE_NAME_BYTES];
    struct store_op op = { .object = c->object, .name = text };
    struct store_layout layout;
    uint32_t n = (uint32_t)random_below(random, WORLD_NAMES);
    snprintf(text, sizeof text, "name-%u", n);
    switch (random_below(random, 7)) {
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
        layout_make(c->layout, &layout, &op.address);
        op.layout = &layout;
        break;
    case 4:
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

static int txn_free(struct store_group *group, struct model_container *c, uint64_t *random)
{
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES);
    uint32_t count = 1 + (uint32_t)random_below(random, WORLD_PAGES - page);
    struct store_op op = { .type = STORE_OP_PAGE_FREE, .object = c->object, .page = page,
                           .count = count };
    for (uint32_t p = page; p < page + count; p++)
        memset(&c->pages[p], 0, sizeof c->pages[p]);
    return store_txn_op(group, &op);
}

static int txn_pages(struct world *world, struct store_group *group, struct model_container *c,
                     uint64_t *random)
{
    uint32_t count = 1 + (uint32_t)random_below(random, 3);
    uint32_t page = (uint32_t)random_below(random, WORLD_PAGES), error = 0;
    if (world->options.full_only)
        count = 1;
    for (uint32_t i = 0; i < count && !error; i++)
        if (page + i < WORLD_PAGES) {
            int result = page_change(world, group, c, page + i, random);
            if (result)
                return result;
        }
    return 0;
}

/* Fills transaction number model.commits. The model is changed as if it succeeds. */
static int txn_make(struct world *world, struct store_group *group, uint64_t *random)
{
    struct model *model = &world->model;
    int at = random_container(model, random);
    uint64_t what = random_below(random, 100);
    if (at < 0 || (what < 8 && !world->options.full_only))
        return txn_create(group, model, random);
    struct model_container *c = &model->containers[at];
    if (world->options.full_only || what < 75)
        return txn_pages(world, group, c, random);
    return what < 83 ? txn_free(group, c, random) : txn_directory(group, model, c, random);
}

/* ---- groups */

struct built {
    struct store_group *group;
    uint64_t first, last;               /* commits in it */
    uint32_t positions[4];
};

/* One transaction into the group; true if accepted. *error: what to do about it. */
static bool txn_run(struct world *world, struct built *built, int *error)
{
    struct model before = world->model;
    uint64_t random = world->seed * 1000003 + world->model.commits * 7919 + 1;
    uint32_t position;
    store_txn_begin(built->group, world->model.commits);
    txn_make(world, built->group, &random);
    *error = store_txn_end(built->group, &position);
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
    }
    world->model = world->history[built->last];
}

static int group_build(struct world *world, struct built *built, uint32_t txns)
{
    struct model after[4];
    int error = store_group_begin(world->store, &built->group);
    if (error)
        return error;
    world->group++;
    built->first = built->last = world->model.commits;
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
        device_mark(world->device, world->acked, world->submitted);
    }
    int applied = store_group_apply(built->group);
    return error ? error : applied;
}

static void issue_in_flush(void *context)
{
    int ignored = store_group_issue(context);   /* store_group_write will say so again */
    (void)ignored;
}

static int groups_commit(struct world *world, uint64_t *random)
{
    struct built one, two;
    uint32_t txns = world->options.full_only ? 1 : 1 + (uint32_t)random_below(random, 3);
    int error = group_build(world, &one, txns);
    if (error)
        return error;
    world->submitted = one.last;
    bool ahead = world->options.ahead && random_below(random, 2) &&
                 group_build(world, &two, 1) == 0;
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
    return error;
}

/* ---- cleaning and checkpoints */

static int clean_one(struct world *world, uint64_t object, uint64_t page, uint64_t lsn)
{
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t offset;
    struct disk_io io = device_io(world->device);
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        const struct model_container *c = &world->model.containers[i];
        if (c->object != object)
            continue;
        page_fill(c->pages[page].cells, bytes);
        int error = store_page_home(world->store, object, page, &offset);
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
    int error = 0;
    while (limit-- && !error) {
        error = store_checkpoint_next(world->store, &object, &page, &lsn);
        if (!error)
            error = clean_one(world, object, page, lsn);
    }
    if (error && error != -ENOENT)
        return error;
    bool all = error == -ENOENT;
    error = store_checkpoint_seal(world->store);
    if (error == -EBUSY && !all)        /* tried too early: it must refuse until all are home */
        return 0;
    if (!error)
        error = store_checkpoint_write(world->store);
    if (!error)
        error = store_checkpoint_apply(world->store);
    world->checkpointing = false;
    return error;
}

int world_checkpoint(struct world *world)
{
    int error = 0;
    if (!world->checkpointing)
        error = store_checkpoint_begin(world->store);
    world->checkpointing = !error;
    return error ? error : checkpoint_work(world, UINT32_MAX);
}

static int clean_some(struct world *world, uint32_t limit)
{
    uint64_t cursor = 0, object, page, lsn;
    int error = 0;
    while (limit-- && !error) {
        error = store_dirty_next(world->store, &cursor, &object, &page, &lsn);
        if (!error)
            error = clean_one(world, object, page, lsn);
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
        return error == -ENOSPC || error == -EAGAIN || error == -ENODATA || error == -E2BIG ? 0 : error;
    struct model now = world->model;
    struct store_page found;
    if (store_page_find(world->store, object, page, &found) || !found.present)
        return 0;
    world->model = old;
    error = clean_one(world, object, page, lsn);
    world->model = now;
    return error == -ESTALE ? 0 : error;
}

/* The no-op group that the store manager writes when idle. */
static int idle_group(struct world *world)
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
    int applied = store_group_apply(group);
    return error ? error : applied;
}

int world_step(struct world *world)
{
    uint64_t random = world->seed * 31 + world->model.commits * 17 + world->group * 101 + 5;
    int error = groups_commit(world, &random);
    for (int i = 0; error == -EAGAIN && i < 3; i++) {
        world->log_full++;
        error = world_checkpoint(world);
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
    if (!error && random_below(&random, 3) == 0)
        error = clean_some(world, 1 + (uint32_t)random_below(&random, 4));
    if (!error && random_below(&random, 8) == 0)
        error = idle_group(world);
    if (!error && world->checkpointing)
        error = checkpoint_work(world, 1 + (uint32_t)random_below(&random, 3));
    else if (!error && (random_below(&random, world->options.checkpoint_odds) == 0 ||
                        store_should_checkpoint(world->store) == 2)) {
        error = store_checkpoint_begin(world->store);
        world->checkpointing = !error;
    }
    return error;
}

/* ---- beginning and end */

int world_format(struct world *world, struct device *device, uint64_t seed,
                 const struct world_options *options)
{
    memset(world, 0, sizeof *world);
    world->device = device;
    world->seed = seed;
    world->options = *options;
    struct store_options format = { .log_bytes = options->log_bytes,
                                    .extent_bytes = options->extent_bytes };
    memcpy(format.uuid, &seed, sizeof seed);
    format.uuid[15] = 1;
    world->digests[0] = model_digest(&world->model);
    struct disk_io io = device_io(device);
    return store_format(&io, &test_memory, &format);
}

int world_open(struct world *world, struct store_report *report)
{
    struct store_open_options options = { .group_bytes = world->options.group_bytes };
    struct disk_io io = device_io(world->device);
    world->checkpointing = false;
    return store_open(&io, &test_memory, &options, &world->store, report);
}

int world_close(struct world *world)
{
    int error = world->checkpointing ? checkpoint_work(world, UINT32_MAX) : 0;
    if (!error)
        error = clean_some(world, UINT32_MAX);
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
    to->acked = to->submitted = k;
    to->group = from->group + 1;
    to->checkpointing = false;
    to->refused = 0;
    memcpy(to->digests, from->digests, (k + 1) * sizeof to->digests[0]);
    memcpy(to->history, from->history, (k + 1) * sizeof to->history[0]);
    return 0;
}
