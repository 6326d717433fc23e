/* process_private.h - what process.c shares with process_call.c. */
#ifndef KERNEL_PROCESS_PRIVATE_H
#define KERNEL_PROCESS_PRIVATE_H

#include "process.h"

struct process_table {
    struct lock lock;
    struct list all;
    unsigned count;
    int init;                    /* pid of the first process */
};
extern struct process_table process_table;

struct thread_begin;             /* how a thread enters user mode */

/* Loads a program into a process that is not in the table yet and has no thread, so that the caller
 * can hand things over before it runs. */
must_check int process_load(const char *path, const char *const *argv, const char *const *envp,
                            struct process *parent, struct thread_begin **begin,
                            struct process **out);
/* Into the table (R1) and off it goes; takes `b` over and nothing fails after its thread exists.
 * -EAGAIN: there are too many; -ENOMEM. */
must_check int process_launch(struct process *p, struct thread_begin *b);
/* A process that never ran, nor was in the table. */
void process_discard(struct process *p);

#endif
