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

/* The same, confined: it has these handles, each with these rights (KD_RIGHT_*) or fewer, and
 * finds no names. */
struct given { int handle; uint32_t rights; };
static inline long start_confined(const char *path, const char *const *argv,
                                  const char *const *environment, const struct given *given,
                                  uint32_t count)
{
    struct kd_process_create p = {.path = path, .argv = argv, .envp = environment,
                                  .fds = {-1, -1, -1}, .flags = KD_PROCESS_CONFINED,
                                  .handle_count = count};
    for (uint32_t i = 0; i < count; i++) {
        p.handles[i] = given[i].handle;
        p.handle_rights[i] = given[i].rights;
    }
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}

/* What a program is passed of a handle of the store, of these rights (PS_MAY_*). */
static inline uint32_t start_rights(unsigned may)
{
    return KD_RIGHT_CALL | (may & 31) * KD_RIGHT_OWN | (may & 32 ? KD_RIGHT_GRANT : 0);
}

#endif
