/*
 * signal.h - signals, as Linux defines them, for the programs of a C library. Contract in signal.c.
 */
#ifndef KERNEL_LINUX_SIGNAL_H
#define KERNEL_LINUX_SIGNAL_H

#include "base/signal.h"
#include "process/process.h"

/* signal_send sends a signal to a process, or to one thread of it (tid not 0); number 0 only asks.
 * 0, -ESRCH (no such thread), -EINVAL, -ENOSYS (the process would have to stop), -EAGAIN (one of
 * that real-time number is pending). process->lock is not held. */
int signal_send(struct process *p, uint64_t tid, int number, const struct signal_info *info);
/* Functions of process_seam: Ctrl-C, and a child's end. */
void signal_interrupt(struct process *p);
bool signal_wants_no_child(struct process *p);
void signal_child_ended(struct process *parent, const struct process *child);
/* signal_fault: the calling thread did something impossible at `at`. True: its program handles
 * that. */
bool signal_fault(int number, int code, vaddr_t at);
/* Before user mode: calls a handler, or does what stands for it. thread.c */
void signal_return_to_user(struct trap_frame *f);
/* fork: the child gets the caller's actions; -ENOMEM. execve: handlers become defaults. */
must_check int signal_copy(struct process *to);
void signal_reset(struct process *p);
void signal_process_free(struct process *p);

#endif
