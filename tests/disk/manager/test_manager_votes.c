/*
 * test_manager_votes.c - the store manager's part in transactions of several stores.
 *
 * Aim     a vote is durable before it is told, and its COMMIT answered when it is decided, in this
 *         life of the manager or in none; what is in doubt is given to nobody.
 * Method  lib/threads/rig.h; each life of a manager is a child, whose end is a power cut.
 */
#include "user/store/audit.c"
#include "user/store/votes.c"
#include "user/store/votes_serve.c"

#include "threads/voting.h"

enum { ONE = 1, TWO = 2 };

static uint64_t said, word1;            /* word0 of the last answer; of the next questions */
static struct wire_doubt doubt;         /* that WIRE_TXN_NEXT told last */

static int txn(enum wire_txn what, unsigned number, uint64_t token)
{
    struct store_txn_id id = id_of(number);
    bool none = what == WIRE_TXN_VOTER || what == WIRE_TXN_NEXT;
    struct kd_message m = {.kind = STORE_TXN, .process = CLIENT, .token = token,
                           .word = {what, word1}, .buffer = &id,
                           .data_bytes = none ? 0 : sizeof(id)};
    struct kd_message reply = {.handle = -1};
    server_lock();
    int r = txn_serve(&m, &reply, &doubt);
    server_unlock();
    said = reply.word[0];
    return r;
}

static void voter_start(void)
{
    client_start();
    CHECK(vote(0, 99, 0, 1, 5) == -EPERM); /* not yet */
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
}

/* ---- one life ---- */

static void child_votes(void)
{
    voter_start();
    for (uint64_t i = 1; i <= 40; i++) {
        CHECK(vote(ONE, (unsigned)i, 10, 1 + i % 6, i) == 0);
        CHECK(!answered(ONE));
        CHECK(commit(100 + i, 3, i) == 0);      /* others go on */
        if (i % 3) {
            CHECK(txn(WIRE_TXN_COMMIT, (unsigned)i, 2) == 0);
            CHECK(commit_wait(ONE) == 0 && page[10].word[WORD_A] == i);
            CHECK(page[10].csn > 1);
        } else {
            CHECK(txn(WIRE_TXN_UNDO, (unsigned)i, 2) == 0);
            CHECK(commit_wait(ONE) == -ECANCELED);
        }
        CHECK(txn(WIRE_TXN_COMMIT, (unsigned)i, 2) == -ENOENT);
        if (i % 10 == 0) {
            server_lock();
            CHECK(checkpoint_wait() == 0);
            server_unlock();
        }
    }
}
static void votes_are_kept_until_they_are_decided(void **state)
{
    (void)state;
    run_child(child_votes);
    recover_and_compare();
}

/* Aim: while a snapshot waits no vote is given, also if the one before has just been in doubt for
 * so long that no snapshot waits for it, and nobody has told the kernel. */
static void child_snapshots_first(void)
{
    struct store_txn_id id = id_of(1);
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0 && vote(ONE, 1, 10, 1, 1) == 0);
    server_lock();
    vote_of(&id)->begun_us -= 1000000;
    server_unlock();
    snapshot_waits = 1;
    CHECK(vote(TWO, 2, 20, 1, 2) == -EDEADLK);
    snapshot_waits = 0;
    CHECK(vote(TWO, 2, 20, 1, 2) == 0);
    for (unsigned i = 1; i <= 2; i++) CHECK(txn(WIRE_TXN_COMMIT, i, 2) == 0);
    CHECK(commit_wait(ONE) == 0 && commit_wait(TWO) == 0);
}
static void a_snapshot_that_waits_goes_before_a_vote(void **state)
{
    (void)state;
    run_child(child_snapshots_first);
    recover_and_compare();
}

/* Aim: what a vote and its decision write, beside a plain commit. */
static void child_costs(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0 && commit(10, 1, 1) == 0);
    logged();
    CHECK(commit(10, 1, 2) == 0);
    uint64_t plain = logged();
    CHECK(vote(ONE, 1, 10, 1, 3) == 0);
    uint64_t voted = logged();
    CHECK(txn(WIRE_TXN_COMMIT, 1, 1) == 0 && commit_wait(ONE) == 0);
    uint64_t decided = logged();
    dprintf(1, "# one page, log bytes: commit %llu, vote %llu, decision %llu\n",
            (unsigned long long)plain, (unsigned long long)voted, (unsigned long long)decided);
    CHECK(plain == 4096 && voted == 3 * 4096 && decided == 4096);
}
static void a_vote_writes_whole_pages(void **state)
{
    (void)state;
    run_child(child_costs);
    recover_and_compare();
}

/* A vote that stands while the log goes round several times is written again. */
static void child_long(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    CHECK(vote(ONE, 1, 10, 4, 77) == 0);
    store_lsn_t first = store_log_applied(server.store);
    for (uint64_t i = 1; store_log_applied(server.store) - first <= 3 * server.log_bytes; i++)
        CHECK(i < 1000 && commit(200 + i % 7 * 40, 30, i) == 0);
    CHECK(!answered(ONE));
    CHECK(txn(WIRE_TXN_COMMIT, 1, 2) == 0);
    CHECK(commit_wait(ONE) == 0);
}
static void a_vote_outlives_the_log_that_it_was_written_in(void **state)
{
    (void)state;
    run_child(child_long);
    recover_and_compare();
}

static unsigned before_vote;            /* groups: the vote is due when there is hardly any log */

/* Somebody holds the log for good: commits are told that it is full, and wait for no vote that is
 * to be written again; when he has gone all goes on. */
static void child_held(void)
{
    struct store_hold hold = { .lsn = 0 };
    int r = 0;
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    CHECK(commit(200, 30, 1) == 0);
    server_lock();
    CHECK(store_hold_begin(server.store, &hold, "a test", true) == 0);
    server_unlock();
    for (unsigned i = 0; i < before_vote; i++) CHECK(commit(200, 4, i) == 0);
    CHECK(vote(ONE, 1, 10, 20, 77) == 0);
    for (uint64_t i = 1; i <= 1000 && r == 0; i++) r = commit(200 + i % 7 * 40, 3, i);
    CHECK(r == -ENOSPC);
    server_lock();
    store_hold_end(server.store, &hold);
    server_unlock();
    for (uint64_t i = 1; i <= 40; i++) CHECK(commit(200 + i % 7 * 40, 30, i) == 0);
    CHECK(txn(WIRE_TXN_COMMIT, 1, 2) == 0);
    CHECK(commit_wait(ONE) == 0);
}
static void a_full_log_is_told_whatever_is_to_be_written_again(void **state)
{
    (void)state;
    for (before_vote = 132; before_vote < 140; before_vote++) run_child(child_held);
    recover_and_compare();
}

/* What is asked for and not known is undone, and stays so (VO3); what is refused leaves nothing. */
static void child_asks(void)
{
    voter_start();
    CHECK(txn(WIRE_TXN_ASK, 1, 1) == 0 && said == WIRE_UNDONE);
    CHECK(vote(ONE, 1, 10, 2, 5) == -ECANCELED);
    CHECK(txn(WIRE_TXN_UNDO, 2, 1) == 0);
    CHECK(vote(ONE, 2, 10, 2, 5) == -ECANCELED);
    CHECK(vote(ONE, 3, 10, 2, 5) == 0);
    CHECK(txn(WIRE_TXN_NEXT, 0, 1) == 0 && doubt.prepared); /* of this life's, too */
    vote_post(TWO, 3, 20, 2, 5);                /* the same id */
    CHECK(commit_wait(TWO) == -EEXIST);
    CHECK(txn(WIRE_TXN_ASK, 3, 1) == 0 && said == WIRE_IN_DOUBT);
    CHECK(txn(WIRE_TXN_VOTED, 3, 1) == 0 && txn(WIRE_TXN_VOTED, 4, 1) == 1);
    CHECK(txn(WIRE_TXN_COMMIT, 3, 1) == 0 && commit_wait(ONE) == 0);
    CHECK(vote(ONE, 5, 500, 1400, 9) == -E2BIG);
    CHECK(txn(WIRE_TXN_NEXT, 0, 1) == -ENOENT);
    word1 = 1;                                  /* whose COMMIT does not come */
    CHECK(txn(WIRE_TXN_VOTED, 4, 1) == 0);
    word1 = 0;
    CHECK(txn(WIRE_TXN_VOTED, 4, 1) == -ECANCELED);
    for (unsigned i = 0; i < 100; i++)          /* of processes that end, and never vote */
        CHECK(txn(WIRE_TXN_VOTED, 200 + i, 1) == 1);
    unsigned told = 0, none = 0;                /* however many are asked for */
    while (told < 5000 && txn(WIRE_TXN_ASK, 1000 + told, 1) == 0 && said == WIRE_UNDONE) told++;
    CHECK(told == 5000);
    CHECK(vote(ONE, 1000, 10, 2, 5) == -ECANCELED && vote(ONE, 5999, 10, 2, 5) == -ECANCELED);
    for (unsigned i = 0; i < 5000; i++) {
        struct store_txn_id asked = id_of(1000 + i), other = id_of(10000 + i);
        CHECK(is_undone(&asked));
        none += !is_undone(&other);
    }
    CHECK(none > 4900);                         /* most of those that nobody asked for can commit */
    undone.began_us -= UNDONE_US;
    CHECK(txn(WIRE_TXN_ASK, 7000, 1) == 0 && vote(ONE, 7000, 10, 2, 5) == -ECANCELED);
    CHECK(vote(ONE, 1000, 10, 2, 5) == -ECANCELED);
    undone.began_us -= UNDONE_US;               /* and in the end they are forgotten */
    CHECK(txn(WIRE_TXN_ASK, 7001, 1) == 0 && vote(ONE, 7000, 10, 2, 5) == -ECANCELED);
    none = 0;
    for (unsigned i = 0; i < 5000; i++) {
        struct store_txn_id asked = id_of(1000 + i);
        none += !is_undone(&asked);
    }
    CHECK(none > 4900);
}
/* A vote that is not the first word of its COMMIT is no plain commit, either. */
static void child_second_word(void)
{
    static struct { struct wire_op room, op; struct wire_vote vote; } batch;
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    server_lock();
    uint64_t address = container_address(container_by_id(1), 3);
    server_unlock();
    batch.room = (struct wire_op){.kind = WIRE_ROOM, .op_bytes = sizeof(batch.room),
                                  .container = 1, .address = address};
    batch.op = (struct wire_op){.kind = WIRE_VOTE,
                                .op_bytes = sizeof(batch.op) + sizeof(batch.vote)};
    batch.vote.id = id_of(1);
    for (int i = 0; i < 2; i++) {
        next_batch = &batch;
        next_batch_bytes = sizeof(batch);
        CHECK(commit(10, 1, 5) == -EINVAL);
        batch.room = (struct wire_op){.kind = WIRE_DECISION, .op_bytes = 40}; /* too short for 1 */
    }
    CHECK(page[10].word[WORD_A] == 0 && txn(WIRE_TXN_NEXT, 0, 1) == -ENOENT);
}
static void a_vote_comes_first_or_is_refused(void **state)
{
    (void)state;
    run_child(child_second_word);
    recover_and_compare();
}

static void what_is_not_known_is_undone_for_good(void **state)
{
    (void)state;
    run_child(child_asks);
    recover_and_compare();
}

/* ---- a decision of this store ---- */

static struct { struct wire_op op; struct wire_decision id; struct wire_participant to[2]; }
    decision_batch;

static int decision(unsigned number, uint64_t first, uint64_t value)
{
    decision_batch.op = (struct wire_op){.kind = WIRE_DECISION,
                                         .op_bytes = sizeof(decision_batch)};
    decision_batch.id.id = id_of(number);
    decision_batch.to[0] = (struct wire_participant){{4}, 40};
    decision_batch.to[1] = (struct wire_participant){{5}, 50};
    next_batch = &decision_batch;
    next_batch_bytes = sizeof(decision_batch);
    return commit(first, 2, value);
}

static void child_decides(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    CHECK(txn(WIRE_TXN_ASK, 1, 1) == 0 && said == WIRE_UNDONE);
    CHECK(decision(1, 10, 5) == -EALREADY);
    CHECK(decision(2, 10, 6) == 0 && decision(3, 20, 7) == 0);
    CHECK(txn(WIRE_TXN_ASK, 2, 1) == 0 && said == WIRE_COMMITTED);
    CHECK(decision(2, 10, 8) == -EALREADY);
    CHECK(txn(WIRE_TXN_FORGET, 2, 1) == 0 && txn(WIRE_TXN_FORGET, 2, 1) == -ENOENT);
    CHECK(txn(WIRE_TXN_UNDO, 3, 1) == 0); /* it is no vote: only a COMMIT to come is refused */
    CHECK(txn(WIRE_TXN_ASK, 3, 1) == 0 && said == WIRE_COMMITTED);
}
/* Whoever asks while the group of the decision is in the air hears it when that has landed. */
static atomic_int heard;
static void *asker(void *unused)
{
    heard = 1;
    CHECK(txn(WIRE_TXN_ASK, 1, 1) == 0);
    heard = said == WIRE_COMMITTED ? 2 : -1;
    return unused;
}
static void ask_beside(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, asker, NULL) == 0);
    while (!heard) usleep(100);
    usleep(50000);
    CHECK(heard == 1);
}
static void child_asked_at_flush(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    flush_beside = ask_beside;
    CHECK(decision(1, 10, 5) == 0);
    while (heard == 1) usleep(100);
    CHECK(heard == 2);
}
static void who_asks_waits_for_what_is_in_the_air(void **state)
{
    (void)state;
    run_child(child_asked_at_flush);
    recover_and_compare();
}

/* Of a lazy transaction, too, the vote is durable when it is told, and so is the decision. */
static void child_lazy(void)
{
    voter_start();
    for (unsigned i = 1; i < 4; i++) {
        uint64_t flushes = server.log_flushes;
        next_lazy = STORE_LAZY;
        CHECK(vote(ONE, i, 10, 2, i) == 0 && server.log_flushes > flushes);
        CHECK(txn(WIRE_TXN_COMMIT, i, 1) == 0 && commit_wait(ONE) == 0);
        flushes = server.log_flushes;
        next_lazy = STORE_LAZY;
        CHECK(decision(100 + i, 20, i) == 0 && server.log_flushes > flushes);
    }
}
static void votes_and_decisions_are_never_lazy(void **state)
{
    (void)state;
    run_child(child_lazy);
    recover_and_compare();
}

/* Aim: whatever sites ask for, others find places; what a site has had for long is refused, what it
 * has since lately runs again (VO11). */
static void site_is(const char *name)
{
    strcpy(voters[voter_of(CLIENT)].site, name);
}

static unsigned votes_of(const char *site, unsigned from, unsigned most, int *r)
{
    unsigned n = 0;
    site_is(site);
    while (n < most && (*r = vote(from + n, 100 + from + n, from + n, 1, 1)) == 0) n++;
    return n;
}

static void child_votes_of_sites(void)
{
    int r = 0;
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0 && voter_of(CLIENT) == VOTERS_MAX - 1);
    CHECK(votes_of("a", 0, 40, &r) == 16 && r == -EDEADLK);
    for (unsigned i = 0; i < 16; i++) votes[i].begun_us -= FULL_US;
    CHECK(votes_of("a", 16, 40, &r) == 0 && r == -EDQUOT);
    CHECK(votes_of("b", 16, 40, &r) == 8 && r == -EDQUOT);
    CHECK(votes_of("", 24, 40, &r) == 8 && r == -EAGAIN);
    CHECK(txn(WIRE_TXN_UNDO, 100, 1) == 0 && commit_wait(0) == -ECANCELED);
    CHECK(votes_of("b", 32, 1, &r) == 1);       /* a place that is free is there for others */
    for (unsigned i = 1; i < 33; i++) CHECK(txn(WIRE_TXN_UNDO, 100 + i, 1) == 0);
    CHECK(vote(40, 140, 100, 70, 1) == -EDQUOT); /* more than half of the room */
    site_is("");
    CHECK(vote(41, 141, 100, 70, 1) == 0 && txn(WIRE_TXN_UNDO, 141, 1) == 0);
}

static unsigned decisions_of(const char *site, unsigned from, int *r)
{
    unsigned n = 0;
    site_is(site);
    while ((*r = decision(from + n, 10, 5)) == 0) n++;
    return n;
}

static void child_decisions_of_sites(void)
{
    int r;
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    CHECK(decisions_of("a", 0, &r) == 32 && r == -EALREADY);
    for (unsigned i = 0; i < 32; i++) made[i].at_us -= FULL_US;
    CHECK(decisions_of("a", 32, &r) == 0 && r == -EDQUOT);
    CHECK(decisions_of("b", 32, &r) == 16 && r == -EDQUOT);
    CHECK(txn(WIRE_TXN_FORGET, 7, 1) == 0 && txn(WIRE_TXN_FORGET, 8, 1) == 0);
    CHECK(decisions_of("a", 48, &r) == 2 && r == -EDQUOT);
    CHECK(decisions_of("", 50, &r) == 16 && (r == -EALREADY || r == -ENOSPC));
}

/* Those that an earlier life has left are of sites, perhaps. */
static void child_after_sites(void)
{
    int r;
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    for (unsigned i = 0; i < STORE_DECISIONS_MAX; i++) made[i].at_us -= FULL_US;
    CHECK(decisions_of("a", 100, &r) == 0 && r == -EDQUOT);
}

static void sites_have_shares(void **state)
{
    (void)state;
    run_child(child_votes_of_sites);
    recover_and_compare();
    run_child(child_decisions_of_sites);
    run_next(child_after_sites);
    recover_and_compare();
}

static void child_is_asked(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_ASK, 3, 1) == 0 && said == WIRE_COMMITTED);
    CHECK(txn(WIRE_TXN_ASK, 2, 1) == 0 && said == WIRE_UNDONE);
    CHECK(txn(WIRE_TXN_NEXT, 0, 1) == 0);
    CHECK(txn(WIRE_TXN_FORGET, 3, 1) == 0);
}

static void decisions_are_kept_over_lives(void **state)
{
    (void)state;
    run_child(child_decides);
    run_next(child_is_asked);
    recover_and_compare();
}

/* ---- a page in memory is hit ---- */

static bool is_home(uint64_t p)
{
    struct store_page at;
    return store_page_find(server.store, 1, p, &at) == 0 && at.present && !at.dirty;
}

/* Aim: checkpoints and commits go on while a page that is not what was committed cannot be mended,
 * as a vote that has changed it is in doubt, or as there is no memory; then it is (AU3). */
static void child_hit_in_doubt(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0 && commit(10, 2, 3) == 0);
    CHECK(vote(ONE, 1, 10, 1, 11) == 0);
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&kernel);
        page_damage(10 + (uint64_t)i);          /* the second one is nobody's */
        mend_error = i ? -ENOMEM : 0;
        pthread_mutex_unlock(&kernel);
        server_lock();
        mend_wait(1, 10 + (uint64_t)i);         /* the auditor has found it */
        CHECK(!server.fenced && page_hit == 10 + (uint64_t)i && audit.mended == (unsigned)i);
        CHECK(is_home(10 + (uint64_t)i) && server.durable_csn >= page[10 + i].csn);  /* MG5 */
        CHECK(checkpoint_wait() == 0 && is_home(10) && is_home(11));
        server_unlock();
        CHECK(commit(100, 3, 5 + (uint64_t)i) == 0);
        if (i == 0) CHECK(txn(WIRE_TXN_UNDO, 1, 2) == 0 && commit_wait(ONE) == -ECANCELED);
        mend_error = 0;
        server_lock();
        mend_wait(1, 10 + (uint64_t)i);
        CHECK(!server.fenced && page_hit == ~0ull && audit.mended == (unsigned)i + 1);
        CHECK(audit.found == audit.mended && page[10 + i].word[0] == 0);
        server_unlock();
        next_lazy = i ? 0 : STORE_LAZY;
        if (i == 0) CHECK(commit(10, 2, 4) == 0);
    }
}

/* The checkpoint is the first that finds it. */
static void child_hit_at_checkpoint(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0 && commit(10, 2, 3) == 0);
    CHECK(vote(ONE, 1, 10, 1, 11) == 0);
    pthread_mutex_lock(&kernel);
    page_damage(10);
    pthread_mutex_unlock(&kernel);
    server_lock();
    CHECK(checkpoint_wait() == 0 && is_home(10) && page_hit == 10);
    server_unlock();
}
static void a_page_that_is_hit_waits_for_a_vote(void **state)
{
    (void)state;
    run_child(child_hit_in_doubt);
    recover_and_compare();
    run_child(child_hit_at_checkpoint);
    recover_and_compare();
}

/* ---- the next life ---- */

static bool page_waits(uint64_t p)
{
    struct kd_message m = {.kind = (uint32_t)KD_MSG_PAGE,
                           .word = {cookie_of(1, 0), p, 1, KD_READ, 0, OBJECT}};
    unsigned before = blocked_count;
    pager_request(&m);
    return blocked_count > before;
}

static void child_leaves_votes(void)
{
    voter_start();
    CHECK(commit(10, 4, 3) == 0);
    CHECK(vote(ONE, 1, 10, 3, 11) == 0);
    CHECK(vote(TWO, 2, 20, 3, 22) == 0);
}
static void child_finds_votes(void)
{
    client_start();
    CHECK(orphans == 2 && txn(WIRE_TXN_ASK, 1, 1) == 0 && said == WIRE_IN_DOUBT);
    CHECK(page_waits(10) && page_waits(12) && page_waits(21));                  /* VO2 */
    CHECK(!page_waits(13) && blocked_count == 3);
    CHECK(commit(11, 1, 99) == -EBUSY);
    CHECK(txn(WIRE_TXN_COMMIT, 1, 1) == 0);
    for (unsigned i = 0; i < 3; i++) shared->acknowledged[10 + i] = 11;
    CHECK(orphans == 1 && blocked_count == 1);
    CHECK(!page_waits(10));
    CHECK(txn(WIRE_TXN_UNDO, 2, 1) == 0);
    for (unsigned i = 0; i < 3; i++) shared->tried[20 + i] = 0;
    CHECK(orphans == 0 && blocked_count == 0);
    CHECK(commit(20, 2, 44) == 0);
}
static void an_earlier_lifes_votes_hold_their_pages(void **state)
{
    (void)state;
    run_child(child_leaves_votes);
    run_next(child_finds_votes);
    recover_and_compare();
}

/* Pages that were prepared, and read since they are committed, go home, though nobody commits. */
static void child_cleans_votes(void)
{
    struct store_page at;
    client_start();
    CHECK(txn(WIRE_TXN_COMMIT, 1, 1) == 0);
    server_lock();
    for (unsigned i = 10; i < 13; shared->acknowledged[i++] = 11) {
        CHECK(store_page_find(server.store, 1, i, &at) == 0 &&
              log_page_read(at.log_offset_bytes, at.log_crc, page[i].word) == 0);
        page[i].csn = at.lsn;
    }
    CHECK(checkpoint_wait() == 0);
    server_unlock();
}
static void what_an_earlier_life_has_prepared_goes_home(void **state)
{
    (void)state;
    run_child(child_leaves_votes);
    run_next(child_cleans_votes);
    recover_and_compare();
}

/* The power is cut when the vote's flush fails: it was not told, and may stand or not. */
static void child_flush_fails(void)
{
    client_start();
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
    CHECK(commit(10, 3, 3) == 0);
    flushes_left = 0;
    CHECK(vote(ONE, 1, 10, 3, 11) == -EIO);
    CHECK(txn(WIRE_TXN_COMMIT, 1, 1) < 0);
    CHECK(vote(TWO, 2, 20, 3, 22) == -EIO);
}
static void a_vote_that_is_not_durable_is_refused(void **state)
{
    (void)state;
    run_child(child_flush_fails);
    recover_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_are_kept_until_they_are_decided),
        cmocka_unit_test(a_snapshot_that_waits_goes_before_a_vote),
        cmocka_unit_test(a_vote_writes_whole_pages),
        cmocka_unit_test(a_vote_outlives_the_log_that_it_was_written_in),
        cmocka_unit_test(a_full_log_is_told_whatever_is_to_be_written_again),
        cmocka_unit_test(what_is_not_known_is_undone_for_good),
        cmocka_unit_test(a_vote_comes_first_or_is_refused),
        cmocka_unit_test(decisions_are_kept_over_lives),
        cmocka_unit_test(sites_have_shares),
        cmocka_unit_test(who_asks_waits_for_what_is_in_the_air),
        cmocka_unit_test(votes_and_decisions_are_never_lazy),
        cmocka_unit_test(a_page_that_is_hit_waits_for_a_vote),
        cmocka_unit_test(an_earlier_lifes_votes_hold_their_pages),
        cmocka_unit_test(what_an_earlier_life_has_prepared_goes_home),
        cmocka_unit_test(a_vote_that_is_not_durable_is_refused),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
