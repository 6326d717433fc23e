/*
 * picture.h - a finished image of a store, what it must say, and what a damaged copy of it says.
 *
 * The expected contents are read once from the undamaged image and compared with the model, which
 * was never read back. A copy is then damaged in place, opened, read page by page, and put back.
 */
#ifndef TESTS_DISK_PICTURE_H
#define TESTS_DISK_PICTURE_H

#include "world.h"

enum picture_kind {
    PICTURE_IDLE,               /* after a power cut, an idle no-op group behind the last commit */
    PICTURE_BUSY,               /* the same without: the last group is a commit */
    PICTURE_CLOSED,             /* closed properly */
    PICTURE_KINDS
};

#define PICTURE_PAGES (2 * WORLD_CONTAINERS * WORLD_PAGES)
#define PICTURE_AGES 3u

struct contents {
    uint64_t directory;         /* digest of containers and names */
    uint32_t pages, unreadable;
    struct { uint64_t object, page; uint32_t crc; bool readable; } page[PICTURE_PAGES];
};

struct picture {
    enum picture_kind kind;
    struct device device;
    struct contents last, before;       /* the newest state, and that without the last group */
    uint64_t group_start, group_bytes;  /* where the last commit's group lies on the disk */
    uint64_t guard_start, guard_bytes;  /* and the no-op group that protects it; or 0, 0 */
    uint64_t data_start, slot_b;
    uint8_t *read_map;                  /* blocks that an open and a look at all pages read */
    uint8_t *aged[PICTURE_AGES];        /* the image as it was earlier */
};

enum verdict {
    NOTICED,                    /* not opened: -EUCLEAN, or -EIO */
    REPORTED,                   /* opened; pages that differ are reported when they are read */
    HARMLESS,                   /* all is as it was */
    TORN_TAIL,                  /* as it was before the last commit */
    SILENT,                     /* wrong and not noticed */
    VERDICTS
};

/* A life of this seed on a disk of that many bytes. */
void picture_make(struct picture *picture, enum picture_kind kind, uint64_t seed, uint64_t bytes);
void picture_free(struct picture *picture);
/* May damage of just these two places (may be one) pass for a torn tail? */
bool picture_ambiguous(const struct picture *picture, uint64_t one, uint64_t two);
/* Metadata: everything but pages at home. */
bool picture_metadata(const struct picture *picture, uint64_t offset);

/* The image as it would be without the write of event `lost`; what undo knew is forgotten. */
void picture_replay(struct picture *picture, uint32_t lost);

/* Opens the damaged device and looks; then all writes since undo_begin are taken back. *why: what
 * was seen, or NULL. */
enum verdict picture_judge(struct picture *picture, const char **why);

#endif
