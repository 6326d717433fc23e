/*
 * test_link.c - the session between two sites: HELLO, breaks, leases, windows, and sites that lie.
 *
 * Aim     frames come in the order in which they were sent, whole, in the session in which they
 *         were sent, and nothing of an older one; while one site may use what the other granted,
 *         the other has not given it up; after the last fault both are LIVE again; a site that
 *         sends what cannot be ends its session and costs no more than its window.
 * Method  user/sites/link_*.c twice, under the address sanitizer, with a clock and two queues of
 *         bytes that break, stand still, and lose and change bytes as a seed says.
 *         `test_link SEED N`: N runs from that seed on (200).
 */
#include <errno.h>
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

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static bool one_in(unsigned n) { return random_next() % n == 0; }

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

static struct site *other(struct site *s) { return s == sites ? sites + 1 : sites; }
static uint64_t clock_of(const struct site *s) { return now + s->offset; }

static uint64_t nonce(void) { return random_next() | 1; }

static const char *accept(struct peer *p, const struct hello *h)
{
    (void)h;
    return ((struct site *)p)->refuse ? "zone 0 is taken" : NULL;
}

static void on_live(struct peer *p)
{
    struct site *s = (struct site *)p;
    s->session = p->nonce ^ p->theirs;
    s->lives++;
    memset(s->sent, 0, sizeof(s->sent));
    memset(s->got, 0, sizeof(s->got));
}

static void on_end(struct peer *p)
{
    struct site *s = (struct site *)p;
    s->last_session = s->session;
    s->session = 0;
    p->hold = s->hold_next;
}

static bool wanted(struct peer *p, unsigned to) { return (void)to, !((struct site *)p)->nobody; }
static void arrived(struct peer *p, unsigned to) { (void)p, (void)to; }
static void answer(uint64_t token, int error)
{
    sites[token - 1].answers++;
    sites[token - 1].errors += error != 0;
}

static const struct peer_ops ops = {nonce, accept, on_live, on_end, wanted, arrived, answer};

static void begin(void)
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

static void connect_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        s->out.have = 0;
        peer_connected(&s->peer, clock_of(s));
    }
}

static void break_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        s->out.have = 0;
        peer_away(&s->peer, "the stream broke", clock_of(s));
    }
}

/* write_out moves up to `most` bytes out of a site. */
static void write_out(struct site *s, size_t most)
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

static void read_in(struct site *s, size_t most)
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

static uint32_t size_of(uint64_t session, unsigned to, uint64_t number)
{
    uint64_t x = (session ^ number * 0x9e3779b97f4a7c15u ^ to) * 0xbf58476d1ce4e5b9u;
    uint32_t size = (uint32_t)(x >> 40) % 400;
    return x >> 20 & 31 ? size : x >> 25 & 3 ? size * 40 : FRAME_BYTES_MAX - FRAME_HEADER - 8 - size;
}

static int send_one(struct site *s, unsigned to)
{
    uint64_t number = s->sent[to] + 1;
    uint32_t size = size_of(s->session, to, number);
    struct waiting *w = waiting_new(FRAME_HEADER + 8 + size);
    struct fields_out o = frame_begin(w->frame, w->bytes);
    put_u64(&o, s->session);
    memset(put_room(&o, size), (int)(number & 255), size);
    assert_int_equal(frame_end(&o, FRAME_KIND_OTHERS, number, to), w->bytes);
    int r = peer_send(&s->peer, to, w, (uint64_t)(s - sites) + 1);
    if (r >= 0)
        s->sent[to]++;
    return r;
}

static void receive_all(struct site *s, unsigned to, unsigned most)
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
static void check(void)
{
    for (struct site *s = sites; s < sites + 2; s++) {
        struct site *o = other(s);
        bool stands = s->session && clock_of(s) <= s->peer.heard + s->peer.lease;
        if (stands && o->session != s->session && o->last_session == s->session)
            assert_true(clock_of(o) <= o->peer.dying_until);
        assert_int_equal(s->session != 0, s->peer.state == LINK_LIVE);
    }
}

static void tick_both(void)
{
    for (struct site *s = sites; s < sites + 2; s++)
        peer_tick(&s->peer, clock_of(s));
    check();
}

/* Lets time go by until both are in one session, or `ms` are over. */
static bool meet(unsigned ms)
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

/* ---- the tests */

static void hello_begins_a_session(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    assert_string_equal(sites[0].peer.hello.site, "b");
    assert_string_equal(sites[1].peer.hello.stores[0].name, "store");
    assert_int_equal(sites[0].peer.hello.stores[0].zone, 1);
    assert_int_equal(sites[0].peer.lease, LEASE);
}

/* HELLO and what follows it come in one piece. */
static void frames_right_behind_hello(void **state)
{
    (void)state;
    begin();
    connect_both();
    for (unsigned n = 0; n < 200; n++) { /* the first frame may be large */
        struct site *s = &sites[n % 2];
        for (unsigned k = 0; s->session && n < 6 && k < 5; k++)
            send_one(s, FRAME_HOME);
        write_out(s, PIPE);
        read_in(other(s), PIPE);
    }
    assert_true(meet(1));
    for (struct site *s = sites; s < sites + 2; s++) {
        receive_all(s, FRAME_HOME, QUEUED);
        assert_true(s->lives == 1 && s->got[FRAME_HOME] > 0);
    }
}

static void one_comes_later(void **state)
{
    (void)state;
    begin();
    peer_connected(&sites[0].peer, clock_of(sites));
    for (unsigned n = 0; n < 5000; n++, now += MS) {
        peer_tick(&sites[0].peer, clock_of(sites));
        write_out(sites, PIPE);
    }
    assert_int_equal(sites[0].peer.state, LINK_GREETING);
    peer_connected(&sites[1].peer, clock_of(sites + 1));
    assert_true(meet(10));
}

static void an_idle_session_stays(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    uint64_t session = sites[0].session, frames = sites[0].peer.frames_out;
    for (unsigned n = 0; n < 10000; n++, now += MS) {
        tick_both();
        for (struct site *s = sites; s < sites + 2; s++)
            read_in(s, PIPE); /* what was written a moment ago */
        for (struct site *s = sites; s < sites + 2; s++)
            write_out(s, PIPE);
    }
    assert_true(sites[0].session == session && sites[1].session == session);
    assert_in_range(sites[0].peer.frames_out - frames, 10000 / 64 - 2, 10000 / 60 + 2);
    assert_in_range(sites[0].peer.round_trip, 2 * MS, 2 * MS + MS / 100);
}

/* The clock is looked at only when it is said to be time. */
static void deadlines_suffice(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    unsigned looks = 0;
    for (uint64_t end = now + 10000 * MS; now < end; looks++) {
        uint64_t next = TIME_NEVER;
        for (struct site *s = sites; s < sites + 2; s++) {
            write_out(s, PIPE);
            read_in(other(s), PIPE);
        }
        for (struct site *s = sites; s < sites + 2; s++) {
            uint64_t due = peer_deadline(&s->peer) - s->offset;
            next = due < next ? due : next;
        }
        assert_true(next > now || looks == 0);
        now = next > now ? next : now;
        tick_both();
    }
    assert_true(sites[0].session && sites[0].lives == 1 && looks < 400);
}

static void silence_ends_a_session(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    uint64_t was = now;
    while (sites[0].session || sites[1].session) {
        tick_both();
        for (struct site *s = sites; s < sites + 2; s++)
            write_out(s, PIPE); /* and nothing comes */
        now += MS;
    }
    assert_in_range(now - was, LEASE - 2 * MS, LEASE + 3 * MS);
    assert_true(sites[0].peer.dying_until > clock_of(sites));
    assert_true(meet(3000));
}

/* What b said before it ended the session comes slowly. It is not silent, and yet no answer. */
static void what_nobody_answered_ends_a_session(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    uint64_t was = now;
    while (sites[1].session) {
        tick_both();
        write_out(sites + 1, PIPE);
        now += MS;
    }
    for (; sites[0].session; now += MS) {
        tick_both();
        read_in(sites, 2);
    }
    assert_true(now - was < LEASE + 10 * MS);
    assert_string_equal(sites[0].peer.why, "the lease ran out");
}

static void no_hello_before_the_clients_are_done(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    sites[0].hold_next = true;
    uint64_t said = sites[0].peer.frames_out;
    break_both();
    connect_both();
    assert_int_equal(sites[0].peer.state, LINK_LOST);
    assert_false(meet(5000));
    assert_true(sites[0].peer.frames_out == said && sites[0].lives == 1);
    peer_release(&sites[0].peer);
    assert_true(meet(1100));
}

static void a_refusal_says_why(void **state)
{
    (void)state;
    begin();
    sites[0].refuse = true;
    connect_both();
    assert_false(meet(5000));
    assert_true(sites[0].lives == 0 && sites[1].session == 0);
    assert_int_equal(sites[0].peer.state, LINK_REFUSED);
    assert_string_equal(sites[0].peer.why, "zone 0 is taken");
    assert_string_equal(sites[1].peer.why, "the other site says: zone 0 is taken");
    assert_true(sites[0].peer.frames_out < 20);
    sites[0].refuse = false;
    assert_true(meet(5000));
}

static void keys(void **state)
{
    (void)state;
    static const struct { const char *key[2], *why; } pairs[] = {
        {{"one", "one"}, NULL}, {{"one", "two"}, "it has another key"},
        {{"one", NULL}, "it has no key, and this site wants one"}, {{NULL, NULL}, NULL}};
    for (size_t n = 0; n < sizeof(pairs) / sizeof(pairs[0]); n++) {
        begin();
        for (int i = 0; i < 2; i++) {
            sites[i].self.has_key = pairs[n].key[i];
            if (pairs[n].key[i])
                key_make(sites[i].self.key, pairs[n].key[i]);
        }
        connect_both();
        assert_int_equal(meet(4000), !pairs[n].why);
        if (pairs[n].why)
            assert_true(strcmp(sites[0].peer.why, pairs[n].why) == 0 ||
                        strncmp(sites[0].peer.why, "the other site says", 19) == 0);
    }
    /* the first of the authors' test vectors, and one of 15 bytes */
    static const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    static const uint8_t bytes[15] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    assert_true(key_check(key, bytes, 0) == 0x726fdb47dd0e0e31);
    assert_true(key_check(key, bytes, 15) == 0xa129ca6149be45e5);
}

/* Who does not receive holds up who sends to him, and nobody else. */
static void a_slow_receiver(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    uint64_t session = sites[0].session;
    unsigned waits = 0, sent = 0;
    for (int r; (r = send_one(&sites[0], FRAME_HOME)) >= 0; sent++)
        waits += r == 1;
    assert_true(waits > 0 && sites[0].answers == 0);
    for (unsigned n = 0; n < 1000; n++, now += MS) {
        tick_both();
        for (struct site *s = sites; s < sites + 2; s++) {
            write_out(s, PIPE);
            read_in(other(s), PIPE);
        }
        if (sites[0].peer.lanes[FRAME_CLIENT].out.bytes == 0)
            waits += send_one(&sites[0], FRAME_CLIENT) == 1;
        receive_all(&sites[1], FRAME_CLIENT, QUEUED);
    }
    assert_true(sites[1].got[FRAME_CLIENT] > 20 && sites[0].session == session);
    assert_true(sites[1].peer.lanes[FRAME_HOME].in.bytes > LINK_WINDOW / 3);
    for (unsigned n = 0; n < 3000 && sites[1].got[FRAME_HOME] < sent; n++, now += MS) {
        tick_both();
        receive_all(&sites[1], FRAME_HOME, QUEUED);
        for (struct site *s = sites; s < sites + 2; s++) {
            write_out(s, PIPE);
            read_in(other(s), PIPE);
        }
    }
    assert_true(sites[1].got[FRAME_HOME] == sent && sites[0].answers == waits);
    assert_true(sites[0].errors == 0 && sites[0].session == session);
}

static void who_waits_hears_of_the_end(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    unsigned waits = 0;
    for (int r; (r = send_one(&sites[0], FRAME_HOME)) >= 0;)
        waits += r == 1;
    write_out(sites, 1000);
    break_both();
    assert_true(waits > 0 && sites[0].answers == waits && sites[0].errors == waits);
    assert_int_equal(send_one(&sites[0], FRAME_HOME), -ECONNRESET);
}

/* One step of a site. */
static void step(struct site *s)
{
    unsigned to = one_in(2) ? FRAME_HOME : FRAME_CLIENT;
    switch (random_next() % 8) {
    case 0: case 1: write_out(s, one_in(4) ? random_next() % 200 : PIPE); return;
    case 2: case 3: read_in(s, one_in(4) ? random_next() % 200 : PIPE); return;
    case 4: case 5:
        if (s->session && s->peer.lanes[to].out.bytes < LINK_WINDOW)
            send_one(s, to);
        return;
    case 6: receive_all(s, to, 1 + (unsigned)random_next() % QUEUED); return;
    default: peer_tick(&s->peer, clock_of(s)); return;
    }
}

static void fault(struct site *s)
{
    uint8_t *at = s->out.have ? &s->out.bytes[random_next() % s->out.have] : NULL;
    switch (random_next() % 9) {
    case 0: break_both(); connect_both(); return;
    case 1: if (at) *at ^= (uint8_t)(1 << random_next() % 8); return;
    case 2: if (at) s->out.have = (size_t)(at - s->out.bytes); return;
    case 3: now += random_next() % (3 * LEASE); return;
    case 4: peer_end(&s->peer, "a client ended", clock_of(s)); return;
    case 5: s->hold_next = !s->hold_next; return;
    case 6: peer_release(&s->peer); return;
    case 7: /* the other end came back before anybody looked */
        peer_away(&s->peer, "the stream broke", clock_of(s));
        peer_connected(&s->peer, clock_of(s));
        return;
    default:
        for (unsigned n = 0; n < 100 && s->out.have < PIPE; n++)
            s->out.bytes[s->out.have++] = (uint8_t)random_next();
    }
}

static void faults(void **state)
{
    (void)state;
    unsigned lives = 0;
    for (unsigned run = 0; run < runs; run++) {
        uint64_t first = seed;
        begin();
        connect_both();
        for (unsigned n = 0; n < STEPS; n++) {
            step(sites + random_next() % 2);
            if (one_in(60))
                fault(sites + random_next() % 2);
            now += random_next() % (MS / 4);
            check();
        }
        for (struct site *s = sites; s < sites + 2; s++) {
            s->hold_next = false;
            peer_release(&s->peer);
        }
        lives += sites[0].lives;
        if (!meet(8000))
            fail_msg("no session after the last fault: test_link %llu 1", (unsigned long long)first);
    }
    printf("# %u runs, %u sessions\n", runs, lives);
    assert_true(lives > runs * 3);
}

/* ---- a site that lies */

/* A frame of b's to a, as b's link would send it; `change` says what is wrong with it. */
static void hostile_frame(unsigned change)
{
    struct peer *b = &sites[1].peer;
    uint8_t at[FRAME_HEADER + 8];
    struct frame f;
    struct fields_out o = frame_begin(at, sizeof(at));
    put_u64(&o, sites[1].session);
    frame_end(&o, FRAME_KIND_OTHERS, 1, FRAME_HOME);
    assert_true(frame_head(&f, at, sizeof(at)));
    f.to = FRAME_HOME;
    f.session = b->theirs;
    f.sequence = b->out_sequence + 1;
    f.time = clock_of(&sites[1]);
    f.heard = b->their_time;
    switch (change) {
    case 1: f.kind = FRAME_KIND_OTHERS - 1; break;
    case 2: f.session ^= 1; break;
    case 3: f.sequence++; break;
    case 4: f.sequence--; break;
    case 5: f.heard = clock_of(&sites[0]) + MS; break;
    case 6: f.to = FRAME_LINK; break;
    case 7: f.bytes = FRAME_BYTES_MAX + 1; break;
    case 8: f.bytes = FRAME_HEADER - 1; break;
    case 9: f.to = FRAME_TOS; break;
    case 10: f.zero = 1; break;
    case 11: sites[0].nobody = true; break;
    case 12: f.to = FRAME_LINK, f.kind = FRAME_BEAT; break; /* with fields of no BEAT */
    default: break;
    }
    uint32_t bytes = f.bytes;
    f.bytes = sizeof(at);
    frame_seal(&f, at);
    if (bytes != f.bytes) {
        o = (struct fields_out){at, at + 4, at + 8, false};
        put_u32(&o, bytes);
    }
    if (change == 13)
        at[12 + random_next() % (sizeof(at) - 12)] ^= 1;
    peer_input(&sites[0].peer, at, sizeof(at), clock_of(&sites[0]));
}

static void a_lie_ends_the_session(void **state)
{
    (void)state;
    for (unsigned change = 0; change <= 13; change++) {
        begin();
        connect_both();
        assert_true(meet(10));
        for (unsigned n = 0; n < 70; n++, now += MS) /* BEATs go both ways */
            meet(1);
        tick_both();
        for (struct site *s = sites; s < sites + 2; s++) {
            write_out(s, PIPE);
            read_in(other(s), PIPE);
        }
        hostile_frame(change);
        if (change)
            assert_true(!sites[0].session && !peer_first(&sites[0].peer, FRAME_HOME));
        else
            assert_true(sites[0].session && peer_first(&sites[0].peer, FRAME_HOME));
        sites[0].nobody = false;
    }
}

/* Nobody receives, and frames come without end: the session ends before they are a window. */
static void a_flood_ends_the_session(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    struct peer *b = &sites[1].peer;
    for (unsigned n = 0; n < 200000 && sites[0].session; n++) {
        hostile_frame(0);
        b->out_sequence++;
        assert_true(sites[0].peer.lanes[FRAME_HOME].in.bytes <= LINK_WINDOW);
    }
    assert_int_equal(sites[0].session, 0);
    assert_string_equal(sites[0].peer.why, "more than may wait");
}

/* A site that breaks the rules again and again is heard seldom, and says little to us. */
static void who_lies_always_is_heard_seldom(void **state)
{
    (void)state;
    begin();
    connect_both();
    unsigned sessions = 0;
    for (unsigned n = 0; n < 20000; n++, now += MS) {
        if (meet(1)) {
            sessions++;
            hostile_frame(1);
        }
    }
    assert_in_range(sessions, 5, 40);
    assert_true(sites[0].peer.frames_out < 300);
}

/* Any bytes at all, changed HELLOs among them. */
static void noise(void **state)
{
    (void)state;
    for (unsigned run = 0; run < runs; run++) {
        begin();
        connect_both();
        for (unsigned n = 0; n < 100; n++) {
            uint8_t at[OWN_BYTES];
            size_t bytes = hello_put(&sites[1].self, random_next() | 1, sites[0].peer.nonce, at);
            struct frame f;
            assert_true(frame_head(&f, at, bytes));
            f.session = one_in(3) ? 0 : sites[0].peer.nonce;
            for (unsigned k = random_next() % 4; k > 0; k--)
                at[FRAME_HEADER + random_next() % (bytes - FRAME_HEADER)] = (uint8_t)random_next();
            if (one_in(4))
                f.bytes = FRAME_HEADER + (uint32_t)(random_next() % (bytes - FRAME_HEADER));
            frame_seal(&f, at);
            if (one_in(3))
                at[random_next() % bytes] ^= (uint8_t)(1 << random_next() % 8);
            peer_input(&sites[0].peer, at, one_in(5) ? random_next() % bytes : bytes,
                       clock_of(&sites[0]));
            peer_tick(&sites[0].peer, clock_of(&sites[0]));
            write_out(&sites[0], PIPE);
            sites[0].out.have = 0;
            now += random_next() % (20 * MS);
        }
        break_both();
        now += 3000 * MS;
        connect_both();
        assert_true(meet(5000));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_begins_a_session),
        cmocka_unit_test(frames_right_behind_hello),
        cmocka_unit_test(one_comes_later),
        cmocka_unit_test(an_idle_session_stays),
        cmocka_unit_test(deadlines_suffice),
        cmocka_unit_test(silence_ends_a_session),
        cmocka_unit_test(what_nobody_answered_ends_a_session),
        cmocka_unit_test(no_hello_before_the_clients_are_done),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(keys),
        cmocka_unit_test(a_slow_receiver),
        cmocka_unit_test(who_waits_hears_of_the_end),
        cmocka_unit_test(faults),
        cmocka_unit_test(a_lie_ends_the_session),
        cmocka_unit_test(a_flood_ends_the_session),
        cmocka_unit_test(who_lies_always_is_heard_seldom),
        cmocka_unit_test(noise),
    };
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 88172645463325252u;
    runs = argc > 2 ? (unsigned)atoi(argv[2]) : RUNS;
    now = 5 * LEASE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
