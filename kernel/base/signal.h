/* signal.h - signals as Linux defines them: numbers, what calls and handlers are given, and what a
 * thread keeps of them. */
#ifndef KERNEL_BASE_SIGNAL_H
#define KERNEL_BASE_SIGNAL_H

#include "base/kernel.h"

#define SIGNAL_MAX 64
enum { SIGNAL_INTERRUPT = 2, SIGNAL_ABORT = 6, SIGNAL_BUS = 7, SIGNAL_KILL = 9,
       SIGNAL_ACCESS = 11, SIGNAL_PIPE = 13, SIGNAL_END = 15, SIGNAL_CHILD = 17,
       SIGNAL_CONTINUE = 18, SIGNAL_STOP = 19, SIGNAL_STOP_TYPED = 20, SIGNAL_STOP_READ = 21,
       SIGNAL_STOP_WRITE = 22, SIGNAL_URGENT = 23, SIGNAL_WINDOW = 28, SIGNAL_REAL_TIME = 32 };
#define SIGNAL_BIT(n) (1ull << ((n) - 1))

/* The struct that rt_sigaction gives and takes. */
struct signal_action {
    vaddr_t handler;                     /* 0: the default; 1: ignored */
    uint64_t flags;
    vaddr_t restorer;
    uint64_t mask;
};
/* The first part of Linux's siginfo, which a handler of three arguments gets. */
struct signal_info {
    int32_t number, error, code, pad;
    union {
        struct { int32_t pid; uint32_t user; int32_t status; };
        vaddr_t address;
    };
};

/* Codes that tell a handler why a fault became a signal. */
enum { SIGNAL_CODE_NOTHING = 1 /* SEGV_MAPERR */, SIGNAL_CODE_REFUSED = 2 /* SEGV_ACCERR */ };

/* The struct that sigaltstack gives and takes. */
struct signal_stack {
    vaddr_t at;
    uint32_t flags, pad;
    uint64_t bytes;
};

/* The fields of a thread for linux/signal.c; process lock, but for the first, which is atomic. */
struct thread_signals {
    bool due;                        /* look for signals before user mode */
    bool suspended;                  /* in sigsuspend: `before` is the mask that comes back */
    uint64_t blocked, pending, before;
    uint8_t fault_number, fault_code; /* a pending signal that it caused itself; 0: none */
    vaddr_t fault_at;
    vaddr_t stack;                   /* sigaltstack, its own thread's alone */
    uint64_t stack_bytes;            /* 0: it has none */
    uint64_t restart_call;           /* number + 1 of a call that a signal interrupted, or 0 */
};

/* Everything that arch_signal_enter() needs to call a handler. */
struct signal_call {
    struct signal_action action;
    struct signal_info info;
    uint64_t mask;                       /* what was blocked before */
    struct signal_stack stack;           /* for the handler to see */
    vaddr_t top, bottom;                 /* top not 0: the frame is below it; not below bottom */
};

#endif
