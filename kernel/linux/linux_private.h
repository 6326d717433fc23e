/* linux_private.h - processes that Linux's calls and Katydid's make, wait for and rank, once for
 * both. */
#ifndef KERNEL_LINUX_PRIVATE_H
#define KERNEL_LINUX_PRIVATE_H

#include "process/process_make.h"

/* fork.c: registers are the child's. Its pid, -ENOMEM, -EAGAIN, -EFAULT. */
must_check long process_fork(const struct trap_frame *registers, vaddr_t child_tid, bool set,
                             bool clear);

/* process_call.c */
/* Takes an ended child out of the table (pid -1: any; below: of the group -pid), waiting by `park`:
 * 0, -ECHILD, -EAGAIN (only with no_hang), or what park returned. The table's reference goes to the
 * caller. */
must_check int process_wait_child(int pid, bool no_hang, int (*park)(uint64_t deadline_ns),
                                  struct process **out);
/* 20 - the niceness of the thread, which was set before unless nice is NULL; -ESRCH. */
must_check long process_thread_nice(uint64_t id, const int *nice);

/* Strings of the caller's, copied into one piece of kernel memory: argv, and envp behind it. */
struct process_strings {
    const char **pointers;
    char *bytes;
    size_t used, capacity;
    unsigned count, count_max;
};
/* -EFAULT, -E2BIG, -ENOMEM; free them in any case. */
must_check int process_strings_new(struct process_strings *s, vaddr_t argv, vaddr_t envp,
                                   const char *const **env);
void process_strings_free(struct process_strings *s);

#endif
