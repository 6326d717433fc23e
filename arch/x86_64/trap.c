/*
 * trap.c - what a trap means, and how to print one.
 *
 * User mode's traps go up to kernel/ (arch.h: trap_xxx). The kernel's own are: interrupts at
 * arch_idle()'s halt, page faults of user copies (exception table), and panics.
 */
#include "x86.h"
#include "interrupt.h"
#include "base/panic.h"
#include "thread/thread.h"

enum { VECTOR_FPU = 7, VECTOR_DOUBLE_FAULT = 8, BACKTRACE_MAX = 32 };

struct exception { uint64_t at, resume; };
extern const struct exception exception_table_start[], exception_table_end[]; /* kernel.ld */

static const char *const names[VECTOR_FIRST] = {
    "divide error", "debug trap", "NMI", "breakpoint", "overflow", "bound exceeded",
    "invalid instruction", "no FPU", "double fault", NULL, "invalid TSS", "segment not present",
    "stack segment fault", "general protection fault", "page fault", NULL, "x87 error",
    "misaligned access", "machine check", "SSE error", "virtualisation", "control protection",
};

static const char *trap_name(uint64_t vector)
{
    const char *name = vector < VECTOR_FIRST ? names[vector] : "interrupt";
    return name ? name : "unknown exception";
}

/* ---- dispatch; called by trap.S ---- */

void trap_dispatch(struct trap_frame *f);
void trap_dispatch(struct trap_frame *f)
{
    struct cpu *c = cpu_this();
    if (c->idle_since)
        cpu_idle_ends(c);
    if (!trap_from_user(f) && (f->vector < VECTOR_FIRST || f->rip != (uint64_t)idle_halted))
        panic_at(f, "%s in the kernel, vector %lu, error %lx", trap_name(f->vector), f->vector,
                 f->error);
    else if (f->vector >= VECTOR_FIRST)
        interrupt_dispatch((unsigned)f->vector);
    else if (f->vector == VECTOR_FPU)
        fpu_trap();
    else
        trap_user_exception(f, trap_name(f->vector));
}

/* Where the kernel goes on after a fault at this instruction; 0: it must not fault there. */
static uint64_t resume_of(uint64_t at)
{
    for (const struct exception *e = exception_table_start; e < exception_table_end; e++)
        if (e->at == at)
            return e->resume;
    return 0;
}

static inline int page_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    return __builtin_expect(trace_faults, 0) ? trace_fault(f, at, flags)
                                             : trap_page_fault(f, at, flags);
}

static void kernel_page_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    uint64_t resume = resume_of(f->rip);
    if (resume && at < USER_LIMIT && !panic_begun &&
        page_fault(f, at, flags | FAULT_FROM_KERNEL) == 0)
        return;
    if (!resume)
        panic_at(f, "page fault in the kernel at %lx, error %lx", at, f->error);
    f->rip = resume;
}

enum { ERROR_USER = 4 }; /* the access was user mode's own: never set in the kernel's faults */

/* The error code's bits 0 (present), 1 (write), 4 (fetch) and 5 (key) as kernel/ has them. */
#define FLAGS(e) (((e) & 1 ? FAULT_PRESENT : 0) | ((e) & 2 ? FAULT_WRITE : 0) | \
                  ((e) & 16 ? FAULT_EXECUTE : 0) | ((e) & 32 ? FAULT_KEY : 0))
#define FLAGS4(e) FLAGS(e), FLAGS((e) + 1), FLAGS((e) + 2), FLAGS((e) + 3)
#define FLAGS16(e) FLAGS4(e), FLAGS4((e) + 4), FLAGS4((e) + 8), FLAGS4((e) + 12)
static const uint8_t fault_flags[64] = {FLAGS16(0), FLAGS16(16), FLAGS16(32), FLAGS16(48)};

void trap_page_fault_dispatch(struct trap_frame *f, vaddr_t at);
void trap_page_fault_dispatch(struct trap_frame *f, vaddr_t at)
{
    unsigned flags = fault_flags[f->error % ARRAY_COUNT(fault_flags)];
    if (!(f->error & ERROR_USER) && trap_from_user(f))
        /* QEMU reads that of iretq as the kernel would, against SMAP */
        trap_user_exception(f, "stack of a return");
    else if (!(f->error & ERROR_USER))
        kernel_page_fault(f, at, flags);
    else if (at < USER_LIMIT)
        (void)page_fault(f, at, flags); /* what went wrong was dealt with there */
    else
        trap_user_exception(f, "access to an address of the kernel");
}

/* trap_bad_address ends a process whose user mode was to go on at an address that no page can have.
 */
void trap_bad_address(struct trap_frame *f);
void trap_bad_address(struct trap_frame *f)
{
    trap_user_exception(f, "jump to an impossible address");
    f->rip = 0; /* if it is still alive, it faults there */
}

_Noreturn void trap_fatal(struct trap_frame *f);
_Noreturn void trap_fatal(struct trap_frame *f)
{
    if (f->vector == VECTOR_NMI && panic_begun) {
        cpu_this()->stopped_at = f->rip;
        for (;;)
            halt();
    }
    if (f->vector == VECTOR_DOUBLE_FAULT && stack_guard(read_cr2()))
        panic_at(f, "the kernel stack of thread %s (%lu) has overflown", thread_this()->name,
                 thread_this()->id);
    panic_at(f, "%s", trap_name(f->vector));
}

/* ---- printing ---- */

static void arch_print_place(uint64_t address)
{
    bool ours = address >= (uint64_t)kernel_text_start && address < (uint64_t)kernel_rodata_start;
    uint64_t offset;
    const char *name = ours ? symbol_find(address, &offset) : NULL;
    if (name)
        say("  %016lx %s+%lx\n", address, name, offset);
    else
        say("  %016lx\n", address);
}

void arch_print_trap(const struct trap_frame *f)
{
    say("  rip %016lx  rsp %016lx  rflags %lx  cs %lx\n", f->rip, f->rsp, f->rflags, f->cs);
    say("  rax %016lx  rbx %016lx  rcx %016lx  rdx %016lx\n", f->rax, f->rbx, f->rcx, f->rdx);
    say("  rsi %016lx  rdi %016lx  rbp %016lx  r8  %016lx\n", f->rsi, f->rdi, f->rbp, f->r8);
    say("  r9  %016lx  r10 %016lx  r11 %016lx  r12 %016lx\n", f->r9, f->r10, f->r11, f->r12);
    say("  r13 %016lx  r14 %016lx  r15 %016lx  cr2 %016lx\n", f->r13, f->r14, f->r15, read_cr2());
    if (!trap_from_user(f))
        arch_print_place(f->rip);
}

/* A frame of a stack begins with the caller's frame pointer and the address where the caller goes
 * on. */
static bool frame_read(uint64_t at, bool user, uint64_t frame[2])
{
    if (at % 8)
        return false;
    if (user)
        return copy_from_user(frame, at, 2 * sizeof frame[0]) == 0;
    return at >= DIRECT_BASE && peek(at, &frame[0]) && peek(at + 8, &frame[1]);
}

void arch_backtrace(uint64_t frame_pointer, bool user)
{
    uint64_t frame[2];
    for (int i = 0; i < BACKTRACE_MAX && frame_read(frame_pointer, user, frame) && frame[1]; i++) {
        arch_print_place(frame[1] - 1); /* the call, not what lies behind it */
        if (frame[0] <= frame_pointer)
            break; /* stacks grow downwards: anything else is no stack */
        frame_pointer = frame[0];
    }
}

void interrupt_print_stopped(void)
{
    for (unsigned i = 0; i < cpu_count; i++)
        if (cpus[i].stopped_at) {
            say("cpu %u was at\n", i);
            arch_print_place(cpus[i].stopped_at);
        }
}
