/*
 * test_link.c - the session between two sites: HELLO, breaks, leases, windows.
 *
 * Aim     frames come in the order in which they were sent, whole, in the session in which they
 *         were sent, and nothing of an older one; while one site may use what the other granted,
 *         the other has not given it up; after the last fault both are LIVE again.
 * Method  user/sites/link_*.c twice, under the address sanitizer, with a clock and two queues of
 *         bytes that break, stand still, and lose and change bytes as a seed says.
 *         `test_link SEED N`: N runs from that seed on (200).
 */
#include <errno.h>

#include "link_sites.h"

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

/* What a site says of itself changes at any step of the greeting: the other one hears the last. */
static void who_changes_is_heard(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 12; at++)
        for (unsigned order = 0; order < 64; order++) {
            begin();
            connect_both();
            for (unsigned n = 0; n < 12; n++, now += MS / 16) {
                struct site *s = &sites[order >> n % 6 & 1];
                write_out(s, PIPE);
                read_in(other(s), PIPE);
                if (n != at) continue;
                sites[0].self.hello.claim = 5;
                peer_anew(&sites[0].peer, "it claims another zone", clock_of(sites));
            }
            assert_true(meet(3000));
            assert_int_equal(sites[1].peer.hello.claim, 5);
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

/* Sites that sleep until their deadlines, or until something comes or there is room, meet. Who
 * is not read does not see either that somebody is there. */
static bool meet_by_deadlines(void)
{
    uint64_t next = now;
    for (unsigned looks = 0; looks < 100 && next < TIME_NEVER; looks++) {
        now = next > now ? next : now + MS;
        for (unsigned n = 0; n < 4; n++)
            for (struct site *s = sites; s < sites + 2; s++) {
                if (peer_reads(&s->peer, clock_of(s)))
                    peer_connected(&s->peer, clock_of(s));
                read_in(s, PIPE);
                peer_tick(&s->peer, clock_of(s));
                if (s->peer.connected)
                    write_out(s, PIPE);
            }
        if (sites[0].session && sites[0].session == sites[1].session)
            return true;
        next = TIME_NEVER;
        for (struct site *s = sites; s < sites + 2; s++) {
            uint64_t due = peer_deadline(&s->peer);
            due = due > s->offset && due < TIME_NEVER ? due - s->offset : due;
            next = due < next ? due : next;
        }
    }
    return false;
}

/* SI4: both have broken rules, and who is quiet does not read. */
static void both_quiet(void)
{
    for (struct site *s = sites; s < sites + 2; s++)
        for (unsigned n = 0; n < 5; n++)
            peer_over(&s->peer, "the test says so", clock_of(s));
}

static void quiet_sites_that_find_no_room_wake(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    for (struct site *s = sites; s < sites + 2; s++) {
        peer_end(&s->peer, "the test says so", clock_of(s));
        s->out.have = PIPE; /* of a session that has ended */
        memset(s->out.bytes, 0, PIPE);
        write_out(s, PIPE); /* begins a HELLO */
        assert_true(s->peer.writer.left > 0);
    }
    both_quiet();
    assert_true(meet_by_deadlines());
}

static void quiet_sites_that_come_again_wake(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    both_quiet();
    break_both();
    assert_true(meet_by_deadlines());
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

/* Programs here may use for a lease what was granted to the link before. */
static void a_link_that_was_started_again_is_silent_for_a_lease(void **state)
{
    (void)state;
    begin();
    uint64_t until = now + LEASE;
    peer_later(&sites[0].peer, clock_of(sites) + LEASE);
    connect_both();
    for (; now < until; now += MS) {
        assert_false(meet(1));
        assert_true(sites[0].peer.frames_out == 0 && !sites[1].session);
    }
    assert_true(meet(1100));
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

/* Threads of one sender come in any order: what is sent goes by the places. */
static void frames_go_by_their_places(void **state)
{
    enum { N = 6 };
    (void)state;
    for (unsigned seed = 0; seed < 200; seed++) {
        unsigned left[N], here = 0, came = 0;
        begin();
        connect_both();
        assert_true(meet(10));
        for (unsigned i = 0; i < N; i++) left[i] = i + 1;
        srand(seed);
        for (unsigned n = N; n > 0; n--) {
            unsigned i = (unsigned)rand() % n, place = left[i];
            left[i] = left[n - 1];
            struct waiting *w = frame_of(&sites[0], FRAME_HOME, place);
            frame_place(w->frame, place);
            assert_true(peer_send(&sites[0].peer, FRAME_HOME, w, 0) >= 0);
            for (here |= 1u << place; here >> (came + 1) & 1;) came++;
            for (unsigned k = 0; k < 60; k++, now += MS / 16)
                for (struct site *s = sites; s < sites + 2; s++) {
                    write_out(s, PIPE);
                    read_in(other(s), PIPE);
                    receive_all(s, FRAME_HOME, QUEUED);
                }
            assert_int_equal(sites[1].got[FRAME_HOME], came);
        }
        struct waiting *w = frame_of(&sites[0], FRAME_HOME, N + 1);
        frame_place(w->frame, N); /* that has gone */
        assert_int_equal(peer_send(&sites[0].peer, FRAME_HOME, w, 0), -EINVAL);
    }
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

/* The other copy of a store may not have begun yet: what is said to it is gone, takes no memory,
 * and ends nothing; to anybody else it is an error. */
static void frames_to_a_copy_that_is_not_there(void **state)
{
    (void)state;
    begin();
    connect_both();
    assert_true(meet(10));
    uint64_t session = sites[0].session, bytes = 0;
    sites[1].nobody = true;
    for (unsigned n = 0; n < 3000 && bytes < 3ull * LINK_WINDOW; n++, now += MS) {
        tick_both();
        if (sites[0].peer.lanes[FRAME_COPY].out.bytes == 0)
            assert_true(send_one(&sites[0], FRAME_COPY) >= 0);
        for (struct site *s = sites; s < sites + 2; s++) {
            write_out(s, PIPE);
            read_in(other(s), PIPE);
        }
        bytes = sites[1].peer.lanes[FRAME_COPY].freed;
    }
    assert_true(bytes >= 3ull * LINK_WINDOW && sites[0].session == session);
    assert_true(sites[1].session == session && !peer_first(&sites[1].peer, FRAME_COPY));
    assert_true(send_one(&sites[0], FRAME_HOME) >= 0);
    for (unsigned n = 0; n < 20; n++) {
        write_out(sites, PIPE);
        read_in(&sites[1], PIPE);
    }
    assert_true(sites[1].session != session);
}

/* A program wants the home of a store by the name of the site that it was first at. */
static void who_stands_for_a_name(void **state)
{
    (void)state;
    struct hello h = {.site = "a"};
    assert_true(hello_stands_for(&h, "a") && !hello_stands_for(&h, "b"));
    h.flags = HELLO_PAIR;               /* a copy, and not home */
    assert_true(!hello_stands_for(&h, "a") && !hello_stands_for(&h, ""));
    strcpy(h.site, "b");
    strcpy(h.as, "a");
    assert_true(hello_stands_for(&h, "a") && !hello_stands_for(&h, "b"));
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
            fail_msg("no session after the last fault: test_link %llu 1",
                     (unsigned long long)first);
    }
    printf("# %u runs, %u sessions\n", runs, lives);
    assert_true(lives > runs * 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_begins_a_session),
        cmocka_unit_test(frames_right_behind_hello),
        cmocka_unit_test(who_changes_is_heard),
        cmocka_unit_test(one_comes_later),
        cmocka_unit_test(an_idle_session_stays),
        cmocka_unit_test(deadlines_suffice),
        cmocka_unit_test(quiet_sites_that_find_no_room_wake),
        cmocka_unit_test(quiet_sites_that_come_again_wake),
        cmocka_unit_test(silence_ends_a_session),
        cmocka_unit_test(what_nobody_answered_ends_a_session),
        cmocka_unit_test(a_link_that_was_started_again_is_silent_for_a_lease),
        cmocka_unit_test(no_hello_before_the_clients_are_done),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(keys),
        cmocka_unit_test(a_slow_receiver),
        cmocka_unit_test(frames_go_by_their_places),
        cmocka_unit_test(frames_to_a_copy_that_is_not_there),
        cmocka_unit_test(who_stands_for_a_name),
        cmocka_unit_test(who_waits_hears_of_the_end),
        cmocka_unit_test(faults),
    };
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 88172645463325252u;
    runs = argc > 2 ? (unsigned)atoi(argv[2]) : RUNS;
    now = 5 * LEASE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
