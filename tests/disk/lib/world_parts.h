/*
 * world_parts.h - what model.c, txn.c, world.c and chunks.c offer each other.
 */
#ifndef TESTS_DISK_WORLD_PARTS_H
#define TESTS_DISK_WORLD_PARTS_H

#include "world.h"

#define PENDING (1ull << 63)    /* a page's LSN before its group is sealed: PENDING + commit */

void name_make(uint32_t name, char *out);
void layout_make(uint64_t layout, struct store_layout *out, uint64_t *root);
/* The digest of what a start finds after a power cut: nothing of what is in no log. */
uint64_t model_digest(const struct model *model);
bool model_unlogged(const struct model_container *c);
uint64_t page_digest(uint64_t object, uint32_t page, const uint8_t *bytes, uint64_t lsn);
/* Fills transaction number model.commits of kind world->want; the model changes as if it
 * succeeds. */
int txn_make(struct world *world, struct store_group *group, uint64_t *random);
/* Fills one that the caller will cancel; an error if the store takes what it must refuse. */
int txn_doomed(struct world *world, struct store_group *group, uint64_t *random);
/* A page's newest version goes home. */
int world_clean_one(struct world *world, uint64_t object, uint64_t page, uint64_t lsn);
/* A sweep goes on by a few pages; some time after it a checkpoint begins. */
int world_sweep(struct world *world, uint64_t *random);
/* A checkpoint of the whole store begins, or a sweep. */
int world_checkpoint_due(struct world *world, uint64_t *random);
/* Checkpoints until a group that found no room has some: the third may be the first that gives up
 * what was held; what is in doubt is written again, and the ring's end may be skipped. */
#define WORLD_TRIES 6
/* The world's hold on the log begins, moves or ends. */
int world_hold_step(struct world *world, bool move);
/* A group is durable now that was sealed after all that is acknowledged: it bears witness. */
void world_prove(struct world *world);

/* world_prepared.c: of what is in doubt. Is the container in it? */
uint64_t doubts_digest(struct store *store);
uint64_t model_doubts_digest(const struct model *model);
bool model_doubted(const struct model *model, uint32_t container);

#endif
