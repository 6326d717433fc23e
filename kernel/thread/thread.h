/*
 * thread.h - threads, sleeping and waking.
 *
 * The kernel is not preempted: a thread in the kernel runs until it sleeps, yields or goes back to
 * user mode; interrupts are off meanwhile. User mode is preempted by the timer.
 *
 * Each thread has one wake flag (threads.md). thread_park() sleeps until the flag is set and clears
 * it; thread_wake() sets it, from anywhere, with any lock but RANK_SCHED and RANK_LOG held.
 */
#ifndef KERNEL_THREAD_H
#define KERNEL_THREAD_H

#include "arch.h"

struct process;
struct view;

/* The part of a process that its threads share: struct process begins with it. */
struct thread_home {
    paddr_t table;                   /* its page table; slot 0 exists from the start */
    uint64_t cpu_ns, disk_bytes;     /* atomic: used by all its threads so far */
    bool takes_kept;                 /* may take the last THREADS_KEPT threads */
};

enum { THREADS_KEPT = 32 };          /* of THREADS_MAX: for init and what it starts itself */
#define THREADS_MAX 1024
#define THREAD_NEVER UINT64_MAX      /* a deadline that does not come */

enum thread_state { THREAD_READY, THREAD_RUNNING, THREAD_PARKED, THREAD_DEAD };

/* Fields of linux/signal.c; process lock, but for the first, which is atomic. */
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

struct thread {
    struct arch_thread arch;
    struct list run_link;            /* run queue or sleepers; sched lock */
    uint8_t state;                   /* sched lock */
    bool wake;                       /* sched lock */
    bool killed;                     /* set by thread_kill; seen at parks and on return to user */
    uint8_t interruptible;  /* while PARKED: what ends the sleep, enum interruptible; sched lock */
    bool resched;                    /* atomic: its slice is over */
    bool attention;                  /* atomic: look at kills, dooms and resched before user mode */
    int cpu;                         /* where it runs or ran last */
    uint64_t deadline_ns;            /* of its sleep; ~0: none, or it does not sleep */
    void *stack;                     /* KERNEL_STACK_BYTES */
    uint64_t id;  /* tid, set by process.c; shares its numbers with pids. 0: kernel */
    struct process *process;         /* NULL for kernel threads */
    int pid;                         /* its; 0 */
    struct list process_link;        /* process->threads; process lock */
    struct view *view;               /* the view entered; view.c */
    uint8_t view_number;             /* its id + 1, for traces; 0: none */
    struct trap_frame *user_frame;   /* the registers of user mode while it is in the kernel */
    uint64_t cpu_ns, slice_start_ns, run_start_ns;
    /* sched.c: used so far, stretched; up to which cpu_ns; in the queue */
    uint64_t share_ns, shared_ns, key_ns;
    int8_t nice;  /* -20 to 19, as Linux has it; what is shared out by it: sched.c */
    struct thread *locus;  /* whose time and share it uses: itself, or who calls it; sched lock */
    struct { uint64_t call, from_ns; } lent; /* sched.c: it was queued while it served this call */
    int park_result;                 /* why the last sleep ended; sched lock */
    vaddr_t clear_child_tid;         /* linux */
    struct list futex_link;          /* futex.c */
    vaddr_t futex_address;
    uint32_t futex_bits;             /* wake-ups for others of them do not concern it */
    struct list wait_link;           /* whatever queue it waits in: files, ports, pages */
    uint64_t turn;  /* in the queue for frames, also while it is not there; 0: none; evict.c */
    struct call *call;               /* call.c: its slot for calls, from the first one on */
    struct call *given;  /* call.c: what it was given to serve, until it answers; atomic */
    const char *name;
    void (*start)(void *), *start_argument;
    struct thread_signals signals;
};

static inline struct thread *thread_this(void) { return cpu_current(); }
/* thread_home is NULL of a kernel thread. */
static inline struct thread_home *thread_home(const struct thread *t)
{
    return (struct thread_home *)t->process;
}
uint64_t thread_id_alloc(void);              /* the number space of pids and tids */
/* thread_new makes a thread of p (NULL: of the kernel), not started yet. NULL: no memory. */
must_check struct thread *thread_new(struct process *p, void (*start)(void *), void *arg,
                                     const char *name);
void thread_start(struct thread *t);
_Noreturn void thread_exit(void);            /* the process side was told before (process.c) */
/* thread_park and its kin return 0, -ETIMEDOUT, or -EINTR if the thread was or is killed. The plain
 * one is for waits that must not end early (disk, commit): it ignores kills. */
void thread_park(void);
int thread_park_until(uint64_t deadline_ns); /* ~0: no time limit */
int thread_park_until_uninterrupted(uint64_t deadline_ns); /* ignores kills: 0 or -ETIMEDOUT */
int thread_park_until_signal(uint64_t deadline_ns); /* also -ERESTARTSYS: thread_signal() */
void thread_wake(struct thread *t);
/* thread_wait sleeps by `park` in a list of waiters, by wait_link. Lock held before and after. */
int thread_wait(struct list *waiters, struct lock *l, int (*park)(uint64_t deadline_ns));
void thread_wake_all(struct list *waiters);  /* its lock is held */
/* These wake t and switch to it at once on this CPU if it was parked, and park the caller. A called
 * t acts for the caller's locus; one that is asked, and who answered, for itself. */
int thread_call_and_park(struct thread *t);
int thread_ask_and_park(struct thread *t, uint64_t deadline_ns);
int thread_answer_and_park(struct thread *t);
/* thread_locus has t act for whom `as` acts, or for itself (as == t); false: it has not `given`. */
bool thread_locus(struct thread *t, struct thread *as, const struct call *given);
void thread_locus_end(const struct thread *t); /* who has just answered it acts for it no more */
void thread_yield(void);
/* thread_breathe is for work that takes long, at points where no lock is held: it serves
 * shootdowns, wakes sleepers that are due, and yields if the slice is over. Interrupts are off in
 * the kernel, so no tick does that. Cheap. */
void thread_breathe(void);
uint64_t thread_account(void); /* its locus's cpu_ns; that of its process is up to date, too */
void thread_kill(struct thread *t);          /* sets killed, wakes it, kicks its CPU */
void thread_signal(struct thread *t);        /* the same with signalled, for waits that allow it */
/* thread_kick sets `attention`: before t is next in user mode, view_return_to_user() and the like
 * are called; if it is there, its CPU enters the kernel. Any lock but RANK_SCHED and RANK_LOG. */
void thread_kick(struct thread *t);
void thread_use_table(void);                 /* (re)loads the table that thread_this() should have:
                                              * its view's (view->table) or its process's */
/* thread_init makes the running context a thread, which may sleep; and this CPU's idle one. */
void thread_init(void);

/* thread_seam: functions of rooms above that threads call; kernel/seams.c names them. */
struct thread_seam {
    /* view_table: the top-level table of a thread with a view, which is about to run here, or 0; +
     * 1: load it although it is loaded already. */
    paddr_t (*view_table)(struct thread *t);
    void (*tick)(uint64_t now_ns);   /* no lock is held */
    uint64_t (*serves)(const struct thread *t); /* a number of its own for what t was given */
    /* The others are called on the way back to user mode, after a kick, and may sleep. leave, a
     * killed thread's last way out, calls thread_exit(); the last two may replace f's registers. */
    void (*leave)(void) __attribute__((noreturn));
    void (*doomed)(struct trap_frame *f);
    void (*signalled)(struct trap_frame *f);
};
extern const struct thread_seam thread_seam;

#endif
