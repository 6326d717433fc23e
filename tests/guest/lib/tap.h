/* tap.h - the few lines of TAP that guest tests need, and kcheck at their end. */
#ifndef TAP_H
#define TAP_H

#include <katydid/call.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_number, tap_failed;

static inline void tap_plan(int n)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%d\n", n);
}

/* Returns `good`, so that a test may go on or not. */
__attribute__((format(printf, 2, 3))) static inline int tap_ok(int good, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    printf("%s %d - ", good ? "ok" : "not ok", ++tap_number);
    vprintf(format, a);
    printf("\n");
    va_end(a);
    tap_failed += !good;
    return good;
}

static inline int tap_end(void)
{
    long wrong = kd_call3(KD_CHECK, 0, 0, 0);
    if (wrong)
        printf("Bail out! kcheck: %ld; the kernel's log has more\n", wrong);
    return tap_failed || wrong;
}

#endif
