/* serial.h - the two serial ports. The caller serialises output (printk.c holds RANK_LOG). */
#ifndef ARCH_SERIAL_H
#define ARCH_SERIAL_H

#include "base/kernel.h"

enum serial_port { SERIAL_CONSOLE, SERIAL_LOG }; /* COM1, COM2 */

void serial_init(void);
bool serial_present(enum serial_port port);
/* Bytes as they are: "\n" is not changed. How many the port took, a port that is not there all;
 * `waits`: it is given some time, but not for ever. */
size_t serial_write(enum serial_port port, const char *text, size_t n, bool waits);
bool serial_sent(enum serial_port port);        /* has all that it took left it? */
/* Waits, not for ever, until the ports have sent all that they took. */
void serial_drain(void);
/* Console input: calls `take` for each byte, in an interrupt by the I/O APIC, and at once for what
 * has come so far. */
void serial_input_start(void (*take)(char c));

#endif
