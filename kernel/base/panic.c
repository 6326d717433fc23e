/*
 * panic.c - the kernel has found itself wrong: say all that helps, and stop.
 *
 * Takes no lock and allocates nothing: whoever held a lock has been stopped. Output goes to both
 * serial ports directly. A second panic, inside the first, prints its message only.
 */
#include "base/panic.h"
#include "serial.h"
#include "interrupt.h"

bool panic_begun;
static unsigned owner; /* atomic: CPU + 1 of the CPU that panics */
static bool nested;

/* The word that -fstack-protector-strong compares; random_init() changes it. */
uint64_t __stack_chk_guard = 0x5bd1e995b7e15162;
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void)
{
    panic("a stack array was overrun");
}

static void print(const char *format, va_list arguments)
{
    static char line[256];
    int n = vsnprintk(line, sizeof line, format, arguments);
    size_t bytes = MIN((size_t)MAX(n, 0), sizeof line - 1);
    serial_write(SERIAL_CONSOLE, line, bytes, true);
    serial_write(SERIAL_LOG, line, bytes, true);
}

void panic_print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

/* panic_enter lets one CPU through, once; the others stop here or by the NMI. */
static void panic_enter(void)
{
    unsigned expected = 0, me = arch_cpu_id() + 1;
    if (!__atomic_compare_exchange_n(&owner, &expected, me, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        while (expected != me)
            ; /* until the NMI */
        if (nested)
            arch_power_off(1);
        nested = true;
    }
    panic_begun = true;
    if (!nested)
        interrupt_stop_others();
}

/* panic_with tells the message and the registers in f, and follows the frame pointer (0: not). */
static void panic_with(const struct trap_frame *f, uint64_t frame_pointer,
                                 const char *format, va_list arguments)
{
    panic_enter();
    panic_print(nested ? "\npanic inside the panic: " : "\nPANIC: ");
    print(format, arguments);
    panic_print("\n");
    if (nested)
        arch_power_off(1);
    panic_print("cpu %u of %u\n", arch_cpu_id(), arch_cpu_count());
    arch_print_trap(f);
    if (frame_pointer)
        arch_backtrace(frame_pointer, false);
    interrupt_print_stopped();
    panic_seam.report();
}

_Noreturn void panic(const char *format, ...)
{
    struct trap_frame f = {0}; /* what a call loses is 0 here */
    va_list arguments;
    trap_registers(&f);
    va_start(arguments, format);
    panic_with(&f, (uint64_t)__builtin_frame_address(0), format, arguments);
    va_end(arguments);
    arch_power_off(1);
}

_Noreturn void panic_at(const struct trap_frame *f, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    panic_with(f, trap_from_user(f) ? 0 : trap_frame_pointer(f), format, arguments);
    va_end(arguments);
    arch_power_off(1);
}
