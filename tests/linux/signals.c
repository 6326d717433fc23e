/*
 * signals.c - handlers, masks, interrupted calls, faults, threads. Prints the same on Linux and on
 * Katydid.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t seen[65];
static volatile double disturbed;

static void count(int number)
{
    seen[number]++;
    disturbed = disturbed * 1.5 + number; /* SSE registers must come back */
}

static void set(int number, void (*handler)(int), int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static void handlers_run(void)
{
    set(SIGUSR1, count, 0);
    double x = 1.25;
    __asm__ volatile("" : "+x"(x));
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    __asm__ volatile("" : "+x"(x));
    say("handled", seen[SIGUSR1]);
    say("registers kept", x == 1.25);
    set(SIGUSR1, SIG_IGN, 0);
    raise(SIGUSR1);
    set(SIGUSR1, count, SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction old;
    sigaction(SIGUSR1, NULL, &old);
    say("reset to the default", old.sa_handler == SIG_DFL);
    say("handled", seen[SIGUSR1]);
    say("SIGKILL cannot be caught", sigaction(SIGKILL, &old, NULL) == -1 && errno == EINVAL);
}

static void masks_hold_back(void)
{
    sigset_t set1, old, pending;
    set(SIGUSR2, count, 0);
    sigemptyset(&set1);
    sigaddset(&set1, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set1, &old);
    raise(SIGUSR2);
    raise(SIGUSR2);
    sigpending(&pending);
    say("held back", seen[SIGUSR2] == 0 && sigismember(&pending, SIGUSR2));
    sigprocmask(SIG_SETMASK, &old, NULL);
    say("delivered once", seen[SIGUSR2]);
    sigprocmask(SIG_BLOCK, &set1, NULL);
    raise(SIGUSR2);
    sigemptyset(&set1);
    say("sigsuspend", sigsuspend(&set1) == -1 && errno == EINTR);
    say("delivered", seen[SIGUSR2]);
    sigprocmask(SIG_BLOCK, NULL, &pending);
    say("blocked again", sigismember(&pending, SIGUSR2));
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void info(int number, siginfo_t *i, void *context)
{
    (void)context;
    printf("information: signal %d, from the same process %d\n", number, i->si_pid == getpid());
}

static jmp_buf back;
static void fault(int number, siginfo_t *i, void *context)
{
    (void)context;
    printf("fault: signal %d at %p\n", number, i->si_addr);
    fflush(stdout);
    siglongjmp(back, 1);
}

static void information_comes(void)
{
    struct sigaction a = {.sa_sigaction = info, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &a, NULL);
    kill(getpid(), SIGUSR1);
    a.sa_sigaction = fault;
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGILL, &a, NULL);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)0x123000 = 1;
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)0x456000 = 1;
    set(SIGSEGV, SIG_DFL, 0);
    set(SIGILL, SIG_DFL, 0);
}

static void sender(int after_ms, int number)
{
    pid_t parent = getpid();
    if (fork() == 0) {
        struct timespec t = {0, after_ms * 1000000l};
        nanosleep(&t, NULL);
        kill(parent, number);
        nanosleep(&t, NULL);
        kill(parent, SIGUSR2);
        _exit(0);
    }
}

static void calls_are_interrupted(void)
{
    int ends[2];
    char c = 0;
    struct timespec t = {1000, 0}, rest = {0, 0};
    if (pipe(ends))
        exit(9);
    set(SIGUSR1, count, 0);
    set(SIGUSR2, count, 0);
    set(SIGALRM, count, SA_RESTART);
    sender(30, SIGUSR1);
    say("a read is interrupted", read(ends[0], &c, 1) == -1 && errno == EINTR);
    pause();
    sender(30, SIGUSR1);
    say("a sleep is interrupted", nanosleep(&t, &rest) == -1 && errno == EINTR);
    say("with the rest told", rest.tv_sec == 999);
    pause();
    sender(30, SIGALRM); /* does not interrupt; SIGUSR2 later does */
    int before = seen[SIGALRM];
    say("a read is restarted",
        read(ends[0], &c, 1) == -1 && errno == EINTR && seen[SIGALRM] == before + 1);
    while (wait(NULL) > 0) {
    }
    close(ends[0]);
    say("a write to nobody", write(ends[1], &c, 1) == -1 && errno == EPIPE && seen[SIGPIPE] == 1);
    close(ends[1]);
}

static void child_ends(int number)
{
    seen[number]++;
}

static void children_are_told(void)
{
    set(SIGCHLD, child_ends, SA_RESTART);
    if (fork() == 0)
        _exit(0);
    while (!seen[SIGCHLD]) {
        struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
    }
    say("child told", seen[SIGCHLD] && wait(NULL) > 0);
}

/* Two threads fault at the same time, each at an address of its own. */
static _Thread_local sigjmp_buf home;
static _Thread_local volatile char *mine;
static _Atomic int strangers;
static void own_fault(int number, siginfo_t *i, void *context)
{
    (void)number, (void)context;
    strangers += i->si_addr != (void *)mine;
    siglongjmp(home, 1);
}

static void *faults(void *arg)
{
    enum { FAULTS = 20000 };
    for (volatile long i = 0; i < FAULTS; i++) {
        mine = (char *)arg + i % 4096;
        if (sigsetjmp(home, 1) == 0)
            *mine = 1;
    }
    return NULL;
}

static void faults_are_told_apart(void)
{
    pthread_t t[2];
    struct sigaction a = {.sa_sigaction = own_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, faults, (void *)(0x1000 + i * 0x4000));
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    say("faults of others", strangers);
    set(SIGSEGV, SIG_DFL, 0);
}

/* ---- alternate stacks ---- */

static char other[65536], third[16384];
static _Atomic int was_on, told, nested;

static int on_other(const char *at) { return at >= other && at < other + sizeof(other); }

static void where(int number)
{
    char here;
    stack_t now;
    was_on = on_other(&here);
    sigaltstack(NULL, &now);
    told = now.ss_flags;
    if (number == SIGUSR1) {
        raise(SIGUSR2); /* goes on below it, on the same stack */
        nested = was_on;
        stack_t new = {.ss_sp = third, .ss_size = sizeof(third)};
        errno = 0;
        say("changed while it is used", sigaltstack(&new, NULL) == -1 && errno == EPERM);
    }
}

static sigjmp_buf deep;
static _Atomic int overflows;
static void overflowed(int number, siginfo_t *i, void *context)
{
    char here;
    (void)number, (void)i, (void)context;
    was_on = on_other(&here);
    overflows++;
    siglongjmp(deep, 1);
}

static int dig(volatile char *above)
{
    volatile char hole[4096];
    if (overflows > 99)
        return 0;
    hole[0] = *above;
    return dig(hole) + hole[0];
}

static void *has_none(void *unused)
{
    stack_t now;
    sigaltstack(NULL, &now);
    say("a new thread has none", now.ss_flags == SS_DISABLE);
    return unused;
}

static void stacks_are_exchanged(void)
{
    pthread_t t;
    char here = 0;
    int status;
    stack_t s = {.ss_sp = other, .ss_size = sizeof(other)}, old;
    say("none at first", sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
    s.ss_flags = 16;
    say("unknown flag", sigaltstack(&s, NULL) == -1 && errno == EINVAL);
    s.ss_flags = 0;
    say("set", sigaltstack(&s, NULL));
    say("seen", sigaltstack(NULL, &old) == 0 && old.ss_sp == other && old.ss_size == sizeof(other)
                    && !old.ss_flags);
    set(SIGUSR2, where, SA_ONSTACK);
    set(SIGUSR1, where, SA_ONSTACK);
    raise(SIGUSR1);
    say("on it", nested && told == SS_ONSTACK);
    set(SIGUSR2, where, 0);
    raise(SIGUSR2);
    say("not on it", !was_on && told == 0);
    set(SIGUSR2, where, SA_ONSTACK);
    if (fork() == 0) {
        raise(SIGUSR2);
        _exit(was_on);
    }
    wait(&status);
    say("a child has it", WEXITSTATUS(status));
    pthread_create(&t, NULL, has_none, NULL);
    pthread_join(t, NULL);
    struct sigaction a = {.sa_sigaction = overflowed, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(deep, 1) == 0)
            dig(&here);
    say("a stack overflows", overflows == 3 && was_on);
    set(SIGSEGV, SIG_DFL, 0);
    s.ss_flags = SS_DISABLE;
    say("taken away", sigaltstack(&s, &old) == 0 && old.ss_sp == other);
    raise(SIGUSR2);
    say("the usual one", !was_on && told == SS_DISABLE);
}

static pthread_t main_thread;
static _Atomic int handled_in_thread;
static void which(int number)
{
    (void)number;
    handled_in_thread = !pthread_equal(pthread_self(), main_thread);
}

static void *waits(void *unused)
{
    while (!handled_in_thread)
        pause();
    return unused;
}

static void *loops(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void threads_have_their_own(void)
{
    pthread_t t;
    void *result;
    main_thread = pthread_self();
    set(SIGUSR1, which, 0);
    pthread_create(&t, NULL, waits, NULL);
    while (!handled_in_thread) {
        struct timespec ms = {0, 1000000};
        pthread_kill(t, SIGUSR1);
        nanosleep(&ms, NULL);
    }
    pthread_join(t, NULL);
    say("in the thread", handled_in_thread);
    pthread_create(&t, NULL, loops, NULL);
    pthread_cancel(t);
    pthread_join(t, &result);
    say("cancelled", result == PTHREAD_CANCELED);
}

int main(void)
{
    set(SIGPIPE, count, 0);
    handlers_run();
    masks_hold_back();
    information_comes();
    calls_are_interrupted();
    children_are_told();
    threads_have_their_own();
    faults_are_told_apart();
    stacks_are_exchanged();
    return 0;
}
