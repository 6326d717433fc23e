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
#define WORLD_DOUBTS     3u
#define WORLD_COMMITS    400u
#define WORLD_GROUP_TIME 1000000000ull  /* each group is sealed so long after the one before */
#define WORLD_EXTENTS    1280u  /* watched, by the number of their first block on the disk */

struct model_page {
    bool     present, claimed;  /* claimed: the container's, never written */
    bool     home;              /* written past the log: the next record is a full image */
    uint64_t cells[WORLD_CELLS];
    uint64_t lsn;
    uint32_t group;             /* group that last wrote it */
};

struct model_container {
    uint64_t object;            /* 0: none */
    uint32_t name, flags, segments;
    enum store_encoder encoder; /* whole pages, differences wherever one may be, declared ranges of
                                 * 64 bytes, or (adaptive) one or the other from page to page */
    enum store_locking locking;
    uint32_t protection;
    enum store_durability durability;   /* LOST is REBUILD here */
    bool     used;              /* it had pages, or claims, at some time */
    bool     rootless;          /* its root was lost with its pages */
    uint64_t layout;            /* 0: none; else made into type, version, bytes, root */
    uint64_t names[WORLD_NAMES];/* 0: unset; else address and bytes are made from it */
    struct model_page pages[WORLD_PAGES];
};

/* A transaction of several stores that is prepared, or decided and kept; id 0: none. */
struct model_doubt {
    uint64_t id, value;
    bool     kept;
    uint32_t container, pages;  /* bit p: page p */
    uint64_t cells[WORLD_PAGES][WORLD_CELLS];
};

struct model {
    struct model_container containers[WORLD_CONTAINERS];
    struct model_doubt doubts[WORLD_DOUBTS];
    uint64_t commits;
    bool     forms;             /* as in the options */
};

/* What the next transaction shall do; ANY: the seed chooses. */
enum world_want { WANT_ANY, WANT_PAGE, WANT_SAME_PAGE, WANT_PAGES, WANT_FREE, WANT_CLAIM,
                  WANT_MOVE, WANT_CREATE,
                  WANT_DELETE, WANT_RENAME, WANT_GROW, WANT_LAYOUT, WANT_ENCODER,
                  WANT_NAME_SET, WANT_NAME_UNSET };

struct world_options {
    uint64_t disk_bytes, log_bytes;
    uint32_t extent_bytes;
    size_t   group_bytes;
    bool     full_only;         /* whole pages over pages that exist: groups repeat bit by bit */
    uint32_t stride;            /* page numbers are multiples of it (0: 1): extents of few pages */
    enum store_encoder encoder; /* of a new container: how its pages become records */
    bool     newest;            /* differences from the newest version, also of the same group */
    bool     doomed;            /* some transactions are cancelled, or ask for what is refused */
    bool     watch;             /* store_check and the space's rules after every step */
    bool     ahead;             /* issue the next group while the flush of this one runs */
    uint32_t checkpoint_odds;   /* one step in so many begins a checkpoint */
    uint32_t step_pages;        /* metadata pages that a step of a checkpoint handles; 0: many */
    uint32_t chain_odds;  /* and so many go on with a transaction of several groups; 0: none */
    bool     bulk;              /* that one's fresh pages go home, when they may */
    uint64_t unit_bytes;        /* of a store over several disks */
    uint32_t move_odds;         /* one transaction in so many moves an extent; 0: none */
    uint32_t hold_odds;         /* and so many begin or end a hold on the log; 0: none */
    bool     forms;             /* containers of each durability */
    uint32_t doubt_odds;        /* one step in so many prepares or decides something; 0: none */
    bool     restless;          /* it is opened again and again */
    bool     chunks;            /* most checkpoints are by chunks, whose sizes differ */
};

/* The transaction that spills; bit p of the masks: page p. */
struct world_chain {
    struct store_chain *chain;
    uint32_t container, spilled, memory, home;  /* home: of the spilled */
    bool     commit;
    uint64_t cells[WORLD_PAGES][WORLD_CELLS];
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
    bool     sweeping, in_chunk;
    struct store_chunk chunk;   /* its pages are on their way */
    uint64_t chunks;            /* checkpoints begun that were by chunks */
    struct world_chain chain;
    struct store_hold hold;
    bool     holds;
    uint64_t digests[WORLD_COMMITS + 1];
    struct model history[WORLD_COMMITS + 1];    /* the model after commit k */
    uint64_t times[WORLD_COMMITS + 1], csns[WORLD_COMMITS + 1];     /* of commit k, from 1 on */
    uint64_t refused;           /* transactions refused for want of space */
    enum world_want want;
    uint64_t last_object;       /* the newest id; ids are never given again */
    uint64_t attempts;          /* groups begun: also those of which nothing remains */
    uint64_t begun_commits;     /* when the newest checkpoint began */
    uint32_t begun, durable;    /* checkpoints begun; number of the newest that is done */
    struct { uint64_t object, index; uint32_t freed; } extents[WORLD_EXTENTS];
    const char *wrong;          /* a rule of the store that a step found broken */
    uint64_t log_full;          /* groups that waited for a checkpoint */
};

/* Results: 0 or the store's error. */
int  world_format(struct world *world, struct device *device, uint64_t seed,
                  const struct world_options *options);
int  world_open(struct world *world, struct store_report *report);
int  world_step(struct world *world);           /* a group or two, some cleaning, checkpoints */
int  world_checkpoint(struct world *world);     /* a whole one */
/* The manager dies before its group's flush; the next one recovers. The disk has lost nothing. */
int  world_kill(struct world *world);
/* Single actions, for tests that choose the order. */
int  world_commit(struct world *world, uint32_t txns, bool ahead);  /* one group, or two */
int  world_checkpoint_begin(struct world *world);
int  world_checkpoint_some(struct world *world, uint32_t pages);    /* ends it when all are home */
int  world_clean(struct world *world, uint32_t pages);
int  world_idle(struct world *world);
/* After a start: the model forgets what was in no log and the store has lost. */
void world_lose(struct world *world);
int  world_close(struct world *world);          /* cleans, then store_close */
void world_abandon(struct world *world);
/* The store's digest; an error if a page cannot be read or a CRC is wrong. */
int  store_digest(struct store *store, uint64_t *digest);
int  store_digest_wide(struct store *store, uint32_t stride, uint64_t *digest);
uint64_t cell_next(uint64_t cell);       /* the word behind this one in a cell */
void page_fill(const uint64_t cells[WORLD_CELLS], uint8_t *bytes);
/* world_prepared.c */
int  world_doubts_renew(struct world *world);   /* what is due, before the next group */
int  world_doubts_step(struct world *world, uint64_t *random);
/* world_chain.c */
int  world_chain_step(struct world *world, uint64_t *random);
int  world_chain_txn(struct world *world, struct store_group *group);
void world_chain_end(struct world *world);
int  world_logged_read(struct world *world, uint64_t object, uint64_t page, uint64_t lsn,
                       uint8_t *bytes);
/* Goes on from commit k of another world on the same device (after recovery). */
int  world_resume(struct world *to, const struct world *from, uint64_t k, struct store *store,
                  struct device *device);

#endif
