/* process_private.h - what process.c shares with process_call.c. */
#ifndef KERNEL_PROCESS_PRIVATE_H
#define KERNEL_PROCESS_PRIVATE_H

#include "process/process.h"

struct process_table {
    struct lock lock;
    struct list all;
    unsigned count;
    int init;                    /* pid of the first process */
};
extern struct process_table process_table;
bool process_in_reach_locked(const struct process *p, uint32_t right); /* process_table.lock held */
struct process *process_lookup(int pid);       /* process_table.lock held */

struct thread_begin {            /* how a thread enters user mode */
    struct trap_frame registers;
    uint64_t fs_base;
    vaddr_t clear_child_tid;
    bool resumes;                /* goes on with these registers */
    vaddr_t entry, stack;        /* or begins there, with none */
};
/* Out of user mode's sight: its space is empty, it has no thread and is not in the table. Takes the
 * reference to cwd over, unless NULL. */
struct process *process_new(const char *path, struct process *parent, struct node *cwd);
/* fork.c: registers are the child's. Its pid, -ENOMEM, -EAGAIN, -EFAULT. */
must_check long process_fork(const struct trap_frame *registers, vaddr_t child_tid, bool set,
                             bool clear);
/* Takes an ended child out of the table (pid -1: any; below: of the group -pid), waiting by `park`:
 * 0, -ECHILD, -EAGAIN (only with no_hang), or what park returned. The table's reference goes to the
 * caller. */
must_check int process_wait_child(int pid, bool no_hang, int (*park)(uint64_t deadline_ns),
                                  struct process **out);

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

/* Loads a program into a process that is not in the table yet and has no thread, so that the caller
 * can hand things over before it runs. */
must_check int process_load(const char *path, const char *const *argv, const char *const *envp,
                            struct process *parent, struct thread_begin **begin,
                            struct process **out);
/* Into the table (PR1) and off it goes; takes `b` over and nothing fails after its thread exists.
 * -EAGAIN: there are too many; -ENOMEM. */
must_check int process_launch(struct process *p, struct thread_begin *b);
/* May the caller make one more? To know it before the work of making it. */
bool process_room(void);
/* A process that never ran, nor was in the table. */
void process_discard(struct process *p);

#endif
