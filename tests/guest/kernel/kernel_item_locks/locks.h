/* locks.h - what the parts of kernel_item_locks share. */
#ifndef KERNEL_ITEM_LOCKS_H
#define KERNEL_ITEM_LOCKS_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "own_manager.h"

enum { PAGES = 1024, ITEMS = 3, ACTORS = 4 };
static const struct kd_begin plain = {.mode = KD_SERIALISABLE, .timeout_ms = 8000};
extern const char *self;                /* the program's name, for children */
extern uint64_t names[ITEMS];           /* of items; 0 and 2 share an entry */

/* ---- user.c: the way without a call, as a library has it ---- */

/* The table of the object at `at`, as the calling thread sees it; 0 or -errno. */
long table_map(uint64_t at);
extern struct kd_item_table table;      /* of the object at `base`; `view` is the last mapper's */
struct kd_item_entry *entry_of(uint64_t name);

/* The running transaction wants a mode, perhaps with KD_ITEM_NOW: 0 or -errno. BARGES: it does not
 * look whether somebody waits; CALLS: it leaves everything to the kernel. */
enum { BARGES = 32, CALLS = 64 };
long item_lock(uint64_t name, unsigned how);

/* It leaves an item before its end. False: it was asked for twice, and is kept. */
bool item_leave(uint64_t name);

/* It is over: its bits are cleared. */
void items_over(void);

/* Bits of views without a transaction, in the whole table. */
long stale_bits(void);
long all_bits(void);                    /* of all views */

/* ---- actors: threads with a transaction each, which do what main says ---- */

enum { WAITS = 1 };                     /* a result: it waits */
/* Actor n does it: 0 or -errno; WAITS. */
long opens(int n, struct kd_begin how);
long locks(int n, uint64_t name, unsigned how);
long leaves(int n, uint64_t name);
long commits(int n);
long aborts(int n);
long loads(int n, uint64_t at);
long stores(int n, uint64_t at);
long locks_all(int n, uint64_t at, unsigned how);   /* a container */
void begins_to_lock(int n, uint64_t name, unsigned how); /* and is left alone */
uint64_t *bit_of(int n, uint64_t name, unsigned mode, uint64_t *bit); /* where its bit lies */

/* What became of one that waited: 0 or -errno, when it has come to its end; as it is now, perhaps
 * WAITS; the same after a moment. */
long ended(int n);
long now_is(int n);
long settles(int n);                    /* when it is done, or stands in a queue: WAITS */
long still(int n);

/* What KD_VIEW_LIST says of an actor. */
struct kd_view_info shown(int n);

/* ---- the tests ---- */
void modes(void);                       /* steps.c */
void queues(void);
void ends_and_orders(void);
void races(void);
void deadlocks(void);
void readers(void);
void tables(void);                      /* tables.c */
void spoilt(void);
void deaths(void);
void end_of_the_object(void);           /* nothing works afterwards */
void scenarios(long rounds);            /* scenarios.c */

bool other_pages(struct kd_message *m); /* steps.c, for start_manager(): of a second object */

/* Children, by argv[1]: their exit status. */
int reader(void);                       /* steps.c */
int holder(void);                       /* tables.c */
int waiter(void);
int wild(void);

#endif
