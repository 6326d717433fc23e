/*
 * bench.h - what the parts of bench-dali share: the tuples, what is done to them, rows.
 */
#ifndef BENCH_DALI_H
#define BENCH_DALI_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"

enum { TUPLES = 100000 };
struct tuple { uint64_t key, value; };

/* main.c */
void row(const char *name, const char *unit, double value, const char *reach);
_Noreturn void fail(const char *what, long error);
uint64_t busy(void);            /* the counter without idle CPUs */
struct kd_system_info system_now(void);
/* The median of `rounds` transactions, each to its end; they return `wanted`. */
double median_cost(int (*fn)(void *), void *arg, int rounds, int wanted);
double updates(unsigned each);  /* an update, so many in a transaction; settled */

/* tuples.c */
void tuples_open(void);                                     /* or fails */
void tuples_load(unsigned each, int items);                 /* anew, so many in a transaction */
void tuples_protect(int protection);                        /* PS_PROTECT_* */
void tuples_touch(void);                                    /* all pages are at hand behind it */
/* A checkpoint, and the log has all pages of tuples since: none is logged whole for a while, and no
 * checkpoint comes between. */
void tuples_settle(void);
struct tuple *tuple_of(uint64_t key);                       /* by the hash index, without a lock */
uint64_t key_draw(void);
/* `count` operations, of which every `one_in`-th is an update; 0: none. */
struct work { unsigned count, one_in; };
int operations(void *work);                                 /* for ps_transaction */

/* parts.c */
void group_parts(void);

/* indexes.c */
void group_indexes(void);

/* layer.c */
void group_layer(void);

ps_container *tuples_container(void);

/* protect.c */
void group_protection(void);

/* sums.c */
void group_sums(void);

/* codewords.c */
void group_codewords(void);

/* paper.c */
void group_paper(unsigned ms);
void group_latency(unsigned ms);
int server_main(void);

#endif
