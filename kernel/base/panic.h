/* panic.h - how the kernel ends when it finds itself wrong; panic() itself is in kernel.h. */
#ifndef KERNEL_PANIC_H
#define KERNEL_PANIC_H

#include "arch.h"

/* A panic whose cause is a trap: prints its registers and its back trace instead of ours. */
_Noreturn void panic_at(const struct trap_frame *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A panic has begun: no lock is waited for any more; panic_print() goes straight to both ports. */
extern bool panic_begun;
/* report: prints the last part of a panic's text; kernel/seams.c names the function. */
extern const struct panic_seam { void (*report)(void); } panic_seam;
extern uint64_t __stack_chk_guard;
void panic_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The function that the address lies in, and where in it; NULL: none. symbol.c */
const char *symbol_find(uint64_t address, uint64_t *offset);

/* say: a line for the log, or, in a panic, for both serial ports. */
#define say(...) (panic_begun ? panic_print(__VA_ARGS__) : printk(__VA_ARGS__))

#endif
