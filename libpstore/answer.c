/* answer.c - answers to messages, whatever comes with one and however little memory there is. */
#include "answer_private.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "katydid/call.h"

void message_unload(const struct kd_message *m)
{
    if (m->handle >= 0)
        kd_call3(KD_HANDLE_CLOSE, m->handle, 0, 0);
}

int open_again(long result, unsigned *times)
{
    enum { TIMES = 10000 };
    const struct timespec moment = {.tv_nsec = 1000000};
    if (result != -EINPROGRESS || ++*times > TIMES)
        return 0;
    nanosleep(&moment, NULL);
    return 1;
}

long message_answer(uint64_t token, struct kd_message *answer, int port, struct kd_message *next)
{
    enum { TRIES = 100 };
    const struct timespec moment = {.tv_nsec = 10000000};
    for (int tries = 0;; tries++) {
        long r = port < 0 ? kd_call3(KD_PORT_REPLY, (long)token, (long)answer, 0)
                          : kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)answer, port,
                                     (long)next);
        if (r != -ENOMEM || answer->data_bytes == 0)
            return r;
        if (tries < TRIES) {
            nanosleep(&moment, NULL);
            continue;
        }
        answer->status = -ENOMEM;
        answer->data_bytes = 0;
    }
}
