/*
 * arch_types.h - the x86-64 types behind kernel/arch.h: registers of a trap, the machine's part of
 * a thread, page table entries, and what each CPU has of its own.
 *
 * kernel/ names no register: it reads and writes a trap_frame by the trap_xxx() helpers below.
 */
#ifndef ARCH_TYPES_H
#define ARCH_TYPES_H

#include "base/kernel.h"
#include "asm.h"

/* ---- the registers of user mode (or of an interrupted kernel), as trap.S saves them ----
 * A frame of user mode always lies at the very top of its thread's kernel stack, so its address
 * never changes: arch_user_frame(). */
struct trap_frame {
    union {
        struct { uint64_t FRAME_SAVED; };   /* r12 to r15: by a system call late, if at all: trap.S;
                                             * rcx, r11: its instruction destroys both */
        struct { uint64_t before_arguments[8], arguments[6]; };     /* of a system call */
    };
    uint64_t FRAME_PUSHED;
};

static inline bool trap_from_user(const struct trap_frame *f) { return f->cs & 3; }
static inline uint64_t trap_call_number(const struct trap_frame *f) { return f->rax; }
static inline long trap_result(const struct trap_frame *f) { return (long)f->rax; }
static inline void trap_set_result(struct trap_frame *f, long result) { f->rax = (uint64_t)result; }
/* User mode does the call that just returned once more. */
static inline void trap_call_again(struct trap_frame *f, uint64_t number)
{
    f->rax = number;
    f->rip -= 2; /* of the syscall instruction */
}
/* trap_signal: the signal that Linux sends for an exception; most are SIGSEGV. */
static inline int trap_signal(const struct trap_frame *f)
{
    return f->vector == 0 || f->vector == 16 || f->vector == 19 ? 8 /* SIGFPE */
        : f->vector == 6 ? 4 /* SIGILL */ : f->vector == 1 || f->vector == 3 ? 5 /* SIGTRAP */ : 11;
}
static inline vaddr_t trap_place(const struct trap_frame *f) { return f->rip; }
static inline uint64_t trap_frame_pointer(const struct trap_frame *f) { return f->rbp; }
static inline vaddr_t trap_stack_pointer(const struct trap_frame *f) { return f->rsp; }
static inline void trap_set_stack(struct trap_frame *f, vaddr_t stack) { f->rsp = stack; }
/* User mode goes on at `entry` with the argument in its first argument register. The other
 * registers stay. A bad address is noticed on the way out and ends the process. */
static inline void trap_redirect(struct trap_frame *f, vaddr_t entry, vaddr_t stack,
                                 uint64_t argument)
{
    f->rip = entry;
    f->rsp = stack;
    f->rdi = argument;
}

/* ---- RAM through the direct map ---- */
#if __STDC_HOSTED__ /* a host test has its own */
void *arch_phys(paddr_t pa);
#else
static inline void *arch_phys(paddr_t pa) { return (void *)(DIRECT_BASE + pa); }
#endif

/* ---- threads ---- */
struct arch_thread {
    _Alignas(16) uint8_t fpu[512]; /* fxsave image; stale while fpu_cpu's registers hold newer */
    uint64_t rsp;                  /* of the kernel, while it does not run */
    uint64_t stack_top;
    uint64_t fs_base;
    int fpu_cpu;                   /* the CPU whose registers may still hold this image, or -1 */
    uint32_t keys;                 /* its PKRU, while it does not run */
};

/* arch_user_frame: where the registers of user mode are while the thread is in the kernel. */
static inline struct trap_frame *arch_user_frame(const struct arch_thread *t)
{
    return (struct trap_frame *)(t->stack_top - sizeof(struct trap_frame));
}
/* Enters user mode with all of these registers (clone: a copy of the parent's, changed). */
_Noreturn void arch_user_resume(const struct trap_frame *registers);

/* ---- user memory (arch.h) ---- */
static inline bool user_range_ok(vaddr_t at, uint64_t n)
{
    return n <= USER_LIMIT && at <= USER_LIMIT - n;
}
/* A copy that may fault; the tables are those of trap.S's may_fault and patchable. */
must_check HOT int user_copy_words(void *to, const void *from, size_t words)
{
    __asm__ goto volatile("1:\tstac\n"
                          "2:\trep movsq\n"
                          "3:\tclac\n"
                          /* not where a cold function itself may lie */
                          ".pushsection .text.fixup, \"ax\"\n"
                          "4:\tclac\n\tjmp %l[failed]\n"
                          ".popsection\n"
                          ".pushsection .smap_table, \"a\"\n\t.quad 1b, 3b, 4b\n.popsection\n"
                          ".pushsection .exception_table, \"a\"\n\t.quad 2b, 4b\n.popsection"
                          : "+D"(to), "+S"(from), "+c"(words)
                          :
                          : "memory"
                          : failed);
    return 0;
failed:
    return -EFAULT;
}
must_check HOT int user_words_in(void *to, vaddr_t from, size_t words)
{
    return user_range_ok(from, 8 * words) ? user_copy_words(to, (const void *)from, words)
                                          : -EFAULT;
}
must_check HOT int user_words_out(vaddr_t to, const void *from, size_t words)
{
    return user_range_ok(to, 8 * words) ? user_copy_words((void *)to, from, words) : -EFAULT;
}

/* ---- page table entries ---- */
typedef uint64_t pte_t;
#define PTE_PRESENT   (1ull << 0)
#define PTE_WRITE     (1ull << 1)
#define PTE_USER      (1ull << 2)
#define PTE_UNCACHED  (3ull << 3)  /* PWT and PCD */
#define PTE_ACCESSED  (1ull << 5)
#define PTE_DIRTY     (1ull << 6)
#define PTE_LARGE     (1ull << 7)  /* upper levels only */
#define PTE_GLOBAL    (1ull << 8)
#define PTE_SOFT0     (1ull << 9)
#define PTE_SOFT1     (1ull << 10)
#define PTE_SOFT2     (1ull << 11)
/* stored to by user mode only while its PKRU has not KEYS_CLOSED; nothing without such keys */
#define PTE_GUARDED   (1ull << 59)
#define PTE_NX        (1ull << 63)
#define PTE_FRAME     0x000ffffffffff000ull

static inline pte_t pte_make(paddr_t pa, uint64_t flags) { return pa | flags; }
static inline bool pte_present(pte_t e) { return e & PTE_PRESENT; }
static inline bool pte_writable(pte_t e) { return e & PTE_WRITE; }
static inline paddr_t pte_frame_paddr(pte_t e) { return e & PTE_FRAME; }
static inline pte_t pte_load(const pte_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
/* pte_store: a plain store, for an entry that no walker can see as present: no other CPU's bits can
 * get lost. */
static inline void pte_store(pte_t *p, pte_t e)
{
    __atomic_store_n(p, e, __ATOMIC_RELEASE);
}
static inline pte_t pte_exchange(pte_t *p, pte_t e)
{
    return __atomic_exchange_n(p, e, __ATOMIC_SEQ_CST);
}
/* pte_compare_exchange: false if *p was not *expected; *expected is then what *p was. */
static inline bool pte_compare_exchange(pte_t *p, pte_t *expected, pte_t desired)
{
    return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* ---- CPUs ---- */
struct thread;
struct cpu {
    struct cpu *self;               /* up to `mark`, asm.h knows the offsets */
    struct trap_frame *user_frame;  /* where a system call saves its registers */
    uint64_t user_rsp;              /* for three instructions of the system call entry */
    struct thread *current, *idle;  /* thread.c */
    unsigned id;                    /* 0.. */
    unsigned apic_id;
    uint32_t locks_held;            /* lock.h: bit r: holds a lock of rank r */
    uint32_t mark;                  /* id + 1: what it writes into a lock */

    /* table.c, tlb.c */
    paddr_t loaded_table;           /* read by other CPUs */
    paddr_t leaving_table;          /* the one before, until CR3 was written */
    paddr_t unload_table;           /* written by others: leave this one at the next service */
    uint64_t flush_asked;           /* atomic: requests so far */
    uint64_t flush_done;            /* of them served, up to this number */
    uint32_t sleeping;              /* atomic: in arch_idle, will serve before it leaves */
    uint32_t spins;
    uint64_t interrupts;            /* so far; read by other CPUs */
    uint64_t idle_since;            /* halted since this time stamp, or 0 */
    uint64_t idle_cycles;           /* sum; read by other CPUs */

    /* switch.h, cpu.c */
    struct thread *dead;            /* left this CPU for ever, stack not freed yet: thread.c */
    uint32_t kicks;                 /* CPUs to interrupt as soon as no lock is held: thread.c */
    union {
        uint16_t after_switch;      /* both, in one look: */
        struct { bool chores, traces; }; /* one of the two above; somebody traces (set by others) */
    };
    struct arch_thread *fpu_owner;  /* whose image the registers hold */
    bool fpu_open;                  /* user mode may use the registers without a trap */

    uint64_t kicks_sent, flushes_sent; /* interrupts to other CPUs; read by them */
    uint32_t started;               /* atomic: it is up */
    int64_t tsc_offset;             /* added, so that all CPUs agree and boot is at 0 */
    uint64_t stopped_at;            /* where the CPU was when a panic stopped it */
    void *trap_stack;               /* where the tables say which stack a trap gets */
};

/* cpu_this: this CPU's struct. A thread may wake up on another CPU: do not keep it over a sleep. */
static inline struct cpu *cpu_this(void)
{
    struct cpu *c;
    __asm__ volatile("movq %%gs:0, %0" : "=r"(c));
    return c;
}
/* The running thread. It is the same all along a thread's way through C, wherever it wakes up, so
 * the compiler may keep it. */
static inline struct thread *cpu_current(void)
{
    struct thread *t;
    __asm__("movq %%gs:%c1, %0" : "=r"(t) : "i"(CPU_CURRENT));
    return t;
}
extern struct cpu cpus[];
extern unsigned cpu_count;          /* smp.c */
#if __STDC_HOSTED__
unsigned arch_cpu_id(void);
unsigned arch_cpu_count(void);
#else
static inline unsigned arch_cpu_id(void) { return cpu_this()->id; }
static inline unsigned arch_cpu_count(void) { return cpu_count; }
#endif
static inline paddr_t arch_table_loaded(void) { return cpu_this()->loaded_table; }

/* ---- time ---- */
extern uint64_t clock_scale;        /* ns = cycles * clock_scale >> CLOCK_SHIFT */
#define CLOCK_SHIFT 32
static inline uint64_t arch_cycles(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
/* Nanoseconds since boot: monotonic, and all CPUs agree. */
static inline uint64_t cpu_time_ns(const struct cpu *c)
{
    uint64_t cycles = arch_cycles() + (uint64_t)c->tsc_offset;
    return (uint64_t)((unsigned __int128)cycles * clock_scale >> CLOCK_SHIFT);
}
static inline uint64_t arch_time_ns(void) { return cpu_time_ns(cpu_this()); }

#endif
