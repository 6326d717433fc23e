/*
 * link_out.c - bytes that go to another site.
 *
 * Invariants
 *   SO1  What was sent to a receiver and not freed by it is at most LINK_WINDOW: the rest waits
 *        here, and who sends it waits for that. So nobody who receives slowly holds up others, or
 *        link's own frames.
 *   SO2  A frame that was begun is written to its end, unless the stream breaks: else the other
 *        site would take what follows for its rest.
 *   SO3  Frames of one sender go out in the order of their places, which are theirs as soon as they
 *        are made (frame_place): so its threads need not send in that order. What comes before its
 *        turn waits, behind a gap for ever: so a client of which a frame is refused has to end.
 */
#include "link_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_EASILY (256u << 10)       /* a sender goes on if less than this waits in its lane */
#define WAITS_MOST (8u << 20)

static void sender_goes_on(struct peer *p, struct waiting *w, int error)
{
    if (w->token)
        p->ops->answer(w->token, error);
    w->token = 0;
}

void writer_begin(struct peer *p)
{
    struct writer *out = &p->writer;
    if (out->body)
        sender_goes_on(p, out->body, -ECONNRESET);
    waiting_free(out->body);
    out->body = NULL;
    out->left = 0;
}

/* stamp fills in what only the sending side of a session knows, and seals. */
static void stamp(struct peer *p, uint8_t *at, unsigned to, uint64_t now)
{
    struct frame f;
    uint64_t held = p->their_at ? (now - p->their_at) / 1000 : 0;
    if (!frame_head(&f, at, FRAME_HEADER))
        abort(); /* it was checked when it came, or made here */
    f.to = (uint8_t)to;
    f.session = p->theirs;
    f.sequence = f.kind == FRAME_HELLO || f.kind == FRAME_REFUSED ? 0 : ++p->out_sequence;
    f.time = now;
    f.heard = p->their_time;
    f.held = held < UINT32_MAX ? (uint32_t)held : UINT32_MAX;
    frame_seal(&f, at);
    p->last_out = now;
    p->writer.at = at;
    p->writer.left = f.bytes;
    p->frames_out++;
}

static void hello_out(struct peer *p, uint64_t now)
{
    hello_put(p->self, p->nonce, p->theirs, p->writer.own);
    p->hello_due = false;
    p->told = p->theirs;
    p->greeted = now;
    if (!p->first)
        p->first = now;
    stamp(p, p->writer.own, FRAME_LINK, now);
}

static void refused_out(struct peer *p, uint64_t now)
{
    struct fields_out o = frame_begin(p->writer.own, OWN_BYTES);
    put_text(&o, p->self->hello.site);
    put_text(&o, p->why);
    frame_end(&o, FRAME_REFUSED, 0, 0);
    p->refuse_due = false;
    stamp(p, p->writer.own, FRAME_LINK, now);
}

static void beat_out(struct peer *p, uint64_t now)
{
    struct fields_out o = frame_begin(p->writer.own, OWN_BYTES);
    for (unsigned to = FRAME_HOME; to < FRAME_TOS; to++) {
        put_u64(&o, p->lanes[to].freed);
        p->lanes[to].told = p->lanes[to].freed;
    }
    frame_end(&o, FRAME_BEAT, 0, 0);
    stamp(p, p->writer.own, FRAME_LINK, now);
}

/* The lanes take turns. */
static bool lane_out(struct peer *p, uint64_t now)
{
    for (unsigned n = 0; n < FRAME_TOS; n++) {
        unsigned to = (p->turn + n) % FRAME_TOS;
        struct lane *l = &p->lanes[to];
        struct waiting *w = l->out.first;
        if (!w || l->sent - l->their_freed + w->bytes > LINK_WINDOW || /* SO1 */
            w->place != l->places + 1) /* SO3 */
            continue;
        p->turn = to + 1;
        l->places++;
        l->sent += w->bytes;
        p->writer.body = queue_take(&l->out);
        stamp(p, w->frame, to, now);
        return true;
    }
    return false;
}

static void next_out(struct peer *p, uint64_t now)
{
    bool said = now >= p->quiet_until && !p->hold;
    if (p->refuse_due)
        refused_out(p, now);
    else if (p->hello_due && (said || p->state == LINK_LIVE))
        hello_out(p, now);
    else if (p->state == LINK_LIVE && beat_due(p) == 0)
        beat_out(p, now);
    else if (p->state == LINK_LIVE && !lane_out(p, now) && now >= beat_due(p))
        beat_out(p, now);
}

size_t peer_output(struct peer *p, const uint8_t **at, uint64_t now)
{
    if (p->connected && p->writer.left == 0)
        next_out(p, now);
    *at = p->writer.at;
    return p->writer.left; /* SO2 */
}

void peer_written(struct peer *p, size_t bytes, uint64_t now)
{
    (void)now;
    struct writer *out = &p->writer;
    p->bytes_out += bytes;
    out->at += bytes;
    out->left -= (uint32_t)bytes;
    if (out->left)
        return;
    if (out->body)
        sender_goes_on(p, out->body, 0);
    waiting_free(out->body);
    out->body = NULL;
}

int peer_send(struct peer *p, unsigned to, struct waiting *w, uint64_t token)
{
    struct lane *l = &p->lanes[to];
    struct frame f;
    bool good = frame_head(&f, w->frame, w->bytes) && f.bytes == w->bytes &&
                f.kind >= FRAME_KIND_OTHERS;
    w->place = f.time ? f.time : l->given + 1;
    int error = p->state != LINK_LIVE ? -ECONNRESET : !good || w->place <= l->places ? -EINVAL
                : l->out.bytes + w->bytes > WAITS_MOST ? -EAGAIN : 0;
    if (error) {
        waiting_free(w);
        return error;
    }
    bool waits = l->out.bytes + w->bytes > WAITS_EASILY;
    w->token = waits ? token : 0;
    l->given += !f.time;
    queue_add(&l->out, w);
    return waits;
}

const struct waiting *peer_first(const struct peer *p, unsigned to)
{
    return p->lanes[to].in.first;
}

void peer_received(struct peer *p, unsigned to)
{
    struct waiting *w = queue_take(&p->lanes[to].in);
    p->lanes[to].freed += w->bytes;
    waiting_free(w);
}
