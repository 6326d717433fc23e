/* pstore_kernel.c - the library's one way into the kernel; the host tests link a double instead. */
#include "pstore_private.h"

#include <katydid/call.h>

long ps_kernel(long number, long a, long b, long c)
{
    return kd_call3(number, a, b, c);
}
