/* sched.h - what the files of thread/ share: the run queue, the sleepers, and their lock. */
#ifndef KERNEL_SCHED_H
#define KERNEL_SCHED_H

#include "thread/thread.h"

enum thread_state { THREAD_READY, THREAD_RUNNING, THREAD_PARKED, THREAD_DEAD };

struct sched {
    struct lock lock;
    struct list ready;                 /* by rising key */
    uint64_t floor_ns;                 /* SC2 */
    struct list sleepers;              /* by deadline */
    uint64_t next_deadline;            /* the first sleeper's; read without the lock by the tick */
    uint32_t idle_cpus;                /* thread.c's TH3 */
    uint32_t kicks;                    /* CPUs to interrupt when the lock is released */
};
extern struct sched sched;

/* The functions that follow want sched.lock held. */
struct thread *sched_next(void);       /* the first in the queue, or this CPU's idle thread */
/* from a sleep: into the queue, and some CPU looks at it */
void sched_make_ready(struct thread *t);
void sched_put_back(struct thread *t, bool last); /* the running one, READY: into the queue */
void sched_sleep(struct thread *t);    /* into `sleepers`; its deadline is set */
void sched_sleepers_changed(void);     /* the first of `sleepers` is another one */

void trace_switched(void);             /* cpu->traces, and another thread runs */
/* without the lock: the tick, if it is due for t, which runs here */
void sched_breathe(struct thread *t);
void sched_release_and_kick(void);     /* releases the lock and sends the interrupts that are due */
/* sched_kicks_send sends this CPU's interrupts that could not be sent at once: before it switches,
 * halts or enters user mode. */
void sched_kicks_send(struct cpu *c);

/* sched_account charges whom t, which runs, acts for: the time since it was last charged. Lock
 * held. */
static inline __attribute__((always_inline)) void sched_account(struct thread *t, uint64_t now)
{
    uint64_t ran = now - t->run_start_ns;
    struct thread *locus = t->locus;

    locus->cpu_ns += ran;
    if (locus->process != NULL)
        __atomic_fetch_add(&thread_home(locus)->cpu_ns, ran, __ATOMIC_RELAXED);
}

/* sched_unpark takes t out of its sleep; the caller makes it ready or runs it. Lock held. */
static inline __attribute__((always_inline)) void sched_unpark(struct thread *t, int result)
{
    t->park_result = result;
    if (t->deadline_ns != THREAD_NEVER) {
        list_remove(&t->run_link);
        t->deadline_ns = THREAD_NEVER;
        sched_sleepers_changed();
    }
}

#endif
