/*
 * role_rig.h - two machines with a copy of a store each, a witness, links and a clock, for
 * test_role.c: role.c and the disk library as they are, frames that take their time.
 */
#ifndef TESTS_DISK_ROLE_RIG_H
#define TESTS_DISK_ROLE_RIG_H

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
#include "user/store/role.h"

#define PAGES    8u
#define STEP_US  500u
#define WAY_LEAST_US 50u

struct machine {
    struct power disk;
    struct role role;
    bool up;
    uint64_t starts_us;         /* off: it starts again then */
    uint32_t head;              /* the last commit that its store has, or will have */
    uint32_t value[PAGES];      /* as applied */
    struct { struct store_group *group; uint32_t commit; store_lsn_t end; } flying[ROLE_GROUPS];
    uint32_t flying_count;
    bool checkpoints;
    uint64_t object;
};
extern struct machine machines[2];

struct link { bool up, silent; uint32_t generation; uint64_t back_us, last_us; };
extern struct link links[3];                    /* 0: of the two; 1, 2: with the witness */

extern struct role_record record;               /* the witness's */
extern bool witness_up;
extern bool faults;                             /* there are, at any time */
extern uint64_t now_us;
extern uint64_t way_us;                         /* that a message takes, at least */
extern uint32_t commits;
extern uint64_t opened_count, copied_count, acked_count;

enum { ACKED, OPENED, COPIED, NAMED, CRASHES };

void machines_begin(uint64_t seed);             /* a pair, whose home is the first */
void machines_end(void);
void time_passes(uint64_t us);
bool pair_stands(void);
uint64_t chance(uint64_t limit);                /* a random number below it */
void machine_starts(uint32_t i);
void machine_commits(struct machine *m);
void commits_land(struct machine *m);           /* those that are sure */
/* link_breaks: one of the two may notice it much later, or by the other's silence only. */
void link_breaks(uint32_t link);
void mends(bool all);                           /* what is broken, or of that what is due */

#endif
