/*
 * refused.c - which children are waited for, and what futexes, signals and descriptors refuse.
 * Prints the same on Linux and on Katydid.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 99999999 };
/* musl has no header for these. */
enum { FUTEX_WAKE = 1, FUTEX_CMP_REQUEUE = 4, FUTEX_WAIT_BITSET_PRIVATE = 9 | 128,
       FUTEX_WAKE_BITSET = 10,
       FUTEX_WAKE_BITSET_PRIVATE = 10 | 128, FUTEX_CLOCK_REALTIME = 256 };

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static long error_of(long result) { return result < 0 ? errno : 0; }

static volatile sig_atomic_t seen;
static void count(int number) { seen += number; }

static void children_are_found(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    say("a child of fork", waitpid(0, &status, 0) == pid && WEXITSTATUS(status) == 7);
    say("no other", error_of(waitpid(0, NULL, 0)));
    say("nor in a group", error_of(waitpid(-NOBODY, NULL, 0)));
    signal(SIGTSTP, count);
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
    int word = 0, other = 0;
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
    say("another word to requeue",
        error_of(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 5)));
    say("this one", syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 0));
}

/* With one number left neither end of a pipe is made, and nothing is left of it. */
static void descriptors_end(void)
{
    int ends[2], next = dup(0);
    struct rlimit limit, before;
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    say("half a pipe", error_of(pipe(ends)));
    say("a number above the limit", error_of(dup2(0, next + 1)));
    say("the last number", dup(0) - next);
    say("none is left", error_of(dup(0)));
    close(next);
    setrlimit(RLIMIT_NOFILE, &before);
    say("a whole pipe", error_of(pipe(ends)));
    close(ends[1]);
    char c;
    say("its end", read(ends[0], &c, 1));
}

static int word;
static _Atomic int begun, woken[3];
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

int main(void)
{
    children_are_found();
    nobody_waits();
    numbers_are_checked();
    bits_choose();
    descriptors_end();
    return 0;
}
