/* system.h - for guest tests: what the kernel counts, and time. */
#ifndef TEST_SYSTEM_H
#define TEST_SYSTEM_H

#include <katydid/call.h>
#include <stdbool.h>
#include <time.h>

/* The kernel's counters as they are now. */
struct kd_system_info system_info(void);

/* Lets others work for so many milliseconds. */
void pause_ms(long ms);

/* Seconds of this clock. */
double clock_s(clockid_t clock);

/* Time stamps: under --icount they count instructions. */
uint64_t time_stamp(void);

/* Do they? Else one loop takes now this long, now that. */
bool time_stamp_counts(void);

#endif
