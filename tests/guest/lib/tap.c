/* tap.c - results, counted and printed as TAP. */
#include "tap.h"
#include <string.h>

static int tap_number;
int tap_failed;

void tap_plan(int n)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%d\n", n);
}

int tap_ok(int good, const char *format, ...)
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

int is(long got, long wanted, const char *what)
{
    if (got != wanted)
        printf("# got %ld, wanted %ld\n", got, wanted);
    return tap_ok(got == wanted, "%s", what);
}

bool tap_long(void)
{
    const char *tier = getenv("TEST_TIER");
    return tier && !strcmp(tier, "long");
}

int tap_end(void)
{
    /* 1: for kernels with tests/bugs/frame-sum.patch */
    long wrong = kd_call3(KD_CHECK, 1, 0, 0);
    if (wrong)
        printf("Bail out! kcheck: %ld; the kernel's log has more\n", wrong);
    return tap_failed || wrong;
}
