/*
 * collect.c - runs a program while the kernel traces, and empties the rings all the time.
 *
 * The rings hold some ten thousand events; when they go round before they are read, events are
 * lost. That is told by an event LOST in their place, and by the sum.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../start.h"
#include "pstore.h"
#include "trace.h"

enum { AT_ONCE = 256, CPUS_MAX = 64, PAUSE_NS = 1000000 };

static uint64_t positions[CPUS_MAX];

static bool room_made(struct trace *t)
{
    if (t->count + AT_ONCE + 1 <= t->room)
        return true;
    size_t room = t->room ? 2 * t->room : 1 << 14;
    void *more = room <= EVENTS_MAX ? realloc(t->events, room * sizeof *t->events) : NULL;
    if (!more)
        return false;
    t->events = more;
    t->room = room;
    return true;
}

static void lost_note(struct trace *t, unsigned cpu, uint64_t lost,
                      const struct kd_trace_event *next)
{
    struct kd_trace_event e = {.kind = KD_TRACE_LOST, .cpu = (uint8_t)cpu, .a = lost,
                               .time_ns = next ? next->time_ns : 0};
    t->lost += lost;
    if (next)
        t->events[t->count++] = e;
}

/* What one read brings; how many. */
static long drain_once(struct trace *t, unsigned cpu)
{
    struct kd_trace_event part[AT_ONCE];
    struct kd_trace_read r = {.position = positions[cpu], .events = part, .count = AT_ONCE};
    long n = kd_call3(KD_TRACE, KD_TRACE_READ, cpu, (long)&r);
    if (n < 0)
        return n;
    positions[cpu] = r.position;
    bool room = room_made(t);
    if (r.lost && room)
        lost_note(t, cpu, r.lost, n ? &part[0] : NULL);
    else if (r.lost)
        t->lost += r.lost;
    if (!room) {
        t->lost += (uint64_t)n;
        return n;
    }
    memcpy(t->events + t->count, part, (size_t)n * sizeof *part);
    t->count += (size_t)n;
    return n;
}

/* All there is, but of each CPU no more than was there about when it began. How many events. */
static size_t drain(struct trace *t)
{
    size_t sum = 0;
    for (unsigned cpu = 0; cpu < t->cpus; cpu++)
        for (size_t n = AT_ONCE, all = 0; n == AT_ONCE && all < KD_TRACE_EVENTS;
             all += n, sum += n) {
            long got = drain_once(t, cpu);
            n = got < 0 ? 0 : (size_t)got;
        }
    return sum;
}

/* `run --only NAME PROGRAM`, `with DIR PROGRAM`: the shell knows what these pass on. */
static long shell_start(char **argv)
{
    enum { WORDS = 64 };
    const char *words[WORDS + 3] = {"sh", "--builtin"};
    for (int i = 0; argv[i]; i++) {
        if (i == WORDS)
            return -E2BIG;
        words[2 + i] = argv[i];
    }
    return start_program("/bin/sh", words, KD_PROCESS_FOREGROUND, 0);
}

static long program_start(char **argv)
{
    char path[256];
    if (strcmp(argv[0], "run") == 0 || strcmp(argv[0], "with") == 0)
        return shell_start(argv);
    snprintf(path, sizeof path, "%s%s", strchr(argv[0], '/') ? "" : "/bin/", argv[0]);
    return start_program(path, (const char *const *)argv, KD_PROCESS_FOREGROUND, 0);
}

static int by_time(const void *a, const void *b)
{
    const struct kd_trace_event *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->cpu - y->cpu;
}

static int run(struct trace *t, char **argv)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int status = 0;
    long pid = program_start(argv);
    if (pid < 0) {
        fprintf(stderr, "trace: %s: %s\n", argv[0], strerror((int)-pid));
        return -1;
    }
    while (kd_call3(KD_PROCESS_WAIT, pid, (long)&status, KD_WAIT_NOHANG) == 0)
        if (drain(t) < AT_ONCE)
            nanosleep(&pause, NULL);
    drain(t);
    return status;
}

int collect(struct trace *t, char **argv)
{
    signal(SIGINT, SIG_IGN); /* it ends the program, and its trace is wanted */
    long cpus = kd_call3(KD_TRACE, KD_TRACE_START, 0, 0);
    if (cpus < 0) {
        fprintf(stderr, "trace: %s\n",
                cpus == -EBUSY   ? "another process traces already"
                : cpus == -EPERM ? ps_strerror(ps_lacks(KD_RIGHT_LOOK))
                                 : strerror((int)-cpus));
        return -1;
    }
    t->cpus = cpus < CPUS_MAX ? (unsigned)cpus : CPUS_MAX;
    for (unsigned cpu = 0; cpu < t->cpus; cpu++) { /* from now on */
        struct kd_trace_read r = {.position = ~0ull};
        kd_call3(KD_TRACE, KD_TRACE_READ, cpu, (long)&r);
        positions[cpu] = r.position;
    }
    t->command = argv[0];
    int status = run(t, argv);
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    qsort(t->events, t->count, sizeof *t->events, by_time);
    return status;
}
