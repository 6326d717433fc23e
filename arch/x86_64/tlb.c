/*
 * tlb.c - makes other CPUs forget translations; and sleeping, because a CPU that sleeps need not
 * be waited for.
 *
 * A request is a number: flush_asked counts up, the target flushes, then copies the count it had
 * seen before to flush_done. The target is reached by an interrupt in user mode and in arch_idle(),
 * and serves by itself in every spin loop (arch_spin_hint), so two CPUs that wait for each other
 * both get through, whatever locks they hold (KR5).
 *
 * Invariants
 *   TL1  flush_done == n: all entries that were stale when flush_asked became n are gone.
 *   TL2  A CPU with `sleeping` set touches no user memory before it has served all requests: so a
 *       request to it counts as served at once and costs no interrupt. It may keep stale entries.
 *   TL3  A top-level table that is freed is in no CPU's CR3 (table_unload), sleeping or not.
 *
 * Locks: none. `sleeping` and flush_asked are sequentially consistent: the one who asks writes
 * flush_asked and then reads `sleeping`, the sleeper the other way round.
 */
#include "x86.h"
#include "switch.h"
#include "interrupt.h"

enum { SPINS_PER_PAUSE = 128 };

void arch_serve_shootdown(void)
{
    struct cpu *c = cpu_this();
    uint64_t asked = __atomic_load_n(&c->flush_asked, __ATOMIC_SEQ_CST);
    if (asked == c->flush_done)
        return;
    if (c->loaded_table == __atomic_load_n(&c->unload_table, __ATOMIC_SEQ_CST))
        arch_table_load(kernel_table);
    else
        arch_flush_all();
    __atomic_store_n(&c->flush_done, asked, __ATOMIC_SEQ_CST); /* TL1 */
}

static uint64_t flush_ask(struct cpu *c, bool wake)
{
    uint64_t ticket = __atomic_add_fetch(&c->flush_asked, 1, __ATOMIC_SEQ_CST);
    if (wake || !__atomic_load_n(&c->sleeping, __ATOMIC_SEQ_CST)) {
        cpu_this()->flushes_sent++;
        interrupt_send(c->id, VECTOR_SHOOTDOWN);
    }
    return ticket;
}

static bool flush_served(struct cpu *c, uint64_t ticket)
{
    return __atomic_load_n(&c->flush_done, __ATOMIC_SEQ_CST) >= ticket;
}

void arch_shootdown(uint64_t cpu_mask)
{
    uint64_t tickets[CPU_MAX];
    unsigned me = arch_cpu_id();
    for (unsigned i = 0; i < cpu_count; i++)
        if (cpu_mask >> i & 1 && i != me)
            tickets[i] = flush_ask(&cpus[i], false);
    if (cpu_mask >> me & 1)
        arch_flush_all();
    for (unsigned i = 0; i < cpu_count; i++)
        if (cpu_mask >> i & 1 && i != me)
            while (!flush_served(&cpus[i], tickets[i]) &&
                   !__atomic_load_n(&cpus[i].sleeping, __ATOMIC_SEQ_CST)) /* TL2 */
                arch_spin_hint();
}

/* Interrupts come to user mode and to idle CPUs only. */
void arch_quiet_ask(uint64_t seen[CPU_MAX])
{
    for (unsigned i = 0; i < cpu_count; i++) {
        seen[i] = __atomic_load_n(&cpus[i].interrupts, __ATOMIC_SEQ_CST);
        if (i != arch_cpu_id())
            interrupt_send(cpus[i].id, VECTOR_SHOOTDOWN);
    }
}

bool arch_quiet(const uint64_t seen[CPU_MAX])
{
    for (unsigned i = 0; i < cpu_count; i++)
        if (i != arch_cpu_id() &&
            __atomic_load_n(&cpus[i].interrupts, __ATOMIC_SEQ_CST) == seen[i] &&
            !__atomic_load_n(&cpus[i].sleeping, __ATOMIC_SEQ_CST))
            return false;
    return true;
}

uint64_t arch_table_cpus(paddr_t top)
{
    const pte_t *mine = arch_phys(top);
    uint64_t mask = 0;
    for (unsigned i = 0; i < cpu_count; i++) {
        const pte_t *theirs = arch_phys(__atomic_load_n(&cpus[i].loaded_table, __ATOMIC_SEQ_CST));
        mask |= (uint64_t)(pte_frame_paddr(*theirs) == pte_frame_paddr(*mine)) << i;
    }
    return mask;
}

uint64_t table_cpus(paddr_t top)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < cpu_count; i++)
        mask |= (uint64_t)(__atomic_load_n(&cpus[i].loaded_table, __ATOMIC_SEQ_CST) == top) << i;
    return mask;
}

void table_unload(paddr_t top)
{
    for (unsigned i = 0; i < cpu_count; i++) {
        struct cpu *c = &cpus[i];
        if (c == cpu_this()) {
            if (c->loaded_table == top)
                arch_table_load(kernel_table);
            continue;
        }
        /* Asked again if another table_unload has overwritten our unload_table. */
        while (__atomic_load_n(&c->loaded_table, __ATOMIC_SEQ_CST) == top) {
            __atomic_store_n(&c->unload_table, top, __ATOMIC_SEQ_CST);
            uint64_t ticket = flush_ask(c, true);
            while (!flush_served(c, ticket))
                arch_spin_hint();
        }
        while (__atomic_load_n(&c->leaving_table, __ATOMIC_SEQ_CST) == top)
            arch_spin_hint();
        paddr_t expected = top;
        __atomic_compare_exchange_n(&c->unload_table, &expected, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    }
}

/*
 * Real CPUs want `pause`. TCG leaves its loop at each one, which is slow if all CPUs run in
 * parallel, and the only way to let the others run if they take turns on one thread: so rarely.
 */
void arch_spin_hint(void)
{
    if (!cpu_emulated || ++cpu_this()->spins % SPINS_PER_PAUSE == 0)
        pause();
    arch_serve_shootdown();
}

/* An interrupt that came before the caller's last look at its work is still pending: `sti` takes
 * effect after the next instruction, so it ends the `hlt`. */
void arch_idle(void)
{
    struct cpu *c = cpu_this();
    __atomic_store_n(&c->sleeping, 1, __ATOMIC_SEQ_CST);
    c->idle_since = arch_cycles();
    __asm__ volatile("sti\n\thlt\n\t.globl idle_halted\nidle_halted:\n\tcli" ::: "memory");
    __atomic_store_n(&c->sleeping, 0, __ATOMIC_SEQ_CST);
    arch_serve_shootdown();
}

/* The interrupt that ends a halt is work, so the halt ends at its entry. */
void cpu_idle_ends(struct cpu *c)
{
    c->idle_cycles += arch_cycles() - c->idle_since;
    c->idle_since = 0;
}

uint64_t arch_idle_cycles(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < arch_cpu_count(); i++)
        sum += __atomic_load_n(&cpus[i].idle_cycles, __ATOMIC_RELAXED);
    return sum;
}
