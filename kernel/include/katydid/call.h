/* katydid/call.h - the system call instruction, for user programs. Result: >= 0, or -errno. */
#ifndef KATYDID_CALL_H
#define KATYDID_CALL_H

#include "abi.h"

static inline long kd_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
static inline long kd_call4(long number, long a, long b, long c, long d)
{
    return kd_call6(number, a, b, c, d, 0, 0);
}
static inline long kd_call3(long number, long a, long b, long c)
{
    return kd_call6(number, a, b, c, 0, 0, 0);
}

#endif
