/*
 * map.h - what the picture of a disk shows: gathered by map.c, drawn by map_svg.c.
 */
#ifndef KATYDID_MAP_H
#define KATYDID_MAP_H

#include "kstore.h"

#define MAP_COLUMNS     120u  /* squares in a row; of rows without any use some are left out */
#define MAP_ROWS_MAX    32u             /* with some: beyond that extents are taken together ... */
#define MAP_CELLS_MAX   262144u         /* ... and beyond that, used or not */
#define MAP_OWNERS      4u              /* of one cell, told apart; the rest is "others" */

struct cell {                           /* `each` neighbouring extents */
    uint64_t extents, pages;            /* in use; pages present */
    uint64_t newest_lsn, lost;
    struct { uint64_t object, pages; } owners[MAP_OWNERS];
    bool     slot_b;
    uint64_t area;                      /* extents that a metadata area lies in */
};

enum meta_state { PAGE_UNUSED, PAGE_HEADER, PAGE_DIRECTORY, PAGE_NAMES, PAGE_BUCKET, PAGE_BAD };
#define MAP_META_MAX    1024u
struct meta_cell {                      /* `each` neighbouring metadata pages */
    enum meta_state state;              /* the worst, or the commonest use */
    uint32_t used, bad;
};

struct map {
    struct kview *view;
    const char *path;
    bool     pages_read;
    uint64_t lost_pages;
    struct cell *cells;
    uint64_t cell_count, each;
    struct meta_cell meta[2][MAP_META_MAX];
    uint32_t meta_count[2], meta_each;
    bool     meta_valid[2];
    uint64_t oldest_lsn, newest_lsn;    /* of all pages */
};

/* Writes the whole file. */
void map_draw(const struct map *map, FILE *out);

#endif
