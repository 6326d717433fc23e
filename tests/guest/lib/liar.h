/*
 * liar.h - a test that speaks for another site, frame by frame, at the other end of link's stream
 * (hostile_site.opts has the options). Included by one file of a test.
 */
#ifndef KATYDID_LIAR_H
#define KATYDID_LIAR_H

#include <stdio.h>
#include <string.h>

#include "katydid/call.h"
#include "../../../user/sites/link.h"
#include "../../../user/sites/link_peer.h"

#define LEASE_NS 60000000000ull
static long port, stream;
static uint64_t theirs, mine = 1000;    /* nonces */
static uint32_t sequence;
static uint64_t heard_time;
static uint8_t out[FRAME_BYTES_MAX], in[FRAME_BYTES_MAX];
static size_t have, used;

static void wait_stream(void)
{
    struct kd_message m = {.handle = -1};
    kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
}

static void send_bytes(const uint8_t *at, size_t bytes)
{
    while (bytes > 0) {
        long n = kd_call3(KD_STREAM_WRITE, stream, (long)at, (long)bytes);
        if (n < 0) {
            wait_stream();
            continue;
        }
        at += n;
        bytes -= (size_t)n;
    }
}

/* What lies in `out`, a frame of so many bytes but for what link fills in. */
static void send_frame(size_t bytes, unsigned to, uint64_t session)
{
    struct frame f;
    frame_head(&f, out, bytes);
    f.to = (uint8_t)to;
    f.session = session;
    f.sequence = f.kind == FRAME_HELLO ? 0 : ++sequence;
    f.heard = heard_time;
    frame_seal(&f, out);
    send_bytes(out, bytes);
}

/* as: the site in whose place it says to be home, if not "". */
static inline void hello_as(const char *name, const char *as, uint64_t echo)
{
    struct fields_out o = frame_begin(out, sizeof(out));
    put_u32(&o, LINK_PROTOCOL);
    put_u32(&o, *as ? HELLO_PAIR : 0);
    put_text(&o, name);
    put_u64(&o, 77);
    put_u64(&o, mine);
    put_u64(&o, LEASE_NS);
    put_u32(&o, 0);
    put_u32(&o, 0);
    put_u32(&o, 0);
    put_text(&o, as);
    put_u64(&o, 0);
    sequence = 0;
    send_frame(frame_end(&o, FRAME_HELLO, 1, 0), FRAME_LINK, echo);
}
static void hello(const char *name, uint64_t echo) { hello_as(name, "", echo); }

/* The next frame of link's, if it has come; its fields. */
static bool hear_now(struct frame *f, struct fields_in *fields)
{
    memmove(in, in + used, have -= used);
    used = 0;
    while (!frame_head(f, in, have) || have < f->bytes) {
        long n = kd_call3(KD_STREAM_READ, stream, (long)(in + have), (long)(sizeof(in) - have));
        if (n < 0) return false;
        have += (size_t)n;
    }
    used = f->bytes;
    heard_time = f->time;
    *fields = frame_fields(f, in);
    return true;
}

static struct fields_in hear(struct frame *f)
{
    struct fields_in fields;
    while (!hear_now(f, &fields)) wait_stream();
    return fields;
}

/* A frame that is a HELLO, with another nonce: link has ended the session, if there was one. */
static bool is_new_hello(const struct frame *f, struct fields_in i)
{
    char name[LINK_SITE_BYTES];
    if (f->kind != FRAME_HELLO) return false;
    take_u32(&i), take_u32(&i);
    take_text(&i, name, sizeof(name));
    take_u64(&i);
    uint64_t nonce = take_u64(&i);
    bool is = nonce != theirs;
    theirs = nonce;
    return is;
}

static void hear_hello(void)
{
    struct frame f;
    struct fields_in i;
    do
        i = hear(&f);
    while (!is_new_hello(&f, i));
}

/* That nothing was freed, and all was heard: so the session stays. */
static inline void beat(void)
{
    struct fields_out o = frame_begin(out, sizeof(out));
    for (unsigned to = FRAME_HOME; to < FRAME_TOS; to++) put_u64(&o, 0);
    send_frame(frame_end(&o, FRAME_BEAT, 0, 0), FRAME_LINK, theirs);
}

/* Why link has ended the session. */
static inline void say_why(void)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    static char last[LINK_WHY_BYTES];
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof(all),
                           .handle = -1};
    int link = (int)kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    kd_call3(KD_PORT_CALL, link, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, link, 0, 0);
    if (strcmp(last, all[1].why)) printf("# %s\n", all[1].why);
    strcpy(last, all[1].why);
}

static void liar_begin(void)
{
    port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    stream = kd_call3(KD_STREAM_OPEN, (long)"liar", port, 1);
}

#endif
