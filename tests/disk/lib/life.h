/*
 * life.h - the recorded life of a world, and all the crash states of it.
 *
 * A life is formatted, opened, worked on, closed or only stopped, opened again, and so on; sizes
 * and habits come from the seed: rings from two groups on, every size of extent, containers whose
 * pages lie far apart, each encoder, groups issued ahead, disks that held another store before.
 */
#ifndef TESTS_DISK_LIFE_H
#define TESTS_DISK_LIFE_H

#include "enumerate.h"

/* Seeds from here on: the same lives, in which containers are of each durability. */
#define LIFE_FORMS (1ull << 32)
#define LIFE_DOUBTS 700000u             /* in which transactions are prepared */
#define LIFE_CHUNKS (1ull << 33)        /* or-ed: checkpoints are by chunks, mostly */
#define LIFE_BULK 500000u               /* from this seed on they load pages past the log */
struct world_options life_options(uint64_t seed);
/* The disks that a life of several is recorded on; how many. */
uint32_t life_disks(uint64_t seed, uint64_t bytes[SPAN_DISKS_MAX]);
bool life_before(uint64_t seed);        /* does its disk hold an earlier store? */
/* Records one life on `device`, whose image may hold anything. 0, or the error of a step that
 * should have worked; a disk or log that is full is none. */
int  life_record(struct world *world, struct device *device, uint64_t seed, uint32_t steps);
/* The same over several disks, which were blank before. */
void life_run_disks(uint64_t seed, uint32_t steps, const struct enumerate_options *options,
                    struct enumerate_result *result);
/* Records the life and runs its crash states; a step that fails is a failure of method "work". */
void life_run(uint64_t seed, uint32_t steps, const struct enumerate_options *options,
              struct enumerate_result *result);

#endif
