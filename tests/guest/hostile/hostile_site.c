/*
 * hostile_site.c - a site that lies, at the other end of link's connection; and clients that do.
 *
 * Aim     what no site may send ends its session and nothing else: link goes on, says HELLO again,
 *         and has no more memory; whoever floods a home whose agent receives nothing is stopped at
 *         the window; an agent ends with its session; a name that is taken is refused with a
 *         sentence; a client without a handle of a session can do nothing in one.
 * Method  link's stream and another one of this machine are the ends of one socket; the test speaks
 *         for the other site by that one, frame by frame. As an agent it does nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "liar.h"
#include "system.h"
#include "tap.h"

enum { FLOOD_BYTES = 60000, MEMORY_MOST = 12 << 20 };
static long link_port;

/* A frame with the fields in `out`. */
static void send_fields(struct fields_out *o, uint16_t kind, unsigned to, uint64_t session)
{
    send_frame(frame_end(o, kind, 1, 0), to, session);
}

static struct link_site looked(void)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof(all),
                           .handle = -1};
    kd_call3(KD_PORT_CALL, link_port, (long)&m, 0);
    return all[1];
}

/* A session, begun as any site does. */
static struct link_site begin(void)
{
    struct frame f;
    struct link_site s;
    mine++;
    hello("liar", theirs);
    do {
        hear(&f); /* what comes last names our nonce */
        s = looked();
    } while (f.session != mine || s.state != LINK_LIVE);
    return s;
}

static uint64_t link_memory(void)
{
    static struct kd_process_info all[64];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 64, 0);
    for (long i = 0; i < n && i < 64; i++)
        if (strcmp(all[i].name, "link") == 0)
            return all[i].used[KD_LIMIT_MEMORY];
    return ~0ull;
}

static void frame_lies(const char *what, uint16_t kind, unsigned to, uint64_t session, int flip)
{
    begin();
    uint32_t sessions = looked().sessions;
    struct fields_out o = frame_begin(out, sizeof(out));
    put_u64(&o, 5);
    if (flip) {
        size_t bytes = frame_end(&o, kind, 1, 0);
        memset(out, 0x55, bytes);
        send_bytes(out, bytes);
    } else {
        send_fields(&o, kind, to, session ? session : theirs);
    }
    hear_hello();
    struct link_site s = looked();
    tap_ok(s.state == LINK_GREETING && s.sessions == sessions, "%s ends the session: %s", what,
           s.why);
}

static void flood(void)
{
    begin();
    uint32_t sent = 0;
    for (; looked().state == LINK_LIVE && sent < 100; sent++) {
        struct fields_out o = frame_begin(out, sizeof(out));
        memset(put_room(&o, FLOOD_BYTES), 1, FLOOD_BYTES);
        send_fields(&o, FRAME_KIND_OTHERS, FRAME_HOME, theirs);
    }
    hear_hello();
    struct link_site s = looked();
    tap_ok(sent < 100 && strcmp(s.why, "more than may wait") == 0,
           "who floods is stopped at the window: after %u frames: %s", sent, s.why);
    tap_ok(link_memory() < MEMORY_MOST, "and link has %llu KiB of memory",
           (unsigned long long)link_memory() >> 10);
    tap_ok(s.agent && s.dying, "the agent of that session stands still");
    begin();
    while ((s = looked()).agent) {
        struct kd_message m = {.handle = -1};
        kd_call3(KD_PORT_RECEIVE, port, (long)&m, 1); /* programs end in their own time */
    }
    tap_ok(s.state == LINK_LIVE, "and ends when the next one has begun");
}

static void refused(const char *name, const char *as, const char *because, const char *what)
{
    struct frame f;
    char site[LINK_SITE_BYTES], why[LINK_WHY_BYTES];
    struct fields_in i;
    mine++;
    hello_as(name, as, theirs);
    do
        i = hear(&f);
    while (f.kind != FRAME_REFUSED);
    take_text(&i, site, sizeof(site));
    take_text(&i, why, sizeof(why));
    tap_ok(take_end(&i) && strcmp(why, because) == 0, "%s is refused: %s", what, why);
}

static void taken_names(void)
{
    refused("a", "", "a is the name of another site here", "a name that is taken");
    hear_hello();
    refused("liar", "a", "a has no other copy, and liar is not home in its place",
            "who says to be home in the place of a site that has no spare");
}

static int call(uint32_t kind, const char *data, size_t bytes)
{
    struct kd_message m = {.kind = kind, .data = data, .data_bytes = bytes, .handle = -1};
    long r = kd_call3(KD_PORT_CALL, link_port, (long)&m, 0);
    return r < 0 ? (int)r : m.status;
}

static void clients(void)
{
    is(call(LINK_SEND, (char *)out, FRAME_HEADER), -ENOSYS, "without a session nothing is sent");
    is(call(LINK_RECEIVE, NULL, 0), -ENOSYS, "nor received");
    is(call(LINK_CLOSE, NULL, 0), -ENOSYS, "nor closed");
    is(call(LINK_OPEN, "liar", 4), -EINVAL, "a name has an end");
    is(call(LINK_OPEN, "", 1), -EINVAL, "and a begin");
    is(call(99, NULL, 0), -ENOSYS, "what link does not know it does not do");
    struct link_session s;
    begin();
    int session = link_open_by((int)link_port, "liar", &s);
    tap_ok(session >= 0 && strcmp(s.site, "liar") == 0, "a session opens (%d)", session);
    is(link_open_by((int)link_port, "liar", &s), -EBUSY, "for one at a time");
    memset(out, 0, FRAME_HEADER);
    is(link_send(session, out, FRAME_HEADER), -EINVAL, "what is no frame is not sent");
    struct fields_out o = frame_begin(out, sizeof(out));
    size_t bytes = frame_end(&o, FRAME_BEAT, 0, 0);
    is(link_send(session, out, bytes), -EINVAL, "nor a frame of link's own");
    struct kd_message m = {.kind = LINK_RECEIVE, .word = {1}, .buffer = in, .buffer_bytes = 1,
                           .handle = -1};
    o = frame_begin(out, sizeof(out));
    send_fields(&o, FRAME_KIND_OTHERS, FRAME_CLIENT, theirs);
    kd_call3(KD_PORT_CALL, session, (long)&m, 0);
    tap_ok(m.status == -EMSGSIZE && m.word[0] == FRAME_HEADER, "too little room: it says");
    is(link_close(session), 0, "it closes");
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) { /* an agent that receives nothing, until it is killed */
        for (;;)
            pause();
    }
    liar_begin();
    link_port = kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    tap_plan(22);
    tap_ok(stream >= 0 && link_port >= 0, "link runs, and the other end is ours");
    hear_hello();
    clients();
    hear_hello();
    flood();
    taken_names();
    hear_hello();
    frame_lies("a frame of another session", FRAME_KIND_OTHERS, FRAME_HOME, 1, 0);
    frame_lies("a frame of link's own kinds", FRAME_REFUSED + 1, FRAME_HOME, 0, 0);
    frame_lies("what is no frame", FRAME_KIND_OTHERS, FRAME_HOME, 0, 1);
    return tap_end();
}
