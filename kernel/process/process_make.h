/* process_make.h - the table of processes, and how one is made: for linux/, and process.c. */
#ifndef KERNEL_PROCESS_MAKE_H
#define KERNEL_PROCESS_MAKE_H

#include "process/process.h"

struct process_table {
    struct lock lock;
    struct list all;
    unsigned count;
    int init;                    /* pid of the first process */
};
extern struct process_table process_table;
/* process_after finds the next process by number, also one that has ended; a reference, or NULL. */
struct process *process_after(int pid);
bool process_in_reach_locked(const struct process *p, uint32_t right); /* process_table.lock held */

struct thread_begin {            /* how a thread enters user mode */
    struct trap_frame registers;
    uint64_t fs_base;
    vaddr_t clear_child_tid;
    bool resumes;                /* goes on with these registers */
    vaddr_t entry, stack;        /* or begins there, with none */
};
/* process_new makes one that nobody sees: its space is empty, it has no thread and is not in the
 * table. It takes the reference to cwd over, unless NULL. */
struct process *process_new(const char *path, struct process *parent, struct node *cwd);
/* process_load loads a program into a process that is not in the table yet and has no thread, so
 * that the caller can hand things over before it runs. */
must_check int process_load(const char *path, const char *const *argv, const char *const *envp,
                            struct process *parent, struct thread_begin **begin,
                            struct process **out);
/* process_launch puts p into the table (PR1) and starts it; takes `b` over. Nothing fails after its
 * thread exists. 0, -EAGAIN (there are too many), -ENOMEM. */
must_check int process_launch(struct process *p, struct thread_begin *b);
/* process_room: may the caller make one more process? To know it before the work of making one. */
bool process_room(void);
/* process_discard frees a process that never ran, and its `b`; each may be NULL. */
void process_discard(struct process *p, struct thread_begin *b);

#endif
