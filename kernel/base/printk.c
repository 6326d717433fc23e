/*
 * printk.c - the kernel's log.
 *
 * Owns      a ring of the last 64 KiB of log text (for dmesg), and the choice of serial port: with
 *           log=com2 the first port belongs to the console alone.
 * Not here  conversions (format.c), the port's registers (arch's serial.c), panics (panic.c).
 *
 * A line is built outside the lock, then put into the ring and out of the port as a whole.
 * Lock: log.lock, the innermost of all; so printk may be called with any lock but this. Once a
 * panic has begun it is not taken any more.
 */
#include "base/panic.h"
#include "serial.h"

#define LOG_BYTES 65536u
#define LINE_BYTES 512

static struct {
    struct lock lock;
    uint64_t end;                      /* bytes written since boot */
    uint64_t shown;                    /* of them, written to the port */
    int port;                          /* enum serial_port, or -1: not chosen, or none */
    char ring[LOG_BYTES];
} log = {.lock = LOCK_INIT(RANK_LOG, "log"), .port = -1};

/* Sends what the port has not had yet. */
static void show(void)
{
    if (log.end - log.shown > LOG_BYTES)
        log.shown = log.end - LOG_BYTES;
    while (log.port >= 0 && log.shown < log.end) {
        size_t at = log.shown % LOG_BYTES, n = MIN(LOG_BYTES - at, log.end - log.shown),
               taken = serial_write((enum serial_port)log.port, log.ring + at, n, true);
        log.shown += taken;
        if (taken < n)
            return;                    /* the rest comes with the next line */
    }
}

static void append(const char *text, size_t n)
{
    bool locked = !panic_begun; /* its holder may have been stopped */
    if (locked)
        lock_acquire(&log.lock);
    for (size_t i = 0; i < n; i++)
        log.ring[log.end++ % LOG_BYTES] = text[i];
    show();
    if (locked)
        lock_release(&log.lock);
}

void printk(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    uint64_t now_us = arch_time_ns() / 1000;
    size_t n = (size_t)snprintk(line, sizeof line, "[%4lu.%06lu] ", now_us / 1000000,
                                now_us % 1000000);
    va_start(arguments, format);
    n += (size_t)vsnprintk(line + n, sizeof line - n, format, arguments);
    va_end(arguments);
    n = MIN(n, sizeof line - 2);
    if (line[n - 1] != '\n')
        line[n++] = '\n';
    append(line, n);
}

size_t log_read(char *to, size_t bytes)
{
    lock_acquire(&log.lock);
    uint64_t from = log.end > LOG_BYTES ? log.end - LOG_BYTES : 0;
    size_t n = MIN(bytes, log.end - from), part = MIN(n, LOG_BYTES - from % LOG_BYTES);
    memcpy(to, log.ring + from % LOG_BYTES, part);
    memcpy(to + part, log.ring, n - part);
    lock_release(&log.lock);
    return n;
}

void log_init(void)
{
    const char *choice = kernel_option("log");
    int port = SERIAL_CONSOLE;
    if (choice != NULL && strcmp(choice, "com2") == 0 && serial_present(SERIAL_LOG))
        port = SERIAL_LOG;
    else if (choice != NULL && strcmp(choice, "none") == 0)
        port = -1;
    lock_acquire(&log.lock);
    log.port = port;
    show();
    lock_release(&log.lock);
}
