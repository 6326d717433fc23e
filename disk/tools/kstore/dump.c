/*
 * dump.c - kstore dump: the structures of a store one by one, and single pages.
 */
#include "kstore.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 1, EXTENTS = 2, PAGES = 4, BUCKETS = 8, SUPERBLOCKS = 16 };

struct dump {
    struct common common;
    int  what;
    bool one_page, verify;
    uint64_t object, page;
    char name[STORE_NAME_BYTES];        /* of the container, if its id was not given */
};

enum { KEY_VERIFY = 256 };
static const struct argp_option options[] = {
    { "superblocks", 's', NULL, 0, "both slots", 0 },
    { "objects", 'o', NULL, 0, "containers and named objects", 0 },
    { "extents", 'e', NULL, 0, "which extent belongs to which container", 0 },
    { "pages", 'p', NULL, 0, "each page: where it is, its version, its CRC", 0 },
    { "buckets", 'b', NULL, 0, "how full the buckets of the hash table are", 0 },
    { "page", 'P', "CONTAINER:PAGE", 0,
      "one page in hexadecimal: the container's id or name, the page's number",
      0 },
    { "verify", KEY_VERIFY, NULL, 0, "read each page that --pages lists and compare its CRC", 0 },
    COMMON_JSON, COMMON_QUIET,
    { 0 },
};

static void page_parse(struct dump *dump, const char *text, struct argp_state *state)
{
    const char *colon = strrchr(text, ':');
    size_t bytes = colon ? (size_t)(colon - text) : 0;
    char *end;
    if (!bytes || bytes >= sizeof dump->name || colon[1] < '0' || colon[1] > '9')
        argp_error(state, "a page is CONTAINER:PAGE, such as 3:0 or todo:0");
    dump->page = strtoull(colon + 1, &end, 0);
    if (*end)
        argp_error(state, "a page is CONTAINER:PAGE, such as 3:0 or todo:0");
    dump->object = strtoull(text, &end, 0);
    if (end != colon || *text < '0' || *text > '9')
        memcpy(dump->name, text, bytes);
    dump->one_page = true;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct dump *dump = state->input;
    switch (key) {
    case 's': dump->what |= SUPERBLOCKS; return 0;
    case 'o': dump->what |= OBJECTS; return 0;
    case 'e': dump->what |= EXTENTS; return 0;
    case 'p': dump->what |= PAGES; return 0;
    case 'b': dump->what |= BUCKETS; return 0;
    case 'P': page_parse(dump, value, state); return 0;
    case KEY_VERIFY: dump->verify = true; return 0;
    default: return common_parse(key, value, state);
    }
}

static const struct argp argp = { options, parse, "IMAGE...", "Shows the structures of a store as "
    "recovery would leave them: all of them, or those that are named."
    "\vA page's state is `home` (its bytes are at its offset, and have its CRC) or `log` (they are "
    "built from the log when the store is opened).", NULL, NULL, NULL };

/* ---- leaves in the order of their owners */

static int by_key(const void *a, const void *b, void *model)
{
    const struct kleaf *x = kmodel_leaf_at(model, *(const uint32_t *)a);
    const struct kleaf *y = kmodel_leaf_at(model, *(const uint32_t *)b);
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static uint32_t *leaves_sorted(struct kmodel *model)
{
    uint32_t count = 0, *order = malloc((model->live_leaves + 1) * sizeof *order);
    for (uint32_t i = 0; order && i < model->leaf_count; i++)
        if (kmodel_leaf_at(model, i))
            order[count++] = i;
    if (order)
        qsort_r(order, count, sizeof *order, by_key, model);
    return order;
}

/* ---- superblocks and objects */

static void checkpoint_json(const struct kcheckpoint *c)
{
    json_begin("", '{');
    json_number("redo_lsn", c->redo_lsn);
    json_number("pages_lsn", c->pages_lsn);
    json_number("sequence", c->sequence);
    json_number("pages", c->pages);
    json_hex("root_crc", c->root_crc);
    json_hex("prev_crc", c->prev_crc);
    json_end();
}

static void slot_json(const struct kslot *s)
{
    json_begin("", '{');
    json_bool("valid", s->state == KSLOT_VALID);
    json_number("offset", s->offset);
    if (s->state != KSLOT_VALID)
        json_text("why", s->why, 200);
    else {
        json_number("generation", s->generation);
        json_number("disk_bytes", s->disk_bytes);
        json_number("slot_b_offset", s->slot_b_offset);
        json_number("log_start", s->log_start);
        json_number("log_bytes", s->log_bytes);
        json_number("extent_bytes", s->extent_bytes);
        json_number("area_0_start", s->area_start[0]);
        json_number("area_1_start", s->area_start[1]);
        json_number("area_pages", s->area_pages);
        json_number("data_start", s->data_start);
        json_number("extents", s->extents);
        json_number("newest_checkpoint", s->newest);
        json_begin("checkpoints", '[');
        checkpoint_json(&s->checkpoints[0]);
        checkpoint_json(&s->checkpoints[1]);
        json_end();
        json_begin("epochs", '[');
        for (uint32_t i = 0; i < s->epoch_count; i++) {
            json_begin("", '{');
            json_number("epoch", s->epochs[i].epoch);
            json_number("first_lsn", s->epochs[i].first_lsn);
            json_end();
        }
        json_end();
    }
    json_end();
}

static void slot_print(const struct kslot *s, char letter)
{
    if (s->state != KSLOT_VALID) {
        printf("slot %c at %llu: not valid, %s\n", letter, (unsigned long long)s->offset, s->why);
        return;
    }
    printf("slot %c at %llu: generation %llu, %s\n", letter, (unsigned long long)s->offset,
           (unsigned long long)s->generation, s->flags & FLAG_CLEAN ? "clean" : "not clean");
    printf("    log at %llu, %llu bytes; areas at %llu and %llu, %u pages each; %llu extents from "
           "%llu\n", (unsigned long long)s->log_start, (unsigned long long)s->log_bytes,
           (unsigned long long)s->area_start[0], (unsigned long long)s->area_start[1],
           s->area_pages, (unsigned long long)s->extents, (unsigned long long)s->data_start);
    for (uint32_t i = 0; i < 2; i++)
        printf("    checkpoint %u%s: redo LSN %llu, pages from LSN %llu, %u pages, "
               "sequence %llu, map CRC %08x\n", i, i == s->newest ? " (newest)" : "",
               (unsigned long long)s->checkpoints[i].redo_lsn,
               (unsigned long long)s->checkpoints[i].pages_lsn, s->checkpoints[i].pages,
               (unsigned long long)s->checkpoints[i].sequence, s->checkpoints[i].root_crc);
    for (uint32_t i = 0; i < s->epoch_count; i++)
        printf("    epoch %u from LSN %llu\n", s->epochs[i].epoch,
               (unsigned long long)s->epochs[i].first_lsn);
}

static void superblocks_dump(const struct kview *view, bool json)
{
    if (json)
        json_begin("superblocks", '[');
    for (int i = 0; i < 2; i++) {
        if (json)
            slot_json(&view->slots[i]);
        else
            slot_print(&view->slots[i], (char)('A' + i));
    }
    if (json)
        json_end();
}

static void segments_dump(const struct container_disk *c, bool json)
{
    if (json)
        json_begin("segments", '[');
    for (uint32_t s = 0; s < le32_get(c->segment_count); s++) {
        uint32_t first = le32_get(c->segments[s].first_gib), gib = le32_get(c->segments[s].gib);
        if (json) {
            json_begin("", '{');
            json_number("first_gib", first);
            json_number("gib", gib);
            json_end();
        } else
            printf(" [%u GiB at %u]", gib, first);
    }
    if (json)
        json_end();
}

static void object_dump(const struct kview *view, const struct kcontainer *c, bool json)
{
    if (!json) {
        printf("object %llu %.63s: %llu pages, created at LSN %llu",
               (unsigned long long)c->object, c->disk.name, (unsigned long long)c->pages_present,
               (unsigned long long)le64_get(c->disk.created));
        form_show(&c->disk, false);
        printf(", segments");
        segments_dump(&c->disk, false);
        printf("\n");
        names_show(&view->model, c->object, false);
        return;
    }
    json_begin("", '{');
    json_number("id", c->object);
    json_text("name", c->disk.name, STORE_NAME_BYTES);
    json_number("address", kview_address(view, c, 0));
    json_number("pages_present", c->pages_present);
    json_number("created", le64_get(c->disk.created));
    form_show(&c->disk, true);
    segments_dump(&c->disk, true);
    names_show(&view->model, c->object, true);
    json_end();
}

static void objects_dump(struct kview *view, bool json)
{
    struct kmodel *model = &view->model;
    objects_sort(model);
    if (json)
        json_begin("objects", '[');
    for (uint32_t i = 0; i < model->container_count; i++)
        object_dump(view, &model->containers[i], json);
    if (json)
        json_end();
}

/* ---- extents and pages */

static void extent_dump(const struct kview *view, const struct kleaf *leaf, bool json)
{
    if (!json) {
        printf("extent %llu at %llu: object %llu extent %llu, pages %#x, claimed %#x, born %llu\n",
               (unsigned long long)leaf->physical, (unsigned long long)kview_home(view, leaf, 0),
               (unsigned long long)leaf->object, (unsigned long long)leaf->index, leaf->mask,
               leaf->claimed, (unsigned long long)leaf->born);
        return;
    }
    json_begin("", '{');
    json_number("extent", leaf->physical);
    json_number("offset", kview_home(view, leaf, 0));
    json_number("id", leaf->object);
    json_number("index", leaf->index);
    json_number("mask", leaf->mask);
    json_number("claimed", leaf->claimed);
    json_number("born", leaf->born);
    json_end();
}

/* The CRC of a page that is in the log is that of the bytes recovery would build. */
static bool page_dump(struct kview *view, const struct kleaf *leaf, uint32_t p,
                      const struct dump *wish)
{
    uint8_t bytes[BLOCK_BYTES];
    bool in_log = kleaf_record(&view->model, leaf)[p];
    uint32_t crc = kleaf_crc(&view->model, leaf)[p];
    int error = 0;
    if (in_log || wish->verify)
        error = kview_page(view, &view->model, leaf, p, bytes);
    if (in_log && !error)
        crc = kcheck_crc(0, bytes, sizeof bytes);
    const char *state = error ? "lost" : in_log ? "log" : "home";
    uint64_t page = leaf->index * view->super.extent_pages + p;
    if (!wish->common.json) {
        printf("page %llu:%llu at %llu: lsn %llu crc %08x %s\n", (unsigned long long)leaf->object,
               (unsigned long long)page, (unsigned long long)kview_home(view, leaf, p),
               (unsigned long long)kleaf_lsn(leaf)[p], crc, state);
        return !error;
    }
    json_begin("", '{');
    json_number("id", leaf->object);
    json_number("page", page);
    json_number("offset", kview_home(view, leaf, p));
    json_number("lsn", kleaf_lsn(leaf)[p]);
    json_hex("crc", crc);
    json_text("state", state, 8);
    json_end();
    return !error;
}

static int leaves_dump(struct kview *view, const struct dump *wish, int what)
{
    struct kmodel *model = &view->model;
    uint32_t *order = leaves_sorted(model);
    bool sound = true;
    if (!order)
        return CANNOT;
    if (wish->common.json)
        json_begin(what == EXTENTS ? "extents" : "pages", '[');
    for (uint32_t i = 0; i < model->live_leaves; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, order[i]);
        if (what == EXTENTS)
            extent_dump(view, leaf, wish->common.json);
        for (uint32_t p = 0; what == PAGES && p < view->super.extent_pages; p++)
            if (leaf->mask >> p & 1)
                sound &= page_dump(view, leaf, p, wish);
    }
    if (wish->common.json)
        json_end();
    free(order);
    return sound ? SOUND : DAMAGED;
}

/* ---- buckets, at the base checkpoint's level and split */

static int buckets_dump(struct kview *view, bool json)
{
    struct kmodel *model = &view->model;
    uint32_t count = (1u << model->hash_level) + model->hash_split;
    uint32_t *leaves = calloc(count, sizeof *leaves);
    if (!leaves)
        return CANNOT;
    for (uint32_t i = 0; i < model->leaf_count; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        if (leaf)
            leaves[karea_bucket(model, leaf->object, leaf->index)]++;
    }
    if (json)
        json_begin("buckets", '[');
    else
        printf("hash: level %u, split %u, %u buckets of %u leaves a page\n", model->hash_level,
               model->hash_split, count, view->super.leaves_per_page);
    for (uint32_t i = 0; i < count; i++) {
        if (json)
            json_number("", leaves[i]);
        else
            printf("bucket %u: %u leaves\n", i, leaves[i]);
    }
    if (json)
        json_end();
    free(leaves);
    return SOUND;
}

/* ---- one page */

static void hex_print(const uint8_t *bytes)
{
    for (uint32_t at = 0; at < BLOCK_BYTES; at += 16) {
        printf("%03x ", at);
        for (int i = 0; i < 16; i++)
            printf(" %02x", bytes[at + i]);
        printf("  ");
        for (int i = 0; i < 16; i++)
            putchar(bytes[at + i] >= ' ' && bytes[at + i] <= '~' ? bytes[at + i] : '.');
        printf("\n");
    }
}

/* 0: there is no container of that name. */
static uint64_t object_wished(const struct kview *view, const struct dump *wish)
{
    uint64_t object = *wish->name ? 0 : wish->object;
    for (uint32_t i = 0; *wish->name && i < view->model.container_count; i++)
        if (!strncmp(view->model.containers[i].disk.name, wish->name, STORE_NAME_BYTES))
            object = view->model.containers[i].object;
    return object;
}

static int one_page_dump(struct kview *view, const struct dump *wish)
{
    uint8_t bytes[BLOCK_BYTES];
    uint32_t n = view->super.extent_pages, p = (uint32_t)(wish->page % n);
    uint64_t object = object_wished(view, wish);
    struct kleaf *leaf = kmodel_leaf(&view->model, object, wish->page / n);
    if (!leaf || !(leaf->mask >> p & 1)) {
        if (*wish->name && !object)
            fprintf(stderr, "kstore: there is no container %s\n", wish->name);
        else
            fprintf(stderr, "kstore: container %llu has no page %llu; it reads as zeros\n",
                    (unsigned long long)object, (unsigned long long)wish->page);
        return WRONG_USE;
    }
    int error = kview_page(view, &view->model, leaf, p, bytes);
    if (error && error != -EUCLEAN) {
        fprintf(stderr, "kstore: the page cannot be read: %s\n", strerror(-error));
        return CANNOT;
    }
    if (error)
        fprintf(stderr, "kstore: these bytes do not match the page's CRC\n");
    hex_print(bytes);
    return error ? DAMAGED : SOUND;
}

static int dump(struct kview *view, const struct dump *wish)
{
    bool json = wish->common.json;
    int what = wish->what ? wish->what : SUPERBLOCKS | OBJECTS | EXTENTS | PAGES | BUCKETS;
    int status = SOUND;
    if (wish->one_page)
        return one_page_dump(view, wish);
    if (json)
        json_begin("", '{');
    if (what & SUPERBLOCKS)
        superblocks_dump(view, json);
    if (what & OBJECTS)
        objects_dump(view, json);
    if (what & EXTENTS)
        status |= leaves_dump(view, wish, EXTENTS);
    if (what & PAGES)
        status |= leaves_dump(view, wish, PAGES);
    if (what & BUCKETS)
        status |= buckets_dump(view, json);
    if (json)
        json_end();
    return status & CANNOT & ~DAMAGED ? CANNOT : status;
}

int dump_main(int count, char **words)
{
    struct dump wish = { .common.wanted = 1 };
    struct image image;
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&image, wish.common.files[0], &view);
    if (status > DAMAGED)
        return status;
    int dumped = dump(&view, &wish);
    image_unview(&image, &view);
    return dumped ? dumped : status;
}
