/*
 * signal.h - signals, as Linux defines them, for the programs of a C library. Contract in signal.c.
 */
#ifndef KERNEL_SIGNAL_H
#define KERNEL_SIGNAL_H

#include "process/process.h"

#define SIGNAL_MAX 64
enum { SIGNAL_INTERRUPT = 2, SIGNAL_ILLEGAL = 4, SIGNAL_ABORT = 6, SIGNAL_DIVIDE = 8,
       SIGNAL_KILL = 9, SIGNAL_ACCESS = 11, SIGNAL_PIPE = 13, SIGNAL_ALARM = 14, SIGNAL_END = 15,
       SIGNAL_CHILD = 17, SIGNAL_CONTINUE = 18, SIGNAL_STOP = 19, SIGNAL_STOP_TYPED = 20,
       SIGNAL_STOP_READ = 21, SIGNAL_STOP_WRITE = 22, SIGNAL_URGENT = 23, SIGNAL_WINDOW = 28 };
#define SIGNAL_BIT(n) (1ull << ((n) - 1))

/* What rt_sigaction gives and takes. */
struct signal_action {
    vaddr_t handler;                     /* 0: the default; 1: ignored */
    uint64_t flags;
    vaddr_t restorer;
    uint64_t mask;
};
/* What a handler of three arguments is told; Linux's siginfo begins with it. */
struct signal_info {
    int32_t number, error, code, pad;
    union {
        struct { int32_t pid; uint32_t user; int32_t status; };
        vaddr_t address;
    };
};

/* To a process, or to one thread of it (tid not 0). 0, -ESRCH (no such thread), or -EINVAL. number 0
 * only asks. process->lock is not held. */
int signal_send(struct process *p, uint64_t tid, int number, const struct signal_info *info);
/* The calling thread did something impossible at `at`. True: its program handles that. */
bool signal_fault(int number, vaddr_t at);
/* Before user mode: calls a handler, or does what stands for it. thread.c */
void signal_return_to_user(struct trap_frame *f);
/* A wait of a call of Linux's: as thread_park_until(), and -ERESTARTSYS when a signal came. */
must_check int signal_park_until(uint64_t deadline_ns);
/* fork: the child gets the caller's actions; -ENOMEM. execve: handlers become defaults. */
must_check int signal_copy(struct process *to);
void signal_reset(struct process *p);
void signal_process_free(struct process *p);

/* Arch: the frame on the user's stack that a handler returns through. */
struct signal_call {
    struct signal_action action;
    struct signal_info info;
    uint64_t mask;                       /* what was blocked before */
};
/* Saves all registers in a frame below the user's stack pointer and makes f enter the handler.
 * -EFAULT: there is no room for it. */
must_check int arch_signal_enter(struct trap_frame *f, const struct signal_call *c);
/* Reads the frame that rt_sigreturn stands on: all registers and the mask. -EFAULT. */
must_check int arch_signal_leave(struct trap_frame *out, uint64_t *mask);

#endif
