/*
 * crew.h - seeded jobs on all cores, their tallies, and what is said when one fails.
 *
 * A job is a function of its seed alone. SEED= and N= choose the seeds of every test of a program,
 * ONLY= the test, TEST_TIER=long or LONG=1 the numbers of `make test-long`, TIMES= a multiple of
 * them; a failure prints the line that repeats it with these. A job runs in a process of its own
 * crew, so a crash ends one process and is reported with its seed and step like any other failure.
 */
#ifndef TESTS_DISK_CREW_H
#define TESTS_DISK_CREW_H

#include <stdbool.h>
#include <stdint.h>

#define CREW_TALLIES 24u
#define CREW_LONG    5u     /* times as many jobs in the long tier */
#define CREW_TEST    6u     /* one job of so many in `make test` and `make check` */

typedef void crew_job(uint64_t seed);

/* Called once, with argv[0], before the tests run. */
void crew_begin(const char *program);
/* How many jobs: a sixth of `count`, in `make test-long` CREW_LONG * crew_times() times `count`, N=
 * where that is given. crew_short: in `make check`. */
uint64_t crew_count(uint64_t count);
/* The same for tests of which each job is another case: all of them in each tier, N= where that is
 * given. */
uint64_t crew_all(uint64_t count);
bool crew_long(void);
/* TIMES= of `make test-long` (1): how many times as much it does as fits into an hour. 0 in
 * other tiers. */
uint64_t crew_times(void);
/* N= or SEED= is given: a part of the jobs, which need not meet all that the whole must have
 * met. */
bool crew_part(void);
bool crew_short(void);
/* Runs the job of each seed in [SEED or 1, + count); false if one failed (it has said why). */
bool crew_run(const char *test, uint64_t count, crew_job *job);

/* In a job: counted and summed over all jobs of the last crew_run. */
void crew_add(uint32_t tally, uint64_t amount);
uint64_t crew_sum(uint32_t tally);
/* In a job: where it is. `what` is a static text. */
void crew_at(const char *what, uint64_t step);
_Noreturn void crew_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define require(condition) \
    ((condition) ? (void)0 : crew_fail("%s:%d: %s", __FILE__, __LINE__, #condition))

#endif
