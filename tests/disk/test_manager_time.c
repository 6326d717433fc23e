/*
 * test_manager_time.c - the store manager in virtual time: how many flushes, and who waits for
 * whom.
 *
 * Aim     64 clients share flushes, two at most for every 64 commits; a checkpoint at most doubles
 *         what a commit takes; a page that is read slowly delays no commit; groups are written in
 *         their order, each with one write; a batch of lazy commits takes a flush for each tenth
 *         of a second, and one alone is durable when its time is up.
 * Method  the manager's files run as coroutines (sim.h), over a kernel of arrays and a disk that
 *         serves one request after the other, at fixed times; computing takes none. So every figure
 *         is exact. `test_manager_time --bench` prints them for scripts/bench.
 */
#include "sim.h"

#include "format.h"
#include "internal.h"
#include "manager_kernel.h"
#include "manager_sim.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DISK_BYTES = 512 << 20, CLIENTS_MAX = 64,
    REQUEST_US = 100, PAGE_US = 10, FLUSH_US = 1000, SLOW_READ_US = 1000000, THINK_US = 50,
};

/* ---- the disk: writes and flushes one after the other; reads beside them ---- */

static uint8_t *disk;
static int64_t disk_free_at;
static struct { uint64_t writes, flushes; bool flush_fails; } device;
static uint64_t log_end;                                    /* LSN after the last group written */
static unsigned log_disorder;

static void disk_serve(int64_t us)
{
    disk_free_at = (disk_free_at > sim_us ? disk_free_at : sim_us) + us;
    sim_sleep(disk_free_at - sim_us);
}

/* A group begins where the one before it ends, or skips the end of the ring. */
static void log_write_check(const struct group_disk *group, uint64_t bytes)
{
    if (le64_get(group->magic) != GROUP_MAGIC) return;
    uint64_t lsn = le64_get(group->lsn), skipped = lsn - log_end;
    log_disorder += log_end && (lsn < log_end || (skipped && lsn % server.log_bytes));
    log_end = lsn + bytes;
}

static long block_write(uint64_t offset, const void *bytes, uint64_t count)
{
    device.writes++;
    log_write_check(bytes, count);
    disk_serve(REQUEST_US + (int64_t)(count / 4096) * PAGE_US);
    memcpy(disk + offset, bytes, count);
    return 0;
}

static long block_flush(void)
{
    device.flushes++;
    disk_serve(FLUSH_US);
    return device.flush_fails ? -EIO : 0;
}

static int home_write(uint64_t offset, const void *bytes)
{
    memcpy(disk + offset, bytes, 4096);
    return 0;
}

/* ---- the kernel ---- */

#define CHECK(e) \
    ((e) ? (void)0 : (dprintf(1, "# %s, line %d; log: %s\n", #e, __LINE__, log_line), _exit(1)))

static uint32_t laziness;                                   /* kd_commit.flags of all commits */
static uint64_t homes_passed_over;
static bool starving;                                       /* no memory for any checkpoint */

/* MG5: commits may be published while the disk works for others, and then do not go home. */
static long homes_write(struct kd_page_io *io, long count)
{
    if (laziness) sim_sleep(REQUEST_US); /* somebody else runs before the kernel looks */
    disk_serve(count * (REQUEST_US + PAGE_US));
    long r = write_homes(io, count);
    for (long i = 0; i < count; i++) {
        CHECK(io[i].status || io[i].csn <= server.durable_csn);
        homes_passed_over += io[i].status == -EBUSY;
    }
    return r;
}

long kd_system(long number, long a, long b, long c, long d)
{
    if (starving) server.store->checkpoint.short_of_memory = true;
    switch (number) {
    case KD_BLOCK_OPEN:
        if (strchr((const char *)a, '.')) return -ENODEV; /* it is the only one of its store */
        *(struct kd_block_info *)b = (struct kd_block_info){ DISK_BYTES, 512, 0 };
        return 1;
    case KD_BLOCK_READ: memcpy((void *)c, disk + b, (size_t)d); return 0;
    case KD_BLOCK_WRITE: return block_write((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_BLOCK_FLUSH: return block_flush();
    case KD_BLOCK_WRITE_PAGES: return homes_write((void *)b, c);
    case KD_BLOCK_READ_PAGES: sim_sleep(SLOW_READ_US); return 0;
    default: return sim_call(number, a, b, c, d);
    }
}

/* ---- clients ---- */

struct latency { int64_t sum, max; uint64_t count; };

static int64_t commit(unsigned i, uint64_t first, uint64_t count, uint64_t value)
{
    int64_t begin = sim_us;
    view[i] = (struct view){
        .queued = true, .token = view[i].token + 1, .first = first, .count = count, .value = value,
        .lazy = laziness
    };
    sim_wake(&view[0].queued, true);
    while (!view[i].answered) sim_wait(view, SIM_NEVER);
    CHECK(view[i].answer == 0);
    return sim_us - begin;
}

static void note(struct latency *l, int64_t us)
{
    l->sum += us;
    l->count++;
    if (us > l->max) l->max = us;
}

static unsigned clients, clients_left, commits_each;
static bool over;
static struct latency calm, beside_checkpoint;
static bool checkpoint_runs;
static uint64_t random_state = 1;

static int64_t think_us(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (int64_t)(random_state >> 33) % THINK_US;
}

/* Client i changes its own page, again and again. */
static void *client_main(void *number)
{
    unsigned i = (unsigned)(uintptr_t)number;
    for (unsigned n = 1; n <= commits_each; n++) {
        bool before = checkpoint_runs;
        int64_t us = commit(i, PAGES - CLIENTS_MAX + i, 1, n);
        note(before && checkpoint_runs ? &beside_checkpoint : &calm, us);
        sim_sleep(think_us());
    }
    if (--clients_left == 0) over = true;
    return NULL;
}

/* Many dirty pages, and a checkpoint that brings them home: again and again. */
static void *checkpoints_main(void *unused)
{
    (void)unused;
    for (uint64_t round = 1; !over; round++) {
        for (uint64_t p = 0; p < 1600 && !over; p += 100) commit(VIEWS - 1, p, 100, round);
        server_lock();
        checkpoint_runs = true;
        CHECK(checkpoint_wait() == 0);
        checkpoint_runs = false;
        server_unlock();
    }
    return NULL;
}

/* Pages are wanted that take a second each. */
static void *slow_main(void *unused)
{
    (void)unused;
    for (uint64_t p = 0; !over; p = (p + 4) % 1024) {
        const struct kd_message m = {.word = {cookie_of(1, 0), p, 1}};
        pager_bring(&m);
    }
    return NULL;
}

static void *start_main(void *extra)
{
    struct disk_io io;
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE, .name = "box"};
    struct wire_opened out;
    crc32c_choose(NULL);
    CHECK(disk_open(&io) && store_start(&io) && server_start());
    CHECK(container_open(CLIENT, &how, &out) == 0 && out.container == 1);
    for (uint64_t p = 0; p < PAGES; p += 128) commit(0, p, 128, 1);
    server_lock();
    CHECK(checkpoint_wait() == 0);
    server_unlock();
    memset(&device, 0, sizeof(device));
    for (uintptr_t i = 0; i < clients; i++) sim_start(client_main, (void *)i);
    if (extra) sim_start((void *(*)(void *))(uintptr_t)extra, NULL);
    return NULL;
}

static void simulate(unsigned how_many, unsigned commits, void *(*extra)(void *))
{
    clients = clients_left = how_many;
    commits_each = commits;
    disk = calloc(1, DISK_BYTES);
    sim_start(start_main, (void *)(uintptr_t)extra);
    CHECK(sim_run(&over));
    CHECK(log_disorder == 0);
}

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
    CHECK(device.flushes > 2);
    result->a = (double)(device.flushes - 2) / 1000;        /* without the first and the last */
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
    CHECK(device.writes == 1000 && device.flushes == 1000);
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
static void child_checkpoint(void)
{
    simulate(8, 2000, checkpoints_main);
    result->c = (double)beside_checkpoint.sum / (double)beside_checkpoint.count;
    result->d = (double)beside_checkpoint.max;
    CHECK(beside_checkpoint.count > 100);
    printf("# 8 clients, commit without a checkpoint: %.0f us, at most %.0f; beside one: %.0f, at "
           "most "
           "%.0f (%llu commits)\n",
           result->a, result->b, result->c, result->d, (unsigned long long)beside_checkpoint.count);
}
static void a_checkpoint_at_most_doubles_a_commits_time(void **state)
{
    (void)state;
    in_child(child_calm);
    in_child(child_checkpoint);
    assert_true(result->c <= 2 * result->a);
    assert_true(result->d <= 2 * result->b);
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
    CHECK(device.writes == 2000 && device.flushes <= (uint64_t)tenths && device.flushes < 5);
    CHECK(server.durable_csn < server.last_csn);
    sim_sleep(99000);
    server_lock();
    CHECK(group_flush() == 0 && server.durable_csn == server.last_csn);
    server_unlock();
    result->a = (double)device.flushes;
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
    CHECK(device.flushes == 0 && server.durable_csn < server.last_csn);
    while (device.flushes == 0) sim_sleep(10);
    CHECK(sim_us <= due + 1020);
    sim_sleep(FLUSH_US);
    CHECK(device.flushes == 1 && server.durable_csn == server.last_csn && device.writes == 2);
    sim_sleep(200000);
    CHECK(device.flushes == 2 && device.writes == 3);       /* the empty group that proves them */
    laziness = 100;
    commit(0, 2, 1, 1);
    laziness = 0;
    commit(0, 3, 1, 1);
    CHECK(device.flushes == 3 && server.durable_csn == server.last_csn);
    sim_sleep(1000000);
    CHECK(device.flushes == 4);
    options.lazy_ms = 0;
    laziness = STORE_LAZY;
    commit(0, 0, 1, 2);
    CHECK(device.flushes == 5 && server.durable_csn == server.last_csn);
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
    simulate(8, 2000, checkpoints_main);
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
    device.flush_fails = true;
    sim_start(flusher_main, NULL);
    for (unsigned i = 1; i <= 2; i++) {
        sim_sleep(10);
        view[i] = (struct view){.queued = true, .token = 1, .first = i, .count = 1, .value = 1,
                                .lazy = laziness};
        sim_wake(&view[0].queued, true);
        while (!view[i].answered) sim_wait(view, SIM_NEVER);
        CHECK(view[i].answer == -EIO && page[i].word[WORD_A] == 1 && server.fenced);
    }
    CHECK(device.writes == 2 && device.flushes == 1);
    over = true;
    return NULL;
}
/* A lazy commit that waited when the store was fenced is waited for no more. */
static void *fenced_main(void *unused)
{
    (void)unused;
    laziness = STORE_LAZY;
    commit(0, 0, 1, 1);
    device.flush_fails = true;
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
    device.flush_fails = true;
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

static int bench(void)
{
    in_child(child_many);
    printf("1,000 one-page commits by each of 64 clients: flushes per 64\tflushes\t%.2f\t2\n",
           result->a);
    in_child(child_calm);
    in_child(child_checkpoint);
    printf("commit during a checkpoint against without, virtual time, mean\ttimes\t%.2f\t2\n",
           result->c / result->a);
    printf("commit during a checkpoint against without, virtual time, longest\ttimes\t%.2f\t2\n",
           result->d / result->b);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_gets_one_write_and_one_flush),
        cmocka_unit_test(sixty_four_clients_share_two_flushes),
        cmocka_unit_test(a_checkpoint_at_most_doubles_a_commits_time),
        cmocka_unit_test(a_slow_read_delays_no_commit),
        cmocka_unit_test(what_is_committed_goes_home_after_thirty_seconds),
        cmocka_unit_test(two_thousand_lazy_commits_take_a_handful_of_flushes),
        cmocka_unit_test(a_lazy_commit_is_durable_when_its_time_is_up),
        cmocka_unit_test(a_busy_committer_flushes_lazy_commits_in_time),
        cmocka_unit_test(a_page_goes_home_behind_the_flush_of_its_lazy_commit),
        cmocka_unit_test(no_lazy_commit_is_answered_behind_a_failed_flush),
        cmocka_unit_test(a_failed_flush_is_no_lack_of_room),
    };
    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
