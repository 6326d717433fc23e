/* system.c - the kernel's counters, and time. */
#include "system.h"

struct kd_system_info system_info(void)
{
    struct kd_system_info info = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0);
    return info;
}

void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t time_stamp(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}
