/* kit_client.c - shared areas as those who use them see them: calls to the port of the one that
 * keeps it (kit_server.c). */
#include "answer_private.h"
#include "kit_private.h"

#include <errno.h>
#include <stdlib.h>

#include "katydid/call.h"

/* area_call calls the area's keeper; -ENOTCONN: nobody keeps the area any more. */
static int area_call(const ps_area *a, struct kd_message *m, int timeout_ms)
{
    long r = timeout_ms < 0 ? kd_call3(KD_PORT_CALL, a->port, (long)m, 0)
                            : kd_call3(KD_PORT_CALL_UNTIL, a->port, (long)m, timeout_ms);
    message_unload(m);
    return r == -EOWNERDEAD || r == -EBADF ? -ENOTCONN : (int)r;
}

static uint64_t offset_of(const ps_area *a, const uint64_t *word)
{
    return (uint64_t)((const char *)word - a->memory);
}

static int is_server(const ps_area *a)
{
    return a->server && pthread_equal(a->serves, pthread_self());
}

void shared_wake(ps_area *a, const uint64_t *word, unsigned count)
{
    if (is_server(a)) {
        server_wake(a->server, offset_of(a, word), count);
        return;
    }
    struct kd_message m = {.kind = KIT_WAKE, .handle = -1, .word = {offset_of(a, word), count}};
    area_call(a, &m, -1);
}

/* shared_wait hands a wake on that came while the time ran out. */
int shared_wait(ps_area *a, const uint64_t *word, uint64_t expected, int latch, int timeout_ms)
{
    struct kd_message m = {.kind = KIT_WAIT, .handle = -1,
                           .word = {offset_of(a, word), expected, (uint64_t)latch}};
    if (is_server(a))
        return -EDEADLK;
    int result = area_call(a, &m, timeout_ms);
    if (result == -ETIMEDOUT)
        shared_wake(a, word, 1);
    return result;
}

int shared_ask(ps_area *a, void *message, size_t bytes, int timeout_ms)
{
    struct kd_message m = {.kind = KIT_ASK, .handle = -1, .data = message, .data_bytes = bytes,
                           .buffer = message, .buffer_bytes = bytes};
    if (is_server(a))
        return -EDEADLK;
    return area_call(a, &m, timeout_ms);
}

static ps_area *area_open(const char *name)
{
    struct kd_message m;
    long port = name ? kd_call3(KD_NAME_FIND, (long)name, 0, 0) : -EINVAL;
    ps_area *a = port < 0 ? NULL : calloc(1, sizeof(*a));
    if (!a) {
        if (port >= 0)
            kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
        errno = port < 0 ? (int)-port : ENOMEM;
        return NULL;
    }
    a->port = (int)port;
    unsigned times = 0;
    int error;
    do {
        m = (struct kd_message){.kind = KIT_OPEN, .handle = -1}; /* an answer takes its place */
        error = area_call(a, &m, -1);
    } while (open_again(error, &times));
    if (error) {
        kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
        free(a);
        errno = -error;
        return NULL;
    }
    a->memory = (char *)m.word[0];
    a->bytes = m.word[1];
    a->owner = LATCH_OF_CLIENT(m.word[2]);
    return a;
}

ps_area *ps_area_open(const char *name)
{
    return error_told_by(ERROR_AREA, area_open(name));
}

int shared_close(ps_area *a)
{
    struct kd_message m = {.kind = KIT_CLOSE, .handle = -1};
    if (is_server(a))
        return -EDEADLK;
    if (a->server) {
        server_end(a->server);
        return 0;
    }
    area_call(a, &m, -1);
    kd_call3(KD_HANDLE_CLOSE, a->port, 0, 0);
    free(a);
    return 0;
}
