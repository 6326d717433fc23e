/* die.h - ends by the kernel with tests/bugs/kernel-support.patch: -EINVAL from any other. */
#ifndef TEST_DIE_H
#define TEST_DIE_H

#include "katydid/abi.h"
#include "katydid/call.h"
#include "katydid/trace.h"

enum { KD_TRACE_DIE = 1000 };   /* of KD_TRACE, as in that patch */

/* The calling thread is killed by its n-th trace event from now on, where that happens; n = 0: no more. */
static inline long die_at_event(long n) { return kd_call3(KD_TRACE, KD_TRACE_DIE, n, 0); }

#endif
