/*
 * test_manager_index.c - groups of commits whose changes of indexes fail.
 *
 * Aim     who changes an index that cannot be changed hears why; who was in the same group hears
 *         EDEADLK at most, which says to begin again, and gets through then; nothing of those that
 *         were refused is in the log.
 * Method  lib/threads/rig.h; lib/manager/index.c stands for the index thread. One commit holds the
 *         committer up, so that those behind it come into one group.
 */
#include "threads/rig.h"

enum { COMMITTERS = 4, ROUNDS = 30 };
static struct { struct wire_op op; char key[8]; } changes[VIEWS];
static uint64_t index_id;

static void index_start(void)
{
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE, .name = "by name",
                            .type = "ps_index strings", .version = 1, .bytes = 8};
    struct wire_opened out;
    client_start();
    CHECK(container_open(CLIENT, &how, &out) == 0);
    index_id = out.container;
    CHECK(commit(0, 4, 1) == 0);
    shared->tried[INDEX_PAGE] = INDEX_WORD;
}

static void change_post(unsigned i, uint64_t value)
{
    changes[i].op = (struct wire_op){.kind = WIRE_INDEX_SET, .op_bytes = sizeof(changes[i]),
                                     .container = index_id, .address = 3, .value = value};
    memcpy(changes[i].key, "key", 4);
    next_batch = &changes[i];
    next_batch_bytes = sizeof(changes[i]);
    commit_post(i, i * 8, 4, value);
}

/* Those of these values, in one group. */
static void changes_post(const uint64_t value[COMMITTERS])
{
    server_lock();
    gate_enter(false);
    server_unlock();
    commit_post(COMMITTERS, COMMITTERS * 8, 4, 1);
    for (unsigned i = 0; i < COMMITTERS; i++) change_post(i, value[i]);
    server_lock();
    gate_leave();
    server_unlock();
    int r = commit_wait(COMMITTERS);
    CHECK(r == 0 || r == -EDEADLK);     /* it may be of that group, too */
}

static void child_one_fails(void)
{
    index_start();
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t value[COMMITTERS] = {round, round, round, round};
        value[round % COMMITTERS] = CHANGE_FAILS;
        changes_post(value);
        for (unsigned i = 0; i < COMMITTERS; i++)
            CHECK(commit_wait(i) == (value[i] == CHANGE_FAILS ? -EUCLEAN : 0));
    }
    stop_and_wait();
}
static void a_change_that_fails_is_refused_alone(void **state)
{
    (void)state;
    run_child(child_one_fails);
    assert_true(recover_and_compare());
}

/* Again and again, as ps_transaction does: 0 or the first other answer than EDEADLK. */
static int got_through(unsigned i, uint64_t value, unsigned *again)
{
    int r = commit_wait(i);
    for (; r == -EDEADLK; ++*again, r = commit_wait(i)) change_post(i, value);
    return r;
}

static void commits_fail(uint64_t bad, int answer)
{
    unsigned again = 0, most = 0;
    index_start();
    for (unsigned round = 0; round < ROUNDS; round++, again = 0) {
        uint64_t value[COMMITTERS] = {round, round, round, round};
        value[round % COMMITTERS] = bad;
        changes_post(value);
        for (unsigned i = 0; i < COMMITTERS; i++)
            CHECK(got_through(i, value[i], &again) == (value[i] == bad ? answer : 0));
        CHECK(again <= 2 * COMMITTERS);
        most = again > most ? again : most;
    }
    CHECK(most > 0);                    /* they were in one group */
    stop_and_wait();
}
static void child_commit_fails(void) { commits_fail(COMMIT_FAILS, -ENOMEM); }
static void a_commit_that_fails_is_told_to_the_one_it_is_of(void **state)
{
    (void)state;
    run_child(child_commit_fails);
    assert_true(recover_and_compare());
}

static void child_lost(void) { commits_fail(CHANGE_LOSES, -EUCLEAN); }
static void changes_that_are_lost_are_made_again(void **state)
{
    (void)state;
    run_child(child_lost);
    assert_true(recover_and_compare());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_that_fails_is_refused_alone),
        cmocka_unit_test(a_commit_that_fails_is_told_to_the_one_it_is_of),
        cmocka_unit_test(changes_that_are_lost_are_made_again),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
