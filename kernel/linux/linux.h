/*
 * linux.h - the Linux calls, which syscall.c puts into the table, and what processes, signals and
 * futexes offer the rooms below by their seams (seams.c). Arguments of calls are as the user gave
 * them: every pointer is a vaddr_t and hostile, and copies to and from it are made without locks.
 */
#ifndef KERNEL_LINUX_H
#define KERNEL_LINUX_H

#include "base/signal.h"
#include "katydid/linux.h"
#include "process/process_make.h"

/* FILE_CALL(name) { ... }: the call linux_name, whose first argument is a descriptor; its body gets
 * the open file, too, whose reference is dropped behind it. -EBADF: there is none. */
struct file;
typedef long file_call(struct file *f, const uint64_t a[6]);
long call_with_file(file_call *fn, const uint64_t a[6]);
#define FILE_CALL(name)                                                                           \
    static file_call name##_file;                                                                 \
    long linux_##name(const uint64_t a[6]) { return call_with_file(name##_file, a); }             \
    static long name##_file(struct file *f, const uint64_t a[6])

#define LINUX_CALL(number, name) trap_call linux_##name;
LINUX_CALLS(LINUX_CALL)
#undef LINUX_CALL
trap_call linux_clone, linux_fork;

/* ---- processes: elf.c, process_call.c ---- */

/* elf_load is process_seam.load. */
must_check int elf_load(struct process *p, struct node *image, const char *path,
                        const char *const *argv, const char *const *envp, vaddr_t *entry,
                        vaddr_t *stack);
/* process_load_user makes a process with this program, which does not run yet (process_load); path
 * and strings are in the caller's memory. -EFAULT, -E2BIG, -ENOMEM, ... */
must_check long process_load_user(vaddr_t path, vaddr_t argv, vaddr_t envp,
                                  struct thread_begin **begin, struct process **out);

/* ---- signals, as Linux defines them: signal.c has the contract ---- */

/* signal_send sends a signal to a process, or to one thread of it (tid not 0); number 0 only asks.
 * 0, -ESRCH (no such thread), -EINVAL, -ENOSYS (the process would have to stop), -EAGAIN (one of
 * that real-time number is pending). process->lock is not held. */
int signal_send(struct process *p, uint64_t tid, int number, const struct signal_info *info);
/* These are functions of process_seam: for Ctrl-C, and for a child's end. */
void signal_interrupt(struct process *p);
bool signal_wants_no_child(struct process *p);
void signal_child_ended(struct process *parent, const struct process *child);
/* signal_fault: the calling thread did something impossible at `at`. True: its program handles
 * that. */
bool signal_fault(int number, int code, vaddr_t at);
/* signal_return_to_user calls a handler before user mode, or does what stands for it. thread.c */
void signal_return_to_user(struct trap_frame *f);
/* signal_copy gives a fork's child our actions; -ENOMEM. signal_reset (execve): to defaults. */
must_check int signal_copy(struct process *to);
void signal_reset(struct process *p);
void signal_process_free(struct process *p);

/* ---- waiting for a word of user memory, and for time: futex.c ---- */

void futex_init(void);
/* futex_thread_gone clears the tid word of a thread that ends, and wakes who joins it. */
void futex_thread_gone(struct thread *t);
#define NS_PER_S 1000000000ull
/* time_from_user reads a struct timespec from user memory, as nanoseconds. */
must_check int time_from_user(vaddr_t at, uint64_t *ns);
/* time_of_day_offset_ns and the time since boot are the time of day (option epoch=SECONDS). */
uint64_t time_of_day_offset_ns(void);

#endif
