/* pstore_test.h - what the guest tests of libpstore share: child processes, one-line transactions. */
#ifndef PSTORE_TEST_H
#define PSTORE_TEST_H

#include <katydid/call.h>
#include <pstore.h>
#include <string.h>

#include "system_handle.h"
#include "tap.h"

/* Starts this program again, in another process, with one or two arguments; pid or -errno. */
static inline int child_start(const char *self, const char *what, const char *argument)
{
    char path[128];
    const char *name = strrchr(self, '/'), *argv[] = {self, what, argument, NULL};
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, -1, -1}};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    system_pass(&p);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return (int)handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}

/* Its exit status, or -errno. */
static inline int child_wait(int pid)
{
    int status = 0;
    long result = pid < 0 ? pid : kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return result < 0 ? (int)result : status;
}

static inline int child_run(const char *self, const char *what, const char *argument)
{
    return child_wait(child_start(self, what, argument));
}

/* ---- tests/system/slow-reads.py: a read of the disk that begins after disk_slow() returns does not end
 * before disk_slow_end() */

static inline void disk_slow(void)
{
    puts("ready");
    fflush(stdout);
    (void)!getchar();
}
static inline void disk_slow_end(void)
{
    puts("committed");
    fflush(stdout);
}

enum { BESIDE = 20 };

/* Commits, until so many in a row lie between two changes of *reads, or that has come to `last`; how many
 * then did. */
static inline int commits_beside(int (*change)(void *), volatile int *reads, int last, int *bad)
{
    int beside = 0;
    for (int now = *reads; beside < BESIDE && now < last; beside++) {
        *bad += ps_transaction(change, NULL) != 0;
        if (*reads != now) beside = -1;
        now = *reads;
    }
    return beside;
}

static inline int is(long got, long wanted, const char *what)
{
    if (got != wanted)
        printf("# got %ld, wanted %ld\n", got, wanted);
    return tap_ok(got == wanted, "%s", what);
}

#endif
