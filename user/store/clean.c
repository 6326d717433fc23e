/*
 * clean.c - the cleaner: brings committed pages home, runs checkpoints, ends.
 *
 * Home pages are written in place and cost no log: the first record of a page after a checkpoint
 * began is a full image, so recovery never reads a home page, and a torn one does no harm.
 *
 * Chunks. A checkpoint that is due goes chunk by chunk (disk/chunk.c): runs of pages of one
 * container, of the size that was set for it (container_chunk) or CHUNK_PAGES. One that somebody
 * asked for, or without which the log is full, is of the whole store. No commit is half done in a
 * page that goes home: it has a version that was published as a whole and is durable (MG5), and one
 * that a transaction is changing has its old version there. Of a container whose chunks are to be
 * consistent, nobody commits while one goes home, so that all its pages are of one moment.
 *
 * Who commits comes first: while others do, a few pages go home at a time, and after those the disk
 * is left to them SHARE times as long.
 */
#include "copy.h"
#include "group.h"
#include "options.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLEAN_MIN    CLEAN_BATCH        /* pages cleaned per notice at least */
#define ROUNDS_MAX   1000               /* of a checkpoint that makes no progress */
#define RETRY_MS     100
#define STUCK_MS     20
#define CHUNK_PAGES  64                 /* of which no size was set */
#define SHARE        4                  /* of the disk's time, for one that homes take */

struct clean_batch {
    unsigned count;
    struct kd_page_io io[CLEAN_BATCH];
    struct { uint64_t container, page; } what[CLEAN_BATCH];
};
static struct clean_batch batch;        /* of the cleaner thread */
static bool closing;                    /* the cleaner is in the gate, to stay */
static bool in_gate;                    /* or until a chunk is home */

/* others_first gives the lock to whoever waits for it. */
static void others_first(void)
{
    server_unlock();
    server_lock();
}

/* ---- pages go home ---- */

/* batch_add adds a page, unless it was freed or deleted meanwhile. Lock held. */
static void batch_add(uint64_t id, uint64_t page)
{
    struct kd_page_io *io = &batch.io[batch.count];
    *io = (struct kd_page_io){.status = -EIO};
    if (store_page_home(server.store, id, page, &io->offset_bytes) < 0) return;
    if (container_object(id, page, &io->object, &io->page) < 0) return;
    batch.what[batch.count].container = id;
    batch.what[batch.count].page = page;
    batch.count++;
    container_by_id(id)->busy++;
}

int log_page_read(uint64_t offset, uint32_t crc, void *bytes)
{
    if (server.disk.read(server.disk.context, offset, bytes, PAGE_BYTES) < 0) return -EIO;
    return crc32c(0, bytes, PAGE_BYTES) == crc ? 0 : -EUCLEAN;
}

/* clean_from_log brings a page home whose newest version is in the log only, by its chain. Lock
 * held, dropped for the disk. This thread is the only one that writes homes and releases log. */
static int clean_from_log(uint64_t id, uint64_t page)
{
    static uint8_t bytes[PAGE_BYTES];
    struct store_page at;
    if (store_page_find(server.store, id, page, &at) < 0 || !at.dirty || !at.log_offset_bytes)
        return 0;
    server_unlock();
    int r = log_page_read(at.log_offset_bytes, at.log_crc, bytes);
    if (r == 0) r = server.disk.write(server.disk.context, at.offset_bytes, bytes, PAGE_BYTES);
    server_lock();
    if (r < 0) return r;
    server.home_writes++;
    /* a newer version of the page comes again */
    (void)store_page_cleaned(server.store, id, page, at.lsn, at.log_crc);
    return 0;
}

static bool met_brought;                /* a page that is being read was left out: look_again */

/* batch_settle tells the library of a home write, and then the kernel (MG2). Lock held. */
static int batch_settle(unsigned i)
{
    const struct kd_page_io *io = &batch.io[i];
    uint64_t id = batch.what[i].container;
    container_by_id(id)->busy--;
    if (io->status == -EIO) return -EIO;
    if (io->status == -ENOENT) return clean_from_log(id, batch.what[i].page);
    if (io->status < 0) return 0; /* busy: it comes again */
    if (is_brought(id, batch.what[i].page)) { /* it could leave, and the older one take its place */
        met_brought = true;
        return 0;
    }
    server.home_writes++;
    if (store_page_cleaned(server.store, id, batch.what[i].page, io->csn, io->crc) == 0)
        kd_object_cleaned(io->object, io->page, io->csn);
    return 0;
}

/* batch_is_ahead: was a page of the batch written by a lazy commit that is not flushed yet? */
static bool batch_is_ahead(void)
{
    struct store_page at;
    for (unsigned i = 0; server.durable_csn < server.last_csn && i < batch.count; i++)
        if (store_page_find(server.store, batch.what[i].container, batch.what[i].page, &at) == 0
            && at.lsn > server.durable_csn)
            return true;
    return false;
}

/* batch_write writes a batch home. The kernel passes over what became newer since (MG5); each
 * page's status says how it went. Lock held, dropped for the disk. */
static int batch_write(void)
{
    if (batch.count == 0) return 0;
    int flushed = batch_is_ahead() ? group_flush() : 0;
    for (unsigned i = 0; i < batch.count; i++) batch.io[i].csn = server.durable_csn + 1;
    server_unlock();
    if (flushed == 0) device_pages(true, batch.io, batch.count);
    server_lock();
    int r = 0;
    for (unsigned i = 0; i < batch.count; i++) {
        int e = batch_settle(i);
        if (r == 0) r = e;
    }
    for (unsigned i = 0; r == 0 && i < batch.count; i++)
        if (batch.io[i].status == -EUCLEAN) { /* then it comes again */
            met_brought |= is_brought(batch.what[i].container, batch.what[i].page);
            r = audit_mend(batch.what[i].container, batch.what[i].page, closing || in_gate);
        }
    batch.count = 0;
    pthread_cond_broadcast(&server.changed); /* those who wait for handles */
    return r;
}

/* in_a_hurry: has the log so little room left that a checkpoint comes before commits? */
static bool in_a_hurry(void)
{
    return store_log_free(server.store) < server.log_bytes / 8;
}

static bool for_kernel;                 /* the kernel waits for the pages cleaned now */

/* is_late: has the log less than a quarter left, or is somebody short of memory? */
static bool is_late(void)
{
    return for_kernel || server.clean_wanted || server.credit_low ||
           store_log_free(server.store) < server.log_bytes / 4;
}

void cleaner_step(void)
{
    uint64_t before = server.landed;
    while (group_flying() && server.landed == before && !in_a_hurry())
        pthread_cond_wait(&server.changed, &server.lock);
}

static uint64_t moves_before;           /* of groups, when a batch was last written */

/* others_busy: does somebody commit, or did so since moves_before? */
static bool others_busy(void)
{
    return group_flying() || server.launched + server.landed != moves_before;
}

/* others_commit leaves the disk to those who commit for a while. */
static void others_commit(uint64_t us)
{
    uint64_t now, until = disk_clock.microseconds(NULL) + us;
    while ((now = disk_clock.microseconds(NULL)) < until && !is_late() && !server.fenced &&
           others_busy())
        server_wait(&server.changed, until - now);
}

/* chunk_write brings a batch home; the next one comes after the landing of a group that is in the
 * air, and some time. Lock held, dropped for the disk. */
static int chunk_write(void)
{
    uint64_t begun = disk_clock.microseconds(NULL);
    moves_before = server.launched + server.landed;
    int r = batch_write();
    if (options.chunk_pages < CLEAN_BATCH && !closing && !in_gate) {
        cleaner_step();
        others_commit(SHARE * (disk_clock.microseconds(NULL) - begun));
    }
    return r;
}

static unsigned chunk_of(uint64_t id)
{
    const struct container *c = container_by_id(id);
    return c ? c->chunk : 0;
}

/* chunk_ends: is this page of another chunk than those in the batch? */
static bool chunk_ends(uint64_t id, uint64_t page)
{
    if (batch.count == 0) return false;
    uint64_t first = batch.what[0].page, before = batch.what[0].container;
    unsigned chunk = chunk_of(id);
    if (chunk && id == before) return page / chunk != first / chunk;
    return chunk || chunk_of(before);
}

/* batch_write_full writes a batch that is as large as it may be: while others commit, the disk is
 * theirs again soon, unless otherwise set. Lock held, dropped for the disk. */
static int batch_write_full(void)
{
    bool sized = batch.count && chunk_of(batch.what[0].container);
    bool gentle = others_busy() && !in_a_hurry() && batch.count && !sized;
    return batch.count < (gentle ? options.chunk_pages : CLEAN_BATCH) ? 0 : chunk_write();
}

/* clean_pages brings up to `pages` dirty pages home, in order. Lock held, dropped for the disk. */
static int clean_pages(uint64_t pages)
{
    uint64_t cursor = 0, id, page;
    store_lsn_t lsn;
    int r = 0;
    while (r == 0 && pages > 0 && store_dirty_next(server.store, &cursor, &id, &page, &lsn) == 0) {
        batch_add(id, page);
        pages--;
        r = batch_write_full();
    }
    int last = batch_write();
    return r ? r : last;
}

/* clean_laundry brings up to `pages` home that the kernel would evict next. *found: how many it
 * named. Lock held, dropped for the disk. */
static int clean_laundry(uint64_t pages, uint64_t *found)
{
    static struct kd_page_name names[CLEAN_BATCH];
    uint64_t id, page;
    int r = 0;
    for (*found = 0; r == 0 && *found < pages;) {
        uint64_t most = pages - *found < CLEAN_BATCH ? pages - *found : CLEAN_BATCH;
        long n = kd_clean_list(names, (unsigned)most);
        for (long i = 0; r == 0 && i < n; i++) {
            if (index_lock_page(names[i].cookie))
                index_lock_clean(names[i].cookie, names[i].page);
            else if (cookie_page(names[i].cookie, names[i].page, &id, &page) == 0)
                batch_add(id, page);
            r = batch_write_full();
        }
        if (n <= 0) break;
        *found += (uint64_t)n;
    }
    int last = batch_write();
    return r ? r : last;
}

/* clean_for_kernel cleans as the kernel wants frames. If it names none, any page will do. */
static int clean_for_kernel(uint64_t pages)
{
    uint64_t found;
    int r = clean_laundry(pages, &found);
    return r == 0 && found == 0 ? clean_pages(pages) : r;
}

/* ---- what nobody has open is given up ---- */

void room_wait(void)
{
    uint64_t mine = ++server.rooms.wanted;
    pthread_cond_signal(&server.work);
    while (server.rooms.done < mine && !server.fenced)
        pthread_cond_wait(&server.changed, &server.lock);
}

/* clean_leaving brings dirty pages of what leaves home. Lock held, dropped for the disk. */
static int clean_leaving(void)
{
    uint64_t cursor = 0, id, page, passed = 0;
    store_lsn_t lsn;
    int r = 0;
    if (server.read_only) return 0; /* the kernel has nothing that could not be read again */
    while (r == 0 && store_dirty_next(server.store, &cursor, &id, &page, &lsn) == 0) {
        const struct container *c = container_by_id(id);
        if (c && c->leaving) batch_add(id, page);
        if (++passed % CLEAN_BATCH == 0) others_first();
        r = batch_write_full();
    }
    int last = batch_write();
    return r ? r : last;
}

/* give_up_idle frees one object or many: closed first, leaves first. Lock dropped for the disk. */
static int give_up_idle(bool for_room)
{
    unsigned left = OBJECTS_FEW;
    if (for_room && left >= server.objects) left = server.objects ? server.objects - 1 : 0;
    if (!idle_choose(left)) return 0;
    int r = clean_leaving();
    if (r < 0) return r;
    gate_enter(true);
    idle_give_up();
    gate_leave();
    return 0;
}

/* ---- checkpoints ---- */

/* look_again waits for what has kept pages from going home: for the end of a read of them, however
 * slow the disk is, while the kernel has frames that the read may want; else a moment. 0: look
 * again; -EIO: it was in vain too often. Lock held, dropped meanwhile. */
static int look_again(int *rounds)
{
    bool met = met_brought, stuck = server.pagers_busy == PAGER_THREADS;
    met_brought = false;
    if (!met && (*rounds)++ == ROUNDS_MAX) return -EIO;
    server_pause(1);
    if (!met || !(server.clean_wanted || stuck)) return 0;
    server.clean_wanted = 0;
    return clean_for_kernel(CLEAN_MIN);
}

static int checkpoint_clean(void)
{
    uint64_t id, page;
    store_lsn_t lsn;
    int r = 0;
    for (;;) {
        int found = store_checkpoint_next(server.store, &id, &page, &lsn);
        if (found == -EAGAIN) {
            others_first();
            continue;
        }
        if (found < 0) break;
        if (chunk_ends(id, page)) r = chunk_write();
        if (r < 0) break;
        batch_add(id, page);
        r = batch_write_full();
        if (r < 0) break;
    }
    int last = batch_write();
    return r ? r : last;
}

static uint64_t chunk_size(void *unused, uint64_t id)
{
    (void)unused;
    unsigned pages = chunk_of(id);
    return pages ? pages : CHUNK_PAGES;
}

/* chunk_home brings home what is older than the chunk's redo point. */
static int chunk_home(struct store_chunk *chunk)
{
    uint64_t page;
    store_lsn_t lsn;
    int r = 0;
    for (int looks = 0, rounds = 0; r == 0; looks++) {
        while (r == 0 && (r = store_chunk_next(server.store, chunk, &page, &lsn)) == 0) {
            batch_add(chunk->object, page);
            r = batch_write_full();
        }
        int last = batch_write();
        if (r == -ENOENT || last < 0) return last;
        if (r == -EAGAIN) r = looks ? look_again(&rounds) : 0;
    }
    return r;
}

/* sweep_run brings each chunk home in its turn. Lock held, dropped for the disk. */
static int sweep_run(void)
{
    struct store_chunk chunk;
    int r = store_sweep_begin(server.store);
    while (r == 0 || r == -EAGAIN) {
        gate_enter(true);
        r = store_chunk_begin(server.store, chunk_size, NULL, &chunk);
        const struct container *c = r == 0 ? container_by_id(chunk.object) : NULL;
        in_gate = c && c->consistent;
        if (!in_gate) gate_leave();
        if (r == 0) r = chunk_home(&chunk);
        if (in_gate) gate_leave();
        in_gate = false;
    }
    return r == -ENOENT ? 0 : r;
}

/* checkpoint_write writes what seal has copied. Lock held, dropped for the disk. */
static int checkpoint_write(void)
{
    server_unlock();
    device_gentle(true);
    int r = store_checkpoint_write(server.store);
    device_gentle(false);
    server_lock();
    return r;
}

/* checkpoint_seal copies and writes the changed metadata, part by part; the last part is not
 * written yet. Lock held, dropped for the disk. */
static int checkpoint_seal(void)
{
    int r;
    while ((r = store_checkpoint_seal(server.store)) == -EAGAIN) {
        r = checkpoint_write();
        if (r < 0) break;
    }
    return r;
}

/* expired_say tells who needed old log, was too slow for it, and has lost it now. */
static void expired_say(void)
{
    static uint64_t said;
    struct store_stats stats;
    store_stats(server.store, &stats);
    if (stats.holds_expired == said) return;
    said = stats.holds_expired;
    say("the log is kept no longer for %s, which has lagged behind by half of it",
        stats.expired_owner);
}

/* checkpoint_run makes one. -ENOMEM: not begun; else fence the store. Lock dropped for the disk. */
static int checkpoint_run(bool by_chunks)
{
    server.checkpoints.due_us = 0;
    int r = by_chunks ? sweep_run() : 0;
    if (r < 0 && r != -EBUSY) return r; /* pages of a sweep that came to nothing: all at once */
    gate_enter(true);
    r = store_checkpoint_begin(server.store);
    gate_leave();
    expired_say();
    if (r < 0) return r;
    if (!by_chunks) server.checkpoints.due_us = 0;
    step(STEP_CK1);
    for (int rounds = 0;;) {
        r = checkpoint_clean();
        if (r == 0) r = checkpoint_seal();
        if (r != -EBUSY) break;
        r = look_again(&rounds);
        if (r < 0) break;
    }
    if (r < 0) return r;
    step(STEP_CK2);
    r = checkpoint_write();
    if (r == 0) step(STEP_CK3);
    int applied = store_checkpoint_apply(server.store);
    if (applied == 0) step(STEP_CK4);
    return r < 0 ? r : applied;
}

/* ---- the kernel is short of credits ---- */

/* credits_help makes room, by two checkpoints at most, if credits are short. Lock held. */
static int credits_help(void)
{
    int r = 0;
    credits_update(true);
    for (int i = 0; r == 0 && i < 2 && server.credits < credits_target(); i++) {
        r = checkpoint_run(false);
        credits_update(true);
    }
    server.credit_short = kd_credit_grant(server.commit_port, 0) == 0;
    return r;
}

/* ---- the end ---- */

/* store_end brings all pages home; the superblock says so. Lock dropped for that; in the gate. */
static int store_end(void)
{
    struct store_stats stats;
    int r = server.fenced;
    if (server.read_only) return 0;
    for (int rounds = 0; r == 0;) {
        r = clean_pages(~0ull);
        store_stats(server.store, &stats);
        if (stats.pages_dirty == 0) break;
        if (r == 0) r = look_again(&rounds);
    }
    return r < 0 ? r : store_close(server.store);
}

/* stop ends the manager, as init wants. The gate and, once the store is closed, the lock are kept,
 * so nobody commits or looks anything up any more. Lock held. */
static void stop(void)
{
    uint64_t started = disk_clock.microseconds(NULL), homes = server.home_writes;
    kept_stop();
    if (copy_is()) copy_stop(group_flush());
    gate_enter(true);
    closing = true;
    backup_stop();
    int r = store_end();
    if (server.read_only)
        say("nothing was written: the store is as damaged as it was");
    else if (r == 0)
        say("closed, %llu pages brought home, in %llu ms",
            (unsigned long long)(server.home_writes - homes),
            (unsigned long long)((disk_clock.microseconds(NULL) - started) / 1000));
    else
        say("not closed: %s. The next start recovers", strerror(-r));
    struct kd_message reply = {.status = r < 0 ? -EIO : 0, .handle = -1};
    kd_reply(server.stop_token, &reply);
    _exit(r < 0 ? 1 : 0);
}

/* ---- the thread ---- */

static bool time_is_up(void)
{
    return server.checkpoints.due_us && disk_clock.microseconds(NULL) >= server.checkpoints.due_us;
}

static bool work_is_due(void)
{
    return server.stop_token
           || (!server.fenced
               && (scrub_repair_due() || audit_mend_due() || server.clean_wanted ||
                   server.credit_low || server.idle_due
                   || server.rooms.done < server.rooms.wanted
                   || server.checkpoints.done < server.checkpoints.wanted
                   || store_should_checkpoint(server.store) || time_is_up()));
}

/* cleaner_wait waits for work. While all pagers wait in the kernel, perhaps for frames, nobody
 * receives the CLEAN notice that would bring frames. So then we look again soon. Lock held. */
static void cleaner_wait(void)
{
    uint64_t done = server.pagers_done, now = disk_clock.microseconds(NULL);
    uint64_t due = server.fenced ? 0 : server.checkpoints.due_us, kept = kept_due_us();
    if (kept && (!due || kept < due)) due = kept;
    if (server.pagers_busy == PAGER_THREADS) {
        if (server_wait(&server.work, STUCK_MS * 1000) == ETIMEDOUT && server.pagers_done == done)
            server.clean_wanted = CLEAN_MIN;
    } else if (due > now) {
        server_wait(&server.work, due - now);
    } else if (!due) {
        pthread_cond_wait(&server.work, &server.lock);
    }
    kept_look();
}

/* work_round does one round of what is due. Lock held. */
static int work_round(void)
{
    int r = 0;
    uint64_t wanted = server.checkpoints.wanted, pages = server.clean_wanted;
    uint64_t rooms = server.rooms.wanted;
    bool low = server.credit_low, idle = server.idle_due, room = server.rooms.done < rooms;
    if (scrub_repair_due()) scrub_repair();
    if (audit_mend_due()) audit_mend_one();
    server.clean_wanted = 0;
    server.credit_low = server.idle_due = false;
    for_kernel = pages || low;
    if (pages) r = clean_for_kernel(pages > CLEAN_MIN ? pages : CLEAN_MIN);
    if (r == 0 && low) r = credits_help();
    for_kernel = false;
    bool wished = wanted > server.checkpoints.done;
    int should = store_should_checkpoint(server.store);
    if (r == 0 && (wished || should || time_is_up()))
        r = checkpoint_run(!wished && should < 2 && options.chunk_pages < CLEAN_BATCH);
    if (r == -ENOMEM) {
        if (server.checkpoints.failed <= server.checkpoints.done)
            say("no memory for a checkpoint; it is tried again");
        server.checkpoints.failed = wanted;
        server.idle_due |= idle;
        server.checkpoints.due_us = disk_clock.microseconds(NULL);
        pthread_cond_broadcast(&server.changed);
        server_pause(RETRY_MS);
        return 0;
    }
    if (r == 0 && (idle || room)) r = give_up_idle(room);
    if (r < 0) return r;
    server.checkpoints.done = wanted;
    server.rooms.done = rooms;
    credits_update(true);
    pthread_cond_broadcast(&server.changed);
    return 0;
}

void *cleaner_main(void *unused)
{
    (void)unused;
    server_lock();
    for (;;) {
        kept_look();
        while (!work_is_due()) cleaner_wait();
        if (server.stop_token) stop();
        int r = work_round();
        if (r < 0) server_fence("bringing pages home failed", r);
    }
}
