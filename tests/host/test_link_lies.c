/*
 * test_link_lies.c - the session with a site that lies.
 *
 * Aim     a site that sends what cannot be ends its session and costs no more than its window; one
 *         that does so again and again is heard seldom; changed HELLOs and noise begin nothing, and
 *         the next one that is right does.
 * Method  as test_link; one of the two sites is spoken for by the test.
 *         `test_link_lies SEED N`: N runs of noise from that seed on (200).
 */
#include "link_sites.h"

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
