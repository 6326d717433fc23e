/*
 * groups.c - groups of processes, sessions, signals to groups, waiting for groups; and what futexes
 * and signals refuse. Prints the same on Linux and on Katydid.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 99999999 };
/* musl has no header for these. */
enum { FUTEX_WAKE = 1, FUTEX_WAIT_BITSET_PRIVATE = 9 | 128, FUTEX_WAKE_BITSET = 10,
       FUTEX_WAKE_BITSET_PRIVATE = 10 | 128, FUTEX_CLOCK_REALTIME = 256 };

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static long error_of(long result) { return result < 0 ? errno : 0; }

static const char *self;
static int ready[2], go[2]; /* children write to the one, and wait until the other is closed */

/* A child that says that it is there and waits; in a group of its own, or in `group`; 0: its
 * parent's. */
static pid_t child(int group, int execs)
{
    char c = 0;
    if (pipe(ready))
        exit(9);
    pid_t pid = fork();
    if (pid == 0) {
        if (group)
            setpgid(0, group < 0 ? 0 : group);
        if (execs) {
            dup2(ready[1], 1), dup2(go[0], 0);
            close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
            execl(self, self, "waits", (char *)NULL);
        }
        close(go[1]);
        if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 0)
            _exit(8);
        _exit(0);
    }
    if (read(ready[0], &c, 1) != 1)
        exit(9);
    close(ready[0]), close(ready[1]);
    return pid;
}

static void leaders_stay(void)
{
    say("a session of its own", setsid() == getpid());
    say("leads it", getsid(0) == getpid() && getpgrp() == getpid());
    say("not twice", error_of(setsid()));
    say("its group stays", error_of(setpgid(0, 0)));
    say("nobody there", error_of(getpgid(NOBODY)));
    say("no session there", error_of(getsid(NOBODY)));
}

static void children_move(void)
{
    pid_t a = child(0, 0), b = child(-1, 0), c = child(0, 1);
    say("a child is in the group", getpgid(a) == getpgrp() && getsid(a) == getsid(0));
    say("or in its own", getpgid(b) == b && getsid(b) == getsid(0));
    say("a parent moves it", error_of(setpgid(a, b)));
    say("moved", getpgid(a) == b);
    say("not to nowhere", error_of(setpgid(a, NOBODY)));
    say("nor below", error_of(setpgid(a, -1)));
    say("nor what is not its child", error_of(setpgid(1, b)));
    say("nor after exec", error_of(setpgid(c, c)));
    kill(c, SIGKILL);
    say("ended", waitpid(0, NULL, 0) == c);
    say("none in the group", error_of(waitpid(0, NULL, 0)));
    say("a signal to a group", error_of(kill(-b, SIGTERM)));
    int status = 0;
    say("both end", waitpid(-b, &status, 0) > 0 && WTERMSIG(status) == SIGTERM
                        && waitpid(-b, &status, 0) > 0 && WTERMSIG(status) == SIGTERM);
    say("nobody is left", error_of(waitpid(-b, NULL, 0)));
    say("to signal", error_of(kill(-b, 0)));
}

static volatile sig_atomic_t seen;
static void count(int number) { seen += number; }

static void groups_hear(void)
{
    int status = 0;
    pid_t other = child(-1, 0);
    signal(SIGUSR1, count);
    pid_t pid = fork();
    if (pid == 0) {
        while (!seen)
            getppid();
        _exit(seen == SIGUSR1);
    }
    seen = 0;
    say("to the own group", error_of(kill(0, SIGUSR1)));
    say("heard itself", seen == SIGUSR1);
    say("a child heard", waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 1);
    say("not another group", waitpid(other, NULL, WNOHANG) == 0);
    close(go[1]);
    say("which goes on", waitpid(other, &status, 0) == other && status == 0);
    signal(SIGTSTP, count);
    seen = 0;
    raise(SIGTSTP);
    say("a handled stop", seen == SIGTSTP);
}

static void nobody_waits(void)
{
    struct sigaction a = {.sa_handler = SIG_IGN};
    sigaction(SIGCHLD, &a, NULL);
    if (fork() == 0)
        _exit(3);
    say("ignored children", error_of(wait(NULL)));
    a.sa_handler = count;
    a.sa_flags = SA_NOCLDWAIT | SA_RESTART;
    sigaction(SIGCHLD, &a, NULL);
    if (fork() == 0)
        _exit(3);
    say("unwanted children", error_of(wait(NULL)));
    signal(SIGCHLD, SIG_DFL);
}

static void numbers_are_checked(void)
{
    struct timespec t = {0, 1};
    char c;
    int word = 0;
    say("no thread 0", error_of(syscall(SYS_tgkill, getpid(), 0, 0)));
    say("nor -1", error_of(syscall(SYS_tkill, -1, 0)));
    say("one's own", error_of(syscall(SYS_tgkill, getpid(), getpid(), 0)));
    say("a clock of work",
        error_of(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &t, 0)));
    say("random how", error_of(syscall(SYS_getrandom, &c, 1, 64)));
    say("unknown futex", error_of(syscall(SYS_futex, &word, 0x400, 0, 0, 0, 0)));
    say("clock of a wake",
        error_of(syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, 0, 0, 0)));
    say("no bits", error_of(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, 0, 0, 0)));
}

static int word;
static volatile int begun, woken[3];
static void *waits(void *arg)
{
    long bits = (long)arg;
    begun++;
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, bits);
    woken[bits] = 1;
    return NULL;
}

static long wake(long bits)
{
    return syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, bits);
}

static void bits_choose(void)
{
    pthread_t a, b;
    long others = 0;
    pthread_create(&a, NULL, waits, (void *)1);
    while (!begun)
        sched_yield();
    for (int i = 0; i < 3000; i++) { /* so that it very probably waits first */
        sched_yield();
        others += wake(4);
    }
    say("nobody has these bits", others);
    pthread_create(&b, NULL, waits, (void *)2);
    while (wake(2) != 1)
        sched_yield();
    pthread_join(b, NULL);
    say("the right one", woken[2] && !woken[1]);
    while (wake(1) != 1)
        sched_yield();
    pthread_join(a, NULL);
}

int main(int argc, char **argv)
{
    char c = 0;
    int status = 9;
    if (argc > 1)
        return write(1, &c, 1) == 1 && read(0, &c, 1) == 0 ? 0 : 8;
    self = argv[0];
    if (pipe(go))
        return 9;
    pid_t pid = fork();
    if (pid > 0)
        close(go[0]), close(go[1]);
    if (pid > 0)
        return waitpid(pid, &status, 0) == pid ? status : 9;
    leaders_stay();
    children_move();
    groups_hear();
    nobody_waits();
    numbers_are_checked();
    bits_choose();
    exit(0);
}
