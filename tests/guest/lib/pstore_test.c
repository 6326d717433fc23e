/* pstore_test.c - commits beside reads of a disk that is slow; handles by handles. */
#include "pstore_test.h"

#include "store_protocol.h"

void disk_slow(void)
{
    puts("ready");
    fflush(stdout);
    (void)!getchar();
}

void disk_slow_end(void)
{
    puts("committed");
    fflush(stdout);
}

int commits_beside(int (*change)(void *), _Atomic int *reads, int last, int *bad)
{
    int beside = 0;
    for (int now = *reads; beside < BESIDE && now < last; beside++) {
        *bad += ps_transaction(change, NULL) != 0;
        if (*reads != now)
            beside = -1;
        now = *reads;
    }
    return beside;
}

int handle_by(int handle, const char *path, uint32_t rights)
{
    char bytes[WIRE_PATH_BYTES] = "";
    struct kd_message m = {.kind = STORE_HANDLE, .word = {rights}, .data = bytes,
                           .data_bytes = sizeof bytes, .handle = -1};
    strcpy(bytes, path);
    long r = kd_call3(KD_PORT_CALL, handle, (long)&m, 0);
    return r < 0 ? (int)r : m.status < 0 ? m.status : m.handle;
}
