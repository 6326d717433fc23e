/*
 * cpu.c - what each CPU is given once: features, descriptor tables, stacks, its struct cpu; and the
 * threads' part of it: FPU registers, FS base, the stack for traps.
 *
 * The FPU registers are loaded at first use (vector 7): a switch between two threads of which one
 * makes no use of them costs nothing, and a thread that comes back to registers nobody else has
 * used meanwhile finds them. They are saved at each switch away, so the image of a thread that
 * does not run is always whole.
 *
 * Invariants
 *   FP1  fpu_open: the registers hold the running thread's state, newer than its image; CR0.TS is
 *       clear.
 *   FP2  !fpu_open: CR0.TS is set. The registers equal the image of the thread t for which
 *       fpu_owner == t and t->fpu_cpu == this CPU, if there is one.
 *
 * Locks: none; each CPU touches its own.
 */
#include "x86.h"
#include "memory/frame.h"
#include "serial.h"
#include "switch.h"

enum { IST_FATAL = 1 };               /* one stack for the three that never return */
#define GATE_INTERRUPT 0x8e00         /* present, ring 0, interrupts off */
#define GATE_USER      0x6000         /* user mode may raise it by int */

struct tss {
    uint32_t reserved0;
    uint64_t rsp0, rsp1, rsp2, reserved1, ist[7];
    uint64_t reserved2;
    uint16_t reserved3, io_map;
} __attribute__((packed));

struct cpu_tables {
    struct tss tss;
    _Alignas(16) uint64_t gdt[8];
};

struct gate { uint16_t offset0, selector, type, offset1; uint32_t offset2, reserved; };
struct table_pointer { uint16_t limit; uint64_t base; } __attribute__((packed));

#define OFFSET_IS(type, field, n) \
    _Static_assert(offsetof(struct type, field) == (n), "asm.h: " #field)
_Static_assert(sizeof(struct trap_frame) == FRAME_BYTES && FRAME_BYTES % 16 == 0, "asm.h");
OFFSET_IS(cpu, self, CPU_SELF);
OFFSET_IS(cpu, user_frame, CPU_USER_FRAME);
OFFSET_IS(cpu, user_rsp, CPU_USER_RSP);
OFFSET_IS(thread, attention, THREAD_ATTENTION);
OFFSET_IS(cpu, current, CPU_CURRENT);
OFFSET_IS(cpu, locks_held, CPU_LOCKS_HELD);
OFFSET_IS(cpu, mark, CPU_MARK);

struct cpu cpus[CPU_MAX];
bool cpu_emulated, cpu_keys;
static struct cpu_tables tables[CPU_MAX];
static uint64_t idle_stacks[CPU_MAX]; /* their lowest bytes */
/* for a trap before there are frames */
static uint8_t early_stack[PAGE_BYTES] __attribute__((aligned(16)));
static struct gate idt[256] __attribute__((aligned(16)));
static uint64_t features;             /* CR4 bits that this machine can have */

/* ---- features ---- */

/* patch_smap takes clac and stac out, through the direct map: the text is not writable (map.c). */
static void patch_smap(void)
{
    extern const uint64_t smap_table_start[], smap_table_end[];
    static const uint8_t nop3[3] = {0x0f, 0x1f, 0x00};
    for (const uint64_t *at = smap_table_start; at < smap_table_end; at++)
        memcpy(arch_phys(*at - KERNEL_BASE), nop3, sizeof nop3);
}

static void features_init(void)
{
    struct cpuid extended = {0}, hypervisor = cpuid(0x40000000);
    if (cpuid(0).a >= 7)
        extended = cpuid(7);
    features = CR4_PGE | (extended.b & 1u << 7 ? CR4_SMEP : 0) |
               (extended.b & 1u << 20 ? CR4_SMAP : 0) | (extended.c & 1u << 2 ? CR4_UMIP : 0) |
               (extended.c & 1u << 3 ? CR4_PKE : 0);
    cpu_keys = features & CR4_PKE;
    if (!(features & CR4_SMAP))
        patch_smap();
    cpu_emulated = (cpuid(1).c & 1u << 31) && memcmp(&hypervisor.b, "TCGTCGTCGTCG", 12) == 0;
}

/* ---- descriptor tables ---- */

static void gate_set(unsigned vector, uint64_t entry, unsigned type)
{
    idt[vector] = (struct gate){.offset0 = (uint16_t)entry, .selector = SELECTOR_KERNEL_CODE,
                                .type = (uint16_t)type, .offset1 = (uint16_t)(entry >> 16),
                                .offset2 = (uint32_t)(entry >> 32)};
}

static void idt_init(void)
{
    for (unsigned v = 0; v < 256; v++)
        gate_set(v, (uint64_t)trap_stubs[v], GATE_INTERRUPT);
    gate_set(3, (uint64_t)trap_stubs[3], GATE_INTERRUPT | GATE_USER); /* int3 */
    gate_set(VECTOR_PAGE_FAULT, (uint64_t)trap_page_fault_entry, GATE_INTERRUPT);
    gate_set(VECTOR_NMI, (uint64_t)trap_nmi_entry, GATE_INTERRUPT | IST_FATAL);
    gate_set(8, (uint64_t)trap_double_fault_entry, GATE_INTERRUPT | IST_FATAL);
    gate_set(18, (uint64_t)trap_machine_check_entry, GATE_INTERRUPT | IST_FATAL);
}

static void gdt_init(struct cpu_tables *t)
{
    uint64_t tss = (uint64_t)&t->tss;
    t->gdt[SELECTOR_KERNEL_CODE / 8] = 0x00af9a000000ffff;
    t->gdt[SELECTOR_KERNEL_DATA / 8] = 0x00cf92000000ffff;
    t->gdt[SELECTOR_USER_DATA / 8] = 0x00cff2000000ffff;
    t->gdt[SELECTOR_USER_CODE / 8] = 0x00affa000000ffff;
    t->gdt[SELECTOR_TSS / 8] = (sizeof t->tss - 1) | (tss & 0xffffff) << 16 | 0x89ull << 40 |
                               (tss >> 24 & 0xff) << 56;
    t->gdt[SELECTOR_TSS / 8 + 1] = tss >> 32;
    t->tss.io_map = sizeof t->tss;    /* user mode has no ports */
}

static void tables_load(struct cpu_tables *t)
{
    struct table_pointer gdt = {sizeof t->gdt - 1, (uint64_t)t->gdt};
    struct table_pointer vectors = {sizeof idt - 1, (uint64_t)idt};
    __asm__ volatile("lgdt %0\n\tlidt %1\n\tltr %w2" ::"m"(gdt), "m"(vectors), "r"(SELECTOR_TSS));
}

static void syscall_init(void)
{
    write_msr(MSR_STAR, (uint64_t)SELECTOR_SYSRET << 48 | (uint64_t)SELECTOR_KERNEL_CODE << 32);
    write_msr(MSR_LSTAR, (uint64_t)trap_syscall_entry);
    write_msr(MSR_FMASK, RFLAGS_IF | RFLAGS_TF | RFLAGS_DF | RFLAGS_NT | RFLAGS_AC);
}

/* ---- one CPU ---- */

void cpu_init_first(void)
{
    tables[0].tss.ist[IST_FATAL - 1] = (uint64_t)early_stack + sizeof early_stack;
    features_init();
    idt_init();
    cpu_init_this(0);
}

/* cpu_prepare makes a CPU's stacks; the first CPU has a kernel stack already and needs the other
 * only. */
bool cpu_prepare(unsigned id)
{
    void *fatal = arch_stack_new();
    if (!fatal)
        return false;
    tables[id].tss.ist[IST_FATAL - 1] = (uint64_t)fatal + KERNEL_STACK_BYTES;
    idle_stacks[id] = id == 0 ? 0 : (uint64_t)arch_stack_new();
    return id == 0 || idle_stacks[id] != 0;
}

uint64_t cpu_stack_top(unsigned id) { return idle_stacks[id] + KERNEL_STACK_BYTES; }

/* Runs on the CPU itself, before anything there can trap. */
void cpu_init_this(unsigned id)
{
    struct cpu *c = &cpus[id];
    c->self = c;
    c->id = id;
    c->mark = id + 1;
    c->trap_stack = &tables[id].tss.rsp0;
    gdt_init(&tables[id]);
    tables_load(&tables[id]);
    write_msr(MSR_GS_BASE, (uint64_t)c);
    write_msr(MSR_KERNEL_GS, 0);
    write_cr4(read_cr4() | features);
    write_cr0(read_cr0() | CR0_TS);   /* FP2 */
    syscall_init();
}

_Noreturn void arch_power_off(int panicked)
{
    serial_drain();
    out32(0xf4, panicked ? 0x20 : 0x10); /* isa-debug-exit; without it: */
    if (!panicked)
        acpi_power_off();
    for (;;)
        halt();
}

/* ---- FPU registers ---- */

static void fpu_save(struct arch_thread *t)
{
    __asm__ volatile("fxsave %0" : "=m"(t->fpu));
}

/* Vector 7 in user mode: the thread wants its registers. */
void fpu_trap(void)
{
    struct cpu *c = cpu_this();
    struct arch_thread *t = &c->current->arch;
    assert(!c->fpu_open); /* FP1 */
    __asm__ volatile("clts");
    if (c->fpu_owner != t || t->fpu_cpu != (int)c->id)
        __asm__ volatile("fxrstor %0" ::"m"(t->fpu));
    c->fpu_owner = t;
    t->fpu_cpu = (int)c->id;
    c->fpu_open = true;
}

static void fpu_close(struct cpu *c)
{
    write_cr0(read_cr0() | CR0_TS);   /* FP2 */
    c->fpu_open = false;
}

/* fpu_leave saves the FPU's registers of `from`, which used them in this turn. */
void fpu_leave(struct cpu *c, struct arch_thread *from)
{
    fpu_save(from);
    fpu_close(c);
}

/* fpu_found: the next thread to run is c->fpu_owner, whose registers are still here if it was on
 * no other CPU meanwhile. */
void fpu_found(struct cpu *c)
{
    if (c->fpu_owner->fpu_cpu != (int)c->id)
        return;
    __asm__ volatile("clts");
    c->fpu_open = true;
}

void arch_thread_copy_fpu(struct arch_thread *to, const struct arch_thread *from)
{
    struct cpu *c = cpu_this();
    if (&c->current->arch == from && c->fpu_open)
        fpu_save(&c->current->arch);
    memcpy(to->fpu, from->fpu, sizeof to->fpu);
}

static void fpu_initial(struct arch_thread *t)
{
    memset(t->fpu, 0, sizeof t->fpu);
    *(uint16_t *)&t->fpu[0] = 0x37f;   /* x87: all exceptions masked, 64-bit precision */
    *(uint32_t *)&t->fpu[24] = 0x1f80; /* SSE: masked too */
}

void arch_thread_set_fpu(struct arch_thread *t, const uint8_t image[512])
{
    struct cpu *c = cpu_this();
    if (image)
        memcpy(t->fpu, image, sizeof t->fpu);
    else {
        fpu_initial(t);
        if (cpu_keys)
            keys_store(KEYS_CLOSED);
    }
    if (c->fpu_open)
        fpu_close(c);
    if (c->fpu_owner == t)
        c->fpu_owner = NULL; /* what the registers hold is nobody's now */
    t->fpu_cpu = -1;
}

/* ---- threads ---- */

void arch_thread_init(struct arch_thread *t, void *stack_top, void (*start)(void *), void *arg)
{
    memset(t, 0, sizeof *t);
    t->stack_top = (uint64_t)stack_top;
    t->fpu_cpu = -1;
    t->keys = KEYS_CLOSED;
    fpu_initial(t);
    uint64_t *stack = (uint64_t *)arch_user_frame(t) - 3; /* what stack_switch() returns by */
    stack[0] = (uint64_t)thread_first;
    stack[1] = (uint64_t)start;
    stack[2] = (uint64_t)arg;
    t->rsp = (uint64_t)stack;
}

_Noreturn void arch_user_resume(const struct trap_frame *registers)
{
    struct trap_frame *f = arch_user_frame(&thread_this()->arch);
    memmove(f, registers, sizeof *f);
    f->cs = SELECTOR_USER_CODE;
    f->ss = SELECTOR_USER_DATA;
    f->rflags = (f->rflags & 0xdd5) | RFLAGS_IF | RFLAGS_FIXED; /* arithmetic, direction, steps */
    trap_leave_to_user(f);
}

_Noreturn void arch_user_enter(vaddr_t entry, vaddr_t stack, uint64_t argument)
{
    struct trap_frame f = {.rip = entry, .rsp = stack, .rdi = argument};
    arch_user_resume(&f);
}

void arch_set_fs_base(struct arch_thread *t, uint64_t base)
{
    t->fs_base = base & ((1ull << 47) - 1); /* another one would be a fault, of ours */
    write_msr(MSR_FS_BASE, t->fs_base);
}

uint64_t arch_get_fs_base(const struct arch_thread *t) { return t->fs_base; }
