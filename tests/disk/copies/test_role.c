/*
 * test_role.c - two machines with a copy of one store each, a witness, links between them, a clock.
 *
 * Aim     there are never two homes that serve; whoever is home has what was acknowledged, and
 *         nothing that another home went on without; there is a home again when faults have ended.
 * Method  role.c and the disk library as they are; messages take their time, in order, and are lost
 *         with their link. Machines lose their power, links break or fall silent, the witness is
 *         away, at any time. A commit is a number; it knows the one that its home had before.
 */
#include "crew.h"
#include "internal.h"
#include "role_rig.h"
#include "user/sites/role_wire.h"
#include "user/store/role.c"

static void life(uint64_t seed)
{
    crew_at("life", seed);
    machines_begin(seed);
    time_passes(2000000);
    if (!pair_stands())
        crew_fail("a pair that is left alone does not come to be: %u %u, error %d",
                  machines[0].role.is, machines[1].role.is, machines[1].role.error);
    for (uint32_t round = 0; round < 4; round++) {
        crew_at("round", round);
        faults = true;
        time_passes(6000000);
        faults = false;
        mends(true);
        time_passes(8000000); /* who asked in vain waits for up to 1.6 s, and again */
        if (!pair_stands())
            crew_fail("when faults have ended no pair comes to be: roles %u %u, record %u %u",
                      machines[0].role.is, machines[1].role.is, record.home, record.mate);
        crew_add(NAMED, 1);
    }
    crew_add(ACKED, acked_count);
    crew_add(OPENED, opened_count);
    crew_add(COPIED, copied_count);
    machines_end();
}

static void homes_and_spares_live_through_faults(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(64), life));
    printf("# %llu commits acknowledged, %llu crashes, %llu times a home began, %llu pairs stood "
           "again, %llu copied anew\n", (unsigned long long)crew_sum(ACKED),
           (unsigned long long)crew_sum(CRASHES), (unsigned long long)crew_sum(OPENED),
           (unsigned long long)crew_sum(NAMED), (unsigned long long)crew_sum(COPIED));
    bool few = crew_sum(COPIED) * 10 < crew_sum(CRASHES);
    assert_true(crew_part() || (crew_sum(OPENED) > 50 && few));
}

/* Aim: from the home's death to the first commit that the spare acknowledges: under a second. */
static void a_spare_takes_over_within_a_second(void **state)
{
    (void)state;
    uint64_t worst = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        machines_begin(seed);
        time_passes(2000000 + chance(20) * 10000);
        assert_true(pair_stands() && machines[0].role.is == ROLE_HOME);
        machines[0].up = false;
        links[0].silent = true;         /* nobody tells */
        role_end(&machines[0].role);
        uint64_t died = now_us, before = acked_count;
        while (acked_count == before && now_us < died + 3000000)
            time_passes(STEP_US);
        worst = MAX(worst, now_us - died);
        assert_true(machines[1].role.is == ROLE_HOME);
        machines_end();
    }
    printf("# the longest of 20 take-overs: %llu ms\n", (unsigned long long)worst / 1000);
    assert_true(worst < 1000000);
}

/* Aim: where each message takes longer than the time after which one asks again, of the witness and
 * of the home, the two become a pair all the same, and the spare takes over. */
static void answers_may_take_long(void **state)
{
    enum { WAY_US = 70000 };
    (void)state;
    assert_true(2 * WAY_US > ASK_AGAIN_US && 2 * WAY_US > JOIN_AGAIN_US);
    machines_begin(7);
    way_us = WAY_US;
    for (uint32_t i = 0; i < 2; i++)
        machines[i].role.lease_us = 4 * ROLE_LEASE_US;
    time_passes(6000000);
    assert_true(pair_stands() && machines[0].role.is == ROLE_HOME);
    machines[0].up = false;
    role_end(&machines[0].role);
    link_breaks(0);
    time_passes(6000000);
    assert_true(role_serves(&machines[1].role, now_us) && record.home == 2);
    machines_end();
}

/* ---- single messages, to a home whose world answers nothing by itself */

static struct role_message last[ROLE_KINDS];
static uint32_t sent[ROLE_KINDS];

static void noted(void *context, int to, const struct role_message *m)
{
    (void)context;
    (void)to;
    last[m->kind] = *m;
    sent[m->kind]++;
}

static struct role *home_alone(void)
{
    machines_begin(1);
    struct role *r = &machines[0].role;
    r->calls.send = noted;
    memset(sent, 0, sizeof sent);
    now_us += ROLE_LEASE_US;
    role_tick(r, now_us);
    struct role_message m = { .kind = ROLE_RECORD, .number = r->ask_number, .record = record };
    role_receive(r, ROLE_TO_WITNESS, &m, now_us);
    assert_int_equal(r->is, ROLE_HOME);
    assert_true(role_serves(r, now_us));
    return r;
}

/* The JOIN of a copy whose log ends there. */
static struct role_message joined_at(struct role *r, uint64_t session, store_lsn_t lsn)
{
    struct role_message m = { .kind = ROLE_JOIN, .number = session, .lsn = lsn };
    struct store_stats stats;
    store_stats(r->store, &stats);
    memcpy(m.uuid, stats.uuid, sizeof m.uuid);
    m.disk_bytes = stats.disk_bytes;
    m.log_bytes = stats.log_bytes;
    store_epochs_tell(r->store, &m.epochs);
    return m;
}

/* The copy asks to join, as it is. */
static struct role_message joins_now(struct role *r, uint64_t session)
{
    struct role_message m = joined_at(r, session, store_log_applied(r->store));
    role_receive(r, ROLE_TO_OTHER, &m, now_us);
    return m;
}

/* Aim: who joins and says nothing is not named (NH5), nor by what it said in an earlier session
 * (NH1); when it is silent for a lease its home asks the witness, and serves nothing until then. */
static void a_spare_that_never_answers_is_not_named(void **state)
{
    (void)state;
    struct role *r = home_alone();
    joins_now(r, 77);
    assert_int_equal(sent[ROLE_CATCH_UP], 1);
    assert_int_equal(last[ROLE_CATCH_UP].error, 0);
    struct role_message have = { .kind = ROLE_HAVE, .number = 76, .lsn = last[ROLE_CATCH_UP].lsn,
                                 .stamp = now_us };
    role_receive(r, ROLE_TO_OTHER, &have, now_us);
    role_tick(r, now_us += ROLE_TICK_US);
    assert_int_equal(sent[ROLE_WANT_RECORD], 0);
    assert_int_equal(role_sure(r), 0);
    have.number = 77;
    role_receive(r, ROLE_TO_OTHER, &have, now_us);
    assert_int_equal(role_sure(r), have.lsn);
    role_tick(r, now_us += ROLE_TICK_US);
    assert_int_equal(sent[ROLE_WANT_RECORD], 1);
    assert_int_equal(last[ROLE_WANT_RECORD].record.mate, 2);
    struct role_message given = last[ROLE_WANT_RECORD];
    given.kind = ROLE_GIVEN;
    given.record.term++;
    role_receive(r, ROLE_TO_WITNESS, &given, now_us);
    assert_int_equal(sent[ROLE_NAMED], 1);
    assert_true(role_serves(r, have.stamp + ROLE_LEASE_US - 1));
    assert_false(role_serves(r, have.stamp + ROLE_LEASE_US));   /* also before a tick (NH8) */
    joins_now(r, 78);                   /* it has one already */
    assert_int_equal(last[ROLE_CATCH_UP].error, -EAGAIN);
    role_tick(r, now_us += ROLE_LEASE_US);
    assert_false(role_serves(r, now_us));
    assert_int_equal(role_sure(r), 0);
    assert_int_equal(last[ROLE_WANT_RECORD].record.mate, 0);
    joins_now(r, 79);                   /* who is lost may be home by now */
    assert_int_equal(last[ROLE_CATCH_UP].error, -EAGAIN);
    machines_end();
}

/* Aim: who joins is told of the newest checkpoint, which no group may come behind for long. */
static void who_joins_is_told_of_the_newest_checkpoint(void **state)
{
    (void)state;
    struct store_mark mark;
    struct role *r = home_alone();
    machine_commits(&machines[0]);
    commits_land(&machines[0]);
    assert_int_equal(store_checkpoint_begin(r->store), 0);
    joins_now(r, 77);
    store_mark_tell(r->store, &mark);
    assert_int_equal(mark.redo_lsn, store_log_applied(r->store));
    assert_memory_equal(&last[ROLE_CATCH_UP].mark, &mark, sizeof mark);
    machines_end();
}

/* Aim: who answers what was never sent gives no lease: a stamp is one of the home's (NH8). */
static void a_stamp_of_the_future_is_no_lease(void **state)
{
    (void)state;
    struct role *r = home_alone();
    joins_now(r, 77);
    struct role_message m = { .kind = ROLE_HAVE, .number = 77, .lsn = last[ROLE_CATCH_UP].lsn };
    role_receive(r, ROLE_TO_OTHER, &m, now_us);
    role_tick(r, now_us += ROLE_TICK_US);
    m = last[ROLE_WANT_RECORD];
    m.kind = ROLE_GIVEN;
    m.record.term++;
    role_receive(r, ROLE_TO_WITNESS, &m, now_us);
    assert_true(r->named && role_serves(r, now_us));
    for (int i = 0; i < 3; i++) {
        m = (struct role_message){ .kind = i == 2 ? ROLE_HAVE : ROLE_HEARD, .number = 77,
                                   .stamp = now_us + (i ? 10 * ROLE_LEASE_US : ROLE_TICK_US) };
        role_receive(r, ROLE_TO_OTHER, &m, now_us);
        assert_false(role_heard(r, now_us + 1));
        assert_false(role_serves(r, now_us + ROLE_LEASE_US));
    }
    machines_end();
}

/* Aim: a group that was sealed before the spare joined, and is not applied, is sent to it. */
static void a_group_in_the_air_is_sent_to_who_joins(void **state)
{
    (void)state;
    struct role *r = home_alone();
    machine_commits(&machines[0]);
    joins_now(r, 77);
    role_tick(r, now_us);
    assert_int_equal(sent[ROLE_GROUP], 0);      /* nobody has said that it is there */
    struct role_message have = { .kind = ROLE_HAVE, .number = 77, .lsn = last[ROLE_CATCH_UP].lsn };
    role_receive(r, ROLE_TO_OTHER, &have, now_us);
    role_tick(r, now_us);
    assert_int_equal(sent[ROLE_GROUP], 1);
    assert_true(last[ROLE_GROUP].bytes > STORE_PAGE_BYTES);
    machine_commits(&machines[0]);
    assert_int_equal(sent[ROLE_GROUP], 2);
    machines_end();
}

/* Aim: where a long log parts from that of a copy is looked for in steps, each at a tick of its
 * own; a copy that asks again meanwhile is answered in its newest session, and has all in the end.
 * */
static void a_long_log_is_read_in_steps(void **state)
{
    (void)state;
    enum { GROUPS = 90, STEP_GROUPS = FEED_STEP / (2 * STORE_PAGE_BYTES) };
    struct role *r = home_alone();
    store_lsn_t before = store_log_applied(r->store);
    for (uint32_t i = 0; i < GROUPS; i++) {
        machine_commits(&machines[0]);
        commits_land(&machines[0]);
    }
    uint64_t reads = machines[0].disk.device.reads;
    joins_now(r, 77);
    assert_true(!sent[ROLE_CATCH_UP] && !r->mate && role_hurries(r));
    assert_true(role_serves(r, now_us) && role_sure(r) == r->flushed);  /* nobody waits for it */
    assert_true(machines[0].disk.device.reads - reads < 8);
    role_tick(r, now_us += ROLE_TICK_US);
    joins_now(r, 79);
    for (uint32_t i = 0; i < GROUPS / STEP_GROUPS && !sent[ROLE_CATCH_UP]; i++)
        role_tick(r, now_us += ROLE_TICK_US);
    assert_int_equal(sent[ROLE_CATCH_UP], 1);
    assert_true(last[ROLE_CATCH_UP].error == 0 && last[ROLE_CATCH_UP].number == 79);
    assert_true(last[ROLE_CATCH_UP].lsn == store_log_applied(r->store) && r->mate);
    role_link(r, false, now_us);
    machines_end();

    r = home_alone();                   /* one that lacks it all, and is fed step by step, too */
    before = store_log_applied(r->store);
    for (uint32_t i = 0; i < GROUPS; i++) {
        machine_commits(&machines[0]);
        commits_land(&machines[0]);
    }
    struct role_message m = joined_at(r, 77, before);
    role_receive(r, ROLE_TO_OTHER, &m, now_us);
    assert_true(sent[ROLE_CATCH_UP] == 1 && last[ROLE_CATCH_UP].lsn == before);
    struct role_message have = { .kind = ROLE_HAVE, .number = 77, .lsn = before };
    role_receive(r, ROLE_TO_OTHER, &have, now_us);
    role_tick(r, now_us);
    assert_true(sent[ROLE_GROUP] > 8 && sent[ROLE_GROUP] <= STEP_GROUPS && role_hurries(r));
    for (uint32_t i = 0; i < GROUPS && sent[ROLE_GROUP] < GROUPS; i++)
        role_tick(r, now_us);
    assert_int_equal(sent[ROLE_GROUP], GROUPS);
    machines_end();
}

/* Aim: a copy that asked to join and is gone leaves no hold on the log. */
static void who_is_gone_while_its_log_is_looked_for_leaves_nothing(void **state)
{
    (void)state;
    struct role *r = home_alone();
    for (uint32_t i = 0; i < 90; i++) {
        machine_commits(&machines[0]);
        commits_land(&machines[0]);
    }
    struct store_stats before, after;
    store_stats(r->store, &before);
    joins_now(r, 77);
    assert_true(role_hurries(r));
    role_link(r, false, now_us);
    store_stats(r->store, &after);
    assert_true(!role_hurries(r) && after.holds == before.holds);
    role_tick(r, now_us += ROLE_TICK_US);
    assert_int_equal(sent[ROLE_CATCH_UP], 0);
    machines_end();
}

/* Aim: a copy that lacks a group which is too large to be sent is told that, once it is found out,
 * and its home goes on; it does not join again and again. */
static void who_lacks_a_group_that_is_too_large_is_copied_anew(void **state)
{
    (void)state;
    struct role *r = home_alone();
    store_lsn_t before = store_log_applied(r->store);
    machine_commits(&machines[0]);
    commits_land(&machines[0]);
    r->group_most = STORE_PAGE_BYTES;
    for (uint64_t session = 77; session < 79; session++) {
        struct role_message m = joined_at(r, session, before);
        role_receive(r, ROLE_TO_OTHER, &m, now_us);
        if (session == 78) break;
        assert_int_equal(last[ROLE_CATCH_UP].error, 0);
        struct role_message have = { .kind = ROLE_HAVE, .number = 77, .lsn = before };
        role_receive(r, ROLE_TO_OTHER, &have, now_us);
        role_tick(r, now_us);
        assert_true(r->lost && !sent[ROLE_GROUP]);
        role_tick(r, now_us);
        m = last[ROLE_WANT_RECORD];
        m.kind = ROLE_GIVEN;
        m.record.term++;
        role_receive(r, ROLE_TO_WITNESS, &m, now_us);
        assert_true(role_serves(r, now_us) && !r->mate);
    }
    assert_int_equal(last[ROLE_CATCH_UP].error, -ESTALE);
    assert_true(role_serves(r, now_us) && !r->mate);
    machines_end();
}

/* Aim: an answer of the witness counts for the request that was made last (NM2). */
static void answers_to_earlier_requests_are_none(void **state)
{
    (void)state;
    struct role *r = home_alone();
    joins_now(r, 77);
    role_tick(r, now_us += ROLE_LEASE_US);
    assert_int_equal(sent[ROLE_WANT_RECORD], 1);
    struct role_message m = last[ROLE_WANT_RECORD];
    m.kind = ROLE_GIVEN;
    m.record.term++;
    m.number--;
    role_receive(r, ROLE_TO_WITNESS, &m, now_us);
    assert_false(role_serves(r, now_us));
    m.number++;
    m.record.home = 2;
    role_receive(r, ROLE_TO_WITNESS, &m, now_us);
    assert_false(role_serves(r, now_us));
    m.record.home = 1;
    role_receive(r, ROLE_TO_WITNESS, &m, now_us);
    assert_true(role_serves(r, now_us));
    assert_int_equal(role_take_over(r, now_us), -EBUSY);
    machines_end();
}

/* Aim: a frame that is changed is no message, or one that is within its frame. */
static void changed_frames_do_no_harm(void **state)
{
    (void)state;
    static uint8_t group[STORE_PAGE_BYTES] = {1}, frame[8192], whole[ROLE_GROUP_MOST];
    uint32_t refused = 0;
    for (enum role_kind kind = 0; kind < ROLE_KINDS; kind++) {
        struct role_message n, m = { .kind = kind, .number = 3, .term = 4,
                                     .epochs = { .count = 2 } };
        struct frame f;
        if (kind == ROLE_GROUP) {
            m.group = group;
            m.bytes = sizeof group;
            m.used = sizeof group - 300;
        }
        size_t bytes = role_put(&m, frame, sizeof frame);
        assert_true(bytes && frame_head(&f, frame, bytes) && role_get(&n, &f, frame, whole));
        assert_true(n.kind == kind && n.number == 3 && n.term == 4 && n.bytes == m.bytes);
        assert_true(!m.bytes || (bytes < 4000 && memcmp(n.group, group, sizeof group) == 0));
        memset(whole, 7, sizeof whole);
        for (size_t i = FRAME_HEADER; i < bytes && i < 400; i++) {
            frame[i] ^= 0x81;
            if (!role_get(&n, &f, frame, whole))
                refused++;
            else
                assert_true(n.epochs.count <= STORE_EPOCHS && n.bytes <= sizeof group &&
                            n.error <= 0);
            frame[i] ^= 0x81;
        }
        for (f.bytes = FRAME_HEADER; f.bytes < bytes; f.bytes++)
            assert_false(role_get(&n, &f, frame, whole));
        f.bytes = (uint32_t)bytes;
        f.kind = ROLE_FRAME + ROLE_KINDS;
        assert_false(role_get(&n, &f, frame, whole));
    }
    assert_true(refused > 10);
}

/* Aim: the record changes for its home and its mate only, from its own term, once (NH3). */
static void the_witness_gives_a_term_once(void **state)
{
    (void)state;
    struct role_record kept = { 5, 1, 2 };
    struct role_message answer, m = { .kind = ROLE_WANT_RECORD, .number = 9, .site = 2,
                                      .record = { 4, 2, 0 } };
    for (uint64_t term = 3; term < 8; term++) {
        m.record.term = term;
        struct role_record now = kept;
        assert_int_equal(role_witness(&now, &m, &answer), term == 5);
        assert_int_equal(answer.kind, term == 5 ? ROLE_GIVEN : ROLE_RECORD);
        assert_int_equal(answer.number, 9);
        assert_int_equal(answer.record.home, term == 5 ? 2 : 1);
        assert_int_equal(now.term, term == 5 ? 6 : 5);
        assert_false(role_witness(&now, &m, &answer));
    }
    m.record.term = 5;
    m.site = m.record.home = 3;         /* a stranger */
    assert_false(role_witness(&kept, &m, &answer));
    m.site = 2;                         /* not for itself */
    assert_false(role_witness(&kept, &m, &answer));
    m.record.home = 2;
    m.record.mate = 3;                  /* nobody else while there are two */
    assert_false(role_witness(&kept, &m, &answer));
    m.kind = ROLE_READ_RECORD;
    assert_false(role_witness(&kept, &m, &answer));
    assert_int_equal(answer.record.term, 5);
}

/* Aim: who is home by a person's word has the record, of a term that nobody had (NH9); a person
 * vouches for one that is home, and alone. */
static void the_witness_hears_of_a_person(void **state)
{
    (void)state;
    struct role_record kept = { 5, 1, 2 }, now = kept;
    struct role_message answer, m = { .kind = ROLE_VOUCHED, .number = 9, .site = 2,
                                      .record = { 6, 2, 0 } };
    assert_true(role_witness(&now, &m, &answer));
    assert_true(now.term == 7 && now.home == 2 && !now.mate && answer.kind == ROLE_GIVEN);
    m.record.term = 2;
    assert_true(role_witness(&now, &m, &answer) && now.term == 8);
    now = kept;
    m.record.mate = 1;
    assert_false(role_witness(&now, &m, &answer));
    m.record = (struct role_record){ 6, 1, 0 };         /* for somebody else */
    assert_false(role_witness(&now, &m, &answer));
    m.record = (struct role_record){ UINT64_MAX, 2, 0 };
    assert_false(role_witness(&now, &m, &answer));
    assert_true(now.term == 5 && answer.kind == ROLE_RECORD);
}

/* Aim: without its witness nobody goes on that has lost the other, but by a person's word. */
static void without_a_witness_all_stand_still(void **state)
{
    (void)state;
    machines_begin(3);
    time_passes(2000000);
    assert_true(pair_stands());
    witness_up = false;
    uint64_t before = acked_count;
    time_passes(1000000);               /* while both are there nobody misses it */
    assert_true(pair_stands() && acked_count > before);
    machines[0].up = false;
    role_end(&machines[0].role);
    link_breaks(0);
    before = acked_count;
    time_passes(3000000);
    assert_true(machines[1].role.is == ROLE_TAKING && acked_count == before);
    assert_int_equal(role_take_over(&machines[1].role, now_us), 0);
    time_passes(500000);
    assert_true(role_serves(&machines[1].role, now_us) && acked_count > before);
    assert_true(machines[1].role.vouched);
    witness_up = true;                  /* it hears who is home (NH9): the other one joins that */
    time_passes(500000);
    assert_true(!machines[1].role.vouched && record.home == 2 && !record.mate);
    machine_starts(0);
    role_link(&machines[1].role, true, now_us);
    time_passes(2000000);
    assert_true(pair_stands() && machines[1].role.is == ROLE_HOME && record.mate == 1);
    assert_true(role_serves(&machines[1].role, now_us));
    machines_end();
}

/* Aim: the same while the former home is there again before the witness is: it joins, without a
 * name, and what comes of the witness about an earlier record is no reason to go. */
static void a_record_that_is_older_than_a_persons_word_is_none(void **state)
{
    (void)state;
    machines_begin(6);
    time_passes(2000000);
    machines[0].up = false;
    role_end(&machines[0].role);
    link_breaks(0);
    witness_up = false;
    time_passes(1000000);
    struct role *r = &machines[1].role;
    assert_int_equal(role_take_over(r, now_us), 0);
    machine_starts(0);                  /* a person said that it would not */
    role_link(r, true, now_us);
    machines[0].role.is = ROLE_STARTING;
    struct role_message m = { .kind = ROLE_RECORD, .record = record };
    for (uint32_t i = 0; i < 3; i++) {
        time_passes(100000);
        m.number = r->ask_number;
        role_receive(r, ROLE_TO_WITNESS, &m, now_us);
        assert_true(r->is == ROLE_HOME && r->store && r->vouched);
    }
    machines[0].up = false;
    role_end(&machines[0].role);
    link_breaks(0);
    witness_up = true;
    time_passes(2000000);
    assert_true(record.home == 2 && role_serves(r, now_us));
    machines_end();
}

/* Aim: a person has the spare take over from a home that lives: the witness decides, nothing that
 * was acknowledged is lost (the rig looks), and the former home is the spare then. */
static void a_person_has_the_spare_take_over(void **state)
{
    (void)state;
    machines_begin(4);
    assert_int_equal(role_asks_over(&machines[1].role, now_us), -EAGAIN);   /* it is none yet */
    time_passes(2000000);
    assert_true(pair_stands() && machines[0].role.is == ROLE_HOME);
    assert_int_equal(role_asks_over(&machines[0].role, now_us), -EBUSY);
    assert_int_equal(role_asks_over(&machines[1].role, now_us), 0);
    assert_int_equal(role_asks_over(&machines[1].role, now_us), -EAGAIN);   /* it asks already */
    uint64_t before = acked_count;
    time_passes(2000000);
    assert_true(pair_stands() && machines[1].role.is == ROLE_HOME && acked_count > before);
    machines_end();
}

/* Aim: commits of an asynchronous home wait for nobody; its spare is not named, so it takes over by
 * no clock, and by a person's word. */
static void an_asynchronous_spare_waits_for_a_person(void **state)
{
    (void)state;
    machines_begin(5);
    machines[0].role.asynchronous = machines[1].role.asynchronous = true;
    time_passes(2000000);
    struct role *home = &machines[0].role;
    assert_true(home->is == ROLE_HOME && home->mate && !home->named && !record.mate);
    assert_int_equal(machines[1].role.is, ROLE_SPARE);
    links[0].silent = true;
    uint64_t before = acked_count;
    time_passes(100000);
    assert_true(acked_count > before && role_sure(home) > home->have);
    links[0].silent = false;
    links[0].generation++;
    time_passes(2000000);
    while (home->have < home->flushed || machines[1].role.is != ROLE_SPARE)
        time_passes(STEP_US);
    machines[0].up = false;
    role_end(home);
    link_breaks(0);
    time_passes(3000000);
    assert_int_equal(machines[1].role.is, ROLE_OUT);
    assert_int_equal(role_asks_over(&machines[1].role, now_us), -EAGAIN);
    assert_int_equal(role_take_over(&machines[1].role, now_us), 0);
    assert_true(role_serves(&machines[1].role, now_us));
    time_passes(500000);
    assert_true(record.home == 2 && record.term > 1);
    machines_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_that_never_answers_is_not_named),
        cmocka_unit_test(who_joins_is_told_of_the_newest_checkpoint),
        cmocka_unit_test(a_stamp_of_the_future_is_no_lease),
        cmocka_unit_test(a_group_in_the_air_is_sent_to_who_joins),
        cmocka_unit_test(a_long_log_is_read_in_steps),
        cmocka_unit_test(who_is_gone_while_its_log_is_looked_for_leaves_nothing),
        cmocka_unit_test(who_lacks_a_group_that_is_too_large_is_copied_anew),
        cmocka_unit_test(answers_to_earlier_requests_are_none),
        cmocka_unit_test(changed_frames_do_no_harm),
        cmocka_unit_test(the_witness_gives_a_term_once),
        cmocka_unit_test(without_a_witness_all_stand_still),
        cmocka_unit_test(the_witness_hears_of_a_person),
        cmocka_unit_test(a_record_that_is_older_than_a_persons_word_is_none),
        cmocka_unit_test(a_person_has_the_spare_take_over),
        cmocka_unit_test(an_asynchronous_spare_waits_for_a_person),
        cmocka_unit_test(answers_may_take_long),
        cmocka_unit_test(a_spare_takes_over_within_a_second),
        cmocka_unit_test(homes_and_spares_live_through_faults),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
