/*
 * kernel_smp.c - several CPUs: they halt when idle, take work from each other, and are not
 * disturbed.
 *
 * Aim     idle CPUs halt; work moves to them; a wake-up is neither lost nor sends interrupts that
 *         nobody needs; a shootdown reaches the CPUs that run the address space, once for many
 *         pages.
 * Method  the kernel's counters of interrupts sent and of cycles halted, before and after. Bounds
 *         are wide where the host decides how CPUs advance; what is counted exactly is compared
 *         exactly.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, ROUNDS = 3000 };
enum { MAPS = 200, MAP_BYTES = 64 * 4096, TRIES = 20 };

static uint64_t cycles(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static long futex(volatile int *at, int what, int value)
{
    return kd_call6(SYS_futex, (long)at, what, value, 0, 0, 0);
}

static volatile int stop;
static int begun; /* threads that compute */
static void *compute(void *unused)
{
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    while (!stop)
        for (volatile int i = 0; i < 1000; i++) {}
    return unused;
}

/* A process that computes; the CPU where it runs has no view of ours. */
static int stranger_start(void)
{
    int pid = fork();
    if (pid == 0) {
        stop = 0;
        compute(NULL);
    }
    return pid;
}

static void stranger_end(int pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- idle ---- */

/* What the host does with its own CPUs may spoil one try. */
static void idle(unsigned cpus)
{
    struct kd_system_info a, b;
    double part = 0;
    for (int i = 0; i < TRIES && !(part > 0.8 && part < 1.05); i++) {
        a = system_info();
        uint64_t begin = cycles();
        usleep(400000);
        uint64_t passed = cycles() - begin;
        b = system_info();
        part = (double)(b.idle_cycles - a.idle_cycles) / (double)passed / cpus;
    }
    tap_ok(part > 0.8 && part < 1.05, "idle_cpus_halt (%.0f%%)", part * 100);
    tap_ok(b.kicks - a.kicks < 40 && b.flush_interrupts - a.flush_interrupts < 10,
           "and_leave_each_other_alone (%d kicks, %d flushes)", (int)(b.kicks - a.kicks),
           (int)(b.flush_interrupts - a.flush_interrupts));
}

/* ---- work moves ---- */

static void work_moves(unsigned cpus)
{
    pthread_t t[8];
    double used = 0, passed = 1;
    for (int i = 0; i < TRIES && used <= 0.7 * passed * cpus; i++) {
        stop = 0;
        used = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        double begin = clock_s(CLOCK_MONOTONIC);
        for (unsigned k = 0; k < cpus; k++) pthread_create(&t[k], NULL, compute, NULL);
        usleep(500000);
        stop = 1;
        passed = clock_s(CLOCK_MONOTONIC) - begin;
        for (unsigned k = 0; k < cpus; k++) pthread_join(t[k], NULL);
        used = clock_s(CLOCK_PROCESS_CPUTIME_ID) - used;
    }
    tap_ok(used > 0.7 * passed * cpus, "threads_spread_over_all_cpus (%.2f of %u)", used / passed,
           cpus);
}

/* ---- wake-ups ---- */

static volatile int turn;
static void *answer(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (turn != 1) futex(&turn, FUTEX_WAIT, 0);
        turn = 0;
        futex(&turn, FUTEX_WAKE, 1);
    }
    return unused;
}

static void wakes(void)
{
    struct kd_system_info a = system_info();
    volatile int nobody = 0;
    for (int i = 0; i < 20000; i++) futex(&nobody, FUTEX_WAKE, 1);
    struct kd_system_info b = system_info();
    tap_ok(b.kicks - a.kicks < 40, "waking_nobody_disturbs_nobody (%d kicks)",
           (int)(b.kicks - a.kicks));
    pthread_t t;
    turn = 0;
    pthread_create(&t, NULL, answer, NULL);
    a = system_info();
    for (int i = 0; i < ROUNDS; i++) {
        turn = 1;
        futex(&turn, FUTEX_WAKE, 1);
        while (turn != 0) futex(&turn, FUTEX_WAIT, 1);
    }
    b = system_info();
    pthread_join(t, NULL);
    tap_ok(b.kicks - a.kicks <= 2 * ROUNDS + 100,
           "no_wake_up_is_lost, nor kicks twice (%d rounds, %d kicks)", ROUNDS,
           (int)(b.kicks - a.kicks));
}

static void *serve(void *port)
{
    struct kd_message m = {.handle = -1}, r = {.handle = -1};
    for (int i = 0; i < ROUNDS; i++)
        if (kd_call3(KD_PORT_RECEIVE, (long)port, (long)&m, -1) == 0)
            kd_call3(KD_PORT_REPLY, (long)m.token, (long)&r, 0);
    return NULL;
}

/* The server is given the caller's CPU: nobody else is asked to. */
static void messages(void)
{
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    pthread_t t;
    pthread_create(&t, NULL, serve, (void *)port);
    usleep(50000);
    struct kd_system_info a = system_info();
    for (int i = 0; i < ROUNDS; i++) {
        struct kd_message m = {.handle = -1};
        kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    }
    struct kd_system_info b = system_info();
    pthread_join(t, NULL);
    tap_ok(b.kicks - a.kicks <= 2 * ROUNDS + 100,
           "a_call_kicks_one_cpu_at_most, each way (%d calls, %d kicks)", ROUNDS,
           (int)(b.kicks - a.kicks));
}

/* ---- shootdowns ---- */

/* The flush interrupts of so many times a mapping made, filled and taken away. */
static long maps(void)
{
    struct kd_system_info a = system_info();
    for (int i = 0; i < MAPS; i++) {
        char *p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int k = 0; k < MAP_BYTES; k += 4096) p[k] = 1;
        munmap(p, MAP_BYTES);
    }
    return (long)(system_info().flush_interrupts - a.flush_interrupts);
}

static void shootdowns(unsigned cpus)
{
    int strangers[8];
    for (unsigned i = 0; i < cpus; i++) strangers[i] = stranger_start();
    long others = MAPS;
    /* where one has not begun yet, ours may have run last */
    for (int i = 0; i < TRIES && others > MAPS / 10; i++) {
        usleep(50000);
        others = maps();
    }
    for (unsigned i = 0; i < cpus; i++) stranger_end(strangers[i]);
    tap_ok(others <= MAPS / 10, "a_cpu_that_runs_another_process_is_left_alone (%ld flushes of %d)",
           others, MAPS);
    pthread_t t[8];
    stop = begun = 0;
    for (unsigned i = 1; i < cpus; i++) pthread_create(&t[i], NULL, compute, NULL);
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < (int)cpus - 1) usleep(1000);
    usleep(50000);
    long ours = maps();
    stop = 1;
    for (unsigned i = 1; i < cpus; i++) pthread_join(t[i], NULL);
    tap_ok(ours >= (cpus > 1 ? MAPS / 4 : 0) && ours <= (long)(cpus - 1) * (MAPS + MAPS / 5),
           "one_that_runs_our_threads_is_asked_once_for_64_pages (%ld flushes of %d)", ours, MAPS);
}

int main(void)
{
    unsigned cpus = system_info().cpus;
    tap_plan(9);
    setvbuf(stdout, NULL, _IOLBF, 0);
    idle(cpus);
    work_moves(cpus);
    wakes();
    messages();
    shootdowns(cpus);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
