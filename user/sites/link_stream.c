/*
 * link_stream.c - a stream of the kernel's, and the other site behind it.
 *
 * The kernel tells by a notice that something may have changed; then the stream is read and written
 * until it says that there is no more. A site that sends without end is read AT_ONCE times, and
 * then it is the others' turn.
 */
#include "link_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { AT_ONCE = 16 };

bool stream_open(struct site *s, unsigned number)
{
    snprintf(s->stream, sizeof(s->stream), "site.%u", number + 1);
    long handle = kd_call3(KD_STREAM_OPEN, (long)s->stream, link_all.port, 1l << number);
    if (handle < 0)
        return false;
    s->handle = (int)handle;
    s->readable = s->writable = true;
    peer_begin(&s->peer, &link_all.self, &site_ops);
    return true;
}

/* What the stream says instead of a number of bytes. */
static void stream_says(struct site *s, long error)
{
    uint64_t now = now_ns();
    if (error == -EAGAIN)
        peer_connected(&s->peer, now);
    else if (error == -ECONNRESET)
        peer_away(&s->peer, "the stream broke", now);
    else
        peer_away(&s->peer, "nobody is at the other end", now);
}

static bool stream_read(struct site *s)
{
    static uint8_t bytes[KD_PAGE_BYTES];
    for (int i = 0; i < AT_ONCE; i++) {
        if (!peer_reads(&s->peer, now_ns()))
            return false; /* until the time comes */
        long n = kd_call3(KD_STREAM_READ, s->handle, (long)bytes, sizeof(bytes));
        if (n < 0) {
            stream_says(s, n);
            s->readable = n == -ECONNRESET; /* there may be another one: no notice comes any more */
            s->writable |= s->readable;     /* of it, if a write has heard of the break first */
            return s->readable;
        }
        peer_connected(&s->peer, now_ns());
        peer_input(&s->peer, bytes, (size_t)n, now_ns());
    }
    return true;
}

static bool stream_write(struct site *s)
{
    const uint8_t *at;
    size_t n;
    for (int i = 0; i < AT_ONCE; i++) {
        if (i)
            clock_look();
        if ((n = peer_output(&s->peer, &at, now_ns())) == 0)
            return false;
        long done = kd_call3(KD_STREAM_WRITE, s->handle, (long)at, (long)n);
        if (done < 0) {
            s->writable = false;
            s->readable |= done != -EAGAIN; /* reading says what happened, behind what came */
            return s->readable;
        }
        peer_written(&s->peer, (size_t)done, now_ns());
    }
    return true;
}

bool stream_work(struct site *s)
{
    bool more = s->readable && stream_read(s);
    peer_tick(&s->peer, now_ns()); /* behind that: who did not run for a while was not in silence */
    for (unsigned to = FRAME_HOME; to < FRAME_TOS; to++)
        serve_frames(s, to);
    if (s->writable && s->peer.connected)
        more |= stream_write(s);
    return more;
}
