/*
 * stretch.h - the longest stretch: how long a CPU stays in the kernel between two points that serve shootdowns
 * and can yield. Measured only with stretch=LIMIT on the command line (threads.md).
 */
#ifndef KERNEL_STRETCH_H
#define KERNEL_STRETCH_H

#include "arch.h"

struct stretch {
    uint64_t ticks;                  /* of the time stamp counter: instructions under QEMU's -icount */
    uint64_t from, to;               /* code addresses of the two points */
    uint32_t what;                   /* a call's number, TRAP_CALLS + a trap's vector, or one of these: */
    int pid;
};
enum {
    STRETCH_FAULT = TRAP_CALLS + 14,
    STRETCH_SWITCH = TRAP_CALLS + 256,
    STRETCH_LEAVE,                   /* kills, dooms and signals, on the way back to user mode */
    STRETCH_FORK,                    /* its entry is trap.S's own */
};

extern bool stretch_on;
void stretch_init(void);             /* reads the option: a stretch of more ticks panics; 0: none does */
void stretch_enter(uint32_t what);   /* from user mode or a halt: a stretch begins */
void stretch_end(void);              /* back to user mode, or to a halt */
void stretch_passed(uint32_t what);  /* one ends and the next begins; what: as above, or 0, the same as before */
struct stretch stretch_longest(bool forget); /* the longest so far */

static inline void stretch_point(void)
{
    if (__builtin_expect(stretch_on, 0))
        stretch_passed(0);
}

#endif
