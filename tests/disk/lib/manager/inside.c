/*
 * inside.c - what tests call of the store manager that is static there: its start, and requests.
 */
#include "manager/kernel.h"

#define main store_main
#include "user/store/main.c"
#undef main
#include "user/store/request.c"

bool manager_start(void)
{
    struct disk_io io;
    crc32c_choose(NULL);
    return disk_open(&io) && store_start(&io) && server_start();
}

bool manager_stop(uint64_t process)
{
    const struct kd_message m = {.kind = STORE_STOP, .token = 7, .process = process};
    return request_stop(&m);
}

int manager_request(const struct kd_message *m)
{
    static union answer out;
    struct kd_message reply = {.handle = -1};
    struct sources by;
    return request(m, &reply, &out, &by);
}
