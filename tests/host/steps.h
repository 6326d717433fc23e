/*
 * steps.h - for host programs that include files of the kernel: another CPU may come between any
 * two instructions. The processor's single steps are counted, and behind the one that is asked for
 * a function does what that CPU would.
 */
#ifndef STEPS_H
#define STEPS_H

#include <signal.h>
#include <stdbool.h>

static volatile unsigned steps_left;     /* 0: the other CPU was there */
static void (*steps_other)(void);

static void steps_trap(int signal)
{
    (void)signal;
    if (steps_left != 0 && (steps_left = steps_left - 1) == 0)
        steps_other();
}

static inline void steps_on(bool on)
{
    enum { TRAP_FLAG = 0x100 };
    unsigned long long flags = __builtin_ia32_readeflags_u64();

    __asm__ volatile("" ::: "memory");   /* what is stepped stays between the two */
    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(unsigned long long)TRAP_FLAG);
    __asm__ volatile("" ::: "memory");
}

/* Behind that many instructions from the next steps_on on, `other` is called, once. */
static void steps_begin(unsigned step, void (*other)(void))
{
    signal(SIGTRAP, steps_trap);
    steps_left = step;
    steps_other = other;
}

#endif
