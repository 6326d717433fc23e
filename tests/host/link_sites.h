/*
 * link_sites.h - two sites, their link without a kernel, and two queues of bytes between them,
 * under a clock of the test's.
 */
#ifndef TESTS_HOST_LINK_SITES_H
#define TESTS_HOST_LINK_SITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/link_peer.h"

#define MS 1000000ull
#define LEASE (250 * MS)
enum { PIPE = 70000, RUNS = 200, STEPS = 3000, KEPT = 4096, QUEUED = 64 };

static uint64_t seed, now;
static unsigned runs = RUNS;

static inline uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static inline bool one_in(unsigned n) { return random_next() % n == 0; }

/* ---- two sites, and what is between them */

struct site {
    struct peer peer;                   /* first: of the callbacks' argument */
    struct self self;
    uint64_t offset;                    /* of its clock */
    uint64_t session, last_session;     /* numbers; of the one that ended last */
    uint64_t sent[FRAME_TOS], got[FRAME_TOS];   /* frames in this session */
    bool hold_next, refuse, nobody, holding;
    unsigned lives, answers, errors;
    struct { uint8_t bytes[PIPE]; size_t have; } out;   /* on the way to the other one */
} sites[2];

static inline struct site *other(struct site *s) { return s == sites ? sites + 1 : sites; }
static inline uint64_t clock_of(const struct site *s) { return now + s->offset; }

static inline uint64_t nonce(void) { return random_next() | 1; }

static inline const char *accept(struct peer *p, const struct hello *h)
{
    (void)h;
    return ((struct site *)p)->refuse ? "zone 0 is taken" : NULL;
}

static inline void on_live(struct peer *p)
{
    struct site *s = (struct site *)p;
    s->session = p->nonce ^ p->theirs;
    s->lives++;
    memset(s->sent, 0, sizeof(s->sent));
    memset(s->got, 0, sizeof(s->got));
}

static inline void on_end(struct peer *p)
{
    struct site *s = (struct site *)p;
    s->last_session = s->session;
    s->session = 0;
    p->hold = s->hold_next;
}

static inline bool wanted(struct peer *p, unsigned to)
{
    return (void)to, !((struct site *)p)->nobody;
}
static inline void arrived(struct peer *p, unsigned to) { (void)p, (void)to; }
static inline void answer(uint64_t token, int error)
{
    sites[token - 1].answers++;
    sites[token - 1].errors += error != 0;
}

static const struct peer_ops ops = {nonce, accept, on_live, on_end, wanted, arrived, answer};

static inline void begin(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        bool used = s->self.hello.protocol;
        if (used)
            peer_away(&s->peer, "the test ends", clock_of(s));
        memset(s, 0, sizeof(*s));
        s->self.hello = (struct hello){.protocol = 1, .boot = (uint64_t)(s - sites) + 7,
                                       .lease_ns = LEASE, .store_count = 1,
                                       .stores = {{.name = "store", .zone = s > sites}}};
        strcpy(s->self.hello.site, s == sites ? "a" : "b");
        s->offset = s == sites ? 0 : 1000 * LEASE;
        peer_begin(&s->peer, &s->self, &ops);
    }
}

static inline void connect_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        s->out.have = 0;
        peer_connected(&s->peer, clock_of(s));
    }
}

static inline void break_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        s->out.have = 0;
        peer_away(&s->peer, "the stream broke", clock_of(s));
    }
}

/* write_out moves up to `most` bytes out of a site. */
static inline void write_out(struct site *s, size_t most)
{
    const uint8_t *at;
    for (size_t n; most > 0 && (n = peer_output(&s->peer, &at, clock_of(s))) > 0; most -= n) {
        n = n < most ? n : most;
        n = n < PIPE - s->out.have ? n : PIPE - s->out.have;
        if (n == 0)
            break;
        memcpy(s->out.bytes + s->out.have, at, n);
        s->out.have += n;
        peer_written(&s->peer, n, clock_of(s));
    }
}

static inline void read_in(struct site *s, size_t most)
{
    struct site *from = other(s);
    size_t n = from->out.have < most ? from->out.have : most;
    if (n == 0 || !peer_reads(&s->peer, clock_of(s)))
        return;
    uint8_t *bytes = malloc(n);
    memcpy(bytes, from->out.bytes, n);
    memmove(from->out.bytes, from->out.bytes + n, from->out.have -= n);
    peer_input(&s->peer, bytes, n, clock_of(s));
    free(bytes);
}

/* ---- frames that tell where they belong */

static inline uint32_t size_of(uint64_t session, unsigned to, uint64_t number)
{
    uint64_t x = (session ^ number * 0x9e3779b97f4a7c15u ^ to) * 0xbf58476d1ce4e5b9u;
    uint32_t size = (uint32_t)(x >> 40) % 400;
    uint32_t most = FRAME_BYTES_MAX - FRAME_HEADER - 8;
    return x >> 20 & 31 ? size : x >> 25 & 3 ? size * 40 : most - size;
}

static inline struct waiting *frame_of(const struct site *s, unsigned to, uint64_t number)
{
    uint32_t size = size_of(s->session, to, number);
    struct waiting *w = waiting_new(FRAME_HEADER + 8 + size);
    struct fields_out o = frame_begin(w->frame, w->bytes);
    put_u64(&o, s->session);
    memset(put_room(&o, size), (int)(number & 255), size);
    assert_int_equal(frame_end(&o, FRAME_KIND_OTHERS, number, to), w->bytes);
    return w;
}

static inline int send_one(struct site *s, unsigned to)
{
    struct waiting *w = frame_of(s, to, s->sent[to] + 1);
    int r = peer_send(&s->peer, to, w, (uint64_t)(s - sites) + 1);
    if (r >= 0)
        s->sent[to]++;
    return r;
}

static inline void receive_all(struct site *s, unsigned to, unsigned most)
{
    for (const struct waiting *w; most > 0 && (w = peer_first(&s->peer, to)); most--) {
        struct frame f;
        assert_true(frame_head(&f, w->frame, w->bytes) && frame_whole(&f, w->frame, w->bytes));
        assert_int_equal(f.number, ++s->got[to]);
        assert_int_equal(f.answer_to, to);
        assert_int_equal(f.to, to);
        struct fields_in i = frame_fields(&f, w->frame);
        assert_true(take_u64(&i) == s->session);
        uint32_t size = size_of(s->session, to, f.number);
        const uint8_t *bytes = take_bytes(&i, size);
        assert_true(bytes && take_end(&i));
        for (uint32_t n = 0; n < size; n += 97)
            assert_int_equal(bytes[n], f.number & 255);
        peer_received(&s->peer, to);
    }
    assert_true(s->peer.lanes[to].in.bytes <= LINK_WINDOW);
}

/* What must hold between steps. A site whose lease stands in a session uses what the other one
 * granted in it: so the other is in it still, or was and is dying. */
static inline void check(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        struct site *o = other(s);
        bool stands = s->session && clock_of(s) <= s->peer.heard + s->peer.lease;
        if (stands && o->session != s->session && o->last_session == s->session)
            assert_true(clock_of(o) <= o->peer.dying_until);
        assert_int_equal(s->session != 0, s->peer.state == LINK_LIVE);
    }
}

static inline void tick_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++)
        peer_tick(&s->peer, clock_of(s));
    check();
}

/* Lets time go by until both are in one session, or `ms` are over. */
static inline bool meet(unsigned ms)
{
    for (unsigned n = 0; n < ms; n++, now += MS) {
        tick_both();
        for (struct site *s = sites; s < sites + 2; s++)
            write_out(s, PIPE);
        for (struct site *s = sites; s < sites + 2; s++)
            read_in(s, PIPE);
        if (sites[0].session && sites[0].session == sites[1].session)
            return true;
    }
    return false;
}

#endif
