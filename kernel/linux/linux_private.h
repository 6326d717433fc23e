/* linux_private.h - processes that Linux's calls and Katydid's make, wait for and rank, once for
 * both. */
#ifndef KERNEL_LINUX_PRIVATE_H
#define KERNEL_LINUX_PRIVATE_H

#include "process/process_make.h"

/* fork.c: registers are the child's. Its pid, -ENOMEM, -EAGAIN, -EFAULT. */
must_check long process_fork(const struct trap_frame *registers, vaddr_t child_tid, bool set,
                             bool clear);

/* process_call.c */
/* How a child ended, and the CPU time that it and its own took. */
struct child_end { int32_t status, signal; uint64_t cpu_ns; };
/* Takes an ended child out of the table (pid -1: any; below: of the family -pid), waiting by
 * `park`: its pid; 0: none has ended, only with no_hang; -ECHILD; or what park returned. */
must_check long process_wait_child(int pid, bool no_hang, int (*park)(uint64_t deadline_ns),
                                   struct child_end *out);
/* 20 - the niceness of the thread, which was set before unless nice is NULL; -ESRCH. */
must_check long process_thread_nice(uint64_t id, const int *nice);

/* A process with this program, which does not run yet (process_load); path and strings are in the
 * caller's memory. -EFAULT, -E2BIG, -ENOMEM, ... */
must_check long process_load_user(vaddr_t path, vaddr_t argv, vaddr_t envp,
                                  struct thread_begin **begin, struct process **out);

#endif
