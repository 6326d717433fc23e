/*
 * waits.c - see waits.h.
 */
#include "turns/waits.h"

void view_answered(void) { sim_wake(view, true); }

static long receive(long port, struct kd_message *m, long timeout_ms)
{
    int64_t until = timeout_ms < 0 ? SIM_NEVER : sim_us + timeout_ms * 1000;
    for (;;) {
        if (port == server.commit_port && commit_take(m) == 0) return 0;
        if (timeout_ms == 0) return -EAGAIN;
        if (sim_wait(&view[0].queued, until)) return -ETIMEDOUT;
    }
}

long sim_call(long number, long a, long b, long c, long d)
{
    if (number == KD_PORT_RECEIVE) return receive(a, (void *)b, c);
    if (number == KD_PORT_NOTIFY) sim_wake(&view[0].queued, true);
    return kernel_plain(number, a, b, c, d);
}
