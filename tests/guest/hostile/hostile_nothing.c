/*
 * hostile_nothing.c - a program that was given no handle reaches no disk, no name and no other
 * process.
 *
 * Aim     The store manager, its disk and its name are out of reach of a program that the shell
 *         starts; so are the shell, init, and what others do. Its own family is in reach: itself,
 *         what it forks, and what those start. A handle that it is passed opens exactly what the
 *         handle is for.
 * Method  The shell gives this program nothing (hostile_nothing.opts). It makes each call that once
 *         needed no right, from the program itself, from a child of fork, after execve, and from a
 *         program that it starts. At the end the store manager is the same process, and takes a
 *         commit.
 *
 * No kcheck at the end: this program may not ask for it.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <katydid/trace.h>

#include "hostile.h"

static int manager;
static char room[65536];

static int pid_of(const char *name)
{
    static struct kd_process_info p[64];
    long n = CALL(KD_PROCESS_LIST, p, 64);
    for (long i = 0; i < n && i < 64; i++)
        if (strcmp(p[i].name, name) == 0 && p[i].state == 0) return p[i].pid;
    return -1;
}

/* ---- what is tried ---- */

static const char *tried_what;
static long tried(const char *what, long result)
{
    if (result != -EPERM && !tried_what) {
        tried_what = what;
        printf("# %s: %ld\n", what, result);
    }
    return result == -EPERM;
}

static int processes_refused(int pid)
{
    int good = tried("kill", CALL(KD_PROCESS_KILL, pid, 137));
    good &= tried("signal", CALL(SYS_kill, pid, SIGCONT));
    good &= tried("asking by signal 0", CALL(SYS_kill, pid, 0));
    good &= tried("a signal to a thread", CALL(SYS_tgkill, pid, pid, SIGCONT));
    good &= tried("nice", CALL(SYS_setpriority, PRIO_PROCESS, pid, 19));
    good &= tried("limits", CALL(SYS_prlimit64, pid, RLIMIT_AS, 0, room));
    good &= tried("its memory", CALL(KD_LOOK, KD_LOOK_MAP, pid, room, sizeof room));
    good &= tried("its handles", CALL(KD_LOOK, KD_LOOK_HANDLES, pid, room, sizeof room));
    good &= tried("its threads", CALL(KD_LOOK, KD_LOOK_THREADS, pid, room, sizeof room));
    return good;
}

static int system_refused(void)
{
    struct kd_block_info info;
    struct kd_trace_read read = {.events = (void *)room, .count = 8};
    long port = CALL(KD_PORT_CREATE, 0);
    int good = tried("the store's disk", CALL(KD_BLOCK_OPEN, "store", &info));
    good &= tried("the export disk", CALL(KD_BLOCK_OPEN, "export", &info));
    good &= tried("a disk that is not there", CALL(KD_BLOCK_OPEN, "nosuch", &info));
    good &= tried("the store's name", CALL(KD_NAME_SET, "store", port));
    good &= tried("a free name", CALL(KD_NAME_SET, "hostile.free", port));
    good &= tried("to begin a trace", CALL(KD_TRACE, KD_TRACE_START));
    good &= tried("to read a trace", CALL(KD_TRACE, KD_TRACE_READ, 0, &read));
    good &= tried("the kernel's log", CALL(KD_LOOK, KD_LOOK_LOG, 0, room, sizeof room));
    good &= tried("objects", CALL(KD_LOOK, KD_LOOK_OBJECTS, 0, room, sizeof room));
    good &= tried("locks", CALL(KD_LOOK, KD_LOOK_LOCKS, 1, room, sizeof room));
    good &= tried("kcheck", CALL(KD_CHECK, 0));
    good &= tried("halt", CALL(KD_HALT, 0));
    CALL(KD_HANDLE_CLOSE, port);
    return good;
}

/* No number is a handle of the system's, and nobody can make one of another handle. */
static int forging_refused(void)
{
    int good = 1;
    for (int h = -1; h < 260; h++)
        for (unsigned right = KD_RIGHT_DISKS; right <= KD_RIGHT_HALT; right <<= 1)
            good &= is_errno(CALL(KD_HANDLE_COPY, h, right));
    return good;
}

static int refused(void)
{
    return processes_refused(manager) & processes_refused(1) & processes_refused(pid_of("sh"))
           & system_refused() & forging_refused();
}

/* ---- its own family ---- */

static int sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    return pid;
}

static int forked_child_refused(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(refused() ? 7 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 7;
}

static int exec_refused(const char *self)
{
    char path[128];
    int status;
    snprintf(path, sizeof path, "/bin/%s", self);
    pid_t pid = fork();
    if (pid == 0) {
        execl(path, self, "refused", NULL);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 7;
}

/* A forked child may signal its parent and its sibling: they are one program. */
static int family_in_reach(void)
{
    int status, sibling = sleeper();
    signal(SIGUSR1, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0)
        _exit(kill(getppid(), SIGUSR1) == 0 && kill(sibling, SIGKILL) == 0
              && setpriority(PRIO_PROCESS, (id_t)getppid(), 0) == 0 ? 7 : 1);
    bool good = waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
    return waitpid(sibling, &status, 0) == sibling && WTERMSIG(status) == SIGKILL && good;
}

/* "starts": a program that starts a sleeper, says its pid through descriptor 1, and sleeps. */
static int role_starts(const char *self)
{
    int pid = child_start(self, "sleeps", NULL);
    if (write(1, &pid, sizeof pid) != sizeof pid) return 1;
    for (;;) pause();
}

/* Descendants, not only children; the child that was started can do nothing to us. */
static int grandchild_in_reach(const char *self)
{
    int ends[2], grandchild = -1;
    char path[128];
    const char *argv[] = {self, "starts", NULL};
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, -1, -1}};
    snprintf(path, sizeof path, "/bin/%s", self);
    if (pipe(ends)) return 0;
    p.fds[1] = ends[1];
    long child = CALL(KD_PROCESS_CREATE, &p);
    if (read(ends[0], &grandchild, sizeof grandchild) != sizeof grandchild) return 0;
    int good = CALL(KD_LOOK, KD_LOOK_MAP, grandchild, room, sizeof room) > 0 &&
               CALL(SYS_setpriority, PRIO_PROCESS, grandchild, 5) == 0 &&
               CALL(KD_PROCESS_KILL, grandchild, 137) == 0 &&
               CALL(KD_PROCESS_KILL, p.pid, 137) == 0;
    close(ends[0]);
    close(ends[1]);
    CALL(KD_HANDLE_CLOSE, child);
    return good && child_wait(p.pid) == 137;
}

/* A sibling is in reach of the program that has a handle of it with the right, and of no other. */
static int by_handle(const char *self, uint32_t rights, const char *role)
{
    char path[128], number[16];
    const char *sleeps[] = {self, "sleeps", NULL}, *kills[] = {self, role, number, NULL};
    struct kd_process_create p = {.path = path, .argv = sleeps, .fds = {-1, -1, -1}};
    snprintf(path, sizeof path, "/bin/%s", self);
    long handle = CALL(KD_PROCESS_CREATE, &p);
    int victim = p.pid;
    snprintf(number, sizeof number, "%d", victim);
    struct kd_process_create k = {.path = path, .argv = kills, .fds = {-1, -1, -1},
                                  .handle_count = rights != 0, .handles = {(int32_t)handle}};
    long killer = CALL(KD_PROCESS_CREATE, &k);
    int good = handle >= 0 && killer >= 0 && child_wait(k.pid) == 7;
    CALL(KD_PROCESS_KILL, victim, 137);
    good &= child_wait(victim) == (rights ? 99 : 137);
    CALL(KD_HANDLE_CLOSE, handle);
    CALL(KD_HANDLE_CLOSE, killer);
    return good;
}

/* ---- the store goes on ---- */

struct root { long count; };
static ps_container *c;

static int raise_count(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->count++;
    return 0;
}

static int store_answers(void)
{
    c = ps_open("hostile_nothing", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return c && ps_transaction(raise_count, NULL) == 0 && store_pid() == manager;
}

int main(int argc, char **argv)
{
    manager = store_pid();
    if (argc > 1 && strcmp(argv[1], "refused") == 0) return refused() ? 7 : 1;
    if (argc > 1 && strcmp(argv[1], "starts") == 0) return role_starts(argv[0]);
    if (argc > 1 && strcmp(argv[1], "kills") == 0)
        return CALL(KD_PROCESS_KILL, atoi(argv[2]), 99) == 0 ? 7 : 1;
    if (argc > 1 && strcmp(argv[1], "cannot") == 0)
        return CALL(KD_PROCESS_KILL, atoi(argv[2]), 99) == -EPERM && processes_refused(getppid())
                   ? 7
                   : 1;
    if (argc > 1)
        for (;;) pause();
    tap_plan(11);
    tap_ok(processes_refused(1), "init is out of reach");
    tap_ok(system_refused(), "disks, names, traces, what the kernel shows, power: all refused");
    tap_ok(forging_refused(), "no number is a handle of the system's");
    tap_ok(forked_child_refused() && exec_refused(argv[0]), "fork and execve add nothing");
    tap_ok(child_run(argv[0], "refused", NULL) == 7, "nor does a program that it starts have more");
    tap_ok(CALL(KD_LOOK, KD_LOOK_MAP, getpid(), room, sizeof room) > 0
               && CALL(KD_LOOK, KD_LOOK_HANDLES, getpid(), room, sizeof room) > 0
               && family_in_reach(), "itself and what it forked are in reach");
    tap_ok(grandchild_in_reach(argv[0]), "so is what its children start");
    tap_ok(by_handle(argv[0], 0, "cannot"), "what it starts reaches neither it nor a sibling");
    tap_ok(by_handle(argv[0], KD_RIGHT_MANAGE, "kills"), "but a sibling that it has a handle of");
    tap_ok(processes_refused(manager) && store_answers(),
           "the store manager is out of reach, and serves");
    tap_ok(processes_refused(pid_of("sh")), "so is the shell that started this program");
    return tap_failed;
}
