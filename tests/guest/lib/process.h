/* process.h - for guest tests: the processes that a test starts, its own, and the store
 * manager's. */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <stdbool.h>

#include <katydid/call.h>

/* Tests run with the system's handle (scripts/run --allow all): the process about to be made
 * gets it, too. */
void system_pass(struct kd_process_create *p);

/* Starts this program again, in another process, with one or two arguments; pid or -errno. */
int child_start(const char *self, const char *what, const char *argument);

/* Waits for the end of a child: its exit status, or -errno. */
int child_wait(int pid);

/* For a child that does something again and again until it is killed: says that it has done it
 * once, so that nobody has to guess when. */
void child_begun(void);

/* Waits until the child has said so; false: it has not for half a minute. */
bool child_has_begun(int pid);

/* Both: starts a child and waits for its end. */
int child_run(const char *self, const char *what, const char *argument);

enum { CHILD_ENDS_S = 100 }; /* generous: others work on the host, too */

/* Waits `seconds`, then kills. Its status; -ETIMEDOUT: it was killed; -EBUSY: even that did not
 * help. */
int child_wait_for(int pid, int seconds);

/* The store manager that init started; 0: there is none at the moment. */
int store_pid(void);

/* The calling process's row of KD_PROCESS_LIST: what of its limits is in use. */
struct kd_process_info process_self(void);

/* The calling thread is killed by its n-th trace event from now on, where that happens; n = 0: no
 * more. For kernels with tests/bugs/kernel-support.patch; -EINVAL from any other. */
long die_at_event(long n);

#endif
