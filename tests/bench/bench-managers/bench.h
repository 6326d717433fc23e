/* bench.h - what the parts of bench-managers share: rows, other processes, bare transactions. */
#ifndef BENCH_MANAGERS_H
#define BENCH_MANAGERS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "manager.h"
#include "pstore.h"
#include "tests/bench/measure.h"

/* A part of the group: a file of this folder, with a line in main.c's table. */
struct part {
    const char *name;
    void (*run)(void);          /* the client: starts its servers, measures, prints rows */
    int (*serve)(int number);   /* what server_start() starts; returns only on error */
};
extern const struct part nested_part, pages_part, replacement_part, windows_part,
    compressed_part, imported_part, stacked_part, optimistic_part,
    congeries_part, collected_part, metadata_part;
extern const struct part rights_part, asked_part, kept_part;

/* main.c */
void row(const char *name, const char *unit, double value, const char *reach);
_Noreturn void fail(const char *what, long error);
uint64_t busy(void);                            /* the counter, less what all CPUs idled: no
                                                 * disk's time */
uint64_t counter_cost(void);                    /* what it costs to read the counter */
/* Another process that runs the part's serve(number): its pid, once `name` is published, which is
 * then in *port (may be NULL) as a handle to call. */
long server_start(const struct part *part, int number, const char *name, int *port);
void server_end(long pid);
/* Bare transactions, without libpstore, in a view of their own; an abort is a failure. */
int view_new(void);
void view_end(int view);
void txn_begin(void);
void txn_undo(void);
/* The mean cost of a first touch of `count` pages (a power of two), each once, in an order in which
 * none is the next of a cluster. */
double touch_all(volatile char *pages, unsigned count, int write);

#endif
