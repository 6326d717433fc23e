/* kd.c - the way into the kernel. */
#include "kd.h"

#include "katydid/call.h"

long kd_system(long number, long a, long b, long c, long d)
{
    return kd_call6(number, a, b, c, d, 0, 0);
}

long kd_system5(long number, long a, long b, long c, long d, long e)
{
    return kd_call6(number, a, b, c, d, e, 0);
}
