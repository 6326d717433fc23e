/*
 * sim.c - see sim.h.
 */
#include "turns/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { SIM_TASKS_MAX = 96, SIM_STACK_BYTES = 256 << 10 };

static struct sim_task {
    ucontext_t context;
    void *(*body)(void *);
    void *argument;
    const void *awaits;             /* woken by sim_wake() of this, or at `until` */
    int64_t until;
    bool late, ended;
} sim_tasks[SIM_TASKS_MAX];
static unsigned sim_count, sim_now_runs;
int64_t sim_us;
static ucontext_t sim_loop_context;

static void sim_body(void)
{
    struct sim_task *t = &sim_tasks[sim_now_runs];
    t->body(t->argument);
    t->ended = true;
    swapcontext(&t->context, &sim_loop_context);
}

void sim_start(void *(*body)(void *), void *argument)
{
    struct sim_task *t = &sim_tasks[sim_count++];
    if (sim_count > SIM_TASKS_MAX) abort();
    *t = (struct sim_task){.body = body, .argument = argument, .until = SIM_NEVER};
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = malloc(SIM_STACK_BYTES);
    t->context.uc_stack.ss_size = SIM_STACK_BYTES;
    makecontext(&t->context, sim_body, 0);
}

bool sim_run(const bool *end)
{
    while (!*end) {
        bool ran = false;
        int64_t next = SIM_NEVER;
        for (unsigned i = 0; i < sim_count && !*end; i++) {
            struct sim_task *t = &sim_tasks[i];
            if (t->ended) continue;
            if (t->awaits && t->until > sim_us) {
                if (t->until < next) next = t->until;
                continue;
            }
            t->late = t->awaits != NULL;
            t->awaits = NULL;
            sim_now_runs = i;
            swapcontext(&sim_loop_context, &t->context);
            ran = true;
        }
        if (ran) continue;
        if (next == SIM_NEVER) return false;
        sim_us = next;
    }
    return true;
}

bool sim_wait(const void *what, int64_t until)
{
    struct sim_task *t = &sim_tasks[sim_now_runs];
    t->awaits = what;
    t->until = until;
    swapcontext(&t->context, &sim_loop_context);
    return t->late;
}

void sim_wake(const void *what, bool all)
{
    for (unsigned i = 0; i < sim_count; i++)
        if (sim_tasks[i].awaits == what) {
            sim_tasks[i].awaits = NULL;
            if (!all) return;
        }
}

void sim_sleep(int64_t us) { sim_wait(&sim_us, sim_us + us); }

/* ---- POSIX threads by these; a mutex's first byte says whether it is taken ---- */

int sim_lock(pthread_mutex_t *m)
{
    while (*(char *)m) sim_wait(m, SIM_NEVER);
    *(char *)m = 1;
    return 0;
}

int sim_unlock(pthread_mutex_t *m)
{
    *(char *)m = 0;
    sim_wake(m, false);
    return 0;
}

int sim_cond_until(pthread_cond_t *c, pthread_mutex_t *m,
                                 const struct timespec *until)
{
    sim_unlock(m);
    bool late =
        sim_wait(c, until ? (int64_t)until->tv_sec * 1000000 + until->tv_nsec / 1000 : SIM_NEVER);
    sim_lock(m);
    return late ? ETIMEDOUT : 0;
}

int sim_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return sim_cond_until(c, m, NULL);
}

int sim_signal(pthread_cond_t *c) { sim_wake(c, false); return 0; }

int sim_broadcast(pthread_cond_t *c) { sim_wake(c, true); return 0; }

int sim_create(pthread_t *thread, const pthread_attr_t *a, void *(*body)(void *),
                             void *x)
{
    (void)a;
    *thread = sim_count;
    sim_start(body, x);
    return 0;
}

pthread_t sim_self(void) { return sim_now_runs; }

int sim_detach(pthread_t thread) { return (int)(thread * 0); }

int sim_time(int clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = sim_us / 1000000, .tv_nsec = sim_us % 1000000 * 1000};
    return 0;
}

int sim_nap(const struct timespec *time, struct timespec *left)
{
    (void)left;
    sim_sleep((int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000);
    return 0;
}
