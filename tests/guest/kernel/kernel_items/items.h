/* items.h - what the parts of kernel_items share. */
#ifndef KERNEL_ITEMS_H
#define KERNEL_ITEMS_H

#include "own_manager.h"

enum { PAGES = 1 << 16, HOME_PAGES = 128, GREEDY_PAGE = 50 };

extern const char *self;                /* the program's name, for children */

/* The running transaction means its store to these bytes. */
long declare(volatile void *at, uint64_t bytes);

/* A transaction in the view of *c, which stays open; 0 or -errno. `how`: KD_SERIALISABLE, say. */
long begin(struct context *c, unsigned how);

/* The transaction of *c commits: 0 or -errno. */
long commit(struct context *c);

/* It is undone. */
void undo(struct context *c);

/* In the running transaction: word i of a page becomes `value`, declared; or so much is added. */
void put(uint64_t page, unsigned i, uint64_t value);
void add(uint64_t page, unsigned i, uint64_t more);

/* Word i of a page, as a new transaction sees it; and as it is home. */
uint64_t seen(uint64_t page, unsigned i);
uint64_t at_home(uint64_t page, unsigned i);

void pages_of_two(void);                /* pages.c: two writers of a page, snapshots, deaths */
void memory_at_its_end(void);
void end_of_the_object(void);           /* log.c; nothing works afterwards */
void order_of_log(void);                /* log.c: what is told, and published in which order */
void many_writers(long rounds);         /* load.c */
bool gathers(struct kd_message *m);     /* log.c: for start_manager() */

#endif
