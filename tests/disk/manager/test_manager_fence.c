/*
 * test_manager_fence.c - the store manager after a write, a flush or a home write failed; its end.
 *
 * Aim     what a guest cannot show: nothing is acknowledged after the failure, readers go on, what
 *         was durable is published; the store is closed only if all pages are at home.
 * Method  lib/threads/rig.h.
 */
#include "threads/voting.h"

/* After the failure that is armed, nothing is acknowledged and nothing written any more. */
static void expect_fence(void)
{
    struct wire_open how = {.flags = PS_CREATE, .name = "more"};
    struct wire_opened out;
    uint64_t i = 100;
    while (i < 3000 && commit(i % 64, 2, i) == 0) i++;
    CHECK(i > 100 && i < 3000 && view[0].answer == -EIO);
    for (uint64_t k = 1; k < 20; k++) CHECK(commit(k, 1, i + k) == -EIO);
    CHECK(container_open(CLIENT, &how, &out) == -EIO);
    server_lock();
    CHECK(checkpoint_wait() == -EIO);
    server_unlock();
    CHECK(strstr(log_line, "No more commits"));
    CHECK(failed && log_writes_after_failure == 0);
    CHECK(credits > 1000000); /* nobody waits for one any more */
    CHECK(!eio_early);
}
static void child_write_fails(void) { client_start(); writes_left = 7; expect_fence(); }
static void child_flush_fails(void) { client_start(); flushes_left = 7; expect_fence(); }
static void child_home_fails(void)
{
    client_start();
    homes_left = 5;
    for (uint64_t i = 1; i <= 3000 && !failed; i++) commit(i % 64, 60, i);
    while (!server.fenced) usleep(1000);
    CHECK(commit(0, 1, 5000) == -EIO);
}

static void after_a_failed_write_the_store_is_fenced(void **state)
{
    (void)state;
    run_child(child_write_fails);
    recover_and_compare();
}
static void after_a_failed_flush_the_store_is_fenced(void **state)
{
    (void)state;
    run_child(child_flush_fails);
    recover_and_compare();
}
static void after_a_failed_home_write_the_store_is_fenced(void **state)
{
    (void)state;
    run_child(child_home_fails);
    recover_and_compare();
}

/* ---- a fenced store and what only serves writing ---- */

static int ask(uint32_t kind, uint64_t word0, uint64_t word1, void *data, uint64_t bytes)
{
    const struct kd_message m = {.kind = kind, .process = CLIENT, .word = {word0, word1},
                                 .buffer = data, .data_bytes = bytes};
    return manager_request(&m);
}

/* As a page that could not be brought home does it, while a group is in the air. */
static void fence_now(void)
{
    homes_left = 0;
    server_lock();
    server.clean_wanted = 1;
    pthread_cond_signal(&server.work);
    while (!server.fenced) pthread_cond_wait(&server.changed, &server.lock);
    server_unlock();
}

/* All that changes the store, or is of use only to who will, is refused; readers are served. */
static void expect_readers_only(void)
{
    static char names[2 * STORE_NAME_BYTES] = "box", absent[STORE_NAME_BYTES] = "none";
    strcpy(names + STORE_NAME_BYTES, "box");
    struct wire_open old = {.flags = PS_CREATE | PS_WRITE, .name = "box"}, made = old;
    made.flags |= PS_EXCLUSIVE;
    CHECK(ask(STORE_LEASE, 1, 1, NULL, 0) == -EIO && ask(STORE_SPACE, 1, 64, NULL, 0) == -EIO);
    CHECK(ask(STORE_DELETE, 0, 0, absent, sizeof(absent)) == -EIO);
    CHECK(ask(STORE_RENAME, 0, 0, names, sizeof(names)) == -EIO);
    CHECK(ask(STORE_FORM, 77, 0, NULL, 0) == -EIO &&
          ask(STORE_CHECKPOINT, 0, 0, NULL, 0) == -EIO);
    CHECK(ask(STORE_OPEN, 0, 0, &made, sizeof(made)) == -EIO);
    CHECK(ask(STORE_OPEN, 0, 0, &old, sizeof(old)) == 0 && ask(STORE_LIST, 0, 0, NULL, 0) == 0);
}

/* A container grows, and while its group is flushed the store is fenced: the segment is durable,
 * but who leased there has heard EIO. He opens the container again, which then has the segment, and
 * asks again. The first request was half-way, the second comes late: neither is to hear of
 * success. */
static void child_fenced_half_way(void)
{
    struct wire_open how = {.flags = PS_WRITE, .name = "box"};
    client_start();
    CHECK(commit(0, 4, 1) == 0);
    uint64_t pages = container_by_id(1)->segment[0].pages;
    flush_beside = fence_now;
    CHECK(ask(STORE_LEASE, 1, pages, NULL, 0) == -EIO && server.fenced);
    CHECK(ask(STORE_OPEN, 0, 0, &how, sizeof(how)) == 0 && container_by_id(1)->segment_count == 2);
    CHECK(ask(STORE_LEASE, 1, pages, NULL, 0) == -EIO);
    expect_readers_only();
}
static void who_heard_eio_hears_of_no_success_from_a_fenced_store(void **state)
{
    (void)state;
    run_child(child_fenced_half_way);
    recover_and_compare();
}

/* A page cannot go home while a group is flushed: that one is durable, so its view hears of it, and
 * the kernel has what the library's metadata have. One that was not launched yet is refused. */
static void child_fenced_beside_a_flush(void)
{
    struct group *g;
    client_start();
    CHECK(commit(0, 4, 1) == 0);
    flush_beside = fence_now;
    CHECK(commit(2, 1, 2) == 0 && server.fenced && page[2].word[8] == 2);
    CHECK(commit(2, 1, 3) == -EIO && page[2].word[8] == 2);
    server_lock();
    server.fenced = 0;
    gate_enter(false);
    CHECK(group_begin(&g) == 0);
    server.fenced = -EIO;
    uint64_t writes = server.log_writes;
    CHECK(group_launch(g) == -EIO && server.log_writes == writes);
    server_unlock();
}
static void what_is_durable_beside_the_fence_is_published(void **state)
{
    (void)state;
    run_child(child_fenced_beside_a_flush);
    recover_and_compare();
}

/* The disk library knows of a failed write as soon as that has returned, and refuses commits;
 * nobody is served who may have heard of that. */
static void child_failed_write_in_the_air(void)
{
    struct group *g;
    client_start();
    CHECK(commit(0, 4, 1) == 0);
    server_lock();
    gate_enter(false);
    CHECK(group_begin(&g) == 0);
    writes_left = 0;
    CHECK(group_launch(g) == 0 && failed);
    gate_leave();
    server_unlock();
    expect_readers_only();
    server_lock();
    CHECK(group_land(g) == -EIO && server.fenced);
    server_unlock();
    expect_readers_only();
}
static void a_failed_write_in_the_air_has_fenced_the_store(void **state)
{
    (void)state;
    run_child(child_failed_write_in_the_air);
    recover_and_compare();
}

/* Vote and decision are durable, and the group with the outcome fails: what the other stores show
 * of the transaction is shown here, too, and never what was before (VO8). */
static void child_outcome_fails(void)
{
    const struct kd_message voter = {.kind = STORE_TXN, .process = CLIENT,
                                     .word = {WIRE_TXN_VOTER}};
    client_start();
    CHECK(votes_request(&voter));
    for (unsigned i = 1; i <= 2; i++) CHECK(vote(i, i, 10 * i, 3, 70 + i) == 0);
    for (unsigned i = 1; i <= 2; i++) {
        struct store_txn_id id = id_of(i);
        writes_left = 0;
        server_lock();
        CHECK(vote_decide(&id, true, false) == -EIO && server.fenced);
        server_unlock();
        CHECK(commit_wait(i) == 0 && page[10 * i + 2].word[WORD_A] == 70 + i);
    }
    expect_readers_only();
}
static void child_decides_again(void)
{
    client_start();
    for (unsigned i = 1; i <= 2; i++) {
        struct store_txn_id id = id_of(i);
        server_lock();
        CHECK(vote_decide(&id, true, false) == 0);
        server_unlock();
    }
}
static void what_is_decided_is_shown_though_its_outcome_fails(void **state)
{
    (void)state;
    run_child(child_outcome_fails);
    run_next(child_decides_again);
    recover_and_compare();
}

/* Two threads flush: what the first one's failure lost, the other one's success must not hide. */
static void child_flush_again(void)
{
    client_start();
    const struct disk_io *disk = &server.disk;
    flushes_left = 0;
    CHECK(disk->flush(disk->context) == -EIO && disk->flush(disk->context) == -EIO);
}
static void no_flush_succeeds_after_a_failed_one(void **state)
{
    (void)state;
    run_child(child_flush_again);
}

static void child_stops(void)
{
    client_start();
    for (uint64_t i = 1; i <= 300; i++) CHECK(commit(i % 50, 1 + i % 3, i) == 0);
    stop_and_wait();
}
static void the_manager_ends_with_a_clean_store(void **state)
{
    (void)state;
    run_child(child_stops);
    assert_true(recover_and_compare());
}

static void child_stops_fenced(void)
{
    client_start();
    writes_left = 7;
    expect_fence();
    stop_and_wait();
}
static void a_fenced_store_is_not_closed(void **state)
{
    (void)state;
    run_child_to(1, child_stops_fenced);
    assert_false(recover_and_compare());
}

static void child_stop_fails(void)
{
    client_start();
    CHECK(commit(0, 100, 1) == 0);
    homes_left = 50;
    stop_and_wait();
}
static void a_store_with_pages_not_at_home_is_not_closed(void **state)
{
    (void)state;
    run_child_to(1, child_stop_fails);
    assert_false(recover_and_compare());
}

/* ---- a start that cannot mend ---- */

enum { LOG = 48 << 10, LEFT_OVER = 250, AT_ONCE = 125 };    /* a group has room for 219 names */

static int group_make(struct store *store, unsigned first)
{
    struct store_op box = { .type = STORE_OP_CREATE, .name = "box" };
    struct store_group *group;
    uint32_t position;
    char name[STORE_NAME_BYTES];
    int r = store_group_begin(store, &group) ?: store_txn_begin(group, 1);
    if (r == 0 && first == 0) r = store_txn_op(group, &box);
    for (unsigned i = first; r == 0 && i < first + AT_ONCE; i++) {
        struct store_op row = { .type = STORE_OP_NAME_SET, .object = 1, .name = name };
        snprintf(name, sizeof name, "\4row of no grant %u", i);
        r = store_txn_op(group, &row);
    }
    return r ?: store_txn_end(group, &position) ?: store_group_seal(group) ?:
           store_group_write(group) ?: store_group_apply(group);
}

/* left_over makes a store with more names of nothing than one transaction can take away. */
static void left_over(void)
{
    const struct store_options format = { .uuid = { 7 }, .log_bytes = LOG };
    const struct disk_io io = disk_left();
    struct store_report report;
    struct store *store;
    memset(shared, 0, sizeof *shared);
    assert_int_equal(store_format(&io, &disk_memory, &format), 0);
    assert_int_equal(store_open(&io, &disk_memory, NULL, &store, &report), 0);
    for (unsigned i = 0; i < LEFT_OVER; i += AT_ONCE) assert_int_equal(group_make(store, i), 0);
    assert_int_equal(store_close(store), 0);
}

static void child_cannot_mend(void)
{
    CHECK(manager_start());
    CHECK(strstr(log_line, "not mended"));
}
static void child_serves(void)
{
    client_start();
    CHECK(commit(3, 1, 9) == 0);
}
static void a_start_goes_on_without_what_it_cannot_mend(void **state)
{
    (void)state;
    left_over();
    run_next(child_cannot_mend);
    run_next(child_serves);
    recover_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_failed_write_the_store_is_fenced),
        cmocka_unit_test(after_a_failed_flush_the_store_is_fenced),
        cmocka_unit_test(after_a_failed_home_write_the_store_is_fenced),
        cmocka_unit_test(who_heard_eio_hears_of_no_success_from_a_fenced_store),
        cmocka_unit_test(what_is_durable_beside_the_fence_is_published),
        cmocka_unit_test(a_failed_write_in_the_air_has_fenced_the_store),
        cmocka_unit_test(what_is_decided_is_shown_though_its_outcome_fails),
        cmocka_unit_test(no_flush_succeeds_after_a_failed_one),
        cmocka_unit_test(the_manager_ends_with_a_clean_store),
        cmocka_unit_test(a_fenced_store_is_not_closed),
        cmocka_unit_test(a_store_with_pages_not_at_home_is_not_closed),
        cmocka_unit_test(a_start_goes_on_without_what_it_cannot_mend),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
