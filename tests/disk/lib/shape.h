/*
 * shape.h - sizes of stores that make trouble: rings of few groups, groups of two blocks, every
 * size of extent, checkpoints at every turn. Ordinary sizes hide what happens at the edges.
 */
#ifndef TESTS_DISK_SHAPE_H
#define TESTS_DISK_SHAPE_H

#include "world.h"

struct world_options shape_of(uint64_t seed);
/* The smallest disk, in whole extents, on which a store of this shape can be made. */
uint64_t shape_least_disk(const struct world_options *shape);

#endif
