/*
 * time.c - the clock and the ticks.
 *
 * The clock is the CPU's time stamp counter; the ticks come from the local APIC. Both run at a rate
 * that has to be measured, against ACPI's timer, whose rate is known. It comes round after 4.7 s
 * only: the host may take the CPU away meanwhile (the PIT's counter comes round after 55 ms, and a
 * busy host made clocks too slow by it). That works under QEMU's -icount as well: all three follow
 * the same virtual time.
 *
 * Locks: none; written at boot.
 */
#include "base/boot.h"
#include "x86.h"

#define TIMER_HZ      3579545
#define TIMER_MASK    0xffffffu       /* some count further */
#define MEASURE_TICKS 35796           /* 10 ms */
#define READS_MAX     1000000
#define TICK_HZ       100
#define PERCENT_MAX   1000u

uint64_t clock_scale;
static uint32_t apic_per_tick;

struct sample { uint64_t tsc; uint32_t apic, timer; };

/* clocks_read reads the three clocks at one moment: it takes the try in which reading them was
 * quickest. */
static struct sample clocks_read(uint16_t port)
{
    struct sample best = {0};
    uint64_t best_took = ~0ull;
    for (int i = 0; i < 5; i++) {
        uint64_t before = arch_cycles();
        uint32_t timer = in32(port);
        uint32_t ticks = apic_timer_count();
        uint64_t took = arch_cycles() - before;
        if (took < best_took) {
            best = (struct sample){before + took / 2, ticks, timer};
            best_took = took;
        }
    }
    return best;
}

void time_init(void)
{
    uint16_t port = acpi_timer_port();
    apic_timer_start(~0u, false);
    struct sample first = clocks_read(port), last = first;
    uint64_t passed = 0;
    for (int i = 0; i < READS_MAX && passed < MEASURE_TICKS; i++) {
        last = clocks_read(port);
        passed = (last.timer - first.timer) & TIMER_MASK;
    }
    assert(passed >= MEASURE_TICKS && last.tsc > first.tsc); /* there is such a timer */
    uint64_t tsc_hz = (last.tsc - first.tsc) * TIMER_HZ / passed;
    uint64_t apic_hz = (uint64_t)(first.apic - last.apic) * TIMER_HZ / passed;
    uint64_t percent = boot_option_number("clock_percent"); /* of the true speed: a wrong clock */
    percent = percent && percent <= PERCENT_MAX ? percent : 100;
    clock_scale = (1000000000ull << CLOCK_SHIFT) / tsc_hz * percent / 100;
    uint64_t ms = boot_option_number("check_ms"); /* ticks and self-checks so often; 0: as usual */
    uint64_t per_tick = ms && ms < 1000 / TICK_HZ ? apic_hz * ms / 1000 : apic_hz / TICK_HZ;
    apic_per_tick = MAX((uint32_t)per_tick, 1u);
    cpu_this()->tsc_offset = -(int64_t)arch_cycles();
    printk("time: counter %lu kHz, timer %lu kHz\n", tsc_hz / 1000, apic_hz / 1000);
    time_init_cpu();
}

void time_init_cpu(void) { apic_timer_start(apic_per_tick, true); }
