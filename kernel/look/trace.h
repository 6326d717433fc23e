/*
 * trace.h - trace points (tracing.md). While nobody traces one costs two instructions, a compare and
 * a jump that is not taken; those of system calls, messages between programs and thread switches cost
 * none (trace.c).
 */
#ifndef KERNEL_TRACE_H
#define KERNEL_TRACE_H

#include "arch.h"
#include "katydid/trace.h"

struct process;
extern bool trace_on, trace_keeps;             /* somebody traces; or at least what is rare is kept */
/* Appends to this CPU's ring. Takes no lock, so it may be called with any, and at any time. */
void trace_event(enum kd_trace_event_kind kind, uint32_t c, uint64_t a, uint64_t b)
    __attribute__((cold, noinline));

#define TRACE(event, c, a, b) \
    (__builtin_expect(trace_on, 0) ? trace_event(KD_TRACE_##event, (uint32_t)(c), (a), (b)) : (void)0)
/* For what is rare: also while nobody traces, but with trace=off. */
#define TRACE_RARE(event, c, a, b) \
    (__builtin_expect(trace_keeps, 1) ? trace_event(KD_TRACE_##event, (uint32_t)(c), (a), (b)) : (void)0)

/* The name of a program, for its process. */
void trace_name(int pid, const char *name);
/* A page fault with its begin and end; instead of trap_page_fault while somebody traces. */
int trace_fault(struct trap_frame *f, vaddr_t at, unsigned flags);
void trace_switched(void);                     /* thread.c: cpu->traces, and another thread runs */
void trace_process_gone(const struct process *p);
trap_call trace_call;                          /* KD_TRACE */
struct trace_step { uint64_t text[2], time_ns; };
extern struct trace_step trace_step;           /* the last MARK; may be half of it */
/* The last events, newest first, of a process (0: of all); how many. */
unsigned trace_last(int pid, struct kd_trace_event *to, unsigned count);
void trace_init(void);

/* report.c: for panics and killed programs, into the log, or in a panic to the ports. */
void report_events(int pid);                   /* the last events of a process; 0: of all */
void report_store(const struct process *p);    /* publications, p's transactions (NULL: all), the disks */

#endif
