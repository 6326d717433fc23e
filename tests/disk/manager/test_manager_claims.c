/*
 * test_manager_claims.c - pages that a transaction of several stores claims without writing them.
 *
 * Aim     from the vote to its outcome nobody else gets such a page, whatever happens to the client
 *         and the manager meanwhile; its commit has them, its undo gives them back.
 * Method  lib/threads/rig.h; each life of a manager is a child, whose end is a power cut.
 */
#include "user/store/votes.c"

#include "threads/voting.h"

enum { COUNT = 8, OTHER = CLIENT + 1 };

static struct { struct wire_op op; struct wire_vote vote; struct wire_op claim; } claiming;

static uint64_t lease(uint64_t process)
{
    uint64_t first = 0;
    server_lock();
    int r = space_lease(container_by_id(1), process, COUNT, 0, &first);
    server_unlock();
    CHECK(r == 0);
    return first;
}

static bool meets(uint64_t first, uint64_t other)
{
    return first < other + COUNT && other < first + COUNT;
}

/* The first page of an object that voted, which it has written. */
static uint64_t object_at(void) { return shared->acknowledged[PAGES - 1]; }

/* claim_vote votes for a new object of COUNT pages, of which it has written the first. */
static void claim_vote(unsigned number)
{
    uint64_t first = lease(CLIENT);
    server_lock();
    uint64_t address = container_address(container_by_id(1), first);
    server_unlock();
    claiming.op = (struct wire_op){.kind = WIRE_VOTE,
                                   .op_bytes = sizeof(claiming.op) + sizeof(claiming.vote)};
    claiming.vote = (struct wire_vote){.id = id_of(number), .coordinator = {7}};
    claiming.claim = (struct wire_op){.kind = WIRE_PAGE_CLAIM, .op_bytes = sizeof(struct wire_op),
                                      .container = 1, .address = address, .value = COUNT};
    shared->acknowledged[PAGES - 1] = shared->tried[PAGES - 1] = first;
    next_batch = &claiming;
    next_batch_bytes = sizeof(claiming);
    commit_post(1, first, 1, 5);
    for (bool voted = false; !voted; usleep(200)) {
        struct store_txn_id id = id_of(number);
        CHECK(!answered(1));
        server_lock();
        voted = vote_of(&id) && vote_of(&id)->prepared;
        server_unlock();
    }
}

/* The client ends while its vote is in the air; the next lease comes at once. */
static void client_ends(void)
{
    server_lock();
    space_process_gone(container_by_id(1), CLIENT, false);
    server_unlock();
    CHECK(!meets(lease(OTHER), object_at()));
}

static void child_votes(void)
{
    const struct kd_message voter = {.kind = STORE_TXN, .process = CLIENT,
                                     .word = {WIRE_TXN_VOTER}};
    client_start();
    CHECK(votes_request(&voter) && may_vote(CLIENT));
    flush_beside = client_ends;
    claim_vote(1);
    CHECK(!meets(lease(OTHER), object_at()));
}

static void child_waits(void)
{
    uint64_t first = object_at();
    client_start();
    CHECK(orphans == 1);
    for (int i = 0; i < 20; i++) CHECK(!meets(lease(OTHER), first));
    CHECK(commit(first + 4, 1, 99) == -EBUSY && commit(first + COUNT, 1, 99) == 0);
}

static int decide(bool commits)
{
    struct store_txn_id id = id_of(1);
    server_lock();
    int r = vote_decide(&id, commits, false);
    server_unlock();
    return r;
}

static bool is_claimed(uint64_t p)
{
    struct store_page at;
    server_lock();
    int r = store_page_find(server.store, 1, p, &at);
    server_unlock();
    return r == 0 && at.claimed && !at.present;
}

static void child_commits(void)
{
    uint64_t first = object_at();
    client_start();
    CHECK(!is_claimed(first + 1) && decide(true) == 0 && orphans == 0);
    shared->acknowledged[first] = 5;
    for (unsigned i = 1; i < COUNT; i++) CHECK(is_claimed(first + i));
    for (int i = 0; i < 20; i++) CHECK(!meets(lease(OTHER), first));
}

static void child_undoes(void)
{
    uint64_t first = object_at();
    bool again = false;
    client_start();
    CHECK(decide(false) == 0 && orphans == 0);
    shared->tried[first] = 0;
    for (int i = 0; i < 20; i++) again |= meets(lease(OTHER), first);
    CHECK(again && !is_claimed(first + 1));
}

static void lives(void (*end)(void))
{
    run_child(child_votes);
    run_next(child_waits);
    run_next(end);
    shared->acknowledged[PAGES - 1] = shared->tried[PAGES - 1] = 0;     /* no page's value */
    recover_and_compare();
}

static void what_a_vote_claims_is_there_when_it_commits(void **state)
{
    (void)state;
    lives(child_commits);
}

static void what_a_vote_claims_is_free_when_it_is_undone(void **state)
{
    (void)state;
    lives(child_undoes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_vote_claims_is_there_when_it_commits),
        cmocka_unit_test(what_a_vote_claims_is_free_when_it_is_undone),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
