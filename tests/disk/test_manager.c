/*
 * test_manager.c - the store manager over a kernel made of arrays and a disk that fails on command.
 *
 * Aim     what a guest cannot show: the fence after a failed write, flush or home write; one view
 *         refused beside others in its group; a log that is too small for the work; memory that
 *         ends; how the manager ends.
 * Method  the manager's files are compiled in, and kd_system() is ours: one container of 2048
 *         pages, views that commit words, a disk in shared memory. Each case runs in a child, so
 *         its end is a power cut; then the parent recovers the disk and compares.
 */
#include <stdint.h>
#include <stdlib.h>

static size_t malloc_max = SIZE_MAX;        /* more than this at once is not there */
#define malloc(bytes) ((bytes) > malloc_max ? NULL : malloc(bytes))

#include "manager_kernel.h"
#include "internal.h"
#include "tools/lib/tools.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DISK_BYTES = 24 << 20 };

/* Shared with the parent. */
static struct shared {
    uint64_t acknowledged[PAGES];       /* the last value whose commit was acknowledged */
    uint64_t tried[PAGES];
    uint8_t disk[DISK_BYTES];
    uint8_t copy[DISK_BYTES];           /* of disk COPY: where a backup goes */
} *shared;
enum { COPY = 2, BACKUP_TOKEN = 77 };

/* ---- the disk ---- */

static atomic_int writes_left = -1, flushes_left = -1, homes_left = -1;    /* then one fails */
static int log_writes_after_failure;
static bool failed;

static bool fails(atomic_int *left)
{
    if (failed) log_writes_after_failure++;
    if (*left < 0 || (*left)-- > 0) return false;
    failed = true;
    return true;
}

static long block_write(uint64_t offset, const void *bytes, uint64_t count)
{
    if (fails(&writes_left)) return -EIO;
    memcpy(shared->disk + offset, bytes, count);
    return 0;
}

/* ---- the kernel ---- */

static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static uint64_t credits;
static bool no_object;                                      /* can be made */
static const void *next_batch;                              /* of the next commit that is posted */
static uint64_t next_batch_bytes;
/* what happens once while the disk does that */
static void (*flush_beside)(void), (*read_beside)(void);
static atomic_uint nice_reads, nice_answers;                /* by a thread that goes last */
static bool eio_early;  /* one heard EIO before the store was fenced */

static long receive(long port, struct kd_message *m, long timeout_ms)
{
    struct timespec until;
    long result = timeout_ms ? -ETIMEDOUT : -EAGAIN;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms < 0 ? 1000 : timeout_ms / 1000 + 1;
    pthread_mutex_lock(&kernel);
    do {
        if (port == server.commit_port && commit_take(m) == 0) result = 0;
    } while (result < 0 && timeout_ms && !pthread_cond_timedwait(&posted, &kernel, &until));
    pthread_mutex_unlock(&kernel);
    return result;
}

static void view_answered(void) { pthread_cond_broadcast(&posted); }

/* while a page goes home, one of metadata changes, and finds no memory */
static atomic_bool starving;

static int home_write(uint64_t offset, const void *bytes)
{
    if (starving) server.store->checkpoint.short_of_memory = true;
    if (fails(&homes_left)) return -EIO;
    memcpy(shared->disk + offset, bytes, 4096);
    return 0;
}

static uint64_t unreadable_from, unreadable_to;             /* of the store's disk */
static atomic_bool copy_waits;                              /* disk COPY does not answer */
static struct kd_message backup_reply;
static atomic_bool backup_replied;

static long copy_write_to(uint64_t offset, const void *bytes, uint64_t count)
{
    while (copy_waits) {                /* others go on: kd_system() holds this */
        pthread_mutex_unlock(&kernel);
        usleep(1000);
        pthread_mutex_lock(&kernel);
    }
    memcpy(shared->copy + offset, bytes, count);
    return 0;
}

static long kernel_call(long number, long a, long b, long c, long d)
{
    switch (number) {
    case KD_BLOCK_OPEN:
        *(struct kd_block_info *)b = (struct kd_block_info){ DISK_BYTES, 512, 0 };
        return 1;
    case KD_BLOCK_READ:
        nice_reads += niceness == 19;
        if ((uint64_t)b < unreadable_to && (uint64_t)(b + d) > unreadable_from) return -EIO;
        memcpy((void *)c, shared->disk + b, (size_t)d);
        return 0;
    case KD_PORT_REPLY:
        nice_answers += niceness == 19;
        if (a == BACKUP_TOKEN) backup_reply = *(struct kd_message *)b;
        if (a == BACKUP_TOKEN) backup_replied = true;
        break;
    case KD_BLOCK_WRITE:
        return a == COPY ? copy_write_to((uint64_t)b, (void *)c, (uint64_t)d)
                         : block_write((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_BLOCK_FLUSH: return a != COPY && fails(&flushes_left) ? -EIO : 0;
    case KD_BLOCK_WRITE_PAGES: return write_homes((void *)b, c);
    case KD_OBJECT_CREATE: if (no_object) return -ENOMEM; break;
    case KD_TXN_REFUSE: eio_early |= c == EIO && !server.fenced; break;
    case KD_CREDIT_GRANT: credits += (uint64_t)b; return 1;
    case KD_PORT_NOTIFY: pthread_cond_broadcast(&posted); break;
    default: break;
    }
    return kernel_plain(number, a, b, c, d);
}

long kd_system(long number, long a, long b, long c, long d)
{
    if (number == KD_PORT_RECEIVE) return receive(a, (void *)b, c);
    void (**beside)(void) = number == KD_BLOCK_FLUSH ? &flush_beside : &read_beside,
         (*now)(void) = *beside;
    if (now && (number == KD_BLOCK_FLUSH || number == KD_BLOCK_READ)) {
        *beside = NULL;
        now();
    }
    pthread_mutex_lock(&kernel);
    long r = kernel_call(number, a, b, c, d);
    pthread_mutex_unlock(&kernel);
    return r;
}

/* ---- clients; each check in a child ends it with its line ---- */

#define CHECK(e) \
    ((e) ? (void)0 : (dprintf(1, "# %s, line %d; log: %s\n", #e, __LINE__, log_line), _exit(3)))

static void client_start(void)
{
    struct disk_io io;
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE, .name = "box"};
    struct wire_opened out;
    crc32c_choose(NULL);
    CHECK(disk_open(&io) && store_start(&io) && server_start());
    CHECK(container_open(CLIENT, &how, &out) == 0 && out.container == 1);
}

static void commit_post(unsigned i, uint64_t first, uint64_t count, uint64_t value)
{
    pthread_mutex_lock(&kernel);
    uint64_t token = view[i].token + 1;
    view[i] = (struct view){.queued = true, .token = token, .first = first, .count = count,
                            .value = value, .batch = next_batch,
                            .batch_bytes = next_batch_bytes};
    next_batch = NULL;
    next_batch_bytes = 0;
    for (uint64_t p = first; p < first + count; p++) shared->tried[p] = value;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&kernel);
}

static int commit_wait(unsigned i)
{
    pthread_mutex_lock(&kernel);
    while (!view[i].answered) pthread_cond_wait(&posted, &kernel);
    for (uint64_t p = view[i].first; p < view[i].first + view[i].count; p++)
        if (view[i].answer == 0)
            shared->acknowledged[p] = view[i].value;
        else if (view[i].answer != -EIO)
            shared->tried[p] = shared->acknowledged[p]; /* refused: it has left nothing */
    pthread_mutex_unlock(&kernel);
    return view[i].answer;
}

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

static int commit(uint64_t first, uint64_t count, uint64_t value)
{
    commit_post(0, first, count, value);
    return commit_wait(0);
}

/* ---- the parent ---- */

static void run_child_to(int wanted, void (*body)(void))
{
    int status;
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        body();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, wanted << 8);
}
static void run_child(void (*body)(void)) { run_child_to(0, body); }

static int image_read(void *c, uint64_t at, void *to, size_t n)
{
    (void)c;
    memcpy(to, shared->disk + at, n);
    return 0;
}

static int disk_image_write(void *c, uint64_t at, const void *from, size_t n)
{
    (void)c;
    memcpy(shared->disk + at, from, n);
    return 0;
}

static int image_flush(void *c) { (void)c; return 0; }

/* Recovers; each page holds the last acknowledged value, or a later one whose fate was unknown.
 * True: the store had been closed. */
static bool recover_and_compare(void)
{
    const struct disk_io io = {NULL, DISK_BYTES, image_read, disk_image_write, image_flush};
    struct store_report report;
    struct store *store;
    uint64_t words[512];
    const char *why;
    assert_int_equal(store_open(&io, &disk_memory, NULL, &store, &report), 0);
    for (uint64_t p = 0; p < PAGES; p++) {
        assert_int_equal(store_page_read(store, 1, p, words), 0);
        if (words[8] != shared->tried[p]) assert_int_equal(words[8], shared->acknowledged[p]);
    }
    assert_int_equal(store_check(store, &why), 0);
    store_abandon(store);
    return report.was_clean;
}

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
    for (uint64_t i = 1; i < 100 && !none; i++) {  /* another one may have brought the pages home */
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
    static union answer out;
    const struct kd_message m = {.kind = kind, .process = CLIENT, .word = {word0, word1},
                                 .buffer = data, .data_bytes = bytes};
    struct kd_message reply = {.handle = -1};
    return request(&m, &reply, &out);
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
    CHECK(ask(STORE_ENCODER, 77, 0, NULL, 0) == -EIO &&
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

/* Two threads flush: what the first one's failure lost, the other one's success must not hide. */
static void child_flush_again(void)
{
    client_start();
    flushes_left = 0;
    CHECK(device_flush(NULL) == -EIO && device_flush(NULL) == -EIO);
}
static void no_flush_succeeds_after_a_failed_one(void **state)
{
    (void)state;
    run_child(child_flush_again);
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

static void stop_and_wait(void)
{
    const struct kd_message m = {.kind = STORE_STOP, .token = 7, .process = INIT_PROCESS};
    struct kd_message by_another = m;
    by_another.process = CLIENT;
    CHECK(!request_stop(&by_another) && request_stop(&m));
    for (;;) pause();
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
    while (scrub_rounds() == before) CHECK(commit(200, 2, value++) == 0);
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
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES) == 0);
    while (!backup_replied) CHECK(commit(200, 2, 3) == 0);
    return backup_reply.status;
}
static void child_backs_up(void)
{
    struct store_page at;
    client_start();
    CHECK(commit(0, 150, 1) == 0 && commit(200, 2, 3) == 0);
    CHECK(backup_begin(1, COPY, DISK_BYTES / 2) == -ENOSPC);
    copy_waits = true;
    backup_replied = false;
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES) == 0);
    CHECK(backup_begin(1, COPY, DISK_BYTES) == -EBUSY);
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
    const struct disk_io io = {NULL, DISK_BYTES, image_read, disk_image_write, image_flush};
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
    CHECK(backup_begin(BACKUP_TOKEN, COPY, DISK_BYTES) == 0);
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
    struct disk_io io;
    memset(shared->disk, 'x', DISK_BYTES);
    CHECK(disk_open(&io) && !store_start(&io) && strstr(log_line, "refused"));
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
        cmocka_unit_test(after_a_failed_write_the_store_is_fenced),
        cmocka_unit_test(after_a_failed_flush_the_store_is_fenced),
        cmocka_unit_test(after_a_failed_home_write_the_store_is_fenced),
        cmocka_unit_test(who_heard_eio_hears_of_no_success_from_a_fenced_store),
        cmocka_unit_test(what_is_durable_beside_the_fence_is_published),
        cmocka_unit_test(a_failed_write_in_the_air_has_fenced_the_store),
        cmocka_unit_test(no_flush_succeeds_after_a_failed_one),
        cmocka_unit_test(a_commit_spills_beside_a_transaction_that_has_spilled),
        cmocka_unit_test(a_slow_read_of_a_spilled_page_delays_no_commit),
        cmocka_unit_test(who_is_refused_for_want_of_memory_is_in_no_log),
        cmocka_unit_test(pages_without_an_object_are_not_leased),
        cmocka_unit_test(the_manager_ends_with_a_clean_store),
        cmocka_unit_test(a_fenced_store_is_not_closed),
        cmocka_unit_test(a_store_with_pages_not_at_home_is_not_closed),
        cmocka_unit_test(one_process_does_not_get_all_handles),
        cmocka_unit_test(rot_is_found_and_mended_while_others_commit),
        cmocka_unit_test(a_page_that_is_lost_is_said_once),
        cmocka_unit_test(a_copy_is_made_while_others_commit),
        cmocka_unit_test(a_copy_without_metadata_is_not_finished),
        cmocka_unit_test(the_manager_ends_beside_a_copy),
        cmocka_unit_test(a_foreign_disk_is_not_formatted),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
