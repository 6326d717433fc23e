/* panic.h - how the kernel ends when it finds itself wrong; panic() itself is in kernel.h. */
#ifndef KERNEL_PANIC_H
#define KERNEL_PANIC_H

#include "arch.h"

/* panic_at is a panic whose cause is a trap: it prints the registers and the back trace of that. */
_Noreturn void panic_at(const struct trap_frame *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* panic_begun: no lock is waited for any more; panic_print() goes straight to both ports. */
extern bool panic_begun;
/* report: prints the last part of a panic's text; kernel/seams.c names the function. */
extern const struct panic_seam { void (*report)(void); } panic_seam;
extern uint64_t __stack_chk_guard;
void panic_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* symbol_find tells the function that the address lies in, and where in it; NULL: none. symbol.c */
const char *symbol_find(uint64_t address, uint64_t *offset);

/* say: a line for the log, or, in a panic, for both serial ports. */
#define say(...) (panic_begun ? panic_print(__VA_ARGS__) : printk(__VA_ARGS__))

#endif
