/*
 * time.c - see time.h.
 */
#include "turns/time.h"

#include "format.h"

/* ---- the disk: writes and flushes one after the other; reads beside them ---- */

static uint8_t *disk;
static int64_t disk_free_at;
struct requests requests;
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
    requests.writes++;
    log_write_check(bytes, count);
    disk_serve(REQUEST_US + (int64_t)(count / 4096) * PAGE_US);
    memcpy(disk + offset, bytes, count);
    return 0;
}

static long block_flush(void)
{
    requests.flushes++;
    disk_serve(FLUSH_US);
    return requests.flush_fails ? -EIO : 0;
}

int home_write(uint64_t offset, const void *bytes)
{
    memcpy(disk + offset, bytes, 4096);
    return 0;
}

/* ---- the kernel ---- */

uint32_t laziness;
uint64_t homes_passed_over;
bool starving, copying;

/* MG5: commits may be published while the disk works for others, and then do not go home. */
static long homes_write(struct kd_page_io *io, long count)
{
    if (laziness) sim_sleep(REQUEST_US); /* somebody else runs before the kernel looks */
    disk_serve(count * (REQUEST_US + PAGE_US));
    long r = kernel_homes(io, count);
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
    case KD_BLOCK_READ:
        if (copying) disk_serve(REQUEST_US + d / 4096 * PAGE_US);
        memcpy((void *)c, disk + b, (size_t)d);
        return 0;
    case KD_BLOCK_WRITE:
        if (a == COPY_DISK) return sim_sleep(REQUEST_US + d / 4096 * PAGE_US), 0;
        return block_write((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_BLOCK_FLUSH:
        if (a == COPY_DISK) return sim_sleep(FLUSH_US), 0;
        return block_flush();
    case KD_BLOCK_WRITE_PAGES: return homes_write((void *)b, c);
    case KD_BLOCK_READ_PAGES: sim_sleep(SLOW_READ_US); return 0;
    default: return sim_call(number, a, b, c, d);
    }
}

/* ---- clients ---- */

struct latency calm, beside_checkpoint;

int64_t commit(unsigned i, uint64_t first, uint64_t count, uint64_t value)
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

unsigned clients;
bool over, checkpoint_runs, by_chunks;
uint64_t sweeps;
static unsigned clients_left, commits_each;
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

/* One that is due goes by chunks. Lock held, dropped. */
static void checkpoint_due(void)
{
    struct store_stats before, now;
    store_stats(server.store, &before);
    server.checkpoints.due_us = 1;
    pthread_cond_signal(&server.work);
    do {
        server_unlock();
        sim_sleep(100);
        server_lock();
        store_stats(server.store, &now);
    } while (now.checkpoints == before.checkpoints && !over);
    const struct superblock *super = &server.store->super;
    sweeps += super->checkpoints[super->checkpoint_index].pages_lsn != 0;
}

void *checkpoints_main(void *unused)
{
    (void)unused;
    for (uint64_t round = 1; !over; round++) {
        for (uint64_t p = 0; p < 1600 && !over; p += 100) commit(VIEWS - 1, p, 100, round);
        server_lock();
        checkpoint_runs = true;
        if (by_chunks) checkpoint_due();
        else CHECK(checkpoint_wait() == 0);
        checkpoint_runs = false;
        server_unlock();
    }
    return NULL;
}

void *slow_main(void *unused)
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
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE, .name = "box"};
    struct wire_opened out;
    CHECK(manager_start());
    CHECK(container_open(CLIENT, &how, &out) == 0 && out.container == 1);
    for (uint64_t p = 0; p < PAGES; p += 128) commit(0, p, 128, 1);
    server_lock();
    CHECK(checkpoint_wait() == 0);
    server_unlock();
    memset(&requests, 0, sizeof(requests));
    for (uintptr_t i = 0; i < clients; i++) sim_start(client_main, (void *)i);
    if (extra) sim_start((void *(*)(void *))(uintptr_t)extra, NULL);
    return NULL;
}

void simulate(unsigned how_many, unsigned commits, void *(*extra)(void *))
{
    clients = clients_left = how_many;
    commits_each = commits;
    disk = calloc(1, DISK_BYTES);
    sim_start(start_main, (void *)(uintptr_t)extra);
    CHECK(sim_run(&over));
    CHECK(log_disorder == 0);
}
