/*
 * kernel_lent.c - one CPU; a server's lock is held for a caller of niceness 19, and others compute.
 *
 * Aim     who serves a nice caller acts at its niceness, but whoever calls the same server
 *         meanwhile does not wait for it that long: the first milliseconds of a call are served at
 *         once. A long call is served at its caller's niceness all the same.
 * Method  a server with a lock, which it holds while it computes for a call. Threads of niceness 0
 *         count in loops beside it; what they count while a call of niceness 0 waits, in units of
 *         what such a call itself computes, is what it waited for. QEMU counts instructions as
 *         time here, so a run repeats itself.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { SERVERS = 3, HOGS = 2, CALLS = 4, UNIT = 20000, SHORT = 20, LONG = 400 };
static int port;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int stop;
static _Atomic long counted[HOGS];
static sem_t in_it;

static void compute(long units)
{
    for (volatile long i = 0; i < units * UNIT; i++) {}
}

static void *serve(void *unused)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    while (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) == 0) {
        pthread_mutex_lock(&lock);
        compute((long)m.word[0] / 2);
        if (m.word[1]) sem_post(&in_it);
        compute((long)m.word[0] / 2);
        pthread_mutex_unlock(&lock);
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
    return unused;
}

/* tells: whoever waits for in_it goes on in the midst of it. */
static long work(long units, int tells)
{
    struct kd_message m = {.handle = -1, .word = {(uint64_t)units, (uint64_t)tells}};
    return kd_call3(KD_PORT_CALL, port, (long)&m, 0);
}

static void *hog(void *number)
{
    while (!stop) {
        compute(1);
        counted[(long)(uintptr_t)number]++;
    }
    return NULL;
}

static void *call_nicely(void *units)
{
    setpriority(PRIO_PROCESS, 0, (long)(uintptr_t)units == LONG ? 10 : 19);
    while (!stop) {
        work((long)(uintptr_t)units, 1);
    }
    return NULL;
}

static long counted_by_all(void)
{
    long sum = 0;
    for (int i = 0; i < HOGS; i++) sum += counted[i];
    return sum;
}

/* Calls, each while the server works for a nice one of so many units: the most that was counted
 * while one of ours was on its way; *all: in the whole time. */
static long beside(long units, long calls, long *all)
{
    pthread_t nice, hogs[HOGS];
    long most = 0, begin;
    stop = 0;
    for (long i = 0; i < HOGS; i++)
        if (pthread_create(&hogs[i], NULL, hog, (void *)(uintptr_t)i)) _exit(2);
    if (pthread_create(&nice, NULL, call_nicely, (void *)(uintptr_t)units)) _exit(2);
    begin = counted_by_all();
    for (long i = 0; i < calls; i++) {
        sem_wait(&in_it);
        long before = counted_by_all();
        if (work(SHORT, 0)) _exit(3);
        long waited = counted_by_all() - before;
        if (waited > most) most = waited;
    }
    *all = counted_by_all() - begin;
    stop = 1;
    pthread_join(nice, NULL);
    for (int i = 0; i < HOGS; i++) pthread_join(hogs[i], NULL);
    return most;
}

int main(void)
{
    pthread_t servers[SERVERS];
    long all;
    tap_plan(3);
    sem_init(&in_it, 0, 0);
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    for (int i = 0; i < SERVERS; i++)
        if (pthread_create(&servers[i], NULL, serve, NULL)) return 1;
    long most = beside(SHORT, CALLS, &all);
    tap_ok(most <= SHORT, "a call behind a short one of niceness 19 waits for %ld units of others",
           most);
    tap_ok(all > CALLS * SHORT * 20, "for all that such calls get little of the CPU: %ld of %ld",
           2L * CALLS * SHORT, all);
    most = beside(LONG, 1, &all);
    tap_ok(most > 20 * SHORT, "a long one is served as nicely as it is called: %ld", most);
    return tap_end();
}
