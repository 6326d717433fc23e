/*
 * time.h - the store manager in virtual time, with its disk and its clients.
 *
 * The manager's files run as coroutines (sim.h), over a kernel of arrays and a disk that serves one
 * request after the other, at fixed times; computing takes none. A case is a life of a machine:
 * simulate() in a child process.
 */
#ifndef TESTS_DISK_TURNS_TIME_H
#define TESTS_DISK_TURNS_TIME_H

#include "internal.h"
#include "turns/waits.h"

enum {
    DISK_BYTES = 512 << 20, CLIENTS_MAX = 64,
    REQUEST_US = 100, PAGE_US = 10, FLUSH_US = 1000, SLOW_READ_US = 1000000, THINK_US = 50,
};
enum { COPY_DISK = 77 };                /* a disk of its own */

#define CHECK(e) \
    ((e) ? (void)0 : (dprintf(1, "# %s, line %d; log: %s\n", #e, __LINE__, log_line), _exit(1)))

struct requests { uint64_t writes, flushes; bool flush_fails; };  /* of the disk */
extern struct requests requests;

extern uint32_t laziness;               /* kd_commit.flags of all commits */
extern uint64_t homes_passed_over;
extern bool starving;                   /* no memory for any checkpoint */
extern bool copying;                    /* reads take their turn, too */

struct latency { int64_t sum, max; uint64_t count; };
extern struct latency calm, beside_checkpoint;
extern unsigned clients;
extern bool over;                       /* the life is */
extern bool checkpoint_runs, by_chunks;
extern uint64_t sweeps;                 /* checkpoints that were by chunks */

/* commit: how long client i waited. */
int64_t commit(unsigned i, uint64_t first, uint64_t count, uint64_t value);
/* checkpoints_main: many dirty pages, and a checkpoint that brings them home: again and again. */
void *checkpoints_main(void *unused);
/* slow_main: pages are wanted that take a second each. */
void *slow_main(void *unused);
/* simulate: so many clients commit so often; beside them `extra`, unless it is NULL. */
void simulate(unsigned how_many, unsigned commits, void *(*extra)(void *));

#endif
