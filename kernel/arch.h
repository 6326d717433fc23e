/*
 * arch.h - all that the machine-independent kernel asks of the machine. Implemented in arch/.
 *
 * The kernel runs with interrupts off, in every CPU, except in arch_idle() and in user mode.
 */
#ifndef KERNEL_ARCH_H
#define KERNEL_ARCH_H

#include "base/kernel.h"
#include "arch_types.h" /* arch/x86_64: struct trap_frame, struct arch_thread, pte_t, cpu_this() */

#define CPU_MAX 8
#define KERNEL_STACK_BYTES 16384
#define STACK_FRAMES (KERNEL_STACK_BYTES / PAGE_BYTES)

/* ---- direct map and devices ----
 * arch_phys(pa): RAM through the direct map; arch_types.h */
must_check void *arch_map_device(paddr_t pa, size_t bytes); /* uncached, for ever; NULL: no room */

/* ---- page tables ----
 * A pte_t is one 64-bit leaf entry. All changes of one that may be in a TLB go by
 * pte_exchange/pte_compare_exchange: the page walker sets ACCESSED beside us (KR1). */
must_check paddr_t arch_table_new(void);  /* kernel half filled in, user half empty; 0: none */
/* arch_table_new_view makes a view's table: kernel half, plus slot 0 of the process's table. */
must_check paddr_t arch_table_new_view(paddr_t process_table);
/* arch_table_free frees table pages of slots [first, last] and, of a whole table, the top; no leaf
 * frames. Every CPU that has the table loaded was flushed or reloaded first (KR5). */
void arch_table_free(paddr_t top, bool is_view);
/* arch_tables_cut takes all that a view's table maps but slot 0 out of it: the tables for [from,
 * to). Its time does not grow with their number; the caller flushes this CPU. arch_tables_free
 * frees what was cut, so many tables at most, and returns how many it were. */
void arch_tables_cut(paddr_t top, vaddr_t from, vaddr_t to, struct list *cut);
uint64_t arch_tables_free(struct list *cut, unsigned most);
/* arch_tables_cut_empty takes out the tables for parts of [from, to) that map nothing and lie
 * within [low, high); `any`: the lowest ones whatever they hold. How many it were; they are freed
 * when arch_table_cpus() were shot at. */
uint64_t arch_tables_cut_empty(paddr_t top, vaddr_t from, vaddr_t to, vaddr_t low, vaddr_t high,
                               bool any, struct list *cut);
void arch_table_leave(paddr_t view_table);  /* slot 0 ends before it; no CPU loads it any more */
/* arch_pte finds the leaf entry for a user address. Missing tables are made and counted in *made;
 * with `made` NULL, or without memory, the result is NULL. */
pte_t *arch_pte(paddr_t top, vaddr_t at, uint64_t *made);
/* arch_pte_walk calls fn for each non-zero leaf entry in [from, to), in order, until that is false,
 * or it has seen some thousand entries. Where it goes on: `to` if that was all. */
must_check vaddr_t arch_pte_walk(paddr_t top, vaddr_t from, vaddr_t to,
                   bool (*fn)(pte_t *pte, vaddr_t at, void *arg), void *arg);
/* pte_make(pa, flags), pte_present(e), pte_frame_paddr(e), ... : arch_types.h */

/* ---- TLB ---- */
void arch_flush_page(vaddr_t at);                  /* this CPU */
void arch_flush_all(void);                         /* this CPU: reload the table */
/* arch_shootdown flushes all user entries of the CPUs in the mask (this one too if named) and waits
 * until they did; serves incoming ones meanwhile. May be called with locks held. */
void arch_shootdown(uint64_t cpu_mask);
/* arch_table_cpus tells the CPUs that may hold entries of slot 0 of this table: it, or one that
 * shares the slot, is loaded. Whoever loads one later sees what was written before the call. */
uint64_t arch_table_cpus(paddr_t top);
/* arch_quiet_ask asks the other CPUs to come out of the kernel once; arch_quiet tells whether each
 * has been outside since, or asleep. */
void arch_quiet_ask(uint64_t seen[CPU_MAX]);
bool arch_quiet(const uint64_t seen[CPU_MAX]);
void arch_serve_shootdown(void);                   /* what every spin loop calls */
void arch_spin_hint(void);  /* pause or nothing, chosen at start; + the above */
/* arch_table_load(top) loads a top-level table: switch.h. arch_table_loaded(): this CPU's */

/* ---- CPUs, time, interrupts ---- */
/* arch_cpu_count(); arch_cpu_id(): 0..count-1; arch_types.h */
void arch_start_cpus(void);                        /* each runs cpu_main() of thread.c */
void arch_kick(unsigned cpu);                      /* an interrupt, so that it looks at its work */
void arch_idle(void);                              /* interrupts on, halt, interrupts off */
                                                   /* arch_time_ns(): arch_types.h */
/* arch_cycles(): rdtsc; arch_types.h */
uint64_t arch_idle_cycles(void);                   /* of them halted, summed over all CPUs */
void arch_init(void); /* CPUs' tables, interrupts, clock, console input; after frame_init() */
_Noreturn void arch_power_off(int panicked);       /* isa-debug-exit 0x10 / 0x20, else halt */

/* ---- threads ---- */
/* arch_stack_new makes KERNEL_STACK_BYTES with an unmapped page below; NULL: no memory. */
must_check void *arch_stack_new(void);
void arch_stack_free(void *stack);
/* arch_thread_init prepares a new kernel stack so that the first switch to it calls start(arg). */
void arch_thread_init(struct arch_thread *t, void *stack_top, void (*start)(void *), void *arg);
/* arch_thread_switch(cpu, from, to) saves FPU and stack of `from`, loads those of `to`: switch.h */
/* arch_user_enter is the first entry into user mode, with empty registers. It never returns. */
_Noreturn void arch_user_enter(vaddr_t entry, vaddr_t stack, uint64_t argument);
void arch_set_fs_base(struct arch_thread *t, uint64_t base); /* of the running thread */
uint64_t arch_get_fs_base(const struct arch_thread *t);
/* arch_thread_copy_fpu copies the FPU state (clone). */
void arch_thread_copy_fpu(struct arch_thread *to, const struct arch_thread *from);
/* arch_thread_set_fpu replaces that of the running thread; NULL: by a new one's, its keys, too. */
void arch_thread_set_fpu(struct arch_thread *t, const uint8_t image[512]);

/* ---- signals: the frame on the user's stack that a handler returns through ---- */
struct signal_call;
struct signal_stack;
/* arch_signal_enter saves all registers in a frame below the user's stack pointer, or c->top, and
 * makes f enter the handler. -EFAULT: there is no room for it. */
must_check int arch_signal_enter(struct trap_frame *f, const struct signal_call *c);
/* arch_signal_leave reads the frame that rt_sigreturn stands on: all registers, the mask and the
 * stack. -EFAULT. */
must_check int arch_signal_leave(struct trap_frame *out, uint64_t *mask,
                                 struct signal_stack *stack);

/* ---- user memory: 0 or -EFAULT; faults are served like those of user mode, so these may sleep
 * and must be called without locks. Range checks included (user half only, no wrap). ---- */
must_check int copy_from_user(void *to, vaddr_t from, size_t n);
bool user_calls_before(vaddr_t at); /* a call stands right before this code */
must_check int copy_to_user(vaddr_t to, const void *from, size_t n);
/* copy_string_from_user returns the length, -EFAULT or -ENAMETOOLONG. */
must_check long copy_string_from_user(char *to, vaddr_t from, size_t n);
/* Short copies of a fixed number of 64-bit words; arch_types.h:
 *   int user_words_in(void *to, vaddr_t from, size_t words)
 *   int user_words_out(vaddr_t to, const void *from, size_t words)
 *   bool user_range_ok(vaddr_t at, uint64_t n): inside the user half; says nothing of mappings */

/* ---- back traces ---- */
void arch_print_trap(const struct trap_frame *f);  /* registers */
void trap_registers(struct trap_frame *f);         /* some of those that the caller has */
void arch_backtrace(uint64_t frame_pointer, bool user);

/* ---- the upward calls, implemented by kernel/ ---- */
/* FAULT_KEY: the page would allow it, and a protection key of the thread's does not. */
enum { FAULT_WRITE = 1, FAULT_EXECUTE = 2, FAULT_PRESENT = 4, FAULT_FROM_KERNEL = 8,
       FAULT_KEY = 16 };
/* trap_page_fault serves a fault at a user address, by user mode or by a copy above. 0: retry;
 * -errno: a copy gives up with -EFAULT, user mode was dealt with (killed, aborted). fault.c */
int trap_page_fault(struct trap_frame *f, vaddr_t at, unsigned flags);
/* trace_fault is the same while ... trace_call.c */
int trace_fault(struct trap_frame *f, vaddr_t at, unsigned flags);
extern bool trace_faults;  /* ... somebody traces */
/* trap_user_exception ends the process, for any other exception in user mode. process.c */
void trap_user_exception(struct trap_frame *f, const char *what);
/* System calls by number; arguments as they lie in the frame. syscall.c */
typedef long trap_call(const uint64_t arguments[6]);
extern trap_call *const trap_calls[TRAP_CALLS];
#define KD_CALL(number, call, function) trap_call function;
/* Katydid's own: katydid/abi.h says what each is given, and whose file it is in */
KD_CALLS(KD_CALL)
#undef KD_CALL
extern trap_call *trap_table[TRAP_CALLS];          /* the same, as trap.S uses it. trace_call.c */
bool trap_call_keeps(unsigned number);             /* its entry is trap.S's own: no C before it */
long trap_call_unknown(const uint64_t arguments[6]); /* a number from TRAP_CALLS on */
/* The last thing before any return to user mode: kills, dooms, preemption. thread.c */
void trap_return_to_user(struct trap_frame *f);
void trap_timer(void);                             /* sched.c: a tick (100 Hz) */
_Noreturn void kmain(void);                        /* main.c */
_Noreturn void cpu_main(void);                     /* thread.c: further CPUs arrive here */

#endif
