/*
 * thread.h - threads, sleeping and waking; trace points. All that other rooms use of thread/.
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
#include "base/signal.h"
#include "katydid/trace.h"

struct process;
struct view;

/* The part of a process that its threads share: struct process begins with it. */
struct thread_home {
    paddr_t table;                   /* its page table; slot 0 exists from the start */
    uint64_t cpu_ns, disk_bytes;     /* atomic: used by all its threads so far */
    bool takes_kept;                 /* may take the last THREADS_KEPT threads */
};

#define THREADS_MAX 1024
#define THREAD_NEVER UINT64_MAX      /* a deadline that does not come */

struct thread {
    struct arch_thread arch;
    struct list run_link;            /* run queue or sleepers; sched lock */
    uint8_t state;                   /* enum thread_state (sched.h); sched lock */
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
    uint64_t share_ns, shared_ns, key_ns; /* sched.c: used, stretched; to which cpu_ns; in queue */
    int8_t nice;  /* -20 to 19, as Linux has it; what is shared out by it: sched.c */
    struct thread *locus;  /* whose time and share it uses: itself, or who calls it; sched lock */
    struct { uint64_t call, from_ns; bool urgent; } ahead; /* sched.c: why it goes before others */
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
static inline struct thread_home *thread_home(const struct thread *t) /* NULL: of the kernel */
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
/* thread_breathe is for long work, where no lock is held: it serves shootdowns, wakes sleepers and
 * yields if the slice is over. Interrupts are off in the kernel, so no tick does that. Cheap. */
void thread_breathe(void);
uint64_t thread_account(void); /* its locus's cpu_ns; that of its process is up to date, too */
void thread_kill(struct thread *t);          /* sets killed, wakes it, kicks its CPU */
void thread_signal(struct thread *t);        /* the same with signalled, for waits that allow it */
/* thread_kick sets `attention`: before t is next in user mode, view_return_to_user() and the like
 * are called; if it is there, its CPU enters the kernel. Any lock but RANK_SCHED and RANK_LOG. */
void thread_kick(struct thread *t);
void thread_use_table(void); /* (re)loads the table of the view that the caller is in, or its own */
/* thread_init makes the running context a thread, which may sleep; and this CPU's idle one. */
void thread_init(void);
void sched_check(void);                      /* panics if a queue is wrong (SC1, TH1) */

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

/* ---- trace points (look/tracing.md) ----
 * While nobody traces one costs two instructions, a compare and a jump that is not taken; those of
 * system calls, messages between programs and thread switches cost none (look/trace_call.c). */
extern bool trace_on, trace_keeps;  /* somebody traces; or at least what is rare is kept */
/* trace_event appends to this CPU's ring, with no lock: it may be called with any, at any time. */
void trace_event(enum kd_trace_event_kind kind, uint32_t c, uint64_t a, uint64_t b)
    __attribute__((cold, noinline));
#define TRACE_IF(on, event, c, a, b)                                                              \
    ((on) ? trace_event(KD_TRACE_##event, (uint32_t)(c), (a), (b)) : (void)0)
#define TRACE(event, c, a, b) TRACE_IF(unlikely(trace_on), event, c, a, b)
/* TRACE_RARE is for rare events: they are kept, too, while nobody traces, but with trace=off. */
#define TRACE_RARE(event, c, a, b) TRACE_IF(likely(trace_keeps), event, c, a, b)
void trace_name(int pid, const char *name); /* of a program, for its process */
extern struct lock trace_lock;              /* for the next two */
enum { TRACE_READ_MAX = 256 };              /* events at a time */
/* trace_ring_read copies what d asks for of a CPU's ring; d says what was lost. How many. */
unsigned trace_ring_read(unsigned cpu, struct kd_trace_read *d, struct kd_trace_event *to);
/* trace_rings makes rings of so many events for the first CPUs; -ENOMEM: for some of them only. */
must_check int trace_rings(unsigned cpus, uint64_t count);
/* trace_last copies the last events of a process (0: all), newest first. Locks, but in a panic. */
unsigned trace_last(int pid, struct kd_trace_event *to, unsigned count);
void trace_init(void);

#endif
