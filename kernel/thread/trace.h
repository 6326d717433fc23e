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
/* Appends to this CPU's ring. Takes no lock, so it may be called with any, and at any time. */
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

/* The name of a program, for its process. */
void trace_name(int pid, const char *name);
void trace_switched(void);                     /* thread.c: cpu->traces, and another thread runs */

extern struct lock trace_lock;                 /* for the next four */
enum { TRACE_READ_MAX = 256 };
/* Copies what d asks for of a CPU's ring, TRACE_READ_MAX events at most; d says what was lost. How
 * many. */
unsigned trace_ring_read(unsigned cpu, struct kd_trace_read *d, struct kd_trace_event *to);
must_check int trace_rings_large(void);        /* 0, -ENOMEM */
void trace_rings_small(void);
/* The last events, newest first, of a process (0: of all); how many. Takes the lock, but in a
 * panic. */
unsigned trace_last(int pid, struct kd_trace_event *to, unsigned count);
void trace_init(void);

/* ---- the longest stretch (stretch.c): how long a CPU stays in the kernel between two points that
 * serve shootdowns and can yield; measured only with stretch=LIMIT on the command line ---- */
struct stretch {
    uint64_t ticks;  /* of the time stamp counter: instructions under QEMU's -icount */
    uint64_t from, to;                         /* code addresses of the two points */
    uint32_t what;  /* a call's number, TRAP_CALLS + a trap's vector, or one of these: */
    int pid;
};
enum {
    STRETCH_FAULT = TRAP_CALLS + 14,
    STRETCH_SWITCH = TRAP_CALLS + 256,
    STRETCH_LEAVE,  /* kills, dooms and signals, on the way back to user mode */
    STRETCH_FORK,                              /* its entry is trap.S's own */
};
extern bool stretch_on;
void stretch_init(void);  /* reads the option: a stretch of more ticks panics; 0: none does */
void stretch_enter(uint32_t what);             /* from user mode or a halt: one begins */
void stretch_end(void);                        /* back to user mode, or to a halt */
/* one ends and the next begins; what: or 0, the same as before */
void stretch_passed(uint32_t what);
struct stretch stretch_longest(bool forget);   /* the longest so far */

static inline void stretch_point(void)
{
    if (__builtin_expect(stretch_on, 0))
        stretch_passed(0);
}

#endif
