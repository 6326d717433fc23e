/*
 * world.h - a stand-in for the store manager, with an oracle.
 *
 * The world runs seeded transactions against a store and keeps a model of what they did. The model
 * is never read back from the store: what was submitted and acknowledged is noted outside, as
 * marks in the device's record. After commit k the model's digest is digests[k]; a recovered store
 * must have the digest of some k between the last acknowledged and the last submitted.
 *
 * Transaction k is made from (seed, k) and the model only, so after a crash it can be run again.
 */
#ifndef TESTS_DISK_WORLD_H
#define TESTS_DISK_WORLD_H

#include "device.h"

#define WORLD_CONTAINERS 4u
#define WORLD_PAGES      12u    /* page numbers used in each container */
#define WORLD_CELLS      8u     /* a page is 8 cells of 512 bytes, each made from one number */
#define WORLD_NAMES      3u
#define WORLD_COMMITS    400u

struct model_page {
    bool     present;
    uint64_t cells[WORLD_CELLS];
    uint64_t lsn;
    uint32_t group;             /* group that last wrote it */
};

struct model_container {
    uint64_t object;            /* 0: none */
    uint32_t name, flags, segments;
    uint64_t layout;            /* 0: none; else made into type, version, bytes, root */
    uint64_t names[WORLD_NAMES];/* 0: unset; else address and bytes are made from it */
    struct model_page pages[WORLD_PAGES];
};

struct model {
    struct model_container containers[WORLD_CONTAINERS];
    uint64_t commits;
};

struct world_options {
    uint64_t disk_bytes, log_bytes;
    uint32_t extent_bytes;
    size_t   group_bytes;
    bool     full_only;         /* whole pages over pages that exist: groups repeat bit by bit */
    bool     ahead;             /* issue the next group while the flush of this one runs */
    uint32_t checkpoint_odds;   /* one step in so many begins a checkpoint */
};

struct world {
    struct device *device;
    struct store *store;
    struct world_options options;
    uint64_t seed;
    struct model model;         /* all accepted transactions */
    uint64_t acked, submitted;
    uint32_t group;
    bool     checkpointing;
    uint64_t digests[WORLD_COMMITS + 1];
    struct model history[WORLD_COMMITS + 1];    /* the model after commit k */
    uint64_t refused;           /* transactions refused for want of space */
    uint64_t log_full;          /* groups that waited for a checkpoint */
};

/* Results: 0 or the store's error. */
int  world_format(struct world *world, struct device *device, uint64_t seed,
                  const struct world_options *options);
int  world_open(struct world *world, struct store_report *report);
int  world_step(struct world *world);           /* a group or two, some cleaning, checkpoints */
int  world_checkpoint(struct world *world);     /* a whole one */
int  world_close(struct world *world);          /* cleans, then store_close */
void world_abandon(struct world *world);
/* The store's digest; an error if a page cannot be read or a CRC is wrong. */
int  store_digest(struct store *store, uint64_t *digest);
void page_fill(const uint64_t cells[WORLD_CELLS], uint8_t *bytes);
/* Goes on from commit k of another world on the same device (after recovery). */
int  world_resume(struct world *to, const struct world *from, uint64_t k, struct store *store,
                  struct device *device);

#endif
