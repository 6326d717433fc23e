/*
 * waits.h - the part of manager/kernel.h's kernel that waits, in simulated time (sim.h).
 */
#ifndef TESTS_DISK_TURNS_WAITS_H
#define TESTS_DISK_TURNS_WAITS_H

#include "turns/sim.h"

#include "manager/kernel.h"

/* sim_call: any call that needs no disk. */
long sim_call(long number, long a, long b, long c, long d);

#endif
