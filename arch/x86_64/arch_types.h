/*
 * arch_types.h - the x86-64 types behind kernel/arch.h: registers of a trap, the machine's part of
 * a thread, page table entries, and what each CPU has of its own.
 *
 * kernel/ names no register: it reads and writes a trap_frame by the trap_xxx() helpers below.
 */
#ifndef ARCH_TYPES_H
#define ARCH_TYPES_H

#include "kernel.h"
#include "asm.h"

/* ---- the registers of user mode (or of an interrupted kernel), as trap.S saves them ----
 * A frame of user mode always lies at the very top of its thread's kernel stack, so its address
 * never changes: arch_user_frame(). */
struct trap_frame {
    uint64_t r15, r14, r13, r12; /* a system call saves them late, if at all: trap.S */
    uint64_t rbp, rbx;
    uint64_t rcx, r11;      /* not saved by a system call: its instruction destroys both */
    union {
        struct { uint64_t rdi, rsi, rdx, r10, r8, r9; };
        uint64_t arguments[6]; /* of a system call */
    };
    uint64_t rax;
    uint64_t vector, error;
    uint64_t rip, cs, rflags, rsp, ss;
};

static inline bool trap_from_user(const struct trap_frame *f) { return f->cs & 3; }
static inline uint64_t trap_call_number(const struct trap_frame *f) { return f->rax; }
static inline void trap_set_result(struct trap_frame *f, long result) { f->rax = (uint64_t)result; }
static inline vaddr_t trap_place(const struct trap_frame *f) { return f->rip; }
static inline vaddr_t trap_stack(const struct trap_frame *f) { return f->rsp; }
static inline uint64_t trap_frame_pointer(const struct trap_frame *f) { return f->rbp; }
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
};

/* Where the registers of user mode are while the thread is in the kernel. */
static inline struct trap_frame *arch_user_frame(const struct arch_thread *t)
{
    return (struct trap_frame *)(t->stack_top - sizeof(struct trap_frame));
}
/* Enters user mode with all of these registers (clone: a copy of the parent's, changed). */
_Noreturn void arch_user_resume(const struct trap_frame *registers);

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
#define PTE_SOFT_HIGH(i) (1ull << (52 + (i)))  /* i = 0..6; bits 59 to 62: kept for keys */
#define PTE_NX        (1ull << 63)
#define PTE_FRAME     0x000ffffffffff000ull

static inline pte_t pte_make(paddr_t pa, uint64_t flags) { return pa | flags; }
static inline bool pte_present(pte_t e) { return e & PTE_PRESENT; }
static inline bool pte_writable(pte_t e) { return e & PTE_WRITE; }
static inline bool pte_accessed(pte_t e) { return e & PTE_ACCESSED; }
static inline bool pte_dirty(pte_t e) { return e & PTE_DIRTY; }
static inline paddr_t pte_frame_paddr(pte_t e) { return e & PTE_FRAME; }
static inline pte_t pte_load(const pte_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
/* For an entry that no walker can see as present: no other CPU's bits can get lost. */
static inline void pte_store(pte_t *p, pte_t e) { __atomic_store_n(p, e, __ATOMIC_RELEASE); }
static inline pte_t pte_exchange(pte_t *p, pte_t e)
{
    return __atomic_exchange_n(p, e, __ATOMIC_SEQ_CST);
}
/* False: *p was not *expected; *expected is now what it was. */
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
    const bool *attention;          /* of the running thread: call trap_return_to_user() */
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
    uint64_t idle_since;            /* halted since this time stamp, or 0 */
    uint64_t idle_cycles;           /* sum; read by other CPUs */

    /* thread.S, fpu.c */
    struct arch_thread *running;
    struct arch_thread *fpu_owner;  /* whose image the registers hold */
    bool fpu_open;                  /* user mode may use the registers without a trap */

    uint32_t started;               /* atomic: it is up */
    int64_t tsc_offset;             /* added, so that all CPUs agree */
    uint64_t stopped_at;            /* where the CPU was when a panic stopped it */
    struct cpu_tables *tables;      /* descriptor tables and stacks: cpu.c */
};

/* This CPU's. A thread may wake up on another CPU: do not keep it across a sleep. */
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

#endif
