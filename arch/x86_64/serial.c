/*
 * serial.c - two 16550 ports: COM1 is the console, COM2 takes the log.
 *
 * Output is polled: QEMU takes bytes as fast as they come, unless nobody reads them there. Input of
 * the console is an interrupt, from when the console wants it. The console's FIFO stays off: a port
 * forgets what it holds when that goes on, and a key may come at any moment from the power on.
 *
 * Locks: the caller's for output (serial.h); input is handled by CPU 0 only.
 */
#include "serial.h"
#include "base/boot.h"
#include "interrupt.h"
#include "x86.h"

enum { DATA = 0, INTERRUPTS = 1, FIFO = 2, LINE = 3, MODEM = 4, STATUS = 5, SCRATCH = 7 };
enum { STATUS_INPUT = 1, STATUS_EMPTY = 0x20, STATUS_SENT = 0x40, FIFO_BYTES = 16 };
enum { POLLS_MAX = 100000 };

static const uint16_t base[] = {0x3f8, 0x2f8};
static bool present[2], stuck[2];           /* stuck: it took nothing for as long as one waits */
static const unsigned burst[2] = {1, FIFO_BYTES}; /* bytes that a port takes at once */
static void (*take_input)(char c);

void serial_init(void)
{
    for (unsigned p = 0; p < ARRAY_COUNT(base); p++) {
        out8(base[p] + SCRATCH, 0xa5);
        present[p] = in8(base[p] + SCRATCH) == 0xa5;
        out8(base[p] + INTERRUPTS, 0);
        out8(base[p] + LINE, 0x80);  /* the divisor of the baud rate: 1, 115200 */
        out8(base[p] + DATA, 1);
        out8(base[p] + INTERRUPTS, 0);
        out8(base[p] + LINE, 0x03);  /* 8 bits, no parity */
        out8(base[p] + FIFO, p == SERIAL_LOG ? 0x07 : 0);
        out8(base[p] + MODEM, 0x0b); /* OUT2: lets the interrupt through */
    }
}

bool serial_present(enum serial_port port) { return present[port]; }

/* serial_ready: does the port take burst[port] bytes more? One that is stuck is not waited for. */
static bool serial_ready(enum serial_port port, bool waits)
{
    for (int i = waits && !stuck[port] ? POLLS_MAX : 1; i > 0; i--) {
        if (in8(base[port] + STATUS) & STATUS_EMPTY)
            return !(stuck[port] = false);
        arch_serve_shootdown();
    }
    stuck[port] |= waits;
    return false;
}

size_t serial_write(enum serial_port port, const char *text, size_t n, bool waits)
{
    for (size_t i = 0; i < n && present[port]; i++) {
        if (i % burst[port] == 0 && !serial_ready(port, waits))
            return i;
        out8(base[port] + DATA, (uint8_t)text[i]);
    }
    return n;
}

bool serial_sent(enum serial_port port)
{
    return !present[port] || in8(base[port] + STATUS) & STATUS_SENT;
}

/* serial_drain waits before the power goes: a real port sends 11 bytes a millisecond, so it has up
 * to FIFO_BYTES left. */
void serial_drain(void)
{
    for (unsigned p = 0; p < ARRAY_COUNT(base); p++)
        for (int i = 0; i < POLLS_MAX && !serial_sent(p); i++)
            ;
}

/* input hands over the bytes that have arrived. */
static void input(void *unused)
{
    (void)unused;
    for (int i = 0; i < POLLS_MAX && (in8(base[SERIAL_CONSOLE] + STATUS) & STATUS_INPUT); i++)
        take_input((char)in8(base[SERIAL_CONSOLE] + DATA));
}

/* serial_input_start lets the interrupt through, which comes at once if a key is there. A recorded
 * run has the FIFO on (console_fifo=1): QEMU gives it keys that came together at once there. */
void serial_input_start(void (*take)(char c))
{
    if (!present[SERIAL_CONSOLE])
        return;
    take_input = take;
    if (boot_option_number("console_fifo"))
        out8(base[SERIAL_CONSOLE] + FIFO, 0x07);
    interrupt_route(acpi_machine.console_interrupt, acpi_machine.console_flags,
                    (unsigned)arch_vector_alloc(input, NULL));
    out8(base[SERIAL_CONSOLE] + INTERRUPTS, 1);
}
