/*
 * copy_backup.c - COPY_BACKUP: the spare's disk, byte by byte, onto a disk of the client's.
 *
 * The spare goes on taking groups, and applies none meanwhile: so all of its disk stays as it is
 * but for the ring, of which only what it had at the begin is copied. If it has to apply, for its
 * log is full, or becomes home, the copy is none (-EBUSY). What has that disk is a store as after a
 * power cut, in which all is that was acknowledged before the begin.
 */
#include <errno.h>
#include <stdlib.h>

#include "copy.h"

enum { PIECE_BYTES = 256 << 10 };

static bool running;                    /* with the server's lock */
static struct {
    struct store_spare *spare;
    struct store_spare_state begun;
    int disk;
    bool force;
    uint64_t token, bytes, written;
    uint8_t *buffer;
} copy;

static int write_out(uint64_t offset, const void *bytes, uint64_t count)
{
    long r = KD4(KD_BLOCK_WRITE, copy.disk, offset, bytes, count);
    copy.written += count;
    return r < 0 ? (int)r : 0;
}

static int flush(void)
{
    long r = KD1(KD_BLOCK_FLUSH, copy.disk);
    return r < 0 ? (int)r : 0;
}

/* disk_is_free: 0: zeros, or a copy that was begun, or anything if the client says so. */
static int disk_is_free(void)
{
    static const uint8_t zeros[PAGE_BYTES];
    uint8_t *mark = copy.buffer + PAGE_BYTES;
    long r = KD4(KD_BLOCK_READ, copy.disk, 0, copy.buffer, PAGE_BYTES);
    store_backup_mark(mark);
    bool free_it_is = copy.force || memcmp(copy.buffer, zeros, PAGE_BYTES) == 0 ||
                      memcmp(copy.buffer, mark, PAGE_BYTES) == 0;
    return r < 0 ? (int)r : free_it_is ? 0 : -EEXIST;
}

/* piece_read reads a piece, zeros for what nobody needs. -EBUSY: the spare has changed. */
static int piece_read(uint64_t at, uint64_t count)
{
    int r = server.disk.read(server.disk.context, at, copy.buffer, count);
    server_lock();
    if (r >= 0 && !copy_is_paused(copy.spare, &copy.begun)) r = -EBUSY;
    for (uint64_t i = 0; r >= 0 && i < count; i += PAGE_BYTES)
        if (!store_spare_needs(copy.spare, copy.begun.end_lsn, at + i))
            memset(copy.buffer + i, 0, PAGE_BYTES);
    server_unlock();
    return r < 0 ? r : 0;
}

static int pieces_copy(void)
{
    int r = 0;
    for (uint64_t at = PAGE_BYTES, count; r == 0 && at < copy.bytes; at += count) {
        count = copy.bytes - at < PIECE_BYTES ? copy.bytes - at : PIECE_BYTES;
        r = piece_read(at, count);
        if (r == 0) r = write_out(at, copy.buffer, count);
    }
    return r;
}

/* all_copy writes the first block last; until then nobody opens the copy. */
static int all_copy(void)
{
    int r = disk_is_free();
    store_backup_mark(copy.buffer);
    if (r == 0) r = write_out(0, copy.buffer, PAGE_BYTES);
    if (r == 0) r = flush();
    if (r == 0) r = pieces_copy();
    if (r == 0) r = flush();
    if (r == 0) r = piece_read(0, PAGE_BYTES);
    if (r == 0) r = write_out(0, copy.buffer, PAGE_BYTES);
    return r ? r : flush();
}

static void *backup_main(void *unused)
{
    (void)unused;
    int r = all_copy();
    server_lock();
    copy_resume();
    running = false;
    server_unlock();
    say("backup of the spare: %s after %llu KiB", r ? strerror(-r) : "done",
        (unsigned long long)copy.written >> 10);
    struct kd_message reply = {.status = r, .handle = -1, .word = {copy.written >> 10, 0, 1}};
    KD1(KD_HANDLE_CLOSE, copy.disk);
    free(copy.buffer);
    kd_reply(copy.token, &reply);
    return NULL;
}

int copy_backup(const struct kd_message *m)
{
    uint64_t bytes = 0;
    long disk = disk_of_client(m, &bytes);
    if (disk < 0) return (int)disk;
    uint8_t *buffer = malloc(PIECE_BYTES);
    server_lock();
    int r = running ? -EBUSY : !buffer ? -ENOMEM : 0;
    if (r == 0 && !(copy.spare = copy_pause(&copy.begun))) r = -EAGAIN;
    if (r == 0) {
        copy.disk = (int)disk;
        copy.force = m->word[0];
        copy.token = m->token;
        copy.bytes = copy.begun.disk_bytes;
        copy.written = 0;
        copy.buffer = buffer;
        if (bytes < copy.bytes) r = -ENOSPC;
        if (r == 0 && !thread_make(backup_main)) r = -ENOMEM;
        running = r == 0;
        if (r) copy_resume();
    }
    server_unlock();
    if (r) {
        KD1(KD_HANDLE_CLOSE, disk);
        free(buffer);
    }
    return r;
}
