/*
 * test_manager_time.c - the store manager in virtual time: how many flushes, and who waits for
 * whom.
 *
 * Aim     64 clients share flushes, two at most for every 64 commits; beside a checkpoint a commit
 *         takes 1.3 times as long on average, and twice at most; a page that is read slowly delays
 *         no commit; groups are written in their order, each with one write; a batch of lazy
 *         commits takes a flush for each tenth of a second, and one alone is durable when its time
 *         is up.
 * Method  the manager, its disk and its clients in virtual time (turns/time.h): every figure is
 *         exact. `test_manager_time --bench` prints them for scripts/bench.
 */
#include "turns/time.h"

#include "user/store/backup.c"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- cases: each is a life of its own, in a child ---- */

static struct { double a, b, c, d; } *result;               /* shared with the parent */

static void in_child(void (*body)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        body();
        fflush(NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void child_many(void)
{
    simulate(64, 1000, NULL);
    CHECK(requests.flushes > 2);
    result->a = (double)(requests.flushes - 2) / 1000;        /* without the first and the last */
    /* the cleaner is no thread of its own here: a twin beside a group counts, too */
    struct store_stats all;
    store_stats(server.store, &all);
    /* one may be in the air */
    CHECK(server.log_writes - server.log_flushes <= 1 + all.checkpoints);
    printf("# 64 clients, 64,000 commits: %llu groups, mean latency %lld us\n",
           (unsigned long long)server.landed, (long long)(calm.sum / (int64_t)calm.count));
}
static void sixty_four_clients_share_two_flushes(void **state)
{
    (void)state;
    in_child(child_many);
    assert_true(result->a <= 2.0);
    assert_true(result->a >= 1.0);
}

static void child_one(void)
{
    simulate(1, 1000, NULL);
    CHECK(requests.writes == 1000 && requests.flushes == 1000);
    CHECK(calm.max == REQUEST_US + PAGE_US * 2 + FLUSH_US); /* the first: a full image */
}
static void one_client_gets_one_write_and_one_flush(void **state)
{
    (void)state;
    in_child(child_one);
}

static void child_calm(void)
{
    simulate(8, 2000, NULL);
    result->a = (double)calm.sum / (double)calm.count;
    result->b = (double)calm.max;
}
static uint64_t copied_bytes;
static int64_t copied_us;
static void child_checkpoint(void)
{
    simulate(8, 2000, checkpoints_main);
    CHECK(by_chunks ? sweeps > 0 : sweeps == 0);
    result->c = (double)beside_checkpoint.sum / (double)beside_checkpoint.count;
    result->d = (double)beside_checkpoint.max;
    CHECK(beside_checkpoint.count > 100);
    printf("# 8 clients, commit without a checkpoint: %.0f us, at most %.0f; beside one: %.0f, at "
           "most "
           "%.0f (%llu commits)\n",
           result->a, result->b, result->c, result->d, (unsigned long long)beside_checkpoint.count);
}
static void child_sweeps(void)
{
    by_chunks = true;
    child_checkpoint();
}
static void child_in_one_go(void)
{
    options.chunk_pages = 256;
    child_checkpoint();
}
/* By chunks, and of the whole store; in one go the longest commit waits for 256 pages. */
static void a_checkpoint_costs_a_commit_a_third_at_most(void **state)
{
    (void)state;
    in_child(child_calm);
    in_child(child_sweeps);
    assert_true(result->c <= 1.3 * result->a);
    assert_true(result->d <= 2 * result->b);
    in_child(child_checkpoint);
    assert_true(result->c <= 1.3 * result->a);
    assert_true(result->d <= 2 * result->b);
    in_child(child_in_one_go);
    assert_true(result->d > 4 * result->b);
}

/* Copies of the store, one after the other. */
static void *copies_main(void *unused)
{
    (void)unused;
    copying = true;
    while (!over) {
        int64_t begin = sim_us;
        checkpoint_runs = true;
        CHECK(backup_begin(1, COPY_DISK, DISK_BYTES, true) == 0);
        while (backup.running && !over) sim_sleep(100);
        checkpoint_runs = false;
        copied_bytes += copy.bytes;
        copied_us += sim_us - begin;
    }
    return NULL;
}
static void child_copies(void)
{
    simulate(8, 2000, copies_main);
    result->c = (double)beside_checkpoint.sum / (double)beside_checkpoint.count;
    result->d = (double)copied_bytes / (double)copied_us * PAGE_US / 4096;
    CHECK(beside_checkpoint.count > 100);
}
static void a_copy_costs_commits_little(void **state)
{
    (void)state;
    in_child(child_calm);
    in_child(child_copies);
    assert_true(result->c <= 1.5 * result->a);
}

static void child_reader(void)
{
    simulate(8, 2000, slow_main);
    result->c = (double)calm.sum / (double)calm.count;
    result->d = (double)calm.max;
    CHECK(server.pages_read > 0);
}
static void a_slow_read_delays_no_commit(void **state)
{
    (void)state;
    in_child(child_calm);
    in_child(child_reader);
    assert_true(result->c == result->a && result->d == result->b);
}

/* After one commit nothing happens for a while; then a checkpoint brings it home, once. */
static void *patience_main(void *unused)
{
    struct store_stats before, after;
    (void)unused;
    commit(0, 0, 1, 7);
    store_stats(server.store, &before);
    sim_sleep(29000000);
    store_stats(server.store, &after);
    CHECK(after.checkpoints == before.checkpoints && after.pages_dirty == 1);
    sim_sleep(2000000);
    store_stats(server.store, &after);
    CHECK(after.checkpoints == before.checkpoints + 1 && after.pages_dirty == 0);
    sim_sleep(100000000);
    store_stats(server.store, &after);
    CHECK(after.checkpoints == before.checkpoints + 1);
    over = true;
    return NULL;
}
static void child_patience(void) { simulate(0, 0, patience_main); }
static void what_is_committed_goes_home_after_thirty_seconds(void **state)
{
    (void)state;
    in_child(child_patience);
}

static uint64_t log_to_replay(void)
{
    struct store_stats now;
    store_stats(server.store, &now);
    return now.end_lsn - now.redo_lsn;
}

/* Some commits of `count` pages, one each, then a second of nothing; by how many checkpoints. */
static uint64_t checkpoints_behind(uint64_t commits, uint64_t count)
{
    struct store_stats before, after;
    store_stats(server.store, &before);
    for (uint64_t n = 1; n <= commits; n++) commit(0, n % count, 1, n);
    result->a = (double)log_to_replay();
    sim_sleep(1000000);
    store_stats(server.store, &after);
    return after.checkpoints - before.checkpoints;
}
static void *compress_main(void *unused)
{
    struct store_stats after;
    (void)unused;
    CHECK(checkpoints_behind(100, 10) == 0); /* too little */
    CHECK(checkpoints_behind(300, 10) == 1);
    result->c = result->a;
    result->b = (double)log_to_replay();
    store_stats(server.store, &after);
    CHECK(after.pages_dirty == 0);
    CHECK(checkpoints_behind(400, 400) == 0); /* each once */
    over = true;
    return NULL;
}
static void child_compress(void)
{
    simulate(0, 0, compress_main);
    printf("# of pages written forty times a start replays %.0f bytes, a second later %.0f\n",
           result->c, result->b);
}

/* Aim: an idle manager has the newest copy of each page go home, if the log holds many. */
static void an_idle_manager_leaves_the_newest_copies_only(void **state)
{
    (void)state;
    in_child(child_compress);
    assert_true(result->b * 50 < 400 * 4096);
}

/* The last one is durable when the batch's last tenth of a second is over. */
static void *batch_main(void *unused)
{
    int64_t begin = sim_us;
    (void)unused;
    laziness = STORE_LAZY;
    for (uint64_t n = 1; n <= 2000; n++) {
        int64_t us = commit(0, 0, 1, n);
        CHECK(us == REQUEST_US + PAGE_US * (n == 1 ? 2 : 1) || us >= FLUSH_US);
    }
    int64_t tenths = (sim_us - begin + 99999) / 100000;
    CHECK(requests.writes == 2000 && requests.flushes <= (uint64_t)tenths && requests.flushes < 5);
    CHECK(server.durable_csn < server.last_csn);
    sim_sleep(99000);
    server_lock();
    CHECK(group_flush() == 0 && server.durable_csn == server.last_csn);
    server_unlock();
    result->a = (double)requests.flushes;
    over = true;
    return NULL;
}
static void child_batch(void) { simulate(0, 0, batch_main); }
static void two_thousand_lazy_commits_take_a_handful_of_flushes(void **state)
{
    (void)state;
    in_child(child_batch);
    assert_true(result->a >= 1 && result->a <= 5);
}

/* Each of these is durable when its own time is up, or an earlier one's, and not before. */
static void *bound_main(void *unused)
{
    (void)unused;
    laziness = 20;
    commit(0, 0, 1, 1);
    laziness = 5;
    commit(0, 1, 1, 1);
    int64_t due = sim_us + 5000;
    sim_sleep(4900);
    CHECK(requests.flushes == 0 && server.durable_csn < server.last_csn);
    while (requests.flushes == 0) sim_sleep(10);
    CHECK(sim_us <= due + 1020);
    sim_sleep(FLUSH_US);
    CHECK(requests.flushes == 1 && server.durable_csn == server.last_csn && requests.writes == 2);
    sim_sleep(200000);
    CHECK(requests.flushes == 2 && requests.writes == 3);   /* the empty group that proves them */
    laziness = 100;
    commit(0, 2, 1, 1);
    laziness = 0;
    commit(0, 3, 1, 1);
    CHECK(requests.flushes == 3 && server.durable_csn == server.last_csn);
    sim_sleep(1000000);
    CHECK(requests.flushes == 4);
    options.lazy_ms = 0;
    laziness = STORE_LAZY;
    commit(0, 0, 1, 2);
    CHECK(requests.flushes == 5 && server.durable_csn == server.last_csn);
    over = true;
    return NULL;
}
static void child_bound(void) { simulate(0, 0, bound_main); }
static void a_lazy_commit_is_durable_when_its_time_is_up(void **state)
{
    (void)state;
    in_child(child_bound);
}

/* What comes meanwhile and makes no group: commits that are refused, one after the other. */
static void *refused_main(void *unused)
{
    static const uint64_t nonsense = 1;
    (void)unused;
    while (!over) {
        view[1] = (struct view){.queued = true, .token = view[1].token + 1, .batch = &nonsense,
                                .batch_bytes = sizeof(nonsense)};
        sim_wake(&view[0].queued, true);
        while (!view[1].answered) sim_wait(view, SIM_NEVER);
        CHECK(view[1].answer == -EINVAL);
        sim_sleep(300);
    }
    return NULL;
}
/* A transaction that spills is in the log's way all the time. */
static void *spilling_main(void *unused)
{
    (void)unused;
    view[1] = (struct view){.token = 1, .first = 1024, .count = 1000, .value = 3,
                            .asks = (uint32_t)KD_MSG_SPILL, .asks_for = 1};
    while (!over) {
        view[1].answered = false;
        view[1].queued = true;
        sim_wake(&view[0].queued, true);
        while (!view[1].answered) sim_wait(view, SIM_NEVER);
        CHECK(view[1].answer == 0);
    }
    return NULL;
}
static void *beside_main(void *other)
{
    laziness = 20;
    commit(0, 0, 1, 1);
    int64_t due = sim_us + 20000;
    uint64_t lazy = server.last_csn;
    CHECK(server.durable_csn < lazy);
    sim_start((void *(*)(void *))(uintptr_t)other, NULL);
    while (server.durable_csn < lazy && sim_us < due + 50000) sim_sleep(100);
    CHECK(sim_us <= due + 5000);
    over = true;
    return NULL;
}
static void *beside_refused_main(void *unused)
{
    (void)unused;
    return beside_main((void *)(uintptr_t)refused_main);
}
static void *beside_spilling_main(void *unused)
{
    (void)unused;
    return beside_main((void *)(uintptr_t)spilling_main);
}
static void child_beside_refused(void) { simulate(0, 0, beside_refused_main); }
static void child_beside_spilling(void) { simulate(0, 0, beside_spilling_main); }
static void a_busy_committer_flushes_lazy_commits_in_time(void **state)
{
    (void)state;
    in_child(child_beside_refused);
    in_child(child_beside_spilling);
}

/* A flush is no word for what is published while it runs. */
static void *early_main(void *unused)
{
    (void)unused;
    server_lock();
    CHECK(group_flush() == 0);
    CHECK(server.durable_csn && server.durable_csn < server.last_csn);
    server_unlock();
    over = true;
    return NULL;
}
static void *overtaken_main(void *unused)
{
    (void)unused;
    laziness = 1000;
    commit(0, 0, 1, 1);
    view[1] = (struct view){.queued = true, .token = 1, .first = 1, .count = 1, .value = 1,
                            .lazy = laziness};
    sim_wake(&view[0].queued, true);
    sim_sleep(REQUEST_US / 2);
    sim_start(early_main, NULL);
    return NULL;
}
static void child_overtaken(void) { simulate(0, 0, overtaken_main); }
static void child_lazy_checkpoints(void)
{
    laziness = STORE_LAZY;
    simulate(8, 8000, checkpoints_main);
    CHECK(homes_passed_over > 0);
}
static void a_page_goes_home_behind_the_flush_of_its_lazy_commit(void **state)
{
    (void)state;
    in_child(child_overtaken);
    in_child(child_lazy_checkpoints);
}

/* The flush of what was answered fails while another lazy group is being written. */
static void *flusher_main(void *unused)
{
    (void)unused;
    server_lock();
    CHECK(group_flush() == -EIO && server.fenced == -EIO);
    server_unlock();
    return NULL;
}
static void *failing_main(void *unused)
{
    (void)unused;
    laziness = STORE_LAZY;
    commit(0, 0, 1, 1);
    requests.flush_fails = true;
    sim_start(flusher_main, NULL);
    for (unsigned i = 1; i <= 2; i++) {
        sim_sleep(10);
        view[i] = (struct view){.queued = true, .token = 1, .first = i, .count = 1, .value = 1,
                                .lazy = laziness};
        sim_wake(&view[0].queued, true);
        while (!view[i].answered) sim_wait(view, SIM_NEVER);
        CHECK(view[i].answer == -EIO && page[i].word[WORD_A] == 1 && server.fenced);
    }
    CHECK(requests.writes == 2 && requests.flushes == 1);
    over = true;
    return NULL;
}
/* A lazy commit that waited when the store was fenced is waited for no more. */
static void *fenced_main(void *unused)
{
    (void)unused;
    laziness = STORE_LAZY;
    commit(0, 0, 1, 1);
    requests.flush_fails = true;
    view[1] = (struct view){.queued = true, .token = 1, .first = 1, .count = 1, .value = 1};
    sim_wake(&view[0].queued, true);
    while (!view[1].answered) sim_wait(view, SIM_NEVER);
    CHECK(view[1].answer == -EIO && server.fenced);
    sim_sleep(1000000);
    CHECK(!server.lazy_due_us);             /* else the committer wakes each millisecond */
    over = true;
    return NULL;
}
static void child_fenced(void) { simulate(0, 0, fenced_main); }
static void child_failing(void) { simulate(0, 0, failing_main); }
static void no_lazy_commit_is_answered_behind_a_failed_flush(void **state)
{
    (void)state;
    in_child(child_failing);
    in_child(child_fenced);
}

/* The log fills up, for there is no memory for a checkpoint; then there is, but its flush fails. */
static void *full_main(void *unused)
{
    uint64_t id;
    int r;
    (void)unused;
    starving = true;
    for (uint64_t pages = 256, value = 1; pages > 0; value++) {
        view[0] = (struct view){.queued = true, .token = value, .count = pages, .value = value};
        sim_wake(&view[0].queued, true);
        while (!view[0].answered) sim_wait(view, SIM_NEVER);
        CHECK(view[0].answer == 0 || view[0].answer == -ENOMEM);
        if (view[0].answer) pages /= 2;
    }
    do {                                /* the manager's own are smaller */
        r = container_rename("box", "bin", &id);
        if (r == 0) r = container_rename("bin", "box", &id);
    } while (r == 0);
    CHECK(r == -ENOMEM && !server.fenced);
    starving = false;
    requests.flush_fails = true;
    r = container_rename("box", "bin", &id);
    if (r == -ENOENT) r = container_rename("bin", "box", &id);
    CHECK(r == -EIO && server.fenced == -EIO);
    over = true;
    return NULL;
}
static void child_full(void) { simulate(0, 0, full_main); }
static void a_failed_flush_is_no_lack_of_room(void **state)
{
    (void)state;
    in_child(child_full);
}

static int bench_copies(void)
{
    in_child(child_calm);
    in_child(child_copies);
    printf("commit beside a backup against without, virtual time, mean\ttimes\t%.2f\t1.3\n",
           result->c / result->a);
    printf("the disk's sequential rate against a backup's, virtual time\ttimes\t%.2f\t2\n",
           1 / result->d);
    return 0;
}

static int bench(void)
{
    in_child(child_many);
    printf("1,000 one-page commits by each of 64 clients: flushes per 64\tflushes\t%.2f\t2\n",
           result->a);
    in_child(child_calm);
    in_child(child_sweeps);
    printf("commit beside a checkpoint by chunks against without, virtual time, mean\ttimes\t%.2f\t"
           "1.3\n", result->c / result->a);
    printf("the longest commit beside a checkpoint by chunks, virtual time\tms\t%.2f\t-\n",
           result->d / 1000);
    in_child(child_checkpoint);
    printf("commit beside a checkpoint that was asked for, virtual time, mean\ttimes\t%.2f\t1.3\n",
           result->c / result->a);
    in_child(child_in_one_go);
    printf("the longest commit beside a checkpoint of the whole store in one go, virtual time\tms\t"
           "%.2f\t-\n", result->d / 1000);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_gets_one_write_and_one_flush),
        cmocka_unit_test(sixty_four_clients_share_two_flushes),
        cmocka_unit_test(a_checkpoint_costs_a_commit_a_third_at_most),
        cmocka_unit_test(a_copy_costs_commits_little),
        cmocka_unit_test(a_slow_read_delays_no_commit),
        cmocka_unit_test(what_is_committed_goes_home_after_thirty_seconds),
        cmocka_unit_test(an_idle_manager_leaves_the_newest_copies_only),
        cmocka_unit_test(two_thousand_lazy_commits_take_a_handful_of_flushes),
        cmocka_unit_test(a_lazy_commit_is_durable_when_its_time_is_up),
        cmocka_unit_test(a_busy_committer_flushes_lazy_commits_in_time),
        cmocka_unit_test(a_page_goes_home_behind_the_flush_of_its_lazy_commit),
        cmocka_unit_test(no_lazy_commit_is_answered_behind_a_failed_flush),
        cmocka_unit_test(a_failed_flush_is_no_lack_of_room),
    };
    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench();
    if (argc > 1 && strcmp(argv[1], "--copies") == 0) return bench_copies();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
