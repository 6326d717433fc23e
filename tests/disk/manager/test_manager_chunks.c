/*
 * test_manager_chunks.c - checkpoints of the store manager by chunks.
 *
 * Aim     one that is due goes by chunks, of the sizes that were set; commits beside it are logged
 *         as their chunks' redo points want; consistent chunks go home while nobody commits.
 * Method  lib/threads/rig.h: commits all the time until the checkpoint is done, and a recovery.
 */
#include "threads/rig.h"

static uint64_t checkpoints_now(void)
{
    server_lock();
    uint64_t count = server.store->counters.checkpoints;
    server_unlock();
    return count;
}

/* One that is due is by chunks: each has a redo point of its own, and commits beside it, which
 * touch chunks that had theirs and some that had not, are logged as they must be. */
static uint64_t due_checkpoint(void)
{
    uint64_t before = checkpoints_now();
    server_lock();
    server.checkpoints.due_us = 1;
    pthread_cond_signal(&server.work);
    server_unlock();
    for (uint64_t value = 10; checkpoints_now() == before; value++) {
        CHECK(commit(3, 5, value) == 0);
        CHECK(commit(30, 3, value) == 0);
    }
    server_lock();
    const struct superblock *super = &server.store->super;
    const struct checkpoint_info *c = &super->checkpoints[super->checkpoint_index];
    uint64_t pages_lsn = c->pages_lsn;
    server_unlock();
    return pages_lsn;
}
static void child_due(void)
{
    client_start();
    CHECK(container_chunk(CLIENT, 1, 8) == 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(commit(3, 48, 1 + i) == 0);
        home_calls = home_gated = 0;
        CHECK(due_checkpoint() && home_calls >= 7);
    }
    CHECK(home_gated < home_calls);
    CHECK(container_chunk(CLIENT, 1, 8 | WIRE_CHUNK_CONSISTENT) == 0);
    CHECK(commit(3, 48, 5) == 0);
    home_calls = home_gated = 0;
    CHECK(due_checkpoint() && home_calls >= 7 && home_gated == home_calls);
}
static void a_checkpoint_that_is_due_is_by_chunks(void **state)
{
    (void)state;
    run_child(child_due);
    recover_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_that_is_due_is_by_chunks),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
