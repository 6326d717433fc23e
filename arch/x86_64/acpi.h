/* acpi.h - the few words of ACPI that are needed: which CPUs and I/O APICs, a timer, and power
 * off. */
#ifndef ARCH_ACPI_H
#define ARCH_ACPI_H

#include "arch.h"

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
void acpi_power_off(void);         /* returns if it does not know how */

#endif
