/* actor.c - does what it is told, by bare calls: no library stands between it and the manager. */
#include "actor.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

static void call(const struct order *o, struct report *r, long with, uint32_t rights)
{
    struct kd_message m = {.kind = o->kind, .word = {o->word[0], o->word[1], o->word[2]},
                           .data = o->data, .data_bytes = o->bytes, .buffer = r->data,
                           .buffer_bytes = sizeof r->data, .handle = (int)with,
                           .handle_rights = with < 0 ? 0 : rights};
    long e = kd_call3(KD_PORT_CALL, o->handle, (long)&m, 0);
    r->result = e < 0 ? e : m.status;
    r->handle = e < 0 ? -1 : m.handle;
    r->word[0] = m.word[0];
    r->word[1] = m.word[1];
    r->bytes = e < 0 ? 0 : (uint32_t)m.buffer_bytes;
}

/* A badge of a port of its own, with a number that the store may know, sent as if it were one of
 * the store's. */
static void forge(const struct order *o, struct report *r)
{
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long badge = kd_call3(KD_BADGE_CREATE, port, (long)o->word[1], (long)KD_RIGHTS_BADGE);
    call(o, r, badge, o->rights);
    if (badge < 0)
        r->result = badge;
    kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

void act(const struct order *o, struct report *r)
{
    struct kd_space_info info;
    r->result = 0;
    r->handle = -1;
    r->bytes = 0;
    switch (o->what) {
    case DO_CALL: call(o, r, o->with, o->rights); break;
    case DO_FORGE: forge(o, r); break;
    case DO_COPY:
        r->handle = kd_call3(KD_HANDLE_COPY, o->handle, o->rights, 0);
        r->result = r->handle < 0 ? r->handle : 0;
        break;
    case DO_DROP: r->result = kd_call3(KD_HANDLE_CLOSE, o->handle, 0, 0); break;
    case DO_MAPPED:
        r->result = kd_call3(KD_CONTAINER_INFO, (long)o->word[0], (long)&info, 0);
        r->word[0] = r->result == 0 ? info.rights : 0;
        break;
    case DO_SEND:
    case DO_TAKE:
    case DO_END: break;
    }
}

int actor_main(void)
{
    static struct order o;
    static struct report r = {.handle = -1};
    for (;;) {
        struct kd_message m = {.data = &r, .data_bytes = offsetof(struct report, data) + r.bytes,
                               .buffer = &o, .buffer_bytes = sizeof o, .handle = -1};
        if (o.what == DO_SEND) {
            m.handle = (int)o.handle;
            m.handle_rights = o.rights;
        }
        if (kd_call3(KD_PORT_CALL, 0, (long)&m, 0) < 0)
            return 1;
        if (o.what == DO_END)
            return 0;
        act(&o, &r);
        if (o.what == DO_TAKE)
            r.handle = m.handle;
    }
}
