/*
 * time.c - the clock and the ticks.
 *
 * The clock is the CPU's time stamp counter; the ticks come from the local APIC. Both run at a rate
 * that has to be measured, against the PIT's channel 2, whose rate is known. That works under
 * QEMU's -icount as well: all three follow the same virtual time.
 *
 * Locks: none; written at boot.
 */
#include "x86.h"

#define PIT_HZ        1193182
#define MEASURE_TICKS 11932           /* 10 ms */
#define READS_MAX     1000000
#define TICK_HZ       100

enum { PIT_CHANNEL2 = 0x42, PIT_COMMAND = 0x43, PIT_GATE = 0x61 };

uint64_t clock_scale;
static uint32_t apic_per_tick;

struct sample { uint64_t tsc; uint32_t apic; uint16_t pit; };

static void pit_start(void)
{
    out8(PIT_GATE, (in8(PIT_GATE) & ~2u) | 1u); /* counts; speaker off */
    out8(PIT_COMMAND, 0xb0);                    /* channel 2, both bytes, once */
    out8(PIT_CHANNEL2, 0xff);
    out8(PIT_CHANNEL2, 0xff);
}

static uint16_t pit_read(void)
{
    out8(PIT_COMMAND, 0x80);                    /* holds the count for two reads */
    uint8_t low = in8(PIT_CHANNEL2);
    return (uint16_t)(low | in8(PIT_CHANNEL2) << 8);
}

/* The three clocks at one moment: the try in which reading them took least. */
static struct sample clocks_read(void)
{
    struct sample best = {0};
    uint64_t best_took = ~0ull;
    for (int i = 0; i < 5; i++) {
        uint64_t before = read_tsc();
        uint16_t pit = pit_read();
        uint32_t ticks = apic_timer_count();
        uint64_t took = read_tsc() - before;
        if (took < best_took) {
            best = (struct sample){before + took / 2, ticks, pit};
            best_took = took;
        }
    }
    return best;
}

void time_init(void)
{
    apic_timer_start(~0u, false);
    pit_start();
    struct sample first = clocks_read(), last = first;
    for (int i = 0; i < READS_MAX && (uint16_t)(first.pit - last.pit) < MEASURE_TICKS; i++)
        last = clocks_read();
    uint64_t passed = (uint16_t)(first.pit - last.pit);
    assert(passed >= MEASURE_TICKS && last.tsc > first.tsc); /* there is a PIT */
    uint64_t tsc_hz = (last.tsc - first.tsc) * PIT_HZ / passed;
    uint64_t apic_hz = (uint64_t)(first.apic - last.apic) * PIT_HZ / passed;
    clock_scale = (1000000000ull << CLOCK_SHIFT) / tsc_hz;
    uint64_t ms = tick_option_ms();
    apic_per_tick = MAX((uint32_t)(ms && ms < 1000 / TICK_HZ ? apic_hz * ms / 1000 : apic_hz / TICK_HZ), 1u);
    cpu_this()->tsc_offset = -(int64_t)read_tsc();
    printk("time: counter %lu kHz, timer %lu kHz\n", tsc_hz / 1000, apic_hz / 1000);
    time_init_cpu();
}

void time_init_cpu(void) { apic_timer_start(apic_per_tick, true); }

uint64_t arch_cycles(void) { return read_tsc(); }
