/*
 * test_manager.c - the store manager's commits, logs and handles, its scrubber and its backup.
 *
 * Aim     what a guest cannot show: one view refused beside others in its group; a log that is too
 *         small for the work; memory that ends; copies that rot.
 * Method  lib/threads/rig.h. What fails for good is in test_manager_fence.c.
 */
#include "user/store/scrub.c"
#include "user/store/spill.c"

#include "threads/rig.h"

/* ---- cases ---- */

static void child_commits(void)
{
    client_start();
    for (uint64_t i = 1; i <= 300; i++) CHECK(commit(i % 50, 1 + i % 3, i) == 0);
    CHECK(credits > 0);
}
static void acknowledged_commits_are_recovered(void **state)
{
    (void)state;
    run_child(child_commits);
    recover_and_compare();
}

/* A log of 3 MiB, 40 MiB of pages: checkpoints must come in time, and nobody is refused. */
static void child_small_log(void)
{
    client_start();
    for (uint64_t i = 1; i <= 100; i++)
        for (uint64_t part = 0; part < 4; part++)
            CHECK(commit(i * 7 % 1000 + part * 100, 100, i) == 0);
    struct store_stats s;
    server_lock();
    store_stats(server.store, &s);
    CHECK(s.checkpoints > 5 && server.home_writes > 1000);
    server_unlock();
}
static void a_log_smaller_than_the_work_is_checkpointed(void **state)
{
    (void)state;
    run_child(child_small_log);
    recover_and_compare();
}

static int checkpoint_asked(void)
{
    server_lock();
    int r = checkpoint_wait();
    server_unlock();
    return r;
}

/* Those who ask for a checkpoint for which there is no memory are told so; with memory again all
 * goes on. */
static void child_no_memory(void)
{
    client_start();
    starving = true;
    int none = 0;
    for (uint64_t i = 1; i < 1000 && !none; i++) {  /* another may have brought the pages home */
        CHECK(commit(0, 200, i) == 0);
        none = checkpoint_asked();
    }
    CHECK(none == -ENOMEM);
    CHECK(strstr(log_line, "no memory for a checkpoint"));
    CHECK(commit(0, 200, 1000) == 0);
    starving = false;
    int r;
    while ((r = checkpoint_asked()) == -ENOMEM) continue;   /* of one that had begun before */
    CHECK(r == 0);
}
static void a_checkpoint_without_memory_is_none(void **state)
{
    (void)state;
    run_child(child_no_memory);
    recover_and_compare();
}

static void child_too_big(void)
{
    client_start();
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 4; i++) commit_post(i, i * 8, 4, (uint64_t)round + 1);
        commit_post(4, 512, 1500, 9); /* more than half of the log */
        for (unsigned i = 0; i < 4; i++) CHECK(commit_wait(i) == 0);
        CHECK(commit_wait(4) == -E2BIG);
    }
}
static void a_view_too_big_is_refused_alone(void **state)
{
    (void)state;
    run_child(child_too_big);
    recover_and_compare();
}

/* ---- spills ---- */

/* The view's next message, of the same transaction: a COMMIT, or that it wants so many copies
 * spilled. */
static void view_post(unsigned i, uint32_t asks, uint64_t asks_for)
{
    pthread_mutex_lock(&kernel);
    view[i].asks = asks;
    view[i].asks_for = asks_for;
    view[i].token++;
    view[i].answered = false;
    view[i].queued = true;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&kernel);
}

static int view_wait(unsigned i)
{
    pthread_mutex_lock(&kernel);
    while (!view[i].answered) pthread_cond_wait(&posted, &kernel);
    pthread_mutex_unlock(&kernel);
    return view[i].answer;
}

/* It has written `value` into so many pages, and the manager takes half of them. */
static int spill_half(unsigned i, uint64_t first, uint64_t count, uint64_t value)
{
    view[i].first = first;
    view[i].count = count;
    view[i].value = value;
    view[i].spilled = 0;
    for (uint64_t p = first; p < first + count; p++) shared->tried[p] = value;
    view_post(i, (uint32_t)KD_MSG_SPILL, count / 2);
    return view_wait(i);
}

/* Three transactions of more pages than a group takes. One spilled while it ran and goes on; the
 * others fitted memory and spill at their ends: they do not wait for the first, which may wait for
 * them. All that is logged until the first commits, 360 pages, is less than half of the log: a
 * checkpoint, whenever the cleaner begins one, finds the chain young enough to keep (CH5). */
static void child_late_spill(void)
{
    options.group_bytes = 256 << 10;
    client_start();
    CHECK(spill_half(0, 0, 80, 1) == 0 && view[0].spilled >= 40);
    commit_post(1, 100, 200, 2);
    CHECK(commit_wait(1) == 0 && view[1].spilled && page[299].word[8] == 2);
    commit_post(2, 400, 80, 3);
    CHECK(commit_wait(2) == 0 && view[2].spilled && page[479].word[8] == 3);
    view_post(0, 0, 0);
    CHECK(commit_wait(0) == 0 && page[79].word[8] == 1);
    CHECK(commit(50, 100, 4) == 0);
    server_lock();
    CHECK(!holder.chain && !late.chain);
    server_unlock();
}
static void a_commit_spills_beside_a_transaction_that_has_spilled(void **state)
{
    (void)state;
    run_child(child_late_spill);
    recover_and_compare();
}

/* ---- loads past the log, and chunks ---- */

static void leased(uint64_t first, uint64_t count)
{
    uint64_t at;
    server_lock();
    struct container *c = container_by_id(1);
    CHECK(space_lease(c, CLIENT, count, container_address(c, first), &at) == 0 && at == first);
    server_unlock();
}
static int load(unsigned i, uint64_t first, uint64_t count, uint64_t value)
{
    pthread_mutex_lock(&kernel);
    view[i] = (struct view){.token = view[i].token, .first = first, .count = count, .value = value,
                            .lazy = STORE_BULK};
    for (uint64_t p = first; p < first + count; p++) shared->tried[p] = value;
    pthread_mutex_unlock(&kernel);
    view_post(i, 0, 0);
    return commit_wait(i);
}
static struct store_stats stats_now(void)
{
    struct store_stats s;
    server_lock();
    store_stats(server.store, &s);
    server_unlock();
    return s;
}

/* More than the log holds, in pages of one lease; the pages beside it, which only half an extent of
 * is leased, go into the log, and so do old ones. */
static void child_load(void)
{
    client_start();
    leased(100, 1802);
    uint64_t before = stats_now().log_bytes_written;
    CHECK(load(0, 100, 1800, 1) == 0 && view[0].spilled == 1800);
    uint64_t logged = stats_now().log_bytes_written - before;
    CHECK(logged < 32 << 10 && stats_now().claimed_extents == 0);
    CHECK(page[1899].word[8] == 1);
    CHECK(load(0, 1900, 2, 2) == 0);            /* the extent's other two are nobody's */
    CHECK(stats_now().log_bytes_written - before - logged >= 2 * 4096);
    CHECK(commit(100, 5, 3) == 0 && load(0, 110, 5, 4) == 0);
    leased(2000, 8);                            /* a small one does so, too */
    before = stats_now().log_bytes_written;
    CHECK(load(0, 2000, 8, 5) == 0 && stats_now().log_bytes_written - before < 8 * 4096);
}
static void a_load_larger_than_the_log_goes_past_it(void **state)
{
    (void)state;
    run_child(child_load);
    recover_and_compare();
}

/* A transaction whose pages went home is told to run again if another one has committed into one of
 * their extents; what it had is free. */
static void child_second(void)
{
    client_start();
    leased(0, 80);
    CHECK(spill_half(1, 0, 80, 1) == 0 && stats_now().claimed_extents == 10);
    CHECK(commit(60, 1, 9) == 0 && commit(2, 1, 9) == 0);
    view_post(1, 0, 0);
    CHECK(commit_wait(1) == -EDEADLK);
    server_lock();
    spill_end(1);                               /* as a VIEW_GONE does, which the kernel sends */
    server_unlock();
    CHECK(stats_now().claimed_extents == 0 && load(2, 300, 4, 5) == 0);
}
static void who_comes_second_into_an_extent_runs_again(void **state)
{
    (void)state;
    run_child(child_second);
    recover_and_compare();
}

/* A checkpoint takes pages home in runs of the size that was set, and of no other container. */
static void child_chunks(void)
{
    client_start();
    CHECK(commit(3, 200, 1) == 0 && checkpoint_asked() == 0);
    CHECK(home_most > 16); /* as many as the manager likes */
    CHECK(container_chunk(CLIENT, 1, 257) == -EINVAL && container_chunk(CLIENT, 2, 1) == -ENOENT);
    CHECK(container_chunk(CLIENT + 1, 1, 16) == -EACCES && container_chunk(CLIENT, 1, 16) == 0);
    home_calls = home_most = 0;
    home_chunk = 16;
    CHECK(commit(3, 200, 2) == 0 && checkpoint_asked() == 0);
    CHECK(home_crossed == 0 && home_most == 16 && home_calls == 13);
    home_chunk = 0;
    CHECK(container_chunk(CLIENT, 1, 0) == 0);
}
static void a_checkpoint_goes_chunk_by_chunk(void **state)
{
    (void)state;
    run_child(child_chunks);
    recover_and_compare();
}

/* The disk reads slowly: a commit comes and is answered before the read ends. */
static void commit_beside(void)
{
    CHECK(commit(500, 2, 7) == 0);
}
static void child_slow_unspill(void)
{
    client_start();
    CHECK(spill_half(1, 0, 80, 1) == 0 && view[1].spilled == 40);
    read_beside = commit_beside;
    view_post(1, (uint32_t)KD_MSG_UNSPILL, 39);
    CHECK(view_wait(1) == 0 && view[1].spilled == 39 && !read_beside);
    view_post(1, 0, 0);
    CHECK(commit_wait(1) == 0 && page[79].word[8] == 1);
}
static void a_slow_read_of_a_spilled_page_delays_no_commit(void **state)
{
    (void)state;
    run_child(child_slow_unspill);
    recover_and_compare();
}

/* Frees all that is free anyway, many times, with little memory: either it is done as a whole, or
 * it is refused and in no log, even if its group is. */
static void child_little_memory(void)
{
    enum { OPS = 14 };
    static struct wire_op ops[OPS];
    client_start();
    CHECK(commit(0, 4, 1) == 0);
    malloc_max = 1 << 20;
    for (int i = 0; i < OPS; i++)
        ops[i] = (struct wire_op){ .kind = WIRE_PAGE_FREE,
                                   .op_bytes = sizeof(ops[0]),
                                   .container = 1,
                                   .address = container_by_id(1)->segment[0].base + PAGES * 4096,
                                   .value = container_by_id(1)->segment[0].pages - PAGES };
    server_lock();
    gate_enter(false); /* so that both come into one group */
    server_unlock();
    next_batch = ops;
    next_batch_bytes = sizeof(ops);
    commit_post(0, 0, 4, 2);
    commit_post(1, 16, 4, 2);
    server_lock();
    gate_leave();
    server_unlock();
    commit_wait(0);
    CHECK(commit_wait(1) == 0);
    CHECK(commit(8, 4, 3) == 0);
}
static void who_is_refused_for_want_of_memory_is_in_no_log(void **state)
{
    (void)state;
    run_child(child_little_memory);
    recover_and_compare();
}

/* The container has grown, the kernel's object for it could not be made, and all else is leased. */
static void child_segment_without_object(void)
{
    uint64_t page;
    client_start();
    no_object = true;
    CHECK(container_grow(1) == -ENOMEM);
    server_lock();
    struct container *c = container_by_id(1);
    CHECK(space_lease(c, CLIENT, c->segment[0].pages, 0, &page) == 0 && page == 0);
    CHECK(space_lease(c, CLIENT, 1, 0, &page) == -ENOSPC);
    server_unlock();
}
static void pages_without_an_object_are_not_leased(void **state)
{
    (void)state;
    run_child(child_segment_without_object);
}

/* One process has half of the handles at most; the next one can still open, and who closes one may
 * open one. */
static void child_opens_many(void)
{
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE};
    struct wire_opened out, last = {0};
    client_start();
    for (unsigned i = 1; i <= SEGMENTS_EACH; i++) {
        snprintf(how.name, sizeof(how.name), "c%u", i);
        CHECK(container_open(CLIENT, &how, &out) == (i < SEGMENTS_EACH ? 0 : -EDQUOT));
        if (i < SEGMENTS_EACH) last = out;
    }
    CHECK(container_open(CLIENT + 1, &how, &out) == 0);
    CHECK(container_open(CLIENT, &how, &out) == -EDQUOT);
    CHECK(container_may_grow(CLIENT) == -EDQUOT && container_may_grow(CLIENT + 1) == 0);
    CHECK(container_close(CLIENT, last.container) == 0);
    CHECK(container_open(CLIENT, &how, &out) == 0);
}
static void one_process_does_not_get_all_handles(void **state)
{
    (void)state;
    run_child(child_opens_many);
}

/* ---- the scrubber: all copies are read, and mended, while others commit ---- */

static void checkpointed(void)
{
    server_lock();
    CHECK(checkpoint_wait() == 0);
    server_unlock();
}

static uint64_t scrub_rounds(void)
{
    server_lock();
    uint64_t rounds = scrub.rounds;
    server_unlock();
    return rounds;
}

/* A bit of this block flips; then somebody asks for a round, and commits until it is over. */
static void scrubbed(uint64_t at)
{
    static uint64_t value = 10;
    uint64_t before = scrub_rounds();
    shared->disk[at + 100] ^= 4;
    CHECK(scrub_ask(77) == 0);
    for (unsigned i = 0; scrub_rounds() == before; i++)     /* the log keeps what it has */
        if (i < 20) CHECK(commit(200, 2, value++) == 0);
        else sched_yield();
}

/* The k-th block that is there twice; 0: there is no such. */
static uint64_t copy_at(unsigned k)
{
    const struct superblock *super = &server.store->super;
    if (k < 2) return k ? super->slot_b_offset : SIGNPOST_OFFSET;
    unsigned area = k & 1, page = k / 2 - 2;
    if (k < 4) return super->area_start[area];
    return page < 4 && page < super->checkpoints[area].pages ? area_page_offset(super, area, page)
                                                             : 0;
}

static void child_scrubs(void)
{
    struct store_page at;
    uint64_t mended = 0, found = 0;
    client_start();
    CHECK(commit(0, 100, 1) == 0);
    checkpointed();
    CHECK(commit(0, 10, 2) == 0);
    checkpointed();
    CHECK(store_page_find(server.store, 1, 50, &at) == 0 && at.present && !at.dirty);
    scrubbed(at.offset_bytes);
    CHECK(scrub.mended == ++mended && scrub.lost == 0 && strstr(log_line, "page 50"));
    for (unsigned k = 0; k < 12; k++) {
        server_lock();
        uint64_t place = copy_at(k), checkpoints = server.store->counters.checkpoints;
        server_unlock();
        if (place) scrubbed(place);
        /* or a checkpoint of the commits wrote it anew */
        mended = scrub.mended + scrub.anew - mended;
        CHECK(mended == (place != 0) || server.store->counters.checkpoints != checkpoints);
        found += mended;
        mended = scrub.mended + scrub.anew;
    }
    CHECK(found >= 5 && scrub.lost == 0);
    log_line[0] = 0;
    scrubbed(DISK_BYTES - 4096);        /* where nothing is */
    CHECK(scrub.mended + scrub.anew == mended && log_line[0] == 0);
    CHECK(nice_reads > 100 && nice_answers == 0);       /* it goes last, but never with the lock */
}
static void rot_is_found_and_mended_while_others_commit(void **state)
{
    (void)state;
    run_child(child_scrubs);
    assert_false(recover_and_compare());
}

/* Without its image in the log a page is lost. That is said once, however often it is met. */
static void child_loses(void)
{
    struct store_page at;
    client_start();
    CHECK(commit(0, 100, 1) == 0);
    checkpointed();
    checkpointed();
    CHECK(store_page_find(server.store, 1, 50, &at) == 0);
    memset(shared->disk + server.store->super.log_start, 0, server.store->super.log_bytes / 2);
    scrubbed(at.offset_bytes);
    CHECK(scrub.lost == 1 && scrub.mended == 0 && strstr(log_line, "page 50") &&
          strstr(log_line, "is lost"));
    log_line[0] = 0;
    scrubbed(DISK_BYTES - 4096);
    CHECK(scrub.lost == 2 && log_line[0] == 0 && !server.fenced);
}
static void a_page_that_is_lost_is_said_once(void **state)
{
    (void)state;
    run_child(child_loses);
}

/* ---- backup: a copy is made while others commit ---- */

/* Others commit what is there already, so that it does not matter when the copy's log ends. */
static int backed_up(void)
{
    backup_replied = false;
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES, true) == 0);
    while (!backup_replied) CHECK(commit(200, 2, 3) == 0);
    return backup_reply.status;
}
static void child_backs_up(void)
{
    struct store_page at;
    client_start();
    CHECK(commit(0, 150, 1) == 0 && commit(200, 2, 3) == 0);
    CHECK(backup_begin(1, COPY, DISK_BYTES / 2, true) == -ENOSPC);
    copy_waits = true;
    backup_replied = false;
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES, true) == 0);
    CHECK(backup_begin(1, COPY, DISK_BYTES, true) == -EBUSY);
    copy_waits = false;
    while (!backup_replied) CHECK(commit(200, 2, 3) == 0);
    CHECK(backup_reply.status == 0 && backup_reply.word[1] == 0);
    server_lock();
    CHECK(store_page_find(server.store, 1, 50, &at) == 0 && !at.dirty && !server.store->holds);
    server_unlock();
    unreadable_from = at.offset_bytes;  /* in an extent where page 51 is as well */
    unreadable_to = unreadable_from + 4096;
    CHECK(backed_up() == 0 && backup_reply.word[1] == 1);
    CHECK(memcmp(shared->copy + at.offset_bytes + 4096, shared->disk + at.offset_bytes + 4096,
                 4096) == 0 && shared->copy[at.offset_bytes + 64] == 0);
    unreadable_to = 0;
    CHECK(backed_up() == 0 && backup_reply.word[1] == 0);
    backup_replied = false;
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES, false) == 0);
    while (!backup_replied) CHECK(commit(200, 2, 3) == 0);
    CHECK(backup_reply.status == -EEXIST);
}
static void a_copy_is_made_while_others_commit(void **state)
{
    (void)state;
    run_child(child_backs_up);
    memcpy(shared->disk, shared->copy, DISK_BYTES);
    assert_false(recover_and_compare());
}

static void copy_is_refused(void)
{
    const struct disk_io io = disk_left();
    struct store_report report;
    struct store *store;
    memcpy(shared->disk, shared->copy, DISK_BYTES);
    assert_int_equal(store_open(&io, &disk_memory, NULL, &store, &report), -EMEDIUMTYPE);
    assert_non_null(strstr(report.message, "never finished"));
}

static void child_cannot_read(void)
{
    client_start();
    CHECK(commit(0, 150, 1) == 0 && commit(200, 2, 3) == 0);
    const struct superblock *super = &server.store->super;
    unreadable_from = super->area_start[0];
    unreadable_to = super->data_start;
    CHECK(backed_up() == -EIO && !server.store->holds && !server.fenced);
}
static void a_copy_without_metadata_is_not_finished(void **state)
{
    (void)state;
    run_child(child_cannot_read);
    assert_false(recover_and_compare());
    copy_is_refused();
}

static void child_stops_beside_a_copy(void)
{
    client_start();
    CHECK(commit(0, 150, 1) == 0);
    copy_waits = true;
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES, true) == 0);
    store_backup_mark(shared->copy);
    stop_and_wait();
}
static void the_manager_ends_beside_a_copy(void **state)
{
    (void)state;
    run_child(child_stops_beside_a_copy);
    assert_true(recover_and_compare());
    copy_is_refused();
}

/* A disk that holds something else is refused and not touched. */
static void child_foreign(void)
{
    memset(shared->disk, 'x', DISK_BYTES);
    CHECK(!manager_start() && strstr(log_line, "refused"));
    for (size_t i = 0; i < DISK_BYTES; i += 511) CHECK(shared->disk[i] == 'x');
}
static void a_foreign_disk_is_not_formatted(void **state)
{
    (void)state;
    run_child(child_foreign);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_commits_are_recovered),
        cmocka_unit_test(a_log_smaller_than_the_work_is_checkpointed),
        cmocka_unit_test(a_checkpoint_without_memory_is_none),
        cmocka_unit_test(a_view_too_big_is_refused_alone),
        cmocka_unit_test(a_commit_spills_beside_a_transaction_that_has_spilled),
        cmocka_unit_test(a_load_larger_than_the_log_goes_past_it),
        cmocka_unit_test(who_comes_second_into_an_extent_runs_again),
        cmocka_unit_test(a_checkpoint_goes_chunk_by_chunk),
        cmocka_unit_test(a_slow_read_of_a_spilled_page_delays_no_commit),
        cmocka_unit_test(who_is_refused_for_want_of_memory_is_in_no_log),
        cmocka_unit_test(pages_without_an_object_are_not_leased),
        cmocka_unit_test(one_process_does_not_get_all_handles),
        cmocka_unit_test(rot_is_found_and_mended_while_others_commit),
        cmocka_unit_test(a_page_that_is_lost_is_said_once),
        cmocka_unit_test(a_copy_is_made_while_others_commit),
        cmocka_unit_test(a_copy_without_metadata_is_not_finished),
        cmocka_unit_test(the_manager_ends_beside_a_copy),
        cmocka_unit_test(a_foreign_disk_is_not_formatted),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
