/*
 * map.c - kstore map: a picture of the disk as one HTML file. This file gathers what it shows.
 */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wish {
    struct common common;
    const char *out;
    bool quick;
};

static const struct argp_option options[] = {
    { "output", 'o', "FILE", 0, "where to write it (default: standard output)", 0 },
    { "quick", 'k', NULL, 0, "do not read the data pages; their damage is then not shown", 0 },
    COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct wish *wish = state->input;
    if (key == 'o')
        wish->out = value;
    else if (key == 'k')
        wish->quick = true;
    else
        return common_parse(key, value, state);
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE...", "Draws a picture of the disk as one "
    "HTML file that needs nothing else: whose each extent is, how full and how old, the log with "
    "its head and tail, the checkpoints, the metadata areas, and damage in red."
    "\vStatus 1: the picture shows damage.", NULL, NULL, NULL };

/* ---- extents */

static void owner_add(struct cell *cell, uint64_t object, uint64_t pages)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < MAP_OWNERS; i++) {
        if (!cell->owners[i].pages || cell->owners[i].object == object) {
            cell->owners[i].object = object;
            cell->owners[i].pages += pages;
            return;
        }
        if (cell->owners[i].pages < cell->owners[least].pages)
            least = i;
    }
    if (cell->owners[least].pages < pages) {
        cell->owners[least].object = object;
        cell->owners[least].pages = pages;
    }
}

static void leaf_add(struct map *map, const struct kleaf *leaf)
{
    struct cell *cell = &map->cells[leaf->physical / map->each];
    uint8_t bytes[BLOCK_BYTES];
    cell->extents++;
    cell->pages += kbits(leaf->mask | leaf->claimed);
    owner_add(cell, leaf->object, kbits(leaf->mask | leaf->claimed));
    for (uint32_t p = 0; p < map->view->super.extent_pages; p++) {
        if (!(leaf->mask >> p & 1))
            continue;
        uint64_t lsn = kleaf_lsn(leaf)[p];
        cell->newest_lsn = lsn > cell->newest_lsn ? lsn : cell->newest_lsn;
        map->newest_lsn = lsn > map->newest_lsn ? lsn : map->newest_lsn;
        map->oldest_lsn = lsn < map->oldest_lsn ? lsn : map->oldest_lsn;
        if (map->pages_read && kview_page(map->view, &map->view->model, leaf, p, bytes)) {
            cell->lost++;
            map->lost_pages++;
        }
    }
}

/* How many rows have an extent in use or reserved, with so many to a square; 0: no memory. */
static uint64_t rows_used(const struct map *map, uint64_t each)
{
    const struct kslot *super = &map->view->super;
    const struct kmodel *model = &map->view->model;
    uint64_t in_row = each * MAP_COLUMNS, used = 0;
    uint8_t *rows = calloc(super->extents / in_row + 1, 1);
    if (!rows)
        return 0;
    for (uint32_t i = 0; i < model->leaf_count; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        if (leaf)
            rows[leaf->physical / in_row] = 1;
    }
    for (uint64_t i = 0; i < super->extents; i++)
        rows[i / in_row] |= kslot_reserves(super, i);
    for (uint64_t row = 0; row <= super->extents / in_row; row++)
        used += rows[row];
    free(rows);
    return used;
}

/* As few to a square as give a picture that is not too high. */
static uint64_t extents_each(const struct map *map)
{
    uint64_t each = map->view->super.extents / MAP_CELLS_MAX + 1;
    while (rows_used(map, each) > MAP_ROWS_MAX)
        each += each / 4 + 1;
    return each;
}

static int extents_gather(struct map *map)
{
    const struct kslot *super = &map->view->super;
    struct kmodel *model = &map->view->model;
    map->each = extents_each(map);
    map->cell_count = (super->extents + map->each - 1) / map->each;
    map->cells = calloc(map->cell_count + 1, sizeof *map->cells);
    if (!map->cells)
        return -ENOMEM;
    map->oldest_lsn = UINT64_MAX;
    for (uint32_t i = 0; i < model->leaf_count; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        progress_show(NULL, "pages", i, model->leaf_count);
        if (leaf)
            leaf_add(map, leaf);
    }
    for (uint64_t i = 0; i < super->extents; i++)
        map->cells[i / map->each].area += kslot_reserves(super, i);
    if (super->slot_b_offset >= super->data_start) {
        uint64_t extent = (super->slot_b_offset - super->data_start) / super->extent_bytes;
        if (extent < super->extents)
            map->cells[extent / map->each].slot_b = true;
    }
    return 0;
}

/* ---- metadata areas */

static enum meta_state page_state(struct map *map, uint32_t area, uint32_t page,
                                  const struct map_entry_disk *entry)
{
    static const enum meta_state states[] = { PAGE_UNUSED, PAGE_HEADER, PAGE_DIRECTORY, PAGE_NAMES,
                                              PAGE_BUCKET };
    uint8_t bytes[BLOCK_BYTES];
    struct kview *view = map->view;
    unsigned kind = le16_get(entry->kind);
    if (kind == META_FREE)
        return PAGE_UNUSED;
    if (kind > META_BUCKET ||
        kview_read(view, kslot_page_offset(&view->super, area, page), bytes, sizeof bytes) ||
        kcheck_crc(kview_seed(view->super.uuid, CRC_META, page, 0), bytes, sizeof bytes) !=
            le32_get(entry->crc))
        return PAGE_BAD;
    return states[kind];
}

static int area_gather(struct map *map, uint32_t area)
{
    struct kview *view = map->view;
    const struct kcheckpoint *c = &view->super.checkpoints[area];
    uint32_t capacity = view->super.area_pages;
    map->meta_count[area] = (capacity + map->meta_each - 1) / map->meta_each;
    if (map->meta_count[area] > MAP_META_MAX)
        map->meta_count[area] = MAP_META_MAX;
    if (!c->redo_lsn || !c->pages || c->pages > capacity)
        return 0;
    uint64_t bytes = kslot_map_bytes(c->pages);
    struct map_entry_disk *entries = malloc(bytes);
    if (!entries)
        return -ENOMEM;
    map->meta_valid[area] =
        !kview_read(view, view->super.area_start[area], entries, bytes) &&
        kcheck_crc(kview_seed(view->super.uuid, CRC_MAP, c->redo_lsn, 0), entries, bytes) ==
            c->root_crc;
    for (uint32_t i = 0; map->meta_valid[area] && i < c->pages; i++) {
        struct meta_cell *cell = &map->meta[area][i / map->meta_each];
        enum meta_state state = page_state(map, area, i, &entries[i]);
        cell->used += state != PAGE_UNUSED;
        cell->bad += state == PAGE_BAD;
        cell->state = state > cell->state ? state : cell->state;
    }
    free(entries);
    return 0;
}

static int map_gather(struct map *map)
{
    int error = extents_gather(map);
    uint32_t pages = 0;                 /* of the larger map: what is behind it is not in use */
    for (uint32_t area = 0; area < 2; area++)
        if (map->view->super.checkpoints[area].pages > pages)
            pages = map->view->super.checkpoints[area].pages;
    if (pages > map->view->super.area_pages)
        pages = map->view->super.area_pages;
    map->meta_each = pages / MAP_META_MAX + 1;
    for (uint32_t area = 0; area < 2 && !error; area++)
        error = area_gather(map, area);
    return error;
}

/* ---- the file */

static int map_write(struct map *map, const char *path)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out) {
        fprintf(stderr, "kstore: %s: %s\n", path, strerror(errno));
        return CANNOT;
    }
    map_draw(map, out);
    bool bad = ferror(out);
    bad |= path && fclose(out);
    if (bad)
        fprintf(stderr, "kstore: %s: cannot write all of it\n", path ? path : "stdout");
    return bad ? CANNOT : SOUND;
}

int map_main(int count, char **words)
{
    static struct map map;
    struct wish wish = { .common.wanted = 1 };
    struct image image;
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&image, wish.common.files[0], &view);
    if (status > DAMAGED)
        return status;
    map.view = &view;
    map.path = wish.common.files[0];
    map.pages_read = !wish.quick;
    int error = map_gather(&map);
    progress_end();
    int written = error ? error_status(error) : map_write(&map, wish.out);
    free(map.cells);
    image_unview(&image, &view);
    return written ? written : map.lost_pages ? DAMAGED : status;
}
