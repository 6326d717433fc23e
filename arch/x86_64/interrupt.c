/*
 * interrupt.c - local APICs, the I/O APIC, and who gets which vector.
 *
 * Interrupts are taken in user mode and in arch_idle() only. The old interrupt controllers are
 * moved out of the exceptions' way and switched off.
 *
 * Locks: none. Vectors are given out at boot; each CPU uses its own local APIC.
 */
#include "x86.h"
#include "interrupt.h"

enum {
    APIC_ID = 0x20, APIC_PRIORITY = 0x80, APIC_EOI = 0xb0, APIC_SPURIOUS = 0xf0,
    APIC_COMMAND = 0x300, APIC_COMMAND_TO = 0x310, APIC_TIMER = 0x320, APIC_LINT0 = 0x350,
    APIC_LINT1 = 0x360, APIC_ERROR = 0x370, APIC_COUNT_START = 0x380, APIC_COUNT = 0x390,
    APIC_DIVIDE = 0x3e0,
};
enum { APIC_ENABLE = 0x100, APIC_DIVIDE_16 = 3 };
#define LVT_MASKED   0x10000u
#define LVT_PERIODIC 0x20000u
#define SEND_NMI     0x00400u
#define SEND_INIT    0x04500u
#define SEND_START   0x04600u
#define SEND_OTHERS  0xc0000u
#define SEND_BUSY    0x01000u

enum { DEVICE_VECTORS_MAX = VECTOR_TIMER - VECTOR_DEVICES };
static struct device { void (*handler)(void *); void *arg; } devices[DEVICE_VECTORS_MAX];
static unsigned device_count;
static volatile uint32_t *apic, *io_apic;

static uint32_t apic_read(unsigned at) { return apic[at / 4]; }
static void apic_write(unsigned at, uint32_t v) { apic[at / 4] = v; }

/* ---- sending ---- */

static void apic_command(unsigned apic_id, uint32_t command)
{
    for (int i = 0; i < 100000 && (apic_read(APIC_COMMAND) & SEND_BUSY); i++)
        ;
    apic_write(APIC_COMMAND_TO, apic_id << 24);
    apic_write(APIC_COMMAND, command);
}

void interrupt_send(unsigned cpu, unsigned vector) { apic_command(cpus[cpu].apic_id, vector); }
void arch_kick(unsigned cpu)
{
    cpu_this()->kicks_sent++;
    interrupt_send(cpu, VECTOR_KICK);
}

void interrupt_stop_others(void)
{
    if (apic && cpu_count > 1)
        apic_command(0, SEND_NMI | SEND_OTHERS);
}

void interrupt_start_cpu(unsigned apic_id, paddr_t page)
{
    apic_command(apic_id, page ? SEND_START | (uint32_t)(page >> PAGE_SHIFT) : SEND_INIT);
}

/* ---- receiving ---- */

void interrupt_dispatch(unsigned vector)
{
    if (vector < VECTOR_DEVICES || vector == VECTOR_SPURIOUS)
        return; /* old controllers' ghosts, and the APIC's own */
    cpu_this()->interrupts++;
    apic_write(APIC_EOI, 0);
    if (vector == VECTOR_TIMER)
        trap_timer();
    else if (vector == VECTOR_SHOOTDOWN)
        arch_serve_shootdown();
    else if (vector - VECTOR_DEVICES < device_count)
        devices[vector - VECTOR_DEVICES].handler(devices[vector - VECTOR_DEVICES].arg);
}

int arch_vector_alloc(void (*handler)(void *), void *arg)
{
    if (device_count == DEVICE_VECTORS_MAX)
        return -ENOSPC;
    devices[device_count] = (struct device){handler, arg};
    return (int)(VECTOR_DEVICES + device_count++);
}

void interrupt_route(uint32_t global, uint16_t flags, unsigned vector)
{
    uint32_t pin = global - acpi_machine.io_apic_base;
    uint32_t active_low = (flags & 3) == 3 ? 1u << 13 : 0;
    uint32_t level = (flags >> 2 & 3) == 3 ? 1u << 15 : 0;
    assert(io_apic && pin <= 239);
    io_apic[0] = 0x11 + 2 * pin;
    io_apic[4] = cpus[0].apic_id << 24;
    io_apic[0] = 0x10 + 2 * pin;
    io_apic[4] = vector | active_low | level;
}

/* ---- setting up ---- */

static void old_controllers_off(void)
{
    static const uint8_t first[4] = {0x11, VECTOR_FIRST, 4, 1};
    static const uint8_t second[4] = {0x11, VECTOR_FIRST + 8, 2, 1};
    for (int i = 0; i < 4; i++) {
        out8(i ? 0x21 : 0x20, first[i]);
        out8(i ? 0xa1 : 0xa0, second[i]);
    }
    out8(0x21, 0xff);
    out8(0xa1, 0xff);
}

void interrupt_init_cpu(void)
{
    cpu_this()->apic_id = apic_read(APIC_ID) >> 24;
    apic_write(APIC_PRIORITY, 0);
    apic_write(APIC_LINT0, LVT_MASKED);
    apic_write(APIC_LINT1, SEND_NMI);
    apic_write(APIC_ERROR, LVT_MASKED);
    apic_write(APIC_SPURIOUS, APIC_ENABLE | VECTOR_SPURIOUS);
}

void interrupt_init(void)
{
    old_controllers_off();
    apic = arch_map_device(read_msr(MSR_APIC_BASE) & PTE_FRAME, PAGE_BYTES);
    if (!apic)
        panic("no memory for mapping the local APIC");
    interrupt_init_cpu();
    if (acpi_machine.io_apic)
        io_apic = arch_map_device(acpi_machine.io_apic, PAGE_BYTES);
}

void apic_timer_start(uint32_t count, bool ticking)
{
    apic_write(APIC_DIVIDE, APIC_DIVIDE_16);
    apic_write(APIC_TIMER, VECTOR_TIMER | LVT_PERIODIC | (ticking ? 0 : LVT_MASKED));
    apic_write(APIC_COUNT_START, count);
}

uint32_t apic_timer_count(void) { return apic_read(APIC_COUNT); }
