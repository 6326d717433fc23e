/*
 * link_in.c - bytes that come from another site.
 *
 * Before a session, a HELLO is looked for at each byte: what does not look like one is thrown away.
 * In a session frame follows on frame, and the first one that is not right ends it.
 *
 * Invariants
 *   SF2  Memory is taken only for a frame that may come: of this session, the next one, to somebody
 *        who is there, and within what may wait for him (SO1). So a site that lies costs no more
 *        than its window.
 */
#include "link_peer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reader_begin(struct reader *r)
{
    waiting_free(r->body);
    r->body = NULL;
    r->have = 0;
}

static void bytes_came(struct peer *p, const uint8_t *at, size_t bytes, uint64_t now);

/* A frame that begins a session, or says why there is none. */
static bool greets(const struct frame *f)
{
    return (f->kind == FRAME_HELLO || f->kind == FRAME_REFUSED) && f->to == FRAME_LINK &&
           f->bytes <= OWN_BYTES;
}

/* ---- before a session */

static void heard_refused(struct peer *p, const struct frame *f, const uint8_t *at, uint64_t now)
{
    char site[LINK_SITE_BYTES], text[LINK_WHY_BYTES], why[LINK_WHY_BYTES];
    struct fields_in i = frame_fields(f, at);
    take_text(&i, site, sizeof(site));
    take_text(&i, text, sizeof(text));
    if (i.bad || f->session != p->nonce || !site_name_good(site))
        return;
    if (p->state == LINK_GREETING)
        memcpy(p->hello.site, site, sizeof(site)); /* who it is */
    for (char *c = text; *c; c++)
        *c = isprint((unsigned char)*c) ? *c : '?';
    snprintf(why, sizeof(why), LINK_THEY_SAY "%.*s", LINK_WHY_BYTES - 24, text);
    peer_refused(p, why, now);
}

static void heard_before(struct peer *p, const struct frame *f, const uint8_t *at, uint64_t now)
{
    if (f->kind == FRAME_HELLO)
        peer_hello(p, f, at, now);
    else if (f->kind == FRAME_REFUSED)
        heard_refused(p, f, at, now);
}

/* Is the header, as far as it is there, one of a frame that may come now? */
static bool may_come(const uint8_t *at, size_t bytes, struct frame *f)
{
    static const uint8_t magic[4] = {FRAME_MAGIC & 255, FRAME_MAGIC >> 8 & 255,
                                     FRAME_MAGIC >> 16 & 255, FRAME_MAGIC >> 24};
    if (memcmp(at, magic, bytes < sizeof(magic) ? bytes : sizeof(magic)) != 0)
        return false;
    return bytes < FRAME_HEADER || (frame_head(f, at, bytes) && greets(f));
}

/* found looks for a whole frame in what is there; what lies before the first one that may become
 * whole is thrown away. */
static bool found(struct reader *r, struct frame *f)
{
    uint32_t at = 0;
    bool whole = false;
    for (; !whole && at < r->have; at += !whole) {
        size_t left = r->have - at;
        if (!may_come(r->head + at, left, f))
            continue;
        if (left < FRAME_HEADER || left < f->bytes)
            break; /* the rest of it is to come */
        whole = frame_whole(f, r->head + at, left);
    }
    r->have -= at;
    memmove(r->head, r->head + at, r->have);
    return whole;
}

/* scan takes bytes until there is a frame of link's own, or they are used up; how many. */
static size_t scan(struct peer *p, const uint8_t *from, size_t bytes, uint64_t now)
{
    struct reader *r = &p->reader;
    struct frame f;
    uint8_t all[OWN_BYTES];
    size_t used = bytes < OWN_BYTES - r->have ? bytes : OWN_BYTES - r->have;
    memcpy(r->head + r->have, from, used);
    r->have += (uint32_t)used;
    if (!found(r, &f))
        return used;
    size_t have = r->have;
    memcpy(all, r->head, have);
    r->have = 0;
    p->frames_in++;
    heard_before(p, &f, all, now);
    bytes_came(p, all + f.bytes, have - f.bytes, now); /* less than was there: this ends */
    return used;
}

/* ---- in a session */

static void time_heard(struct peer *p, const struct frame *f, uint64_t now)
{
    if (f->heard > p->heard)
        p->heard = f->heard;
    uint64_t held = f->held * 1000ull, since = now - f->heard;
    if (f->heard && since >= held)
        p->round_trip = since - held;
    p->their_time = f->time;
    p->their_at = now;
}

static const char *beat_heard(struct peer *p, const struct frame *f, const uint8_t *at)
{
    struct fields_in i = frame_fields(f, at);
    for (unsigned to = FRAME_HOME; to < FRAME_TOS; to++) {
        struct lane *l = &p->lanes[to];
        uint64_t freed = take_u64(&i);
        if (i.bad || freed < l->their_freed || freed > l->sent)
            return "it freed what was not sent";
        l->their_freed = freed;
    }
    return take_end(&i) ? NULL : "its BEAT is none";
}

/* What is wrong with a header in a session, or NULL. */
static const char *head_wrong(struct peer *p, const struct frame *f)
{
    const struct lane *l = &p->lanes[f->to];
    if (f->session != p->nonce)
        return "a frame of another session"; /* SI2 */
    if (f->sequence != p->in_sequence + 1)
        return "a frame is missing";
    if (f->heard > p->last_out)
        return "it heard what was not said";
    if (f->to == FRAME_LINK)
        return f->kind == FRAME_BEAT && f->bytes <= OWN_BYTES ? NULL : "no such frame of link's";
    if (f->kind < FRAME_KIND_OTHERS)
        return "no such kind of frame";
    if (f->to != FRAME_COPY && !p->ops->wanted(p, f->to))
        return "a frame for nobody";
    return l->came - l->freed + f->bytes > LINK_WINDOW ? "more than may wait" : NULL; /* SF2 */
}

static void frame_came(struct peer *p, const struct frame *f, uint64_t now)
{
    struct waiting *w = p->reader.body;
    p->reader.body = NULL;
    p->reader.have = 0;
    p->in_sequence++;
    p->frames_in++;
    time_heard(p, f, now);
    if (f->to == FRAME_LINK) {
        const char *wrong = beat_heard(p, f, w->frame);
        waiting_free(w);
        if (wrong)
            peer_over(p, wrong, now);
        return;
    }
    p->lanes[f->to].came += w->bytes;
    if (!p->ops->wanted(p, f->to)) {    /* a copy that is not there yet: it asks again */
        p->lanes[f->to].freed += w->bytes;
        free(w);
        return;
    }
    queue_add(&p->lanes[f->to].in, w);
    p->ops->arrived(p, f->to);
}

/* head_came looks at a whole header; false: it has ended the session, or is no frame of it. */
static bool head_came(struct peer *p, uint64_t now)
{
    struct reader *r = &p->reader;
    struct frame f;
    bool head = frame_head(&f, r->head, r->have);
    const char *wrong = !head ? "no frame" : greets(&f) ? NULL : head_wrong(p, &f);
    r->body = wrong ? NULL : waiting_new(f.bytes);
    if (!wrong && !r->body)
        wrong = "no memory for a frame";
    if (wrong) {
        peer_over(p, wrong, now);
        return false;
    }
    memcpy(r->body->frame, r->head, FRAME_HEADER);
    return true;
}

static void body_came(struct peer *p, uint64_t now)
{
    struct reader *r = &p->reader;
    struct frame f;
    uint8_t own[OWN_BYTES];
    if (!frame_head(&f, r->body->frame, r->have) || !frame_whole(&f, r->body->frame, r->have)) {
        peer_over(p, "a frame is damaged", now);
    } else if (greets(&f)) {
        memcpy(own, r->body->frame, f.bytes);
        reader_begin(r);
        p->frames_in++;
        heard_before(p, &f, own, now);
    } else {
        frame_came(p, &f, now);
    }
}

static size_t take(struct peer *p, const uint8_t *from, size_t bytes, uint64_t now)
{
    struct reader *r = &p->reader;
    size_t want = (r->body ? r->body->bytes : FRAME_HEADER) - r->have;
    size_t used = bytes < want ? bytes : want;
    memcpy((r->body ? r->body->frame : r->head) + r->have, from, used);
    r->have += (uint32_t)used;
    if (used == want && (r->body || head_came(p, now)) && r->have == r->body->bytes)
        body_came(p, now);
    return used;
}

static void bytes_came(struct peer *p, const uint8_t *at, size_t bytes, uint64_t now)
{
    for (size_t n; bytes > 0 && peer_reads(p, now); at += n, bytes -= n)
        n = p->state == LINK_LIVE ? take(p, at, bytes, now) : scan(p, at, bytes, now);
}

void peer_input(struct peer *p, const uint8_t *at, size_t bytes, uint64_t now)
{
    p->bytes_in += bytes;
    p->last_in = now;
    bytes_came(p, at, bytes, now);
}
