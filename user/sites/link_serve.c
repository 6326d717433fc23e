/*
 * link_serve.c - what agent and remote ask (link.h).
 *
 * Who asks is known by the badge of his handle, which the kernel attests. A call that has to wait
 * is kept by its token, and answered later: one LINK_RECEIVE of each client, OPENS opens, and
 * senders as far as their frames have room (link_out.c).
 */
#include "link_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPENS = 32, GATHER = 64 << 10, HAND_OVER = 512 << 10 };
static struct { uint64_t token; int pid; bool copy; char site[LINK_SITE_BYTES]; } opens[OPENS];
static unsigned opens_wait;              /* those with a token */
static uint64_t badge_last = LINK_BADGE_WITNESS;

struct client *client_of(struct site *s, unsigned to)
{
    return to == FRAME_HOME ? &s->agent : to == FRAME_COPY ? &s->copy : &s->remote;
}

static uint64_t replied;                /* the token that was answered last */
static long reply(uint64_t token, struct kd_message *m)
{
    replied = token;
    return kd_call3(KD_PORT_REPLY, (long)token, (long)m, 0);
}

static void reply_status(uint64_t token, int status)
{
    struct kd_message m = {.status = status, .handle = -1};
    reply(token, &m);
}

/* ---- sessions */

static void session_tell(const struct site *s, struct link_session *out)
{
    const struct peer *p = &s->peer;
    const struct hello *own = &p->self->hello;
    *out = (struct link_session){.own_boot = own->boot, .boot = p->hello.boot,
                                 .number = p->nonce ^ p->theirs, .lease_ns = p->lease,
                                 .store_count = p->hello.store_count};
    memcpy(out->own, own->site, sizeof(out->own));
    memcpy(out->site, p->hello.site, sizeof(out->site));
    memcpy(out->stores, p->hello.stores, sizeof(out->stores));
}

int client_badge(struct client *c)
{
    c->badge = ++badge_last;
    return (int)kd_call3(KD_BADGE_CREATE, link_all.port, (long)c->badge,
                         KD_RIGHT_CALL | KD_RIGHT_GRANT);
}

/* Gives the caller the session with a site that is LIVE. */
static void open_now(struct site *s, struct client *c, uint64_t token, int pid)
{
    struct link_session session;
    int handle = client_badge(c);
    if (handle < 0) {
        c->badge = 0;
        reply_status(token, handle);
        return;
    }
    c->over = false;
    c->batches = 0;
    c->pid = pid;
    session_tell(s, &session);
    struct kd_message m = {.data = &session, .data_bytes = sizeof(session), .handle = handle,
                           .handle_rights = KD_RIGHT_CALL | KD_RIGHT_GRANT};
    bool heard = reply(token, &m) == 0;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    if (!heard)
        client_gone(s, c, "who opened it has ended");
}

/* Programs want who is home in the site's place; copies want the site itself. */
static struct site *site_named(const char *name, enum link_state state, bool copy)
{
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        const struct hello *h = &s->peer.hello;
        bool it = copy || state != LINK_LIVE ? strcmp(h->site, name) == 0
                                             : hello_stands_for(h, name);
        if (s->peer.state == state && it)
            return s;
    }
    return NULL;
}

/* Who opens a site anew is done with its last session. */
static void opened_before(const char *name, bool copy, int pid)
{
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        struct client *c = copy ? &s->copy : &s->remote;
        if (c->badge && c->over && c->pid == pid && strcmp(s->peer.hello.site, name) == 0)
            client_gone(s, c, "it was opened anew");
    }
}

void serve_opens(void)
{
    unsigned left = opens_wait;
    for (int i = 0; left && i < OPENS; i++) {
        left -= opens[i].token != 0;
        bool copy = opens[i].copy;
        struct site *s = opens[i].token ? site_named(opens[i].site, LINK_LIVE, copy) : NULL;
        bool refused = opens[i].token && !s && site_named(opens[i].site, LINK_REFUSED, copy);
        struct client *c = !s ? NULL : copy ? &s->copy : &s->remote;
        if (!s && !refused)
            continue;
        uint64_t token = opens[i].token;
        opens[i].token = 0;
        opens_wait--;
        if (refused)
            reply_status(token, -ECONNREFUSED);
        else if (c->badge)
            reply_status(token, -EBUSY);
        else
            open_now(s, c, token, opens[i].pid);
    }
}

static int open_wait(const struct kd_message *m, const char *name)
{
    bool copy = m->kind == LINK_COPY;
    bool may = copy ? copy_may(m)
                    : link_all.open_to_all || (m->badge_rights && m->badge == LINK_BADGE);
    if (!may)
        return -EPERM;
    if (m->buffer_bytes == 0 || m->buffer_bytes > LINK_SITE_BYTES || name[m->buffer_bytes - 1] ||
        !site_name_good(name))
        return -EINVAL;
    int at = 0;
    while (at < OPENS && opens[at].token &&
           kd_call3(KD_CALL_STATE, (long)opens[at].token, 0, 0) == 0)
        at++;
    if (at == OPENS)
        return -EAGAIN;
    opens_wait += !opens[at].token;
    opens[at].token = m->token;
    opens[at].copy = copy;
    opens[at].pid = (int)m->process;
    strcpy(opens[at].site, name);
    opened_before(name, copy, (int)m->process);
    programs_look(); /* who had it may have ended */
    serve_opens();
    return 1;
}

/* ---- frames */

static unsigned other_side(unsigned to)
{
    return to == FRAME_HOME ? FRAME_CLIENT : to == FRAME_COPY ? to : FRAME_HOME;
}

/* Frames of one who does not wait for room. */
static int post(struct site *s, unsigned to, const struct kd_message *m, const uint8_t *at)
{
    struct frame f;
    int r = 0;
    for (uint64_t left = m->buffer_bytes; left && r >= 0; at += f.bytes, left -= f.bytes) {
        bool whole = frame_head(&f, at, left) && f.bytes <= left;
        struct waiting *w = whole ? waiting_new(f.bytes) : NULL;
        if (!w)
            return whole ? -ENOMEM : -EINVAL;
        memcpy(w->frame, at, f.bytes);
        r = peer_send(&s->peer, to, w, 0);
    }
    return r < 0 ? r : 0;
}

static int send(struct site *s, unsigned to, const struct kd_message *m, struct waiting **incoming)
{
    if (m->word[0] && m->buffer_bytes)
        return post(s, to, m, (*incoming)->frame);
    uint32_t bytes = (uint32_t)m->buffer_bytes;
    struct waiting *w = bytes < HAND_OVER ? waiting_new(bytes) : *incoming;
    if (!w)
        return -ENOMEM;
    if (w == *incoming) {
        w->bytes = bytes;
        *incoming = NULL;
    } else {
        memcpy(w->frame, (*incoming)->frame, bytes);
    }
    return peer_send(&s->peer, to, w, m->token);
}

/* gather says how many of the first frames, in how many bytes, go into the room; *at: where they
 * lie, as one piece. */
static unsigned gather(const struct waiting *w, uint64_t room, const uint8_t **at, uint64_t *bytes)
{
    static uint8_t all[GATHER];
    unsigned n = 0;
    *bytes = 0;
    *at = w->frame;
    if (w->bytes > room)
        return 0;
    for (; w && *bytes + w->bytes <= room && (n == 0 || *bytes + w->bytes <= GATHER); w = w->next) {
        if (w->bytes <= GATHER)
            memcpy(all + *bytes, w->frame, w->bytes);
        *at = w->bytes <= GATHER ? all : w->frame;
        *bytes += w->bytes;
        n++;
    }
    return n;
}

void serve_frames(struct site *s, unsigned to)
{
    struct client *c = client_of(s, to);
    const struct waiting *w = peer_first(&s->peer, to);
    bool second = c->receives[1].token;
    if (!w || c->over || !c->receives[second].token)
        return;
    struct kd_message m = {.handle = -1, .word = {w->bytes, c->batches + 1}};
    const uint8_t *at;
    unsigned n = gather(w, c->receives[second].room, &at, &m.data_bytes);
    m.status = n ? 0 : -EMSGSIZE;
    m.data = n ? at : NULL;
    uint64_t token = c->receives[second].token;
    c->receives[second].token = 0;
    if (reply(token, &m) != 0) { /* it waits no more, but the frames do */
        serve_frames(s, to);
        return;
    }
    c->batches += n != 0;
    while (n-- > 0)
        peer_received(&s->peer, to);
}

static void receives_no_more(struct client *c, unsigned which, int error)
{
    if (c->receives[which].token)
        reply_status(c->receives[which].token, error);
    c->receives[which].token = 0;
}

void serve_end(struct client *c, int error)
{
    receives_no_more(c, 0, error);
    receives_no_more(c, 1, error);
}

void serve_late(struct site *s)
{
    if (s->remote.receives[1].token && s->remote.receives[1].until <= now_ns())
        receives_no_more(&s->remote, 1, -ETIMEDOUT);
}

static int receive(struct site *s, unsigned to, const struct kd_message *m, const uint8_t *sends)
{
    struct client *c = client_of(s, to);
    int error = c->over ? 0 : post(s, other_side(to), m, sends);
    if (error && error != -ECONNRESET) /* it waits for the end of its session, or hears of it */
        return error;
    unsigned which = m->word[1] != 0;
    uint64_t before = c->receives[which].token;
    if (before && kd_call3(KD_CALL_STATE, (long)before, 0, 0) == 0)
        return -EBUSY;
    if (c->over && to != FRAME_HOME)
        return -ECONNRESET;
    c->receives[which].token = m->token; /* an agent whose session is over waits for its end */
    c->receives[which].room = m->word[0];
    c->receives[which].until = now_ns() + m->word[1] * 1000000;
    serve_frames(s, to);
    return 1;
}

/* By a handle of a session. 1: it is answered, or will be. */
static int serve_session(struct site *s, unsigned to, const struct kd_message *m,
                         struct waiting **incoming)
{
    struct client *c = client_of(s, to);
    struct kd_message answer = {.handle = -1};
    struct link_session session;
    switch (m->kind) {
    case LINK_SESSION:
        session_tell(s, &session);
        answer.data = &session;
        answer.data_bytes = sizeof(session);
        reply(m->token, &answer);
        return 1;
    case LINK_SEND:
        if (c->over)
            return -ECONNRESET;
        return send(s, other_side(to), m, incoming);
    case LINK_RECEIVE:
        return receive(s, to, m, (*incoming)->frame);
    case LINK_CLOSE:
        reply_status(m->token, 0);
        client_gone(s, c, "its client closed the session");
        return 1;
    default:
        return -ENOSYS;
    }
}

/* ---- all */

static void look(struct site *s, struct link_site *out)
{
    const struct peer *p = &s->peer;
    *out = (struct link_site){
        .state = p->state, .store_count = p->hello.store_count, .sessions = p->sessions,
        .dying = s->agent.running && s->agent.over, .round_trip_ns = p->round_trip,
        .their_ns = p->their_time, .heard_ns = p->their_at,
        .frames_in = p->frames_in, .frames_out = p->frames_out, .bytes_in = p->bytes_in,
        .bytes_out = p->bytes_out, .agent = s->agent.running ? s->agent.pid : 0,
        .remote = s->remote.badge ? s->remote.pid : 0};
    for (unsigned to = 0; to < FRAME_TOS; to++) {
        out->waits_in += p->lanes[to].in.bytes;
        out->waits_out += p->lanes[to].out.bytes;
    }
    memcpy(out->site, p->hello.site, sizeof(out->site));
    memcpy(out->as, p->hello.as, sizeof(out->as));
    memcpy(out->stream, s->stream, sizeof(out->stream));
    memcpy(out->stores, p->hello.stores, sizeof(out->stores));
    memcpy(out->why, p->why, sizeof(out->why));
}

static void serve_look(const struct kd_message *m)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    uint64_t from = m->word[0] < link_all.count ? m->word[0] : link_all.count;
    all[0] = (struct link_site){.store_count = link_all.self.hello.store_count}; /* this one */
    memcpy(all[0].site, link_all.self.hello.site, sizeof(all[0].site));
    memcpy(all[0].as, link_all.self.hello.as, sizeof(all[0].as));
    memcpy(all[0].stores, link_all.self.hello.stores, sizeof(all[0].stores));
    for (uint64_t i = from; i < link_all.count; i++)
        look(&link_all.sites[i], &all[1 + i - from]);
    struct kd_message answer = {.handle = -1, .word = {link_all.count, link_all.served},
                                .data = all,
                                .data_bytes = (1 + link_all.count - from) * sizeof(all[0])};
    reply(m->token, &answer);
}

static struct site *site_of(uint64_t badge, unsigned *to)
{
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
        for (*to = FRAME_HOME; *to < FRAME_TOS; ++*to)
            if (badge && client_of(s, *to)->badge == badge)
                return s;
    return NULL;
}

bool serve(struct kd_message *m, struct waiting **incoming)
{
    unsigned to;
    struct site *s = m->badge_rights ? site_of(m->badge, &to) : NULL;
    int status = -ENOSYS;
    if (m->handle >= 0)
        kd_call3(KD_HANDLE_CLOSE, m->handle, 0, 0);
    if (m->kind == LINK_LOOK)
        serve_look(m), status = 1;
    else if (m->kind == LINK_OPEN || m->kind == LINK_COPY)
        status = open_wait(m, (const char *)(*incoming)->frame);
    else if (s)
        status = serve_session(s, to, m, incoming);
    else if (m->kind == LINK_HOME)
        status = copy_home(m, (const char *)(*incoming)->frame);
    else if (m->badge_rights && m->badge > LINK_BADGE_WITNESS)
        status = -ECONNRESET; /* a session that is no more */
    if (status <= 0)
        reply_status(m->token, status);
    return replied != m->token;
}
