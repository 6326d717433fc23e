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

bool time_stamp_counts(void)
{
    enum { TIMES = 64 };
    uint64_t first = 0;
    bool same = true;
    for (int i = 0; i < TIMES; i++) {
        uint64_t before = time_stamp();
        for (volatile int k = 0; k < 10000; k++) {
        }
        uint64_t took = time_stamp() - before;
        if (i == 1)                     /* the first one may have met page faults */
            first = took;
        same = same && (i < 2 || took == first);
    }
    return same;
}
