/*
 * sim.h - threads that take turns, and a clock that moves only when all of them wait.
 *
 * Sources that use POSIX threads are compiled with it (scripts/build.mk: the store manager's, for
 * the tests of folder time/): their threads then are coroutines of one thread, run in a fixed
 * order, and the same program gives the same schedule and times everywhere. A thread gives its turn
 * away only where it waits: for a condition, a mutex, a time, or sim_wait().
 */
#ifndef TESTS_DISK_TURNS_SIM_H
#define TESTS_DISK_TURNS_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define SIM_NEVER INT64_MAX

extern int64_t sim_us;              /* the time */

void sim_start(void *(*body)(void *), void *argument);
/* sim_run runs all until `end` is true or nobody can go on: then false. */
bool sim_run(const bool *end);
/* sim_wait waits for sim_wake(what) or that time; true: it was the time. */
bool sim_wait(const void *what, int64_t until);
void sim_wake(const void *what, bool all);
void sim_sleep(int64_t us);

/* ---- POSIX threads by these; a mutex's first byte says whether it is taken ---- */

int sim_lock(pthread_mutex_t *m);
int sim_unlock(pthread_mutex_t *m);
int sim_cond_until(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
int sim_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int sim_signal(pthread_cond_t *c);
int sim_broadcast(pthread_cond_t *c);
int sim_create(pthread_t *thread, const pthread_attr_t *a, void *(*body)(void *), void *x);
pthread_t sim_self(void);
int sim_detach(pthread_t thread);
int sim_time(int clock, struct timespec *now);
int sim_nap(const struct timespec *time, struct timespec *left);

#define pthread_mutex_lock     sim_lock
#define pthread_mutex_unlock   sim_unlock
#define pthread_cond_wait      sim_cond_wait
#define pthread_cond_timedwait sim_cond_until
#define pthread_cond_signal    sim_signal
#define pthread_cond_broadcast sim_broadcast
#define pthread_create         sim_create
#define pthread_self           sim_self
#define pthread_detach         sim_detach
#define clock_gettime          sim_time
#define nanosleep              sim_nap

#endif
