/*
 * interrupt.h - interrupts of devices and between CPUs, for drivers.
 *
 * Interrupts come only in user mode and in arch_idle(), so a handler may take any lock; it may
 * wake threads, and it must not sleep.
 */
#ifndef ARCH_INTERRUPT_H
#define ARCH_INTERRUPT_H

#include "base/kernel.h"

/* A vector of one's own; the handler gets `arg`, and acknowledging the interrupt at the local APIC
 * is done for it. -ENOSPC when all are taken. At boot only. */
must_check int arch_vector_alloc(void (*handler)(void *), void *arg);

/* Local APIC, I/O APIC, timer; needs frames (arch_map_device). Each further CPU: _init_cpu. */
void interrupt_init(void);
void interrupt_init_cpu(void);
void interrupt_dispatch(unsigned vector);
/* Sends vector to one CPU. */
void interrupt_send(unsigned cpu, unsigned vector);
/* INIT, then start-up at this page below 1 MiB. */
void interrupt_start_cpu(unsigned apic_id, paddr_t page);
/* A panic: all other CPUs stop where they are, whatever they do (NMI). */
void interrupt_stop_others(void);
void interrupt_print_stopped(void);

#endif
