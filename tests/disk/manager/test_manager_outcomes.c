/*
 * test_manager_outcomes.c - outcomes of votes that cannot be written.
 *
 * Aim     what keeps one outcome from being written keeps no other one, and takes little time.
 * Method  lib/threads/rig.h; there is no memory for what a large batch has kept with its vote.
 */
#include "user/store/parts.c"

#include "threads/voting.h"

enum { NAMES = 100, NAME_BYTES = 16, SCARCE = 8192 };   /* so many bytes at once are there */

static struct {
    struct wire_op op;
    struct wire_vote vote;
    struct { struct wire_op op; char name[NAME_BYTES]; } set[NAMES];
} large;

/* A vote with names, and the page `first`. */
static void large_vote(unsigned number, uint64_t first)
{
    struct store_txn_id id = id_of(number);
    server_lock();
    uint64_t address = container_address(container_by_id(1), first);
    server_unlock();
    large.op = (struct wire_op){.kind = WIRE_VOTE,
                                .op_bytes = sizeof(large.op) + sizeof(large.vote)};
    large.vote = (struct wire_vote){.id = id, .coordinator = {7}};
    for (int i = 0; i < NAMES; i++) {
        large.set[i].op = (struct wire_op){.kind = WIRE_NAME_SET, .op_bytes = sizeof(large.set[i]),
                                           .container = 1, .address = address, .value = 8};
        snprintf(large.set[i].name, NAME_BYTES, "%u-%d", number, i);
    }
    next_batch = &large;
    next_batch_bytes = sizeof(large);
    commit_post(number, first, 1, number);
    for (bool voted = false; !voted; usleep(200)) {
        CHECK(!answered(number));
        server_lock();
        voted = vote_of(&id) && vote_of(&id)->prepared;
        server_unlock();
    }
}

static struct vote *vote_told_to_commit(unsigned number)
{
    struct store_txn_id id = id_of(number);
    vote_of(&id)->told = KD_PART_COMMIT;
    return vote_of(&id);
}

static void child_refused(void)
{
    const struct kd_message voter = {.kind = STORE_TXN, .process = CLIENT,
                                     .word = {WIRE_TXN_VOTER}};
    struct vote *v[3];
    uint64_t until = 0;
    client_start();
    CHECK(votes_request(&voter) && may_vote(CLIENT));
    large_vote(1, 10);
    large_vote(2, 20);
    CHECK(vote(3, 3, 30, 1, 3) == 0);
    malloc_max = SCARCE;
    server_lock();
    for (unsigned i = 0; i < 3; i++) v[i] = vote_told_to_commit(i + 1);
    for (unsigned i = 0; i < 6; i++) CHECK(outcome_due(1, &until) == v[i % 3]);
    server_unlock();
    CHECK(thread_make(outcomes_main));
    CHECK(commit_wait(3) == 0);
    malloc_refused = 0;
    usleep(1000000);
    unsigned refused = malloc_refused;
    CHECK(!answered(1) && !answered(2) && refused < 40);
    malloc_max = SIZE_MAX;
    CHECK(commit_wait(1) == 0 && commit_wait(2) == 0);
}
static void an_outcome_that_cannot_be_written_stops_no_other(void **state)
{
    (void)state;
    run_child(child_refused);
    recover_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outcome_that_cannot_be_written_stops_no_other),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
