/* parts.h - what the parts of kernel_stack share. */
#ifndef PARTS_H
#define PARTS_H

#include "stacked_manager.h"

#include <sched.h>
#include <stdio.h>

enum {
    PAGES = 128, Q_PAGE = 120,          /* of the base; from Q on clients write themselves */
    UPPER_PAGES = 32, UPPER_AT = 16,    /* of the manager over it; there the topmost's begin */
    TOP_PAGES = 8,
    SIDE_AT = 40, SIDE_PAGES = 8,       /* of more managers over the base: from there on */
};
/* A base; two managers, one over the other; one with a single thread. */
extern struct stacked upper, top, single;

/* Word 3 of a page of a stacked container becomes `value`; of Q `q`, unless 0. */
struct change { uint64_t base, page, value, q; };
int write_both(void *change);
int commit_both(uint64_t base, uint64_t page, uint64_t value, uint64_t q);

/* Both words, as a transaction reads them. */
struct look { uint64_t base, page, value, q; };
int look_both(void *look);

/* Is that what a new transaction reads? And does kcheck find all well? */
bool is_now(uint64_t base, uint64_t page, uint64_t value, uint64_t q);

/* Word i of page p as the base has it at home. */
uint64_t at_home(uint64_t page, unsigned i);

/* The base looks at batches of helpers. False: it shall serve the message itself. */
bool batches_look(struct kd_message *m);

void part_rules(void);                  /* rules.c */
void part_own(void);
void part_supply(void);
void part_deadlocks(void);              /* waits.c */
void part_stalls(void);
void part_deaths(void);                 /* ends.c */
void part_base_dies(void);
enum { RULES = 13, OWN = 7, SUPPLY = 2, DEADLOCKS = 6, STALLS = 5, DEATHS = 13, BASE_DIES = 4 };

#endif
