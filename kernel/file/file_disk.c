/*
 * file_disk.c - /dev/import: the block device "import" as a file, which init takes apart.
 *
 * Bytes come on demand through a small cache of chunks, whose memory is taken at boot.
 *
 * Invariants
 *   IM1  A chunk that is busy belongs to one reader: it keeps its index and its bytes.
 *   IM2  At most one chunk has a given index.
 *
 * Locks: cache.lock (RANK_FILE); not held while the disk works or bytes are copied.
 */
#include "block/block.h"
#include "file/file.h"
#include "thread/thread.h"

#define CHUNK_BYTES (128u << 10)
#define CHUNKS 8

struct chunk {
    bool busy, valid;                  /* valid: the bytes are those on the disk */
    uint64_t index, used;
    char *bytes;
};

static struct {
    struct lock lock;
    struct block_device *disk;
    struct chunk chunks[CHUNKS];
    struct list waiters;               /* threads, by wait_link */
    uint64_t clock;
} cache = {.lock = LOCK_INIT(RANK_FILE, "import cache"), .waiters = LIST_INIT(cache.waiters)};

/* chunk_pick chooses the chunk with this index, or the free one that was not used for longest;
 * NULL: wait for one. Lock held. */
static struct chunk *chunk_pick(uint64_t index)
{
    struct chunk *victim = NULL;
    for (struct chunk *c = cache.chunks; c < cache.chunks + CHUNKS; c++) {
        if (c->index == index && (c->valid || c->busy))
            return c->busy ? NULL : c; /* IM2 */
        if (!c->busy && (!victim || c->used * c->valid < victim->used * victim->valid))
            victim = c; /* IM1 */
    }
    return victim;
}

/* chunk_get takes the chunk with this index, which is read if it is not here. 0, -EIO: it is not
 * valid, and to be given back all the same. */
static int chunk_get(uint64_t index, struct chunk **out)
{
    struct chunk *c;
    lock_acquire(&cache.lock);
    while (!(c = chunk_pick(index)))
        (void)thread_wait(&cache.waiters, &cache.lock, thread_park_until_uninterrupted);
    c->valid = c->valid && c->index == index;
    c->busy = true;
    c->index = index;
    c->used = ++cache.clock;
    lock_release(&cache.lock);
    *out = c;
    uint64_t at = index * CHUNK_BYTES;
    return c->valid ? 0 : block_read(cache.disk, at, c->bytes,
                                     MIN(cache.disk->bytes - at, CHUNK_BYTES));
}

static void chunk_put(struct chunk *c, bool valid)
{
    lock_acquire(&cache.lock);
    assert(c->busy); /* IM1 */
    c->busy = false;
    c->valid = valid;
    thread_wake_all(&cache.waiters);
    lock_release(&cache.lock);
}

long disk_read(uint64_t disk_offset, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        uint64_t at = disk_offset + done;
        size_t part = MIN(bytes - done, CHUNK_BYTES - at % CHUNK_BYTES);
        struct chunk *c;
        int error = chunk_get(at / CHUNK_BYTES, &c);
        if (!error)
            memcpy((char *)to + done, c->bytes + at % CHUNK_BYTES, part);
        chunk_put(c, !error);
        if (error)
            return done ? (long)done : error;
        done += part;
    }
    return (long)done;
}

void file_disk_init(void)
{
    struct node *n;
    cache.disk = block_find("import");
    for (struct chunk *c = cache.chunks; cache.disk && c < cache.chunks + CHUNKS; c++)
        if (!(c->bytes = kalloc_raw(CHUNK_BYTES)))
            cache.disk = NULL;
    if (!cache.disk || node_make(node_root(), "dev/import", NODE_DISK, 0444, true, &n))
        return;
    n->bytes = cache.disk->bytes;
    node_put(n);
}
