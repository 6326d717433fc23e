/* x86.h - single instructions and the numbers that go with them; for arch/ only. */
#ifndef ARCH_X86_H
#define ARCH_X86_H

#include "arch.h"

#define MSR_APIC_BASE 0x1b
#define MSR_STAR      0xc0000081
#define MSR_LSTAR     0xc0000082
#define MSR_FMASK     0xc0000084
#define MSR_FS_BASE   0xc0000100
#define MSR_GS_BASE   0xc0000101
#define MSR_KERNEL_GS 0xc0000102

#define CR0_TS         (1ull << 3)
#define CR4_PGE        (1ull << 7)
#define CR4_UMIP       (1ull << 11)
#define CR4_SMEP       (1ull << 20)
#define CR4_SMAP       (1ull << 21)
#define CR4_PKE        (1ull << 22)

#define RFLAGS_FIXED 2ull
#define RFLAGS_TF (1ull << 8)
#define RFLAGS_IF (1ull << 9)
#define RFLAGS_DF (1ull << 10)
#define RFLAGS_NT (1ull << 14)
#define RFLAGS_AC (1ull << 18)

#define PORT(bits, letter)                                                                        \
    static inline void out##bits(uint16_t port, uint##bits##_t v)                                 \
    {                                                                                             \
        __asm__ volatile("out" letter " %0, %1" :: "a"(v), "Nd"(port));                           \
    }                                                                                             \
    static inline uint##bits##_t in##bits(uint16_t port)                                          \
    {                                                                                             \
        uint##bits##_t v;                                                                         \
        __asm__ volatile("in" letter " %1, %0" : "=a"(v) : "Nd"(port));                           \
        return v;                                                                                 \
    }
PORT(8, "b")
PORT(16, "w")
PORT(32, "l")

static inline uint64_t read_msr(uint32_t msr)
{
    uint32_t low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return (uint64_t)high << 32 | low;
}
static inline void write_msr(uint32_t msr, uint64_t v)
{
    __asm__ volatile("wrmsr" :: "c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)) : "memory");
}

#define CONTROL_REGISTER(n)                                                                       \
    static inline uint64_t read_cr##n(void)                                                       \
    {                                                                                             \
        uint64_t v;                                                                               \
        __asm__ volatile("movq %%cr" #n ", %0" : "=r"(v));                                        \
        return v;                                                                                 \
    }                                                                                             \
    static inline void write_cr##n(uint64_t v)                                                    \
    {                                                                                             \
        __asm__ volatile("movq %0, %%cr" #n :: "r"(v) : "memory");                                \
    }
CONTROL_REGISTER(0)
CONTROL_REGISTER(2)
CONTROL_REGISTER(3)
CONTROL_REGISTER(4)

struct cpuid { uint32_t a, b, c, d; };
static inline struct cpuid cpuid(uint32_t leaf)
{
    struct cpuid r;
    __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(0));
    return r;
}

static inline void pause(void) { __asm__ volatile("pause"); }
static inline void halt(void) { __asm__ volatile("hlt"); }

/* ---- between the files of arch/ ---- */
/* start.S */
extern char kernel_text_start[], kernel_rodata_start[], kernel_data_start[], kernel_end[];
extern char trampoline_start[], trampoline_end[];
extern char boot_guard[];  /* the page below the stack that the first CPU starts with */
extern uint64_t boot_top[512];          /* the tables that CPUs start with: 4 GiB twice, and us */
/* trap.S */
extern const uint8_t trap_stubs[256][16];
void trap_syscall_entry(void), trap_nmi_entry(void), trap_double_fault_entry(void),
    trap_machine_check_entry(void), trap_page_fault_entry(void), thread_first(void);
_Noreturn void trap_leave_to_user(struct trap_frame *f);
bool peek(uint64_t address, uint64_t *out);
/* cpu.c */
void cpu_init_first(void);
bool cpu_prepare(unsigned id);          /* its stacks */
void cpu_init_this(unsigned id);
uint64_t cpu_stack_top(unsigned id);
extern bool cpu_emulated;               /* TCG runs us: see arch_spin_hint() */
void fpu_trap(void);
/* tlb.c */
uint64_t table_cpus(paddr_t top);      /* those that have exactly this table loaded */
void table_unload(paddr_t top);         /* makes every CPU leave this table */
void cpu_idle_ends(struct cpu *c);
extern char idle_halted[];              /* behind hlt: where the kernel is interrupted */
/* table.c: the entry for `at` that maps 1 << shift bytes. Missing tables are made with these flags,
 * and counted; NULL: no memory, or `made` is NULL. */
pte_t *table_entry(paddr_t top, vaddr_t at, int shift, pte_t flags, uint64_t *made);
/* map.c */
paddr_t table_page(void); /* zeroed; of the memory map, until there are frames; 0: no memory */
void map_init(void);
bool stack_guard(vaddr_t at);           /* is below a stack of the kernel */
extern paddr_t kernel_table;            /* the kernel half, and an empty user half */
/* interrupt.c */
void apic_timer_start(uint32_t count, bool ticking);
uint32_t apic_timer_count(void);        /* counts down */
void interrupt_route(uint32_t global, uint16_t flags, unsigned vector); /* I/O APIC, to CPU 0 */
/* acpi.c */
struct acpi_machine {
    unsigned cpu_count;
    uint8_t apic_ids[CPU_MAX];     /* the CPU that booted first */
    paddr_t io_apic;               /* 0: none */
    uint32_t io_apic_base;         /* its first global interrupt */
    uint32_t console_interrupt;    /* global interrupt of ISA interrupt 4, COM1 */
    uint16_t console_flags;        /* polarity and trigger as the MADT has them */
};
extern struct acpi_machine acpi_machine;

/* Reads the tables; needs frames (arch_map_device). Without tables: one CPU, no I/O APIC. */
void acpi_init(void);
/* The port of the timer that counts up at 3,579,545 Hz, in 24 bits at least; 0: none. */
uint16_t acpi_timer_port(void);
void acpi_power_off(void);              /* returns if it does not know how */
/* time.c */
void time_init(void);                   /* measures the clocks, starts this CPU's ticks */
void time_init_cpu(void);
/* smp.c */
void smp_reserve(void);                 /* a page below 1 MiB for the trampoline */

#endif
