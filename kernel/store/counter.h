/* counter.h - what the store counts since boot, for KD_SYSTEM_INFO. */
#ifndef KERNEL_COUNTER_H
#define KERNEL_COUNTER_H

#include "base/kernel.h"

extern struct kd_system_info counters; /* sums; atomic adds. view.c */
#define count(field) ((void)__atomic_fetch_add(&counters.field, 1, __ATOMIC_RELAXED))
#define count_add(field, n) ((void)__atomic_fetch_add(&counters.field, (n), __ATOMIC_RELAXED))

#endif
