/*
 * liar_home.h - a test that speaks for a site to the agent of its home, this machine, frame by
 * frame (hostile_agent.opts has the options). Its container is "box". Included by one file of a
 * test.
 */
#ifndef KATYDID_LIAR_HOME_H
#define KATYDID_LIAR_HOME_H

#include <errno.h>

#include "liar.h"
#include "pstore.h"
#include "store_protocol.h"
#include "../../../disk/crc32c.c"
#include "../../../user/sites/frame.c"
#include "../../../user/sites/message.c"

enum { BEATS = 6 };
enum { ENDED = 9999, SILENT };
static uint64_t number, base, opened;
static bool over;                       /* the session */

/* By the home's own program. */
static int export_as(const char *what, const char *as, unsigned rights)
{
    int handle = ps_handle(what, rights | PS_MAY_GRANT);
    return handle < 0 ? handle : ps_link(handle, as, rights);
}

static void begin(void)
{
    struct frame f;
    mine++;
    hello("liar", theirs);
    do
        (void)hear(&f);
    while (f.session != mine);
    over = false;
}

static uint64_t say(struct site_message m)
{
    number++;
    m.number = m.kind == SITE_GONE ? 0 : number; /* with one it asks for the page, too */
    size_t bytes = message_put(&m, out, sizeof out);
    send_frame(bytes, FRAME_HOME, theirs);
    return number;
}

/* The answer to a request, as it came; what else is said meanwhile is not listened to. ENDED: the
 * session did; SILENT: link alone says something. */
static int hear_answer(uint64_t to, struct site_message *m)
{
    struct frame f;
    for (unsigned beats = 0; !over && beats < BEATS;) {
        struct fields_in i = hear(&f);
        over = is_new_hello(&f, i);
        if (f.kind == FRAME_BEAT) {
            beats++;
            beat();
        }
        if (f.to == FRAME_CLIENT && message_take(m, &f, in) && m->answer_to == to)
            return m->error < 0 ? -m->error : m->error;
    }
    if (over) say_why();
    return over ? ENDED : SILENT;
}
static int asks(struct site_message m)
{
    struct site_message answer;
    return hear_answer(say(m), &answer);
}
static int opens_as(struct wire_open open, const char *path, struct wire_opened *o)
{
    struct site_message answer;
    char data[sizeof open + 64] = {0};
    size_t bytes = strlen(path) + 1;
    memcpy(data, &open, sizeof open);
    memcpy(data + sizeof open, path, bytes);    /* behind it, if the name is empty */
    int error = hear_answer(say((struct site_message){.kind = SITE_ASK, .request = STORE_OPEN,
                                                      .data = data, .bytes = (uint32_t)(
                                                          sizeof open + (*path ? bytes : 0))}),
                            &answer);
    if (error || answer.bytes != sizeof *o) return error ? error : EPROTO;
    memcpy(o, answer.data, sizeof *o);
    return 0;
}
static int opens(void)
{
    struct wire_opened o;
    int error = opens_as((struct wire_open){.name = "box", .flags = PS_WRITE}, "", &o);
    if (error) return error;
    base = o.base;
    opened = o.container;
    return 0;
}
static inline void anew(void)
{
    while (over || opens()) {
        if (!over) hear_hello();
        begin();
    }
}

/* No message: the session ends, and with the next one all that it had. */
static void next_session(void)
{
    if (!over) {
        (void)say((struct site_message){.kind = SITE_TOLD});
        (void)hear_answer(~0ull, &(struct site_message){0});
    }
    begin();
}

#define GET(p, r) ((struct site_message){.kind = SITE_GET, .page = (p), .right = (r), .wants = 1, \
                                         .count = 1, .serial = 7})
static inline uint64_t granted(uint64_t page, int right)
{
    struct site_message answer;
    return hear_answer(say(GET(page, (uint8_t)right)), &answer) ? 0 : answer.serial;
}

static inline uint64_t says_commit(uint64_t page, uint64_t serial, unsigned offset,
                                   const void *batch, size_t bytes)
{
    static const uint8_t data[8] = {1};
    struct fields_out o = message_commit(out, sizeof out, 0, batch, bytes);
    run_put(&o, &(struct site_run){.page = page, .serial = serial, .offset = (uint16_t)offset,
                                   .bytes = sizeof data, .data = data});
    send_frame(frame_end(&o, SITE_COMMIT, ++number, 0), FRAME_HOME, theirs);
    return number;
}
static inline int commits(uint64_t page, uint64_t serial, unsigned offset, const void *batch,
                          size_t bytes)
{
    struct site_message answer;
    return hear_answer(says_commit(page, serial, offset, batch, bytes), &answer);
}

#endif
