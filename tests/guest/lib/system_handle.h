/* system_handle.h - tests run with the system's handle (scripts/run --allow all); what they start gets it from here. */
#ifndef SYSTEM_HANDLE_H
#define SYSTEM_HANDLE_H

#include <katydid/call.h>

/* The process about to be made gets the caller's, if there is one. */
static inline void system_pass(struct kd_process_create *p)
{
    long copy = kd_call3(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, KD_RIGHT_LOOK, 0);
    if (copy < 0)
        return;
    kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
    p->handles[p->handle_count++] = KD_SYSTEM_HANDLE;
}

#endif
