/*
 * kernel_fair.c - one CPU, shared out: equal parts, niceness, waking, and who is charged for what.
 *
 * Aim     equal threads get equal parts of the CPU; nice ones less, by Linux's weights, but never
 *         nothing; who sleeps and wakes up does not wait for all that compute; times are accounted
 *         to threads, processes and those who wait for them. A fork and a munmap of much memory let
 *         others run.
 * Method  threads that compute, each counting its own CPU time by the kernel's clock, until all
 *         together have used so much. QEMU counts instructions as time here, so a run repeats
 *         itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { THREADS_MAX = 8, LONGEST_MS = 15 }; /* a tick comes every 10 */
static _Atomic int stop, ready_count;
static struct worker { pthread_t thread; int nice; double used; } workers[THREADS_MAX];

static void *compute(void *arg)
{
    struct worker *w = arg;
    setpriority(PRIO_PROCESS, 0, w->nice);
    __atomic_add_fetch(&ready_count, 1, __ATOMIC_SEQ_CST);
    while (!stop)
        for (volatile int i = 0; i < 1000; i++) {}
    w->used = clock_s(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* Threads of these nicenesses compute until `seconds` of CPU time are used. */
static void contest(int count, const int *nice, double seconds)
{
    stop = ready_count = 0;
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){.nice = nice[i]};
        if (pthread_create(&workers[i].thread, NULL, compute, &workers[i])) _exit(2);
    }
    double begin = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    while (clock_s(CLOCK_PROCESS_CPUTIME_ID) - begin < seconds) usleep(5000);
    stop = 1;
    for (int i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
}

static int near(double value, double wanted, double part)
{
    if (value < wanted * (1 - part) || value > wanted * (1 + part))
        return printf("# %g, wanted %g\n", value, wanted), 0;
    return 1;
}

static void shares(void)
{
    contest(5, (const int[]){0, 0, 0, 0, 0}, 0.6);
    int good = 1;
    for (int i = 0; i < 5; i++) good &= near(workers[i].used, 0.12, 0.1);
    tap_ok(good, "five_equal_threads_get_a_fifth_each");
    contest(2, (const int[]){0, 5}, 0.5);
    tap_ok(near(workers[0].used / workers[1].used, 1024.0 / 335, 0.25),
           "five_steps_nicer_gets_a_third");
    contest(3, (const int[]){-5, 0, 5}, tap_long() ? 0.8 : 0.5);
    tap_ok(near(workers[0].used / workers[1].used, 3.05, 0.3) &&
               near(workers[1].used / workers[2].used, 3.05, 0.3),
           "and_so_on_up_and_down");
    contest(3, (const int[]){0, 0, 19}, tap_long() ? 1.5 : 1);
    tap_ok(workers[2].used > 0.005 && workers[2].used < 0.1,
           "the_nicest_gets_little_but_not_nothing (%.3f)", workers[2].used);
}

/* A thread that sleeps a millisecond and computes a little, beside three that only compute. */
static _Atomic int wakes;
static double longest;
static void *sleeper(void *unused)
{
    while (!stop) {
        double t = clock_s(CLOCK_MONOTONIC);
        usleep(1000);
        t = clock_s(CLOCK_MONOTONIC) - t;
        if (t > longest) longest = t;
        wakes++;
    }
    return unused;
}

static void waking(void)
{
    pthread_t s;
    stop = 0;
    if (pthread_create(&s, NULL, sleeper, NULL)) _exit(2);
    contest(3, (const int[]){0, 0, 0}, 0.4);
    pthread_join(s, NULL);
    tap_ok(wakes > 30 && longest < 0.035, "who_wakes_up_goes_first (%d times, at most %.1f ms)",
           wakes, longest * 1e3);
}

/* A server that has slept while others computed is called, and computes for its caller. */
static int server_port;
static void *server(void *unused)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    if (kd_call3(KD_PORT_RECEIVE, server_port, (long)&m, -1)) _exit(2);
    for (double begin = clock_s(CLOCK_THREAD_CPUTIME_ID);
         clock_s(CLOCK_THREAD_CPUTIME_ID) - begin < 0.2;) {
    }
    kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    return unused;
}

static void called(void)
{
    pthread_t s;
    struct kd_message m = {.handle = -1};
    server_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (server_port < 0 || pthread_create(&s, NULL, server, NULL)) _exit(2);
    contest(1, (const int[]){0}, tap_long() ? 0.5 : 0.3);
    stop = ready_count = 0;
    workers[0] = (struct worker){.nice = 0};
    if (pthread_create(&workers[0].thread, NULL, compute, &workers[0])) _exit(2);
    while (!ready_count) usleep(1000);
    long e = kd_call3(KD_PORT_CALL, server_port, (long)&m, 0);
    stop = 1;
    pthread_join(s, NULL);
    pthread_join(workers[0].thread, NULL);
    tap_ok(!e && near(workers[0].used, 0.2, 0.2), "who_is_called_after_a_long_sleep_takes_turns");
}

static void priorities(void)
{
    errno = 0;
    tap_ok(getpriority(PRIO_PROCESS, 0) == 0 && !errno, "niceness_is_0_at_first");
    tap_ok(!setpriority(PRIO_PROCESS, 0, 7) && getpriority(PRIO_PROCESS, 0) == 7
               && getpriority(PRIO_PROCESS, getpid()) == 7, "it_is_set_and_told");
    tap_ok(!setpriority(PRIO_PROCESS, 0, 100) && getpriority(PRIO_PROCESS, 0) == 19 &&
               !setpriority(PRIO_PROCESS, 0, -100) && getpriority(PRIO_PROCESS, 0) == -20,
           "within_bounds");
    tap_ok(setpriority(PRIO_PROCESS, 999999, 1) < 0 && errno == ESRCH && setpriority(5, 0, 1) < 0
               && errno == EINVAL, "of_somebody_who_exists");
    setpriority(PRIO_PROCESS, 0, 3);
    int pid = fork(), status = 0;
    if (pid == 0) _exit(getpriority(PRIO_PROCESS, 0));
    waitpid(pid, &status, 0);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a_child_inherits_it");
    setpriority(PRIO_PROCESS, 0, 0);
}

static void accounts(void)
{
    struct tms before, after;
    struct rusage children;
    double process = clock_s(CLOCK_PROCESS_CPUTIME_ID), thread = clock_s(CLOCK_THREAD_CPUTIME_ID);
    times(&before);
    int pid = fork(), status = 0;
    if (pid == 0) {
        while (clock_s(CLOCK_PROCESS_CPUTIME_ID) < 0.2) {}
        _exit(0);
    }
    waitpid(pid, &status, 0);
    times(&after);
    tap_ok(after.tms_cutime - before.tms_cutime >= 19 && after.tms_utime - before.tms_utime <= 5,
           "a_child's_time_is_its_own_until_it_is_waited_for");
    getrusage(RUSAGE_CHILDREN, &children);
    tap_ok(children.ru_utime.tv_usec + children.ru_utime.tv_sec * 1000000 >= 190000,
           "getrusage_says_so_too");
    contest(2, (const int[]){0, 0}, 0.2);
    process = clock_s(CLOCK_PROCESS_CPUTIME_ID) - process;
    thread = clock_s(CLOCK_THREAD_CPUTIME_ID) - thread;
    tap_ok(near(process, thread + workers[0].used + workers[1].used, 0.05),
           "a_process's_time_is_that_of_its_threads");
    struct kd_process_info list[16];
    long n = kd_call3(KD_PROCESS_LIST, (long)list, 16, 0), found = 0;
    for (long i = 0; i < n && i < 16; i++)
        found += list[i].pid == getpid() &&
                 near((double)list[i].cpu_ns / 1e9, clock_s(CLOCK_PROCESS_CPUTIME_ID), 0.05);
    tap_ok(found == 1, "and_the_list_of_processes_has_it");
    static char text[4096];
    n = kd_call4(KD_LOOK, KD_LOOK_THREADS, getpid(), (long)text, sizeof text);
    tap_ok(n > 0 && strstr(text, "running") != NULL, "its_threads_are_listed");
}

/* ---- calls that take long let others run ---- */

enum { LONG_BYTES = 64 << 20, TRIES = 5 };
static volatile double gap;         /* between two turns of a thread that mostly sleeps */
static void *napper(void *unused)
{
    for (double last = clock_s(CLOCK_MONOTONIC), now; !stop; last = now) {
        usleep(500);
        now = clock_s(CLOCK_MONOTONIC);
        if (now - last > gap) gap = now - last;
    }
    return unused;
}

static double gap_beside(void (*call)(void *memory), void *memory)
{
    gap = 0;
    call(memory);
    usleep(2000); /* the sleeper has noticed */
    return gap * 1000;
}
static int forked;
static void forks(void *unused)
{
    (void)unused;
    forked = fork();
    if (forked == 0)
        for (;;) pause();
}
static void unmaps(void *memory) { munmap(memory, 2 * LONG_BYTES); }

static void long_calls(void)
{
    pthread_t t;
    char *p =
        mmap(NULL, 2 * LONG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stop = 0;
    memset(p, 1, LONG_BYTES);
    pthread_create(&t, NULL, napper, NULL);
    double of_fork = LONGEST_MS, of_unmap = LONGEST_MS;
    /* the host may take a CPU away for longer, but hardly each time */
    for (int i = 0; i < TRIES && of_fork >= LONGEST_MS; i++) {
        of_fork = gap_beside(forks, p);
        kill(forked, SIGKILL);
        waitpid(forked, NULL, 0);
    }
    unmaps(p);
    for (int i = 0; i < TRIES && of_unmap >= LONGEST_MS; i++) {
        p = mmap(NULL, 2 * LONG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, 2 * LONG_BYTES);
        of_unmap = gap_beside(unmaps, p);
    }
    stop = 1;
    pthread_join(t, NULL);
    tap_ok(of_fork < LONGEST_MS,
           "who sleeps wakes up while a process with much memory forks (%.2f ms)", of_fork);
    tap_ok(of_unmap < LONGEST_MS, "and while much memory is unmapped (%.2f ms)", of_unmap);
}

int main(void)
{
    tap_plan(19);
    long_calls();
    shares();
    waking();
    called();
    priorities();
    accounts();
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
