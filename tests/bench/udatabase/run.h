/* run.h - the query files run, mapped and by the buffer manager: alone, and on a loaded machine. */
#ifndef RUN_H
#define RUN_H

#include "data.h"

/* main.c */
_Noreturn void fail(const char *what, long error);
void container_open(const char *kind);
struct data *data_here(void);           /* in a transaction */
int disk_open(void);                    /* the raw disk */

/* run.c: of the whole machine but the sum, and `own`: CPU time of this process in ns */
struct cost { uint64_t cpu, elapsed, reads, bytes, sum, own; };
/* The query file of that number, on a structure of which the buffer manager holds so many units. */
void run_open(unsigned number, unsigned frames, unsigned percent);
struct cost run_buffered(void);         /* reads, bytes: those of the buffer manager */
struct cost run_mapped(void);
/* A row of the paper's Table 1: both, one after the other. */
void run(unsigned number, unsigned frames, unsigned percent);

/* loaded.c: a trial of the paper's Table 2: both at once, among programs that are busy. */
void loaded(unsigned number, unsigned frames);

#endif
