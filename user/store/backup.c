/*
 * backup.c - STORE_BACKUP: copies the store to a disk of the client's, while others commit.
 *
 * disk/backup.c says which piece is next, and keeps the log that the copy needs. A thread reads
 * the piece, without the lock, while another one writes the piece before to the client's disk;
 * between two pieces groups that are in the air go first. The disk is opened by a right that the
 * client passes (request.c): the manager itself has none to any disk but its own.
 *
 * The hold ends with the copy, with the manager's end, or when the log runs short (HL2): then the
 * round begins anew.
 */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Guarded by server.lock: */
static struct {
    bool running, stop;
    struct store_backup pieces;
} backup;
/* What the thread has, while one runs: */
static struct {
    int disk;
    bool force;
    uint64_t token, unreadable, bytes;
    char *buffer;               /* for a piece; it and the writer's change places */
} copy;

/* `writer` is the other thread, which writes: */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *buffer;
    uint64_t offset, count;     /* count: to be written; 0: nothing is */
    int result;
    bool end, gone;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int read_some(uint64_t offset, char *bytes, uint64_t count)
{
    return server.disk.read(server.disk.context, offset, bytes, count);
}

/* piece_read reads a piece: what it cannot read of homes is zeros in the copy: perhaps nobody needs
 * it, else its page is lost in both. -EIO: it is metadata or log. */
static int piece_read(const struct store_backup *b)
{
    if (b->zeros) memset(copy.buffer, 0, b->bytes);
    if (b->zeros || read_some(b->offset, copy.buffer, b->bytes) >= 0) return 0;
    for (uint32_t at = 0; at < b->bytes; at += PAGE_BYTES) {
        if (read_some(b->offset + at, copy.buffer + at, PAGE_BYTES) >= 0) continue;
        say("backup: byte %llu of the disk cannot be read", (unsigned long long)b->offset + at);
        if (!b->homes) return -EIO;
        memset(copy.buffer + at, 0, PAGE_BYTES);
        copy.unreadable++;
    }
    return 0;
}

static int copy_write(uint64_t offset, const void *bytes, uint64_t count)
{
    long r = KD4(KD_BLOCK_WRITE, copy.disk, offset, bytes, count);
    copy.bytes += count;
    return r < 0 ? (int)r : 0;
}

static int copy_flush(void)
{
    long r = KD1(KD_BLOCK_FLUSH, copy.disk);
    return r < 0 ? (int)r : 0;
}

static void *writer_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&writer.lock);
    while (!writer.end || writer.count) {
        if (!writer.count) {
            pthread_cond_wait(&writer.changed, &writer.lock);
            continue;
        }
        pthread_mutex_unlock(&writer.lock);
        int r = copy_write(writer.offset, writer.buffer, writer.count);
        pthread_mutex_lock(&writer.lock);
        if (r < 0) writer.result = r;
        writer.count = 0;
        pthread_cond_broadcast(&writer.changed);
    }
    writer.gone = true;
    pthread_cond_broadcast(&writer.changed);
    pthread_mutex_unlock(&writer.lock);
    return NULL;
}

/* writer_next waits for the piece before, and gives the writer this one (none: count 0). It returns
 * what became of those before. */
static int writer_next(uint64_t offset, uint64_t count)
{
    pthread_mutex_lock(&writer.lock);
    while (writer.count) pthread_cond_wait(&writer.changed, &writer.lock);
    int r = writer.result;
    if (r == 0 && count) {
        char *free_one = writer.buffer;
        writer.buffer = copy.buffer;
        copy.buffer = free_one;
        writer.offset = offset;
        writer.count = count;
        pthread_cond_broadcast(&writer.changed);
    }
    pthread_mutex_unlock(&writer.lock);
    return r;
}

static int writer_begin(void)
{
    pthread_t thread;
    writer.count = writer.result = writer.end = writer.gone = 0;
    writer.buffer = malloc(STORE_BACKUP_BYTES);
    int r = writer.buffer ? -pthread_create(&thread, NULL, writer_main, NULL) : -ENOMEM;
    if (r == 0)
        pthread_detach(thread);
    else
        free(writer.buffer);
    return r;
}

static void writer_end(void)
{
    pthread_mutex_lock(&writer.lock);
    writer.end = true;
    pthread_cond_broadcast(&writer.changed);
    while (!writer.gone) pthread_cond_wait(&writer.changed, &writer.lock);
    pthread_mutex_unlock(&writer.lock);
    free(writer.buffer);
}

/* piece_copy copies one piece. Lock held, dropped for the disks. */
static int piece_copy(const struct store_backup *b)
{
    server_unlock();
    int r = piece_read(b);
    if (r == 0) r = writer_next(b->offset, b->bytes);
    server_lock();
    cleaner_step();
    return r;
}

/* pieces_copy copies all pieces. Lock held, dropped meanwhile. */
static int pieces_copy(void)
{
    struct store_backup *b = &backup.pieces;
    int r = 0;
    while (r == 0 && !backup.stop) {
        r = store_backup_next(server.store, b);
        if (r == -EAGAIN)
            r = checkpoint_wait();
        else if (r == 0 && b->bytes)
            r = piece_copy(b);
    }
    if (!backup.stop) store_backup_end(server.store, b);
    return backup.stop ? -ECANCELED : r == -ENOENT ? 0 : r;
}

/* slots_write replaces the mark last; until then nobody opens the copy. */
static int slots_write(void)
{
    const struct store_backup *b = &backup.pieces;
    int r = copy_flush();
    for (int i = 2; r == 0 && i >= 0; i--) {
        r = copy_write(b->slot_offset[i], b->slot[i], PAGE_BYTES);
        if (r == 0) r = copy_flush();
    }
    return r;
}

static int mark_write(void)
{
    store_backup_mark(copy.buffer);
    int r = copy_write(0, copy.buffer, PAGE_BYTES);
    return r < 0 ? r : copy_flush();
}

/* disk_is_free: -EEXIST: the first blocks, where a store has a superblock and its signpost, are
 * neither zeros nor a copy that was begun. */
static int disk_is_free(void)
{
    static const char zeros[2 * PAGE_BYTES];
    char *mark = copy.buffer + sizeof(zeros);
    long r = KD4(KD_BLOCK_READ, copy.disk, 0, copy.buffer, sizeof(zeros));
    store_backup_mark(mark);
    if (r < 0) return (int)r;
    return memcmp(copy.buffer, zeros, sizeof(zeros)) && memcmp(copy.buffer, mark, PAGE_BYTES)
               ? -EEXIST : 0;
}

static void *backup_main(void *unused)
{
    (void)unused;
    int r = copy.force ? 0 : disk_is_free();
    if (r == 0) r = mark_write();
    if (r == 0) r = writer_begin();
    if (r == 0) {
        server_lock();
        r = pieces_copy();
        server_unlock();
        int last = writer_next(0, 0);
        if (r == 0) r = last;
        writer_end();
    }
    if (r == 0) r = slots_write();
    KD1(KD_HANDLE_CLOSE, copy.disk);
    free(copy.buffer);
    say("backup: %s after %llu KiB, in %u rounds, %u begun anew", r ? strerror(-r) : "done",
        (unsigned long long)copy.bytes >> 10, backup.pieces.rounds, backup.pieces.lost);
    struct kd_message reply = {.status = r, .handle = -1,
                               .word = {copy.bytes >> 10, copy.unreadable,
                                        backup.pieces.rounds, backup.pieces.lost}};
    uint64_t token = copy.token;
    server_lock();
    backup.running = false;
    server_unlock();
    kd_reply(token, &reply);
    return NULL;
}

int backup_begin(uint64_t token, int disk, uint64_t bytes, bool force)
{
    struct store_stats stats;
    pthread_t thread;
    server_lock();
    store_stats(server.store, &stats);
    int r = server_writable();
    if (r == 0 && backup.running) r = -EBUSY;
    if (r == 0 && bytes < stats.disk_bytes) r = -ENOSPC;
    char *buffer = r == 0 ? malloc(STORE_BACKUP_BYTES) : NULL;
    if (r == 0 && !buffer) r = -ENOMEM;
    if (r == 0) {
        memset(&backup.pieces, 0, sizeof(backup.pieces));
        memset(&copy, 0, sizeof(copy));
        copy.disk = disk;
        copy.force = force;
        copy.token = token;
        copy.buffer = buffer;
        r = -pthread_create(&thread, NULL, backup_main, NULL);
        backup.running = r == 0;
    }
    if (r == 0)
        pthread_detach(thread);
    else
        free(buffer);
    server_unlock();
    return r;
}

void backup_stop(void)
{
    if (backup.running) store_backup_end(server.store, &backup.pieces);
    backup.stop = true;
}
