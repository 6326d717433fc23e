/* start.h - starts a program whose end is waited for by its pid. */
#ifndef USER_START_H
#define USER_START_H

#include "katydid/call.h"

/* Its pid, or -errno. flags: KD_PROCESS_*; descriptors are the caller's. handles: how many of the
 * caller's first it gets, 0 or 1: KD_SYSTEM_HANDLE. */
static inline long start_program(const char *path, const char *const *argv, uint32_t flags,
                                 uint32_t handles)
{
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, -1, -1}, .flags = flags,
                                  .handle_count = handles};
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}

#endif
