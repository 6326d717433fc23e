/*
 * trace.h - trace points (look/tracing.md). While nobody traces one costs two instructions, a
 * compare and a jump that is not taken; those of system calls, messages between programs and thread
 * switches cost none (look/trace_call.c).
 */
#ifndef KERNEL_TRACE_H
#define KERNEL_TRACE_H

#include "arch.h"
#include "katydid/trace.h"

extern bool trace_on, trace_keeps;  /* somebody traces; or at least what is rare is kept */
/* trace_event appends to this CPU's ring, with no lock: it may be called with any, at any time. */
void trace_event(enum kd_trace_event_kind kind, uint32_t c, uint64_t a, uint64_t b)
    __attribute__((cold, noinline));

#define TRACE(event, c, a, b)                                                               \
    (__builtin_expect(trace_on, 0) ? trace_event(KD_TRACE_##event, (uint32_t)(c), (a), (b)) \
                                   : (void)0)
/* TRACE_RARE is for rare events, which are recorded also while nobody traces, but with trace=off.
 */
#define TRACE_RARE(event, c, a, b)                                                             \
    (__builtin_expect(trace_keeps, 1) ? trace_event(KD_TRACE_##event, (uint32_t)(c), (a), (b)) \
                                      : (void)0)

/* trace_name tells the name of a program, for its process. */
void trace_name(int pid, const char *name);
void trace_switched(void);                     /* thread.c: cpu->traces, and another thread runs */

extern struct lock trace_lock;                 /* for the next four */
enum { TRACE_READ_MAX = 256 };
/* trace_ring_read copies what d asks for of a CPU's ring, TRACE_READ_MAX events at most; d says
 * what was lost. How many. */
unsigned trace_ring_read(unsigned cpu, struct kd_trace_read *d, struct kd_trace_event *to);
/* trace_rings makes rings of so many events for the first CPUs; -ENOMEM: for some of them only. */
must_check int trace_rings(unsigned cpus, uint64_t count);
/* trace_last copies the last events, newest first, of a process (0: of all); how many. Takes the
 * lock, but in a panic. */
unsigned trace_last(int pid, struct kd_trace_event *to, unsigned count);
void trace_init(void);

#endif
