/* process.c - processes of a test. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <katydid/trace.h>

#include "process.h"
#include "system.h"

enum { ROWS = 256, WAIT_STEP_MS = 10, STATUS_OF_KILL = 137, CHILD_BEGINS_S = 30 };
enum { KD_TRACE_DIE = 1000 };   /* of KD_TRACE, as in tests/bugs/kernel-support.patch */

void system_pass(struct kd_process_create *p)
{
    p->envp = (const char *const *)environ; /* with the tier */
    long copy = kd_call3(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, KD_RIGHT_LOOK, 0);
    if (copy < 0)
        return;
    kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
    p->handles[p->handle_count++] = KD_SYSTEM_HANDLE;
}

int child_start(const char *self, const char *what, const char *argument)
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

int child_wait(int pid)
{
    int status = 0;
    long result = pid < 0 ? pid : kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return result < 0 ? (int)result : status;
}

/* A file whose name has the pid of who has begun. */
static const char *begun_file(int pid)
{
    static char path[32];
    snprintf(path, sizeof path, "/tmp/begun.%d", pid);
    return path;
}

void child_begun(void)
{
    static bool told;
    if (!told)
        close(open(begun_file(getpid()), O_CREAT | O_WRONLY, 0600));
    told = true;
}

bool child_has_begun(int pid)
{
    double start = clock_s(CLOCK_MONOTONIC);
    while (unlink(begun_file(pid)) != 0) {
        if (clock_s(CLOCK_MONOTONIC) - start > CHILD_BEGINS_S)
            return false;
        pause_ms(1);
    }
    return true;
}

int child_run(const char *self, const char *what, const char *argument)
{
    return child_wait(child_start(self, what, argument));
}

int child_wait_for(int pid, int seconds)
{
    int status = 0;
    if (pid < 0)
        return pid;
    for (int killed = 0; killed < 2; killed++) {
        for (int i = 0; i < (killed ? CHILD_ENDS_S : seconds) * 1000 / WAIT_STEP_MS; i++) {
            long r = kd_call3(KD_PROCESS_WAIT, pid, (long)&status, KD_WAIT_NOHANG);
            if (r != 0)
                return r < 0 ? (int)r : killed ? -ETIMEDOUT : status;
            pause_ms(WAIT_STEP_MS);
        }
        kd_call3(KD_PROCESS_KILL, pid, STATUS_OF_KILL, 0);
    }
    return -EBUSY;
}

/* The row of KD_PROCESS_LIST that `wanted` accepts, or one of zeros. One thread at a time: its
 * memory is large. */
static struct kd_process_info row_of(bool (*wanted)(const struct kd_process_info *))
{
    static struct kd_process_info rows[ROWS];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, ROWS, 0);
    for (long i = 0; i < n && i < ROWS; i++)
        if (wanted(&rows[i]))
            return rows[i];
    return (struct kd_process_info){0};
}

static bool is_store(const struct kd_process_info *p)
{
    return p->parent == 1 && strcmp(p->name, "store") == 0;
}

static bool is_self(const struct kd_process_info *p) { return p->pid == getpid(); }

int store_pid(void) { return row_of(is_store).pid; }

struct kd_process_info process_self(void) { return row_of(is_self); }

long die_at_event(long n) { return kd_call3(KD_TRACE, KD_TRACE_DIE, n, 0); }
