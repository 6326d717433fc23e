/*
 * link_peer.c - the session with one other site: HELLO, its end, leases.
 *
 * Each side says HELLO with a new nonce of its own and the other's, if it has heard one. A HELLO
 * that names our nonce begins the session: all before it belongs to what was. So a stream may break
 * anywhere, and be another one's next: nothing of an older session is taken for one of this.
 *
 *     AWAY ---- somebody is at the other end ----> GREETING ---- HELLO with our nonce ----> LIVE
 *      ^                                             | ^                                     |
 *      +----------------- the stream breaks ---------+ +-- REFUSED <-- clash, key, REFUSED --+
 *                                                    | ^                                     |
 *                                                    +-+- hold: LOST, until the clients are -+
 *                                                         done with the session that ended
 *
 * Invariants
 *   SI1  In a session, what the other site did not hear of us for a lease, ends it here; and so
 *        does its silence. What it may have granted to us ends then; what we granted to it stands
 *        for two leases from our last frame on (dying_until).
 *   SI2  A frame is acted upon only in the session that its receiver's nonce names.
 *   SI3  A session ends at our side before our next HELLO: while `hold`, none is said.
 *   SI4  A site that breaks rules again and again is heard less and less: at most once in 2 s.
 *        Who does not hear it wakes up when that is over, whatever else is to be waited for: the
 *        other one may sleep until it is read.
 *   SI7  One nonce's HELLOs all claim and serve the same: what changes is said under a new one.
 *        Else a session could begin by a HELLO that was on its way, and never hear the next.
 */
#include "link_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MS 1000000ull
enum { VIOLATIONS_FREE = 2, GREET_MS = 1000, QUIET_MS_MAX = 2000, QUIET_MS = 10,
       FORGIVEN_LEASES = 10 };

/* ---- begin and end */

static void reason(struct peer *p, const char *why)
{
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static void lanes_empty(struct peer *p)
{
    if (p->writer.body && p->writer.body->token)
        p->ops->answer(p->writer.body->token, -ECONNRESET);
    if (p->writer.body)
        p->writer.body->token = 0; /* its rest is written all the same: SO2 */
    for (unsigned to = 0; to < FRAME_TOS; to++) {
        struct lane *l = &p->lanes[to];
        for (struct waiting *w; (w = queue_take(&l->in));)
            waiting_free(w);
        for (struct waiting *w; (w = queue_take(&l->out)); waiting_free(w))
            if (w->token)
                p->ops->answer(w->token, -ECONNRESET);
        l->came = l->freed = l->told = l->sent = l->their_freed = 0;
        l->places = l->given = 0;
    }
}

/* greet begins anew: with a nonce that nobody has heard. */
static void greet(struct peer *p)
{
    p->nonce = p->ops->nonce();
    p->theirs = p->told = 0;
    p->hello_due = true;
    p->first = p->greeted = 0;
    p->heard = p->their_time = p->their_at = 0;
    reader_begin(&p->reader);
}

/* session_end: what is there of a session is gone. */
static void session_end(struct peer *p, const char *why)
{
    bool live = p->state == LINK_LIVE;
    p->state = p->connected ? LINK_GREETING : LINK_AWAY;
    if (!live)
        return;
    reason(p, why);
    p->dying_until = p->last_out + 2 * p->lease; /* SI1 */
    lanes_empty(p);
    p->ops->ended(p); /* may set hold: SI3 */
    if (p->hold)
        p->state = LINK_LOST;
}

/* peer_quiet makes a site that breaks rules wait before it is heard again (SI4). */
static void peer_quiet(struct peer *p, uint64_t now)
{
    if (p->began && now - p->began > FORGIVEN_LEASES * p->lease)
        p->violations = 0;
    p->began = 0;
    if (++p->violations <= VIOLATIONS_FREE)
        return;
    unsigned more = p->violations - VIOLATIONS_FREE;
    uint64_t ms = more < 8 ? (uint64_t)QUIET_MS << more : QUIET_MS_MAX;
    p->quiet_until = now + (ms < QUIET_MS_MAX ? ms : QUIET_MS_MAX) * MS;
}

void peer_end(struct peer *p, const char *why, uint64_t now)
{
    (void)now;
    if (p->state != LINK_LIVE)
        return;
    session_end(p, why);
    greet(p);
}

void peer_anew(struct peer *p, const char *why, uint64_t now)
{
    if (p->state == LINK_LIVE)
        peer_end(p, why, now);
    else if (p->first)
        greet(p); /* SI7 */
}

void peer_over(struct peer *p, const char *why, uint64_t now)
{
    peer_quiet(p, now);
    session_end(p, why);
    greet(p);
}

void peer_refused(struct peer *p, const char *why, uint64_t now)
{
    session_end(p, why);
    reason(p, why);
    greet(p);
    if (p->state != LINK_LOST)
        p->state = LINK_REFUSED;
    p->quiet_until = now + QUIET_MS_MAX * MS;
}

void peer_release(struct peer *p)
{
    p->hold = false;
    if (p->state == LINK_LOST)
        p->state = p->connected ? LINK_GREETING : LINK_AWAY;
}

void peer_begin(struct peer *p, const struct self *self, const struct peer_ops *ops)
{
    *p = (struct peer){.self = self, .ops = ops, .state = LINK_AWAY};
    for (unsigned to = 0; to < FRAME_TOS; to++) {
        queue_begin(&p->lanes[to].in);
        queue_begin(&p->lanes[to].out);
    }
    greet(p);
}

void peer_later(struct peer *p, uint64_t when) { p->quiet_until = when; }

void peer_connected(struct peer *p, uint64_t now)
{
    if (p->connected)
        return;
    p->connected = true;
    p->last_in = now;
    greet(p);
    if (p->state == LINK_AWAY)
        p->state = LINK_GREETING;
}

void peer_away(struct peer *p, const char *why, uint64_t now)
{
    (void)now;
    bool lost = p->state == LINK_LOST;
    if (p->state == LINK_REFUSED)
        p->quiet_until = 0; /* the next one may be another */
    p->connected = false;
    writer_begin(p); /* the rest of a frame is nobody's */
    session_end(p, why);
    greet(p);
    if (lost)
        p->state = LINK_LOST;
}

/* ---- HELLO */

static void live(struct peer *p, const struct frame *f, const struct hello *h, uint64_t now)
{
    p->hello = *h;
    p->hello_due = p->told != h->nonce; /* it hears its nonce before all else */
    p->theirs = h->nonce;
    p->lease = h->lease_ns < p->self->hello.lease_ns ? h->lease_ns : p->self->hello.lease_ns;
    p->state = LINK_LIVE;
    p->in_sequence = p->out_sequence = 0;
    p->began = p->last_in = p->their_at = now;
    p->last_out = now;
    p->heard = f->heard >= p->first && f->heard <= now ? f->heard : p->first;
    p->their_time = f->time;
    p->sessions++;
    p->ops->live(p);
}

static void refuse(struct peer *p, const char *why, uint64_t theirs, uint64_t now)
{
    char text[LINK_WHY_BYTES];
    snprintf(text, sizeof(text), "%s", why); /* it may be p->why */
    peer_refused(p, text, now);
    p->theirs = theirs;
    p->refuse_due = true;
}

/* Before a session, or instead of one. */
void peer_hello(struct peer *p, const struct frame *f, const uint8_t *at, uint64_t now)
{
    struct hello h;
    const char *wrong = hello_take(&h, p->self, f, at);
    bool ours = f->session == p->nonce;
    if (p->state == LINK_LIVE) {
        if (ours && !wrong && h.nonce == p->theirs)
            return; /* both had said it before they had heard the other's */
        peer_quiet(p, now);
        session_end(p, "the other site began again");
        greet(p);
        ours = false; /* nobody has heard this nonce */
    }
    if (wrong && !ours) {
        reason(p, wrong);
        return;
    }
    if (!wrong && (ours || !p->self->has_key)) /* with a key: not before it has shown it */
        wrong = p->ops->accept(p, &h);
    p->their_time = f->time;
    p->their_at = now;
    if (wrong) {
        if (!p->hold)
            p->hello = h; /* who it is that is refused */
        refuse(p, wrong, h.nonce, now);
    } else if (ours) { /* it was said, so nobody holds */
        live(p, f, &h, now);
    } else {
        p->theirs = h.nonce;
        p->hello_due = true;
    }
}

/* ---- time */

uint64_t beat_due(const struct peer *p)
{
    uint64_t due = p->last_out + p->lease / 4;
    for (unsigned to = FRAME_HOME; to < FRAME_TOS; to++)
        if (p->lanes[to].freed - p->lanes[to].told >= LINK_WINDOW / 2)
            due = 0;
    return due;
}

void peer_tick(struct peer *p, uint64_t now)
{
    if (p->state == LINK_REFUSED && now >= p->quiet_until)
        p->state = LINK_GREETING;
    if (now >= p->quiet_until)
        p->quiet_until = 0;
    if (p->state == LINK_GREETING && p->greeted && now - p->greeted > GREET_MS * MS)
        p->hello_due = true;
    if (p->state != LINK_LIVE)
        return;
    if (now - p->heard > p->lease && now > p->heard)
        peer_end(p, "the lease ran out", now); /* SI1 */
    else if (now > p->last_in && now - p->last_in > p->lease)
        peer_end(p, "the other site was silent", now);
}

uint64_t peer_deadline(const struct peer *p)
{
    uint64_t quiet = p->quiet_until ? p->quiet_until : TIME_NEVER; /* then it is read again */
    if (p->state == LINK_LIVE) {
        uint64_t end = (p->heard < p->last_in ? p->heard : p->last_in) + p->lease + 1;
        uint64_t beat = p->writer.left ? TIME_NEVER : beat_due(p);
        return beat < end ? beat : end;
    }
    if (!p->connected || p->hold || p->state == LINK_REFUSED || p->writer.left)
        return quiet; /* or when somebody is there, when it is released, when there is room */
    if (p->hello_due)
        return p->quiet_until;
    uint64_t again = p->greeted + GREET_MS * MS + 1;
    return quiet < again ? quiet : again;
}

bool peer_reads(const struct peer *p, uint64_t now)
{
    return p->state == LINK_LIVE || now >= p->quiet_until;
}
