/* link_client.c - what agent and remote ask of `link` (link.h): calls of the kernel, no state. */
#include "link.h"

#include <errno.h>
#include <string.h>

#include "katydid/call.h"

static int ask(int handle, struct kd_message *m)
{
    long r = kd_call3(KD_PORT_CALL, handle, (long)m, 0);
    return r < 0 ? (int)r : m->status;
}

static int open_as(enum link_request how, int link, const char *site, struct link_session *s)
{
    struct kd_message m = {.kind = how, .data = site, .data_bytes = strlen(site) + 1,
                           .buffer = s, .buffer_bytes = sizeof(*s), .handle = -1};
    int r = ask(link, &m);
    return r ? r : m.buffer_bytes == sizeof(*s) ? m.handle : -EPROTO;
}

int link_open_by(int link, const char *site, struct link_session *s)
{
    return open_as(LINK_OPEN, link, site, s);
}

int link_copy(int link, const char *site, struct link_session *s)
{
    return open_as(LINK_COPY, link, site, s);
}

int link_open(const char *site, struct link_session *s)
{
    return link_open_by(LINK_HANDLE, site, s);
}

int link_session(int handle, struct link_session *s)
{
    struct kd_message m = {.kind = LINK_SESSION, .buffer = s, .buffer_bytes = sizeof(*s),
                           .handle = -1};
    int r = ask(handle, &m);
    return r ? r : m.buffer_bytes == sizeof(*s) ? 0 : -EPROTO;
}

int link_close(int handle)
{
    struct kd_message m = {.kind = LINK_CLOSE, .handle = -1};
    int r = ask(handle, &m);
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return r;
}

int link_send(int handle, const void *at, size_t bytes)
{
    struct kd_message m = {.kind = LINK_SEND, .data = at, .data_bytes = bytes, .handle = -1};
    return ask(handle, &m);
}

int link_post(int handle, const void *at, size_t bytes)
{
    struct kd_message m = {.kind = LINK_SEND, .word = {1}, .data = at, .data_bytes = bytes,
                           .handle = -1};
    return ask(handle, &m);
}

int link_receive(int handle, struct link_inbox *inbox, struct frame *f, const uint8_t **at)
{
    if (inbox->at == inbox->bytes) {
        struct kd_message m = {.kind = LINK_RECEIVE, .word = {FRAME_BYTES_MAX, inbox->wait_ms},
                               .buffer = inbox->memory, .buffer_bytes = FRAME_BYTES_MAX,
                               .data = inbox->sends, .data_bytes = inbox->sends_bytes,
                               .handle = -1};
        int r = ask(handle, &m);
        inbox->sends_bytes = 0;
        if (r)
            return r;
        inbox->at = 0;
        inbox->bytes = m.buffer_bytes;
        inbox->batch = m.word[1];
    }
    *at = inbox->memory + inbox->at;
    size_t left = inbox->bytes - inbox->at;
    if (!frame_head(f, *at, left) || f->bytes > left)
        return -EPROTO;
    inbox->at += f->bytes;
    return 0;
}
