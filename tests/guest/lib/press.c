#include "press.h"

#include "manager.h"
#include "process.h"
#include "system.h"

int press_memory(unsigned long evictions)
{
    enum { MOST = 60000, TRIES = 30000 };
    const char *argv[] = {"squares", NULL};
    struct kd_process_create p = {.path = "/bin/squares", .argv = argv, .fds = {-1, -1, -1}};
    const volatile uint64_t *squares = NULL;
    uint64_t before = system_info().evictions;
    system_pass(&p);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    for (int i = 0; i < TRIES && handle >= 0 && !squares; i++) {
        squares = km_open("squares", "squares", KM_READ);
        if (!squares) pause_ms(1);
    }
    for (uint64_t i = 0; i < MOST && squares && system_info().evictions < before + evictions; i++)
        (void)squares[i * KD_PAGE_BYTES / 8];
    kd_call3(KD_PROCESS_KILL, p.pid, 9, 0);
    kd_call3(KD_PROCESS_WAIT, p.pid, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return squares != NULL;
}
