/*
 * bench.h - what the parts of bench-txn share: the counter, rows, bare transactions, the manager.
 */
#ifndef BENCH_TXN_H
#define BENCH_TXN_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t most_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* main.c */
void row(const char *name, const char *unit, double value, const char *reach);
_Noreturn void fail(const char *what, long error);
uint64_t counter_cost(void);
uint64_t median(uint64_t *values, int n);            /* sorts them */
long self_start(const char *command, const char *number); /* another bench-txn; its pid */
int self_wait(long pid);                             /* its status */
void self_end(long pid);                             /* one that works until it is killed */
struct kd_system_info system_now(void);
struct kd_view_stats stats_now(void);

/* Bare transactions, without libpstore, in the view that was entered last. An abort is a
 * failure. */
int view_new(void);
void view_end(int view);
struct kd_begin txn_how(unsigned mode);
void txn_begin(unsigned mode);
void txn_end(void);
void txn_undo(void);
/* Touches `count` pages, `step` apart; instructions for all of them. */
uint64_t touch(volatile char *pages, unsigned count, unsigned step, int write);

/* manager.c: another process that serves one object of OBJECT_PAGES pages. */
enum { OBJECT_PAGES = 1280 };
enum {
    MANAGER_RESIDENT = 1, /* all its pages are supplied beforehand */
    MANAGER_PREFETCH = 2, /* with OBJECT_ASKS: it supplies 4 pages with rights for who asked */
};
enum { OBJECT_ASKS = 1 << 30 }; /* with an object's flags: pages come without rights */
struct heard { uint64_t pages, locks, commits, conflicts, others; };
int manager_main(void);
void manager_start(void);
void manager_stop(void);
void manager_null(void);                             /* an empty call */
void manager_page_in(const void *page);              /* a call with a copy of the page */
/* A call that makes the object of one page at the manager's hands this process's, too; and back. */
void manager_page_out(void);
void manager_page_back(void);
/* A new one, in place of the last. flags: KD_OBJECT_*; provide: pages supplied for a request, 0: as
 * many as it asks for; cluster: KD_POLICY_CLUSTER. */
volatile char *manager_object(unsigned flags, unsigned how, unsigned provide, unsigned cluster);
struct heard manager_heard(void);                    /* messages since the last call */

/* the groups */
void group_begin(void);                              /* begin.c */
double begin_cost(unsigned mode, int end);  /* of begin and end together, or of the begin alone */
int writers_main(void);
void group_tree(void);                               /* tree.c */
void group_cached(void);
void group_items(void);                              /* items.c */
void group_lazy(void);                             /* cached.c */
void group_cricket(void);                            /* cricket.c */
void group_tables(void);                             /* tables.c */
int tables_main(unsigned shape);
void group_replace(uint64_t pages, uint64_t updates); /* replace.c */
void group_clients(unsigned ms);                     /* clients.c */
int client_main(unsigned number);
void group_crossover(void);                          /* crossover.c */

#endif
