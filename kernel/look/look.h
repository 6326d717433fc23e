/*
 * look.h - a look into the running kernel: traces, reports of crashes, checks, texts for people.
 */
#ifndef KERNEL_LOOK_H
#define KERNEL_LOOK_H

#include "arch.h"

struct process;

/* trace_call.c */
void trace_process_gone(struct process *p);
struct trace_step { uint64_t text[2], time_ns; };
extern struct trace_step trace_step;           /* the last MARK; may be half of it */
void trace_calls_init(void);                   /* the table of system calls */

/* report.c: for panics and killed programs, into the log, or in a panic to the ports: the last
 * events, and what the store was doing. */
void report_panic(void);
void report_killed(struct process *p);

/* system.c: with the option check_ms=N the kernel checks itself at a tick that comes N ms after the
 * last; no lock held. */
void check_tick(uint64_t now_ns);

#endif
