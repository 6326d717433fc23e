/*
 * spare_rig.h - a home and its copy, on two disks, each of which may lose what it has not flushed:
 * for test_spare.c and test_spare_backup.c. A world works at the home; behind each write of its
 * disk the groups that are written go to the copy.
 */
#ifndef TESTS_DISK_SPARE_RIG_H
#define TESTS_DISK_SPARE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "power.h"
#include "store.h"
#include "world.h"

extern struct power sides[2];
extern struct world worlds[2], *world;  /* that works at the home */
extern uint32_t home;                   /* the side that is */
extern struct store_spare *spare;       /* of the other; NULL: it is off, or out */
extern uint64_t random_seed;
extern bool cut_off;                    /* the link is */
extern bool paused;                     /* it applies nothing */
extern bool marks_copy;                 /* the copy's record has marks, for the enumerator */

enum { STATES, SECOND, TAKEN, CHECKPOINTS, TAKE_OVERS, JOINS, COPIES, ALONE, CUT, BACKUPS, VOID };

/* pair_begin: lives with containers in no log, with transactions in doubt, with checkpoints by
 * chunks, too. */
void pair_begin(uint64_t seed);
void pair_end(void);
void work(uint32_t steps);
uint64_t below(uint64_t limit);         /* a random number */
struct device *copy_device(void);
void home_is(uint32_t side);
struct store_open_options options_of(void);
/* feed_begin: where the logs part, in small steps. */
int  feed_begin(struct store_feed *f, const struct store_epochs *copy, store_lsn_t end);
int  join(void);                        /* 0; -ESTALE: not by the log */
void copy_all(void);                    /* the home's disk, bit by bit, as backup.h would */
/* commit_of: the commit of the world's, from `acked` on, whose state the store has. */
uint64_t commit_of(struct store *store, uint64_t acked, const char *whose);

#endif
