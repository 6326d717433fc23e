/*
 * smp.c - starts the further CPUs, one after the other.
 *
 * Each gets tables and a stack, then INIT and a start-up interrupt that names a page below 1 MiB
 * with the trampoline of start.S in it. It reports by cpu->started and goes to cpu_main().
 *
 * Locks: none: one CPU starts at a time, and only the first one starts others. Behind one that does
 * not start none is tried: it may wake up late, and take the trampoline's words for its own.
 */
#include "x86.h"
#include "switch.h"
#include "base/boot.h"
#include "interrupt.h"

#define LOW_MEMORY_END  0xa0000
#define START_AGAIN_NS  2000000ull    /* the second start-up interrupt, as real machines want it */
#define START_GIVEUP_NS 5000000000ull
enum { TSC_ROUNDS = 3 };

/* The end of the trampoline; start.S has the same. */
struct trampoline_words {
    uint64_t stack, id;
    uint32_t table;
    uint32_t far_offset, far_selector;
} __attribute__((packed));

unsigned cpu_count = 1;
static paddr_t trampoline;

/* The words by which two counters are compared: the new CPU asks by `round`, the first answers with
 * its counter. */
static struct { uint32_t round, answered; uint64_t tsc; } clock_talk;

void smp_reserve(void) { trampoline = boot_take(PAGE_BYTES, LOW_MEMORY_END); }

static void clock_answer(void)
{
    uint32_t round = __atomic_load_n(&clock_talk.round, __ATOMIC_ACQUIRE);
    if (round == clock_talk.answered)
        return;
    clock_talk.tsc = arch_cycles();
    __atomic_store_n(&clock_talk.answered, round, __ATOMIC_RELEASE);
}

/* The new CPU's counter is wrong if it is outside the time of question and answer: by what was
 * measured in the quickest round. QEMU's CPUs all agree. */
static void clock_compare(struct cpu *c)
{
    uint64_t quickest = ~0ull;
    for (uint32_t round = 1; round <= TSC_ROUNDS; round++) {
        uint64_t before = arch_cycles();
        __atomic_store_n(&clock_talk.round, round, __ATOMIC_RELEASE);
        while (__atomic_load_n(&clock_talk.answered, __ATOMIC_ACQUIRE) != round)
            arch_spin_hint();
        uint64_t took = arch_cycles() - before, theirs = clock_talk.tsc;
        if (took < quickest) {
            quickest = took;
            c->tsc_offset = cpus[0].tsc_offset +
                            (theirs - before <= took ? 0 : (int64_t)(theirs - before - took / 2));
        }
    }
}

/* start.S: here arrives a further CPU, with the kernel's tables. */
_Noreturn void cpu_start(unsigned id);
_Noreturn void cpu_start(unsigned id)
{
    struct cpu *c = &cpus[id];
    cpu_init_this(id);
    arch_table_load(kernel_table);
    clock_compare(c);
    interrupt_init_cpu();
    __atomic_store_n(&c->started, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&cpu_count, __ATOMIC_SEQ_CST) <= id)
        arch_spin_hint();
    time_init_cpu();
    cpu_main();
}

static void trampoline_fill(unsigned id)
{
    size_t bytes = (size_t)(trampoline_end - trampoline_start);
    uint8_t *page = arch_phys(trampoline);
    struct trampoline_words *words = (void *)(page + bytes - sizeof *words);
    memcpy(page, trampoline_start, bytes);
    words->stack = cpu_stack_top(id);
    words->id = id;
    words->table = (uint32_t)((uint64_t)boot_top - KERNEL_BASE);
    words->far_offset += (uint32_t)trampoline;
}

static bool cpu_bring_up(unsigned id, unsigned apic_id)
{
    struct cpu *c = &cpus[id];
    uint64_t start = arch_time_ns(), passed = 0;
    bool again = false;
    if (!cpu_prepare(id))
        return false;
    trampoline_fill(id);
    clock_talk.round = clock_talk.answered = 0;
    interrupt_start_cpu(apic_id, 0);
    interrupt_start_cpu(apic_id, trampoline);
    while (!__atomic_load_n(&c->started, __ATOMIC_SEQ_CST) && passed < START_GIVEUP_NS) {
        clock_answer();
        arch_spin_hint();
        passed = arch_time_ns() - start;
        if (!again && passed > START_AGAIN_NS && clock_talk.round == 0) {
            interrupt_start_cpu(apic_id, trampoline);
            again = true;
        }
    }
    if (__atomic_load_n(&c->started, __ATOMIC_SEQ_CST)) /* whatever the clock says */
        return true;
    interrupt_start_cpu(apic_id, 0); /* so that it does not wake up later */
    return false;
}

void arch_start_cpus(void)
{
    uint64_t start = arch_time_ns();
    while (trampoline && cpu_count < acpi_machine.cpu_count &&
           cpu_bring_up(cpu_count, acpi_machine.apic_ids[cpu_count]))
        __atomic_add_fetch(&cpu_count, 1, __ATOMIC_SEQ_CST);
    if (cpu_count < acpi_machine.cpu_count)
        printk("smp: the CPU with APIC id %u does not start\n", acpi_machine.apic_ids[cpu_count]);
    printk("smp: %u CPUs in %lu us\n", cpu_count, (arch_time_ns() - start) / 1000);
}
